//! MariaDB of Debian: each piece of its memory falls back on its own.

use std::cell::RefCell;
use std::fs;

use hugewise_testkit::Skip;
use rustix::process::Signal;

use super::{Kind, Live, large_and_writable, start};
use crate::real::mariadb::Installed;
use crate::real::moments::mappings::Mapping;

/// A data directory with its option file.
pub(in crate::real::moments) struct MariaDb {
    installed: Installed,
    arguments: RefCell<Vec<String>>,
}

impl MariaDb {
    pub(in crate::real::moments) fn new() -> Result<Self, Skip> {
        Ok(Self { installed: Installed::new()?, arguments: RefCell::default() })
    }

    /// What it is started with beside its option file, from now on.
    pub(in crate::real::moments) fn arguments(&self, arguments: &[&str]) {
        *self.arguments.borrow_mut() =
            arguments.iter().map(|&argument| argument.to_owned()).collect();
    }
}

impl Kind for MariaDb {
    fn engine(&self) -> &'static str {
        "mariadb"
    }

    fn configure(&self, settings: &str) {
        self.installed.configure(settings);
    }

    fn launch(&self) -> Result<Live, String> {
        let log = self.installed.log();
        let _ = fs::remove_file(&log);
        start(self.installed.command().args(&*self.arguments.borrow()), &log, Signal::TERM, |_| {
            fs::read_to_string(&log).unwrap_or_default().contains("ready for connections")
        })
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        large_and_writable(mapping)
    }
}
