//! A stream line by line, in bounded memory, and the fields of lines.

use std::io::{BufRead, BufReader, Read};

use crate::{Metric, Series};

/// Bytes of the longest line of most formats.
pub(super) const LONGEST_LINE: u64 = 64 << 10;

/// Bytes without an end of a line, behind which no text follows: a file may have a hole of any size.
const MOST_WITHOUT_END: u64 = 16 << 20;

/// How long a line is so far.
#[derive(Debug, Default)]
struct LineLength(u64);

impl LineLength {
    /// Counts what was read; says what is wrong with a line that does not end.
    fn count_bytes(&mut self, read: &[u8]) -> Option<String> {
        let is_end = read.last() == Some(&b'\n');
        let length = self.0.saturating_add(u64::try_from(read.len()).unwrap_or(u64::MAX));
        self.0 = if is_end { 0 } else { length };
        (self.0 > MOST_WITHOUT_END).then(|| {
            format!("a line has more than {} MiB, the rest is left out", MOST_WITHOUT_END >> 20)
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineStreamEnd {
    /// After a whole line.
    Whole,
    /// Within a line, which may have lost digits and is not handed on.
    Torn,
    /// With an error.
    Failed(String),
}

impl LineStreamEnd {
    pub(super) fn describe_problem(&self) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Torn => Some("the last line is cut short, and left out".into()),
            Self::Failed(error) => Some(format!("cannot be read to its end: {error}")),
        }
    }

    pub(super) fn note_problem(&self, series: &mut Series) {
        if let Some(problem) = self.describe_problem() {
            series.add_problem(problem);
        }
    }
}

/// Hands on each whole line without its end, at most `longest` bytes of it.
pub(super) fn for_each_line(
    stream: &mut dyn Read,
    longest: u64,
    mut hand: impl FnMut(&str),
) -> LineStreamEnd {
    let mut lines = BufReader::with_capacity(64 << 10, stream);
    let mut line = Vec::new();
    let mut rest = false;
    let mut length = LineLength::default();
    loop {
        line.clear();
        match lines.by_ref().take(longest.max(1)).read_until(b'\n', &mut line) {
            Ok(0) => return LineStreamEnd::Whole,
            Ok(read) => {
                let whole = line.last() == Some(&b'\n');
                if !whole && u64::try_from(read).is_ok_and(|read| read < longest) {
                    return LineStreamEnd::Torn;
                }
                if !rest {
                    hand(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
                }
                rest = !whole;
                if let Some(why) = length.count_bytes(&line) {
                    return LineStreamEnd::Failed(why);
                }
            }
            Err(error) => return LineStreamEnd::Failed(error.to_string()),
        }
    }
}

/// Hands on each line, also a torn last one, for as long as `hand` wants more; returns why the
/// stream could not be read to its end.
pub(super) fn for_each_line_or_rest(
    stream: &mut dyn Read,
    longest: u64,
    mut hand: impl FnMut(&str) -> bool,
) -> Option<String> {
    let mut lines = BufReader::with_capacity(64 << 10, stream);
    let mut line = Vec::new();
    let mut length = LineLength::default();
    loop {
        line.clear();
        match lines.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) if hand(&String::from_utf8_lossy(&line)) => {
                if let Some(why) = length.count_bytes(&line) {
                    return Some(why);
                }
            }
            Ok(_) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

/// The first fields of a line, up to so many: those in quotes can hold commas, and `""` a quote.
pub(super) fn split_csv_line(line: &str, most: usize) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if !quoted || letters.next_if_eq(&'"').is_none() => quoted = !quoted,
            ',' if !quoted && fields.len() >= most => break,
            ',' if !quoted => fields.push(String::new()),
            letter => fields.last_mut().into_iter().for_each(|field| field.push(letter)),
        }
    }
    fields
}

/// Heading, metric, factor from its unit to the metric's, and whether it is of an interval.
pub(super) type TableColumn = (&'static str, Metric, f64, bool);

/// Sets a column's value in the row begun last; one of an interval only if `rates`.
pub(super) fn set_column_value(
    series: &mut Series,
    table: &[TableColumn],
    heading: &str,
    value: f64,
    rates: bool,
) {
    let known = table.iter().find(|(name, ..)| *name == heading);
    if let Some((_, metric, factor, of_interval)) = known
        && (rates || !of_interval)
    {
        series.set_value(*metric, value * factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, longest: u64) -> (Vec<String>, LineStreamEnd) {
        let mut all = Vec::new();
        let end = for_each_line(&mut text.as_bytes(), longest, |line| all.push(line.to_owned()));
        (all, end)
    }

    /// A file with a hole behind its first line reads as zeros without end.
    #[test]
    fn a_line_without_end_ends_the_reading() {
        let endless = || "first\n".as_bytes().chain(std::io::repeat(0));
        let mut all = Vec::new();
        let end = for_each_line(&mut endless(), 9, |line| all.push(line.to_owned()));
        assert_eq!((all[0].as_str(), all.len()), ("first", 2));
        let why = "a line has more than 16 MiB, the rest is left out".to_owned();
        assert_eq!(end, LineStreamEnd::Failed(why.clone()));
        assert_eq!(for_each_line_or_rest(&mut endless(), LONGEST_LINE, |_| true), Some(why));
    }

    #[test]
    fn lines_are_whole_or_not_handed_on() {
        assert_eq!(
            lines("a\r\n\nb\n", 9),
            (["a", "", "b"].map(str::to_owned).to_vec(), LineStreamEnd::Whole)
        );
        assert_eq!(lines("a\nb", 9), (vec!["a".to_owned()], LineStreamEnd::Torn));
        assert_eq!(
            lines("0123456789\nb\n", 4),
            (["0123", "b"].map(str::to_owned).to_vec(), LineStreamEnd::Whole)
        );
        assert_eq!(lines("", 4), (vec![], LineStreamEnd::Whole));
    }
}
