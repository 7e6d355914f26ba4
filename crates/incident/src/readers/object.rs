//! One line of JSON, as servers and the journal write their logs: an object whose members are plain.

use std::iter::Peekable;
use std::str::Chars;

/// Members that are kept of a line; no log has as many.
const MOST: usize = 256;

/// The members of an object that is a whole line, those that are plain; `None` for anything else.
pub(super) fn members(line: &str) -> Option<Vec<(String, String)>> {
    let mut letters = line.trim().strip_prefix('{')?.chars().peekable();
    let mut all = Vec::new();
    loop {
        skip(&mut letters, |letter| letter.is_whitespace() || letter == ',');
        match letters.next()? {
            '}' => return letters.next().is_none().then_some(all),
            '"' => {}
            _ => return None,
        }
        let name = string(&mut letters)?;
        skip(&mut letters, char::is_whitespace);
        if letters.next()? != ':' {
            return None;
        }
        skip(&mut letters, char::is_whitespace);
        let value = match *letters.peek()? {
            '"' => {
                letters.next();
                Some(string(&mut letters)?)
            }
            '{' | '[' => {
                pass_over(&mut letters)?;
                None
            }
            _ => {
                let mut word = String::new();
                while let Some(letter) = letters.next_if(|letter| !matches!(letter, ',' | '}')) {
                    word.push(letter);
                }
                Some(word.trim_end().to_owned())
            }
        };
        if let Some(value) = value.filter(|_| all.len() < MOST) {
            all.push((name, value));
        }
    }
}

/// The first member of a name.
pub(super) fn get<'a>(members: &'a [(String, String)], name: &str) -> Option<&'a str> {
    members.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
}

fn skip(letters: &mut Peekable<Chars<'_>>, of: impl Fn(char) -> bool) {
    while letters.next_if(|letter| of(*letter)).is_some() {}
}

/// The rest of a string behind its first quote.
fn string(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => match letters.next()? {
                'n' | 'r' => text.push('\n'),
                't' => text.push('\t'),
                'u' => {
                    let digits: String = letters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok()?;
                    // Half of a pair is no letter, and of no word that is looked for.
                    text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// Goes behind an object or a list.
fn pass_over(letters: &mut Peekable<Chars<'_>>) -> Option<()> {
    let mut depth = 0_usize;
    loop {
        match letters.next()? {
            '{' | '[' => depth += 1,
            '}' | ']' if depth <= 1 => return Some(()),
            '}' | ']' => depth -= 1,
            '"' => drop(string(letters)?),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lines_plain_members_are_told() {
        let line = r#" {"a":"x \"y\"\nz","b": -1.5 ,"c":{"d":["}"]},"e":true,"f":"\u00e4\ud83d"} "#;
        let all = members(line).unwrap();
        assert_eq!(get(&all, "a"), Some("x \"y\"\nz"));
        assert_eq!(get(&all, "b"), Some("-1.5"));
        assert_eq!((get(&all, "c"), get(&all, "d"), get(&all, "e")), (None, None, Some("true")));
        assert_eq!(get(&all, "f"), Some("ä\u{fffd}"));
        for line in
            ["", "{", "{\"a\"}", "{\"a\":", "{\"a\":\"b", "[1]", "{\"a\":1} x", "{a:1}", "{\"a\":\"\\u12", "{noformat}"]
        {
            assert_eq!(members(line), None, "{line}");
        }
    }
}
