//! `cargo xtask site`: the documents as a site, in target/site.

use std::fs;
use std::path::Path;

use hugewise_testkit::tools::{Failure, shell};

/// What makes it of them, in one version: another one may lay it out in another way.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.2");

/// Makes the site, from a copy of the documents in which the summary lists each rule.
pub(crate) fn run() -> Result<(), Failure> {
    let program = shell::tool(MDBOOK, &["--no-default-features", "--features", "search"])?;
    let root = shell::root();
    let book = shell::target().join("book");
    if book.exists() {
        fs::remove_dir_all(&book)?;
    }
    copy(&root.join("docs"), &book.join("docs"))?;
    fs::copy(root.join("book.toml"), book.join("book.toml"))?;
    let summary = book.join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary)?;
    let index = "- [Rules](rules/README.md)\n";
    let (before, after) =
        text.split_once(index).ok_or("docs/SUMMARY.md lists no rules/README.md")?;
    let mut rules: Vec<String> = Vec::new();
    for entry in fs::read_dir(root.join("docs/rules"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        rules.extend(
            name.strip_suffix(".md").filter(|name| name.starts_with("HW")).map(str::to_owned),
        );
    }
    rules.sort();
    let lines: String = rules
        .iter()
        .map(|name| format!("  - [{}](rules/{name}.md)\n", name.replacen('-', " ", 1)))
        .collect();
    fs::write(&summary, format!("{before}{index}{lines}{after}"))?;
    let site = shell::target().join("site");
    shell::run(shell::command(program).arg("build").arg(&book).arg("--dest-dir").arg(&site))?;
    println!("{}", site.join("index.html").display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
