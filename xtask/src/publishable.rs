//! `cargo xtask publishable`: every crate as crates.io would take it, and `cargo install` from what
//! was packaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use hugewise_testkit::tools::{Failure, shell};

/// A crate that is published.
struct Package {
    name: String,
    version: String,
}

impl Package {
    fn stem(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Packages all crates, and installs the program from them into a folder of its own.
pub(crate) fn run() -> Result<(), Failure> {
    let mut publish = shell::cargo();
    // What verifies them is the installation below: it builds each from its package, once instead
    // of twice a crate.
    shell::run(publish.args([
        "publish",
        "--dry-run",
        "--workspace",
        "--locked",
        "--allow-dirty",
        "--no-verify",
    ]))?;
    let packages = packages(&metadata()?)?;
    let folder = shell::target().join("package");
    let mut total = 0;
    for package in &packages {
        let file = crate_file(&folder, package)?;
        let bytes = fs::metadata(&file)?.len();
        total += bytes;
        println!("{bytes:>9} {}", package.stem());
    }
    println!("{total:>9} bytes in {} packages", packages.len());
    install(&folder, &packages)
}

/// cargo leaves them in one of two places, by its version.
fn crate_file(folder: &Path, package: &Package) -> Result<PathBuf, Failure> {
    let name = format!("{}.crate", package.stem());
    let places = [
        folder.join(&name),
        folder.join("tmp-crate").join(&name),
        folder.join("tmp-registry").join(&name),
    ];
    places
        .into_iter()
        .find(|file| file.exists())
        .ok_or_else(|| format!("cargo left no {name}").into())
}

/// The profile of this workspace, which no package knows: other crates that are built with it are
/// not built anew.
const PROFILE: [&str; 2] =
    ["profile.dev.debug=\"line-tables-only\"", "profile.dev.package.memchr.opt-level=3"];

/// What `cargo install --locked hugewise` does, where the packages are unpacked instead of
/// downloaded.
fn install(folder: &Path, packages: &[Package]) -> Result<(), Failure> {
    let scratch = tempfile::tempdir_in(folder)?;
    let sources = scratch.path().join("sources");
    fs::create_dir(&sources)?;
    let mut cargo = shell::cargo();
    cargo.args(["install", "--debug", "--no-track", "--locked"]);
    for setting in PROFILE {
        cargo.args(["--config", setting]);
    }
    for package in packages {
        let mut tar = shell::command("tar");
        shell::run(tar.arg("-C").arg(&sources).arg("-xzf").arg(crate_file(folder, package)?))?;
        let path = sources.join(package.stem());
        let patch = format!("patch.crates-io.{}.path=\"{}\"", package.name, path.display());
        if package.name != "hugewise" {
            cargo.args(["--config", &patch]);
        }
    }
    let program = packages
        .iter()
        .find(|package| package.name == "hugewise")
        .ok_or("there is no package hugewise")?;
    let lock = sources.join(program.stem()).join("Cargo.lock");
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    fs::write(&lock, unpacked(&fs::read_to_string(&lock)?, &names))?;
    let root = scratch.path().join("root");
    cargo.arg("--path").arg(sources.join(program.stem())).arg("--root").arg(&root);
    shell::run(cargo.env("CARGO_TARGET_DIR", shell::target()))?;
    let said = String::from_utf8(shell::output(
        shell::command(root.join("bin/hugewise")).arg("version"),
    )?)?;
    let expected = format!("hugewise {}", program.version);
    if !said.starts_with(&expected) {
        return Err(
            format!("what was installed says {said:?} of its version, not {expected:?}").into()
        );
    }
    println!("installed from the packages: {}", said.trim_end());
    Ok(())
}

/// A lock file in which those packages come from folders: the registry does not have them.
fn unpacked(lock: &str, names: &[&str]) -> String {
    let mut ours = false;
    let stays = |line: &&str| {
        if let Some(name) = line.strip_prefix("name = ") {
            ours = names.contains(&name.trim_matches('"'));
        }
        !(ours && (line.starts_with("source = ") || line.starts_with("checksum = ")))
    };
    lock.lines().filter(stays).map(|line| format!("{line}\n")).collect()
}

fn metadata() -> Result<Value, Failure> {
    let text =
        shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Those that are published; `publish = false` is an empty list of registries.
fn published(metadata: &Value) -> Result<BTreeMap<&str, &Value>, Failure> {
    let all = metadata
        .get("packages")
        .and_then(Value::as_array)
        .ok_or("cargo metadata without packages")?;
    let published = all.iter().filter(|package| package.get("publish").is_none_or(Value::is_null));
    Ok(published.map(|package| (text(package, "name"), package)).collect())
}

fn packages(metadata: &Value) -> Result<Vec<Package>, Failure> {
    let package = |package: &Value| Package {
        name: text(package, "name").to_owned(),
        version: text(package, "version").to_owned(),
    };
    Ok(published(metadata)?.into_values().map(package).collect())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
