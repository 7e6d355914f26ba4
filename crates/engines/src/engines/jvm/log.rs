//! The JVM's log: `-Xlog:pagesize`, `-Xlog:gc+init` of ZGC, and warnings that are always logged.

use std::collections::BTreeSet;

use hugewise_model::{Bytes, Engine, PageCount, PageSize};

use crate::shared::logs::{
    Excerpt, LogReport, LogVerdict, ServerLogFormat, number_after, parse_amount,
};

pub(super) static FORMAT: ServerLogFormat = ServerLogFormat {
    marks: &[
        "[pagesize",
        "Failed to reserve and commit memory",
        "Failed to reserve shared memory",
        "Failed to reserve large pages memory",
        "Failed to commit large pages memory",
        "UseLargePages disabled",
        "HugeTLBFS is not configured",
        "Large pages using UseSHM are not configured",
        "Large Page Support: ",
        "Failed to commit memory (",
        "os::commit_memory(0x",
        "Failed to allocate initial Java heap",
        "Failed to reserve address space for Java heap",
        "JVMJ9GC",
    ],
    hints: &["[gc", "Server VM warning", "[info]["],
    read,
    read_paste: |_| None,
};

fn is_ours(line: &str) -> bool {
    FORMAT.marks.iter().any(|mark| line.contains(mark) && *mark != "JVMJ9GC")
        || is_openj9_page_message(line)
}

/// What OpenJ9 says of pages: `JVMJ9GC088I Requested objectheap page size 2M could not be satisfied;
/// using 4K instead`, `JVMJ9GC032E System configuration does not support option '-Xlp'`.
fn is_openj9_page_message(line: &str) -> bool {
    line.contains("JVMJ9GC") && (line.contains(" page size ") || line.contains("option '-Xlp"))
}

struct Region<'a> {
    name: &'a str,
    page: PageSize,
    size: Bytes,
    /// What it is aligned to, where the line says it: the page that was asked for.
    alignment: Option<Bytes>,
}

fn parse_region(line: &str) -> Option<Region<'_>> {
    let value = |key: &str| parse_amount(line.get(line.find(key)? + key.len()..)?);
    let page = PageSize::new(value(" page_size=")?.get())?;
    let size = value(" size=").filter(|_| line.trim_end().ends_with(['B', 'K', 'M', 'G', 'T']))?;
    let (head, _) = line.split_once(": ")?;
    let alignment = value(" alignment=");
    Some(Region { name: head.rsplit(']').next()?.trim(), page, size, alignment })
}

/// Milliseconds of `[0.004s]`, where the line has an uptime.
fn parse_uptime(line: &str) -> Option<u64> {
    let (uptime, _) = line.split('[').skip(1).find_map(|part| part.split_once("s]"))?;
    let (seconds, thousandths) = uptime.split_once(['.', ','])?;
    Some(
        seconds.parse::<u64>().ok()?.saturating_mul(1000).saturating_add(thousandths.parse().ok()?),
    )
}

fn starts_anew(line: &str, before: Option<u64>) -> bool {
    line.contains("Static hugepage support:")
        || parse_uptime(line).zip(before).is_some_and(|(now, before)| now < before)
}

/// The last region that each collector maps.
const LAST_REGIONS: &[&str] =
    &["Next Bitmap", "Mark Bitmap", "Parallel Compact Data", "Mark Stack"];

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.complete_lines().collect();
    let mut from = None;
    let mut before = None;
    for (at, line) in lines.iter().enumerate() {
        if is_ours(line) && (from.is_none() || starts_anew(line, before)) {
            from = Some(at);
        }
        before = parse_uptime(line).or(before);
    }
    let lines = lines.get(from?..).unwrap_or_default();
    let mut report = LogReport::new(Engine::Jvm, "jvm log");
    report.started_at = lines.first().and_then(|line| parse_timestamp(line));
    let mut start = JvmLogStart::default();
    for line in lines {
        start.read_line(line, &mut report);
    }
    start.decide_verdict(&mut report);
    Some(report)
}

/// `[2026-11-21T20:32:29.713+0000]`, where the log's decorations have a time.
fn parse_timestamp(line: &str) -> Option<String> {
    let dated = |part: &&str| {
        part.len() > 19 && part.as_bytes().get(4) == Some(&b'-') && part.contains('T')
    };
    let parts =
        line.split('[').skip(1).filter_map(|part| part.split_once(']').map(|(inside, _)| inside));
    parts.take(3).find(dated).map(str::to_owned)
}

#[derive(Default)]
struct JvmLogStart {
    huge: Option<PageSize>,
    heap: Option<(PageSize, Bytes)>,
    got: u64,
    got_pages: u64,
    small_code: u64,
    /// Amounts that were refused huge pages, each once: a heap is tried at several addresses.
    missed: BTreeSet<u64>,
    failure: bool,
    disabled: bool,
    transparent: bool,
    zgc: Option<bool>,
    g1: bool,
    closed: bool,
    aborted: bool,
    /// Whether it says that it asks for explicit huge pages.
    asked: bool,
    /// Whether shmget was refused for want of the right to System V huge pages (EPERM).
    lacks_right: bool,
    /// Bytes of regions on base pages that huge pages could have held.
    small: u64,
    /// The largest amount that was refused altogether, on whichever pages.
    refused: u64,
    /// What a heap could have grown to, and what could be had of it.
    lowered: Option<(Bytes, Bytes)>,
    openj9: bool,
}

impl JvmLogStart {
    fn read_line(&mut self, line: &str, report: &mut LogReport) {
        let is_of_pages = line.contains("[pagesize");
        if self.read_error(line) {
            report.add_error(line);
        } else if self.read_support(line) {
            report.add_evidence(line);
        } else if is_of_pages && let Some(region) = parse_region(line) {
            self.record_region(&region);
            report.add_evidence(line);
        } else if !is_of_pages && self.heap.is_some() {
            self.closed = true;
        }
    }

    /// What was refused, or switched off; whether the line says so.
    fn read_error(&mut self, line: &str) -> bool {
        if line.contains("Failed to reserve")
            || line.contains("Failed to commit large pages memory")
        {
            self.failure = true;
            let is_refusal = ["(error = 1)", "(errno = 1)"].iter().any(|why| line.contains(why));
            self.lacks_right |= line.contains("reserve shared memory") && is_refusal;
            self.missed.extend(number_after(line, " bytes: "));
            let size = line
                .split_once("page size: ")
                .and_then(|(_, rest)| PageSize::new(parse_amount(rest)?.get()));
            self.huge = size.or(self.huge);
        } else if line.contains("UseLargePages disabled")
            || line.contains("Large pages using UseSHM are not configured")
            || line.contains("HugeTLBFS is not configured")
        {
            self.disabled = true;
        } else if line.contains("Failed to allocate initial Java heap")
            || line.contains("Failed to reserve address space for Java heap")
            || line.contains("# There is insufficient memory for the Java Runtime Environment")
        {
            self.aborted = true;
        } else if line.contains("Failed to commit memory (") {
            // ZGC's next line says what it could have.
        } else if let Some((_, rest)) = line.split_once("os::commit_memory(0x") {
            self.read_refusal(rest);
        } else if let Some((_, rest)) = line.split_once("Forced to lower max Java heap size from ")
        {
            let amounts = rest.split_once(" to ");
            self.lowered =
                amounts.and_then(|(from, to)| Some((parse_amount(from)?, parse_amount(to)?)));
        } else if is_openj9_page_message(line) {
            self.openj9 = true;
            self.aborted |= line.contains("GC032E");
            self.disabled |= line.contains(" could not be satisfied");
        } else if self.refused > 0
            && line.contains("# A fatal error has been detected by the Java Runtime Environment")
        {
            self.aborted = true;
        } else {
            return false;
        }
        true
    }

    /// Whether it asks for large pages, and which; whether the line says so.
    fn read_support(&mut self, line: &str) -> bool {
        if line.contains("Large page support disabled") {
            self.disabled = true;
        } else if line.contains("UseLargePages=1") {
            self.transparent = line.contains("UseTransparentHugePages=1");
            self.asked = !self.transparent;
        } else if line.contains("UseTransparentHugePages=1") {
            self.transparent = true;
        } else if let Some((_, support)) = line.split_once("Large Page Support: ") {
            // Other collectors print the same word, but also the place of their heap.
            self.zgc = match support.trim() {
                "Enabled (Explicit)" => Some(true),
                "Disabled" => Some(false),
                _ => self.zgc,
            };
            self.transparent |= support.contains("Transparent");
        } else if let Some((_, rest)) = line.split_once("Default large page size: ") {
            self.asked |= line.contains("Large page support enabled") && !self.transparent;
            self.huge = self.huge.or_else(|| PageSize::new(parse_amount(rest)?.get()));
        } else {
            return false;
        }
        true
    }

    /// `0x0000000745a00000, 3126853632, 2097152, 0) failed; error='...' (errno=12)`: bytes, and the
    /// size of a page where it is not the base page.
    fn read_refusal(&mut self, rest: &str) {
        let Some((arguments, _)) = rest.split_once(") failed") else { return };
        let mut numbers = arguments.split(", ").skip(1).map(|number| number.parse::<u64>().ok());
        let Some(Some(bytes)) = numbers.next() else { return };
        self.refused = self.refused.max(bytes);
        // The last number is whether the memory is to be executable.
        if let (Some(Some(page)), Some(Some(_))) = (numbers.next(), numbers.next()) {
            self.huge = PageSize::new(page).filter(|page| *page >= PageSize::MIB_2).or(self.huge);
        }
    }

    fn record_region(&mut self, region: &Region<'_>) {
        // Not every table of a collector is ever put on huge pages.
        let wants = region.name == "Heap"
            || region.name.starts_with("CodeHeap")
            || region.name.starts_with("CodeCache")
            || region.alignment.is_some_and(|alignment| alignment > region.page.bytes());
        let huge = self.huge.filter(|huge| *huge > region.page && wants);
        if huge.is_some_and(|huge| region.size.get().is_multiple_of(huge.bytes().get())) {
            self.small = self.small.saturating_add(region.size.get());
        }
        if region.page > PageSize::KIB_4 && region.page >= PageSize::MIB_2 {
            self.huge = self.huge.or(Some(region.page));
            self.got = self.got.saturating_add(region.size.get());
            self.got_pages =
                self.got_pages.saturating_add(region.page.pages_for(region.size).get());
        } else if region.name.starts_with("CodeHeap") || region.name.starts_with("CodeCache") {
            self.small_code = self.small_code.saturating_add(region.size.get());
        }
        match region.name {
            "Heap" => self.heap = Some((region.page, region.size)),
            "Block Offset Table" => self.g1 = true,
            "Card Table" => self.closed |= self.heap.is_some() && !self.g1,
            name => self.closed |= self.heap.is_some() && LAST_REGIONS.contains(&name),
        }
    }

    fn decide_verdict(self, report: &mut LogReport) {
        // Each JVM says "Large Page Support: Disabled" that was not told to use them.
        report.is_unasked = !self.asked && report.errors.is_empty() && self.got == 0;
        if !self.transparent {
            report.page_size = self.huge;
            self.count_pages(report);
        }
        let heap_huge = self.heap.map(|(page, _)| page > PageSize::KIB_4);
        if self.aborted {
            report.set_verdict(LogVerdict::Failed);
            self.explain_failure(report);
        } else if self.refused > 0 {
            report.set_verdict(LogVerdict::Partly);
            self.explain_failure(report);
        } else if self.openj9 && self.disabled {
            report.set_verdict(LogVerdict::Partly);
            report.reason = "OpenJ9 names only what is not on huge pages".into();
        } else if self.transparent {
            report.set_unknown("transparent huge pages were asked for, and no log reports those");
        } else if self.lacks_right && self.got == 0 {
            // Without the right a request gets at most what memlock allows: less than a page.
            report.set_verdict(LogVerdict::None);
            report.reason =
                "shmget was refused: vm.hugetlb_shm_group, or memlock on kernels before \
                             5.16"
                    .into();
        } else if self.failure {
            // Without -Xlog:pagesize only the failures are known.
            let nothing = self.got == 0 && heap_huge == Some(false) && self.closed;
            report.set_verdict(if nothing { LogVerdict::None } else { LogVerdict::Partly });
        } else if self.disabled || self.zgc == Some(false) {
            report.set_verdict(LogVerdict::None);
        } else if heap_huge == Some(false) {
            report.set_verdict(if self.got > 0 { LogVerdict::Partly } else { LogVerdict::None });
        } else if heap_huge == Some(true) && self.closed {
            report.set_verdict(LogVerdict::All);
        } else if self.zgc == Some(true) {
            report.set_unknown("ZGC asked for huge pages; if the heap got them, it logs nothing");
        } else {
            report.set_unknown("some of the lines on the heap's pages are missing");
        }
    }

    /// What could not be had, where the log says it.
    fn explain_failure(&self, report: &mut LogReport) {
        if let Some((wanted, had)) = self.lowered {
            let got = if had.get() == 0 { "nothing".to_owned() } else { had.to_string() };
            report.reason = format!(
                "{got} of a heap of up to {wanted} could be committed: with huge pages, the pool is \
                 too small"
            );
        } else if self.refused > 0 {
            report.needed_bytes = Some(Bytes(self.refused));
            report.page_size = self.huge;
            report.needed = self.huge.map(|huge| huge.pages_for(Bytes(self.refused)));
            if self.got_pages == 0 && report.needed.is_some() {
                (report.expected, report.allocated) = (report.needed, Some(PageCount::ZERO));
            }
            report.reason = format!("the kernel refused it {} bytes", self.refused);
        }
        if self.openj9 {
            report.reason = "OpenJ9 finds no huge pages on this host for its option -Xlp".into();
        }
    }

    fn count_pages(&self, report: &mut LogReport) {
        let Some(huge) = self.huge.filter(|_| self.heap.is_some() && self.closed) else { return };
        let small_heap =
            self.heap.filter(|(page, _)| *page == PageSize::KIB_4).map(|(_, size)| size.get());
        let missed = self.missed.iter().map(|bytes| {
            // Code cache and heap may have one size and both fail.
            let regions =
                usize::from(small_heap == Some(*bytes)) + usize::from(self.small_code == *bytes);
            huge.pages_for(Bytes(*bytes))
                .get()
                .saturating_mul(u64::try_from(regions.max(1)).unwrap_or(1))
        });
        let mut missed = missed.fold(0, u64::saturating_add);
        // A JVM that does not warn shows its regions alone.
        if self.asked && !self.failure && !self.disabled {
            missed = huge.pages_for(Bytes(self.small)).get();
        }
        // A failure that names no amount leaves the sum open.
        if self.failure && self.missed.is_empty() {
            report.allocated = Some(PageCount(self.got_pages));
            return;
        }
        if self.got_pages > 0 || missed > 0 {
            report.allocated = Some(PageCount(self.got_pages));
            report.expected = Some(PageCount(self.got_pages.saturating_add(missed)));
            report.needed = report.expected;
        }
    }
}
