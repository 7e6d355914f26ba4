//! Plans of whole hosts: applied in memory, read again, and judged by what they left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops where something is not as expected, and reads its fixtures past the \
         code under test"
)]

mod any_hosts;
mod attackers;
mod denying;
mod ends;
mod fixtures;
mod images;
mod made_command_lines;
mod made_hosts;
mod made_limits;
mod made_pools;
mod old_kernels;
mod one_word;
mod real_parsers;
mod world;
