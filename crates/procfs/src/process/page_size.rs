//! The page size of each mapping: from the kernel where it answers, else from names and from one
//! process a segment, within a time budget.

use std::collections::BTreeMap;
use std::time::Duration;

use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Bytes, Mapping, Observed, PageSize, Process, Reason, Unread};

use super::maps::is_hugetlb_name;
use super::numa_maps::NumaMapsPageSize;
use super::status::Matters;
use super::{numa_maps, smaps};
use hugewise_source::Source;

/// For numa_maps and smaps together, for which the kernel walks a process's page tables.
pub(super) const BUDGET: Duration = Duration::from_secs(2);

/// What else decides on a page size.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageSizeFacts<'a> {
    /// The base page.
    pub base_page: Option<PageSize>,
    /// The huge page of mappings that name none.
    pub default_huge_page: Option<PageSize>,
    /// Mounted hugetlbfs file systems.
    pub hugetlbfs: &'a [HugetlbfsMount],
    /// The smallest huge page that the kernel has a pool for.
    pub smallest_huge_page: Option<PageSize>,
    /// Whether some pool may have reserved pages that are not touched yet.
    pub has_reserved: bool,
    /// Whether this is a capture, whose files take precedence over names.
    pub is_captured: bool,
    /// Whether the kernel has one huge page size only and does not print it.
    pub one_size: bool,
}

impl PageSizeFacts<'_> {
    fn only_huge_page(&self) -> Option<PageSize> {
        self.default_huge_page.filter(|_| self.one_size)
    }

    /// Which mappings can matter: any, where the huge pages are not known.
    pub(super) fn relevant_mappings(&self) -> Matters {
        Matters {
            least: self.smallest_huge_page.map_or(Bytes(1), PageSize::bytes),
            code: self.has_reserved,
        }
    }
}

/// Identifies a segment on the host. A System V segment's inode is its shmid, which counts per ipc
/// namespace and apart from the inodes of its device.
type SegmentKey = (Option<u64>, bool, u64, u64);

pub(super) struct PageSizes<'a> {
    source: &'a dyn Source,
    facts: PageSizeFacts<'a>,
    elapsed: &'a dyn Fn() -> Duration,
    segments: BTreeMap<SegmentKey, PageSize>,
    skipped: BTreeMap<SegmentKey, String>,
}

impl<'a> PageSizes<'a> {
    pub(super) const fn new(
        source: &'a dyn Source,
        facts: PageSizeFacts<'a>,
        elapsed: &'a dyn Fn() -> Duration,
    ) -> Self {
        Self { source, facts, elapsed, segments: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    /// The slow files of a process, not read yet.
    pub(super) const fn start_tables(&self, pid: u32) -> MappingTables<'a> {
        MappingTables { source: self.source, pid, numa_maps: None, smaps: None }
    }

    pub(super) fn unread_questions(&self) -> Vec<Unread> {
        let told = |segment: &SegmentKey| self.segments.contains_key(segment);
        let open = self.skipped.iter().filter(|(segment, _)| !told(segment));
        open.map(|(_, what)| Unread::new(what.clone(), Reason::Skipped("time budget".into())))
            .collect()
    }

    pub(super) fn find_page_size(
        &mut self,
        process: &Process,
        mapping: &Mapping,
        tables: &mut MappingTables<'_>,
    ) -> Observed<PageSize> {
        // A huge page is whole or not there.
        if mapping.size() < self.facts.relevant_mappings().least && self.facts.base_page.is_some() {
            return self.facts.base_page.into();
        }
        let is_system_v = mapping.name.starts_with("/SYSV");
        // The first segment since the boot has the number 0.
        let shared = mapping.inode != 0 || is_system_v;
        let ipc = process.namespaces.ipc.get();
        let segment = (ipc, is_system_v, mapping.device, mapping.inode);
        if shared && let Some(known) = self.segments.get(&segment) {
            return Observed::Known(*known);
        }
        let answer = match self.source.processes().mapping_page_size(process.pid, mapping.start) {
            Observed::Absent => self
                .page_size_from_captured_tables(mapping, tables)
                .or_else_absent(|| self.without_query(process, mapping, segment, tables)),
            answer => answer,
        };
        if shared && let Some(known) = answer.get() {
            self.segments.insert(segment, known);
        }
        answer
    }

    /// From a capture's files; whoever made it decides how long they are.
    fn page_size_from_captured_tables(
        &self,
        mapping: &Mapping,
        tables: &mut MappingTables<'_>,
    ) -> Observed<PageSize> {
        if !self.facts.is_captured || (self.elapsed)() >= BUDGET {
            return Observed::Absent;
        }
        tables.page_size(mapping.start, self.facts.base_page, None)
    }

    fn without_query(
        &mut self,
        process: &Process,
        mapping: &Mapping,
        segment: SegmentKey,
        tables: &mut MappingTables<'_>,
    ) -> Observed<PageSize> {
        if let Some(mount) = self.mount_of(mapping)
            && mount.page_size.is_known()
        {
            return mount.page_size.clone();
        }
        if !self.is_ambiguous(process, mapping) {
            return self.facts.base_page.into();
        }
        if (self.elapsed)() >= BUDGET {
            let what = format!("page size of {} in /proc/{}/numa_maps", mapping.name, process.pid);
            self.skipped.entry(segment).or_insert(what);
        } else {
            let told =
                tables.page_size(mapping.start, self.facts.base_page, self.facts.only_huge_page());
            if !told.is_absent() {
                return told;
            }
        }
        // The name of anonymous hugetlb memory tells no size.
        let anonymous_huge = mapping.name.starts_with("/anon_hugepage");
        self.facts.default_huge_page.filter(|_| anonymous_huge).into()
    }

    fn mount_of(&self, mapping: &Mapping) -> Option<&'a HugetlbfsMount> {
        let below = |mount: &&HugetlbfsMount| {
            mapping.name.strip_prefix(mount.path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        self.facts.hugetlbfs.iter().filter(below).max_by_key(|mount| mount.path.len())
    }

    /// Whether the name leaves it open: System V segments and memfds have the same names on every
    /// page size, and another mount namespace may have a hugetlbfs of its own.
    fn is_ambiguous(&self, process: &Process, mapping: &Mapping) -> bool {
        let name = mapping.name.as_str();
        name.starts_with("/SYSV")
            || is_hugetlb_name(name.as_bytes())
            || (mapping.inode != 0
                && process.hugetlb.get().is_some_and(|hugetlb| hugetlb.get() > 0))
    }
}

/// The slow files of one process, each read at most once.
pub(super) struct MappingTables<'a> {
    source: &'a dyn Source,
    pid: u32,
    numa_maps: Option<Observed<Vec<u8>>>,
    smaps: Option<Observed<Vec<u8>>>,
}

impl MappingTables<'_> {
    fn page_size(
        &mut self,
        start: u64,
        base_page: Option<PageSize>,
        only_huge_page: Option<PageSize>,
    ) -> Observed<PageSize> {
        let (source, pid) = (self.source, self.pid);
        let read = |file: &str| source.read(&format!("/proc/{pid}/{file}"));
        let numa_maps = self.numa_maps.get_or_insert_with(|| read("numa_maps"));
        match numa_maps.as_ref().parse(|bytes| numa_maps::page_size_at(bytes, start)) {
            Observed::Known(Some(NumaMapsPageSize::Size(size))) => return Observed::Known(size),
            Observed::Known(Some(NumaMapsPageSize::SomeHuge)) if only_huge_page.is_some() => {
                return only_huge_page.into();
            }
            Observed::Known(Some(NumaMapsPageSize::Base)) if base_page.is_some() => {
                return base_page.into();
            }
            Observed::Denied => return Observed::Denied,
            _ => {}
        }
        let smaps = self.smaps.get_or_insert_with(|| read("smaps"));
        smaps.as_ref().parse(|bytes| smaps::page_size_at(bytes, start)).and_then(Observed::from)
    }
}

#[cfg(test)]
mod tests {
    use hugewise_source::MapSource;

    use super::*;

    #[test]
    fn tables_of_a_captured_host_are_looked_through_for_a_bounded_time() {
        let source = MapSource::new()
            .with_file("/proc/7/numa_maps", "7f00 default huge kernelpagesize_kB=1048576\n");
        let process = Process { pid: 7, ..Process::default() };
        let size_after = |elapsed: Duration| {
            let facts = PageSizeFacts { is_captured: true, ..PageSizeFacts::default() };
            let mut mappings =
                crate::process::maps::parse(b"7f00-40007f00 rw-s 00000000 00:01 5 x").unwrap();
            let mapping = mappings.remove(0);
            let clock = || elapsed;
            let mut sizes = PageSizes::new(&source, facts, &clock);
            let mut tables = sizes.start_tables(7);
            sizes.find_page_size(&process, &mapping, &mut tables)
        };
        assert_eq!(size_after(Duration::ZERO), Observed::Known(PageSize::GIB_1));
        assert_eq!(size_after(BUDGET), Observed::Absent);
    }
}
