//! The numbers of sessions for which a host is looked at to see what more of them would do.

use super::{MOST_SESSIONS, Sizing};

const DIGITS: [u64; 7] = [1, 2, 3, 4, 5, 6, 8];
/// A host on which fewer are allowed is looked at up to so many.
const LEAST_TOP: u64 = 100;

/// From one session up to twice the most that is configured or sized for, in their order.
pub fn session_stops(sizing: &Sizing) -> Vec<u64> {
    let most = sizing.forecast.iter().find(|row| row.configured_max).map(|row| row.sessions);
    up_to(sizing.budget.sessions, most)
}

fn up_to(planned: u64, most: Option<u64>) -> Vec<u64> {
    let top = most.unwrap_or(0).max(planned).saturating_mul(2).clamp(LEAST_TOP, MOST_SESSIONS);
    let powers = std::iter::successors(Some(10_u64), |power| power.checked_mul(10))
        .take_while(|power| *power <= top);
    let round = powers.flat_map(|power| DIGITS.map(|digit| power.saturating_mul(digit)));
    let mut stops: Vec<u64> = round.chain([1, planned, top]).chain(most).collect();
    stops.retain(|sessions| (1..=top).contains(sessions));
    stops.sort_unstable();
    stops.dedup();
    stops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_reach_from_one_to_twice_the_most() {
        let all = up_to(62, Some(1003));
        assert_eq!((all.first(), all.last()), (Some(&1), Some(&2006)));
        assert!(all.contains(&62) && all.contains(&1003) && all.contains(&500), "{all:?}");
        assert!(all.is_sorted() && all.len() < 30, "{all:?}");
        assert_eq!(up_to(0, None).last(), Some(&100));
        // However many are configured, no kernel has more.
        assert_eq!(up_to(0, Some(u64::MAX)).last(), Some(&MOST_SESSIONS));
    }
}
