//! Many hosts as tables: captures in, Parquet files out, and a summary of what they say.
//!
//! What a row says of a host is what `hugewise check --format json` says of it: rows are made of that very answer.

mod archives;
mod bundle;
mod checksums;
mod clusters;
pub mod collect;
mod failed;
mod id;
mod lake;
mod reading;
mod rows;
pub mod schema;
mod sources;
#[cfg(feature = "store")]
pub mod store;
pub mod summary;

pub use clusters::{Clusters, Entry, WrongList, entries};
pub use collect::{Asked, Progress, STORES, collect, is_stored};
pub use summary::Summary;
