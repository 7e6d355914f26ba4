//! What was built for arm64, tried without such a machine: qemu runs it, in the root file system that it was built in.
//!
//! A process of qemu's is one of this machine's kernel, with this machine's page size: what the program asks of a running
//! kernel is not tried here, but its reading and its reckoning are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, binary, cross};
use crate::{Failure, shell};

/// Each captured host of the project: the programs for this processor and for arm64 have to say the same of it, byte for byte.
pub(super) fn run(release: &Release, here: &Path, there: &Path) -> Result<(), Failure> {
    let cargo_home = binary::cargo_home()?;
    let mut count = 0;
    for host in captured()? {
        let native = said(shell::command(here).args(["check", "--root"]).arg(&host))?;
        let mut emulated = cross::inside(release, &cargo_home, &release.build)?;
        let emulated = said(emulated.arg(cross::EMULATOR).arg(there).args(["check", "--root"]).arg(&host))?;
        if native != emulated {
            return Err(format!("{} is another host on arm64:\n{native:?}\n{emulated:?}", host.display()).into());
        }
        count += 1;
    }
    println!("   {count} captured hosts, the same byte for byte");
    Ok(())
}

/// Folders and archives of fixtures/hosts, beside which stands what is said of them.
fn captured() -> Result<Vec<PathBuf>, Failure> {
    let mut hosts = Vec::new();
    for entry in fs::read_dir(shell::root().join("fixtures/hosts"))? {
        let path = entry?.path();
        if let Some(host) = path.to_str().and_then(|path| path.strip_suffix(".expected.txt")) {
            hosts.push(PathBuf::from(host));
        }
    }
    hosts.sort();
    if hosts.is_empty() { Err("no captured host is there".into()) } else { Ok(hosts) }
}

/// Exit code, and all that a program says.
fn said(command: &mut Command) -> Result<(Option<i32>, String), Failure> {
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()))
}
