//! What stands for a part of a unit's name or of the system (systemd.unit(5), "Specifiers").

use super::super::filling::{Text, TooLong};

/// A value with what stands for the service's own name, and for folders of the system's manager, filled in.
///
/// # Errors
/// It is longer than any server's.
pub(in crate::config) fn filled(name: &str, value: &str) -> Result<String, TooLong> {
    let stem = name.strip_suffix(".service").unwrap_or(name);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let last = prefix.rsplit('-').next().unwrap_or(prefix);
    let (mut text, mut signs) = (Text::default(), value.chars().peekable());
    while let Some(sign) = signs.next() {
        let meant = match (sign, signs.peek()) {
            ('%', Some('i')) => instance.to_owned(),
            ('%', Some('I')) => plain(instance),
            ('%', Some('p')) => prefix.to_owned(),
            ('%', Some('P')) => plain(prefix),
            ('%', Some('j')) => last.to_owned(),
            ('%', Some('J')) => plain(last),
            ('%', Some('n')) => name.to_owned(),
            ('%', Some('N')) => stem.to_owned(),
            ('%', Some('f')) => {
                let path = plain(if instance.is_empty() { prefix } else { instance });
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

/// What the manager of the system, which is root's, has for these.
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
fn plain(name: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), name);
    while let Some(first) = rest.chars().next() {
        let code = rest.strip_prefix("\\x").and_then(|it| u8::from_str_radix(it.get(..2)?, 16).ok());
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
