//! `global/pg_control`: what a server that runs was started with.
//!
//! That its files say the same shows in its memory only as far as what they come to has no error, and a few connections are
//! less than that. A primary writes five of the settings that decide into this file at each start (`XLogReportParameters`).

use hugewise_host::{Door, ParseError};
use hugewise_model::Process;
use hugewise_model::instance::Setting;

use super::demand::{self, Range};
use crate::next;
use crate::settings::Settings;

/// What the server writes; it is read no further.
const LONGEST: u64 = 8 << 10;

/// What it has of the settings that decide on the main memory, and their defaults.
const SETTINGS: [(&str, &str); 5] = [
    ("max_connections", "100"),
    ("max_worker_processes", "8"),
    ("max_wal_senders", "10"),
    ("max_prepared_transactions", "0"),
    ("max_locks_per_transaction", "64"),
];

/// Where it stands in `ControlFileData`, by bytes: as 13.6, 13.23, 14.3, 14.23, 15.20, 16.2, 16.14, 17.0, 17.10, 18.0 and 18.4 wrote
/// it on x86-64.
const VERSION_AT: usize = 8;
const STATE_AT: usize = 16;
const SETTINGS_AT: usize = 180;
const FLOAT_AT: usize = 208;

/// A number that tells whether numbers are kept as here (`FLOATFORMAT_VALUE`).
const FLOAT: f64 = 1_234_567.0;

/// `DB_IN_PRODUCTION`.
const IN_PRODUCTION: u32 = 6;

/// How what a capture keeps of the file begins.
const KEPT: &str = "# what is read of pg_control\n";

/// What is read of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// A number for whether it runs, and as what: `DBState`.
    state: u32,
    /// In the order of [`SETTINGS`].
    values: [u32; SETTINGS.len()],
}

/// What the file says, the server's own or what a capture kept of it.
///
/// # Errors
/// It is of no release that is known, torn, or none at all.
pub fn parse(bytes: &[u8]) -> Result<Control, ParseError> {
    match bytes.strip_prefix(KEPT.as_bytes()) {
        Some(lines) => parse_kept(lines).ok_or(ParseError::whole("is not what a capture keeps")),
        None => parse_own(bytes),
    }
}

fn parse_own(bytes: &[u8]) -> Result<Control, ParseError> {
    let short = ParseError::whole("is too short");
    let number = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
    // The checksum follows the rest: where it is right there, the rest is laid out as it is here.
    let checksum_at = match number(VERSION_AT).ok_or(short)? {
        1300 | 1700 => 288,
        1800 => 292,
        _ => return Err(ParseError::whole("is of a release that is not known")),
    };
    let checksum = number(checksum_at).ok_or(short)?;
    if bytes.get(..checksum_at).map(crc32c) != Some(checksum) {
        return Err(ParseError::whole("has another checksum"));
    }
    let float = bytes.get(FLOAT_AT..).and_then(|rest| rest.first_chunk().copied()).map(u64::from_le_bytes);
    if float != Some(FLOAT.to_bits()) {
        return Err(ParseError::whole("is laid out otherwise"));
    }
    let mut values = [0; SETTINGS.len()];
    for (value, at) in values.iter_mut().zip((SETTINGS_AT..).step_by(4)) {
        let count = number(at).filter(|count| i32::try_from(*count).is_ok());
        *value = count.ok_or(ParseError::whole("has a negative number where a count should be"))?;
    }
    Ok(Control { state: number(STATE_AT).ok_or(short)?, values })
}

/// As [`kept`] writes it.
fn parse_kept(lines: &[u8]) -> Option<Control> {
    let mut lines = std::str::from_utf8(lines).ok()?.lines();
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(" = ")?.parse::<u32>().ok();
    let state = value("state")?;
    let mut values = [0; SETTINGS.len()];
    for (number, (name, _)) in values.iter_mut().zip(SETTINGS) {
        *number = value(name)?;
    }
    lines.next().is_none().then_some(Control { state, values })
}

/// What a capture keeps of it: lines for the numbers that are read, as the checksum is of more than these.
pub fn kept(bytes: &[u8]) -> Vec<u8> {
    let Ok(Control { state, values }) = parse(bytes) else { return b"?\n".to_vec() };
    let settings = SETTINGS.iter().zip(values).map(|((name, _), value)| format!("{name} = {value}\n"));
    format!("{KEPT}state = {state}\n{}", settings.collect::<String>()).into_bytes()
}

/// The checksum that PostgreSQL ends the file with (CRC-32C, Castagnoli).
fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED: u32 = 0x82f6_3b78;
    let shifted = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ REVERSED } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| shifted(sum)))
}

/// What a primary that runs was started with, held against what its files say of its next start.
pub(super) struct Started {
    /// The settings of its files, with those that it was started with in their place.
    in_force: Settings,
    /// The first of the five that will be another.
    changed: Option<Setting>,
}

impl Started {
    /// Reads the file of the server whose main process is `main`, which says itself whether it `is_ready`; `None` where the file
    /// does not tell, and where those of its settings don't.
    pub(super) fn read(
        door: &Door<'_>,
        main: &Process,
        path: &str,
        is_ready: bool,
        settings: &Settings,
    ) -> Option<Self> {
        let bytes = door.source.glance(path, LONGEST).into_known()?;
        // Until it is ready, one that is older than the server was left by the start before. After that it looks as old where the
        // clock was set forward since: a host that boots with a slow clock does so when the network is up.
        let left = !is_ready && next::are_unchanged(door.source, main, &[path.to_owned()]);
        Self::of(parse(&bytes).ok().filter(|_| !left)?, settings)
    }

    fn of(control: Control, settings: &Settings) -> Option<Self> {
        // That of a standby has its primary's values.
        if control.state != IN_PRODUCTION || settings.missing().is_some() {
            return None;
        }
        let mut started = Self { in_force: settings.clone(), changed: None };
        for ((name, default), value) in SETTINGS.into_iter().zip(control.values) {
            let next = settings.value_or(name, default).into_known()?;
            if super::whole(&next).ok()? == u64::from(value) {
                continue;
            }
            let by_default = || Setting { name: name.to_owned(), value: default.to_owned(), place: None };
            let changed = settings.values.get(name).cloned().unwrap_or_else(by_default);
            started.changed.get_or_insert(changed);
            let now = Setting { name: name.to_owned(), value: value.to_string(), place: None };
            started.in_force.values.insert(name.to_owned(), now);
        }
        Some(started)
    }

    /// The setting that makes the next start another one.
    pub(super) const fn changed(&self) -> Option<&Setting> {
        self.changed.as_ref()
    }

    /// What the next start comes to, where what it was started with is all that differs from the files: where it makes what is
    /// mapped, which lies in `now`.
    pub(super) fn grown(&self, settings: &Settings, version: Option<&str>, now: Range) -> Option<demand::Size> {
        self.changed.as_ref().filter(|_| self.made(version, now))?;
        Some(demand::size(settings, version)?.grown(now, demand::size(&self.in_force, version)?))
    }

    /// Whether the next start needs no more than this one, which has mapped what lies in `now`: nothing of the five is another,
    /// what is mapped is what they make, and whatever else could be more of is not set to be more than by default. What a library
    /// takes nobody knows.
    pub(super) fn needs_no_more(&self, settings: &Settings, version: Option<&str>, now: Range) -> bool {
        let libraries = settings.value_or("shared_preload_libraries", "").into_known();
        self.changed.is_none()
            && libraries.is_some_and(|libraries| libraries.trim().is_empty())
            && self.made(version, now)
            && demand::is_by_default(settings, version)
    }

    fn made(&self, version: Option<&str>, now: Range) -> bool {
        demand::range(&self.in_force, version, false)
            .is_some_and(|range| range.least <= now.most && now.least <= range.most)
    }
}

#[cfg(test)]
mod tests;
