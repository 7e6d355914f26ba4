//! How much later everything begins on one host than on another: its clock may be ahead.

use std::collections::BTreeMap;

use super::Began;
use crate::signatures::rows::{MINUTE, SECOND, apart};
use crate::{Moment, Verdict};

/// Clocks of hosts that belong together are not farther apart, in milliseconds.
pub(super) const FARTHEST: i64 = 15 * MINUTE;
/// Delays that are alike are within this of each other.
const ALIKE: i64 = 15 * SECOND;
/// What is less than this is one moment.
const LEAST: i64 = 2 * SECOND;
/// Incidents that have to be alike: two may be chance.
const FEWEST: usize = 3;
/// Hosts, and incidents of a host, beyond which nothing is compared: all pairs of them are.
const MOST_HOSTS: usize = 32;
const MOST_INCIDENTS: usize = 200;

/// How much later things begin on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    /// The median, below 0 where they begin earlier there.
    pub(super) milliseconds: i64,
    /// Of how many incidents.
    pub(super) like: usize,
    /// That the other host has.
    pub(super) all: usize,
}

/// Of all pairs of hosts.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<(usize, usize), Delay>);

impl Delays {
    /// How much later things begin on the other host than on the one.
    pub(super) fn of(&self, one: usize, other: usize) -> Option<Delay> {
        self.0.get(&(one, other)).copied()
    }
}

/// Of the hosts that can be compared.
pub(super) fn delays(all: &[Began], comparable: &dyn Fn(usize, usize) -> bool) -> Delays {
    let mut of_host: BTreeMap<usize, Vec<(Verdict, Moment)>> = BTreeMap::new();
    for (host, verdict, from) in all {
        of_host.entry(*host).or_default().push((*verdict, *from));
    }
    of_host.retain(|_, incidents| (FEWEST..=MOST_INCIDENTS).contains(&incidents.len()));
    let mut delays = Delays::default();
    if of_host.len() > MOST_HOSTS {
        return delays;
    }
    for (one, own) in &of_host {
        for (other, its) in of_host.iter().filter(|(other, _)| *other != one && comparable(*one, **other)) {
            if let Some(delay) = delay(own, its) {
                delays.0.insert((*one, *other), delay);
            }
        }
    }
    delays
}

fn delay(own: &[(Verdict, Moment)], its: &[(Verdict, Moment)]) -> Option<Delay> {
    // Each of the other's with each of the own: what is a clock's is the same for all of them.
    let mut all: Vec<(i64, usize)> = Vec::new();
    for (number, (verdict, from)) in its.iter().enumerate() {
        let same = own.iter().filter(|(own, _)| own == verdict).map(|(_, own)| apart(*own, *from));
        all.extend(same.filter(|apart| apart.saturating_abs() <= FARTHEST).map(|apart| (apart, number)));
    }
    all.sort_unstable();
    let groups: Vec<(i64, usize)> = (0..all.len()).filter_map(|first| group(all.get(first..)?)).collect();
    let (milliseconds, like) = groups.iter().copied().max_by_key(|(_, like)| *like)?;
    // What comes again and again fits with many delays.
    let rival =
        groups.iter().filter(|(other, _)| (other - milliseconds).abs() > 2 * ALIKE).map(|(_, like)| *like).max();
    let sure = like >= FEWEST && 4 * like >= 3 * own.len().max(its.len()) && 2 * rival.unwrap_or(0) <= like;
    (sure && milliseconds.abs() >= LEAST).then_some(Delay { milliseconds, like, all: its.len() })
}

/// The median of those that are like the first, and how many of the other's incidents they are.
fn group(apart: &[(i64, usize)]) -> Option<(i64, usize)> {
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

    fn of(own: &[i64], its: &[i64]) -> Option<i64> {
        let storms = |all: &[i64]| -> Vec<_> {
            all.iter().map(|at| (Verdict::ReclaimStorm, Moment::from_seconds(*at))).collect()
        };
        delay(&storms(own), &storms(its)).map(|delay| delay.milliseconds / SECOND)
    }

    #[test]
    fn what_is_the_same_each_time_is_a_delay() {
        assert_eq!(of(&[0, 5000, 20_000], &[120, 5121, 20_122]), Some(121));
        assert_eq!(of(&[120, 5121, 20_122], &[0, 5000, 20_000]), Some(-121));
        assert_eq!(of(&[0, 5000, 20_000], &[0, 5000, 20_001]), None, "one clock");
        assert_eq!(of(&[0, 5000, 20_000], &[120, 5300, 20_700]), None, "each time another");
        assert_eq!(of(&[0, 5000, 20_000, 30_000, 40_000], &[120, 5120, 20_120]), None, "much is on one of them alone");
        // Every ten minutes: ten minutes later and none later fit nearly as well.
        let often: Vec<i64> = (0..12).map(|number| number * 600).collect();
        let later: Vec<i64> = often.iter().map(|at| at + 300).collect();
        assert_eq!(of(&often, &later), None);
    }
}
