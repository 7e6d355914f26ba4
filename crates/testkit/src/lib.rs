//! What the tests, the measurements and the project's own commands share. Nothing that is installed
//! uses it.
//!
//! With the feature `lab` it has the stand-in server and knows the guard of the host's pools.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "for those who work on the project: it speaks to them, and reads this machine"
)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod allocation_counter;
pub mod measure;
pub mod oracle_fixtures;
mod skip;
pub mod tools;
pub mod virtual_machine;

pub use self::skip::{Skip, report_skip};
