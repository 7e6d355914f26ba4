//! QEMU, whose guest's memory is what its command line says.

use std::cell::RefCell;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::Command;

use hugewise_testkit::Skip;
use rustix::process::Signal;

use super::{Kind, LARGE, Live, start};
use crate::real::harness;
use crate::real::moments::mappings::Mapping;

/// A guest whose processor never runs; its memory is there all the same.
pub(in crate::real::moments) struct Qemu {
    pub(in crate::real::moments) folder: tempfile::TempDir,
    memory: RefCell<String>,
}

impl Qemu {
    pub(in crate::real::moments) fn new() -> Result<Self, Skip> {
        harness::program(&["/usr/bin/qemu-system-x86_64"])?;
        Ok(Self { folder: harness::folder(), memory: RefCell::default() })
    }
}

impl Kind for Qemu {
    fn engine(&self) -> &'static str {
        "qemu"
    }

    /// Its arguments about memory.
    fn configure(&self, settings: &str) {
        settings.clone_into(&mut self.memory.borrow_mut());
    }

    fn launch(&self) -> Result<Live, String> {
        let control = self.folder.path().join("control");
        let _ = std::fs::remove_file(&control);
        let mut command = Command::new("/usr/bin/qemu-system-x86_64");
        command.args([
            "-accel",
            "tcg",
            "-nodefaults",
            "-display",
            "none",
            "-S",
            "-name",
            "guest=one",
        ]);
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", control.display()));
        command.args(self.memory.borrow().split_ascii_whitespace());
        start(&mut command, &self.folder.path().join("log"), Signal::TERM, |_| {
            let mut greeting = [0; 6];
            let greeted = UnixStream::connect(&control)
                .and_then(|mut control| control.read_exact(&mut greeting));
            greeted.is_ok() && greeting == *b"{\"QMP\""
        })
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        let backend = ["memory-backend", "qemu_back_mem", "anon_hugepage"]
            .iter()
            .any(|word| mapping.name.contains(word));
        mapping.size >= LARGE && backend
    }
}
