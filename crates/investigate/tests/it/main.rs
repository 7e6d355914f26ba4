//! Archives of real tools, of hosts that were ill, and of those who mean harm.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a test stops where a file or this machine is not as expected, and reads and writes \
         past the code under test"
)]

mod budgets;
mod collectors;
mod folders;
mod hostile;
mod logs;
mod machine;
mod oswatcher;
mod page_sizes;
mod pasted_logs;
mod pasted_tables;
mod pasted_tools;
mod stories;
mod sysstat;
