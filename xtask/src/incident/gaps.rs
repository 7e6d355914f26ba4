//! How late each collector came while the host was in trouble.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

/// Seconds that the recorder may be late.
const WANTED: f64 = 2.0;
/// The recorder's own.
const RECORDER: &str = "record/seconds.ring";

/// What each source tells of the time of the storm.
pub(super) struct Gaps(BTreeMap<String, Gap>);

/// Of one source.
#[derive(Default)]
struct Gap {
    samples: usize,
    largest: f64,
    at: String,
}

impl Gaps {
    /// Of a folder of archives, from one moment to another, UTC as `2026-11-22T02:03:04`.
    pub(super) fn of(hugewise: &Path, folder: &Path, from: &str, to: &str) -> Result<Self, Failure> {
        let table = folder.join("all.csv");
        let mut command = Command::new(hugewise);
        command.arg("investigate").arg(folder).arg("--series").arg(&table).args(["--timezone", "UTC"]);
        let output = command.stdin(Stdio::null()).output()?;
        if !table.exists() {
            return Err(format!("investigate wrote no rows: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let text = fs::read_to_string(&table)?;
        fs::remove_file(&table)?;
        Ok(Self(gaps(&text, from, to, &format!("{}/", folder.display()))?))
    }

    /// Prints them; what is not as it must be.
    pub(super) fn print(&self) -> Vec<String> {
        println!("| collector | samples in the storm | largest gap | that ended at |");
        println!("| --- | ---: | ---: | --- |");
        for (source, Gap { samples, largest, at }) in &self.0 {
            println!("| {source} | {samples} | {largest:.1} s | {at} |");
        }
        match self.0.get(RECORDER) {
            None => vec!["the recorder left nothing".to_owned()],
            Some(gap) if gap.largest > WANTED => vec![format!("the recorder came {:.1} s late", gap.largest)],
            Some(_) => Vec::new(),
        }
    }
}

fn gaps(table: &str, from: &str, to: &str, folder: &str) -> Result<BTreeMap<String, Gap>, Failure> {
    let mut before: BTreeMap<&str, f64> = BTreeMap::new();
    let mut all: BTreeMap<String, Gap> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let mut fields = line.split(',');
        let (Some(_), Some(source), Some(time)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let now = seconds(time).ok_or_else(|| format!("no time: {time}"))?;
        let last = before.insert(source, now);
        let short = time.get(..19).unwrap_or(time);
        // One that came late ended a gap of the storm even where it came after it.
        let begun =
            last.is_some_and(|last| last >= seconds(from).unwrap_or(0.0) - 1.0 && last <= seconds(to).unwrap_or(0.0));
        if !begun {
            continue;
        }
        let gap = all.entry(source.trim_start_matches(folder).to_owned()).or_default();
        gap.samples += 1;
        let passed = now - last.unwrap_or(now);
        if passed > gap.largest {
            (gap.largest, gap.at) = (passed, short.to_owned());
        }
    }
    Ok(all)
}

/// `2026-11-22T02:03:04.5`, with or without an offset of nothing, in seconds of its month.
fn seconds(time: &str) -> Option<f64> {
    let (date, clock) = time.split_once('T')?;
    let day: f64 = date.rsplit('-').next()?.parse().ok()?;
    let clock = clock.trim_end_matches('Z');
    let clock = clock.split(['+']).next()?;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    Some(((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_gap_of_each_source_in_the_storm() {
        let table = "host,source,time,interval_seconds\n\
            vm,/x/sa,2026-11-22T01:00:00Z,\nvm,/x/record,2026-11-22T02:00:00.250+00:00,1\nvm,/x/sa,2026-11-22T02:00:00Z,1\n\
            vm,/x/record,2026-11-22T02:00:01.250+00:00,1\nvm,/x/sa,2026-11-22T02:00:41Z,1\nvm,/x/sa,2026-11-22T02:00:42Z,1\n\
            vm,/x/record,2026-11-22T02:00:03.250+00:00,1\nvm,/x/sa,2026-11-22T05:00:00Z,1\n";
        let found = gaps(table, "2026-11-22T02:00:00", "2026-11-22T02:00:41", "/x/").unwrap();
        let said: Vec<_> = found.iter().map(|(source, gap)| (source.as_str(), gap.samples, gap.largest)).collect();
        assert_eq!(said, [("record", 2, 2.0), ("sa", 2, 41.0)]);
    }
}
