//! How a server is described that does not run, and what can be wrong with that.

use std::fmt;

use hugewise_model::{Bytes, Engine, Instance, Trait, Unread};

/// A server as the command line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// A server by its files; at least one of the first two is given.
    Files {
        /// Its kind.
        engine: Engine,
        /// Data directory.
        data_dir: Option<String>,
        /// Configuration file, where it is not the usual one in the data directory.
        config: Option<String>,
        /// The server's program, where it is not at one of the usual places.
        server_binary: Option<String>,
    },
    /// A server by its configuration file: `my.cnf`, or an Oracle parameter file.
    Config {
        /// Its kind.
        engine: Engine,
        /// The file.
        path: String,
    },
    /// A server by its sizes: an Oracle instance.
    Sizes {
        /// Its kind.
        engine: Engine,
        /// SGA_TARGET.
        sga: Bytes,
        /// SGA_MAX_SIZE, where it is larger.
        sga_max: Option<Bytes>,
        /// PROCESSES.
        processes: Option<u64>,
    },
    /// A server by its command line, the program first: a Java virtual machine, a QEMU guest.
    Command {
        /// Its kind.
        engine: Engine,
        /// Words.
        command: Vec<String>,
    },
    /// A bare System V segment.
    Segment {
        /// Its size.
        bytes: Bytes,
    },
}

impl Description {
    /// A bare segment is no engine's.
    pub const fn engine(&self) -> Engine {
        match self {
            Self::Files { engine, .. }
            | Self::Config { engine, .. }
            | Self::Sizes { engine, .. }
            | Self::Command { engine, .. } => *engine,
            Self::Segment { .. } => Engine::Other,
        }
    }
}

/// A described server, and what prevented knowing more of it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The server, without a process: `pid` is 0.
    pub instance: Instance,
    /// Files that could not be read and questions that were not answered: with any of them the
    /// demand is only an estimate.
    pub unread: Vec<Unread>,
}

impl From<Instance> for Described {
    fn from(instance: Instance) -> Self {
        Self { instance, unread: Vec::new() }
    }
}

/// The identity of a described server's segment, which no segment of a host has.
pub const NO_IDENTITY: (u64, u64) = (u64::MAX, 0);

/// Why a description is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeError {
    /// What is wrong: `no such file`.
    pub what: String,
    /// The file or folder that is meant, where it is one.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<u64>,
    /// What to do about it.
    pub todo: String,
}

impl DescribeError {
    /// An error of the description itself.
    pub fn new(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what: what.into(), file: None, line: None, todo: todo.into() }
    }

    /// An error of a file or folder.
    pub fn for_file(
        file: impl Into<String>,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), file: Some(file.into()), line: None, todo: todo.into() }
    }

    /// The same, of one line in it; 0 is the file as a whole.
    #[must_use]
    pub const fn at_line(mut self, line: u64) -> Self {
        self.line = if line == 0 { None } else { Some(line) };
        self
    }
}

/// `/etc/my.cnf:12: no size in "64X"; write it as 64M`
impl fmt::Display for DescribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.what)?;
        if self.todo.is_empty() { Ok(()) } else { write!(f, "; {}", self.todo) }
    }
}

impl std::error::Error for DescribeError {}

/// What people describe a server by that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribedBy {
    /// Its configuration file.
    Config,
    /// Its data directory, its configuration file, or both.
    Files,
    /// The size of its memory, or its configuration file.
    Sizes(&'static SizeOptions),
    /// Its command line, which begins like this one.
    Command(&'static str),
    /// Nothing that belongs to an engine.
    Segment,
}

/// Options that describe a server by its sizes.
#[derive(Debug, PartialEq, Eq)]
pub struct SizeOptions {
    /// The size of its memory.
    pub size: SizeOption,
    /// What it may be made to grow to, where that is more.
    pub most: SizeOption,
    /// How many processes it may have.
    pub sessions: SizeOption,
    /// Servers of its kind that often run beside it.
    pub beside: &'static [CompanionServer],
}

/// An option of `hugewise size`.
#[derive(Debug, PartialEq, Eq)]
pub struct SizeOption {
    /// Without its dashes.
    pub option: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// A server beside the one that is described.
#[derive(Debug, PartialEq, Eq)]
pub struct CompanionServer {
    /// The size of its memory.
    pub size: SizeOption,
    /// That size where none is given, as people write it.
    pub usual: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What marks it.
    pub marked: Trait,
}

impl SizeOptions {
    /// The options.
    pub fn option_names(&'static self) -> impl Iterator<Item = &'static str> {
        let beside = self.beside.iter().map(|beside| &beside.size);
        [&self.size, &self.most, &self.sessions].into_iter().chain(beside).map(|size| size.option)
    }
}
