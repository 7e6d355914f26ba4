//! `cargo xtask unused`: no crate asks for another that it does not use.

use std::path::PathBuf;

use crate::{Failure, shell};

/// What looks for them, in one version: another one may see more.
const MACHETE: (&str, &str) = ("cargo-machete", "0.9.1");

pub(crate) fn run() -> Result<(), Failure> {
    let program = installed()?;
    // The library of a package may have another name than the package.
    shell::run(shell::command(program).args(["--with-metadata", "."]))
}

/// Built once a machine, beside what else the tests need: it takes minutes, and looks in a second.
fn installed() -> Result<PathBuf, Failure> {
    let (name, version) = MACHETE;
    let folder = shell::target().join("tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        shell::run(
            shell::cargo()
                .args(["install", "--quiet", "--locked", "--no-track", name, "--version", version])
                .arg("--root")
                .arg(&folder),
        )?;
    }
    Ok(program)
}
