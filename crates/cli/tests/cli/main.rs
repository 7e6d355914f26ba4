//! hugewise as its users run it: one module for each thing that is tested.
//!
//! `real` runs it on real servers and changes this machine; the other modules run it on captured or
//! made hosts.

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

mod after_plan;
mod boot_writers;
mod changed_hosts;
mod collect;
mod documents;
mod engine_lists;
mod exit_codes;
mod fixtures;
mod investigate;
mod lab;
mod lab_killed;
mod mutated_captures;
mod one_list;
mod plan_and_apply;
mod pod;
mod random_hosts;
mod real;
mod record;
mod report;
mod run;
mod same_numbers;
mod size_and_verify;
mod size_units;
mod store;
mod stories;
mod support;
mod usage;
