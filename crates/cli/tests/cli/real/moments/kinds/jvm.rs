//! A Java virtual machine, which takes its settings from its command line.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_testkit::Skip;
use rustix::process::Signal;

use super::{Kind, Live, large_and_writable, start, within};
use crate::real::harness;
use crate::real::moments::mappings::Mapping;

/// One with the registry of its own runtime as its program.
pub(in crate::real::moments) struct Jvm {
    java: PathBuf,
    folder: tempfile::TempDir,
    flags: RefCell<String>,
    cgroup: Option<PathBuf>,
    grows: bool,
}

/// Takes memory when it is told to, and says how that went.
const GROW: &str = r#"
public class Grow {
    public static void main(String[] arguments) throws Exception {
        java.nio.file.Path folder = java.nio.file.Path.of(arguments[0]);
        System.out.println("waits");
        while (!java.nio.file.Files.exists(folder.resolve("grow"))) Thread.sleep(20);
        java.util.List<byte[]> kept = new java.util.ArrayList<>();
        String end = "grown";
        try {
            for (int at = 0; at < 600; at++) kept.add(new byte[1 << 20]);
        } catch (OutOfMemoryError error) {
            end = "died of " + error;
        }
        System.out.println(end + " at " + kept.size() + " MiB");
        Thread.sleep(600_000);
    }
}
"#;

impl Jvm {
    pub(in crate::real::moments) fn new() -> Result<Self, Skip> {
        let java =
            harness::program(&["/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "/usr/bin/java"])?;
        Ok(Self {
            java,
            folder: harness::folder(),
            flags: RefCell::default(),
            cgroup: None,
            grows: false,
        })
    }

    /// One whose program takes 600 MiB when told to.
    pub(in crate::real::moments) fn that_grows() -> Result<Self, Skip> {
        let compiler = harness::program(&["/usr/lib/jvm/java-17-openjdk-amd64/bin/javac"])?;
        let own = Self { grows: true, ..Self::new()? };
        fs::write(own.folder.path().join("Grow.java"), GROW).unwrap();
        harness::must(
            Command::new(compiler)
                .arg("-d")
                .arg(own.folder.path())
                .arg(own.folder.path().join("Grow.java")),
        );
        Ok(own)
    }

    /// The same of another JDK: the path of its `java`.
    pub(in crate::real::moments) fn of_jdk(java: &Path) -> Result<Self, Skip> {
        Ok(Self { java: java.to_owned(), ..Self::that_grows()? })
    }

    /// Tells it to take its memory; what it says when it has or cannot.
    pub(in crate::real::moments) fn grow(&self) -> String {
        let tell = self.folder.path().join("grow");
        fs::write(&tell, "").unwrap();
        let end = harness::wait_for("the end of growing", || {
            let log = self.log();
            log.lines()
                .find(|line| line.starts_with("grown") || line.starts_with("died"))
                .map(str::to_owned)
        });
        fs::remove_file(&tell).unwrap();
        end
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// From now on it starts in that cgroup.
    pub(in crate::real::moments) fn within(&mut self, cgroup: PathBuf) {
        self.cgroup = Some(cgroup);
    }
}

impl Kind for Jvm {
    fn engine(&self) -> &'static str {
        "jvm"
    }

    /// Its flags, for its command line or for a variable of its environment:
    /// `JAVA_TOOL_OPTIONS=-Xmx1g`.
    fn configure(&self, settings: &str) {
        settings.clone_into(&mut self.flags.borrow_mut());
    }

    fn launch(&self) -> Result<Live, String> {
        let mut command = Command::new(&self.java);
        // Where it dies, it leaves its report in its own folder.
        command
            .arg(format!("-XX:ErrorFile={}/died", self.folder.path().display()))
            .arg("-XX:-CreateCoredumpOnCrash");
        match self.flags.borrow().split_once('=') {
            Some((variable, flags)) if variable.ends_with("_OPTIONS") => {
                _ = command.env(variable, flags)
            }
            _ => _ = command.args(self.flags.borrow().split_ascii_whitespace()),
        }
        if self.grows {
            command.arg("-cp").args([self.folder.path(), "Grow".as_ref(), self.folder.path()]);
        } else {
            command.args(["-m", "java.rmi/sun.rmi.registry.RegistryImpl", "0"]);
        }
        let mut command = within(self.cgroup.as_deref(), command);
        start(&mut command, &self.folder.path().join("log"), Signal::TERM, |pid| {
            if self.grows {
                return self.log().lines().any(|line| line == "waits");
            }
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
            let mut names = threads
                .flatten()
                .filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.starts_with("RMI TCP Accept"))
        })
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        large_and_writable(mapping)
    }
}
