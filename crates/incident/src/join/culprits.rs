//! Who did it: programs that grew in an incident's window, and those that were stuck in it, where a source lists processes.

use std::collections::BTreeMap;

use super::window::rows_in;
use crate::page::bytes;
use crate::series::{Column, Use};
use crate::signatures::observations::Observations;
use crate::{Moment, Series};

/// Growth that is worth a word: this part of memory, and this many bytes.
const GROWN: f64 = 0.03;
const GROWN_BY: f64 = 256.0 * 1_048_576.0;
/// Processes of one program that are stuck at once, from which on it is no chance.
const STUCK: f64 = 3.0;
/// Processes by which a program's number has to rise, and to how many times as many.
const MORE: f64 = 20.0;
const TIMES: f64 = 1.25;
/// Page tables of a program that are worth a word: this part of memory, and this many bytes.
const TABLES: f64 = 0.02;
const TABLES_BY: f64 = 16.0 * 1_048_576.0;
/// How long before a window they may have been taken, in milliseconds: memory is short when they are there.
const LED_UP: i64 = 600_000;
/// Lines.
const MOST: usize = 4;

/// What a program did, with how much that weighs beside others of its kind.
type Line = (f64, String);

/// The programs, those that weigh most first.
pub(super) fn of(observations: &Observations<'_>, from: Moment, to: Moment) -> Vec<String> {
    let memory = observations.memory;
    let mut lines = tables(observations, from, to);
    for series in &observations.history.series {
        let mut of_kind = |what: Use, line: &dyn Fn(&str, Seen) -> Option<Line>| {
            let mut found: Vec<Line> = series
                .uses(what)
                .filter_map(|(command, column)| line(command, seen(series, column, from, to)?))
                .collect();
            found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            lines.extend(found.into_iter().take(2).map(|(_, line)| line));
        };
        let processes = |command: &str| {
            let (_, column) = series.uses(Use::Processes).find(|(name, _)| *name == command)?;
            Some(seen(series, column, from, to)?.most)
        };
        of_kind(Use::Resident, &|command, seen| {
            let growth = seen.most - seen.before?;
            let enough = growth >= GROWN_BY && memory.is_none_or(|memory| growth >= GROWN * memory);
            let many = processes(command).filter(|count| *count > 1.0);
            let many = many.map(|count| format!(" in {count:.0} processes, shared memory counted in each"));
            let (before, most) = (bytes(seen.before?), bytes(seen.most));
            let line = format!("{command} grew from {before} to {most}{}", many.unwrap_or_default());
            enough.then_some((growth, line))
        });
        of_kind(Use::Processes, &|command, seen| {
            let before = seen.before?;
            let more = seen.most - before;
            let line = format!("processes of {command} rose from {before:.0} to {:.0}", seen.most);
            (more >= MORE && seen.most >= TIMES * before).then_some((more, line))
        });
        of_kind(Use::Stuck, &|command, seen| {
            let line = format!("up to {:.0} processes of {command} were stuck at once (state D)", seen.most);
            (seen.most >= STUCK && seen.before.is_none_or(|before| seen.most >= 2.0 * before))
                .then_some((seen.most, line))
        });
    }
    lines.dedup();
    lines.truncate(MOST);
    lines
}

/// Programs that took page tables, those that took most first.
fn tables(observations: &Observations<'_>, from: Moment, to: Moment) -> Vec<String> {
    let mut taken: BTreeMap<&str, f64> = BTreeMap::new();
    for series in &observations.history.series {
        let rows = rows_in(series, Moment(from.0.saturating_sub(LED_UP)), to);
        for (command, column) in series.uses(Use::PageTablesGrown) {
            let sum: f64 = rows.clone().filter_map(|row| column.get(row)).sum();
            // Another source looked at the same ones, less often.
            let most = taken.entry(command).or_default();
            *most = most.max(sum);
        }
    }
    let worth = |taken: f64| taken >= TABLES_BY && observations.memory.is_none_or(|memory| taken >= TABLES * memory);
    let mut taken: Vec<(&str, f64)> = taken.into_iter().filter(|(_, taken)| worth(*taken)).collect();
    taken.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let line = |(command, taken): (&str, f64)| format!("{command} took at least {} of page tables", bytes(taken));
    taken.into_iter().take(2).map(line).collect()
}

/// A value before a window and the most of it within.
struct Seen {
    before: Option<f64>,
    most: f64,
}

fn seen(series: &Series, column: &Column, from: Moment, to: Moment) -> Option<Seen> {
    let rows = rows_in(series, from, to);
    // The window's first sample is often of its first seconds, and one behind it of what it left.
    let last = (rows.end + 1).min(series.samples().len());
    let most = (rows.start..last).filter_map(|row| column.get(row)).reduce(f64::max)?;
    let before = (0..rows.start).rev().take(5).filter_map(|row| column.get(row)).reduce(f64::min);
    let before = before.or_else(|| column.get(rows.start));
    Some(Seen { before, most })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Format, History, Metric};

    const MIB: f64 = 1_048_576.0;

    /// A recorder's look every so many seconds at how much page tables of programs grew, in MiB.
    fn looks(source: &str, apart: i64, grown: &[(&str, &[f64])]) -> Series {
        let mut series = Series::new(source, Format::Recorder);
        for row in 0..grown.iter().map(|(_, all)| all.len()).max().unwrap() {
            let at = i64::try_from(row).unwrap() * apart;
            series.push(Moment::from_seconds(at), Some(Duration::from_secs(apart.unsigned_abs())));
            series.set(Metric::MemTotal, 1000.0 * MIB);
            for (program, all) in grown {
                if let Some(mib) = all.get(row).filter(|mib| **mib > 0.0) {
                    series.set_use(program, Use::PageTablesGrown, mib * MIB);
                }
            }
        }
        series
    }

    fn told(series: Vec<Series>, from: i64, to: i64) -> Vec<String> {
        let history = History { series, ..History::default() };
        of(&Observations::of(&history), Moment::from_seconds(from), Moment::from_seconds(to))
    }

    /// By hand, with looks 300 s apart and a window of 1200 to 1500 s: those at 600 (ten minutes before) to 1500 s count, which are
    /// 10 + 20 + 30 + 40 MiB; that at 300 s and that at 1800 s do not.
    #[test]
    fn page_tables_are_summed_over_the_window_and_ten_minutes_before() {
        let seconds = looks("seconds", 300, &[("oraclePROD", &[0.0, 80.0, 10.0, 20.0, 30.0, 40.0, 80.0])]);
        assert_eq!(told(vec![seconds], 1200, 1500), ["oraclePROD took at least 100.0 MiB of page tables"]);
    }

    /// 2 % of 1000 MiB are 20 MiB. Two files of one recorder saw the same growth, of which the larger sum is the surer.
    #[test]
    fn two_looks_at_the_same_programs_are_not_added_up() {
        let seconds =
            looks("seconds", 300, &[("oraclePROD", &[30.0, 30.0]), ("java", &[19.0, 0.0]), ("mysqld", &[0.0, 40.0])]);
        let minutes = looks("minutes", 300, &[("oraclePROD", &[55.0])]);
        let lines =
            ["oraclePROD took at least 60.0 MiB of page tables", "mysqld took at least 40.0 MiB of page tables"];
        assert_eq!(told(vec![seconds.clone(), minutes.clone()], 0, 300), lines);
        assert_eq!(told(vec![minutes, seconds], 0, 300), lines);
    }
}
