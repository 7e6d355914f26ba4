//! The stand-in for a database: a server of many processes around shared memory.
//!
//! The server is this program started anew, with its settings in an environment variable. It makes the segment by the
//! policy that Oracle's users know as `use_large_pages`, listens on a Unix socket, and forks a session for each
//! connection, which attaches, touches its part, answers, and stays until the connection closes. [`Server`] is its
//! owner's side.

mod client;
mod memory;
mod server;
mod stack;

use std::process::ExitCode;

use hugewise_model::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

pub use client::{Pace, Server};
pub use stack::{Stage, Started};

use crate::segment::Kind;
use crate::touch::{Access, Order};

/// The environment variable with the settings of the server that this process is to be.
const SETTINGS: &str = "HUGEWISE_STANDIN";

/// What becomes of a segment where the pool is short, in the words of Oracle's `use_large_pages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Base pages.
    False,
    /// Huge pages as far as they reach, base pages for the rest.
    True,
    /// All on huge pages, or no start.
    Only,
    /// The pool is grown first, by whoever starts the server, and put back after; then as `True`.
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
    /// The server, and every session all of it as it logs in: Oracle 11.2 with `pre_page_sga`.
    Sessions,
}

/// What a server is to be like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How its segment is asked for.
    pub kind: Kind,
    /// Size of the segment.
    pub size: Bytes,
    /// What becomes of it where the pool is short.
    pub policy: Policy,
    /// The huge pages that the policy is about.
    pub page: PageSize,
    /// Whether base pages ask for transparent huge pages; otherwise they keep them away.
    pub transparent: bool,
    /// Who touches it first.
    pub pre_touch: PreTouch,
    /// Whether it is spread over all NUMA nodes.
    pub interleave: bool,
    /// Part of the segment in percent that a session touches as it logs in; all of it under [`PreTouch::Sessions`].
    pub touch: u8,
    /// In which order.
    pub order: Order,
    /// Whether a session reads or writes what it touches.
    pub access: Access,
}

impl Settings {
    /// A System V segment of `size` on base pages, that its creator has touched and of which sessions read everything.
    pub const fn new(size: Bytes) -> Self {
        Self {
            kind: Kind::SystemV,
            size,
            policy: Policy::False,
            page: PageSize::MIB_2,
            transparent: false,
            pre_touch: PreTouch::Creator,
            interleave: false,
            touch: 100,
            order: Order::Sequential,
            access: Access::Read,
        }
    }

    /// Part of the segment that a session touches as it logs in.
    pub const fn touched(&self) -> u8 {
        match self.pre_touch {
            PreTouch::Sessions => 100,
            PreTouch::None | PreTouch::Creator => self.touch,
        }
    }
}

/// Is the server or a process of a stack, where this process was started as one: `main` has to call it before anything else. `None`
/// where it was not.
pub fn if_wanted() -> Option<ExitCode> {
    let stack = || std::env::var_os(stack::ORDERS).map(|orders| stack::run(&orders));
    std::env::var_os(SETTINGS).map(|settings| server::run(&settings)).or_else(stack)
}

/// What the server says of itself on its standard output, one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Report {
    /// It listens under this abstract name; so much of its segment is on huge pages.
    Ready { name: String, huge: Bytes },
    /// It could not start.
    Failed(String),
}
