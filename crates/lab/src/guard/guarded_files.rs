//! The guarded files with their values, in memory and on disk.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hugewise_system::{FileContent, FileMode, FileState, System, SystemFailure};

use crate::kernel_values::{
    NODES, POOLS, numa_node_folders, page_size_folders, read_value, value_if_any,
};
use crate::thp_switches;

/// Its members may take pages of a pool for System V segments.
pub(super) const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuardedFile {
    pub(super) path: String,
    pub(super) before: String,
    pub(super) made: GuardedFileChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GuardedFileChange {
    Untouched,
    /// We are about to write it, or it may have changed when we wrote another.
    Writing,
    Value(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All that differ, whoever changed them: a test has the host to itself.
    Everything,
    /// Those that we changed and nobody else since: on a host where others work.
    Ours,
}

pub(super) fn read_guarded_files() -> Result<Vec<GuardedFile>, SystemFailure> {
    const OVERCOMMIT: &str = "nr_overcommit_hugepages";
    let file = |name| move |(_, folder): (_, String)| format!("{folder}/{name}");
    let mut paths: Vec<String> =
        page_size_folders(POOLS).into_iter().map(file(OVERCOMMIT)).collect();
    // Node by node: writing the sum would distribute the pages anew.
    let mut pools: Vec<_> = numa_node_folders()
        .iter()
        .flat_map(|node| page_size_folders(&format!("{node}/hugepages")))
        .collect();
    if pools.is_empty() {
        pools = page_size_folders(POOLS);
    }
    paths.extend(pools.into_iter().map(file("nr_hugepages")));
    paths.extend(thp_switches::switch_paths());
    paths.push(SHM_GROUP.to_owned());
    let mut values = Vec::new();
    for path in paths {
        match value_if_any(&path) {
            Ok(Some(before)) => {
                values.push(GuardedFile { path, before, made: GuardedFileChange::Untouched })
            }
            Ok(None) => {}
            // Some kernels refuse to read it for a size without overcommit.
            Err(_) if path.ends_with(OVERCOMMIT) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(values)
}

/// Writes back every value that differs and checks it, with a few seconds' patience for a server
/// that is just ending. Fails on a file that does not take its value; the others are restored.
pub(super) fn restore_guarded_files(
    system: &dyn System,
    kept: &mut [GuardedFile],
    scope: Scope,
) -> Result<(), SystemFailure> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut failed = Ok(());
    for one in kept {
        let theirs = match &one.made {
            GuardedFileChange::Untouched => scope == Scope::Ours,
            GuardedFileChange::Writing => false,
            // Somebody has changed it after us, and that stays.
            GuardedFileChange::Value(made) => {
                scope == Scope::Ours && read_value(&one.path).is_ok_and(|now| now != *made)
            }
        };
        let restored =
            if theirs { Ok(()) } else { restore_one(system, &one.path, &one.before, until) };
        match restored {
            Ok(()) => one.made = GuardedFileChange::Untouched,
            Err(failure) => failed = Err(failure),
        }
    }
    failed
}

fn restore_one(
    system: &dyn System,
    path: &str,
    before: &str,
    until: Instant,
) -> Result<(), SystemFailure> {
    while read_value(path)? != before {
        if Instant::now() > until {
            return Err(SystemFailure::new(
                path,
                format!("is {}, not {before}", read_value(path)?),
            ));
        }
        system.write_value(path, before)?;
        if read_value(path)? != before {
            system.pause_for(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Writes all or nothing: a run may be killed meanwhile.
pub(super) fn save_guarded_files(
    system: &dyn System,
    path: &str,
    kept: &[GuardedFile],
) -> Result<(), SystemFailure> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let content = FileContent::Text(to_text(kept));
    let state = FileState { content, mode: FileMode(0o600), uid, gid, labels: Vec::new() };
    system.write_file(path, &format!("{name}.new"), &state)
}

fn to_text(kept: &[GuardedFile]) -> String {
    let mut text = String::new();
    for one in kept {
        let made = match &one.made {
            GuardedFileChange::Untouched => String::new(),
            GuardedFileChange::Writing => "\t?".to_owned(),
            GuardedFileChange::Value(value) => format!("\t={value}"),
        };
        let _ = writeln!(text, "{}\t{}{made}", one.path, one.before);
    }
    text
}

/// Skips files that are not guarded.
pub(super) fn from_text(text: &str) -> Vec<GuardedFile> {
    let parse = |line: &str| {
        let mut parts = line.split('\t');
        let (path, before) = (parts.next()?, parts.next()?);
        let guarded = path == SHM_GROUP
            || [POOLS, NODES, thp_switches::FOLDER].iter().any(|folder| path.starts_with(folder));
        if !guarded || path.contains("..") {
            return None;
        }
        let made = match parts.next() {
            None => GuardedFileChange::Untouched,
            Some(made) => made.strip_prefix('=').map_or(GuardedFileChange::Writing, |value| {
                GuardedFileChange::Value(value.to_owned())
            }),
        };
        Some(GuardedFile { path: path.to_owned(), before: before.to_owned(), made })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_state_survives_its_text() {
        let kept = |path: &str, before: &str, made| GuardedFile {
            path: path.to_owned(),
            before: before.to_owned(),
            made,
        };
        let state = vec![
            kept("/sys/kernel/mm/hugepages/a", "0", GuardedFileChange::Value("7".to_owned())),
            kept(
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "madvise",
                GuardedFileChange::Writing,
            ),
            kept(SHM_GROUP, "", GuardedFileChange::Untouched),
        ];
        assert_eq!(from_text(&to_text(&state)), state);
        // Nothing but what is guarded is ever written.
        assert!(
            from_text("/etc/passwd\tx\n/sys/kernel/mm/hugepages/../../x\t1\nno tab").is_empty()
        );
    }
}
