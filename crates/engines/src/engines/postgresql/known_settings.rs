//! The settings that a PostgreSQL server knows, and their values: anything else keeps it from
//! starting.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hugewise_host::capture::shape::{NO_VALUE, ValueShape};

use super::values::{self, MEMORY, TIME, Units};

const WHOLE: [u32; 2] = [15, 18];

static KNOWN: LazyLock<BTreeMap<&str, Vec<SettingSpec>>> = LazyLock::new(|| {
    let mut known = BTreeMap::<&str, Vec<SettingSpec>>::new();
    for line in include_str!("known.tsv").lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (majors, name) = (next(), next());
        let majors = majors.split(',').filter_map(|major| major.parse().ok()).collect();
        let (kind, unit, least, most, words) = (next(), next(), next(), next(), next());
        known.entry(name).or_default().push(SettingSpec { majors, kind, unit, least, most, words });
    }
    known
});

struct SettingSpec {
    majors: Vec<u32>,
    kind: &'static str,
    unit: &'static str,
    least: &'static str,
    most: &'static str,
    words: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingVerdict {
    Fine,
    /// There is no such setting: it does not start.
    NoSetting,
    /// This is no value for the setting: it does not start.
    NoValue,
    Unclear,
}

/// Judges a setting by its name in lower case and its value. A server that is not `is_plain` is
/// built of PostgreSQL and may have more settings.
pub(super) fn judge_setting(
    name: &str,
    value: &str,
    major: Option<u32>,
    is_plain: bool,
) -> SettingVerdict {
    // Extensions' settings are taken whatever they are.
    if name.contains('.') {
        return SettingVerdict::Fine;
    }
    let whole = major.filter(|major| WHOLE.contains(major));
    let Some(specs) = KNOWN.get(name) else {
        return if whole.is_some() && is_plain {
            SettingVerdict::NoSetting
        } else {
            SettingVerdict::Unclear
        };
    };
    let spec = match whole {
        Some(major) => match specs.iter().find(|spec| spec.majors.contains(&major)) {
            Some(spec) => spec,
            None if is_plain => return SettingVerdict::NoSetting,
            None => return SettingVerdict::Unclear,
        },
        // What both known releases have alike the others have too.
        None => match specs.iter().find(|spec| spec.majors.len() == WHOLE.len()) {
            Some(spec) => spec,
            None => return SettingVerdict::Fine,
        },
    };
    let is_read = super::KIND.capture.settings.contains(&name);
    let between = major.is_some_and(|major| (15..=18).contains(&major));
    match spec.accepts_value(value) {
        None if is_read => SettingVerdict::Unclear,
        Some(false) if between || (is_read && spec.kind != "internal") => SettingVerdict::NoValue,
        _ => SettingVerdict::Fine,
    }
}

/// What a capture keeps of a setting that is not read: enough for each release to judge it as on
/// its host. Nothing where all of them take it.
pub(super) fn redact_unread_setting(name: &str, value: &str) -> Option<String> {
    /// No value of any setting but a text, which takes anything.
    const NO_VALUE_OF_ANY: &str = "'!'";
    if name.contains('.') {
        return None;
    }
    // An unknown name may be anything, and is not repeated.
    let Some(specs) = KNOWN.get(name) else { return Some(format!("{UNKNOWN} = {NO_VALUE}")) };
    if specs.iter().any(|spec| spec.accepts_value(value) == Some(false)) {
        let is_harmless = ValueShape::Plain.matches_value(value) && !value.is_empty();
        return Some(if is_harmless {
            format!("{name} = '{value}'")
        } else {
            format!("{name} = {NO_VALUE_OF_ANY}")
        });
    }
    let everywhere = WHOLE.iter().all(|major| specs.iter().any(|spec| spec.majors.contains(major)));
    (!everywhere).then(|| format!("{name} = {NO_VALUE}"))
}

/// Stands for the name of a setting that no release has.
const UNKNOWN: &str = "unknown_setting";

impl SettingSpec {
    /// Whether a value is accepted; none where that is not known here.
    fn accepts_value(&self, value: &str) -> Option<bool> {
        if value == NO_VALUE && self.kind != "string" {
            return None;
        }
        match self.kind {
            "internal" => Some(false),
            "bool" => Some(is_boolean(value)),
            "enum" => Some(self.words.split(',').any(|word| value.eq_ignore_ascii_case(word))),
            "integer" => {
                let (units, base) = self.value_units();
                let number = values::parse_amount(value, units, base);
                let least = self.least.parse::<i128>().unwrap_or(i128::from(i32::MIN));
                let most = self.most.parse::<i128>().unwrap_or(i128::from(i32::MAX));
                Some(number.is_some_and(|number| (least..=most).contains(&number)))
            }
            // Fractions have many forms, and units.
            "real" => {
                let begins = |sign: char| sign.is_ascii_digit() || "+-.".contains(sign);
                Some(value.trim_start().starts_with(begins))
            }
            _ => Some(true),
        }
    }

    /// The units of its amounts, and its own as so many of the smallest.
    fn value_units(&self) -> (Units, u64) {
        let split = self.unit.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(0);
        let (count, name) = self.unit.split_at(split);
        let count = count.parse::<u64>().unwrap_or(1);
        let values_of = |units: Units| {
            units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| (units, count * factor))
        };
        values_of(MEMORY).or_else(|| values_of(TIME)).unwrap_or((&[], 1))
    }
}

/// Any beginning of `true`, `false`, `yes` and `no`, of `on` and `off` from two letters on, and the
/// digits (bool.c).
fn is_boolean(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    [("true", 1), ("false", 1), ("yes", 1), ("no", 1), ("on", 2), ("off", 2), ("1", 1), ("0", 1)]
        .iter()
        .any(|(word, least)| begins(word, *least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(name: &str, value: &str, major: u32) -> SettingVerdict {
        judge_setting(name, value, Some(major), true)
    }

    /// As PostgreSQL 15.20 starts or does not.
    #[test]
    fn a_setting_is_judged_as_the_server_does() {
        for (name, value) in [
            ("shared_buffers", "1GB"),
            ("huge_pages", "TRUE"),
            ("fsync", "of"),
            ("wal_buffers", "-1"),
            ("sort_mem", "4096"),
            ("a.b", "whatever"),
            ("checkpoint_timeout", "5min"),
            ("log_min_messages", "debug"),
        ] {
            assert_eq!(verdict_of(name, value, 15), SettingVerdict::Fine, "{name}={value}");
        }
        for (name, value) in [
            ("shared_buffers", "4g"),
            ("shared_buffers", "100kB"),
            ("shared_buffers", "16TB"),
            ("huge_pages", "t"),
            ("huge_pages", "on "),
            ("fsync", "o"),
            ("wal_buffers", "2GB"),
            ("work_mem", "4g"),
            ("checkpoint_timeout", "5"),
            ("block_size", "8192"),
            ("max_connections", "100kB"),
        ] {
            assert_eq!(verdict_of(name, value, 15), SettingVerdict::NoValue, "{name}={value}");
        }
        assert_eq!(verdict_of("shared_buffer", "1GB", 15), SettingVerdict::NoSetting);
        assert_eq!(
            (verdict_of("io_method", "sync", 15), verdict_of("io_method", "sync", 18)),
            (SettingVerdict::NoSetting, SettingVerdict::Fine)
        );
    }

    #[test]
    fn what_a_release_decides_is_unclear_without_it() {
        assert_eq!(judge_setting("shared_buffer", "1GB", None, true), SettingVerdict::Unclear);
        assert_eq!(judge_setting("edb_setting", "1", Some(15), false), SettingVerdict::Unclear);
        assert_eq!(judge_setting("shared_buffers", "4g", None, true), SettingVerdict::NoValue);
        assert_eq!(
            judge_setting("shared_buffers", NO_VALUE, Some(15), true),
            SettingVerdict::Unclear
        );
        assert_eq!(
            (verdict_of("io_method", "sync", 17), verdict_of("temp_file_limit", "4g", 13)),
            (SettingVerdict::Fine, SettingVerdict::Fine)
        );
    }
}
