//! How often the host is read: on average, it takes a hundredth of a core at most.

use std::time::{Duration, Instant};

use hugewise_model::{Reason, Unread};
use rustix::time::{ClockId, clock_gettime};

/// One second of a core in so many.
const SHARE: u32 = 100;
/// What may be spent in advance: what ten minutes earn, for a dashboard or a host that is slow.
const MOST_AHEAD: Duration = Duration::from_secs(6);

/// The budget of processor time for readings.
#[derive(Debug)]
pub(crate) struct ReadingPace {
    /// Time spent and not earned yet.
    debt: Duration,
    counted_at: Instant,
    /// Of the last reading.
    cost: Duration,
    /// Whether a reading was put off since the last one.
    is_stretched: bool,
}

impl Default for ReadingPace {
    fn default() -> Self {
        let (debt, cost) = (Duration::ZERO, Duration::ZERO);
        Self { debt, counted_at: Instant::now(), cost, is_stretched: false }
    }
}

impl ReadingPace {
    pub(crate) fn allows_reading(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.counted_at) / SHARE;
        self.debt = self.debt.saturating_sub(earned);
        self.counted_at = now;
        let allows = self.debt.is_zero() || self.debt.saturating_add(self.cost) <= MOST_AHEAD;
        self.is_stretched |= !allows;
        allows
    }

    /// Counts the processor time of `read`; waiting for the kernel costs nothing.
    pub(crate) fn time_reading<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let before = process_time();
        let made = read();
        self.charge(process_time().saturating_sub(before));
        made
    }

    fn charge(&mut self, cost: Duration) {
        self.debt = self.debt.saturating_add(cost);
        self.cost = cost;
    }

    /// What to report of readings that were put off.
    pub(crate) fn take_note(&mut self) -> Option<Unread> {
        let interval = self.cost.saturating_mul(SHARE).as_secs_f64();
        let why = format!(
            "reading this host takes {:.1} s of a processor: to stay below 1 % of a core it is read \
             every {interval:.0} s and no more often",
            self.cost.as_secs_f64()
        );
        std::mem::take(&mut self.is_stretched)
            .then(|| Unread::new("this host, between readings", Reason::Skipped(why)))
    }
}

/// Of all threads of this program.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings in an hour, asked for each second.
    fn readings(cost: Duration) -> (u32, Option<Unread>) {
        let mut pace = ReadingPace::default();
        let begun = pace.counted_at;
        let mut count = 0;
        for second in 0..3600 {
            if pace.allows_reading(begun + Duration::from_secs(second)) {
                pace.charge(cost);
                count += 1;
            }
        }
        (count, pace.take_note())
    }

    #[test]
    fn readings_take_a_hundredth_of_a_core_and_what_may_be_taken_ahead() {
        assert_eq!(readings(Duration::from_millis(10)), (3600, None));
        let (count, note) = readings(Duration::from_millis(500));
        let took = Duration::from_millis(500) * count;
        assert!(took <= Duration::from_secs(36) + MOST_AHEAD, "{took:?}");
        assert!(took >= Duration::from_secs(36), "{took:?}");
        let why = note.unwrap().why.to_string();
        assert!(why.contains("takes 0.5 s") && why.contains("every 50 s"), "{why}");
    }

    #[test]
    fn a_reading_that_takes_more_than_that_is_made_at_times() {
        let (count, _) = readings(MOST_AHEAD * 2);
        assert_eq!(count, 3, "each is worth twenty minutes");
    }
}
