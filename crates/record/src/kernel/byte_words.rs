//! Words and numbers in bytes, without a copy.

pub(crate) fn split_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

pub(crate) fn parse_number(word: &[u8]) -> Option<u64> {
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
        assert_eq!(split_words(b"  cpu0  1 2\n").collect::<Vec<_>>(), [&b"cpu0"[..], b"1", b"2"]);
        assert_eq!(split_words(b"  ").count(), 0);
        assert_eq!(parse_number(b"18446744073709551615"), Some(u64::MAX));
        for none in [&b""[..], b"18446744073709551616", b"-1", b"1a", b" 1"] {
            assert_eq!(parse_number(none), None);
        }
    }
}
