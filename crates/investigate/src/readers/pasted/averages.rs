//! The averages that sysstat's tools print at the end, without what they are of: `Average:`, in the
//! language of whoever ran them. They are of a run whose length nobody says.

use super::format_moment;
use crate::Moment;
use crate::readers::pidstat;
use crate::readers::sysstat::text::is_heading;

/// Characters of the longest word for it.
const LONGEST_LABEL: usize = 24;
/// Tables that are read; a second each.
const MOST_TABLES: i64 = 1000;

/// The tables with a time for their label: each is of the second behind its headings. `None` where
/// the intervals themselves are there, or no table has headings.
pub(super) fn date_averages(lines: &[String], began: Moment) -> Option<Vec<String>> {
    if lines.iter().any(|line| is_heading(line) || pidstat::is_heading(line)) {
        return None;
    }
    let mut dated = Vec::new();
    let mut tables = 0_i64;
    for line in lines {
        let Some(rest) = strip_label(line) else { continue };
        let at = |tables: i64, second: i64| {
            let moment =
                format_moment(Moment(began.0.saturating_add((2 * tables + second) * 1000)));
            format!("{} {rest}", moment.split_once('T').map_or("", |(_, time)| time))
        };
        let heading = at(tables, 0);
        if is_heading(&heading) || pidstat::is_heading(&heading) {
            tables += 1;
            if tables > MOST_TABLES {
                break;
            }
            dated.push(at(tables, 0));
        } else if tables > 0 {
            dated.push(at(tables, 1));
        }
    }
    (tables > 0).then_some(dated)
}

/// What follows `Average:`, `Moyenne :`, `Durchschn.:`.
fn strip_label(line: &str) -> Option<&str> {
    let (label, rest) = line.trim_start().split_once(':')?;
    let label = label.trim_end();
    let is_word = !label.is_empty()
        && label.chars().count() <= LONGEST_LABEL
        && label.chars().all(|letter| letter.is_alphabetic() || letter == '.');
    (is_word && rest.starts_with([' ', '\t'])).then(|| rest.trim())
}
