//! The error log of MySQL and MariaDB. It has only failures, and in later MariaDB not that of the
//! buffer pool: a start without warnings may be on huge pages or not.

use std::collections::BTreeMap;

use hugewise_model::{Bytes, Engine, PageSize};

use super::meanings::MEANINGS;
use crate::shared::logs::{
    Excerpt, LogReport, LogVerdict, ServerLogFormat, number_after, parse_amount,
    tells_refused_start,
};

pub(super) static FORMAT: ServerLogFormat = ServerLogFormat {
    marks: &[
        "starting as process ",
        "Starting MariaDB ",
        "mysqld_safe Starting mysqld daemon",
        "mysqld_safe mysqld restarted",
        OF_INNODB,
    ],
    hints: &["InnoDB: ", "[Note] ", "[System] [MY-"],
    read,
    read_paste: |_| None,
};

/// What InnoDB says early in its start, in all releases; the lines before it may be cut off.
const OF_INNODB: &str = "InnoDB: Initializing buffer pool, ";

fn is_start(line: &str) -> bool {
    line.contains("starting as process ")
        || line.contains("mysqld_safe Starting mysqld daemon")
        || line.contains("mysqld_safe mysqld restarted")
        || (line.contains("Starting MariaDB ") && line.contains(" as process "))
}

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.complete_lines().collect();
    let pools: Vec<usize> = (0..lines.len())
        .filter(|at| lines.get(*at).is_some_and(|line| line.contains(OF_INNODB)))
        .collect();
    let told = lines.iter().rposition(|line| is_start(line));
    // Of two buffer pools after one word of a start the second is of another start.
    let untold = pools
        .iter()
        .rev()
        .find(|at| told.is_none_or(|told| **at > told))
        .filter(|_| told.is_none_or(|told| pools.iter().filter(|at| **at > told).count() > 1));
    let mut from = untold.copied().or(told)?;
    // Up to 5.5 only the script around the server says that it starts; behind it the server does.
    let script = |at: usize| lines.get(at).is_some_and(|line| line.contains("mysqld_safe "));
    if let Some(own) =
        lines.get(from + 1..).and_then(|rest| rest.iter().position(|line| is_start(line)))
        && script(from)
    {
        from += own + 1;
    }
    let lines = lines.get(from..).unwrap_or_default();
    let start = lines.first()?;
    let says_mariadb = |line: &&str| line.contains("MariaDB") || line.contains("mariadb");
    let (engine, format) = if start.contains("MariaDB") || lines.iter().any(says_mariadb) {
        (Engine::MariaDb, "mariadb error log")
    } else {
        (Engine::MySql, "mysql error log")
    };
    let mut report = LogReport::new(engine, format);
    report.started_at = parse_timestamp(start);
    report.add_evidence(start);
    let mut failures = Failures::default();
    for line in lines {
        failures.read(line, &mut report);
    }
    failures.decide_verdict(&mut report);
    Some(report)
}

/// `2026-11-21 20:32:36`, `2024-01-02T03:04:05.678901Z` or `240102  3:04:05`.
fn parse_timestamp(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let date =
        words.next().filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    if date.contains('T') {
        return Some(date.to_owned());
    }
    words.next().filter(|time| time.contains(':')).map(|time| format!("{date} {time}"))
}

#[derive(Default)]
struct Failures {
    tried: BTreeMap<u64, BTreeMap<u64, u64>>,
    failed: u64,
    conventional: bool,
    pool: Option<Bytes>,
    aborted: bool,
    /// Bytes that the kernel refused it on any pages.
    refused: Option<u64>,
}

impl Failures {
    fn read(&mut self, line: &str, report: &mut LogReport) {
        let size = number_after(line, "(Large/HugeTLB memory page size ");
        if let (Some(bytes), Some(size)) = (number_after(line, "Couldn't allocate "), size) {
            *self.tried.entry(bytes).or_default().entry(size).or_default() += 1;
            report.add_error(line);
        } else if let Some(bytes) = failed_bytes(line) {
            self.failed = self.failed.saturating_add(bytes);
            self.conventional = true;
            report.add_error(line);
        } else if line.contains("Using conventional memory pool")
            || line.contains("Failed to attach shared memory segment, errno")
        {
            self.conventional = true;
            report.add_error(line);
        } else if tells_refused_start(MEANINGS, line) {
            self.aborted = true;
            report.add_error(line);
        } else if let Some(bytes) = refused_bytes(line) {
            self.refused = Some(bytes);
            report.add_error(line);
        } else if let Some(size) = pool_size(line) {
            self.pool = Some(size);
            report.add_evidence(line);
        }
    }

    fn decide_verdict(self, report: &mut LogReport) {
        // Every size of the kernel is tried, the largest first: what failed at the smallest huge
        // page went to base pages, what failed only at a larger one got the next smaller one.
        let smallest = self.tried.values().filter_map(|sizes| sizes.keys().next().copied()).min();
        let smallest = smallest.filter(|size| *size <= PageSize::MIB_2.bytes().get());
        let fell = self.tried.iter().filter_map(|(bytes, sizes)| {
            let times = sizes.get(&smallest?)?;
            Some(bytes.saturating_mul(*times))
        });
        let fallen = fell.fold(self.failed, u64::saturating_add);
        report.page_size = smallest.and_then(PageSize::new);
        if self.aborted {
            report.set_verdict(LogVerdict::Failed);
            if let Some(bytes) = self.refused {
                report.reason = format!(
                    "neither the host nor its container, if it runs in one, had {} of memory for \
                     the buffer pool",
                    Bytes(bytes)
                );
            }
        } else if self.pool.is_some_and(|pool| pool > Bytes::ZERO && Bytes(fallen) >= pool) {
            report.set_verdict(LogVerdict::None);
            report.needed_bytes = Some(Bytes(fallen));
        } else if smallest.is_some() || self.conventional {
            report.set_verdict(LogVerdict::Partly);
            report.reason =
                "the log names only what is not on huge pages, and says nothing about the rest"
                    .into();
        } else if !self.tried.is_empty() {
            report.set_unknown(
                "only page sizes above 2 MiB were refused; the server then tries smaller ones, and \
                 the log does not say more",
            );
        } else {
            report.set_unknown(
                "the log reports only failures, and not all of them; the server's mappings show \
                 more",
            );
        }
    }
}

/// `InnoDB: mmap(137363456 bytes) failed; errno 12`.
fn refused_bytes(line: &str) -> Option<u64> {
    let is_refusal = line.contains("InnoDB: mmap(") && line.contains(" bytes) failed");
    number_after(line, "InnoDB: mmap(").filter(|_| is_refusal)
}

fn failed_bytes(line: &str) -> Option<u64> {
    let words = if line.contains("large_page_aligned_alloc mmap(") && line.contains("failed") {
        "large_page_aligned_alloc mmap("
    } else if line.contains("Failed to allocate ")
        && (line.contains(" bytes. errno ") || line.contains(" bytes from HugeTLB memory"))
    {
        "Failed to allocate "
    } else {
        return None;
    };
    Some(number_after(line, words).unwrap_or(0))
}

/// `total size = 256.000000M` (MySQL 5.7 on), `= 256.000MiB` (MariaDB), `size = 256.0M` (MySQL up to
/// 5.6), `innodb_buffer_pool_size=256m`.
fn pool_size(line: &str) -> Option<Bytes> {
    let words = [
        "Initializing buffer pool, total size = ",
        "Initializing buffer pool, size = ",
        "innodb_buffer_pool_size=",
    ];
    words.iter().find_map(|words| parse_amount(line.get(line.find(words)? + words.len()..)?))
}
