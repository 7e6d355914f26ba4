//! A Java virtual machine, which takes its settings from its command line.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hugewise_lab::guard::Skip;
use rustix::process::Signal;

use super::{Kind, Live, large_and_writable, start, within};
use crate::harness;
use crate::moments::mappings::Mapping;

/// One with the registry of its own runtime as its program.
pub(in crate::moments) struct Jvm {
    java: PathBuf,
    folder: tempfile::TempDir,
    flags: RefCell<String>,
    cgroup: Option<PathBuf>,
}

impl Jvm {
    pub(in crate::moments) fn new() -> Result<Self, Skip> {
        let java = harness::program(&["/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "/usr/bin/java"])?;
        Ok(Self { java, folder: harness::folder(), flags: RefCell::default(), cgroup: None })
    }

    /// From now on it starts in that cgroup.
    pub(in crate::moments) fn within(&mut self, cgroup: PathBuf) {
        self.cgroup = Some(cgroup);
    }
}

impl Kind for Jvm {
    fn engine(&self) -> &'static str {
        "jvm"
    }

    /// Its flags.
    fn configure(&self, settings: &str) {
        settings.clone_into(&mut self.flags.borrow_mut());
    }

    fn launch(&self) -> Result<Live, String> {
        let mut command = Command::new(&self.java);
        // Where it dies, it leaves its report in its own folder.
        command.arg(format!("-XX:ErrorFile={}/died", self.folder.path().display())).arg("-XX:-CreateCoredumpOnCrash");
        command.args(self.flags.borrow().split_ascii_whitespace());
        command.args(["-m", "java.rmi/sun.rmi.registry.RegistryImpl", "0"]);
        let mut command = within(self.cgroup.as_deref(), command);
        start(&mut command, &self.folder.path().join("log"), Signal::TERM, |pid| {
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
            let mut names = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.starts_with("RMI TCP Accept"))
        })
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        large_and_writable(mapping)
    }
}
