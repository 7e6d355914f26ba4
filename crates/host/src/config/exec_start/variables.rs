//! Variables of a service: what they stand for in a command line, and the files that `EnvironmentFile=` names.

use std::collections::BTreeMap;

use super::super::filling::{Text, TooLong};
use super::words::words_of_value;

/// A word of a command line with its variables: `$NAME` alone is as many words as it holds, `${NAME}` anywhere is the text.
/// What no setting gives a value is empty, and what a value holds is not looked at again.
///
/// # Errors
/// It is longer than any server's.
pub(super) fn fill_in(word: &str, environment: &BTreeMap<String, String>) -> Result<Vec<String>, TooLong> {
    if let Some(name) = word.strip_prefix('$').filter(|rest| !rest.starts_with(['{', '$']) && !rest.is_empty()) {
        return Ok(environment.get(name).map(|value| words_of_value(value)).unwrap_or_default());
    }
    let (mut text, mut rest) = (Text::default(), word);
    while let Some((before, behind)) = rest.split_once('$') {
        text.push_str(before)?;
        rest = behind;
        if let Some(after) = behind.strip_prefix('$') {
            text.push('$')?;
            rest = after;
        } else if let Some((name, after)) = behind.strip_prefix('{').and_then(|inside| inside.split_once('}'))
            && is_name(name)
        {
            text.push_str(environment.get(name).map_or("", String::as_str))?;
            rest = after;
        } else {
            text.push('$')?;
        }
    }
    text.push_str(rest)?;
    Ok(vec![text.into_text()])
}

/// Whether a text can be a variable's name.
fn is_name(name: &str) -> bool {
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || sign == b'_';
    name.bytes().all(plain) && name.starts_with(|first: char| !first.is_ascii_digit())
}

/// Where a reader of such a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Comment,
    Key,
    BeforeValue,
    Value,
    Single,
    Double,
}

/// The variables of a file, in their order: `NAME=VALUE` lines, with quotes and with lines that a backslash joins
/// (systemd.exec(5), "EnvironmentFile="; the rules are those of systemd's own reader of such files).
pub(crate) fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut signs = text.chars();
    let (mut found, mut at) = (Vec::new(), At::Start);
    let (mut key, mut value, mut solid) = (String::new(), String::new(), 0);
    let mut done = |key: &mut String, value: &mut String| {
        let name = std::mem::take(key).trim_end().to_owned();
        let value = std::mem::take(value);
        if is_name(&name) {
            found.push((name, value));
        }
    };
    while let Some(sign) = signs.next() {
        let ends = matches!(sign, '\n' | '\r');
        match at {
            At::Start if sign == '#' || sign == ';' => at = At::Comment,
            At::Start if sign.is_ascii_whitespace() => {}
            At::Start => {
                at = At::Key;
                key.push(sign);
            }
            At::Comment if sign == '\\' => drop(signs.next()),
            At::Comment if ends => at = At::Start,
            At::Comment => {}
            At::Key if ends => {
                key.clear();
                at = At::Start;
            }
            At::Key if sign == '=' => {
                at = At::BeforeValue;
                (value, solid) = (String::new(), 0);
            }
            At::Key => key.push(sign),
            At::BeforeValue | At::Value if ends => {
                // Blanks behind a value are none of it, where no quote or backslash holds them.
                let length = solid.max(value.trim_end().len());
                value.truncate(length);
                done(&mut key, &mut value);
                at = At::Start;
            }
            At::BeforeValue if sign == '\'' => at = At::Single,
            At::BeforeValue if sign == '"' => at = At::Double,
            At::BeforeValue if sign.is_ascii_whitespace() => {}
            At::BeforeValue | At::Value if sign == '\\' => {
                at = At::Value;
                value.extend(signs.next().filter(|next| !matches!(next, '\n' | '\r')));
                solid = value.len();
            }
            At::BeforeValue | At::Value => {
                at = At::Value;
                value.push(sign);
            }
            At::Single if sign == '\'' => (at, solid) = (At::BeforeValue, value.len()),
            At::Double if sign == '"' => (at, solid) = (At::BeforeValue, value.len()),
            At::Double if sign == '\\' => match signs.next() {
                Some(next @ ('"' | '\\' | '`' | '$')) => value.push(next),
                Some('\n') | None => {}
                Some(other) => value.extend(['\\', other]),
            },
            At::Single | At::Double => value.push(sign),
        }
    }
    if matches!(at, At::BeforeValue | At::Value | At::Single | At::Double) {
        let length =
            if matches!(at, At::Single | At::Double) { value.len() } else { solid.max(value.trim_end().len()) };
        value.truncate(length);
        done(&mut key, &mut value);
    }
    found
}
