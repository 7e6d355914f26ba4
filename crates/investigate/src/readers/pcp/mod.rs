//! PCP archives, read through `pmrep`, which prints samples as they were recorded.
//!
//! pmlogger fetches groups of metrics one after another: what comes within half a second is one
//! sample, in which a metric of several groups is taken once. Counters are raw: a gap in the archive
//! stays one, and what falls has no rate. Moments are UTC.

mod marks;
mod metrics;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_host::sandbox::Sandbox;
use hugewise_host::source::files::{self, OpenFolder, OpenedPath};

use self::marks::{MarkFinder, MarkedStream};
use self::metrics::{FACTS, LOADS, METRICS, PcpConversion};
use super::archive_format::{ArchiveFormat, Promise};
use super::external_tool::{ExternalTool, ToolOutcome};
use super::lines::{self, split_csv_line};
use crate::series::{Mark, MarkKind, Moment, Offset};
use crate::{Clock, FileRefused, Metric, Series};
use hugewise_model::Bytes;
use hugewise_model::calendar::{iso_date, thousandths, time_of_day};

const LONGEST_LINE: u64 = 1 << 20;
/// Suffixes of archive files that libpcp decompresses itself.
const COMPRESSED: [&str; 4] = [".xz", ".zst", ".gz", ".bz2"];
/// Milliseconds within which groups are of one sample.
const TOGETHER: i64 = 500;
const PMREP: ExternalTool =
    ExternalTool { name: "pmrep", debian: "pcp (with python3-pcp)", redhat: "pcp-system-tools" };
const PMDUMPLOG: ExternalTool = ExternalTool { name: "pmdumplog", debian: "pcp", redhat: "pcp" };

/// Volumes, index and metadata of archives.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "pcp",
    called: "part of a PCP archive",
    tools: &["PCP"],
    is_text: false,
    // A record's length, then the magic number and the version.
    recognize: |head| match head.get(4..8) {
        Some([0x50, 0x05, 0x26, 2 | 3]) => Promise::Part,
        _ => Promise::None,
    },
    read: |_| {
        Err(FileRefused(
            "is one of three or more files of a PCP archive, which pmrep reads together: give the \
             path without .0, .meta or .index"
                .into(),
        ))
    },
};

/// The base of the archive of a file: `20261121` of `20261121.meta`, `20261121.0.xz`.
pub fn archive_base(path: &str) -> Option<&str> {
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
pub fn read_archive(base: &Path, source: &str) -> Result<Series, FileRefused> {
    let wrong = |error: io::Error| FileRefused(format!("cannot be read: {error}"));
    let (below, names) = find_archive_parts(base).map_err(wrong)?;
    let folder = tempfile::tempdir().map_err(wrong)?;
    let parts = PcpArchiveParts::in_folder(folder.path().to_owned()).map_err(wrong)?;
    for name in names {
        let copied = below.open_file(&name).and_then(|file| {
            parts
                .add(&name.to_string_lossy(), file, |stream, file| io::copy(stream, file).map(drop))
        });
        copied.map_err(wrong)?;
    }
    parts.read(source)
}

pub(crate) fn find_archive_parts(at: &Path) -> io::Result<(OpenFolder, Vec<PathBuf>)> {
    let (folder, name) = (at.parent(), at.file_name().and_then(|name| name.to_str()));
    let (Some(folder), Some(name)) = (folder, name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match files::open_path(folder)? {
        OpenedPath::Folder(below) => {
            let names = below.file_names();
            let ours = names
                .iter()
                .map(PathBuf::from)
                .filter(|path| path.to_str().and_then(archive_base) == Some(name))
                .collect();
            Ok((below, ours))
        }
        OpenedPath::File(..) => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// An archive's parts in a folder of their own, the only one that PCP's programs may read.
pub(crate) struct PcpArchiveParts {
    folder: PathBuf,
    cage: Sandbox,
    /// Those of all volumes.
    marks: RefCell<Vec<Moment>>,
}

impl PcpArchiveParts {
    pub(crate) fn in_folder(folder: PathBuf) -> io::Result<Self> {
        let cage = Sandbox::new();
        cage.may_read(&folder, true)?;
        Ok(Self { folder, cage, marks: RefCell::default() })
    }

    /// Adds a part by its bytes, which are not compressed any more.
    pub(crate) fn add(
        &self,
        path: &str,
        mut unpacked: impl Read,
        fill: impl FnOnce(&mut dyn Read, &mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let plain = COMPRESSED.iter().find_map(|suffix| path.strip_suffix(suffix)).unwrap_or(path);
        // Nothing of its name is kept but the suffix.
        let suffix = plain.rsplit('.').next().unwrap_or_default();
        let part = self.folder.join(format!("archive.{suffix}"));
        // As `xz -dk` leaves them, a file may lie beside its packed self: either is the archive.
        let mut file = match File::create_new(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        let mut finder = MarkFinder::default();
        if suffix.bytes().all(|digit| digit.is_ascii_digit()) {
            let stream = unpacked;
            fill(&mut MarkedStream { stream, finder: &mut finder }, &mut file)?;
            self.marks.borrow_mut().extend(finder.into_marks());
        } else {
            fill(&mut unpacked, &mut file)?;
        }
        self.cage.may_read(&part, false)
    }

    /// What cannot be removed now goes with the scratch folder.
    pub(crate) fn remove_folder(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    pub(crate) fn read(&self, source: &str) -> Result<Series, FileRefused> {
        let read = run_pmrep(&self.folder, source, self.cage);
        let mut series =
            read.map_err(|FileRefused(why)| FileRefused(why.replace(ARCHIVE, source)))?;
        // Where pmlogger was stopped and started; a restart of the host is told by its uptime.
        let marks = self.marks.borrow();
        series.marks.extend(marks.iter().map(|at| Mark { at: *at, kind: MarkKind::Resumed }));
        Ok(series)
    }
}

const ARCHIVE: &str = "./archive";

fn run_pmrep(folder: &Path, source: &str, cage: Sandbox) -> Result<Series, FileRefused> {
    let options = "-u -r -5 -I -o csv -Z UTC -f".split(' ');
    let options = options.chain(["%Y-%m-%d %H:%M:%S.%f", "-a", ARCHIVE]);
    let names = METRICS.iter().map(|(name, ..)| *name).chain(FACTS);
    let arguments: Vec<String> = options.chain(names).map(str::to_owned).collect();
    let outcome = PMREP.run(cage, folder, &arguments, None, |printed| read(printed, source))?;
    let mut series = outcome.into_series()?;
    // The label has host and zone, which the samples can do without.
    let label = PMDUMPLOG.run(cage, folder, &["-L".into(), ARCHIVE.into()], None, |printed| {
        let mut label = PcpArchiveLabel::default();
        lines::for_each_line(printed, LONGEST_LINE, |line| label.push_line(line));
        label
    });
    if let Ok(ToolOutcome { parsed: label, .. }) = label {
        series.host = label.host;
        let first = series.samples().first().map(|first| first.at);
        if let (Clock::Utc { offsets }, Some(seconds), Some(from)) =
            (&mut series.clock, label.offset, first)
        {
            offsets.push(Offset { from, seconds });
        }
    }
    Ok(series)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct PcpArchiveLabel {
    host: Option<String>,
    offset: Option<i32>,
}

impl PcpArchiveLabel {
    fn push_line(&mut self, line: &str) {
        if let Some(host) = line.strip_prefix("Performance metrics from host ") {
            self.host = Some(host.trim().to_owned()).filter(|host| !host.is_empty());
        } else if let Some(zone) = line.strip_prefix("Archive timezone: ") {
            self.offset = parse_posix_offset(zone.trim());
        }
    }
}

/// Seconds east of Greenwich of a POSIX zone, `EST5`, `CET-1`, without summer time.
fn parse_posix_offset(zone: &str) -> Option<i32> {
    let (_, hours) = zone.split_at_checked(
        zone.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(zone.len()),
    )?;
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
    ((0..=15).contains(&hours) && (0..60).contains(&minutes))
        .then_some(sign * (hours * 3600 + minutes * 60))
}

/// Reads what pmrep printed raw of these metrics, in UTC with fractions of seconds.
///
/// # Errors
/// It is not that, or holds no sample.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut reader = PmrepReader {
        series: Series::new(source, crate::SourceFormat::Collector("pcp")),
        ..PmrepReader::default()
    };
    reader.series.clock = Clock::Utc { offsets: Vec::new() };
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    if reader.columns.is_empty() || reader.series.samples().is_empty() {
        return Err(FileRefused(
            end.describe_problem()
                .unwrap_or_else(|| "pmrep found no sample of memory or processors in it".into()),
        ));
    }
    let mut series = reader.series;
    end.note_problem(&mut series);
    Ok(series.finish())
}

#[derive(Clone, Copy, Debug)]
enum PmrepColumn {
    Known(&'static str, Metric, PcpConversion),
    Kernel,
    Machine,
    HugePage,
    /// Seconds since the host's boot.
    Uptime,
    Unknown,
}

#[derive(Default)]
struct PmrepReader {
    series: Series,
    columns: Vec<PmrepColumn>,
    before: Vec<Option<(Moment, f64)>>,
    filled: Vec<bool>,
    /// Seconds that the host had been up, last.
    uptime: Option<f64>,
}

impl PmrepReader {
    fn push_line(&mut self, line: &str) {
        let words = split_csv_line(line, usize::MAX);
        let Some((first, words)) = words.split_first() else { return };
        if self.columns.is_empty() {
            if first == "Time" {
                self.columns = words.iter().map(|word| recognize_column(word)).collect();
                self.before = vec![None; self.columns.len()];
                self.filled = vec![false; self.columns.len()];
            }
            return;
        }
        let Some(at) = parse_moment(first) else { return };
        let has = self.known_values(words);
        if !has.contains(&true) {
            for (column, word) in self.columns.clone().into_iter().zip(words) {
                self.record_fact(column, word, at);
            }
            return;
        }
        let fresh = self.begin_row(at, has);
        let mut times: Vec<(Metric, f64, bool)> = Vec::new();
        let mut sums: BTreeMap<Metric, f64> = BTreeMap::new();
        for (place, (word, _)) in words.iter().zip(fresh).enumerate().filter(|(_, (_, new))| *new) {
            let Some(column) = self.columns.get(place).copied() else { break };
            let PmrepColumn::Known(_, metric, conversion) = column else {
                self.record_fact(column, word, at);
                continue;
            };
            let Ok(value) = word.parse::<f64>() else { continue };
            if let PcpConversion::Moment(unit) = conversion {
                self.series.set_value(metric, value * unit);
                continue;
            }
            let Some((grown, passed)) = self.measure_growth(place, at, value) else { continue };
            match conversion {
                PcpConversion::Rate(unit) => {
                    *sums.entry(metric).or_default() += grown * unit / passed;
                }
                // The kernel's clock and PCP's differ a little.
                PcpConversion::Share => {
                    self.series.set_value(metric, (grown / passed / 10_000.0).min(100.0));
                }
                PcpConversion::Time => times.push((metric, grown, true)),
                PcpConversion::Within => times.push((metric, grown, false)),
                PcpConversion::Moment(_) => {}
            }
        }
        for (metric, sum) in sums {
            self.series.set_value(metric, sum);
        }
        self.set_processors(&times);
    }

    fn record_fact(&mut self, column: PmrepColumn, word: &str, at: Moment) {
        let text = || Some(word.to_owned()).filter(|word| !word.is_empty());
        match column {
            PmrepColumn::Kernel => self.series.kernel = text().or(self.series.kernel.take()),
            PmrepColumn::Machine => {
                self.series.architecture = text().or(self.series.architecture.take());
            }
            PmrepColumn::HugePage => {
                let size = word.parse::<u64>().ok().filter(|size| *size > 0);
                self.series.huge_page = size.map(Bytes).or(self.series.huge_page);
            }
            PmrepColumn::Uptime => {
                if let Ok(seconds) = word.parse::<f64>() {
                    self.note_uptime(seconds, at);
                }
            }
            PmrepColumn::Known(..) | PmrepColumn::Unknown => {}
        }
    }

    /// A host that has been up for less than before was started in between.
    fn note_uptime(&mut self, seconds: f64, at: Moment) {
        let before = self.uptime.replace(seconds);
        if before.is_some_and(|before| seconds < before) {
            let up = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let up = i64::try_from(up.as_millis()).unwrap_or(0);
            let at = Moment(at.0.saturating_sub(up));
            self.series.marks.push(Mark { at, kind: MarkKind::Restart });
        }
    }

    /// A counter's growth since its last value, and the seconds passed; none where it fell.
    fn measure_growth(&mut self, place: usize, at: Moment, value: f64) -> Option<(f64, f64)> {
        let (then, last) = self.before.get_mut(place)?.replace((at, value))?;
        let passed = at.duration_since(then)?.as_secs_f64();
        let grown = value - last;
        (passed > 0.0 && grown.is_finite() && grown >= 0.0).then_some((grown, passed))
    }

    /// Which columns a line has figures in.
    fn known_values(&self, words: &[String]) -> Vec<bool> {
        // These are in every line.
        let has = |(column, word): (&PmrepColumn, &String)| {
            let known = matches!(column, PmrepColumn::Known(name, ..) if !matches!(*name, "hinv.ncpu" | "mem.physmem"));
            known && !word.is_empty()
        };
        self.columns.iter().zip(words).map(has).collect()
    }

    /// Begins a row, unless the line adds to the current one; says which of its columns the row did
    /// not have yet: what another group fetched again milliseconds later is no new sample.
    fn begin_row(&mut self, at: Moment, has: Vec<bool>) -> Vec<bool> {
        let last = self.series.samples().last().map(|last| last.at);
        if last.is_some_and(|last| (0..TOGETHER).contains(&(at.0 - last.0))) {
            let fresh = self.filled.iter().map(|filled| !filled).collect();
            self.filled.iter_mut().zip(has).for_each(|(filled, has)| *filled |= has);
            return fresh;
        }
        let interval = last.and_then(|last| at.duration_since(last));
        self.series.push(at, interval.filter(|interval| !interval.is_zero()));
        self.filled.clone_from(&has);
        vec![true; has.len()]
    }

    fn set_processors(&mut self, times: &[(Metric, f64, bool)]) {
        let all: f64 = times.iter().filter(|(.., part)| *part).map(|(_, grown, _)| grown).sum();
        // Without the idle time the whole is unknown.
        let whole = times.iter().any(|(metric, ..)| *metric == Metric::CpuIdle);
        if !whole || all <= 0.0 {
            return;
        }
        for (metric, grown, _) in times {
            // A series counts interrupts with the kernel's time.
            let is_part = |other: Metric| {
                *metric == Metric::CpuSystem && matches!(other, Metric::CpuIrq | Metric::CpuSoftirq)
            };
            let interrupts: f64 =
                times.iter().filter(|(other, ..)| is_part(*other)).map(|(_, grown, _)| grown).sum();
            self.series.set_value(*metric, (grown + interrupts) / all * 100.0);
        }
    }
}

fn recognize_column(name: &str) -> PmrepColumn {
    match name {
        "kernel.uname.release" => return PmrepColumn::Kernel,
        "kernel.uname.machine" => return PmrepColumn::Machine,
        "hinv.hugepagesize" => return PmrepColumn::HugePage,
        "kernel.all.uptime" => return PmrepColumn::Uptime,
        _ => {}
    }
    if let Some((name, metric)) = LOADS.iter().find(|(text, _)| *text == name) {
        return PmrepColumn::Known(name, *metric, PcpConversion::Moment(1.0));
    }
    match METRICS.iter().find(|(text, ..)| *text == name) {
        Some((name, metric, conversion)) => PmrepColumn::Known(name, *metric, *conversion),
        None => PmrepColumn::Unknown,
    }
}

/// `2026-11-22 00:15:08.879505`
fn parse_moment(word: &str) -> Option<Moment> {
    let (date, time) = word.split_once(' ')?;
    let (time, part) = time.split_once('.').unwrap_or((time, ""));
    let seconds = iso_date(date)?.checked_add(time_of_day(time)?)?;
    let milliseconds = thousandths(part)?;
    Some(Moment(Moment::from_seconds(seconds).0.checked_add(milliseconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_host_and_zone() {
        let mut label = PcpArchiveLabel::default();
        for line in [
            "Log Label (Log Format Version 2)",
            "Performance metrics from host db1",
            "Archive timezone: CET-1",
        ] {
            label.push_line(line);
        }
        assert_eq!(label, PcpArchiveLabel { host: Some("db1".into()), offset: Some(3600) });
        for (zone, seconds) in [
            ("UTC", Some(0)),
            ("EST5", Some(-18_000)),
            ("IST-5:30", Some(19_800)),
            ("EST5EDT", None),
            ("X", None),
            ("", None),
        ] {
            assert_eq!(parse_posix_offset(zone), seconds, "{zone}");
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
        let values_of = |metric| (0..5).map(|row| series.value(metric, row)).collect::<Vec<_>>();
        assert_eq!(values_of(Metric::Faults), [None, Some(20.0), None, Some(10.0), None]);
        assert_eq!(values_of(Metric::PageTables)[..3], [Some(8192.0), None, Some(9216.0)]);
        assert_eq!(
            values_of(Metric::CpuSystem)[..4],
            [None, Some(50.0 / 150.0 * 100.0), Some(50.0 / 150.0 * 100.0), None]
        );
        assert_eq!(values_of(Metric::AllocStall), [None, Some(1.0), None, Some(0.5), Some(0.0)]);
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
            assert_eq!(archive_base(name), Some("/var/log/pcp/20261121"), "{name}");
        }
        assert_eq!(archive_base("20261121.00.10.0"), Some("20261121.00.10"));
        for name in ["pmlogger.log", "/var/log/.meta", "Latest", "a.xz", ""] {
            assert_eq!(archive_base(name), None, "{name}");
        }
    }

    #[test]
    fn groups_that_are_fetched_together_are_one_sample() {
        let text = "Time,\"hinv.ncpu\",\"mem.vmstat.pgfault\",\"mem.util.free\",\"kernel.all.nprocs\"\n\
            2026-11-22 00:00:00.100,8,100,,\n2026-11-22 00:00:00.130,8,,5,\n2026-11-22 \
             00:00:00.160,8,,,7\n\
            2026-11-22 00:00:10.100,8,200,,\n2026-11-22 00:00:10.130,8,,6,\n2026-11-22 \
             00:00:10.200,8,210,,\n";
        let series = read(&mut text.as_bytes(), "pcp").unwrap();
        let values_of = |metric| {
            (0..series.samples().len()).map(|row| series.value(metric, row)).collect::<Vec<_>>()
        };
        assert_eq!(values_of(Metric::MemFree), [Some(5120.0), Some(6144.0)]);
        assert_eq!(values_of(Metric::Tasks), [Some(7.0), None]);
        // 10 faults within 70 ms are of the sample that another group took, and are counted with
        // the next one's.
        assert_eq!(values_of(Metric::Faults), [None, Some(10.0)]);
        assert_eq!(series.samples()[1].interval.unwrap().as_secs(), 10);
    }

    /// 3 of 100 ticks of 10 s were the kernel's, and 5 of the 16 that passed until the second group
    /// was fetched.
    #[test]
    fn two_groups_that_log_the_processors_16_ms_apart_are_one_row() {
        let mut text = "Time,\"kernel.all.cpu.idle\",\"kernel.all.cpu.sys\"\n".to_owned();
        for second in 0..4 {
            let (idle, system) = (second * 9700, second * 300);
            text += &format!("2026-11-22 00:00:{}0.100,{idle},{system}\n", second);
            text += &format!("2026-11-22 00:00:{}0.116,{},{}\n", second, idle + 11, system + 5);
        }
        let series = read(&mut text.as_bytes(), "pcp").unwrap();
        let options = (0..series.samples().len())
            .map(|row| series.value(Metric::CpuSystem, row))
            .collect::<Vec<_>>();
        assert_eq!(options, [None, Some(3.0), Some(3.0), Some(3.0)]);
    }

    #[test]
    fn what_pmrep_does_not_print_is_refused() {
        for text in ["", "Time,\"x\"\n", "pmrep: none\n"] {
            assert!(read(&mut text.as_bytes(), "pcp").is_err());
        }
        assert!(read_archive(Path::new("-c"), "x").is_err());
    }
}
