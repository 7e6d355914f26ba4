//! A host made up in memory, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hugewise_model::{Observed, PageSize};

use super::tree::Tree;
use super::{Listed, Machine, Owner, Source};

/// A host in memory: paths with their bytes.
///
/// Folders come from the paths of what is in them. A relative or absolute link is followed inside the map.
#[derive(Clone, Debug, Default)]
pub struct MapSource {
    tree: Tree,
    page_sizes: BTreeMap<(u32, u64), PageSize>,
    cpu_times: BTreeMap<u32, Duration>,
    identities: BTreeMap<u32, u64>,
    changed_since_start: BTreeMap<(u32, String), bool>,
    changed_after: BTreeMap<(String, String), bool>,
    /// Files that were changed since a process began, where that is known of all.
    changed: Option<BTreeSet<(u32, String)>>,
    machine: Machine,
}

impl MapSource {
    /// A host on which every fact is absent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a file there.
    #[must_use]
    pub fn file(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.tree.put_file(path, Observed::Known(bytes.as_ref().to_vec()));
        self
    }

    /// Puts a symbolic link there, a magic link of /proc too.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.tree.put_link(path, target);
        self
    }

    /// Puts an empty folder there.
    #[must_use]
    pub fn folder(mut self, path: &str) -> Self {
        self.tree.put_folder(path);
        self
    }

    /// Whatever is there may not be seen.
    #[must_use]
    pub fn denied(mut self, path: &str) -> Self {
        self.tree.put_denied(path);
        self
    }

    /// A file that cannot be read for a reason of its own.
    #[must_use]
    pub fn malformed(mut self, path: &str, why: &str) -> Self {
        self.tree.put_file(path, Observed::Malformed(why.to_owned()));
        self
    }

    /// What PROCMAP_QUERY would say of the mapping of `pid` that starts at `start`.
    #[must_use]
    pub fn page_size(mut self, pid: u32, start: u64, page_size: PageSize) -> Self {
        self.page_sizes.insert((pid, start), page_size);
        self
    }

    /// What the threads of `pid` have run.
    #[must_use]
    pub fn cpu_time(mut self, pid: u32, cpu_time: Duration) -> Self {
        self.cpu_times.insert(pid, cpu_time);
        self
    }

    /// The inode of the folder of `pid`.
    #[must_use]
    pub fn identity(mut self, pid: u32, identity: u64) -> Self {
        self.identities.insert(pid, identity);
        self
    }

    /// Whether what lies at `path` was changed since that process began.
    #[must_use]
    pub fn changed_since_start(mut self, pid: u32, path: &str, changed: bool) -> Self {
        self.changed_since_start.insert((pid, path.to_owned()), changed);
        self
    }

    /// Whether what lies at `path` was changed after `than` was written.
    #[must_use]
    pub fn changed_after(mut self, path: &str, than: &str, changed: bool) -> Self {
        self.changed_after.insert((than.to_owned(), path.to_owned()), changed);
        self
    }

    /// Of each process all the files that were changed since it began: no other one was.
    #[must_use]
    pub fn all_changed_since_start(mut self, changed: BTreeSet<(u32, String)>) -> Self {
        self.changed = Some(changed);
        self
    }

    /// Facts that are in no file.
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }
}

impl Source for MapSource {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.tree.read(path)
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        self.tree.list(folder)
    }

    fn link(&self, path: &str) -> Observed<String> {
        self.tree.link(path)
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.page_sizes.get(&(pid, start)).copied().into()
    }

    fn processes(&self) -> Observed<Vec<Listed>> {
        let listed = |name: &String| {
            let pid = name.parse().ok()?;
            Some(Listed { pid, identity: self.identities.get(&pid).copied() })
        };
        self.list("/proc").map(|names| names.iter().filter_map(listed).collect())
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        self.cpu_times.get(&pid).copied().into()
    }

    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let Some(changed) = &self.changed else {
            return self.changed_since_start.get(&(pid, path.to_owned())).copied().into();
        };
        let there = self.list(path).map(|_| ()).or_else_absent(|| self.read(path).map(|_| ()));
        there.map(|()| changed.contains(&(pid, path.to_owned())))
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.changed_after.get(&(than.to_owned(), path.to_owned())).copied().into()
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(source: &MapSource, path: &str) -> Option<Vec<u8>> {
        source.read(path).into_known()
    }

    #[test]
    fn folders_come_from_paths_and_links_stay_inside() {
        let source = MapSource::new()
            .file("/etc/a.conf", "a")
            .file("/etc/d/b.conf", "b")
            .link("/etc/abs", "/etc/d")
            .link("/etc/d/up", "../../../a.conf")
            .link("/etc/d/sideways", "../a.conf")
            .link("/loop", "/loop")
            .denied("/etc/secret");
        assert_eq!(source.list("/etc"), Observed::Known(["a.conf", "abs", "d", "secret"].map(String::from).to_vec()));
        assert_eq!(bytes(&source, "/etc/abs/b.conf"), Some(b"b".to_vec()));
        assert_eq!(bytes(&source, "/etc/d/sideways"), Some(b"a".to_vec()));
        assert_eq!(source.read("/etc/d/up"), Observed::Absent);
        assert_eq!(Source::link(&source, "/etc/abs"), Observed::Known("/etc/d".into()));
        assert!(matches!(source.read("/loop"), Observed::Malformed(_)));
        assert_eq!(source.read("/etc/secret"), Observed::Denied);
        assert_eq!(source.read("/etc/secret/x"), Observed::Denied);
        assert_eq!(source.list("/etc/a.conf"), Observed::Absent);
        assert_eq!(source.read("/etc/a.conf/x"), Observed::Absent);
    }

    #[test]
    fn a_process_root_is_a_root_of_its_own() {
        let source = MapSource::new()
            .file("/proc/7/root/etc/real", "inside")
            .file("/etc/real", "outside")
            .link("/proc/7/root/etc/link", "/etc/real");
        assert_eq!(bytes(&source, "/proc/7/root/etc/link"), Some(b"inside".to_vec()));
        assert_eq!(source.read("/proc/7/root/../../../etc/passwd"), Observed::Absent);
    }
}
