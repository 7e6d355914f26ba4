//! What a capture keeps of names cut short, of what SET PERSIST wrote, and of who wrote the data.

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::{self, is_version};

use super::values;
use crate::shared::{options, settings};

pub(super) const FORMS: Forms = Forms {
    is_setting: Some(values::is_setting),
    rewrite: Some(|path, bytes| match options::file_name(path) {
        "mysqld-auto.cnf" => Some(redact_persisted(bytes)),
        name if name.ends_with("_upgrade_info") => Some(shape::version_alone(bytes)),
        _ => None,
    }),
    tells_by_name: Some(|name| {
        let version = name.strip_prefix("debian-").and_then(|rest| rest.strip_suffix(".flag"));
        name == "aria_log_control" || version.is_some_and(is_version)
    }),
    ..Forms::NONE
};

/// SET PERSIST of MySQL keeps settings by section, each with its value and who set it when.
fn redact_persisted(bytes: &[u8]) -> Vec<u8> {
    use serde_json::{Map, Value, json};
    fn collect_redacted(section: &Value, kept: &mut Map<String, Value>) {
        for (name, content) in section.as_object().into_iter().flatten() {
            match content.get("Value").unwrap_or(content) {
                inner @ Value::Object(_) => collect_redacted(inner, kept),
                value if super::KIND.capture.settings.contains(&name.as_str()) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    kept.insert(
                        name.clone(),
                        json!({ "Value": settings::redact_value(name, &text) }),
                    );
                }
                _ => {}
            }
        }
    }
    let mut kept = Map::new();
    match serde_json::from_slice::<Value>(bytes) {
        Ok(file) => collect_redacted(&file, &mut kept),
        Err(_) => return b"?".to_vec(),
    }
    Value::Object(kept).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact_file(path: &str, bytes: &[u8]) -> Vec<u8> {
        FORMS.rewrite.and_then(|rewrite| rewrite(path, bytes)).unwrap()
    }

    #[test]
    fn of_what_is_persisted_only_settings_that_rules_look_at_stay() {
        let file = br#"{"Version":2,"mysql_static_variables":{"secret":{"Value":"S3"},"b":{"max_connections":{"Value":"8","Metadata":{"User":"S3"}}}}}"#;
        let left = br#"{"max_connections":{"Value":"8"}}"#;
        assert_eq!(redact_file("/d/mysqld-auto.cnf", file), left);
        assert_eq!(redact_file("/d/mysqld-auto.cnf", left), left);
        assert_eq!(redact_file("/d/mysqld-auto.cnf", &file[..40]), b"?");
    }

    #[test]
    fn a_link_to_a_secret_by_the_name_of_such_a_file_gives_nothing_away() {
        assert_eq!(
            redact_file("/d/mysql_upgrade_info", b"root:$6$S3:1:2:3:::\nbin:*:1:2:3:::\n"),
            b"?\n"
        );
        assert_eq!(redact_file("/d/mysql_upgrade_info", b"10.11.6-MariaDB"), b"10.11.6-MariaDB\n");
    }

    /// As the servers read them (`--help --verbose` of MariaDB 10.11 takes each of these).
    #[test]
    fn settings_cut_short_are_kept_as_they_are_read() {
        let is = FORMS.is_setting.unwrap();
        for name in [
            "large_p",
            "max_connecti",
            "aria_b",
            "key_cache_s",
            "loose_innodb_log_b",
            "skip_large_pages",
        ] {
            assert!(is(name), "{name}");
        }
        for name in ["password", "l", "max", "innodb_ft_aux_table"] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn names_of_files_tell_who_wrote_the_data() {
        let tells = FORMS.tells_by_name.unwrap();
        assert!(tells("debian-10.11.flag") && tells("aria_log_control"));
        assert!(!tells("debian-S3.flag") && !tells("shop"));
    }
}
