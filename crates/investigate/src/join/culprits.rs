//! Who did it: programs that grew or were stuck, where a source lists processes.

use std::collections::BTreeMap;

use super::window::rows_in;
use crate::page::{bytes_from_f64, format_processor_share};
use crate::series::{MetricColumn, Use};
use crate::signatures::observations::Observations;
use crate::{Moment, Series};

/// Part of memory, and bytes, by which a program has to grow to be worth a word.
const GROWN: f64 = 0.03;
const GROWN_BY: f64 = 256.0 * 1_048_576.0;
/// Stuck processes of one program that are no chance.
const STUCK: f64 = 3.0;
/// Percent of a processor that is worth a word.
const BUSY: f64 = 90.0;
/// Processes by which a program's number has to rise, and to how many times as many.
const MORE: f64 = 20.0;
const TIMES: f64 = 1.25;
/// Part of memory, and bytes, from which page tables of a program are worth a word.
const TABLES: f64 = 0.02;
const TABLES_BY: f64 = 16.0 * 1_048_576.0;
/// Milliseconds before a window in which they may have been taken: memory is short afterwards.
const LED_UP: i64 = 600_000;
const MOST: usize = 4;
type CulpritLine = (f64, String);

pub(super) fn find_culprits(
    observations: &Observations<'_>,
    from: Moment,
    to: Moment,
) -> Vec<String> {
    let memory = observations.memory;
    let mut lines = describe_page_table_growth(observations, from, to);
    for series in &observations.history.series {
        let mut of_kind = |what: Use, line: &dyn Fn(&str, WindowPeak) -> Option<CulpritLine>| {
            let mut found: Vec<CulpritLine> = series
                .command_columns(what)
                .filter_map(|(command, column)| {
                    line(command, peak_in_window(series, column, from, to)?)
                })
                .collect();
            found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            lines.extend(found.into_iter().take(2).map(|(_, line)| line));
        };
        let processes = |command: &str| {
            let (_, column) =
                series.command_columns(Use::Processes).find(|(name, _)| *name == command)?;
            Some(peak_in_window(series, column, from, to)?.most)
        };
        of_kind(Use::Resident, &|command, seen| {
            let growth = seen.most - seen.before?;
            let enough = growth >= GROWN_BY && memory.is_none_or(|memory| growth >= GROWN * memory);
            let many = processes(command).filter(|count| *count > 1.0);
            let many = many
                .map(|count| format!(" in {count:.0} processes, shared memory counted in each"));
            let (before, most) = (bytes_from_f64(seen.before?), bytes_from_f64(seen.most));
            let line =
                format!("{command} grew from {before} to {most}{}", many.unwrap_or_default());
            enough.then_some((growth, line))
        });
        of_kind(Use::Processor, &|command, seen| {
            let rose = seen.before.is_none_or(|before| seen.most >= 2.0 * before);
            let line = format!("{command} took up to {}", format_processor_share(seen.most));
            (seen.most >= BUSY && rose).then_some((seen.most, line))
        });
        of_kind(Use::Processes, &|command, seen| {
            let before = seen.before?;
            let more = seen.most - before;
            let line = format!("processes of {command} rose from {before:.0} to {:.0}", seen.most);
            (more >= MORE && seen.most >= TIMES * before).then_some((more, line))
        });
        of_kind(Use::Stuck, &|command, seen| {
            let line = format!(
                "up to {:.0} processes of {command} were stuck at once (state D)",
                seen.most
            );
            (seen.most >= STUCK && seen.before.is_none_or(|before| seen.most >= 2.0 * before))
                .then_some((seen.most, line))
        });
    }
    lines.dedup();
    lines.truncate(MOST);
    lines
}

fn describe_page_table_growth(
    observations: &Observations<'_>,
    from: Moment,
    to: Moment,
) -> Vec<String> {
    let mut taken: BTreeMap<&str, f64> = BTreeMap::new();
    for series in &observations.history.series {
        let rows = rows_in(series, Moment(from.0.saturating_sub(LED_UP)), to);
        for (command, column) in series.command_columns(Use::PageTablesGrown) {
            let sum: f64 = rows.clone().filter_map(|row| column.get(row)).sum();
            // Another source may list the same processes, less often.
            let most = taken.entry(command).or_default();
            *most = most.max(sum);
        }
    }
    let worth = |taken: f64| {
        taken >= TABLES_BY && observations.memory.is_none_or(|memory| taken >= TABLES * memory)
    };
    let mut taken: Vec<(&str, f64)> =
        taken.into_iter().filter(|(_, taken)| worth(*taken)).collect();
    taken.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let line = |(command, taken): (&str, f64)| {
        format!("{command} took at least {} of page tables", bytes_from_f64(taken))
    };
    taken.into_iter().take(2).map(line).collect()
}

struct WindowPeak {
    before: Option<f64>,
    most: f64,
}

fn peak_in_window(
    series: &Series,
    column: &MetricColumn,
    from: Moment,
    to: Moment,
) -> Option<WindowPeak> {
    let rows = rows_in(series, from, to);
    // A window's first sample is often of its first seconds, and the one behind it of what it left.
    let last = (rows.end + 1).min(series.samples().len());
    let most = (rows.start..last).filter_map(|row| column.get(row)).reduce(f64::max)?;
    let before = (0..rows.start).rev().take(5).filter_map(|row| column.get(row)).reduce(f64::min);
    let before = before.or_else(|| column.get(rows.start));
    Some(WindowPeak { before, most })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{IncidentHistory, Metric, SourceFormat};

    const MIB: f64 = 1_048_576.0;

    /// A recorder's look every so many seconds at how much page tables of programs grew, in MiB.
    fn recorder_series(source: &str, apart: i64, grown: &[(&str, &[f64])]) -> Series {
        let mut series = Series::new(source, SourceFormat::Collector("recorder"));
        for row in 0..grown.iter().map(|(_, all)| all.len()).max().unwrap() {
            let at = i64::try_from(row).unwrap() * apart;
            series.push(Moment::from_seconds(at), Some(Duration::from_secs(apart.unsigned_abs())));
            series.set_value(Metric::MemTotal, 1000.0 * MIB);
            for (program, all) in grown {
                if let Some(mib) = all.get(row).filter(|mib| **mib > 0.0) {
                    series.set_use(program, Use::PageTablesGrown, mib * MIB);
                }
            }
        }
        series
    }

    fn culprits_between(series: Vec<Series>, from: i64, to: i64) -> Vec<String> {
        let history = IncidentHistory { series, ..IncidentHistory::default() };
        find_culprits(
            &Observations::new(&history),
            Moment::from_seconds(from),
            Moment::from_seconds(to),
        )
    }

    /// By hand, with looks 300 s apart and a window of 1200 to 1500 s: those at 600 (ten minutes
    /// before) to 1500 s count, which are 10 + 20 + 30 + 40 MiB; that at 300 s and that at 1800 s
    /// do not.
    #[test]
    fn page_tables_are_summed_over_the_window_and_ten_minutes_before() {
        let seconds = recorder_series(
            "seconds",
            300,
            &[("oraclePROD", &[0.0, 80.0, 10.0, 20.0, 30.0, 40.0, 80.0])],
        );
        assert_eq!(
            culprits_between(vec![seconds], 1200, 1500),
            ["oraclePROD took at least 100.0 MiB of page tables"]
        );
    }

    /// 2 % of 1000 MiB are 20 MiB. Two files of one recorder saw the same growth, of which the
    /// larger sum is the surer.
    #[test]
    fn two_looks_at_the_same_programs_are_not_added_up() {
        let seconds = recorder_series(
            "seconds",
            300,
            &[("oraclePROD", &[30.0, 30.0]), ("java", &[19.0, 0.0]), ("mysqld", &[0.0, 40.0])],
        );
        let minutes = recorder_series("minutes", 300, &[("oraclePROD", &[55.0])]);
        let lines = [
            "oraclePROD took at least 60.0 MiB of page tables",
            "mysqld took at least 40.0 MiB of page tables",
        ];
        assert_eq!(culprits_between(vec![seconds.clone(), minutes.clone()], 0, 300), lines);
        assert_eq!(culprits_between(vec![minutes, seconds], 0, 300), lines);
    }
}
