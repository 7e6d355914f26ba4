//! Archives of OSWatcher and ExaWatcher, and logs like them: dates, each with what vmstat, iostat,
//! top, ps or the kernel's slabinfo or meminfo printed then.
//!
//! A snapshot is a sample at its date, empty where the tool could not be run; further output behind
//! one date (`top -n 720`) is a sample a pass. The first output, since the boot, is left out.

mod file_name;
mod snapshot;

use std::io::Read;

use self::file_name::OsWatcherFileName;
use self::snapshot::Snapshot;
use super::archive_format::{ArchiveFormat, Promise};
use super::iostat::{IostatBanner, parse_time_line};
use super::line_timestamp::LineTimestamp;
use super::lines::{self, LONGEST_LINE, LineStreamEnd};
use super::slabinfo::Slabs;
use super::sysstat::text::{self as sar, Day};
use super::top::Pass;
use super::{iostat, pidstat, proc_log, ps, vmstat};
use crate::{Clock, CollectedTool, FileRefused, Moment, Series, SourceFormat};
use hugewise_model::calendar::DAY;

/// Hosts of one file whose iostat is told apart.
const MOST_HOSTS: usize = 256;

type SysstatReader = fn(&mut dyn Read, &str) -> Result<Vec<Series>, FileRefused>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    OsWatcher,
    ExaWatcher,
    Other,
}

fn tool_of(line: &str) -> Option<CollectedTool> {
    if is_vmstat(line) {
        Some(CollectedTool::Vmstat)
    } else if iostat::is_iostat_heading(line) {
        Some(CollectedTool::Iostat)
    } else if Pass::is_heading(line) {
        Some(CollectedTool::Top)
    } else if Slabs::is_heading(line) {
        Some(CollectedTool::Slabinfo)
    } else if line.starts_with("MemTotal:") {
        Some(CollectedTool::Meminfo)
    } else if ps::PsTable::is_heading(line) {
        Some(CollectedTool::Ps)
    } else {
        None
    }
}

const fn watcher_format(author: Author, tool: CollectedTool) -> SourceFormat {
    match author {
        Author::OsWatcher => SourceFormat::OsWatcher(tool),
        Author::ExaWatcher => SourceFormat::ExaWatcher(tool),
        Author::Other => SourceFormat::Loop(tool),
    }
}

fn is_vmstat(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next() == Some("r") && words.next() == Some("b") && words.next() == Some("swpd")
}

fn detect_author(head: &str) -> Author {
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

/// OSWatcher's and ExaWatcher's files, and dates with the output of vmstat, iostat, top, ps or
/// slabinfo.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "oswatcher",
    called: "an OSWatcher file",
    tools: &["OSWatcher", "iostat"],
    is_text: true,
    recognize: recognize_watcher,
    read: |file| read(file.stream, file.source),
};

/// A loop's output is like many other files.
fn recognize_watcher(head: &[u8]) -> Promise {
    let head = String::from_utf8_lossy(head);
    let is_dated = || {
        head.lines().any(|line| LineTimestamp::parse(line).is_some())
            || (head.lines().next().is_some_and(|line| IostatBanner::parse(line).is_some())
                && head.lines().any(|line| parse_time_line(line).is_some()))
    };
    if detect_author(&head) != Author::Other {
        Promise::Sure
    } else if head.lines().any(vmstat::is_timed) {
        // Its lines have times of their own.
        Promise::None
    } else if is_dated() {
        let mut tools = head.lines().filter_map(tool_of);
        Promise::likely_if(tools.any(|tool| tool != CollectedTool::Meminfo))
    } else {
        // Refused, with the reason.
        Promise::likely_if(head.lines().next().is_some_and(Pass::is_heading))
    }
}

/// Reads one such file, with the host of its name. /proc/meminfo is a series of its own beside that
/// of the tools.
///
/// # Errors
/// It has no date, is of a tool that is not read, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    let named = OsWatcherFileName::from_path(source);
    let mut head = Vec::new();
    (&mut *stream)
        .take(super::HEAD)
        .read_to_end(&mut head)
        .map_err(|error| FileRefused(error.to_string()))?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let author = detect_author(&text);
    let series = |tool: CollectedTool| {
        let mut series = Series::new(source, watcher_format(author, tool));
        series.host.clone_from(&named.host);
        series
    };
    let tool = text.lines().filter_map(tool_of).find(|tool| *tool != CollectedTool::Meminfo);
    let kernel = proc_log::is_proc_log(&head)
        || text.lines().any(|line| tool_of(line) == Some(CollectedTool::Meminfo));
    let mut whole = head.as_slice().chain(stream);
    let Some(tool) = tool else {
        if kernel {
            let log = proc_log::read_stamped(&mut whole, series(CollectedTool::Meminfo), |line| {
                named.parse_stamp(line)
            })?;
            return Ok(vec![log]);
        }
        if let Some(read) = sysstat_reader(&text) {
            let zone = text.lines().find_map(|line| named.parse_stamp(line)?.zone);
            let mut all = read(&mut whole, source)?;
            for series in all.iter_mut().filter(|series| matches!(series.clock, Clock::Wall { .. }))
            {
                series.clock = Clock::Wall { zone: zone.clone() };
            }
            return Ok(all);
        }
        let is_dated = text.lines().any(|line| named.parse_stamp(line).is_some());
        return Err(explain_refusal(&text, is_dated));
    };
    let log = kernel.then(|| {
        proc_log::ProcLogReader::new(series(CollectedTool::Meminfo), |line: &str| {
            named.parse_stamp(line)
        })
    });
    let snapshot = || Snapshot::new(series(tool), author != Author::Other);
    read_tables(&mut whole, &named, has_decimal_comma(&text), &snapshot, log)
}

/// Reads tables behind dates, a series for each host that iostat names, and the kernel's fields beside
/// them.
fn read_tables<Stamp: Fn(&str) -> Option<LineTimestamp>>(
    stream: &mut dyn Read,
    named: &OsWatcherFileName,
    comma: bool,
    snapshot: &dyn Fn() -> Snapshot,
    mut log: Option<proc_log::ProcLogReader<Stamp>>,
) -> Result<Vec<Series>, FileRefused> {
    let begin = || OsWatcherReader::new(named, snapshot(), comma);
    let mut reader = begin();
    let mut before = Vec::new();
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| {
        if before.len() < MOST_HOSTS && reader.is_of_other_host(line) {
            let mut ended = std::mem::replace(&mut reader, begin());
            ended.snapshot.end_snapshot(true);
            before.push(ended.snapshot.into_series().finish());
        }
        reader.push_line(line);
        if let Some(log) = &mut log {
            log.push_line(line);
        }
    });
    reader.snapshot.end_snapshot(end == LineStreamEnd::Whole);
    if let Some(lines) = reader.snapshot.only_misread().filter(|_| log.is_none()) {
        return Err(FileRefused(format!(
            "none of its {lines} lines of vmstat fits its headings: it is not read"
        )));
    }
    let mut last = reader.snapshot.into_series();
    end.note_problem(&mut last);
    before.push(last.finish());
    before.retain(|series| !series.samples().is_empty());
    if before.is_empty() {
        return Err(FileRefused(
            "has no dates, and without them times of day or lines mean nothing".into(),
        ));
    }
    before.extend(log.and_then(|log| log.into_series(&end)));
    Ok(before)
}

/// What reads mpstat's and pidstat's output, which has its own times behind each date.
fn sysstat_reader(text: &str) -> Option<SysstatReader> {
    text.lines().find(|line| IostatBanner::parse(line).is_some())?;
    if text.lines().any(pidstat::is_heading) {
        Some(pidstat::read)
    } else {
        text.lines().any(sar::is_heading).then_some(sar::read as SysstatReader)
    }
}

fn has_decimal_comma(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace().filter_map(|word| word.split_once(','));
    words.any(|(one, other)| one.parse::<u32>().is_ok() && other.parse::<u32>().is_ok())
}

fn explain_refusal(text: &str, is_dated: bool) -> FileRefused {
    if !is_dated {
        return FileRefused("has no dates".into());
    }
    let tool = recognize_unread_tool(text).unwrap_or("a tool");
    FileRefused(format!(
        "is of OSWatcher or made like it, of {tool}, which is not read: vmstat, iostat, meminfo, \
         top, ps and slabinfo are"
    ))
}

fn recognize_unread_tool(text: &str) -> Option<&'static str> {
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

struct OsWatcherReader<'a> {
    named: &'a OsWatcherFileName,
    tool: Option<CollectedTool>,
    snapshot: Snapshot,
    /// The file's beginning by its heading.
    begun: Option<LineTimestamp>,
    /// The day and the last time of day of an iostat that writes `Time:` lines, in seconds.
    day: Option<(Day, i64)>,
    /// The host that iostat names in its first line.
    host: Option<String>,
    /// Whether it writes decimal commas.
    comma: bool,
}

impl<'a> OsWatcherReader<'a> {
    const fn new(named: &'a OsWatcherFileName, snapshot: Snapshot, comma: bool) -> Self {
        Self { named, tool: None, snapshot, begun: None, day: None, host: None, comma }
    }

    fn is_of_other_host(&self, line: &str) -> bool {
        let known = self.host.as_ref();
        line.starts_with("Linux ")
            && known
                .is_some_and(|host| IostatBanner::parse(line).is_some_and(|run| run.host != *host))
    }

    fn push_line(&mut self, line: &str) {
        if let Some(stamp) = self.named.parse_stamp(line) {
            self.tool = None;
            if let Some((_, seconds)) = line.split_once(file_name::INTERVAL) {
                self.snapshot.delay =
                    seconds.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            }
            self.snapshot.begin_snapshot(&stamp, line.starts_with("zzz ***"));
            return;
        }
        if self.note_iostat_run(line) {
            return;
        }
        if let Some(stamp) = self.parse_iostat_time(line) {
            self.tool = None;
            self.snapshot.begin_snapshot(&stamp, false);
            return;
        }
        if let Some(tool) = tool_of(line) {
            self.tool = Some(tool);
            if let Some(begun) = self.begun.take()
                && self.snapshot.dates == 0
            {
                self.snapshot.begin_snapshot(&begun, false);
            }
        }
        match self.tool {
            Some(tool) => self.snapshot.push_line(tool, line),
            None => self.parse_heading(line),
        }
    }

    /// Whether a line is the first that iostat prints, `Linux 6.1 (db1) 11/26/26 _x86_64_ (2 CPU)`.
    fn note_iostat_run(&mut self, line: &str) -> bool {
        let Some(banner) = IostatBanner::parse(line) else { return false };
        self.snapshot.begin_iostat_run();
        self.day = banner.day.map(|mut day| {
            if self.comma {
                day.decide_by_comma(true);
            }
            (day, 0)
        });
        let series = &mut self.snapshot.series;
        series.kernel.get_or_insert(banner.kernel);
        series.host.get_or_insert_with(|| banner.host.clone());
        self.host = Some(banner.host);
        self.snapshot.processors = banner.processors.or(self.snapshot.processors);
        true
    }

    /// `Time: 03:49:57 PM`, of the day in iostat's first line.
    fn parse_iostat_time(&mut self, line: &str) -> Option<LineTimestamp> {
        let (time, words) = parse_time_line(line)?;
        let (day, before) = self.day.as_mut()?;
        day.decide_by_words(&words);
        if time + DAY / 2 < *before {
            day.midnight += DAY;
        }
        *before = time;
        Some(LineTimestamp::at_wall_clock(Moment::from_seconds(day.midnight + time)))
    }

    fn parse_heading(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Linux OSWbb") {
            let mut words = rest.split_ascii_whitespace();
            let version = words.next().map(|version| version.trim_start_matches('v').to_owned());
            self.snapshot.series.version = version;
            if let Some(host) = words.next() {
                self.snapshot.series.host = Some(host.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("# Starting Time:") {
            self.begun = LineTimestamp::parse(&format!("zzz <{}> Count:0", rest.trim()));
        } else if let Some(rest) = line.strip_prefix("# Sample Interval(s):") {
            self.snapshot.delay = rest.trim().parse().ok();
        } else if let Some((name, count)) = line.split_once(' ')
            && matches!(name, "CPU_COUNT" | "CPU_CORES" | "VCPUS")
            && let Ok(count) = count.trim().parse::<u32>()
        {
            // VCPUS comes last and counts threads of cores.
            self.snapshot.processors = Some(count);
        }
    }
}
