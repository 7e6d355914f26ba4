//! The experiments, one file each.

pub mod access;
pub mod logins;
pub mod page_tables;
pub mod pool;
mod server;
