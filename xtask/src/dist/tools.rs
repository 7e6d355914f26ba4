//! What packages are made and looked at with.

use std::path::Path;
use std::process::Command;

use crate::{Failure, debian, shell};

/// A program of Debian's, installed if it is missing and root asks.
pub(super) fn of_debian(file: &'static str, package: &'static str) -> Result<Command, Failure> {
    if !Path::new(file).exists() {
        if !(debian::here() && debian::root()) {
            return Err(format!("{file} is missing: install {package}").into());
        }
        debian::install(&[package])?;
    }
    Ok(shell::command(file))
}
