//! `hugewise record status`.

use std::io;

use hugewise_investigate::Moment;
use hugewise_record::ring::RingKind;
use hugewise_record::status::RingStatus;
use schemars::JsonSchema;
use serde::Serialize;

use super::RecordingFolder;
use crate::{date, plain};

const RECORD_SCHEMA: &str = "hugewise.record/1";

/// What `hugewise record status` prints with `--format json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.record/1")]
pub struct RecordStatusDocument {
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

fn ring_status_json(status: &RingStatus) -> Ring {
    let time = |milliseconds: i64| date::format_rfc3339(milliseconds.div_euclid(1000));
    let header = &status.summary.header;
    Ring {
        kind: ring_kind_name(header.kind),
        host: header.about.host.clone(),
        bytes: header.file_bytes(),
        samples: status.samples,
        first: status.span.and_then(|(first, _)| time(first)),
        last: status.span.and_then(|(_, last)| time(last)),
        largest_gap_seconds: status.gap.map(|(gap, _)| millis_to_seconds(gap)),
        largest_gap_at: status.gap.and_then(|(_, at)| time(at)),
        torn_blocks: status.summary.torn,
        cpu_percent: status.cost.map(|cost| (cost * 1000.0).round() / 1000.0),
        kernel_messages: status.messages,
        lacks: header.about.lacks.clone(),
    }
}

const fn ring_kind_name(kind: RingKind) -> &'static str {
    match kind {
        RingKind::Seconds => "seconds",
        RingKind::Minutes => "minutes",
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds to the millisecond")]
fn millis_to_seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// Writes JSON.
pub fn write_json(recording: &RecordingFolder, out: &mut dyn io::Write) -> io::Result<()> {
    let record = RecordStatusDocument {
        schema: RECORD_SCHEMA,
        folder: recording.folder.clone(),
        recording: recording.is_alive(),
        rings: recording.rings.iter().map(ring_status_json).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &record)?;
    writeln!(out)
}

/// Writes text.
pub fn write_text(recording: &RecordingFolder, out: &mut dyn io::Write) -> io::Result<()> {
    let folder = plain::escape_line(&recording.folder);
    if recording.rings.is_empty() {
        return writeln!(out, "{folder}: no recording here; start one with: sudo hugewise record");
    }
    let newest = recording.rings.first();
    let age = newest
        .and_then(|ring| ring.newest_sample_age(recording.now))
        .map(|age| format!(", last sample {:.1} s ago", millis_to_seconds(age)));
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
        writeln!(out, "missing   {}", plain::escape_line(lack))?;
    }
    if let Some((at, words)) = &newest.last_words {
        let at = format_wall_time(*at, newest);
        writeln!(out, "last message  {at}  {}", plain::escape_line(words))?;
    }
    Ok(())
}

fn format_wall_time(at: i64, status: &RingStatus) -> String {
    let offset = i32::try_from(status.summary.header.about.offset).unwrap_or(0);
    let offsets =
        vec![hugewise_investigate::series::Offset { from: Moment(i64::MIN), seconds: offset }];
    (hugewise_investigate::Clock::Utc { offsets })
        .format(Moment(at.saturating_sub(at.rem_euclid(1000))))
}

fn format_count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn of_ring(status: &RingStatus, out: &mut dyn io::Write) -> io::Result<()> {
    let header = &status.summary.header;
    let name = ring_kind_name(header.kind);
    let Some((first, last)) = status.span else {
        return writeln!(out, "{name:<9} no samples yet ({} MiB)", header.file_bytes() >> 20);
    };
    let (first, last) = (format_wall_time(first, status), format_wall_time(last, status));
    writeln!(out, "{name:<9} {first} to {last}")?;
    write!(
        out,
        "          {}, {} MiB",
        format_count(status.samples, "sample"),
        header.file_bytes() >> 20
    )?;
    if let Some((gap, at)) = status.gap {
        write!(
            out,
            ", largest gap {:.1} s at {}",
            millis_to_seconds(gap),
            format_wall_time(at, status)
        )?;
    }
    writeln!(out)?;
    if status.summary.torn > 0 {
        writeln!(
            out,
            "          {} torn while being written: their contents are lost",
            format_count(status.summary.torn, "block")
        )?;
    }
    if status.messages > 0 {
        writeln!(
            out,
            "          {} about memory, hangs or hardware errors",
            format_count(status.messages, "kernel message")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hugewise_record::ring::{About, RingFolder};
    use hugewise_record::testing::Blocks;
    use hugewise_record::{HostSample, RecordedEvent, RecordedEventKind, status};

    use super::*;

    const NOON: i64 = 1_795_306_507_000;

    /// By hand: 1,795,306,507 s are 00:15:07 of 22 November 2026 in UTC; two headers and 64 blocks
    /// of 4 KiB are below 1 MiB.
    #[test]
    fn one_sample_is_one_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let about =
            About { interval_ms: 1000, lacks: vec!["disks\x1b[31m".into()], ..About::default() };
        let opened = RingFolder::open(folder.path())
            .unwrap()
            .open_ring(RingKind::Seconds, 64, &about)
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut sample = HostSample::default();
        sample.wall = NOON;
        blocks.push(&opened.ring, &sample);
        blocks.push_event(
            &opened.ring,
            &RecordedEvent::new(NOON, RecordedEventKind::Recorder, b"samples are whole again"),
        );
        blocks.push_event(
            &opened.ring,
            &RecordedEvent::new(NOON, RecordedEventKind::OutOfMemory, b"Out of memory"),
        );
        let text = |after: i64| {
            let path = folder.path().join(RingKind::Seconds.file_name());
            let rings = vec![status::read_status(&status::open_ring(&path).unwrap()).unwrap()];
            let mut out = Vec::new();
            write_text(&RecordingFolder { folder: "F".into(), rings, now: NOON + after }, &mut out)
                .unwrap();
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
        assert_eq!(
            text(60_000),
            format!("F: recorder running but not sampling, last sample 60.0 s ago\n{rest}")
        );
        drop(opened);
        assert_eq!(text(0), format!("F: not recording\n{rest}"));
    }
}
