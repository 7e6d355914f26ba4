//! Files of /proc/sys and /sys that hold one number.

use super::text::parse_digits;
use hugewise_source::ParseError;

/// The one number of a file. Fails on anything else.
pub fn parse(bytes: &[u8]) -> Result<u64, ParseError> {
    parse_digits(String::from_utf8_lossy(bytes).trim()).ok_or(ParseError::whole_file("no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_number_and_nothing_else() {
        assert_eq!(parse(b"512\n"), Ok(512));
        assert!(parse(b"").is_err());
        assert!(parse(b"1 2\n").is_err());
        assert!(parse(b"-1\n").is_err());
        assert!(parse(b"99999999999999999999\n").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64) {
            prop_assert_eq!(parse(format!("{number}\n").as_bytes()), Ok(number));
        }
    }
}
