//! Hosts of Oracle estates, made: folders that look like `/`, from few parameters.
//!
//! No Oracle is to be had for the tests of this project, and a captured host shows one set-up
//! alone. What is made here has the names and layouts of Oracle's documents, cited where they are
//! used, and figures that follow from each other: a process that has touched S bytes on pages of 4
//! KiB has S / 512 of page tables, the host's are the sum of its processes', and what is in a pool,
//! in segments, in private memory and in page tables is not free.
//!
//! `cargo xtask estate` writes one for people; `crates/cli/tests/cli/stories` plays the stories of the
//! field on them. Nothing that is installed uses this crate.

mod alert;
pub mod catalog;
mod database;
mod files;
mod grid;
mod instance;
mod machine;
mod memlock;
mod memory;
mod process;
mod segments;

pub use database::{Database, DatabaseKind, ParameterStore, SgaPages};
pub use files::{FixtureEntry, FixtureFiles};
pub use grid::Grid;
pub use machine::{Distribution, FixtureMachine};
pub use memlock::FixtureMemlock;
pub use memory::DoesNotFit;

use std::io;
use std::path::Path;

/// KiB in a MiB.
pub(super) const KIB_IN_MIB: u64 = 1 << 10;
/// KiB in a page of 2 MiB.
pub(super) const KIB_IN_HUGE: u64 = 2 << 10;

/// MiB in bytes.
#[must_use]
pub const fn mib_to_bytes(count: u64) -> u64 {
    count << 20
}

/// GiB in bytes.
#[must_use]
pub const fn gib_to_bytes(count: u64) -> u64 {
    count << 30
}

/// One host, and what runs on it.
#[derive(Clone, Debug, Default)]
pub struct OracleFixture {
    /// The machine, its kernel and its distribution.
    pub machine: FixtureMachine,
    /// Instances that run here, and those of oratab that don't.
    pub databases: Vec<Database>,
    /// Grid Infrastructure, where it is installed.
    pub grid: Option<Grid>,
    /// Files besides, by path; they replace those that are made.
    pub more: Vec<(String, String)>,
}

impl OracleFixture {
    /// All files and links of the host.
    ///
    /// # Errors
    /// Where the machine's memory does not hold what it is to hold.
    pub fn make_files(&self) -> Result<FixtureFiles, DoesNotFit> {
        let mut files = FixtureFiles::default();
        let layout = segments::lay_out_segments(&self.databases);
        let mut processes = process::FixtureProcesses::new(&self.machine);
        if let Some(grid) = &self.grid {
            grid.add(&self.machine, &mut files, &mut processes);
        }
        for (database, segments) in self.databases.iter().zip(&layout) {
            instance::add(database, &self.machine, segments, &mut files, &mut processes);
        }
        instance::add_tables(&self.databases, self.grid.is_some(), &mut files);
        let totals =
            memory::Totals::from_machine(&self.machine, &self.databases, &layout, &processes)?;
        memory::add(&self.machine, &totals, &mut files);
        self.machine.add(&self.owner_accounts(), &mut files);
        processes.add(&mut files);
        for (path, text) in &self.more {
            files.add_file(path, text);
        }
        Ok(files)
    }

    /// Accounts that own something of it.
    fn owner_accounts(&self) -> Vec<&str> {
        let mut owners: Vec<&str> =
            self.databases.iter().map(|database| database.owner.as_str()).collect();
        owners.extend(self.grid.iter().flat_map(|grid| grid.owners.iter().map(String::as_str)));
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Writes the host below a folder.
    ///
    /// # Errors
    /// Where its memory does not hold what it is to hold, or a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        self.make_files().map_err(io::Error::other)?.write(folder)
    }
}
