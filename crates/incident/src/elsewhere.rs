//! The same trouble on several hosts at once: nodes of a cluster, a primary and its standby, guests of one hypervisor.

use crate::signatures::rows::{MINUTE, SECOND, apart};
use crate::{Clock, History, Incident, Moment, Verdict};

/// Troubles that begin no farther apart than this, in milliseconds, are of one cause: clocks of a cluster agree to a second,
/// and samples are up to a minute apart where they are of use.
const TOGETHER: i64 = MINUTE;
/// Hosts that are named; of a thousand of one hypervisor nobody reads all.
const MOST: usize = 8;

/// When an incident began, and what it was taken for, on which host.
type Began = (usize, Verdict, Moment);

/// Tells each incident of the others that are of the same verdict and began at about the same time.
pub(crate) fn told(hosts: &mut [History]) {
    let all: Vec<Began> = (0..)
        .zip(hosts.iter())
        .flat_map(|(at, host)| {
            host.incidents.iter().filter(|one| is_event(one.verdict)).map(move |one| (at, one.verdict, one.from))
        })
        .collect();
    let clocks: Vec<Clock> = hosts.iter().map(|host| host.clock.clone()).collect();
    let names: Vec<String> =
        hosts.iter().map(|host| host.host.clone().unwrap_or_else(|| "a host without a name".to_owned())).collect();
    for ((at, host), clock) in hosts.iter_mut().enumerate().zip(&clocks) {
        for incident in &mut host.incidents {
            let same = all.iter().filter(|(other, verdict, from)| {
                let near = apart(incident.from, *from).saturating_abs() <= TOGETHER;
                *other != at
                    && *verdict == incident.verdict
                    && near
                    && clocks.get(*other).is_some_and(|other| compare(clock, other))
            });
            let mut seen: Vec<usize> = Vec::new();
            let mut lines: Vec<String> = Vec::new();
            for (other, _, from) in same {
                if !seen.contains(other)
                    && let Some(name) = names.get(*other)
                {
                    seen.push(*other);
                    lines.push(line(name, incident, *from, clock));
                }
            }
            let more = lines.len().saturating_sub(MOST);
            lines.truncate(MOST);
            if more > 0 {
                lines.push(format!("and {more} more hosts"));
            }
            incident.elsewhere = lines;
        }
    }
}

fn line(name: &str, incident: &Incident, from: Moment, clock: &Clock) -> String {
    let seconds = apart(incident.from, from) / SECOND;
    let when = match seconds {
        0 => "in the same second".to_owned(),
        1.. => format!("{seconds} s later"),
        _ => format!("{} s earlier", -seconds),
    };
    // Nobody says whether walls of two hosts show one time.
    let by = if matches!(clock, Clock::Wall { zone: None }) { " by their wall clocks" } else { "" };
    format!("{name} had the same, which began {when}{by}: look for what they share")
}

/// What has a beginning.
const fn is_event(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::PageTablesStanding | Verdict::PageTablesGrowing | Verdict::PoolUnused)
}

/// Whether moments of two clocks can be compared: both of UTC, or of walls that show the same zone.
fn compare(one: &Clock, other: &Clock) -> bool {
    match (one, other) {
        (Clock::Utc { .. }, Clock::Utc { .. }) => true,
        (Clock::Wall { zone: one }, Clock::Wall { zone: other }) => one == other,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::{Confidence, Signature};

    fn host(name: &str, clock: Clock, incidents: &[(Verdict, i64)]) -> History {
        let incident = |(verdict, from): &(Verdict, i64)| Incident {
            from: Moment::from_seconds(*from),
            to: Moment::from_seconds(from + 60),
            verdict: *verdict,
            summary: String::new(),
            confidence: Confidence::High,
            raised_by: Vec::new(),
            against: Vec::new(),
            next: Vec::new(),
            who: Vec::new(),
            elsewhere: Vec::new(),
            other_days: Vec::new(),
            signatures: Vec::<Signature>::new(),
        };
        History {
            host: Some(name.to_owned()),
            clock,
            incidents: incidents.iter().map(incident).collect(),
            ..History::default()
        }
    }

    #[test]
    fn nodes_of_a_cluster_are_told_of_each_other() {
        let utc = || Clock::Utc { offsets: Vec::new() };
        let storm = Verdict::ReclaimStorm;
        let mut hosts = [
            host("rac1", utc(), &[(storm, 1000), (storm, 9000), (Verdict::PoolUnused, 0)]),
            host("rac2", utc(), &[(storm, 1000), (Verdict::SwapStorm, 9000), (Verdict::PoolUnused, 0)]),
            host("rac3", utc(), &[(storm, 1042)]),
            host("else", Clock::Wall { zone: None }, &[(storm, 1000)]),
        ];
        told(&mut hosts);
        let of = |host: usize, incident: usize| hosts[host].incidents[incident].elsewhere.join("; ");
        let share = "look for what they share";
        assert_eq!(
            of(0, 0),
            format!(
                "rac2 had the same, which began in the same second: {share}; rac3 had the same, which began 42 s later: {share}"
            )
        );
        assert!(of(2, 0).starts_with("rac1 had the same, which began 42 s earlier"));
        assert_eq!([of(0, 1), of(0, 2), of(1, 1), of(3, 0)], [""; 4]);
    }
}
