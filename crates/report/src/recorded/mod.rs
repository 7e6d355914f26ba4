//! The flight recorder's state, and its samples for other tools.

pub mod export;
mod oswatcher;
mod oswatcher_folder;
pub mod status;

pub use oswatcher_folder::export_oswatcher;

use hugewise_record::status::RingStatus;

/// The rings of a folder.
pub struct RecordingFolder {
    /// The folder.
    pub folder: String,
    /// Its rings, that of seconds first.
    pub rings: Vec<RingStatus>,
    /// Milliseconds since 1970.
    pub now: i64,
}

impl RecordingFolder {
    /// Whether samples are being taken.
    pub fn is_alive(&self) -> bool {
        self.rings.first().is_some_and(|ring| ring.is_alive(self.now))
    }
}

/// In milliseconds since 1970, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSpan {
    /// Nothing before.
    pub from: Option<i64>,
    /// Nothing after.
    pub to: Option<i64>,
}

impl ExportSpan {
    /// Whether a moment lies within.
    pub fn contains_moment(&self, at: i64) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at <= to)
    }
}
