//! Limits of the hugetlb controller, cgroup v1 and v2
//! (Documentation/admin-guide/cgroup-v1/hugetlb.rst, cgroup-v2.rst "HugeTLB").

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::host::HugetlbCgroup;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{Bytes, Limit, Observed, PageSize, Process, Reason};

use super::mounts::Mount;
use super::number;
use super::text::{parse_digits, parse_number, text_lines};
use hugewise_source::{FactReader, ParseError};

/// From here on there is no limit: version 1 has no word for it, and version 2 (seen on 6.18) may
/// not use its own. Both print the largest signed number, rounded down to a whole page of 16 GiB at
/// most.
const UNLIMITED: u64 = (1 << 63) - (16 << 30);

/// A limit file: `max`, or bytes. Fails on anything else.
pub fn parse(bytes: &[u8]) -> Result<Limit, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    match text.trim() {
        "max" => Ok(Limit::Unlimited),
        word => match parse_digits(word) {
            Some(UNLIMITED..) => Ok(Limit::Unlimited),
            Some(limit) => Ok(Limit::At(Bytes(limit))),
            None => Err(ParseError::whole_file("no limit")),
        },
    }
}

/// `hugetlb.<size>.events`: how often the fault limit was hit. Fails without a count of `max`.
pub fn parse_events(bytes: &[u8]) -> Result<u64, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    for (line, content) in text_lines(&text) {
        if let Some(count) = content.strip_prefix("max ") {
            return parse_number(Some(count.trim()), line, "count");
        }
    }
    Err(ParseError::whole_file("no count of max"))
}

/// Size in a file name, `hugetlb.2MB.max`: the kernel writes KB, MB and GB.
fn size_name(file: &str) -> Option<(&str, PageSize)> {
    let name = file.strip_prefix("hugetlb.")?.split('.').next()?;
    let shift = match name.get(name.len().checked_sub(2)?..)? {
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return None,
    };
    let number: u64 = parse_digits(name.get(..name.len().checked_sub(2)?)?)?;
    Some((name, PageSize::new(number.checked_mul(1 << shift)?)?))
}

pub(super) struct Hierarchy {
    controller: &'static str,
    mount: String,
    root: String,
    pub(super) unified: bool,
}

impl Hierarchy {
    /// Version 2 only where its root has the controller.
    pub(super) fn find_hierarchy(
        door: &mut FactReader<'_>,
        mounts: &[Mount],
        controller: &'static str,
    ) -> Option<Self> {
        let with_controller = mounts.iter().filter(|mount| match mount.kind.as_str() {
            "cgroup" => mount.has_option(controller),
            "cgroup2" => door
                .read(&format!("{}/cgroup.controllers", mount.path))
                .as_known()
                .is_some_and(|names| has_word(names, controller)),
            _ => false,
        });
        let hierarchies = with_controller.map(|mount| Self {
            controller,
            mount: mount.path.clone(),
            root: mount
                .root
                .as_known()
                .map_or_else(String::new, |root| root.trim_end_matches('/').to_owned()),
            unified: mount.kind == "cgroup2",
        });
        // Containers may have parts of it mounted as well; the whole shows most.
        hierarchies.min_by_key(|hierarchy| hierarchy.root.len())
    }

    pub(super) fn is_of(&self, membership: &CgroupMembership) -> bool {
        if self.unified {
            membership.hierarchy == 0 && membership.controllers.is_empty()
        } else {
            membership.controllers.iter().any(|controller| controller == self.controller)
        }
    }

    /// Whether the cgroups below one can have the controller's files: version 2 gives them to all
    /// or to none (cgroup-v2.rst, "Enabling and Disabling"), with systemd mostly to none.
    fn hands_down(&self, door: &FactReader<'_>, folder: &str) -> bool {
        !self.unified
            || door
                .source
                .read(&format!("{folder}/cgroup.subtree_control"))
                .as_known()
                .is_none_or(|names| has_word(names, self.controller))
    }

    /// `None` where the mount does not show it.
    pub(super) fn cgroup_folder(&self, path: &str) -> Option<String> {
        let below = path.trim_end_matches('/').strip_prefix(self.root.as_str())?;
        let inside = below.is_empty() || below.starts_with('/');
        (inside && below.split('/').all(|part| part != ".."))
            .then(|| format!("{}{below}", self.mount))
    }

    /// The groups of this hierarchy that processes are in.
    pub(super) fn member_paths<'a>(
        &self,
        processes: impl IntoIterator<Item = &'a Process>,
    ) -> BTreeSet<&'a str> {
        let memberships = processes
            .into_iter()
            .filter_map(|process| process.cgroups.as_known())
            .flat_map(|all| all.iter());
        let own = memberships.filter(|membership| self.is_of(membership));
        own.map(|membership| membership.path.as_str()).collect()
    }
}

fn has_word(names: &[u8], word: &str) -> bool {
    String::from_utf8_lossy(names).split_ascii_whitespace().any(|name| name == word)
}

/// Reads the limits of every cgroup that one of the processes is in, and of its parents.
pub fn read<'a>(
    door: &mut FactReader<'_>,
    mounts: &Observed<Vec<Mount>>,
    processes: impl IntoIterator<Item = &'a Process>,
) -> Vec<HugetlbCgroup> {
    let Some(mounts) = mounts.as_known() else { return Vec::new() };
    let Some(hierarchy) = Hierarchy::find_hierarchy(door, mounts, "hugetlb") else {
        return Vec::new();
    };
    let paths = hierarchy.member_paths(processes);
    let mut folders: BTreeMap<&str, String> = BTreeMap::new();
    for path in paths {
        if hierarchy.cgroup_folder(path).is_none() {
            let what = format!("hugetlb limits of cgroup {path}");
            door.report_unread(
                what,
                Reason::from_text("outside the cgroups that are mounted here"),
            );
            continue;
        }
        folders.extend(
            cgroup_ancestors(path).filter_map(|path| Some((path, hierarchy.cgroup_folder(path)?))),
        );
    }
    // Whether the cgroups below a path can have files; parents come first.
    let mut hands_down = BTreeMap::new();
    let mut found = Vec::new();
    for (path, folder) in &folders {
        let can_have =
            match parent_cgroup(path).and_then(|above| Some((above, folders.get(above)?))) {
                Some((above, folder)) => {
                    *hands_down.entry(above).or_insert_with(|| hierarchy.hands_down(door, folder))
                }
                None => true,
            };
        if can_have {
            found.extend(read_cgroup_limits(door, &hierarchy, path, folder));
        } else {
            hands_down.insert(path, false);
        }
    }
    found
}

/// `/a` of `/a/b`; the root has none above.
fn parent_cgroup(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    (!name.is_empty()).then_some(if above.is_empty() { "/" } else { above })
}

/// `/`, `/a`, `/a/b` of `/a/b`.
pub(super) fn cgroup_ancestors(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    let ends = path
        .char_indices()
        .filter(|(at, character)| *character == '/' && *at > 0)
        .map(|(at, _)| at);
    let above = ends.chain([path.len()]).filter(|end| *end > 0).filter_map(|end| path.get(..end));
    // A container sees itself as the root; the true root has no files, or no limits.
    std::iter::once("/").chain(above)
}

/// An entry for each page size.
fn read_cgroup_limits(
    door: &mut FactReader<'_>,
    hierarchy: &Hierarchy,
    path: &str,
    folder: &str,
) -> Vec<HugetlbCgroup> {
    let names = door.list_folder(folder).into_known().unwrap_or_default();
    let sizes: BTreeMap<PageSize, &str> =
        names.iter().filter_map(|name| size_name(name)).map(|(name, size)| (size, name)).collect();
    let mut found = Vec::new();
    for (page_size, name) in sizes {
        let file = |file: &str| format!("{folder}/hugetlb.{name}.{file}");
        let (max, current) = if hierarchy.unified {
            ("max", "current")
        } else {
            ("limit_in_bytes", "usage_in_bytes")
        };
        let cgroup = HugetlbCgroup {
            path: path.to_owned(),
            page_size,
            fault_max: door.parse(&file(max), parse),
            fault_current: door.parse(&file(current), number::parse).map(Bytes),
            reservation_max: door.parse(&file(&format!("rsvd.{max}")), parse),
            reservation_current: door
                .parse(&file(&format!("rsvd.{current}")), number::parse)
                .map(Bytes),
            failures: if hierarchy.unified {
                door.parse(&file("events"), parse_events)
            } else {
                door.parse(&file("failcnt"), number::parse)
            },
        };
        let limited = |fact: &Observed<Limit>| matches!(fact, Observed::Known(Limit::At(_)));
        if path != "/" || limited(&cgroup.fault_max) || limited(&cgroup.reservation_max) {
            found.push(cgroup);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::MapSource;
    use proptest::prelude::*;

    fn process(pid: u32, cgroups: &[(u32, &[&str], &str)]) -> Process {
        let cgroups = cgroups.iter().map(|(hierarchy, controllers, path)| CgroupMembership {
            hierarchy: *hierarchy,
            controllers: controllers.iter().map(ToString::to_string).collect(),
            path: (*path).to_owned(),
        });
        Process { pid, cgroups: Observed::Known(cgroups.collect()), ..Process::default() }
    }

    fn found(door: &mut FactReader<'_>, processes: &[Process]) -> Vec<HugetlbCgroup> {
        let mounts = crate::kernel::mounts::read(door);
        read(door, &mounts, processes)
    }

    /// As the kernel has it: what lies below a cgroup that hands the controller down has files, and
    /// what lies deeper has none. Whoever lists a folder that cannot have any is told to be denied
    /// it.
    #[test]
    fn where_the_controller_is_not_handed_down_no_folder_is_listed() {
        let base = "/sys/fs/cgroup";
        let source = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            )
            .with_file(&format!("{base}/cgroup.controllers"), "cpu hugetlb memory\n")
            .with_file(&format!("{base}/cgroup.subtree_control"), "cpu hugetlb\n")
            .with_file(&format!("{base}/a.slice/cgroup.subtree_control"), "cpu memory\n")
            .with_file(&format!("{base}/a.slice/hugetlb.2MB.max"), "1073741824\n")
            .with_denied(&format!("{base}/a.slice/b.slice"))
            // Who kept nothing of it is no reason to look away.
            .with_file(&format!("{base}/c.slice/hugetlb.2MB.max"), "max\n")
            .with_file(&format!("{base}/c.slice/d.service/hugetlb.2MB.max"), "2097152\n");
        let mut door = FactReader::new(&source);
        let item = [
            process(1, &[(0, &[], "/a.slice/b.slice/x.service")]),
            process(2, &[(0, &[], "/c.slice/d.service")]),
        ];
        let paths: Vec<String> =
            found(&mut door, &item).into_iter().map(|cgroup| cgroup.path).collect();
        assert_eq!(paths, ["/a.slice", "/c.slice", "/c.slice/d.service"]);
        assert_eq!(door.unread, []);
    }

    #[test]
    fn version_2_wherever_it_is_mounted() {
        let slice = "/sys/fs/cgroup/unified/db.slice";
        let source = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            )
            .with_file("/sys/fs/cgroup/unified/cgroup.controllers", "cpu hugetlb memory\n")
            .with_file(&format!("{slice}/hugetlb.2MB.max"), "1073741824\n")
            .with_file(&format!("{slice}/hugetlb.2MB.current"), "2097152\n")
            .with_file(&format!("{slice}/hugetlb.2MB.rsvd.max"), "max\n")
            .with_file(&format!("{slice}/hugetlb.2MB.rsvd.current"), "0\n")
            .with_file(&format!("{slice}/hugetlb.2MB.events"), "max 7\n")
            .with_file(&format!("{slice}/pg.service/hugetlb.1GB.max"), "9223372036854771712\n");
        let mut door = FactReader::new(&source);
        let item = [
            process(1, &[(0, &[], "/db.slice/pg.service")]),
            process(2, &[(0, &[], "/db.slice/pg.service")]),
        ];
        let found = found(&mut door, &item);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            HugetlbCgroup {
                path: "/db.slice".into(),
                page_size: PageSize::MIB_2,
                fault_max: Observed::Known(Limit::At(Bytes::from_gib(1))),
                fault_current: Observed::Known(Bytes::from_mib(2)),
                reservation_max: Observed::Known(Limit::Unlimited),
                reservation_current: Observed::Known(Bytes::ZERO),
                failures: Observed::Known(7),
            }
        );
        assert_eq!(
            (found[1].page_size, &found[1].path),
            (PageSize::GIB_1, &"/db.slice/pg.service".to_owned())
        );
        assert_eq!(found[1].fault_max, Observed::Known(Limit::Unlimited));
        assert_eq!(found[1].fault_current, Observed::Absent);
        assert_eq!(door.unread, []);
    }

    #[test]
    fn version_1_and_its_root() {
        let base = "/sys/fs/cgroup/hugetlb";
        let source = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "31 1 0:6 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n",
            )
            .with_file(&format!("{base}/hugetlb.2MB.limit_in_bytes"), "9223372036852678656\n")
            .with_file(&format!("{base}/a/hugetlb.2MB.limit_in_bytes"), "9223372036854771712\n")
            .with_file(&format!("{base}/a/hugetlb.2MB.rsvd.limit_in_bytes"), "4194304\n")
            .with_file(&format!("{base}/a/hugetlb.2MB.failcnt"), "3\n");
        let mut door = FactReader::new(&source);
        let found = found(&mut door, &[process(1, &[(4, &["hugetlb"], "/a"), (0, &[], "/other")])]);
        assert_eq!(found.len(), 1, "the root limits nothing");
        assert_eq!(found[0].fault_max, Observed::Known(Limit::Unlimited));
        assert_eq!(found[0].reservation_max, Observed::Known(Limit::At(Bytes::from_mib(4))));
        assert_eq!(found[0].failures, Observed::Known(3));
    }

    #[test]
    fn a_cgroup_outside_of_what_is_mounted_is_said() {
        let source = MapSource::new()
            .with_file("/proc/self/mountinfo", "31 1 0:6 / /cg rw - cgroup cgroup rw,hugetlb\n")
            .with_file("/cg/hugetlb.2MB.limit_in_bytes", "2097152\n");
        let mut door = FactReader::new(&source);
        let found = found(
            &mut door,
            &[process(1, &[(4, &["hugetlb"], "/../..")]), process(2, &[(4, &["hugetlb"], "/")])],
        );
        assert_eq!(found.len(), 1, "a container's own root is limited");
        assert_eq!(found[0].path, "/");
        let outside = Hierarchy {
            controller: "hugetlb",
            mount: "/cg".into(),
            root: "/docker/ab".into(),
            unified: false,
        };
        assert_eq!(outside.cgroup_folder("/docker/ab/x"), Some("/cg/x".into()));
        assert_eq!(outside.cgroup_folder("/docker/abc"), None);
        assert_eq!(outside.cgroup_folder("/.."), None);
        assert_eq!(door.unread.len(), 1);
        assert!(door.unread[0].what.contains("/../.."));
    }

    #[test]
    fn sizes_as_the_kernel_names_them() {
        let sizes = [
            "hugetlb.64KB.max",
            "hugetlb.2MB.rsvd.max",
            "hugetlb.512MB.max",
            "hugetlb.16GB.limit_in_bytes",
        ];
        let bytes: Vec<_> =
            sizes.iter().map(|name| size_name(name).unwrap().1.bytes().get()).collect();
        assert_eq!(bytes, [64 << 10, 2 << 20, 512 << 20, 16 << 30]);
        assert_eq!(size_name("hugetlb.MB.max"), None);
        assert_eq!(size_name("hugetlb.é.max"), None);
        assert_eq!(size_name("memory.max"), None);
    }

    #[test]
    fn unlimited_holds_for_every_page_size() {
        // 2^63 less 4 KiB, 64 KiB (base pages), 2 MiB, 1 GiB, 16 GiB (huge ones).
        for text in [
            "9223372036854771712",
            "9223372036854710272",
            "9223372036852678656",
            "9223372035781033984",
            "9223372019674906624",
            "18446744073709551615",
            "max",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Limit::Unlimited), "{text}");
        }
        assert_eq!(parse(b"1125899906842624\n"), Ok(Limit::At(Bytes(1 << 50))));
        assert_eq!(parse(b"0\n"), Ok(Limit::At(Bytes::ZERO)));
        assert!(parse(b"unlimited\n").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in 0..UNLIMITED, hits: u64, shift in 12..40_u32, file in "[a-z_.]{1,12}") {
            prop_assert_eq!(parse(format!("{bytes}\n").as_bytes()), Ok(Limit::At(Bytes(bytes))));
            prop_assert_eq!(parse_events(format!("low 3\nmax {hits}\n").as_bytes()), Ok(hits));
            let page = PageSize::new(1 << shift).unwrap();
            let name = match 1_u64 << shift {
                size if size >= 1 << 30 => format!("{}GB", size >> 30),
                size if size >= 1 << 20 => format!("{}MB", size >> 20),
                size => format!("{}KB", size >> 10),
            };
            let (whole, bare) = (format!("hugetlb.{name}.{file}"), format!("{name}.{file}"));
            prop_assert_eq!((size_name(&whole), size_name(&bare)), (Some((&*name, page)), None));
        }

        #[test]
        fn what_is_above_is_a_prefix(path in "(/[a-z.]{1,5}){0,6}/?") {
            for above in cgroup_ancestors(&path) {
                prop_assert!(above == "/" || path.starts_with(above));
            }
            prop_assert_eq!(cgroup_ancestors(&path).count(), 1 + path.split('/').filter(|part| !part.is_empty()).count());
        }
    }
}
