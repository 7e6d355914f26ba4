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

/// From this release on the limits above its own cgroup count in version 2 as well (JDK-8322420).
const WALKS_UP: u32 = 24;
/// Updates from this release on may have been given it (the jdk21u backports of JDK-8322420).
const MAY_WALK_UP: u32 = 21;

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
    let release = version.and_then(release);
    let walks_up = !limits.unified || release.is_some_and(|release| release >= WALKS_UP);
    if !walks_up && limits.own != limits.least && release.is_none_or(|release| release >= MAY_WALK_UP) {
        return None;
    }
    match if walks_up { limits.least } else { limits.own } {
        Limit::At(limit) if limit < all => {
            let (folder, name) = limits.file.rsplit_once('/').unwrap_or(("", &limits.file));
            let place = Place { file: folder.to_owned(), line: 0 };
            let setting = Setting { name: name.to_owned(), value: limit.get().to_string(), place: Some(place) };
            Some(Memory { size: limit, limit: Some(setting) })
        }
        Limit::At(_) | Limit::Unlimited => Some(whole),
    }
}
