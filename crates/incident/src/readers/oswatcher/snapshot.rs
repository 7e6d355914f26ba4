//! What stands behind one date, and the rows that it makes.

use std::collections::BTreeSet;
use std::time::Duration;

use hugewise_model::Bytes;

use crate::Tool;
use crate::readers::calendar::{DAY, time_of_day};
use crate::readers::iostat;
use crate::readers::slabinfo::Slabs;
use crate::readers::stamp::Stamp;
use crate::readers::top::Pass;
use crate::readers::{ps, vmstat};
use crate::series::Use;
use crate::{Metric, Moment, Series};

/// `vmstat 1 3`, the first line of which is since the boot: more lines run on.
const MOST_LINES: usize = 3;
/// `iostat -x 1 3`, the first report of which is since the boot: more run on.
const MOST_REPORTS: usize = 3;
/// `top -n 2`, the first pass of which is since the boot: more passes run on.
const MOST_PASSES: usize = 2;
/// Commands that never have so many processes have no column.
const MANY: u32 = 10;
/// Commands that have one at most.
const MOST_FOLLOWED: usize = 128;
/// Commands with the most memory in a table, and the KiB from which on one is followed for it.
const LARGEST: usize = 8;
const LARGE: u64 = 128 << 10;

/// A line of vmstat.
struct Line {
    time: Option<i64>,
    values: Vec<f64>,
}

/// The snapshot at hand, and the series that it goes into.
pub(super) struct Snapshot {
    pub(super) series: Series,
    /// Seconds between the lines of vmstat, where a heading says them.
    pub(super) delay: Option<u32>,
    pub(super) processors: Option<u32>,
    /// Dates so far.
    pub(super) dates: u64,
    /// Whether vmstat's lines are a second apart unless a heading says otherwise.
    watcher: bool,
    /// The date, its seconds by the wall clock, and whether top's first pass was taken out before it was written.
    at: Option<(Moment, i64, bool)>,
    /// What a line said of the time of those to come.
    time: Option<i64>,
    columns: Vec<String>,
    lines: Vec<Line>,
    /// Lines and passes that already made rows, behind this date.
    lines_out: u32,
    passes_out: u32,
    passes: Vec<Pass>,
    reports: Vec<iostat::Report>,
    reports_out: u32,
    table: Option<ps::Table>,
    slabs: Option<Slabs>,
    followed: BTreeSet<String>,
    since_boot: bool,
    /// Lines of vmstat that do not fit its headings.
    misread: u64,
}

impl Snapshot {
    pub(super) fn new(series: Series, watcher: bool) -> Self {
        Self {
            series,
            delay: None,
            processors: None,
            dates: 0,
            watcher,
            at: None,
            time: None,
            columns: Vec::new(),
            lines: Vec::new(),
            lines_out: 0,
            passes_out: 0,
            passes: Vec::new(),
            reports: Vec::new(),
            reports_out: 0,
            table: None,
            slabs: None,
            followed: BTreeSet::new(),
            since_boot: false,
            misread: 0,
        }
    }

    /// A date: what came before is whole.
    pub(super) fn begin(&mut self, stamp: &Stamp, clipped: bool) {
        self.end(true);
        let at = stamp.by(&mut self.series);
        let offset = self.series.clock.offset_at(at).unwrap_or(0);
        self.at = Some((at, at.0.div_euclid(1000) + i64::from(offset), clipped));
        self.dates += 1;
    }

    /// A line of a tool, its heading among them.
    pub(super) fn line(&mut self, tool: Tool, line: &str) {
        if self.at.is_none() {
            return;
        }
        match tool {
            Tool::Vmstat => self.vmstat(line),
            Tool::Iostat => self.iostat(line),
            Tool::Top => self.top(line),
            Tool::Ps => match &mut self.table {
                Some(table) if !ps::Table::heading(line) => table.line(line),
                _ => self.table = Some(ps::Table::new(line)),
            },
            Tool::Slabinfo => self.slabs.get_or_insert_default().line(line),
            Tool::Meminfo => {}
        }
    }

    fn vmstat(&mut self, line: &str) {
        if let Some(time) = line.strip_prefix("Time:") {
            self.time = time_of_day(time.trim());
            return;
        }
        if super::is_vmstat(line) {
            self.columns = line.split_ascii_whitespace().map(str::to_owned).collect();
            return;
        }
        let values: Option<Vec<f64>> = line.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        // A line that ends too early, or whose columns ran into each other, cannot be told apart.
        let Some(values) = values.filter(|values| values.len() == self.columns.len()) else {
            self.misread += u64::from(line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
            return;
        };
        self.lines.push(Line { time: self.time.take(), values });
        if self.lines_out > 0 || self.lines.len() > MOST_LINES {
            self.lines_run_on();
        }
    }

    fn iostat(&mut self, line: &str) {
        if iostat::heading(line) && self.reports.last().is_none_or(|report| report.ends_at(line)) {
            if self.reports_out > 0 || self.reports.len() >= MOST_REPORTS {
                self.reports_run_on();
            }
            self.reports.push(iostat::Report::default());
        }
        if let Some(report) = self.reports.last_mut() {
            report.line(line);
        }
    }

    /// Makes a row of each report of iostat but the first, which is since the boot.
    fn reports_run_on(&mut self) {
        for report in std::mem::take(&mut self.reports) {
            let counted = self.at.zip(self.delay()).map(|((at, ..), delay)| {
                let passed = i64::from(delay).saturating_mul(i64::from(self.reports_out)).saturating_mul(1000);
                Moment(at.0.saturating_add(passed))
            });
            if let Some(at) = counted.filter(|_| self.reports_out > 0) {
                self.row(at);
                iostat::set(&mut self.series, &[report]);
            }
            self.reports_out = self.reports_out.saturating_add(1);
        }
    }

    fn top(&mut self, line: &str) {
        if Pass::heading(line) {
            if self.passes_out > 0 || self.passes.len() >= MOST_PASSES {
                self.passes_run_on(true);
            }
            self.passes.push(Pass::new(line));
        } else if let Some(pass) = self.passes.last_mut() {
            pass.line(line);
        }
    }

    /// Makes a row of each line of vmstat.
    fn lines_run_on(&mut self) {
        for line in std::mem::take(&mut self.lines) {
            let counted = self.at.zip(self.delay()).map(|((at, ..), delay)| {
                let passed = i64::from(delay).saturating_mul(i64::from(self.lines_out)).saturating_mul(1000);
                Moment(at.0.saturating_add(passed))
            });
            if let Some(at) = line.time.and_then(|time| self.moment(time)).or(counted) {
                self.row(at);
                vmstat::set(&mut self.series, &self.columns, &line.values, self.lines_out > 0);
            }
            self.lines_out = self.lines_out.saturating_add(1);
        }
    }

    /// Makes a row of each pass of top.
    fn passes_run_on(&mut self, whole: bool) {
        let passes = std::mem::take(&mut self.passes);
        let last = passes.len();
        for (pass, number) in passes.into_iter().zip(1..) {
            if let Some(at) = pass.time.and_then(|time| self.moment(time)) {
                self.row(at);
                pass.set(&mut self.series, self.passes_out > 0, whole || number < last);
            }
            self.passes_out = self.passes_out.saturating_add(1);
        }
    }

    const fn delay(&self) -> Option<u32> {
        match self.delay {
            None if self.watcher => Some(1),
            delay => delay,
        }
    }

    /// The moment of a time of day at or after the date at hand.
    fn moment(&self, time: i64) -> Option<Moment> {
        let (at, wall, _) = self.at?;
        let last = self.series.samples().last().map_or(at, |last| last.at.max(at));
        let reached = wall + (last.0 - at.0).div_euclid(1000);
        let today = reached - reached.rem_euclid(DAY) + time;
        let wall_then = if reached - today > DAY / 2 { today + DAY } else { today };
        Some(Moment(at.0.saturating_add((wall_then - wall).saturating_mul(1000))))
    }

    /// Begins a row that follows the one before.
    fn row(&mut self, at: Moment) {
        let interval = self.series.samples().last().and_then(|last| at.since(last.at));
        let first = self.lines_out == 0 && self.passes_out == 0;
        self.push(at, interval.filter(|interval| !first && !interval.is_zero()));
    }

    fn push(&mut self, at: Moment, interval: Option<Duration>) {
        self.series.push(at, interval);
        if let Some(processors) = self.processors {
            self.series.set(Metric::Processors, f64::from(processors));
        }
    }

    /// Makes what stands behind the date into a sample. `whole` says whether it is there to its end.
    pub(super) fn end(&mut self, whole: bool) {
        let Some((at, wall, clipped)) = self.at.take() else { return };
        let ran_on = self.lines_out > 0 || self.passes_out > 0 || self.reports_out > 0;
        if self.passes_out > 0 {
            self.at = Some((at, wall, clipped));
            self.passes_run_on(whole);
            self.at = None;
        }
        if self.reports_out > 0 {
            self.at = Some((at, wall, clipped));
            self.reports_run_on();
            self.at = None;
        }
        let lines = std::mem::take(&mut self.lines);
        let mut reports = std::mem::take(&mut self.reports);
        // Its last line may be lost.
        reports.truncate(reports.len().saturating_sub(usize::from(!whole)));
        self.reports_out = 0;
        let passes = std::mem::take(&mut self.passes);
        let (table, slabs) = (self.table.take().filter(|_| whole), self.slabs.take().filter(|_| whole));
        (self.lines_out, self.passes_out, self.time) = (0, 0, None);
        if ran_on && table.is_none() && slabs.is_none() {
            return;
        }
        let rates = lines.get(1..).unwrap_or_default();
        // Nearly all have vmstat count a second; a longer one is taken for shorter, which claims less.
        let delay = self.delay().or(Some(1));
        let span = u32::try_from(rates.len()).ok().zip(delay).map(|(lines, delay)| lines.saturating_mul(delay));
        let since_last = || self.series.samples().last().and_then(|last| at.since(last.at));
        let reported = u32::try_from(reports.len().saturating_sub(1)).ok().filter(|reports| *reports > 0);
        let reported = reported.zip(self.delay()).map(|(reports, delay)| reports.saturating_mul(delay));
        let interval = match (&lines[..], &passes[..]) {
            ([], []) if reported.is_some() => reported.map(|seconds| Duration::from_secs(seconds.into())),
            // A list has no rates: it is of the moment, and its interval the loop's.
            ([], []) => since_last(),
            // Its rates are since the boot, and what is of the moment is of the loop's interval.
            ([_], _) => since_last(),
            ([], [first, second]) => first
                .time
                .zip(second.time)
                .map(|(first, second)| Duration::from_secs((second - first).rem_euclid(DAY).unsigned_abs())),
            ([], _) => None,
            _ => span.map(|span| Duration::from_secs(span.into())),
        };
        self.push(at, interval.filter(|interval| !interval.is_zero()));
        if let Some(last) = lines.last() {
            let mean = |place: usize| {
                let values = rates.iter().filter_map(|line| line.values.get(place));
                let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
                sum / count
            };
            let means: Vec<f64> = (0..self.columns.len()).map(mean).collect();
            if !rates.is_empty() {
                vmstat::set(&mut self.series, &self.columns, &means, true);
            }
            vmstat::set(&mut self.series, &self.columns, &last.values, false);
            self.since_boot |= rates.is_empty();
        }
        match reports.as_slice() {
            [] => {}
            [_] => self.since_boot = true,
            [_, reports @ ..] => iostat::set(&mut self.series, reports),
        }
        if let Some(last) = passes.last() {
            let shares = passes.len() > 1 || clipped;
            last.set(&mut self.series, shares, whole);
            self.since_boot |= !shares;
        }
        if let Some(table) = table {
            self.processes(&table);
        }
        if let Some(bytes) = slabs.and_then(|slabs| slabs.bytes()) {
            self.series.set(Metric::Slab, hugewise_model::Bytes(bytes).as_f64());
        }
    }

    fn processes(&mut self, table: &ps::Table) {
        if table.threads {
            self.series.set(Metric::Tasks, f64::from(table.lines));
            return;
        }
        self.series.set(Metric::Processes, f64::from(table.lines));
        self.series.set(Metric::Sessions, f64::from(table.sessions));
        let many = table.commands.iter().filter(|(_, count)| **count >= MANY);
        for (name, _) in many {
            if self.followed.len() < MOST_FOLLOWED {
                self.followed.insert(name.clone());
            }
        }
        let mut largest: Vec<(&u64, &String)> = table.resident.iter().map(|(name, kib)| (kib, name)).collect();
        largest.sort_unstable_by(|one, other| other.cmp(one));
        for (_, name) in largest.into_iter().take(LARGEST).filter(|(kib, _)| **kib >= LARGE) {
            if self.followed.len() < MOST_FOLLOWED {
                self.followed.insert(name.clone());
            }
        }
        for name in &self.followed {
            let processes = table.commands.get(name).copied().unwrap_or(0);
            self.series.set_use(name, Use::Processes, f64::from(processes));
            // Where the table tells of any, who is not in it has none.
            if !table.resident.is_empty() {
                let kib = table.resident.get(name).copied().unwrap_or(0);
                self.series.set_use(name, Use::Resident, Bytes::from_kib(kib).as_f64());
            }
            if !table.stuck.is_empty() {
                self.series.set_use(name, Use::Stuck, f64::from(table.stuck.get(name).copied().unwrap_or(0)));
            }
        }
    }

    /// The series.
    pub(super) fn finished(mut self) -> Series {
        if self.since_boot {
            self.series.problem("a single line after a date has averages since boot and is left out");
        }
        if self.misread > 0 {
            let lines = self.misread;
            self.series.problem(format!("{lines} lines of vmstat do not fit its headings and are left out"));
        }
        self.series
    }
}
