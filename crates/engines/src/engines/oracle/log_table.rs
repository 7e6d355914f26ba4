//! The table of page sizes of Oracle 12.1 and later. Its column ERROR(s) says NONE even where
//! nothing is on huge pages: only the allocated pages against the expected ones tell.

use hugewise_model::{Engine, PageCount, PageSize};

use super::log_lines::AlertLogLine;
use crate::shared::logs::{Excerpt, LogReport, LogVerdict, parse_amount};

pub(super) const HEADER: &str = "EXPECTED_PAGES  ALLOCATED_PAGES";
const AVAILABLE: &str = "Available system pagesizes:";

struct LargePagesTableRow {
    size: PageSize,
    base: bool,
    expected: PageCount,
    allocated: PageCount,
    error: Option<String>,
}

/// `2048K  1610  1602  1602  NONE`; base pages are `Configured`.
fn parse_row(line: &str) -> Option<LargePagesTableRow> {
    let mut words = line.split_ascii_whitespace();
    let size = words.next().filter(|size| size.ends_with(['K', 'M', 'G']))?;
    let size = PageSize::new(parse_amount(size)?.get())?;
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
    Some(LargePagesTableRow { size, base, expected, allocated, error })
}

/// An error in a row of the table says why pages are missing, and ends nothing.
pub(super) fn is_row(line: &str) -> bool {
    parse_row(line).is_some()
}

/// The sizes in the line after "Available system pagesizes:", smallest first.
fn parse_available_sizes(lines: &[AlertLogLine]) -> Option<Vec<PageSize>> {
    let at = lines.iter().position(|line| line.text.starts_with(AVAILABLE))?;
    let sizes = lines
        .get(at + 1)?
        .text
        .split(',')
        .map(|size| PageSize::new(parse_amount(size.trim())?.get()));
    let mut sizes: Vec<PageSize> = sizes.collect::<Option<_>>()?;
    sizes.sort_unstable();
    Some(sizes)
}

/// Whether the table ends with these rows, by what follows or by the sizes listed before it.
fn is_table_complete(
    table: &[AlertLogLine],
    rows: &[LargePagesTableRow],
    listed: Option<Vec<PageSize>>,
    excerpt: &Excerpt,
    xml: bool,
) -> bool {
    let after = table.get(rows.len());
    // Only a row that is cut off looks like the beginning of one.
    let unended = if xml { None } else { excerpt.unterminated_line().map(str::trim) };
    let ended = after.is_some_and(|line| {
        !line.text.starts_with(|first: char| first.is_ascii_digit())
            && unended != Some(line.text.as_str())
    });
    ended
        || match listed {
            Some(sizes) => {
                sizes.last().is_some_and(|last| rows.iter().any(|row| row.size == *last))
            }
            None => after.is_none() && !excerpt.cut_after && !rows.is_empty(),
        }
}

fn judge_rows(rows: &[LargePagesTableRow]) -> LogVerdict {
    let huge = || rows.iter().filter(|row| !row.base);
    let base_spilled = rows.iter().any(|row| row.base && row.allocated > row.expected);
    let expected = huge().any(|row| row.expected > PageCount::ZERO);
    let met = huge().all(|row| row.allocated >= row.expected);
    let some = huge().any(|row| row.allocated > PageCount::ZERO);
    match (expected, met, some) {
        (true, true, true) if !base_spilled => LogVerdict::All,
        (_, _, true) => LogVerdict::Partly,
        _ => LogVerdict::None,
    }
}

pub(super) fn read(lines: &[AlertLogLine], excerpt: &Excerpt, xml: bool) -> LogReport {
    let format = if xml { "oracle page size table, log.xml" } else { "oracle page size table" };
    let mut report = LogReport::new(Engine::Oracle, format);
    let header = lines.iter().rposition(|line| line.text.contains(HEADER)).unwrap_or(0);
    let table = lines.get(header + 1..).unwrap_or_default();
    let rows: Vec<LargePagesTableRow> =
        table.iter().map_while(|line| parse_row(&line.text)).collect();
    for line in lines.get(header..=header + rows.len()).unwrap_or_default() {
        report.add_evidence(&line.text);
    }
    for error in rows.iter().filter_map(|row| row.error.as_deref()) {
        report.add_error(error);
    }
    let listed = parse_available_sizes(lines.get(..header).unwrap_or_default());
    let complete = is_table_complete(table, &rows, listed, excerpt, xml);
    let huge = rows.iter().filter(|row| !row.base);
    if let Some(main) =
        huge.max_by_key(|row| (row.expected.to_bytes(row.size), std::cmp::Reverse(row.size)))
    {
        report.page_size = Some(main.size);
        if complete {
            (report.expected, report.allocated) = (Some(main.expected), Some(main.allocated));
            report.needed = Some(main.expected);
        }
    }
    if !complete || rows.is_empty() {
        report.set_unknown("the table of page sizes is cut off");
        return report;
    }
    report.set_verdict(judge_rows(&rows));
    let after = table.iter().skip(rows.len()).take(12).map(|line| line.text.as_str());
    for line in after
        .skip_while(|line| !line.starts_with("RECOMMENDATION"))
        .take_while(|line| !line.starts_with('*'))
    {
        report.add_evidence(line);
    }
    report
}
