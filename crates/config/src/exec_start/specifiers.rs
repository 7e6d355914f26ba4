//! What stands for a part of a unit's name or of the system (systemd.unit(5), "Specifiers").

use crate::expansion_budget::{BoundedText, ExpansionTooLong};

/// Of a service of the system's manager.
pub(crate) fn expand_specifiers(name: &str, value: &str) -> Result<String, ExpansionTooLong> {
    let stem = name.strip_suffix(".service").unwrap_or(name);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let last = prefix.rsplit('-').next().unwrap_or(prefix);
    let (mut text, mut signs) = (BoundedText::default(), value.chars().peekable());
    while let Some(sign) = signs.next() {
        let meant = match (sign, signs.peek()) {
            ('%', Some('i')) => instance.to_owned(),
            ('%', Some('I')) => unescape_unit_name(instance),
            ('%', Some('p')) => prefix.to_owned(),
            ('%', Some('P')) => unescape_unit_name(prefix),
            ('%', Some('j')) => last.to_owned(),
            ('%', Some('J')) => unescape_unit_name(last),
            ('%', Some('n')) => name.to_owned(),
            ('%', Some('N')) => stem.to_owned(),
            ('%', Some('f')) => {
                let path = unescape_unit_name(if instance.is_empty() { prefix } else { instance });
                if path.starts_with('/') { path } else { format!("/{path}") }
            }
            ('%', Some(other)) => match FOLDERS.iter().find(|(sign, _)| sign == other) {
                Some((_, folder)) => (*folder).to_owned(),
                None => {
                    text.push(sign)?;
                    continue;
                }
            },
            _ => {
                text.push(sign)?;
                continue;
            }
        };
        text.push_str(&meant)?;
        signs.next();
    }
    Ok(text.into_text())
}

const FOLDERS: [(char, &str); 12] = [
    ('%', "%"),
    ('t', "/run"),
    ('S', "/var/lib"),
    ('C', "/var/cache"),
    ('L', "/var/log"),
    ('E', "/etc"),
    ('T', "/tmp"),
    ('V', "/var/tmp"),
    ('h', "/root"),
    ('u', "root"),
    ('U', "0"),
    ('g', "root"),
];

/// A name unescaped: `-` stands for `/`, `\x2d` for a dash.
fn unescape_unit_name(name: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), name);
    while let Some(first) = rest.chars().next() {
        let code =
            rest.strip_prefix("\\x").and_then(|text| u8::from_str_radix(text.get(..2)?, 16).ok());
        let (byte, length) = match (first, code) {
            (_, Some(code)) => (vec![code], 4),
            ('-', None) => (vec![b'/'], 1),
            (other, None) => (other.to_string().into_bytes(), other.len_utf8()),
        };
        bytes.extend(byte);
        rest = rest.get(length..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
