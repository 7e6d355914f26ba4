//! The experiments, one file each.

pub mod access;
mod arena;
mod cluster;
pub mod logins;
pub mod page_tables;
pub mod pool;
pub mod postgresql;
mod server;
pub mod sort;
pub mod workload;
