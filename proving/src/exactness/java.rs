//! OpenJDK, running a service of its own runtime.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hugewise_model::{Bytes, PageSize};
use rustix::process::Signal;

use super::server::{self, Server, Start};
use super::{Case, Cases};
use hugewise_testkit::tools::Failure;

/// A virtual machine with this heap.
struct Machine {
    java: PathBuf,
    version: String,
    heap_mib: u64,
    collector: &'static str,
    folder: tempfile::TempDir,
}

pub(super) fn cases(quick: bool) -> Result<Cases, Failure> {
    let java = server::program("/usr/lib/jvm/java-17-openjdk-amd64/bin/java")
        .or_else(|_| server::program("/usr/bin/java"))?;
    let version = server::must(Command::new(&java).arg("--version"))?;
    let version = version.split_ascii_whitespace().nth(1).unwrap_or_default().to_owned();
    let heaps: &[u64] = if quick { &[512] } else { &[512, 2048, 4096] };
    let mut cases: Cases = Vec::new();
    for collector in ["G1", "Parallel"] {
        for heap_mib in heaps.iter().copied() {
            let (java, version) = (java.clone(), version.clone());
            cases.push(Box::new(Machine {
                java,
                version,
                heap_mib,
                collector,
                folder: server::folder()?,
            }));
        }
    }
    Ok(cases)
}

impl Machine {
    fn arguments(&self, huge: bool) -> Vec<String> {
        let heap = self.heap_mib;
        let mut arguments = vec![
            format!("-Xms{heap}m"),
            format!("-Xmx{heap}m"),
            format!("-XX:+Use{}GC", self.collector),
            format!("-XX:{}UseLargePages", if huge { '+' } else { '-' }),
        ];
        // A free port; the registry's class is in every runtime image.
        arguments.extend(["-m", "java.rmi/sun.rmi.registry.RegistryImpl", "0"].map(str::to_owned));
        arguments
    }
}

impl Case for Machine {
    fn engine(&self) -> String {
        format!("OpenJDK {}", self.version)
    }

    fn settings(&self) -> String {
        format!("{}, heap {} MiB", self.collector, self.heap_mib)
    }

    fn page(&self) -> PageSize {
        PageSize::MIB_2
    }

    fn memory(&self) -> Bytes {
        Bytes::from_mib(self.heap_mib)
    }

    fn all_or_nothing(&self) -> bool {
        false
    }

    fn describe(&self) -> Result<Vec<OsString>, Failure> {
        let mut described: Vec<OsString> = ["--engine", "jvm", "--"].map(OsString::from).to_vec();
        described.push(self.java.clone().into());
        described.extend(self.arguments(true).into_iter().map(OsString::from));
        Ok(described)
    }

    fn start(&self, huge: bool) -> Result<Start, Failure> {
        let mut command = Command::new(&self.java);
        command.args(self.arguments(huge));
        Server::start(&mut command, &self.folder.path().join("log"), Signal::TERM, |pid| {
            // Its program runs, so its heap is made.
            let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
            let mut names =
                threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.starts_with("RMI TCP Accept")).then_some(pid)
        })
    }
}
