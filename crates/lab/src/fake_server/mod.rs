//! The stand-in for a database: a server of many processes around shared memory.
//!
//! The server is this program started anew, with its settings in an environment variable. It makes
//! the segment by a policy like Oracle's `use_large_pages`, listens on a Unix socket, and forks a
//! session for each connection, which attaches, touches its part, answers, and stays until the
//! connection closes. [`FakeServer`] is its client.

mod client;
mod server;
mod server_memory;

use std::process::ExitCode;

use hugewise_model::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

pub use client::{FakeServer, LoginPace};

use crate::segment::SegmentSource;
use crate::touch::{TouchAccess, TouchOrder};

const SETTINGS: &str = "HUGEWISE_STANDIN";

/// What happens where the pool is short, like Oracle's `use_large_pages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LargePagePolicy {
    /// Base pages.
    False,
    /// Huge pages as far as they reach, base pages for the rest.
    True,
    /// All on huge pages, or no start.
    Only,
    /// Whoever starts the server grows the pool first and restores it after; then as `True`.
    Auto,
}

/// Who touches the segment before there is any work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreTouch {
    /// Nobody.
    None,
    /// The server once, when it makes the segment.
    Creator,
    /// The server, and every session all of it at login: Oracle 11.2 with `pre_page_sga`.
    Sessions,
}

/// A server's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FakeServerSettings {
    /// How its segment is requested.
    pub kind: SegmentSource,
    /// Size of the segment.
    pub size: Bytes,
    /// What happens where the pool is short.
    pub policy: LargePagePolicy,
    /// The huge pages of the policy.
    pub page: PageSize,
    /// Whether base pages ask for transparent huge pages; otherwise they keep them away.
    pub transparent: bool,
    /// Who touches it first.
    pub pre_touch: PreTouch,
    /// Whether it is spread over all NUMA nodes.
    pub interleave: bool,
    /// Percentage of the segment that a session touches at login, unless it is
    /// [`PreTouch::Sessions`].
    pub touch: u8,
    /// In which order.
    pub order: TouchOrder,
    /// Whether a session reads or writes what it touches.
    pub access: TouchAccess,
}

impl FakeServerSettings {
    /// A System V segment of `size` on base pages, touched by its creator and read whole by
    /// sessions.
    pub const fn new(size: Bytes) -> Self {
        Self {
            kind: SegmentSource::SystemV,
            size,
            policy: LargePagePolicy::False,
            page: PageSize::MIB_2,
            transparent: false,
            pre_touch: PreTouch::Creator,
            interleave: false,
            touch: 100,
            order: TouchOrder::Sequential,
            access: TouchAccess::Read,
        }
    }

    /// Percentage of the segment that a session touches at login.
    pub const fn touched_percent(&self) -> u8 {
        match self.pre_touch {
            PreTouch::Sessions => 100,
            PreTouch::None | PreTouch::Creator => self.touch,
        }
    }
}

/// Runs the server where this process was started as one: `main` has to call it first.
pub fn if_wanted() -> Option<ExitCode> {
    std::env::var_os(SETTINGS).map(|settings| server::run(&settings))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FakeServerReport {
    /// It listens under this abstract name; so much of its segment is on huge pages.
    Ready {
        name: String,
        huge: Bytes,
    },
    Failed(String),
}
