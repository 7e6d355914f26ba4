//! Collectors begin a file every hour or day: the files of one collector of one host are a series.

use std::collections::BTreeMap;

use crate::series::SeriesSample;
use crate::{Clock, Moment, Series, SourceFormat};

/// Runs of one collector side by side. Each part is compared with all of them.
pub(crate) const MOST_RUNS: usize = 64;

type CollectorIdentity = (Option<String>, SourceFormat, Option<Option<String>>);

/// Joins the files of each collector in the order of their moments. A gap between them stays one.
/// Files of one time that tell different things, as of two runs side by side, stay apart.
///
/// Files without a host are not joined, nor are wall clocks of two zones, such as summer's and
/// winter's.
#[allow(clippy::vec_box, reason = "a part is half a kilobyte, and is moved several times")]
pub fn join_rotated_files<S: Into<Box<Series>>>(parts: Vec<S>) -> Vec<Series> {
    let mut alone: Vec<Series> = Vec::new();
    let mut logs: BTreeMap<String, usize> = BTreeMap::new();
    let mut collectors: BTreeMap<CollectorIdentity, Vec<Box<Series>>> = BTreeMap::new();
    for part in parts.into_iter().map(S::into) {
        let clock = match &part.clock {
            Clock::Utc { .. } => None,
            Clock::Wall { zone } => Some(zone.clone()),
        };
        if part.host.is_none() || part.samples().is_empty() {
            // A log that was read window by window is one.
            let known = logs.get(&part.source).filter(|_| part.format.is_log());
            match known.and_then(|place| alone.get_mut(*place)) {
                Some(whole) => _ = whole.append(*part),
                None => {
                    logs.entry(part.source.clone()).or_insert(alone.len());
                    alone.push(*part);
                }
            }
        } else {
            collectors.entry((part.host.clone(), part.format, clock)).or_default().push(part);
        }
    }
    let mut all: Vec<Series> = collectors.into_values().flat_map(join_parts).collect();
    all.append(&mut alone);
    all
}

fn first_moment(part: &Series) -> Moment {
    part.samples().first().map_or(Moment::default(), |first| first.at)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartFit {
    /// It tells something else of the same time.
    Beside,
    /// It comes later, and tells of other things.
    Behind,
    /// It comes later and tells of the same things, or begins with what is there already.
    Continues,
}

fn assess_fit(whole: &Series, part: &Series) -> PartFit {
    let Some(reached) = whole.samples().last().map(|last| last.at) else {
        return PartFit::Continues;
    };
    if first_moment(part) > reached {
        let alike = whole.metrics().eq(part.metrics()) && same_step(whole, part);
        return if alike { PartFit::Continues } else { PartFit::Behind };
    }
    let told_before = |(row, sample): (usize, &SeriesSample)| {
        let there = whole.samples().binary_search_by_key(&sample.at, |sample| sample.at);
        there.is_ok_and(|at| {
            part.metrics().all(|metric| {
                part.value(metric, row).is_none() || whole.value(metric, at).is_some()
            })
        })
    };
    let same_time =
        part.samples().iter().enumerate().take_while(|(_, sample)| sample.at <= reached);
    if same_time.into_iter().all(told_before) { PartFit::Continues } else { PartFit::Beside }
}

/// Whether samples of both are about equally far apart; a single sample fits any.
fn same_step(one: &Series, other: &Series) -> bool {
    let step = |series: &Series| {
        let (first, last) = series.samples().first().zip(series.samples().last())?;
        let steps = i64::try_from(series.samples().len())
            .ok()?
            .checked_sub(1)
            .filter(|steps| *steps > 0)?;
        last.at.0.saturating_sub(first.at.0).checked_div(steps)
    };
    let (Some(one), Some(other)) = (step(one), step(other)) else { return true };
    one <= other.saturating_mul(2) && other <= one.saturating_mul(2)
}

/// The first of the runs that a part continues; otherwise the first that it is behind.
fn find_run(all: &[(Series, String)], part: &Series) -> Option<usize> {
    let mut behind = None;
    for (place, (whole, _)) in all.iter().enumerate() {
        match assess_fit(whole, part) {
            PartFit::Continues => return Some(place),
            PartFit::Behind => behind = behind.or(Some(place)),
            PartFit::Beside => {}
        }
    }
    behind
}

#[allow(clippy::vec_box, reason = "a part is half a kilobyte, and is moved several times")]
fn join_parts(mut parts: Vec<Box<Series>>) -> Vec<Series> {
    parts.sort_by_key(|part| (first_moment(part), std::cmp::Reverse(part.samples().len())));
    if parts.len() > 1 {
        for part in &mut parts {
            let source = part.source.clone();
            for problem in &mut part.problems {
                problem.what = format!("{source}: {}", problem.what);
            }
        }
    }
    let mut all: Vec<(Series, String)> = Vec::new();
    let rows = parts.iter().map(|part| part.samples().len()).sum();
    for mut part in parts {
        let is_full = all.len() >= MOST_RUNS;
        match find_run(&all, &part).and_then(|place| all.get_mut(place)) {
            Some((whole, last)) => {
                last.clone_from(&part.source);
                whole.append(*part);
            }
            None if is_full => {
                if let Some((whole, _)) = all.first_mut() {
                    whole.leave_out_file();
                }
            }
            None => {
                let source = part.source.clone();
                if all.is_empty() {
                    part.reserve(rows);
                }
                all.push((*part, source));
            }
        }
    }
    let named = all.into_iter().map(|(mut whole, last)| {
        if whole.source != last {
            whole.source = format!("{} to {last}", whole.source);
        }
        whole.finish()
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Mark, MarkKind, Metric};

    fn sample_part(host: &str, source: &str, moments: &[i64]) -> Series {
        let mut series =
            Series::new(source, crate::SourceFormat::OsWatcher(crate::CollectedTool::Ps));
        series.host = Some(host.to_owned());
        for at in moments {
            series.push(Moment::from_seconds(*at), Some(Duration::from_secs(10)));
            series.set_value(Metric::Processes, f64::from(u32::try_from(*at).unwrap()));
            if at % 20 == 0 {
                series.set_command("postgres", u32::try_from(*at).unwrap());
            }
        }
        series
    }

    fn process_rows(series: &Series) -> Vec<(i64, Option<f64>)> {
        let samples = series.samples().iter().enumerate();
        samples
            .map(|(row, sample)| (sample.at.0 / 1000, series.value(Metric::Processes, row)))
            .collect()
    }

    #[test]
    fn files_of_one_collector_are_one_series_whatever_their_order() {
        let mut late = sample_part("db1", "hour2", &[130, 140]);
        late.marks.push(Mark { at: Moment::from_seconds(130), kind: MarkKind::Restart });
        late.add_problem("torn");
        let all = join_rotated_files(vec![
            late,
            sample_part("db2", "other", &[130]),
            sample_part("db1", "hour1", &[100, 110, 120]),
        ]);
        assert_eq!(all.len(), 2);
        let db1 = &all[0];
        assert_eq!(
            process_rows(db1),
            [100, 110, 120, 130, 140].map(|at| (at, Some(f64::from(i32::try_from(at).unwrap()))))
        );
        assert_eq!((db1.source.as_str(), db1.marks.len()), ("hour1 to hour2", 1));
        assert_eq!(db1.problems[0].what, "hour2: torn");
        let (_, postgres) = db1.command_columns(crate::Use::Processes).next().unwrap();
        assert_eq!(postgres.iter().collect::<Vec<_>>(), [(0, 100.0), (2, 120.0), (4, 140.0)]);
        assert_eq!(process_rows(&all[1]), [(130, Some(130.0))]);
    }

    #[test]
    fn a_copy_and_a_file_that_begins_with_the_end_of_another_add_what_is_new() {
        let all = join_rotated_files(vec![
            sample_part("db1", "a", &[100, 110]),
            sample_part("db1", "a.gz", &[100, 110]),
            sample_part("db1", "b", &[110, 120]),
        ]);
        assert_eq!(all.len(), 1);
        assert_eq!(process_rows(&all[0]).len(), 3);
        assert_eq!(all[0].problems, []);
    }

    #[test]
    fn what_is_beside_another_run_is_not_hidden_by_it() {
        // Ten minutes' and one second's samples of the same hours, and a third run that goes on
        // behind the first.
        let all = join_rotated_files(vec![
            sample_part("db1", "slow", &[100, 700, 1300]),
            sample_part("db1", "quick", &[690, 691, 692]),
            sample_part("db1", "slow2", &[1900, 2500]),
        ]);
        assert_eq!(
            all.iter().map(|series| series.source.as_str()).collect::<Vec<_>>(),
            ["slow to slow2", "quick"]
        );
        assert_eq!((process_rows(&all[0]).len(), process_rows(&all[1]).len()), (5, 3));
        // The same moments, and other things.
        let mut other = sample_part("db1", "vmstat", &[100, 110]);
        other.set_value(Metric::MemFree, 1.0);
        assert_eq!(
            join_rotated_files(vec![sample_part("db1", "meminfo", &[100, 110]), other]).len(),
            2
        );
    }

    /// Each has moments of its own between those of all others.
    #[test]
    fn files_beside_very_many_others_are_left_out_and_counted() {
        let parts =
            (0..200).map(|at| sample_part("db1", &format!("run{at:03}"), &[1000 + at, 3000 + at]));
        let all = join_rotated_files(parts.collect());
        assert_eq!(all.len(), MOST_RUNS);
        let left_out: usize = all.iter().map(Series::files_left_out).sum();
        assert_eq!(left_out, 200 - MOST_RUNS);
    }

    #[test]
    fn files_of_nobody_stay_apart() {
        let mut one = sample_part("", "a", &[100]);
        one.host = None;
        let mut wall = sample_part("db1", "b", &[100]);
        wall.clock = Clock::Utc { offsets: Vec::new() };
        assert_eq!(
            join_rotated_files(vec![one.clone(), one, wall, sample_part("db1", "c", &[200])]).len(),
            4
        );
    }
}
