//! Whose files they are, where no file says it: files of many hosts come in a folder each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Component, Path};

use super::places::ReadJob;
use crate::{Moment, SourceFormat};

/// Folders of a path that may tell whose files they are, the outermost.
const MOST_FOLDERS: usize = 32;
/// Files that overlap by no more than this, in milliseconds, follow one another.
const SEAM: i64 = 60_000;

/// The folders that a file lies in, the outermost first; a tar is one.
pub(super) fn enclosing_folders(job: &ReadJob, entry: &str) -> Vec<String> {
    let names = |path: &str| -> Vec<String> {
        let normal = |part| match part {
            Component::Normal(name) => Some(Path::new(name).to_string_lossy().into_owned()),
            _ => None,
        };
        Path::new(path).components().filter_map(normal).collect()
    };
    let mut all = names(&job.label());
    for inner in entry.split(':').filter(|inner| !inner.is_empty()) {
        if let Some(tar) = all.last_mut() {
            let stem = tar.split_once(".t").map(|(stem, _)| stem.to_owned());
            *tar = stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| tar.clone());
        }
        all.extend(names(inner));
    }
    all.pop();
    all.truncate(MOST_FOLDERS);
    all.shrink_to_fit();
    all
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Nameless<'a> {
    pub(super) at: usize,
    pub(super) folders: &'a [String],
    pub(super) format: SourceFormat,
    pub(super) span: (Moment, Moment),
}

/// Hosts' names for files, by their place in the list, with how many of their folders a name covers.
/// Folders are hosts' where they tell of the same time with the same tool: no host does that twice.
/// Folders of days or of tools don't.
pub(super) fn name_hosts_by_folder(all: &[Nameless<'_>]) -> BTreeMap<usize, (String, usize)> {
    let mut named = BTreeMap::new();
    split_by_folder(all.iter().collect(), 0, "", &mut named);
    named
}

fn split_by_folder(
    nameless: Vec<&Nameless<'_>>,
    depth: usize,
    outer: &str,
    named: &mut BTreeMap<usize, (String, usize)>,
) {
    let mut folders: BTreeMap<Option<&str>, Vec<&Nameless<'_>>> = BTreeMap::new();
    for one in nameless {
        folders.entry(one.folders.get(depth).map(String::as_str)).or_default().push(one);
    }
    let hosts = overlap_in_time(&folders);
    for (folder, files) in folders {
        let Some(folder) = folder else { continue };
        let name = match (hosts, outer) {
            (false, _) => outer.to_owned(),
            (true, "") => folder.to_owned(),
            (true, _) => format!("{outer}/{folder}"),
        };
        if hosts {
            named.extend(files.iter().map(|file| (file.at, (name.clone(), depth + 1))));
        }
        split_by_folder(files, depth + 1, &name, named);
    }
}

/// Whether samples of one tool overlap between two folders; a host may have several logs.
fn overlap_in_time(folders: &BTreeMap<Option<&str>, Vec<&Nameless<'_>>>) -> bool {
    if folders.len() < 2 {
        return false;
    }
    let mut spans: Vec<(SourceFormat, Moment, Moment, Option<&str>)> = folders
        .iter()
        .flat_map(|(folder, files)| {
            files.iter().map(|file| (file.format, file.span.0, file.span.1, *folder))
        })
        .filter(|(format, ..)| !format.is_log())
        .collect();
    spans.sort_unstable();
    // How far the folder that reaches farthest has told; one that begins before that overlaps it.
    let mut reached: Option<(SourceFormat, Moment, Option<&str>)> = None;
    for (format, from, to, folder) in spans {
        let open = reached.filter(|(source_format, until, _)| {
            *source_format == format && until.0.saturating_sub(SEAM) > from.0
        });
        reached = match open {
            Some((.., other)) if other != folder => return true,
            Some((_, until, _)) => Some((format, until.max(to), folder)),
            None => Some((format, to, folder)),
        };
    }
    false
}

pub(super) fn find_only_name(
    named: &BTreeMap<&[String], BTreeSet<String>>,
    within: &[String],
) -> Option<String> {
    let below = named.range::<[String], _>((Bound::Included(within), Bound::Unbounded));
    let mut names =
        below.take_while(|(folders, _)| folders.starts_with(within)).flat_map(|(_, names)| names);
    let first = names.next()?;
    names.all(|name| name == first).then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn names_of(files: &[(&str, SourceFormat, i64, i64)]) -> Vec<Option<String>> {
        let folders: Vec<Vec<String>> =
            files.iter().map(|(path, ..)| path.split('/').map(str::to_owned).collect()).collect();
        let mut all = Vec::new();
        for ((at, folders), (_, format, from, to)) in folders.iter().enumerate().zip(files) {
            all.push(Nameless { at, folders, format: *format, span: (Moment(*from), Moment(*to)) });
        }
        let names = name_hosts_by_folder(&all);
        (0..files.len()).map(|at| names.get(&at).map(|(name, _)| name.clone())).collect()
    }

    const VMSTAT: SourceFormat = SourceFormat::Loop(crate::CollectedTool::Vmstat);
    const MEMINFO: SourceFormat = SourceFormat::Loop(crate::CollectedTool::Meminfo);

    #[test]
    fn folders_of_one_time_and_tool_are_hosts() {
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            names_of(&[("x/db1", VMSTAT, 0, DAY), ("x/db2", VMSTAT, 5, DAY)]),
            [name("db1"), name("db2")]
        );
        // What is below them is theirs; what lies beside them is nobody's.
        let files = [
            ("x/db1/a", MEMINFO, 0, DAY),
            ("x/db1/b", VMSTAT, 0, DAY),
            ("x/db2/b", VMSTAT, 0, DAY),
            ("x", VMSTAT, 0, 1),
        ];
        assert_eq!(names_of(&files), [name("db1"), name("db1"), name("db2"), None]);
        // By tool first, and then by host.
        let files = [
            ("vmstat/db1", VMSTAT, 0, DAY),
            ("vmstat/db2", VMSTAT, 0, DAY),
            ("meminfo/db1", MEMINFO, 0, DAY),
            ("meminfo/db2", MEMINFO, 0, DAY),
        ];
        assert_eq!(names_of(&files), [name("db1"), name("db2"), name("db1"), name("db2")]);
        // Two of one name are told apart by what they lie in.
        let files = [
            ("a/db1", VMSTAT, 0, DAY),
            ("a/db2", VMSTAT, 0, DAY),
            ("b/db1", VMSTAT, 0, DAY),
            ("b/db2", VMSTAT, 0, DAY),
        ];
        assert_eq!(names_of(&files), [name("a/db1"), name("a/db2"), name("b/db1"), name("b/db2")]);
    }

    #[test]
    fn folders_of_days_tools_and_servers_are_of_one_host() {
        assert_eq!(
            names_of(&[("x/21", VMSTAT, 0, DAY), ("x/22", VMSTAT, DAY, 2 * DAY)]),
            [None, None]
        );
        assert_eq!(
            names_of(&[("x/vmstat", VMSTAT, 0, DAY), ("x/meminfo", MEMINFO, 0, DAY)]),
            [None, None]
        );
        let log = SourceFormat::ServerLog(hugewise_model::Engine::Oracle);
        assert_eq!(names_of(&[("x/prod", log, 0, DAY), ("x/test", log, 0, DAY)]), [None, None]);
        assert_eq!(names_of(&[("x", VMSTAT, 0, DAY), ("x", VMSTAT, 0, DAY)]), [None, None]);
        assert_eq!(names_of(&[]), Vec::<Option<String>>::new());
    }
}
