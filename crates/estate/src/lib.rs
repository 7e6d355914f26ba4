//! Hosts of Oracle estates, made: folders that look like `/`, from few parameters.
//!
//! No Oracle is to be had for the tests of this project, and a captured host shows one set-up alone. What is made here has the
//! names and layouts of Oracle's documents, cited where they are used, and figures that follow from each other: a process that
//! has touched S bytes on pages of 4 KiB has S / 512 of page tables, the host's are the sum of its processes', and what is in
//! a pool, in segments, in private memory and in page tables is not free.
//!
//! `cargo xtask estate` writes one for people; `crates/cli/tests/stories` plays the stories of the field on them. Nothing that
//! is installed uses this crate.

mod alert;
mod database;
mod files;
mod grid;
mod instance;
mod machine;
mod memlock;
mod memory;
pub mod named;
mod process;
mod segments;

pub use database::{Database, Kept, Kind, Pages};
pub use files::{Entry, Files};
pub use grid::Grid;
pub use machine::{Distribution, Machine};
pub use memlock::Memlock;
pub use memory::DoesNotFit;

use std::io;
use std::path::Path;

/// KiB in a MiB.
pub(crate) const KIB_IN_MIB: u64 = 1 << 10;
/// KiB in a page of 2 MiB.
pub(crate) const KIB_IN_HUGE: u64 = 2 << 10;

/// MiB in bytes.
#[must_use]
pub const fn mib(count: u64) -> u64 {
    count << 20
}

/// GiB in bytes.
#[must_use]
pub const fn gib(count: u64) -> u64 {
    count << 30
}

/// One host, and what runs on it.
#[derive(Clone, Debug, Default)]
pub struct Estate {
    /// The machine, its kernel and its distribution.
    pub machine: Machine,
    /// Instances that run here, and those of oratab that don't.
    pub databases: Vec<Database>,
    /// Grid Infrastructure, where it is installed.
    pub grid: Option<Grid>,
    /// Files besides, by path; they replace those that are made.
    pub more: Vec<(String, String)>,
}

impl Estate {
    /// All files and links of the host.
    ///
    /// # Errors
    /// Where the machine's memory does not hold what it is to hold.
    pub fn files(&self) -> Result<Files, DoesNotFit> {
        let mut files = Files::default();
        let layout = segments::layout(&self.databases);
        let mut processes = process::Processes::new(&self.machine);
        if let Some(grid) = &self.grid {
            grid.add(&self.machine, &mut files, &mut processes);
        }
        for (database, segments) in self.databases.iter().zip(&layout) {
            instance::add(database, &self.machine, segments, &mut files, &mut processes);
        }
        instance::add_tables(&self.databases, self.grid.is_some(), &mut files);
        let totals = memory::Totals::of(&self.machine, &self.databases, &layout, &processes)?;
        memory::add(&self.machine, &totals, &mut files);
        self.machine.add(&self.owners(), &mut files);
        processes.add(&mut files);
        for (path, text) in &self.more {
            files.put(path, text);
        }
        Ok(files)
    }

    /// Accounts that own something of it.
    fn owners(&self) -> Vec<&str> {
        let mut owners: Vec<&str> = self.databases.iter().map(|database| database.owner.as_str()).collect();
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
        self.files().map_err(io::Error::other)?.write(folder)
    }
}
