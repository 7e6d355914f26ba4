//! The formats of archives.

use std::cmp::Ordering;
use std::fmt;

use hugewise_model::Engine;

/// What kind of file a series is from: who collects, and with which tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// atop's files.
    Atop,
    /// collectl.
    Collectl,
    /// Oracle's ExaWatcher.
    ExaWatcher(Tool),
    /// nmon's files.
    Nmon,
    /// Oracle's OSWatcher.
    OsWatcher(Tool),
    /// hugewise's own flight recorder.
    Recorder,
    /// Performance Co-Pilot.
    Pcp,
    /// What sadf prints of sysstat's files.
    Sadf,
    /// What sar prints of them.
    Sar,
    /// sysstat's files themselves.
    #[default]
    Sysstat,
    /// Somebody's loop around a tool.
    Loop(Tool),
    /// What the kernel and the host's services wrote: dmesg, the journal, /var/log/messages.
    SystemLog,
    /// What a database server wrote.
    ServerLog(Engine),
}

/// A tool whose output is collected as it prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
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

impl Format {
    /// Name in text and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Atop => "atop",
            Self::Collectl => "collectl",
            Self::ExaWatcher(Tool::Iostat) => "exawatcher iostat",
            Self::ExaWatcher(Tool::Meminfo) => "exawatcher meminfo",
            Self::ExaWatcher(Tool::Ps) => "exawatcher ps",
            Self::ExaWatcher(Tool::Slabinfo) => "exawatcher slabinfo",
            Self::ExaWatcher(Tool::Top) => "exawatcher top",
            Self::ExaWatcher(Tool::Vmstat) => "exawatcher vmstat",
            Self::Nmon => "nmon",
            Self::OsWatcher(Tool::Iostat) => "oswatcher iostat",
            Self::OsWatcher(Tool::Meminfo) => "oswatcher meminfo",
            Self::OsWatcher(Tool::Ps) => "oswatcher ps",
            Self::OsWatcher(Tool::Slabinfo) => "oswatcher slabinfo",
            Self::OsWatcher(Tool::Top) => "oswatcher top",
            Self::OsWatcher(Tool::Vmstat) => "oswatcher vmstat",
            Self::Pcp => "pcp",
            Self::Recorder => "recorder",
            Self::Sadf => "sadf",
            Self::Sar => "sar",
            Self::Sysstat => "sysstat",
            Self::Loop(Tool::Iostat) => "iostat",
            Self::Loop(Tool::Meminfo) => "meminfo",
            Self::Loop(Tool::Ps) => "ps",
            Self::Loop(Tool::Slabinfo) => "slabinfo",
            Self::Loop(Tool::Top) => "top",
            Self::Loop(Tool::Vmstat) => "vmstat",
            Self::SystemLog => "system log",
            Self::ServerLog(_) => "server log",
        }
    }

    /// Whether it is a log, which has events and no samples.
    pub const fn is_log(self) -> bool {
        matches!(self, Self::SystemLog | Self::ServerLog(_))
    }

    /// How near a format is to sysstat's own files, which count before what was printed of them: 0 are they themselves; none
    /// for another collector's.
    pub(crate) const fn sysstat_rank(self) -> Option<u8> {
        match self {
            Self::Sysstat => Some(0),
            Self::Sadf => Some(1),
            Self::Sar => Some(2),
            _ => None,
        }
    }

    /// The format of the files that the collector itself writes.
    pub(crate) const fn collected(self) -> Self {
        if self.sysstat_rank().is_some() { Self::Sysstat } else { self }
    }
}

/// By name.
impl Ord for Format {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Format {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
