//! `cargo xtask unused`: no crate asks for another that it does not use.

use hugewise_testkit::tools::{Failure, shell};

/// What looks for them, in one version: another one may see more.
const MACHETE: (&str, &str) = ("cargo-machete", "0.9.1");

pub(crate) fn run() -> Result<(), Failure> {
    let program = shell::tool(MACHETE, &[])?;
    // The library of a package may have another name than the package.
    shell::run(shell::command(program).args(["--with-metadata", "."]))
}
