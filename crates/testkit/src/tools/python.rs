//! Environments of Python below target/tools, each with packages in fixed versions.

use std::fs;
use std::path::PathBuf;

use super::{Failure, shell};

/// What the questions over many hosts are tried on.
pub const FLEET: &str = "duckdb==2.0.1\n";
/// The same with Spark, and a store that speaks S3.
pub const SPARK: &str = include_str!("spark.txt");

/// The Python of an environment, whether it is there or not.
pub fn program(name: &str) -> PathBuf {
    shell::target().join("tools").join(name).join("bin/python")
}

/// Makes an environment where it is not there in these versions; its Python.
///
/// # Errors
/// Debian's python3-venv is missing, or the registry does not give a package.
pub fn environment(name: &str, packages: &str) -> Result<PathBuf, Failure> {
    let folder = shell::target().join("tools").join(name);
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|versions| versions == packages) {
        return Ok(program(name));
    }
    shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = shell::command(folder.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]);
    let wanted = folder.join("wanted.txt");
    fs::write(&wanted, packages)?;
    shell::run(pip.arg("--requirement").arg(&wanted))?;
    fs::write(&installed, packages)?;
    Ok(program(name))
}
