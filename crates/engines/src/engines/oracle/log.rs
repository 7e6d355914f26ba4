//! Oracle's alert log: an instance's start and its account of pages, as text or as log.xml. Its
//! forms: "Huge Pages Information" (11.2.0.2, no copy was found), "Large Pages Information"
//! (11.2.0.3 and 11.2.0.4) and the table of page sizes (12.1 and later).

use hugewise_model::{Engine, Limit, Observed};

use super::log_lines::{AlertLogLine, is_json, is_xml, of_json, of_text, of_xml};
use super::{log_block, log_paste, log_table};
use crate::shared::logs::{Excerpt, LogReport, LogVerdict, ServerLogFormat, parse_amount};

pub(super) static FORMAT: ServerLogFormat = ServerLogFormat {
    marks: &[
        START,
        log_table::HEADER,
        log_block::HEADER,
        log_block::OLD_HEADER,
        "Dump of system resources acquired for SHARED GLOBAL AREA",
        UNSUPPORTED,
        TOO_LARGE,
    ],
    hints: &[
        "ALTER DATABASE ",
        "LGWR switch",
        "advanced to log sequence",
        "Large Page",
        "comp_id='rdbms'",
    ],
    read,
    read_paste: log_paste::read,
};

const START: &str = "Starting ORACLE instance";
/// How an Exadata server refuses a value of USE_LARGE_PAGES from 19.27 and 23.8 on: `ERROR:
/// use_large_pages = FALSE is not a supported setting for database on Exadata`, and below it
/// `: suggested values are AUTO_ONLY or ONLY` (christian-gohmann.de, 16 July 2025; no copy of TRUE
/// and AUTO was found).
const UNSUPPORTED: &str = "not a supported setting";
const MEMLOCK: &str = "Per process system memlock (soft) limit =";

/// How an SGA is refused that does not fit into the memory that the instance sees: `System cannot
/// support SGA size of 9536 MB.`, and below it `Total system memory configured is 10 GB.` and
/// `Instance maximum shared memory size should be less than 9023 MB.`
const TOO_LARGE: &str = "System cannot support SGA size of ";
const SEEN_MEMORY: &str = "Total system memory configured is ";
const MOST_SHARED: &str = "Instance maximum shared memory size should be less than ";

const UP: &[&str] =
    &["PMON started", "ALTER DATABASE", "alter database", "Completed: ", "Database mounted"];

pub(super) const FATAL: &[&str] = &[
    "ORA-27102",
    "ORA-27104",
    "ORA-27106",
    "ORA-27125",
    "ORA-27137",
    "ORA-27138",
    "ORA-00845",
    TOO_LARGE,
    "Failed to get available system pages",
    "Failed to allocate shared global region",
    "Aborting Instance startup",
    "DBT-11207",
];

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let json = is_json(&excerpt.text);
    // Whole messages, of which none is cut off.
    let xml = is_xml(&excerpt.text) || json;
    let lines = match (json, xml) {
        (true, _) => of_json(&excerpt.text),
        (_, true) => of_xml(&excerpt.text),
        _ => of_text(excerpt.complete_lines()),
    };
    let is_header = |line: &AlertLogLine| FORMAT.marks.iter().any(|mark| line.text.contains(mark));
    let start = lines.iter().rposition(|line| line.text.starts_with(START));
    // Without its first line a start counts where its account is whole.
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
        let mut report =
            LogReport::new(Engine::Oracle, if xml { "oracle log.xml" } else { "oracle alert log" });
        let why = if up.is_some() {
            "the last start logged nothing about its pages: Oracle is older than 11.2.0.2"
        } else {
            "the last start has not logged its pages yet"
        };
        report.set_unknown(why);
        report
    };
    if json {
        report.format = if report.format.contains("table") {
            "oracle page size table, JSON"
        } else {
            "oracle alert log, JSON"
        };
    }
    report.started_at = lines.iter().take(3).find_map(|line| line.stamp.clone());
    for (at, line) in lines.iter().enumerate() {
        read_line(&mut report, line, lines.get(at + 1), up.is_some());
    }
    explain_too_large(&mut report, lines);
    let off = |line: &String| {
        line.starts_with("use_large_pages") && line.to_ascii_uppercase().contains("FALSE")
    };
    if report.verdict == LogVerdict::None && report.lines.iter().any(off) {
        report.reason = "use_large_pages is FALSE".into();
    }
    Some(report)
}

fn read_line(report: &mut LogReport, line: &AlertLogLine, next: Option<&AlertLogLine>, up: bool) {
    let text = line.text.as_str();
    if text.starts_with(START) || text.starts_with("use_large_pages") {
        report.add_evidence(text);
    }
    if let Some(value) = text.strip_prefix(MEMLOCK).map(str::trim) {
        report.add_evidence(text);
        report.memlock = match parse_amount(value) {
            Some(limit) if value.ends_with(|unit: char| unit.is_ascii_alphabetic()) => {
                Observed::Known(Limit::At(limit))
            }
            _ if value.eq_ignore_ascii_case("unlimited") => Observed::Known(Limit::Unlimited),
            _ => Observed::Malformed("no limit".into()),
        };
    }
    let refused = refuses_setting(text);
    if refused || (FATAL.iter().any(|error| text.contains(error)) && !log_table::is_row(text)) {
        report.add_error(text);
        let errno = next.filter(|next| {
            next.text.contains(" Error: ") || (refused && next.text.starts_with(':'))
        });
        if let Some(errno) = errno {
            report.add_error(&errno.text);
        }
        // An instance that is up did without what it was refused.
        if up {
            return;
        }
        let meaning = explain_errno(text, errno.map_or("", |line| &line.text));
        let reason = if meaning.is_empty() {
            std::mem::take(&mut report.reason)
        } else {
            meaning.to_owned()
        };
        let known = report.verdict == LogVerdict::Failed;
        report.set_verdict(LogVerdict::Failed);
        if known || !meaning.is_empty() {
            report.reason = reason;
        }
    }
}

fn explain_too_large(report: &mut LogReport, lines: &[AlertLogLine]) {
    let amount_of = |words: &str| {
        let line = lines.iter().find(|line| line.text.starts_with(words))?;
        let amount = line.text.strip_prefix(words)?.trim_end_matches('.');
        Some((line.text.clone(), amount.to_owned()))
    };
    let Some((_, wanted)) = amount_of(TOO_LARGE).filter(|_| report.verdict == LogVerdict::Failed)
    else {
        return;
    };
    let mut reason = format!("an SGA of {wanted} does not fit");
    if let Some((line, seen)) = amount_of(SEEN_MEMORY) {
        reason += &format!(
            " into the {seen} of memory that the instance sees, its container's or virtual \
             machine's if it runs in one"
        );
        report.add_evidence(&line);
    }
    if let Some((line, most)) = amount_of(MOST_SHARED) {
        reason += &format!(": at most {most}");
        report.add_evidence(&line);
    }
    report.reason = reason;
}

/// Whether a line refuses a value of USE_LARGE_PAGES. The words around differ between releases, not
/// all of which were seen.
fn refuses_setting(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let names = text.contains("use_large_pages");
    let refusals = [UNSUPPORTED, "is not supported", "not allowed", "no longer supported"];
    names && refusals.iter().any(|refusal| text.contains(refusal))
}

pub(super) fn explain_errno(text: &str, errno: &str) -> &'static str {
    if text.contains("ORA-27102") && errno.contains("Error: 28") {
        "ENOSPC from shmget: the segment goes beyond kernel.shmall"
    } else if text.contains("ORA-27102") && errno.contains("Error: 22") {
        "EINVAL from shmget: the segment is larger than kernel.shmmax"
    } else if text.contains("ORA-27102") && errno.contains("Error: 12") {
        "ENOMEM: the pool was too small, memlock too low, or memory exhausted"
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
