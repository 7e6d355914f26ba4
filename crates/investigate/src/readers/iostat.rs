//! What `iostat -x` prints, report by report: processors, and reads, writes and queue of each disk.

use super::sysstat::text::{Day, parse_banner_day, parse_time_of_day};
use crate::{Metric, Series};

/// Disks of one report: a large host has thousands of paths to storage.
const MOST_DISKS: usize = 16_384;
/// Tables of disks in one report: reads, writes, discards, and the rest.
const MOST_HEADINGS: usize = 8;
/// Devices that are no disks, or lie on others that are listed too.
const UPON_OTHERS: [&str; 6] = ["loop", "ram", "zram", "dm-", "md", "sr"];

const PROCESSORS: &[(&str, Metric)] = &[
    ("%user", Metric::CpuUser),
    ("%nice", Metric::CpuNice),
    ("%system", Metric::CpuSystem),
    ("%iowait", Metric::CpuIowait),
    ("%steal", Metric::CpuSteal),
    ("%idle", Metric::CpuIdle),
];
/// Columns of disks, the factor from their unit to bytes, and whether they are written.
const BYTES: &[(&str, f64, bool)] = &[
    ("rkB/s", 1024.0, false),
    ("wkB/s", 1024.0, true),
    ("rMB/s", 1_048_576.0, false),
    ("wMB/s", 1_048_576.0, true),
    ("rsec/s", 512.0, false),
    ("wsec/s", 512.0, true),
];
/// Requests that wait or are worked on: before sysstat 11.5.7, and since.
const QUEUE: [&str; 2] = ["avgqu-sz", "aqu-sz"];

pub(super) fn is_iostat_heading(line: &str) -> bool {
    line.starts_with("avg-cpu:") || is_disks(line)
}

/// `Device: tps kB_read/s`, `Device r/s rkB/s`; other tools name a device in their first line.
pub(super) fn is_disks(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    // `--pretty` and `-h` put the name last, in a table for each kind of requests.
    let is_name = |word: Option<&&str>| matches!(word, Some(&("Device" | "Device:")));
    (is_name(words.first()) || is_name(words.last()))
        && words.iter().any(|word| matches!(*word, "tps" | "r/s" | "w/s" | "%util"))
}

/// A value as `--human` writes it, too: `90.0%`, `100.0k`. Some languages write a comma.
fn parse_value(word: &str) -> Option<f64> {
    let word = word.strip_suffix('%').unwrap_or(word);
    let (number, factor) = match word.bytes().last()? {
        b'k' => (word.strip_suffix('k')?, 1.0),
        b'M' => (word.strip_suffix('M')?, 1024.0),
        b'G' => (word.strip_suffix('G')?, 1_048_576.0),
        b'T' => (word.strip_suffix('T')?, 1_073_741_824.0),
        b'B' => (word.strip_suffix('B')?, 1.0 / 1024.0),
        _ => (word, 1.0),
    };
    Some(number.replace(',', ".").parse::<f64>().ok()? * factor)
}

/// The first line that iostat prints: `Linux 6.1.0 (db1) \t11/26/26 \t_x86_64_\t(2 CPU)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IostatBanner {
    pub(super) kernel: String,
    pub(super) host: String,
    /// Its day by the wall clock.
    pub(super) day: Option<Day>,
    pub(super) processors: Option<u32>,
}

impl IostatBanner {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let kernel = words.next().filter(|word| *word == "Linux").and(words.next())?;
        let host = words.next()?.strip_prefix('(')?.strip_suffix(')')?;
        words.next()?;
        let day = parse_banner_day(line.split_once(')')?.1);
        let processors = line.rsplit_once('(').and_then(|(_, count)| count.strip_suffix(" CPU)"));
        Some(Self {
            kernel: kernel.to_owned(),
            host: host.to_owned(),
            day,
            processors: processors.and_then(|count| count.parse().ok()),
        })
    }
}

/// Seconds since midnight of `Time: 03:49:57 PM`, and its words.
pub(super) fn parse_time_line(line: &str) -> Option<(i64, Vec<&str>)> {
    let words: Vec<&str> = line.strip_prefix("Time:")?.split_ascii_whitespace().collect();
    Some((parse_time_of_day(&words)?, words))
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IostatReport {
    columns: Vec<String>,
    /// Headings of disks so far, and whether they are the last ones.
    headings: Vec<String>,
    disks: bool,
    name_last: bool,
    processors: Vec<(Metric, f64)>,
    each: Vec<IostatDisk>,
}

#[derive(Clone, Debug, PartialEq)]
struct IostatDisk {
    name: String,
    read: Option<f64>,
    written: Option<f64>,
    queue: Option<f64>,
}

impl IostatReport {
    pub(super) fn ends_at(&self, heading: &str) -> bool {
        heading.starts_with("avg-cpu:") || self.headings.iter().any(|known| known == heading)
    }

    pub(super) fn push_line(&mut self, line: &str) {
        if is_iostat_heading(line) {
            self.disks = !line.starts_with("avg-cpu:");
            self.name_last = self.disks && !line.starts_with("Device");
            let columns = line.split_ascii_whitespace().skip(usize::from(!self.name_last));
            let columns = columns.filter(|word| *word != "Device").map(str::to_owned);
            self.columns = columns.collect();
            if self.disks && self.headings.len() < MOST_HEADINGS {
                self.headings.push(line.to_owned());
            }
            return;
        }
        let mut words = line.split_ascii_whitespace();
        let name = match (self.disks, self.name_last) {
            (false, _) => None,
            (true, false) => words.next(),
            (true, true) => words.next_back(),
        };
        let values: Option<Vec<f64>> = words.map(parse_value).collect();
        let Some(values) =
            values.filter(|values| values.len() == self.columns.len() && !values.is_empty())
        else {
            return;
        };
        let value = |name: &str| {
            let place = self.columns.iter().position(|column| column == name)?;
            values.get(place).copied()
        };
        match name {
            None => {
                let known =
                    PROCESSORS.iter().filter_map(|(name, metric)| Some((*metric, value(name)?)));
                self.processors = known.collect();
            }
            Some(name) if self.each.len() < MOST_DISKS => {
                let bytes = |out: bool| {
                    let mut value_of = BYTES.iter().filter(|(.., written)| *written == out);
                    value_of.find_map(|(name, factor, _)| Some(value(name)? * factor))
                };
                let queue = QUEUE.iter().find_map(|name| value(name));
                self.each.push(IostatDisk {
                    name: name.to_owned(),
                    read: bytes(false),
                    written: bytes(true),
                    queue,
                });
            }
            Some(_) => {}
        }
    }

    /// Devices upon other disks count only where there are no others.
    fn host_values(&self) -> Vec<(Metric, f64)> {
        let upon = |disk: &&IostatDisk| UPON_OTHERS.iter().any(|name| disk.name.starts_with(name));
        let mut disks: Vec<&IostatDisk> = self.each.iter().filter(|disk| !upon(disk)).collect();
        if disks.is_empty() {
            disks = self.each.iter().filter(|disk| !disk.name.starts_with("loop")).collect();
        }
        let sum = |value_of: fn(&IostatDisk) -> Option<f64>| {
            disks.iter().filter_map(|disk| value_of(disk)).reduce(|one, other| one + other)
        };
        let queue = disks.iter().filter_map(|disk| disk.queue).reduce(f64::max);
        let of_disks = [
            (Metric::PagedIn, sum(|disk| disk.read)),
            (Metric::PagedOut, sum(|disk| disk.written)),
            (Metric::DiskQueue, queue),
        ];
        let mut values = self.processors.clone();
        values.extend(of_disks.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
        values
    }
}

pub(super) fn set_mean_values(series: &mut Series, reports: &[IostatReport]) {
    let mut sums: Vec<(Metric, f64, f64)> = Vec::new();
    for (metric, value) in reports.iter().flat_map(IostatReport::host_values) {
        match sums.iter_mut().find(|(other, ..)| *other == metric) {
            Some((_, sum, count)) => {
                *sum += value;
                *count += 1.0;
            }
            None => sums.push((metric, value, 1.0)),
        }
    }
    for (metric, sum, count) in sums {
        series.set_value(metric, sum / count);
    }
}

/// Percent of waits for disks that no host has for long in peace.
const LONG_WAITS: f64 = 50.0;

/// Sets what even an average since the boot says: whether processors waited for disks most of the time.
pub(super) fn set_long_waits(series: &mut Series, report: &IostatReport) -> bool {
    let waits = report.processors.iter().find(|(metric, value)| {
        *metric == Metric::CpuIowait && *value >= LONG_WAITS && value.is_finite()
    });
    waits.is_some_and(|(metric, value)| {
        series.set_value(*metric, *value);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_report(text: &str) -> Vec<(Metric, f64)> {
        let mut report = IostatReport::default();
        text.lines().for_each(|line| report.push_line(line));
        report.host_values()
    }

    /// sysstat 12.6.1, and 10.1.5 in German; a volume on two paths.
    #[test]
    fn disks_are_added_up_and_none_is_counted_twice() {
        let new = "avg-cpu:  %user   %nice %system \
             %iowait  %steal   %idle\n          46.91    8.12    9.87    0.38    0.10   34.62\n\n\
            Device            r/s     rkB/s   rrqm/s  %rrqm r_await \
             rareq-sz     w/s     wkB/s  aqu-sz  %util\n\
            loop0            0.00      9.00     0.00   0.00    0.07    17.88    0.00      0.00    0.00   0.00\n\
            sda            184.31   1000.00     5.89   3.10    1.28    29.64   50.16     20.00    0.50   2.79\n\
            sdb            184.31    500.00     5.89   3.10    1.28    29.64   50.16      4.00   31.50 100.00\n\
            dm-0           184.31   1500.00     5.89   3.10    1.28    29.64   50.16     24.00   32.00 100.00\n";
        let found = parse_report(new);
        for (metric, value) in [
            (Metric::CpuSystem, 9.87),
            (Metric::CpuIowait, 0.38),
            (Metric::PagedIn, 1500.0 * 1024.0),
            (Metric::PagedOut, 24.0 * 1024.0),
            (Metric::DiskQueue, 31.5),
        ] {
            assert!(found.contains(&(metric, value)), "{metric:?}: {found:?}");
        }
        let old = "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz \
             avgqu-sz   await  svctm  %util\n\
            dm-0              0,00     1,00    2,00    3,00     8,00    16,00    10,00    12,50    4,00   1,00  99,00\n\
            dm-1              0,00     1,00 2\n";
        assert_eq!(
            parse_report(old),
            [(Metric::PagedIn, 4096.0), (Metric::PagedOut, 8192.0), (Metric::DiskQueue, 12.5)]
        );
        assert_eq!(parse_report("Device r/s\nsda x\nsda inf\n").len(), 0);
    }
}
