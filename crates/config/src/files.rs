//! What the mechanisms share: lines of text, and folders whose files override each other by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Observed, Reason, configuration::FileLocation};

use hugewise_source::FactReader;

/// Lines with numbers from 1, without their ends; what is not UTF-8 becomes the replacement sign.
pub fn numbered_lines(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    (1..).zip(bytes.split(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8_lossy(line)
    }))
}

/// The signs at the beginning that belong together, and the rest.
pub(crate) fn split_while(text: &str, belongs: impl FnMut(char) -> bool) -> (&str, &str) {
    let rest = text.trim_start_matches(belongs);
    text.split_at_checked(text.len() - rest.len()).unwrap_or((text, ""))
}

pub(crate) fn first_present<T>(
    paths: &[&str],
    mut read: impl FnMut(&str) -> Observed<T>,
) -> Observed<T> {
    paths.iter().fold(Observed::Absent, |found, path| found.or_else_absent(|| read(path)))
}

pub(crate) fn file_location(file: &str, line: u64) -> FileLocation {
    FileLocation { file: file.to_owned(), line }
}

/// Bytes of all files that one mechanism reads, such as sysctl.d: a host has some 100 KiB, a rule
/// for each of ten thousand users is half of this. A line costs more here than its bytes.
const MOST_TEXT: usize = 1 << 20;

pub(super) fn limit_size(bytes: Vec<u8>, most: usize) -> Observed<Vec<u8>> {
    if bytes.len() > most {
        return Observed::Malformed(format!("larger than {} MiB", most >> 20));
    }
    Observed::Known(bytes)
}

/// Sorted by bare name; of one name the first folder's counts, and a link to /dev/null hides it
/// (`systemd.unit(5)`, `sysctl.d(5)`). Absent where none of the folders is there.
pub(crate) fn overlay_files<S: AsRef<str>>(
    door: &mut FactReader<'_>,
    folders: &[S],
    suffix: &str,
) -> Observed<Vec<String>> {
    overlay_files_with(door, folders, suffix, OverlayNameRules::default())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverlayNameRules {
    /// Links that lead nowhere and folders hide files of their name in weaker folders, as in
    /// systemd-sysctl, systemd-tmpfiles and procps.
    pub(crate) any_hides: bool,
    /// Names that begin with a dot count, as in procps.
    pub(crate) dotted: bool,
}

pub(crate) fn overlay_files_with<S: AsRef<str>>(
    door: &mut FactReader<'_>,
    folders: &[S],
    suffix: &str,
    names_that_count: OverlayNameRules,
) -> Observed<Vec<String>> {
    let mut by_name: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut any = false;
    for folder in folders {
        let folder = folder.as_ref();
        let names = match door.list_folder(folder) {
            Observed::Known(names) => names,
            Observed::Absent => continue,
            Observed::Denied => return Observed::Denied,
            Observed::Malformed(why) => return Observed::Malformed(format!("{folder}: {why}")),
        };
        any = true;
        for name in names {
            if !name.ends_with(suffix)
                || (name.starts_with('.') && !names_that_count.dotted)
                || by_name.contains_key(&name)
            {
                continue;
            }
            let path = format!("{folder}/{name}");
            let counts = match door.source.read_link(&path) {
                Observed::Known(target) if target == "/dev/null" => false,
                Observed::Known(_) if door.source.read(&path).is_absent() => {
                    if !names_that_count.any_hides {
                        continue;
                    }
                    false
                }
                _ => !names_that_count.any_hides || !door.source.list_folder(&path).is_known(),
            };
            by_name.insert(name, counts.then_some(path));
        }
    }
    if any { Observed::Known(by_name.into_values().flatten().collect()) } else { Observed::Absent }
}

/// Joins what `parse` finds in all files, in order. One that went away is empty; one that cannot be
/// read makes the whole unknown, and so does more text than any host has.
pub(crate) fn parse_all_files<T>(
    door: &mut FactReader<'_>,
    paths: &[String],
    mut parse: impl FnMut(&str, &[u8]) -> Vec<T>,
) -> Observed<Vec<T>> {
    let mut all = Vec::new();
    let mut failed = None;
    let mut left = MOST_TEXT;
    for path in paths {
        match door.read(path) {
            Observed::Known(bytes) => match left.checked_sub(uncommented_length(&bytes)) {
                Some(rest) => {
                    left = rest;
                    all.extend(parse(path, &bytes));
                }
                None => {
                    let most = MOST_TEXT >> 20;
                    let why = format!("with this file, such files add up to more than {most} MiB");
                    door.report_unread(path.clone(), Reason::Malformed(why.clone()));
                    return Observed::Malformed(format!("{path}: {why}"));
                }
            },
            Observed::Absent => {}
            Observed::Denied => failed = failed.or(Some(Observed::Denied)),
            Observed::Malformed(why) => {
                failed = failed.or(Some(Observed::Malformed(format!("{path}: {why}"))))
            }
        }
    }
    failed.unwrap_or(Observed::Known(all))
}

fn uncommented_length(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii_start().starts_with(b"#")).map(<[u8]>::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    #[test]
    fn one_name_counts_once_and_null_hides_it() {
        let source = MapSource::new()
            .with_file("/etc/x.d/20-b.conf", "")
            .with_file("/usr/lib/x.d/20-b.conf", "")
            .with_file("/usr/lib/x.d/10-a.conf", "")
            .with_file("/usr/lib/x.d/30-c.conf", "")
            .with_file("/usr/lib/x.d/40-d.conf", "")
            .with_file("/usr/lib/x.d/README", "")
            .with_link("/etc/x.d/30-c.conf", "/dev/null")
            .with_link("/etc/x.d/40-d.conf", "/nowhere");
        let mut door = FactReader::new(&source);
        let found = overlay_files(&mut door, &["/etc/x.d", "/run/x.d", "/usr/lib/x.d"], ".conf");
        let expected = ["/usr/lib/x.d/10-a.conf", "/etc/x.d/20-b.conf", "/usr/lib/x.d/40-d.conf"];
        assert_eq!(found, Observed::Known(expected.map(String::from).to_vec()));
        assert_eq!(overlay_files(&mut door, &["/run/x.d"], ".conf"), Observed::Absent);
    }

    #[test]
    fn one_denied_file_makes_the_whole_unknown() {
        let source = MapSource::new().with_file("/a", "1").with_denied("/b").with_file("/c", "3");
        let mut door = FactReader::new(&source);
        let read = parse_all_files(&mut door, &["/a", "/b", "/c"].map(String::from), |_, bytes| {
            bytes.to_vec()
        });
        assert_eq!(read, Observed::Denied);
        assert_eq!(door.unread.len(), 1);
    }

    #[test]
    fn files_larger_than_any_hosts_are_not_worked_out_and_that_is_said() {
        let half = "vm.a=1\n".repeat(100_000);
        let small = MapSource::new().with_file("/d/a", half.as_str());
        let paths = ["/d/a".to_owned(), "/d/b".to_owned()];
        let count = |_: &str, bytes: &[u8]| vec![bytes.len()];
        assert_eq!(
            parse_all_files(&mut FactReader::new(&small), &paths, count),
            Observed::Known(vec![700_000])
        );
        let remark = format!("vm.a=1\n  #{}\n", "x".repeat(1 << 20));
        let length = remark.len();
        let remarks = MapSource::new().with_file("/d/a", remark);
        assert_eq!(
            parse_all_files(&mut FactReader::new(&remarks), &paths, count),
            Observed::Known(vec![length])
        );
        let large = small.with_file("/d/b", half);
        let mut door = FactReader::new(&large);
        let why = "with this file, such files add up to more than 1 MiB";
        assert_eq!(
            parse_all_files(&mut door, &paths, count),
            Observed::Malformed(format!("/d/b: {why}"))
        );
        assert_eq!(
            door.unread,
            [hugewise_model::Unread::new("/d/b", Reason::Malformed(why.into()))]
        );
    }
}
