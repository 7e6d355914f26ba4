//! The part of YAML that mongod.conf is written in: nested maps of scalars by indentation.
//!
//! Keys come out dotted, as MongoDB's manual writes them: `storage.wiredTiger.engineConfig.cacheSizeGB`. Dotted keys in
//! the file, comments, quotes and `{a: 1, b: 2}` on one line are understood; lists, anchors and block texts are not
//! needed and are passed over.

use hugewise_host::ParseError;

/// One scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Dotted path.
    pub path: String,
    /// Value without quotes.
    pub value: String,
    /// Line, from 1.
    pub line: u64,
}

/// All scalars, in the order of the file.
///
/// # Errors
/// A file with zero bytes, or indented with tabs, which YAML forbids.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>, ParseError> {
    if bytes.contains(&0) {
        return Err(ParseError::whole("zero bytes in a configuration file"));
    }
    let text = String::from_utf8_lossy(bytes);
    let mut entries = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        let content = line.trim_start_matches(' ');
        if content.trim().is_empty() || content.starts_with("---") || content.starts_with('%') {
            continue;
        }
        if content.starts_with('\t') {
            return Err(ParseError::at(number, "indented with a tab"));
        }
        let depth = line.len() - content.len();
        parents.retain(|(indent, _)| *indent < depth);
        let Some((key, value)) = key_and_value(content) else { continue };
        let path = joined(parents.last().map(|(_, path)| path.as_str()), &key);
        if value.is_empty() {
            parents.push((depth, path));
        } else if let Some(inner) = value.strip_prefix('{') {
            let inner = inner.trim_end().trim_end_matches('}');
            let pairs = inner.split(',').filter_map(|pair| key_and_value(pair.trim()));
            entries.extend(pairs.map(|(key, value)| Entry {
                path: joined(Some(&path), &key),
                value: unquoted(&value),
                line: number,
            }));
        } else {
            entries.push(Entry { path, value: unquoted(&value), line: number });
        }
    }
    Ok(entries)
}

fn joined(parent: Option<&str>, key: &str) -> String {
    parent.map_or_else(|| key.to_owned(), |parent| format!("{parent}.{key}"))
}

/// `key: value` or `key:`; a colon inside a key, as in a URL, is none.
fn key_and_value(content: &str) -> Option<(String, String)> {
    let (key, value) =
        content.split_once(": ").or_else(|| content.trim_end().strip_suffix(':').map(|key| (key, "")))?;
    let key = unquoted(key.trim());
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    plain.then(|| (key, value.trim().to_owned()))
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.to_owned();
        }
    }
    value.to_owned()
}

/// A `#` begins a comment at the start of a line or after a blank, outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return line.get(..at).unwrap_or(line),
            (None, '"' | '\'') if before.is_whitespace() => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(file: &str, path: &str) -> Option<String> {
        parse(file.as_bytes()).unwrap().into_iter().rfind(|entry| entry.path == path).map(|entry| entry.value)
    }

    #[test]
    fn nested_dotted_flow_and_quoted_keys_read_alike() {
        for file in [
            "storage:\n  dbPath: /data # here\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 4\nnet:\n  port: 27018\n",
            "storage.dbPath: \"/data\"\nstorage:\n   wiredTiger.engineConfig.cacheSizeGB: '4'\nnet: {port: 27018, bindIp: 0.0.0.0}\n",
            "# c\n---\nnet:\n    port: 27018\n\nstorage:\n    dbPath: '/data'\n    wiredTiger:\n\n        engineConfig: { cacheSizeGB: 4 }\n",
        ] {
            assert_eq!(value(file, "storage.dbPath").as_deref(), Some("/data"), "{file}");
            assert_eq!(value(file, "storage.wiredTiger.engineConfig.cacheSizeGB").as_deref(), Some("4"), "{file}");
            assert_eq!(value(file, "net.port").as_deref(), Some("27018"), "{file}");
        }
    }

    #[test]
    fn a_key_ends_with_its_block() {
        let file = "net:\n  tls:\n    mode: requireTLS\n  port: 1\nprocessManagement:\n  fork: true\nport: 2\n";
        assert_eq!(value(file, "net.port").as_deref(), Some("1"));
        assert_eq!(value(file, "port").as_deref(), Some("2"));
        assert_eq!(value(file, "net.tls.port"), None);
    }

    #[test]
    fn a_tab_is_malformed_and_says_where() {
        assert_eq!(parse(b"net:\n\tport: 1\n").unwrap_err().line, 2);
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes: Vec<u8>, text in "[ a-z:#'\"{},\\n\\t\u{e9}]{0,200}") {
            let _ = parse(&bytes);
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn what_was_written_is_read(keys in prop::collection::vec("[a-zA-Z][a-zA-Z0-9]{0,8}", 1..6), scalar in "[a-zA-Z0-9/][a-zA-Z0-9/._]{0,20}", step in 1..5_usize) {
            let mut file = String::new();
            for (depth, key) in keys.iter().enumerate() {
                let last = depth + 1 == keys.len();
                file += &format!("{}{key}:{}\n", " ".repeat(depth * step), if last { format!(" {scalar}") } else { String::new() });
            }
            let read = parse(file.as_bytes()).unwrap();
            prop_assert_eq!(read, vec![Entry { path: keys.join("."), value: scalar, line: keys.len() as u64 }]);
        }
    }
}
