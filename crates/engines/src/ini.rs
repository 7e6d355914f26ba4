//! Files of `name = value` lines, with or without sections, as several vendors' servers have them.

use std::collections::BTreeMap;

use hugewise_host::{Door, ParseError};
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;

use crate::settings::shown;

/// A setting with the section that it stands in: an empty one before the first.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// In lower case.
    pub section: String,
    /// As it is written; [`wanted`](parse) is asked in lower case.
    pub name: String,
    /// Without the quotes around it.
    pub value: String,
    /// Counted from 1.
    pub line: u64,
}

/// The settings of a file that are `wanted`, by section and name.
///
/// # Errors
/// A file with zero bytes in it is no configuration.
pub fn parse(bytes: &[u8], wanted: fn(&str, &str) -> bool) -> Result<Vec<Entry>, ParseError> {
    if bytes.contains(&0) {
        return Err(ParseError::whole("zero bytes in a configuration file"));
    }
    let text = String::from_utf8_lossy(bytes);
    let mut section = String::new();
    let mut entries = Vec::new();
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.trim();
        if let Some(name) = written.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name.0.trim().to_ascii_lowercase();
            continue;
        }
        let Some((name, value)) = written.split_once('=').filter(|_| !written.starts_with(['#', ';'])) else {
            continue;
        };
        let name = name.trim().to_owned();
        if wanted(&section, &name.to_ascii_lowercase()) {
            let value = value.trim().trim_matches(['"', '\'']).to_owned();
            entries.push(Entry { section: section.clone(), name, value, line });
        }
    }
    Ok(entries)
}

/// All settings of a file.
///
/// # Errors
/// A file with zero bytes in it is no configuration.
pub fn every(bytes: &[u8]) -> Result<Vec<Entry>, ParseError> {
    parse(bytes, |_, _| true)
}

/// Takes the settings of a file that are `wanted` in, in place of those of the same name; whether it is there.
pub(crate) fn add(
    settings: &mut BTreeMap<String, Setting>,
    door: &mut Door<'_>,
    path: &str,
    wanted: fn(&str, &str) -> bool,
) -> bool {
    let read = door.parse(path, |bytes| parse(bytes, wanted));
    let there = !read.is_absent();
    for Entry { name, value, line, .. } in read.into_known().unwrap_or_default() {
        let value = shown(&name, &value).to_owned();
        let place = Some(Place { file: path.to_owned(), line });
        settings.insert(name.to_ascii_lowercase(), Setting { name, value, place });
    }
    there
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn settings_are_told_by_section_and_name() {
        let text = b"A = 1\n[Memory]\n# memorylimitmb = 1\n;memorylimitmb=2\n memoryLimitMB = \"4096\"\n[other]\nmemorylimitmb=5\n";
        let read = parse(text, |section, name| section == "memory" && name == "memorylimitmb").unwrap();
        let entry = |section: &str, name: &str, value: &str, line| Entry {
            section: section.into(),
            name: name.into(),
            value: value.into(),
            line,
        };
        assert_eq!(read, [entry("memory", "memoryLimitMB", "4096", 5)]);
        let all = every(text).unwrap();
        assert_eq!(all.first(), Some(&entry("", "A", "1", 1)));
        assert_eq!(all.len(), 3);
        assert!(parse(b"a=1\0", |_, _| true).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(read) = every(&bytes) {
                prop_assert!(read.len() <= bytes.len());
            }
        }
    }
}
