//! The tests of `fleet/python`, which are Python's own, run with what `cargo xtask test` installed
//! for them.

use std::path::Path;
use std::process::Command;

#[test]
fn the_questions_over_many_hosts_answer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join("target/tools/fleet/bin/python");
    if !root.join("target/tools/fleet/installed.txt").exists() {
        let required = std::env::var_os("HUGEWISE_REQUIRE_REAL").is_some_and(|value| value == "1");
        assert!(!required, "DuckDB is not in target/tools/fleet: cargo xtask test installs it");
        println!("SKIP: DuckDB is not installed; cargo xtask test does it");
        return;
    }
    let tests = Command::new(python)
        .args([
            "-B",
            "-m",
            "unittest",
            "discover",
            "--start-directory",
            "tests",
            "--top-level-directory",
            ".",
        ])
        .current_dir(root.join("fleet/python"))
        .output();
    let tests = match tests {
        Ok(tests) => tests,
        Err(error) => unreachable!("python: {error}"),
    };
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stderr));
    assert!(String::from_utf8_lossy(&tests.stderr).contains("Ran 36 tests"), "not all were found");
}
