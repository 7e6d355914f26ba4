//! Lines as systemd's own programs take them from a file (`read_line()` of its `fileio.c`).

use std::borrow::Cow;

/// At a line of that many bytes the file is given up; what stood before it counts.
const TOO_LONG: usize = 1 << 20;

#[derive(Clone, Copy, Default)]
struct LineEndState {
    feed: bool,
    carriage: bool,
    zero: bool,
}

impl LineEndState {
    /// Whether this byte belongs to the end of the line; `None` where it begins the next one.
    fn accept_byte(&mut self, byte: u8) -> Option<bool> {
        if self.zero {
            return None;
        }
        let seen = match byte {
            b'\n' => &mut self.feed,
            b'\r' => &mut self.carriage,
            0 => &mut self.zero,
            _ => return (!self.feed && !self.carriage).then_some(false),
        };
        // A second end of the same kind is another line's.
        (!std::mem::replace(seen, true)).then_some(true)
    }
}

/// Numbered from 1, without blanks around them. A line ends with a line feed, a carriage return or
/// a zero byte, or with the first two in any order. What is not UTF-8 becomes the replacement sign.
pub(crate) fn read_lines(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    let mut rest = bytes;
    let lines = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut ends, mut text, mut all) = (LineEndState::default(), 0, 0);
        for byte in rest {
            if text >= TOO_LONG {
                rest = &[];
                return None;
            }
            match ends.accept_byte(*byte) {
                None => break,
                Some(true) => {}
                Some(false) => text += 1,
            }
            all += 1;
        }
        let (line, more) = rest.split_at_checked(all)?;
        rest = more;
        line.get(..text)
    });
    (1..).zip(lines.map(|line| trim_line(String::from_utf8_lossy(line))))
}

/// systemd's white space; others, such as the form feed, are part of the text.
fn trim_line(line: Cow<'_, str>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(text) => Cow::Borrowed(strip_whitespace(text)),
        Cow::Owned(text) => Cow::Owned(strip_whitespace(&text).to_owned()),
    }
}

pub(crate) fn strip_whitespace(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, String)> {
        read_lines(bytes).map(|(number, line)| (number, line.into_owned())).collect()
    }

    #[test]
    fn all_ends_of_lines_are_ends() {
        let seen = lines(b" a \r\nb\n\rc\rd\n\ne\0f\x0c");
        let expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, "e"), (7, "f\x0c")];
        assert_eq!(seen, expected.map(|(number, line)| (number, line.to_owned())));
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [(1, String::new())]);
    }

    #[test]
    fn a_line_without_end_ends_the_file() {
        let long = format!("a\n{}\nb\n", "x".repeat(TOO_LONG));
        assert_eq!(lines(long.as_bytes()), [(1, "a".to_owned())]);
        let just = format!("a\n{}\nb\n", "x".repeat(TOO_LONG - 1));
        assert_eq!(lines(just.as_bytes()).len(), 3);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(read_lines(&bytes).count() <= bytes.len());
        }
    }
}
