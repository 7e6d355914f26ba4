//! Verdicts: findings, the chain, and what no verdict could be had on.

use crate::Reason;
use crate::remedy::{InstanceId, Remedy};

/// A rule's code, `HW201`. No code asks for a certain one: remedies say what ends a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(&'static str);

impl RuleId {
    /// The code of a rule, `HW201`.
    pub const fn new(code: &'static str) -> Self {
        Self(code)
    }

    /// As it is shown.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for RuleId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.0)
    }
}

crate::named_enum! {
    /// How bad a finding is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Level as_str {
        /// Worth knowing.
        Info = "info",
        /// It will hurt under load.
        Warn = "warn",
        /// It hurts now, or will at the next start.
        Error = "error",
    }
}

/// One rule's verdict on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `HW201`.
    pub code: RuleId,
    /// `no-pool`.
    pub name: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The instance it is about; `None` for the host as a whole.
    pub instance: Option<InstanceId>,
    /// One sentence, with numbers.
    pub summary: String,
    /// The fact that matters, on one line, with the instance as `it`.
    pub short: String,
    /// What it rests on, one fact a line, each with the file it was read from.
    pub evidence: Vec<String>,
    /// What it costs, in numbers, where that is known.
    pub cost: Option<String>,
    /// What ends it, in the order of execution.
    pub remedies: Vec<Remedy>,
    /// The same in words, a line each, with numbers; commands are the plan's.
    pub fix: Vec<String>,
}

impl Finding {
    /// The fact that matters, with its instance: `oracle PROD holds ...`.
    pub fn to_brief_text(&self) -> String {
        let short = &self.short;
        match self.instance.as_ref().map(ToString::to_string).filter(|title| !short.contains(title))
        {
            Some(title) => match short.strip_prefix("it ") {
                Some(rest) => format!("{title} {rest}"),
                None => format!("{title}: {short}"),
            },
            None => short.clone(),
        }
    }
}

/// A rule that could not decide, because a fact it needs could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVerdict {
    /// `HW201`.
    pub code: RuleId,
    /// `no-pool`.
    pub name: &'static str,
    /// The instance it is about.
    pub instance: Option<InstanceId>,
    /// The fact, and why it is missing: `/proc/meminfo: absent`.
    pub missing: String,
    /// Why it is missing: what a running kernel does not have is no lost verdict.
    pub why: Reason,
}

/// The links between an instance and its huge pages, in the order in which they can break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugePageChain {
    /// The instance.
    pub instance: InstanceId,
    /// Every link.
    pub links: Vec<Link>,
}

impl HugePageChain {
    /// The cause: the first broken link.
    pub fn first_broken_link(&self) -> Option<&Link> {
        self.links.iter().find(|link| link.state == LinkState::Broken)
    }
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Which one.
    pub name: LinkName,
    /// Whether it holds.
    pub state: LinkState,
    /// What that rests on: `huge_pages=try (postgresql.conf:142)`.
    pub evidence: String,
}

crate::named_enum! {
    /// The links by name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LinkName as_str {
        /// The server's settings ask for huge pages.
        Asked = "asked",
        /// A pool of the page size that it asks for exists.
        Pool = "pool",
        /// The pool was large enough when it started, as far as that shows now.
        Room = "room",
        /// Limits and permission as this kernel checks them.
        Permission = "permission",
        /// The hugetlb cgroup lets it have its demand.
        Cgroup = "cgroup",
        /// The memory is mapped on huge pages.
        Mapped = "mapped",
    }
}

crate::named_enum! {
    /// Whether a link holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LinkState as_str {
        /// It holds.
        Ok = "ok",
        /// It does not.
        Broken = "broken",
        /// It could not be told.
        Unknown = "unknown",
    }
}
