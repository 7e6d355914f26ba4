//! `hugewise report`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hugewise_advice::sizing::{self, Request, SizeError};
use hugewise_advice::{Assessment, assess, target};
use hugewise_host::Source;
use hugewise_incident::{Investigation, Options};
use hugewise_model::escape::shell;
use hugewise_model::{Host, Instance, Unread};
use hugewise_report::{Answer, Checked, HostReport, Planned, SizeReport, Stop};

use crate::also::Also;
use crate::captured::Captured;
use crate::check::FailOn;
use crate::format::PageFormat;
use crate::given::Given;
use crate::investigate;
use crate::outcome::{self, Failure, Outcome};
use crate::plan::{self, Bent, Made, Seen, Wishes};
use crate::size;
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
The host is read once; check, plan and size answer from that reading. report changes nothing.

  sudo hugewise report -o db7.html
  sudo hugewise report -o db7.html /var/log/sa
  hugewise report --root capture.tar.gz --format json

Exit codes: 0 nothing wrong; 1 findings at or above --fail-on, or an incident in the archives; 2 it could not do its \
work; 3 a verdict is missing because some facts could not be read.";

/// Hosts of the archives that are checked beside what these say.
const MOST_CHECKED: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Archives of this host for the part on past incidents: sar, OSWatcher, vmstat, atop, PCP, nmon files or folders.
    #[arg(value_name = "PATH")]
    archives: Vec<PathBuf>,
    /// Report on a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH", conflicts_with = "connect")]
    root: Option<PathBuf>,
    /// A single HTML page, text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = PageFormat::Html)]
    format: PageFormat,
    /// Write to this file instead of standard output. A file of that name is replaced once the report is complete.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 if there are findings of this level or worse.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = FailOn::Warn)]
    fail_on: FailOn,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to nothing.
    #[arg(long)]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.output.is_none() && arguments.format == PageFormat::Html && std::io::stdout().is_terminal() {
        return Err(Failure::new(
            "the report is an HTML page: write it to a file with -o report.html, or read it here with --format text",
        ));
    }
    // Nobody waits for archives to be read who has named what is none.
    let investigation = incidents(arguments)?;
    let source = outcome::open(arguments.root.as_deref())?;
    let seen = Seen::read(source.as_ref(), arguments.connect);
    let planned = planned(arguments, seen.clone(), source.as_ref());

    let Seen { host, mut instances, mut unread, .. } = seen;
    arguments.also.add(&host, source.as_ref(), &mut instances, &mut unread)?;
    unread.sort();
    unread.dedup();
    // What check looks at beside: whose the sessions are. The sizes hang on none of that.
    let mut watched = instances.clone();
    hugewise_engines::crowd::look(&host, source.as_ref(), &mut watched);
    let assessment = assess(&host, &watched);
    let root = arguments.root.as_deref();
    let checked = Checked { host: &host, instances: &watched, assessment: &assessment, unread: &unread, root };

    let mut sized = instances.clone();
    target::planned_for(&host, &mut sized, &assessment);
    let request = Request { proposed: true, ..Request::default() };
    let answer = size::of_host(&host, &instances, &assessment, &sized, &request);
    let nothing = answer.as_ref().err().map(|error| unsized_why(error, &host, &sized, &request)).unwrap_or_default();
    let shrunk = size::shrunk(&host, &instances, &assessment, &request);
    let stops = match &answer {
        Ok((sizing, _)) => stops(&Asked { host: &host, all: &instances, sized: &sized }, &assessment, sizing),
        Err(_) => Vec::new(),
    };
    let answer = answer.as_ref().map_err(|_| nothing.as_str());
    let size_report = answer.map(|(sizing, planned)| SizeReport {
        host: &host,
        instances: &sized,
        request: &request,
        sizing,
        planned,
        shrunk: &shrunk,
        unread: &unread,
    });
    let plan_report = planned.as_ref().map_err(Failure::message).map(|made| Planned {
        host: &made.host,
        plan: &made.plan,
        kept: None,
        options: "",
        asking: false,
        unread: &made.unread,
    });
    let report = HostReport {
        made_at: now(),
        checked,
        sized: size_report,
        stops: &stops,
        planned: plan_report,
        investigation: investigation.as_ref(),
    };
    write(arguments, &report)?;
    Ok(verdict(&report, arguments.fail_on))
}

/// Why nothing is sized, as a part of a sentence.
fn unsized_why(error: &SizeError, host: &Host, sized: &[Instance], request: &Request) -> String {
    if *error != SizeError::NothingToSize {
        return error.to_string();
    }
    let left_out = sizing::left_out(host, sized, request);
    let left_out: Vec<String> = left_out.iter().map(|left| format!("{}: {}", left.instance, left.why)).collect();
    match left_out.as_slice() {
        [] => "no server that could use huge pages was found on this host".into(),
        _ => left_out.join("; "),
    }
}

/// What the archives tell; nothing where none are given.
fn incidents(arguments: &Arguments) -> Result<Option<Investigation>, Failure> {
    if arguments.archives.is_empty() {
        return Ok(None);
    }
    let told = hugewise_incident::investigate(&arguments.archives, &Options::default(), &terminal::reading);
    terminal::done();
    let mut told = told.map_err(|error| {
        let host = arguments.archives.iter().find(|path| matches!(Given::at(path), Given::Host));
        host.map_or_else(
            || Failure::new(error.to_string()),
            |host| {
                let word = shell::word(&host.to_string_lossy());
                Failure::new(format!("{} is a captured host: run hugewise report --root {word}", host.display()))
            },
        )
    })?;
    if told.hosts.len() <= MOST_CHECKED {
        told.hosts.iter_mut().for_each(|history| investigate::remedies(history, false));
    }
    Ok(Some(told))
}

/// The plan that `hugewise plan` would make of the same reading.
fn planned(arguments: &Arguments, seen: Seen, source: &dyn Source) -> Result<Made, Failure> {
    let wishes = Wishes::usual(arguments.also.clone());
    if arguments.root.is_some() {
        return wishes.plan(seen, source, &Captured(source), Bent::default());
    }
    let system = plan::live()?;
    let unread: Vec<Unread> = plan::whole(&system)?;
    let mut made = wishes.plan(seen, source, &system, Bent::default())?;
    made.unread.extend(unread);
    Ok(made)
}

/// The host and its servers, as they are sized.
struct Asked<'a> {
    host: &'a Host,
    all: &'a [Instance],
    sized: &'a [Instance],
}

/// The host sized for other numbers of sessions, each as `hugewise size --sessions` does it.
fn stops(asked: &Asked<'_>, assessment: &Assessment, sizing: &sizing::Sizing) -> Vec<Stop> {
    let stop = |sessions| {
        let request = Request { sessions: Some(sessions), proposed: true, ..Request::default() };
        let answer = size::of_host(asked.host, asked.all, assessment, asked.sized, &request);
        Some(Stop { sessions, sizing: answer.ok()?.0 })
    };
    sizing::stops(sizing).into_iter().filter_map(stop).collect()
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn write(arguments: &Arguments, report: &HostReport<'_>) -> Result<(), Failure> {
    let mut text = Vec::new();
    let written = match arguments.format {
        PageFormat::Text => report.write_text(&mut text, terminal::layout(arguments.color, false)),
        PageFormat::Json => report.write_json(&mut text),
        PageFormat::Html => report.write_html(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    match &arguments.output {
        Some(path) => {
            outcome::replace_file(path, &text)?;
            terminal::note(&format!("Wrote {}. Only its owner can read it.", path.display()));
            Ok(())
        }
        None => outcome::print(&text),
    }
}

/// What was found wins over what could not be read or planned.
fn verdict(report: &HostReport<'_>, fail_on: FailOn) -> Outcome {
    let answer = report.checked.answer(fail_on.level());
    let told = report.investigation;
    let incident = told.is_some_and(|it| it.hosts.iter().any(|history| !history.incidents.is_empty()));
    let partly = told.is_some_and(|it| it.sources.iter().any(|source| source.format.is_none()));
    match answer {
        Answer::Found => Outcome::Found,
        _ if incident && fail_on.level().is_some() => Outcome::Found,
        Answer::Incomplete => Outcome::Incomplete,
        Answer::Fine if partly || report.planned.is_err() => Outcome::Incomplete,
        Answer::Fine => Outcome::Fine,
    }
}
