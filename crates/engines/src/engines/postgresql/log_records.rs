//! Messages of a PostgreSQL log in each of its forms: stderr, csvlog, jsonlog.

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PostgresqlLogRecord {
    /// As the log writes it; empty where log_line_prefix has no time.
    pub(super) stamp: String,
    /// `LOG`, `FATAL`, `DEBUG`, or the same in the server's language.
    pub(super) severity: String,
    pub(super) message: String,
    pub(super) hint: String,
    /// The refused call of a failed start: `shmget(key=5432001, size=61816832, 03600)`.
    pub(super) call: String,
    pub(super) line: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostgresqlLogForm {
    Stderr,
    Csv,
    Json,
}

/// The forms are not mixed in a file.
pub(super) fn detect_form(text: &str) -> PostgresqlLogForm {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let json = |line: &str| line.starts_with("{\"timestamp\":");
    let csv = |line: &str| {
        begins_with_date(line) && split_csv(line).get(11).is_some_and(|word| is_severity(word))
    };
    lines
        .by_ref()
        .take(200)
        .find_map(|line| {
            if json(line) {
                Some(PostgresqlLogForm::Json)
            } else {
                csv(line).then_some(PostgresqlLogForm::Csv)
            }
        })
        .unwrap_or(PostgresqlLogForm::Stderr)
}

pub(super) fn parse_records<'a>(
    form: PostgresqlLogForm,
    lines: impl Iterator<Item = &'a str>,
) -> Vec<PostgresqlLogRecord> {
    match form {
        PostgresqlLogForm::Json => lines.filter_map(of_json).collect(),
        PostgresqlLogForm::Csv => join_continuation_lines(lines, begins_with_date)
            .iter()
            .filter_map(|text| of_csv(text))
            .collect(),
        PostgresqlLogForm::Stderr => {
            of_stderr(&join_continuation_lines(lines, |line| !line.starts_with('\t')))
        }
    }
}

fn join_continuation_lines<'a>(
    lines: impl Iterator<Item = &'a str>,
    begins: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for line in lines {
        match texts.last_mut() {
            Some(text) if !begins(line) => {
                text.push('\n');
                text.push_str(line);
            }
            _ => texts.push(line.to_owned()),
        }
    }
    texts
}

fn begins_with_date(line: &str) -> bool {
    let shape = b"dddd-dd-dd dd:dd:dd";
    let bytes = line.as_bytes();
    bytes.len() > shape.len()
        && shape
            .iter()
            .zip(bytes)
            .all(|(shape, byte)| if *shape == b'd' { byte.is_ascii_digit() } else { shape == byte })
}

/// A word in capitals, in any script.
fn is_severity(word: &str) -> bool {
    let word = word.trim_end_matches([' ', '\u{a0}']);
    let letter = |letter: char| {
        (letter.is_alphabetic() && !letter.is_lowercase()) || letter.is_ascii_digit()
    };
    (2..=40).contains(&word.len())
        && word.chars().all(letter)
        && !word.starts_with(|first: char| first.is_ascii_digit())
}

fn of_json(line: &str) -> Option<PostgresqlLogRecord> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| {
        value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let (stamp, severity, message, hint) =
        (text("timestamp"), text("error_severity"), text("message"), text("hint"));
    let call = refused_call(&text("detail"));
    Some(PostgresqlLogRecord { stamp, severity, message, hint, call, line: line.to_owned() })
}

fn of_csv(text: &str) -> Option<PostgresqlLogRecord> {
    let mut fields = split_csv(text);
    let mut take = |at: usize| fields.get_mut(at).map(std::mem::take);
    let (stamp, severity, message) = (take(0)?, take(11)?, take(13)?);
    let call = refused_call(&take(14).unwrap_or_default());
    Some(PostgresqlLogRecord {
        call,
        stamp,
        severity,
        message,
        hint: take(15).unwrap_or_default(),
        line: text.to_owned(),
    })
}

fn split_csv(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().into_iter().for_each(|field| field.push('"'));
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    fields
}

/// Lines of `PREFIX SEVERITY:  MESSAGE`; only the prefix is the administrator's.
fn of_stderr(texts: &[String]) -> Vec<PostgresqlLogRecord> {
    let mut records: Vec<PostgresqlLogRecord> = Vec::new();
    for text in texts {
        let Some((head, message)) = text.split_once(":  ") else { continue };
        let head = head.trim_end_matches([' ', '\u{a0}']);
        let (prefix, severity) =
            head.rsplit_once([' ', '\u{a0}', ':', ']', ')', '>', '|']).unwrap_or(("", head));
        if !is_severity(severity) {
            continue;
        }
        // A hint is a line of its own, in any language, about the message before.
        if message.contains("shared_buffers")
            && message.contains("max_connections")
            && let Some(last) = records.last_mut()
        {
            message.clone_into(&mut last.hint);
            last.line = format!("{}\n{text}", last.line);
            continue;
        }
        // A line of its own too, about the message before; others quote what clients send.
        const NO_DETAIL: [&str; 8] =
            ["LOG", "ERROR", "WARNING", "NOTICE", "STATEMENT", "CONTEXT", "HINT", "QUERY"];
        let call =
            if NO_DETAIL.contains(&severity) { String::new() } else { refused_call(message) };
        if !call.is_empty()
            && let Some(last) = records.last_mut()
        {
            last.call = call;
            last.line = format!("{}\n{text}", last.line);
            continue;
        }
        records.push(PostgresqlLogRecord {
            stamp: stamp_of(prefix),
            severity: severity.to_owned(),
            message: message.to_owned(),
            hint: String::new(),
            call,
            line: text.clone(),
        });
    }
    records
}

/// The same in every language: only the words around the call are translated.
fn refused_call(detail: &str) -> String {
    let call = detail.find("shmget(key=").and_then(|at| detail.get(at..));
    let end = |call: &str| call.find(')').and_then(|end| call.get(..=end).map(str::to_owned));
    call.and_then(end).filter(|call| call.contains(", size=")).unwrap_or_default()
}

/// `2026-11-21 20:32:29.713 UTC` from anywhere in a prefix.
fn stamp_of(prefix: &str) -> String {
    let Some(from) = prefix
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| begins_with_date(prefix.get(*at..).unwrap_or("")))
    else {
        return String::new();
    };
    let words = prefix.get(from..).unwrap_or_default().split_ascii_whitespace().take(3);
    let words: Vec<&str> = words.filter(|word| !word.starts_with(['[', '('])).collect();
    words.join(" ")
}
