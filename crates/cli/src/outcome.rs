//! How a run ends: the last output, and the exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use hugewise_host::Source;
use hugewise_host::source::output_place::{OutputPlace, open_output_file};
use hugewise_report::screen::Spans;
use hugewise_report::{UnnamedFile, plain};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::hints::PathKind;
use crate::terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Fine,
    /// Findings at or above the requested level.
    Found,
    /// A verdict is missing because facts could not be read.
    Incomplete,
    /// As monitoring plugins call it, with their exit code.
    Critical,
    /// A started program ended with this code.
    Ended(u8),
}

/// What happened, to what, and what to do: one escaped line.
#[derive(Debug)]
pub(crate) struct CommandFailure(String);

impl CommandFailure {
    pub(crate) fn message(&self) -> &str {
        &self.0
    }

    pub(crate) fn new(message: impl Display) -> Self {
        Self(without_number(&plain::escape_line(&message.to_string())))
    }

    pub(crate) fn for_path(path: &Path, why: impl Display) -> Self {
        Self::new(format!("{}: {why}", path.display()))
    }

    /// Keeps further lines, such as a diff.
    pub(crate) fn of_lines(message: &str) -> Self {
        Self(plain::escape_lines(message).trim_end().to_owned())
    }
}

/// Drops the kernel's numbers, as in `No such file or directory (os error 2)`.
fn without_number(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|digit| digit.is_ascii_digit()) => {
                text.push_str(rest)
            }
            _ => text.extend([" (os error ", part]),
        }
    }
    text
}

/// This machine, or a captured one.
pub(crate) fn open_source(root: Option<&Path>) -> Result<Box<dyn Source>, CommandFailure> {
    let opened = match root {
        None => hugewise_host::source::open_source(None),
        // A tar is read to its end here.
        Some(path) => {
            let what = format!("reading {}", plain::escape_line(&path.to_string_lossy()));
            crate::terminal::show_waiting(&what, || hugewise_host::source::open_source(root))
        }
    };
    opened.map_err(|error| {
        let path = error.path.clone();
        let instead = root.and_then(|_| PathKind::from_path(&path).instead_of("check", &path));
        match instead {
            Some(instead) => {
                CommandFailure::new(format!("{} is not a captured host: {instead}", path.display()))
            }
            None => CommandFailure::new(format!("cannot read {error}")),
        }
    })
}

/// Renders all of a report before any of it is printed.
pub(crate) fn render_report(
    write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<Vec<u8>, CommandFailure> {
    let mut text = Vec::new();
    match write(&mut text) {
        Ok(()) => Ok(text),
        Err(error) => Err(CommandFailure::new(format!("the report cannot be made: {error}"))),
    }
}

pub(crate) fn absolute_path(path: &Path) -> Result<String, CommandFailure> {
    let failure = |why: &str| CommandFailure::for_path(path, why);
    let absolute = std::path::absolute(path).map_err(|error| failure(&error.to_string()))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| failure("the path is not UTF-8; hugewise cannot read it"))
}

/// A reader that went away has seen enough.
pub(crate) fn print_output(text: &[u8]) -> Result<(), CommandFailure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(CommandFailure::new(format!("standard output cannot be written: {error}")))
        }
        Ok(()) => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::new(format!("cannot write {}: {error}", path.display()))
}

/// Fails early, without changing an existing file.
pub(crate) fn check_writable(path: &Path) -> Result<(), CommandFailure> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
    let opened = open_output_file(path, flags, READABLE);
    opened.map(drop).map_err(|error| cannot_write(path, &error))
}

pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<(), CommandFailure> {
    let opened = open_output_file(path, REWRITTEN, READABLE);
    let written = opened.and_then(|mut file| file.write_all(text));
    written.map_err(|error| cannot_write(path, &error))
}

/// Replaces a file as a whole: readers see the previous file or this one, and a link or a device
/// stays what it is. Only its owner may read it, as it shows a host's configuration.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> Result<(), CommandFailure> {
    try_replace_file(path, text).map_err(|error| cannot_write(path, &error))
}

fn try_replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let place = OutputPlace::find(path)?;
    let is_other = |stat: Stat| FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile;
    if place.stat().is_ok_and(is_other) {
        return Err(io::Error::other(
            "is not a regular file, and hugewise would have to replace it; name another file",
        ));
    }
    let (unnamed, mut file) = UnnamedFile::create_at(place, 0o600)?;
    file.write_all(text)?;
    unnamed.rename_to_target(&file)
}

pub(crate) fn create_file(path: &Path) -> Result<io::BufWriter<std::fs::File>, CommandFailure> {
    let opened = open_output_file(path, REWRITTEN, Mode::RUSR | Mode::WUSR);
    opened.map(io::BufWriter::new).map_err(|error| cannot_write(path, &error))
}

const REWRITTEN: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC);
/// Less the umask.
const READABLE: Mode = Mode::from_raw_mode(0o666);

/// Escapes what others named.
pub(crate) fn print_clean(text: &str) -> Result<(), CommandFailure> {
    print_output(plain::escape_lines(text).as_bytes())
}

pub(crate) fn print_complaint(
    message: &str,
    outcome: CommandOutcome,
) -> Result<CommandOutcome, CommandFailure> {
    print_error(&without_number(&plain::escape_line(message)));
    Ok(outcome)
}

fn print_error(message: &str) {
    let message = format!("hugewise: {message}");
    let text =
        terminal::width_of_errors().map_or(message.clone(), |width| wrap_message(&message, width));
    // If standard error is closed, the exit code still tells.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Lines of a diff stay whole, so that they can be copied.
fn wrap_message(message: &str, width: usize) -> String {
    /// The width of `hugewise: `.
    const HANG: usize = 10;
    /// Indented, yet no line of a diff.
    const TIP: &str = "  tip: ";
    let line =
        |line: &str| match line.starts_with([' ', '+', '-', '@', '\\']) && !line.starts_with(TIP) {
            true => line.to_owned(),
            false => {
                let lines = Spans::from(line).wrap_lines(width, HANG).into_iter();
                lines
                    .map(|line| line.pieces().map(|(_, text)| text).collect())
                    .collect::<Vec<String>>()
                    .join("\n")
            }
        };
    message.lines().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn report_exit_code(result: Result<CommandOutcome, CommandFailure>) -> ExitCode {
    match result {
        Ok(CommandOutcome::Fine) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Found) => ExitCode::from(1),
        Ok(CommandOutcome::Critical) => ExitCode::from(2),
        Ok(CommandOutcome::Incomplete) => ExitCode::from(3),
        Ok(CommandOutcome::Ended(code)) => ExitCode::from(code),
        Err(CommandFailure(message)) => {
            print_error(&message);
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_leaves_out_the_kernels_number() {
        let said = |message: &str| CommandFailure::new(message).message().to_owned();
        assert_eq!(
            said("cannot write x: File exists (os error 17); go on"),
            "cannot write x: File exists; go on"
        );
        assert_eq!(said("a (os error 2) b (os error 13)"), "a b");
        assert_eq!(said("a file named (os error x"), "a file named (os error x");
    }

    #[test]
    fn a_message_fits_its_terminal_and_a_diff_stays_whole() {
        let message =
            format!("hugewise: nothing to size: {}\n+{}", "a word and ".repeat(12), "x".repeat(90));
        let text = wrap_message(&message, 40);
        let (diff, said): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('+'));
        assert!(said.len() > 3 && said.iter().all(|line| line.len() <= 40), "{text}");
        assert_eq!((diff.len(), diff[0].len()), (1, 91));
        let joined = said.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, message.lines().next().unwrap().trim_end());
    }
}
