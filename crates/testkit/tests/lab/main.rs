//! The lab on the running kernel, through the stand-in's program.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops where this machine is not as expected"
)]

mod experiments;
mod page_sizes;
mod server;
mod standin;
