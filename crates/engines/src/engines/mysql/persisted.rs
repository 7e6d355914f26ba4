//! mysqld-auto.cnf, where SET PERSIST keeps settings (MySQL 8.0 and later).

use hugewise_host::{FactReader, ParseError};
use hugewise_model::Observed;
use hugewise_model::configuration::FileLocation;
use serde_json::Value;

use crate::shared::settings::ServerSettings;

/// Adds what is persisted in `data`, which the reader opens as `real`. It beats the command line.
pub(super) fn read(
    facts: &mut FactReader<'_>,
    data: &str,
    real: &str,
    settings: &mut ServerSettings,
) {
    match facts.parse(&format!("{real}/mysqld-auto.cnf"), parse) {
        Observed::Known(persisted) => {
            let place = FileLocation { file: format!("{data}/mysqld-auto.cnf"), line: 0 };
            for (name, value) in persisted {
                settings.set(&name, &value, place.clone());
            }
        }
        Observed::Absent => {}
        other => settings.mark_incomplete(other.map(|_| ())),
    }
}

/// Names and values. The sections differ between releases; each setting is an object with a
/// `Value`, or (8.0.11) its bare value.
///
/// # Errors It is no JSON.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, ParseError> {
    let file: Value = serde_json::from_slice(bytes).map_err(|error| {
        ParseError::at_line(u64::try_from(error.line()).unwrap_or(0), "no JSON")
    })?;
    let mut settings = Vec::new();
    collect_settings(&file, &mut settings);
    Ok(settings)
}

/// The parser does not nest deeper than 128, and neither does this.
fn collect_settings(section: &Value, settings: &mut Vec<(String, String)>) {
    for (name, content) in section.as_object().into_iter().flatten() {
        match content.get("Value").unwrap_or(content) {
            Value::String(value) => settings.push((name.to_ascii_lowercase(), value.clone())),
            Value::Number(value) => settings.push((name.to_ascii_lowercase(), value.to_string())),
            inner => collect_settings(inner, settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use proptest::prelude::*;

    const FILE: &str = r#"{"Version": 2,
        "mysql_dynamic_parse_early_variables": {"max_connections": {"Value": "800", "Metadata": {"Host": "localhost"}}},
        "mysql_static_variables": {"large_pages": {"Value": "ON", "Metadata": {"Timestamp": 1}}}}"#;

    #[test]
    fn what_is_persisted_wins() {
        let source = MapSource::new().with_file("/d/mysqld-auto.cnf", FILE);
        let mut settings = ServerSettings::new(&super::super::KIND);
        settings.set(
            "large_pages",
            "OFF",
            FileLocation { file: "/proc/7/cmdline".into(), line: 0 },
        );
        read(&mut FactReader::new(&source), "/d", "/d", &mut settings);
        assert_eq!(settings.value_or("max_connections", "151"), Observed::Known("800".into()));
        let shown = settings.get("large_pages").as_known().map(ToString::to_string);
        assert_eq!(shown.as_deref(), Some("large_pages=ON (/d/mysqld-auto.cnf)"));
    }

    #[test]
    fn a_broken_file_leaves_settings_unknown() {
        let source = MapSource::new().with_file("/d/mysqld-auto.cnf", &FILE[..90]);
        let mut settings = ServerSettings::new(&super::super::KIND);
        let mut facts = FactReader::new(&source);
        read(&mut facts, "/d", "/d", &mut settings);
        assert!(settings.value_or("large_pages", "OFF").reason_text().is_some());
        assert_eq!(facts.unread.len(), 1);
    }

    proptest! {
        #[test]
        fn a_file_that_is_cut_is_refused(cut in 0_usize..2000) {
            let end = FILE.trim_end().len();
            prop_assert!(parse(&FILE.as_bytes()[..cut % end]).is_err());
        }
    }
}
