//! The long-running ones.
//!
//! [`collect`] reads the host on a schedule and shares each reading with everybody who wants one; [`history`] keeps
//! how it went. Neither knows of the network. What listens stands behind the feature `http`: metrics, JSON
//! API, dashboard. The view in a terminal stands behind the feature `watch`.

pub mod collect;
pub mod history;
mod reading;
mod recorder;
pub mod textfile;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod openapi;
#[cfg(feature = "watch")]
pub mod watch;
#[cfg(feature = "http")]
pub mod web_config;

#[cfg(test)]
mod testing;

pub use collect::Collector;
pub use history::{History, Span};
pub use reading::Reading;
