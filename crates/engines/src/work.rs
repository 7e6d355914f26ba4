//! Private memory that servers' processes work in: what they hold, and what their settings grant them.

use hugewise_model::instance::{SegmentKind, Setting};
use hugewise_model::{Bytes, Host, Instance};

/// Private memory that a server's settings grant its sessions, beside the memory that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkMemory {
    /// What all sessions together are to keep to: the server deals out work areas by it, and takes as much where there is
    /// work for it.
    pub target: Option<Grant>,
    /// What one session takes with each of its buffers at its setting once.
    pub each: Option<Grant>,
    /// What the server takes beside its sessions: maintenance, compiled code.
    pub once: Option<Grant>,
    /// What the server does not let all of them together go beyond.
    pub limit: Option<Grant>,
    /// What processes share of it now, in files: Oracle's managed global area.
    pub managed: Option<Bytes>,
}

/// An amount and what grants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How much.
    pub bytes: Bytes,
    /// By which settings: `pga_aggregate_target=8G (/…/initPROD.ora:4)`.
    pub by: String,
}

impl Grant {
    /// What a setting says.
    pub(crate) fn by(setting: &Setting, bytes: Bytes) -> Self {
        Self { bytes, by: setting.to_string() }
    }

    /// Several amounts that are granted together, each with its name; none where there is none of them.
    pub(crate) fn sum(parts: &[(&str, Bytes)]) -> Option<Self> {
        let parts: Vec<_> = parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        let by: Vec<String> = parts.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
        let bytes = parts.iter().map(|(_, bytes)| *bytes).sum();
        (!parts.is_empty()).then(|| Self { bytes, by: by.join(", ") })
    }
}

impl WorkMemory {
    /// The most that its settings let so many sessions take: the limit where it has one, each session's share and what the
    /// server takes beside them otherwise, the target where nothing else is said. None where they say nothing.
    pub fn most(&self, sessions: u64) -> Option<Bytes> {
        if let Some(limit) = &self.limit {
            return Some(limit.bytes);
        }
        let parts =
            [self.each.as_ref().map(|each| each.bytes.times(sessions)), self.once.as_ref().map(|once| once.bytes)];
        let granted =
            parts.into_iter().flatten().fold(None, |sum: Option<Bytes>, part| Some(sum.unwrap_or_default() + part));
        granted.or_else(|| self.target.as_ref().map(|target| target.bytes))
    }
}

/// Private memory that the processes of an instance hold now, without private segments that huge pages could back (a heap, a
/// buffer pool). None where that of a process was not read, or none of them runs.
pub fn held(host: &Host, instance: &Instance) -> Option<Bytes> {
    let amounts = instance.pids.iter().map(|pid| host.process(*pid)?.rss_anon.get());
    let all: Bytes = amounts.collect::<Option<Vec<Bytes>>>().filter(|all| !all.is_empty())?.into_iter().sum();
    let small = instance
        .segments
        .iter()
        .filter(|segment| segment.kind == SegmentKind::Private && segment.huge.get() != Some(true));
    Some(all.saturating_sub(small.map(|segment| segment.size).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(mib: u64) -> Option<Grant> {
        Some(Grant { bytes: Bytes::from_mib(mib), by: "a setting".into() })
    }

    #[test]
    fn the_most_is_the_limit_or_what_all_sessions_get() {
        let sessions = WorkMemory { each: grant(12), once: grant(256), ..WorkMemory::default() };
        assert_eq!(sessions.most(100), Some(Bytes::from_mib(12 * 100 + 256)));
        let limited = WorkMemory { target: grant(1024), limit: grant(2048), ..WorkMemory::default() };
        assert_eq!(limited.most(100), Some(Bytes::from_mib(2048)));
        let target = WorkMemory { target: grant(1024), ..WorkMemory::default() };
        assert_eq!(target.most(100), Some(Bytes::from_mib(1024)));
        assert_eq!(WorkMemory::default().most(100), None);
        assert_eq!(sessions.most(u64::MAX), Some(Bytes(u64::MAX)));
    }
}
