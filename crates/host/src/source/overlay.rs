//! A host as it will be: files over those of a source, so that what reads the host can tell what a plan comes to.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, PageSize, Unread};

use super::{Machine, Owner, Part, Source};

/// A source with files laid over it.
#[derive(Clone)]
pub struct Overlay<'a> {
    base: &'a dyn Source,
    /// `None` is a file that is gone.
    files: BTreeMap<String, Option<Vec<u8>>>,
    /// Processes that have the host's files below a root of their own, `/proc/PID/root`.
    alike: BTreeSet<u32>,
}

impl<'a> Overlay<'a> {
    /// Nothing is laid over it yet.
    pub const fn new(base: &'a dyn Source) -> Self {
        Self { base, files: BTreeMap::new(), alike: BTreeSet::new() }
    }

    /// What is laid over the host is also what these processes find at its path: services that have mounts of their own and the
    /// host's files, which are read below `/proc/PID/root`.
    #[must_use]
    pub fn found_by(mut self, pids: impl IntoIterator<Item = u32>) -> Self {
        self.alike.extend(pids);
        self
    }

    /// Lays a file over what is there, or takes it away.
    pub fn set(&mut self, path: &str, bytes: Option<Vec<u8>>) {
        self.files.insert(path.to_owned(), bytes);
    }

    /// Takes a file away that was laid over.
    pub fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// The same with one more file.
    pub fn with(&self, path: &str, text: &str) -> Self {
        let mut more = self.clone();
        more.set(path, Some(text.as_bytes().to_vec()));
        more
    }
}

impl Source for Overlay<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        match self.over(path) {
            Some(bytes) => bytes.clone().into(),
            None => self.base.read(path),
        }
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        self.laid_over(folder, self.base.list(folder))
    }

    fn link(&self, path: &str) -> Observed<String> {
        if self.over(path).is_some() { Observed::Absent } else { self.base.link(path) }
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        match self.over(path) {
            Some(bytes) => bytes.clone().into(),
            None => self.base.read_as(owner, path, most),
        }
    }

    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        match self.over(path) {
            Some(bytes) => Observed::from(bytes.clone()).map(|bytes| Part::of(&bytes, before, max)),
            None => self.base.read_part_as(owner, path, before, max),
        }
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        self.laid_over(folder, self.base.list_as(owner, folder, most))
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        if self.over(path).is_some() { Observed::Absent } else { self.base.link_as(owner, path) }
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.base.owner_of(path)
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        if self.over(path).is_some() { Observed::Known(true) } else { self.base.changed_since_start(owner, path, pid) }
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        if self.over(path).is_some() { Observed::Known(true) } else { self.base.changed_after(path, than) }
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.base.mapping_page_size(pid, start)
    }

    fn machine(&self) -> Machine {
        self.base.machine()
    }

    fn problems(&self) -> Vec<Unread> {
        self.base.problems()
    }
}

impl Overlay<'_> {
    /// What is laid over a path, if anything.
    fn over(&self, path: &str) -> Option<&Option<Vec<u8>>> {
        self.files.get(self.on_the_host(path))
    }

    /// A path below the root of a process that has the host's files, as the host has it.
    fn on_the_host<'p>(&self, path: &'p str) -> &'p str {
        let below = || {
            let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
            let inside = rest.strip_prefix("root").filter(|inside| inside.starts_with('/'))?;
            self.alike.contains(&pid.parse().ok()?).then_some(inside)
        };
        below().unwrap_or(path)
    }

    /// Names in a folder as they will be.
    fn laid_over(&self, folder: &str, listed: Observed<Vec<String>>) -> Observed<Vec<String>> {
        let prefix = format!("{}/", self.on_the_host(folder).trim_end_matches('/'));
        let below = self.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, bytes.is_some())));
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
