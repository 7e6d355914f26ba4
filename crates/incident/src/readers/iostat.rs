//! What `iostat -x` prints, report by report: processors, and what each disk read, wrote and had waiting.

use crate::{Metric, Series};

/// Disks of one report: a large host has thousands of paths to storage.
const MOST_DISKS: usize = 16_384;
/// Devices that are no disks, or lie on others that are listed too.
const UPON_OTHERS: [&str; 6] = ["loop", "ram", "zram", "dm-", "md", "sr"];

/// Columns of processors.
const PROCESSORS: &[(&str, Metric)] = &[
    ("%user", Metric::CpuUser),
    ("%nice", Metric::CpuNice),
    ("%system", Metric::CpuSystem),
    ("%iowait", Metric::CpuIowait),
    ("%steal", Metric::CpuSteal),
    ("%idle", Metric::CpuIdle),
];
/// Columns of disks, how often their unit goes into bytes, and whether it is written.
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

/// Whether a line begins a table of a report.
pub(super) fn heading(line: &str) -> bool {
    line.starts_with("avg-cpu:") || is_disks(line)
}

/// `Device: tps kB_read/s`, `Device r/s rkB/s`; other tools name a device in their first line.
pub(super) fn is_disks(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    matches!(words.next(), Some("Device" | "Device:")) && words.any(|word| matches!(word, "tps" | "r/s"))
}

/// One report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    columns: Vec<String>,
    disks: bool,
    processors: Vec<(Metric, f64)>,
    each: Vec<Disk>,
}

#[derive(Clone, Debug, PartialEq)]
struct Disk {
    name: String,
    read: Option<f64>,
    written: Option<f64>,
    queue: Option<f64>,
}

impl Report {
    /// Whether a heading begins another report than this one.
    pub(super) fn ends_at(&self, heading: &str) -> bool {
        heading.starts_with("avg-cpu:") || self.disks
    }

    /// Takes a line of it, headings among them.
    pub(super) fn line(&mut self, line: &str) {
        if heading(line) {
            self.disks = !line.starts_with("avg-cpu:");
            self.columns = line.split_ascii_whitespace().skip(1).map(str::to_owned).collect();
            return;
        }
        let mut words = line.split_ascii_whitespace();
        let name = if self.disks { words.next() } else { None };
        // Some languages write a comma.
        let values: Option<Vec<f64>> = words.map(|word| word.replace(',', ".").parse().ok()).collect();
        let Some(values) = values.filter(|values| values.len() == self.columns.len() && !values.is_empty()) else {
            return;
        };
        let value = |name: &str| {
            let place = self.columns.iter().position(|column| column == name)?;
            values.get(place).copied()
        };
        match name {
            None => {
                let known = PROCESSORS.iter().filter_map(|(name, metric)| Some((*metric, value(name)?)));
                self.processors = known.collect();
            }
            Some(name) if self.each.len() < MOST_DISKS => {
                let bytes = |out: bool| {
                    let mut of = BYTES.iter().filter(|(.., written)| *written == out);
                    of.find_map(|(name, factor, _)| Some(value(name)? * factor))
                };
                let queue = QUEUE.iter().find_map(|name| value(name));
                self.each.push(Disk { name: name.to_owned(), read: bytes(false), written: bytes(true), queue });
            }
            Some(_) => {}
        }
    }

    /// What it says of the host: what lies upon other disks counts where there are no others.
    fn values(&self) -> Vec<(Metric, f64)> {
        let upon = |disk: &&Disk| UPON_OTHERS.iter().any(|name| disk.name.starts_with(name));
        let mut disks: Vec<&Disk> = self.each.iter().filter(|disk| !upon(disk)).collect();
        if disks.is_empty() {
            disks = self.each.iter().filter(|disk| !disk.name.starts_with("loop")).collect();
        }
        let sum =
            |of: fn(&Disk) -> Option<f64>| disks.iter().filter_map(|disk| of(disk)).reduce(|one, other| one + other);
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

/// Puts the mean of some reports into the row begun last.
pub(super) fn set(series: &mut Series, reports: &[Report]) {
    let mut sums: Vec<(Metric, f64, f64)> = Vec::new();
    for (metric, value) in reports.iter().flat_map(Report::values) {
        match sums.iter_mut().find(|(of, ..)| *of == metric) {
            Some((_, sum, count)) => {
                *sum += value;
                *count += 1.0;
            }
            None => sums.push((metric, value, 1.0)),
        }
    }
    for (metric, sum, count) in sums {
        series.set(metric, sum / count);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn report(text: &str) -> Vec<(Metric, f64)> {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report.values()
    }

    /// sysstat 12.6.1, and 10.1.5 in German; a volume on two paths.
    #[test]
    fn disks_are_added_up_and_none_is_counted_twice() {
        let new = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          46.91    8.12    9.87    0.38    0.10   34.62\n\n\
            Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s  aqu-sz  %util\n\
            loop0            0.00      9.00     0.00   0.00    0.07    17.88    0.00      0.00    0.00   0.00\n\
            sda            184.31   1000.00     5.89   3.10    1.28    29.64   50.16     20.00    0.50   2.79\n\
            sdb            184.31    500.00     5.89   3.10    1.28    29.64   50.16      4.00   31.50 100.00\n\
            dm-0           184.31   1500.00     5.89   3.10    1.28    29.64   50.16     24.00   32.00 100.00\n";
        let found = report(new);
        for (metric, value) in [
            (Metric::CpuSystem, 9.87),
            (Metric::CpuIowait, 0.38),
            (Metric::PagedIn, 1500.0 * 1024.0),
            (Metric::PagedOut, 24.0 * 1024.0),
            (Metric::DiskQueue, 31.5),
        ] {
            assert!(found.contains(&(metric, value)), "{metric:?}: {found:?}");
        }
        let old = "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
            dm-0              0,00     1,00    2,00    3,00     8,00    16,00    10,00    12,50    4,00   1,00  99,00\n\
            dm-1              0,00     1,00 2\n";
        assert_eq!(report(old), [(Metric::PagedIn, 4096.0), (Metric::PagedOut, 8192.0), (Metric::DiskQueue, 12.5)]);
        assert_eq!(report("Device r/s\nsda x\nsda inf\n").len(), 0);
    }
}
