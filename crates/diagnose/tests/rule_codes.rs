//! No code asks for a certain rule: what ends a finding is said by its remedies, and a rule's code
//! stands in its own file alone. Comments, pages and tests may name it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The source files of the product, with their texts.
fn sources() -> BTreeMap<PathBuf, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(crates).unwrap().map(|one| one.unwrap().path().join("src")).collect();
    let mut sources = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.insert(path, text);
            }
        }
    }
    sources
}

/// Modules in files of their own that are built for tests alone.
fn only_for_tests(sources: &BTreeMap<PathBuf, String>) -> BTreeSet<&str> {
    let modules = sources.values().flat_map(|text| {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]").map(|pair| pair[1]);
        pairs.filter_map(|line| line.strip_suffix(';')?.rsplit_once("mod ")).collect::<Vec<_>>()
    });
    modules.map(|(_, name)| name).collect()
}

/// The lines of a file that are built into the product, without their comments.
fn product(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].ends_with('{'));
    let lines = lines.into_iter().take(tests.unwrap_or(usize::MAX)).enumerate();
    lines.map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default())).collect()
}

/// The codes in a text: `HW` and three digits.
fn codes(text: &str) -> Vec<&str> {
    let starts = text.match_indices("HW").filter_map(|(at, _)| text.get(at..at + 5));
    starts.filter(|code| code[2..].bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// Texts for people that lead to rules by their codes: what a server's message means, and which
/// rules find its cause.
const LEADS_TO_RULES: &str = "messages.rs";

#[test]
fn a_rules_code_stands_in_its_own_file_alone() {
    let sources = sources();
    let tests = only_for_tests(&sources);
    let mut homes = BTreeMap::new();
    let mut wrong = Vec::new();
    for (path, text) in &sources {
        let of_tests = path.iter().any(|part| {
            let name = part.to_str().unwrap();
            tests.contains(name.strip_suffix(".rs").unwrap_or(name))
        });
        if of_tests || path.ends_with(LEADS_TO_RULES) {
            continue;
        }
        for (line, code) in product(text).into_iter().flat_map(|(line, text)| {
            let found = codes(text).into_iter();
            found.map(move |code| (line, code))
        }) {
            let rules = path.parent().is_some_and(|folder| folder.ends_with("diagnose/src/rules"));
            let home = homes.entry(code).or_insert_with(|| path.clone());
            if !rules || home != path {
                wrong.push(format!("{}:{line}: {code}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(homes.len() > 20, "the rules were not found: {homes:?}");
}
