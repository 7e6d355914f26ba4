//! The one place where text from a host is made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with everything that a terminal would act on written out instead: control
/// characters as `\x1b`, characters that reorder or hide text as `\u{202e}`.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        let code = u32::from(character);
        // Writing to a String cannot fail.
        let _ = match is_active(character) {
            false => safe.write_char(character),
            true if code < 0x100 => write!(safe, "\\x{code:02x}"),
            true => write!(safe, "\\u{{{code:x}}}"),
        };
    }
    Cow::Owned(safe)
}

fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
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
        assert_eq!(clean("Bücher"), "Bücher");
    }

    proptest! {
        #[test]
        fn nothing_active_is_left(text in any::<String>()) {
            let safe = clean(&text).into_owned();
            prop_assert!(!safe.chars().any(is_active));
            prop_assert_eq!(clean(&safe), safe.as_str());
        }
    }
}
