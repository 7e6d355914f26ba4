//! What an Oracle instance's parameters grant its processes: the program global area.

use hugewise_model::instance::{ServerSetting, Trait};
use hugewise_model::{Bytes, Host, Instance};

use super::described::size_parameter;
use super::{asks_for_amm, is_amm, releases};
use crate::shared::segments;
use crate::shared::work_memory::{MemoryGrant, WorkMemory};

/// The default of PGA_AGGREGATE_TARGET: this part of the SGA, and at least `LEAST_TARGET` (Oracle
/// Database Reference 19c).
const DEFAULT_PART: u64 = 5;
const LEAST_TARGET: Bytes = Bytes::from_mib(10);
/// The default of PGA_AGGREGATE_LIMIT: the most of twice the target, this, and `LIMIT_EACH` for
/// each of PROCESSES (Oracle Database Reference 12.1 to 19c).
const LEAST_LIMIT: Bytes = Bytes::from_gib(2);
const LIMIT_EACH: Bytes = Bytes::from_mib(3);

pub(super) fn estimate_work_memory(host: &Host, instance: &Instance) -> WorkMemory {
    let managed = managed_global_area(host, instance);
    if asks_for_amm(instance) {
        // SGA and PGA are one budget.
        return WorkMemory { managed, ..WorkMemory::default() };
    }
    let target = pga_target(instance);
    let limit = pga_limit(instance, target.as_ref());
    WorkMemory { target, limit, managed, ..WorkMemory::default() }
}

fn pga_target(instance: &Instance) -> Option<MemoryGrant> {
    let set = size_parameter(instance, "pga_aggregate_target").ok()?;
    if let Some(setting) = instance.settings.get("pga_aggregate_target") {
        return (set > Bytes::ZERO).then(|| MemoryGrant::from_setting(setting, set));
    }
    // Its files were read where they say how large the SGA is.
    let sga = size_parameter(instance, "sga_target").ok().filter(|sga| *sga > Bytes::ZERO)?;
    let bytes = sga.shared_by(DEFAULT_PART)?.max(LEAST_TARGET);
    Some(MemoryGrant {
        bytes,
        by: "pga_aggregate_target: a fifth of the SGA if nothing sets it".into(),
    })
}

/// Oracle 12.1 brought the limit, beyond which sessions are ended; 0 removes it.
fn pga_limit(instance: &Instance, target: Option<&MemoryGrant>) -> Option<MemoryGrant> {
    if !releases::limits_pga(instance) {
        return None;
    }
    if let Some(setting) = instance.settings.get("pga_aggregate_limit") {
        let bytes = size_parameter(instance, "pga_aggregate_limit").ok()?;
        return (bytes > Bytes::ZERO).then(|| MemoryGrant::from_setting(setting, bytes));
    }
    let processes = LIMIT_EACH.saturating_mul(instance.max_sessions.get()?);
    let bytes = target?.bytes.saturating_mul(2).max(LEAST_LIMIT).max(processes);
    Some(MemoryGrant {
        bytes,
        by: "pga_aggregate_limit: its default, twice the target, but at least 2 GiB and 3 MiB per \
             process"
            .into(),
    })
}

/// Files of the managed global area beside an SGA in System V segments count as shared memory.
fn managed_global_area(host: &Host, instance: &Instance) -> Option<Bytes> {
    if instance.traits.contains(&Trait::Amm) {
        return None;
    }
    let files = segments::collect_segments(host, &instance.pids, |_, mapping| {
        mapping.shared && is_amm(&mapping.name)
    });
    (!files.is_empty()).then(|| files.iter().map(|file| file.size).sum())
}

/// The size of the pieces in which processes map private memory: `_realfree_heap_pagesize` from
/// 12.1 on, with `_hint` behind it before that.
pub(super) fn find_private_piece(instance: &Instance) -> Option<(&ServerSetting, Bytes)> {
    ["_realfree_heap_pagesize", "_realfree_heap_pagesize_hint"].into_iter().find_map(|name| {
        let bytes = size_parameter(instance, name).ok().filter(|bytes| *bytes > Bytes::ZERO)?;
        Some((instance.settings.get(name)?, bytes))
    })
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{Engine, Observed, Process};

    use super::*;
    use crate::EngineContext;

    fn grants(
        version: &str,
        processes: Option<u64>,
        settings: &[(&str, &str)],
    ) -> (Option<u64>, Option<u64>) {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance =
            scene.new_instance(Engine::Oracle, "PROD".into(), &Process::default(), Vec::new());
        instance.version = Observed::Known(version.into());
        instance.max_sessions = processes.into();
        for (name, value) in settings {
            let setting =
                ServerSetting { name: (*name).into(), value: (*value).into(), place: None };
            instance.settings.insert((*name).into(), setting);
        }
        let work = estimate_work_memory(&host, &instance);
        let mib = |grant: Option<MemoryGrant>| grant.map(|grant| grant.bytes.get() >> 20);
        (mib(work.target), mib(work.limit))
    }

    /// Oracle Database Reference 11.2, 12.1 and 19c: PGA_AGGREGATE_TARGET, PGA_AGGREGATE_LIMIT.
    #[test]
    fn targets_and_limits_are_the_parameters_or_their_defaults() {
        let (sga, pga) = (("sga_target", "10G"), ("pga_aggregate_target", "2G"));
        assert_eq!(grants("19.3.0", Some(300), &[sga, pga]), (Some(2048), Some(4096)));
        // 2,000 processes of 3 MiB are more than twice 2 GiB.
        assert_eq!(grants("19.3.0", Some(2000), &[sga, pga]), (Some(2048), Some(6000)));
        assert_eq!(
            grants("19.3.0", Some(100), &[sga, ("pga_aggregate_target", "100M")]),
            (Some(100), Some(2048))
        );
        assert_eq!(grants("19.3.0", Some(300), &[sga]), (Some(2048), Some(4096)));
        assert_eq!(
            grants("19.3.0", Some(300), &[pga, ("pga_aggregate_limit", "0")]),
            (Some(2048), None)
        );
        assert_eq!(
            grants("19.3.0", Some(300), &[pga, ("pga_aggregate_limit", "9G")]),
            (Some(2048), Some(9216))
        );
        assert_eq!(grants("11.2.0.4", Some(300), &[sga, pga]), (Some(2048), None));
        assert_eq!(grants("19.3.0", Some(300), &[]), (None, None));
        assert_eq!(grants("19.3.0", Some(300), &[("pga_aggregate_target", "0")]), (None, None));
    }
}
