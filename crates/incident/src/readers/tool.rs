//! Programs that read their own archives, where they are installed.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Refused;

/// Where packages put programs; no other place is looked at, as this runs as root.
const FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];
/// A day of samples takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
const LONGEST_COMPLAINT: u64 = 16 << 10;

/// A program, and the packages that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// On Debian and Ubuntu.
    pub(super) debian: &'static str,
    /// On Red Hat Enterprise Linux and its kin.
    pub(super) redhat: &'static str,
}

/// What a program printed, as a parser made of it, and how it ended.
#[derive(Debug)]
pub(super) struct Outcome<T> {
    pub(super) parsed: T,
    /// Why it did not end well, where it did not.
    pub(super) complaint: Option<String>,
}

impl Tool {
    /// Where it is.
    ///
    /// # Errors
    /// It is not installed; the message names the packages.
    pub(super) fn find(self) -> Result<String, Refused> {
        let paths = FOLDERS.iter().map(|folder| format!("{folder}/{}", self.name));
        paths.into_iter().find(|path| std::path::Path::new(path).is_file()).ok_or_else(|| {
            let Self { name, debian, redhat } = self;
            Refused(format!(
                "{name} reads these files, and is not installed: it is in the package {debian} of Debian and Ubuntu, \
                 {redhat} of Red Hat Enterprise Linux"
            ))
        })
    }

    /// Runs it with a stream for its input, and hands what it prints to a parser as it comes.
    ///
    /// # Errors
    /// It is not installed, or cannot be run.
    pub(super) fn run<T: Send>(
        self,
        arguments: &[String],
        input: Option<&mut dyn Read>,
        parse: impl FnOnce(&mut dyn Read) -> T + Send,
    ) -> Result<Outcome<T>, Refused> {
        let path = self.find()?;
        let mut command = Command::new(&path);
        // Its moments are told apart from the zone of whoever runs this.
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir("/").stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        hugewise_host::sys::without_terminal(&mut command);
        let failed = |error: io::Error| Refused(format!("{path}: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (done, ended) = mpsc::channel::<()>();
        let watched = Arc::clone(&child);
        let watch = thread::spawn(move || {
            let late = ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if late {
                // One that has ended by itself is gone.
                let _ = lock(&watched).kill();
            }
            late
        });
        let (parsed, complaint, unread) = thread::scope(|scope| {
            let parsed = scope.spawn(move || {
                let mut stdout = Printed(stdout);
                let parsed = parse(&mut stdout);
                // One whose pipe breaks would complain of that.
                let _ = io::copy(&mut stdout, &mut io::sink());
                parsed
            });
            let complaint = scope.spawn(move || {
                let mut words = Vec::new();
                // What it could not say it does not say.
                let _ = stderr.map(|pipe| pipe.take(LONGEST_COMPLAINT).read_to_end(&mut words));
                String::from_utf8_lossy(&words).into_owned()
            });
            let unread = input.zip(stdin).and_then(|(input, pipe)| feed(input, pipe).err());
            (parsed.join(), complaint.join().unwrap_or_default(), unread)
        });
        // Nobody may be waiting any more.
        let _ = done.send(());
        let late = watch.join().unwrap_or(false);
        let status = lock(&child).wait().map_err(failed)?;
        let parsed = parsed.map_err(|_| Refused(format!("{path}: what it printed was not understood")))?;
        let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let complaint = if late {
            Some(format!("{path} did not end in {} s", PATIENCE.as_secs()))
        } else if let Some(error) = unread {
            Some(format!("cannot be read to its end: {error}"))
        } else if status.success() {
            None
        } else if last.is_empty() {
            Some(format!("{path}: {status}"))
        } else {
            Some(format!("{path}: {last}"))
        };
        Ok(Outcome { parsed, complaint })
    }
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a program its input; one that wants no more of it is no error.
fn feed(input: &mut dyn Read, mut pipe: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        match pipe.write_all(buffer.get(..read).unwrap_or_default()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

struct Printed(Option<ChildStdout>);

impl Read for Printed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |pipe| pipe.read(buffer))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const fn tool(name: &'static str) -> Tool {
        Tool { name, debian: "pcp", redhat: "pcp-system-tools" }
    }

    fn text(stream: &mut dyn Read) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_it_prints_of_its_input_is_parsed() {
        let large = vec![b'x'; 1 << 20];
        let outcome = tool("cat").run(&[], Some(&mut large.as_slice()), text).unwrap();
        assert_eq!((outcome.parsed.len(), outcome.complaint), (1 << 20, None));
        // One that reads nothing.
        let outcome = tool("true").run(&[], Some(&mut large.as_slice()), text).unwrap();
        assert_eq!((outcome.parsed.as_str(), outcome.complaint), ("", None));
    }

    #[test]
    fn one_that_fails_or_is_not_there_is_told() {
        let missing = tool("pmrep-of-another-name").run(&[], None, text).unwrap_err();
        assert!(missing.0.contains("package pcp of Debian") && missing.0.contains("pcp-system-tools"), "{missing}");
        let failed = tool("cat").run(&["/nowhere".into()], None, text).unwrap();
        assert!(failed.complaint.unwrap().contains("No such file"));
    }
}
