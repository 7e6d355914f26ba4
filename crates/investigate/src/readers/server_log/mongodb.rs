//! MongoDB's log: `2016-05-21T22:31:48.042-0400 E STORAGE  [thread1] text` of 3.0 to 4.2, and a JSON
//! object a line since 4.4.

use hugewise_model::Engine;
use hugewise_model::calendar::month_number;
use serde_json::Value;

use super::{LogStamp, SOME_YEAR, interpret_message};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// A message with its level before it: `E WiredTiger error: ...`; `-` before 3.0, which has none.
pub(super) fn parse_mongodb_line(line: &str) -> Option<(LogStamp, String)> {
    let dated = |at| LogStamp { at, has_year: true };
    if line.starts_with('{') {
        return parse_json_line(line).map(|(at, message)| (dated(at), message));
    }
    parse_old_line(line).or_else(|| {
        let (time, rest) = line.split_once(' ')?;
        let (level, rest) = rest.split_once(' ')?;
        let (component, rest) = rest.trim_start().split_once(' ')?;
        let (context, message) = rest.trim_start().strip_prefix('[')?.split_once("] ")?;
        let is_component = component == "-"
            || (component.len() <= 16
                && component.bytes().all(|letter| letter.is_ascii_uppercase()));
        let known = is_level(level) && is_component && context.len() <= 64 && time.contains('T');
        let stamp = LineTimestamp::parse(time).filter(|_| known)?;
        Some((dated(stamp), format!("{level} {}", message.trim_start())))
    })
}

/// `Wed Jun 19 21:59:52.123 [conn1] text` up to 2.4, without a year; `2014-04-11T12:00:00.123+0000
/// [conn1] text` of 2.6.
fn parse_old_line(line: &str) -> Option<(LogStamp, String)> {
    let (time, rest) = line.split_once(" [")?;
    let (context, message) = rest.split_once("] ")?;
    let is_context = !context.is_empty()
        && context.len() <= 64
        && context
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || b"-_.: ".contains(&letter));
    let words: Vec<&str> = time.split_ascii_whitespace().collect();
    let stamp = match words.as_slice() {
        [only] if only.split_once('T').is_some_and(|(_, time)| time.contains(['+', '-', 'Z'])) => {
            LogStamp { at: LineTimestamp::parse(only)?, has_year: true }
        }
        [weekday, month, day, time] if weekday.len() == 3 && month_number(month).is_some() => {
            let at = LineTimestamp::from_day_and_time(day, month, SOME_YEAR, time)?;
            LogStamp { at, has_year: false }
        }
        _ => return None,
    };
    is_context.then(|| (stamp, format!("- {}", message.trim_start())))
}

fn is_level(word: &str) -> bool {
    matches!(word, "F" | "E" | "W" | "I" | "D" | "D1" | "D2" | "D3" | "D4" | "D5")
}

fn parse_json_line(line: &str) -> Option<(LineTimestamp, String)> {
    let members: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
    let stamp = LineTimestamp::parse(members.get("t")?.get("$date")?.as_str()?)?;
    let get = |name: &str| members.get(name)?.as_str();
    let (level, message) = (get("s").filter(|level| is_level(level))?, get("msg")?);
    // WiredTiger's own words, as text or as an object with them.
    let inner = members.get("attr").and_then(|attributes| attributes.get("message"));
    let inner = inner.and_then(|inner| inner.as_str().or_else(|| inner.get("msg")?.as_str()));
    Some((stamp, format!("{level} {message}: {}", inner.unwrap_or_default())))
}

pub(super) fn parse_mongodb_event(message: &str) -> Option<LogEvent> {
    let (level, text) = message.split_once(' ')?;
    // Its words for the signal come behind others in JSON.
    let text = match text.split_once(": Got signal: ") {
        Some((before, _)) if level == "F" => text.get(before.len() + 2..)?,
        _ => text,
    };
    if let Some(event) = interpret_message(Engine::MongoDb, text) {
        return Some(event);
    }
    let refused = matches!(level, "E" | "F") && text.contains("Cannot allocate memory");
    let what = "MongoDB was refused memory (Cannot allocate memory)";
    refused.then(|| LogEvent::new(LogEventKind::MemoryRefused, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_single_event(line: &str) -> Option<(LogEventKind, String)> {
        let (_, message) = parse_mongodb_line(line)?;
        parse_mongodb_event(&message).map(|event| (event.kind, event.what))
    }

    #[test]
    fn both_forms_of_its_lines_are_read() {
        let refused = "MongoDB was refused memory (Cannot allocate memory)".to_owned();
        let ended = "MongoDB ended itself after an error (abort)".to_owned();
        for (line, event) in [
            (
                "2016-05-21T22:31:48.042-0400 E STORAGE  [thread1] WiredTiger (12) \
                 [1463884307:558146][277593:0x7faf94a62700], WT_SESSION.checkpoint: write error: \
                 failed to write 8192 bytes at offset 140288000: Cannot allocate memory",
                Some((LogEventKind::MemoryRefused, refused.clone())),
            ),
            (
                "2016-05-21T22:31:48.048-0400 I -        [thread1] Fatal Assertion 28558",
                Some((LogEventKind::ServerFailed, ended.clone())),
            ),
            (
                "2016-05-21T22:31:48.246-0400 F -        [thread1] Got signal: 6 (Aborted).",
                Some((LogEventKind::ServerFailed, ended.clone())),
            ),
            (
                r#"{"t":{"$date":"2022-04-27T09:15:04.011+00:00"},"s":"E",  "c":"STORAGE",  "id":22435,   "ctx":"x","msg":"WiredTiger error","attr":{"error":12,"message":"eviction-server: Cannot allocate memory"}}"#,
                Some((LogEventKind::MemoryRefused, refused)),
            ),
            (
                r#"{"t":{"$date":"2022-04-27T09:15:04.011+00:00"},"s":"F",  "c":"CONTROL",  "id":6384300, "ctx":"x","msg":"Writing fatal message","attr":{"message":"Got signal: 6 (Aborted).\n"}}"#,
                Some((LogEventKind::ServerFailed, ended)),
            ),
            (
                "2016-05-21T22:31:40.013-0400 I NETWORK  [conn1] received client metadata: Fatal \
                 Assertion",
                None,
            ),
            ("2016-05-21T22:31:40.013-0400 I Cannot allocate memory", None),
        ] {
            assert_eq!(parse_single_event(line), event, "{line}");
        }
    }
}
