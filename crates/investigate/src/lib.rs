//! Finds the incident in what a host left behind.
//!
//! Readers, one file or folder a format, make [`Series`] of what a collector wrote; signatures find
//! one kind of trouble each; what meets in time is joined into incidents.

#[macro_use]
mod named_enum;
mod baseline;
mod cluster_correlation;
pub mod event;
pub mod format;
mod gather;
pub mod investigate;
pub mod join;
pub mod metric;
mod page;
mod rank;
pub mod readers;
mod request;
pub mod rotation;
pub mod series;
pub mod signatures;
pub mod verdict;
mod windows;

pub use event::{KernelWork, LogEvent, LogEventKind, MemoryReport};
pub use format::{CollectedTool, SourceFormat};
pub use gather::clock::named_span;
pub use investigate::investigate;
pub use metric::{Metric, MetricUnit};
pub use rank::{MOST_STORIES, Rank};
pub use readers::FileRefused;
pub use request::{Error, InvestigationProgress, Options};
pub use series::{Clock, Mark, MarkKind, MetricColumn, Moment, Problem, Series, SeriesSample, Use};
pub use verdict::{
    ClockSkew, Confidence, EvidenceBasis, HostSetupFacts, Incident, IncidentHistory,
    IncidentVerdict, InstanceFacts, InvestigatedSource, Investigation, LogWitness, PoolFacts,
    Signature, SignatureEvidence, SignatureKind, SignatureStrength,
};
pub use windows::RowsSink;
