//! What the documents show of the program is what the program prints, the commands that they tell
//! of are commands, and their links lead somewhere.
//!
//! An indented block that begins with `$ hugewise` and names a fixture is run as it stands, at 80
//! columns; a line of three dots stands for any lines. `HUGEWISE_BLESS=1` writes blocks without
//! such a line: read what it wrote as you would read code.

use std::path::{Path, PathBuf};
use std::process::Command;

const INDENT: &str = "    ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of a document: where its answer stands, the command, and what the document shows of the
/// answer.
struct Sample {
    lines: std::ops::Range<usize>,
    command: String,
    shown: Vec<String>,
}

fn samples(text: &str) -> Vec<Sample> {
    let lines: Vec<&str> = text.lines().collect();
    let mut samples = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(command) =
            line.strip_prefix("    $ hugewise ").filter(|command| command.contains("fixtures/"))
        else {
            continue;
        };
        let of_block = |line: &&&str| line.starts_with(INDENT) || line.is_empty();
        let mut block: Vec<&str> = lines[at + 1..].iter().take_while(of_block).copied().collect();
        while block.last().is_some_and(|line| line.is_empty()) {
            block.pop();
        }
        let shown =
            block.iter().map(|line| line.strip_prefix(INDENT).unwrap_or(line).to_owned()).collect();
        samples.push(Sample {
            lines: at + 1..at + 1 + block.len(),
            command: command.to_owned(),
            shown,
        });
    }
    samples
}

/// Every document that people read.
fn documents() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut documents = vec![root().join("README.md"), root().join("SECURITY.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|name| name == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    documents
}

fn answer(command: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(command.split_whitespace())
        .current_dir(root())
        .env("COLUMNS", "80")
        .output()
        .expect("hugewise runs");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Whether an answer is as shown, where three dots stand for any lines.
fn is_as_shown(shown: &[String], answer: &[String]) -> bool {
    match shown.split_first() {
        None => answer.is_empty(),
        Some((line, rest)) if line.trim() == "..." => {
            (0..=answer.len()).any(|at| is_as_shown(rest, &answer[at..]))
        }
        Some((line, rest)) => answer.first() == Some(line) && is_as_shown(rest, &answer[1..]),
    }
}

#[test]
fn what_the_documents_show_is_what_the_program_prints() {
    let bless = std::env::var_os("HUGEWISE_BLESS").is_some();
    let mut found = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the last on, so that the places of those before stay right.
        for Sample { lines: place, command, shown } in samples(&text).into_iter().rev() {
            found += 1;
            let answer = answer(&command);
            if bless && shown.iter().all(|line| line.trim() != "...") {
                let indented =
                    answer.iter().map(|line| format!("{INDENT}{line}").trim_end().to_owned());
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

/// A command line in words; `None` where it stands for others: `[PLAN]`, `...`, words in capitals.
fn words(command: &str) -> Option<Vec<String>> {
    // What comes after two spaces is said of it.
    let command = command.split("  ").next().unwrap_or_default();
    let command = command.split(" > ").next().unwrap_or_default();
    let mut words = Vec::new();
    let mut quoted = None;
    let mut word = String::new();
    for sign in command.chars() {
        match (sign, quoted) {
            ('\'' | '"', None) => quoted = Some(sign),
            (sign, Some(quote)) if sign == quote => quoted = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(sign),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    let is_placeholder = |word: &String| {
        word.contains(['[', ']', '<', '|', '{', '\u{2026}'])
            || word.contains("..")
            || (word.len() > 1
                && word.chars().all(|sign| sign.is_ascii_uppercase())
                && word != "PROD")
    };
    (!words.iter().any(is_placeholder)).then_some(words)
}

/// Help and version are answers.
fn unless_help<T: Default>(error: clap::Error) -> Result<T, clap::Error> {
    if error.use_stderr() { Err(error) } else { Ok(T::default()) }
}

#[test]
fn each_command_that_the_documents_tell_of_is_one() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let block = text
            .lines()
            .filter_map(|line| line.strip_prefix(INDENT))
            .map(|line| line.trim_start_matches("$ "));
        let inline = text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n'));
        for command in block.chain(inline) {
            let Some(command) = command.trim_start_matches("sudo ").strip_prefix("hugewise ")
            else {
                continue;
            };
            let Some(words) = words(command) else { continue };
            // A sentence in a block, such as what another command prints, is no command.
            if words.first().is_some_and(|word| word.ends_with([':', ',', '.'])) {
                continue;
            }
            tried += 1;
            let all = std::iter::once("hugewise".to_owned()).chain(words);
            if let Err(error) =
                hugewise_cli::command_definition().try_get_matches_from(all).or_else(unless_help)
            {
                let error = error.to_string();
                wrong.push(format!(
                    "{}: hugewise {command}: {}",
                    document.display(),
                    error.lines().next().unwrap()
                ));
            }
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    assert!(tried > 100, "only {tried} commands");
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    let kept =
        plain.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

#[test]
fn each_link_leads_somewhere() {
    let mut tried = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target);
        for target in targets
            .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        {
            tried += 1;
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { folder.join(file) };
            assert!(path.exists(), "{}: {target}", document.display());
            if !place.is_empty() {
                let linked = std::fs::read_to_string(&path).unwrap();
                let mut headings = linked.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(
                    headings.any(|heading| heading == place),
                    "{}: no heading for {target}",
                    document.display()
                );
            }
        }
    }
    assert!(tried > 200, "only {tried} links");
}

#[test]
fn the_site_has_every_document_and_leads_out_of_itself_nowhere() {
    let docs = root().join("docs").canonicalize().unwrap();
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for document in documents().iter().filter_map(|path| {
        path.canonicalize().unwrap().strip_prefix(&docs).ok().map(Path::to_owned)
    }) {
        let listed = summary.contains(&format!("({})", document.display()));
        // Of the rules the index is listed, and `cargo xtask site` lists each below it.
        let is_rule = document.starts_with("rules");
        assert!(
            listed || is_rule || document == Path::new("SUMMARY.md"),
            "{} is not on the site",
            document.display()
        );
        let text = std::fs::read_to_string(docs.join(&document)).unwrap();
        let depth = document.components().count() - 1;
        let out = format!("]({}", "../".repeat(depth + 1));
        assert!(!text.contains(&out), "{} links to what is not on the site", document.display());
    }
}
