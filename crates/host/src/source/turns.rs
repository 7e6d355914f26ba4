//! What has its turn at one of some readings.

use std::time::{Duration, Instant};

/// Where readings are further apart, everything has its turn at each: what changes is seen a minute or so later at most.
const APART: Duration = Duration::from_secs(20);

/// Counts readings of something that is looked at a part at a time.
#[derive(Debug)]
pub struct Turns {
    count: usize,
    last: Instant,
}

impl Turns {
    /// In so many readings each part has its turn.
    pub const ALL: usize = 4;

    /// At a reading of all.
    pub fn begin() -> Self {
        Self { count: 0, last: Instant::now() }
    }

    /// Whose turn it is at the next reading, below [`ALL`](Self::ALL); `None` where all are to be looked at, as the last
    /// reading was long ago.
    pub fn turn(&mut self) -> Option<usize> {
        let long_ago = self.last.elapsed() > APART;
        self.count = (self.count + 1) % Self::ALL;
        self.last = Instant::now();
        (!long_ago).then_some(self.count)
    }

    /// As if the last reading had been long ago.
    #[cfg(test)]
    pub(super) fn age(&mut self) {
        self.last = Instant::now().checked_sub(APART * 2).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_and_after_a_while_all_have() {
        let mut turns = Turns::begin();
        let first: Vec<_> = (0..Turns::ALL * 2).map(|_| turns.turn().unwrap()).collect();
        assert_eq!(first, [1, 2, 3, 0, 1, 2, 3, 0]);
        turns.age();
        assert_eq!((turns.turn(), turns.turn()), (None, Some(2)));
    }
}
