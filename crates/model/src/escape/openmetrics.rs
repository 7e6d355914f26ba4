//! Labels and help of the Prometheus and OpenMetrics text formats.

use super::plain;

/// In characters.
const LONGEST_LABEL: usize = 120;

/// A label's value between its quotes; what acts on a terminal is replaced, as neither format can
/// escape it.
pub fn escape_label_value(value: &str) -> String {
    let mut text = String::with_capacity(value.len().min(LONGEST_LABEL));
    for letter in value.chars().take(LONGEST_LABEL) {
        match letter {
            '"' => text.push_str("\\\""),
            other => push(&mut text, other),
        }
    }
    text
}

/// The text of a `# HELP` line.
pub fn escape_help_text(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    value.chars().for_each(|letter| push(&mut text, letter));
    text
}

fn push(text: &mut String, letter: char) {
    match letter {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        other if !plain::is_clean(other.encode_utf8(&mut [0; 4])) => {
            text.push(char::REPLACEMENT_CHARACTER)
        }
        other => text.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_its_line_or_its_quotes() {
        assert_eq!(escape_label_value("a\"b\\c\nd\re"), "a\\\"b\\\\c\\nd\u{fffd}e");
        assert_eq!(escape_help_text("a\nb\\\"c"), "a\\nb\\\\\"c");
        assert_eq!(escape_label_value(&"x".repeat(500)).len(), LONGEST_LABEL);
    }
}
