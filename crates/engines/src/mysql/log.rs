//! The error log of MySQL and MariaDB.
//!
//! Only failures are in it, and on later versions of MariaDB not that of the buffer pool: a start without
//! warnings may be on huge pages or not.

use std::collections::BTreeMap;

use hugewise_model::{Bytes, Engine, PageSize};

use crate::logs::{Excerpt, Format, LogReport, LogVerdict, amount, number_after};

pub(super) static FORMAT: Format = Format {
    marks: &["starting as process ", "Starting MariaDB "],
    hints: &["InnoDB: ", "[Note] ", "[System] [MY-"],
    read,
};

fn is_start(line: &str) -> bool {
    line.contains("starting as process ") || (line.contains("Starting MariaDB ") && line.contains(" as process "))
}

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.lines().collect();
    let from = lines.iter().rposition(|line| is_start(line))?;
    let lines = lines.get(from..).unwrap_or_default();
    let start = lines.first()?;
    let (engine, format) = if start.contains("MariaDB") {
        (Engine::MariaDb, "mariadb error log")
    } else {
        (Engine::MySql, "mysql error log")
    };
    let mut report = LogReport::new(engine, format);
    report.started_at = stamp(start);
    report.evidence(start);
    let mut failures = Failures::default();
    for line in lines {
        failures.read(line, &mut report);
    }
    failures.decide(&mut report);
    Some(report)
}

/// `2026-11-21 20:32:36`, `2024-01-02T03:04:05.678901Z` or `240102  3:04:05`.
fn stamp(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let date = words.next().filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    if date.contains('T') {
        return Some(date.to_owned());
    }
    words.next().filter(|time| time.contains(':')).map(|time| format!("{date} {time}"))
}

#[derive(Default)]
struct Failures {
    /// By bytes asked for: the smallest page size that failed and how often it did.
    tried: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Bytes of failures that name no page size.
    failed: u64,
    conventional: bool,
    pool: Option<Bytes>,
    aborted: bool,
}

impl Failures {
    fn read(&mut self, line: &str, report: &mut LogReport) {
        let size = number_after(line, "(Large/HugeTLB memory page size ");
        if let (Some(bytes), Some(size)) = (number_after(line, "Couldn't allocate "), size) {
            *self.tried.entry(bytes).or_default().entry(size).or_default() += 1;
            report.error(line);
        } else if line.contains("large_page_aligned_alloc mmap(") && line.contains("failed") {
            self.failed = self.failed.saturating_add(number_after(line, "large_page_aligned_alloc mmap(").unwrap_or(0));
            self.conventional = true;
            report.error(line);
        } else if line.contains("Failed to allocate ") && line.contains(" bytes. errno ") {
            self.failed = self.failed.saturating_add(number_after(line, "Failed to allocate ").unwrap_or(0));
            self.conventional = true;
            report.error(line);
        } else if line.contains("Using conventional memory pool")
            || line.contains("Failed to attach shared memory segment, errno")
        {
            self.conventional = true;
            report.error(line);
        } else if line.contains("Cannot allocate memory for the buffer pool") {
            self.aborted = true;
            report.error(line);
        } else if let Some(size) = pool_size(line) {
            self.pool = Some(size);
            report.evidence(line);
        }
    }

    fn decide(self, report: &mut LogReport) {
        // Every size of the kernel is tried, largest first: what failed at the smallest huge page went to base pages.
        // One that failed at a larger size alone got the next smaller one.
        let smallest = self.tried.values().filter_map(|sizes| sizes.keys().next().copied()).min();
        let smallest = smallest.filter(|size| *size <= PageSize::MIB_2.bytes().get());
        let fell = self.tried.iter().filter_map(|(bytes, sizes)| {
            let times = sizes.get(&smallest?)?;
            Some(bytes.saturating_mul(*times))
        });
        let fallen = fell.fold(self.failed, u64::saturating_add);
        report.page_size = smallest.and_then(PageSize::new);
        if self.aborted {
            report.decide(LogVerdict::Failed);
        } else if self.pool.is_some_and(|pool| pool > Bytes::ZERO && Bytes(fallen) >= pool) {
            report.decide(LogVerdict::None);
            report.needed_bytes = Some(Bytes(fallen));
        } else if smallest.is_some() || self.conventional {
            report.decide(LogVerdict::Partly);
            report.reason = "the log names only what is not on huge pages, and says nothing about the rest".into();
        } else if !self.tried.is_empty() {
            report.unknown(
                "only page sizes above 2 MiB were refused; the server then tries smaller ones, and the log does not \
                 say more",
            );
        } else {
            report.unknown("the log reports only failures, and not all of them; the server's mappings show more");
        }
    }
}

/// `total size = 256.000000M` (MySQL), `total size = 256.000MiB` (MariaDB), `innodb_buffer_pool_size=256m`.
fn pool_size(line: &str) -> Option<Bytes> {
    let words = ["Initializing buffer pool, total size = ", "innodb_buffer_pool_size="];
    words.iter().find_map(|words| amount(line.get(line.find(words)? + words.len()..)?))
}
