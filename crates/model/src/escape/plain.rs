//! Text for people: in a terminal, a page, a message.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` on one line; control characters become `\x1b`, those that reorder, hide or break text
/// `\u{202e}`.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_matching(text, is_active)
}

/// The same for a name whose end has to be seen, as a path in a diff's heading: blanks are escaped
/// unless they are single and inside.
pub fn escape_name(text: &str) -> Cow<'_, str> {
    let odd = text.starts_with(' ') || text.ends_with(' ') || text.contains("  ");
    if odd {
        escape_matching(text, |character| character == ' ' || is_active(character))
    } else {
        escape_line(text)
    }
}

/// Every line of a text as [`escape_line`] has it.
pub fn escape_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape_line(line))).collect()
}

/// A whole document, which keeps its lines and tabs.
pub fn escape_document(text: &str) -> Cow<'_, str> {
    escape_matching(text, |character| !matches!(character, '\n' | '\t') && is_active(character))
}

/// Whether nothing in a text acts on a terminal.
pub fn is_clean(text: &str) -> bool {
    !text.chars().any(is_active)
}

pub(super) fn escape_matching(text: &str, which: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&which) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        let code = u32::from(character);
        // Writing to a String cannot fail.
        let _ = match which(character) {
            false => safe.write_char(character),
            true if code < 0x100 => write!(safe, "\\x{code:02x}"),
            true => write!(safe, "\\u{{{code:x}}}"),
        };
    }
    Cow::Owned(safe)
}

/// What acts on a terminal or an editor, breaks a line, or shows as nothing or as a blank.
pub(super) fn is_active(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    character.is_control()
        || character.is_whitespace()
        || is_hidden(character)
                // Noncharacters, which YAML and XML forbid.
        || u32::from(character) & 0xfffe == 0xfffe
        || matches!(character, '\u{fdd0}'..='\u{fdef}')
}

/// Unicode's Default_Ignorable_Code_Point, and a few that look blank.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_are_written_out() {
        assert_eq!(escape_line("ora_pmon_PROD"), "ora_pmon_PROD");
        assert_eq!(escape_line("\x1b[2J"), "\\x1b[2J");
        assert_eq!(escape_line("a\nb\x7f\u{9b}c"), "a\\x0ab\\x7f\\x9bc");
        assert_eq!(escape_line("\u{202e}gpj"), "\\u{202e}gpj");
        assert_eq!(
            escape_line("a\u{85}b\u{2028}c\u{a0}d\u{3000}e"),
            "a\\x85b\\u{2028}c\\xa0d\\u{3000}e"
        );
        assert_eq!(escape_line("Bücher"), "Bücher");
    }

    #[test]
    fn blanks_of_a_name_do_not_move_what_comes_after_it() {
        assert_eq!(escape_name("/srv/my data/x"), "/srv/my data/x");
        assert_eq!(escape_name("/srv/a  b c"), "/srv/a\\x20\\x20b\\x20c");
        assert_eq!((escape_name(" a").as_ref(), escape_name("a ").as_ref()), ("\\x20a", "a\\x20"));
    }

    proptest! {
        #[test]
        fn nothing_active_is_left(text in any::<String>()) {
            let safe = escape_line(&text).into_owned();
            prop_assert!(is_clean(&safe) && safe.lines().count() <= 1);
            prop_assert_eq!(escape_line(&safe), safe.as_str());
            prop_assert!(is_clean(&escape_name(&text)) && !escape_name(&text).contains("  "));
        }
    }
}
