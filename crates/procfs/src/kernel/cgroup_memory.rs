//! The limit on a process's memory, cgroup v1 and v2
//! (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst "Memory").

use std::collections::BTreeSet;

use hugewise_model::host::MemoryCgroup;
use hugewise_model::{Bytes, Limit, Observed, Process};

use super::cgroup_hugetlb::{Hierarchy, cgroup_ancestors, parse};
use super::mounts::{self, Mount};
use super::text::{parse_number, text_lines};
use hugewise_source::{FactReader, ParseError};

/// The limits that apply to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// That of its own cgroup.
    pub own: Limit,
    /// The least of its own and its parents': what the kernel enforces.
    pub least: Limit,
    /// The file that says the least.
    pub file: String,
    /// cgroup v2.
    pub unified: bool,
}

/// Reads them as they are now, which the next start in the same cgroup finds; absent without a
/// memory controller.
pub fn read(door: &mut FactReader<'_>, process: &Process) -> Observed<MemoryLimits> {
    process.cgroups.as_ref().and_then(|memberships| {
        let Some(mounts) = mounts::read(door).into_known() else { return Observed::Absent };
        let Some(hierarchy) = Hierarchy::find_hierarchy(door, &mounts, "memory") else {
            return Observed::Absent;
        };
        let Some(membership) = memberships.iter().find(|membership| hierarchy.is_of(membership))
        else {
            return Observed::Absent;
        };
        let name = if hierarchy.unified { "memory.max" } else { "memory.limit_in_bytes" };
        let mut found: Option<MemoryLimits> = None;
        for path in cgroup_ancestors(&membership.path) {
            let Some(folder) = hierarchy.cgroup_folder(path) else { continue };
            let file = format!("{folder}/{name}");
            // The root of version 2 has no such file, nor a cgroup whose parent delegates nothing.
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

/// The option of cgroup2 by which huge pages count as memory of their cgroup.
const ACCOUNTING: &str = "memory_hugetlb_accounting";

/// Reads the limits of every cgroup that one of the processes is in, and of its parents; none where
/// huge pages do not count against them.
pub fn read_accounted_limits<'a>(
    door: &mut FactReader<'_>,
    mounts: &Observed<Vec<Mount>>,
    processes: impl IntoIterator<Item = &'a Process>,
) -> Vec<MemoryCgroup> {
    let Some(mounts) = mounts.as_known() else { return Vec::new() };
    if !mounts.iter().any(|mount| mount.kind == "cgroup2" && mount.has_option(ACCOUNTING)) {
        return Vec::new();
    }
    let hierarchy = Hierarchy::find_hierarchy(door, mounts, "memory");
    let Some(hierarchy) = hierarchy.filter(|hierarchy| hierarchy.unified) else {
        return Vec::new();
    };
    let members = hierarchy.member_paths(processes).into_iter();
    let paths: BTreeSet<&str> = members.flat_map(cgroup_ancestors).collect();
    let read = |path: &str| {
        let folder = hierarchy.cgroup_folder(path)?;
        let max = door.parse(&format!("{folder}/memory.max"), parse);
        // The root has no such file, nor a cgroup whose parent delegates nothing.
        if matches!(max, Observed::Absent | Observed::Known(Limit::Unlimited)) {
            return None;
        }
        let stat = door.parse(&format!("{folder}/memory.stat"), parse_stat);
        let hugetlb = stat.as_ref().map(|stat| stat.hugetlb);
        Some(MemoryCgroup {
            path: path.to_owned(),
            max,
            hugetlb,
            other: stat.map(|stat| stat.other),
        })
    };
    paths.into_iter().filter_map(read).collect()
}

struct MemoryStat {
    hugetlb: Bytes,
    other: Bytes,
}

/// `memory.stat`: without a count of huge pages there are none yet.
fn parse_stat(bytes: &[u8]) -> Result<MemoryStat, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut stat = MemoryStat { hugetlb: Bytes::ZERO, other: Bytes::ZERO };
    for (line, content) in text_lines(&text) {
        let Some((name, count)) = content.split_once(' ') else { continue };
        let sum = match name {
            "hugetlb" => &mut stat.hugetlb,
            "anon" | "shmem" | "kernel" => &mut stat.other,
            _ => continue,
        };
        *sum += Bytes(parse_number(Some(count.trim()), line, "count")?);
    }
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;
    use hugewise_model::process::CgroupMembership;

    use super::*;
    use hugewise_source::MapSource;

    fn process(hierarchy: u32, controllers: &[&str], path: &str) -> Process {
        let controllers = controllers.iter().map(ToString::to_string).collect();
        let membership = CgroupMembership { hierarchy, controllers, path: path.to_owned() };
        Process { pid: 1, cgroups: Observed::Known([membership].into()), ..Process::default() }
    }

    /// mount(8) and Documentation/admin-guide/cgroup-v2.rst of 6.7: "memory_hugetlb_accounting",
    /// "hugetlb" in memory.stat.
    #[test]
    fn limits_that_huge_pages_count_against_are_read_where_the_mount_says_so() {
        let read_with = |option: &str| {
            let source = MapSource::new()
                .with_file(
                    "/proc/self/mountinfo",
                    format!("30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate{option}\n"),
                )
                .with_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
                .with_file("/sys/fs/cgroup/a.slice/memory.max", "max\n")
                .with_file("/sys/fs/cgroup/a.slice/b.service/memory.max", "2147483648\n")
                .with_file(
                    "/sys/fs/cgroup/a.slice/b.service/memory.stat",
                    "anon 1048576\nfile 900000000\nkernel 2097152\nshmem 4096\nhugetlb 1073741824\n",
                );
            let mut door = FactReader::new(&source);
            let mounts = mounts::read(&mut door);
            read_accounted_limits(&mut door, &mounts, [&process(0, &[], "/a.slice/b.service")])
        };
        assert_eq!(read_with(""), []);
        assert_eq!(
            read_with(",memory_hugetlb_accounting"),
            [MemoryCgroup {
                path: "/a.slice/b.service".into(),
                max: Observed::Known(Limit::At(Bytes::from_gib(2))),
                hugetlb: Observed::Known(Bytes::from_gib(1)),
                other: Observed::Known(Bytes(1_048_576 + 2_097_152 + 4096)),
            }]
        );
    }

    #[test]
    fn the_least_of_those_above_counts_in_both_versions() {
        let mib = |mib| Limit::At(Bytes::from_mib(mib));
        let one = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            )
            .with_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
            .with_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n")
            .with_file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2147483648\n");
        let found = read(&mut FactReader::new(&one), &process(4, &["memory"], "/a/b"))
            .into_known()
            .unwrap();
        assert_eq!((found.own, found.least, found.unified), (mib(2048), mib(1024), false));
        assert_eq!(found.file, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");

        let two = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            )
            .with_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
            .with_file("/sys/fs/cgroup/a.slice/memory.max", "max\n")
            .with_file("/sys/fs/cgroup/a.slice/b.service/memory.max", "536870912\n");
        let found = read(&mut FactReader::new(&two), &process(0, &[], "/a.slice/b.service"))
            .into_known()
            .unwrap();
        assert_eq!((found.own, found.least, found.unified), (mib(512), mib(512), true));
        let above =
            read(&mut FactReader::new(&two), &process(0, &[], "/a.slice")).into_known().unwrap();
        assert_eq!(above.least, Limit::Unlimited);
        assert!(read(&mut FactReader::new(&MapSource::new()), &process(0, &[], "/a")).is_absent());
    }
}
