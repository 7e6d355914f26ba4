//! YAML that reads the same in every parser, whatever the text holds.

use std::fmt::Write;

/// A text as a scalar in double quotes, in ASCII.
pub fn quote_scalar(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(out, "\\{character}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            ' '..='~' => write!(out, "{character}"),
            other if u32::from(other) < 0x100 => write!(out, "\\x{:02x}", u32::from(other)),
            other if u32::from(other) < 0x1_0000 => write!(out, "\\u{:04x}", u32::from(other)),
            other => write!(out, "\\U{:08x}", u32::from(other)),
        };
    }
    out.push('"');
    out
}

/// A list of texts on one line.
pub fn quote_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quote_scalar).collect();
    format!("[{}]", texts.join(", "))
}

/// A text as a literal block, its lines `indent` columns in; in quotes where people could not read
/// it as it is.
pub fn format_text(text: &str, indent: usize) -> String {
    let printable = |line: &str| {
        line.chars().all(|character| matches!(character, ' '..='~')) && !line.ends_with(' ')
    };
    let first = text.lines().next().unwrap_or_default();
    let readable = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !first.is_empty()
        && !first.starts_with(' ')
        && text.split('\n').all(printable);
    if !readable {
        return quote_scalar(text);
    }
    let mut block = String::from("|");
    for line in text.lines() {
        block.push('\n');
        if !line.is_empty() {
            let _ = write!(block, "{:indent$}{line}", "");
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_written_out() {
        assert_eq!(
            quote_scalar("a\"b\\c\n\td\u{85}\u{2028}\u{1f600}é"),
            r#""a\"b\\c\n\td\x85\u2028\U0001f600\xe9""#
        );
        assert_eq!(quote_list(["a", "b c"]), r#"["a", "b c"]"#);
    }

    #[test]
    fn only_what_stays_as_it_is_becomes_a_block() {
        assert_eq!(format_text("a\n\n  b\n", 2), "|\n  a\n\n    b");
        for odd in ["a", "a\n\n", " a\n", "\na\n", "a \n", "a\tb\n", "é\n", ""] {
            assert_eq!(format_text(odd, 2), quote_scalar(odd), "{odd:?}");
        }
    }
}
