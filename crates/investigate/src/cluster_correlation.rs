//! The same trouble on several hosts at once: of a cluster, a standby, or one hypervisor.

use hugewise_model::escape::shell;

use crate::signatures::rows::{MINUTE, SECOND, milliseconds_between};
use crate::{Clock, ClockSkew, IncidentHistory, IncidentVerdict, Moment};

mod estimate;

use self::estimate::{Delay, FARTHEST, estimate_delays};

/// Milliseconds: clocks of a cluster agree to a second, useful samples are a minute apart.
const TOGETHER: i64 = MINUTE;
const MOST: usize = 8;
/// Incidents before one, and behind it, that it is compared with: all pairs of very many hosts'
/// would be too many.
const MOST_COMPARED: usize = 1024;
/// Host, verdict and beginning of an incident.
type Began = (usize, IncidentVerdict, Moment);

struct Other {
    name: String,
    clock: Clock,
    ahead: Option<ClockSkew>,
}

impl Other {
    /// Milliseconds that its clock is ahead, as far as known.
    fn clock_skew(&self) -> i64 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.milliseconds)
    }
}

pub(crate) fn correlate_hosts(hosts: &mut [IncidentHistory]) {
    let mut all: Vec<Began> = (0..)
        .zip(hosts.iter())
        .flat_map(|(at, host)| {
            host.incidents
                .iter()
                .filter(|one| one.verdict.is_event())
                .map(move |one| (at, one.verdict, one.from))
        })
        .collect();
    all.sort_by_key(|(host, _, from)| (*from, *host));
    let other = |host: &IncidentHistory| Other {
        name: host.host.clone().unwrap_or_else(|| "a host without a name".to_owned()),
        clock: host.clock.clone(),
        ahead: host.ahead.clone(),
    };
    let others: Vec<Other> = hosts.iter().map(other).collect();
    let delays = estimate_delays(&all, &|one, other| {
        let hosts = others.get(one).zip(others.get(other));
        hosts.is_some_and(|(one, other)| {
            one.ahead.is_none() && other.ahead.is_none() && are_comparable(&one.clock, &other.clock)
        })
    });
    let widest = others.iter().map(|other| other.clock_skew().saturating_abs()).max().unwrap_or(0);
    let farthest = if delays.is_empty() { 0 } else { FARTHEST };
    let reach = farthest.saturating_add(TOGETHER).saturating_add(widest.saturating_mul(2));
    for ((at, host), own) in hosts.iter_mut().enumerate().zip(&others) {
        for incident in &mut host.incidents {
            let first = all
                .partition_point(|(_, _, from)| milliseconds_between(*from, incident.from) > reach);
            let own_place = all.partition_point(|(_, _, from)| *from < incident.from);
            let near = all
                .iter()
                .take(own_place.saturating_add(MOST_COMPARED))
                .skip(first.max(own_place.saturating_sub(MOST_COMPARED)))
                .take_while(|(_, _, from)| milliseconds_between(incident.from, *from) <= reach);
            let met = near.filter_map(|(number, verdict, from)| {
                let other =
                    others.get(*number).filter(|other| are_comparable(&own.clock, &other.clock))?;
                let delay = delays.delay_between(at, *number);
                let later = milliseconds_between(incident.from, *from)
                    .saturating_sub(other.clock_skew())
                    .saturating_add(own.clock_skew());
                let beyond = delay.map_or(later, |delay| later.saturating_sub(delay.milliseconds));
                let together = later.saturating_abs().min(beyond.saturating_abs()) <= TOGETHER;
                (*number != at && *verdict == incident.verdict && together)
                    .then_some((*number, other, later, delay))
            });
            let mut met: Vec<_> = met.collect();
            met.sort_by_key(|(number, _, later, _)| (*number, later.saturating_abs()));
            met.dedup_by_key(|(number, ..)| *number);
            let some = met.iter().take(MOST);
            let mut lines: Vec<String> = some
                .map(|(_, other, later, delay)| describe_match(own, other, *later, *delay))
                .collect();
            let more = met.len().saturating_sub(MOST);
            if more > 0 {
                lines.push(format!("and {more} more hosts"));
            }
            incident.elsewhere = lines;
        }
    }
}

fn describe_match(own: &Other, other: &Other, later: i64, delay: Option<Delay>) -> String {
    let seconds = later / SECOND;
    let mut when = match seconds {
        0 => "in the same second".to_owned(),
        1.. => format!("{seconds} s later"),
        _ => format!("{} s earlier", -seconds),
    };
    if own.clock_skew() != other.clock_skew() {
        when.push_str(" once their clocks are corrected");
    } else if matches!(own.clock, Clock::Wall { zone: None }) {
        // Nobody says whether the wall clocks of two hosts show the same time.
        when.push_str(" by their wall clocks");
    }
    if let Some(delay) = delay {
        let ahead =
            ClockSkew { milliseconds: delay.milliseconds / SECOND * SECOND, source: String::new() };
        when.push_str(&format!(
            ", as did {} of its {}: its clock may be about {} (--offset {}={:+}s), or the trouble \
                 spreads from one to the other",
            delay.like,
            delay.all,
            ahead.describe_skew(),
            shell::quote_word(&other.name),
            delay.milliseconds / SECOND,
        ));
    }
    format!("{} had the same, which began {when}: look for what they share", other.name)
}

fn are_comparable(one: &Clock, other: &Clock) -> bool {
    match (one, other) {
        (Clock::Utc { .. }, Clock::Utc { .. }) => true,
        (Clock::Wall { zone: one }, Clock::Wall { zone: other }) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Incident, Signature};

    fn host_with_incidents(
        name: &str,
        clock: Clock,
        incidents: &[(IncidentVerdict, i64)],
    ) -> IncidentHistory {
        let incident = |(verdict, from): &(IncidentVerdict, i64)| Incident {
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
        IncidentHistory {
            host: Some(name.to_owned()),
            clock,
            incidents: incidents.iter().map(incident).collect(),
            ..IncidentHistory::default()
        }
    }

    #[test]
    fn nodes_of_a_cluster_are_told_of_each_other() {
        let utc = || Clock::Utc { offsets: Vec::new() };
        let storm = IncidentVerdict::ReclaimStorm;
        let mut hosts = [
            host_with_incidents(
                "rac1",
                utc(),
                &[(storm, 1000), (storm, 9000), (IncidentVerdict::PoolUnused, 0)],
            ),
            host_with_incidents(
                "rac2",
                utc(),
                &[
                    (storm, 1000),
                    (IncidentVerdict::SwapStorm, 9000),
                    (IncidentVerdict::PoolUnused, 0),
                ],
            ),
            host_with_incidents("rac3", utc(), &[(storm, 1042)]),
            host_with_incidents("else", Clock::Wall { zone: None }, &[(storm, 1000)]),
        ];
        correlate_hosts(&mut hosts);
        let text_of =
            |host: usize, incident: usize| hosts[host].incidents[incident].elsewhere.join("; ");
        let share = "look for what they share";
        assert_eq!(
            text_of(0, 0),
            format!(
                "rac2 had the same, which began in the same second: {share}; rac3 had the same, \
                     which began 42 s later: {share}"
            )
        );
        assert!(text_of(2, 0).starts_with("rac1 had the same, which began 42 s earlier"));
        assert_eq!([text_of(0, 1), text_of(0, 2), text_of(1, 1), text_of(3, 0)], [""; 4]);
    }

    fn utc_clock() -> Clock {
        Clock::Utc { offsets: Vec::new() }
    }

    fn correlation_lines(hosts: &[IncidentHistory]) -> Vec<String> {
        hosts
            .iter()
            .flat_map(|host| &host.incidents)
            .flat_map(|incident| incident.elsewhere.clone())
            .collect()
    }

    #[test]
    fn a_clock_that_is_known_to_be_ahead_is_corrected() {
        let storm = IncidentVerdict::ReclaimStorm;
        // Ninety seconds apart on their clocks; db2's was ninety seconds ahead.
        let mut hosts = [
            host_with_incidents("db1", utc_clock(), &[(storm, 1000)]),
            host_with_incidents("db2", utc_clock(), &[(storm, 1090)]),
        ];
        correlate_hosts(&mut hosts);
        assert_eq!(correlation_lines(&hosts), Vec::<String>::new());
        hosts[1].ahead = Some(ClockSkew { milliseconds: 90_000, source: "--offset".into() });
        correlate_hosts(&mut hosts);
        let same = "in the same second once their clocks are corrected: look for what they share";
        assert_eq!(
            correlation_lines(&hosts),
            ["db2", "db1"].map(|name| format!("{name} had the same, which began {same}"))
        );
        // And what was one is none on clocks that were apart.
        let mut hosts = [
            host_with_incidents("db1", utc_clock(), &[(storm, 1000)]),
            host_with_incidents("db2", utc_clock(), &[(storm, 1000)]),
        ];
        hosts[0].ahead = Some(ClockSkew { milliseconds: -90_000, source: "--offset".into() });
        correlate_hosts(&mut hosts);
        assert_eq!(correlation_lines(&hosts), Vec::<String>::new());
    }

    #[test]
    fn a_clock_that_is_ahead_shows_in_several_incidents() {
        let storm = IncidentVerdict::ReclaimStorm;
        // 130 s later each time, give or take what samples are apart.
        let one = [(storm, 1000), (storm, 9000), (storm, 30_000)];
        let other = [(storm, 1130), (storm, 9125), (storm, 30_131)];
        let mut hosts = [
            host_with_incidents("db1", utc_clock(), &one),
            host_with_incidents("db 2", utc_clock(), &other),
        ];
        correlate_hosts(&mut hosts);
        assert_eq!(
            hosts[0].incidents[1].elsewhere,
            ["db 2 had the same, which began 125 s later, as did 3 of its 3: its clock may be \
                     about 130 s ahead (--offset \
                 'db 2'=+130s), or the trouble spreads from one to the other: look for what they \
                     share"]
        );
        assert!(
            hosts[1].incidents[2].elsewhere[0]
                .contains("131 s earlier, as did 3 of its 3: its clock may be about 130 s behind")
        );
        // Two are no proof.
        let mut hosts = [
            host_with_incidents("db1", utc_clock(), &one[..2]),
            host_with_incidents("db2", utc_clock(), &other[..2]),
        ];
        correlate_hosts(&mut hosts);
        assert_eq!(correlation_lines(&hosts), Vec::<String>::new());
        // Who says the clocks is believed.
        let mut hosts = [
            host_with_incidents("db1", utc_clock(), &one),
            host_with_incidents("db2", utc_clock(), &other),
        ];
        hosts[0].ahead = Some(ClockSkew { milliseconds: 0, source: "sos".into() });
        correlate_hosts(&mut hosts);
        assert_eq!(correlation_lines(&hosts), Vec::<String>::new());
    }
}
