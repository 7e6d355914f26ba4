//! `hugewise investigate`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hugewise_diagnose::{Diagnosis, DiagnosisOptions};
use hugewise_investigate::investigate::with_rows;
use hugewise_investigate::{
    Incident, IncidentHistory, Investigation, MOST_STORIES, Options, Series,
};
use hugewise_model::escape::shell;
use hugewise_model::{Level, Remedy};
use hugewise_report::series::SeriesFile;

use crate::format::PageFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 nothing found; 1 an incident was found; 2 it could not do its work; 3 nothing \
     found, but some of it \
could not be read.";

/// With all formats that it reads.
pub(crate) fn about() -> String {
    let tools = hugewise_investigate::readers::list_tools();
    format!("Explain a past freeze from {tools} or sosreports")
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files, folders, tars or sosreports of one or more hosts. Default: what this host's own
    /// collectors wrote.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Start here: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last day.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End here; same formats as --from.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Interval between lines of pasted text that has no times: 3s. --from says when they begin.
    #[arg(long, value_name = "SECONDS")]
    interval: Option<String>,
    /// Time zone of times that have none: Europe/Berlin, or +02:00.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<String>,
    /// How far a host's clock was ahead (db2=+3s) or behind (db2=-3s), for comparing several hosts;
    /// may be repeated.
    #[arg(long, value_name = "HOST=SECONDS")]
    offset: Vec<String>,
    /// Report only on this host, by name; may be repeated. Without it, many hosts are listed in a
    /// table first.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Also write the decoded series: FILE.csv or FILE.parquet.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Text for people, JSON for programs, or a page with charts.
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let options = Options {
        zone: arguments.timezone.clone(),
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        offsets: arguments.offset.clone(),
        interval: arguments.interval.clone(),
        hosts: arguments.host.clone(),
    };
    let investigation = match &arguments.series {
        None => {
            hugewise_investigate::investigate(&arguments.paths, &options, &terminal::show_reading)
        }
        Some(path) => return run_with(arguments, &options, path),
    };
    terminal::clear_progress();
    report_on(arguments, investigation.map_err(CommandFailure::new)?)
}

/// Writes the rows of all series to a file, too.
fn run_with(
    arguments: &Arguments,
    options: &Options,
    path: &Path,
) -> Result<CommandOutcome, CommandFailure> {
    let failed = |error: io::Error| CommandFailure::for_path(path, error);
    let mut file = SeriesFile::create(path).map_err(failed)?;
    let mut wrong = None;
    let rows = Mutex::new(|host: Option<&str>, all: &[Series]| {
        let written = all.iter().try_for_each(|series| file.add(host, series));
        wrong = wrong.take().or(written.err());
    });
    let investigation = with_rows(&arguments.paths, options, &terminal::show_reading, &rows);
    terminal::clear_progress();
    let investigation = investigation.map_err(CommandFailure::new)?;
    match wrong {
        Some(error) => return Err(failed(error)),
        None => file.finish().map_err(failed)?,
    }
    report_on(arguments, investigation)
}

/// Keeps sources without a host as well.
fn retain_hosts(investigation: &mut Investigation, names: &[String]) {
    if names.is_empty() {
        return;
    }
    investigation.hosts.retain(|history| names.iter().any(|name| history.is_named(name)));
    let left: BTreeSet<&String> =
        investigation.hosts.iter().filter_map(|history| history.host.as_ref()).collect();
    investigation
        .sources
        .retain(|source| source.host.as_ref().is_none_or(|host| left.contains(host)));
}

/// What ends an incident over page tables or a pool is what `check` finds on the same host: the
/// same words with the same numbers, and the command that does it. `live`: the archives are this
/// host's own.
pub(crate) fn add_remedies(history: &mut IncidentHistory, live: bool) {
    let over_pages = |incident: &Incident| {
        use hugewise_investigate::IncidentVerdict;
        matches!(
            incident.verdict,
            IncidentVerdict::ReclaimByPageTables
                | IncidentVerdict::PageTablesStanding
                | IncidentVerdict::PageTablesGrowing
                | IncidentVerdict::LoginStorm
                | IncidentVerdict::PoolUnused
                | IncidentVerdict::HugePagesLost
        )
    };
    if !history.incidents.iter().any(over_pages) {
        return;
    }
    let root = match (&history.facts, live) {
        (Some(facts), _) => Some(Path::new(&facts.source)),
        (None, true) => None,
        (None, false) => return,
    };
    // A tar within a tar has no path of its own.
    let Ok(source) = hugewise_host::source::open_source(root) else { return };
    let diagnosis = Diagnosis::run(source.as_ref(), &DiagnosisOptions::default());
    if live && root.is_none() && diagnosis.host.name.as_known() != history.host.as_ref() {
        return;
    }
    let about_pages = |remedy: &Remedy| {
        matches!(
            remedy,
            Remedy::SetPool(_) | Remedy::KeepAtBoot(_) | Remedy::GiveBack(_) | Remedy::Restart(_)
        )
    };
    let words: Vec<String> = diagnosis
        .remedies(Level::Warn)
        .into_iter()
        .filter(|(remedy, _)| about_pages(remedy))
        .map(|(_, what)| what)
        .collect();
    if words.is_empty() {
        return;
    }
    let plan = match root {
        Some(root) => {
            format!("hugewise plan --root {}", shell::quote_word(&root.to_string_lossy()))
        }
        None => "sudo hugewise plan".to_owned(),
    };
    for incident in history.incidents.iter_mut().filter(|incident| over_pages(incident)) {
        incident.next.retain(|line| {
            !line.starts_with("hugewise size") && !line.starts_with("hugewise plan")
        });
        incident.next.insert(0, format!("{plan}: {}", words.join("; ")));
    }
}

fn report_on(
    arguments: &Arguments,
    mut investigation: Investigation,
) -> Result<CommandOutcome, CommandFailure> {
    retain_hosts(&mut investigation, &arguments.host);
    // For very many hosts there is a table, not their stories.
    if investigation.hosts.len() <= MOST_STORIES {
        investigation
            .hosts
            .iter_mut()
            .for_each(|history| add_remedies(history, arguments.paths.is_empty()));
    }
    let text = arguments.format.render(&investigation, arguments.color, false)?;
    outcome::print_output(&text)?;
    Ok(investigate_outcome(&investigation))
}

/// Findings win over what could not be read.
fn investigate_outcome(investigation: &Investigation) -> CommandOutcome {
    if investigation.hosts.iter().any(|host| !host.incidents.is_empty()) {
        CommandOutcome::Found
    } else if investigation.sources.iter().any(|source| source.format.is_none()) {
        CommandOutcome::Incomplete
    } else {
        CommandOutcome::Fine
    }
}
