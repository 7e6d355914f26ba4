//! Words of a setting of systemd's (systemd.syntax(7), "Quoting").

/// Words without their quotes, escapes replaced; what no rule knows stays as it is.
pub fn split_command_words(line: &str) -> Vec<String> {
    split_with_escapes(line, push_escaped)
}

/// In a variable's value a backslash stands for nothing but the sign behind it.
pub(super) fn words_of_value(value: &str) -> Vec<String> {
    split_with_escapes(value, |signs, word| word.extend(signs.next()))
}

fn split_with_escapes(
    line: &str,
    escaped: fn(&mut std::str::Chars<'_>, &mut String),
) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match (sign, quote) {
            ('\\', _) => escaped(&mut signs, word.get_or_insert_default()),
            (_, Some(open)) if sign == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(sign),
            ('"' | '\'', None) => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (_, None) if sign.is_ascii_whitespace() => all.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(sign),
        }
    }
    all.extend(word);
    all
}

/// What stands behind a backslash, as in C, and `\s` for a blank.
fn push_escaped(signs: &mut std::str::Chars<'_>, word: &mut String) {
    let Some(sign) = signs.next() else { return };
    let plain = match sign {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        's' => ' ',
        '\\' | '"' | '\'' => sign,
        'x' | 'u' | 'U' | '0'..='7' => {
            let (length, radix, skip) = match sign {
                'x' => (2, 16, 0),
                'u' => (4, 16, 0),
                'U' => (8, 16, 0),
                _ => (3, 8, 1),
            };
            let text: String = std::iter::once(sign)
                .filter(|_| skip == 1)
                .chain(signs.clone())
                .take(length)
                .collect();
            let number = u32::from_str_radix(&text, radix).ok().and_then(char::from_u32);
            if let Some(character) = number.filter(|other_character| {
                text.chars().count() == length && *other_character != '\0'
            }) {
                signs.by_ref().take(length - skip).for_each(drop);
                word.push(character);
                return;
            }
            word.push('\\');
            sign
        }
        // An escaped semicolon is a word of its own that separates nothing.
        _ => {
            word.push('\\');
            sign
        }
    };
    word.push(plain);
}
