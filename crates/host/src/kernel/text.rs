//! What the kernel's text files have in common.

use std::str::FromStr;

use crate::ParseError;

/// Lines with their numbers, from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines())
}

/// A number that is nothing but digits: the kernel prints no plus sign.
pub(crate) fn digits<T: FromStr>(word: &str) -> Option<T> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) { word.parse().ok() } else { None }
}

/// A number at a place in a line.
pub(crate) fn number<T: FromStr>(word: Option<&str>, line: u64, what: &'static str) -> Result<T, ParseError> {
    let word = word.ok_or(ParseError::at(line, "is missing").of(what))?;
    digits(word).ok_or(ParseError::at(line, "is no number").of(what))
}

/// Undoes `\040`-like escapes of blanks in /proc/mounts and /proc/swaps.
pub(crate) fn unescape(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) = (first, tail) {
            bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_blanks_come_back() {
        assert_eq!(unescape(r"/mnt/big\040pages\134x"), r"/mnt/big pages\x");
        assert_eq!(unescape(r"a\9\04"), r"a\9\04");
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(digits::<u64>("+5"), None);
        assert_eq!(digits::<u64>(""), None);
        assert_eq!(digits::<u64>("18446744073709551616"), None);
        assert_eq!(digits::<u64>("18446744073692774399"), Some(18_446_744_073_692_774_399));
    }
}
