//! The tools that make packages, each in one version, below target/tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, debian, shell};

/// A program of a crate, built once a machine.
pub(super) fn of_crate(name: &str, version: &str) -> Result<PathBuf, Failure> {
    let folder = folder(name, version);
    let program = folder.join("bin").join(name);
    if !program.exists() {
        let mut install = shell::cargo();
        install.args(["install", "--quiet", "--locked", "--no-track", name, "--version", version]);
        shell::run(install.arg("--root").arg(&folder))?;
    }
    Ok(program)
}

/// A program of a Go module, built once a machine.
pub(super) fn of_go(name: &str, package: &str, version: &str) -> Result<PathBuf, Failure> {
    let folder = folder(name, version);
    let program = folder.join(name);
    if !program.exists() {
        fs::create_dir_all(&folder)?;
        let mut install = shell::command("go");
        install.env("GOBIN", &folder).env("GOFLAGS", "-trimpath").env("CGO_ENABLED", "0");
        shell::run(install.args(["install", &format!("{package}@{version}")]))
            .map_err(|failure| format!("{failure} (Go builds {name}: https://go.dev/doc/install)"))?;
    }
    Ok(program)
}

/// A Python program of the package index in an environment of its own.
pub(super) fn of_python(name: &str, version: &str) -> Result<PathBuf, Failure> {
    let folder = folder(name, version);
    let program = folder.join("bin").join(name);
    if !program.exists() {
        debian_tool("/usr/lib/python3*/ensurepip/__init__.py", "python3-venv")?;
        shell::run(shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = shell::command(folder.join("bin/pip"));
        shell::run(pip.args(["install", "--quiet", "--disable-pip-version-check", &format!("{name}=={version}")]))?;
    }
    Ok(program)
}

/// A program of Debian's, installed if it is missing and root asks.
pub(super) fn debian_tool(file: &'static str, package: &'static str) -> Result<Command, Failure> {
    if !debian::missing(&[(file, package)]).is_empty() {
        if !(debian::here() && debian::root()) {
            return Err(format!("{file} is missing: install {package}").into());
        }
        debian::install(&[package])?;
    }
    Ok(shell::command(Path::new(file)))
}

fn folder(name: &str, version: &str) -> PathBuf {
    shell::target().join("tools").join(format!("{name}-{version}"))
}
