//! The programs that are tried and measured, built where they are not there yet.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, shell};

/// hugewise as packages hold it, or the one that the command line names.
///
/// # Errors
/// It cannot be built, or the named one is not there.
pub fn hugewise(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(program) = named {
        return Ok(
            fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?
        );
    }
    build(&["--profile", "dist", "--package", "hugewise", "--bin", "hugewise"])?;
    Ok(built_hugewise())
}

/// Where [`hugewise`] has built it.
pub fn built_hugewise() -> PathBuf {
    shell::target().join("dist/hugewise")
}

/// The stand-in server.
///
/// # Errors
/// It cannot be built.
pub fn standin() -> Result<PathBuf, Failure> {
    build(&["--package", "hugewise-testkit", "--bin", "standin"])?;
    Ok(built_standin())
}

/// Where [`standin`] has built it.
pub fn built_standin() -> PathBuf {
    shell::target().join("debug/standin")
}

/// The stand-in server, optimised: for measurements of many processes.
///
/// # Errors
/// It cannot be built.
pub fn fast_standin() -> Result<PathBuf, Failure> {
    build(&["--release", "--package", "hugewise-testkit", "--bin", "standin"])?;
    Ok(shell::target().join("release/standin"))
}

fn build(arguments: &[&str]) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["build", "--quiet"]).args(arguments))
}
