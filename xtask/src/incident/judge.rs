//! Holds what is said of each archive against what was done.

use std::fmt;
use std::path::Path;

use hugewise_incident::{Options, investigate};

use super::causes::Cause;
use super::collectors::{Collector, INTERVALS};
use super::limits;
use super::play::Truth;
use crate::Failure;

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
            Self::Misnamed(what) => write!(f, "MISNAMED: {what}"),
        }
    }
}

/// One incident, with its moments in seconds since 1970.
pub(super) struct Told {
    pub(super) verdict: &'static str,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// What is said of one archive.
pub(super) fn told(archive: &Path) -> Result<Vec<Told>, Failure> {
    let options = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    let said = investigate(&[archive.to_owned()], &options, &|_| ())?;
    let incidents = said.hosts.iter().flat_map(|host| &host.incidents);
    let told = incidents.map(|incident| Told {
        verdict: incident.verdict.name(),
        from: incident.from.0 / 1000,
        to: incident.to.0 / 1000,
    });
    Ok(told.collect())
}

/// All archives of a run.
pub(super) fn run(cause: &Cause, folder: &Path, truth: Truth) -> Result<Vec<(Collector, u32, Cell)>, Failure> {
    let mut cells = Vec::new();
    for collector in Collector::ALL {
        for interval in INTERVALS {
            let told = told(&collector.archive(folder, interval))
                .map_err(|failure| format!("{} of {} at {interval} s: {failure}", collector.name(), cause.name))?;
            cells.push((collector, interval, judge(cause, collector, interval, truth, &told)));
        }
    }
    Ok(cells)
}

fn judge(cause: &Cause, collector: Collector, interval: u32, truth: Truth, told: &[Told]) -> Cell {
    // An interval is told of whole; what a cause leaves behind is over with the second.
    let slack = 2 * i64::from(interval) + SLACK;
    let within = |told: &Told| told.from <= truth.to + slack && truth.from - slack <= told.to;
    let right = |told: &Told| cause.verdict == Some(told.verdict);
    let also = |told: &Told| cause.also.contains(&told.verdict);
    if let Some(wrong) = told.iter().find(|told| !within(told) || !(right(told) || also(told))) {
        let when = if within(wrong) { "" } else { " at another time" };
        return Cell::Misnamed(format!("{}{when}", wrong.verdict));
    }
    if told.iter().any(right) {
        return Cell::Named;
    }
    match (told.first(), cause.verdict) {
        (Some(told), _) => Cell::As(told.verdict.to_owned()),
        (None, None) => Cell::Silent,
        (None, Some(_)) => {
            limits::cannot_tell(cause.name, collector, interval).map_or(Cell::MissedWrongly, Cell::Missed)
        }
    }
}

/// Seconds that processes take to begin and to end.
const SLACK: i64 = 30;

#[cfg(test)]
mod tests {
    use super::super::causes;
    use super::*;

    fn cause(name: &str) -> &'static Cause {
        causes::ALL.iter().find(|cause| cause.name == name).unwrap_or_else(|| unreachable!("{name}"))
    }

    fn cell(name: &str, told: &[(&'static str, i64, i64)]) -> Cell {
        let told: Vec<Told> = told.iter().map(|(verdict, from, to)| Told { verdict, from: *from, to: *to }).collect();
        judge(cause(name), Collector::Pcp, 1, Truth { from: 1000, to: 1300 }, &told)
    }

    #[test]
    fn a_verdict_counts_at_its_time_alone() {
        assert_eq!(cell("fork-storm", &[("fork-storm", 1010, 1290)]), Cell::Named);
        assert_eq!(cell("fork-storm", &[("kernel-cpu", 1010, 1290)]), Cell::As("kernel-cpu".to_owned()));
        assert_eq!(
            cell("fork-storm", &[("fork-storm", 500, 900)]),
            Cell::Misnamed("fork-storm at another time".to_owned())
        );
        assert_eq!(cell("fork-storm", &[("swap-storm", 1010, 1290)]), Cell::Misnamed("swap-storm".to_owned()));
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
