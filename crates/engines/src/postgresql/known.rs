//! The settings that a PostgreSQL server knows, and what it takes for a value of each: anything else keeps it from starting.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hugewise_host::capture::shape::{NO_VALUE, Shape};

use super::values::{self, MEMORY, TIME, Units};

/// Releases whose settings are known whole.
const WHOLE: [u32; 2] = [15, 18];

static KNOWN: LazyLock<BTreeMap<&str, Vec<Spec>>> = LazyLock::new(|| {
    let mut known = BTreeMap::<&str, Vec<Spec>>::new();
    for line in include_str!("known.tsv").lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (majors, name) = (next(), next());
        let majors = majors.split(',').filter_map(|major| major.parse().ok()).collect();
        let spec = Spec { majors, kind: next(), unit: next(), least: next(), most: next(), words: next() };
        known.entry(name).or_default().push(spec);
    }
    known
});

/// A setting as some releases have it.
struct Spec {
    majors: Vec<u32>,
    kind: &'static str,
    unit: &'static str,
    least: &'static str,
    most: &'static str,
    words: &'static str,
}

/// What becomes of a server with a setting of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It takes it.
    Fine,
    /// It does not start: there is no such setting.
    NoSetting,
    /// It does not start: there is the setting, and this is no value for it.
    NoValue,
    /// It depends on a release that is not known here.
    Unclear,
}

/// Judges a setting by its name in lower case and its value; `is_plain` tells servers of PostgreSQL's own from what is built of
/// it and has more settings.
pub(super) fn judge(name: &str, value: &str, major: Option<u32>, is_plain: bool) -> Judged {
    // Of an extension: taken whatever it is.
    if name.contains('.') {
        return Judged::Fine;
    }
    let whole = major.filter(|major| WHOLE.contains(major));
    let Some(specs) = KNOWN.get(name) else {
        return if whole.is_some() && is_plain { Judged::NoSetting } else { Judged::Unclear };
    };
    let spec = match whole {
        Some(major) => match specs.iter().find(|spec| spec.majors.contains(&major)) {
            Some(spec) => spec,
            None if is_plain => return Judged::NoSetting,
            None => return Judged::Unclear,
        },
        // What both of these have alike the others have too.
        None => match specs.iter().find(|spec| spec.majors.len() == WHOLE.len()) {
            Some(spec) => spec,
            None => return Judged::Fine,
        },
    };
    let is_read = super::KIND.settings.contains(&name);
    let between = major.is_some_and(|major| (15..=18).contains(&major));
    match spec.takes(value) {
        Some(true) => Judged::Fine,
        None if is_read => Judged::Unclear,
        None => Judged::Fine,
        Some(false) if between || (is_read && spec.kind != "internal") => Judged::NoValue,
        Some(false) => Judged::Fine,
    }
}

/// What a capture keeps of a setting that is not read: as much as each release needs to judge it as it would on its host. None of
/// one that all of them take.
pub(super) fn kept(name: &str, value: &str) -> Option<String> {
    /// No value of any setting but a text, as of which anything is.
    const NO_VALUE_OF_ANY: &str = "'!'";
    if name.contains('.') {
        return None;
    }
    // The name may be anything, and none of its is repeated.
    let Some(specs) = KNOWN.get(name) else { return Some(format!("{UNKNOWN} = {NO_VALUE}")) };
    if specs.iter().any(|spec| spec.takes(value) == Some(false)) {
        let is_harmless = Shape::Plain.fits(value) && !value.is_empty();
        return Some(if is_harmless { format!("{name} = '{value}'") } else { format!("{name} = {NO_VALUE_OF_ANY}") });
    }
    let everywhere = WHOLE.iter().all(|major| specs.iter().any(|spec| spec.majors.contains(major)));
    (!everywhere).then(|| format!("{name} = {NO_VALUE}"))
}

/// Stands for the name of a setting that no release has.
const UNKNOWN: &str = "unknown_setting";

impl Spec {
    /// Whether a value is one; none where that is not told here.
    fn takes(&self, value: &str) -> Option<bool> {
        // A capture has left it out.
        if value == NO_VALUE && self.kind != "string" {
            return None;
        }
        match self.kind {
            "internal" => Some(false),
            "bool" => Some(is_boolean(value)),
            "enum" => Some(self.words.split(',').any(|word| value.eq_ignore_ascii_case(word))),
            "integer" => {
                let (units, base) = self.units();
                let number = values::amount(value, units, base);
                let least = self.least.parse::<i128>().unwrap_or(i128::from(i32::MIN));
                let most = self.most.parse::<i128>().unwrap_or(i128::from(i32::MAX));
                Some(number.is_some_and(|number| (least..=most).contains(&number)))
            }
            // Fractions of all forms, among them units.
            "real" => Some(value.trim_start().starts_with(|sign: char| sign.is_ascii_digit() || "+-.".contains(sign))),
            _ => Some(true),
        }
    }

    /// The units of its amounts, and its own as so many of the smallest.
    fn units(&self) -> (Units, u64) {
        let split = self.unit.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(0);
        let (count, name) = self.unit.split_at(split);
        let count = count.parse::<u64>().unwrap_or(1);
        let of = |units: Units| units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| (units, count * factor));
        of(MEMORY).or_else(|| of(TIME)).unwrap_or((&[], 1))
    }
}

/// Any beginning of `true`, `false`, `yes` and `no`, of `on` and `off` from two letters on, and the digits (bool.c).
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

    fn of(name: &str, value: &str, major: u32) -> Judged {
        judge(name, value, Some(major), true)
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
            assert_eq!(of(name, value, 15), Judged::Fine, "{name}={value}");
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
            assert_eq!(of(name, value, 15), Judged::NoValue, "{name}={value}");
        }
        assert_eq!(of("shared_buffer", "1GB", 15), Judged::NoSetting);
        assert_eq!((of("io_method", "sync", 15), of("io_method", "sync", 18)), (Judged::NoSetting, Judged::Fine));
    }

    #[test]
    fn what_a_release_decides_is_unclear_without_it() {
        assert_eq!(judge("shared_buffer", "1GB", None, true), Judged::Unclear);
        assert_eq!(judge("edb_setting", "1", Some(15), false), Judged::Unclear);
        assert_eq!(judge("shared_buffers", "4g", None, true), Judged::NoValue);
        assert_eq!(judge("shared_buffers", NO_VALUE, Some(15), true), Judged::Unclear);
        assert_eq!((of("io_method", "sync", 17), of("temp_file_limit", "4g", 13)), (Judged::Fine, Judged::Fine));
    }
}
