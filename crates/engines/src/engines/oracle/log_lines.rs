//! Lines of an Oracle alert log, text or log.xml, without the stamps between them.

use crate::shared::logs::parse_json_message;
use crate::shared::options::is_number;

pub(super) struct AlertLogLine {
    pub(super) text: String,
    pub(super) stamp: Option<String>,
}

pub(super) fn is_xml(text: &str) -> bool {
    text.contains("<txt>") && text.contains("<msg ")
}

/// One JSON object a line, as exporters and shippers of logs write the alert log.
pub(super) fn is_json(text: &str) -> bool {
    text.lines().any(|line| line.starts_with('{') && parse_json_message(line).is_some())
}

pub(super) fn of_json(text: &str) -> Vec<AlertLogLine> {
    let mut lines = Vec::new();
    for (stamp, message) in text.lines().filter_map(parse_json_message) {
        let texts = message.lines().map(str::trim);
        let texts = texts.filter(|line| !line.is_empty() && !is_stamp(line));
        lines
            .extend(texts.map(|line| AlertLogLine { text: line.to_owned(), stamp: stamp.clone() }));
    }
    lines
}

/// A stamp has a line of its own, even within a message.
pub(super) fn of_text<'a>(raw: impl Iterator<Item = &'a str>) -> Vec<AlertLogLine> {
    let mut stamp = None;
    let mut lines = Vec::new();
    for line in raw {
        let text = line.trim();
        if is_stamp(text) {
            stamp = Some(text.to_owned());
        } else if !text.is_empty() {
            lines.push(AlertLogLine { text: text.to_owned(), stamp: stamp.clone() });
        }
    }
    lines
}

/// `Wed Aug 12 09:26:27 2015`, with or without a zone, and `2023-04-27T15:18:31.192974-04:00`.
pub(super) fn is_stamp(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words.as_slice() {
        [one] => {
            let mut bytes = one.bytes();
            let date = b"dddd-dd-ddT".iter().all(|shape| {
                bytes
                    .next()
                    .is_some_and(|byte| byte == *shape || (*shape == b'd' && byte.is_ascii_digit()))
            });
            date && one.len() > 16
        }
        [day, month, date, time, rest @ ..] if rest.len() == 1 || rest.len() == 2 => {
            let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
            let year = rest.last().is_some_and(|year| year.len() == 4 && is_number(year));
            let digits =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
            days.contains(day)
                && month.len() == 3
                && digits(date)
                && digits(time)
                && time.contains(':')
                && year
        }
        _ => false,
    }
}

/// `<msg time='...' ...> <txt>...</txt> </msg>`; a message without its end is left out.
pub(super) fn of_xml(text: &str) -> Vec<AlertLogLine> {
    let mut lines = Vec::new();
    // Text before the first message is the end of one that is cut off.
    for message in text.split("<msg ").skip(1) {
        let Some((head, body)) = message.split_once("<txt>") else { continue };
        let Some((body, _)) = body.split_once("</txt>") else { continue };
        let stamp = find_attribute(head, "time");
        let body = decode_entities(body);
        let texts = body.lines().map(str::trim).filter(|line| !line.is_empty() && !is_stamp(line));
        lines
            .extend(texts.map(|line| AlertLogLine { text: line.to_owned(), stamp: stamp.clone() }));
    }
    lines
}

fn find_attribute(head: &str, name: &str) -> Option<String> {
    let at = head.find(&format!("{name}="))?;
    let mut rest = head.get(at + name.len() + 1..)?.chars();
    let quote = rest.next().filter(|quote| matches!(quote, '\'' | '"'))?;
    rest.as_str().split_once(quote).map(|(value, _)| decode_entities(value))
}

/// Decodes the five named entities and numeric ones; other text after `&` stays.
fn decode_entities(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let known =
            part.split_once(';').and_then(|(name, rest)| Some((decode_entity(name)?, rest)));
        match known {
            Some((letter, rest)) => {
                plain.push(letter);
                plain.push_str(rest);
            }
            None => {
                plain.push('&');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn decode_entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}
