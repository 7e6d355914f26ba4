//! Other programs, and what is installed for the project's own commands.

pub mod debian;
pub mod programs;
pub mod python;
pub mod shell;
pub mod victoria;

/// Why a command failed, for people.
pub type Failure = Box<dyn std::error::Error>;
