//! The project's own commands: `cargo xtask --help` lists them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for those who work on the project, in its own folder"
)]

mod bench;
mod circles;
mod debian;
mod deps;
mod dist;
mod docs;
mod estate;
mod exactness;
mod fleet;
mod forecast;
mod front;
mod fuzz;
mod guest;
mod incident;
mod newcomer;
mod publishable;
mod python;
mod shell;
mod site;
mod test;
mod tour;
mod unused;
mod victoria;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
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
    Docs {
        /// Write nothing; fail where a file is not as the code has it.
        #[arg(long)]
        check: bool,
    },
    /// Bundle the dashboard's script and style from crates/serve/front (with npm).
    Front(front::Arguments),
    /// Check that crates depend only on those below them, and that no modules use each other in a circle.
    Deps,
    /// Run the tests of fleet/python with Spark, on executors that are killed, and with a store that speaks S3 (installs both below
    /// target/tools).
    Fleet(fleet::Arguments),
    /// Make a captured host of an Oracle estate.
    Estate(estate::Arguments),
    /// Build what people install: a static binary, its archive, the Debian package, the RPM, install.sh and SHA256SUMS.
    Dist(dist::Arguments),
    /// Run the unit tests of host, engines and advice as programs for arm64, by qemu-user, in a root file system of Debian sid (as root).
    Emulated(dist::emulated::Tests),
    /// Package every crate as crates.io would take it, build each from its package, and install the program from them.
    Publishable,
    /// Type the commands of the documents on a fresh Debian in a virtual machine, as a newcomer does (as root).
    Newcomer(newcomer::Arguments),
    /// Make the documents a site in target/site (installs mdbook below target/tools).
    Site,
    /// Check that no crate asks for another that it does not use (installs cargo-machete below target/tools).
    Unused,
    /// Measure.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Compare the pages that hugewise says with those that servers need on this machine (as root).
    Exactness(exactness::Arguments),
    /// Compare the page tables that hugewise forecasts with those that the kernel makes (as root).
    Forecast(forecast::Arguments),
    /// Run what hugewise promises about reboots in virtual machines (as root).
    Vm(vm::Arguments),
    /// Let a virtual machine run out of memory over page tables, and see whether investigate names it (as root).
    Incident(incident::Arguments),
    /// Take the pictures of docs/tour.md anew (as root; with chromium and tmux).
    Tour(tour::Arguments),
    /// Run every fuzz target for a while.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// `hugewise check` beside the reading of smaps_rollup of every process, in turn; beside ps where thousands sleep; and
    /// how it grows with the instances of a host.
    Check {
        /// Processes around the shared segment.
        #[arg(long, default_value_t = 300)]
        processes: u32,
        /// Processes that sleep, for the second part; 0 leaves it out.
        #[arg(long, default_value_t = 8000)]
        asleep: u32,
        /// PostgreSQL clusters of the host of the third part; 0 leaves it out.
        #[arg(long, default_value_t = 1000)]
        instances: u32,
        /// How often each is measured.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
    },
    /// What the lab has to show on this machine (as root): base pages beside 2 MiB pages, in one table.
    Lab(bench::lab::Arguments),
    /// `hugewise investigate` beside `sadf -j -- -A` on a day of 1-second samples, in turn; and on a folder of days.
    Investigate(bench::investigate::Arguments),
    /// The fleet dashboard's questions, of Prometheus and VictoriaMetrics with 10,000 simulated hosts: do both answer the same, and
    /// how soon?
    Metrics(bench::metrics::Arguments),
    /// `hugewise record` among many sessions (as root): processor time a sample, memory, and what goes to the disk.
    Record(bench::record::Arguments),
    /// `hugewise serve` beside node_exporter (as root): what a scrape costs among many sessions, and memory after many.
    Serve(bench::serve::Arguments),
    /// What collect costs on many hosts, beside a shell loop of check and a Spark job.
    Fleet(bench::fleet::Arguments),
}

/// Why a command failed, for people.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test { arguments } => test::run(&arguments),
        Command::Docs { check } => docs::run(check),
        Command::Front(arguments) => front::run(&arguments),
        Command::Deps => deps::run(),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Estate(arguments) => estate::run(&arguments),
        Command::Unused => unused::run(),
        Command::Site => site::run(),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Emulated(tests) => dist::emulated::tests(&tests),
        Command::Newcomer(arguments) => newcomer::run(&arguments),
        Command::Publishable => publishable::run(),
        Command::Bench { what: Bench::Check { processes, asleep, instances, rounds } } => {
            bench::check(processes, asleep, instances, rounds)
        }
        Command::Bench { what: Bench::Lab(arguments) } => bench::lab::run(&arguments),
        Command::Bench { what: Bench::Investigate(arguments) } => bench::investigate::run(&arguments),
        Command::Bench { what: Bench::Metrics(arguments) } => bench::metrics::run(&arguments),
        Command::Bench { what: Bench::Record(arguments) } => bench::record::run(&arguments),
        Command::Bench { what: Bench::Serve(arguments) } => bench::serve::run(&arguments),
        Command::Bench { what: Bench::Fleet(arguments) } => bench::fleet::run(&arguments),
        Command::Exactness(arguments) => exactness::run(&arguments),
        Command::Forecast(arguments) => forecast::run(&arguments),
        Command::Incident(arguments) => incident::run(&arguments),
        Command::Tour(arguments) => tour::run(&arguments),
        Command::Vm(arguments) => vm::run(&arguments),
        Command::Fuzz { seconds } => fuzz::run(seconds),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
