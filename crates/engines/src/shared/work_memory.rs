//! Private memory that servers' processes work in: what they hold, and what settings grant them.

use hugewise_model::instance::{SegmentKind, ServerSetting};
use hugewise_model::{Bytes, Host, Instance};

/// Private memory that settings grant a server's sessions, beside shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkMemory {
    /// The goal for all sessions together, which the server may fill where there is work for it.
    pub target: Option<MemoryGrant>,
    /// What one session takes with each of its buffers at its setting once.
    pub each: Option<MemoryGrant>,
    /// What the server takes beside its sessions: maintenance, compiled code.
    pub once: Option<MemoryGrant>,
    /// What the server never lets all of them exceed together.
    pub limit: Option<MemoryGrant>,
    /// What processes now share of it, in files: Oracle's managed global area.
    pub managed: Option<Bytes>,
}

/// An amount and what grants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGrant {
    /// How much.
    pub bytes: Bytes,
    /// By which settings: `pga_aggregate_target=8G (/…/initPROD.ora:4)`.
    pub by: String,
}

impl MemoryGrant {
    pub(crate) fn from_setting(setting: &ServerSetting, bytes: Bytes) -> Self {
        Self { bytes, by: setting.to_string() }
    }

    pub(crate) fn sum(parts: &[(&str, Bytes)]) -> Option<Self> {
        let parts: Vec<_> = parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        let by: Vec<String> = parts.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
        let bytes = parts.iter().map(|(_, bytes)| *bytes).sum();
        (!parts.is_empty()).then(|| Self { bytes, by: by.join(", ") })
    }
}

impl WorkMemory {
    /// The most that settings grant so many sessions: the limit, or else each session's share plus
    /// what the server takes, or else the target.
    pub fn most_memory(&self, sessions: u64) -> Option<Bytes> {
        if let Some(limit) = &self.limit {
            return Some(limit.bytes);
        }
        let parts = [
            self.each.as_ref().map(|each| each.bytes.saturating_mul(sessions)),
            self.once.as_ref().map(|once| once.bytes),
        ];
        let granted = parts
            .into_iter()
            .flatten()
            .fold(None, |sum: Option<Bytes>, part| Some(sum.unwrap_or_default() + part));
        granted.or_else(|| self.target.as_ref().map(|target| target.bytes))
    }
}

/// Private memory that an instance's processes hold now, without private segments that huge pages
/// could back (a heap, a buffer pool). None unless every process was read.
pub fn private_memory_held(host: &Host, instance: &Instance) -> Option<Bytes> {
    let amounts = instance.pids.iter().map(|pid| host.find_process(*pid)?.rss_anon.get());
    let all: Bytes =
        amounts.collect::<Option<Vec<Bytes>>>().filter(|all| !all.is_empty())?.into_iter().sum();
    let small = instance
        .segments
        .iter()
        .filter(|segment| segment.kind == SegmentKind::Private && segment.huge.get() != Some(true));
    Some(all.saturating_sub(small.map(|segment| segment.size).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(mib: u64) -> Option<MemoryGrant> {
        Some(MemoryGrant { bytes: Bytes::from_mib(mib), by: "a setting".into() })
    }

    #[test]
    fn the_most_is_the_limit_or_what_all_sessions_get() {
        let sessions = WorkMemory { each: grant(12), once: grant(256), ..WorkMemory::default() };
        assert_eq!(sessions.most_memory(100), Some(Bytes::from_mib(12 * 100 + 256)));
        let limited =
            WorkMemory { target: grant(1024), limit: grant(2048), ..WorkMemory::default() };
        assert_eq!(limited.most_memory(100), Some(Bytes::from_mib(2048)));
        let target = WorkMemory { target: grant(1024), ..WorkMemory::default() };
        assert_eq!(target.most_memory(100), Some(Bytes::from_mib(1024)));
        assert_eq!(WorkMemory::default().most_memory(100), None);
        assert_eq!(sessions.most_memory(u64::MAX), Some(Bytes(u64::MAX)));
    }
}
