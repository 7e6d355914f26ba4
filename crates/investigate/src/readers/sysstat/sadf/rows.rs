//! What `sadf -d` prints, a row of a table and a moment each, and `sadf -p`, a value a line:
//! `db1;600;2026-11-21 10:10:01 UTC;-1;0.33;0.00;0.58;0.00;0.00;99.09`,
//! `db1<TAB>600<TAB>2026-11-21 10:10:01 UTC<TAB>all<TAB>%user<TAB>0.33`.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use super::super::columns::{self, SarReadings};
use super::super::{MOST_HOSTS, note_hosts_left_out};
use crate::readers::line_timestamp::LineTimestamp;
use crate::readers::lines::for_each_line_or_rest;
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, FileRefused, Series};

/// Bytes of a line: `-h` puts all items into one.
const LONGEST_LINE: u64 = 1 << 20;
const HEAD: &str = "# hostname;interval;timestamp";
/// How columns of items begin.
const PROCESSORS: &str = "CPU";
const INTERRUPTS: &str = "INTR";

pub(super) fn is_rows(text: &[u8]) -> bool {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.starts_with(HEAD)
        || (first.split('\t').count() == 6 && RowHead::parse(&first, '\t').is_some())
}

/// What each line begins with, and the rest of it.
struct RowHead<'a> {
    host: &'a str,
    interval: Option<Duration>,
    stamp: LineTimestamp,
    values: Vec<&'a str>,
}

impl<'a> RowHead<'a> {
    fn parse(line: &'a str, separator: char) -> Option<Self> {
        let mut fields = line.split(separator);
        let host = fields.next().filter(|host| !host.is_empty())?;
        // A restart has -1.
        let interval = fields.next()?.parse::<i64>().ok()?;
        let stamp = LineTimestamp::parse_plain(fields.next()?)?;
        let interval = u64::try_from(interval).ok().filter(|seconds| *seconds > 0);
        let interval = interval.map(Duration::from_secs);
        Some(Self { host, interval, stamp, values: fields.collect() })
    }
}

#[derive(Default)]
struct RowReader {
    source: String,
    hosts: BTreeMap<String, Series>,
    columns: Vec<String>,
    left_out: usize,
}

/// Reads such rows; one series for each host in them.
///
/// # Errors
/// They hold no sample, or cannot be read.
pub(super) fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    let mut reader = RowReader { source: source.to_owned(), ..RowReader::default() };
    let error = for_each_line_or_rest(stream, LONGEST_LINE, |line| {
        reader.push_line(line.trim_end());
        true
    });
    let mut all: Vec<Series> = reader.hosts.into_values().map(Series::finish).collect();
    all.retain(|series| !series.samples().is_empty() || !series.marks.is_empty());
    let Some(last) = all.last_mut() else {
        return Err(FileRefused(error.unwrap_or_else(|| "holds no sample of sadf's".into())));
    };
    if let Some(error) = error {
        last.add_problem(format!("cannot be read to its end: {error}"));
    }
    note_hosts_left_out(&mut all, reader.left_out);
    Ok(all)
}

impl RowReader {
    fn push_line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix(HEAD) {
            let names = rest.split(';').skip(1).map(|name| name.trim_end_matches("[...]"));
            self.columns = names.map(str::to_owned).collect();
            return;
        }
        if let Some(head) = RowHead::parse(line, ';') {
            let item = match self.columns.first().map(String::as_str) {
                Some(PROCESSORS | INTERRUPTS) => Some("-1"),
                _ => None,
            };
            if item.is_some() && head.values.first() != item.as_ref() {
                return;
            }
            let named = self.columns.iter().map(String::as_str).zip(head.values.iter().copied());
            let said = parse_readings(named);
            self.push_readings(&head, &said);
        } else if let Some(head) = RowHead::parse(line, '\t') {
            let said = match head.values.as_slice() {
                ["all" | "sum" | "-", name, value] => {
                    parse_readings(std::iter::once((*name, *value)))
                }
                _ => Vec::new(),
            };
            self.push_readings(&head, &said);
        }
    }

    fn push_readings(&mut self, head: &RowHead<'_>, said: &SarReadings) {
        if !self.hosts.contains_key(head.host) {
            if self.hosts.len() >= MOST_HOSTS {
                self.left_out = 1;
                return;
            }
            let mut series = Series::new(&self.source, crate::SourceFormat::SADF);
            series.host = Some(head.host.to_owned());
            series.clock = match head.stamp.offset {
                Some(_) => Clock::Utc { offsets: Vec::new() },
                None => Clock::Wall { zone: head.stamp.zone.clone() },
            };
            self.hosts.insert(head.host.to_owned(), series);
        }
        let Some(series) = self.hosts.get_mut(head.host) else { return };
        let at = head.stamp.at;
        if head.values.first().is_some_and(|word| word.starts_with("LINUX-RESTART")) {
            series.marks.push(Mark { at, kind: MarkKind::Restart });
        } else if let Some(row) = row_at(series, at, head.interval).filter(|_| !said.is_empty()) {
            columns::set_sample_values(series, row, said, None);
        }
    }
}

fn parse_readings<'a>(named: impl Iterator<Item = (&'a str, &'a str)>) -> SarReadings {
    named
        .filter_map(|(name, value)| Some((columns::find_heading(name)?, value.parse().ok()?)))
        .collect()
}

/// The row of a moment; a new one if it is the latest. Tables follow each other.
fn row_at(series: &mut Series, at: Moment, interval: Option<Duration>) -> Option<usize> {
    if series.samples().last().is_none_or(|last| last.at < at) {
        // Without an interval, what is told is since the boot.
        interval?;
        series.push(at, interval);
    }
    series.samples().binary_search_by_key(&at, |sample| sample.at).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::Metric;

    /// As sysstat's own tests have them.
    const ROWS: &str = "\
# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle[...]
db1;600;2026-11-21 10:10:01 UTC;-1;0.33;0.00;0.58;0.00;0.00;99.09
db1;600;2026-11-21 10:10:01 UTC;0;90.33;0.00;0.58;0.00;0.00;9.09
db1;600;2026-11-21 10:20:01 UTC;-1;1.33;0.00;60.58;0.00;0.00;38.09
# hostname;interval;timestamp;runq-sz;plist-sz;ldavg-1;ldavg-5;ldavg-15;blocked
db1;600;2026-11-21 10:10:01 UTC;0;209;0.10;0.08;0.11;0
db1;600;2026-11-21 10:20:01 UTC;40;209;9.10;0.08;0.11;3
";
    const VALUES: &str = "\
db1\t600\t2026-11-21 10:10:01 UTC\tall\t%user\t0.33
db1\t600\t2026-11-21 10:10:01 UTC\tcpu0\t%user\t90.33
db1\t600\t2026-11-21 10:20:01 UTC\tall\t%system\t60.58
db1\t600\t2026-11-21 10:20:01 UTC\t-\trunq-sz\t40
";

    #[test]
    fn rows_and_values_are_samples_as_of_sar() {
        for text in [ROWS, VALUES] {
            assert!(is_rows(text.as_bytes()));
            let all = read(&mut text.as_bytes(), "sadf.csv").unwrap();
            let [series] = &all[..] else { panic!("{all:?}") };
            // `date -u -d '2026-11-21 10:10:01' +%s`
            let moments: Vec<i64> = series.samples().iter().map(|one| one.at.0 / 1000).collect();
            assert_eq!(moments, [1_795_255_801, 1_795_256_401]);
            assert_eq!(series.value(Metric::CpuUser, 0), Some(0.33));
            assert_eq!(series.value(Metric::CpuSystem, 1), Some(60.58));
            assert_eq!(series.value(Metric::RunQueue, 1), Some(40.0));
            assert_eq!(
                (series.host.as_deref(), series.clock.clone()),
                (Some("db1"), Clock::Utc { offsets: Vec::new() })
            );
        }
        assert!(!is_rows(b"a\tb\tc\td\te\tf\n") && !is_rows(b"hostname;interval\n"));
    }
}
