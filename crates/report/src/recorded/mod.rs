//! What the flight recorder holds: its state for people and programs, and its samples for other people's tools.

pub mod export;
mod oswatcher;
pub mod status;

use hugewise_record::status::Status;

/// The rings of a folder.
pub struct Recording {
    /// The folder.
    pub folder: String,
    /// Its rings that are there.
    pub rings: Vec<Status>,
}
