//! Runs a client program without trusting it more than its server's account.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use rustix::fs::{FileType, Mode, Stat};
use rustix::process::{Signal, kill_process_group};

/// More than any answer has.
const LONGEST_ANSWER: u64 = 64 << 10;
const LONGEST_COMPLAINT: u64 = 4 << 10;

/// The account that a server runs under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A program of the server's that may be run.
#[derive(Debug)]
pub(crate) struct Client {
    path: String,
    account: Account,
}

/// How a program ended, and the beginning of what it said.
pub(crate) struct Outcome {
    pub(crate) path: String,
    pub(crate) success: bool,
    pub(crate) answer: String,
    pub(crate) complaint: String,
}

impl Outcome {
    /// The answer of a program that ended well; the first line of its complaint otherwise.
    pub(crate) fn into_answer(self) -> Result<String, String> {
        if self.success {
            return Ok(self.answer);
        }
        let first = self.complaint.lines().next().unwrap_or("failed without a word");
        Err(format!("{}: {}", self.path, first.trim()))
    }
}

impl Client {
    /// The first program of `names` in `folders` that nobody but root and the account itself could
    /// have put there.
    ///
    /// # Errors
    ///
    /// There is none, or each could have been put there by somebody else.
    pub(super) fn find(names: &[&str], folders: &[String], account: Account) -> Result<Self, String> {
        let mut distrusted = None;
        for folder in folders {
            for name in names {
                let path = format!("{folder}/{name}");
                match Self::at(&path, account) {
                    Some(Ok(client)) => return Ok(client),
                    Some(Err(_)) => distrusted = Some(path),
                    None => {}
                }
            }
        }
        let names = names.join(" or ");
        Err(match distrusted {
            Some(path) => {
                format!("not run: others than root may write {path}; install {names} from the system's packages")
            }
            None => format!("no program {names} in {}; install the client", folders.join(", ")),
        })
    }

    /// The program at `path`; `None` where there is none, an error where others than root and the
    /// account could have put it there.
    pub(crate) fn at(path: &str, account: Account) -> Option<Result<Self, String>> {
        let file = rustix::fs::stat(path).ok()?;
        if FileType::from_raw_mode(file.st_mode) != FileType::RegularFile {
            return None;
        }
        Some(match trusted(path, account) {
            true => Ok(Self { path: path.to_owned(), account }),
            false => Err(format!("not run: others than root may write {path}")),
        })
    }

    /// What the program prints.
    ///
    /// # Errors
    ///
    /// It could not be run, failed (with the first line of its complaint), or took too long.
    pub(crate) fn run(&self, arguments: &[String], patience: Duration) -> Result<String, String> {
        self.execute(Command::new(&self.path), arguments, patience)?.into_answer()
    }

    /// Runs the program with no more than `most` of address space, so that it cannot map more than
    /// that whatever it is told.
    ///
    /// # Errors
    ///
    /// It could not be run or took too long.
    pub(crate) fn run_within(&self, most: Bytes, arguments: &[String], patience: Duration) -> Result<Outcome, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &(most.get() / 1024).to_string(), &self.path]);
        self.execute(command, arguments, patience)
    }

    fn execute(&self, mut command: Command, arguments: &[String], patience: Duration) -> Result<Outcome, String> {
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it starts can be ended with it.
        command.process_group(0);
        if rustix::process::geteuid().is_root() {
            // Root's supplementary groups go with its uid.
            command.gid(self.account.gid).uid(self.account.uid);
        }
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.path))?;
        let answer = read_aside(child.stdout.take(), LONGEST_ANSWER);
        let complaint = read_aside(child.stderr.take(), LONGEST_COMPLAINT);
        let success = wait(&mut child, patience).map_err(|why| format!("{}: {why}", self.path))?;
        let text = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
        Ok(Outcome { path: self.path.clone(), success, answer: text(answer), complaint: text(complaint) })
    }
}

/// Whether nobody but root and the account can write the file or replace a folder on the way to it.
fn trusted(path: &str, account: Account) -> bool {
    let Ok(real) = std::path::Path::new(path).canonicalize() else { return false };
    real.ancestors().all(|part| rustix::fs::stat(part).is_ok_and(|stat| safe(&stat, account)))
}

/// In a folder with the sticky bit only the owner can replace what is his.
fn safe(stat: &Stat, account: Account) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let others = mode.intersects(Mode::WGRP | Mode::WOTH) && !(folder && mode.contains(Mode::SVTX));
    (stat.st_uid == 0 || stat.st_uid == account.uid) && !others
}

/// Reads at most `most` bytes in a thread of its own: a child that fills one pipe never waits for the other.
fn read_aside(pipe: Option<impl Read + Send + 'static>, most: u64) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Half an answer is none: the caller looks for what it needs.
        let _ = pipe.map(|pipe| pipe.take(most).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether the child ends well; it is killed where it does not end in time.
fn wait(child: &mut Child, patience: Duration) -> Result<bool, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if started.elapsed() < patience => thread::sleep(Duration::from_millis(10)),
            other => {
                // It is gone or will be: what matters is that nobody waits for it.
                let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.kill();
                let _ = child.wait();
                return Err(match other {
                    Err(error) => error.to_string(),
                    Ok(_) => format!("no answer within {:.1} s", patience.as_secs_f32()),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn me() -> Account {
        Account { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
    }

    fn shell(script: &str, patience: Duration) -> Result<String, String> {
        let client = Client { path: "/bin/sh".into(), account: me() };
        client.run(&["-c".into(), script.into()], patience)
    }

    #[test]
    fn an_answer_a_complaint_and_a_silence() {
        let patience = Duration::from_secs(20);
        assert_eq!(shell("echo yes", patience).unwrap(), "yes\n");
        assert_eq!(shell("echo 'who are you' >&2; exit 2", patience).unwrap_err(), "/bin/sh: who are you");
        assert!(shell("exec sleep 60", Duration::from_millis(50)).unwrap_err().contains("no answer"));
    }

    #[test]
    fn what_it_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; wait", pid.display());
        assert!(shell(&script, Duration::from_secs(1)).unwrap_err().contains("no answer"));
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
        let source = hugewise_host::source::Live::new();
        source.read(path.to_str().unwrap()).into_known().unwrap_or_default()
    }

    #[test]
    fn a_program_gets_no_more_space_than_it_may_have() {
        let shell = Client::at("/bin/sh", me()).unwrap().unwrap();
        let arguments = ["-c".to_owned(), "ulimit -v".to_owned()];
        let outcome = shell.run_within(Bytes::from_mib(512), &arguments, Duration::from_secs(20)).unwrap();
        assert_eq!((outcome.success, outcome.answer.trim()), (true, "524288"));
    }

    #[test]
    fn nothing_of_our_environment_gets_in() {
        let seen =
            shell("env | sort | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=", Duration::from_secs(20)).unwrap();
        assert_eq!(seen, "LC_ALL=C\nPATH=/usr/bin:/bin\n");
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
        assert!(Client::find(&["psql"], &folders, me()).is_ok());
        set(&path, 0o775);
        assert!(Client::find(&["psql"], &folders, me()).is_err_and(|why| why.contains("others")));
        set(&path, 0o755);
        set(folder.path(), 0o777);
        assert!(Client::find(&["psql"], &folders, me()).is_err());
        set(folder.path(), 0o700);
        let stranger = Account { uid: me().uid + 4242, gid: 0 };
        assert_eq!(Client::find(&["psql"], &folders, stranger).is_ok(), me().uid == 0);
        assert!(Client::find(&["mysql"], &folders, me()).is_err_and(|why| why.contains("install")));
    }
}
