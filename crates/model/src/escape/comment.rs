//! Comments that begin with `#` and end with their line: shells, YAML, and most files of settings.

use super::plain;

/// A text as one line of a comment.
pub fn line(indent: &str, text: &str) -> String {
    format!("{indent}# {}", plain::clean(text)).trim_end().to_owned() + "\n"
}

/// A text that has lines, each a line of a comment.
pub fn lines(indent: &str, text: &str) -> String {
    text.lines().map(|text| line(indent, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_stays_one() {
        assert_eq!(line("  ", "a\nrm -rf /\r\u{85}\u{2028}b"), "  # a\\x0arm -rf /\\x0d\\x85\\u{2028}b\n");
        assert_eq!(lines("", "a\n\nb\rc\n"), "# a\n#\n# b\\x0dc\n");
    }
}
