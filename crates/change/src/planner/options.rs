//! What is asked of a plan, and which questions have no answer.

use std::fmt;

use hugewise_advice::target::Wish;
use hugewise_engines::named::Ambiguous;
use hugewise_model::{Bytes, PageCount, PageSize};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Titles or names of the instances that it is about; empty for all.
    pub instances: Vec<String>,
    /// Titles or names of the instances that may be restarted.
    pub restart: Vec<String>,
    /// Page size of the pools, where it is not each server's own choice; the same as in the sizing's request.
    pub page_size: Option<PageSize>,
    /// Changes that work at once.
    pub now: bool,
    /// Changes that the next boot finds.
    pub boot: bool,
    /// A pool that gets fewer pages than planned is kept, or does not stop the other steps: then no server is set to
    /// insist on huge pages.
    pub keep_partial: bool,
    /// Pools that the host's memory has no room for are planned all the same.
    pub overrule: bool,
    /// Pages that nobody uses or asks for are given back. Without it only where the pools starve the host.
    pub shrink: bool,
    /// Pools of every size are reserved on the kernel's command line, before memory can be fragmented.
    pub early: bool,
    /// Pages that pools may grow by on demand.
    pub overcommit: Vec<(PageSize, PageCount)>,
}

impl Options {
    /// What they ask of the target.
    pub fn wish(&self) -> Wish<'_> {
        Wish { names: &self.instances, page_size: self.page_size, now: self.now, boot: self.boot, shrink: self.shrink }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: Vec::new(),
            restart: Vec::new(),
            page_size: None,
            now: true,
            boot: true,
            keep_partial: false,
            overrule: false,
            shrink: false,
            early: false,
            overcommit: Vec::new(),
        }
    }
}

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// No instance here has that name.
    NoSuchInstance {
        /// What was asked for.
        asked: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A name that several instances have.
    Ambiguous(Ambiguous),
    /// An instance that nothing vouches for, named by a name that anybody can take.
    Stranger {
        /// What was asked for.
        asked: String,
        /// Why nothing vouches for it.
        why: String,
        /// The name that means it and no other.
        handle: String,
    },
    /// A server that was named cannot have pages of the size that was asked for.
    NotItsPageSize {
        /// Its title.
        instance: String,
        /// What was asked for.
        asked: PageSize,
    },
    /// Pages on demand that are more than the host's memory.
    Overcommit {
        /// What was asked for.
        asked: Bytes,
        /// What there is.
        memory: Bytes,
    },
    /// The processor has no 1 GiB pages.
    NoGibPages,
    /// Nothing is known of the processes: nobody knows what runs here.
    ProcessesUnknown(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchInstance { asked, there } if there.is_empty() => {
                write!(f, "no instance is called {asked}; no database server runs on this host")
            }
            Self::NoSuchInstance { asked, there } => {
                write!(f, "no instance is called {asked}; this host has {}", there.join(", "))
            }
            Self::Ambiguous(several) => several.fmt(f),
            Self::Stranger { asked, why, handle } => {
                write!(f, "{asked}: {why}; if you trust it, name it with its pid: \"{handle}\"")
            }
            Self::NotItsPageSize { instance, asked } => {
                write!(f, "{instance} can use only the default page size, not {asked}")
            }
            Self::Overcommit { asked, memory } => {
                write!(f, "{asked} of pages on demand are more than the host's memory of {memory}")
            }
            Self::NoGibPages => f.write_str(
                "this processor has no 1 GiB pages (no pdpe1gb in /proc/cpuinfo): the kernel would ignore \
                 hugepagesz=1G and boot without the pool. Plan with 2 MiB pages, or have the hypervisor pass the \
                 flag on",
            ),
            Self::ProcessesUnknown(why) => write!(f, "hugewise cannot tell what runs here (processes: {why})"),
        }
    }
}

impl std::error::Error for PlanError {}
