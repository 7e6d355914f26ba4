//! Reading with a memory of what could not be read.

use hugewise_model::{Observed, Reason, Unread};

use crate::Source;
use crate::source::Listed;

/// Notes that are kept; on a host whose files make sense there are a handful.
const MOST_UNREAD: usize = 10_000;

/// A [`Source`] in use: it notes every file that is there and could not be read.
pub struct Door<'a> {
    /// Where facts come from.
    pub source: &'a dyn Source,
    /// What could not be read so far.
    pub unread: Vec<Unread>,
    /// Files and folders that were read so far.
    pub seen: Vec<String>,
}

impl<'a> Door<'a> {
    /// Opens a source.
    pub const fn new(source: &'a dyn Source) -> Self {
        Self { source, unread: Vec::new(), seen: Vec::new() }
    }

    /// A whole file.
    pub fn read(&mut self, path: &str) -> Observed<Vec<u8>> {
        let bytes = self.source.read(path);
        self.note(path, &bytes);
        self.see(path, &bytes);
        bytes
    }

    /// A whole file, parsed.
    pub fn parse<T>(&mut self, path: &str, parser: impl FnOnce(&[u8]) -> Result<T, ParseError>) -> Observed<T> {
        let parsed = self.source.read(path).parse(|bytes| parser(&bytes));
        self.note(path, &parsed);
        self.see(path, &parsed);
        parsed
    }

    /// Names in a folder, sorted.
    pub fn list(&mut self, folder: &str) -> Observed<Vec<String>> {
        let names = self.source.list(folder);
        self.note(folder, &names);
        self.see(folder, &names);
        names
    }

    /// Processes that /proc lists.
    pub fn processes(&mut self) -> Observed<Vec<Listed>> {
        let listed = self.source.processes();
        self.note("/proc", &listed);
        self.see("/proc", &listed);
        listed
    }

    /// Where a link points.
    pub fn link(&mut self, path: &str) -> Observed<String> {
        let target = self.source.link(path);
        self.note(path, &target);
        target
    }

    fn see<T>(&mut self, path: &str, fact: &Observed<T>) {
        if fact.is_known() && self.seen.len() < MOST_UNREAD {
            self.seen.push(path.to_owned());
        }
    }

    /// Notes a fact that is there and is not known; absent facts are none of it.
    pub fn note<T>(&mut self, what: &str, fact: &Observed<T>) {
        if !fact.is_absent()
            && let Some(why) = fact.why()
        {
            self.tell(what.to_owned(), why);
        }
    }

    /// Notes why something is not known. Of very many such notes the first ones are kept: files can be made to have any number.
    pub fn tell(&mut self, what: String, why: Reason) {
        if self.unread.len() < MOST_UNREAD {
            self.unread.push(Unread { what, why });
        }
    }
}

/// What is wrong with a file, and where. Its words are this program's own: whatever a file holds that made no sense, nothing
/// of it is repeated, as it may be another file than was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// From 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// What of it is wrong: `MemTotal`. May be empty.
    pub subject: &'static str,
    /// What is wrong: `is no number`.
    pub what: &'static str,
}

impl ParseError {
    /// An error in one line.
    pub const fn at(line: u64, what: &'static str) -> Self {
        Self { line, subject: "", what }
    }

    /// An error of the file as a whole.
    pub const fn whole(what: &'static str) -> Self {
        Self::at(0, what)
    }

    /// The same, of this part of the line.
    #[must_use]
    pub const fn of(self, subject: &'static str) -> Self {
        Self { subject, ..self }
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> String {
        if self.subject.is_empty() { self.what.to_owned() } else { format!("{} {}", self.subject, self.what) }
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
