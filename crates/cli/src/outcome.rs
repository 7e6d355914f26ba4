//! How a run ends: what is printed last, and the exit code.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use hugewise_host::Source;
use hugewise_report::plain;
use hugewise_report::screen::Spans;

use crate::given::Given;
use crate::terminal;

/// A run that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing wrong.
    Fine,
    /// Findings at or above the level that was asked for.
    Found,
    /// A verdict is missing because facts could not be read.
    Incomplete,
    /// What a monitoring plugin calls critical: its codes are others than the program's own.
    Critical,
    /// A program that was started ended with this code.
    Ended(u8),
}

/// A run that could not do its work: what happened, to what, and what to do. It is said on one line, whatever the host
/// has put into it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// What happened.
    pub(crate) fn message(&self) -> &str {
        &self.0
    }

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(without_number(&plain::clean(&message.into())))
    }

    /// With further lines, such as a diff, each of which is one already.
    pub(crate) fn of_lines(message: &str) -> Self {
        Self(plain::lines(message).trim_end().to_owned())
    }
}

/// The message without the kernel's numbers behind its own words, as in `No such file or directory (os error 2)`.
fn without_number(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|digit| digit.is_ascii_digit()) => text.push_str(rest),
            _ => text.extend([" (os error ", part]),
        }
    }
    text
}

/// This machine, or what was captured of another one.
pub(crate) fn open(root: Option<&Path>) -> Result<Box<dyn Source>, Failure> {
    let opened = match root {
        None => hugewise_host::source::open(None),
        // A tar is read to its end here.
        Some(path) => {
            let what = format!("reading {}", plain::clean(&path.to_string_lossy()));
            crate::terminal::waiting(&what, || hugewise_host::source::open(root))
        }
    };
    opened.map_err(|error| {
        let path = error.path.clone();
        // What other commands take is said by name.
        let instead = root.and_then(|_| Given::at(&path).instead_of("check", &path));
        match instead {
            Some(instead) => Failure::new(format!("{} is not a captured host: {instead}", path.display())),
            None => Failure::new(format!("cannot read {error}")),
        }
    })
}

/// Writes to standard output. A reader that went away is no failure: it has seen enough.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(format!("standard output cannot be written: {error}"))),
        Ok(()) => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// Whether a file can be written, so that nobody waits for what then cannot be kept. One that is there stays as it is.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = open_ours(path, std::fs::OpenOptions::new().append(true).create(true));
    opened.map(drop).map_err(|error| cannot_write(path, &error))
}

/// Writes a file.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let opened = open_ours(path, std::fs::OpenOptions::new().write(true).create(true).truncate(true));
    let written = opened.and_then(|mut file| file.write_all(text));
    written.map_err(|error| cannot_write(path, &error))
}

/// Puts a file in its place as a whole: who reads it meanwhile sees the one before or this one, and a link or a device in its
/// place stays what it is. It tells of a host's configuration, so only its maker may read it.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> Result<(), Failure> {
    replace(path, text).map_err(|error| cannot_write(path, &error))
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{FileType, lstat};
    let name = path.file_name().ok_or_else(|| io::Error::other("is not a file name"))?;
    let is_other = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile;
    if lstat(path).is_ok_and(is_other) {
        return Err(io::Error::other(
            "is not a regular file, and hugewise would have to replace it; name another file",
        ));
    }
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Begins a file that is written as it comes.
pub(crate) fn create_file(path: &Path) -> Result<io::BufWriter<std::fs::File>, Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let opened = open_ours(path, std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600));
    opened.map(io::BufWriter::new).map_err(|error| cannot_write(path, &error))
}

/// Opens a file to write to. A link that another user has put in its place, as /tmp lets everybody, is not followed.
fn open_ours(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{FileType, OFlags, lstat};
    let link = lstat(path).ok().filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    match link {
        Some(link) if link.st_uid != 0 && link.st_uid != rustix::process::geteuid().as_raw() => Err(io::Error::other(
            format!("is a link that belongs to user {}, so hugewise does not follow it", link.st_uid),
        )),
        Some(_) => options.open(path),
        // One that comes between is not followed either.
        None => options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path),
    }
}

/// Writes lines to standard output that may hold what others named.
pub(crate) fn print_clean(text: &str) -> Result<(), Failure> {
    print(plain::lines(text).as_bytes())
}

/// Says on standard error, on one line, why the answer is not what was hoped for.
pub(crate) fn complain(message: &str, outcome: Outcome) -> Result<Outcome, Failure> {
    say(&without_number(&plain::clean(message)));
    Ok(outcome)
}

fn say(message: &str) {
    let message = format!("hugewise: {message}");
    let text = terminal::width_of_errors().map_or(message.clone(), |width| wrapped(&message, width));
    // Nobody is left to tell where standard error is closed; the exit code still tells.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A message in lines of so many columns; those of a diff stay as they are, to be copied.
fn wrapped(message: &str, width: usize) -> String {
    /// As far as `hugewise: ` reaches.
    const HANG: usize = 10;
    /// What is no line of a diff.
    const TIP: &str = "  tip: ";
    let line = |line: &str| match line.starts_with([' ', '+', '-', '@', '\\']) && !line.starts_with(TIP) {
        true => line.to_owned(),
        false => {
            let lines = Spans::from(line).wrapped(width, HANG).into_iter();
            lines.map(|line| line.pieces().map(|(_, text)| text).collect()).collect::<Vec<String>>().join("\n")
        }
    };
    message.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Says on standard error what went wrong, and turns the result into an exit code.
pub(crate) fn finish(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Critical) => ExitCode::from(2),
        Ok(Outcome::Incomplete) => ExitCode::from(3),
        Ok(Outcome::Ended(code)) => ExitCode::from(code),
        Err(Failure(message)) => {
            say(&message);
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_leaves_out_the_kernels_number() {
        let said = |message: &str| Failure::new(message).message().to_owned();
        assert_eq!(said("cannot write x: File exists (os error 17); go on"), "cannot write x: File exists; go on");
        assert_eq!(said("a (os error 2) b (os error 13)"), "a b");
        assert_eq!(said("a file named (os error x"), "a file named (os error x");
    }

    #[test]
    fn a_message_fits_its_terminal_and_a_diff_stays_whole() {
        let message = format!("hugewise: nothing to size: {}\n+{}", "a word and ".repeat(12), "x".repeat(90));
        let text = wrapped(&message, 40);
        let (diff, said): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('+'));
        assert!(said.len() > 3 && said.iter().all(|line| line.len() <= 40), "{text}");
        assert_eq!((diff.len(), diff[0].len()), (1, 91));
        let joined = said.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, message.lines().next().unwrap().trim_end());
    }
}
