//! The limit on a process's memory, cgroup v1 and v2
//! (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst "Memory").

use hugewise_model::{Limit, Observed, Process};

use super::cgroup_hugetlb::{Hierarchy, lineage, parse};
use super::mounts;
use crate::Door;

/// The limits that a process stands under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// That of its own cgroup.
    pub own: Limit,
    /// The least of its own and of those above it: what the kernel holds it to.
    pub least: Limit,
    /// The file that says the least.
    pub file: String,
    /// cgroup v2.
    pub unified: bool,
}

/// Reads them as they are now, which is what the next start in the same cgroup finds. Absent where no memory controller is seen.
pub fn read(door: &mut Door<'_>, process: &Process) -> Observed<MemoryLimits> {
    process.cgroups.as_ref().and_then(|memberships| {
        let Some(mounts) = mounts::read(door).into_known() else { return Observed::Absent };
        let Some(hierarchy) = Hierarchy::find(door, &mounts, "memory") else { return Observed::Absent };
        let Some(membership) = memberships.iter().find(|membership| hierarchy.is_of(membership)) else {
            return Observed::Absent;
        };
        let name = if hierarchy.unified { "memory.max" } else { "memory.limit_in_bytes" };
        let mut found: Option<MemoryLimits> = None;
        for path in lineage(&membership.path) {
            let Some(folder) = hierarchy.folder(path) else { continue };
            let file = format!("{folder}/{name}");
            // The root of version 2 has no such file, nor has a cgroup whose parent hands the controller to nobody.
            let Some(own) = door.parse(&file, parse).into_known() else {
                found = found.map(|above| MemoryLimits { own: Limit::Unlimited, ..above });
                continue;
            };
            found = Some(match found {
                Some(above) if above.least <= own => MemoryLimits { own, ..above },
                _ => MemoryLimits { own, least: own, file, unified: hierarchy.unified },
            });
        }
        Observed::from(found)
    })
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;
    use hugewise_model::process::CgroupMembership;

    use super::*;
    use crate::source::MapSource;

    fn process(hierarchy: u32, controllers: &[&str], path: &str) -> Process {
        let controllers = controllers.iter().map(ToString::to_string).collect();
        let membership = CgroupMembership { hierarchy, controllers, path: path.to_owned() };
        Process { pid: 1, cgroups: Observed::Known([membership].into()), ..Process::default() }
    }

    #[test]
    fn the_least_of_those_above_counts_in_both_versions() {
        let mib = |mib| Limit::At(Bytes::from_mib(mib));
        let one = MapSource::new()
            .file("/proc/self/mountinfo", "30 1 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
            .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
            .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n")
            .file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2147483648\n");
        let found = read(&mut Door::new(&one), &process(4, &["memory"], "/a/b")).into_known().unwrap();
        assert_eq!((found.own, found.least, found.unified), (mib(2048), mib(1024), false));
        assert_eq!(found.file, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");

        let two = MapSource::new()
            .file("/proc/self/mountinfo", "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
            .file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
            .file("/sys/fs/cgroup/a.slice/memory.max", "max\n")
            .file("/sys/fs/cgroup/a.slice/b.service/memory.max", "536870912\n");
        let found = read(&mut Door::new(&two), &process(0, &[], "/a.slice/b.service")).into_known().unwrap();
        assert_eq!((found.own, found.least, found.unified), (mib(512), mib(512), true));
        let above = read(&mut Door::new(&two), &process(0, &[], "/a.slice")).into_known().unwrap();
        assert_eq!(above.least, Limit::Unlimited);
        assert!(read(&mut Door::new(&MapSource::new()), &process(0, &[], "/a")).is_absent());
    }
}
