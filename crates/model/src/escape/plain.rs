//! Text for people: in a terminal, a page, a message.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` on one line, with everything that a terminal or an editor would act on, or would not show, written out
/// instead: control characters as `\x1b`, those that reorder, hide or part text as `\u{202e}`.
pub fn clean(text: &str) -> Cow<'_, str> {
    spelled(text, is_active)
}

/// The same for a name where it ends is seen, and where lines that a terminal breaks cannot be painted with it: a path in
/// the heading of a diff. Of blanks at an end and beside each other only single ones inside are left.
pub fn name(text: &str) -> Cow<'_, str> {
    let odd = text.starts_with(' ') || text.ends_with(' ') || text.contains("  ");
    if odd { spelled(text, |character| character == ' ' || is_active(character)) } else { clean(text) }
}

/// Every line of a text that has lines, each as [`clean`] has it.
pub fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", clean(line))).collect()
}

/// A whole document, whose lines and tabs are its own.
pub fn document(text: &str) -> Cow<'_, str> {
    spelled(text, |character| !matches!(character, '\n' | '\t') && is_active(character))
}

/// Whether nothing of a text acts on what shows it.
pub fn is_clean(text: &str) -> bool {
    !text.chars().any(is_active)
}

/// `text` with these characters written out.
pub(super) fn spelled(text: &str, which: impl Fn(char) -> bool) -> Cow<'_, str> {
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

/// What acts on a terminal or an editor, what no line may have, and what shows as nothing or as a blank.
pub(super) fn is_active(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    character.is_control()
        || character.is_whitespace()
        || is_hidden(character)
        // Noncharacters: YAML and XML have no place for them.
        || u32::from(character) & 0xfffe == 0xfffe
        || matches!(character, '\u{fdd0}'..='\u{fdef}')
}

/// Marks of direction, and what is drawn as nothing (Unicode's Default_Ignorable_Code_Point, and a few that look blank).
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
        assert_eq!(clean("ora_pmon_PROD"), "ora_pmon_PROD");
        assert_eq!(clean("\x1b[2J"), "\\x1b[2J");
        assert_eq!(clean("a\nb\x7f\u{9b}c"), "a\\x0ab\\x7f\\x9bc");
        assert_eq!(clean("\u{202e}gpj"), "\\u{202e}gpj");
        assert_eq!(clean("a\u{85}b\u{2028}c\u{a0}d\u{3000}e"), "a\\x85b\\u{2028}c\\xa0d\\u{3000}e");
        assert_eq!(clean("Bücher"), "Bücher");
    }

    #[test]
    fn blanks_of_a_name_do_not_move_what_comes_after_it() {
        assert_eq!(name("/srv/my data/x"), "/srv/my data/x");
        assert_eq!(name("/srv/a  b c"), "/srv/a\\x20\\x20b\\x20c");
        assert_eq!((name(" a").as_ref(), name("a ").as_ref()), ("\\x20a", "a\\x20"));
    }

    proptest! {
        #[test]
        fn nothing_active_is_left(text in any::<String>()) {
            let safe = clean(&text).into_owned();
            prop_assert!(is_clean(&safe) && safe.lines().count() <= 1);
            prop_assert_eq!(clean(&safe), safe.as_str());
            prop_assert!(is_clean(&name(&text)) && !name(&text).contains("  "));
        }
    }
}
