//! Measurements, and promises that take machines of their own. `cargo xtask` hands its commands on.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for those who work on the project, in its own folder"
)]

mod bench;
mod exactness;
mod forecast;
mod guest;
mod incident;
mod jvm;
mod newcomer;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measurements, and promises that take machines of their own.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Compare the pages that hugewise says with those that servers need on this machine (as root).
    Exactness(exactness::Arguments),
    /// Compare the page tables that hugewise forecasts with those that the kernel makes (as root).
    Forecast(forecast::Arguments),
    /// Let a virtual machine run out of memory over page tables, and see whether investigate names
    /// it (as root).
    Incident(incident::Arguments),
    /// Compare what hugewise foretells of Java machines with what they take, for releases 17, 21
    /// and 25 (as root).
    Jvm(jvm::Arguments),
    /// Type the commands of the documents on a fresh Debian in a virtual machine, as a newcomer
    /// does (as root).
    Newcomer(newcomer::Arguments),
    /// Run what hugewise promises about reboots in virtual machines (as root).
    Vm(vm::Arguments),
}

#[derive(Subcommand)]
enum Bench {
    /// `hugewise check` beside the reading of smaps_rollup of every process, in turn; beside ps
    /// where thousands sleep; and how it grows with the instances of a host.
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
    /// What the lab has to show on this machine (as root): base pages beside 2 MiB pages, in one
    /// table.
    Lab(bench::lab::Arguments),
    /// `hugewise investigate` beside `sadf -j -- -A` on a day of 1-second samples, in turn; and on
    /// a folder of days.
    Investigate(bench::investigate::Arguments),
    /// The fleet dashboard's questions, of Prometheus and VictoriaMetrics with 10,000 simulated
    /// hosts: do both answer the same, and how soon?
    Metrics(bench::metrics::Arguments),
    /// `hugewise record` among many sessions (as root): processor time a sample, memory, and what
    /// goes to the disk.
    Record(bench::record::Arguments),
    /// `hugewise serve` beside node_exporter (as root): what a scrape costs among many sessions,
    /// and memory after many.
    Serve(bench::serve::Arguments),
    /// What collect costs on many hosts, beside a shell loop of check and a Spark job.
    Fleet(bench::fleet::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench { what: Bench::Check { processes, asleep, instances, rounds } } => {
            bench::check(processes, asleep, instances, rounds)
        }
        Command::Bench { what: Bench::Lab(arguments) } => bench::lab::run(&arguments),
        Command::Bench { what: Bench::Investigate(arguments) } => {
            bench::investigate::run(&arguments)
        }
        Command::Bench { what: Bench::Metrics(arguments) } => bench::metrics::run(&arguments),
        Command::Bench { what: Bench::Record(arguments) } => bench::record::run(&arguments),
        Command::Bench { what: Bench::Serve(arguments) } => bench::serve::run(&arguments),
        Command::Bench { what: Bench::Fleet(arguments) } => bench::fleet::run(&arguments),
        Command::Exactness(arguments) => exactness::run(&arguments),
        Command::Forecast(arguments) => forecast::run(&arguments),
        Command::Incident(arguments) => incident::run(&arguments),
        Command::Jvm(arguments) => jvm::run(&arguments),
        Command::Newcomer(arguments) => newcomer::run(&arguments),
        Command::Vm(arguments) => vm::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
