//! `cargo xtask docs`: everything below docs/ that the code itself knows, by the program that has it
//! from the code.

use hugewise_testkit::tools::{Failure, shell};

/// What is written.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these: the pages of the rules need little of the product, and are there soon.
    #[arg(value_enum)]
    only: Option<Only>,
    /// Write nothing; fail where a file is not as the code has it.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Only {
    Rules,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut cargo = shell::cargo();
    cargo.args(["run", "--quiet", "--package", "xtask-docs"]);
    if let Some(Only::Rules) = arguments.only {
        cargo.arg("--no-default-features");
    }
    shell::run(cargo.arg("--").args(arguments.check.then_some("--check")))
}
