//! Holds what is said of each archive against what was done.

use std::fmt;
use std::path::Path;

use hugewise_investigate::{Options, investigate};

use super::causes::{self, Cause};
use super::collectors::{Collector, INTERVALS};
use super::limits;
use super::play::PlayedTruth;
use hugewise_testkit::tools::Failure;

/// What came of one archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The right verdict, at the right time.
    Named,
    /// Another that is true of the cause too.
    As(String),
    /// Nothing is said, and nothing was to be.
    Silent,
    /// Nothing is said, and why that source cannot tell.
    Missed(&'static str),
    /// Nothing is said, and it could have been.
    MissedWrongly,
    /// What is said is not what was done.
    Misnamed(String),
    /// The collector does not run at that interval.
    NotPlayed,
}

impl Cell {
    pub(super) const fn is_wrong(&self) -> bool {
        matches!(self, Self::MissedWrongly | Self::Misnamed(_))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("named"),
            Self::As(verdict) => write!(f, "as {verdict}"),
            Self::Silent => f.write_str("silent"),
            Self::Missed(_) => f.write_str("missed"),
            Self::MissedWrongly => f.write_str("MISSED"),
            Self::NotPlayed => f.write_str("-"),
            Self::Misnamed(what) => write!(f, "MISNAMED: {what}"),
        }
    }
}

/// One incident, with its moments in seconds since 1970.
pub(super) struct ReportedVerdict {
    pub(super) verdict: &'static str,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// What is said of one archive.
pub(super) fn investigate_archive(archive: &Path) -> Result<Vec<ReportedVerdict>, Failure> {
    let options = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    let said = investigate(&[archive.to_owned()], &options, &|_| ())?;
    let incidents = said.hosts.iter().flat_map(|host| &host.incidents);
    let told = incidents.map(|incident| ReportedVerdict {
        verdict: incident.verdict.name(),
        from: incident.from.0 / 1000,
        to: incident.to.0 / 1000,
    });
    Ok(told.collect())
}

/// One cause of a play, with what came of each archive.
pub(super) struct Row {
    pub(super) cause: &'static Cause,
    pub(super) cells: Vec<(Collector, u32, Cell)>,
}

impl Row {
    pub(super) fn cells_of(&self, collector: Collector) -> impl Iterator<Item = (u32, &Cell)> {
        self.cells
            .iter()
            .filter(move |(other_collector, ..)| *other_collector == collector)
            .map(|(_, interval, cell)| (*interval, cell))
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        let missed = self.cells.iter().filter_map(|(collector, interval, cell)| match cell {
            Cell::Missed(why) => {
                Some(format!("{}, {} at {interval} s: {why}", self.cause.name, collector.name()))
            }
            _ => None,
        });
        missed.collect()
    }

    /// What is not as it must be.
    pub(super) fn wrong(&self) -> Vec<String> {
        let wrong = self.cells.iter().filter(|(_, _, cell)| cell.is_wrong());
        wrong
            .map(|(collector, interval, cell)| {
                format!("{}, {} at {interval} s: {cell}", self.cause.name, collector.name())
            })
            .collect()
    }
}

/// All archives of a play.
pub(super) fn run(folder: &Path, truths: &[PlayedTruth]) -> Result<Vec<Row>, Failure> {
    let known = truths
        .iter()
        .filter_map(|truth| Some((causes::all().find(|cause| cause.name == truth.cause)?, truth)));
    let known: Vec<(&'static Cause, &PlayedTruth)> = known.collect();
    let mut rows: Vec<Row> =
        known.iter().map(|(cause, _)| Row { cause, cells: Vec::new() }).collect();
    if rows.is_empty() {
        return Ok(rows);
    }
    for collector in Collector::ALL {
        for interval in INTERVALS {
            if !collector.samples_at(interval) {
                rows.iter_mut()
                    .for_each(|row| row.cells.push((collector, interval, Cell::NotPlayed)));
                continue;
            }
            let archive = collector.archive(folder, interval);
            let told = investigate_archive(&archive)
                .map_err(|failure| format!("{}: {failure}", archive.display()))?;
            for (row, cell) in rows.iter_mut().zip(judge(&known, collector, interval, &told)) {
                row.cells.push((collector, interval, cell));
            }
        }
    }
    Ok(rows)
}

/// A cell for each cause of a play, in their order: each incident belongs to the causes that it
/// meets in time, and one that meets none to the one that is nearest.
fn judge(
    known: &[(&'static Cause, &PlayedTruth)],
    collector: Collector,
    interval: u32,
    told: &[ReportedVerdict],
) -> Vec<Cell> {
    // An interval is told of whole; what a cause leaves behind is over with the second.
    let slack = 2 * i64::from(interval) + SLACK;
    let away = |told: &ReportedVerdict, truth: &PlayedTruth| {
        ((told.from - truth.to).max(truth.from - told.to) - slack).max(0)
    };
    let nearest = |told: &ReportedVerdict| {
        known.iter().map(|(_, truth)| away(told, truth)).min().unwrap_or_default()
    };
    let cells = known.iter().map(|(cause, truth)| {
        let mine = told.iter().filter(|told| away(told, truth) == nearest(told));
        let mine: Vec<(&ReportedVerdict, bool)> =
            mine.map(|told| (told, away(told, truth) == 0)).collect();
        cell(cause, collector, interval, &mine)
    });
    cells.collect()
}

/// Of the incidents that belong to a cause, each with whether it is of its time.
fn cell(
    cause: &Cause,
    collector: Collector,
    interval: u32,
    told: &[(&ReportedVerdict, bool)],
) -> Cell {
    let right = |told: &ReportedVerdict| cause.verdict == Some(told.verdict);
    let fits = |told: &ReportedVerdict| right(told) || cause.also.contains(&told.verdict);
    if let Some((wrong, then)) = told.iter().find(|(told, then)| !then || !fits(told)) {
        let when = if *then { "" } else { " at another time" };
        return Cell::Misnamed(format!("{}{when}", wrong.verdict));
    }
    if told.iter().any(|(told, _)| right(told)) {
        return Cell::Named;
    }
    match (told.first(), cause.verdict) {
        (Some((told, _)), _) => Cell::As(told.verdict.to_owned()),
        (None, None) => Cell::Silent,
        (None, Some(_)) => limits::cannot_tell(cause.name, collector, interval)
            .map_or(Cell::MissedWrongly, Cell::Missed),
    }
}

/// Seconds that processes take to begin and to end.
const SLACK: i64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(name: &str) -> &'static Cause {
        causes::all().find(|cause| cause.name == name).unwrap_or_else(|| unreachable!("{name}"))
    }

    fn truth(name: &str, from: i64) -> PlayedTruth {
        PlayedTruth { cause: name.to_owned(), from, to: from + 300 }
    }

    fn cell(name: &str, told: &[(&'static str, i64, i64)]) -> Cell {
        cells(&[(cause(name), &truth(name, 1000))], told).remove(0)
    }

    fn cells(
        known: &[(&'static Cause, &PlayedTruth)],
        told: &[(&'static str, i64, i64)],
    ) -> Vec<Cell> {
        let told: Vec<ReportedVerdict> = told
            .iter()
            .map(|(verdict, from, to)| ReportedVerdict { verdict, from: *from, to: *to })
            .collect();
        judge(known, Collector::Pcp, 1, &told)
    }

    #[test]
    fn an_incident_belongs_to_the_cause_of_its_time() {
        let (first, second) = (truth("batch", 1000), truth("user-cpu", 2000));
        let known = [(cause("batch"), &first), (cause("user-cpu"), &second)];
        assert_eq!(cells(&known, &[("user-cpu", 2010, 2290)]), [Cell::Silent, Cell::Named]);
        assert!(cells(&known, &[("user-cpu", 1010, 1290)]).iter().all(Cell::is_wrong));
        // Between both it is of neither, and stands with the nearer.
        let between = cells(&known, &[("user-cpu", 1800, 1850)]);
        assert_eq!(between.first(), Some(&Cell::Silent));
        assert_eq!(between.last(), Some(&Cell::Misnamed("user-cpu at another time".to_owned())));
    }

    #[test]
    fn a_verdict_counts_at_its_time_alone() {
        assert_eq!(cell("fork-storm", &[("fork-storm", 1010, 1290)]), Cell::Named);
        assert_eq!(
            cell("fork-storm", &[("kernel-cpu", 1010, 1290)]),
            Cell::As("kernel-cpu".to_owned())
        );
        assert_eq!(
            cell("fork-storm", &[("fork-storm", 500, 900)]),
            Cell::Misnamed("fork-storm at another time".to_owned())
        );
        assert_eq!(
            cell("fork-storm", &[("swap-storm", 1010, 1290)]),
            Cell::Misnamed("swap-storm".to_owned())
        );
        // One that is right excuses no other.
        let both = [("fork-storm", 1010, 1290), ("steal", 1010, 1290)];
        assert_eq!(cell("fork-storm", &both), Cell::Misnamed("steal".to_owned()));
        assert!(cell("fork-storm", &[]).is_wrong());
    }

    #[test]
    fn a_host_without_trouble_has_no_incident() {
        assert_eq!(cell("quiet", &[]), Cell::Silent);
        assert!(cell("backup", &[("disk-stall", 1010, 1290)]).is_wrong());
    }
}
