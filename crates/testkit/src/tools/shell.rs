//! Other programs, run from the workspace's folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Failure;

/// The workspace's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new("."))
}

/// A program from crates.io in one version, below target/tools. It is built once a machine, which
/// takes minutes.
///
/// # Errors
/// It cannot be built.
pub fn tool((name, version): (&str, &str), features: &[&str]) -> Result<PathBuf, Failure> {
    let folder = target().join("tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked", "--no-track", name, "--version", version]);
        run(install.args(features).arg("--root").arg(&folder))?;
    }
    Ok(program)
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A program to be run in the workspace's folder.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A part of a release, as `cargo xtask dist-part` makes it; that command's last line is its path.
///
/// # Errors
/// It cannot be made.
pub fn dist_part(arguments: &[&OsStr]) -> Result<PathBuf, Failure> {
    let told = output(cargo().args(["xtask", "dist-part"]).args(arguments))?;
    let told = String::from_utf8(told)?;
    Ok(PathBuf::from(told.lines().last().ok_or("cargo xtask dist-part said nothing")?))
}

/// Runs it, its output to ours.
///
/// # Errors
/// It cannot be started, or fails.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = format!("{} {}", program_name(command), arguments_text(command));
    println!("$ {}", shown.trim_end());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}").into()),
        Err(error) => Err(format!("`{shown}`: {error}").into()),
    }
}

/// Runs it and takes its standard output.
///
/// # Errors
/// It cannot be started, or fails.
pub fn output(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command.output().map_err(|error| format!("{}: {error}", program_name(command)))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{}: {}", program_name(command), String::from_utf8_lossy(&output.stderr))
            .into())
    }
}

fn program_name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn arguments_text(command: &Command) -> String {
    command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
