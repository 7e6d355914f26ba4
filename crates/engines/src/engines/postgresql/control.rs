//! `global/pg_control`: what a running server was started with.
//!
//! What is mapped shows changed settings only beyond the error of the formula, and a few
//! connections are less. A primary writes five of the decisive settings here at each start
//! (`XLogReportParameters`).

use hugewise_host::{FactReader, ParseError};
use hugewise_model::Process;
use hugewise_model::instance::ServerSetting;

use super::demand::{self, Range};
use crate::shared::next_start;
use crate::shared::settings::{ServerSettings, new_setting};

/// The server writes this much; no more is read.
const LONGEST: u64 = 8 << 10;

/// The settings in the file that decide on the main memory, and their defaults.
const SETTINGS: [(&str, &str); 5] = [
    ("max_connections", "100"),
    ("max_worker_processes", "8"),
    ("max_wal_senders", "10"),
    ("max_prepared_transactions", "0"),
    ("max_locks_per_transaction", "64"),
];

/// Offsets in `ControlFileData` as 13.6, 13.23, 14.3, 14.23, 15.20, 16.2, 16.14, 17.0, 17.10, 18.0
/// and 18.4 wrote it on x86-64.
const VERSION_AT: usize = 8;
const STATE_AT: usize = 16;
const SETTINGS_AT: usize = 180;
const FLOAT_AT: usize = 208;
/// Tells whether numbers are stored as here (`FLOATFORMAT_VALUE`).
const FLOAT: f64 = 1_234_567.0;
/// `DB_IN_PRODUCTION`.
const IN_PRODUCTION: u32 = 6;
const KEPT: &str = "# what is read of pg_control\n";

/// What is read of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    state: u32,
    /// In the order of [`SETTINGS`].
    values: [u32; SETTINGS.len()],
}

/// What the file says, the server's own or what a capture kept of it.
/// # Errors
/// The release is unknown, the file is torn, or it is none.
pub fn parse(bytes: &[u8]) -> Result<Control, ParseError> {
    match bytes.strip_prefix(KEPT.as_bytes()) {
        Some(lines) => {
            parse_kept(lines).ok_or(ParseError::whole_file("is not what a capture keeps"))
        }
        None => parse_own(bytes),
    }
}

fn parse_own(bytes: &[u8]) -> Result<Control, ParseError> {
    let short = ParseError::whole_file("is too short");
    let number = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
    // The checksum follows the rest: where it is right, the layout is the one above.
    let checksum_at = match number(VERSION_AT).ok_or(short)? {
        1300 | 1700 => 288,
        1800 => 292,
        _ => return Err(ParseError::whole_file("is of a release that is not known")),
    };
    let checksum = number(checksum_at).ok_or(short)?;
    if bytes.get(..checksum_at).map(crc32c) != Some(checksum) {
        return Err(ParseError::whole_file("has another checksum"));
    }
    let float =
        bytes.get(FLOAT_AT..).and_then(|rest| rest.first_chunk().copied()).map(u64::from_le_bytes);
    if float != Some(FLOAT.to_bits()) {
        return Err(ParseError::whole_file("is laid out otherwise"));
    }
    let mut values = [0; SETTINGS.len()];
    for (value, at) in values.iter_mut().zip((SETTINGS_AT..).step_by(4)) {
        let count = number(at).filter(|count| i32::try_from(*count).is_ok());
        *value =
            count.ok_or(ParseError::whole_file("has a negative number where a count should be"))?;
    }
    Ok(Control { state: number(STATE_AT).ok_or(short)?, values })
}

/// As [`redact_control_file`] writes it.
fn parse_kept(lines: &[u8]) -> Option<Control> {
    let mut lines = std::str::from_utf8(lines).ok()?.lines();
    let mut value =
        |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(" = ")?.parse::<u32>().ok();
    let state = value("state")?;
    let mut values = [0; SETTINGS.len()];
    for (number, (name, _)) in values.iter_mut().zip(SETTINGS) {
        *number = value(name)?;
    }
    lines.next().is_none().then_some(Control { state, values })
}

/// Keeps the numbers that are read, as lines: the checksum covers more than these.
pub fn redact_control_file(bytes: &[u8]) -> Vec<u8> {
    let Ok(Control { state, values }) = parse(bytes) else { return b"?\n".to_vec() };
    let settings =
        SETTINGS.iter().zip(values).map(|((name, _), value)| format!("{name} = {value}\n"));
    format!("{KEPT}state = {state}\n{}", settings.collect::<String>()).into_bytes()
}

/// PostgreSQL ends the file with this checksum (CRC-32C, Castagnoli).
fn crc32c(bytes: &[u8]) -> u32 {
    crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(bytes)
}

pub(super) struct StartedSettings {
    in_force: ServerSettings,
    /// The first of the five that will change.
    pub(super) changed: Option<ServerSetting>,
}

impl StartedSettings {
    /// Reads the file of the server `main`, which says itself whether it `is_ready`.
    pub(super) fn read(
        facts: &FactReader<'_>,
        main: &Process,
        path: &str,
        is_ready: bool,
        settings: &ServerSettings,
    ) -> Option<Self> {
        let bytes = facts.source.read_limited(path, LONGEST).into_known()?;
        // Before the server is ready, a file that is older than it was left by the start before.
        // Later it looks as old where the clock was set forward since, as a slow one is once the
        // network is up.
        let left = !is_ready && next_start::are_unchanged(facts.source, main, &[path.to_owned()]);
        Self::from_control(parse(&bytes).ok().filter(|_| !left)?, settings)
    }

    fn from_control(control: Control, settings: &ServerSettings) -> Option<Self> {
        // A standby has its primary's values.
        if control.state != IN_PRODUCTION || settings.missing_reason().is_some() {
            return None;
        }
        let mut started = Self { in_force: settings.clone(), changed: None };
        for ((name, default), value) in SETTINGS.into_iter().zip(control.values) {
            let next = settings.value_or(name, default).into_known()?;
            if super::parse_count(&next).ok()? == u64::from(value) {
                continue;
            }
            let by_default = || new_setting(name, default, None);
            let changed = settings.values.get(name).cloned().unwrap_or_else(by_default);
            started.changed.get_or_insert(changed);
            let now = new_setting(name, value.to_string(), None);
            started.in_force.values.insert(name.to_owned(), now);
        }
        Some(started)
    }

    /// The size of the next start, where only the five differ from the files and they explain what
    /// is mapped, which lies in `now`.
    pub(super) fn predict_grown_size(
        &self,
        settings: &ServerSettings,
        version: Option<&str>,
        now: Range,
    ) -> Option<demand::SharedMemorySize> {
        self.changed.as_ref().filter(|_| self.explains_mapped_memory(version, now))?;
        Some(
            demand::estimate_size(settings, version)?
                .grown_from(now, demand::estimate_size(&self.in_force, version)?),
        )
    }

    /// Whether the next start needs no more than `now`: none of the five changes, they explain what
    /// is mapped, and all else is at its default or below. What a library takes is unknown.
    pub(super) fn needs_no_more(
        &self,
        settings: &ServerSettings,
        version: Option<&str>,
        now: Range,
    ) -> bool {
        let libraries = settings.value_or("shared_preload_libraries", "").into_known();
        self.changed.is_none()
            && libraries.is_some_and(|libraries| libraries.trim().is_empty())
            && self.explains_mapped_memory(version, now)
            && demand::is_by_default(settings, version)
    }

    fn explains_mapped_memory(&self, version: Option<&str>, now: Range) -> bool {
        demand::estimate_range(&self.in_force, version, false)
            .is_some_and(|range| range.least <= now.most && now.least <= range.most)
    }
}

#[cfg(test)]
mod tests;
