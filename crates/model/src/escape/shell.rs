//! Words of a POSIX shell.

use super::plain;

/// A word for a command that people read and paste. A character that acts on what shows it is written out: the command
/// then names nothing that is there, and does nothing to what is.
pub fn word(text: &str) -> String {
    if text.starts_with('-') { quoted(&plain::clean(text)) } else { argument(text) }
}

/// The same for a word of a command that is ours, options among them.
pub fn argument(text: &str) -> String {
    let text = plain::clean(text);
    if is_plain(&text) { text.into_owned() } else { quoted(&text) }
}

/// A [`word`] that could be taken for an option, where the command has no other place for one.
pub fn operand(text: &str) -> String {
    if text.starts_with('-') { format!("-- {}", word(text)) } else { word(text) }
}

/// A text in a pattern of find(1) and fnmatch(3) that stands for itself alone; it is no [`word`] yet.
pub fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal
}

/// A word for a script, which the shell reads back as it is; nothing for one with characters that act on a terminal or
/// end a line, as no script should have them.
pub fn exact(text: &str) -> Option<String> {
    if !plain::is_clean(text) {
        return None;
    }
    Some(if is_plain(text) { text.to_owned() } else { quoted(text) })
}

/// A line that a text does not have, to end it with.
pub fn end_of(text: &str) -> String {
    let mut end = String::from("END");
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    end
}

/// Nothing of it means something to a shell, at the start of a word neither: zsh replaces `=cmd`.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    !text.is_empty() && !text.starts_with(['=', '%', '+']) && text.bytes().all(plain)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(word("postgresql@15-main.service"), "postgresql@15-main.service");
        assert_eq!(word("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!((word("-rf").as_str(), operand("-rf").as_str()), ("'-rf'", "-- '-rf'"));
        assert_eq!(word("=ls"), "'=ls'");
        assert_eq!(word("a\nrm"), "'a\\x0arm'");
        assert_eq!((exact("a\nrm"), exact("$(id)").as_deref()), (None, Some("'$(id)'")));
        assert_eq!(literal(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d");
        assert_eq!(end_of("END\nEND_\n"), "END__");
    }
}
