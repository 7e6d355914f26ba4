//! What packages are made and looked at with.

use std::path::Path;
use std::process::Command;

use hugewise_testkit::tools::{Failure, debian, shell};

/// A file of Debian's, a program for example, installed if it is missing and root asks.
pub(super) fn of_debian(file: &'static str, package: &'static str) -> Result<Command, Failure> {
    if !Path::new(file).exists() {
        if !(debian::here() && debian::root()) {
            return Err(format!("{file} is missing: install {package}").into());
        }
        debian::install(&[package])?;
    }
    Ok(shell::command(file))
}

/// A program of the Python package index in an environment of its own, below target/tools, which
/// sees Debian's modules too.
pub(super) fn of_python(name: &str, version: &str) -> Result<Command, Failure> {
    let folder = shell::target().join("tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        of_debian("/usr/share/doc/python3-venv", "python3-venv")?;
        let mut python = shell::command("/usr/bin/python3");
        shell::run(python.args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&folder))?;
        let mut pip = shell::command(folder.join("bin/pip"));
        shell::run(pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            &format!("{name}=={version}"),
        ]))?;
    }
    Ok(shell::command(program))
}
