//! Mode, user, group and age: they mean nothing to a write, but a line where one of them is none is
//! refused, and lines about one path differ by them.

use super::fields::RefusedTmpfilesLine;
use super::specifiers::SpecifierHost;
use crate::files::split_while;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TmpfilesAttributes {
    mode: Option<(u32, bool, bool)>,
    user: Option<(u32, bool)>,
    group: Option<(u32, bool)>,
    age: Option<(u64, String, bool)>,
}

/// `None` and a dash leave a field out.
pub(super) fn parse_attributes(
    fields: &[Option<String>; 4],
    here: &SpecifierHost<'_>,
) -> Result<TmpfilesAttributes, RefusedTmpfilesLine> {
    let [mode, user, group, age] =
        fields.each_ref().map(|field| field.as_deref().filter(|text| !matches!(*text, "" | "-")));
    let id = |name: &str, find: &dyn Fn(&str) -> Option<u32>| {
        let plain = name.strip_prefix(':');
        find(plain.unwrap_or(name)).map(|id| (id, plain.is_some())).ok_or(RefusedTmpfilesLine)
    };
    Ok(TmpfilesAttributes {
        user: user.map(|name| id(name, &|name| here.user_id(name))).transpose()?,
        group: group.map(|name| id(name, &|name| here.group_id(name))).transpose()?,
        mode: mode.map(parse_mode).transpose()?,
        age: age.map(parse_age).transpose()?,
    })
}

/// `0644`, with `~` (masked) and `:` (only where it is made) before it.
fn parse_mode(text: &str) -> Result<(u32, bool, bool), RefusedTmpfilesLine> {
    let digits = text.trim_start_matches(['~', ':']);
    let marks = text.strip_suffix(digits).unwrap_or_default();
    let valid = digits.starts_with(|first: char| first.is_digit(8));
    let mode = u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| valid && *mode <= 0o7777)
        .ok_or(RefusedTmpfilesLine)?;
    Ok((mode, marks.contains('~'), marks.contains(':')))
}

/// `10d`, `1h 30min`, `~am:10d`: microseconds, the time stamps that count, and `~`.
fn parse_age(text: &str) -> Result<(u64, String, bool), RefusedTmpfilesLine> {
    let (text, keeps) = text.strip_prefix('~').map_or((text, false), |text| (text, true));
    let (by, span) = text.split_once(':').unwrap_or(("", text));
    if text.contains(':') && (by.is_empty() || !by.chars().all(|mark| "abcmABCM".contains(mark))) {
        return Err(RefusedTmpfilesLine);
    }
    let mut by: Vec<char> = by.chars().collect();
    by.sort_unstable();
    by.dedup();
    Ok((parse_span(span).ok_or(RefusedTmpfilesLine)?, by.into_iter().collect(), keeps))
}

/// Units of systemd.time(7) in microseconds, the longer names of one beginning first.
const UNITS: [(&str, u64); 29] = [
    ("seconds", 1_000_000),
    ("second", 1_000_000),
    ("sec", 1_000_000),
    ("s", 1_000_000),
    ("minutes", 60_000_000),
    ("minute", 60_000_000),
    ("min", 60_000_000),
    ("months", 2_629_800_000_000),
    ("month", 2_629_800_000_000),
    ("msec", 1_000),
    ("ms", 1_000),
    ("m", 60_000_000),
    ("M", 2_629_800_000_000),
    ("hours", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("h", 3_600_000_000),
    ("days", 86_400_000_000),
    ("day", 86_400_000_000),
    ("d", 86_400_000_000),
    ("weeks", 604_800_000_000),
    ("week", 604_800_000_000),
    ("w", 604_800_000_000),
    ("years", 31_557_600_000_000),
    ("year", 31_557_600_000_000),
    ("y", 31_557_600_000_000),
    ("usec", 1),
    ("us", 1),
    ("µs", 1),
];

fn parse_span(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest == "infinity" {
        return Some(u64::MAX);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let (whole, behind) = split_while(rest, |sign| sign.is_ascii_digit());
        let (fraction, behind) = match behind.strip_prefix('.') {
            Some(behind) => split_while(behind, |sign| sign.is_ascii_digit()),
            None => ("", behind),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let behind = behind.trim_start();
        let unit = UNITS.into_iter().find(|(name, _)| behind.starts_with(name));
        let (name, unit) = unit.unwrap_or(("", 1_000_000));
        rest = behind.strip_prefix(name)?.trim_start();
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        sum = sum.checked_add(whole.checked_mul(unit)?)?;
        let mut part = unit;
        for digit in fraction.chars().filter_map(|digit| digit.to_digit(10)) {
            part /= 10;
            sum = sum.checked_add(part.checked_mul(u64::from(digit))?)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd.time(7).
    #[test]
    fn spans_of_time() {
        assert_eq!(parse_span("2 h"), parse_span("2hours"));
        assert_eq!(parse_span("1y 12month"), Some(31_557_600_000_000 + 12 * 2_629_800_000_000));
        assert_eq!(parse_span("55s500ms"), Some(55_500_000));
        assert_eq!(parse_span("1.5h"), Some(5_400_000_000));
        assert_eq!(parse_span("0"), Some(0));
        for none in ["", "zz", "d", "-1", "5x"] {
            assert_eq!(parse_span(none), None, "{none}");
        }
    }
}
