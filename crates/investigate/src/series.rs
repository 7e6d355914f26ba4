//! What every reader makes: samples in the order of their source, and a column a metric. A value
//! takes 8 bytes and a bit; a column that no row has takes none.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hugewise_model::{Bytes, PageSize, calendar};
use jiff::civil::DateTime;

use crate::{LogEvent, Metric, SourceFormat};

mod batch;
mod column;
mod columns;
mod reshape;

pub(crate) use self::batch::SeriesBatch;
pub use self::column::MetricColumn;
use self::columns::MetricColumns;

/// Milliseconds since 1970-01-01 00:00:00, of UTC or a wall clock: the series' [`Clock`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

impl Moment {
    /// From whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The time since `earlier`; `None` where that is later.
    pub fn duration_since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.0.checked_sub(earlier.0)?).ok().map(Duration::from_millis)
    }
}

/// Which clock the moments of a series are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// UTC. `offsets` are the host's own, each from a moment on, in order; empty where not known.
    Utc {
        /// From when on which offset.
        offsets: Vec<Offset>,
    },
    /// What the host's wall clock showed.
    Wall {
        /// The zone's abbreviation, if printed; `CST` and `IST` are each several zones.
        zone: Option<String>,
    },
}

impl Default for Clock {
    fn default() -> Self {
        Self::Wall { zone: None }
    }
}

impl Clock {
    /// The host's offset from UTC in seconds at a moment, where it is known.
    pub fn offset_at(&self, at: Moment) -> Option<i32> {
        match self {
            Self::Utc { offsets } => offset_at(offsets, at),
            Self::Wall { .. } => None,
        }
    }

    /// A moment in RFC 3339 with the host's offset, with `Z` where that is not known, or without
    /// either for a wall clock; `?` outside of the years that it can write.
    pub fn format(&self, at: Moment) -> String {
        self.format_known(at).unwrap_or_else(|| "?".into())
    }

    /// The same; `None` outside of the years that it can write.
    pub fn format_known(&self, at: Moment) -> Option<String> {
        match self {
            Self::Wall { .. } => calendar::format_wall_time(at.0),
            Self::Utc { .. } => calendar::format_with_offset(at.0, self.offset_at(at)),
        }
    }

    /// What the wall shows at a moment: the host's, where its offset is known.
    pub fn civil_time(&self, at: Moment) -> Option<DateTime> {
        let ahead = i64::from(self.offset_at(at).unwrap_or(0)) * 1000;
        calendar::civil_time(at.0.checked_add(ahead)?)
    }
}

/// The host's offset from UTC from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Since when.
    pub from: Moment,
    /// Seconds east of Greenwich.
    pub seconds: i32,
}

/// The offset in force at a moment; before the first change, the first one.
pub(crate) fn offset_at(offsets: &[Offset], at: Moment) -> Option<i32> {
    let later = offsets.partition_point(|offset| offset.from <= at);
    let known = later.checked_sub(1).and_then(|last| offsets.get(last));
    known.or_else(|| offsets.first()).map(|offset| offset.seconds)
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesSample {
    /// When it was taken, at the end of its interval.
    pub at: Moment,
    /// What its rates cover; `None` for the first row and the first after a restart.
    pub interval: Option<Duration>,
}

/// What the source says about a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Moment,
    /// What.
    pub kind: MarkKind,
}

/// What a [`Mark`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The collector started anew, as it does when the host boots.
    Restart,
    /// The collector started anew on a host that had been up all along.
    Resumed,
    /// Somebody's words.
    Comment(String),
    /// What a log says happened.
    Event(LogEvent),
}

/// What a log has instead of times with a date: its moments count from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnplacedTimes {
    /// Seconds since the kernel started.
    SinceBoot,
    /// Times of some day.
    OfSomeDay,
    /// Nothing at all.
    Untimed,
}

impl UnplacedTimes {
    /// What its lines lack, and what has it.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SinceBoot => {
                "its times are seconds since the kernel started, which is shown as 1970-01-01: \
                 dmesg -T has the times"
            }
            Self::OfSomeDay => {
                "its lines give no day: shown as of 1970-01-01; --from gives the day"
            }
            Self::Untimed => {
                "its lines have no times (a kernel's: dmesg -t, or printk.time=0), shown as of \
                 1970-01-01: dmesg -T, journalctl -k and the server's own log have them"
            }
        }
    }
}

/// What is wrong with a part of the source, or what it cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// When, where it is of one moment.
    pub at: Option<Moment>,
    /// What.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// What one source tells about one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The host's name, where the source says it.
    pub host: Option<String>,
    /// The kernel's release, where the source says it.
    pub kernel: Option<String>,
    /// `x86_64`, where the source says it.
    pub architecture: Option<String>,
    /// The file or folder, as it was given or found.
    pub source: String,
    /// What kind of file.
    pub format: SourceFormat,
    /// Of the tool that wrote it: `12.6.1`.
    pub version: Option<String>,
    /// Which clock its moments are of.
    pub clock: Clock,
    /// The base page, where the source says it.
    pub base_page: Option<PageSize>,
    /// The page that its rates count, where that is not the host's: the reader made pages of bytes.
    pub counted_in: Option<PageSize>,
    /// The default huge page size, where the source says it.
    pub huge_page: Option<Bytes>,
    /// Restarts and comments, in the source's order.
    pub marks: Vec<Mark>,
    /// What is wrong with parts of it.
    pub problems: Vec<Problem>,
    /// The first and the last moment of a log's lines: it has no samples.
    pub covered: Option<(Moment, Moment)>,
    /// Whether its lines came through a service into which every local user may write.
    pub relayed: bool,
    /// Whether its lines lack a year, so that its moments have a placeholder year.
    pub without_year: bool,
    /// Why its moments are of no calendar, where nothing in it says a date.
    pub unplaced: Option<UnplacedTimes>,
    /// Metrics known to be false in this source, with the reason; their columns are empty.
    pub untrusted: Vec<(Metric, String)>,
    samples: Vec<SeriesSample>,
    columns: MetricColumns,
    commands: BTreeMap<(String, Use), MetricColumn>,
    held: usize,
    full: bool,
    left_out: usize,
    /// Files that tell of the same time as this one and others, and are left out.
    files_left_out: usize,
    /// The first moment of each joined file but the first.
    seams: Vec<Moment>,
}

/// Rows of one file, a month of seconds: a few KB of compressed dates can be billions.
const MOST_SAMPLES: usize = 3 << 20;
/// Values of one file, 8 bytes each: a day of seconds with two hundred metrics. A command that
/// first appears in the last row takes as many as there are rows.
const MOST_VALUES: usize = 20 << 20;
const BEYOND_MEMORY: &str = "they exceed memory, as in a container, which sees its own memory beside the host's page tables \
     and pools";
/// Commands that are kept, the first ones: an archive of a day names thousands.
const MOST_COMMANDS: usize = 512;

/// What a column counts of all processes of a command together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// How many there are.
    Processes,
    /// Bytes of resident memory, shared memory counted in each process.
    Resident,
    /// How many are in state D: they wait for a disk or within the kernel.
    Stuck,
    /// Percent of one processor, of all processes of the command that took some.
    Processor,
    /// Bytes of page tables taken since the sample before, by the processes that are listed.
    PageTablesGrown,
}

impl Series {
    /// A series without samples.
    pub fn new(source: impl Into<String>, format: SourceFormat) -> Self {
        Self { source: source.into(), format, ..Self::default() }
    }

    /// Begins the next row; what exceeds a limit is left out, and reported.
    pub fn push(&mut self, at: Moment, interval: Option<Duration>) {
        if self.full {
            return;
        }
        if self.samples.len() < MOST_SAMPLES {
            self.samples.push(SeriesSample { at, interval });
        } else {
            self.mark_full(&format!("{MOST_SAMPLES} samples"));
        }
    }

    pub(crate) fn extend_coverage(&mut self, at: Moment) {
        let (from, to) = self.covered.unwrap_or((at, at));
        self.covered = Some((from.min(at), to.max(at)));
    }

    /// What a log says happened, in its order.
    pub fn events(&self) -> impl Iterator<Item = (Moment, &LogEvent)> {
        self.marks.iter().filter_map(|mark| match &mark.kind {
            MarkKind::Event(event) => Some((mark.at, event)),
            MarkKind::Restart | MarkKind::Resumed | MarkKind::Comment(_) => None,
        })
    }

    fn mark_full(&mut self, text: &str) {
        if !self.full {
            self.full = true;
            let what = format!("has more than {text}; the rest is left out");
            self.problems.push(Problem { at: self.samples.last().map(|last| last.at), what });
        }
    }

    fn claim_room(&mut self, growth: usize) -> bool {
        let held = self.held.saturating_add(growth);
        if held > MOST_VALUES {
            self.mark_full(&format!("{MOST_VALUES} values"));
            return false;
        }
        self.held = held;
        true
    }

    /// Sets a value of the row begun last; one that is negative or no number stays absent.
    #[inline]
    pub fn set_value(&mut self, metric: Metric, value: f64) {
        let Some(row) = self.samples.len().checked_sub(1).filter(|_| !self.full) else { return };
        let is_value = (0.0..f64::INFINITY).contains(&value);
        match self.columns.get_mut(metric) {
            Some(column) if is_value && column.rows == row && self.held < MOST_VALUES => {
                self.held += 1;
                column.push(value);
            }
            _ => self.set_at(row, metric, value),
        }
    }

    /// Sets a value of any row that was begun: some sources print one table after another.
    pub fn set_at(&mut self, row: usize, metric: Metric, value: f64) {
        if row >= self.samples.len() || !value.is_finite() || value < 0.0 {
            return;
        }
        let growth = self.columns.get(metric).map_or(row + 1, |column| column.growth_at(row));
        if growth > 0 && !self.claim_room(growth) {
            return;
        }
        if let Some(column) = self.columns.get_or_add(metric) {
            column.set_value(row, value);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_command(&mut self, command: &str, processes: u32) {
        self.set_use(command, Use::Processes, f64::from(processes));
    }

    /// Sets a value of a command in the row begun last; commands that exceed a limit are left out.
    pub(crate) fn set_use(&mut self, command: &str, usage: Use, value: f64) {
        let Some(row) = self.samples.len().checked_sub(1).filter(|_| !self.full) else { return };
        let key = (command.to_owned(), usage);
        let known = self.commands.get(&key);
        if known.is_none() && self.commands.len() >= MOST_COMMANDS {
            return;
        }
        let growth = known.map_or(row + 1, |column| column.growth_at(row));
        if growth > 0 && !self.claim_room(growth) {
            return;
        }
        self.commands.entry(key).or_default().set_value(row, value);
    }

    /// What all processes of each command had together, of the commands that are followed.
    pub fn command_columns(&self, usage: Use) -> impl Iterator<Item = (&str, &MetricColumn)> {
        let of_it = self.commands.iter().filter(move |((_, what), _)| *what == usage);
        of_it.map(|((command, _), column)| (command.as_str(), column))
    }

    /// Whether it tells programs apart: a list of processes, or what top shows of them.
    pub(crate) fn lists_processes(&self) -> bool {
        let threads = [Metric::KswapdCpu, Metric::KhugepagedCpu, Metric::KcompactdCpu];
        !self.commands.is_empty() || threads.iter().any(|metric| self.column(*metric).is_some())
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.samples.reserve(rows.saturating_sub(self.samples.len()));
        for column in self.columns.iter_mut().filter(|column| !column.values.is_empty()) {
            column.values.reserve(rows.saturating_sub(column.values.len()));
        }
    }

    /// Appends a later part of the same source. Rows that are not later than the last one here are
    /// of a copy or of a clock that went back, and are left out; returns how many.
    pub fn append(&mut self, part: Self) -> usize {
        let reached = self.samples.last().map(|last| last.at);
        let later = |sample: &SeriesSample| reached.is_none_or(|reached| sample.at > reached);
        let skipped = part.samples.iter().take_while(|sample| !later(sample)).count();
        let base = self.samples.len();
        let begins = part.samples.get(skipped).map(|first| first.at).filter(|_| reached.is_some());
        self.seams.extend(begins);
        self.seams
            .extend(part.seams.iter().filter(|seam| begins.is_some_and(|begins| **seam > begins)));
        self.samples.extend(part.samples.into_iter().skip(skipped));
        let joined = |mine: &mut MetricColumn, theirs: &MetricColumn| {
            mine.extend_from_rows(base, skipped..theirs.rows, theirs);
        };
        for metric in Metric::ALL {
            if let Some(theirs) = part.columns.get(*metric)
                && let Some(mine) = self.columns.get_or_add(*metric)
            {
                joined(mine, theirs);
            }
        }
        for (command, theirs) in &part.commands {
            if self.commands.len() < MOST_COMMANDS || self.commands.contains_key(command) {
                joined(self.commands.entry(command.clone()).or_default(), theirs);
            }
        }
        self.marks.extend(
            part.marks.into_iter().filter(|mark| reached.is_none_or(|reached| mark.at > reached)),
        );
        if let Some((from, to)) = part.covered {
            self.extend_coverage(from);
            self.extend_coverage(to);
        }
        self.without_year |= part.without_year;
        self.unplaced = self.unplaced.or(part.unplaced);
        self.relayed |= part.relayed;
        self.problems.extend(part.problems);
        for (metric, why) in part.untrusted {
            if !self.untrusted.iter().any(|(other, _)| *other == metric) {
                self.untrusted.push((metric, why));
            }
        }
        if let (Clock::Utc { offsets }, Clock::Utc { offsets: theirs }) =
            (&mut self.clock, part.clock)
        {
            for offset in theirs {
                if offsets.last().is_none_or(|last| last.seconds != offset.seconds) {
                    offsets.push(offset);
                }
            }
        }
        self.left_out = self.left_out.saturating_add(part.left_out);
        self.files_left_out = self.files_left_out.saturating_add(part.files_left_out);
        self.kernel = part.kernel.or(self.kernel.take());
        self.architecture = part.architecture.or(self.architecture.take());
        self.version = part.version.or(self.version.take());
        self.base_page = part.base_page.or(self.base_page);
        self.counted_in = part.counted_in.or(self.counted_in);
        self.huge_page = part.huge_page.or(self.huge_page);
        skipped
    }

    pub(crate) fn distrust_metric(&mut self, metric: Metric, why: impl Into<String>) {
        if let Some(column) = self.columns.get_mut(metric) {
            *column = MetricColumn::default();
        }
        self.untrusted.push((metric, why.into()));
    }

    /// Gives back memory that growing took; a reader's last call.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.distrust_foreign_memory();
        self.samples.shrink_to_fit();
        self.marks.shrink_to_fit();
        self.columns.shrink_to_fit();
        for column in self.columns.iter_mut().chain(self.commands.values_mut()) {
            column.values.shrink_to_fit();
            column.present.shrink_to_fit();
        }
        self
    }

    /// In a container lxcfs shows the container's MemTotal beside page tables and pools of the host.
    /// What exceeds memory is another machine's number.
    fn distrust_foreign_memory(&mut self) {
        let most = |metric| {
            let values = self.column(metric).into_iter().flat_map(MetricColumn::iter);
            values.map(|(_, value)| value).max_by(f64::total_cmp)
        };
        let Some(memory) = most(Metric::MemTotal).filter(|memory| *memory > 0.0) else { return };
        let exceeds = |metric| most(metric).is_some_and(|value| value > memory);
        let tables = exceeds(Metric::PageTables);
        let pool = exceeds(Metric::HugeTotal);
        if tables {
            self.distrust_metric(Metric::PageTables, BEYOND_MEMORY);
        }
        if pool {
            let all = [Metric::HugeTotal, Metric::HugeFree, Metric::HugeReserved];
            all.into_iter().for_each(|metric| self.distrust_metric(metric, BEYOND_MEMORY));
        }
    }

    /// Notes a problem of the whole source.
    pub fn add_problem(&mut self, what: impl Into<String>) {
        self.problems.push(Problem { at: None, what: what.into() });
    }

    pub(crate) fn problem_at(&mut self, at: Moment, what: impl Into<String>) {
        self.problems.push(Problem { at: Some(at), what: what.into() });
    }

    /// How many rows there were before thinning.
    pub fn total_rows(&self) -> usize {
        self.samples.len().saturating_add(self.left_out)
    }

    pub(crate) const fn files_left_out(&self) -> usize {
        self.files_left_out
    }

    pub(crate) const fn leave_out_file(&mut self) {
        self.files_left_out = self.files_left_out.saturating_add(1);
    }

    pub(crate) fn file_seams(&self) -> &[Moment] {
        &self.seams
    }

    /// The rows, in the source's order.
    pub fn samples(&self) -> &[SeriesSample] {
        &self.samples
    }

    /// A metric's values; `None` where no row has one.
    pub fn column(&self, metric: Metric) -> Option<&MetricColumn> {
        self.columns.get(metric)
    }

    /// One value.
    pub fn value(&self, metric: Metric, row: usize) -> Option<f64> {
        self.column(metric)?.get(row)
    }

    /// The metrics that at least one row has.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        Metric::ALL.iter().copied().filter(|metric| self.column(*metric).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_by_the_clock_that_it_is_of() {
        let at = Moment::from_seconds(1_700_000_000);
        let utc = |offset: &[i32]| Clock::Utc {
            offsets: offset.iter().map(|seconds| Offset { from: at, seconds: *seconds }).collect(),
        };
        assert_eq!(utc(&[3600]).format(at), "2023-11-14T23:13:20+01:00");
        assert_eq!(utc(&[-12_600]).format(at), "2023-11-14T18:43:20-03:30");
        assert_eq!(utc(&[]).format(at), "2023-11-14T22:13:20Z");
        assert_eq!(Clock::default().format(at), "2023-11-14T22:13:20");
        assert_eq!(Clock::default().format(Moment(1_700_000_000_250)), "2023-11-14T22:13:20.25");
        assert_eq!(Clock::default().format(Moment(i64::MAX)), "?");
        assert_eq!(
            utc(&[3600]).civil_time(at).map(|time| time.to_string()).as_deref(),
            Some("2023-11-14T23:13:20")
        );
    }

    #[test]
    fn absent_is_not_zero() {
        let mut series = Series::new("/var/log/sa/sa01", crate::SourceFormat::SYSSTAT);
        series.set_value(Metric::MemFree, 1.0);
        assert_eq!(series.column(Metric::MemFree), None);
        for row in 0..130 {
            series.push(Moment::from_seconds(row), None);
            if row == 70 {
                series.set_value(Metric::MemFree, 0.0);
            }
        }
        series.set_value(Metric::CpuIdle, f64::NAN);
        series.set_value(Metric::CpuIdle, -1.0);
        series.set_at(130, Metric::CpuIdle, 1.0);
        let series = series.finish();
        assert_eq!(series.column(Metric::MemFree).unwrap().iter().collect::<Vec<_>>(), [(70, 0.0)]);
        assert_eq!(
            [69, 70, 71, 1000].map(|row| series.value(Metric::MemFree, row)),
            [None, Some(0.0), None, None]
        );
        assert_eq!(series.metrics().collect::<Vec<_>>(), [Metric::MemFree]);
    }

    #[test]
    fn rows_without_end_are_cut_and_told() {
        let mut series =
            Series::new("bomb", crate::SourceFormat::Loop(crate::CollectedTool::Meminfo));
        for row in 0..i64::try_from(MOST_SAMPLES).unwrap() + 3 {
            series.push(Moment(row), None);
        }
        series.set_value(Metric::MemFree, 1.0);
        assert_eq!((series.samples().len(), series.problems.len()), (MOST_SAMPLES, 1));
        assert_eq!(series.column(Metric::MemFree), None);
    }

    /// A row is a few bytes of a compressed log; a command that is new in the last one takes a
    /// value a row.
    #[test]
    fn values_without_end_are_cut_and_told() {
        let mut series = Series::new("bomb", SourceFormat::SYSSTAT);
        let rows = MOST_VALUES / 64;
        for row in 0..i64::try_from(rows).unwrap() {
            series.push(Moment(row), None);
        }
        for command in 0..200 {
            series.set_command(&format!("command{command}"), 1);
        }
        series.set_value(Metric::MemFree, 1.0);
        assert_eq!(
            (series.command_columns(Use::Processes).count(), series.problems.len()),
            (64, 1)
        );
        assert_eq!((series.column(Metric::MemFree), series.held), (None, MOST_VALUES));
        assert_eq!(series.problems[0].at, Some(Moment(i64::try_from(rows).unwrap() - 1)));
    }

    #[test]
    fn the_offset_is_that_of_the_moment() {
        let offset = |from, seconds| Offset { from: Moment::from_seconds(from), seconds };
        let clock = Clock::Utc { offsets: vec![offset(100, 3600), offset(200, 7200)] };
        let at = |seconds| clock.offset_at(Moment::from_seconds(seconds));
        assert_eq!(
            [at(0), at(100), at(199), at(200)],
            [Some(3600), Some(3600), Some(3600), Some(7200)]
        );
        assert_eq!(Clock::default().offset_at(Moment(0)), None);
    }

    #[test]
    fn names_are_distinct_and_end_in_their_unit() {
        let mut names: Vec<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        for (place, metric) in Metric::ALL.iter().enumerate() {
            let unit = match metric.unit() {
                crate::MetricUnit::Percent => "_percent",
                crate::MetricUnit::Bytes => "_bytes",
                crate::MetricUnit::BytesPerSecond => "_bytes_per_second",
                crate::MetricUnit::PerSecond => "_per_second",
                crate::MetricUnit::Count => "",
            };
            assert!(metric.name().ends_with(unit), "{metric:?}");
            assert_eq!(metric.index(), place);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
    }
}
