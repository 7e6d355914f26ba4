//! The goals of the pools as the steps for now and for the next boot share them.

use hugewise_advice::target;

use super::Ask;

/// What a pool is to be, and whether the next boot brings it: set by the steps for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    target: target::Goal,
    /// Whether the next boot brings as many.
    pub(super) at_boot: bool,
    /// Whether a person is told to see to that.
    pub(super) by_hand: bool,
    /// Whether the next boot is sure to bring what servers need: it takes them before memory is in use, where that matters.
    pub(super) is_sure: bool,
}

impl Goal {
    /// Leaves the pool as it is.
    pub(super) fn stays(&mut self) {
        self.target.goal = self.target.now;
        self.target.nodes.clear();
        self.target.not_now = None;
    }
}

impl From<target::Goal> for Goal {
    fn from(target: target::Goal) -> Self {
        Self { target, at_boot: false, by_hand: false, is_sure: false }
    }
}

impl std::ops::Deref for Goal {
    type Target = target::Goal;

    fn deref(&self) -> &target::Goal {
        &self.target
    }
}

pub(super) fn goals(ask: &Ask<'_>, warnings: &mut Vec<String>) -> Vec<Goal> {
    let (goals, mut unknown) = ask.target().goals();
    warnings.append(&mut unknown);
    goals.into_iter().map(Goal::from).collect()
}
