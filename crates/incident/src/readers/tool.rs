//! Programs that read their own archives, where they are installed.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdout, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_host::caged::{Cage, Caged, Run};
use hugewise_host::sys::Bounds;

use crate::Refused;

/// Where packages put programs; no other place is looked at, as this runs as root.
const FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];
/// A day of samples takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
const LONGEST_COMPLAINT: u64 = 16 << 10;
/// A day of samples is some megabytes of text.
const MOST_PRINTED: u64 = 512 << 20;
/// What an archive's reader may use; it writes no file.
const BOUNDS: Bounds = Bounds { seconds: 600, memory: 4 << 30, file: 0, descriptors: 256, processes: 16 };

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
        paths.into_iter().find(|path| Path::new(path).is_file()).ok_or_else(|| {
            let Self { name, debian, redhat } = self;
            Refused(format!(
                "{name} reads these files, but is not installed: install the package {debian} on Debian and Ubuntu, \
                 {redhat} on Red Hat Enterprise Linux"
            ))
        })
    }

    /// Runs it in a cage and a folder, with a stream for its input, and hands what it prints to a parser as it comes.
    ///
    /// # Errors
    /// It is not installed, or cannot be run: as root also where others than root could have put it there, or where it
    /// cannot be run without root's rights.
    pub(super) fn run<T: Send>(
        self,
        cage: Cage,
        folder: &Path,
        arguments: &[String],
        input: Option<&mut dyn Read>,
        parse: impl FnOnce(&mut dyn Read) -> T + Send,
    ) -> Result<Outcome<T>, Refused> {
        let path = self.find()?;
        // Its moments are told apart from the zone of whoever runs this.
        let environment = [("TZ", OsStr::new("UTC"))];
        let run =
            Run { arguments, folder, environment: &environment, input: input.is_some(), offline: true, bounds: BOUNDS };
        let mut caged = cage.run(&path, run).map_err(|why| Refused(why.to_string()))?;
        let (stdin, stdout, stderr) = (caged.input(), caged.output(), caged.complaint());
        let (parsed, complaint, unread, ended) = thread::scope(|scope| {
            let parsed = scope.spawn(move || {
                let mut stdout = Printed { pipe: stdout, left: MOST_PRINTED };
                let parsed = parse(&mut stdout);
                // One whose pipe breaks would complain of that.
                let _ = io::copy(&mut stdout, &mut io::sink());
                (parsed, stdout.left == 0)
            });
            let complaint = scope.spawn(move || {
                let mut words = Vec::new();
                // What it could not say it does not say.
                let _ = stderr.map(|pipe| pipe.take(LONGEST_COMPLAINT).read_to_end(&mut words));
                String::from_utf8_lossy(&words).into_owned()
            });
            let ended = scope.spawn(move || watch(caged));
            let unread = input.zip(stdin).and_then(|(input, pipe)| feed(input, pipe).err());
            (parsed.join(), complaint.join().unwrap_or_default(), unread, ended.join())
        });
        let (parsed, too_much) = parsed.map_err(|_| Refused(format!("{path}: what it printed was not understood")))?;
        let ended = ended.unwrap_or(Ok(None)).map_err(|error| Refused(format!("{path}: {error}")))?;
        let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let complaint = match (ended, unread) {
            (None, _) => Some(format!("{path} did not end within {} s", PATIENCE.as_secs())),
            (_, Some(error)) => Some(format!("cannot be read to its end: {error}")),
            _ if too_much => Some(format!("{path} printed more than {} MiB: the rest is left out", MOST_PRINTED >> 20)),
            (Some(status), _) if status.success() => None,
            (Some(status), _) if last.is_empty() => Some(format!("{path}: {status}")),
            _ => Some(format!("{path}: {last}")),
        };
        Ok(Outcome { parsed, complaint })
    }
}

/// Waits for a program's end; `None` where that was not by itself. What it has left running would keep its pipes open.
fn watch(mut caged: Caged) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = caged.ended()? {
            // Those that it leaves behind go with it.
            let _ = caged.end();
            return Ok(Some(status));
        }
        if begun.elapsed() >= PATIENCE {
            let _ = caged.end();
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
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

/// What it prints, up to a bound; one that prints more finds nobody who reads.
struct Printed {
    pipe: Option<ChildStdout>,
    left: u64,
}

impl Read for Printed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        let read = pipe.read(buffer)?;
        self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        if self.left == 0 {
            self.pipe = None;
        }
        Ok(read)
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
        let outcome = tool("cat").run(Cage::new(), Path::new("/"), &[], Some(&mut large.as_slice()), text).unwrap();
        assert_eq!((outcome.parsed.len(), outcome.complaint), (1 << 20, None));
        // One that reads nothing.
        let outcome = tool("true").run(Cage::new(), Path::new("/"), &[], Some(&mut large.as_slice()), text).unwrap();
        assert_eq!((outcome.parsed.as_str(), outcome.complaint), ("", None));
    }

    #[test]
    fn one_that_fails_or_is_not_there_is_told() {
        let missing = tool("pmrep-of-another-name").run(Cage::new(), Path::new("/"), &[], None, text).unwrap_err();
        assert!(missing.0.contains("package pcp on Debian") && missing.0.contains("pcp-system-tools"), "{missing}");
        let failed = tool("cat").run(Cage::new(), Path::new("/"), &["/nowhere".into()], None, text).unwrap();
        assert!(failed.complaint.unwrap().contains("No such file"));
    }

    #[test]
    fn what_it_leaves_running_and_prints_without_end_keeps_nobody_waiting() {
        let script = |words: &str| ["-c".to_owned(), words.to_owned()];
        let left = tool("sh").run(Cage::new(), Path::new("/"), &script("sleep 600 & echo said"), None, text).unwrap();
        assert_eq!((left.parsed.as_str(), left.complaint), ("said\n", None));
        let count = |stream: &mut dyn Read| io::copy(stream, &mut io::sink()).unwrap();
        let endless = tool("sh").run(Cage::new(), Path::new("/"), &script("exec cat /dev/zero"), None, count).unwrap();
        assert!(endless.parsed >= MOST_PRINTED && endless.parsed < MOST_PRINTED + (1 << 20));
        assert!(endless.complaint.unwrap().contains("left out"));
    }
}
