//! What the kernel's text files share.

use std::str::FromStr;

use hugewise_source::ParseError;

/// Numbered from 1.
pub(crate) fn text_lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines())
}

/// The kernel prints no plus sign.
pub(crate) fn parse_digits<T: FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok())?
}

pub(crate) fn parse_number<T: FromStr>(
    word: Option<&str>,
    line: u64,
    what: &'static str,
) -> Result<T, ParseError> {
    let word = word.ok_or(ParseError::at_line(line, "is missing").with_subject(what))?;
    parse_digits(word).ok_or(ParseError::at_line(line, "is no number").with_subject(what))
}

/// Undoes `\040`-like escapes of blanks in /proc/mounts and /proc/swaps.
pub(crate) fn unescape_octal(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) =
            (first, tail)
        {
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
        assert_eq!(unescape_octal(r"/mnt/big\040pages\134x"), r"/mnt/big pages\x");
        assert_eq!(unescape_octal(r"a\9\04"), r"a\9\04");
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(parse_digits::<u64>("+5"), None);
        assert_eq!(parse_digits::<u64>(""), None);
        assert_eq!(parse_digits::<u64>("18446744073709551616"), None);
        assert_eq!(parse_digits::<u64>("18446744073692774399"), Some(18_446_744_073_692_774_399));
    }
}
