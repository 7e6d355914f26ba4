//! `cargo xtask front`: the dashboard's script and style, bundled from crates/serve/front and kept
//! beside the page.
//!
//! Who builds hugewise needs no npm: the bundle is committed, and its first line says what it was
//! made of, so that it can be told without a network whether it is still that.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use hugewise_testkit::tools::{Failure, shell};

/// Where the sources are.
const FRONT: &str = "crates/serve/front";
/// Where the page is, which the server has in it.
const PAGE: &str = "crates/serve/src/http/page";
/// What is made: the file, and the source that it begins with.
const BUNDLES: [(&str, &str); 2] = [("script.js", "src/main.ts"), ("style.css", "src/style.css")];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build nothing; fail where the bundle was not made of the sources as they are.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.check { check(shell::root()) } else { build() }
}

fn build() -> Result<(), Failure> {
    let folder = shell::target().join("tools/front");
    // Sources that are gone are not to be found there again.
    let _ = fs::remove_dir_all(folder.join("src"));
    for path in sources(shell::root())? {
        let to = folder.join(&path);
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        fs::copy(shell::root().join(FRONT).join(&path), to)?;
    }
    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    shell::run(shell::command("npm").args(npm).current_dir(&folder))?;
    let tool = |name: &str| shell::command(folder.join("node_modules/.bin").join(name));
    shell::run(tool("tsc").args(["--project", "."]).current_dir(&folder))?;
    let licence = fs::read_to_string(folder.join("node_modules/uplot/LICENSE"))?;
    for (name, source) in BUNDLES {
        let made = folder.join(name);
        let mut esbuild = tool("esbuild");
        esbuild.args([
            source,
            "--bundle",
            "--minify",
            "--charset=utf8",
            "--format=iife",
            "--target=es2022",
        ]);
        esbuild
            .args(["--legal-comments=none", "--log-level=warning"])
            .arg(format!("--outfile={name}"));
        shell::run(esbuild.current_dir(&folder))?;
        let body =
            format!("/* With uPlot:\n\n{} */\n{}", licence.trim(), fs::read_to_string(made)?);
        let text = format!("{}\n{body}", stamp(&digest_of_sources(shell::root())?, &body));
        fs::write(shell::root().join(PAGE).join(name), text)?;
        println!("wrote {PAGE}/{name}");
    }
    Ok(())
}

/// Whether each bundle is what was made of the sources as they are.
fn check(root: &Path) -> Result<(), Failure> {
    let sources = digest_of_sources(root)?;
    for (name, _) in BUNDLES {
        let text = fs::read_to_string(root.join(PAGE).join(name))?;
        let (first, body) = text.split_once('\n').unwrap_or_default();
        if first != stamp(&sources, body) {
            let what = format!(
                "{PAGE}/{name} was not made of {FRONT} as it is; `cargo xtask front` makes it \
                     (with npm)"
            );
            return Err(what.into());
        }
    }
    Ok(())
}

/// The first line of a bundle.
fn stamp(sources: &str, body: &str) -> String {
    format!(
        "/* Made by cargo xtask front: sources {sources}, below {} */",
        hex(&Sha256::digest(body))
    )
}

/// Of all sources, their names among them.
fn digest_of_sources(root: &Path) -> Result<String, Failure> {
    let mut digest = Sha256::new();
    for path in sources(root)? {
        let bytes = fs::read(root.join(FRONT).join(&path))?;
        digest.update(format!("{} {}\n", path.display(), bytes.len()));
        digest.update(bytes);
    }
    Ok(hex(&digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the bundle is made of, below the front end's folder, sorted.
fn sources(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut all: Vec<PathBuf> =
        ["package.json", "package-lock.json", "tsconfig.json"].map(PathBuf::from).into();
    for entry in fs::read_dir(root.join(FRONT).join("src"))? {
        all.push(Path::new("src").join(entry?.file_name()));
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_bundle_is_made_of_the_sources_as_they_are() {
        check(shell::root()).unwrap();
    }

    #[test]
    fn a_changed_source_and_a_changed_bundle_are_told() {
        let root = tempfile::tempdir().unwrap();
        let (front, page) = (root.path().join(FRONT), root.path().join(PAGE));
        fs::create_dir_all(front.join("src")).unwrap();
        fs::create_dir_all(&page).unwrap();
        for name in ["package.json", "package-lock.json", "tsconfig.json", "src/main.ts"] {
            fs::write(front.join(name), name).unwrap();
        }
        let make = |body: &str| {
            let sources = digest_of_sources(root.path()).unwrap();
            for (name, _) in BUNDLES {
                fs::write(page.join(name), format!("{}\n{body}", stamp(&sources, body))).unwrap();
            }
        };
        make("body");
        check(root.path()).unwrap();
        fs::write(front.join("src/more.ts"), "").unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("cargo xtask front"));
        make("body");
        check(root.path()).unwrap();
        let style = fs::read_to_string(page.join("style.css")).unwrap();
        fs::write(page.join("style.css"), style + "more").unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("style.css"));
    }
}
