//! The memory that a Java machine sees: the host's, or a lower limit of its cgroup.

use hugewise_host::FactReader;
use hugewise_host::kernel::{cgroup_cpu, cgroup_memory};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Limit, Process};

use super::demand::parse_major_release;
use super::flags::Flags;
use crate::EngineContext;
use crate::shared::settings::new_setting;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JvmVisibleMemory {
    pub(super) size: Bytes,
    pub(super) limit: Option<ServerSetting>,
}

/// Understands cgroups of version 1 from this release on; 8 does from 8u191 on.
const KNOWS_V1: u32 = 10;
/// Understands version 2 (JDK-8230305), as do late updates of 8 and 11.
const KNOWS_V2: u32 = 15;
/// Updates from this release on may count the limits of parent cgroups in version 2 (the jdk21u
/// backports of JDK-8322420).
const MAY_WALK_UP: u32 = 21;
/// All from this release on do.
const WALKS_UP: u32 = 24;

/// Processors that its affinity, its cgroup's quota and the host leave it
/// (`os::active_processor_count`), where that can be told.
pub(super) fn detect_processors(
    scene: &EngineContext<'_>,
    process: &Process,
    flags: &Flags,
    version: Option<&str>,
) -> Option<u64> {
    let online = scene.host.processors.online.get()?;
    if process.pid == 0 {
        return Some(online);
    }
    let ranges = process.processors_allowed.as_known();
    let allowed = ranges.map(|ranges| {
        let sizes = ranges.iter().map(|(first, last)| u64::from(last.saturating_sub(*first)) + 1);
        sizes.sum::<u64>()
    });
    let processors = allowed.unwrap_or(online).clamp(1, online.max(1));
    if flags.get("UseContainerSupport") == Some("false") {
        return Some(processors);
    }
    let mut facts = FactReader::new(scene.source);
    let quotas = cgroup_cpu::read_quota(&mut facts, process).into_known().unwrap_or_default();
    let quota = match version.and_then(parse_major_release) {
        _ if quotas.own == quotas.least => quotas.own,
        Some(WALKS_UP..) => quotas.least,
        Some(..MAY_WALK_UP) => quotas.own,
        _ => return None,
    };
    Some(quota.map_or(processors, |quota| quota.clamp(1, processors)))
}

/// `UseContainerSupport` is on by default since 8u191 (JDK-8146115).
pub(super) fn detect_visible_memory(
    scene: &EngineContext<'_>,
    process: &Process,
    flags: &Flags,
    version: Option<&str>,
) -> Option<JvmVisibleMemory> {
    let all = scene.host.memory.total.get()?;
    let whole = JvmVisibleMemory { size: all, limit: None };
    if process.pid == 0 || flags.get("UseContainerSupport") == Some("false") {
        return Some(whole);
    }
    // The kernel's cgroup files are none of the server's.
    let mut facts = FactReader::new(scene.source);
    let Some(limits) = cgroup_memory::read(&mut facts, process).into_known() else {
        return Some(whole);
    };
    let below = |limit: Limit| matches!(limit, Limit::At(limit) if limit < all);
    if !below(limits.own) && !below(limits.least) {
        return Some(whole);
    }
    let limit = match (limits.unified, version.and_then(parse_major_release)?) {
        // HotSpot looks above its own cgroup only where that allows everything.
        (false, KNOWS_V1..) if below(limits.own) => limits.own,
        (false, KNOWS_V1..) | (true, WALKS_UP..) => limits.least,
        (true, MAY_WALK_UP..) if limits.own != limits.least => return None,
        (true, KNOWS_V2..) => limits.own,
        _ => return None,
    };
    match limit {
        Limit::At(limit) if limit < all => {
            let (folder, name) = limits.file.rsplit_once('/').unwrap_or(("", &limits.file));
            let place = FileLocation { file: folder.to_owned(), line: 0 };
            let setting = new_setting(name, limit.get().to_string(), Some(place));
            Some(JvmVisibleMemory { size: limit, limit: Some(setting) })
        }
        Limit::At(_) | Limit::Unlimited => Some(whole),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::process::CgroupMembership;
    use hugewise_model::{Host, Observed};

    use super::*;

    /// `-XX:+PrintFlagsFinal` of a machine with `taskset` and with quotas says UseG1GC where it sees
    /// two processors: OpenJDK 17 does not look above its own cgroup, 25 does.
    #[test]
    fn affinity_and_quotas_leave_fewer_processors() {
        let mut host = Host::default();
        host.processors.online = Observed::Known(8);
        let source = MapSource::new()
            .with_file("/proc/self/mountinfo", "30 1 0:5 / /c rw - cgroup2 cgroup2 rw\n")
            .with_file("/c/cgroup.controllers", "cpu\n")
            .with_file("/c/a/cpu.max", "100000 100000\n")
            .with_file("/c/a/b/cpu.max", "max 100000\n")
            .with_file("/c/d/cpu.max", "150000 100000\n");
        let scene = EngineContext::new(&host, &source);
        let count = |path: &str, allowed: &[(u32, u32)], flags: &str, version| {
            let membership =
                CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: path.into() };
            let mut process = Process { pid: 7, ..Process::default() };
            process.cgroups = Observed::Known([membership].into());
            process.processors_allowed = Observed::Known(allowed.to_vec());
            detect_processors(&scene, &process, &Flags::read(flags.split(' ')), Some(version))
        };
        let all = [(0, 7)];
        assert_eq!(count("/", &all, "", "17.0.15"), Some(8));
        assert_eq!(count("/", &[(0, 0), (4, 5)], "", "17.0.15"), Some(3));
        assert_eq!(count("/d", &all, "", "17.0.15"), Some(2));
        assert_eq!(count("/d", &[(3, 3)], "", "17.0.15"), Some(1));
        assert_eq!(count("/d", &all, "-XX:-UseContainerSupport", "17.0.15"), Some(8));
        assert_eq!(count("/a/b", &all, "", "17.0.15"), Some(8));
        assert_eq!(count("/a/b", &all, "", "25.0.2"), Some(1));
    }
}
