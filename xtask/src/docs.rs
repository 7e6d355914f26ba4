//! `cargo xtask docs`: everything below docs/ that the code itself knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::Shell;
use clap_mangen::Man;

use crate::{Failure, shell};

/// Folders that hold nothing but generated files.
const FOLDERS: [&str; 4] = ["docs/rules", "docs/schema", "docs/man", "docs/completions"];

pub(crate) fn run(check: bool) -> Result<(), Failure> {
    let wanted = files()?;
    let stale = stale(shell::root(), &wanted)?;
    if check {
        if stale.is_empty() {
            return Ok(());
        }
        let names = stale.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(format!("stale: {names}; `cargo xtask docs` writes them").into());
    }
    for path in stale {
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

/// Every generated file and what it must hold.
fn files() -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
    let mut files = BTreeMap::new();
    for rule in hugewise_advice::rules() {
        let name = hugewise_advice::docs::file_name(rule);
        files.insert(Path::new("docs/rules").join(name), hugewise_advice::docs::page(rule).into_bytes());
    }
    files.insert("docs/rules/README.md".into(), hugewise_advice::docs::index().into_bytes());
    files.insert("docs/rules/messages.md".into(), hugewise_advice::docs::messages_page().into_bytes());
    files.insert("docs/schema/check.json".into(), hugewise_report::json::check_schema().into_bytes());
    files.insert("docs/schema/size.json".into(), hugewise_report::json::size::size_schema().into_bytes());
    files.insert("docs/schema/plan.json".into(), hugewise_report::json::plan_schema().into_bytes());
    files.insert("docs/schema/applied.json".into(), hugewise_report::json::applied::applied_schema().into_bytes());
    files.insert("docs/schema/undone.json".into(), hugewise_report::json::applied::undone_schema().into_bytes());
    files.insert("docs/schema/journals.json".into(), hugewise_report::json::applied::journals_schema().into_bytes());
    files.insert("docs/schema/verify.json".into(), hugewise_report::json::verify::verify_schema().into_bytes());
    files.insert("docs/schema/lab.json".into(), hugewise_report::json::lab::lab_schema().into_bytes());
    let investigate = hugewise_report::json::investigate::investigate_schema();
    files.insert("docs/schema/investigate.json".into(), investigate.into_bytes());
    files.insert("docs/schema/history.json".into(), hugewise_report::json::history::history_schema().into_bytes());
    files.insert("docs/schema/openapi.json".into(), hugewise_serve::openapi::openapi().into_bytes());
    files.insert("docs/schema/record.json".into(), hugewise_report::recorded::status::record_schema().into_bytes());
    files.insert("docs/schema/report.json".into(), hugewise_report::json::full::report_schema().into_bytes());
    files.insert("docs/schema/tables.md".into(), hugewise_fleet::schema::page().into_bytes());
    files.insert("docs/schema/run.json".into(), hugewise_report::json::run::run_schema().into_bytes());
    let mut program = hugewise_cli::command();
    program.build();
    let source = format!("hugewise {}", program.get_version().unwrap_or_default());
    manuals(program, &source, &mut files)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut hugewise_cli::command(), "hugewise", &mut text);
        let name = match shell {
            Shell::Zsh => "_hugewise".to_owned(),
            other => format!("hugewise.{other}"),
        };
        files.insert(Path::new("docs/completions").join(name), text);
    }
    Ok(files)
}

/// The end of each manual page.
const SEE_ALSO: &str = ".SH \"SEE ALSO\"\nPool, segment, memlock and the other terms are explained in docs/glossary.md, which comes \
                        with hugewise.\n";

/// A page for the program and one for each subcommand, as `man hugewise-check` finds it.
fn manuals(command: clap::Command, source: &str, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        manuals(subcommand.clone(), source, files)?;
    }
    // Building has given each subcommand a display name: hugewise-check.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = format!("docs/man/{name}.1");
    let mut text = Vec::new();
    Man::new(command).source(source).manual("hugewise").render(&mut text)?;
    text.extend_from_slice(SEE_ALSO.as_bytes());
    files.insert(path.into(), text);
    Ok(())
}

/// Generated files that are missing or differ, and files that nothing generates any more.
fn stale(root: &Path, wanted: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<PathBuf>, Failure> {
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn missing_changed_and_left_over_files_are_stale() {
        let root = std::env::temp_dir().join(format!("hugewise-docs-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/rules")).unwrap();
        for (name, text) in [("same.md", "a"), ("changed.md", "b"), ("left-over.md", "c")] {
            fs::write(root.join("docs/rules").join(name), text).unwrap();
        }
        let file = |name: &str| Path::new("docs/rules").join(name);
        let wanted = ["same.md", "changed.md", "missing.md"].map(|name| (file(name), b"a".to_vec()));
        let found = stale(&root, &BTreeMap::from(wanted));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap(), ["changed.md", "left-over.md", "missing.md"].map(file));
    }
}
