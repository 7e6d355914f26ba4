//! The experiments, one file each.

pub mod logins;
pub mod page_tables;
mod server;
