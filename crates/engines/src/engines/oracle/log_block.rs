//! The block "Large Pages Information" of Oracle 11.2.0.3 and 11.2.0.4, and what 11.2.0.2 wrote.

use hugewise_model::{Engine, PageCount, PageSize};

use super::log_lines::AlertLogLine;
use crate::shared::logs::{LogReport, LogVerdict, number_after, parse_amount};

pub(super) const HEADER: &str = "* Large Pages Information *";
pub(super) const OLD_HEADER: &str = "* Huge Pages Information *";

/// Lines of the block up to the line of asterisks, and whether that line is there.
fn extract_block<'a>(lines: &'a [AlertLogLine], header: &str) -> (Vec<&'a str>, bool) {
    let from = lines.iter().rposition(|line| line.text.contains(header)).map_or(0, |at| at + 1);
    let lines = lines.get(from..).unwrap_or_default();
    let end = lines
        .iter()
        .position(|line| line.text.len() >= 20 && line.text.bytes().all(|byte| byte == b'*'));
    let inside = lines.get(..end.unwrap_or(lines.len())).unwrap_or_default();
    (inside.iter().map(|line| line.text.as_str()).collect(), end.is_some())
}

pub(super) fn read(lines: &[AlertLogLine], xml: bool) -> LogReport {
    let (lines, closed) = extract_block(lines, HEADER);
    let memlock = lines.iter().any(|line| line.starts_with("Per process system memlock"));
    let format = match (xml, memlock) {
        (false, false) => "oracle large pages block",
        (false, true) => "oracle large pages block with memlock",
        (true, _) => "oracle large pages block, log.xml",
    };
    let mut report = LogReport::new(Engine::Oracle, format);
    for line in &lines {
        report.add_evidence(line);
    }
    // Messages wrap over several lines.
    let text = lines.join(" ");
    let lower = text.to_ascii_lowercase();
    let size = parse_page_size(&text, &lower);
    report.page_size = size.filter(|size| *size > PageSize::KIB_4);
    let enough = ["unused large pages to atleast", "unused large pages to at least"];
    if let Some(enough) = enough.iter().find_map(|words| number_after(&lower, words)) {
        // The action after a start that was given up.
        (report.expected, report.allocated) = (Some(PageCount(enough)), Some(PageCount::ZERO));
        report.needed = Some(PageCount(enough));
        report.set_verdict(LogVerdict::Failed);
        return report;
    }
    if !closed {
        report.set_unknown("the block on large pages is cut off");
        return report;
    }
    let used = number_after(&text, "Large Pages used by this instance:");
    let increase = find_increase(&lower).map(|(more, _)| more);
    report.allocated = used.map(PageCount);
    report.expected = used.map(|used| PageCount(used.saturating_add(increase.unwrap_or_default())));
    report.needed = report.expected;
    let share = parse_percent(&text);
    let all = size.zip(parse_region_size(&text)).map(|(size, total)| size.pages_for(total).get());
    match (increase, share) {
        (Some(more), _)
            if used == Some(0) || share == Some(0) || all.is_some_and(|all| more >= all) =>
        {
            report.set_verdict(LogVerdict::None)
        }
        (None, Some(100)) => report.set_verdict(LogVerdict::All),
        (None, Some(0)) => report.set_verdict(LogVerdict::None),
        (Some(_), _) | (None, Some(_)) => report.set_verdict(LogVerdict::Partly),
        (None, None) if lower.contains("use_large_pages = false") => {
            report.set_verdict(LogVerdict::None)
        }
        (None, None) => {
            report.set_unknown("the block on large pages does not say how many were used")
        }
    }
    report
}

/// How many more large pages the block recommends, and where the text goes on.
fn find_increase(lower: &str) -> Option<(u64, usize)> {
    ["large pages by atleast", "large pages by at least"].iter().find_map(|words| {
        let count = number_after(lower, words)?;
        Some((count, lower.find(words)? + words.len()))
    })
}

/// The size of a large page; only "by atleast 513 2048 KB Large Pages" may name it.
fn parse_page_size(text: &str, lower: &str) -> Option<PageSize> {
    let by_its_words = ["large page size = ", "page size "].iter().find_map(|words| {
        let at = lower.find(words)? + words.len();
        PageSize::new(parse_amount(text.get(at..)?)?.get())
    });
    by_its_words.or_else(|| {
        let (count, at) = find_increase(lower)?;
        let rest = text.get(at..)?.trim_start().strip_prefix(&count.to_string())?;
        PageSize::new(parse_amount(rest)?.get())
    })
}

/// The share in `Total Shared Global Region in Large Pages = 602 MB (100%)`.
fn parse_percent(text: &str) -> Option<u64> {
    let rest = text.get(text.find("in Large Pages =")?..)?;
    let (share, _) = rest.split_once('(')?.1.split_once("%)")?;
    share.trim().parse().ok()
}

/// The size in `Total Shared Global Region size is 4098 MB`.
fn parse_region_size(text: &str) -> Option<hugewise_model::Bytes> {
    let words = ["Total Shared Global Region size is ", "Total System Global Area size is "];
    words.iter().find_map(|words| parse_amount(text.get(text.find(words)? + words.len()..)?))
}

/// The first form: no log of 11.2.0.2 was at hand, so only its plainest words count.
pub(super) fn read_old(lines: &[AlertLogLine], xml: bool) -> LogReport {
    let format = if xml { "oracle huge pages block, log.xml" } else { "oracle huge pages block" };
    let mut report = LogReport::new(Engine::Oracle, format);
    let (lines, closed) = extract_block(lines, OLD_HEADER);
    for line in &lines {
        report.add_evidence(line);
    }
    let text = lines.join(" ");
    let succeeded = text.contains("Huge Pages allocation successful");
    let failed = text.contains("Huge Pages allocation failed");
    match (closed, succeeded, failed) {
        (true, true, false) => {
            report.allocated = number_after(&text, "(allocated:").map(PageCount);
            report.set_verdict(LogVerdict::All);
        }
        (true, false, true) => {
            report.needed = number_after(&text, "required:").map(PageCount);
            report.expected = report.needed;
            report.set_verdict(LogVerdict::None);
        }
        _ => report.set_unknown("the block on huge pages has an unknown form, or is cut off"),
    }
    report
}
