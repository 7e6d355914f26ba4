//! How a plan changes the settings of an engine's servers: in a drop-in, where their files include a folder that packages
//! make, or through the server itself.

use hugewise_host::{ParseError, Source};
use hugewise_model::{Host, Instance, PageSize, Process};

/// The name of a setting as files and statements have it, and its value.
pub type Assignment = (&'static str, String);

/// What a plan sets of an engine, and where.
pub struct Settable {
    // What.
    /// Has a server ask for huge pages, and go without where they don't reach.
    pub asks: (&'static str, &'static str),
    /// Has it refuse a start without them; none where it cannot.
    pub insists: Option<(&'static str, &'static str)>,
    /// Puts memory that cannot be on huge pages where it can be; none where nothing does.
    pub can: Option<(&'static str, &'static str)>,
    /// Names the page size; none where it takes the host's.
    pub page_size: Option<SizeSetting>,
    /// Why one that does not ask is made to, in words.
    pub why_ask: &'static str,
    /// Why one that asks is made to insist, in words.
    pub why_insist: &'static str,

    // In files.
    /// How the names of its files end: `conf`.
    pub ending: &'static str,
    /// The section that its settings stand in; none where its files have no sections.
    pub section: Option<&'static str>,
    /// Whether a plan may write a line, that is no comment, into a drop-in.
    pub allows: fn(&str) -> bool,
    /// Whether a folder is one that packages make for it: a plan writes into no others, as what a server's own files include is
    /// its owner's word.
    pub is_packaged: fn(&str) -> bool,
    /// Where the files of a server, as it reads them itself, include whatever lies in a folder.
    pub included: fn(&Host, &dyn Source, &Process, &Instance) -> Result<Included, Unsettable>,

    // Otherwise.
    /// Through the server; none where it keeps no settings itself.
    pub by_itself: Option<ByItself>,
    /// What a person does instead of a plan, which could not for this reason: `#` lines and commands.
    pub by_hand: fn(&Instance, &[Assignment], &str) -> Vec<String>,
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
    /// The files that were looked through, as the server was told of them.
    pub from: Vec<String>,
    /// The folders, in the order in which they are read: the last one wins.
    pub folders: Vec<String>,
}

/// How a server is told its settings, which it keeps itself.
pub struct ByItself {
    /// The client that tells it.
    pub program: &'static str,
    /// How folders begin in which such clients lie beside those of the system, with a version and `/bin` behind that.
    pub folders: &'static [&'static str],
    /// Name of the file that the server keeps them in.
    pub file: &'static str,
    /// How a server is reached.
    pub reach: fn(&Instance) -> Result<Reach, Unsettable>,
    /// What it is told, where its file has this text.
    pub statements: fn(&[u8], &[Assignment]) -> Result<Statements, ParseError>,
    /// Whether a plan may run the client with these arguments.
    pub allows: fn(&[&str]) -> bool,
}

/// A server as its client reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The client's arguments, to which a statement is added.
    pub arguments: Vec<String>,
    /// The path of the file that it keeps its settings in.
    pub file: String,
}

/// What a server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statements {
    /// The text of its file afterwards, or one that is read like it.
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
    /// This option has it read none of its files; that option does what a file would.
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

/// Letters, digits and what names and numbers have besides.
pub fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "_.,:@-".contains(it))
}
