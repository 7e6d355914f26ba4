//! PostgreSQL's log: text with any `log_line_prefix` that has a time, csvlog and jsonlog.

use crate::readers::object;
use crate::readers::stamp::Stamp;

/// Levels that PostgreSQL writes before a message.
pub(super) const LEVELS: [&str; 8] =
    ["DEBUG:  ", "LOG:  ", "FATAL:  ", "PANIC:  ", "ERROR:  ", "WARNING:  ", "HINT:  ", "STATEMENT:  "];
/// The same and others as csvlog and jsonlog have them.
const SEVERITIES: [&str; 8] = ["DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL", "PANIC"];
/// Fields of a row of csvlog up to its message: the eleventh behind the first is the severity.
const MESSAGE: usize = 13;

/// The time of a line, and its message behind its level.
pub(super) fn line(line: &str) -> Option<(Stamp, String)> {
    if line.starts_with('{') {
        return json(line);
    }
    row(line).or_else(|| {
        let (prefix, message) = leveled(line)?;
        Some((time(prefix)?, message.to_owned()))
    })
}

/// Whether a line begins a row of csvlog.
pub(super) fn is_row(line: &str) -> bool {
    row(line).is_some()
}

/// Whether a line, which is a row of csvlog, goes on in the next one: a statement of several lines is one field.
pub(super) fn goes_on(line: &str) -> bool {
    line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1
}

/// What stands before a level and what from it on.
pub(super) fn leveled(line: &str) -> Option<(&str, &str)> {
    // A user's name, which comes before it and from whoever connects, may hold another: a line of two levels tells nothing.
    let colon = line.find(":  ")?;
    let begin = line.get(..colon)?.trim_end_matches(|letter: char| letter.is_ascii_uppercase()).len();
    let (prefix, message) = line.split_at_checked(begin)?;
    let known = LEVELS.iter().find(|level| message.starts_with(**level))?;
    let rest = message.get(known.len()..)?;
    let quoted = LEVELS.iter().any(|level| rest.contains(level));
    (!quoted && !prefix.ends_with(char::is_alphanumeric)).then_some((prefix, message))
}

/// The time that a prefix has: `%t` and `%m` wherever they stand, or `%n`.
fn time(prefix: &str) -> Option<Stamp> {
    let dates: Vec<usize> = (0..prefix.len()).filter(|at| is_date(prefix, *at)).take(3).collect();
    let at = match dates.as_slice() {
        // Behind what begins with a time stands what a client chose.
        [at] | [at @ 0, ..] => *at,
        [] => {
            let mut words = prefix.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
            return words
                .find(|word| word.len() == 14 && word.as_bytes().get(10) == Some(&b'.'))
                .and_then(Stamp::parse);
        }
        _ => return None,
    };
    let rest = prefix.get(at..)?;
    let (clock, rest) = rest.split_at_checked(19)?;
    let digits = rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count() + 1);
    let (part, rest) = rest.split_at_checked(digits)?;
    let rest = rest.strip_prefix(' ').unwrap_or_default();
    let is_zone = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '/' | '_');
    let zone = rest.get(..rest.find(|letter| !is_zone(letter)).unwrap_or(rest.len()))?;
    of_zone(&format!("{clock}{part}"), zone)
}

/// Whether `2026-11-21 22:47:35` begins there.
fn is_date(text: &str, at: usize) -> bool {
    let Some(bytes) = text.as_bytes().get(at..at.saturating_add(19)) else { return false };
    bytes.iter().zip(b"dddd-dd-dd dd:dd:dd").all(|(byte, form)| match form {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    })
}

fn of_zone(clock: &str, zone: &str) -> Option<Stamp> {
    // log_timezone may be a place whose zone has no letters of its own.
    Stamp::parse(&format!("{clock} {zone}")).or_else(|| {
        let stamp = Stamp::parse(clock)?;
        Some(Stamp { zone: (!zone.is_empty()).then(|| zone.to_owned()), ..stamp })
    })
}

/// A line of jsonlog.
fn json(line: &str) -> Option<(Stamp, String)> {
    let members = object::members(line)?;
    let level = object::get(&members, "error_severity").filter(|level| SEVERITIES.contains(level))?;
    let (clock, zone) = object::get(&members, "timestamp")?.rsplit_once(' ')?;
    Some((of_zone(clock, zone)?, format!("{level}:  {}", object::get(&members, "message")?)))
}

/// A row of csvlog, or as much of it as its first line has.
fn row(line: &str) -> Option<(Stamp, String)> {
    if !is_date(line, 0) {
        return None;
    }
    let fields = fields(line);
    let (clock, zone) = fields.first()?.rsplit_once(' ')?;
    let level = fields.get(MESSAGE - 2).filter(|level| SEVERITIES.contains(&level.as_str()))?;
    Some((of_zone(clock, zone)?, format!("{level}:  {}", fields.get(MESSAGE)?)))
}

/// The fields of a row up to the message.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => {
                if let Some(field) = fields.last_mut() {
                    field.push('"');
                }
            }
            '"' => quoted = !quoted,
            ',' if !quoted && fields.len() > MESSAGE => break,
            ',' if !quoted => fields.push(String::new()),
            letter => {
                if let Some(field) = fields.last_mut() {
                    field.push(letter);
                }
            }
        }
    }
    fields
}
