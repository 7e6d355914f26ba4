//! What crates.io refuses, and what would be missing from a package, told without building
//! anything.

use std::collections::BTreeSet;
use std::path::Component;

use super::*;

/// crates.io takes 10 MiB, compressed; a package of this project is source text, far below that
/// before it is compressed.
const LARGEST: u64 = 2 << 20;

#[test]
fn every_package_has_what_the_registry_asks_for() {
    let metadata = metadata().unwrap();
    let published = published(&metadata).unwrap();
    assert!(
        published.contains_key("hugewise") && !published.contains_key("xtask"),
        "{:?}",
        published.keys()
    );
    for (name, package) in &published {
        // https://doc.rust-lang.org/cargo/reference/publishing.html
        for field in ["description", "license"] {
            assert!(!text(package, field).is_empty(), "{name} has no {field}");
        }
        assert!(package["keywords"].as_array().unwrap().len() <= 5, "{name}");
        for dependency in package["dependencies"].as_array().unwrap() {
            let (on, kind, asked) =
                (text(dependency, "name"), text(dependency, "kind"), text(dependency, "req"));
            if dependency.get("path").is_none_or(Value::is_null) {
                continue;
            }
            if kind == "dev" {
                // Of those that ask the registry for a version, none may stand above: it is
                // published after this one.
                let above = published.get(on).is_some_and(|on| depends(&published, on, name));
                assert!(
                    asked == "*" || (!above && published.contains_key(on)),
                    "{name} on {on} {asked} for its tests"
                );
            } else {
                let version = published.get(on).map(|package| text(package, "version"));
                assert_eq!(
                    version.map(|version| format!("^{version}")).as_deref(),
                    Some(asked),
                    "{name} on {on}"
                );
            }
        }
    }
}

/// Whether a package is built with another one.
fn depends(published: &BTreeMap<&str, &Value>, package: &Value, on: &str) -> bool {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    let built_with = dependencies.filter(|dependency| text(dependency, "kind") != "dev");
    let mut names = built_with.map(|dependency| text(dependency, "name"));
    names.any(|name| {
        name == on || published.get(name).is_some_and(|package| depends(published, package, on))
    })
}

#[test]
fn every_package_holds_its_licences_and_the_files_that_it_is_built_with() {
    let metadata = metadata().unwrap();
    for (name, package) in published(&metadata).unwrap() {
        let folder = Path::new(text(package, "manifest_path")).parent().unwrap();
        let mut list = shell::cargo();
        let listed = shell::output(list.args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            name,
        ]));
        let listed = String::from_utf8(listed.unwrap()).unwrap();
        let files: BTreeSet<&Path> = listed.lines().map(Path::new).collect();
        for file in ["Cargo.toml", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(files.contains(Path::new(file)), "{name} has no {file}");
        }
        let mut bytes = 0;
        for file in &files {
            let Ok(read) = fs::read(folder.join(file)) else { continue };
            bytes += u64::try_from(read.len()).unwrap();
            if file.extension().is_some_and(|extension| extension == "rs") {
                for included in included(&String::from_utf8(read).unwrap(), file) {
                    assert!(
                        files.contains(included.as_path()),
                        "{name}: {} is built with {included:?}",
                        file.display()
                    );
                }
            }
        }
        assert!(bytes < LARGEST, "{name}: {bytes} bytes");
        if name == "hugewise" {
            assert!(
                files.contains(Path::new("README.md")) && files.contains(Path::new("Cargo.lock")),
                "{files:?}"
            );
        }
    }
}

/// The files that a file of source has the compiler read, but for those of its tests.
fn included(source: &str, file: &Path) -> Vec<PathBuf> {
    if file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests")) {
        return Vec::new();
    }
    let built = source.split("#[cfg(test)]").next().unwrap_or_default();
    let named = built.match_indices("include_").filter_map(|(at, _)| {
        let (_, name) = built.get(at..)?.split_once("!(\"").filter(|(call, _)| call.len() < 14)?;
        name.split_once('"').map(|(name, _)| file.with_file_name(name))
    });
    named.map(|path| plain(&path)).collect()
}

/// A path without `..` but at its start.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        let below = matches!(plain.components().next_back(), Some(Component::Normal(_)));
        if part == Component::ParentDir && below {
            plain.pop();
        } else {
            plain.push(part);
        }
        plain
    })
}

#[test]
fn files_that_are_built_in_are_seen() {
    let source = "const A: &str = include_str!(\"../page.css\");\n#[cfg(test)]\nconst B: &[u8] = \
         include_bytes!(\"b\");\n";
    assert_eq!(included(source, Path::new("src/html/mod.rs")), [Path::new("src/page.css")]);
    assert_eq!(
        included("include_bytes!(\"../../../x\")", Path::new("src/a.rs")),
        [Path::new("../../x")]
    );
}

#[test]
fn a_lock_file_asks_the_registry_for_other_peoples_packages_alone() {
    let lock = "version = 4\n\n[[package]]\nname = \"hugewise-model\"\nversion = \"0.1.0\"\n\
                source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum \
         = \"00\"\n\
                dependencies = [\n \"serde\",\n]\n\n[[package]]\nname = \"serde\"\nversion \
         = \"1.0.0\"\n\
                source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum \
         = \"11\"\n";
    let expected = "version = 4\n\n[[package]]\nname = \"hugewise-model\"\nversion = \"0.1.0\"\n\
                    dependencies = [\n \"serde\",\n]\n\n[[package]]\nname = \"serde\"\nversion \
         = \"1.0.0\"\n\
                    source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum \
         = \"11\"\n";
    assert_eq!(unpacked(lock, &["hugewise", "hugewise-model"]), expected);
}
