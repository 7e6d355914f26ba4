//! A stream line by line, in bounded memory.

use std::io::{BufRead, BufReader, Read};

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Behind a whole line.
    Whole,
    /// Within a line, which may have lost digits and is not handed on.
    Torn,
    /// With an error.
    Failed(String),
}

impl End {
    /// What to tell of it, unless all is well.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Torn => Some("the last line is cut short, and left out".into()),
            Self::Failed(error) => Some(format!("cannot be read to its end: {error}")),
        }
    }
}

/// Hands on each whole line without its end; of one longer than `longest` bytes the beginning alone.
pub(super) fn each(stream: &mut dyn Read, longest: u64, mut hand: impl FnMut(&str)) -> End {
    let mut lines = BufReader::with_capacity(64 << 10, stream);
    let mut line = Vec::new();
    // Whether the rest of a line that was too long is still to come.
    let mut rest = false;
    loop {
        line.clear();
        match lines.by_ref().take(longest.max(1)).read_until(b'\n', &mut line) {
            Ok(0) => return End::Whole,
            Ok(read) => {
                let whole = line.last() == Some(&b'\n');
                if !whole && u64::try_from(read).is_ok_and(|read| read < longest) {
                    return End::Torn;
                }
                if !rest {
                    hand(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
                }
                rest = !whole;
            }
            Err(error) => return End::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, longest: u64) -> (Vec<String>, End) {
        let mut all = Vec::new();
        let end = each(&mut text.as_bytes(), longest, |line| all.push(line.to_owned()));
        (all, end)
    }

    #[test]
    fn lines_are_whole_or_not_handed_on() {
        assert_eq!(lines("a\r\n\nb\n", 9), (["a", "", "b"].map(str::to_owned).to_vec(), End::Whole));
        assert_eq!(lines("a\nb", 9), (vec!["a".to_owned()], End::Torn));
        assert_eq!(lines("0123456789\nb\n", 4), (["0123", "b"].map(str::to_owned).to_vec(), End::Whole));
        assert_eq!(lines("", 4), (vec![], End::Whole));
    }
}
