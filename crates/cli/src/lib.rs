//! The command line of hugewise: arguments in, calls, exit code out; one file a subcommand.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod apply;
mod argument;
mod capture;
mod captured_system;
mod check;
mod collect;
mod completions;
mod described_servers;
mod failover_instances;
mod format;
mod hints;
mod host_namespaces;
mod instance_selection;
mod investigate;
mod lab;
mod log_agreement;
mod outcome;
mod plan;
mod pod;
mod record;
mod report;
mod rules;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod size;
mod terminal;
mod undo;
mod verify;
#[cfg(feature = "watch")]
mod watch;

use outcome::{CommandFailure, CommandOutcome};

/// Check whether the databases on a host use huge pages, find out why not, and fix it.
#[derive(Parser)]
#[command(
    name = "hugewise",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    term_width = terminal::output_width().min(WIDEST_HELP),
    after_help = AFTER_HELP
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    check: check::Arguments,
}

#[derive(Subcommand)]
enum CliCommand {
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
    #[command(about = investigate::about(), after_help = investigate::AFTER_HELP)]
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
    /// Say what becomes of a Kubernetes manifest's huge pages, and correct it.
    #[command(after_help = pod::AFTER_HELP)]
    Pod(pod::Arguments),
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

/// Longer lines of prose are hard to follow.
const WIDEST_HELP: usize = 100;

const AFTER_HELP: &str = "\
Exit codes: 0 nothing wrong; 1 findings at or above --fail-on; 2 it could not do its work; \
3 a verdict is missing because some facts could not be read.";

/// The definition for help, man pages and completions.
pub fn command_definition() -> clap::Command {
    CommandLine::command()
}

/// Runs the program with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = as_options(arguments.into_iter().collect());
    // As `try_parse_from`, but without the program's usage, which that adds to errors.
    let parsed = CommandLine::command()
        .try_get_matches_from(&arguments)
        .and_then(|mut matches| CommandLine::from_arg_matches_mut(&mut matches));
    match parsed {
        Ok(arguments) => outcome::report_exit_code(dispatch_command(arguments)),
        // For a plugin, the exit code of wrong usage would mean an alarm.
        Err(wrong) if wrong.use_stderr() && verify::is_plugin(&arguments) => {
            outcome::report_exit_code(verify::print_unanswered(&wrong.render().to_string()))
        }
        Err(wrong) => outcome::report_exit_code(hints::explain_usage_error(wrong, &arguments)),
    }
}

/// `help`, `help size` and `version` as options.
fn as_options(arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<&str> =
        arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    let (option, named) = match words.as_slice() {
        ["help"] | ["help", "help", ..] => ("--help", 0),
        ["help", rest @ ..] => ("--help", count_commands(rest).max(1)),
        ["version", ..] => ("--version", 0),
        _ => return arguments,
    };
    let named = arguments.iter().take(1).chain(arguments.iter().skip(2).take(named));
    named.cloned().chain([OsString::from(option)]).collect()
}

/// How many words name a command and its subcommands.
fn count_commands(words: &[&str]) -> usize {
    let mut command = CommandLine::command();
    let names = words.iter().take_while(|word| {
        let found = command.find_subcommand(word).cloned();
        found.map(|found| command = found).is_some()
    });
    names.count()
}

/// Seconds since the epoch; 0 if the clock is before it.
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn dispatch_command(arguments: CommandLine) -> Result<CommandOutcome, CommandFailure> {
    match arguments.command {
        None => check::run(&arguments.check),
        Some(CliCommand::Check(arguments)) => check::run(&arguments),
        Some(CliCommand::Capture(arguments)) => capture::run(&arguments),
        Some(CliCommand::Collect(arguments)) => collect::run(&arguments),
        Some(CliCommand::Size(arguments)) => size::run(&arguments),
        Some(CliCommand::Plan(arguments)) => plan::run(&arguments),
        Some(CliCommand::Apply(arguments)) => apply::run(&arguments),
        Some(CliCommand::Undo(arguments)) => undo::run(&arguments),
        Some(CliCommand::Verify(arguments)) => verify::run(&arguments),
        Some(CliCommand::Investigate(arguments)) => investigate::run(&arguments),
        Some(CliCommand::Report(arguments)) => report::run(&arguments),
        Some(CliCommand::Record(arguments)) => record::run(&arguments),
        Some(CliCommand::Lab(arguments)) => lab::run(&arguments),
        Some(CliCommand::Pod(arguments)) => pod::run(&arguments),
        Some(CliCommand::Run(arguments)) => run::run(&arguments),
        #[cfg(feature = "serve")]
        Some(CliCommand::Serve(arguments)) => serve::run(&arguments),
        #[cfg(feature = "watch")]
        Some(CliCommand::Watch(arguments)) => watch::run(&arguments),
        Some(CliCommand::Rules(arguments)) => rules::run(&arguments),
        Some(CliCommand::Completions(arguments)) => completions::run(&arguments),
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
        super::command_definition().debug_assert();
    }
}
