//! `hugewise investigate`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hugewise_incident::investigate::with_rows;
use hugewise_incident::{Investigation, Options, Series};
use hugewise_report::series::SeriesFile;
use hugewise_report::{html, json, text};

use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 nothing found; 1 an incident was found; 2 it could not do its work; 3 nothing was found in what could be \
read, and a part could not.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files, folders, tars or sosreports, of one host or several; without any, where collectors of this host write.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Nothing before: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 of the last day.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Nothing after; as --from.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The zone of times that come without one: Europe/Berlin, or +02:00.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<String>,
    /// Also write the decoded series: FILE.csv or FILE.parquet.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Text for people, JSON for programs, or a page with charts.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Colour in text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// One page in one file.
    Html,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let options = Options { zone: arguments.timezone.clone(), from: arguments.from.clone(), to: arguments.to.clone() };
    let investigation = match &arguments.series {
        None => hugewise_incident::investigate(&arguments.paths, &options, &terminal::reading),
        Some(path) => return run_with(arguments, &options, path),
    };
    terminal::done();
    report(arguments, &investigation.map_err(|error| Failure::new(error.to_string()))?)
}

/// With the rows of all series in a file beside.
fn run_with(arguments: &Arguments, options: &Options, path: &Path) -> Result<Outcome, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut file = SeriesFile::create(path).map_err(failed)?;
    let mut wrong = None;
    let rows = Mutex::new(|host: Option<&str>, all: &[Series]| {
        let written = all.iter().try_for_each(|series| file.add(host, series));
        wrong = wrong.take().or(written.err());
    });
    let investigation = with_rows(&arguments.paths, options, &terminal::reading, &rows);
    terminal::done();
    let investigation = investigation.map_err(|error| Failure::new(error.to_string()))?;
    match wrong {
        Some(error) => return Err(failed(error)),
        None => file.finish().map_err(failed)?,
    }
    report(arguments, &investigation)
}

fn report(arguments: &Arguments, investigation: &Investigation) -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    let written = match arguments.format {
        Format::Text => text::investigate::write(investigation, &mut text, terminal::layout(arguments.color, false)),
        Format::Json => json::investigate::write(investigation, &mut text),
        Format::Html => html::investigate::write(investigation, &mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    outcome::print(&text)?;
    Ok(verdict(investigation))
}

/// What was found wins over what could not be read.
fn verdict(investigation: &Investigation) -> Outcome {
    if investigation.hosts.iter().any(|host| !host.incidents.is_empty()) {
        Outcome::Found
    } else if investigation.sources.iter().any(|source| source.format.is_none()) {
        Outcome::Incomplete
    } else {
        Outcome::Fine
    }
}
