//! The same trouble on several hosts at once: nodes of a cluster, a primary and its standby, guests of one hypervisor.

use hugewise_model::escape::shell;

use crate::signatures::rows::{MINUTE, SECOND, apart};
use crate::{Ahead, Clock, History, Moment, Verdict};

mod estimate;

use self::estimate::{Delay, FARTHEST, delays};

/// Troubles that begin no farther apart than this, in milliseconds, are of one cause: clocks of a cluster agree to a second,
/// and samples are up to a minute apart where they are of use.
const TOGETHER: i64 = MINUTE;
/// Hosts that are named; of a thousand of one hypervisor nobody reads all.
const MOST: usize = 8;

/// When an incident began, and what it was taken for, on which host.
type Began = (usize, Verdict, Moment);

/// A host, as others are told of it.
struct Other {
    name: String,
    clock: Clock,
    ahead: Option<Ahead>,
}

impl Other {
    /// How far its clock is ahead as far as it is known, in milliseconds.
    fn ahead(&self) -> i64 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.milliseconds)
    }
}

/// Tells each incident of the others that are of the same verdict and began at about the same time.
pub(crate) fn told(hosts: &mut [History]) {
    let mut all: Vec<Began> = (0..)
        .zip(hosts.iter())
        .flat_map(|(at, host)| {
            host.incidents.iter().filter(|one| is_event(one.verdict)).map(move |one| (at, one.verdict, one.from))
        })
        .collect();
    all.sort_by_key(|(host, _, from)| (*from, *host));
    let others: Vec<Other> = hosts.iter().map(other).collect();
    let delays = delays(&all, &|one, other| {
        let hosts = others.get(one).zip(others.get(other));
        // What is known needs no guess.
        hosts.is_some_and(|(one, other)| {
            one.ahead.is_none() && other.ahead.is_none() && compare(&one.clock, &other.clock)
        })
    });
    let widest = others.iter().map(|other| other.ahead().saturating_abs()).max().unwrap_or(0);
    let reach = FARTHEST.saturating_add(TOGETHER).saturating_add(widest.saturating_mul(2));
    for ((at, host), own) in hosts.iter_mut().enumerate().zip(&others) {
        for incident in &mut host.incidents {
            // Of a thousand hosts only what is near is gone through.
            let first = all.partition_point(|(_, _, from)| apart(*from, incident.from) > reach);
            let near = all.iter().skip(first).take_while(|(_, _, from)| apart(incident.from, *from) <= reach);
            let met = near.filter_map(|(number, verdict, from)| {
                let other = others.get(*number).filter(|other| compare(&own.clock, &other.clock))?;
                let delay = delays.of(at, *number);
                let later = apart(incident.from, *from).saturating_sub(other.ahead()).saturating_add(own.ahead());
                let beyond = delay.map_or(later, |delay| later.saturating_sub(delay.milliseconds));
                let together = later.saturating_abs().min(beyond.saturating_abs()) <= TOGETHER;
                (*number != at && *verdict == incident.verdict && together).then_some((*number, other, later, delay))
            });
            let mut met: Vec<_> = met.collect();
            // A host whose same trouble came twice is told of once: of the nearer one.
            met.sort_by_key(|(number, _, later, _)| (*number, later.saturating_abs()));
            met.dedup_by_key(|(number, ..)| *number);
            let some = met.iter().take(MOST);
            let mut lines: Vec<String> =
                some.map(|(_, other, later, delay)| line(own, other, *later, *delay)).collect();
            let more = met.len().saturating_sub(MOST);
            if more > 0 {
                lines.push(format!("and {more} more hosts"));
            }
            incident.elsewhere = lines;
        }
    }
}

fn other(host: &History) -> Other {
    Other {
        name: host.host.clone().unwrap_or_else(|| "a host without a name".to_owned()),
        clock: host.clock.clone(),
        ahead: host.ahead.clone(),
    }
}

fn line(own: &Other, other: &Other, later: i64, delay: Option<Delay>) -> String {
    let seconds = later / SECOND;
    let mut when = match seconds {
        0 => "in the same second".to_owned(),
        1.. => format!("{seconds} s later"),
        _ => format!("{} s earlier", -seconds),
    };
    if own.ahead() != other.ahead() {
        when.push_str(" once their clocks are corrected");
    } else if matches!(own.clock, Clock::Wall { zone: None }) {
        // Nobody says whether walls of two hosts show one time.
        when.push_str(" by their wall clocks");
    }
    if let Some(delay) = delay {
        let ahead = Ahead { milliseconds: delay.milliseconds / SECOND * SECOND, source: String::new() };
        when.push_str(&format!(
            ", as did {} of its {}: its clock may be about {} (--offset {}={:+}s), or the trouble spreads from one to the other",
            delay.like,
            delay.all,
            ahead.words(),
            shell::word(&other.name),
            delay.milliseconds / SECOND,
        ));
    }
    format!("{} had the same, which began {when}: look for what they share", other.name)
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
    use crate::{Confidence, Incident, Signature};

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

    fn utc() -> Clock {
        Clock::Utc { offsets: Vec::new() }
    }

    fn lines(hosts: &[History]) -> Vec<String> {
        hosts.iter().flat_map(|host| &host.incidents).flat_map(|incident| incident.elsewhere.clone()).collect()
    }

    #[test]
    fn a_clock_that_is_known_to_be_ahead_is_corrected() {
        let storm = Verdict::ReclaimStorm;
        // Ninety seconds apart on their clocks; db2's was ninety seconds ahead.
        let mut hosts = [host("db1", utc(), &[(storm, 1000)]), host("db2", utc(), &[(storm, 1090)])];
        told(&mut hosts);
        assert_eq!(lines(&hosts), Vec::<String>::new());
        hosts[1].ahead = Some(Ahead { milliseconds: 90_000, source: "--offset".into() });
        told(&mut hosts);
        let same = "in the same second once their clocks are corrected: look for what they share";
        assert_eq!(lines(&hosts), ["db2", "db1"].map(|name| format!("{name} had the same, which began {same}")));
        // And what was one is none on clocks that were apart.
        let mut hosts = [host("db1", utc(), &[(storm, 1000)]), host("db2", utc(), &[(storm, 1000)])];
        hosts[0].ahead = Some(Ahead { milliseconds: -90_000, source: "--offset".into() });
        told(&mut hosts);
        assert_eq!(lines(&hosts), Vec::<String>::new());
    }

    #[test]
    fn a_clock_that_is_ahead_shows_in_several_incidents() {
        let storm = Verdict::ReclaimStorm;
        // 130 s later each time, give or take what samples are apart.
        let one = [(storm, 1000), (storm, 9000), (storm, 30_000)];
        let other = [(storm, 1130), (storm, 9125), (storm, 30_131)];
        let mut hosts = [host("db1", utc(), &one), host("db 2", utc(), &other)];
        told(&mut hosts);
        assert_eq!(
            hosts[0].incidents[1].elsewhere,
            [
                "db 2 had the same, which began 125 s later, as did 3 of its 3: its clock may be about 130 s ahead (--offset \
                 'db 2'=+130s), or the trouble spreads from one to the other: look for what they share"
            ]
        );
        assert!(
            hosts[1].incidents[2].elsewhere[0]
                .contains("131 s earlier, as did 3 of its 3: its clock may be about 130 s behind")
        );
        // Two are no proof.
        let mut hosts = [host("db1", utc(), &one[..2]), host("db2", utc(), &other[..2])];
        told(&mut hosts);
        assert_eq!(lines(&hosts), Vec::<String>::new());
        // Who says the clocks is believed.
        let mut hosts = [host("db1", utc(), &one), host("db2", utc(), &other)];
        hosts[0].ahead = Some(Ahead { milliseconds: 0, source: "sos".into() });
        told(&mut hosts);
        assert_eq!(lines(&hosts), Vec::<String>::new());
    }
}
