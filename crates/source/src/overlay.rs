//! A host as it will be: files laid over a source, to tell what a plan comes to.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, PageSize};

use super::{
    ExpectedProcess, FilePart, FileRequest, ListedProcess, Owner, ProcessSource, RawSource, Source,
    TrustedWriters, processes_by_name,
};

/// A source with files laid over it.
#[derive(Clone)]
pub struct OverlaySource<'a> {
    base: &'a dyn Source,
    files: BTreeMap<String, Option<Vec<u8>>>,
    /// Processes that have the host's files below their own `/proc/PID/root`.
    alike: BTreeSet<u32>,
}

impl<'a> OverlaySource<'a> {
    /// Nothing is laid over it yet.
    pub const fn new(base: &'a dyn Source) -> Self {
        Self { base, files: BTreeMap::new(), alike: BTreeSet::new() }
    }

    /// These processes find the same files below `/proc/PID/root`: services with mounts of their
    /// own and the host's files.
    #[must_use]
    pub fn found_by(mut self, pids: impl IntoIterator<Item = u32>) -> Self {
        self.alike.extend(pids);
        self
    }

    /// Lays a file over what is there, or removes it.
    pub fn set_file(&mut self, path: &str, bytes: Option<Vec<u8>>) {
        self.files.insert(path.to_owned(), bytes);
    }

    /// Forgets an overlaid file.
    pub fn forget_file(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// The same with one more file.
    pub fn with_file(&self, path: &str, text: &str) -> Self {
        let mut more = self.clone();
        more.set_file(path, Some(text.as_bytes().to_vec()));
        more
    }
}

impl RawSource for OverlaySource<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        match self.overlaid_file(request.path) {
            Some(bytes) => request.answer_from(bytes.clone().into()),
            None => self.base.read_file(request),
        }
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        self.laid_over(folder, self.base.folder_names(folder, reader, most))
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        match self.overlaid_file(path) {
            Some(_) => Observed::Absent,
            None => self.base.link_target(path, reader),
        }
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        match self.overlaid_file(path) {
            Some(_) => Observed::Known(true),
            None => self.base.changed_since_start(owner, path, pid),
        }
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        match self.overlaid_file(path) {
            Some(_) => Observed::Known(true),
            None => self.base.changed_after(path, than),
        }
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }
    fn base(&self) -> Option<&dyn Source> {
        Some(self.base)
    }
    fn truncated_at(&self) -> Option<String> {
        None
    }
}

/// An overlay over /proc may be a process.
impl ProcessSource for OverlaySource<'_> {
    fn read_ahead(&self, processes: &[ExpectedProcess]) {
        self.base.processes().read_ahead(processes);
    }

    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        processes_by_name(self.list_folder("/proc"), |_| None)
    }
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.base.processes().mapping_page_size(pid, start)
    }
    fn check_writers_of_executable(&self, pid: u32, writers: &TrustedWriters) -> Observed<()> {
        self.base.processes().check_writers_of_executable(pid, writers)
    }

    fn check_writers_of_mapping(
        &self,
        pid: u32,
        addresses: (u64, u64),
        writers: &TrustedWriters,
    ) -> Observed<()> {
        self.base.processes().check_writers_of_mapping(pid, addresses, writers)
    }
}

impl OverlaySource<'_> {
    fn overlaid_file(&self, path: &str) -> Option<&Option<Vec<u8>>> {
        self.files.get(self.on_the_host(path))
    }

    /// The host's name for a path below the root of a process that has the host's files.
    fn on_the_host<'p>(&self, path: &'p str) -> &'p str {
        let below = || {
            let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
            let inside = rest.strip_prefix("root").filter(|inside| inside.starts_with('/'))?;
            self.alike.contains(&pid.parse().ok()?).then_some(inside)
        };
        below().unwrap_or(path)
    }

    fn laid_over(&self, folder: &str, listed: Observed<Vec<String>>) -> Observed<Vec<String>> {
        let prefix = format!("{}/", self.on_the_host(folder).trim_end_matches('/'));
        let below = self
            .files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, bytes.is_some())));
        let below: Vec<(&str, bool)> = below.collect();
        let mut names: BTreeSet<String> = match &listed {
            Observed::Known(names) => names.iter().cloned().collect(),
            Observed::Absent if below.iter().any(|(_, there)| *there) => BTreeSet::new(),
            _ => return listed,
        };
        for (rest, there) in below {
            match rest.split_once('/') {
                Some((name, _)) if there => {
                    names.insert(name.to_owned());
                }
                None if there => {
                    names.insert(rest.to_owned());
                }
                None => {
                    names.remove(rest);
                }
                Some(_) => {}
            }
        }
        Observed::Known(names.into_iter().collect())
    }
}
