//! What a server that is only described is described by, and why it may be none.

use std::fmt;

use hugewise_model::{Bytes, Engine, Instance, Unread};

/// A server as the command line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// A PostgreSQL server by its files; at least one of the first two is given.
    PostgreSql {
        /// Data directory.
        data_dir: Option<String>,
        /// Configuration file, where it is not `postgresql.conf` in the data directory.
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
    /// An Oracle instance by its sizes.
    Oracle {
        /// SGA_TARGET.
        sga: Bytes,
        /// SGA_MAX_SIZE, where it is larger.
        sga_max: Option<Bytes>,
        /// PROCESSES.
        processes: Option<u64>,
    },
    /// A Java virtual machine by its command line, the program first.
    Jvm {
        /// Words.
        command: Vec<String>,
    },
    /// A QEMU guest by its command line, the program first.
    Qemu {
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
    /// What is described; a bare segment is no engine's.
    pub const fn engine(&self) -> Engine {
        match self {
            Self::PostgreSql { .. } => Engine::PostgreSql,
            Self::Config { engine, .. } => *engine,
            Self::Oracle { .. } => Engine::Oracle,
            Self::Jvm { .. } => Engine::Jvm,
            Self::Qemu { .. } => Engine::Qemu,
            Self::Segment { .. } => Engine::Other,
        }
    }
}

/// A described server, and what stood in the way of knowing more of it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The server, without a process: `pid` is 0.
    pub instance: Instance,
    /// Files that could not be read and questions that the server could not be asked; where there
    /// are any its demand is no more than an estimate.
    pub unread: Vec<Unread>,
}

impl From<Instance> for Described {
    fn from(instance: Instance) -> Self {
        Self { instance, unread: Vec::new() }
    }
}

/// The identity of a described server's segment, which no segment of a host has.
pub const NO_IDENTITY: (u64, u64) = (u64::MAX, 0);

/// Why a description is none.
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
    pub fn of(file: impl Into<String>, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what: what.into(), file: Some(file.into()), line: None, todo: todo.into() }
    }

    /// The same, of one line in it; 0 is the file as a whole.
    #[must_use]
    pub const fn at(mut self, line: u64) -> Self {
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
