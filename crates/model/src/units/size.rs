//! The one parser of sizes on the command line.

/// Servers and the kernel take sizes as signed numbers.
const TOO_LARGE: u64 = 1 << 63;
/// Digits of the fraction that count.
const DIGITS: usize = 12;

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSize {
    /// It is not a number with a unit.
    #[error("{0:?} is not a size; write it as 34G, 512M, 1.5GiB or 8192B")]
    Senseless(String),
    /// It is below zero.
    #[error("{0:?} is negative; a size must be more than 0")]
    Negative(String),
    /// It is zero, or less than a byte.
    #[error("{0:?} is zero; a size must be more than 0")]
    Nothing(String),
    /// It is 2^63 bytes or more.
    #[error("{0:?} is too large; a size must be less than 8 EiB")]
    TooLarge(String),
}

pub(super) fn parse(text: &str) -> Result<u64, NoSize> {
    let trimmed = text.trim();
    let no_size = || NoSize::Senseless(text.to_owned());
    if let Some(positive) = trimmed.strip_prefix(['-', '\u{2212}']) {
        return Err(match parse(positive) {
            Ok(_) => NoSize::Negative(text.to_owned()),
            Err(_) => no_size(),
        });
    }
    let end = trimmed
        .find(|character: char| !(character.is_ascii_digit() || character == '.'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let factor = unit_factor(unit.trim_start()).ok_or_else(no_size)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return Err(no_size());
    }
    let too_large = || NoSize::TooLarge(text.to_owned());
    // Only digits are left: nothing but their number can be wrong.
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let part = part.get(..DIGITS).unwrap_or(part);
    let scale = 10_u128.pow(u32::try_from(part.len()).unwrap_or_default());
    let part: u128 = part.parse().map_err(|_| no_size())?;
    let part = u64::try_from(part * u128::from(factor) / scale).map_err(|_| too_large())?;
    match whole.checked_mul(factor).and_then(|bytes| bytes.checked_add(part)) {
        Some(0) => Err(NoSize::Nothing(text.to_owned())),
        Some(bytes) if bytes < TOO_LARGE => Ok(bytes),
        _ => Err(too_large()),
    }
}

fn unit_factor(unit: &str) -> Option<u64> {
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        "p" | "pb" | "pib" => 5,
        _ => return None,
    };
    Some(1 << (10 * power))
}

#[cfg(test)]
mod tests {
    use crate::Bytes;
    use proptest::prelude::*;

    #[test]
    fn people_write_sizes_in_many_ways() {
        let gib = Bytes::from_gib;
        for (text, bytes) in [
            ("34G", gib(34)),
            ("34GiB", gib(34)),
            ("34GB", gib(34)),
            ("34gb", gib(34)),
            (" 34 G ", gib(34)),
            ("512M", Bytes::from_mib(512)),
            ("8192", Bytes(8192)),
            ("8192B", Bytes(8192)),
            ("64kB", Bytes::from_kib(64)),
            ("1.5G", Bytes::from_mib(1536)),
            ("0.5KiB", Bytes(512)),
            ("0.1K", Bytes(102)),
            ("2T", gib(2048)),
            ("7P", Bytes(7 << 50)),
            ("007M", Bytes::from_mib(7)),
            ("9223372036854775807", Bytes(i64::MAX.unsigned_abs())),
        ] {
            assert_eq!(Bytes::parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_named_with_what_is_wrong() {
        for (text, why) in [
            ("", "not a size"),
            ("G", "not a size"),
            ("34X", "not a size"),
            ("34 GiB of memory", "not a size"),
            ("1,5G", "not a size"),
            ("1.G", "not a size"),
            (".5G", "not a size"),
            ("1.2.3G", "not a size"),
            ("0x10G", "not a size"),
            ("1e9", "not a size"),
            ("+1G", "not a size"),
            ("--1G", "not a size"),
            ("-x", "not a size"),
            ("٣G", "not a size"),
            ("0", "zero"),
            ("0.0G", "zero"),
            ("0.1", "zero"),
            ("-34G", "negative"),
            ("9223372036854775808", "too large"),
            ("8192P", "too large"),
            ("99999999999999999999999G", "too large"),
        ] {
            let error = Bytes::parse(text).expect_err(text).to_string();
            assert!(
                error.contains(why) && error.contains(&format!("{text:?}")),
                "{text:?}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_no_size_is_named_and_what_is_one_is_not_nothing(text in "-?[0-9.]{0,60} \
            ?[kmgtpKMGTP]?i?B?") {
            match Bytes::parse(&text) {
                Ok(size) => prop_assert!((1..1 << 63).contains(&size.get())),
                Err(why) => prop_assert!(why.to_string().contains(&format!("{text:?}")), "{why}"),
            }
        }

        #[test]
        fn a_whole_number_of_a_unit_is_that_many(count in 1_u64..8_000_000) {
            prop_assert_eq!(Bytes::parse(&format!("{count}M")), Ok(Bytes::from_mib(count)));
            prop_assert_eq!(Bytes::parse(&format!("{}.5M", count)), Ok(Bytes::from_kib(count * 1024 + 512)));
        }
    }
}
