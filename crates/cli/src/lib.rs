//! The command line of hugewise: arguments in, calls, exit code out; one file a subcommand.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod also;
mod apply;
mod argument;
mod capture;
mod captured;
mod check;
mod collect;
mod completions;
mod described;
mod elsewhere;
mod format;
mod given;
mod host_namespaces;
mod investigate;
mod lab;
mod named;
mod outcome;
mod plan;
mod record;
mod report;
mod rules;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod size;
mod terminal;
mod undo;
mod usage;
mod verdict;
mod verify;
#[cfg(feature = "watch")]
mod watch;

use outcome::{Failure, Outcome};

/// Check whether the databases on a host use huge pages, find out why not, and fix it.
#[derive(Parser)]
#[command(
    name = "hugewise",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    term_width = terminal::width().min(WIDEST_HELP),
    after_help = AFTER_HELP
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    check: check::Arguments,
}

#[derive(Subcommand)]
enum Command {
    /// Show what is wrong on this host, and why (the default).
    #[command(after_help = AFTER_HELP)]
    Check(check::Arguments),
    /// Save what check reads, without secrets, so that you can check this host elsewhere.
    Capture(capture::Arguments),
    /// Read captures from many hosts into tables, and summarise them.
    #[command(after_help = collect::AFTER_HELP)]
    Collect(collect::Arguments),
    /// Calculate how many huge pages your servers need, running or described.
    #[command(after_help = size::AFTER_HELP)]
    Size(Box<size::Arguments>),
    /// Show the changes that would fix this host, as a diff, without making them.
    #[command(after_help = plan::AFTER_HELP)]
    Plan(Box<plan::Arguments>),
    /// Apply a plan, keeping a journal so that it can be undone.
    #[command(after_help = apply::AFTER_HELP)]
    Apply(Box<apply::Arguments>),
    /// Undo an apply and restore every byte and every value.
    #[command(after_help = undo::AFTER_HELP)]
    Undo(undo::Arguments),
    /// Prove that each instance has all of its memory on huge pages, or show what keeps it off.
    #[command(after_help = verify::AFTER_HELP)]
    Verify(verify::Arguments),
    /// Explain a past freeze from sar, OSWatcher, vmstat, atop, PCP, nmon or sosreports.
    #[command(after_help = investigate::AFTER_HELP)]
    Investigate(investigate::Arguments),
    /// Write one page that you can mail: what is wrong, the plan, the sizing, past incidents.
    #[command(after_help = report::AFTER_HELP)]
    Report(report::Arguments),
    /// Record this host every second, so that a freeze can be explained afterwards.
    #[command(after_help = record::AFTER_HELP)]
    Record(record::Arguments),
    /// Measure what page size does to page tables, logins, sorts and access on this host.
    #[command(after_help = lab::AFTER_HELP)]
    Lab(Box<lab::Arguments>),
    /// Start a program with its private memory on huge pages.
    #[command(after_help = run::AFTER_HELP)]
    Run(Box<run::Arguments>),
    /// Serve Prometheus metrics, a live dashboard and a JSON API.
    #[cfg(feature = "serve")]
    #[command(after_help = serve::AFTER_HELP)]
    Serve(serve::Arguments),
    /// Watch pools, instances, page tables and findings in the terminal, live or recorded.
    #[cfg(feature = "watch")]
    #[command(after_help = watch::AFTER_HELP)]
    Watch(watch::Arguments),
    /// List the rules, or explain one.
    Rules(rules::Arguments),
    /// Print shell completions.
    Completions(completions::Arguments),
}

/// Columns beyond which lines of prose are hard to follow.
const WIDEST_HELP: usize = 100;

const AFTER_HELP: &str = "\
Exit codes: 0 nothing wrong; 1 findings at or above --fail-on; 2 it could not do its work; \
3 a verdict is missing because some facts could not be read.";

/// The definition from which help, man pages and completions are made.
pub fn command() -> clap::Command {
    CommandLine::command()
}

/// Runs the program with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = as_options(arguments.into_iter().collect());
    match CommandLine::try_parse_from(&arguments) {
        Ok(arguments) => outcome::finish(dispatch(arguments)),
        // What a monitoring system asks wrongly is not known; the code of wrong usage would be its alarm.
        Err(wrong) if wrong.use_stderr() && verify::is_plugin(&arguments) => {
            outcome::finish(verify::unanswered(&wrong.render().to_string()))
        }
        Err(wrong) => outcome::finish(usage::explain(&wrong, &arguments)),
    }
}

/// `help`, `help size` and `version` for those who write them as commands.
fn as_options(arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    let (option, named) = match words.as_slice() {
        ["help"] | ["help", "help", ..] => ("--help", 0),
        ["help", rest @ ..] => ("--help", commands(rest).max(1)),
        ["version", ..] => ("--version", 0),
        _ => return arguments,
    };
    let named = arguments.iter().take(1).chain(arguments.iter().skip(2).take(named));
    named.cloned().chain([OsString::from(option)]).collect()
}

/// How many of the words name a command, and then one of its own commands.
fn commands(words: &[&str]) -> usize {
    let mut command = CommandLine::command();
    let names = words.iter().take_while(|word| {
        let found = command.find_subcommand(word).cloned();
        found.map(|found| command = found).is_some()
    });
    names.count()
}

fn dispatch(arguments: CommandLine) -> Result<Outcome, Failure> {
    match arguments.command {
        None => check::run(&arguments.check),
        Some(Command::Check(arguments)) => check::run(&arguments),
        Some(Command::Capture(arguments)) => capture::run(&arguments),
        Some(Command::Collect(arguments)) => collect::run(&arguments),
        Some(Command::Size(arguments)) => size::run(&arguments),
        Some(Command::Plan(arguments)) => plan::run(&arguments),
        Some(Command::Apply(arguments)) => apply::run(&arguments),
        Some(Command::Undo(arguments)) => undo::run(&arguments),
        Some(Command::Verify(arguments)) => verify::run(&arguments),
        Some(Command::Investigate(arguments)) => investigate::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
        Some(Command::Record(arguments)) => record::run(&arguments),
        Some(Command::Lab(arguments)) => lab::run(&arguments),
        Some(Command::Run(arguments)) => run::run(&arguments),
        #[cfg(feature = "serve")]
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        #[cfg(feature = "watch")]
        Some(Command::Watch(arguments)) => watch::run(&arguments),
        Some(Command::Rules(arguments)) => rules::run(&arguments),
        Some(Command::Completions(arguments)) => completions::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    #[test]
    fn help_and_version_are_options_by_other_names() {
        let said = |line: &str| {
            let words = super::as_options(line.split(' ').map(OsString::from).collect());
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (written, meant) in [
            ("hugewise help", "hugewise --help"),
            ("hugewise help size", "hugewise size --help"),
            ("hugewise version", "hugewise --version"),
            ("hugewise", "hugewise"),
            ("hugewise run help", "hugewise run help"),
            ("hugewise help a b", "hugewise a --help"),
            ("hugewise help lab logins", "hugewise lab logins --help"),
            ("hugewise help size extra", "hugewise size --help"),
            ("hugewise help help", "hugewise --help"),
        ] {
            assert_eq!(said(written), meant);
        }
    }

    #[test]
    fn the_definition_is_sound() {
        super::command().debug_assert();
    }
}
