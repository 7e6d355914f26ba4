//! Servers that are only described: what a server would need that does not run here, or not yet.
//!
//! Each becomes an [`Instance`] without a process, so that everything that reckons with instances
//! reckons with it too.

use std::fmt;

use hugewise_host::Source;
use hugewise_model::{Bytes, Engine, Host, Instance, Unread};

use crate::{jvm, mysql, oracle, plain, postgresql, qemu};

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

/// What the described server needs. With `ask` the server's own program may be run to say so; it
/// never touches the server's files.
///
/// # Errors
///
/// The description, or a file that it names, makes no sense.
pub fn describe(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    ask: bool,
) -> Result<Described, DescribeError> {
    let described = match description {
        Description::PostgreSql { data_dir, config, server_binary } => {
            let paths = [data_dir, config, server_binary].map(Option::as_deref);
            let [data_dir, config, server_binary] = paths;
            postgresql::describe_files(host, source, data_dir, config, server_binary, ask)
        }
        Description::Config { engine: Engine::PostgreSql, path } => {
            postgresql::describe_files(host, source, None, Some(path), None, ask)
        }
        Description::Config { engine: Engine::MySql | Engine::MariaDb, .. } => {
            mysql::describe(host, source, description)
        }
        Description::Oracle { .. } | Description::Config { engine: Engine::Oracle, .. } => {
            oracle::describe(host, source, description)
        }
        Description::Config { engine, path } => Err(DescribeError::of(
            path,
            format!("{engine} has no configuration file that says its memory"),
            "describe it in another way",
        )),
        Description::Jvm { .. } => jvm::describe(host, source, description),
        Description::Qemu { .. } => qemu::describe(host, source, description),
        Description::Segment { .. } => plain::describe(host, source, description),
    };
    described.map_err(|error| match description {
        Description::Config { path, .. } if error.file.is_none() => DescribeError { file: Some(path.clone()), ..error },
        _ => error,
    })
}

/// The same for several servers of one host: no two have the same name or the same segment.
///
/// # Errors
///
/// The first of them that makes no sense.
pub fn describe_all(
    host: &Host,
    source: &dyn Source,
    descriptions: &[Description],
    ask: bool,
) -> Result<Vec<Described>, DescribeError> {
    let all = descriptions.iter().map(|description| describe(host, source, description, ask));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    let mut segments = 0;
    for at in 0..all.len() {
        let (before, rest) = all.split_at_mut(at);
        let Some(Described { instance, .. }) = rest.first_mut() else { continue };
        let taken = |name: &str| {
            before.iter().any(|other| other.instance.engine == instance.engine && other.instance.name == name)
        };
        if taken(&instance.name) {
            let names = (2_u64..).map(|number| format!("{} {number}", instance.name));
            instance.name = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
        }
        for segment in instance.segments.iter_mut().filter(|_| instance.pid == 0) {
            segment.identity = (NO_IDENTITY.0, segments);
            segments += 1;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use std::collections::BTreeSet;

    #[test]
    fn several_servers_are_told_apart() {
        let source = MapSource::new().file("/a/pg.conf", "").file("/b/pg.conf", "cluster_name = 'a 2'\n");
        let config =
            |path: &str| Description::PostgreSql { data_dir: None, config: Some(path.into()), server_binary: None };
        let segment = Description::Segment { bytes: Bytes::from_gib(5) };
        let descriptions = [config("/a/pg.conf"), config("/b/pg.conf"), config("/a/pg.conf"), segment.clone(), segment];
        let all = describe_all(&Host::default(), &source, &descriptions, true).unwrap();
        let names: BTreeSet<_> = all.iter().map(|described| described.instance.title()).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(names.contains("postgresql a 3"), "{names:?}");
        let segments = all.iter().flat_map(|described| &described.instance.segments);
        let identities: Vec<_> = segments.map(|segment| segment.identity).collect();
        assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), identities.len());
        assert!(identities.len() >= 5);
        assert!(describe_all(&Host::default(), &source, &[config("/none")], true).is_err());
    }

    #[test]
    fn an_error_names_file_and_line_and_what_to_do() {
        let error = DescribeError::of("/etc/my.cnf", "no size in \"64X\"", "write it as 64M");
        assert_eq!(error.clone().at(12).to_string(), "/etc/my.cnf:12: no size in \"64X\"; write it as 64M");
        assert_eq!(error.at(0).to_string(), "/etc/my.cnf: no size in \"64X\"; write it as 64M");
        assert_eq!(DescribeError::new("nothing to do", "").to_string(), "nothing to do");
    }

    #[test]
    fn a_server_without_such_a_file_is_named() {
        let redis = Description::Config { engine: Engine::Redis, path: "/etc/redis.conf".into() };
        let error = describe(&Host::default(), &MapSource::new(), &redis, true).unwrap_err();
        assert!(error.to_string().starts_with("/etc/redis.conf: redis has no configuration file"), "{error}");
    }
}
