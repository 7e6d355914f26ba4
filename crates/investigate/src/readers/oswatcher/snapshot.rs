//! What stands behind one date, and the rows made of it.

use std::collections::BTreeSet;
use std::time::Duration;

use hugewise_model::Bytes;

use crate::CollectedTool;
use crate::readers::iostat;
use crate::readers::line_timestamp::LineTimestamp;
use crate::readers::slabinfo::Slabs;
use crate::readers::top::{Pass, THREADS};
use crate::readers::{ps, vmstat};
use crate::series::Use;
use crate::{Metric, Moment, Series};
use hugewise_model::calendar::{DAY, time_of_day};

/// `vmstat 1 3`, whose first line is since the boot: further lines are samples of their own.
const MOST_LINES: usize = 3;
/// `iostat -x 1 3`, whose first report is since the boot.
const MOST_REPORTS: usize = 3;
/// `top -n 2`, whose first pass is since the boot.
const MOST_PASSES: usize = 2;
/// Processes of a command from which it is followed.
const MANY: u32 = 10;
const MOST_FOLLOWED: usize = 128;
/// Commands with the most memory in a table that are followed, from as many KiB on.
const LARGEST: usize = 8;
const LARGE: u64 = 128 << 10;

struct VmstatLine {
    time: Option<i64>,
    /// Whether the line has a time of its own: it is what `vmstat 5 2` printed last, and no line is
    /// since the boot.
    clocked: bool,
    values: Vec<f64>,
}

#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) series: Series,
    /// Seconds between vmstat's lines, if a heading has them.
    pub(super) delay: Option<u32>,
    pub(super) processors: Option<u32>,
    pub(super) dates: u64,
    /// Whether vmstat's lines are a second apart unless a heading says otherwise.
    watcher: bool,
    /// The date, its seconds by the wall clock, and whether top's first pass was removed before it
    /// was written.
    at: Option<(Moment, i64, bool)>,
    /// The time of the next lines.
    time: Option<i64>,
    columns: Vec<String>,
    lines: Vec<VmstatLine>,
    /// Lines, passes and reports of this date that are rows already.
    lines_out: u32,
    passes_out: u32,
    passes: Vec<Pass>,
    reports: Vec<iostat::IostatReport>,
    reports_out: u32,
    /// Reports since iostat's first line, of which the first is since the boot; `None` where that
    /// line was not seen.
    reports_of_run: Option<usize>,
    table: Option<ps::PsTable>,
    slabs: Option<Slabs>,
    followed: BTreeSet<String>,
    since_boot: bool,
    /// The last report that is of the time since the boot, or of an interval: it does not say.
    lone_report: Option<iostat::IostatReport>,
    misread: u64,
}

impl Snapshot {
    pub(super) fn new(series: Series, watcher: bool) -> Self {
        Self { series, watcher, ..Self::default() }
    }

    pub(super) fn begin_snapshot(&mut self, stamp: &LineTimestamp, clipped: bool) {
        self.end_snapshot(true);
        let at = stamp.moment_on_clock(&mut self.series);
        let offset = self.series.clock.offset_at(at).unwrap_or(0);
        self.at = Some((at, at.0.div_euclid(1000) + i64::from(offset), clipped));
        self.dates += 1;
    }

    pub(super) const fn begin_iostat_run(&mut self) {
        self.reports_of_run = Some(0);
    }

    pub(super) fn push_line(&mut self, tool: CollectedTool, line: &str) {
        if self.at.is_none() {
            return;
        }
        match tool {
            CollectedTool::Vmstat => self.push_vmstat_line(line),
            CollectedTool::Iostat => self.push_iostat_line(line),
            CollectedTool::Top => self.push_top_line(line),
            CollectedTool::Ps => match &mut self.table {
                Some(table) if !ps::PsTable::is_heading(line) => table.push_line(line),
                _ => self.table = Some(ps::PsTable::new(line)),
            },
            CollectedTool::Slabinfo => self.slabs.get_or_insert_default().parse_line(line),
            CollectedTool::Meminfo => {}
        }
    }

    fn push_vmstat_line(&mut self, line: &str) {
        if let Some(time) = line.strip_prefix("Time:") {
            self.time = time_of_day(time.trim());
            return;
        }
        if super::is_vmstat(line) {
            self.columns = line.split_ascii_whitespace().map(str::to_owned).collect();
            return;
        }
        let mut words = line.split_ascii_whitespace().peekable();
        let clock =
            words.peek().filter(|word| word.contains(':')).and_then(|word| time_of_day(word));
        if clock.is_some() {
            words.next();
        }
        let values: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
        // The columns of a torn line, or of one whose columns ran together, cannot be told.
        let Some(values) = values.filter(|values| values.len() == self.columns.len()) else {
            self.misread +=
                u64::from(line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
            return;
        };
        let (time, clocked) = (clock.or(self.time.take()), clock.is_some());
        self.lines.push(VmstatLine { time, clocked, values });
        if clocked || self.lines_out > 0 || self.lines.len() > MOST_LINES {
            self.flush_lines();
        }
    }

    fn push_iostat_line(&mut self, line: &str) {
        if iostat::is_iostat_heading(line)
            && self.reports.last().is_none_or(|report| report.ends_at(line))
        {
            if self.reports_out > 0 || self.reports.len() >= MOST_REPORTS {
                self.flush_reports();
            }
            self.reports.push(iostat::IostatReport::default());
        }
        if let Some(report) = self.reports.last_mut() {
            report.push_line(line);
        }
    }

    /// Makes a row of each report but the first, which is since the boot.
    fn flush_reports(&mut self) {
        for report in std::mem::take(&mut self.reports) {
            let counted = self.moment_after(self.reports_out);
            if let Some(at) = counted.filter(|_| self.reports_out > 0) {
                self.begin_row(at);
                iostat::set_mean_values(&mut self.series, &[report]);
            }
            self.reports_out = self.reports_out.saturating_add(1);
        }
    }

    fn push_top_line(&mut self, line: &str) {
        if Pass::is_heading(line) {
            if self.passes_out > 0 || self.passes.len() >= MOST_PASSES {
                self.flush_passes(true);
            }
            self.passes.push(Pass::new(line));
        } else if let Some(pass) = self.passes.last_mut() {
            pass.parse_line(line);
        }
    }

    fn moment_after(&self, count: u32) -> Option<Moment> {
        let ((at, ..), delay) = self.at.zip(self.vmstat_delay())?;
        let passed = i64::from(delay).saturating_mul(i64::from(count)).saturating_mul(1000);
        Some(Moment(at.0.saturating_add(passed)))
    }

    fn flush_lines(&mut self) {
        for line in std::mem::take(&mut self.lines) {
            let counted = self.moment_after(self.lines_out);
            if let Some(at) = line.time.and_then(|time| self.moment_of_time(time)).or(counted) {
                self.begin_row(at);
                vmstat::set_sample_values(
                    &mut self.series,
                    &self.columns,
                    &line.values,
                    line.clocked || self.lines_out > 0,
                );
            }
            self.lines_out = self.lines_out.saturating_add(1);
        }
    }

    fn flush_passes(&mut self, whole: bool) {
        let passes = std::mem::take(&mut self.passes);
        let last = passes.len();
        for (pass, number) in passes.into_iter().zip(1..) {
            if let Some(at) = pass.time.and_then(|time| self.moment_of_time(time)) {
                self.begin_row(at);
                let shares = self.passes_out > 0 || pass.is_of_interval();
                pass.set_sample_values(&mut self.series, shares, whole || number < last);
            }
            self.passes_out = self.passes_out.saturating_add(1);
        }
    }

    const fn vmstat_delay(&self) -> Option<u32> {
        match self.delay {
            None if self.watcher => Some(1),
            delay => delay,
        }
    }

    fn moment_of_time(&self, time: i64) -> Option<Moment> {
        let (at, wall, _) = self.at?;
        let last = self.series.samples().last().map_or(at, |last| last.at.max(at));
        let reached = wall + (last.0 - at.0).div_euclid(1000);
        let today = reached - reached.rem_euclid(DAY) + time;
        let wall_then = if reached - today > DAY / 2 { today + DAY } else { today };
        Some(Moment(at.0.saturating_add((wall_then - wall).saturating_mul(1000))))
    }

    fn begin_row(&mut self, at: Moment) {
        let interval = self.series.samples().last().and_then(|last| at.duration_since(last.at));
        let first = self.lines_out == 0 && self.passes_out == 0;
        self.push(at, interval.filter(|interval| !first && !interval.is_zero()));
    }

    fn push(&mut self, at: Moment, interval: Option<Duration>) {
        self.series.push(at, interval);
        if let Some(processors) = self.processors {
            self.series.set_value(Metric::Processors, f64::from(processors));
        }
    }

    /// Makes a sample of what stands behind the date; `whole` if it is complete.
    pub(super) fn end_snapshot(&mut self, whole: bool) {
        let Some((at, _, clipped)) = self.at else { return };
        let ran_on = self.lines_out > 0 || self.passes_out > 0 || self.reports_out > 0;
        if self.passes_out > 0 {
            self.flush_passes(whole);
        }
        if self.reports_out > 0 {
            self.flush_reports();
        }
        self.at = None;
        let lines = std::mem::take(&mut self.lines);
        let mut reports = std::mem::take(&mut self.reports);
        // The last report may be incomplete.
        reports.truncate(reports.len().saturating_sub(usize::from(!whole)));
        let passes = std::mem::take(&mut self.passes);
        let table = self.table.take().filter(|_| whole);
        let slabs = self.slabs.take().filter(|_| whole);
        (self.reports_out, self.lines_out, self.passes_out, self.time) = (0, 0, 0, None);
        if ran_on && table.is_none() && slabs.is_none() {
            return;
        }
        let interval = self.snapshot_interval(at, &lines, &passes, reports.len(), clipped);
        self.push(at, interval.filter(|interval| !interval.is_zero()));
        self.record_vmstat_lines(&lines);
        match reports.as_slice() {
            [] => {}
            // `iostat -t` writes a date before each of its reports.
            reports if self.reports_of_run.is_some_and(|before| before > 0) => {
                iostat::set_mean_values(&mut self.series, reports);
            }
            [only] => {
                self.since_boot |= self.reports_of_run.is_none();
                self.lone_report = Some(only.clone());
            }
            [_, reports @ ..] => iostat::set_mean_values(&mut self.series, reports),
        }
        if let Some(count) = &mut self.reports_of_run {
            *count += reports.len();
        }
        if let Some(last) = passes.last() {
            let shares = passes.len() > 1 || clipped || last.is_of_interval();
            last.set_sample_values(&mut self.series, shares, whole);
            self.since_boot |= !shares;
        }
        if let Some(table) = table {
            self.record_processes(&table);
        }
        if let Some(bytes) = slabs.and_then(|slabs| slabs.total_bytes()) {
            self.series.set_value(Metric::Slab, Bytes(bytes).as_f64());
        }
    }

    fn snapshot_interval(
        &self,
        at: Moment,
        lines: &[VmstatLine],
        passes: &[Pass],
        reports: usize,
        clipped: bool,
    ) -> Option<Duration> {
        let seconds = |repeated: usize, delay: u32| {
            let seconds = u32::try_from(repeated).ok()?.saturating_mul(delay);
            Some(Duration::from_secs(seconds.into()))
        };
        let since_last =
            || self.series.samples().last().and_then(|last| at.duration_since(last.at));
        match (lines, passes) {
            ([], []) if reports > 1 && self.vmstat_delay().is_some() => {
                seconds(reports - 1, self.vmstat_delay()?)
            }
            // Lists have no rates, and a single line of vmstat has them since the boot.
            ([], []) | ([_], _) => since_last(),
            ([], [first, second]) => {
                let passed = (second.time? - first.time?).rem_euclid(DAY);
                Some(Duration::from_secs(passed.unsigned_abs()))
            }
            // What a watcher kept of `top -n 2`; assuming a short interval claims less.
            ([], [only]) if clipped || only.is_of_interval() => Some(Duration::from_secs(1)),
            ([], _) => None,
            // Nearly all have vmstat count a second; assuming a shorter interval claims less.
            _ => seconds(lines.len() - 1, self.vmstat_delay().unwrap_or(1)),
        }
    }

    /// The means of vmstat's lines but the first, and the momentary values of the last.
    fn record_vmstat_lines(&mut self, lines: &[VmstatLine]) {
        let Some(last) = lines.last() else { return };
        let rates = lines.get(1..).unwrap_or_default();
        let mean = |place: usize| {
            let values = rates.iter().filter_map(|line| line.values.get(place));
            let (sum, count) =
                values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            sum / count
        };
        if !rates.is_empty() {
            let means: Vec<f64> = (0..self.columns.len()).map(mean).collect();
            vmstat::set_sample_values(&mut self.series, &self.columns, &means, true);
        }
        vmstat::set_sample_values(&mut self.series, &self.columns, &last.values, false);
        self.since_boot |= rates.is_empty();
    }

    fn record_processes(&mut self, table: &ps::PsTable) {
        if table.threads {
            self.series.set_value(Metric::Tasks, f64::from(table.lines));
            return;
        }
        self.series.set_value(Metric::Processes, f64::from(table.lines));
        self.series.set_value(Metric::Sessions, f64::from(table.sessions));
        for ((_, metric), share) in THREADS.iter().zip(table.threads_of_kernel) {
            if let Some(share) = share {
                self.series.set_value(*metric, share);
            }
        }
        let many = table.commands.iter().filter(|(_, count)| **count >= MANY);
        let mut largest: Vec<(&u64, &String)> =
            table.resident.iter().map(|(name, kib)| (kib, name)).collect();
        largest.sort_unstable_by(|one, other| other.cmp(one));
        let largest = largest.into_iter().take(LARGEST).filter(|(kib, _)| **kib >= LARGE);
        for name in many.map(|(name, _)| name).chain(largest.map(|(_, name)| name)) {
            if self.followed.len() < MOST_FOLLOWED {
                self.followed.insert(name.clone());
            }
        }
        for name in &self.followed {
            let processes = table.commands.get(name).copied().unwrap_or(0);
            self.series.set_use(name, Use::Processes, f64::from(processes));
            // Commands that are not in a table with these columns have none.
            if !table.resident.is_empty() {
                let kib = table.resident.get(name).copied().unwrap_or(0);
                self.series.set_use(name, Use::Resident, Bytes::from_kib(kib).as_f64());
            }
            if !table.stuck.is_empty() {
                self.series.set_use(
                    name,
                    Use::Stuck,
                    f64::from(table.stuck.get(name).copied().unwrap_or(0)),
                );
            }
        }
    }

    /// The lines that do not fit their headings, if nothing else was read.
    pub(super) fn only_misread(&self) -> Option<u64> {
        let nothing = self.series.metrics().all(|metric| metric == Metric::Processors);
        (nothing && self.misread > 0).then_some(self.misread)
    }

    pub(super) fn into_series(mut self) -> Series {
        if self.series.samples().len() == 1
            && let Some(report) = &self.lone_report
            && iostat::set_long_waits(&mut self.series, report)
        {
            let problem = "is one report alone, of an interval or of the time since the boot: of \
                           either, its %iowait is much";
            self.series.add_problem(problem);
            self.since_boot = false;
            self.reports_of_run = None;
        }
        if self.since_boot || self.reports_of_run == Some(1) {
            self.series.add_problem(
                "what stands alone after a date has averages since boot and is left out",
            );
        }
        if self.misread > 0 {
            let lines = self.misread;
            self.series.add_problem(format!(
                "{lines} lines of vmstat do not fit its headings and are left out"
            ));
        }
        self.series
    }
}
