//! From findings and sizes to a host that is set up, and back byte for byte.
//!
//! The way of a plan: the planner makes steps out of facts; [`prepare_plan`] asks the machine what
//! is there now; [`apply_plan`] carries it out with a journal; [`undo_apply`] takes it back. An
//! apply or undo that was killed at any moment is brought to its end by [`recover_interrupted`],
//! which [`apply_plan`] does by itself: call it before the host is read for a new plan, and ask
//! [`find_unfinished_apply`] where a plan is only to be shown.

pub mod allowed;
pub mod apply;
pub mod diff;
mod drift;
mod error;
pub mod journal;
mod journal_history;
pub mod outcome;
mod persistence;
pub mod plan;
pub mod planner;
mod restore;
mod safety;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod undo;
mod undo_pools;
mod values;
mod wish;

pub use apply::apply_plan;
pub use drift::prepare_plan;
pub use error::Error;
pub use hugewise_system::{LiveSystem, System, SystemFailure};
pub use outcome::{ApplyEnd, ApplyEvent, ApplyResult, ProgressListener, Undone};
pub use persistence::{UnpersistedChange, find_unpersisted_changes};
pub use plan::{Change, EffectTime, Plan, Risk, Step};
pub use undo::{find_unfinished_apply, recover_interrupted, undo_apply};
pub use undo_pools::{PagesAtRisk, ShrinkingPool, find_pages_at_risk, find_shrinking_pools};
pub use wish::confirm_wish;

/// Where journals are.
pub const JOURNALS: &str = "/var/lib/hugewise/journal";
