//! `hugewise record`.

mod export;
mod look;
mod status;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use hugewise_record::Options;
use hugewise_record::record::{RecorderNotice, USUAL_FOLDER};
use hugewise_report::plain;

use crate::outcome::{self, CommandFailure, CommandOutcome};

pub(crate) const AFTER_HELP: &str = "\
Records until SIGTERM or SIGINT. The recording can be read while it is being written:

  sudo hugewise record     records in the foreground
  hugewise record status   shows whether it is running, and what is missing
  hugewise investigate /var/lib/hugewise/record
  hugewise watch --replay /var/lib/hugewise/record
  hugewise record export --format oswatcher --out FOLDER

Exit codes: 0 stopped by SIGTERM or SIGINT; 2 recording failed.";

pub(crate) const STATUS_HELP: &str = "\
Exit codes: 0 recording; 1 not recording; 2 the status could not be read.";
pub(crate) const EXPORT_HELP: &str = "\
Exit codes: 0 exported; 2 the export failed.";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<RecordCommand>,
    #[command(flatten)]
    recording: RecorderArguments,
}

#[derive(Subcommand)]
enum RecordCommand {
    /// Show whether the recorder is running, since when, what data is missing, and what it costs.
    #[command(after_help = STATUS_HELP)]
    Status(status::Arguments),
    /// Export a recording for other tools: OSWatcher's layout, CSV, Parquet or JSON lines.
    #[command(after_help = EXPORT_HELP)]
    Export(export::Arguments),
    /// Name the database servers and their processes, for the recorder.
    #[command(hide = true)]
    Look,
}

#[derive(Args)]
struct RecorderArguments {
    /// Folder to record to; only root may be able to write to it.
    #[arg(long, value_name = "FOLDER", default_value = USUAL_FOLDER)]
    out: PathBuf,
    /// Seconds between samples.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Hours to keep every sample.
    #[arg(long, value_name = "HOURS", default_value = "24", value_parser = clap::value_parser!(u64).range(1..=744))]
    hours: u64,
    /// Days to keep one sample a minute.
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=366))]
    days: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    match &arguments.command {
        None => run_recorder(&arguments.recording),
        Some(RecordCommand::Status(arguments)) => status::run(arguments),
        Some(RecordCommand::Export(arguments)) => export::run(arguments),
        Some(RecordCommand::Look) => look::run(),
    }
}

fn run_recorder(arguments: &RecorderArguments) -> Result<CommandOutcome, CommandFailure> {
    let options = Options {
        folder: arguments.out.clone(),
        interval: Duration::from_secs(arguments.interval),
        hours: arguments.hours,
        days: arguments.days,
        looker: ["/proc/self/exe", "record", "look"].map(str::to_owned).to_vec(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        samples: None,
    };
    hugewise_record::run_recorder(&options, &report_recorder_news).map_err(|error| {
        let advice = if rustix::process::geteuid().is_root() { "" } else { "; run it as root" };
        CommandFailure::new(format!("{error}{advice}"))
    })?;
    Ok(CommandOutcome::Fine)
}

/// Success goes to standard output, trouble to standard error.
fn report_recorder_news(news: RecorderNotice) {
    match news {
        RecorderNotice::Lacks(what) => {
            let _ = outcome::print_complaint(
                &format!("recording without {what}"),
                CommandOutcome::Fine,
            );
        }
        RecorderNotice::Moved(what) => {
            let _ = outcome::print_complaint(&what, CommandOutcome::Fine);
        }
        RecorderNotice::Records(folder, bytes) => {
            let folder = folder.display().to_string();
            let text =
                format!("recording to {}, {} MiB\n", plain::escape_line(&folder), bytes >> 20);
            // Recording goes on if standard output is closed.
            let _ = outcome::print_output(text.as_bytes());
        }
    }
}
