//! From findings and sizes to a host that is set up, and back byte for byte.
//!
//! The way of a plan: the planner makes steps out of facts; [`prepare`] asks the machine what is there now;
//! [`apply()`] carries it out with a journal; [`undo()`] takes it back. An apply or undo that was killed at any moment is
//! brought to its end by [`recover`], which [`apply()`] does by itself: call it before the host is read for a new plan, and
//! ask [`unfinished`] where a plan is only to be shown.

pub mod allowed;
pub mod apply;
mod at_boot;
mod chain;
pub mod diff;
mod drift;
mod error;
pub mod journal;
mod kept;
pub mod outcome;
pub mod plan;
pub mod planner;
mod restore;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod undo;
mod values;

pub use apply::apply;
pub use drift::prepare;
pub use error::Error;
pub use hugewise_system::{Failure, Live, System};
pub use kept::{Unkept, unkept};
pub use outcome::{Applied, End, Event, Progress, Undone};
pub use plan::{Change, Plan, Risk, Step, When};
pub use undo::{recover, undo, unfinished};

/// Where journals are.
pub const JOURNALS: &str = "/var/lib/hugewise/journal";
