//! `hugewise lab`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use hugewise_host::{Door, Source, kernel};
use hugewise_lab::budget::Gauge;
use hugewise_lab::cancel::Cancel;
use hugewise_lab::experiment::{self, Experiment, Options, Outcome as Found, Outline, Progress};
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Host, Observed};
use hugewise_report::LabReport;
use hugewise_report::lab::Forecast;
use hugewise_report::text::lab::write_plan;

use crate::described::size;
use crate::format::PageFormat;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

mod access;
mod logins;
mod page_tables;
mod pool;
mod server;
mod sort;
mod workload;

pub(crate) const AFTER_HELP: &str = "\
Each experiment first says how long it takes, how much memory it needs and what it changes on the host, and it refuses \
if the host has too little memory. However it ends, it restores pools and switches.

  hugewise lab page-tables --sessions 200 --segment 4G --format html --out page-tables.html
  hugewise lab logins
  hugewise lab sort --pages 4k,2m

Exit codes: 0 measured; 2 it could not do its work, or you did not allow it; 3 it was stopped early.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    experiment: Name,
}

#[derive(clap::Subcommand)]
enum Name {
    /// Page tables as sessions are added, in total and per session, next to the forecast that size makes.
    PageTables(page_tables::Arguments),
    /// A login storm: how long each login takes, all at once and one by one.
    Logins(logins::Arguments),
    /// Sort rows in private memory, by page size and extent.
    Sort(sort::Arguments),
    /// First touch, filling with all cores, random access and fork of private memory.
    Access(access::Arguments),
    /// How fast a pool can be filled from fresh and from fragmented memory, and how many surplus pages it can get.
    Pool(pool::Arguments),
    /// A read-only workload on a PostgreSQL started for it: transactions, latency, page tables.
    Workload(workload::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.experiment {
        Name::PageTables(arguments) => page_tables::run(arguments),
        Name::Logins(arguments) => logins::run(arguments),
        Name::Sort(arguments) => sort::run(arguments),
        Name::Access(arguments) => access::run(arguments),
        Name::Pool(arguments) => pool::run(arguments),
        Name::Workload(arguments) => workload::run(arguments),
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
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
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
    /// Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl Common {
    /// The pages that were asked for, or these.
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

    fn options(&self) -> Options {
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

/// Base pages first, then every kind that memory can stand on.
pub(crate) fn all_pages() -> Vec<Variant> {
    vec![Variant::Base, Variant::Thp, Variant::MIB_2, Variant::GIB_1]
}

/// Plans, asks, measures and prints. `forecasts` sets what was found beside what `size` says.
pub(crate) fn measure(
    common: &Common,
    experiment: &mut dyn Experiment,
    forecasts: &dyn Fn(&Host, &Found) -> Vec<Forecast>,
) -> Result<Outcome, Failure> {
    let failed = |failure: experiment::Failure| Failure::new(failure.to_string());
    let options = common.options();
    let plan = experiment::outline(experiment, &options, &Gauge::new()).map_err(failed)?;
    if common.plan {
        return planned(common, &plan);
    }
    state(&plan);
    if let Some(refusal) = &plan.refusal {
        return Err(Failure::new(refusal.clone()));
    }
    if !common.yes && !plan.changes.is_empty() {
        consent()?;
    }
    if let Some(folder) = &common.keep {
        // Before the minutes that measuring takes, not after.
        make_folder(folder)?;
    }
    let cancel = Cancel::on_signals().map_err(|error| Failure::new(format!("signals: {error}")))?;
    let found = experiment::run(experiment, &options, plan, &cancel, &mut show);
    terminal::done();
    let found = found.map_err(failed)?;
    let host = host();
    let forecasts = forecasts(&host, &found);
    let report = LabReport { host: &host, outcome: &found, forecasts: &forecasts };
    print(common, &report)?;
    if let Some(folder) = &common.keep {
        keep(folder, &report)?;
    }
    Ok(if found.stopped.is_some() { Outcome::Incomplete } else { Outcome::Fine })
}

/// The kernel's facts of this host; its processes are nobody's business here.
fn host() -> Host {
    let source = hugewise_host::source::Live::new();
    let machine = source.machine();
    let mut host = Host {
        live: machine.live,
        base_page: machine.base_page,
        read_at: machine.read_at,
        read_as: machine.read_as,
        architecture: machine.architecture,
        ..Host::default()
    };
    host.processors.tlb = machine.tlb;
    let mut door = Door::new(&source);
    kernel::read(&mut door, &mut host);
    host.name = match rustix::system::uname().nodename().to_str() {
        Ok(name) => Observed::Known(name.to_owned()),
        Err(_) => Observed::Absent,
    };
    host
}

fn planned(common: &Common, plan: &Outline) -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    let written = match common.format {
        PageFormat::Json => hugewise_report::json::lab::write_plan(plan, &mut text),
        PageFormat::Text | PageFormat::Html => write_plan(plan, &mut text, terminal::layout(common.color, false)),
    };
    written.map_err(|error| Failure::new(format!("the plan cannot be made: {error}")))?;
    outcome::print(&text)?;
    match &plan.refusal {
        Some(refusal) => Err(Failure::new(refusal.clone())),
        None => Ok(Outcome::Fine),
    }
}

/// Says what will be done, before it is done. Nobody is left to tell where standard error is closed.
fn state(plan: &Outline) {
    let mut text = Vec::new();
    if write_plan(plan, &mut text, terminal::layout(ColorChoice::Never, false)).is_ok() {
        let _ = io::stderr().lock().write_all(&text);
    }
}

fn consent() -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new("it would change settings of this host while it runs; allow that with --yes"));
    }
    let _ = write!(io::stderr().lock(), "Go on? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    let yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if yes { Ok(()) } else { Err(Failure::new("nothing was done")) }
}

fn show(progress: &Progress) {
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
    terminal::progress(&format!("\r{done} of {}: {round}, {}{left} \x1b[K", progress.of, progress.pages));
}

/// Whoever has waited for minutes wants to measure nothing again for another form of it.
fn keep(folder: &Path, report: &LabReport<'_>) -> Result<(), Failure> {
    make_folder(folder)?;
    let name = &report.outcome.plan.experiment;
    let failed = |error: io::Error| Failure::new(format!("the report cannot be made: {error}"));
    let (mut json, mut page) = (Vec::new(), Vec::new());
    report.write_json(&mut json).map_err(failed)?;
    report.write_html(&mut page).map_err(failed)?;
    outcome::write_file(&folder.join(format!("{name}.json")), &json)?;
    outcome::write_file(&folder.join(format!("{name}.html")), &page)?;
    for (at, chart) in report.charts().iter().enumerate() {
        outcome::write_file(&folder.join(format!("{name}-{}.svg", at + 1)), chart.standalone().as_bytes())?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "the user named the folder; nothing of the host is read")]
fn make_folder(folder: &Path) -> Result<(), Failure> {
    // A last `.` is a folder that cannot be made: what stands before it is.
    let folder: PathBuf = folder.components().collect();
    std::fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
}

fn print(common: &Common, report: &LabReport<'_>) -> Result<(), Failure> {
    let mut text = Vec::new();
    let color = if common.out.is_some() { ColorChoice::Never } else { common.color };
    let written = match common.format {
        PageFormat::Text => report.write_text(&mut text, terminal::layout(color, false)),
        PageFormat::Json => report.write_json(&mut text),
        PageFormat::Html => report.write_html(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    match &common.out {
        Some(path) => outcome::write_file(path, &text),
        None => outcome::print(&text),
    }
}
