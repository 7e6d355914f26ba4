//! How much later everything begins on one host than on another, whose clock may be ahead.

use std::collections::BTreeMap;

use super::Began;
use crate::signatures::rows::{MINUTE, SECOND, milliseconds_between};
use crate::{IncidentVerdict, Moment};

/// Clocks of hosts that belong together differ by no more, in milliseconds.
pub(super) const FARTHEST: i64 = 15 * MINUTE;
/// Delays that are alike are within this of each other.
const ALIKE: i64 = 15 * SECOND;
const LEAST: i64 = 2 * SECOND;
/// Incidents that have to be alike: two may be chance.
const FEWEST: usize = 3;
/// Hosts, and incidents of a host, beyond which nothing is compared: all pairs would be.
const MOST_HOSTS: usize = 32;
const MOST_INCIDENTS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    /// The median, below 0 where they begin earlier there.
    pub(super) milliseconds: i64,
    /// Of how many incidents this holds.
    pub(super) like: usize,
    /// How many incidents the other host has.
    pub(super) all: usize,
}

#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<(usize, usize), Delay>);

impl Delays {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn delay_between(&self, one: usize, other: usize) -> Option<Delay> {
        self.0.get(&(one, other)).copied()
    }
}

pub(super) fn estimate_delays(all: &[Began], comparable: &dyn Fn(usize, usize) -> bool) -> Delays {
    let mut of_host: BTreeMap<usize, Vec<(IncidentVerdict, Moment)>> = BTreeMap::new();
    for (host, verdict, from) in all {
        of_host.entry(*host).or_default().push((*verdict, *from));
    }
    of_host.retain(|_, incidents| (FEWEST..=MOST_INCIDENTS).contains(&incidents.len()));
    let mut delays = Delays::default();
    if of_host.len() > MOST_HOSTS {
        return delays;
    }
    for (one, own) in &of_host {
        for (other, its) in
            of_host.iter().filter(|(other, _)| *other != one && comparable(*one, **other))
        {
            if let Some(delay) = estimate_delay(own, its) {
                delays.0.insert((*one, *other), delay);
            }
        }
    }
    delays
}

fn estimate_delay(
    own: &[(IncidentVerdict, Moment)],
    its: &[(IncidentVerdict, Moment)],
) -> Option<Delay> {
    // Each of the other's with each of the own: a clock's difference is the same for all of them.
    let mut all: Vec<(i64, usize)> = Vec::new();
    for (number, (verdict, from)) in its.iter().enumerate() {
        let same = own
            .iter()
            .filter(|(own, _)| own == verdict)
            .map(|(_, own)| milliseconds_between(*own, *from));
        all.extend(
            same.filter(|apart| apart.saturating_abs() <= FARTHEST).map(|apart| (apart, number)),
        );
    }
    all.sort_unstable();
    let groups: Vec<(i64, usize)> =
        (0..all.len()).filter_map(|first| group_alike_delays(all.get(first..)?)).collect();
    let (milliseconds, like) = groups.iter().copied().max_by_key(|(_, like)| *like)?;
    let rival = groups
        .iter()
        .filter(|(other, _)| (other - milliseconds).abs() > 2 * ALIKE)
        .map(|(_, like)| *like)
        .max();
    let sure = like >= FEWEST
        && 4 * like >= 3 * own.len().max(its.len())
        && 2 * rival.unwrap_or(0) <= like;
    (sure && milliseconds.abs() >= LEAST).then_some(Delay { milliseconds, like, all: its.len() })
}

/// The median of the delays that are like the first, and how many incidents of the other they are.
fn group_alike_delays(apart: &[(i64, usize)]) -> Option<(i64, usize)> {
    let (least, _) = apart.first()?;
    let alike = apart.partition_point(|(delay, _)| delay - least <= ALIKE);
    let mut numbers: Vec<usize> = apart.get(..alike)?.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Some((apart.get(alike / 2)?.0, numbers.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay_of(own: &[i64], its: &[i64]) -> Option<i64> {
        let storms = |all: &[i64]| -> Vec<_> {
            all.iter()
                .map(|at| (IncidentVerdict::ReclaimStorm, Moment::from_seconds(*at)))
                .collect()
        };
        estimate_delay(&storms(own), &storms(its)).map(|delay| delay.milliseconds / SECOND)
    }

    #[test]
    fn what_is_the_same_each_time_is_a_delay() {
        assert_eq!(delay_of(&[0, 5000, 20_000], &[120, 5121, 20_122]), Some(121));
        assert_eq!(delay_of(&[120, 5121, 20_122], &[0, 5000, 20_000]), Some(-121));
        assert_eq!(delay_of(&[0, 5000, 20_000], &[0, 5000, 20_001]), None, "one clock");
        assert_eq!(delay_of(&[0, 5000, 20_000], &[120, 5300, 20_700]), None, "each time another");
        assert_eq!(
            delay_of(&[0, 5000, 20_000, 30_000, 40_000], &[120, 5120, 20_120]),
            None,
            "much is on one of them alone"
        );
        // Every ten minutes: ten minutes later and none later fit nearly as well.
        let often: Vec<i64> = (0..12).map(|number| number * 600).collect();
        let later: Vec<i64> = often.iter().map(|at| at + 300).collect();
        assert_eq!(delay_of(&often, &later), None);
    }
}
