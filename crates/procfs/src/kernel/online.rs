//! /sys/devices/system/cpu/online: the kernel's list format, `0-3,8,10-11`.

use super::text::parse_number;
use hugewise_source::ParseError;

pub(super) const PATH: &str = "/sys/devices/system/cpu/online";

/// How many numbers the list has. Fails where a part is no number, or a range runs backwards.
pub fn parse(bytes: &[u8]) -> Result<u64, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut count = 0_u64;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u64 = parse_number(Some(first), 1, "processor")?;
        let last: u64 = parse_number(Some(last), 1, "processor")?;
        let more = last
            .checked_sub(first)
            .ok_or_else(|| ParseError::at_line(1, "a range runs backwards"))?;
        count = count.saturating_add(more).saturating_add(1);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_as_the_kernel_prints_them() {
        assert_eq!(parse(b"0\n"), Ok(1));
        assert_eq!(parse(b"0-63\n"), Ok(64));
        assert_eq!(parse(b"0-1,4,6-7\n"), Ok(5));
        assert_eq!(parse(b"0-18446744073709551615,3\n"), Ok(u64::MAX));
        for text in ["", "\n", "3-1", "0-", "a", "0,,1"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_processor_counts_once(ids in prop::collection::btree_set(0..4096u64, 1..100)) {
            let text: Vec<_> = ids.iter().map(ToString::to_string).collect();
            prop_assert_eq!(parse(text.join(",").as_bytes()), Ok(u64::try_from(ids.len()).unwrap()));
        }
    }
}
