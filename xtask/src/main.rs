//! The project's own commands: `cargo xtask --help` lists them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for those who work on the project, in its own folder"
)]

mod deps;
mod dist;
mod docs;
mod estate;
mod field;
mod fleet;
mod front;
mod fuzz;
mod proving;
mod publishable;
mod site;
mod test;
mod tour;
mod unused;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = proving::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need from Debian (as root), and run all of them.
    Test {
        /// Further arguments of `cargo test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write docs/rules, docs/schema, docs/man and docs/completions anew from the code.
    Docs(docs::Arguments),
    /// Bundle the dashboard's script and style from crates/serve/front (with npm).
    Front(front::Arguments),
    /// Check that crates depend only on those below them, and that no modules use each other in a
    /// circle.
    Deps,
    /// Run the tests of fleet/python with Spark, on executors that are killed, and with a store
    /// that speaks S3 (installs both below target/tools).
    Fleet(fleet::Arguments),
    /// Make a captured host of an Oracle estate.
    Estate(estate::Arguments),
    /// Build what people install: a static binary, its archive, the Debian package, the RPM,
    /// install.sh and SHA256SUMS.
    Dist(dist::Arguments),
    /// Compare what hugewise says with what is right, on cases from public reports (fixtures/field).
    Field(field::Arguments),
    /// Make one part of a release.
    #[command(hide = true)]
    DistPart {
        #[command(subcommand)]
        part: dist::Part,
    },
    /// Run the unit tests of host, engines and diagnose as programs for arm64, by qemu-user, in a
    /// root file system of Debian sid (as root).
    Emulated(dist::emulated::Tests),
    /// Package every crate as crates.io would take it, build each from its package, and install the
    /// program from them.
    Publishable,
    /// Make the documents a site in target/site (installs mdbook below target/tools).
    Site,
    /// Check that no crate asks for another that it does not use (installs cargo-machete below
    /// target/tools).
    Unused,
    /// Take the pictures of docs/tour.md anew (as root; with chromium and tmux).
    Tour(tour::Arguments),
    /// Run every fuzz target for a while.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    #[command(external_subcommand)]
    Proving(Vec<OsString>),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test { arguments } => test::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Front(arguments) => front::run(&arguments),
        Command::Deps => deps::run(),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Estate(arguments) => estate::run(&arguments),
        Command::Field(arguments) => field::run(&arguments),
        Command::Unused => unused::run(),
        Command::Site => site::run(),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::DistPart { part } => dist::make_part(&part),
        Command::Emulated(tests) => dist::emulated::tests(&tests),
        Command::Publishable => publishable::run(),
        Command::Tour(arguments) => tour::run(&arguments),
        Command::Fuzz { seconds } => fuzz::run(seconds),
        Command::Proving(arguments) => return proving::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
