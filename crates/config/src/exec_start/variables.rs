//! Variables of a service: what they stand for in a command line, and the files that
//! `EnvironmentFile=` names.

use std::collections::BTreeMap;
use std::str::Chars;

use super::words::words_of_value;
use crate::expansion_budget::{BoundedText, ExpansionTooLong};

/// `$NAME` alone is as many words as it holds, `${NAME}` anywhere is the text. What is not set is
/// empty, and what a value holds is not looked at again.
pub(super) fn fill_in(
    word: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<String>, ExpansionTooLong> {
    if let Some(name) =
        word.strip_prefix('$').filter(|rest| !rest.starts_with(['{', '$']) && !rest.is_empty())
    {
        return Ok(environment.get(name).map(|value| words_of_value(value)).unwrap_or_default());
    }
    let (mut text, mut rest) = (BoundedText::default(), word);
    while let Some((before, behind)) = rest.split_once('$') {
        text.push_str(before)?;
        rest = behind;
        if let Some(after) = behind.strip_prefix('$') {
            text.push('$')?;
            rest = after;
        } else if let Some((name, after)) =
            behind.strip_prefix('{').and_then(|inside| inside.split_once('}'))
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

fn is_name(name: &str) -> bool {
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || sign == b'_';
    name.bytes().all(plain) && name.starts_with(|first: char| !first.is_ascii_digit())
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum EnvironmentFileState {
    #[default]
    Start,
    Comment,
    Key,
    BeforeValue,
    Value,
    Single,
    Double,
}

/// `NAME=VALUE` lines in their order, with quotes and lines that a backslash joins, as systemd's
/// own reader takes them (systemd.exec(5), "EnvironmentFile=").
pub(crate) fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut signs = text.chars();
    let mut reader = EnvironmentFileReader::default();
    while let Some(sign) = signs.next() {
        match reader.state {
            EnvironmentFileState::Start
            | EnvironmentFileState::Comment
            | EnvironmentFileState::Key => reader.read_key(sign, &mut signs),
            EnvironmentFileState::BeforeValue | EnvironmentFileState::Value => {
                reader.read_value(sign, &mut signs);
            }
            EnvironmentFileState::Single | EnvironmentFileState::Double => {
                reader.read_quoted(sign, &mut signs);
            }
        }
    }
    reader.into_variables()
}

#[derive(Default)]
struct EnvironmentFileReader {
    state: EnvironmentFileState,
    key: String,
    value: String,
    /// How much of the value a quote or backslash holds: blanks in it stay.
    solid: usize,
    variables: Vec<(String, String)>,
}

impl EnvironmentFileReader {
    fn read_key(&mut self, sign: char, signs: &mut Chars<'_>) {
        let ends = matches!(sign, '\n' | '\r');
        match self.state {
            EnvironmentFileState::Start if sign == '#' || sign == ';' => {
                self.state = EnvironmentFileState::Comment;
            }
            EnvironmentFileState::Start if sign.is_ascii_whitespace() => {}
            EnvironmentFileState::Comment if sign == '\\' => drop(signs.next()),
            EnvironmentFileState::Comment if ends => self.state = EnvironmentFileState::Start,
            EnvironmentFileState::Comment => {}
            EnvironmentFileState::Key if ends => {
                self.key.clear();
                self.state = EnvironmentFileState::Start;
            }
            EnvironmentFileState::Key if sign == '=' => {
                self.state = EnvironmentFileState::BeforeValue;
                self.value.clear();
                self.solid = 0;
            }
            _ => {
                self.state = EnvironmentFileState::Key;
                self.key.push(sign);
            }
        }
    }

    fn read_value(&mut self, sign: char, signs: &mut Chars<'_>) {
        let is_before = self.state == EnvironmentFileState::BeforeValue;
        match sign {
            '\n' | '\r' => {
                self.trim_value();
                self.add_variable();
                self.state = EnvironmentFileState::Start;
            }
            '\'' if is_before => self.state = EnvironmentFileState::Single,
            '"' if is_before => self.state = EnvironmentFileState::Double,
            _ if is_before && sign.is_ascii_whitespace() => {}
            '\\' => {
                self.state = EnvironmentFileState::Value;
                self.value.extend(signs.next().filter(|next| !matches!(next, '\n' | '\r')));
                self.solid = self.value.len();
            }
            _ => {
                self.state = EnvironmentFileState::Value;
                self.value.push(sign);
            }
        }
    }

    fn read_quoted(&mut self, sign: char, signs: &mut Chars<'_>) {
        let is_double = self.state == EnvironmentFileState::Double;
        let quote = if is_double { '"' } else { '\'' };
        match sign {
            '\\' if is_double => match signs.next() {
                Some(next @ ('"' | '\\' | '`' | '$')) => self.value.push(next),
                Some('\n') | None => {}
                Some(other) => self.value.extend(['\\', other]),
            },
            _ if sign == quote => {
                self.state = EnvironmentFileState::BeforeValue;
                self.solid = self.value.len();
            }
            _ => self.value.push(sign),
        }
    }

    /// Blanks behind a value are none of it, where no quote or backslash holds them.
    fn trim_value(&mut self) {
        let length = self.solid.max(self.value.trim_end().len());
        self.value.truncate(length);
    }

    fn add_variable(&mut self) {
        let name = std::mem::take(&mut self.key).trim_end().to_owned();
        let value = std::mem::take(&mut self.value);
        if is_name(&name) {
            self.variables.push((name, value));
        }
    }

    fn into_variables(mut self) -> Vec<(String, String)> {
        match self.state {
            EnvironmentFileState::BeforeValue | EnvironmentFileState::Value => {
                self.trim_value();
                self.add_variable();
            }
            EnvironmentFileState::Single | EnvironmentFileState::Double => self.add_variable(),
            EnvironmentFileState::Start
            | EnvironmentFileState::Comment
            | EnvironmentFileState::Key => {}
        }
        self.variables
    }
}
