//! Comments from `#` to the end of the line: shells, YAML, most configuration files.

use super::plain;

/// One line of a comment.
pub fn comment_line(indent: &str, text: &str) -> String {
    format!("{indent}# {}", plain::escape_line(text)).trim_end().to_owned() + "\n"
}

/// A line of a comment for each line of the text.
pub fn comment_lines(indent: &str, text: &str) -> String {
    text.lines().map(|text| comment_line(indent, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_stays_one() {
        assert_eq!(
            comment_line("  ", "a\nrm -rf /\r\u{85}\u{2028}b"),
            "  # a\\x0arm -rf /\\x0d\\x85\\u{2028}b\n"
        );
        assert_eq!(comment_lines("", "a\n\nb\rc\n"), "# a\n#\n# b\\x0dc\n");
    }
}
