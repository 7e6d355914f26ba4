//! Servers that are started and ended, and what the kernel says of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageSize};
use rustix::process::{Pid, Signal};

use hugewise_testkit::tools::Failure;

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(90);

/// What became of a start.
pub(crate) enum Start {
    /// It serves.
    Up(Server),
    /// It ended by itself; the last of what it said.
    Refused(String),
}

/// A server process; asked to end, and waited for, when dropped.
pub(crate) struct Server {
    child: Child,
    /// The process that maps the memory.
    pub(crate) pid: u32,
    signal: Signal,
}

impl Server {
    /// Starts it with its output in `log`, and waits until `ready` names the process that maps the
    /// memory.
    pub(crate) fn start(
        command: &mut Command,
        log: &Path,
        signal: Signal,
        mut ready: impl FnMut(u32) -> Option<u32>,
    ) -> Result<Start, Failure> {
        let output = fs::File::create(log)?;
        // A server that reads its standard input ends when it closes: the pipe lives as long as the
        // child.
        let child =
            command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let pid = child.id();
        let mut server = Self { child, pid, signal };
        let until = Instant::now() + PATIENCE;
        loop {
            if server.child.try_wait()?.is_some() {
                return Ok(Start::Refused(last_lines(log)));
            }
            if let Some(number) = ready(pid) {
                server.pid = number;
                return Ok(Start::Up(server));
            }
            if Instant::now() > until {
                return Err(format!(
                    "{command:?}: not ready after {} s\n{}",
                    PATIENCE.as_secs(),
                    last_lines(log)
                )
                .into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Mappings on pages of that size, shared or private, touched or not, each in pages.
    pub(crate) fn mapped_pages(&self, page: PageSize) -> Result<Vec<u64>, Failure> {
        let text = fs::read_to_string(format!("/proc/{}/smaps", self.pid))?;
        let (mut mappings, mut size) = (Vec::new(), 0);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next().and_then(|word| word.parse::<u64>().ok())) {
                (Some("Size:"), Some(kib)) => size = kib << 10,
                (Some("KernelPageSize:"), Some(kib)) if kib << 10 == page.bytes().get() => {
                    mappings.push(size / page.bytes().get())
                }
                _ => {}
            }
        }
        Ok(mappings)
    }

    /// The most that it ever mapped.
    pub(crate) fn peak(&self) -> Option<Bytes> {
        status(self.pid, "VmPeak:").map(Bytes::from_kib)
    }

    /// Sizes of the System V segments that it or its parent made.
    pub(crate) fn system_v_segments(&self) -> Vec<u64> {
        let makers = [u64::from(self.pid), u64::from(self.child.id())];
        let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        // key shmid perms size cpid ...
        let sizes = text.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
            Some((number(3)?, number(4)?))
        });
        sizes.filter(|(_, maker)| makers.contains(maker)).map(|(size, _)| size).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let (Ok(None), Some(pid)) =
            (self.child.try_wait(), i32::try_from(self.child.id()).ok().and_then(Pid::from_raw))
        {
            let _ = rustix::process::kill_process(pid, self.signal);
            let until = Instant::now() + PATIENCE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A number of /proc/PID/status.
pub(crate) fn status(pid: u32, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(field))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Processes that this one has started and that are there.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The end of what a server wrote, in one line.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(4);
    lines.get(from..).unwrap_or_default().join(" / ")
}

/// A user whom servers run as.
#[derive(Clone, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let accounts = fs::read_to_string("/etc/passwd")?;
        let user_of = |line: &str| {
            let mut fields = line.split(':');
            let named = fields.next()? == name;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            named.then_some(Self { uid, gid })
        };
        accounts.lines().find_map(user_of).ok_or_else(|| format!("no user {name}").into())
    }

    /// A command that runs as this user, without capabilities, and that the kernel ends with this
    /// program.
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
    pub(crate) fn give_file(&self, path: &Path) -> Result<(), Failure> {
        must(Command::new("chown").arg("-R").arg(format!("{}:{}", self.uid, self.gid)).arg(path))
            .map(drop)
    }
}

/// Runs a command that must succeed; its standard output.
pub(crate) fn must(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, errors.trim()).into())
}

/// A folder that other users can go through, removed when dropped.
pub(crate) fn folder() -> Result<tempfile::TempDir, Failure> {
    let made = tempfile::Builder::new().prefix("hugewise-xtask-").tempdir_in("/tmp")?;
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755))?;
    Ok(made)
}

/// A program of this host; where it is not, what to do.
pub(crate) fn program(path: &str) -> Result<PathBuf, Failure> {
    let found = PathBuf::from(path);
    if found.exists() {
        Ok(found)
    } else {
        Err(format!("{path} is not there; `cargo xtask test` installs it").into())
    }
}
