//! Finds the incident in what a host left behind.
//!
//! Readers, one file or folder a format, make [`Series`] of what a collector wrote; signatures look for
//! one kind of trouble each; what meets in time is joined into incidents.

mod asked;
mod baseline;
mod elsewhere;
pub mod event;
pub mod format;
mod gather;
pub mod investigate;
pub mod join;
pub mod metric;
mod page;
mod rank;
pub mod readers;
pub mod rotation;
pub mod series;
pub mod signatures;
pub mod verdict;
mod windows;

pub use asked::{Error, Options, Progress};
pub use event::{Event, EventKind};
pub use format::{Format, Tool};
pub use gather::clock::named_span;
pub use investigate::investigate;
pub use metric::{Metric, Unit};
pub use rank::{MOST_STORIES, Rank};
pub use readers::Refused;
pub use series::{Clock, Column, Mark, MarkKind, Moment, Problem, Sample, Series, Use};
pub use verdict::{
    Ahead, Confidence, Evidence, Facts, History, Incident, InstanceFacts, Investigation, Kind, PoolFacts, Signature,
    Source, Strength, Verdict,
};
pub use windows::Rows;
