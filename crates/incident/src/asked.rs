//! What an investigation is asked, how far it is, and why there is none.

use std::fmt;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The zone of wall clocks: an IANA name, or an offset such as `+02:00`.
    pub zone: Option<String>,
    /// Nothing before: RFC 3339, `2026-11-21 08:00`, or `08:00` of the last day.
    pub from: Option<String>,
    /// Nothing after.
    pub to: Option<String>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files read.
    pub read: usize,
    /// Files found so far.
    pub found: usize,
}

/// Why nothing could be investigated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
