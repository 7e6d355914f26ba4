//! The forecast of page tables: what the processes of a server spend on them, at so many sessions and on pages of a size.
//! The only place where that is reckoned: `check`, `size`, `verify`, metrics and the laboratory print what stands here.

mod server;
mod tables;

pub use server::{AtMax, Basis, Forecast, Server, at_max, page_tables_at, per_process, per_session};
pub(crate) use server::{background, page_now};
pub use tables::{Addresses, Tables, of_forked, page_tables, process_tables, shared_tables};
