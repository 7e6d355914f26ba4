//! Puts the mappings of an instance's processes together into segments.

use std::collections::BTreeMap;

use crate::each_known;
use hugewise_model::host::SysvSegment;
use hugewise_model::instance::{Demand, DemandSource, Segment, SegmentKind};
use hugewise_model::{Bytes, Host, HugePageUse, Mapping, Observed, PageCount, PageSize, Process};

/// The `wanted` mappings of `pids` as segments, the largest first.
///
/// Shared mappings of one file are one segment, as large as what the process that maps most of it
/// maps. A private stretch is a segment of its own.
pub(crate) fn collect_segments(
    host: &Host,
    pids: &[u32],
    wanted: impl Fn(&Process, &Mapping) -> bool,
) -> Vec<Segment> {
    let mut parts = BTreeMap::<(u32, u64, u64), SegmentParts<'_>>::new();
    for process in pids.iter().filter_map(|pid| host.find_process(*pid)) {
        for mapping in each_known(&process.mappings).filter(|mapping| wanted(process, mapping)) {
            let part = parts
                .entry(segment_key(host, process, mapping))
                .or_insert_with(|| SegmentParts::new(process, mapping));
            part.add(process, mapping);
        }
    }
    let mut segments: Vec<_> = parts.into_values().map(|part| part.into_segment(host)).collect();
    segments.sort_by(|a, b| {
        b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name)).then(a.identity.cmp(&b.identity))
    });
    segments
}

/// How much of these segments is on huge pages. One unknown segment makes the whole unknown, unless
/// the others already show both kinds; so does having none.
pub(crate) fn huge_page_use(segments: &[Segment]) -> HugePageUse {
    let any = |state: Observed<bool>| segments.iter().any(|segment| segment.huge == state);
    let unknown = segments.is_empty() || segments.iter().any(|segment| !segment.huge.is_known());
    match (any(Observed::Known(true)), any(Observed::Known(false))) {
        (true, true) => HugePageUse::Partly,
        _ if unknown => HugePageUse::Unknown,
        (true, false) => HugePageUse::All,
        (false, _) => HugePageUse::None,
    }
}

/// The pages that hold these segments: each on its own huge page size, all others on `page`. First
/// the demand of `page` (or, without one, the largest), then the others, the smallest page first.
pub(crate) fn segment_demands(
    segments: &[Segment],
    page: PageSize,
) -> (Option<Demand>, Vec<Demand>) {
    let mut pages = BTreeMap::<PageSize, PageCount>::new();
    for segment in segments {
        let held = segment.page_size.get().filter(|_| segment.huge.get() == Some(true));
        let page = held.unwrap_or(page);
        let sum = pages.entry(page).or_default();
        *sum = *sum + page.pages_for(segment.size);
    }
    pages.retain(|_, count| *count > PageCount::ZERO);
    let most =
        pages.iter().max_by_key(|(page, count)| count.to_bytes(**page)).map(|(page, _)| *page);
    let first = if pages.contains_key(&page) { Some(page) } else { most };
    let measured = |page_size, pages| Demand { page_size, pages, source: DemandSource::Measured };
    let demand = first.and_then(|first| Some(measured(first, pages.remove(&first)?)));
    (demand, pages.into_iter().map(|(page, count)| measured(page, count)).collect())
}

/// A shared mapping that is nothing else counts as a file on some tmpfs.
pub(crate) fn segment_kind(host: &Host, mapping: &Mapping) -> SegmentKind {
    let name = mapping.name.as_str();
    let huge = mapping_is_huge(host, mapping).get() == Some(true);
    if !mapping.shared {
        SegmentKind::Private
    } else if name.starts_with("/SYSV") {
        SegmentKind::SystemV
    } else if name.starts_with("/anon_hugepage") || strip_deleted_mark(name) == "/dev/zero" {
        SegmentKind::AnonymousShared
    } else if name.starts_with("/memfd:") || name.starts_with("/dev/shm/") {
        SegmentKind::Posix
    } else if huge || below_hugetlbfs(host, name) {
        // A container's hugetlbfs is not among the mounts of the host: its pages tell.
        SegmentKind::Hugetlbfs
    } else {
        SegmentKind::Posix
    }
}

pub(crate) fn mapping_is_huge(host: &Host, mapping: &Mapping) -> Observed<bool> {
    let measured =
        mapping.page_size.as_ref().and_then(|size| host.base_page.as_ref().map(|base| size > base));
    match (measured.is_known(), mapping.name.as_str()) {
        (true, _) => measured,
        // The kernel uses these names only for hugetlb and for ordinary shared memory.
        (false, name) if name.starts_with("/anon_hugepage") => Observed::Known(true),
        (false, name) if mapping.shared && strip_deleted_mark(name) == "/dev/zero" => {
            Observed::Known(false)
        }
        // Every hugetlb mapping has a file behind it.
        (false, _) if mapping.device == 0 && mapping.inode == 0 => Observed::Known(false),
        _ => measured,
    }
}

pub(crate) fn strip_deleted_mark(name: &str) -> &str {
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

fn below_hugetlbfs(host: &Host, name: &str) -> bool {
    each_known(&host.hugetlbfs_mounts).any(|mount| {
        name.strip_prefix(mount.path.trim_end_matches('/'))
            .is_some_and(|rest| rest.starts_with('/'))
    })
}

/// What identifies a mapping's segment. A private stretch of huge pages has a file of its own.
fn segment_key(host: &Host, process: &Process, mapping: &Mapping) -> (u32, u64, u64) {
    match (mapping.shared, mapping.inode) {
        (true, _) => {
            let (device, inode) = mapping_identity(host, process, mapping);
            (0, device, inode)
        }
        (false, 0) => (process.pid, 0, mapping.start),
        (false, inode) => (process.pid, mapping.device, inode),
    }
}

/// Device and inode; pid and address of a private mapping. A System V segment's inode is its shmid,
/// unique only in its ipc namespace: a foreign namespace becomes part of the key.
pub(crate) fn mapping_identity(host: &Host, process: &Process, mapping: &Mapping) -> (u64, u64) {
    match segment_kind(host, mapping) {
        SegmentKind::Private => (u64::from(process.pid), mapping.start),
        SegmentKind::SystemV => match foreign_ipc(host, process) {
            Some(namespace) => (mapping.device | namespace << 32, mapping.inode),
            None => (mapping.device, mapping.inode),
        },
        _ => (mapping.device, mapping.inode),
    }
}

pub(crate) fn find_listed(host: &Host, shmid: u64) -> Option<&SysvSegment> {
    host.sysv_segments.as_known()?.iter().find(|segment| segment.id == shmid)
}

fn foreign_ipc(host: &Host, process: &Process) -> Option<u64> {
    let theirs = process.namespaces.ipc.get()?;
    (theirs != host.namespaces.ipc.get()?).then_some(theirs)
}

struct SegmentParts<'a> {
    first: (&'a Process, &'a Mapping),
    page_size: Observed<PageSize>,
    stretches: Vec<(u32, u64, u64)>,
}

impl<'a> SegmentParts<'a> {
    const fn new(process: &'a Process, mapping: &'a Mapping) -> Self {
        Self { first: (process, mapping), page_size: Observed::Absent, stretches: Vec::new() }
    }

    fn add(&mut self, process: &Process, mapping: &Mapping) {
        let end = mapping.offset.saturating_add(mapping.size().get());
        self.stretches.push((process.pid, mapping.offset, end));
        // One process that may be asked is enough: a segment has one page size.
        if !self.page_size.is_known() && !mapping.page_size.is_absent() {
            self.page_size = mapping.page_size.clone();
        }
    }

    fn into_segment(mut self, host: &Host) -> Segment {
        let (process, mapping) = self.first;
        self.stretches.sort_unstable();
        let kind = segment_kind(host, mapping);
        let by_process = || self.stretches.chunk_by(|one, next| one.0 == next.0);
        let mapped = by_process().map(covered_length).max().unwrap_or_default();
        let size = match kind {
            SegmentKind::SystemV if foreign_ipc(host, process).is_none() => {
                find_listed(host, mapping.inode).map_or(mapped, |segment| segment.size)
            }
            _ => mapped,
        };
        let asked = Mapping { page_size: self.page_size.clone(), ..mapping.clone() };
        Segment {
            kind,
            name: segment_name(kind, mapping),
            size,
            page_size: self.page_size,
            huge: mapping_is_huge(host, &asked),
            mappers: u64::try_from(by_process().count()).unwrap_or(u64::MAX),
            identity: mapping_identity(host, process, mapping),
        }
    }
}

fn segment_name(kind: SegmentKind, mapping: &Mapping) -> String {
    match (kind, strip_deleted_mark(&mapping.name)) {
        (SegmentKind::SystemV, _) => format!("shmid {}", mapping.inode),
        (_, "") => "anonymous".into(),
        (_, "[heap]") => "heap".into(),
        (_, name) => name.into(),
    }
}

/// Length of the union of one process's sorted stretches.
fn covered_length(stretches: &[(u32, u64, u64)]) -> Bytes {
    let mut length = 0_u64;
    let mut covered = 0_u64;
    for (_, from, to) in stretches {
        length = length.saturating_add(to.saturating_sub(covered.max(*from)));
        covered = covered.max(*to);
    }
    Bytes(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use hugewise_model::host::HugetlbfsMount;

    fn mapping(name: &str, at_mib: u64, mib: u64, inode: u64, page: Option<PageSize>) -> Mapping {
        Mapping {
            start: at_mib << 20,
            end: (at_mib + mib) << 20,
            shared: true,
            accessible: true,
            offset: 0,
            device: 5,
            inode,
            name: name.into(),
            page_size: page.into(),
        }
    }

    fn host(processes: Vec<(u32, Vec<Mapping>)>) -> Host {
        let process = |(pid, mappings)| Process {
            pid,
            mappings: Observed::Known(mappings),
            ..Process::default()
        };
        Host {
            base_page: Observed::Known(PageSize::KIB_4),
            processes: testing::known(processes.into_iter().map(process)),
            ..Host::default()
        }
    }

    #[test]
    fn what_several_processes_map_is_one_segment_as_large_as_the_most_that_one_maps() {
        let part = Mapping {
            offset: 64 << 20,
            ..mapping("/dev/zero (deleted)", 64, 36, 9, Some(PageSize::KIB_4))
        };
        let host = host(vec![
            (1, vec![mapping("/dev/zero (deleted)", 0, 64, 9, Some(PageSize::KIB_4)), part]),
            (2, vec![mapping("/dev/zero (deleted)", 0, 64, 9, Some(PageSize::KIB_4))]),
        ]);
        let segments = collect_segments(&host, &[1, 2], |_, _| true);
        assert_eq!(segments.len(), 1);
        assert_eq!((segments[0].size, segments[0].mappers), (Bytes::from_mib(100), 2));
        assert_eq!(
            (segments[0].kind, segments[0].name.as_str()),
            (SegmentKind::AnonymousShared, "/dev/zero")
        );
        assert_eq!(huge_page_use(&segments), HugePageUse::None);
    }

    #[test]
    fn what_a_process_maps_thrice_counts_once() {
        let heap = |at| mapping("/memfd:java_heap (deleted)", at, 512, 3, Some(PageSize::MIB_2));
        let segments = collect_segments(
            &host(vec![(1, vec![heap(0), heap(1 << 20), heap(2 << 20)])]),
            &[1],
            |_, _| true,
        );
        assert_eq!((segments.len(), segments[0].size), (1, Bytes::from_mib(512)));
        assert_eq!(huge_page_use(&segments), HugePageUse::All);
    }

    #[test]
    fn names_tell_the_kind() {
        let mut host = host(vec![]);
        host.hugetlbfs_mounts = Observed::Known(vec![HugetlbfsMount {
            path: "/dev/hugepages".into(),
            page_size: Observed::Absent,
            options: String::new(),
        }]);
        let of_name = |name: &str| segment_kind(&host, &mapping(name, 0, 2, 1, None));
        assert_eq!(of_name("/SYSV0052e2c1 (deleted)"), SegmentKind::SystemV);
        assert_eq!(of_name("/anon_hugepage (deleted)"), SegmentKind::AnonymousShared);
        assert_eq!(of_name("/dev/zero (deleted)"), SegmentKind::AnonymousShared);
        assert_eq!(of_name("/dev/shm/ora_PROD_1_0"), SegmentKind::Posix);
        assert_eq!(of_name("/memfd:heap (deleted)"), SegmentKind::Posix);
        assert_eq!(of_name("/dev/hugepages/libvirt/qemu/1-vm/ram"), SegmentKind::Hugetlbfs);
        assert_eq!(of_name("/dev/hugepages-not/file"), SegmentKind::Posix);
        let in_container = mapping("/mnt/huge/ram", 0, 2, 1, Some(PageSize::MIB_2));
        assert_eq!(segment_kind(&host, &in_container), SegmentKind::Hugetlbfs);
        let private =
            Mapping { shared: false, ..mapping("/anon_hugepage (deleted)", 0, 2, 1, None) };
        assert_eq!(segment_kind(&host, &private), SegmentKind::Private);
        assert_eq!(mapping_is_huge(&host, &private), Observed::Known(true));
    }

    #[test]
    fn a_system_v_segment_has_the_size_and_the_number_that_the_kernel_lists() {
        let mut host = host(vec![(1, vec![mapping("/SYSV00000000 (deleted)", 0, 6, 32769, None)])]);
        host.sysv_segments = Observed::Known(vec![SysvSegment {
            id: 32769,
            key: 0,
            mode: 0o600,
            size: Bytes(5 << 20),
            creator: 1,
            attached: 1,
            uid: 0,
            gid: 0,
            rss: Observed::Absent,
            swap: Observed::Absent,
        }]);
        let segments = collect_segments(&host, &[1], |_, _| true);
        assert_eq!(
            (segments[0].name.as_str(), segments[0].size),
            ("shmid 32769", Bytes::from_mib(5))
        );
        assert_eq!(segments[0].huge, Observed::Absent);
        assert_eq!(huge_page_use(&segments), HugePageUse::Unknown);

        // In another ipc namespace the same number is another segment.
        host.namespaces.ipc = Observed::Known(1);
        testing::processes(&mut host)[0].namespaces.ipc = Observed::Known(2);
        let foreign = collect_segments(&host, &[1], |_, _| true);
        assert_eq!(foreign[0].size, Bytes::from_mib(6));
        assert_ne!(foreign[0].identity, segments[0].identity);
    }

    #[test]
    fn an_unknown_segment_matters_only_where_the_others_do_not_decide() {
        let at = |inode, page| mapping("/dev/shm/x", 0, 1, inode, page);
        let use_of = |mappings| {
            huge_page_use(&collect_segments(&host(vec![(1, mappings)]), &[1], |_, _| true))
        };
        let (base, huge) = (Some(PageSize::KIB_4), Some(PageSize::MIB_2));
        assert_eq!(use_of(vec![at(1, base), at(2, huge), at(3, None)]), HugePageUse::Partly);
        assert_eq!(use_of(vec![at(1, base), at(3, None)]), HugePageUse::Unknown);
        assert_eq!(use_of(vec![at(2, huge), at(3, None)]), HugePageUse::Unknown);
        assert_eq!(use_of(vec![]), HugePageUse::Unknown);
    }

    #[test]
    fn private_mappings_stay_apart() {
        let private = |at| Mapping {
            shared: false,
            inode: 0,
            device: 0,
            ..mapping("", at, 16, 0, Some(PageSize::KIB_4))
        };
        let segments =
            collect_segments(&host(vec![(1, vec![private(0), private(100)])]), &[1], |_, _| true);
        assert_eq!(segments.len(), 2);
        assert_eq!(
            (segments[1].identity, segments[1].name.as_str()),
            ((1, 100 << 20), "anonymous")
        );

        // MariaDB 10.11 on huge pages: one stretch in two pieces, as they differ in what a core
        // dump takes.
        let huge = |at, offset: u64| {
            let piece = mapping("/anon_hugepage (deleted)", at, 4, 40955, Some(PageSize::MIB_2));
            Mapping { shared: false, offset: offset << 20, ..piece }
        };
        let segments =
            collect_segments(&host(vec![(1, vec![huge(0, 0), huge(4, 4)])]), &[1], |_, _| true);
        assert_eq!(
            (segments.len(), segments[0].size, segments[0].identity),
            (1, Bytes::from_mib(8), (1, 0))
        );
    }
}
