//! What a text lacks that would be read with it: people copy rows without their headings.

use super::super::server_log;
use hugewise_model::calendar::time_of_day;
pub(super) fn explain_missing_part(lines: &[String]) -> Option<&'static str> {
    let any = |value_of: &dyn Fn(&str) -> bool| lines.iter().any(|line| value_of(line.trim()));
    let numbers = |words: &[&str]| {
        words.iter().filter(|word| word.bytes().any(|digit| digit.is_ascii_digit())).count()
    };
    let rows = |value_of: &dyn Fn(&[&str]) -> bool| {
        let words =
            |line: &String| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        lines
            .iter()
            .map(words)
            .filter(|words| value_of(&words.iter().map(String::as_str).collect::<Vec<_>>()))
            .count()
            >= 2
    };
    if any(&|line| {
        line.contains("Large Pages Information") || line.starts_with("PAGESIZE  AVAILABLE_PAGES")
    }) || any(&|line| line.starts_with("Starting ORACLE instance") || line.starts_with("ORA-"))
    {
        Some(
            "is a part of Oracle's alert log without a time: take it from a line with a date on; \
                 hugewise verify reads what an \
             instance says of its pages when it starts",
        )
    } else if any(&|line| server_log::is_undated(line)) {
        Some(
            "is a part of PostgreSQL's log without times: log_line_prefix = '%m [%p] ' writes them",
        )
    } else if any(&|line| line.starts_with("Mem:")) && any(&|line| line.starts_with("total ")) {
        Some(
            "is what free prints, which says nothing of page tables and is not read: \
             `while true; do date; cat /proc/meminfo; sleep 3; done` is",
        )
    } else if rows(&|words| {
        words.len() >= 13
            && words.iter().all(|word| word.bytes().all(|digit| digit.is_ascii_digit()))
    }) {
        Some(
            "has lines of numbers without headings: put the line `r b swpd free ...` of vmstat \
                 before them",
        )
    } else if rows(&|words| {
        words.len() >= 4
            && words.first().is_some_and(|first| time_of_day(first).is_some())
            && numbers(words) + 1 >= words.len()
    }) {
        Some(
            "has lines of numbers without headings: put the line of sar before them that says \
                 `CPU %user ...` or the like",
        )
    } else {
        None
    }
}
