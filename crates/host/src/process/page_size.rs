//! The page size of each mapping: asked of the kernel where it answers, else told by names and by one
//! representative process a segment, within a time budget.

use std::collections::BTreeMap;
use std::time::Duration;

use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Bytes, Mapping, Observed, PageSize, Process, Reason, Unread};

use super::maps::is_hugetlb_name;
use super::status::Matters;
use super::{numa_maps, smaps};
use crate::Source;

/// How long numa_maps and smaps may be read in all: the kernel walks the page tables of the whole process for each.
pub(crate) const BUDGET: Duration = Duration::from_secs(2);

/// What else decides a page size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The base page.
    pub base_page: Option<PageSize>,
    /// The huge page of mappings that name none.
    pub default_huge_page: Option<PageSize>,
    /// Mounted hugetlbfs file systems.
    pub hugetlbfs: &'a [HugetlbfsMount],
    /// The smallest huge page that the kernel has a pool for.
    pub smallest_huge_page: Option<PageSize>,
    /// Whether some pool may have pages that are promised and not touched yet.
    pub has_reserved: bool,
    /// Whether the kernel knows huge pages of one size alone, and does not say which where it says that pages are huge.
    pub one_size: bool,
}

impl Facts<'_> {
    /// The size of pages that are said to be huge and no more.
    fn only_huge_page(&self) -> Option<PageSize> {
        self.default_huge_page.filter(|_| self.one_size)
    }

    /// Which mappings can matter: where the huge pages are not known, any.
    pub(super) fn matters(&self) -> Matters {
        Matters { least: self.smallest_huge_page.map_or(Bytes(1), PageSize::bytes), code: self.has_reserved }
    }
}

/// Tells one segment from another on the whole host. A System V segment's inode is its shmid, which counts
/// per ipc namespace and apart from the inodes of the file system that it shares a device with.
type Segment = (Option<u64>, bool, u64, u64);

/// Finds page sizes, remembering each shared segment's.
pub(super) struct PageSizes<'a> {
    source: &'a dyn Source,
    facts: Facts<'a>,
    elapsed: &'a dyn Fn() -> Duration,
    segments: BTreeMap<Segment, PageSize>,
    /// Segments that could not be told for want of time.
    skipped: BTreeMap<Segment, String>,
}

impl<'a> PageSizes<'a> {
    pub(super) const fn new(source: &'a dyn Source, facts: Facts<'a>, elapsed: &'a dyn Fn() -> Duration) -> Self {
        Self { source, facts, elapsed, segments: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    /// Fills in the page sizes of a process's mappings.
    pub(super) fn fill(&mut self, process: &Process, mappings: &mut [Mapping]) {
        let mut tables = Tables { source: self.source, pid: process.pid, numa_maps: None, smaps: None };
        for mapping in mappings {
            mapping.page_size = self.of(process, mapping, &mut tables);
        }
    }

    /// Questions that were left open.
    pub(super) fn unread(&self) -> Vec<Unread> {
        let told = |segment: &Segment| self.segments.contains_key(segment);
        let open = self.skipped.iter().filter(|(segment, _)| !told(segment));
        open.map(|(_, what)| Unread::new(what.clone(), Reason::Skipped("time budget".into()))).collect()
    }

    fn of(&mut self, process: &Process, mapping: &Mapping, tables: &mut Tables<'_>) -> Observed<PageSize> {
        // A huge page is whole or not there.
        if mapping.size() < self.facts.matters().least && self.facts.base_page.is_some() {
            return self.facts.base_page.into();
        }
        let shared = mapping.inode != 0;
        let ipc = process.namespaces.ipc.get();
        let segment = (ipc, mapping.name.starts_with("/SYSV"), mapping.device, mapping.inode);
        if shared && let Some(known) = self.segments.get(&segment) {
            return Observed::Known(*known);
        }
        let answer = match self.source.mapping_page_size(process.pid, mapping.start) {
            Observed::Absent => self.without_query(process, mapping, segment, tables),
            answer => answer,
        };
        if shared && let Some(known) = answer.get() {
            self.segments.insert(segment, known);
        }
        answer
    }

    fn without_query(
        &mut self,
        process: &Process,
        mapping: &Mapping,
        segment: Segment,
        tables: &mut Tables<'_>,
    ) -> Observed<PageSize> {
        if let Some(mount) = self.mount_of(mapping)
            && mount.page_size.is_known()
        {
            return mount.page_size.clone();
        }
        if !self.ambiguous(process, mapping) {
            return self.facts.base_page.into();
        }
        if (self.elapsed)() >= BUDGET {
            let what = format!("page size of {} in /proc/{}/numa_maps", mapping.name, process.pid);
            self.skipped.entry(segment).or_insert(what);
        } else {
            let told = tables.page_size(mapping.start, self.facts.base_page, self.facts.only_huge_page());
            if !told.is_absent() {
                return told;
            }
        }
        // The name of private and shared anonymous hugetlb memory says that it is huge, but not how huge.
        let anonymous_huge = mapping.name.starts_with("/anon_hugepage");
        self.facts.default_huge_page.filter(|_| anonymous_huge).into()
    }

    fn mount_of(&self, mapping: &Mapping) -> Option<&'a HugetlbfsMount> {
        let below = |mount: &&HugetlbfsMount| {
            mapping.name.strip_prefix(mount.path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        self.facts.hugetlbfs.iter().filter(below).max_by_key(|mount| mount.path.len())
    }

    /// Whether the name leaves it open: System V segments and memfds have the same names on every page size, and
    /// files of another mount namespace may lie on a hugetlbfs that is mounted there alone.
    fn ambiguous(&self, process: &Process, mapping: &Mapping) -> bool {
        let name = mapping.name.as_str();
        name.starts_with("/SYSV")
            || is_hugetlb_name(name.as_bytes())
            || (mapping.inode != 0 && process.hugetlb.get().is_some_and(|hugetlb| hugetlb.get() > 0))
    }
}

/// The slow files of one process, each read once at most.
struct Tables<'a> {
    source: &'a dyn Source,
    pid: u32,
    numa_maps: Option<Observed<Vec<u8>>>,
    smaps: Option<Observed<Vec<u8>>>,
}

impl Tables<'_> {
    fn page_size(
        &mut self,
        start: u64,
        base_page: Option<PageSize>,
        only_huge_page: Option<PageSize>,
    ) -> Observed<PageSize> {
        let (source, pid) = (self.source, self.pid);
        let read = |file: &str| source.read(&format!("/proc/{pid}/{file}"));
        let numa_maps = self.numa_maps.get_or_insert_with(|| read("numa_maps"));
        let told = numa_maps.as_ref().parse(|bytes| numa_maps::page_size_at(bytes, start));
        match told {
            Observed::Known(Some(numa_maps::Told::Size(size))) => return Observed::Known(size),
            Observed::Known(Some(numa_maps::Told::SomeHuge)) if only_huge_page.is_some() => {
                return only_huge_page.into();
            }
            Observed::Known(Some(numa_maps::Told::Base)) if base_page.is_some() => return base_page.into(),
            Observed::Denied => return Observed::Denied,
            _ => {}
        }
        let smaps = self.smaps.get_or_insert_with(|| read("smaps"));
        smaps.as_ref().parse(|bytes| smaps::page_size_at(bytes, start)).and_then(Observed::from)
    }
}

/// The page size of one mapping by numa_maps, then smaps: what a captured host has instead of PROCMAP_QUERY.
pub(crate) fn from_tables(
    source: &dyn Source,
    pid: u32,
    start: u64,
    base_page: Option<PageSize>,
) -> Observed<PageSize> {
    Tables { source, pid, numa_maps: None, smaps: None }.page_size(start, base_page, None)
}
