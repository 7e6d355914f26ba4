//! `cargo xtask deps`: a crate depends only on those below it.

use serde_json::Value;

use hugewise_testkit::tools::{Failure, shell};

/// The rooms, from the front door down: each may use only those below it.
const ORDER: [&str; 17] = [
    "hugewise",
    "hugewise-serve",
    "hugewise-fleet",
    "hugewise-report",
    "hugewise-change",
    "hugewise-diagnose",
    "hugewise-lab",
    "hugewise-system",
    "hugewise-investigate",
    "hugewise-record",
    "hugewise-pods",
    "hugewise-engines",
    "hugewise-host",
    "hugewise-config",
    "hugewise-procfs",
    "hugewise-source",
    "hugewise-model",
];

/// Stand outside the house and may use everything; nothing of it may use them but its tests.
const OUTSIDE: [&str; 3] = ["xtask", "xtask-docs", "hugewise-testkit"];

pub(crate) fn run() -> Result<(), Failure> {
    let violations = violations(&metadata()?)?;
    if violations.is_empty() { Ok(()) } else { Err(violations.join("\n       ").into()) }
}

fn metadata() -> Result<Value, Failure> {
    let text =
        shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    Ok(serde_json::from_slice(&text)?)
}

/// One sentence for each arrow that does not point down. Arrows of tests may point anywhere.
fn violations(metadata: &Value) -> Result<Vec<String>, Failure> {
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .ok_or("cargo metadata without packages")?;
    let mut found = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let Some(place) = place(name) else {
            if !OUTSIDE.contains(&name) {
                found.push(format!(
                    "{name} has no place in the order of crates (xtask/src/deps.rs)"
                ));
            }
            continue;
        };
        let dependencies = package.get("dependencies").and_then(Value::as_array);
        for dependency in dependencies.into_iter().flatten() {
            let (on, kind) = (text(dependency, "name"), text(dependency, "kind"));
            if kind == "dev" || dependency.get("path").is_none_or(Value::is_null) {
                continue;
            }
            if self::place(on).is_none_or(|below| below <= place) {
                found.push(format!("{name} depends on {on}, which is not below it"));
            }
        }
    }
    Ok(found)
}

fn place(name: &str) -> Option<usize> {
    ORDER.iter().position(|room| *room == name)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, on: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<_> = on
            .iter()
            .map(|(name, kind)| json!({"name": name, "kind": kind, "path": "/somewhere"}))
            .collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn the_workspace_keeps_its_order() {
        let found = violations(&metadata().unwrap()).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_arrow_upwards_is_found() {
        let packages = [
            package("hugewise-model", &[("hugewise-host", None), ("hugewise-report", Some("dev"))]),
            package(
                "hugewise-diagnose",
                &[("hugewise-model", None), ("hugewise-lab", Some("build"))],
            ),
            package("hugewise-host", &[("xtask", None)]),
            package("xtask", &[("hugewise", None)]),
            package("hugewise-attic", &[]),
        ];
        assert_eq!(
            violations(&json!({ "packages": packages })).unwrap(),
            [
                "hugewise-model depends on hugewise-host, which is not below it",
                "hugewise-host depends on xtask, which is not below it",
                "hugewise-attic has no place in the order of crates (xtask/src/deps.rs)",
            ]
        );
        assert!(violations(&json!({})).is_err());
    }

    #[test]
    fn crates_of_the_registry_are_nobodys_business_here() {
        let packages =
            [json!({"name": "hugewise-model", "dependencies": [{"name": "serde", "kind": null}]})];
        assert!(violations(&json!({ "packages": packages })).unwrap().is_empty());
    }
}
