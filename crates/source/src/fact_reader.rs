//! Reading, with notes on what could not be read.

use std::collections::BTreeMap;

use hugewise_model::{Observed, Reason, Unread};

use crate::ListedProcess;
use crate::Source;

/// A healthy host has a handful of notes.
const MOST_UNREAD: usize = 10_000;

/// A [`Source`] in use; it notes every file that exists and could not be read.
pub struct FactReader<'a> {
    /// The source of the facts.
    pub source: &'a dyn Source,
    /// What could not be read so far.
    pub unread: Vec<Unread>,
    /// Errors behind notes in `unread`, by their index there.
    pub errors: BTreeMap<usize, ParseError>,
    /// Files and folders that were read so far.
    pub seen: Vec<String>,
}

impl<'a> FactReader<'a> {
    /// A reader without notes.
    pub const fn new(source: &'a dyn Source) -> Self {
        Self { source, unread: Vec::new(), errors: BTreeMap::new(), seen: Vec::new() }
    }

    /// A whole file.
    pub fn read(&mut self, path: &str) -> Observed<Vec<u8>> {
        self.noted(path, self.source.read(path))
    }

    /// A whole file, parsed.
    pub fn parse<T>(
        &mut self,
        path: &str,
        parser: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Observed<T> {
        let mut error = None;
        let parsed = self
            .source
            .read(path)
            .parse(|bytes| parser(&bytes).inspect_err(|why| error = Some(*why)));
        self.errors.extend(error.map(|error| (self.unread.len(), error)));
        self.noted(path, parsed)
    }

    /// Names in a folder, sorted.
    pub fn list_folder(&mut self, folder: &str) -> Observed<Vec<String>> {
        self.noted(folder, self.source.list_folder(folder))
    }

    /// Processes that /proc lists.
    pub fn list_processes(&mut self) -> Observed<Vec<ListedProcess>> {
        self.noted("/proc", self.source.processes().list_processes())
    }

    /// Where a link points.
    pub fn read_link(&mut self, path: &str) -> Observed<String> {
        let target = self.source.read_link(path);
        self.note_unknown(path, &target);
        target
    }

    fn noted<T>(&mut self, path: &str, fact: Observed<T>) -> Observed<T> {
        self.note_unknown(path, &fact);
        if fact.is_known() && self.seen.len() < MOST_UNREAD {
            self.seen.push(path.to_owned());
        }
        fact
    }

    /// Notes a fact that exists and is not known; absent facts are not noted.
    pub fn note_unknown<T>(&mut self, what: &str, fact: &Observed<T>) {
        if !fact.is_absent()
            && let Some(why) = fact.unknown_reason()
        {
            self.report_unread(what.to_owned(), why);
        }
    }

    /// Notes why something is not known. The first notes are kept, as files can cause any number.
    pub fn report_unread(&mut self, what: String, why: Reason) {
        if self.unread.len() < MOST_UNREAD {
            self.unread.push(Unread { what, why });
        }
    }
}

/// What is wrong with a file, and where. It never quotes the file, which may be another than was
/// meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// From 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong, `MemTotal`; may be empty.
    pub subject: &'static str,
    /// What is wrong: `is no number`.
    pub what: &'static str,
}

impl ParseError {
    /// An error in one line.
    pub const fn at_line(line: u64, what: &'static str) -> Self {
        Self { line, subject: "", what }
    }

    /// An error of the file as a whole.
    pub const fn whole_file(what: &'static str) -> Self {
        Self::at_line(0, what)
    }

    /// The same about a part of the line.
    #[must_use]
    pub const fn with_subject(self, subject: &'static str) -> Self {
        Self { subject, ..self }
    }

    /// The message without the line.
    pub fn message(&self) -> String {
        if self.subject.is_empty() {
            self.what.to_owned()
        } else {
            format!("{} {}", self.subject, self.what)
        }
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.message()),
            line => write!(f, "line {line}: {}", self.message()),
        }
    }
}

impl std::error::Error for ParseError {}
