//! Many hosts as tables: captures in, Parquet files out, and a summary of what they say.
//!
//! What a row says of a host is what `hugewise check --format json` says of it: rows are made of
//! that very answer.

mod archives;
mod bundle;
mod capture_failure;
mod capture_id;
mod capture_reader;
mod capture_sources;
mod checksums;
mod clusters;
pub mod collect;
mod lake;
mod rows;
pub mod schema;
#[cfg(feature = "store")]
pub mod store;
pub mod summary;

pub use clusters::{Clusters, HostListEntry, WrongList, parse_host_list};
pub use collect::{CollectProgress, CollectRequest, STORES, collect_captures, is_stored};
pub use summary::CollectSummary;
