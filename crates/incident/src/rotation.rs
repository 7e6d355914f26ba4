//! Collectors begin a file every hour or day: files of one collector of one host are one series.

use std::collections::BTreeMap;

use crate::{Clock, Moment, Series};

/// What files of one collector have in common: host, format, and which clock they are of.
type Collector = (Option<String>, &'static str, Option<Option<String>>);

/// Puts the files of each collector one behind the other, in the order of their moments. A gap between them stays one.
///
/// Files whose host is not told are not taken for one host's, and wall clocks of two zones, such as summer's and winter's,
/// not for one clock.
pub fn join(parts: Vec<Series>) -> Vec<Series> {
    let mut alone = Vec::new();
    let mut collectors: BTreeMap<Collector, Vec<Series>> = BTreeMap::new();
    for part in parts {
        let clock = match &part.clock {
            Clock::Utc { .. } => None,
            Clock::Wall { zone } => Some(zone.clone()),
        };
        if part.host.is_none() || part.samples().is_empty() {
            alone.push(part);
        } else {
            collectors.entry((part.host.clone(), part.format, clock)).or_default().push(part);
        }
    }
    let mut all: Vec<Series> = collectors.into_values().filter_map(joined).collect();
    all.append(&mut alone);
    all
}

fn begins(part: &Series) -> Moment {
    part.samples().first().map_or(Moment::default(), |first| first.at)
}

fn joined(mut parts: Vec<Series>) -> Option<Series> {
    parts.sort_by_key(|part| (begins(part), std::cmp::Reverse(part.samples().len())));
    let several = parts.len() > 1;
    let mut parts = parts.into_iter().map(|mut part| {
        if !several {
            return part;
        }
        // A problem is of its file.
        let source = part.source.clone();
        for problem in &mut part.problems {
            problem.what = format!("{source}: {}", problem.what);
        }
        part
    });
    let mut whole = parts.next()?;
    let mut names = (whole.source.clone(), whole.source.clone());
    for part in parts {
        let source = part.source.clone();
        let left = whole.append(part);
        if left > 0 {
            whole.problem(format!("{source}: {left} samples are not later than those of other files, and left out"));
        }
        names.1 = source;
    }
    if names.0 != names.1 {
        whole.source = format!("{} to {}", names.0, names.1);
    }
    Some(whole.finished())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Mark, MarkKind, Metric};

    fn part(host: &str, source: &str, moments: &[i64]) -> Series {
        let mut series = Series::new(source, "oswatcher ps");
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
    fn a_copy_adds_nothing_and_an_overlap_is_told() {
        let all =
            join(vec![part("db1", "a", &[100, 110]), part("db1", "a.gz", &[100, 110]), part("db1", "b", &[110, 120])]);
        assert_eq!(rows(&all[0]).len(), 3);
        assert_eq!(all[0].problems.len(), 2);
        assert!(all[0].problems[1].what.starts_with("b: 1 samples"));
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
