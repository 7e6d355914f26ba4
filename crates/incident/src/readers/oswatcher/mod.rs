//! Archives of OSWatcher and ExaWatcher, and logs that are made like them: a date, and behind it what vmstat, iostat, top,
//! ps or the kernel's slabinfo or meminfo printed then.
//!
//! A snapshot is a sample at its date, with nothing in it where the tool could not be run; what runs on behind one date
//! (`top -n 720`) is a sample a pass. What tools print first, since the boot, is left out.

mod named;
mod snapshot;

use std::io::Read;

use self::named::Named;
use self::snapshot::Snapshot;
use super::iostat;
use super::lines::{self, End};
use super::proc_log;
use super::ps;
use super::slabinfo::Slabs;
use super::stamp::Stamp;
use super::top::Pass;
use super::vmstat;
use crate::{Format, Refused, Series, Tool};

/// Command lines of `ps` and top's are cut here.
const LONGEST_LINE: u64 = 64 << 10;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    OsWatcher,
    ExaWatcher,
    Other,
}

/// The tool that a line begins to be of.
fn tool_of(line: &str) -> Option<Tool> {
    if is_vmstat(line) {
        Some(Tool::Vmstat)
    } else if iostat::heading(line) {
        Some(Tool::Iostat)
    } else if Pass::heading(line) {
        Some(Tool::Top)
    } else if Slabs::heading(line) {
        Some(Tool::Slabinfo)
    } else if line.starts_with("MemTotal:") {
        Some(Tool::Meminfo)
    } else if ps::Table::heading(line) {
        Some(Tool::Ps)
    } else {
        None
    }
}

const fn format(author: Author, tool: Tool) -> Format {
    match author {
        Author::OsWatcher => Format::OsWatcher(tool),
        Author::ExaWatcher => Format::ExaWatcher(tool),
        Author::Other => Format::Loop(tool),
    }
}

fn is_vmstat(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next() == Some("r") && words.next() == Some("b") && words.next() == Some("swpd")
}

fn author(head: &str) -> Author {
    for line in head.lines() {
        if line.starts_with("Linux OSWbb") || line.starts_with("zzz ***") {
            return Author::OsWatcher;
        }
        if line.starts_with("zzz <") || line.starts_with("# Starting Time:") {
            return Author::ExaWatcher;
        }
    }
    Author::Other
}

/// Whether a text was written by OSWatcher or ExaWatcher, and not by somebody's loop.
pub(super) fn is_watchers(head: &[u8]) -> bool {
    author(&String::from_utf8_lossy(head)) != Author::Other
}

/// Whether a text begins as these files do.
pub(super) fn begins(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let tools = || head.lines().filter_map(tool_of);
    match author(&head) {
        Author::OsWatcher | Author::ExaWatcher => true,
        // Its lines have times of their own.
        Author::Other if head.lines().any(vmstat::is_timed) => false,
        Author::Other if head.lines().any(|line| Stamp::parse(line).is_some()) => {
            tools().any(|tool| tool != Tool::Meminfo)
        }
        // Refused, with the reason.
        Author::Other => head.lines().next().is_some_and(Pass::heading),
    }
}

/// Reads one such file; its name says the host, and the day where its dates do not. What the kernel's files say is a
/// series of its own beside that of the tools.
///
/// # Errors
/// It has no date, is of a tool that is not read, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, Refused> {
    let named = Named::of(source);
    let mut head = Vec::new();
    (&mut *stream).take(super::HEAD).read_to_end(&mut head).map_err(|error| Refused(error.to_string()))?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let author = author(&text);
    let series = |tool: Tool| {
        let mut series = Series::new(source, format(author, tool));
        series.host.clone_from(&named.host);
        series
    };
    let tool = text.lines().filter_map(tool_of).find(|tool| *tool != Tool::Meminfo);
    let kernel = proc_log::begins(&head) || text.lines().any(|line| tool_of(line) == Some(Tool::Meminfo));
    let mut whole = head.as_slice().chain(stream);
    let Some(tool) = tool else {
        if kernel {
            let log = proc_log::read_stamped(&mut whole, series(Tool::Meminfo), |line| named.stamp(line))?;
            return Ok(vec![log]);
        }
        return Err(Refused(if text.lines().any(|line| named.stamp(line).is_some()) {
            let of = unread(&text).unwrap_or("a tool");
            format!(
                "is of OSWatcher or made like it, of {of}, which is not read: vmstat, iostat, meminfo, top, ps and slabinfo are"
            )
        } else {
            "has no dates".into()
        }));
    };
    let mut log = kernel.then(|| proc_log::Reader::new(series(Tool::Meminfo), |line: &str| named.stamp(line)));
    let snapshot = Snapshot::new(series(tool), author != Author::Other);
    let mut reader = Reader { named: &named, tool: None, snapshot, begun: None };
    let end = lines::each(&mut whole, LONGEST_LINE, |line| {
        reader.line(line);
        if let Some(log) = &mut log {
            log.line(line);
        }
    });
    reader.snapshot.end(end == End::Whole);
    let mut series = reader.snapshot.finished();
    if series.samples().is_empty() {
        return Err(Refused("has no dates, and without them times of day or lines mean nothing".into()));
    }
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    Ok([Some(series.finished()), log.and_then(|log| log.finished(&end))].into_iter().flatten().collect())
}

/// Tools of OSWatcher and ExaWatcher that are not read, by what they print.
fn unread(text: &str) -> Option<&'static str> {
    const WORDS: &[(&str, &str)] = &[
        ("%usr", "mpstat"),
        ("Active Internet connections", "netstat"),
        ("Kernel Interface table", "netstat"),
        ("Ip:", "netstat"),
        ("traceroute to", "traceroute"),
        ("RX packets", "ifconfig"),
        ("link/ether", "ip"),
    ];
    WORDS.iter().find(|(word, _)| text.contains(word)).map(|(_, tool)| *tool)
}

struct Reader<'a> {
    named: &'a Named,
    /// Whose lines come.
    tool: Option<Tool>,
    snapshot: Snapshot,
    /// What a heading says of the file's beginning.
    begun: Option<Stamp>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        if let Some(stamp) = self.named.stamp(line) {
            self.tool = None;
            if let Some((_, seconds)) = line.split_once(named::INTERVAL) {
                self.snapshot.delay = seconds.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            }
            self.snapshot.begin(&stamp, line.starts_with("zzz ***"));
            return;
        }
        if let Some(tool) = tool_of(line) {
            self.tool = Some(tool);
            if let Some(begun) = self.begun.take()
                && self.snapshot.dates == 0
            {
                self.snapshot.begin(&begun, false);
            }
        }
        match self.tool {
            Some(tool) => self.snapshot.line(tool, line),
            None => self.heading(line),
        }
    }

    fn heading(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Linux OSWbb") {
            let mut words = rest.split_ascii_whitespace();
            let version = words.next().map(|version| version.trim_start_matches('v').to_owned());
            self.snapshot.series.version = version;
            if let Some(host) = words.next() {
                self.snapshot.series.host = Some(host.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("# Starting Time:") {
            self.begun = Stamp::parse(&format!("zzz <{}> Count:0", rest.trim()));
        } else if let Some(rest) = line.strip_prefix("# Sample Interval(s):") {
            self.snapshot.delay = rest.trim().parse().ok();
        } else if let Some((name, count)) = line.split_once(' ')
            && matches!(name, "CPU_COUNT" | "CPU_CORES" | "VCPUS")
            && let Ok(count) = count.trim().parse::<u32>()
        {
            // VCPUS, which stands last, counts threads of cores.
            self.snapshot.processors = Some(count);
        }
    }
}
