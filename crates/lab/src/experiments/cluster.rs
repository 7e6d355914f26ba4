//! The lab's own PostgreSQL server: made for a measurement, reached by its socket alone, and
//! thrown away.

#![allow(unsafe_code, reason = "the kernel is told to end the server with this program")]
#![allow(
    clippy::disallowed_methods,
    reason = "programs and accounts of this machine, never those of a captured one"
)]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageSize};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::cancel::Cancel;
use crate::experiment::{ExperimentFailure, Needs};
use crate::system_call::check_result;
use crate::variant::Variant;

const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoServer {
    #[error(
        "no PostgreSQL server is installed (postgres, initdb and psql in the PATH, \
         /usr/lib/postgresql/*/bin or /usr/pgsql-*/bin)"
    )]
    NotInstalled,
    #[error("{folder}: {error}")]
    Disk { folder: String, error: Errno },
    #[error(
        "it needs {wanted} of disk space in {folder}, but only {free} is free; choose another \
         folder with TMPDIR"
    )]
    NoRoom { wanted: Bytes, free: Bytes, folder: String },
}

impl From<NoServer> for ExperimentFailure {
    fn from(why: NoServer) -> Self {
        Self::Unavailable(why.to_string())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Programs {
    folder: PathBuf,
    major: u32,
}

impl Programs {
    /// The newest on this host: in the `PATH`, or where Debian and the PGDG packages have them.
    pub(crate) fn find_newest_version() -> Result<Self, NoServer> {
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
        let has = |folder: &PathBuf| {
            ["postgres", "initdb", "psql"].iter().all(|name| folder.join(name).exists())
        };
        let found = folders.into_iter().filter(has).filter_map(|folder| {
            let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
            Some(Self {
                major: parse_major_version(&String::from_utf8_lossy(&output.stdout))?,
                folder,
            })
        });
        found.max_by_key(|programs| programs.major).ok_or(NoServer::NotInstalled)
    }

    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }
}

/// `postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)`; betas are `18beta1`.
fn parse_major_version(text: &str) -> Option<u32> {
    let version = text.split_ascii_whitespace().nth(2)?;
    let digits = version
        .find(|letter: char| !letter.is_ascii_digit())
        .map_or(version, |end| &version[..end]);
    digits.parse().ok()
}

/// Upper bound for PostgreSQL 12 to 18, measured from 128 MiB to 64 GiB of buffers: the server
/// itself tells only once it exists.
pub(crate) fn postgresql_needs(variant: Variant, buffers: Bytes, sessions: u32) -> Needs {
    let shared = Bytes(buffers.get() / 100 * 104)
        + Bytes::from_mib(64)
        + Bytes::from_kib(64).saturating_mul(u64::from(sessions));
    let own = Bytes::from_mib(64) + Bytes::from_mib(12).saturating_mul(u64::from(sessions));
    let processes = sessions.saturating_mul(2).saturating_add(16);
    let needs = Needs { processes, ..Needs::default() };
    match variant {
        Variant::Huge(_) => Needs { huge: shared, memory: own, ..needs },
        Variant::Base | Variant::Thp | Variant::Mthp(_) => {
            // One table for 2 MiB, in each process.
            let tables = Bytes(shared.get() / 512).saturating_mul(u64::from(sessions) + 8);
            Needs { memory: shared + own + tables, ..needs }
        }
    }
}

pub(crate) fn refuse_small_buffers(buffers: Bytes) -> Option<String> {
    (buffers < Bytes::from_mib(64))
        .then(|| format!("shared buffers of {buffers} are too small: use at least 64 MiB"))
}

pub(crate) fn disk_room(wanted: Bytes) -> Result<(), NoServer> {
    let folder = std::env::temp_dir();
    let shown = || folder.display().to_string();
    let facts =
        rustix::fs::statvfs(&folder).map_err(|error| NoServer::Disk { folder: shown(), error })?;
    let free = Bytes(facts.f_bavail.saturating_mul(facts.f_frsize));
    if free < wanted { Err(NoServer::NoRoom { wanted, free, folder: shown() }) } else { Ok(()) }
}

#[derive(Clone, Copy, Debug)]
struct ServerAccount {
    uid: u32,
    gid: u32,
}

fn find_server_account() -> Result<Option<ServerAccount>, ExperimentFailure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = hugewise_host::config::accounts::parse_users(&std::fs::read("/etc/passwd")?);
    let named = |name: &str| {
        let (uid, user) = users.iter().find(|(uid, user)| user.name == name && **uid != 0)?;
        Some(ServerAccount { uid: *uid, gid: user.gid })
    };
    let found = named("postgres").or_else(|| named("nobody"));
    found.map(Some).ok_or_else(|| {
        ExperimentFailure::Unavailable(
            "PostgreSQL refuses to run as root, and this host has no user postgres or nobody"
                .into(),
        )
    })
}

#[derive(Debug)]
pub(crate) struct LabCluster {
    programs: Programs,
    account: Option<ServerAccount>,
    folder: tempfile::TempDir,
}

impl LabCluster {
    pub(crate) fn new(programs: Programs) -> Result<Self, ExperimentFailure> {
        let account = find_server_account()?;
        // Nobody else gets through this folder: its server asks for no password.
        let folder = tempfile::Builder::new().prefix("hugewise-lab-").tempdir()?;
        if let Some(ServerAccount { uid, gid }) = account {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
        }
        let cluster = Self { programs, account, folder };
        let mut initdb = cluster.server_command("initdb");
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ]);
        run_to_output(initdb.arg(cluster.data_directory()))?;
        Ok(cluster)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data_directory(&self) -> PathBuf {
        self.folder().join("data")
    }

    pub(crate) fn server_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.programs.folder.join(program.as_ref()));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .current_dir("/");
        command.stdin(Stdio::null());
        if let Some(ServerAccount { uid, gid }) = self.account {
            // The supplementary groups of root go with its uid.
            command.gid(gid).uid(uid);
        }
        // SAFETY: between fork and exec only prctl(2) is called, which is async-signal-safe and
        // allocates nothing. It comes after the change of user, which would undo it.
        unsafe {
            command.pre_exec(|| check_result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT)));
        }
        command
    }

    pub(crate) fn client_command(&self, program: &str) -> Command {
        let mut command = self.server_command(program);
        command.args(["-U", "postgres", "-h"]).arg(self.folder());
        command
    }

    pub(crate) fn run_statements(&self, statements: &str) -> Result<String, ExperimentFailure> {
        let mut psql = self.client_command("psql");
        run_to_output(psql.args([
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            "postgres",
            "-c",
            statements,
        ]))
    }

    /// Starts it with its shared memory on those pages, and waits until it serves.
    pub(crate) fn start_server(
        &self,
        variant: Variant,
        buffers: Bytes,
        sessions: u32,
        cancel: &Cancel,
    ) -> Result<RunningPostgresql, ExperimentFailure> {
        let mut command = self.server_command("postgres");
        command.arg("-D").arg(self.data_directory());
        for setting in self.server_settings(variant, buffers, sessions)? {
            command.args(["-c", &setting]);
        }
        let log = std::fs::File::create(self.folder().join("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let mut running = RunningPostgresql { child };
        self.wait_until_ready(&mut running, variant, cancel)?;
        Ok(running)
    }

    fn server_settings(
        &self,
        variant: Variant,
        buffers: Bytes,
        sessions: u32,
    ) -> Result<Vec<String>, ExperimentFailure> {
        let mut settings = vec![
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories=\"{}\"", self.folder().display()),
            "unix_socket_permissions=0700".into(),
            format!("shared_buffers={}kB", buffers.get() >> 10),
            format!("max_connections={}", sessions.saturating_add(10)),
        ];
        // No data has to last, and only the sessions shall work.
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
        settings.extend(self.huge_page_settings(variant)?);
        Ok(settings)
    }

    fn wait_until_ready(
        &self,
        running: &mut RunningPostgresql,
        variant: Variant,
        cancel: &Cancel,
    ) -> Result<(), ExperimentFailure> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = running.child.try_wait()? {
                return Err(ExperimentFailure::Unavailable(format!(
                    "PostgreSQL on {variant}: ended with {status}: {}",
                    self.last_words()
                )));
            }
            let state = std::fs::read_to_string(self.data_directory().join("postmaster.pid"))
                .unwrap_or_default();
            if state.lines().nth(7).is_some_and(|word| word.trim() == "ready") {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(ExperimentFailure::Failed(format!(
                    "PostgreSQL does not start: {}",
                    self.last_words()
                )));
            }
            cancel.sleep(Duration::from_millis(20))?;
        }
    }

    fn huge_page_settings(&self, variant: Variant) -> Result<Vec<String>, ExperimentFailure> {
        let say = |setting: &str| setting.to_owned();
        match variant {
            Variant::Base => Ok(vec![say("huge_pages=off")]),
            Variant::Huge(page) if self.programs.major >= 14 => Ok(vec![
                say("huge_pages=on"),
                format!("huge_page_size={}kB", page.bytes().get() >> 10),
            ]),
            Variant::Huge(PageSize::MIB_2) => Ok(vec![say("huge_pages=on")]),
            Variant::Huge(page) => Err(ExperimentFailure::Unavailable(format!(
                "PostgreSQL {} cannot use {page} pages; 14 and later can",
                self.programs.major
            ))),
            Variant::Thp | Variant::Mthp(_) => Err(ExperimentFailure::Unavailable(
                "PostgreSQL does not ask for transparent huge pages".into(),
            )),
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(self.folder().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let fatal =
            text.lines().find(|line| line.contains("FATAL")).or_else(|| text.lines().last());
        fatal.unwrap_or("without a word").to_owned()
    }
}

#[derive(Debug)]
pub(crate) struct RunningPostgresql {
    child: Child,
}

impl Drop for RunningPostgresql {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid) {
            // Immediate shutdown: nothing more is written.
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

#[derive(Debug)]
pub(crate) struct Session {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) pid: u32,
}

impl Session {
    pub(crate) fn open(cluster: &LabCluster) -> Result<Self, ExperimentFailure> {
        let mut psql = cluster.client_command("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        let mut child =
            psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take());
        let answers =
            answers.ok_or_else(|| ExperimentFailure::Failed("psql without output".into()))?;
        let mut session = Self { child, questions, answers: BufReader::new(answers), pid: 0 };
        session.send_statement("select pg_backend_pid()")?;
        let pid = session.read_answer()?;
        session.pid = pid
            .parse()
            .map_err(|_| ExperimentFailure::Failed(format!("no process number: {pid}")))?;
        Ok(session)
    }

    pub(crate) fn send_statement(&mut self, statement: &str) -> Result<(), ExperimentFailure> {
        let mut line = String::new();
        let _ = writeln!(line, "{statement};");
        let questions = self
            .questions
            .as_mut()
            .ok_or_else(|| ExperimentFailure::Failed("psql without input".into()))?;
        questions.write_all(line.as_bytes()).and_then(|()| questions.flush())?;
        Ok(())
    }

    pub(crate) fn read_answer(&mut self) -> Result<String, ExperimentFailure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(ExperimentFailure::Failed("a session ended before it answered".into()));
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

pub(crate) fn run_to_output(command: &mut Command) -> Result<String, ExperimentFailure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| ExperimentFailure::Failed(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let told =
        complaint.lines().find(|line| line.contains("rror")).or_else(|| complaint.lines().last());
    Err(ExperimentFailure::Failed(format!("{name}: {}", told.unwrap_or("failed without a word"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_read_from_what_the_server_says() {
        assert_eq!(
            parse_major_version("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(parse_major_version("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major_version("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(parse_major_version("no"), None);
    }

    #[test]
    fn needs_are_above_what_the_server_says() {
        // PostgreSQL 15 with 100 connections: 8 GiB of buffers take 4200 pages, 64 GiB take 33,502
        // (measured).
        let pages = |gib| {
            PageSize::MIB_2
                .pages_for(postgresql_needs(Variant::MIB_2, Bytes::from_gib(gib), 90).huge)
                .get()
        };
        assert!((4200..4400).contains(&pages(8)), "{}", pages(8));
        assert!((33_502..34_300).contains(&pages(64)), "{}", pages(64));
        let base = postgresql_needs(Variant::Base, Bytes::from_gib(4), 40);
        assert!(
            base.huge == Bytes::ZERO && base.memory > Bytes::from_mib(4096 + 40 * 8),
            "{base:?}"
        );
    }
}
