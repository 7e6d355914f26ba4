//! `hugewise lab`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hugewise_host::source::RawSource as _;
use hugewise_host::source::output_place::create_output_folder;
use hugewise_host::{FactReader, kernel};
use hugewise_lab::budget::ResourceGauge;
use hugewise_lab::cancel::Cancel;
use hugewise_lab::experiment::{
    self, Experiment, ExperimentOutcome as Found, ExperimentProgress, Options, Outline,
};
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Host, Observed};
use hugewise_report::LabReport;
use hugewise_report::lab::LabForecast;
use hugewise_report::text::lab::write_plan;

use crate::described_servers::parse_size;
use crate::format::PageFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

mod access;
mod logins;
mod page_tables;
mod pool;
mod server;
mod sort;
mod workload;

pub(crate) const AFTER_HELP: &str = "\
Each experiment first says how long it takes, how much memory it needs and what it changes on the \
     host, and it refuses \
if the host has too little memory. However it ends, it restores pools and switches.

  hugewise lab page-tables --sessions 200 --segment 4G --format html --out page-tables.html
  hugewise lab logins
  hugewise lab sort --pages 4k,2m

Exit codes: 0 measured; 2 it could not do its work, or you did not allow it; 3 it was stopped \
     early.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    experiment: LabExperiment,
}

#[derive(clap::Subcommand)]
enum LabExperiment {
    /// Page tables as sessions are added, in total and per session, next to the forecast that size
    /// makes.
    PageTables(page_tables::Arguments),
    /// A login storm: how long each login takes, all at once and one by one.
    Logins(logins::Arguments),
    /// Sort rows in private memory, by page size and extent.
    Sort(sort::Arguments),
    /// First touch, filling with all cores, random access and fork of private memory.
    Access(access::Arguments),
    /// How fast a pool can be filled from fresh and from fragmented memory, and how many surplus
    /// pages it can get.
    Pool(pool::Arguments),
    /// A read-only workload on a PostgreSQL started for it: transactions, latency, page tables.
    Workload(workload::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    match &arguments.experiment {
        LabExperiment::PageTables(arguments) => page_tables::run(arguments),
        LabExperiment::Logins(arguments) => logins::run(arguments),
        LabExperiment::Sort(arguments) => sort::run(arguments),
        LabExperiment::Access(arguments) => access::run(arguments),
        LabExperiment::Pool(arguments) => pool::run(arguments),
        LabExperiment::Workload(arguments) => workload::run(arguments),
    }
}

/// What every experiment takes.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pages: Vec<Variant>,
    /// Rounds; each measures every page size once.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Warm-up rounds, which are not counted.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    warm_ups: u32,
    /// Seed for the order of page sizes within a round.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Keep at least this much memory free, if that is more than hugewise keeps free anyway.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    keep_free: Option<Bytes>,
    /// Only show what the experiment would do and need.
    #[arg(long)]
    plan: bool,
    /// Don't ask before changing pools or switches.
    #[arg(short, long)]
    yes: bool,
    /// Text for people, JSON for programs, or a page with plots.
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// Write the results to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and
    /// so on.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl Common {
    /// Without duplicates.
    pub(crate) fn pages_or(&self, usual: Vec<Variant>) -> Vec<Variant> {
        let mut pages = if self.pages.is_empty() { usual } else { self.pages.clone() };
        let mut seen = Vec::new();
        pages.retain(|pages| {
            let new = !seen.contains(pages);
            seen.push(*pages);
            new
        });
        pages
    }

    fn experiment_options(&self) -> Options {
        Options {
            rounds: self.runs,
            warm_ups: self.warm_ups,
            seed: self.seed,
            floor: self.keep_free.unwrap_or_default(),
        }
    }
}

/// Base pages first, then those of the usual pools.
pub(crate) fn usual_pages() -> Vec<Variant> {
    vec![Variant::Base, Variant::MIB_2, Variant::GIB_1]
}

/// Base pages first, then every kind that can back memory.
pub(crate) fn all_pages() -> Vec<Variant> {
    vec![Variant::Base, Variant::Thp, Variant::MIB_2, Variant::GIB_1]
}

/// Plans, asks, measures and prints. `forecasts` gives what `size` says of the same.
pub(crate) fn run_measurement(
    common: &Common,
    experiment: &mut dyn Experiment,
    forecasts: &dyn Fn(&Host, &Found) -> Vec<LabForecast>,
) -> Result<CommandOutcome, CommandFailure> {
    let failed = |failure: experiment::ExperimentFailure| CommandFailure::new(failure);
    let options = common.experiment_options();
    let plan =
        experiment::plan_experiment(experiment, &options, &ResourceGauge::new()).map_err(failed)?;
    if common.plan {
        return print_plan(common, &plan);
    }
    announce_plan(&plan);
    if let Some(refusal) = &plan.refusal {
        return Err(CommandFailure::new(refusal.clone()));
    }
    if !common.yes && !plan.changes.is_empty() {
        ask_consent()?;
    }
    if let Some(folder) = &common.keep {
        // Fails before the minutes of measuring, not after.
        make_folder(folder)?;
    }
    let cancel =
        Cancel::on_signals().map_err(|error| CommandFailure::new(format!("signals: {error}")))?;
    let found = experiment::run(experiment, &options, plan, &cancel, &mut show_progress);
    terminal::clear_progress();
    let found = found.map_err(failed)?;
    let host = read_host();
    let forecasts = forecasts(&host, &found);
    let report = LabReport { host: &host, outcome: &found, forecasts: &forecasts };
    print_report(common, &report)?;
    if let Some(folder) = &common.keep {
        save_report(folder, &report)?;
    }
    Ok(if found.stopped.is_some() { CommandOutcome::Incomplete } else { CommandOutcome::Fine })
}

/// Only the kernel's facts, no processes.
fn read_host() -> Host {
    let source = hugewise_host::source::LiveSource::new();
    let machine = source.machine_facts();
    let mut host = Host {
        live: machine.live,
        base_page: machine.base_page,
        read_at: machine.read_at,
        read_as: machine.read_as,
        architecture: machine.architecture,
        ..Host::default()
    };
    host.processors.tlb = machine.tlb;
    let mut door = FactReader::new(&source);
    kernel::read(&mut door, &mut host);
    host.name = match rustix::system::uname().nodename().to_str() {
        Ok(name) => Observed::Known(name.to_owned()),
        Err(_) => Observed::Absent,
    };
    host
}

fn print_plan(common: &Common, plan: &Outline) -> Result<CommandOutcome, CommandFailure> {
    let layout = terminal::text_layout(common.color, false);
    let text = outcome::render_report(|out| match common.format {
        PageFormat::Json => hugewise_report::json::lab::write_plan(plan, out),
        PageFormat::Text | PageFormat::Html => write_plan(plan, out, layout),
    })?;
    outcome::print_output(&text)?;
    match &plan.refusal {
        Some(refusal) => Err(CommandFailure::new(refusal.clone())),
        None => Ok(CommandOutcome::Fine),
    }
}

/// If standard error is closed, nobody is left to tell.
fn announce_plan(plan: &Outline) {
    let mut text = Vec::new();
    if write_plan(plan, &mut text, terminal::text_layout(ColorChoice::Never, false)).is_ok() {
        let _ = io::stderr().lock().write_all(&text);
    }
}

fn ask_consent() -> Result<(), CommandFailure> {
    if !terminal::can_ask() {
        return Err(CommandFailure::new(
            "it would change settings of this host while it runs; allow that with --yes",
        ));
    }
    let _ = write!(io::stderr().lock(), "Go on? [y/N] ");
    match terminal::read_yes() {
        Ok(true) => Ok(()),
        _ => Err(CommandFailure::new("nothing was done")),
    }
}

fn show_progress(progress: &ExperimentProgress) {
    let round = if progress.warm_up {
        "warm-up".to_owned()
    } else {
        format!("round {} of {}", progress.round, progress.rounds)
    };
    let left = match progress.done {
        0 => String::new(),
        _ => format!(", {} s left", progress.left.as_secs()),
    };
    let done = progress.done.saturating_add(1);
    terminal::show_progress(&format!(
        "\r{done} of {}: {round}, {}{left} \x1b[K",
        progress.of, progress.pages
    ));
}

/// In all formats, so that nobody measures again for another one.
fn save_report(folder: &Path, report: &LabReport<'_>) -> Result<(), CommandFailure> {
    make_folder(folder)?;
    let name = &report.outcome.plan.experiment;
    for (format, end) in [(PageFormat::Json, "json"), (PageFormat::Html, "html")] {
        let text = format.render(report, ColorChoice::Never, false)?;
        outcome::write_file(&folder.join(format!("{name}.{end}")), &text)?;
    }
    for (at, chart) in report.charts().iter().enumerate() {
        outcome::write_file(
            &folder.join(format!("{name}-{}.svg", at + 1)),
            chart.to_standalone_svg().as_bytes(),
        )?;
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<(), CommandFailure> {
    create_output_folder(folder).map_err(|error| CommandFailure::for_path(folder, error))
}

fn print_report(common: &Common, report: &LabReport<'_>) -> Result<(), CommandFailure> {
    let color = if common.out.is_some() { ColorChoice::Never } else { common.color };
    let text = common.format.render(report, color, false)?;
    match &common.out {
        Some(path) => outcome::write_file(path, &text),
        None => outcome::print_output(&text),
    }
}
