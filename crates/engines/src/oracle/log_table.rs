//! The table of page sizes that Oracle 12.1 and later write.
//!
//! Its column ERROR(s) says NONE even where nothing is on huge pages: only what was allocated, against
//! what was expected, tells.

use hugewise_model::{Engine, PageCount, PageSize};

use super::log_lines::Line;
use crate::logs::{Excerpt, LogReport, LogVerdict, amount};

pub(super) const HEADER: &str = "EXPECTED_PAGES  ALLOCATED_PAGES";
const AVAILABLE: &str = "Available system pagesizes:";

struct Row {
    size: PageSize,
    base: bool,
    expected: PageCount,
    allocated: PageCount,
    error: Option<String>,
}

/// `2048K  1610  1602  1602  NONE`; base pages are `Configured`.
fn row(line: &str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace();
    let size = words.next().filter(|size| size.ends_with(['K', 'M', 'G']))?;
    let size = PageSize::new(amount(size)?.get())?;
    let available = words.next()?;
    let base = available == "Configured" || size == PageSize::KIB_4;
    let _: Option<u64> = if base { None } else { Some(available.parse().ok()?) };
    let expected = PageCount(words.next()?.parse().ok()?);
    let allocated = PageCount(words.next()?.parse().ok()?);
    let error = words.collect::<Vec<_>>().join(" ");
    if error.is_empty() {
        return None;
    }
    let error = Some(error).filter(|error| error != "NONE");
    Some(Row { size, base, expected, allocated, error })
}

/// Whether a line is a row of the table: an error in it says why pages are missing, and ends nothing.
pub(super) fn is_row(line: &str) -> bool {
    row(line).is_some()
}

/// Sizes of the line after "Available system pagesizes:", smallest first.
fn available(lines: &[Line]) -> Option<Vec<PageSize>> {
    let at = lines.iter().position(|line| line.text.starts_with(AVAILABLE))?;
    let sizes = lines.get(at + 1)?.text.split(',').map(|size| PageSize::new(amount(size.trim())?.get()));
    let mut sizes: Vec<PageSize> = sizes.collect::<Option<_>>()?;
    sizes.sort_unstable();
    Some(sizes)
}

pub(super) fn read(lines: &[Line], excerpt: &Excerpt, xml: bool) -> LogReport {
    let format = if xml { "oracle page size table, log.xml" } else { "oracle page size table" };
    let mut report = LogReport::new(Engine::Oracle, format);
    let header = lines.iter().rposition(|line| line.text.contains(HEADER)).unwrap_or(0);
    let table = lines.get(header + 1..).unwrap_or_default();
    let rows: Vec<Row> = table.iter().map_while(|line| row(&line.text)).collect();
    for line in lines.get(header..=header + rows.len()).unwrap_or_default() {
        report.evidence(&line.text);
    }
    for error in rows.iter().filter_map(|row| row.error.as_deref()) {
        report.error(error);
    }
    let after = table.get(rows.len());
    // What follows a table is never the beginning of a row, unless that row is cut off.
    let unended = if xml { None } else { excerpt.unended().map(str::trim) };
    let ended = after.is_some_and(|line| {
        !line.text.starts_with(|first: char| first.is_ascii_digit()) && unended != Some(line.text.as_str())
    });
    let listed = available(lines.get(..header).unwrap_or_default());
    let whole = match (ended, &listed) {
        (true, _) => true,
        (false, Some(sizes)) => sizes.last().is_some_and(|last| rows.iter().any(|row| row.size == *last)),
        (false, None) => after.is_none() && !excerpt.cut_after && !rows.is_empty(),
    };
    let huge: Vec<&Row> = rows.iter().filter(|row| !row.base).collect();
    if let Some(main) = huge.iter().max_by_key(|row| (row.expected.of(row.size), std::cmp::Reverse(row.size))) {
        report.page_size = Some(main.size);
        if whole {
            (report.expected, report.allocated) = (Some(main.expected), Some(main.allocated));
            report.needed = Some(main.expected);
        }
    }
    if !whole || rows.is_empty() {
        report.unknown("the table of page sizes is cut off");
        return report;
    }
    let base_spilled = rows.iter().any(|row| row.base && row.allocated > row.expected);
    let expected = huge.iter().any(|row| row.expected > PageCount::ZERO);
    let met = huge.iter().all(|row| row.allocated >= row.expected);
    let some = huge.iter().any(|row| row.allocated > PageCount::ZERO);
    report.decide(match (expected, met, some) {
        (true, true, true) if !base_spilled => LogVerdict::All,
        (_, _, true) => LogVerdict::Partly,
        _ => LogVerdict::None,
    });
    for line in table.iter().skip(rows.len()).take(12).skip_while(|line| !line.text.starts_with("RECOMMENDATION")) {
        if line.text.starts_with('*') {
            break;
        }
        report.evidence(&line.text);
    }
    report
}
