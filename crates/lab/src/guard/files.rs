//! The kernel's files of pools and switches.

#![allow(clippy::disallowed_methods, reason = "the guard changes this machine; a captured one has nothing to guard")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders in a folder, sorted.
pub(crate) fn folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A file's value; of `always [madvise] never` the chosen word; of a pool the pages that were asked for, without the
/// surplus pages that the kernel counts with them and that writing the number back would make lasting ones.
pub(crate) fn value_of(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let text = text.trim();
    if path.ends_with("nr_hugepages") {
        let all: u64 = text.parse().map_err(|_| io::Error::other(format!("{}: no number", path.display())))?;
        let surplus = fs::read_to_string(path.with_file_name("surplus_hugepages")).unwrap_or_default();
        return Ok(all.saturating_sub(surplus.trim().parse().unwrap_or(0)).to_string());
    }
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    Ok(chosen.unwrap_or(text).to_owned())
}

pub(super) fn number_of(path: &Path) -> io::Result<u64> {
    value_of(path)?.parse().map_err(|_| io::Error::other(format!("{}: no number", path.display())))
}
