//! How a plan changes an engine's settings: in a drop-in, or through the server itself.

use hugewise_host::{ParseError, Source};
use hugewise_model::{Host, Instance, PageSize, Process};

/// A setting's name, as files and statements have it, and its value.
pub type SettingAssignment = (&'static str, String);

/// What a plan sets of an engine, and where.
pub struct Settable {
    /// Asks for huge pages, and goes without where there are too few.
    pub asks: (&'static str, &'static str),
    /// Refuses a start without them; none where it cannot.
    pub insists: Option<(&'static str, &'static str)>,
    /// Moves memory to where huge pages can hold it; none where nothing does.
    pub can: Option<(&'static str, &'static str)>,
    /// Names the page size; none where it takes the host's.
    pub page_size: Option<SizeSetting>,
    /// Why one that does not ask is made to, in words.
    pub why_ask: &'static str,
    /// Why one that asks is made to insist, in words.
    pub why_insist: &'static str,

    /// The suffix of its files' names: `conf`.
    pub ending: &'static str,
    /// The section of its settings; none where its files have no sections.
    pub section: Option<&'static str>,
    /// Whether a plan may write a line, which is no comment, into a drop-in.
    pub allows: fn(&str) -> bool,
    /// Whether packages make a folder: a plan writes into no others, whose owner may not be root.
    pub is_packaged: fn(&str) -> bool,
    /// The folders whose files a server's own files include.
    pub included: fn(&Host, &dyn Source, &Process, &Instance) -> Result<Included, Unsettable>,

    /// Through the server; none where it keeps no settings itself.
    pub by_itself: Option<ByItself>,
    /// What a person does where a plan could not for this reason: `#` lines and commands.
    pub by_hand: fn(&Instance, &[SettingAssignment], &str) -> Vec<String>,
}

/// A setting that names a page size.
#[derive(Clone, Copy)]
pub struct SizeSetting {
    /// Its name.
    pub name: &'static str,
    /// A size as its value.
    pub value: fn(PageSize) -> String,
}

/// Folders that a server's files include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included {
    /// The files that were searched.
    pub from: Vec<String>,
    /// In the order in which they are read: the last one wins.
    pub folders: Vec<String>,
}

/// How a server that keeps its settings itself is told them.
pub struct ByItself {
    /// The client that tells it.
    pub program: &'static str,
    /// Prefixes of folders with such clients beside the system's; a version and `/bin` follow.
    pub folders: &'static [&'static str],
    /// Name of the file that the server keeps them in.
    pub file: &'static str,
    /// How a server is reached.
    pub reach: fn(&Instance) -> Result<Reach, Unsettable>,
    /// Statements for a server whose file has this text.
    pub statements: fn(&[u8], &[SettingAssignment]) -> Result<Statements, ParseError>,
    /// Whether a plan may run the client with these arguments.
    pub allows: fn(&[&str]) -> bool,
}

/// How a client reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The client's arguments; a statement follows.
    pub arguments: Vec<String>,
    /// The path of the file with its settings.
    pub file: String,
}

/// What a server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statements {
    /// The text of its file afterwards, or an equivalent one.
    pub after: String,
    /// One for each setting.
    pub all: Vec<Statement>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Sets it.
    pub set: String,
    /// Takes that back.
    pub undo: String,
    /// The line that its file has then.
    pub line: String,
}

/// Why a server's settings cannot be changed by a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsettable {
    /// Its arguments are not known.
    #[error("the server's command line is not known")]
    CommandLineUnknown,
    /// This option has it read none of its files; `instead` does what a file would.
    #[error("it reads no option files ({option}): add {instead} to its command line")]
    NoFiles {
        /// The one that it has.
        option: &'static str,
        /// The one that it needs.
        instead: &'static str,
    },
    /// This is not known of it.
    #[error("the {0} of the server is not known")]
    Unknown(&'static str),
}

/// Whether a text has only letters, digits and what names and numbers have besides.
pub fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "_.,:@-".contains(character))
}
