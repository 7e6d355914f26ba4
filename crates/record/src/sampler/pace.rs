//! What a sample may cost, so that the recorder never hurts the host.

use crate::kernel::Spare;

/// Nanoseconds of processor time for an average sample: 0.4 % at a sample a second.
const BUDGET: u64 = 4_000_000;
/// Below this, left out parts are resumed.
const CHEAP: u64 = BUDGET / 2;
const SAMPLES: u64 = 16;
const PATIENCE: u32 = 120;
/// An average like this, 5 % of a processor, is too much for a real-time thread. Single samples may
/// take longer where memory is short.
const MOST: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaceChange {
    None,
    Spare(Spare),
    StepBack,
    StepUp,
}

#[derive(Debug, Default)]
pub(crate) struct SamplePace {
    average: u64,
    cheap: u32,
    spare: Spare,
    stepped_back: bool,
}

impl SamplePace {
    pub(crate) const fn current_spare(&self) -> Spare {
        self.spare
    }

    pub(crate) const fn average_ns(&self) -> u64 {
        self.average
    }

    pub(crate) fn add_sample_time(&mut self, nanoseconds: u64) -> PaceChange {
        self.average = (self.average * (SAMPLES - 1) + nanoseconds) / SAMPLES;
        self.cheap = if self.average < CHEAP { self.cheap.saturating_add(1) } else { 0 };
        if self.average > MOST && !self.stepped_back {
            self.stepped_back = true;
            return PaceChange::StepBack;
        }
        if self.stepped_back && self.cheap > PATIENCE {
            self.stepped_back = false;
            return PaceChange::StepUp;
        }
        let wanted = match self.spare {
            Spare { nodes: false, disks: false } if self.average > BUDGET => {
                Spare { nodes: true, disks: false }
            }
            Spare { nodes: true, disks: false } if self.average > BUDGET => {
                Spare { nodes: true, disks: true }
            }
            Spare { nodes: true, .. } if self.cheap > PATIENCE => Spare::default(),
            as_before => as_before,
        };
        if wanted == self.spare {
            return PaceChange::None;
        }
        self.spare = wanted;
        self.cheap = 0;
        // The next step only where this one was not enough.
        if self.average < MOST / 2 {
            self.average = self.average.min(BUDGET / 4 * 3);
        }
        PaceChange::Spare(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dear_is_left_out_step_by_step_and_taken_up_again() {
        let mut pace = SamplePace::default();
        let changes = |pace: &mut SamplePace, cost: u64, samples: u32| -> Vec<PaceChange> {
            (0..samples)
                .map(|_| pace.add_sample_time(cost))
                .filter(|change| *change != PaceChange::None)
                .collect()
        };
        assert_eq!(changes(&mut pace, 1_000_000, 1000), []);
        // One dear sample among cheap ones changes nothing.
        assert_eq!(changes(&mut pace, 40_000_000, 1), []);
        assert_eq!(changes(&mut pace, 1_000_000, 100), []);
        assert_eq!(
            changes(&mut pace, 8_000_000, 200),
            [
                PaceChange::Spare(Spare { nodes: true, disks: false }),
                PaceChange::Spare(Spare { nodes: true, disks: true }),
            ]
        );
        assert_eq!(changes(&mut pace, 1_000_000, 300), [PaceChange::Spare(Spare::default())]);
        assert_eq!(pace.current_spare(), Spare::default());
    }

    #[test]
    fn one_that_takes_long_again_and_again_no_longer_runs_before_others() {
        let mut pace = SamplePace::default();
        let mut changes = |cost: u64, samples: u32| -> Vec<PaceChange> {
            (0..samples)
                .map(|_| pace.add_sample_time(cost))
                .filter(|change| *change != PaceChange::None)
                .collect()
        };
        // A second in the kernel, where memory is short; once.
        assert!(!changes(600_000_000, 1).contains(&PaceChange::StepBack));
        changes(1_000_000, 200);
        assert!(changes(100_000_000, 20).contains(&PaceChange::StepBack));
        assert!(changes(1_000_000, 400).contains(&PaceChange::StepUp));
    }
}
