//! A PostgreSQL server of the lab's own: made for a measurement, reached by its own socket alone, and thrown away.

#![allow(unsafe_code, reason = "the kernel is told to end the server with this program")]
#![allow(clippy::disallowed_methods, reason = "programs and accounts of this machine, never those of a captured one")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageSize};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::cancel::Cancel;
use crate::experiment::{Failure, Needs};
use crate::variant::Variant;

/// How long the server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why no server of the lab's own can be had here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoServer {
    #[error(
        "no PostgreSQL server is installed (postgres, initdb and psql in the PATH, /usr/lib/postgresql/*/bin or \
         /usr/pgsql-*/bin)"
    )]
    NotInstalled,
    #[error("{folder}: {error}")]
    Disk { folder: String, error: Errno },
    #[error("it needs {wanted} of disk space in {folder}, but only {free} is free; choose another folder with TMPDIR")]
    NoRoom { wanted: Bytes, free: Bytes, folder: String },
}

impl From<NoServer> for Failure {
    fn from(why: NoServer) -> Self {
        Self::Unavailable(why.to_string())
    }
}

/// The programs of one major version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Programs {
    folder: PathBuf,
    major: u32,
}

impl Programs {
    /// The newest on this host: in the `PATH`, or where Debian and the PGDG packages have them.
    pub(crate) fn find() -> Result<Self, NoServer> {
        let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|folder| folder.is_absolute())
            .collect();
        for (parent, prefix) in [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")] {
            for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    folders.push(entry.path().join("bin"));
                }
            }
        }
        let has = |folder: &PathBuf| ["postgres", "initdb", "psql"].iter().all(|name| folder.join(name).exists());
        let found = folders.into_iter().filter(has).filter_map(|folder| {
            let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
            Some(Self { major: major(&String::from_utf8_lossy(&output.stdout))?, folder })
        });
        found.max_by_key(|programs| programs.major).ok_or(NoServer::NotInstalled)
    }

    /// Whether a program of theirs is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }
}

/// `postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)`; betas are `18beta1`.
fn major(text: &str) -> Option<u32> {
    let version = text.split_ascii_whitespace().nth(2)?;
    let digits = version.find(|letter: char| !letter.is_ascii_digit()).map_or(version, |end| &version[..end]);
    digits.parse().ok()
}

/// What a server with these buffers takes. The server itself says it exactly, but only once it is made: this is what
/// PostgreSQL 12 to 18 take at most, measured from 128 MiB to 64 GiB of buffers.
pub(crate) fn needs(variant: Variant, buffers: Bytes, sessions: u32) -> Needs {
    let shared =
        Bytes(buffers.get() / 100 * 104) + Bytes::from_mib(64) + Bytes::from_kib(64).times(u64::from(sessions));
    let own = Bytes::from_mib(64) + Bytes::from_mib(12).times(u64::from(sessions));
    let processes = sessions.saturating_mul(2).saturating_add(16);
    let needs = Needs { processes, ..Needs::default() };
    match variant {
        Variant::Huge(_) => Needs { huge: shared, memory: own, ..needs },
        Variant::Base | Variant::Thp | Variant::Mthp(_) => {
            // One table for 2 MiB, in each process.
            let tables = Bytes(shared.get() / 512).times(u64::from(sessions) + 8);
            Needs { memory: shared + own + tables, ..needs }
        }
    }
}

/// Whether there is as much room on the disk, below the folder of temporary files.
pub(crate) fn disk_room(wanted: Bytes) -> Result<(), NoServer> {
    let folder = std::env::temp_dir();
    let shown = || folder.display().to_string();
    let facts = rustix::fs::statvfs(&folder).map_err(|error| NoServer::Disk { folder: shown(), error })?;
    let free = Bytes(facts.f_bavail.saturating_mul(facts.f_frsize));
    if free < wanted { Err(NoServer::NoRoom { wanted, free, folder: shown() }) } else { Ok(()) }
}

/// The account that a server runs under; none where this is no root, and it is our own.
#[derive(Clone, Copy, Debug)]
struct Account {
    uid: u32,
    gid: u32,
}

fn account() -> Result<Option<Account>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = hugewise_host::config::accounts::parse_users(&std::fs::read("/etc/passwd")?);
    let named = |name: &str| {
        let (uid, user) = users.iter().find(|(uid, user)| user.name == name && **uid != 0)?;
        Some(Account { uid: *uid, gid: user.gid })
    };
    let found = named("postgres").or_else(|| named("nobody"));
    found.map(Some).ok_or_else(|| {
        Failure::Unavailable("PostgreSQL refuses to run as root, and this host has no user postgres or nobody".into())
    })
}

/// A cluster in a folder of its own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    programs: Programs,
    account: Option<Account>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Makes it.
    pub(crate) fn new(programs: Programs) -> Result<Self, Failure> {
        let account = account()?;
        // Nobody else gets through this folder: it holds the socket of a server that asks for no password.
        let folder = tempfile::Builder::new().prefix("hugewise-lab-").tempdir()?;
        if let Some(Account { uid, gid }) = account {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
        }
        let cluster = Self { programs, account, folder };
        let mut initdb = cluster.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]);
        output(initdb.arg(cluster.data()))?;
        Ok(cluster)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// One of its programs, run by its owner and ended with this program.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.programs.folder.join(program.as_ref()));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        command.stdin(Stdio::null());
        if let Some(Account { uid, gid }) = self.account {
            // The supplementary groups of root go with its uid.
            command.gid(gid).uid(uid);
        }
        // SAFETY: between fork and exec only prctl(2) is called, which is safe after a signal and allocates nothing.
        // It comes after the change of user, which would undo it.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        command
    }

    /// A client program that speaks to its server.
    pub(crate) fn client(&self, program: &str) -> Command {
        let mut command = self.command(program);
        command.args(["-U", "postgres", "-h"]).arg(self.folder());
        command
    }

    /// Runs statements and gives what they answer.
    pub(crate) fn ask(&self, statements: &str) -> Result<String, Failure> {
        let mut psql = self.client("psql");
        output(psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", statements]))
    }

    /// Starts it with its shared memory on those pages, and waits until it serves.
    pub(crate) fn start(
        &self,
        variant: Variant,
        buffers: Bytes,
        sessions: u32,
        cancel: &Cancel,
    ) -> Result<Running, Failure> {
        let mut settings = vec![
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories=\"{}\"", self.folder().display()),
            "unix_socket_permissions=0700".into(),
            format!("shared_buffers={}kB", buffers.get() >> 10),
            format!("max_connections={}", sessions.saturating_add(10)),
        ];
        // Nothing of its data has to last, and nothing but the sessions shall work.
        let quiet = [
            "fsync=off",
            "full_page_writes=off",
            "synchronous_commit=off",
            "wal_level=minimal",
            "max_wal_senders=0",
            "autovacuum=off",
            "jit=off",
            "checkpoint_timeout=1h",
            "max_wal_size=64GB",
            "synchronize_seqscans=off",
            "max_parallel_workers_per_gather=0",
            "bgwriter_lru_maxpages=0",
            "logging_collector=off",
        ];
        settings.extend(quiet.map(str::to_owned));
        settings.extend(self.pages(variant)?);
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        for setting in &settings {
            command.args(["-c", setting]);
        }
        let log = std::fs::File::create(self.folder().join("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let mut running = Running { child };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = running.child.try_wait()? {
                return Err(Failure::Unavailable(format!(
                    "PostgreSQL on {variant}: ended with {status}: {}",
                    self.last_words()
                )));
            }
            let state = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|word| word.trim() == "ready") {
                return Ok(running);
            }
            if Instant::now() > until {
                return Err(Failure::Failed(format!("PostgreSQL does not start: {}", self.last_words())));
            }
            cancel.sleep(Duration::from_millis(20))?;
        }
    }

    fn pages(&self, variant: Variant) -> Result<Vec<String>, Failure> {
        let say = |setting: &str| setting.to_owned();
        match variant {
            Variant::Base => Ok(vec![say("huge_pages=off")]),
            Variant::Huge(page) if self.programs.major >= 14 => {
                Ok(vec![say("huge_pages=on"), format!("huge_page_size={}kB", page.bytes().get() >> 10)])
            }
            Variant::Huge(PageSize::MIB_2) => Ok(vec![say("huge_pages=on")]),
            Variant::Huge(page) => Err(Failure::Unavailable(format!(
                "PostgreSQL {} cannot use {page} pages; 14 and later can",
                self.programs.major
            ))),
            Variant::Thp | Variant::Mthp(_) => {
                Err(Failure::Unavailable("PostgreSQL does not ask for transparent huge pages".into()))
            }
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(self.folder().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let fatal = text.lines().find(|line| line.contains("FATAL")).or_else(|| text.lines().last());
        fatal.unwrap_or("without a word").to_owned()
    }
}

/// A server that serves; it ends at once when dropped, its data with it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid) {
            // Immediate shutdown: nothing is written any more.
            let _ = kill_process(pid, Signal::QUIT);
            let until = Instant::now() + PATIENCE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// One session, that stays connected and answers line by line.
#[derive(Debug)]
pub(crate) struct Session {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The server's process for it.
    pub(crate) pid: u32,
}

impl Session {
    pub(crate) fn open(cluster: &Cluster) -> Result<Self, Failure> {
        let mut psql = cluster.client("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| Failure::Failed("psql without output".into()))?;
        let mut session = Self { child, questions, answers: BufReader::new(answers), pid: 0 };
        session.tell("select pg_backend_pid()")?;
        let pid = session.answer()?;
        session.pid = pid.parse().map_err(|_| Failure::Failed(format!("no process number: {pid}")))?;
        Ok(session)
    }

    /// Asks, and does not wait.
    pub(crate) fn tell(&mut self, statement: &str) -> Result<(), Failure> {
        let mut line = String::new();
        let _ = writeln!(line, "{statement};");
        let questions = self.questions.as_mut().ok_or_else(|| Failure::Failed("psql without input".into()))?;
        questions.write_all(line.as_bytes()).and_then(|()| questions.flush())?;
        Ok(())
    }

    /// The next line that it answers.
    pub(crate) fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(Failure::Failed("a session ended before it answered".into()));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program that must end well; what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = complaint.lines().find(|line| line.contains("rror")).or_else(|| complaint.lines().last());
    Err(Failure::Failed(format!("{name}: {}", told.unwrap_or("failed without a word"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_read_from_what_the_server_says() {
        assert_eq!(major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(major("no"), None);
    }

    #[test]
    fn needs_are_above_what_the_server_says() {
        // PostgreSQL 15 with 100 connections: 8 GiB of buffers take 4200 pages, 64 GiB take 33,502 (measured).
        let pages = |gib| PageSize::MIB_2.pages_for(needs(Variant::MIB_2, Bytes::from_gib(gib), 90).huge).get();
        assert!((4200..4400).contains(&pages(8)), "{}", pages(8));
        assert!((33_502..34_300).contains(&pages(64)), "{}", pages(64));
        let base = needs(Variant::Base, Bytes::from_gib(4), 40);
        assert!(base.huge == Bytes::ZERO && base.memory > Bytes::from_mib(4096 + 40 * 8), "{base:?}");
    }
}
