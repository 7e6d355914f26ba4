//! What is left of a top or a ps: rows below their headings, without the lines that say when.

use super::{format_moment, old_top};
use crate::Moment;
use crate::readers::ps::PsTable;
use crate::readers::top::{Pass, is_of_busybox};

/// A top behind the date that it lacks, with its head or a part of it, and what it lacked; BusyBox's rows
/// too, which come once.
pub(super) fn render_headed_top(lines: &[String], began: Moment) -> Option<(String, &'static str)> {
    let at = format_moment(began);
    let (day, midnight) = at.split_once('T').unwrap_or(("1970-01-01", "00:00:00"));
    let text = |from: usize| super::text_from(lines, from);
    if let Some(from) = lines.iter().position(|line| Pass::is_heading(line)) {
        let time = lines.get(from).and_then(|line| line.split_ascii_whitespace().nth(2));
        let whole = format!("{day} {}\n{}", time.unwrap_or("00:00:00"), text(from));
        return Some((whole, "has times of day and no date"));
    }
    if let Some((time, modern)) = old_top::modernize_screen(lines) {
        return Some((format!("{day} {time}\n{modern}"), "has times of day and no date"));
    }
    let from = find_headless_top(lines)?;
    // What uptime prints is top's first line.
    let before = lines.iter().take(from).rev().map(|line| line.trim());
    let heading = before.into_iter().find(|line| is_of_uptime(line)).unwrap_or(midnight);
    let time = heading.split(' ').next().unwrap_or(midnight);
    Some((format!("{day} {time}\ntop - {heading}\n{}", text(from)), "has no time"))
}

/// One table of ps behind the time that somebody gave.
pub(super) fn render_ps(lines: &[String], began: Moment) -> Option<String> {
    let from = lines.iter().position(|line| PsTable::is_heading(line))?;
    Some(format!("{}\n{}", format_moment(began).replace('T', " "), super::text_from(lines, from)))
}

/// Where a top begins whose first line is missing, or all of its head.
fn find_headless_top(lines: &[String]) -> Option<usize> {
    let head = lines
        .iter()
        .position(|line| line.starts_with("Tasks:"))
        .filter(|tasks| lines.iter().skip(*tasks).take(3).any(|line| line.contains("Cpu(s):")));
    head.or_else(|| lines.iter().position(|line| is_busybox_heading(line)))
}

fn is_busybox_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.first() == Some(&"PID") && words.last() == Some(&"COMMAND") && is_of_busybox(&words)
}

/// ` 13:02:52 up 571 days,  1:01,  1 user,  load average: 44.84, 43.19, 41.05`
fn is_of_uptime(line: &str) -> bool {
    let time = line.split(' ').next().unwrap_or_default();
    hugewise_model::calendar::time_of_day(time).is_some()
        && line.contains(" up ")
        && line.contains("load average: ")
}
