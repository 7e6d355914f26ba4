//! The servers: how each is set, started and looked at.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::mappings::{self, Mapping, State};
use crate::real::harness::{MIB, Server};

mod jvm;
mod mariadb;
mod oracle;
mod postgresql;
mod qemu;

pub(super) use jvm::Jvm;
pub(super) use mariadb::MariaDb;
pub(super) use oracle::Oracle;
pub(super) use postgresql::PostgreSql;
pub(super) use qemu::Qemu;

/// Mappings below that are no memory that a server is set up with: stacks, arenas, tables of its
/// own.
const LARGE: u64 = 16 * MIB;

/// A server that can be set, started and looked at.
pub(super) trait Kind {
    /// As check calls it.
    fn engine(&self) -> &'static str;

    /// Writes its settings as they shall be from the next start on.
    fn configure(&self, settings: &str);

    /// Files in which it keeps its settings itself.
    fn own_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Starts it by the settings that stand there; what it said where it refused.
    fn launch(&self) -> Result<Live, String>;

    /// Whether a mapping is part of the memory that its settings are about.
    fn counts(&self, mapping: &Mapping) -> bool;

    /// What the kernel says of it.
    fn look(&self, live: &Live) -> (State, String) {
        let all = mappings::of(live.pid);
        mappings::state(all.iter().filter(|mapping| self.counts(mapping)))
    }
}

/// A running server; stopped in good order when dropped.
pub(super) struct Live {
    /// Its main process.
    pub(super) pid: u32,
    _held: Box<dyn Any>,
}

impl Live {
    pub(super) fn new(pid: u32, held: impl Any) -> Self {
        Self { pid, _held: Box::new(held) }
    }
}

/// Memory of servers of threads. What malloc takes for each thread is up to 64 MiB of base pages
/// whatever the settings say.
fn large_and_writable(mapping: &Mapping) -> bool {
    const ARENA: u64 = 64 * MIB;
    mapping.permissions.starts_with("rw") && (mapping.page > 4096 || mapping.size > ARENA)
}

/// Starts it and waits until it is ready, or has ended without being so.
fn start(
    command: &mut Command,
    log: &Path,
    signal: Signal,
    ready: impl Fn(u32) -> bool,
) -> Result<Live, String> {
    let mut server = Server::start(command, log, signal);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            return Err(format!("{status}: {}", reason(&server.log())));
        }
        if ready(server.pid) {
            return Ok(Live::new(server.pid, server));
        }
        assert!(Instant::now() < until, "not ready after a minute: {command:?}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The line of a log that says why, or the last one.
fn reason(log: &str) -> String {
    let telling = |line: &&str| {
        ["FATAL", "ERROR", "rror:", "Cannot allocate", "cannot", "SIGBUS", "Could not"]
            .iter()
            .any(|word| line.contains(word))
    };
    log.lines().find(telling).or_else(|| log.lines().last()).unwrap_or_default().trim().to_owned()
}

/// A command in that cgroup.
fn within(cgroup: Option<&Path>, command: Command) -> Command {
    let Some(cgroup) = cgroup else { return command };
    let mut wrapped = Command::new("sh");
    wrapped.args(["-c", "echo $$ > \"$1\"/cgroup.procs; shift; exec \"$@\"", "sh"]).arg(cgroup);
    wrapped.arg(command.get_program()).args(command.get_args()).current_dir("/");
    wrapped
}
