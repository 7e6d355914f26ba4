//! `hugewise record status`.

use std::io;

use hugewise_incident::Moment;
use hugewise_record::ring::Kind;
use hugewise_record::status::Status;
use schemars::JsonSchema;
use serde::Serialize;

use super::Recording;
use crate::{date, plain};

/// Name and version of the format.
const RECORD_SCHEMA: &str = "hugewise.record/1";

/// What `hugewise record status` prints with `--format json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.record/1")]
pub struct Record {
    /// Name and version of this format.
    #[schemars(extend("const" = RECORD_SCHEMA))]
    pub schema: &'static str,
    /// The folder.
    pub folder: String,
    /// Whether samples are being taken now.
    pub recording: bool,
    /// Its rings.
    pub rings: Vec<Ring>,
}

/// One ring.
#[derive(Serialize, JsonSchema)]
pub struct Ring {
    /// `seconds` or `minutes`.
    pub kind: &'static str,
    /// The host that it is from.
    pub host: String,
    /// Its size, which it has from the start.
    pub bytes: u64,
    /// Samples in it.
    pub samples: u64,
    /// When the oldest sample was taken.
    pub first: Option<String>,
    /// When the newest sample was taken.
    pub last: Option<String>,
    /// The longest time from one sample of a run to the next.
    pub largest_gap_seconds: Option<f64>,
    /// When that ended.
    pub largest_gap_at: Option<String>,
    /// Blocks that were cut off while they were written.
    pub torn_blocks: u64,
    /// Share of one processor that the last run used.
    pub cpu_percent: Option<f64>,
    /// Messages of the kernel in it: out of memory, hung tasks, failed allocations.
    pub kernel_messages: u64,
    /// What the last run could not record.
    pub lacks: Vec<String>,
}

fn ring(status: &Status) -> Ring {
    let time = |milliseconds: i64| date::rfc3339(milliseconds.div_euclid(1000));
    let header = &status.summary.header;
    Ring {
        kind: name(header.kind),
        host: header.about.host.clone(),
        bytes: header.bytes(),
        samples: status.samples,
        first: status.span.and_then(|(first, _)| time(first)),
        last: status.span.and_then(|(_, last)| time(last)),
        largest_gap_seconds: status.gap.map(|(gap, _)| seconds(gap)),
        largest_gap_at: status.gap.and_then(|(_, at)| time(at)),
        torn_blocks: status.summary.torn,
        cpu_percent: status.cost.map(|cost| (cost * 1000.0).round() / 1000.0),
        kernel_messages: status.messages,
        lacks: header.about.lacks.clone(),
    }
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Seconds => "seconds",
        Kind::Minutes => "minutes",
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds to the millisecond")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// As JSON.
///
/// # Errors
/// Where nothing can be written.
pub fn write_json(recording: &Recording, out: &mut dyn io::Write) -> io::Result<()> {
    let record = Record {
        schema: RECORD_SCHEMA,
        folder: recording.folder.clone(),
        recording: recording.is_alive(),
        rings: recording.rings.iter().map(ring).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &record)?;
    writeln!(out)
}

/// As text.
///
/// # Errors
/// Where nothing can be written.
pub fn write_text(recording: &Recording, out: &mut dyn io::Write) -> io::Result<()> {
    let folder = plain::clean(&recording.folder);
    if recording.rings.is_empty() {
        return writeln!(out, "{folder}: no recording here; start one with: sudo hugewise record");
    }
    let newest = recording.rings.first();
    let age =
        newest.and_then(|ring| ring.age(recording.now)).map(|age| format!(", last sample {:.1} s ago", seconds(age)));
    let says = match (recording.is_alive(), newest.is_some_and(|ring| ring.is_written)) {
        (true, _) => format!("recording{}", age.unwrap_or_default()),
        (false, true) => format!("recorder running but not sampling{}", age.unwrap_or_default()),
        (false, false) => "not recording".to_owned(),
    };
    writeln!(out, "{folder}: {says}")?;
    for status in &recording.rings {
        of_ring(status, out)?;
    }
    let Some(newest) = recording.rings.first() else { return Ok(()) };
    if let Some(cost) = newest.cost {
        writeln!(out, "overhead  {cost:.2} % of one CPU")?;
    }
    for lack in &newest.summary.header.about.lacks {
        writeln!(out, "missing   {}", plain::clean(lack))?;
    }
    if let Some((at, words)) = &newest.last_words {
        let at = shown(*at, newest);
        writeln!(out, "last message  {at}  {}", plain::clean(words))?;
    }
    Ok(())
}

fn shown(at: i64, status: &Status) -> String {
    let offset = i32::try_from(status.summary.header.about.offset).unwrap_or(0);
    let offsets = vec![hugewise_incident::series::Offset { from: Moment(i64::MIN), seconds: offset }];
    date::moment(Moment(at.saturating_sub(at.rem_euclid(1000))), &hugewise_incident::Clock::Utc { offsets })
}

/// `1 sample`, `2 samples`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn of_ring(status: &Status, out: &mut dyn io::Write) -> io::Result<()> {
    let header = &status.summary.header;
    let name = name(header.kind);
    let Some((first, last)) = status.span else {
        return writeln!(out, "{name:<9} no samples yet ({} MiB)", header.bytes() >> 20);
    };
    let (first, last) = (shown(first, status), shown(last, status));
    writeln!(out, "{name:<9} {first} to {last}")?;
    write!(out, "          {}, {} MiB", counted(status.samples, "sample"), header.bytes() >> 20)?;
    if let Some((gap, at)) = status.gap {
        write!(out, ", largest gap {:.1} s at {}", seconds(gap), shown(at, status))?;
    }
    writeln!(out)?;
    if status.summary.torn > 0 {
        writeln!(
            out,
            "          {} torn while being written: their contents are lost",
            counted(status.summary.torn, "block")
        )?;
    }
    if status.messages > 0 {
        writeln!(
            out,
            "          {} about memory, hangs or hardware errors",
            counted(status.messages, "kernel message")
        )?;
    }
    Ok(())
}

/// The schema of the JSON.
pub fn record_schema() -> String {
    crate::json::schema_of::<Record>()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hugewise_record::ring::{About, Folder};
    use hugewise_record::testing::Blocks;
    use hugewise_record::{Event, EventKind, Sample, status};

    use super::*;

    const NOON: i64 = 1_795_306_507_000;

    /// By hand: 1,795,306,507 s are 00:15:07 of 22 November 2026 in UTC; two headers and 64 blocks of 4 KiB are below 1 MiB.
    #[test]
    fn one_sample_is_one_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let about = About { interval_ms: 1000, lacks: vec!["disks\x1b[31m".into()], ..About::default() };
        let opened = Folder::open(folder.path()).unwrap().ring(Kind::Seconds, 64, &about).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut sample = Sample::default();
        sample.wall = NOON;
        blocks.push(&opened.ring, &sample);
        blocks.push_event(&opened.ring, &Event::new(NOON, EventKind::Recorder, b"samples are whole again"));
        blocks.push_event(&opened.ring, &Event::new(NOON, EventKind::OutOfMemory, b"Out of memory"));
        let text = |after: i64| {
            let path = folder.path().join(Kind::Seconds.file());
            let rings = vec![status::status(&status::open(&path).unwrap()).unwrap()];
            let mut out = Vec::new();
            write_text(&Recording { folder: "F".into(), rings, now: NOON + after }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let rest = "\
seconds   2026-11-22T00:15:07+00:00 to 2026-11-22T00:15:07+00:00
          1 sample, 0 MiB
          1 kernel message about memory, hangs or hardware errors
missing   disks\\x1b[31m
last message  2026-11-22T00:15:07+00:00  samples are whole again
";
        assert_eq!(text(1500), format!("F: recording, last sample 1.5 s ago\n{rest}"));
        assert_eq!(text(60_000), format!("F: recorder running but not sampling, last sample 60.0 s ago\n{rest}"));
        drop(opened);
        assert_eq!(text(0), format!("F: not recording\n{rest}"));
    }
}
