//! Words of a POSIX shell.

use super::plain;

/// A word for a command that people paste. What acts on a terminal is escaped: the command then
/// names nothing that exists.
pub fn quote_word(text: &str) -> String {
    if text.starts_with('-') {
        single_quote(&plain::escape_line(text))
    } else {
        quote_argument(text)
    }
}

/// The same for a word of our own commands, options among them.
pub fn quote_argument(text: &str) -> String {
    let text = plain::escape_line(text);
    if is_plain(&text) { text.into_owned() } else { single_quote(&text) }
}

/// A [`quote_word`] behind `--` where it could be taken for an option.
pub fn quote_operand(text: &str) -> String {
    if text.starts_with('-') { format!("-- {}", quote_word(text)) } else { quote_word(text) }
}

/// A word for a script, exactly; `None` for one that would act on a terminal or end a line.
pub fn quote_exact(text: &str) -> Option<String> {
    if !plain::is_clean(text) {
        return None;
    }
    Some(if is_plain(text) { text.to_owned() } else { single_quote(text) })
}

/// A here-document's delimiter that is no line of the text.
pub fn end_of(text: &str) -> String {
    let mut end = String::from("END");
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    end
}

/// Whether no shell treats it specially, at a word's start either: zsh replaces `=cmd`.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    !text.is_empty() && !text.starts_with(['=', '%', '+']) && text.bytes().all(plain)
}

fn single_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(quote_word("postgresql@15-main.service"), "postgresql@15-main.service");
        assert_eq!(quote_word("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(quote_word("it's"), r"'it'\''s'");
        assert_eq!(
            (quote_word("-rf").as_str(), quote_operand("-rf").as_str()),
            ("'-rf'", "-- '-rf'")
        );
        assert_eq!(quote_word("=ls"), "'=ls'");
        assert_eq!(quote_word("a\nrm"), "'a\\x0arm'");
        assert_eq!(
            (quote_exact("a\nrm"), quote_exact("$(id)").as_deref()),
            (None, Some("'$(id)'"))
        );
        assert_eq!(end_of("END\nEND_\n"), "END__");
    }
}
