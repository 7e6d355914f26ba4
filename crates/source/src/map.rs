//! A host made up in memory, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hugewise_model::{Observed, PageSize};

use super::tree::Tree;
use super::{
    FilePart, FileRequest, ListedProcess, MachineFacts, Owner, ProcessSource, RawSource, Source,
    TrustedWriters, processes_by_name,
};

/// A host in memory: paths with their bytes. Folders come from the paths, and links are followed
/// inside the map.
#[derive(Clone, Debug, Default)]
pub struct MapSource {
    tree: Tree,
    page_sizes: BTreeMap<(u32, u64), PageSize>,
    cpu_times: BTreeMap<u32, Duration>,
    identities: BTreeMap<u32, u64>,
    changed_since_start: BTreeMap<(u32, String), bool>,
    changed_after: BTreeMap<(String, String), bool>,
    changed: Option<BTreeSet<(u32, String)>>,
    owners: BTreeMap<String, u32>,
    executable_owners: BTreeMap<u32, u32>,
    machine: MachineFacts,
}

impl MapSource {
    /// A host on which every fact is absent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with_file(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.tree.put_file(path, Observed::Known(bytes.as_ref().to_vec()));
        self
    }

    /// Adds a symbolic link, or a magic link of /proc.
    #[must_use]
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.tree.put_link(path, target);
        self
    }

    /// Adds an empty folder.
    #[must_use]
    pub fn with_folder(mut self, path: &str) -> Self {
        self.tree.put_folder(path);
        self
    }

    /// Adds something that may not be seen.
    #[must_use]
    pub fn with_denied(mut self, path: &str) -> Self {
        self.tree.put_denied(path);
        self
    }

    /// Adds a file that cannot be read for another reason.
    #[must_use]
    pub fn with_malformed(mut self, path: &str, why: &str) -> Self {
        self.tree.put_file(path, Observed::Malformed(why.to_owned()));
        self
    }

    /// What PROCMAP_QUERY says of the mapping of `pid` that starts at `start`.
    #[must_use]
    pub fn page_size(mut self, pid: u32, start: u64, page_size: PageSize) -> Self {
        self.page_sizes.insert((pid, start), page_size);
        self
    }

    /// Processor time of the threads of `pid`.
    #[must_use]
    pub fn cpu_time(mut self, pid: u32, cpu_time: Duration) -> Self {
        self.cpu_times.insert(pid, cpu_time);
        self
    }

    /// The inode of the folder of `pid`.
    #[must_use]
    pub fn with_identity(mut self, pid: u32, identity: u64) -> Self {
        self.identities.insert(pid, identity);
        self
    }

    /// Whether what is at `path` was changed since that process began.
    #[must_use]
    pub fn changed_since_start(mut self, pid: u32, path: &str, changed: bool) -> Self {
        self.changed_since_start.insert((pid, path.to_owned()), changed);
        self
    }

    /// Whether what is at `path` was changed after `than` was written.
    #[must_use]
    pub fn changed_after(mut self, path: &str, than: &str, changed: bool) -> Self {
        self.changed_after.insert((than.to_owned(), path.to_owned()), changed);
        self
    }

    /// All files that were changed since a process began.
    #[must_use]
    pub fn all_changed_since_start(mut self, changed: BTreeSet<(u32, String)>) -> Self {
        self.changed = Some(changed);
        self
    }

    /// Who owns what lies at `path`.
    #[must_use]
    pub fn with_owner(mut self, path: &str, uid: u32) -> Self {
        self.owners.insert(path.to_owned(), uid);
        self
    }

    /// Who owns the program that `pid` runs.
    #[must_use]
    pub fn with_executable_owner(mut self, pid: u32, uid: u32) -> Self {
        self.executable_owners.insert(pid, uid);
        self
    }

    /// Facts that are in no file.
    #[must_use]
    pub fn with_machine(mut self, machine: MachineFacts) -> Self {
        self.machine = machine;
        self
    }
}

impl RawSource for MapSource {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        request.answer_from(self.tree.read(request.path))
    }
    fn folder_names(&self, folder: &str, _: Option<&Owner>, _: u64) -> Observed<Vec<String>> {
        self.tree.list_folder(folder)
    }
    fn link_target(&self, path: &str, _: Option<&Owner>) -> Observed<String> {
        self.tree.read_link(path)
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.owners.get(path).copied().into()
    }

    /// Folders that nobody is said to own are root's.
    fn check_writers(&self, path: &str, writers: &TrustedWriters) -> Observed<()> {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        let other = folders.chain([path]).find_map(|part| {
            let owner = *self.owners.get(part)?;
            let is_other = owner != 0 && !writers.users.contains(&owner);
            is_other.then(|| format!("{part} belongs to user {owner}"))
        });
        match (other, self.owners.get(path)) {
            (Some(other), _) => Observed::Malformed(other),
            (None, owner) => owner.map(|_| ()).into(),
        }
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }

    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let Some(changed) = &self.changed else {
            return self.changed_since_start.get(&(pid, path.to_owned())).copied().into();
        };
        let there =
            self.list_folder(path).map(|_| ()).or_else_absent(|| self.read(path).map(|_| ()));
        there.map(|()| changed.contains(&(pid, path.to_owned())))
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.changed_after.get(&(than.to_owned(), path.to_owned())).copied().into()
    }
    fn machine_facts(&self) -> MachineFacts {
        self.machine.clone()
    }
}

impl ProcessSource for MapSource {
    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        processes_by_name(self.list_folder("/proc"), |pid| self.identities.get(&pid).copied())
    }
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.page_sizes.get(&(pid, start)).copied().into()
    }

    fn check_writers_of_executable(&self, pid: u32, writers: &TrustedWriters) -> Observed<()> {
        let owner = Observed::from(self.executable_owners.get(&pid).copied());
        owner.and_then(|owner| match owner == 0 || writers.users.contains(&owner) {
            true => Observed::Known(()),
            false => Observed::Malformed(format!("it belongs to user {owner}")),
        })
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        self.cpu_times.get(&pid).copied().into()
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
            .with_file("/etc/a.conf", "a")
            .with_file("/etc/d/b.conf", "b")
            .with_link("/etc/abs", "/etc/d")
            .with_link("/etc/d/up", "../../../a.conf")
            .with_link("/etc/d/sideways", "../a.conf")
            .with_link("/loop", "/loop")
            .with_denied("/etc/secret");
        assert_eq!(
            source.list_folder("/etc"),
            Observed::Known(["a.conf", "abs", "d", "secret"].map(String::from).to_vec())
        );
        assert_eq!(bytes(&source, "/etc/abs/b.conf"), Some(b"b".to_vec()));
        assert_eq!(bytes(&source, "/etc/d/sideways"), Some(b"a".to_vec()));
        assert_eq!(source.read("/etc/d/up"), Observed::Absent);
        assert_eq!(Source::read_link(&source, "/etc/abs"), Observed::Known("/etc/d".into()));
        assert!(matches!(source.read("/loop"), Observed::Malformed(_)));
        assert_eq!(source.read("/etc/secret"), Observed::Denied);
        assert_eq!(source.read("/etc/secret/x"), Observed::Denied);
        assert_eq!(source.list_folder("/etc/a.conf"), Observed::Absent);
        assert_eq!(source.read("/etc/a.conf/x"), Observed::Absent);
    }

    #[test]
    fn a_process_root_is_a_root_of_its_own() {
        let source = MapSource::new()
            .with_file("/proc/7/root/etc/real", "inside")
            .with_file("/etc/real", "outside")
            .with_link("/proc/7/root/etc/link", "/etc/real");
        assert_eq!(bytes(&source, "/proc/7/root/etc/link"), Some(b"inside".to_vec()));
        assert_eq!(source.read("/proc/7/root/../../../etc/passwd"), Observed::Absent);
    }
}
