//! The files in which a host is configured, each asked for once.
//!
//! Several mechanisms go by the same files: units say what may be locked, which servers belong here, and what writes a pool at
//! a boot. Whoever gathers a host lays this over its source: the first who asks has the machine asked, the others get the
//! same answer, so that all speak of one moment. What a folder's names do not show is not looked for, and where /lib is
//! /usr/lib it is not read twice. So it is with a server's own files, which several settings of it are looked for in.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use hugewise_model::{Observed, PageSize, Unread};

use super::owned::bounded;
use super::{Listed, Machine, Next, Owner, Part, Source, Stamp};
use crate::process::status::Matters;

/// Below these a host is configured. Other files may be of anybody, or change while the host is read.
const CONFIGURATION: [&str; 5] = ["/etc/", "/run/systemd/", "/usr/lib/", "/usr/local/lib/", "/lib/"];

/// What is larger is asked for anew: it is no unit, and there is but one who reads it.
const MOST: usize = 64 << 10;

/// What is kept of servers' own files together: the files of some ten servers. Those of more are asked for anew.
const MOST_OF_OWNERS: usize = 512 << 10;

/// What an answer takes beside its bytes.
const ENTRY: usize = 256;

/// A source of which each file, folder and link of the configuration is asked for once. It is for one gathering: an answer
/// stays what it was the first time.
pub struct Once<'a> {
    source: &'a dyn Source,
    /// Whether /lib leads to /usr/lib.
    is_merged: OnceCell<bool>,
    files: RefCell<BTreeMap<String, File>>,
    lists: RefCell<BTreeMap<String, Observed<Vec<String>>>>,
    links: RefCell<BTreeMap<String, Observed<String>>>,
    /// By path, and whether links were followed.
    stamps: RefCell<BTreeMap<(String, bool), Option<Stamp>>>,
    /// What owners of servers were told.
    files_of: RefCell<BTreeMap<AsOwner, Observed<Vec<u8>>>>,
    lists_of: RefCell<BTreeMap<AsOwner, Observed<Vec<String>>>>,
    /// Bytes of that.
    held: Cell<usize>,
}

/// A path, who asks, and how much for at most.
type AsOwner = (String, Owner, u64);

/// A file's bytes.
struct File {
    answer: Observed<Vec<u8>>,
    /// Whether nobody has read it so far: a recording knows nothing of it.
    is_glance: bool,
}

impl<'a> Once<'a> {
    /// Nothing is asked yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            is_merged: OnceCell::new(),
            files: RefCell::default(),
            lists: RefCell::default(),
            links: RefCell::default(),
            stamps: RefCell::default(),
            files_of: RefCell::default(),
            lists_of: RefCell::default(),
            held: Cell::default(),
        }
    }

    /// What an owner was told before, or is told now.
    fn as_owner<T: Clone>(
        &self,
        kept: &RefCell<BTreeMap<AsOwner, Observed<T>>>,
        question: AsOwner,
        length: impl FnOnce(&T) -> usize,
        ask: impl FnOnce(&AsOwner) -> Observed<T>,
    ) -> Observed<T> {
        if let Some(answer) = kept.borrow().get(&question) {
            return answer.clone();
        }
        let answer = ask(&question);
        let held = [self.held.get(), question.0.len(), ENTRY, answer.known().map_or(0, length)];
        let held = held.into_iter().fold(0, usize::saturating_add);
        if held <= MOST_OF_OWNERS {
            self.held.set(held);
            kept.borrow_mut().insert(question, answer.clone());
        }
        answer
    }

    /// The path by which a file of the configuration is kept; `None` for all the others.
    fn kept_as<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        if !CONFIGURATION.iter().any(|folder| path.starts_with(folder)) || !is_plain(path) {
            return None;
        }
        let below_lib = path.strip_prefix("/lib/").filter(|_| self.is_merged());
        Some(below_lib.map_or(Cow::Borrowed(path), |rest| Cow::Owned(format!("/usr/lib/{rest}"))))
    }

    fn is_merged(&self) -> bool {
        let leads_there = |target: &String| matches!(target.trim_start_matches('/'), "usr/lib" | "usr/lib/");
        *self.is_merged.get_or_init(|| self.source.link("/lib").known().is_some_and(leads_there))
    }

    /// Whether the names of a folder above show that nothing is there.
    fn is_missing(&self, path: &str) -> bool {
        let Some((folder, name)) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) else { return false };
        match self.lists.borrow().get(folder) {
            Some(Observed::Known(names)) => names.binary_search_by(|there| there.as_str().cmp(name)).is_err(),
            Some(Observed::Absent) => true,
            Some(_) => false,
            None => self.is_missing(folder),
        }
    }

    fn keep_file(&self, path: &str, answer: &Observed<Vec<u8>>, is_glance: bool) {
        if answer.known().is_none_or(|bytes| bytes.len() <= MOST) {
            self.files.borrow_mut().insert(path.to_owned(), File { answer: answer.clone(), is_glance });
        }
    }
}

/// Whether each name of a path is that of something in the folder before it.
fn is_plain(path: &str) -> bool {
    path.split('/').skip(1).all(|name| !matches!(name, "" | "." | ".."))
}

impl Source for Once<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        let Some(path) = self.kept_as(path) else { return self.source.read(path) };
        if let Some(file) = self.files.borrow_mut().get_mut(path.as_ref()) {
            if std::mem::take(&mut file.is_glance) {
                self.source.keep(&path, &file.answer);
            }
            return file.answer.clone();
        }
        if self.is_missing(&path) {
            return Observed::Absent;
        }
        let answer = self.source.read(&path);
        self.keep_file(&path, &answer, false);
        answer
    }

    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        let Some(path) = self.kept_as(path) else { return self.source.glance(path, most) };
        if let Some(file) = self.files.borrow().get(path.as_ref()) {
            return file.answer.clone().and_then(|bytes| bounded(bytes, most));
        }
        if self.is_missing(&path) {
            return Observed::Absent;
        }
        let answer = self.source.glance(&path, most);
        // Who may look at more of it may have another answer.
        if !matches!(answer, Observed::Malformed(_)) {
            self.keep_file(&path, &answer, true);
        }
        answer
    }

    fn keep(&self, path: &str, answer: &Observed<Vec<u8>>) {
        self.source.keep(path, answer);
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        let Some(folder) = self.kept_as(folder) else { return self.source.list(folder) };
        if let Some(answer) = self.lists.borrow().get(folder.as_ref()) {
            return answer.clone();
        }
        if self.is_missing(&folder) {
            return Observed::Absent;
        }
        let answer = self.source.list(&folder);
        self.lists.borrow_mut().insert(folder.into_owned(), answer.clone());
        answer
    }

    fn link(&self, path: &str) -> Observed<String> {
        let Some(path) = self.kept_as(path) else { return self.source.link(path) };
        if let Some(answer) = self.links.borrow().get(path.as_ref()) {
            return answer.clone();
        }
        if self.is_missing(&path) {
            return Observed::Absent;
        }
        let answer = self.source.link(&path);
        self.links.borrow_mut().insert(path.into_owned(), answer.clone());
        answer
    }

    fn stamp(&self, path: &str, follow: bool) -> Option<Stamp> {
        let Some(path) = self.kept_as(path) else { return self.source.stamp(path, follow) };
        let question = (path.into_owned(), follow);
        if let Some(answer) = self.stamps.borrow().get(&question) {
            return *answer;
        }
        let answer = self.source.stamp(&question.0, follow);
        self.stamps.borrow_mut().insert(question, answer);
        answer
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.source.read_part(path, before, max)
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        let question = (path.to_owned(), owner.clone(), most);
        self.as_owner(&self.files_of, question, Vec::len, |(path, owner, most)| self.source.read_as(owner, path, *most))
    }

    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.source.read_part_as(owner, path, before, max)
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        let question = (folder.to_owned(), owner.clone(), most);
        let length = |names: &Vec<String>| names.iter().map(|name| name.len().saturating_add(32)).sum();
        self.as_owner(&self.lists_of, question, length, |(path, owner, most)| self.source.list_as(owner, path, *most))
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        self.source.link_as(owner, path)
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.source.mapping_page_size(pid, start)
    }

    fn owner_of_executable(&self, pid: u32) -> Observed<u32> {
        self.source.owner_of_executable(pid)
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.source.owner_of(path)
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        self.source.changed_since_start(owner, path, pid)
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.source.changed_after(path, than)
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        self.source.cpu_time(pid)
    }

    fn processes(&self) -> Observed<Vec<Listed>> {
        self.source.processes()
    }

    fn ahead(&self, next: &[Next], matters: Matters) {
        self.source.ahead(next, matters);
    }

    fn maps_hold(&self, pid: u32) -> bool {
        self.source.maps_hold(pid)
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

#[cfg(test)]
mod tests;
