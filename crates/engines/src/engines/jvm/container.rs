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

/// Processors that its cgroup's quota and the host leave it (`os::active_processor_count`).
pub(super) fn detect_processors(scene: &EngineContext<'_>, process: &Process) -> Option<u64> {
    let online = scene.host.processors.online.get()?;
    if process.pid == 0 {
        return Some(online);
    }
    let mut facts = FactReader::new(scene.source);
    let quota = cgroup_cpu::read_quota(&mut facts, process).into_known();
    Some(quota.map_or(online, |quota| quota.clamp(1, online.max(1))))
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
