//! The room where memory is handled by hand: [`segment`]s by page-size policy, [`session`]s as processes,
//! and the [`guard`] that takes a host's pools for a test and gives them back as they were.
//!
//! Every block of unsafe code says why it is sound.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod budget;
pub mod cancel;
pub(crate) mod chase;
pub mod counters;
pub mod counting;
pub mod experiment;
pub mod experiments;
pub mod fragment;
pub mod guard;
pub mod load;
mod looking;
pub mod machine;
pub mod measure;
pub mod results;
pub mod run;
pub mod segment;
pub mod session;
pub mod standin;
pub mod thp;
pub mod touch;
mod values;
pub mod variant;
mod watchdog;
