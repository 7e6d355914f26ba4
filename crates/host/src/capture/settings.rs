//! What of a server's configuration goes into a capture: settings that rules look at, each with a
//! value of its kind.

use super::Keeps;
use super::line_filter::redact_section;
use super::shape::{self, GONE, NO_VALUE};

/// Sections, includes, and settings that rules look at. A value that is none becomes `?`, and words
/// behind it too, as a server would refuse them.
pub(super) fn redact_setting_line(line: &str, keeps: &Keeps) -> Option<String> {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
        return None;
    }
    if trimmed.starts_with('[') {
        // A group that has no end makes the whole file none.
        return if trimmed.contains(']') { redact_section(trimmed) } else { Some("[".to_owned()) };
    }
    let own = || keeps.forms.iter().find_map(|forms| forms.line?(trimmed));
    let list_item = trimmed.starts_with("- ");
    if trimmed.starts_with('-') && !list_item {
        let gone = || trimmed.split_ascii_whitespace().map(|_| GONE).collect::<Vec<_>>().join(" ");
        return Some(own().unwrap_or_else(gone));
    }
    let of_key = |sign: char| !sign.is_ascii_whitespace() && !"=:'\"#;".contains(sign);
    let end = trimmed.find(|sign: char| !of_key(sign)).unwrap_or(trimmed.len());
    let (written, rest) = trimmed.split_at_checked(end)?;
    let include = matches!(
        written.trim_start_matches('!').to_ascii_lowercase().as_str(),
        "include" | "includedir" | "include_dir" | "include_if_exists" | "ifile" | "spfile"
    );
    let (prefix, name) =
        written.rsplit_once('.').map_or(("", written), |(prefix, name)| (prefix, name));
    let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
    let indent: String = indent.chars().filter(|sign| matches!(sign, ' ' | '\t')).collect();
    let ours = (include || keeps.has_setting(name)) && !list_item;
    if !ours {
        if let Some(own) = own() {
            return Some(own);
        }
        // A block of a YAML file holds others: `security:`, whatever it is called.
        let block =
            rest.trim_end() == ":" && written.bytes().all(|sign| sign.is_ascii_alphanumeric());
        return block.then(|| format!("{indent}x:"));
    }
    // `*.sga_target`, `PROD1.sga_target`, `storage.dbPath`.
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || b"*_$#+-.".contains(&sign);
    if prefix.len() > 64 || !prefix.bytes().all(plain) || !shape::is_harmless(prefix) {
        return None;
    }
    let between = rest.len()
        - rest
            .trim_start_matches(|sign: char| sign.is_ascii_whitespace() || "=:".contains(sign))
            .len();
    let (between, value) = rest.split_at_checked(between)?;
    let value = without_comment(value);
    let shape = if include { shape::ValueShape::Path } else { keeps.shape_of(name) };
    Some(format!("{indent}{written}{between}{}", value_alone(&value, shape)).trim_end().to_owned())
}

/// A value with the quotes that it had; `?` for each word of what is none.
fn value_alone(value: &str, shape: shape::ValueShape) -> String {
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let inner = quote.map_or(value, |quote| {
        let inner = value.get(1..).unwrap_or_default();
        inner.strip_suffix(quote).unwrap_or(inner)
    });
    if !inner.contains(['\'', '"'])
        && shape.matches_value(inner)
        && (quote.is_none() || value.len() == inner.len() + 2)
    {
        return value.to_owned();
    }
    let Some(quote) = quote else {
        let mut words = value.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let more = words.next().is_some() || is_number_and_more(first);
        let first = if shape.matches_value(first) { first } else { NO_VALUE };
        return if more { format!("{first} {NO_VALUE}") } else { first.to_owned() };
    };
    // Closed, and perhaps something behind it; or without end.
    let closed = after_closing_quote(value.get(1..).unwrap_or_default(), quote);
    match closed {
        Some(behind) if behind.trim().is_empty() => format!("{quote}{NO_VALUE}{quote}"),
        Some(_) => format!("{quote}{NO_VALUE}{quote} {NO_VALUE}"),
        None => format!("{quote}{NO_VALUE}"),
    }
}

/// `12kB7`, where PostgreSQL sees two values: a number with its unit, and something behind it.
fn is_number_and_more(word: &str) -> bool {
    let unsigned = word.trim_start_matches(['-', '+']);
    let behind = unsigned.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let rest = behind.trim_start_matches(|sign: char| sign.is_ascii_alphabetic());
    behind.len() < unsigned.len() && !rest.is_empty() && !rest.starts_with('.')
}

/// A doubled quote, and one behind a backslash, close nothing.
fn after_closing_quote(text: &str, quote: char) -> Option<&str> {
    let mut signs = text.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        if sign == '\\' {
            signs.next();
        } else if sign == quote && signs.next_if(|(_, next)| *next == quote).is_none() {
            return text.get(at + quote.len_utf8()..);
        }
    }
    None
}

/// Cuts `# comment` where no quote holds the sign; a quote that is not closed holds nothing.
fn without_comment(line: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let mut first = None;
    for (at, sign) in line.char_indices() {
        match (sign, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('#', None) => return line.get(..at).unwrap_or_default().trim_end().to_owned(),
            ('#', Some(_)) => first = first.or(Some(at)),
            ('"' | '\'', None) => quote = Some(sign),
            (_, Some(open)) if open == sign => quote = None,
            _ => {}
        }
    }
    let end = first.filter(|_| quote.is_some()).unwrap_or(line.len());
    line.get(..end).unwrap_or_default().trim_end().to_owned()
}

/// Of a binary file that an engine has lines of, the settings that rules look at, one a line.
pub(super) fn redact_binary_settings(bytes: &[u8], name: &str, keeps: &Keeps) -> Option<Vec<u8>> {
    let text = keeps.forms.iter().find_map(|forms| forms.text?(name, bytes))?;
    let mut kept = Vec::new();
    for line in text.split(|byte| !(0x20..0x7f).contains(byte)) {
        let Some(key) =
            line.split(|byte| *byte == b'=').next().filter(|key| key.len() < line.len())
        else {
            continue;
        };
        let key = String::from_utf8_lossy(key);
        if keeps.has_setting(key.rsplit('.').next().unwrap_or_default().trim()) {
            let line =
                redact_setting_line(&String::from_utf8_lossy(line), keeps).unwrap_or_default();
            kept.extend_from_slice(line.as_bytes());
            kept.push(b'\n');
        }
    }
    Some(kept)
}
