//! `hugewise collect`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hugewise_fleet::{Asked, Summary};

use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 nothing wrong; 1 a host has an error or a warning; 2 the tables cannot be written; \
3 a capture could not be read, or a verdict is missing.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Captures, sosreports, and folders of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder of the tables; captures that are in it already are not counted again.
    #[arg(short, long, value_name = "LAKE")]
    out: PathBuf,
    /// The cluster that these hosts belong to, as a column of every table.
    #[arg(long, value_name = "CLUSTER")]
    label: Option<String>,
    /// Text for people, JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|it| i64::try_from(it.as_secs()).ok());
    let asked = Asked {
        paths: arguments.paths.clone(),
        lake: arguments.out.clone(),
        cluster: arguments.label.clone(),
        now: now.unwrap_or_default(),
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let collected = hugewise_fleet::collect(&asked, &mut std::io::stdin(), &mut |_| {});
    let summary = collected
        .map_err(|error| Failure::new(format!("the tables in {} cannot be written: {error}", asked.lake.display())))?
        .finished();
    match arguments.format {
        Format::Text => outcome::print_clean(&summary.in_words())?,
        Format::Json => {
            let text = summary.to_json();
            outcome::print(&text.map_err(|error| Failure::new(format!("the summary cannot be made: {error}")))?)?;
        }
    }
    Ok(verdict(&summary))
}

fn verdict(summary: &Summary) -> Outcome {
    if summary.has(&["error", "warn"]) {
        Outcome::Found
    } else if summary.failures.is_empty() && summary.undecided == 0 {
        Outcome::Fine
    } else {
        Outcome::Incomplete
    }
}
