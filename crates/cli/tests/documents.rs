//! What the documents show of the program is what the program prints.
//!
//! An indented block that begins with `$ hugewise` and names a fixture is run as it stands, at 80 columns; a line of three
//! dots stands for any lines. `HUGEWISE_BLESS=1` writes blocks without such a line: read what it wrote as you would read code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops where its files are not as expected, and reads them past the code under test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

const INDENT: &str = "    ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of a document: where its answer stands, the command, and what the document shows of the answer.
struct Sample {
    lines: std::ops::Range<usize>,
    command: String,
    shown: Vec<String>,
}

fn samples(text: &str) -> Vec<Sample> {
    let lines: Vec<&str> = text.lines().collect();
    let mut samples = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(command) = line.strip_prefix("    $ hugewise ").filter(|command| command.contains("fixtures/")) else {
            continue;
        };
        let of_block = |line: &&&str| line.starts_with(INDENT) || line.is_empty();
        let mut block: Vec<&str> = lines[at + 1..].iter().take_while(of_block).copied().collect();
        while block.last().is_some_and(|line| line.is_empty()) {
            block.pop();
        }
        let shown = block.iter().map(|line| line.strip_prefix(INDENT).unwrap_or(line).to_owned()).collect();
        samples.push(Sample { lines: at + 1..at + 1 + block.len(), command: command.to_owned(), shown });
    }
    samples
}

fn answer(command: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(command.split_whitespace())
        .current_dir(root())
        .env("COLUMNS", "80")
        .output()
        .expect("hugewise runs");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Whether an answer is as shown, where three dots stand for any lines.
fn is_as_shown(shown: &[String], answer: &[String]) -> bool {
    match shown.split_first() {
        None => answer.is_empty(),
        Some((line, rest)) if line.trim() == "..." => (0..=answer.len()).any(|at| is_as_shown(rest, &answer[at..])),
        Some((line, rest)) => answer.first() == Some(line) && is_as_shown(rest, &answer[1..]),
    }
}

#[test]
fn what_the_documents_show_is_what_the_program_prints() {
    let bless = std::env::var_os("HUGEWISE_BLESS").is_some();
    let folder = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let documents: Vec<PathBuf> =
        folder.filter(|path| path.extension().is_some_and(|it| it == "md")).chain([root().join("README.md")]).collect();
    let mut found = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the last on, so that the places of those before stay right.
        for Sample { lines: place, command, shown } in samples(&text).into_iter().rev() {
            found += 1;
            let answer = answer(&command);
            if bless && shown.iter().all(|line| line.trim() != "...") {
                let indented = answer.iter().map(|line| format!("{INDENT}{line}").trim_end().to_owned());
                lines.splice(place, indented.collect::<Vec<_>>());
                std::fs::write(&document, lines.join("\n") + "\n").unwrap();
                continue;
            }
            let (shown_text, answer_text) = (shown.join("\n"), answer.join("\n"));
            assert!(
                is_as_shown(&shown, &answer),
                "{} shows of `hugewise {command}`:\n{shown_text}\n\nit prints:\n{answer_text}",
                document.display()
            );
        }
    }
    assert!(found >= 2, "the samples are gone");
}
