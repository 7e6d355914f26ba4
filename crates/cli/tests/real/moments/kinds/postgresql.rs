//! PostgreSQL of Debian: its shared memory is one piece.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;

use hugewise_lab::guard::{PoolGuard, Skip};
use rustix::process::Signal;

use super::{Kind, LARGE, Live, start, within};
use crate::harness;
use crate::moments::mappings::Mapping;
use crate::postgresql::Cluster;

/// A cluster.
pub(in crate::moments) struct PostgreSql {
    pub(in crate::moments) cluster: Cluster,
    port: u16,
    cgroup: Option<PathBuf>,
    arguments: RefCell<Vec<String>>,
    at_work: Cell<bool>,
}

impl PostgreSql {
    pub(in crate::moments) fn new(guard: &PoolGuard, port: u16) -> Result<Self, Skip> {
        Self::of("postgres", guard, port)
    }

    /// Of another owner.
    pub(in crate::moments) fn of(owner: &str, guard: &PoolGuard, port: u16) -> Result<Self, Skip> {
        Ok(Self {
            cluster: Cluster::debian_under(owner, guard)?,
            port,
            cgroup: None,
            arguments: RefCell::default(),
            at_work: Cell::new(false),
        })
    }

    /// From now on it starts in that cgroup.
    pub(in crate::moments) fn within(&mut self, cgroup: PathBuf) {
        self.cgroup = Some(cgroup);
    }

    /// Whether it gets work as soon as it has started, from now on: 100 MB and more go through its memory.
    pub(in crate::moments) fn at_work(&self, at_work: bool) {
        self.at_work.set(at_work);
    }

    /// What it is started with beside its files, from now on.
    pub(in crate::moments) fn arguments(&self, arguments: &[&str]) {
        *self.arguments.borrow_mut() = arguments.iter().map(|&argument| argument.to_owned()).collect();
    }

    /// Writes what `ALTER SYSTEM` would.
    pub(in crate::moments) fn alter(&self, settings: &str) {
        fs::write(self.altered(), format!("{settings}\n")).unwrap();
    }

    fn altered(&self) -> PathBuf {
        self.cluster.data().join("postgresql.auto.conf")
    }

    /// Pages of 2 MiB that the server itself says it needs with these settings; it must be down.
    pub(in crate::moments) fn pages(&self, settings: &str) -> u64 {
        self.configure(settings);
        self.cluster.pages()
    }
}

impl Kind for PostgreSql {
    fn engine(&self) -> &'static str {
        "postgresql"
    }

    fn configure(&self, settings: &str) {
        self.alter("");
        self.cluster.configure(&format!("port = {}\n{settings}", self.port));
    }

    fn launch(&self) -> Result<Live, String> {
        let mut command = self.cluster.command("postgres");
        command.arg("-D").arg(self.cluster.data()).args(&*self.arguments.borrow());
        let mut command = within(self.cgroup.as_deref(), command);
        let (lock, log) = (self.cluster.data().join("postmaster.pid"), self.cluster.folder.path().join("log"));
        let live = start(&mut command, &log, Signal::INT, |_| {
            let text = fs::read_to_string(&lock).unwrap_or_default();
            text.lines().nth(7).is_some_and(|line| line.trim() == "ready")
        })?;
        if self.at_work.get() {
            let statement =
                "CREATE TABLE work (at integer); INSERT INTO work SELECT generate_series(1, 3000000); DROP TABLE work";
            let done = self.cluster.psql(statement).env("PGPORT", self.port.to_string()).output().unwrap();
            if !done.status.success() {
                // The client notices the death of its backend before the server does.
                return Err(harness::wait_for("the server's word on it", || {
                    let text = fs::read_to_string(&log).unwrap_or_default();
                    text.lines().find(|line| line.contains("was terminated by signal")).map(str::to_owned)
                }));
            }
        }
        Ok(live)
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        mapping.permissions == "rw-s" && mapping.size >= LARGE
    }
}
