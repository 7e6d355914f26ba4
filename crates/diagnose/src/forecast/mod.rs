//! What a server's processes spend on page tables, reckoned here alone.

mod server;
mod tables;

pub use server::{AtMax, Basis, PageTableForecast, at_max, per_session};
pub(crate) use server::{ForecastServer, page_tables_at, per_process};
pub(crate) use server::{background_processes, page_now};
#[cfg(test)]
pub(crate) use tables::shared_tables;
pub use tables::{Addresses, of_forked, page_tables, process_tables};
