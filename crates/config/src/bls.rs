//! Entries of the Boot Loader Specification, and which of them a loader starts by default.

use std::cmp::Ordering;

use hugewise_model::Observed;

use super::files::{numbered_lines, overlay_files, parse_all_files};
use hugewise_source::FactReader;

/// An entry of the Boot Loader Specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlsEntry {
    /// Its file.
    pub file: String,
    /// File name without `.conf`.
    pub id: String,
    /// `title`.
    pub title: String,
    /// `version`.
    pub version: String,
    /// `sort-key`.
    pub sort_key: String,
    /// `options`, one for each line of that name.
    pub options: Vec<String>,
    /// Line of the first `options`.
    pub line: u64,
    /// Whether it boots a Linux kernel.
    pub linux: bool,
}

/// One file of /boot/loader/entries.
pub fn parse_entry(file: &str, bytes: &[u8]) -> BlsEntry {
    let name = file.rsplit('/').next().unwrap_or(file);
    let id = name.strip_suffix(".conf").unwrap_or(name).to_owned();
    let mut entry = BlsEntry { file: file.to_owned(), id, ..BlsEntry::default() };
    for (line, text) in numbered_lines(bytes) {
        let text = text.trim();
        let Some((key, value)) = text.split_once(char::is_whitespace) else { continue };
        let value = value.trim();
        match key {
            "title" => value.clone_into(&mut entry.title),
            "version" => value.clone_into(&mut entry.version),
            "sort-key" => value.clone_into(&mut entry.sort_key),
            "linux" => entry.linux = true,
            "options" => {
                if entry.options.is_empty() {
                    entry.line = line;
                }
                entry.options.push(value.to_owned());
            }
            _ => {}
        }
    }
    entry
}

pub(crate) fn read_entries(door: &mut FactReader<'_>, folders: &[&str]) -> Observed<Vec<BlsEntry>> {
    let paths = overlay_files(door, folders, ".conf");
    let entries = paths.and_then(|paths| {
        parse_all_files(door, &paths, |file, bytes| vec![parse_entry(file, bytes)])
    });
    entries.map(|entries| entries.into_iter().filter(|entry| entry.linux).collect())
}

/// An id, a title, or a number in GRUB's menu (newest first). An unknown one is the first entry.
pub(crate) fn grub_default<'a>(entries: &'a [BlsEntry], default: &str) -> Option<&'a BlsEntry> {
    let mut sorted: Vec<&BlsEntry> = entries.iter().collect();
    sorted.sort_by(|a, b| compare_versions(&b.id, &a.id));
    let by_number =
        default.trim().parse::<usize>().ok().and_then(|number| sorted.get(number).copied());
    let wanted = default.strip_suffix(".conf").unwrap_or(default);
    by_number
        .or_else(|| {
            sorted.iter().copied().find(|entry| entry.id == wanted || entry.title == default)
        })
        .or_else(|| sorted.first().copied())
}

/// As rpm does: digits compare as numbers, letters as text; more parts are newer, a `~` older.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let separator = |character: char| !character.is_ascii_alphanumeric() && character != '~';
        a = a.trim_start_matches(separator);
        b = b.trim_start_matches(separator);
        match (a.strip_prefix('~'), b.strip_prefix('~')) {
            (Some(rest_a), Some(rest_b)) => {
                (a, b) = (rest_a, rest_b);
                continue;
            }
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        let digits = a.starts_with(|character: char| character.is_ascii_digit());
        if digits != b.starts_with(|character: char| character.is_ascii_digit()) {
            return if digits { Ordering::Greater } else { Ordering::Less };
        }
        let run = |text: &str| {
            let other = |character: char| {
                if digits { !character.is_ascii_digit() } else { !character.is_ascii_alphabetic() }
            };
            text.find(other).unwrap_or(text.len())
        };
        let ((run_a, rest_a), (run_b, rest_b)) = (a.split_at(run(a)), b.split_at(run(b)));
        let order = if digits {
            let (x, y) = (run_a.trim_start_matches('0'), run_b.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            run_a.cmp(run_b)
        };
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// `default` of loader.conf: a pattern over entries' file names.
pub fn loader_default(bytes: &[u8]) -> Option<String> {
    let value = |(_, line): (u64, std::borrow::Cow<'_, str>)| {
        let (key, value) = line.trim().split_once(char::is_whitespace)?;
        (key == "default").then(|| value.trim().to_owned())
    };
    numbered_lines(bytes).filter_map(value).last()
}

/// The first that the pattern fits, or the first by sort key where all have one, newest first.
pub(crate) fn systemd_boot_default<'a>(
    entries: &'a [BlsEntry],
    default: Option<&str>,
) -> Option<&'a BlsEntry> {
    let mut sorted: Vec<&BlsEntry> = entries.iter().collect();
    sorted.sort_by(|a, b| {
        let keyless = a.sort_key.is_empty().cmp(&b.sort_key.is_empty());
        let newest_first =
            compare_versions(&b.version, &a.version).then_with(|| compare_versions(&b.id, &a.id));
        keyless.then_with(|| a.sort_key.cmp(&b.sort_key)).then(newest_first)
    });
    let fits = |entry: &&&BlsEntry| {
        default.is_some_and(|pattern| {
            matches_glob(pattern, &entry.id) || matches_glob(pattern, &format!("{}.conf", entry.id))
        })
    };
    sorted.iter().find(fits).or_else(|| sorted.first()).copied()
}

fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(character) if *character == '?' || text.get(t) == Some(character) => {
                (p, t) = (p + 1, t + 1)
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_compare_as_rpm_does() {
        // rpmvercmp's own table.
        for (a, b, expected) in [
            ("1.0", "1.0", Ordering::Equal),
            ("1.0", "2.0", Ordering::Less),
            ("2.0.1", "2.0", Ordering::Greater),
            ("5.5p1", "5.5p10", Ordering::Less),
            ("10xyz", "10.1xyz", Ordering::Less),
            ("xyz.4", "8", Ordering::Less),
            ("1.0~rc1", "1.0", Ordering::Less),
            ("1.0010", "1.9", Ordering::Greater),
            ("20101121", "20101122", Ordering::Less),
        ] {
            assert_eq!(compare_versions(a, b), expected, "{a} {b}");
            assert_eq!(compare_versions(b, a), expected.reverse(), "{b} {a}");
        }
    }

    proptest! {
        #[test]
        fn versions_have_an_order(a in "[0-9a-c.~-]{0,9}", b in "[0-9a-c.~-]{0,9}") {
            prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
        }

        #[test]
        fn patterns_end(pattern in "[a*?]{0,12}", text in "a{0,30}") {
            matches_glob(&pattern, &text);
            prop_assert!(matches_glob("*", &text) && matches_glob(&text, &text));
        }
    }
}
