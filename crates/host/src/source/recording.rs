//! A source that remembers what was asked of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hugewise_model::{Observed, PageSize, Unread};

use super::{Machine, Source};

/// Wraps any source and remembers every answer; the last one counts.
pub struct Recording<'a> {
    source: &'a dyn Source,
    pub(crate) seen: RefCell<Seen>,
}

/// Answers by question.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) files: BTreeMap<String, Observed<Vec<u8>>>,
    pub(crate) lists: BTreeMap<String, Observed<Vec<String>>>,
    pub(crate) links: BTreeMap<String, Observed<String>>,
    pub(crate) page_sizes: BTreeMap<(u32, u64), Observed<PageSize>>,
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

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        let answer = self.source.mapping_page_size(pid, start);
        self.seen.borrow_mut().page_sizes.insert((pid, start), answer.clone());
        answer
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
