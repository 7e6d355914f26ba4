//! mongod.conf: YAML whose scalars are settings.
//!
//! Keys are dotted as in MongoDB's manual, `storage.wiredTiger.engineConfig.cacheSizeGB`, whether
//! they are nested by indentation, in braces, or dotted in the file. Lists and aliases are skipped.

use hugewise_host::ParseError;
use saphyr_parser::{Event, Parser};

use crate::shared::ini;

/// One scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlEntry {
    /// Dotted path.
    pub path: String,
    /// Value without quotes.
    pub value: String,
    /// Line, from 1.
    pub line: u64,
}

const DEEPEST: usize = 32;
const LONGEST: usize = 256;

enum Within {
    /// A map, with the key whose value is due.
    Map(Option<String>),
    /// A list, whose values have no names.
    List,
}

/// All scalars, in the order of the file.
/// # Errors
/// A file with zero bytes, invalid YAML (a tab for an indent), or too deep nesting.
pub fn parse(bytes: &[u8]) -> Result<Vec<YamlEntry>, ParseError> {
    let text = ini::config_text(bytes)?;
    let mut entries = Vec::new();
    let mut within: Vec<Within> = Vec::new();
    for event in Parser::new_from_str(&text) {
        // The parser's message may repeat the line, which may hold a secret.
        let (event, span) = event
            .map_err(|error| ParseError::at_line(line_number(error.marker().line()), "no YAML"))?;
        let line = line_number(span.start.line());
        match event {
            Event::Scalar(text, ..) => match within.last_mut() {
                Some(Within::Map(key @ None)) => *key = Some(text.into_owned()),
                Some(Within::Map(Some(_))) => {
                    entries.extend(join_key_path(&within).map(|path| YamlEntry {
                        path,
                        value: text.into_owned(),
                        line,
                    }));
                    value_ends(&mut within);
                }
                Some(Within::List) | None => {}
            },
            Event::Alias(_) => match within.last_mut() {
                Some(Within::Map(key @ None)) => *key = Some(String::new()),
                _ => value_ends(&mut within),
            },
            Event::MappingStart(..) | Event::SequenceStart(..) if within.len() >= DEEPEST => {
                return Err(ParseError::at_line(line, "nested too deeply"));
            }
            Event::MappingStart(..) => within.push(Within::Map(None)),
            Event::SequenceStart(..) => within.push(Within::List),
            Event::MappingEnd | Event::SequenceEnd => {
                within.pop();
                collection_ends(&mut within);
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
    }
    Ok(entries)
}

fn value_ends(within: &mut [Within]) {
    if let Some(Within::Map(key)) = within.last_mut() {
        *key = None;
    }
}

/// As a value a collection ends its key, as a key it is one without a name.
fn collection_ends(within: &mut [Within]) {
    if let Some(Within::Map(key)) = within.last_mut() {
        *key = if key.is_some() { None } else { Some(String::new()) };
    }
}

/// The keys that lead here; none from within a list, or through a key that is no name.
fn join_key_path(within: &[Within]) -> Option<String> {
    let keys = within.iter().map(|one| match one {
        Within::Map(Some(key)) => {
            Some(key.as_str()).filter(|key| !key.is_empty() && key.len() <= LONGEST)
        }
        Within::Map(None) | Within::List => None,
    });
    Some(keys.collect::<Option<Vec<_>>>()?.join("."))
}

fn line_number(line: usize) -> u64 {
    u64::try_from(line).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(file: &str, path: &str) -> Option<String> {
        parse(file.as_bytes())
            .unwrap()
            .into_iter()
            .rfind(|entry| entry.path == path)
            .map(|entry| entry.value)
    }

    #[test]
    fn nested_dotted_flow_and_quoted_keys_read_alike() {
        for file in [
            "storage:\n  dbPath: /data # \
                 here\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 4\nnet:\n  port: \
                 27018\n",
            "storage.dbPath: \"/data\"\nstorage:\n   wiredTiger.engineConfig.cacheSizeGB: \
                 '4'\nnet: {port: 27018, bindIp: 0.0.0.0}\n",
            "# c\n---\nnet:\n    port: 27018\n\nstorage:\n    dbPath: \
                 '/data'\n    wiredTiger:\n\n        engineConfig: { cacheSizeGB: 4 }\n",
        ] {
            assert_eq!(value(file, "storage.dbPath").as_deref(), Some("/data"), "{file}");
            assert_eq!(
                value(file, "storage.wiredTiger.engineConfig.cacheSizeGB").as_deref(),
                Some("4"),
                "{file}"
            );
            assert_eq!(value(file, "net.port").as_deref(), Some("27018"), "{file}");
        }
    }

    #[test]
    fn maps_in_braces_may_be_nested_and_go_over_lines() {
        let file = "storage: \
             {dbPath: /data, wiredTiger: {engineConfig: {cacheSizeGB: 4}}}\nnet:\n  {\n    tls: {mode: x},\n    \
                    port: 27018\n  }\n";
        assert_eq!(value(file, "storage.dbPath").as_deref(), Some("/data"));
        assert_eq!(
            value(file, "storage.wiredTiger.engineConfig.cacheSizeGB").as_deref(),
            Some("4")
        );
        assert_eq!(
            (value(file, "net.port").as_deref(), value(file, "net.tls.mode").as_deref()),
            (Some("27018"), Some("x"))
        );
        let entries = parse(file.as_bytes()).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 1, 4, 5]);
    }

    #[test]
    fn lists_aliases_and_texts_are_passed_over() {
        let file = "a: &x {port: 9}\nb: *x\nsetParameter:\n  - port: 1\n  - [port, 2]\n? \
             {c: d}\n: {e: f}\ntext: |\n  net:\n    \
                    port: 3\nnet:\n  port: 4 # 5\n";
        assert_eq!(value(file, "net.port").as_deref(), Some("4"));
        let entries = parse(file.as_bytes()).unwrap();
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["a.port", "text", "net.port"]);
    }

    #[test]
    fn what_is_nested_without_end_is_refused() {
        for file in [
            "[".repeat(100_000),
            "a: {".repeat(100_000),
            "- ".repeat(100_000),
            "? ".repeat(100_000),
        ] {
            assert!(parse(file.as_bytes()).is_err());
        }
    }

    #[test]
    fn a_key_ends_with_its_block() {
        let file = "net:\n  tls:\n    mode: requireTLS\n  port: 1\nprocessManagement:\n  fork: \
             true\nport: 2\n";
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
        fn what_was_written_is_read(keys in prop::collection::vec("[a-zA-Z][a-zA-Z0-9]{0,8}", 1..6), scalar in "[a-zA-Z0-9/][a-zA-Z0-9/._]{0,20}", step in 1..5_usize) {
            let mut file = String::new();
            for (depth, key) in keys.iter().enumerate() {
                let last = depth + 1 == keys.len();
                file += &format!("{}{key}:{}\n", " ".repeat(depth * step), if last { format!(" {scalar}") } else { String::new() });
            }
            let read = parse(file.as_bytes()).unwrap();
            prop_assert_eq!(read, vec![YamlEntry { path: keys.join("."), value: scalar, line: keys.len() as u64 }]);
        }
    }
}
