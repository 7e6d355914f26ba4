//! `cargo xtask docs`: everything below docs/ that the code itself knows.
//!
//! Without the feature `all` it knows the rules alone, and needs no more of the product than they.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for those who work on the project, in its own folder"
)]

#[cfg(feature = "all")]
mod manuals;
#[cfg(feature = "all")]
mod schemas;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hugewise_diagnose::docs;
use hugewise_testkit::tools::{Failure, shell};

/// Generated files by their paths, and what they must hold.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Folders that hold nothing but generated files.
#[cfg(feature = "all")]
const FOLDERS: &[&str] = &["docs/rules", "docs/schema", "docs/man", "docs/completions"];
#[cfg(not(feature = "all"))]
const FOLDERS: &[&str] = &["docs/rules"];

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("--check") => check(),
        _ => write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), Failure> {
    let stale = stale_files(shell::root(), &generated_files()?)?;
    if stale.is_empty() {
        return Ok(());
    }
    let names = stale.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(format!("stale: {names}; `cargo xtask docs` writes them").into())
}

fn write() -> Result<(), Failure> {
    let wanted = generated_files()?;
    for path in stale_files(shell::root(), &wanted)? {
        let file = shell::root().join(&path);
        match wanted.get(&path) {
            Some(text) => {
                if let Some(folder) = file.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::write(&file, text)?;
                println!("wrote {}", path.display());
            }
            None => {
                fs::remove_file(&file)?;
                println!("removed {}", path.display());
            }
        }
    }
    Ok(())
}

fn generated_files() -> Result<Files, Failure> {
    let mut files = rule_pages();
    #[cfg(feature = "all")]
    {
        schemas::add(&mut files);
        manuals::add(&mut files)?;
    }
    Ok(files)
}

fn rule_pages() -> Files {
    let folder = Path::new("docs/rules");
    let mut files: Files = hugewise_diagnose::all_rules()
        .iter()
        .map(|rule| (folder.join(docs::file_name(rule)), docs::render_rule_page(rule).into_bytes()))
        .collect();
    files.insert(folder.join("README.md"), docs::index().into_bytes());
    files.insert(folder.join("messages.md"), docs::messages_page().into_bytes());
    files
}

/// Generated files that are missing or differ, and files that nothing generates any more.
fn stale_files(root: &Path, wanted: &Files) -> Result<Vec<PathBuf>, Failure> {
    let mut stale: Vec<PathBuf> = wanted
        .iter()
        .filter(|(path, text)| fs::read(root.join(path)).ok().as_ref() != Some(*text))
        .map(|(path, _)| path.clone())
        .collect();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(root.join(folder)) else { continue };
        for entry in entries {
            let path = Path::new(folder).join(entry?.file_name());
            if !wanted.contains_key(&path) {
                stale.push(path);
            }
        }
    }
    stale.sort();
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_as_the_code_has_them() {
        check().unwrap();
    }

    #[test]
    fn missing_changed_and_left_over_files_are_stale() {
        let root = std::env::temp_dir().join(format!("hugewise-docs-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/rules")).unwrap();
        for (name, text) in [("same.md", "a"), ("changed.md", "b"), ("left-over.md", "c")] {
            fs::write(root.join("docs/rules").join(name), text).unwrap();
        }
        let file = |name: &str| Path::new("docs/rules").join(name);
        let wanted =
            ["same.md", "changed.md", "missing.md"].map(|name| (file(name), b"a".to_vec()));
        let found = stale_files(&root, &BTreeMap::from(wanted));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap(), ["changed.md", "left-over.md", "missing.md"].map(file));
    }
}
