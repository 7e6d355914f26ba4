//! What the flight recorder holds: its state for people and programs, and its samples for other people's tools.

pub mod export;
mod oswatcher;
mod oswatcher_folder;
pub mod status;

pub use oswatcher_folder::export_oswatcher;

use hugewise_record::status::Status;

/// The rings of a folder.
pub struct Recording {
    /// The folder.
    pub folder: String,
    /// Its rings that are there, that of seconds first.
    pub rings: Vec<Status>,
    /// When it was looked at, in milliseconds since 1970.
    pub now: i64,
}

impl Recording {
    /// Whether samples come.
    pub fn is_alive(&self) -> bool {
        self.rings.first().is_some_and(|ring| ring.is_alive(self.now))
    }
}

/// A stretch of time in milliseconds since 1970, both ends within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Nothing before.
    pub from: Option<i64>,
    /// Nothing after.
    pub to: Option<i64>,
}

impl Span {
    /// Whether a moment lies within.
    pub fn has(&self, at: i64) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at <= to)
    }
}
