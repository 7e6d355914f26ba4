//! What is guarded, on the disk and in memory: files with what they were and what was made of them.

#![allow(clippy::disallowed_methods, reason = "the guard changes this machine; a captured one has nothing to guard")]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{NODES, POOLS, SHM_GROUP, folders, value_of};
use crate::thp;

/// One file that is guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) path: PathBuf,
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
pub(super) fn state() -> io::Result<Vec<Kept>> {
    let mut paths = Vec::new();
    for pool in folders(Path::new(POOLS))? {
        paths.push(pool.join("nr_overcommit_hugepages"));
    }
    // Node by node: writing the sum would spread the pages anew.
    let mut pools = Vec::new();
    for node in folders(Path::new(NODES)).unwrap_or_default() {
        pools.extend(folders(&node.join("hugepages")).unwrap_or_default());
    }
    if pools.is_empty() {
        pools = folders(Path::new(POOLS))?;
    }
    paths.extend(pools.iter().map(|pool| pool.join("nr_hugepages")));
    paths.extend(thp::paths().into_iter().map(PathBuf::from));
    paths.push(PathBuf::from(SHM_GROUP));
    let mut values = Vec::new();
    for path in paths {
        match value_of(&path) {
            Ok(before) => values.push(Kept { path, before, made: Made::Untouched }),
            // A size that offers no overcommit refuses to be read on some kernels.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}

/// Writes every value that differs and reads it back. The memory of a server that is just ending may still
/// hold pages, so a few seconds' patience belongs to it.
pub(super) fn restore(kept: &mut [Kept], scope: Scope) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut failed = Ok(());
    for one in kept {
        let theirs = match &one.made {
            Made::Untouched => scope == Scope::Ours,
            Made::Writing => false,
            // Somebody has changed it after us, and shall have it so.
            Made::Value(made) => scope == Scope::Ours && value_of(&one.path).is_ok_and(|now| now != *made),
        };
        let restored = if theirs { Ok(()) } else { restore_one(&one.path, &one.before, until) };
        match restored {
            Ok(()) => one.made = Made::Untouched,
            Err(error) => failed = Err(io::Error::other(format!("{}: {error}", one.path.display()))),
        }
    }
    failed
}

fn restore_one(path: &Path, value: &str, until: Instant) -> io::Result<()> {
    while value_of(path)? != value {
        if Instant::now() > until {
            return Err(io::Error::other(format!("is {}, not {value}", value_of(path)?)));
        }
        fs::write(path, value)?;
        if value_of(path)? != value {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Whole or not at all: a run may be killed in the middle of it.
pub(super) fn save(path: &Path, kept: &[Kept]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, to_text(kept))?;
    fs::rename(&new, path)
}

fn to_text(kept: &[Kept]) -> String {
    let mut text = String::new();
    for one in kept {
        let made = match &one.made {
            Made::Untouched => String::new(),
            Made::Writing => "\t?".to_owned(),
            Made::Value(value) => format!("\t={value}"),
        };
        let _ = writeln!(text, "{}\t{}{made}", one.path.display(), one.before);
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
        Some(Kept { path: PathBuf::from(path), before: before.to_owned(), made })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_state_survives_its_text() {
        let kept = |path: &str, before: &str, made| Kept { path: PathBuf::from(path), before: before.to_owned(), made };
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
