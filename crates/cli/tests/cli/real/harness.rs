//! Runs hugewise, starts servers, and asks the kernel what is true.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hugewise_testkit::Skip;
use rustix::process::{Pid, Signal};
use serde_json::Value;

pub(crate) const MIB: u64 = 1 << 20;

/// The program under test.
/// Another build of it may be named when the tests are compiled.
pub(crate) const HUGEWISE: &str = match option_env!("HUGEWISE_BINARY") {
    Some(path) => path,
    None => env!("CARGO_BIN_EXE_hugewise"),
};

/// What `check --format json` said.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) json: Value,
    pub(crate) code: i32,
}

/// Runs check on this host.
pub(crate) fn check() -> Check {
    check_with(&[])
}

/// Runs check with further arguments.
pub(crate) fn check_with(arguments: &[&str]) -> Check {
    let output = Command::new(HUGEWISE)
        .args(["check", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    Check::read(&output)
}

impl Check {
    /// Reads what a run has printed; a run that could not do its work fails the test.
    pub(crate) fn read(output: &Output) -> Self {
        let errors = String::from_utf8_lossy(&output.stderr);
        let code = output
            .status
            .code()
            .unwrap_or_else(|| panic!("check died of {}: {errors}", output.status));
        assert!([0, 1, 3].contains(&code), "check ended with {code}: {errors}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}\n{}\n{errors}", String::from_utf8_lossy(&output.stdout))
        });
        assert_eq!(json["schema"], "hugewise.check/1");
        Self { json, code }
    }

    /// The instance of that engine with that main process; there is exactly one.
    pub(crate) fn instance(&self, engine: &str, pid: u32) -> &Value {
        let all = self.json["instances"].as_array().expect("instances");
        let mut found =
            all.iter().filter(|instance| instance["engine"] == engine && instance["pid"] == pid);
        let instance = found.next().unwrap_or_else(|| {
            panic!("no {engine} with pid {pid} in {:#}", self.json["instances"])
        });
        assert!(found.next().is_none(), "{engine} {pid} is there twice");
        instance
    }

    /// Asserts the verdict on huge pages and the first broken link of the chain; `None`: none is
    /// broken.
    #[track_caller]
    pub(crate) fn assert_verdict(
        &self,
        engine: &str,
        pid: u32,
        huge_pages: &str,
        broken: Option<&str>,
    ) {
        let instance = self.instance(engine, pid);
        assert_eq!(instance["huge_pages"], huge_pages, "{instance:#}");
        assert_eq!(first_broken(instance), broken, "{instance:#}");
    }

    /// Findings about an instance, as `(code, name)`.
    pub(crate) fn findings_of(&self, instance: &Value) -> Vec<(String, String)> {
        let title = format!("{} {}", text(&instance["engine"]), text(&instance["name"]));
        let all = self.json["findings"].as_array().expect("findings");
        let about = all.iter().filter(|finding| finding["instance"] == *title);
        about.map(|finding| (text(&finding["code"]), text(&finding["name"]))).collect()
    }
}

/// What `look` says, and a figure of the kernel's that was the same before and after it.
pub(crate) fn steady<T>(figure: impl Fn() -> u64, look: impl Fn() -> T) -> (T, u64) {
    for _ in 0..20 {
        let before = figure();
        let seen = look();
        if figure() == before {
            return (seen, before);
        }
    }
    panic!("the kernel's figure does not stand still");
}

/// A JSON string.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string")).to_owned()
}

/// Name of the first link of an instance's chain that is broken.
pub(crate) fn first_broken(instance: &Value) -> Option<&str> {
    let links = instance["chain"].as_array()?;
    links
        .iter()
        .find(|link| link["state"] == "broken")
        .map(|link| link["link"].as_str().expect("link"))
}

/// Sum of the sizes of an instance's segments, all of them or those on huge pages.
pub(crate) fn segment_bytes(instance: &Value, huge_only: bool) -> u64 {
    let segments = instance["segments"].as_array().expect("segments");
    let counted = segments.iter().filter(|segment| !huge_only || segment["huge"] == true);
    counted.map(|segment| segment["size_bytes"].as_u64().expect("size_bytes")).sum()
}

/// What the kernel says of one process.
pub(crate) mod kernel {
    use super::*;

    /// `HugetlbPages` of /proc/PID/status, in bytes.
    pub(crate) fn hugetlb_bytes(pid: u32) -> u64 {
        status(pid, "HugetlbPages:").expect("HugetlbPages") << 10
    }

    /// Pages of 2 MiB of the pool that are taken or promised to somebody.
    pub(crate) fn hugetlb_reserved() -> u64 {
        let number = |name: &str| -> u64 {
            let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
            fs::read_to_string(path).unwrap().trim().parse().unwrap()
        };
        number("nr_hugepages") - number("free_hugepages") + number("resv_hugepages")
    }

    /// A number of /proc/PID/status.
    pub(crate) fn status(pid: u32, field: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Bytes of mappings of at least `least` bytes in /proc/PID/smaps: on huge pages, and on base
    /// pages.
    pub(crate) fn large_mappings(pid: u32, least: u64) -> (u64, u64) {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("smaps");
        let (mut huge, mut base, mut size) = (0, 0, 0);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next().and_then(|word| word.parse::<u64>().ok())) {
                (Some("Size:"), Some(kib)) => size = kib << 10,
                (Some("KernelPageSize:"), Some(kib)) if size >= least => {
                    *(if kib > 4 { &mut huge } else { &mut base }) += size;
                }
                _ => {}
            }
        }
        (huge, base)
    }

    /// Pids whose command line satisfies `is`.
    pub(crate) fn processes(is: impl Fn(&str) -> bool) -> Vec<u32> {
        let pids = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let command = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut found: Vec<u32> =
            pids.filter(|pid| is(&String::from_utf8_lossy(&command(pid)))).collect();
        found.sort_unstable();
        found
    }
}

/// A folder that other users can go through, removed when dropped.
pub(crate) fn folder() -> tempfile::TempDir {
    let made = tempfile::Builder::new().prefix("hugewise-real-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
    made
}

/// A user of this host.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Looks it up in /etc/passwd.
    pub(crate) fn named(name: &str) -> Result<Self, Skip> {
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user_of = |line: &str| {
            let mut fields = line.split(':');
            let named = fields.next()? == name;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            named.then_some(Self { uid, gid })
        };
        accounts.lines().find_map(user_of).ok_or_else(|| Skip(format!("no user {name}")))
    }

    /// A command that runs as this user, without supplementary groups or capabilities, and that the
    /// kernel kills when the test dies.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={}", self.uid),
            &format!("--regid={}", self.gid),
            "--clear-groups",
        ]);
        command.args(["--inh-caps=-all", "--pdeathsig=KILL", "--"]).arg(program);
        command.current_dir("/");
        command
    }

    /// Gives it a file or folder with everything below.
    pub(crate) fn own(&self, path: &Path) {
        must(Command::new("chown").arg("-R").arg(format!("{}:{}", self.uid, self.gid)).arg(path));
    }
}

/// Runs a command that must succeed; its standard output.
#[track_caller]
pub(crate) fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{out}\n{errors}", output.status);
    out.into_owned()
}

/// Polls until `ready` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < until, "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server process; asked to end, and waited for, when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) child: Child,
    /// Its main process in the host's pid namespace, where that is not the child itself.
    pub(crate) pid: u32,
    log: PathBuf,
    signal: Signal,
}

impl Server {
    /// Starts it, its output in `log`; `signal` is what ends it in good order.
    pub(crate) fn start(command: &mut Command, log: &Path, signal: Signal) -> Self {
        let output = fs::File::create(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = child.id();
        Self { child, pid, log: log.to_owned(), signal }
    }

    /// Polls until `ready` gives something; a server that has ended meanwhile fails the test with
    /// its log.
    #[track_caller]
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut ready: impl FnMut(u32) -> Option<T>) -> T {
        let pid = self.pid;
        wait_for(what, || {
            // In this order: what a server says last may be what is waited for.
            let ended = self.child.try_wait().unwrap();
            let found = ready(pid);
            if let (None, Some(status)) = (&found, ended) {
                panic!("{what}: the server ended with {status}\n{}", self.log());
            }
            found
        })
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid) {
            let _ = rustix::process::kill_process(pid, self.signal);
            let until = Instant::now() + Duration::from_secs(20);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A program of this host, by the paths that it may have.
pub(crate) fn program(paths: &[&str]) -> Result<PathBuf, Skip> {
    let found = paths.iter().map(PathBuf::from).find(|path| path.exists());
    found.ok_or_else(|| {
        Skip(format!("{} is not installed; `cargo xtask test` installs it", paths[0]))
    })
}
