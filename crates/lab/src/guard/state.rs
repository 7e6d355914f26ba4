//! What is guarded, on the disk and in memory: files with what they were and what was made of them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hugewise_system::{Content, Failure, FileMode, FileState, System};

use crate::thp;
use crate::values::{NODES, POOLS, nodes, sizes, value, value_if_any};

/// Whose members may take pages of a pool for System V segments.
pub(super) const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";

/// One file that is guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) path: String,
    /// What it was.
    pub(super) before: String,
    /// What we made of it.
    pub(super) made: Made,
}

/// What became of a guarded file through us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Nothing.
    Untouched,
    /// We are about to write it, or it may have changed when we wrote another.
    Writing,
    /// It read so after we had written.
    Value(String),
}

/// Whose files are put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All that are not as before, whoever changed them: a test has the host for itself.
    Everything,
    /// Those that we changed and nobody else after us: on a host where others work.
    Ours,
}

/// What is guarded, in the order in which it is restored: files and their values.
///
/// # Errors
/// A value that cannot be read.
pub(super) fn state() -> Result<Vec<Kept>, Failure> {
    const OVERCOMMIT: &str = "nr_overcommit_hugepages";
    let file = |name| move |(_, folder): (_, String)| format!("{folder}/{name}");
    let mut paths: Vec<String> = sizes(POOLS).into_iter().map(file(OVERCOMMIT)).collect();
    // Node by node: writing the sum would spread the pages anew.
    let mut pools: Vec<_> = nodes().iter().flat_map(|node| sizes(&format!("{node}/hugepages"))).collect();
    if pools.is_empty() {
        pools = sizes(POOLS);
    }
    paths.extend(pools.into_iter().map(file("nr_hugepages")));
    paths.extend(thp::paths());
    paths.push(SHM_GROUP.to_owned());
    let mut values = Vec::new();
    for path in paths {
        match value_if_any(&path) {
            Ok(Some(before)) => values.push(Kept { path, before, made: Made::Untouched }),
            Ok(None) => {}
            // A size that offers no overcommit refuses to be read on some kernels.
            Err(_) if path.ends_with(OVERCOMMIT) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(values)
}

/// Writes every value that differs and reads it back. The memory of a server that is just ending may still
/// hold pages, so a few seconds' patience belongs to it.
///
/// # Errors
/// A file that does not take its value again; the others are restored all the same.
pub(super) fn restore(system: &dyn System, kept: &mut [Kept], scope: Scope) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut failed = Ok(());
    for one in kept {
        let theirs = match &one.made {
            Made::Untouched => scope == Scope::Ours,
            Made::Writing => false,
            // Somebody has changed it after us, and shall have it so.
            Made::Value(made) => scope == Scope::Ours && value(&one.path).is_ok_and(|now| now != *made),
        };
        let restored = if theirs { Ok(()) } else { restore_one(system, &one.path, &one.before, until) };
        match restored {
            Ok(()) => one.made = Made::Untouched,
            Err(failure) => failed = Err(failure),
        }
    }
    failed
}

fn restore_one(system: &dyn System, path: &str, before: &str, until: Instant) -> Result<(), Failure> {
    while value(path)? != before {
        if Instant::now() > until {
            return Err(Failure::new(path, format!("is {}, not {before}", value(path)?)));
        }
        system.write_value(path, before)?;
        if value(path)? != before {
            system.pause(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Whole or not at all: a run may be killed in the middle of it.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(system: &dyn System, path: &str, kept: &[Kept]) -> Result<(), Failure> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let content = Content::Text(to_text(kept));
    let state = FileState { content, mode: FileMode(0o600), uid, gid, labels: Vec::new() };
    system.write_file(path, &format!("{name}.new"), &state)
}

fn to_text(kept: &[Kept]) -> String {
    let mut text = String::new();
    for one in kept {
        let made = match &one.made {
            Made::Untouched => String::new(),
            Made::Writing => "\t?".to_owned(),
            Made::Value(value) => format!("\t={value}"),
        };
        let _ = writeln!(text, "{}\t{}{made}", one.path, one.before);
    }
    text
}

/// Files that are none of the guarded ones are left out.
pub(super) fn from_text(text: &str) -> Vec<Kept> {
    let parse = |line: &str| {
        let mut parts = line.split('\t');
        let (path, before) = (parts.next()?, parts.next()?);
        let guarded = path == SHM_GROUP || [POOLS, NODES, thp::FOLDER].iter().any(|folder| path.starts_with(folder));
        if !guarded || path.contains("..") {
            return None;
        }
        let made = match parts.next() {
            None => Made::Untouched,
            Some(made) => made.strip_prefix('=').map_or(Made::Writing, |value| Made::Value(value.to_owned())),
        };
        Some(Kept { path: path.to_owned(), before: before.to_owned(), made })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_state_survives_its_text() {
        let kept = |path: &str, before: &str, made| Kept { path: path.to_owned(), before: before.to_owned(), made };
        let state = vec![
            kept("/sys/kernel/mm/hugepages/a", "0", Made::Value("7".to_owned())),
            kept("/sys/kernel/mm/transparent_hugepage/enabled", "madvise", Made::Writing),
            kept(SHM_GROUP, "", Made::Untouched),
        ];
        assert_eq!(from_text(&to_text(&state)), state);
        // Nothing but what is guarded is ever written.
        assert!(from_text("/etc/passwd\tx\n/sys/kernel/mm/hugepages/../../x\t1\nno tab").is_empty());
    }
}
