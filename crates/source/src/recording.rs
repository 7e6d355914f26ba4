//! A source that remembers its answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, PageSize};

use super::{
    ExpectedProcess, FileExtent, FilePart, FileRequest, ListedProcess, MAX_FILE, Owner,
    ProcessSource, RawSource, Source, TrustedWriters, processes_by_name,
};

/// Remembers the last answer to each question.
pub struct RecordingSource<'a> {
    source: &'a dyn Source,
    /// The answers so far.
    pub seen: RefCell<RecordedAnswers>,
}

/// Answers by question.
#[derive(Debug, Default)]
pub struct RecordedAnswers {
    /// Folders that were listed on behalf of a server's owner.
    pub owned: BTreeSet<String>,
    /// By path.
    pub files: BTreeMap<String, Observed<Vec<u8>>>,
    /// By path.
    pub lists: BTreeMap<String, Observed<Vec<String>>>,
    /// By path.
    pub links: BTreeMap<String, Observed<String>>,
    /// By process and first address.
    pub page_sizes: BTreeMap<(u32, u64), Observed<PageSize>>,
    /// By process and path.
    pub changed_since_start: BTreeMap<(u32, String), Observed<bool>>,
    /// By the file compared with, and path.
    pub changed_after: BTreeMap<(String, String), Observed<bool>>,
}

impl<'a> RecordingSource<'a> {
    /// Remembers nothing yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, seen: RefCell::default() }
    }
}

impl RawSource for RecordingSource<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        if request.is_glance {
            return self.source.read_file(request);
        }
        // A recording keeps whole files.
        let extent = match request.extent {
            FileExtent::Last { .. } => FileExtent::Whole { most: MAX_FILE },
            whole => whole,
        };
        let answer = self.source.read_file(&FileRequest { extent, ..*request });
        let bytes = answer.map(|part| part.bytes);
        let files = &mut self.seen.borrow_mut().files;
        if request.reader.is_some() {
            record_answer(files, request.path, &bytes);
        } else {
            files.insert(request.path.to_owned(), bytes.clone());
        }
        request.answer_from(bytes)
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        let answer = self.source.folder_names(folder, reader, most);
        let mut seen = self.seen.borrow_mut();
        if reader.is_some() {
            seen.owned.insert(folder.to_owned());
            record_answer(&mut seen.lists, folder, &answer);
        } else {
            seen.lists.insert(folder.to_owned(), answer.clone());
        }
        answer
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        let answer = self.source.link_target(path, reader);
        let links = &mut self.seen.borrow_mut().links;
        if reader.is_some() {
            record_answer(links, path, &answer);
        } else {
            links.insert(path.to_owned(), answer.clone());
        }
        answer
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }
    fn base(&self) -> Option<&dyn Source> {
        Some(self.source)
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let answer = self.source.changed_since_start(owner, path, pid);
        self.seen.borrow_mut().changed_since_start.insert((pid, path.to_owned()), answer.clone());
        answer
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        let answer = self.source.changed_after(path, than);
        self.seen
            .borrow_mut()
            .changed_after
            .insert((than.to_owned(), path.to_owned()), answer.clone());
        answer
    }
}

impl ProcessSource for RecordingSource<'_> {
    fn read_ahead(&self, processes: &[ExpectedProcess]) {
        self.source.processes().read_ahead(processes);
    }

    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        processes_by_name(self.list_folder("/proc"), |_| None)
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        let answer = self.source.processes().mapping_page_size(pid, start);
        self.seen.borrow_mut().page_sizes.insert((pid, start), answer.clone());
        answer
    }

    fn check_writers_of_executable(&self, pid: u32, writers: &TrustedWriters) -> Observed<()> {
        self.source.processes().check_writers_of_executable(pid, writers)
    }

    fn check_writers_of_mapping(
        &self,
        pid: u32,
        addresses: (u64, u64),
        writers: &TrustedWriters,
    ) -> Observed<()> {
        self.source.processes().check_writers_of_mapping(pid, addresses, writers)
    }
}

/// Several users may ask for one path: a refusal does not replace an answer.
fn record_answer<T: Clone>(
    answers: &mut BTreeMap<String, Observed<T>>,
    path: &str,
    answer: &Observed<T>,
) {
    let known = answers.get(path).is_some_and(Observed::is_known);
    if answer.is_known() || !known {
        answers.insert(path.to_owned(), answer.clone());
    }
}
