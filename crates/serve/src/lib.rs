//! The long-running commands.
//!
//! `collector` reads the host on a schedule and shares each reading; `history` keeps the last
//! hours. Neither knows of the network. The feature `http` has what listens: metrics, JSON API,
//! dashboard. The feature `watch` has the view in a terminal.

mod collector;
mod history;
mod pace;
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
mod web_config;

#[cfg(test)]
mod testing;

pub use collector::HostCollector;
pub use history::HistorySpan;
pub(crate) use history::ReadingHistory;
pub use reading::HostReading;
