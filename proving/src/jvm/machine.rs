//! A Java machine: which build, with which flags, told in which way.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_testkit::tools::Failure;
use rustix::process::Signal;

use crate::exactness::server::{self, Server, Start, User};

/// One build.
#[derive(Clone)]
pub(super) struct Jdk {
    pub(super) java: PathBuf,
    pub(super) version: String,
    pub(super) release: u32,
}

impl Jdk {
    pub(super) fn in_folder(home: &Path) -> Option<Self> {
        let java = home.join("bin/java");
        let text = fs::read_to_string(home.join("release")).ok()?;
        let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
        let version = version.trim_matches('"').to_owned();
        let release = version.split('.').next()?.parse().ok()?;
        java.is_file().then_some(Self { java, version, release })
    }
}

/// How it is told its flags, or what is done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartWay {
    Words,
    /// In this variable of its environment.
    Variable(String),
    /// In a file, `java @FILE`.
    ArgumentFile,
    /// The same, which names the class too; words for the program look like flags.
    FileWithClass,
    OptionsFile,
    FlagsFile,
    /// A `.hotspotrc` in its folder asks for large pages, which no product build reads.
    ResourceFile,
    OneProcessor,
    /// These files of a cgroup of its own, or of the one above.
    Cgroup {
        quota: Option<u64>,
        memory: Option<u64>,
        is_parents: bool,
    },
    /// As an ordinary user.
    User,
    /// As an ordinary user who may lock 64 KiB.
    UserWithoutMemlock,
}

impl StartWay {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let cgroup = |quota, memory, is_parents| Self::Cgroup { quota, memory, is_parents };
        let mib = |text: &str| -> Result<u64, Failure> { Ok(text.parse::<u64>()? << 20) };
        Ok(match text.split_once('=') {
            None if text.is_empty() => Self::Words,
            None if text.ends_with("_OPTIONS") => Self::Variable(text.to_owned()),
            None if text == "argument file" => Self::ArgumentFile,
            None if text == "argument file with class" => Self::FileWithClass,
            None if text == "options file" => Self::OptionsFile,
            None if text == "flags file" => Self::FlagsFile,
            None if text == ".hotspotrc" => Self::ResourceFile,
            None if text == "one processor" => Self::OneProcessor,
            None if text == "user" => Self::User,
            None if text == "user without memlock" => Self::UserWithoutMemlock,
            Some(("cpu", quota)) => cgroup(Some(quota.parse()?), None, false),
            Some(("parent's cpu", quota)) => cgroup(Some(quota.parse()?), None, true),
            Some(("memory", limit)) => cgroup(None, Some(mib(limit)?), false),
            _ => return Err(format!("no way to start: {text}").into()),
        })
    }
}

/// Its program is a service of its own runtime, on a free port.
const MODULE: [&str; 2] = ["-m", "java.rmi/sun.rmi.registry.RegistryImpl"];
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUP: &str = "hugewise-jvm";

impl Jdk {
    /// The service sets a security manager, which these releases have to be told to allow (JEP 411).
    fn manager_word(&self) -> Option<&'static str> {
        (18..24).contains(&self.release).then_some("-Djava.security.manager=allow")
    }
}

pub(super) struct JavaMachine {
    pub(super) jdk: Jdk,
    pub(super) way: StartWay,
    flags: String,
    folder: tempfile::TempDir,
}

impl JavaMachine {
    pub(super) fn new(jdk: &Jdk, way: &StartWay, flags: &str) -> Result<Self, Failure> {
        let folder = server::folder()?;
        Ok(Self { jdk: jdk.clone(), way: way.clone(), flags: flags.to_owned(), folder })
    }

    pub(super) fn title(&self) -> String {
        let way = match &self.way {
            StartWay::Words => String::new(),
            way => format!(" {way:?}"),
        };
        format!("{}{way} {}", self.jdk.version, self.flags)
    }

    pub(super) fn is_on(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == format!("-XX:+{flag}"))
    }

    /// Whether its heap is in a file, and so on base pages.
    pub(super) fn asks_in_part(&self) -> bool {
        self.flags.contains("AllocateHeapAt")
    }

    pub(super) fn uses_gibibytes(&self) -> bool {
        self.flags.contains("LargePageSizeInBytes=1g")
    }

    /// How it is described to hugewise, where its command line says all.
    pub(super) fn describe(&self) -> Option<Vec<OsString>> {
        (self.way == StartWay::Words).then(|| {
            let mut words: Vec<OsString> = vec![self.jdk.java.clone().into()];
            words.extend(self.jdk.manager_word().map(OsString::from));
            words.extend(self.flags.split_ascii_whitespace().map(OsString::from));
            words.extend(MODULE.map(OsString::from));
            words
        })
    }

    /// What it says of two of its flags: its first and its largest heap.
    pub(super) fn ask_heap_bytes(&self) -> Result<(u64, u64), Failure> {
        let mut command = Command::new(&self.jdk.java);
        command.args(self.flags.split_ascii_whitespace());
        let said = server::must(command.args(["-XX:+PrintFlagsFinal", "-version"]))?;
        let value = |name: &str| -> Result<u64, Failure> {
            let line = said.lines().find(|line| line.contains(&format!(" {name} ")));
            let value = line.and_then(|line| line.split_once('=')).map(|(_, value)| value);
            let number = value.and_then(|value| value.split_ascii_whitespace().next());
            Ok(number.ok_or("no such flag")?.parse()?)
        };
        Ok((value("InitialHeapSize")?, value("MaxHeapSize")?))
    }

    pub(super) fn start(&self) -> Result<Start, Failure> {
        let mut command = self.command()?;
        command.current_dir(self.folder.path());
        Server::start(&mut command, &self.folder.path().join("log"), Signal::TERM, |pid| {
            // Its program runs, so its heap is made.
            let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
            let mut names =
                threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.starts_with("RMI TCP Accept")).then_some(pid)
        })
    }

    fn command(&self) -> Result<Command, Failure> {
        let words: Vec<&str> = self.flags.split_ascii_whitespace().collect();
        let mut command = match &self.way {
            StartWay::OneProcessor => {
                let mut command = Command::new("taskset");
                command.args(["-c", "0"]).arg(&self.jdk.java);
                command
            }
            StartWay::User => User::named("nobody")?.command(&self.jdk.java),
            StartWay::UserWithoutMemlock => {
                let mut command = User::named("nobody")?.command("prlimit");
                command.arg("--memlock=65536:65536").arg(&self.jdk.java);
                command
            }
            StartWay::Cgroup { quota, memory, is_parents } => {
                let folders = make_cgroups(*quota, *memory, *is_parents)?;
                let script = "for folder in $1; do echo $$ >\"$folder\"/cgroup.procs; done; \
                              shift; exec \"$@\"";
                let mut command = Command::new("sh");
                command.args(["-euc", script, "sh", &folders.join(" ")]).arg(&self.jdk.java);
                command
            }
            _ => Command::new(&self.jdk.java),
        };
        for variable in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] {
            command.env_remove(variable);
        }
        command.args(self.jdk.manager_word());
        let file = |lines: String| -> Result<String, Failure> {
            let path = self.folder.path().join("words");
            fs::write(&path, lines)?;
            Ok(path.display().to_string())
        };
        match &self.way {
            StartWay::Variable(name) => _ = command.env(name, &self.flags),
            StartWay::ArgumentFile => {
                let path = file(format!("# words\n{}\n", words.join("\n")))?;
                command.arg(format!("@{path}"));
            }
            StartWay::FileWithClass => {
                let path = file(format!("{}\n{}\n", words.join("\n"), MODULE.join(" ")))?;
                command.arg(format!("@{path}")).args(["0", "-XX:+UseSerialGC", "-Xmx9g"]);
                return Ok(command);
            }
            StartWay::OptionsFile => {
                command.arg(format!("-XX:VMOptionsFile={}", file(words.join("\n"))?));
            }
            StartWay::FlagsFile => {
                let words = words.iter().filter_map(|word| word.strip_prefix("-XX:"));
                let path = file(words.collect::<Vec<_>>().join("\n"))?;
                command.arg(format!("-XX:Flags={path}"));
            }
            StartWay::ResourceFile => {
                fs::write(self.folder.path().join(".hotspotrc"), "+UseLargePages\n")?;
                command.args(words);
            }
            _ => _ = command.args(words),
        }
        command.args(MODULE).arg("0");
        Ok(command)
    }
}

impl Drop for JavaMachine {
    fn drop(&mut self) {
        if matches!(self.way, StartWay::Cgroup { .. }) {
            for controller in ["", "cpu", "memory"] {
                let own = Path::new(CGROUPS).join(controller).join(CGROUP);
                // Those that are not there were never made.
                _ = fs::remove_dir(own.join("inner"));
                _ = fs::remove_dir(own);
            }
        }
    }
}

/// Cgroups with these limits, of either version; those that the machine is to enter.
fn make_cgroups(
    quota: Option<u64>,
    memory: Option<u64>,
    is_parents: bool,
) -> Result<Vec<String>, Failure> {
    let root = Path::new(CGROUPS);
    let is_unified = root.join("cgroup.controllers").exists();
    let mut entered = Vec::new();
    let mut make = |controller: &str, files: &[(&str, String)]| -> Result<(), Failure> {
        let above = if is_unified { root.to_owned() } else { root.join(controller) };
        let own = above.join(CGROUP);
        let inner = if is_parents { own.join("inner") } else { own.clone() };
        fs::create_dir_all(&inner)?;
        for (file, value) in files {
            fs::write(own.join(file), value)?;
        }
        entered.push(inner.display().to_string());
        Ok(())
    };
    match (quota, is_unified) {
        (Some(quota), true) => make("cpu", &[("cpu.max", format!("{quota} 100000"))])?,
        (Some(quota), false) => make(
            "cpu",
            &[("cpu.cfs_period_us", "100000".into()), ("cpu.cfs_quota_us", quota.to_string())],
        )?,
        (None, _) => {}
    }
    match (memory, is_unified) {
        (Some(memory), true) => make("memory", &[("memory.max", memory.to_string())])?,
        (Some(memory), false) => {
            make("memory", &[("memory.limit_in_bytes", memory.to_string())])?;
        }
        (None, _) => {}
    }
    Ok(entered)
}
