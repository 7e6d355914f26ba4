//! The experiments, one file each.

mod arena;
pub mod sort;
