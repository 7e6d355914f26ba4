//! Runs a client program with no more trust than its server's account deserves.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use rustix::fs::{FileType, Mode, Stat};
use rustix::process::{Pid, Signal, kill_process_group};

/// Clients look for passwords and services where these say, or in their account's home folder: a
/// socket is not given what lies there, whoever made it.
const NO_PASSWORDS: [(&str, &str); 4] = [
    ("HOME", "/nonexistent"),
    ("PGPASSFILE", "/dev/null"),
    ("PGSERVICEFILE", "/dev/null"),
    ("PGSYSCONFDIR", "/nonexistent"),
];

const LONGEST_ANSWER: u64 = 64 << 10;
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const LONGEST_COMPLAINT: u64 = 4 << 10;
/// Output from before the program's end arrives within this time.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// The account that a program runs as.
#[derive(Clone, Copy, Debug)]
pub struct ClientAccount {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A program that may be run.
#[derive(Debug)]
pub struct Client {
    path: String,
    account: ClientAccount,
    knows_passwords: bool,
    /// Whose server psql is to talk to (`requirepeer` of libpq).
    peer: Option<String>,
}

/// Why a program was not run, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Users other than root and the account could have put it there.
    #[error("not run: users other than root may write to {path}{instead}")]
    Distrusted {
        /// The program.
        path: String,
        /// What to do, behind a semicolon; may be empty.
        instead: String,
    },
    /// It is in none of the folders.
    #[error("no program {names} in {folders}; install the client")]
    Missing {
        /// What it may be called.
        names: String,
        /// Where it was looked for.
        folders: String,
    },
    /// The kernel does not run it, or does not say how it ended.
    #[error("{path}: {error}")]
    Failed {
        /// The program.
        path: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// It took too long.
    #[error("{path}: no answer within {:.1} s", patience.as_secs_f32())]
    Late {
        /// The program.
        path: String,
        /// How long it had.
        patience: Duration,
    },
    /// What it has started goes on printing.
    #[error("{0}: its answer is too long")]
    Endless(String),
    /// It ended badly.
    #[error("{path}: {complaint}")]
    Complained {
        /// The program.
        path: String,
        /// The first line of its complaint.
        complaint: String,
    },
}

/// How a program ended, and the beginning of its output.
pub struct ClientOutcome {
    /// The program.
    pub path: String,
    /// Whether it ended well.
    pub success: bool,
    /// What it printed.
    pub answer: String,
    /// What it complained of.
    pub complaint: String,
}

impl ClientOutcome {
    pub(crate) fn into_answer(self) -> Result<String, ClientError> {
        if self.success {
            return Ok(self.answer);
        }
        let first = self.complaint.lines().next().unwrap_or("failed without a word");
        Err(ClientError::Complained { complaint: first.trim().to_owned(), path: self.path })
    }
}

impl Client {
    /// The first program of `names` in `folders` that only root can have put there, or the account
    /// where nothing speaks against what that installs.
    pub(super) fn find_in_folders(
        names: &[&str],
        folders: &[String],
        account: ClientAccount,
        trusts_account: bool,
    ) -> Result<Self, ClientError> {
        let own = rustix::process::geteuid().as_raw();
        let writer = if trusts_account { runner_uid(account) } else { own };
        let mut distrusted = None;
        for folder in folders {
            for name in names {
                let path = format!("{folder}/{name}");
                match Self::from_path_of(&path, account, writer) {
                    Some(Ok(client)) => return Ok(client),
                    Some(Err(_)) => distrusted = Some(path),
                    None => {}
                }
            }
        }
        let names = names.join(" or ");
        Err(match distrusted {
            Some(path) => ClientError::Distrusted {
                path,
                instead: format!("; install {names} from the system's packages"),
            },
            None => ClientError::Missing { names, folders: folders.join(", ") },
        })
    }

    /// The program at `path`, if there is one; an error where others could have put it there.
    pub fn from_path(path: &str, account: ClientAccount) -> Option<Result<Self, ClientError>> {
        Self::from_path_of(path, account, runner_uid(account))
    }

    fn from_path_of(
        path: &str,
        account: ClientAccount,
        writer: u32,
    ) -> Option<Result<Self, ClientError>> {
        let file = rustix::fs::stat(path).ok()?;
        if FileType::from_raw_mode(file.st_mode) != FileType::RegularFile {
            return None;
        }
        Some(match is_trusted(path, writer) {
            true => Ok(Self { path: path.to_owned(), account, knows_passwords: true, peer: None }),
            false => Err(ClientError::Distrusted { path: path.to_owned(), instead: String::new() }),
        })
    }

    /// It connects to a server of this account: it gets no password that its own has stored, and
    /// psql hangs up where another account answers.
    #[must_use]
    pub fn for_server_of(self, account: Option<&str>) -> Self {
        Self { knows_passwords: false, peer: account.map(str::to_owned), ..self }
    }

    pub(crate) fn run(
        &self,
        arguments: &[String],
        patience: Duration,
    ) -> Result<String, ClientError> {
        self.run_command(Command::new(&self.path), arguments, patience)?.into_answer()
    }

    /// Runs the program, whether it ends well or not.
    /// # Errors
    /// It could not be run or took too long.
    pub fn run_to_end(
        &self,
        arguments: &[String],
        patience: Duration,
    ) -> Result<ClientOutcome, ClientError> {
        self.run_command(Command::new(&self.path), arguments, patience)
    }

    /// Runs the program with at most `most` of address space, which `ulimit` holds it to.
    pub(crate) fn run_within(
        &self,
        most: Bytes,
        arguments: &[String],
        patience: Duration,
    ) -> Result<ClientOutcome, ClientError> {
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            "ulimit -v \"$0\" && exec \"$@\"",
            &(most.get() / 1024).to_string(),
            &self.path,
        ]);
        self.run_command(command, arguments, patience)
    }

    fn run_command(
        &self,
        mut command: Command,
        arguments: &[String],
        patience: Duration,
    ) -> Result<ClientOutcome, ClientError> {
        command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
        if !self.knows_passwords {
            command.envs(NO_PASSWORDS);
        }
        command.envs(self.peer.iter().map(|peer| ("PGREQUIREPEER", peer)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let own = rustix::process::geteuid();
        if own.is_root() {
            // Root's supplementary groups go with its uid.
            command.gid(self.account.gid).uid(self.account.uid);
        }
        if own.is_root() && self.account.uid != 0 {
            hugewise_host::sys::without_inheritance(&mut command);
        } else {
            hugewise_host::sys::without_terminal(&mut command);
        }
        let started = Instant::now();
        let path = || self.path.clone();
        let failed = |error| ClientError::Failed { path: path(), error };
        let mut child = command.spawn().map_err(failed)?;
        let answer = read_aside(child.stdout.take(), LONGEST_ANSWER);
        let complaint = read_aside(child.stderr.take(), LONGEST_COMPLAINT);
        let ended = wait_with_timeout(&mut child, patience);
        // What it has left running would keep its pipes open.
        end_group(&child);
        let success =
            ended.map_err(failed)?.ok_or_else(|| ClientError::Late { path: path(), patience })?;
        // One that has left the group, too, is not waited for.
        let left = || patience.saturating_sub(started.elapsed()).max(SHORTEST_WAIT);
        let answer = answer.recv_timeout(left()).map_err(|_| ClientError::Endless(path()))?;
        let complaint = complaint.recv_timeout(left()).unwrap_or_default();
        Ok(ClientOutcome { path: path(), success, answer, complaint })
    }
}

/// Root becomes the server's account; anybody else stays who he is.
fn runner_uid(account: ClientAccount) -> u32 {
    let own = rustix::process::geteuid();
    if own.is_root() { account.uid } else { own.as_raw() }
}

/// Whether only root and a user can write the file or replace a folder on the way to it.
fn is_trusted(path: &str, user: u32) -> bool {
    let Ok(real) = std::path::Path::new(path).canonicalize() else { return false };
    real.ancestors().all(|part| rustix::fs::stat(part).is_ok_and(|stat| is_safe_owner(&stat, user)))
}

/// In a folder with the sticky bit only the owner can replace what is his.
fn is_safe_owner(stat: &Stat, user: u32) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let others = mode.intersects(Mode::WGRP | Mode::WOTH) && !(folder && mode.contains(Mode::SVTX));
    (stat.st_uid == 0 || stat.st_uid == user) && !others
}

/// Reads in a thread of its own: a child that fills one pipe never waits for the other, and a pipe
/// that somebody keeps open keeps nobody waiting.
fn read_aside(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Half an answer is none: the caller looks for what it needs.
        let _ = pipe.map(|pipe| pipe.take(most).read_to_end(&mut bytes));
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn end_group(child: &Child) {
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(leader) = leader {
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// Whether the child ends well; nothing where it does not end in time and is killed.
fn wait_with_timeout(child: &mut Child, patience: Duration) -> io::Result<Option<bool>> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Some(status.success())),
            Ok(None) if started.elapsed() < patience => thread::sleep(Duration::from_millis(10)),
            other => {
                // It is gone or will be: what matters is that nobody waits for it.
                end_group(child);
                let _ = child.kill();
                let _ = child.wait();
                return other.map(|_| None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn me() -> ClientAccount {
        ClientAccount {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }
    }

    fn shell(script: &str, patience: Duration) -> Result<String, ClientError> {
        let client = Client::from_path("/bin/sh", me()).unwrap().unwrap();
        client.run(&["-c".into(), script.into()], patience)
    }

    #[test]
    fn an_answer_a_complaint_and_a_silence() {
        let patience = Duration::from_secs(20);
        assert_eq!(shell("echo yes", patience).unwrap(), "yes\n");
        assert_eq!(
            shell("echo 'who are you' >&2; exit 2", patience).unwrap_err().to_string(),
            "/bin/sh: who are you"
        );
        assert!(
            shell("exec sleep 60", Duration::from_millis(50))
                .unwrap_err()
                .to_string()
                .contains("no answer")
        );
    }

    #[test]
    fn what_a_client_leaves_running_keeps_nobody_waiting() {
        let patience = Duration::from_secs(20);
        let started = Instant::now();
        assert_eq!(shell("sleep 300 & echo yes", patience).unwrap(), "yes\n");
        assert!(shell("setsid sleep 5 & sleep 0.2; echo yes", Duration::from_secs(1)).is_err());
        assert!(started.elapsed() < patience);
    }

    #[test]
    fn a_client_has_no_terminal_of_ours() {
        let session =
            shell("cut -d' ' -f1,6,7 /proc/self/stat; echo $$", Duration::from_secs(20)).unwrap();
        let words: Vec<&str> = session.split_whitespace().collect();
        assert_eq!((words[1], words[2]), (words[3], "0"), "{session}");
    }

    #[test]
    fn what_it_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; wait", pid.display());
        assert!(
            shell(&script, Duration::from_secs(1)).unwrap_err().to_string().contains("no answer")
        );
        let text = String::from_utf8(contents(&pid)).unwrap();
        let gone = || {
            let stat = contents(std::path::Path::new(&format!("/proc/{}/stat", text.trim())));
            stat.is_empty() || String::from_utf8_lossy(&stat).contains(") Z ")
        };
        let started = Instant::now();
        while !gone() && started.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(gone());
    }

    /// A file's bytes; none where it is not there.
    fn contents(path: &std::path::Path) -> Vec<u8> {
        use hugewise_host::Source;
        let source = hugewise_host::source::LiveSource::new();
        source.read(path.to_str().unwrap()).into_known().unwrap_or_default()
    }

    #[test]
    fn a_program_gets_no_more_space_than_it_may_have() {
        let shell = Client::from_path("/bin/sh", me()).unwrap().unwrap();
        let arguments = ["-c".to_owned(), "ulimit -v".to_owned()];
        let outcome =
            shell.run_within(Bytes::from_mib(512), &arguments, Duration::from_secs(20)).unwrap();
        assert_eq!((outcome.success, outcome.answer.trim()), (true, "524288"));
    }

    #[test]
    fn nothing_of_our_environment_gets_in() {
        let seen = shell(
            "env | sort | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=",
            Duration::from_secs(20),
        )
        .unwrap();
        assert_eq!(seen, "LC_ALL=C\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n");
    }

    /// A script of root's has a lock or a secret open, and starts hugewise.
    #[test]
    fn another_user_gets_no_open_file_of_ours() {
        if !rustix::process::geteuid().is_root() {
            return hugewise_testkit::Skip("only root runs clients as others".into()).report();
        }
        let secret = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
        let nobody = ClientAccount { uid: 65534, gid: 65534 };
        let script = "ls -l /proc/self/fd; grep NoNewPrivs /proc/self/status";
        let say = |account| {
            let client = Client::from_path("/bin/sh", account).unwrap().unwrap();
            client.run(&["-c".into(), script.into()], Duration::from_secs(20)).unwrap()
        };
        let (ours, theirs) = (say(ClientAccount { uid: 0, gid: 0 }), say(nobody));
        assert!(ours.contains("(deleted)") && !theirs.contains("(deleted)"), "{theirs}");
        assert!(theirs.contains("NoNewPrivs:\t1"), "{theirs}");
    }

    /// A stranger's own client would run in root's session.
    #[test]
    fn where_the_account_is_not_trusted_its_own_client_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("psql-of-theirs");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        if !rustix::process::geteuid().is_root() {
            return hugewise_testkit::Skip("only root gives files away".into()).report();
        }
        std::os::unix::fs::chown(&path, Some(4242), Some(4242)).unwrap();
        let account = ClientAccount { uid: 4242, gid: 4242 };
        let folders = [folder.path().to_str().unwrap().to_owned(), "/bin".to_owned()];
        let find = |names: &[&str], trusts| {
            Client::find_in_folders(names, &folders, account, trusts).map(|client| client.path)
        };
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&["psql-of-theirs"], true).unwrap(), path.to_str().unwrap());
        assert!(
            find(&["psql-of-theirs"], false)
                .is_err_and(|why| why.to_string().contains("other than"))
        );
        assert_eq!(find(&["psql-of-theirs", "sh"], false).unwrap(), "/bin/sh");
    }

    /// A forged plan named a socket of its author's, and psql sent it the account's ~/.pgpass.
    #[test]
    fn a_client_of_servers_finds_no_password() {
        let client =
            Client::from_path("/bin/sh", me()).unwrap().unwrap().for_server_of(Some("postgres"));
        let script =
            "echo $HOME $PGPASSFILE $PGSERVICEFILE $PGSYSCONFDIR $PGREQUIREPEER".to_owned();
        let said = client.run(&["-c".into(), script], Duration::from_secs(20)).unwrap();
        assert_eq!(said, "/nonexistent /dev/null /dev/null /nonexistent postgres\n");
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let text = shell("yes 2>/dev/null; true", Duration::from_secs(20)).unwrap();
        assert_eq!(text.len(), 64 << 10);
    }

    #[test]
    fn a_program_that_others_may_write_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("psql");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let folders = [folder.path().to_str().unwrap().to_owned()];
        let set = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&path, 0o755);
        assert!(Client::find_in_folders(&["psql"], &folders, me(), true).is_ok());
        set(&path, 0o775);
        assert!(
            Client::find_in_folders(&["psql"], &folders, me(), true)
                .is_err_and(|why| why.to_string().contains("other than root"))
        );
        set(&path, 0o755);
        set(folder.path(), 0o777);
        assert!(Client::find_in_folders(&["psql"], &folders, me(), true).is_err());
        set(folder.path(), 0o700);
        let stranger = ClientAccount { uid: me().uid + 4242, gid: 0 };
        assert_eq!(
            Client::find_in_folders(&["psql"], &folders, stranger, true).is_ok(),
            me().uid == 0
        );
        assert!(
            Client::find_in_folders(&["mysql"], &folders, me(), true)
                .is_err_and(|why| why.to_string().contains("install"))
        );
    }
}
