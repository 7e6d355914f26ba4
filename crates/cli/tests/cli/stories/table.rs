//! docs/stories.md: each claim has a number, a verdict and a test that is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of all tests in the sources below a folder.
fn add_tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_tests(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line != "#[test]" {
                    continue;
                }
                let name = lines.by_ref().find_map(|line| line.strip_prefix("fn ")).unwrap();
                names.insert(name.split('(').next().unwrap().to_owned());
            }
        }
    }
}

/// A row: its number, its claim, its verdict, what hugewise does, and the tests.
struct Row {
    number: usize,
    verdict: String,
    does: String,
    tests: Vec<String>,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/stories.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let number = cells[0].parse().ok()?;
        assert_eq!(cells.len(), 5, "{line}");
        let tests = cells[4]
            .split(',')
            .map(|name| name.trim().trim_matches('`').to_owned())
            .filter(|name| name != "-");
        Some(Row {
            number,
            verdict: cells[2].into(),
            does: cells[3].into(),
            tests: tests.collect(),
        })
    };
    text.lines().filter(|line| line.starts_with("| ")).filter_map(row).collect()
}

#[test]
fn every_claim_of_the_stories_is_answered() {
    let mut names = BTreeSet::new();
    for folder in ["crates", "xtask"] {
        add_tests(&root().join(folder), &mut names);
    }
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=rows.len()).collect::<Vec<_>>(), "numbers have no gaps");
    let mut wrong = Vec::new();
    for row in &rows {
        let verdicts = ["right", "partly", "wrong", "elsewhere", "a view"];
        if !verdicts.iter().any(|verdict| row.verdict.starts_with(verdict)) {
            wrong.push(format!("{}: verdict {:?}", row.number, row.verdict));
        }
        if row.does.is_empty() {
            wrong.push(format!("{}: not answered", row.number));
        }
        // What is of other systems, or no statement of fact, has nothing that could be tried.
        if row.tests.is_empty() && !row.does.starts_with("nothing") {
            wrong.push(format!("{}: no test shows it", row.number));
        }
        let missing = row.tests.iter().filter(|name| !names.contains(*name));
        wrong.extend(missing.map(|name| format!("{}: no test is called {name}", row.number)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = fs::read_to_string(root().join("docs/stories.md")).unwrap();
    assert!(text.contains(&format!("{} claims and steps", rows.len())), "{} rows", rows.len());
}
