//! Programs that read what strangers wrote: run without rights, as a user that is nobody else's.
//!
//! Their parsers are written in C, and an archive is whatever somebody has made it. Where this
//! program is root they run as a user of their own without groups, capabilities, network and ways
//! to any, in an empty environment and within bounds; never as root. Where it is not, they run with
//! what is left of its own rights.

use std::ffi::OsStr;
use std::io::{self, PipeWriter};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{Gid, Mode, Uid, chmod, chown, fchown, stat};
use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};

use crate::accounts;
use hugewise_source::LiveSource;
use hugewise_source::sys::{self, ResourceBounds};
use hugewise_source::trust::Distrust;
use hugewise_source::{Source, trust};

/// The range that systemd takes users of its own from too (DynamicUser=): no package and no
/// directory gives these out.
const USERS: std::ops::Range<u32> = 61_184..65_520;
/// nobody, where no other user can be had: in a container that knows few.
const NOBODY: u32 = 65_534;

/// Whose rights a caged program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandbox {
    user: Option<u32>,
}

impl Sandbox {
    /// A user that nobody has: it is in no file, and nothing runs as it.
    pub fn new() -> Self {
        if !geteuid().is_root() {
            return Self { user: None };
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let known = LiveSource::new().read("/etc/passwd").into_known().unwrap_or_default();
        let known = accounts::parse_users(&known);
        let count = USERS.end - USERS.start;
        let first = std::process::id();
        let free = (0..count).find_map(|_| {
            let user =
                USERS.start + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
            (!known.contains_key(&user) && live_processes_of(user).is_empty()).then_some(user)
        });
        Self { user: Some(free.unwrap_or(NOBODY)) }
    }

    /// Lets it read a file or go through a folder, and nobody else but this program's own user.
    pub fn may_read(self, path: &Path, folder: bool) -> io::Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        chown(path, None, Some(Gid::from_raw(user)))?;
        chmod(path, Mode::from_raw_mode(if folder { 0o750 } else { 0o640 }))?;
        Ok(())
    }

    /// Gives it a folder of its own.
    pub fn may_write(self, folder: &Path) -> io::Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        chown(folder, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?;
        Ok(())
    }

    /// Runs a program that root alone could have put where it is. With an `input`, it is given one
    /// to read.
    ///
    /// # Errors
    /// Others could have put it there, or it cannot be run without rights: then it is not run.
    pub fn run(self, program: &str, run: SandboxedRun<'_>) -> Result<SandboxedProcess, NotRun> {
        let named = || program.to_owned();
        trust::check_root_file(Path::new(program))
            .map_err(|why| NotRun::Distrusted { program: named(), why })?;
        let wrong = |error: io::Error| match self.user {
            Some(user) => NotRun::WithRightsAlone { program: named(), user, error },
            None => NotRun::Failed { program: named(), error },
        };
        let mut command = Command::new(program);
        command
            .args(run.arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .current_dir(run.folder);
        command.envs(run.environment.iter().copied());
        let mut input = None;
        if run.input {
            let (reader, writer) = io::pipe().map_err(wrong)?;
            if let Some(user) = self.user {
                // One that opens /dev/stdin by its name may do so.
                let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
                fchown(&reader, Some(user), Some(group)).map_err(|error| wrong(error.into()))?;
            }
            command.stdin(reader);
            input = Some(writer);
        } else {
            command.stdin(Stdio::null());
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Of a user who runs other things too, those would count.
        let processes = self.user.map_or(u64::MAX, |_| run.bounds.processes);
        sys::without_rights(
            &mut command,
            self.user,
            run.offline,
            ResourceBounds { processes, ..run.bounds },
        );
        let child = command.spawn().map_err(wrong)?;
        Ok(SandboxedProcess { child, user: self.user, input })
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a program is not run.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// Others than root could have put it there.
    #[error("{program} was not run: {why}")]
    Distrusted {
        /// The program.
        program: String,
        /// Who.
        #[source]
        why: Distrust,
    },
    /// It cannot be run as a user without rights, and is not run as root.
    #[error("{program} was not run: cannot run it as user {user}, without root's rights: {error}")]
    WithRightsAlone {
        /// The program.
        program: String,
        /// The user that it was to run as.
        user: u32,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// The kernel does not run it.
    #[error("{program}: {error}")]
    Failed {
        /// The program.
        program: String,
        /// What it says.
        #[source]
        error: io::Error,
    },
}

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct SandboxedRun<'a> {
    /// Its arguments.
    pub arguments: &'a [String],
    /// Where it works. The folders above this one need not be open to it.
    pub folder: &'a Path,
    /// What is in its environment beside a PATH and the locale C.
    pub environment: &'a [(&'a str, &'a OsStr)],
    /// Whether it is given something to read.
    pub input: bool,
    /// Whether it gets by without a network.
    pub offline: bool,
    /// What it may use.
    pub bounds: ResourceBounds,
}

/// A program that runs; it ends, with all that it has started, when this is dropped.
#[derive(Debug)]
pub struct SandboxedProcess {
    child: Child,
    user: Option<u32>,
    input: Option<PipeWriter>,
}

impl SandboxedProcess {
    /// Where its input goes.
    pub fn take_stdin(&mut self) -> Option<PipeWriter> {
        self.input.take()
    }

    /// What it prints.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// What it complains of.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it has ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it with all that it has started.
    pub fn kill_and_wait(&mut self) -> io::Result<ExitStatus> {
        let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
        // While nobody has asked for its end, its number is nobody else's.
        if let (Ok(None), Some(leader)) = (self.child.try_wait(), pid(self.child.id())) {
            let _ = kill_process_group(leader, Signal::KILL);
            let _ = self.child.kill();
        }
        let status = self.child.wait();
        // What has left its session is found by its user, which nothing else runs as.
        for _ in 0..100 {
            let left =
                self.user.filter(|user| *user != NOBODY).map(live_processes_of).unwrap_or_default();
            if left.is_empty() {
                break;
            }
            for one in left.into_iter().filter_map(pid) {
                let _ = kill_process(one, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        status
    }
}

impl Drop for SandboxedProcess {
    fn drop(&mut self) {
        let _ = self.kill_and_wait();
    }
}

/// Processes of a user that have not ended: one that has is there until somebody asks how.
fn live_processes_of(user: u32) -> Vec<u32> {
    let live = LiveSource::new();
    let names = live.list_folder("/proc").into_known().unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse().ok());
    let ended = |pid: u32| {
        let stat = live.read(&format!("/proc/{pid}/stat")).into_known().unwrap_or_default();
        // Behind the name, which can be anything.
        let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
        matches!(state, None | Some(b'Z' | b'X'))
    };
    let other_matches = |pid: &u32| {
        stat(format!("/proc/{pid}")).is_ok_and(|stat| stat.st_uid == user) && !ended(*pid)
    };
    pids.filter(other_matches).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use hugewise_testkit::Skip;

    use super::*;

    const BOUNDS: ResourceBounds =
        ResourceBounds { seconds: 60, memory: 1 << 30, file: 0, descriptors: 32, processes: 8 };

    fn shell<'a>(arguments: &'a [String]) -> SandboxedRun<'a> {
        SandboxedRun {
            arguments,
            folder: Path::new("/"),
            environment: &[],
            input: true,
            offline: true,
            bounds: BOUNDS,
        }
    }

    fn said(script: &str, input: &[u8]) -> String {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let mut caged = Sandbox::new().run("/bin/sh", shell(&arguments)).unwrap();
        caged.take_stdin().unwrap().write_all(input).unwrap();
        let mut text = String::new();
        caged.take_stdout().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn it_has_no_rights_and_no_way_to_any() {
        let text = said("cat /proc/self/status; env; ulimit -f; cat", b"given");
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        assert!(text.contains("\nPATH=/usr/bin:/bin\n") && !text.contains("CARGO"), "{text}");
        assert!(text.ends_with("\n0\ngiven"), "{text}");
        if geteuid().is_root() {
            let user = field("Uid:").split_whitespace().next().unwrap().parse().unwrap();
            assert!(USERS.contains(&user), "{user}");
            assert_eq!(field("Uid:"), format!("{user}\t{user}\t{user}\t{user}"));
            assert_eq!(field("Gid:"), field("Uid:"));
            assert_eq!(field("Groups:"), "");
        }
    }

    #[test]
    fn its_input_can_be_opened_by_its_name_and_nothing_of_ours_is_open() {
        let text = said("cat </dev/stdin; ls /proc/self/fd", b"given ");
        // The last one is the listing itself.
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["given", "0", "1", "2", "3"]);
    }

    #[test]
    fn all_that_it_has_started_ends_with_it() {
        if !geteuid().is_root() {
            return Skip("only root finds what has left its session".into()).report();
        }
        let arguments = ["-c".to_owned(), "setsid sleep 600 & sleep 600 & wait".to_owned()];
        let cage = Sandbox::new();
        let mut caged = cage.run("/bin/sh", shell(&arguments)).unwrap();
        let user = cage.user.unwrap();
        while live_processes_of(user).len() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!caged.kill_and_wait().unwrap().success());
        assert!(live_processes_of(user).is_empty());
    }

    #[test]
    fn each_has_a_user_of_its_own() {
        let (one, other) = (Sandbox::new(), Sandbox::new());
        assert_eq!(one == other, !geteuid().is_root());
    }

    #[test]
    fn what_others_could_have_written_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sh");
        std::fs::copy("/bin/sh", &program).unwrap();
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let why =
            Sandbox::new().run(program.to_str().unwrap(), shell(&[])).unwrap_err().to_string();
        assert!(why.contains("was not run"), "{why}");
    }
}
