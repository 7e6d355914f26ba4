//! Collectors begin a file every hour or day: files of one collector of one host are one series.

use std::collections::BTreeMap;

use crate::series::Sample;
use crate::{Clock, Format, Moment, Series};

/// What files of one collector have in common: host, format, and which clock they are of.
type Collector = (Option<String>, Format, Option<Option<String>>);

/// Puts the files of each collector one behind the other, in the order of their moments. A gap between them stays one.
/// Files of one time that tell different things, as of two runs beside one another, are series of their own: none hides
/// what another one saw.
///
/// Files whose host is not told are not taken for one host's, and wall clocks of two zones, such as summer's and winter's,
/// not for one clock.
pub fn join(parts: Vec<Series>) -> Vec<Series> {
    let mut alone: Vec<Series> = Vec::new();
    let mut collectors: BTreeMap<Collector, Vec<Series>> = BTreeMap::new();
    for part in parts {
        let clock = match &part.clock {
            Clock::Utc { .. } => None,
            Clock::Wall { zone } => Some(zone.clone()),
        };
        if part.host.is_none() || part.samples().is_empty() {
            // A log that was read in windows of time is one.
            let same = |whole: &&mut Series| part.format.is_log() && whole.source == part.source;
            match alone.iter_mut().find(same) {
                Some(whole) => _ = whole.append(part),
                None => alone.push(part),
            }
        } else {
            collectors.entry((part.host.clone(), part.format, clock)).or_default().push(part);
        }
    }
    let mut all: Vec<Series> = collectors.into_values().flat_map(joined).collect();
    all.append(&mut alone);
    all
}

fn begins(part: &Series) -> Moment {
    part.samples().first().map_or(Moment::default(), |first| first.at)
}

/// What can be said of a part and what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It tells something else of the same time.
    Beside,
    /// It comes later, and tells of other things.
    Behind,
    /// It comes later and tells of the same things, or begins with what is there already.
    Continues,
}

fn fit(whole: &Series, part: &Series) -> Fit {
    let Some(reached) = whole.samples().last().map(|last| last.at) else { return Fit::Continues };
    if begins(part) > reached {
        let alike = whole.metrics().eq(part.metrics()) && same_step(whole, part);
        return if alike { Fit::Continues } else { Fit::Behind };
    }
    let told_before = |(row, sample): (usize, &Sample)| {
        let there = whole.samples().binary_search_by_key(&sample.at, |sample| sample.at);
        there.is_ok_and(|at| {
            part.metrics().all(|metric| part.value(metric, row).is_none() || whole.value(metric, at).is_some())
        })
    };
    let same_time = part.samples().iter().enumerate().take_while(|(_, sample)| sample.at <= reached);
    if same_time.into_iter().all(told_before) { Fit::Continues } else { Fit::Beside }
}

/// Whether samples of both are about as far apart; of a single one nobody knows.
fn same_step(one: &Series, other: &Series) -> bool {
    let step = |series: &Series| {
        let (first, last) = series.samples().first().zip(series.samples().last())?;
        let steps = i64::try_from(series.samples().len()).ok()?.checked_sub(1).filter(|steps| *steps > 0)?;
        last.at.0.saturating_sub(first.at.0).checked_div(steps)
    };
    let (Some(one), Some(other)) = (step(one), step(other)) else { return true };
    one <= other.saturating_mul(2) && other <= one.saturating_mul(2)
}

fn joined(mut parts: Vec<Series>) -> Vec<Series> {
    parts.sort_by_key(|part| (begins(part), std::cmp::Reverse(part.samples().len())));
    if parts.len() > 1 {
        // A problem is of its file.
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
        // Of several that fit alike the first.
        let best = all.iter_mut().rev().map(|whole| (fit(&whole.0, &part), whole)).max_by_key(|(fit, _)| *fit);
        match best.filter(|(fit, _)| *fit > Fit::Beside) {
            Some((_, (whole, last))) => {
                last.clone_from(&part.source);
                whole.append(part);
            }
            None => {
                let source = part.source.clone();
                if all.is_empty() {
                    // Nearly always all are of one.
                    part.reserve(rows);
                }
                all.push((part, source));
            }
        }
    }
    let named = all.into_iter().map(|(mut whole, last)| {
        if whole.source != last {
            whole.source = format!("{} to {last}", whole.source);
        }
        whole.finished()
    });
    named.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Mark, MarkKind, Metric};

    fn part(host: &str, source: &str, moments: &[i64]) -> Series {
        let mut series = Series::new(source, crate::Format::OsWatcher(crate::Tool::Ps));
        series.host = Some(host.to_owned());
        for at in moments {
            series.push(Moment::from_seconds(*at), Some(Duration::from_secs(10)));
            series.set(Metric::Processes, f64::from(u32::try_from(*at).unwrap()));
            if at % 20 == 0 {
                series.set_command("postgres", u32::try_from(*at).unwrap());
            }
        }
        series
    }

    fn rows(series: &Series) -> Vec<(i64, Option<f64>)> {
        let samples = series.samples().iter().enumerate();
        samples.map(|(row, sample)| (sample.at.0 / 1000, series.value(Metric::Processes, row))).collect()
    }

    #[test]
    fn files_of_one_collector_are_one_series_whatever_their_order() {
        let mut late = part("db1", "hour2", &[130, 140]);
        late.marks.push(Mark { at: Moment::from_seconds(130), kind: MarkKind::Restart });
        late.problem("torn");
        let all = join(vec![late, part("db2", "other", &[130]), part("db1", "hour1", &[100, 110, 120])]);
        assert_eq!(all.len(), 2);
        let db1 = &all[0];
        assert_eq!(rows(db1), [100, 110, 120, 130, 140].map(|at| (at, Some(f64::from(i32::try_from(at).unwrap())))));
        assert_eq!((db1.source.as_str(), db1.marks.len()), ("hour1 to hour2", 1));
        assert_eq!(db1.problems[0].what, "hour2: torn");
        let (_, postgres) = db1.commands().next().unwrap();
        assert_eq!(postgres.iter().collect::<Vec<_>>(), [(0, 100.0), (2, 120.0), (4, 140.0)]);
        assert_eq!(rows(&all[1]), [(130, Some(130.0))]);
    }

    #[test]
    fn a_copy_and_a_file_that_begins_with_the_end_of_another_add_what_is_new() {
        let all =
            join(vec![part("db1", "a", &[100, 110]), part("db1", "a.gz", &[100, 110]), part("db1", "b", &[110, 120])]);
        assert_eq!(all.len(), 1);
        assert_eq!(rows(&all[0]).len(), 3);
        assert_eq!(all[0].problems, []);
    }

    #[test]
    fn what_is_beside_another_run_is_not_hidden_by_it() {
        // Ten minutes' and one second's samples of the same hours, and a third run that goes on behind the first.
        let all = join(vec![
            part("db1", "slow", &[100, 700, 1300]),
            part("db1", "quick", &[690, 691, 692]),
            part("db1", "slow2", &[1900, 2500]),
        ]);
        assert_eq!(all.iter().map(|series| series.source.as_str()).collect::<Vec<_>>(), ["slow to slow2", "quick"]);
        assert_eq!((rows(&all[0]).len(), rows(&all[1]).len()), (5, 3));
        // The same moments, and other things.
        let mut other = part("db1", "vmstat", &[100, 110]);
        other.set(Metric::MemFree, 1.0);
        assert_eq!(join(vec![part("db1", "meminfo", &[100, 110]), other]).len(), 2);
    }

    #[test]
    fn files_of_nobody_stay_apart() {
        let mut one = part("", "a", &[100]);
        one.host = None;
        let mut wall = part("db1", "b", &[100]);
        wall.clock = Clock::Utc { offsets: Vec::new() };
        assert_eq!(join(vec![one.clone(), one, wall, part("db1", "c", &[200])]).len(), 4);
    }
}
