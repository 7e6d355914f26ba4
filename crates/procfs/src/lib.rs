//! /proc and /sys: one file a kernel interface, each with a pure parser and a reader.

pub mod kernel;
pub mod process;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod testing;
