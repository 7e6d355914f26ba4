//! The bill of materials: every crate that the binary is made of, in CycloneDX.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::Release;
use super::processor::Processor;
use hugewise_testkit::tools::{Failure, shell};

/// What writes it.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// What it calls its files, one beside each manifest of the workspace.
const NAME: &str = "hugewise-bill-of-materials";

/// Writes `hugewise-VERSION.cdx.json`, one for all processors, and holds it against what cargo says
/// is linked.
pub(super) fn build(release: &Release, processors: &[Processor]) -> Result<(), Failure> {
    let Some((first, others)) = processors.split_first() else { return Ok(()) };
    let target = first.target;
    let linked = linked(target)?;
    for other in others {
        if self::linked(other.target)? != linked {
            return Err(format!(
                "{} is made of other crates than {target}: each needs its own bill",
                other.target
            )
            .into());
        }
    }
    let written = Written(manifests()?);
    let mut tool = shell::command(shell::tool(CYCLONEDX, &[])?);
    tool.args([
        "cyclonedx",
        "--quiet",
        "--format",
        "json",
        "--spec-version",
        "1.5",
        "--no-build-deps",
    ]);
    tool.args([
        "--target",
        target,
        "--override-filename",
        NAME,
        "--manifest-path",
        "crates/cli/Cargo.toml",
    ]);
    shell::run(tool.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    let text = fs::read_to_string(shell::root().join(format!("crates/cli/{NAME}.json")))?;
    drop(written);
    // Where it was built is nobody's business, and differs from one build to the next.
    let text = text.replace(&format!("file://{}", shell::root().display()), "file://");
    let mut bill: Value = serde_json::from_str(&text)?;
    leave(&mut bill, &linked);
    let told = components(&bill);
    let missing: Vec<&String> = linked.difference(&told).collect();
    if !missing.is_empty() {
        return Err(format!("the bill of materials lacks {missing:?}").into());
    }
    println!("   {} crates", told.len());
    let text = serde_json::to_string_pretty(&bill)? + "\n";
    Ok(fs::write(release.out.join(format!("hugewise-{}.cdx.json", release.version)), text)?)
}

/// `serde 1.0.228`
fn named(component: &Value) -> String {
    let text = |key: &str| component.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("name"), text("version"))
}

/// Takes out what is not linked: the tool takes along what any feature of any crate of the
/// workspace asks for.
fn leave(bill: &mut Value, linked: &BTreeSet<String>) {
    let mut gone = BTreeSet::new();
    if let Some(components) = bill.get_mut("components").and_then(Value::as_array_mut) {
        components.retain(|component| {
            let stays = linked.contains(&named(component));
            if let (false, Some(reference)) =
                (stays, component.get("bom-ref").and_then(Value::as_str))
            {
                gone.insert(reference.to_owned());
            }
            stays
        });
    }
    let is_gone = |reference: Option<&Value>| {
        reference.and_then(Value::as_str).is_some_and(|text| gone.contains(text))
    };
    if let Some(dependencies) = bill.get_mut("dependencies").and_then(Value::as_array_mut) {
        dependencies.retain(|one| !is_gone(one.get("ref")));
        for one in
            dependencies.iter_mut().filter_map(|one| one.get_mut("dependsOn")?.as_array_mut())
        {
            one.retain(|reference| !is_gone(Some(reference)));
        }
    }
}

/// Every component.
fn components(bill: &Value) -> BTreeSet<String> {
    bill.get("components").and_then(Value::as_array).into_iter().flatten().map(named).collect()
}

/// The same of what cargo links into the binary, build scripts' and tests' own crates not among it.
fn linked(target: &str) -> Result<BTreeSet<String>, Failure> {
    let mut tree = shell::cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "hugewise",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--target",
        target,
    ]);
    let told = String::from_utf8(shell::output(&mut tree)?)?;
    let crates = told.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    });
    let itself = format!("hugewise {}", super::version()?);
    Ok(crates.filter(|one| *one != itself).collect())
}

/// Files that the tool leaves beside the manifests; they go when it is done or has failed.
struct Written(Vec<PathBuf>);

impl Drop for Written {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

fn manifests() -> Result<Vec<PathBuf>, Failure> {
    let mut folders = vec![shell::root().join("xtask")];
    for entry in fs::read_dir(shell::root().join("crates"))? {
        folders.push(entry?.path());
    }
    Ok(folders.into_iter().map(|folder| folder.join(format!("{NAME}.json"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_linked_is_in_no_bill() {
        let mut bill = serde_json::json!({
            "components": [
                {"name": "serde", "version": "1.0.1", "bom-ref": "a"}, {"name": "time", "version": "0.3.0", "bom-ref": "b"},
            ],
            "dependencies": [{"ref": "a", "dependsOn": ["b"]}, {"ref": "b"}],
        });
        let linked = BTreeSet::from(["serde 1.0.1".to_owned()]);
        leave(&mut bill, &linked);
        assert_eq!(components(&bill), linked);
        assert_eq!(
            bill.get("dependencies"),
            Some(&serde_json::json!([{"ref": "a", "dependsOn": []}]))
        );
    }

    #[test]
    fn what_is_linked_has_no_crate_of_tests_or_of_builds() {
        let linked = linked("x86_64-unknown-linux-gnu").unwrap_or_default();
        assert!(linked.iter().any(|one| one.starts_with("hugewise-host ")), "{linked:?}");
        for not in ["insta ", "proptest ", "hugewise 0", "cc "] {
            assert!(!linked.iter().any(|one| one.starts_with(not)), "{not}");
        }
    }
}
