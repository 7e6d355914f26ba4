//! The formats of archives.

use std::cmp::Ordering;
use std::fmt;

use hugewise_model::Engine;

/// Who collected a series, and with which tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// A collector's own format, by its name in reports.
    Collector(&'static str),
    /// Oracle's ExaWatcher.
    ExaWatcher(CollectedTool),
    /// Oracle's OSWatcher.
    OsWatcher(CollectedTool),
    /// Somebody's loop around a tool.
    Loop(CollectedTool),
    /// The kernel and the host's services: dmesg, the journal, /var/log/messages.
    SystemLog,
    /// A database server.
    ServerLog(Engine),
}

/// A tool whose output is collected as it prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectedTool {
    /// iostat, extended (`-x`).
    Iostat,
    /// `/proc/meminfo`.
    Meminfo,
    /// ps.
    Ps,
    /// `/proc/slabinfo`.
    Slabinfo,
    /// `top -b`.
    Top,
    /// vmstat without its own times.
    Vmstat,
}

impl CollectedTool {
    /// Names of its output in a loop, in OSWatcher and in ExaWatcher.
    const fn format_names(self) -> [&'static str; 3] {
        match self {
            Self::Iostat => ["iostat", "oswatcher iostat", "exawatcher iostat"],
            Self::Meminfo => ["meminfo", "oswatcher meminfo", "exawatcher meminfo"],
            Self::Ps => ["ps", "oswatcher ps", "exawatcher ps"],
            Self::Slabinfo => ["slabinfo", "oswatcher slabinfo", "exawatcher slabinfo"],
            Self::Top => ["top", "oswatcher top", "exawatcher top"],
            Self::Vmstat => ["vmstat", "oswatcher vmstat", "exawatcher vmstat"],
        }
    }
}

impl SourceFormat {
    /// sysstat's own files.
    pub const SYSSTAT: Self = Self::Collector("sysstat");
    /// What sadf prints of them.
    pub const SADF: Self = Self::Collector("sadf");
    /// What sar prints of them.
    pub const SAR: Self = Self::Collector("sar");

    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collector(name) => name,
            Self::Loop(tool) => tool.format_names()[0],
            Self::OsWatcher(tool) => tool.format_names()[1],
            Self::ExaWatcher(tool) => tool.format_names()[2],
            Self::SystemLog => "system log",
            Self::ServerLog(_) => "server log",
        }
    }

    /// Whether it has events and no samples.
    pub const fn is_log(self) -> bool {
        matches!(self, Self::SystemLog | Self::ServerLog(_))
    }

    /// 0 for sysstat's own files, which count before what sadf and sar printed of them.
    pub(crate) fn sysstat_rank(self) -> Option<u8> {
        match self {
            Self::SYSSTAT => Some(0),
            Self::SADF => Some(1),
            Self::SAR => Some(2),
            _ => None,
        }
    }

    pub(crate) fn collector_format(self) -> Self {
        if self.sysstat_rank().is_some() { Self::SYSSTAT } else { self }
    }
}

/// By name.
impl Ord for SourceFormat {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for SourceFormat {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Default for SourceFormat {
    fn default() -> Self {
        Self::SYSSTAT
    }
}

impl fmt::Display for SourceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
