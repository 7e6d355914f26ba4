//! What a sample may cost: a bound that the recorder holds itself to, so that it never hurts the host.

use crate::kernel::Spare;

/// Nanoseconds of a processor that a sample may take on average: 0.4 % of one at a sample a second.
const BUDGET: u64 = 4_000_000;
/// From when on what was left out is taken up again.
const CHEAP: u64 = BUDGET / 2;
/// Samples of an average.
const SAMPLES: u64 = 16;
/// Samples for which it has to be cheap until then.
const PATIENCE: u32 = 120;
/// Samples that take as long as that on average are none for a thread that runs before all others: 5 % of a processor. One that
/// the kernel kept busy, as it does where memory is short, is not enough.
const MOST: u64 = 50_000_000;

/// What the recorder does about its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// It leaves out more, or less.
    Spare(Spare),
    /// It is no longer to run before others.
    StepBack,
    /// It may again.
    StepUp,
}

/// The average of what samples took.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    average: u64,
    cheap: u32,
    spare: Spare,
    stepped_back: bool,
}

impl Pace {
    /// What may be left out now.
    pub(crate) const fn spare(&self) -> Spare {
        self.spare
    }

    /// The average so far.
    pub(crate) const fn average(&self) -> u64 {
        self.average
    }

    /// A sample took so long.
    pub(crate) fn took(&mut self, nanoseconds: u64) -> Change {
        self.average = (self.average * (SAMPLES - 1) + nanoseconds) / SAMPLES;
        self.cheap = if self.average < CHEAP { self.cheap.saturating_add(1) } else { 0 };
        if self.average > MOST && !self.stepped_back {
            self.stepped_back = true;
            return Change::StepBack;
        }
        if self.stepped_back && self.cheap > PATIENCE {
            self.stepped_back = false;
            return Change::StepUp;
        }
        let wanted = match self.spare {
            Spare { nodes: false, disks: false } if self.average > BUDGET => Spare { nodes: true, disks: false },
            Spare { nodes: true, disks: false } if self.average > BUDGET => Spare { nodes: true, disks: true },
            Spare { nodes: true, .. } if self.cheap > PATIENCE => Spare::default(),
            as_before => as_before,
        };
        if wanted == self.spare {
            return Change::None;
        }
        self.spare = wanted;
        self.cheap = 0;
        // The next step only where this one was not enough.
        if self.average < MOST / 2 {
            self.average = self.average.min(BUDGET / 4 * 3);
        }
        Change::Spare(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dear_is_left_out_step_by_step_and_taken_up_again() {
        let mut pace = Pace::default();
        let changes = |pace: &mut Pace, cost: u64, samples: u32| -> Vec<Change> {
            (0..samples).map(|_| pace.took(cost)).filter(|change| *change != Change::None).collect()
        };
        assert_eq!(changes(&mut pace, 1_000_000, 1000), []);
        // One dear sample among cheap ones changes nothing.
        assert_eq!(changes(&mut pace, 40_000_000, 1), []);
        assert_eq!(changes(&mut pace, 1_000_000, 100), []);
        assert_eq!(
            changes(&mut pace, 8_000_000, 200),
            [Change::Spare(Spare { nodes: true, disks: false }), Change::Spare(Spare { nodes: true, disks: true }),]
        );
        assert_eq!(changes(&mut pace, 1_000_000, 300), [Change::Spare(Spare::default())]);
        assert_eq!(pace.spare(), Spare::default());
    }

    #[test]
    fn one_that_takes_long_again_and_again_no_longer_runs_before_others() {
        let mut pace = Pace::default();
        let mut changes = |cost: u64, samples: u32| -> Vec<Change> {
            (0..samples).map(|_| pace.took(cost)).filter(|change| *change != Change::None).collect()
        };
        // A second in the kernel, where memory is short; once.
        assert!(!changes(600_000_000, 1).contains(&Change::StepBack));
        changes(1_000_000, 200);
        assert!(changes(100_000_000, 20).contains(&Change::StepBack));
        assert!(changes(1_000_000, 400).contains(&Change::StepUp));
    }
}
