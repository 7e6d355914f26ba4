//! Words and numbers in bytes, without a copy.

/// The words of a line.
pub(crate) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self(line)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let (_, rest) = self.0.split_at_checked(begin)?;
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at_checked(end)?;
        self.0 = rest;
        Some(word)
    }
}

/// The word of that number.
pub(crate) fn word(line: &[u8], number: usize) -> Option<&[u8]> {
    Words::new(line).nth(number)
}

/// A number of decimal digits alone.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        assert_eq!(Words::new(b"  cpu0  1 2\n").collect::<Vec<_>>(), [&b"cpu0"[..], b"1", b"2"]);
        assert_eq!(Words::new(b"  ").count(), 0);
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for none in [&b""[..], b"18446744073709551616", b"-1", b"1a", b" 1"] {
            assert_eq!(number(none), None);
        }
    }
}
