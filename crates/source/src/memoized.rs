//! Configuration files, each read once.
//!
//! Several mechanisms read the same units and settings. Whoever gathers a host lays this over its
//! source: all get the first answer and so speak of one moment. Names that a folder does not list
//! are not looked up, and /lib is not read twice where it is /usr/lib. Servers' own files likewise.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;

use hugewise_model::Observed;

use super::as_owner::limit_file_size;
use super::{FileExtent, FilePart, FileRequest, Owner, ProcessSource, RawSource, Source};

/// The host's configuration; other files may be anybody's, or change meanwhile.
const CONFIGURATION: [&str; 5] =
    ["/etc/", "/run/systemd/", "/usr/lib/", "/usr/local/lib/", "/lib/"];

/// Larger files are no units, and have one reader.
const MOST: usize = 64 << 10;
/// For servers' own files together: those of some ten servers.
const MOST_OF_OWNERS: usize = 512 << 10;
/// Memory of an answer besides its bytes.
const ENTRY: usize = 256;

/// A source that reads each file, folder and link of the configuration once, for one gathering.
pub struct MemoizedSource<'a> {
    source: &'a dyn Source,
    is_merged: OnceCell<bool>,
    files: RefCell<BTreeMap<String, MemoizedFile>>,
    lists: RefCell<BTreeMap<String, Observed<Vec<String>>>>,
    links: RefCell<BTreeMap<String, Observed<String>>>,
    /// Answers to owners of servers, and their bytes.
    files_of: RefCell<BTreeMap<AsOwner, Observed<Vec<u8>>>>,
    lists_of: RefCell<BTreeMap<AsOwner, Observed<Vec<String>>>>,
    held: Cell<usize>,
}

/// A path, its reader, and the limit.
type AsOwner = (String, Owner, u64);

struct MemoizedFile {
    answer: Observed<Vec<u8>>,
    /// Whether it was only glanced at: a recording does not know it.
    is_glance: bool,
}

impl<'a> MemoizedSource<'a> {
    /// Nothing is read yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            is_merged: OnceCell::new(),
            files: RefCell::default(),
            lists: RefCell::default(),
            links: RefCell::default(),
            files_of: RefCell::default(),
            lists_of: RefCell::default(),
            held: Cell::default(),
        }
    }

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
        let held = [self.held.get(), question.0.len(), ENTRY, answer.as_known().map_or(0, length)];
        let held = held.into_iter().fold(0, usize::saturating_add);
        if held <= MOST_OF_OWNERS {
            self.held.set(held);
            kept.borrow_mut().insert(question, answer.clone());
        }
        answer
    }

    fn kept_as<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        if !CONFIGURATION.iter().any(|folder| path.starts_with(folder)) || !is_plain(path) {
            return None;
        }
        let below_lib = path.strip_prefix("/lib/").filter(|_| self.is_merged());
        Some(below_lib.map_or(Cow::Borrowed(path), |rest| Cow::Owned(format!("/usr/lib/{rest}"))))
    }

    fn is_merged(&self) -> bool {
        let leads_there =
            |target: &String| matches!(target.trim_start_matches('/'), "usr/lib" | "usr/lib/");
        *self
            .is_merged
            .get_or_init(|| self.source.read_link("/lib").as_known().is_some_and(leads_there))
    }

    /// Whether a parent folder's names show that nothing is there.
    fn is_missing(&self, path: &str) -> bool {
        let Some((folder, name)) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty())
        else {
            return false;
        };
        match self.lists.borrow().get(folder) {
            Some(Observed::Known(names)) => {
                names.binary_search_by(|there| there.as_str().cmp(name)).is_err()
            }
            Some(Observed::Absent) => true,
            Some(_) => false,
            None => self.is_missing(folder),
        }
    }

    /// What the configuration has at a path, asked for once.
    fn configured<T: Clone>(
        &self,
        kept: &RefCell<BTreeMap<String, Observed<T>>>,
        path: Cow<'_, str>,
        ask: impl FnOnce(&str) -> Observed<T>,
    ) -> Observed<T> {
        if let Some(answer) = kept.borrow().get(path.as_ref()) {
            return answer.clone();
        }
        if self.is_missing(&path) {
            return Observed::Absent;
        }
        let answer = ask(&path);
        kept.borrow_mut().insert(path.into_owned(), answer.clone());
        answer
    }

    fn keep_file(&self, path: &str, answer: &Observed<Vec<u8>>, is_glance: bool) {
        if answer.as_known().is_none_or(|bytes| bytes.len() <= MOST) {
            self.files
                .borrow_mut()
                .insert(path.to_owned(), MemoizedFile { answer: answer.clone(), is_glance });
        }
    }
}

fn is_plain(path: &str) -> bool {
    path.split('/').skip(1).all(|name| !matches!(name, "" | "." | ".."))
}

impl MemoizedSource<'_> {
    /// A configuration file; larger than `most` is malformed.
    fn configuration_file(&self, path: &str, most: u64, is_glance: bool) -> Observed<Vec<u8>> {
        if let Some(file) = self.files.borrow_mut().get_mut(path) {
            if !is_glance && std::mem::take(&mut file.is_glance) {
                // A recording learns that it is used; the answer stays the same.
                drop(self.source.read(path));
            }
            return file.answer.clone().and_then(|bytes| limit_file_size(bytes, most));
        }
        if self.is_missing(path) {
            return Observed::Absent;
        }
        if is_glance {
            let answer = self.source.read_limited(path, most);
            // A higher limit may get another answer.
            if !matches!(answer, Observed::Malformed(_)) {
                self.keep_file(path, &answer, true);
            }
            return answer;
        }
        let answer = self.source.read(path);
        self.keep_file(path, &answer, false);
        answer.and_then(|bytes| limit_file_size(bytes, most))
    }
}

impl RawSource for MemoizedSource<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        let FileExtent::Whole { most } = request.extent else {
            return self.source.read_file(request);
        };
        if let Some(owner) = request.reader {
            let question = (request.path.to_owned(), owner.clone(), most);
            let answer =
                self.as_owner(&self.files_of, question, Vec::len, |(path, owner, most)| {
                    self.source.read_as(owner, path, *most)
                });
            return answer.map(FilePart::whole_file);
        }
        match self.kept_as(request.path) {
            Some(path) => {
                self.configuration_file(&path, most, request.is_glance).map(FilePart::whole_file)
            }
            None => self.source.read_file(request),
        }
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        if let Some(owner) = reader {
            let question = (folder.to_owned(), owner.clone(), most);
            let length =
                |names: &Vec<String>| names.iter().map(|name| name.len().saturating_add(32)).sum();
            return self.as_owner(&self.lists_of, question, length, |(path, owner, most)| {
                self.source.folder_names(path, Some(owner), *most)
            });
        }
        let Some(folder) = self.kept_as(folder) else {
            return self.source.folder_names(folder, None, most);
        };
        self.configured(&self.lists, folder, |folder| self.source.list_folder(folder))
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        let kept = if reader.is_none() { self.kept_as(path) } else { None };
        let Some(path) = kept else { return self.source.link_target(path, reader) };
        self.configured(&self.links, path, |path| self.source.read_link(path))
    }

    fn processes(&self) -> &dyn ProcessSource {
        self.source.processes()
    }
    fn base(&self) -> Option<&dyn Source> {
        Some(self.source)
    }
}
