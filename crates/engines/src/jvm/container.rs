//! The memory that a Java machine believes to have: the host's, or what its cgroup allows where that is less.

use hugewise_host::Door;
use hugewise_host::kernel::cgroup_memory;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Bytes, Limit, Process};

use super::demand::release;
use super::flags::Flags;
use crate::Scene;

/// Memory as a machine sees it at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// So much.
    pub(super) size: Bytes,
    /// The limit that makes it less than the host's.
    pub(super) limit: Option<Setting>,
}

/// From this release on cgroups of version 1 are understood; 8 is from an update on (8u191) that its number does not tell.
const KNOWS_V1: u32 = 10;
/// The same of version 2 (JDK-8230305); late updates of 8 and 11 as well.
const KNOWS_V2: u32 = 15;
/// Updates from this release on may count the limits above its own in version 2 (the jdk21u backports of JDK-8322420).
const MAY_WALK_UP: u32 = 21;
/// All from this release on do.
const WALKS_UP: u32 = 24;

/// What a machine that starts now would see. `UseContainerSupport` is on by default since 8u191 (JDK-8146115).
pub(super) fn memory(scene: &Scene<'_>, process: &Process, flags: &Flags, version: Option<&str>) -> Option<Memory> {
    let all = scene.host.memory.total.get()?;
    let whole = Memory { size: all, limit: None };
    if process.pid == 0 || flags.get("UseContainerSupport") == Some("false") {
        return Some(whole);
    }
    // What the kernel says of cgroups is no file of the server's.
    let mut door = Door::new(scene.source);
    let Some(limits) = cgroup_memory::read(&mut door, process).into_known() else { return Some(whole) };
    let below = |limit: Limit| matches!(limit, Limit::At(limit) if limit < all);
    if !below(limits.own) && !below(limits.least) {
        return Some(whole);
    }
    let limit = match (limits.unified, version.and_then(release)?) {
        // HotSpot looks above its own only where that allows everything.
        (false, KNOWS_V1..) if below(limits.own) => limits.own,
        (false, KNOWS_V1..) | (true, WALKS_UP..) => limits.least,
        (true, MAY_WALK_UP..) if limits.own != limits.least => return None,
        (true, KNOWS_V2..) => limits.own,
        _ => return None,
    };
    match limit {
        Limit::At(limit) if limit < all => {
            let (folder, name) = limits.file.rsplit_once('/').unwrap_or(("", &limits.file));
            let place = Place { file: folder.to_owned(), line: 0 };
            let setting = Setting { name: name.to_owned(), value: limit.get().to_string(), place: Some(place) };
            Some(Memory { size: limit, limit: Some(setting) })
        }
        Limit::At(_) | Limit::Unlimited => Some(whole),
    }
}
