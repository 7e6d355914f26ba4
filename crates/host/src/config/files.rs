//! What the mechanisms share: lines of text, and folders whose files override each other by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Observed, Reason, configuration::Place};

use crate::Door;

/// Lines with their numbers from 1, without their ends. Bytes that are not UTF-8 become the replacement character.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    (1..).zip(bytes.split(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8_lossy(line)
    }))
}

/// A place in a file.
pub fn place(file: &str, line: u64) -> Place {
    Place { file: file.to_owned(), line }
}

/// Bytes of all the files that one mechanism reads, such as sysctl.d: those of a host are some 100 KiB, and a rule for each of
/// ten thousand users half of this. Each line costs more here than it has bytes, and many are asked again and again; comments are
/// not counted.
const MOST_TEXT: usize = 1 << 20;

/// These bytes, where they are no more than `most`.
pub(super) fn bounded(bytes: Vec<u8>, most: usize) -> Observed<Vec<u8>> {
    if bytes.len() > most {
        return Observed::Malformed(format!("larger than {} MiB", most >> 20));
    }
    Observed::Known(bytes)
}

/// Paths of the files that end in `suffix` in all `folders`, sorted by their bare name; of those with
/// one name the first folder's counts. A link to /dev/null hides the name (`systemd.unit(5)`, `sysctl.d(5)`).
/// Absent where none of the folders is there.
pub(crate) fn overlaid<S: AsRef<str>>(door: &mut Door<'_>, folders: &[S], suffix: &str) -> Observed<Vec<String>> {
    stacked(door, folders, suffix, Names::default())
}

/// Which names count beyond those of files that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Links that lead nowhere and folders hide files of their name in weaker folders, as in systemd-sysctl,
    /// systemd-tmpfiles and procps.
    pub any_hides: bool,
    /// Names that begin with a dot count, as in procps.
    pub dotted: bool,
}

/// The same with other names counting.
pub fn stacked<S: AsRef<str>>(
    door: &mut Door<'_>,
    folders: &[S],
    suffix: &str,
    names_that_count: Names,
) -> Observed<Vec<String>> {
    let mut by_name: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut any = false;
    for folder in folders {
        let folder = folder.as_ref();
        let names = match door.list(folder) {
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
            match door.source.link(&path) {
                Observed::Known(target) if target == "/dev/null" => {
                    by_name.insert(name, None);
                }
                // A link that leads nowhere.
                Observed::Known(_) if door.source.read(&path).is_absent() => {
                    if names_that_count.any_hides {
                        by_name.insert(name, None);
                    }
                }
                _ if names_that_count.any_hides && door.source.list(&path).is_known() => {
                    by_name.insert(name, None);
                }
                _ => {
                    by_name.insert(name, Some(path));
                }
            }
        }
    }
    if any { Observed::Known(by_name.into_values().flatten().collect()) } else { Observed::Absent }
}

/// Reads all files and joins what `parse` finds in them, in order. A file that went away counts as empty;
/// one that cannot be read makes the whole unknown, and so do files that are larger together than any host's.
pub fn joined<T>(
    door: &mut Door<'_>,
    paths: &[String],
    mut parse: impl FnMut(&str, &[u8]) -> Vec<T>,
) -> Observed<Vec<T>> {
    let mut all = Vec::new();
    let mut failed = None;
    let mut left = MOST_TEXT;
    for path in paths {
        match door.read(path) {
            Observed::Known(bytes) => match left.checked_sub(length(&bytes)) {
                Some(rest) => {
                    left = rest;
                    all.extend(parse(path, &bytes));
                }
                None => {
                    let why = format!("with this file, such files add up to more than {} MiB", MOST_TEXT >> 20);
                    door.tell(path.clone(), Reason::Malformed(why.clone()));
                    return Observed::Malformed(format!("{path}: {why}"));
                }
            },
            Observed::Absent => {}
            Observed::Denied => failed = failed.or(Some(Observed::Denied)),
            Observed::Malformed(why) => failed = failed.or(Some(Observed::Malformed(format!("{path}: {why}")))),
        }
    }
    failed.unwrap_or(Observed::Known(all))
}

/// Bytes of a file without its comments, which cost nobody anything.
fn length(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii_start().starts_with(b"#")).map(<[u8]>::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;

    #[test]
    fn one_name_counts_once_and_null_hides_it() {
        let source = MapSource::new()
            .file("/etc/x.d/20-b.conf", "")
            .file("/usr/lib/x.d/20-b.conf", "")
            .file("/usr/lib/x.d/10-a.conf", "")
            .file("/usr/lib/x.d/30-c.conf", "")
            .file("/usr/lib/x.d/40-d.conf", "")
            .file("/usr/lib/x.d/README", "")
            .link("/etc/x.d/30-c.conf", "/dev/null")
            .link("/etc/x.d/40-d.conf", "/nowhere");
        let mut door = Door::new(&source);
        let found = overlaid(&mut door, &["/etc/x.d", "/run/x.d", "/usr/lib/x.d"], ".conf");
        let expected = ["/usr/lib/x.d/10-a.conf", "/etc/x.d/20-b.conf", "/usr/lib/x.d/40-d.conf"];
        assert_eq!(found, Observed::Known(expected.map(String::from).to_vec()));
        assert_eq!(overlaid(&mut door, &["/run/x.d"], ".conf"), Observed::Absent);
    }

    #[test]
    fn one_denied_file_makes_the_whole_unknown() {
        let source = MapSource::new().file("/a", "1").denied("/b").file("/c", "3");
        let mut door = Door::new(&source);
        let read = joined(&mut door, &["/a", "/b", "/c"].map(String::from), |_, bytes| bytes.to_vec());
        assert_eq!(read, Observed::Denied);
        assert_eq!(door.unread.len(), 1);
    }

    #[test]
    fn files_larger_than_any_hosts_are_not_worked_out_and_that_is_said() {
        let half = "vm.a=1\n".repeat(100_000);
        let small = MapSource::new().file("/d/a", half.as_str());
        let paths = ["/d/a".to_owned(), "/d/b".to_owned()];
        let count = |_: &str, bytes: &[u8]| vec![bytes.len()];
        assert_eq!(joined(&mut Door::new(&small), &paths, count), Observed::Known(vec![700_000]));
        let remark = format!("vm.a=1\n  #{}\n", "x".repeat(1 << 20));
        let length = remark.len();
        let remarks = MapSource::new().file("/d/a", remark);
        assert_eq!(joined(&mut Door::new(&remarks), &paths, count), Observed::Known(vec![length]));
        let large = small.file("/d/b", half);
        let mut door = Door::new(&large);
        let why = "with this file, such files add up to more than 1 MiB";
        assert_eq!(joined(&mut door, &paths, count), Observed::Malformed(format!("/d/b: {why}")));
        assert_eq!(door.unread, [hugewise_model::Unread::new("/d/b", Reason::Malformed(why.into()))]);
    }
}
