//! From findings and sizes to a host that is set up, and back byte for byte.

pub mod plan;

pub use plan::{Change, Plan, Risk, Step, When};
