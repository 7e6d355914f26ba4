//! `hugewise report`.

use std::io::IsTerminal;
use std::path::PathBuf;

use hugewise_diagnose::sizing::{self, Request, SizeError};
use hugewise_diagnose::target::PoolGoal;
use hugewise_diagnose::{Assessment, Diagnosis, target};
use hugewise_host::Source;
use hugewise_investigate::{Investigation, Options};
use hugewise_model::escape::shell;
use hugewise_model::{Host, Instance, Unread};
use hugewise_report::{CheckOutcome, CheckReport, CountedServers, HostReport, SizeReport, Stop};

use crate::captured_system::CapturedSystem;
use crate::check::FailOn;
use crate::failover_instances::Also;
use crate::format::PageFormat;
use crate::hints::PathKind;
use crate::investigate;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::plan::{self, Bent, MadePlan, Wishes};
use crate::size;
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
The host is read once; check, plan and size answer from that reading. report changes nothing.

  sudo hugewise report -o db7.html
  sudo hugewise report -o db7.html /var/log/sa
  hugewise report --root capture.tar.gz --format json

Exit codes: 0 nothing wrong; 1 findings at or above --fail-on, or an incident in the archives; 2 \
     it could not do its \
work; 3 a verdict is missing because some facts could not be read.";

/// Hosts of the archives that are also checked.
const MOST_CHECKED: usize = 60;

fn archives_help() -> String {
    let tools = hugewise_investigate::readers::list_tools();
    format!("Archives of this host for the part on past incidents: {tools} files or folders")
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(value_name = "PATH", help = archives_help())]
    archives: Vec<PathBuf>,
    /// Report on a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or
    /// sosreport.
    #[arg(long, value_name = "PATH", conflicts_with = "connect")]
    root: Option<PathBuf>,
    /// A single HTML page, text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = PageFormat::Html)]
    format: PageFormat,
    /// Write to this file instead of standard output. A file of that name is replaced once the
    /// report is complete.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 if there are findings of this level or worse.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = FailOn::Warn)]
    fail_on: FailOn,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to
    /// nothing.
    #[arg(long)]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    if arguments.output.is_none()
        && arguments.format == PageFormat::Html
        && std::io::stdout().is_terminal()
    {
        return Err(CommandFailure::new(
            "the report is an HTML page: write it to a file with -o report.html, or read it here \
                 with --format text",
        ));
    }
    // Before the archives are read, so that wrong paths are reported at once.
    let investigation = investigate_archives(arguments)?;
    let source = outcome::open_source(arguments.root.as_deref())?;
    let options = plan::diagnosis_options(arguments.connect);
    let diagnosis = arguments.also.diagnose(source.as_ref(), &options)?;
    let planned = make_report_plan(arguments, diagnosis.clone(), source.as_ref());
    let Diagnosis { host, instances, assessment, unread, .. } = &diagnosis;
    let checked = CheckReport::from_diagnosis(&diagnosis, arguments.root.as_deref());

    let sizing = ReportSizing::new(host, instances, assessment);
    let nothing = sizing.unsized_why(host);
    let report = HostReport {
        made_at: crate::unix_now(),
        checked,
        sized: sizing.report(host, unread).ok_or(nothing.as_str()),
        stops: &sizing.stops,
        planned: planned.as_ref().map(MadePlan::report).map_err(CommandFailure::message),
        investigation: investigation.as_ref(),
    };
    write(arguments, &report)?;
    Ok(report_outcome(&report, arguments.fail_on))
}

/// The host and its servers, as `hugewise size` sizes them.
struct ReportSizing {
    request: Request,
    /// As a plan would have them.
    sized: Vec<Instance>,
    answer: Result<(sizing::Sizing, Vec<PoolGoal>), SizeError>,
    shrunk: Vec<PoolGoal>,
    /// For other numbers of sessions.
    stops: Vec<Stop>,
}

impl ReportSizing {
    fn new(host: &Host, instances: &[Instance], assessment: &Assessment) -> Self {
        let mut sized = instances.to_vec();
        target::planned_for(host, &mut sized, assessment);
        let request = Request { proposed: true, ..Request::default() };
        let answer = size::of_host(host, instances, assessment, &sized, &request);
        let shrunk = size::shrunk_pools(host, instances, assessment, &request);
        let stop = |sessions| {
            let request = Request { sessions: Some(sessions), ..request.clone() };
            let answer = size::of_host(host, instances, assessment, &sized, &request);
            Some(Stop { sessions, sizing: answer.ok()?.0 })
        };
        let stops = match &answer {
            Ok((sizing, _)) => sizing::session_stops(sizing).into_iter().filter_map(stop).collect(),
            Err(_) => Vec::new(),
        };
        Self { request, sized, answer, shrunk, stops }
    }

    fn report<'a>(&'a self, host: &'a Host, unread: &'a [Unread]) -> Option<SizeReport<'a>> {
        let (sizing, planned) = self.answer.as_ref().ok()?;
        Some(SizeReport {
            host,
            instances: &self.sized,
            request: &self.request,
            sizing,
            planned,
            shrunk: &self.shrunk,
            unread,
        })
    }

    /// A part of a sentence.
    fn unsized_why(&self, host: &Host) -> String {
        match &self.answer {
            Ok(_) => return String::new(),
            Err(SizeError::NothingToSize) => {}
            Err(error) => return error.to_string(),
        }
        size::explain_left_out(host, &self.sized, &self.request)
            .unwrap_or_else(|| "no server that could use huge pages was found on this host".into())
    }
}

fn investigate_archives(arguments: &Arguments) -> Result<Option<Investigation>, CommandFailure> {
    if arguments.archives.is_empty() {
        return Ok(None);
    }
    let told = hugewise_investigate::investigate(
        &arguments.archives,
        &Options::default(),
        &terminal::show_reading,
    );
    terminal::clear_progress();
    let mut told = told.map_err(|error| {
        let host = arguments
            .archives
            .iter()
            .find(|path| matches!(PathKind::from_path(path), PathKind::Host));
        host.map_or_else(
            || CommandFailure::new(error),
            |host| {
                let word = shell::quote_word(&host.to_string_lossy());
                CommandFailure::new(format!(
                    "{} is a captured host: run hugewise report --root {word}",
                    host.display()
                ))
            },
        )
    })?;
    if told.hosts.len() <= MOST_CHECKED {
        told.hosts.iter_mut().for_each(|history| investigate::add_remedies(history, false));
    }
    Ok(Some(told))
}

/// The plan that `hugewise plan` would make of the same reading.
fn make_report_plan(
    arguments: &Arguments,
    diagnosis: Diagnosis,
    source: &dyn Source,
) -> Result<MadePlan, CommandFailure> {
    let wishes = Wishes::with_also(arguments.also.clone());
    if arguments.root.is_some() {
        return wishes.plan_diagnosed_host(
            diagnosis,
            source,
            &CapturedSystem(source),
            Bent::default(),
        );
    }
    let system = plan::open_live_system()?;
    let unread: Vec<Unread> = plan::refuse_half_changed(&system)?;
    let mut made = wishes.plan_diagnosed_host(diagnosis, source, &system, Bent::default())?;
    made.unread.extend(unread);
    Ok(made)
}

fn write(arguments: &Arguments, report: &HostReport<'_>) -> Result<(), CommandFailure> {
    let text = arguments.format.render(report, arguments.color, false)?;
    match &arguments.output {
        Some(path) => {
            outcome::replace_file(path, &text)?;
            terminal::show_note(&format!("Wrote {}. Only its owner can read it.", path.display()));
            Ok(())
        }
        None => outcome::print_output(&text),
    }
}

/// Findings win over what could not be read or planned.
fn report_outcome(report: &HostReport<'_>, fail_on: FailOn) -> CommandOutcome {
    let answer = report.checked.decide_outcome(fail_on.level(), CountedServers::VouchedFor);
    let told = report.investigation;
    let incident = told.is_some_and(|investigation| {
        investigation.hosts.iter().any(|history| !history.incidents.is_empty())
    });
    let partly = told.is_some_and(|investigation| {
        investigation.sources.iter().any(|source| source.format.is_none())
    });
    match answer {
        CheckOutcome::Found => CommandOutcome::Found,
        _ if incident && fail_on.level().is_some() => CommandOutcome::Found,
        CheckOutcome::Incomplete => CommandOutcome::Incomplete,
        CheckOutcome::Fine if partly || report.planned.is_err() => CommandOutcome::Incomplete,
        CheckOutcome::Fine => CommandOutcome::Fine,
    }
}
