//! How a PostgreSQL server reads numbers (guc.c: `parse_int`, `convert_to_base_unit`).

/// From small to large, each in the smallest of them.
pub(super) type Units = &'static [(&'static str, u64)];

pub(super) const MEMORY: Units =
    &[("B", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)];

pub(super) const TIME: Units = &[
    ("us", 1),
    ("ms", 1000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// A number with more digits is more than any setting takes.
const MOST_DIGITS: usize = 24;
/// Decimal places, or zeros, that a number may have.
const MOST_PLACES: i32 = 30;

/// Digits, and how many of them are behind the point; less than none with an exponent.
struct Number {
    negative: bool,
    digits: u128,
    places: i32,
}

/// A number in units of `base` of the smallest of `units`: `6GB` in blocks of 8 KiB.
pub(super) fn parse_amount(value: &str, units: Units, base: u64) -> Option<i128> {
    let (number, rest) = parse_number(value)?;
    let unit = rest.trim_start_matches(is_space);
    if unit.is_empty() {
        return number.convert_units(1, 1, 1);
    }
    let at = units.iter().position(|(name, _)| *name == unit.trim_end_matches(is_space))?;
    let (_, factor) = units.get(at)?;
    // A fraction of a unit is rounded to a whole number of the next smaller one.
    let smaller = at.checked_sub(1).and_then(|at| units.get(at)).map_or(1, |(_, smaller)| *smaller);
    number.convert_units(*factor, smaller, base)
}

/// A number without a unit: `100`, `0x64`, `1e2`; a fraction is rounded.
pub(super) fn parse_integer(value: &str) -> Option<i128> {
    parse_amount(value, &[], 1)
}

fn is_space(sign: char) -> bool {
    sign.is_ascii_whitespace() || sign == '\u{b}'
}

/// The number at the beginning of a text, perhaps hexadecimal or octal, and what follows.
fn parse_number(value: &str) -> Option<(Number, &str)> {
    let text = value.trim_start_matches(is_space);
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let run = |text: &str, radix: u32| {
        text.find(|sign: char| !sign.is_digit(radix)).unwrap_or(text.len())
    };
    let whole = |digits: &str, radix: u32| u128::from_str_radix(digits, radix).ok();
    if let Some(hex) =
        text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).filter(|hex| run(hex, 16) > 0)
    {
        let (digits, rest) = hex.split_at(run(hex, 16));
        let digits =
            whole(digits, 16).filter(|_| digits.len() <= MOST_DIGITS && !rest.starts_with('.'))?;
        return Some((Number { negative, digits, places: 0 }, rest));
    }
    let (before, rest) = text.split_at(run(text, 10));
    let (after, rest, point) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (after, rest) = rest.split_at(run(rest, 10));
            (after, rest, true)
        }
        None => ("", rest, false),
    };
    if before.is_empty() && after.is_empty() {
        return None;
    }
    let (exponent, rest, scaled) = parse_exponent(rest);
    if !point && !scaled && before.len() > 1 && before.starts_with('0') {
        let (digits, rest) = text.split_at(run(text, 8));
        return Some((Number { negative, digits: whole(digits, 8)?, places: 0 }, rest));
    }
    let digits = format!("{before}{after}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > MOST_DIGITS {
        return None;
    }
    let digits = if digits.is_empty() { 0 } else { whole(digits, 10)? };
    let places = i32::try_from(after.len()).ok()?.checked_sub(exponent)?;
    (places.abs() <= MOST_PLACES).then_some((Number { negative, digits, places }, rest))
}

/// An exponent such as `e3`, what follows it, and whether there is one.
fn parse_exponent(text: &str) -> (i32, &str, bool) {
    let read = || {
        let rest = text.strip_prefix(['e', 'E'])?;
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let end = unsigned.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(unsigned.len());
        let (digits, behind) = unsigned.split_at(end);
        let number: i32 = digits.parse().ok()?;
        Some((if rest.starts_with('-') { -number } else { number }, behind))
    };
    read().map_or((0, text, false), |(number, behind)| (number, behind, true))
}

impl Number {
    /// The number of `factor`s in `base`s, rounded to a whole number of `smaller` before.
    fn convert_units(&self, factor: u64, smaller: u64, base: u64) -> Option<i128> {
        let ten = |places: i32| 10_u128.checked_pow(u32::try_from(places).ok()?);
        let (up, down) = match self.places {
            places if places > 0 => (1, ten(places)?),
            places => (ten(-places)?, 1),
        };
        let scaled = self.digits.checked_mul(up)?.checked_mul(u128::from(factor / smaller))?;
        let total = divide_rounded(scaled, down)?.checked_mul(u128::from(smaller))?;
        let number = i128::try_from(divide_rounded(total, u128::from(base))?).ok()?;
        Some(if self.negative { -number } else { number })
    }
}

/// Rounded to the nearest, a tie to the even one (rint(3)).
fn divide_rounded(number: u128, divisor: u128) -> Option<u128> {
    let (whole, rest) = (number.checked_div(divisor)?, number.checked_rem(divisor)?);
    let up = match (rest.checked_mul(2)?).cmp(&divisor) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => whole % 2 == 1,
    };
    Some(whole + u128::from(up))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `postgres -C shared_buffers` of 15.20 says, in blocks of 8 KiB.
    #[test]
    fn an_amount_is_what_the_server_says() {
        for (text, blocks) in [
            ("1GB", 131_072),
            ("1 GB", 131_072),
            (" 4 MB ", 512),
            ("128kB", 16),
            ("127kB", 16),
            ("100kB", 12),
            ("1e5", 100_000),
            ("0x100", 256),
            ("0x100kB", 32),
            ("0100", 64),
            ("020", 16),
            ("1.5GB", 196_608),
            ("16.4", 16),
            ("16.6", 17),
            ("+64", 64),
            ("131072B", 16),
            ("4B", 0),
            ("-1", -1),
            ("4TB", 536_870_912),
        ] {
            assert_eq!(parse_amount(text, MEMORY, 8192), Some(blocks), "{text}");
        }
        for text in [
            "4g", "4Mb", "4 mb", "", "abc", "16 .5", "0x1p10", "infinity", "nan", "08000", "0x",
            "1GB x", "64us", "1e",
        ] {
            assert_eq!(parse_amount(text, MEMORY, 8192), None, "{text}");
        }
        assert_eq!(
            (
                parse_integer("100kB"),
                parse_integer("10.5"),
                parse_integer("0x64"),
                parse_integer("1e2")
            ),
            (None, Some(10), Some(100), Some(100))
        );
        assert_eq!(parse_amount("5min", TIME, 1_000_000), Some(300));
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text in "[-+0-9a-fA-FxX. eEkMGTB]{0,40}|.{0,20}") {
            let _ = parse_amount(&text, MEMORY, 8192);
            let _ = parse_integer(&text);
        }
    }
}
