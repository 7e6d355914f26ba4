//! The API against its own description, by a tool that knows nothing but the description:
//! schemathesis asks what it allows and what it forbids, and holds each answer to it.

use std::path::PathBuf;
use std::process::Command;

use hugewise_testkit::{Skip, require};

use super::Server;

/// The one that xtask installs below target/tools.
fn schemathesis() -> Result<PathBuf, Skip> {
    let own = std::env::current_exe().unwrap();
    // target/debug/deps/this
    let program = own.ancestors().nth(3).unwrap().join("tools/schemathesis/bin/schemathesis");
    let missing = || Skip(format!("no {}; `cargo xtask test` installs it", program.display()));
    if program.exists() { Ok(program) } else { Err(missing()) }
}

#[test]
fn schemathesis_finds_no_answer_that_is_not_described() {
    let program = require!(schemathesis());
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    // The same questions in the same order in every run, of a host that never changes; five minutes
    // are a machine's that has come to a standstill.
    let mut command = Command::new("timeout");
    command
        .arg("300")
        .arg(program)
        .arg("run")
        .arg(format!("http://{}/api/v1/openapi.json", server.address));
    command.args([
        "--checks",
        "all",
        "--mode",
        "all",
        "--generation-deterministic",
        "--max-examples",
        "30",
    ]);
    command.args([
        "--suppress-health-check",
        "all",
        "--request-timeout",
        "60",
        "--workers",
        "1",
        "--no-color",
    ]);
    // Its answer never ends.
    command.args(["--exclude-path", "/api/v1/events"]);
    let output = command.current_dir(folder.path()).env("HOME", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("4 passed") || said.contains("Tested: 4"), "{said}");
}
