//! What every reader makes: samples in the order of their source, and a column a metric.
//!
//! A day of 1-second samples is 86,400 rows: a value takes 8 bytes and a bit, a column that no row has takes none.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hugewise_model::{Bytes, PageSize};

use crate::{Event, Format, Metric};

mod batch;
mod column;
mod reshape;

pub(crate) use self::batch::Batch;
pub use self::column::Column;

/// A moment in milliseconds since 1970-01-01 00:00:00, of UTC or of the host's wall clock: the series' [`Clock`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

impl Moment {
    /// From whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The time since `earlier`; `None` where that is later.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.0.checked_sub(earlier.0)?).ok().map(Duration::from_millis)
    }
}

/// Which clock the moments of a series are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Moments are UTC. `offsets` are the host's own, each from a moment on, in order; empty where not known.
    Utc {
        /// From when on which offset.
        offsets: Vec<Offset>,
    },
    /// Moments are what the host's wall clock showed.
    Wall {
        /// The zone's abbreviation where the source prints one; `CST` and `IST` are each several zones.
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
            Self::Utc { offsets } => {
                let known = offsets.iter().rev().find(|offset| offset.from <= at).or_else(|| offsets.first());
                known.map(|offset| offset.seconds)
            }
            Self::Wall { .. } => None,
        }
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

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken, which is the end of its interval.
    pub at: Moment,
    /// What its rates and percentages are of; `None` for the first one and the first after a restart, which have none.
    pub interval: Option<Duration>,
}

/// Something that the source says about a moment.
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
    Event(Event),
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
    pub format: Format,
    /// Of the tool that wrote it: `12.6.1`.
    pub version: Option<String>,
    /// Which clock its moments are of.
    pub clock: Clock,
    /// The base page, where the source says it.
    pub base_page: Option<PageSize>,
    /// The page that its rates of pages are of where that is not the host's: its reader made pages of bytes.
    pub counted_in: Option<PageSize>,
    /// The default huge page size, where the source says it.
    pub huge_page: Option<Bytes>,
    /// Restarts and comments, in the source's order.
    pub marks: Vec<Mark>,
    /// What is wrong with parts of it.
    pub problems: Vec<Problem>,
    /// The first and the last moment that a log has lines of: it has no samples.
    pub covered: Option<(Moment, Moment)>,
    /// Whether its lines came through a service into which every user of the host may write.
    pub relayed: bool,
    /// Whether its lines say no year, so that its moments are of a year that stands for the right one.
    pub without_year: bool,
    /// Metrics that the source has and that are known to be false in it, with the reason. Their columns are empty.
    pub untrusted: Vec<(Metric, String)>,
    samples: Vec<Sample>,
    columns: Vec<Column>,
    commands: BTreeMap<(String, Use), Column>,
    held: usize,
    full: bool,
    /// Rows that were left out when it was thinned.
    left_out: usize,
    /// Where files were put one behind the other: the first moment of each but the first.
    seams: Vec<Moment>,
}

/// Rows of one file: more than a month of seconds. A few kilobytes of compressed dates could be billions.
const MOST_SAMPLES: usize = 4 << 20;
/// Values of one file, 8 bytes each: twelve days of seconds with sixty metrics. A command that is there for the first time in
/// the last row takes as many as there are rows.
const MOST_VALUES: usize = 64 << 20;
/// Commands that are kept, each with what is told of it, those that came first: an archive of a day names thousands.
const MOST_COMMANDS: usize = 512;

/// What is told of a command, of all its processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// How many there are.
    Processes,
    /// Bytes of memory that they have resident, what they share counted in each.
    Resident,
    /// How many wait without a break (state D), for a disk or within the kernel.
    Stuck,
    /// Bytes of page tables that they took since the look before; of those that are listed, which may be a part of them.
    PageTablesGrown,
}

impl Series {
    /// A series without samples.
    pub fn new(source: impl Into<String>, format: Format) -> Self {
        Self { source: source.into(), format, ..Self::default() }
    }

    /// Begins the next row. What comes when there are too many already is left out, and told.
    pub fn push(&mut self, at: Moment, interval: Option<Duration>) {
        if self.full {
            return;
        }
        if self.samples.len() < MOST_SAMPLES {
            self.samples.push(Sample { at, interval });
        } else {
            self.is_full(&format!("{MOST_SAMPLES} samples"));
        }
    }

    /// Notes that a log has a line of that moment.
    pub(crate) fn covers(&mut self, at: Moment) {
        let (from, to) = self.covered.unwrap_or((at, at));
        self.covered = Some((from.min(at), to.max(at)));
    }

    /// What a log says happened, in its order.
    pub fn events(&self) -> impl Iterator<Item = (Moment, &Event)> {
        self.marks.iter().filter_map(|mark| match &mark.kind {
            MarkKind::Event(event) => Some((mark.at, event)),
            MarkKind::Restart | MarkKind::Resumed | MarkKind::Comment(_) => None,
        })
    }

    /// Leaves out what comes from here on, and tells.
    fn is_full(&mut self, of: &str) {
        if !self.full {
            self.full = true;
            let what = format!("has more than {of}; the rest is left out");
            self.problems.push(Problem { at: self.samples.last().map(|last| last.at), what });
        }
    }

    /// Whether so many more values may be held.
    fn has_room(&mut self, growth: usize) -> bool {
        let held = self.held.saturating_add(growth);
        if held > MOST_VALUES {
            self.is_full(&format!("{MOST_VALUES} values"));
            return false;
        }
        self.held = held;
        true
    }

    /// Sets a value of the row begun last. What is no number, or negative, is left absent: no metric can be.
    #[inline]
    pub fn set(&mut self, metric: Metric, value: f64) {
        let Some(row) = self.samples.len().checked_sub(1).filter(|_| !self.full) else { return };
        let is_value = (0.0..f64::INFINITY).contains(&value);
        match self.columns.get_mut(metric.index()) {
            Some(column) if is_value && column.rows == row && self.held < MOST_VALUES => {
                self.held += 1;
                column.push(value);
            }
            _ => self.set_at(row, metric, value),
        }
    }

    /// Sets a value of any row: sources that print a table after another come back to a row. Rows not begun are left alone.
    pub fn set_at(&mut self, row: usize, metric: Metric, value: f64) {
        if row >= self.samples.len() || !value.is_finite() || value < 0.0 {
            return;
        }
        if self.columns.is_empty() {
            self.columns.resize_with(Metric::ALL.len(), Column::default);
        }
        let growth = self.columns.get(metric.index()).map_or(0, |column| column.growth(row));
        if growth > 0 && !self.has_room(growth) {
            return;
        }
        if let Some(column) = self.columns.get_mut(metric.index()) {
            column.set(row, value);
        }
    }

    /// Sets how many processes run a command in the row begun last. A command that comes when there are many already is
    /// left out.
    #[cfg(test)]
    pub(crate) fn set_command(&mut self, command: &str, processes: u32) {
        self.set_use(command, Use::Processes, f64::from(processes));
    }

    /// Sets what all processes of a command have in the row begun last. A command that comes when there are many already is
    /// left out.
    pub(crate) fn set_use(&mut self, command: &str, of: Use, value: f64) {
        let Some(row) = self.samples.len().checked_sub(1).filter(|_| !self.full) else { return };
        let key = (command.to_owned(), of);
        let known = self.commands.get(&key);
        if known.is_none() && self.commands.len() >= MOST_COMMANDS {
            return;
        }
        let growth = known.map_or(row + 1, |column| column.growth(row));
        if growth > 0 && !self.has_room(growth) {
            return;
        }
        self.commands.entry(key).or_default().set(row, value);
    }

    /// How many processes ran each command, of those that had many at some moment.
    pub fn commands(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.uses(Use::Processes)
    }

    /// What all processes of each command had together, of those that are followed.
    pub fn uses(&self, of: Use) -> impl Iterator<Item = (&str, &Column)> {
        let of_it = self.commands.iter().filter(move |((_, what), _)| *what == of);
        of_it.map(|((command, _), column)| (command.as_str(), column))
    }

    /// Makes room for so many rows of what it has.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.samples.reserve(rows.saturating_sub(self.samples.len()));
        for column in self.columns.iter_mut().filter(|column| !column.values.is_empty()) {
            column.values.reserve(rows.saturating_sub(column.values.len()));
        }
    }

    /// Puts a later part of the same source behind this one: its rows after the last row here, its marks and problems.
    /// Rows that are not later than that are of a copy or of a clock that went back, and left out; how many is returned.
    pub fn append(&mut self, part: Self) -> usize {
        let reached = self.samples.last().map(|last| last.at);
        let later = |sample: &Sample| reached.is_none_or(|reached| sample.at > reached);
        let skipped = part.samples.iter().take_while(|sample| !later(sample)).count();
        let base = self.samples.len();
        let begins = part.samples.get(skipped).map(|first| first.at).filter(|_| reached.is_some());
        self.seams.extend(begins);
        self.seams.extend(part.seams.iter().filter(|seam| begins.is_some_and(|begins| **seam > begins)));
        self.samples.extend(part.samples.into_iter().skip(skipped));
        let joined = |mine: &mut Column, theirs: &Column| {
            mine.extend(base, skipped..theirs.rows, theirs);
        };
        if self.columns.len() < part.columns.len() {
            self.columns.resize_with(part.columns.len(), Column::default);
        }
        for (mine, theirs) in self.columns.iter_mut().zip(&part.columns) {
            joined(mine, theirs);
        }
        for (command, theirs) in &part.commands {
            if self.commands.len() < MOST_COMMANDS || self.commands.contains_key(command) {
                joined(self.commands.entry(command.clone()).or_default(), theirs);
            }
        }
        self.marks.extend(part.marks.into_iter().filter(|mark| reached.is_none_or(|reached| mark.at > reached)));
        if let Some((from, to)) = part.covered {
            self.covers(from);
            self.covers(to);
        }
        self.without_year |= part.without_year;
        self.relayed |= part.relayed;
        self.problems.extend(part.problems);
        for (metric, why) in part.untrusted {
            if !self.untrusted.iter().any(|(of, _)| *of == metric) {
                self.untrusted.push((metric, why));
            }
        }
        if let (Clock::Utc { offsets }, Clock::Utc { offsets: theirs }) = (&mut self.clock, part.clock) {
            for offset in theirs {
                if offsets.last().is_none_or(|last| last.seconds != offset.seconds) {
                    offsets.push(offset);
                }
            }
        }
        self.left_out = self.left_out.saturating_add(part.left_out);
        self.kernel = part.kernel.or(self.kernel.take());
        self.architecture = part.architecture.or(self.architecture.take());
        self.version = part.version.or(self.version.take());
        self.base_page = part.base_page.or(self.base_page);
        self.counted_in = part.counted_in.or(self.counted_in);
        self.huge_page = part.huge_page.or(self.huge_page);
        skipped
    }

    /// Empties a column that is known to be false, and says why.
    pub(crate) fn distrust(&mut self, metric: Metric, why: impl Into<String>) {
        if let Some(column) = self.columns.get_mut(metric.index()) {
            *column = Column::default();
        }
        self.untrusted.push((metric, why.into()));
    }

    /// Gives back memory that growing took; the last call of a reader.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.samples.shrink_to_fit();
        for column in self.columns.iter_mut().chain(self.commands.values_mut()) {
            column.values.shrink_to_fit();
            column.present.shrink_to_fit();
        }
        self
    }

    /// Notes what is wrong with the source as a whole.
    pub fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(Problem { at: None, what: what.into() });
    }

    /// Notes what is wrong at one moment.
    pub(crate) fn problem_at(&mut self, at: Moment, what: impl Into<String>) {
        self.problems.push(Problem { at: Some(at), what: what.into() });
    }

    /// How many rows there were: more than [`samples`](Self::samples) where it was thinned for charts.
    pub fn rows(&self) -> usize {
        self.samples.len().saturating_add(self.left_out)
    }

    /// The first moment of each file that was put behind another.
    pub(crate) fn seams(&self) -> &[Moment] {
        &self.seams
    }

    /// The rows, in the source's order.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// A metric's values; `None` where no row has one.
    pub fn column(&self, metric: Metric) -> Option<&Column> {
        self.columns.get(metric.index()).filter(|column| column.rows > 0)
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_zero() {
        let mut series = Series::new("/var/log/sa/sa01", crate::Format::Sysstat);
        series.set(Metric::MemFree, 1.0);
        assert_eq!(series.column(Metric::MemFree), None);
        for row in 0..130 {
            series.push(Moment::from_seconds(row), None);
            if row == 70 {
                series.set(Metric::MemFree, 0.0);
            }
        }
        series.set(Metric::CpuIdle, f64::NAN);
        series.set(Metric::CpuIdle, -1.0);
        series.set_at(130, Metric::CpuIdle, 1.0);
        let series = series.finished();
        assert_eq!(series.column(Metric::MemFree).unwrap().iter().collect::<Vec<_>>(), [(70, 0.0)]);
        assert_eq!([69, 70, 71, 1000].map(|row| series.value(Metric::MemFree, row)), [None, Some(0.0), None, None]);
        assert_eq!(series.metrics().collect::<Vec<_>>(), [Metric::MemFree]);
    }

    #[test]
    fn rows_without_end_are_cut_and_told() {
        let mut series = Series::new("bomb", crate::Format::Loop(crate::Tool::Meminfo));
        for row in 0..i64::try_from(MOST_SAMPLES).unwrap() + 3 {
            series.push(Moment(row), None);
        }
        series.set(Metric::MemFree, 1.0);
        assert_eq!((series.samples().len(), series.problems.len()), (MOST_SAMPLES, 1));
        assert_eq!(series.column(Metric::MemFree), None);
    }

    /// A row is a few bytes of a compressed log; a command that is new in the last one takes a value a row.
    #[test]
    fn values_without_end_are_cut_and_told() {
        let mut series = Series::new("bomb", Format::Sysstat);
        let rows = MOST_VALUES / 64;
        for row in 0..i64::try_from(rows).unwrap() {
            series.push(Moment(row), None);
        }
        for command in 0..200 {
            series.set_command(&format!("command{command}"), 1);
        }
        series.set(Metric::MemFree, 1.0);
        assert_eq!((series.commands().count(), series.problems.len()), (64, 1));
        assert_eq!((series.column(Metric::MemFree), series.held), (None, MOST_VALUES));
        assert_eq!(series.problems[0].at, Some(Moment(i64::try_from(rows).unwrap() - 1)));
    }

    #[test]
    fn the_offset_is_that_of_the_moment() {
        let offset = |from, seconds| Offset { from: Moment::from_seconds(from), seconds };
        let clock = Clock::Utc { offsets: vec![offset(100, 3600), offset(200, 7200)] };
        let at = |seconds| clock.offset_at(Moment::from_seconds(seconds));
        assert_eq!([at(0), at(100), at(199), at(200)], [Some(3600), Some(3600), Some(3600), Some(7200)]);
        assert_eq!(Clock::default().offset_at(Moment(0)), None);
    }

    #[test]
    fn names_are_distinct_and_end_in_their_unit() {
        let mut names: Vec<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        for (place, metric) in Metric::ALL.iter().enumerate() {
            let unit = match metric.unit() {
                crate::Unit::Percent => "_percent",
                crate::Unit::Bytes => "_bytes",
                crate::Unit::BytesPerSecond => "_bytes_per_second",
                crate::Unit::PerSecond => "_per_second",
                crate::Unit::Count => "",
            };
            assert!(metric.name().ends_with(unit), "{metric:?}");
            assert_eq!(metric.index(), place);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
    }
}
