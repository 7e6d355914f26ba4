//! Text that says no date or no time: lines of vmstat and fields of the kernel's files, tops, tables
//! of ps and reports of iostat. What a person says of them gives each line its time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{iostat, oswatcher, proc_log, vmstat};
use super::{
    NO_TIME, Pasted, format_moment, process_table, processor_lines, text_behind_banner, text_from,
    times,
};
use crate::{Clock, FileRefused, Moment, Series};
/// Lines of vmstat, or repeated fields of the kernel's files, with times in the same line or none.
pub(super) fn read_undated(
    lines: &[String],
    source: &str,
    pasted: Pasted,
) -> Result<Option<Vec<Series>>, FileRefused> {
    let began = pasted.began.unwrap_or(NO_TIME);
    if let Some(all) = read_undated_tool(lines, source, pasted)? {
        return Ok(Some(all));
    }
    let timed = times::extract_times(lines, began);
    let lines = timed.as_ref().map_or(lines, |timed| &timed.lines);
    let heading = lines.iter().position(|line| vmstat::is_heading(line));
    let first = lines.iter().position(|line| proc_log::is_field(line));
    let Some(from) = heading.or(first) else { return Ok(None) };
    let is_vmstat = heading.is_some();
    let lines = lines.get(from..).unwrap_or_default();
    let (text, problem) = if let Some(timed) = &timed {
        let text =
            if is_vmstat { times::render_vmstat(timed) } else { times::render_fields(timed) };
        let problem = match pasted.began {
            _ if timed.dated => None,
            Some(_) => Some("its times say no day or no year: taken from --from"),
            None => Some("its times say no day or no year: shown as of 1970; --from says it"),
        };
        (text, problem)
    } else {
        let is_single = !is_vmstat && is_single_reading(lines);
        let told = pasted.interval.filter(|interval| !interval.is_zero());
        let Some(interval) = told.or(is_single.then_some(Duration::from_secs(1))) else {
            return Err(no_times());
        };
        let mut clock = CountedTimes { at: began, interval };
        let render = if is_vmstat { render_vmstat_lines } else { render_field_lines };
        let problem = match pasted.began {
            _ if is_single => "is one reading without a time: --from says when it was",
            Some(_) => "has no times: counted from --from by --interval",
            None => {
                "has no times: counted by --interval from 1970-01-01; say with --from when it began"
            }
        };
        (render(lines, &mut clock), Some(problem))
    };
    let read = if is_vmstat { vmstat::read } else { proc_log::read };
    let mut series = read(&mut text.as_bytes(), source)?;
    if is_vmstat {
        // Nothing says that it was UTC.
        series.clock = Clock::Wall { zone: None };
    }
    if let Some(problem) = problem {
        series.add_problem(problem);
    }
    Ok(Some(vec![series]))
}

/// What top and ps printed, without a date; reports of iostat without times.
fn read_undated_tool(
    lines: &[String],
    source: &str,
    pasted: Pasted,
) -> Result<Option<Vec<Series>>, FileRefused> {
    let began = pasted.began.unwrap_or(NO_TIME);
    let is_report = |line: &String| iostat::is_iostat_heading(line);
    let table = process_table::render_headed_top(lines, began);
    let rows = || times::render_top_rows(lines, began, pasted.interval);
    let (text, problem) = if let Some(table) = table {
        table
    } else if let Some(text) = rows() {
        (text, "has rows of top without its first lines: counted by --interval, or 3 s")
    } else if let Some(from) = lines.iter().position(|line| iostat::parse_time_line(line).is_some())
        && lines.iter().skip(from).take(4).any(is_report)
    {
        // `iostat -t` of sysstat 9 writes a time before each report, and the day in its first line.
        let text = text_behind_banner(&text_from(lines, from), pasted);
        (text, "has times of day and no date")
    } else if let Some(text) = process_table::render_ps(lines, began) {
        (text, "has no time")
    } else if let Some(from) = lines.iter().position(is_report) {
        let Some(interval) = pasted.interval.filter(|interval| !interval.is_zero()) else {
            return Err(no_times());
        };
        let banner = lines.iter().find(|line| iostat::IostatBanner::parse(line).is_some());
        // Without its first line too, the first report is taken for the one since the boot.
        let mut text = banner.map_or("Linux - (-) -", String::as_str).to_owned() + "\n";
        let mut clock = CountedTimes { at: began, interval };
        let lines = lines.get(from..).unwrap_or_default();
        // A report begins with processors, or with disks where it has no processors.
        let processors = lines.iter().any(|line| line.starts_with("avg-cpu:"));
        for (at, line) in lines.iter().enumerate() {
            // The first report may have lost its beginning.
            let begins = line.starts_with("avg-cpu:") || !processors || at == 0;
            if is_report(line) && begins {
                text += &format!("{}\n", clock.next().replace('T', " "));
            }
            text += line;
            text.push('\n');
        }
        (text, "has no times: counted by --interval")
    } else if !lines.iter().any(|line| vmstat::is_heading(line) || proc_log::is_field(line))
        && let Some(text) = processor_lines::render_processor_lines(lines, began, pasted.interval)
    {
        (text, "has lines of top's processors alone: counted by --interval, or 3 s")
    } else {
        return Ok(None);
    };
    let mut all = oswatcher::read(&mut text.as_bytes(), source)?;
    let is_named = lines.iter().any(|line| iostat::IostatBanner::parse(line).is_some());
    for series in &mut all {
        series.clock = Clock::Wall { zone: None };
        if !is_named {
            (series.kernel, series.host) = (None, None);
        }
        series.add_problem(match pasted.began {
            Some(_) => format!("{problem}: the day is taken from --from"),
            None => format!("{problem}: say the day with --from"),
        });
    }
    Ok(Some(all))
}

pub(super) fn no_times() -> FileRefused {
    FileRefused(
        "has no times: say with --interval 3s how far apart its lines are, and with --from when \
         they began"
            .into(),
    )
}

pub(super) struct CountedTimes {
    pub(super) at: Moment,
    pub(super) interval: Duration,
}

impl CountedTimes {
    pub(super) fn next(&mut self) -> String {
        let shown = format_moment(self.at);
        let step = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        self.at = Moment(self.at.0.saturating_add(step));
        shown
    }
}

/// As `vmstat -t` prints it.
fn render_vmstat_lines(lines: &[String], clock: &mut CountedTimes) -> String {
    let mut text = String::new();
    for line in lines {
        let first = line.split_ascii_whitespace().next();
        if vmstat::is_heading(line) {
            text += &format!("{line}                 UTC\n");
        } else if first.is_some_and(|word| word.bytes().all(|digit| digit.is_ascii_digit())) {
            text += &format!("{line} {}\n", clock.next().replace('T', " "));
        }
    }
    text
}

/// Whether no field comes twice: one `cat /proc/meminfo`.
fn is_single_reading(lines: &[String]) -> bool {
    let mut seen = BTreeSet::new();
    let mut names = lines
        .iter()
        .filter(|line| proc_log::is_field(line))
        .filter_map(|line| line.split_ascii_whitespace().next());
    names.all(|name| seen.insert(name))
}

/// As a loop with `date` prints it; a snapshot begins where its first field comes again.
fn render_field_lines(lines: &[String], clock: &mut CountedTimes) -> String {
    let name = |line: &str| line.split_ascii_whitespace().next().map(str::to_owned);
    let known = || lines.iter().filter(|line| proc_log::is_field(line));
    let first = known().next().and_then(|line| name(line));
    let mut text = String::new();
    for line in known() {
        if name(line) == first {
            text += &format!("{}\n", clock.next());
        }
        text += &line.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    text
}
