//! Cells of CSV (RFC 4180), for spreadsheets that calculate what begins like a formula.

use std::borrow::Cow;

/// A text as a cell; an apostrophe keeps spreadsheets from calculating it.
pub fn escape_csv_cell(text: &str) -> Cow<'_, str> {
    let defused =
        if is_formula(text) { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) };
    let ends = text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace);
    // Some readers end a line at more characters than RFC 4180 does.
    let parts = |character: char| {
        matches!(character, ',' | ';' | '"')
            || character.is_control()
            || "\u{2028}\u{2029}".contains(character)
    };
    if defused.contains(parts) || ends {
        Cow::Owned(format!("\"{}\"", defused.replace('"', "\"\"")))
    } else {
        defused
    }
}

/// Spreadsheets skip blanks in front, and some take wide forms of the signs.
fn is_formula(text: &str) -> bool {
    text.starts_with(['\t', '\r', '\n', '\0'])
        || text
            .trim_start_matches(|character: char| {
                character.is_whitespace() || character.is_control()
            })
            .starts_with([
                '=', '+', '-', '@', '|', '%', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
                '\u{2212}',
            ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_cells_is_quoted_and_formulas_are_text() {
        assert_eq!(escape_csv_cell("/var/log/sa/sa02"), "/var/log/sa/sa02");
        assert_eq!(escape_csv_cell("a,b\n\"c\""), "\"a,b\n\"\"c\"\"\"");
        assert_eq!(escape_csv_cell("=cmd()"), "'=cmd()");
        assert_eq!(escape_csv_cell("@SUM(1,2)"), "\"'@SUM(1,2)\"");
        for formula in ["+1", "-1", "@x", "=x", "\t=x", "\r=x", " =x", "\u{ff1d}x", "|x", "%x"] {
            assert!(
                escape_csv_cell(formula).trim_start_matches('"').starts_with('\''),
                "{formula:?}"
            );
        }
    }
}
