//! Programs that read their own archives, where they are installed.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdout, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_host::sandbox::{Sandbox, SandboxedProcess, SandboxedRun};
use hugewise_host::sys::ResourceBounds;

use crate::{FileRefused, Series};

/// Where packages put programs; no other place is trusted, as this may run as root.
const FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];
/// A day of samples takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
const LONGEST_COMPLAINT: u64 = 16 << 10;
/// A day of samples is some megabytes of text.
const MOST_PRINTED: u64 = 512 << 20;
/// What an archive's reader may use; it writes no file.
const BOUNDS: ResourceBounds =
    ResourceBounds { seconds: 600, memory: 4 << 30, file: 0, descriptors: 256, processes: 16 };

#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalTool {
    pub(super) name: &'static str,
    pub(super) debian: &'static str,
    pub(super) redhat: &'static str,
}

#[derive(Debug)]
pub(super) struct ToolOutcome<T> {
    pub(super) parsed: T,
    /// Why it did not end well.
    pub(super) complaint: Option<String>,
}

impl ToolOutcome<Result<Series, FileRefused>> {
    /// The series, with the complaint as a problem; without a series, the complaint is the reason.
    pub(super) fn into_series(self) -> Result<Series, FileRefused> {
        match (self.parsed, self.complaint) {
            (Ok(mut series), Some(complaint)) => {
                series.add_problem(complaint);
                Ok(series)
            }
            (Err(_), Some(complaint)) => Err(FileRefused(complaint)),
            (parsed, None) => parsed,
        }
    }
}

impl ExternalTool {
    pub(super) fn find_path(self) -> Result<String, FileRefused> {
        let paths = FOLDERS.iter().map(|folder| format!("{folder}/{}", self.name));
        paths.into_iter().find(|path| Path::new(path).is_file()).ok_or_else(|| {
            let Self { name, debian, redhat } = self;
            FileRefused(format!(
                "{name} reads these files, but is not installed: install the package {debian} on \
                     Debian and Ubuntu, \
                 {redhat} on Red Hat Enterprise Linux"
            ))
        })
    }

    /// Runs it in a sandbox, and hands what it prints to a parser as it comes.
    ///
    /// # Errors
    /// It is not installed, or cannot be run: root does not run what others could have put there.
    pub(super) fn run<T: Send>(
        self,
        cage: Sandbox,
        folder: &Path,
        arguments: &[String],
        input: Option<&mut dyn Read>,
        parse: impl FnOnce(&mut dyn Read) -> T + Send,
    ) -> Result<ToolOutcome<T>, FileRefused> {
        let path = self.find_path()?;
        // Its times must not depend on the zone of whoever runs this.
        let environment = [("TZ", OsStr::new("UTC"))];
        let run = SandboxedRun {
            arguments,
            folder,
            environment: &environment,
            input: input.is_some(),
            offline: true,
            bounds: BOUNDS,
        };
        let mut caged = cage.run(&path, run).map_err(|why| FileRefused(why.to_string()))?;
        let (stdin, stdout, stderr) =
            (caged.take_stdin(), caged.take_stdout(), caged.take_stderr());
        let (parsed, complaint, unread, ended) = thread::scope(|scope| {
            let parsed = scope.spawn(move || {
                let mut stdout = Printed { pipe: stdout, left: MOST_PRINTED };
                let parsed = parse(&mut stdout);
                // A program whose pipe breaks would complain of that.
                let _ = io::copy(&mut stdout, &mut io::sink());
                (parsed, stdout.left == 0)
            });
            let complaint = scope.spawn(move || {
                let mut words = Vec::new();
                let _ = stderr.map(|pipe| pipe.take(LONGEST_COMPLAINT).read_to_end(&mut words));
                String::from_utf8_lossy(&words).into_owned()
            });
            let ended = scope.spawn(move || wait_for_exit(caged));
            let unread = input.zip(stdin).and_then(|(input, pipe)| feed_input(input, pipe).err());
            (parsed.join(), complaint.join().unwrap_or_default(), unread, ended.join())
        });
        let (parsed, too_much) = parsed
            .map_err(|_| FileRefused(format!("{path}: what it printed was not understood")))?;
        let ended =
            ended.unwrap_or(Ok(None)).map_err(|error| FileRefused(format!("{path}: {error}")))?;
        let last =
            complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let complaint = match (ended, unread) {
            (None, _) => Some(format!("{path} did not end within {} s", PATIENCE.as_secs())),
            (_, Some(error)) => Some(format!("cannot be read to its end: {error}")),
            _ if too_much => Some(format!(
                "{path} printed more than {} MiB: the rest is left out",
                MOST_PRINTED >> 20
            )),
            (Some(status), _) if status.success() => None,
            (Some(status), _) if last.is_empty() => Some(format!("{path}: {status}")),
            _ => Some(format!("{path}: {last}")),
        };
        Ok(ToolOutcome { parsed, complaint })
    }
}

/// `None` if it did not end by itself. Processes that it left running would keep its pipes open.
fn wait_for_exit(mut caged: SandboxedProcess) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = caged.try_wait()? {
            let _ = caged.kill_and_wait();
            return Ok(Some(status));
        }
        if begun.elapsed() >= PATIENCE {
            let _ = caged.kill_and_wait();
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// A program that wants no more input is no error.
fn feed_input(input: &mut dyn Read, mut pipe: impl Write) -> io::Result<()> {
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
mod tests {
    use super::*;

    const fn tool_named(name: &'static str) -> ExternalTool {
        ExternalTool { name, debian: "pcp", redhat: "pcp-system-tools" }
    }

    fn read_text(stream: &mut dyn Read) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_it_prints_of_its_input_is_parsed() {
        let large = vec![b'x'; 1 << 20];
        let outcome = tool_named("cat")
            .run(Sandbox::new(), Path::new("/"), &[], Some(&mut large.as_slice()), read_text)
            .unwrap();
        assert_eq!((outcome.parsed.len(), outcome.complaint), (1 << 20, None));
        // One that reads nothing.
        let outcome = tool_named("true")
            .run(Sandbox::new(), Path::new("/"), &[], Some(&mut large.as_slice()), read_text)
            .unwrap();
        assert_eq!((outcome.parsed.as_str(), outcome.complaint), ("", None));
    }

    #[test]
    fn one_that_fails_or_is_not_there_is_told() {
        let missing = tool_named("pmrep-of-another-name")
            .run(Sandbox::new(), Path::new("/"), &[], None, read_text)
            .unwrap_err();
        assert!(
            missing.0.contains("package pcp on Debian") && missing.0.contains("pcp-system-tools"),
            "{missing}"
        );
        let failed = tool_named("cat")
            .run(Sandbox::new(), Path::new("/"), &["/nowhere".into()], None, read_text)
            .unwrap();
        assert!(failed.complaint.unwrap().contains("No such file"));
    }

    #[test]
    fn what_it_leaves_running_and_prints_without_end_keeps_nobody_waiting() {
        let script = |words: &str| ["-c".to_owned(), words.to_owned()];
        let left = tool_named("sh")
            .run(Sandbox::new(), Path::new("/"), &script("sleep 600 & echo said"), None, read_text)
            .unwrap();
        assert_eq!((left.parsed.as_str(), left.complaint), ("said\n", None));
        let count = |stream: &mut dyn Read| io::copy(stream, &mut io::sink()).unwrap();
        let endless = tool_named("sh")
            .run(Sandbox::new(), Path::new("/"), &script("exec cat /dev/zero"), None, count)
            .unwrap();
        assert!(endless.parsed >= MOST_PRINTED && endless.parsed < MOST_PRINTED + (1 << 20));
        assert!(endless.complaint.unwrap().contains("left out"));
    }
}
