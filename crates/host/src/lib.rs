//! Reads a host.
//!
//! The machine is read through one door, [`Source`]: the live `/`, a folder that looks like
//! one, or a tar of such a folder. Behind it stands one file a kernel interface or
//! configuration file, each a pure parser from bytes to a type. [`read`] puts them together.

pub mod door;
pub mod source;
pub mod sys;

pub use door::{Door, ParseError};
pub use source::Source;
