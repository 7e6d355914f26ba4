//! PCP archives, through `pmrep`, which prints their samples as they were recorded.
//!
//! pmlogger fetches groups of metrics one behind the other: what it does within half a second is one sample, and a metric that
//! is in several groups is taken once. Counters are asked for raw, so that a gap in the archive stays one and what falls has no rate. A metric that the
//! archive lacks is absent. Moments are UTC.

mod metrics;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hugewise_host::caged::Cage;
use hugewise_host::compressed;
use hugewise_host::source::files::{self, Below, Given};

use self::metrics::{LOADS, METRICS, Of};
use super::calendar::{iso_date, time_of_day};
use super::lines;
use super::tool::{Outcome, Tool};
use crate::series::{Moment, Offset};
use crate::{Clock, Metric, Refused, Series};

const LONGEST_LINE: u64 = 1 << 20;
/// Suffixes of files of archives that libpcp decompresses itself.
const COMPRESSED: [&str; 4] = [".xz", ".zst", ".gz", ".bz2"];
/// Milliseconds within which groups are of one sample.
const TOGETHER: i64 = 500;
const PMREP: Tool = Tool { name: "pmrep", debian: "pcp (with python3-pcp)", redhat: "pcp-system-tools" };
const PMDUMPLOG: Tool = Tool { name: "pmdumplog", debian: "pcp", redhat: "pcp" };

/// Whether these are the first bytes of a volume of an archive, of its index, or of its metadata.
pub(super) fn is_volume(head: &[u8]) -> bool {
    // A record's length, then the magic number and the version.
    matches!(head.get(4..8), Some([0x50, 0x05, 0x26, 2 | 3]))
}

/// The base of the archive that a file is of, by its name: `20261121` of `20261121.meta`, `20261121.0.xz`. `None` where it
/// is of none.
pub fn base(path: &str) -> Option<&str> {
    let name = COMPRESSED.iter().find_map(|suffix| path.strip_suffix(suffix)).unwrap_or(path);
    let (base, part) = name.rsplit_once('.')?;
    let volume = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    let known = volume || matches!(part, "meta" | "index");
    (known && !base.is_empty() && !base.ends_with('/')).then_some(base)
}

/// Reads an archive through pmrep: `base` is its path without `.0`, `.meta` or `.index`.
///
/// # Errors
/// pmrep is not installed, cannot read the archive, or finds none of the metrics in it.
pub fn archive(base: &Path, source: &str) -> Result<Series, Refused> {
    let wrong = |error: io::Error| Refused(format!("cannot be read: {error}"));
    let (below, names) = beside(base).map_err(wrong)?;
    let folder = tempfile::tempdir().map_err(wrong)?;
    let parts = Parts::into(folder.path().to_owned()).map_err(wrong)?;
    for name in names {
        let copied = below
            .open(&name)
            .and_then(|file| parts.add(&name.to_string_lossy(), file, |stream, file| io::copy(stream, file).map(drop)));
        copied.map_err(wrong)?;
    }
    parts.read(source)
}

/// The folder that an archive lies in, and the names of its parts; links are none.
pub(crate) fn beside(at: &Path) -> io::Result<(Below, Vec<PathBuf>)> {
    let (folder, name) = (at.parent(), at.file_name().and_then(|name| name.to_str()));
    let (Some(folder), Some(name)) = (folder, name) else { return Err(io::ErrorKind::InvalidInput.into()) };
    match files::open(folder)? {
        Given::Folder(below) => {
            let names = below.files();
            let ours = names.iter().map(PathBuf::from).filter(|it| it.to_str().and_then(base) == Some(name)).collect();
            Ok((below, ours))
        }
        Given::File(..) => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// An archive's parts unpacked into a folder of their own: PCP's programs find them by their names, and are given nothing
/// else.
pub(crate) struct Parts {
    folder: PathBuf,
    cage: Cage,
}

impl Parts {
    /// Into that folder, which is empty.
    pub(crate) fn into(folder: PathBuf) -> io::Result<Self> {
        let cage = Cage::new();
        cage.may_read(&folder, true)?;
        Ok(Self { folder, cage })
    }

    /// One part, by the path that it had; `fill` writes it.
    pub(crate) fn add(
        &self,
        path: &str,
        packed: impl Read,
        fill: impl FnOnce(&mut dyn Read, &mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let plain = COMPRESSED.iter().find_map(|suffix| path.strip_suffix(suffix)).unwrap_or(path);
        // The name that it had is nowhere in it but for `.0`.
        let suffix = plain.rsplit('.').next().unwrap_or_default();
        let part = self.folder.join(format!("archive.{suffix}"));
        let mut file = File::create_new(&part)?;
        fill(&mut compressed::open(packed)?, &mut file)?;
        self.cage.may_read(&part, false)
    }

    /// They are not needed any more. What cannot be removed now is with all of the folder.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Reads them through pmrep.
    pub(crate) fn read(&self, source: &str) -> Result<Series, Refused> {
        let read = printed(&self.folder, source, self.cage);
        read.map_err(|Refused(why)| Refused(why.replace(ARCHIVE, source)))
    }
}

/// The archive as those call it who work in its folder.
const ARCHIVE: &str = "./archive";

fn printed(folder: &Path, source: &str, cage: Cage) -> Result<Series, Refused> {
    let mut arguments: Vec<String> =
        ["-u", "-r", "-5", "-I", "-o", "csv", "-Z", "UTC", "-f", "%Y-%m-%d %H:%M:%S.%f", "-a", ARCHIVE]
            .map(str::to_owned)
            .into();
    arguments.extend(METRICS.iter().map(|(name, ..)| (*name).to_owned()));
    let outcome = PMREP.run(cage, folder, &arguments, None, |printed| read(printed, source))?;
    let mut series = match (outcome.parsed, outcome.complaint) {
        (Ok(mut series), complaint) => {
            if let Some(complaint) = complaint {
                series.problem(complaint);
            }
            series
        }
        (Err(_), Some(complaint)) => return Err(Refused(complaint)),
        (Err(refused), None) => return Err(refused),
    };
    // Its label says the host and the zone; without them the samples stand all the same.
    let label = PMDUMPLOG.run(cage, folder, &["-L".into(), ARCHIVE.into()], None, |printed| {
        let mut label = Label::default();
        lines::each(printed, LONGEST_LINE, |line| label.line(line));
        label
    });
    if let Ok(Outcome { parsed: label, .. }) = label {
        series.host = label.host;
        let first = series.samples().first().map(|first| first.at);
        if let (Clock::Utc { offsets }, Some(seconds), Some(from)) = (&mut series.clock, label.offset, first) {
            offsets.push(Offset { from, seconds });
        }
    }
    Ok(series)
}

/// What `pmdumplog -L` prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Label {
    host: Option<String>,
    offset: Option<i32>,
}

impl Label {
    fn line(&mut self, line: &str) {
        if let Some(host) = line.strip_prefix("Performance metrics from host ") {
            self.host = Some(host.trim().to_owned()).filter(|host| !host.is_empty());
        } else if let Some(zone) = line.strip_prefix("Archive timezone: ") {
            self.offset = offset(zone.trim());
        }
    }
}

/// Seconds east of Greenwich of a zone as POSIX writes it, `EST5`, `CET-1`, where it has no summer time.
fn offset(zone: &str) -> Option<i32> {
    let (_, hours) =
        zone.split_at_checked(zone.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(zone.len()))?;
    if hours.is_empty() {
        return matches!(zone, "UTC" | "GMT").then_some(0);
    }
    let (sign, digits) = match hours.split_at_checked(1)? {
        ("-", digits) => (1, digits),
        ("+", digits) => (-1, digits),
        _ => (-1, hours),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=15).contains(&hours) && (0..60).contains(&minutes)).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Reads what pmrep printed of the metrics here, raw, with UTC and parts of seconds.
///
/// # Errors
/// It is not that, or holds no sample.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    let mut reader = Reader { series: Series::new(source, crate::Format::Pcp), ..Reader::default() };
    reader.series.clock = Clock::Utc { offsets: Vec::new() };
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    if reader.columns.is_empty() || reader.series.samples().is_empty() {
        return Err(Refused(
            end.problem().unwrap_or_else(|| "pmrep found no sample of memory or processors in it".into()),
        ));
    }
    let mut series = reader.series;
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    Ok(series.finished())
}

/// What a column is of.
#[derive(Clone, Copy, Debug)]
enum Column {
    Known(&'static str, Metric, Of),
    Kernel,
    Machine,
    HugePage,
    Unknown,
}

#[derive(Default)]
struct Reader {
    series: Series,
    columns: Vec<Column>,
    /// The last value of each column that counts, with its moment.
    before: Vec<Option<(Moment, f64)>>,
    /// The columns that the row at hand has.
    filled: Vec<bool>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let words = split(line);
        let Some((first, words)) = words.split_first() else { return };
        if self.columns.is_empty() {
            if first == "Time" {
                self.columns = words.iter().map(|word| column(word)).collect();
                self.before = vec![None; self.columns.len()];
                self.filled = vec![false; self.columns.len()];
            }
            return;
        }
        let Some(at) = moment(first) else { return };
        let fresh = self.row(at, words);
        // Parts of all processors' time, and sums over zones.
        let mut times: Vec<(&str, Metric, f64, bool)> = Vec::new();
        let mut sums: Vec<(Metric, f64)> = Vec::new();
        for (((column, before), word), fresh) in self.columns.iter().zip(&mut self.before).zip(words).zip(fresh) {
            if !fresh {
                continue;
            }
            let (name, metric, of) = match column {
                Column::Known(name, metric, of) => (*name, *metric, *of),
                Column::Kernel => {
                    if !word.is_empty() {
                        self.series.kernel = Some(word.clone());
                    }
                    continue;
                }
                Column::Machine => {
                    if !word.is_empty() {
                        self.series.architecture = Some(word.clone());
                    }
                    continue;
                }
                Column::HugePage => {
                    let size = word.parse::<u64>().ok().filter(|size| *size > 0);
                    self.series.huge_page = size.map(hugewise_model::Bytes).or(self.series.huge_page);
                    continue;
                }
                Column::Unknown => continue,
            };
            let Ok(value) = word.parse::<f64>() else { continue };
            if let Of::Moment(unit) = of {
                self.series.set(metric, value * unit);
                continue;
            }
            let last = before.replace((at, value));
            let Some((then, last)) = last else { continue };
            let grown = value - last;
            let Some(passed) = at.since(then).map(|passed| passed.as_secs_f64()).filter(|passed| *passed > 0.0) else {
                continue;
            };
            // What falls was begun anew; what is no number is none.
            if !grown.is_finite() || grown < 0.0 {
                continue;
            }
            match of {
                Of::Rate(unit) => match sums.iter_mut().find(|(of, _)| *of == metric) {
                    Some((_, sum)) => *sum += grown * unit / passed,
                    None => sums.push((metric, grown * unit / passed)),
                },
                // The kernel's clock and PCP's are not one.
                Of::Share => self.series.set(metric, (grown / passed / 10_000.0).min(100.0)),
                Of::Time => times.push((name, metric, grown, true)),
                Of::Within => times.push((name, metric, grown, false)),
                Of::Moment(_) | Of::Fact => {}
            }
        }
        for (metric, sum) in sums {
            self.series.set(metric, sum);
        }
        self.processors(&times);
    }

    /// Begins a row, unless the line adds to the one at hand; says which of its columns the row did not have yet: what another
    /// group fetched again milliseconds later is no sample of milliseconds.
    fn row(&mut self, at: Moment, words: &[String]) -> Vec<bool> {
        // Facts stand in every line.
        let has = |(column, word): (&Column, &String)| {
            let known = matches!(column, Column::Known(name, ..) if !matches!(*name, "hinv.ncpu" | "mem.physmem"));
            known && !word.is_empty()
        };
        let has: Vec<bool> = self.columns.iter().zip(words).map(has).collect();
        let last = self.series.samples().last().map(|last| last.at);
        if last.is_some_and(|last| (0..TOGETHER).contains(&(at.0 - last.0))) {
            let fresh = self.filled.iter().map(|filled| !filled).collect();
            self.filled.iter_mut().zip(has).for_each(|(filled, has)| *filled |= has);
            return fresh;
        }
        let interval = last.and_then(|last| at.since(last));
        self.series.push(at, interval.filter(|interval| !interval.is_zero()));
        self.filled.clone_from(&has);
        vec![true; has.len()]
    }

    fn processors(&mut self, times: &[(&str, Metric, f64, bool)]) {
        let all: f64 = times.iter().filter(|(.., part)| *part).map(|(_, _, grown, _)| grown).sum();
        // Without the idle time parts are of an unknown whole.
        let whole = times.iter().any(|(_, metric, ..)| *metric == Metric::CpuIdle);
        if !whole || all <= 0.0 {
            return;
        }
        for (_, metric, grown, _) in times {
            // Interrupts are counted apart there, and with the kernel's time in a series.
            let interrupts: f64 = times
                .iter()
                .filter(|(_, of, ..)| *metric == Metric::CpuSystem && matches!(of, Metric::CpuIrq | Metric::CpuSoftirq))
                .map(|(_, _, grown, _)| grown)
                .sum();
            self.series.set(*metric, (grown + interrupts) / all * 100.0);
        }
    }
}

fn column(name: &str) -> Column {
    match name {
        "kernel.uname.release" => return Column::Kernel,
        "kernel.uname.machine" => return Column::Machine,
        "hinv.hugepagesize" => return Column::HugePage,
        _ => {}
    }
    if let Some((name, metric)) = LOADS.iter().find(|(of, _)| *of == name) {
        return Column::Known(name, *metric, Of::Moment(1.0));
    }
    match METRICS.iter().find(|(of, ..)| *of == name) {
        Some((name, Some(metric), of)) => Column::Known(name, *metric, *of),
        _ => Column::Unknown,
    }
}

/// `2026-11-22 00:15:08.879505`
fn moment(word: &str) -> Option<Moment> {
    let (date, time) = word.split_once(' ')?;
    let (time, part) = time.split_once('.').unwrap_or((time, ""));
    let seconds = iso_date(date)?.checked_add(time_of_day(time)?)?;
    let three: String = part.chars().chain("000".chars()).take(3).collect();
    Some(Moment(Moment::from_seconds(seconds).0.checked_add(three.parse::<u16>().ok()?.into())?))
}

/// A line's values: those in quotes can hold commas.
fn split(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            _ => values.last_mut().into_iter().for_each(|value| value.push(letter)),
        }
    }
    values
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_host_and_zone() {
        let mut label = Label::default();
        for line in ["Log Label (Log Format Version 2)", "Performance metrics from host db1", "Archive timezone: CET-1"]
        {
            label.line(line);
        }
        assert_eq!(label, Label { host: Some("db1".into()), offset: Some(3600) });
        for (zone, seconds) in [
            ("UTC", Some(0)),
            ("EST5", Some(-18_000)),
            ("IST-5:30", Some(19_800)),
            ("EST5EDT", None),
            ("X", None),
            ("", None),
        ] {
            assert_eq!(offset(zone), seconds, "{zone}");
        }
    }

    #[test]
    fn gaps_and_counters_begun_anew_have_no_false_rates() {
        let text = "Time,\"mem.vmstat.pgfault\",\"mem.util.pageTables\",\"kernel.all.cpu.idle\",\"kernel.all.cpu.sys\",\"mem.vmstat.allocstall_dma\",\"mem.vmstat.allocstall_normal\"\n\
            2026-11-22 00:00:00.250,100,8,0,0,1,1\n\
            2026-11-22 00:00:10.250,300,,100,50,1,11\n\
            2026-11-22 00:00:20.250,,9,200,100,,\n\
            2026-11-22 00:00:30.250,500,9,10,150,5,17\n\
            2026-11-22 00:00:40.250,400,9,20,180,5,17\n";
        let series = read(&mut text.as_bytes(), "pcp").unwrap();
        let of = |metric| (0..5).map(|row| series.value(metric, row)).collect::<Vec<_>>();
        assert_eq!(of(Metric::Faults), [None, Some(20.0), None, Some(10.0), None]);
        assert_eq!(of(Metric::PageTables)[..3], [Some(8192.0), None, Some(9216.0)]);
        assert_eq!(of(Metric::CpuSystem)[..4], [None, Some(50.0 / 150.0 * 100.0), Some(50.0 / 150.0 * 100.0), None]);
        assert_eq!(of(Metric::AllocStall), [None, Some(1.0), None, Some(0.5), Some(0.0)]);
        assert_eq!(series.samples()[0].at.0 % 1000, 250);
    }

    #[test]
    fn files_of_an_archive_have_one_base() {
        for name in [
            "/var/log/pcp/20261121.0",
            "/var/log/pcp/20261121.12.xz",
            "/var/log/pcp/20261121.meta.zst",
            "/var/log/pcp/20261121.index",
        ] {
            assert_eq!(base(name), Some("/var/log/pcp/20261121"), "{name}");
        }
        assert_eq!(base("20261121.00.10.0"), Some("20261121.00.10"));
        for name in ["pmlogger.log", "/var/log/.meta", "Latest", "a.xz", ""] {
            assert_eq!(base(name), None, "{name}");
        }
    }

    #[test]
    fn groups_that_are_fetched_together_are_one_sample() {
        let text = "Time,\"hinv.ncpu\",\"mem.vmstat.pgfault\",\"mem.util.free\",\"kernel.all.nprocs\"\n\
            2026-11-22 00:00:00.100,8,100,,\n2026-11-22 00:00:00.130,8,,5,\n2026-11-22 00:00:00.160,8,,,7\n\
            2026-11-22 00:00:10.100,8,200,,\n2026-11-22 00:00:10.130,8,,6,\n2026-11-22 00:00:10.200,8,210,,\n";
        let series = read(&mut text.as_bytes(), "pcp").unwrap();
        let of = |metric| (0..series.samples().len()).map(|row| series.value(metric, row)).collect::<Vec<_>>();
        assert_eq!(of(Metric::MemFree), [Some(5120.0), Some(6144.0)]);
        assert_eq!(of(Metric::Tasks), [Some(7.0), None]);
        // 10 faults within 70 ms are of the sample that another group took, and are counted with the next one's.
        assert_eq!(of(Metric::Faults), [None, Some(10.0)]);
        assert_eq!(series.samples()[1].interval.unwrap().as_secs(), 10);
    }

    /// 3 of 100 ticks of 10 s were the kernel's, and 5 of the 16 that passed until the second group was fetched.
    #[test]
    fn two_groups_that_log_the_processors_16_ms_apart_are_one_row() {
        let mut text = "Time,\"kernel.all.cpu.idle\",\"kernel.all.cpu.sys\"\n".to_owned();
        for second in 0..4 {
            let (idle, system) = (second * 9700, second * 300);
            text += &format!("2026-11-22 00:00:{}0.100,{idle},{system}\n", second);
            text += &format!("2026-11-22 00:00:{}0.116,{},{}\n", second, idle + 11, system + 5);
        }
        let series = read(&mut text.as_bytes(), "pcp").unwrap();
        let of = (0..series.samples().len()).map(|row| series.value(Metric::CpuSystem, row)).collect::<Vec<_>>();
        assert_eq!(of, [None, Some(3.0), Some(3.0), Some(3.0)]);
    }

    #[test]
    fn what_pmrep_does_not_print_is_refused() {
        for text in ["", "Time,\"x\"\n", "pmrep: none\n"] {
            assert!(read(&mut text.as_bytes(), "pcp").is_err());
        }
        assert!(archive(Path::new("-c"), "x").is_err());
    }
}
