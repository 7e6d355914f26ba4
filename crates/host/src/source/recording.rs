//! A source that remembers what was asked of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, PageSize, Unread};

use super::{MAX_FILE, Machine, Next, Owner, Part, Source};
use crate::process::status::Matters;

/// Wraps any source and remembers every answer; the last one counts.
pub struct Recording<'a> {
    source: &'a dyn Source,
    pub(crate) seen: RefCell<Seen>,
}

/// Answers by question.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Folders that were asked for on behalf of a server's owner.
    pub(crate) owned: BTreeSet<String>,
    pub(crate) files: BTreeMap<String, Observed<Vec<u8>>>,
    pub(crate) lists: BTreeMap<String, Observed<Vec<String>>>,
    pub(crate) links: BTreeMap<String, Observed<String>>,
    pub(crate) page_sizes: BTreeMap<(u32, u64), Observed<PageSize>>,
    /// By process and path.
    pub(crate) changed_since_start: BTreeMap<(u32, String), Observed<bool>>,
    /// By the file that is held against, and path.
    pub(crate) changed_after: BTreeMap<(String, String), Observed<bool>>,
}

impl<'a> Recording<'a> {
    /// Remembers nothing yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, seen: RefCell::default() }
    }
}

impl Source for Recording<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        let answer = self.source.read(path);
        self.seen.borrow_mut().files.insert(path.to_owned(), answer.clone());
        answer
    }

    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        self.source.glance(path, most)
    }

    fn keep(&self, path: &str, answer: &Observed<Vec<u8>>) {
        self.seen.borrow_mut().files.insert(path.to_owned(), answer.clone());
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        let answer = self.source.list(folder);
        self.seen.borrow_mut().lists.insert(folder.to_owned(), answer.clone());
        answer
    }

    fn link(&self, path: &str) -> Observed<String> {
        let answer = self.source.link(path);
        self.seen.borrow_mut().links.insert(path.to_owned(), answer.clone());
        answer
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        let answer = self.source.read_as(owner, path, most);
        keep(&mut self.seen.borrow_mut().files, path, &answer);
        answer
    }

    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.read_as(owner, path, MAX_FILE).map(|bytes| Part::of(&bytes, before, max))
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        let answer = self.source.list_as(owner, folder, most);
        let mut seen = self.seen.borrow_mut();
        seen.owned.insert(folder.to_owned());
        keep(&mut seen.lists, folder, &answer);
        drop(seen);
        answer
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        let answer = self.source.link_as(owner, path);
        keep(&mut self.seen.borrow_mut().links, path, &answer);
        answer
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        let answer = self.source.mapping_page_size(pid, start);
        self.seen.borrow_mut().page_sizes.insert((pid, start), answer.clone());
        answer
    }

    fn ahead(&self, next: &[Next], matters: Matters) {
        self.source.ahead(next, matters);
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.source.owner_of(path)
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let answer = self.source.changed_since_start(owner, path, pid);
        self.seen.borrow_mut().changed_since_start.insert((pid, path.to_owned()), answer.clone());
        answer
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        let answer = self.source.changed_after(path, than);
        self.seen.borrow_mut().changed_after.insert((than.to_owned(), path.to_owned()), answer.clone());
        answer
    }

    fn owner_of_executable(&self, pid: u32) -> Observed<u32> {
        self.source.owner_of_executable(pid)
    }

    fn machine(&self) -> Machine {
        self.source.machine()
    }

    fn problems(&self) -> Vec<Unread> {
        self.source.problems()
    }

    fn torn(&self) -> Option<String> {
        self.source.torn()
    }
}

/// Several users may ask for one path: who may not see it takes the answer from nobody.
fn keep<T: Clone>(answers: &mut BTreeMap<String, Observed<T>>, path: &str, answer: &Observed<T>) {
    let known = answers.get(path).is_some_and(Observed::is_known);
    if answer.is_known() || !known {
        answers.insert(path.to_owned(), answer.clone());
    }
}
