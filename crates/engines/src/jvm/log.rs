//! The JVM's log: `-Xlog:pagesize`, `-Xlog:gc+init` of ZGC, and the warnings that come without being asked for.

use std::collections::BTreeSet;

use hugewise_model::{Bytes, Engine, PageCount, PageSize};

use crate::logs::{Excerpt, Format, LogReport, LogVerdict, amount, number_after};

pub(super) static FORMAT: Format = Format {
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
    ],
    hints: &["[gc", "Server VM warning", "[info]["],
    read,
};

fn is_ours(line: &str) -> bool {
    FORMAT.marks.iter().any(|mark| line.contains(mark)) || line.contains("Failed to allocate initial Java heap")
}

/// One `NAME: min=8M max=256M base=0x... page_size=4K size=256M`.
struct Region<'a> {
    name: &'a str,
    page: PageSize,
    size: Bytes,
}

fn region(line: &str) -> Option<Region<'_>> {
    let value = |key: &str| amount(line.get(line.find(key)? + key.len()..)?);
    let page = PageSize::new(value(" page_size=")?.get())?;
    let size = value(" size=").filter(|_| line.trim_end().ends_with(['B', 'K', 'M', 'G', 'T']))?;
    let (head, _) = line.split_once(": ")?;
    Some(Region { name: head.rsplit(']').next()?.trim(), page, size })
}

/// Milliseconds of `[0.004s]`, where the line has an uptime.
fn uptime(line: &str) -> Option<u64> {
    let (uptime, _) = line.split('[').skip(1).find_map(|part| part.split_once("s]"))?;
    let (seconds, thousandths) = uptime.split_once(['.', ','])?;
    Some(seconds.parse::<u64>().ok()?.saturating_mul(1000).saturating_add(thousandths.parse().ok()?))
}

/// Whether this line can only be of another start than the one before.
fn starts_anew(line: &str, before: Option<u64>) -> bool {
    line.contains("Static hugepage support:") || uptime(line).zip(before).is_some_and(|(now, before)| now < before)
}

/// Regions on huge pages are at least this large for the heap's sake: the last that each collector maps.
const LAST_REGIONS: &[&str] = &["Next Bitmap", "Mark Bitmap", "Parallel Compact Data", "Mark Stack"];

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.lines().collect();
    let mut from = None;
    let mut before = None;
    for (at, line) in lines.iter().enumerate() {
        if is_ours(line) && (from.is_none() || starts_anew(line, before)) {
            from = Some(at);
        }
        before = uptime(line).or(before);
    }
    let lines = lines.get(from?..).unwrap_or_default();
    let mut report = LogReport::new(Engine::Jvm, "jvm log");
    report.started_at = lines.first().and_then(|line| stamp(line));
    let mut start = Start::default();
    for line in lines {
        start.read(line, &mut report);
    }
    start.decide(&mut report);
    Some(report)
}

/// `[2026-11-21T20:32:29.713+0000]`, where the log's decorations have a time.
fn stamp(line: &str) -> Option<String> {
    let dated = |part: &&str| part.len() > 19 && part.as_bytes().get(4) == Some(&b'-') && part.contains('T');
    let parts = line.split('[').skip(1).filter_map(|part| part.split_once(']').map(|(inside, _)| inside));
    parts.take(3).find(dated).map(str::to_owned)
}

#[derive(Default)]
struct Start {
    huge: Option<PageSize>,
    heap: Option<(PageSize, Bytes)>,
    /// Bytes of regions on huge pages.
    got: u64,
    /// Pages of them.
    got_pages: u64,
    /// Code caches on base pages.
    small_code: u64,
    /// What could not be had on huge pages: a heap is tried at several addresses, so each amount once.
    missed: BTreeSet<u64>,
    failure: bool,
    disabled: bool,
    transparent: bool,
    zgc: Option<bool>,
    g1: bool,
    closed: bool,
    aborted: bool,
}

impl Start {
    fn read(&mut self, line: &str, report: &mut LogReport) {
        let pagesize = line.contains("[pagesize");
        if line.contains("Failed to reserve") || line.contains("Failed to commit large pages memory") {
            self.failure = true;
            self.missed.extend(number_after(line, " bytes: "));
            let size = line.split_once("page size: ").and_then(|(_, rest)| PageSize::new(amount(rest)?.get()));
            self.huge = size.or(self.huge);
            report.error(line);
        } else if line.contains("UseLargePages disabled")
            || line.contains("Large pages using UseSHM are not configured")
            || line.contains("HugeTLBFS is not configured")
        {
            self.disabled = true;
            report.error(line);
        } else if line.contains("Failed to allocate initial Java heap") {
            self.aborted = true;
            report.error(line);
        } else if line.contains("Large page support disabled") {
            self.disabled = true;
            report.evidence(line);
        } else if line.contains("UseTransparentHugePages=1") {
            self.transparent = true;
            report.evidence(line);
        } else if let Some((_, support)) = line.split_once("Large Page Support: ") {
            // The other collectors print the same word, but also where their heap is.
            self.zgc = match support.trim() {
                "Enabled (Explicit)" => Some(true),
                "Disabled" => Some(false),
                _ => self.zgc,
            };
            self.transparent |= support.contains("Transparent");
            report.evidence(line);
        } else if let Some((_, rest)) = line.split_once("Default large page size: ") {
            self.huge = self.huge.or_else(|| PageSize::new(amount(rest)?.get()));
            report.evidence(line);
        } else if pagesize && let Some(region) = region(line) {
            self.region(&region);
            report.evidence(line);
        } else if !pagesize && self.heap.is_some() {
            self.closed = true;
        }
    }

    fn region(&mut self, region: &Region<'_>) {
        if region.page > PageSize::KIB_4 && region.page >= PageSize::MIB_2 {
            self.huge = self.huge.or(Some(region.page));
            self.got = self.got.saturating_add(region.size.get());
            self.got_pages = self.got_pages.saturating_add(region.page.pages_for(region.size).get());
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

    fn decide(self, report: &mut LogReport) {
        if !self.transparent {
            report.page_size = self.huge;
            self.count(report);
        }
        let heap_huge = self.heap.map(|(page, _)| page > PageSize::KIB_4);
        if self.aborted {
            report.decide(LogVerdict::Failed);
        } else if self.transparent {
            report.unknown("transparent huge pages were asked for, and no log reports those");
        } else if self.failure {
            // Without -Xlog:pagesize only the failures are known.
            let nothing = self.got == 0 && heap_huge == Some(false) && self.closed;
            report.decide(if nothing { LogVerdict::None } else { LogVerdict::Partly });
        } else if self.disabled || self.zgc == Some(false) {
            report.decide(LogVerdict::None);
        } else if heap_huge == Some(false) {
            report.decide(if self.got > 0 { LogVerdict::Partly } else { LogVerdict::None });
        } else if heap_huge == Some(true) && self.closed {
            report.decide(LogVerdict::All);
        } else if self.zgc == Some(true) {
            report.unknown("ZGC asked for huge pages; if the heap got them, it logs nothing");
        } else {
            report.unknown("some of the lines on the heap's pages are missing");
        }
    }

    /// Pages that it has and that it would have taken.
    fn count(&self, report: &mut LogReport) {
        let Some(huge) = self.huge.filter(|_| self.heap.is_some() && self.closed) else { return };
        let small_heap = self.heap.filter(|(page, _)| *page == PageSize::KIB_4).map(|(_, size)| size.get());
        let missed = self.missed.iter().map(|bytes| {
            // Code cache and heap may be of the same size and fail both.
            let regions = usize::from(small_heap == Some(*bytes)) + usize::from(self.small_code == *bytes);
            huge.pages_for(Bytes(*bytes)).get().saturating_mul(u64::try_from(regions.max(1)).unwrap_or(1))
        });
        let missed = missed.fold(0, u64::saturating_add);
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
