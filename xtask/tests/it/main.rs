//! What the project ships beside the program: the chart, the questions over many hosts, their metrics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test stops where a file or this machine is not as expected, and reads and writes \
         past the code under test"
)]

mod chart;
mod fleet;
mod fleet_metrics;
