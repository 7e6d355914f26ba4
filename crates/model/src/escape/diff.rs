//! Unified diffs, where a line's first characters tell what it is.

use std::borrow::Cow;

use super::plain;

/// A path in a heading.
pub fn escape_diff_path(path: &str) -> Cow<'_, str> {
    plain::escape_name(path)
}

/// A line of a file behind `-`, `+` or a blank: one that would read like a heading has its first
/// character escaped. Tabs become four blanks.
pub fn escape_diff_line(sign: char, text: &str) -> Cow<'_, str> {
    let heading = matches!(sign, '-' | '+')
        && text.strip_prefix(sign).is_some_and(|rest| rest.starts_with(sign));
    let tabs = text.contains('\t').then(|| text.replace('\t', "    "));
    let clean = match &tabs {
        Some(text) => Cow::Owned(plain::escape_line(text).into_owned()),
        None => plain::escape_line(text),
    };
    match clean.strip_prefix(sign) {
        Some(rest) if heading => Cow::Owned(format!("\\x{:02x}{rest}", u32::from(sign))),
        _ => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_reads_like_a_heading() {
        assert_eq!(escape_diff_line('-', "-- a/etc/passwd"), "\\x2d- a/etc/passwd");
        assert_eq!(escape_diff_line('+', "++ b/etc/passwd"), "\\x2b+ b/etc/passwd");
        for (sign, text) in [('-', "- a"), ('+', "-- a"), (' ', "-- a"), ('-', "a")] {
            assert_eq!(escape_diff_line(sign, text), text);
        }
        assert_eq!(escape_diff_line('+', "\ta\rb"), "    a\\x0db");
        assert_eq!(escape_diff_path("/srv/a\n+++ b/etc/passwd"), "/srv/a\\x0a+++ b/etc/passwd");
    }
}
