//! Where the files of a guest's memory lie: on which hugetlbfs, if on any, and with which pages.

use hugewise_host::kernel::mounts;
use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Host, PageSize, Process};

use crate::shared::{options, segments};
use crate::{EngineContext, each_known};

/// The hugetlbfs that a guest sees. A mount namespace has mounts of its own, whatever the host has
/// at the same place.
pub(super) struct GuestMounts<'a> {
    pub(super) host: &'a Host,
    process: Option<&'a Process>,
    sees_other_files: bool,
    own: Option<OwnMounts>,
}

/// Mounts of a namespace of its own.
struct OwnMounts {
    hugetlbfs: Vec<HugetlbfsMount>,
    /// Mount points of other file systems, which may lie over a folder of a hugetlbfs.
    others: Vec<String>,
}

impl<'a> GuestMounts<'a> {
    pub(super) const fn from_host(host: &'a Host) -> Self {
        Self { host, process: None, sees_other_files: false, own: None }
    }

    pub(super) fn from_process(scene: &EngineContext<'a>, process: &'a Process) -> Self {
        let sees_other_files = options::sees_other_files(scene.host, process);
        let own = sees_other_files.then(|| read_own_mounts(scene, process)).flatten();
        Self { host: scene.host, process: Some(process), sees_other_files, own }
    }

    /// Where a container's mounts cannot be read, the usual names have to do.
    pub(super) fn is_on_hugetlbfs(&self, path: &str) -> bool {
        self.covering_mount(path).is_some()
            || self.mapped_page_size(path).is_some()
            || (self.own.is_none() && (path.contains("/hugepages") || path.contains("/hugetlbfs")))
    }

    /// The size of the pages below a path: by its mount, or by what is mapped from there, as the
    /// same arguments ask for the same again.
    pub(super) fn page_size_below(&self, path: &str) -> Option<PageSize> {
        let mounted = self.covering_mount(path).and_then(|mount| mount.page_size.get());
        mounted.or_else(|| self.mapped_page_size(path))
    }

    fn covering_mount(&self, path: &str) -> Option<&HugetlbfsMount> {
        let own = self.own.iter().flat_map(|own| &own.hugetlbfs);
        let others = self.own.iter().flat_map(|own| &own.others);
        let over = others.filter(|other| is_below(path, other)).map(String::len).max();
        let hosts = each_known(&self.host.hugetlbfs_mounts).filter(|_| !self.sees_other_files);
        own.chain(hosts)
            .filter(|mount| is_below(path, &mount.path))
            .max_by_key(|mount| mount.path.len())
            .filter(|mount| over.is_none_or(|over| over <= mount.path.len()))
    }

    fn mapped_page_size(&self, path: &str) -> Option<PageSize> {
        let process = self.process.filter(|_| path.starts_with('/'))?;
        let mappings = each_known(&process.mappings).filter(|mapping| {
            let name = segments::strip_deleted_mark(&mapping.name);
            segments::mapping_is_huge(self.host, mapping).get() == Some(true)
                && is_below(options::as_process_names(process, name), path)
        });
        mappings.max_by_key(|mapping| mapping.size())?.page_size.get()
    }
}

pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read_own_mounts(scene: &EngineContext<'_>, process: &Process) -> Option<OwnMounts> {
    let bytes = scene.source.read(&format!("/proc/{}/mountinfo", process.pid)).into_known()?;
    // A capture keeps the lines of hugetlbfs, and of what lies over it.
    if bytes.trim_ascii().is_empty() {
        return Some(OwnMounts { hugetlbfs: Vec::new(), others: Vec::new() });
    }
    let mounts = mounts::parse(&bytes).ok()?;
    let hugetlbfs = mounts::find_hugetlbfs_mounts(&mounts, &scene.host.default_huge_page).ok()?;
    let is_over = |path: &str| hugetlbfs.iter().any(|mount| is_below(path, &mount.path));
    let others = mounts.iter().filter(|mount| mount.kind != "hugetlbfs" && is_over(&mount.path));
    let others = others.map(|mount| mount.path.clone()).collect();
    Some(OwnMounts { hugetlbfs, others })
}
