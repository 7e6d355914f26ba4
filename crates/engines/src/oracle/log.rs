//! Oracle's alert log: the start of an instance, whichever form its account of pages has.
//!
//! Forms: "Huge Pages Information" (11.2.0.2, no copy of one was found), "Large Pages Information"
//! (11.2.0.3 and 11.2.0.4) and the table of page sizes (12.1 and later), each as text or as log.xml.

use hugewise_model::{Engine, Limit, Observed};

use super::log_lines::{Line, is_xml, of_text, of_xml};
use super::{log_block, log_table};
use crate::logs::{Excerpt, Format, LogReport, LogVerdict, amount};

pub(super) static FORMAT: Format = Format {
    marks: &[
        START,
        log_table::HEADER,
        log_block::HEADER,
        log_block::OLD_HEADER,
        "Dump of system resources acquired for SHARED GLOBAL AREA",
        UNSUPPORTED,
    ],
    hints: &["ALTER DATABASE ", "LGWR switch", "advanced to log sequence", "Large Page", "comp_id='rdbms'"],
    read,
};

const START: &str = "Starting ORACLE instance";
/// How an Exadata database server refuses a value of USE_LARGE_PAGES, from 19.27 and 23.8 on, before it says anything of its pages:
/// `ERROR: use_large_pages = FALSE is not a supported setting for database on Exadata`, and below it
/// `: suggested values are AUTO_ONLY or ONLY` (christian-gohmann.de, 16 July 2025; of TRUE and AUTO no copy was found).
const UNSUPPORTED: &str = "not a supported setting";
const MEMLOCK: &str = "Per process system memlock (soft) limit =";

/// What an instance says only once it has its memory.
const UP: &[&str] = &["PMON started", "ALTER DATABASE", "alter database", "Completed: ", "Database mounted"];

/// Errors that end a start for lack of memory.
const FATAL: &[&str] = &[
    "ORA-27102",
    "ORA-27104",
    "ORA-27106",
    "ORA-27125",
    "ORA-27137",
    "ORA-27138",
    "ORA-00845",
    "Failed to get available system pages",
    "Failed to allocate shared global region",
    "Aborting Instance startup",
    "DBT-11207",
];

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let xml = is_xml(&excerpt.text);
    let lines = if xml { of_xml(&excerpt.text) } else { of_text(excerpt.lines()) };
    let is_header = |line: &Line| FORMAT.marks.iter().any(|mark| line.text.contains(mark));
    let start = lines.iter().rposition(|line| line.text.starts_with(START));
    // Without its first line a start can still be told where its account is whole.
    let from = start.or_else(|| lines.iter().rposition(is_header))?;
    let mut lines = lines.get(from..).unwrap_or_default();
    let up = lines.iter().position(|line| UP.iter().any(|word| line.text.starts_with(word)));
    lines = up.and_then(|up| lines.get(..up)).unwrap_or(lines);

    let has = |mark: &str| lines.iter().any(|line| line.text.contains(mark));
    let mut report = if has(log_table::HEADER) {
        log_table::read(lines, excerpt, xml)
    } else if has(log_block::HEADER) {
        log_block::read(lines, xml)
    } else if has(log_block::OLD_HEADER) {
        log_block::read_old(lines, xml)
    } else {
        let mut report = LogReport::new(Engine::Oracle, if xml { "oracle log.xml" } else { "oracle alert log" });
        let why = if up.is_some() {
            "the last start logged nothing about its pages: Oracle is older than 11.2.0.2"
        } else {
            "the last start has not logged its pages yet"
        };
        report.unknown(why);
        report
    };
    report.started_at = lines.iter().take(3).find_map(|line| line.stamp.clone());
    for (at, line) in lines.iter().enumerate() {
        read_line(&mut report, line, lines.get(at + 1), up.is_some());
    }
    let off = |line: &String| line.starts_with("use_large_pages") && line.to_ascii_uppercase().contains("FALSE");
    if report.verdict == LogVerdict::None && report.lines.iter().any(off) {
        report.reason = "use_large_pages is FALSE".into();
    }
    Some(report)
}

fn read_line(report: &mut LogReport, line: &Line, next: Option<&Line>, up: bool) {
    let text = line.text.as_str();
    if text.starts_with(START) || text.starts_with("use_large_pages") {
        report.evidence(text);
    }
    if let Some(value) = text.strip_prefix(MEMLOCK).map(str::trim) {
        report.evidence(text);
        report.memlock = match amount(value) {
            Some(limit) if value.ends_with(|unit: char| unit.is_ascii_alphabetic()) => {
                Observed::Known(Limit::At(limit))
            }
            _ if value.eq_ignore_ascii_case("unlimited") => Observed::Known(Limit::Unlimited),
            _ => Observed::Malformed("no limit".into()),
        };
    }
    let refused = refuses_setting(text);
    if refused || (FATAL.iter().any(|error| text.contains(error)) && !log_table::is_row(text)) {
        report.error(text);
        let errno = next.filter(|next| next.text.contains(" Error: ") || (refused && next.text.starts_with(':')));
        if let Some(errno) = errno {
            report.error(&errno.text);
        }
        // An instance that is up has done without what it was refused.
        if up {
            return;
        }
        let meaning = meaning(text, errno.map_or("", |line| &line.text));
        let reason = if meaning.is_empty() { std::mem::take(&mut report.reason) } else { meaning.to_owned() };
        let known = report.verdict == LogVerdict::Failed;
        report.decide(LogVerdict::Failed);
        if known || !meaning.is_empty() {
            report.reason = reason;
        }
    }
}

/// Whether a line refuses a value of USE_LARGE_PAGES. What stands around the name is of several releases, and not all of them were
/// seen: the name and a refusal tell.
fn refuses_setting(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let names = text.contains("use_large_pages");
    let refusals = [UNSUPPORTED, "is not supported", "not allowed", "no longer supported"];
    names && refusals.iter().any(|refusal| text.contains(refusal))
}

/// Which limit of the kernel, or which setting, an error is about.
fn meaning(text: &str, errno: &str) -> &'static str {
    if text.contains("ORA-27102") && errno.contains("Error: 28") {
        "ENOSPC from shmget: the segment goes beyond kernel.shmall"
    } else if text.contains("ORA-27125") {
        "shmget was refused: vm.hugetlb_shm_group, or memlock on kernels before 5.16"
    } else if text.contains("ORA-00845") {
        "MEMORY_TARGET keeps the SGA in /dev/shm, which is too small, and never uses huge pages"
    } else if text.contains("ORA-27104") || text.contains("DBT-11207") {
        "the segment goes beyond kernel.shmmax"
    } else if refuses_setting(text) && text.contains("Exadata") {
        "on Exadata this release accepts only use_large_pages=ONLY or AUTO_ONLY"
    } else if refuses_setting(text) {
        "this release does not accept this value of use_large_pages"
    } else if text.contains("ORA-27138") {
        "use_large_pages contradicts another parameter, or on Exadata is neither ONLY nor AUTO_ONLY"
    } else {
        ""
    }
}
