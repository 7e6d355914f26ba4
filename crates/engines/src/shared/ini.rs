//! Files of `name = value` lines, with or without sections.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_host::{FactReader, ParseError};
use hugewise_model::Process;
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::ServerSetting;

use crate::shared::options;
use crate::shared::settings::redacted_setting;
use crate::{EngineContext, FoundInstances};

/// A setting and its section, which is empty before the first.
#[derive(Debug, PartialEq, Eq)]
pub struct IniEntry {
    /// In lower case.
    pub section: String,
    /// As written; [`wanted`](parse) gets it in lower case.
    pub name: String,
    /// Without the quotes around it.
    pub value: String,
    /// Counted from 1.
    pub line: u64,
}

/// The settings of a file that are `wanted`, by section and name.
/// # Errors
/// The file has zero bytes in it.
pub fn parse(bytes: &[u8], wanted: fn(&str, &str) -> bool) -> Result<Vec<IniEntry>, ParseError> {
    let text = config_text(bytes)?;
    let mut section = String::new();
    let mut entries = Vec::new();
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.trim();
        if let Some(name) = written.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name.0.trim().to_ascii_lowercase();
            continue;
        }
        let Some((name, value)) =
            written.split_once('=').filter(|_| !written.starts_with(['#', ';']))
        else {
            continue;
        };
        let name = name.trim().to_owned();
        if wanted(&section, &name.to_ascii_lowercase()) {
            let value = value.trim().trim_matches(['"', '\'']).to_owned();
            entries.push(IniEntry { section: section.clone(), name, value, line });
        }
    }
    Ok(entries)
}

/// All settings of a file.
/// # Errors
/// The file has zero bytes in it.
pub fn parse_all_entries(bytes: &[u8]) -> Result<Vec<IniEntry>, ParseError> {
    parse(bytes, |_, _| true)
}

pub(crate) fn config_text(bytes: &[u8]) -> Result<Cow<'_, str>, ParseError> {
    if bytes.contains(&0) {
        return Err(ParseError::whole_file("zero bytes in a configuration file"));
    }
    Ok(String::from_utf8_lossy(bytes))
}

/// The `wanted` settings of a server's files, the last of a name; and whether all could be read.
pub(crate) fn read_files(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
    files: &[String],
    wanted: fn(&str, &str) -> bool,
) -> (BTreeMap<String, ServerSetting>, bool) {
    let mut settings = BTreeMap::new();
    let own = scene.files_of(main);
    let mut facts = FactReader::new(&own);
    for file in files {
        let path = options::as_reader_opens(scene.host, main, file);
        let entries = facts.parse(&path, |bytes| parse(bytes, wanted));
        for IniEntry { name, value, line, .. } in entries.into_known().unwrap_or_default() {
            let place = Some(FileLocation { file: path.clone(), line });
            settings.insert(name.to_ascii_lowercase(), redacted_setting(&name, &value, place));
        }
    }
    let complete = facts.unread.is_empty();
    found.add_unread(main, facts.unread);
    (settings, complete)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn settings_are_told_by_section_and_name() {
        let text = b"A = 1\n[Memory]\n# memorylimitmb = 1\n;memorylimitmb=2\n memoryLimitMB \
             = \"4096\"\n[other]\nmemorylimitmb=5\n";
        let read =
            parse(text, |section, name| section == "memory" && name == "memorylimitmb").unwrap();
        let entry = |section: &str, name: &str, value: &str, line| IniEntry {
            section: section.into(),
            name: name.into(),
            value: value.into(),
            line,
        };
        assert_eq!(read, [entry("memory", "memoryLimitMB", "4096", 5)]);
        let all = parse_all_entries(text).unwrap();
        assert_eq!(all.first(), Some(&entry("", "A", "1", 1)));
        assert_eq!(all.len(), 3);
        assert!(parse(b"a=1\0", |_, _| true).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(read) = parse_all_entries(&bytes) {
                prop_assert!(read.len() <= bytes.len());
            }
        }
    }
}
