//! `hugewise verify`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_diagnose::coverage::{Coverage, measure_coverage};
use hugewise_diagnose::{Diagnosis, DiagnosisOptions, demand};
use hugewise_engines::logs::{LogError, LogFile, LogReport};
use hugewise_engines::{instance_names, log_files};
use hugewise_host::Source;
use hugewise_host::source::{Budgets, OwnerReadLimits};
use hugewise_model::{Instance, Reason, Unread};
use hugewise_report::{PageReport, Report, Verified, nagios};

use crate::host_namespaces;
use crate::instance_selection;
use crate::log_agreement;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 every instance has all of its memory on huge pages; 1 one does not; 2 it could not \
     do its work; \
3 it could not determine that. With --format nagios: 0 OK, 1 WARNING (partly), 2 CRITICAL \
     (nothing, or a failed start), \
3 UNKNOWN.";

const PAUSE: Duration = Duration::from_millis(500);
/// How long its memory has to stand still before it is called incomplete: MariaDB reads its log
/// between mapping its buffer pool and the rest.
const STILL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Verify only this instance: PROD, 15/main, or "oracle PROD".
    #[arg(value_name = "INSTANCE")]
    instance: Option<String>,
    /// Also read this server log: Oracle's alert log, or a log of PostgreSQL, MariaDB, MySQL, a JVM
    /// or QEMU; may be repeated.
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    /// Wait up to this many seconds for a starting server to map its memory.
    #[arg(long, value_name = "SECONDS", conflicts_with = "root", value_parser = clap::value_parser!(u64).range(1..=86400))]
    wait: Option<u64>,
    /// Verify a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Text for people, JSON for programs, a single HTML page that you can mail, or a line for a
    /// monitoring system.
    #[arg(long, value_enum, default_value_t = VerifyFormat::Text)]
    format: VerifyFormat,
    /// In a container with the host's pid namespace: enter the host's other namespaces, except its
    /// network, first.
    #[arg(long, conflicts_with = "root")]
    host_namespaces: bool,
    /// Also query the servers over their sockets. Without this option, hugewise connects to
    /// nothing.
    #[arg(long, conflicts_with = "root")]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum VerifyFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// A single HTML page.
    Html,
    /// One line, with a monitoring plugin's exit codes.
    Nagios,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    match host_namespaces::enter_host_namespaces(arguments.host_namespaces)
        .and_then(|()| verify_host(arguments))
    {
        Err(failure) if arguments.format == VerifyFormat::Nagios => {
            print_unanswered(failure.message())
        }
        other => other,
    }
}

/// A guess by words, as they are no valid command line.
pub(crate) fn is_plugin(words: &[OsString]) -> bool {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    has("verify") && (has("nagios") || has("--format=nagios"))
}

/// A plugin's line and exit code without an answer.
pub(crate) fn print_unanswered(why: &str) -> Result<CommandOutcome, CommandFailure> {
    let why = why.strip_prefix("error: ").unwrap_or(why);
    match outcome::print_output(nagios::render_failure(why).as_bytes()) {
        Ok(()) => Ok(CommandOutcome::Incomplete),
        // The line is lost, but the exit code is not.
        Err(failure) => outcome::print_complaint(failure.message(), CommandOutcome::Incomplete),
    }
}

fn verify_host(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let source = outcome::open_source(arguments.root.as_deref())?;
    let mut given = Vec::new();
    let mut scene = match arguments.wait {
        Some(seconds) => {
            let scene =
                wait_until_settled(arguments, source.as_ref(), Duration::from_secs(seconds));
            terminal::clear_progress();
            scene?
        }
        None => VerifySnapshot::read(arguments, source.as_ref()),
    };
    for path in &arguments.log {
        given.push(read_log(source.as_ref(), path, arguments.root.is_some())?);
    }
    let named = arguments.instance.as_deref();
    if let Some(name) = named {
        scene.narrow_to_instance(name, !given.is_empty())?;
    }
    let standings = scene.instance_standings(named.is_some());
    if arguments.format != VerifyFormat::Nagios {
        scene.own_logs(source.as_ref(), &standings, &mut given);
    }
    let Diagnosis { host, assessment, unread, .. } = &scene.diagnosis;
    let matched = log_agreement::match_logs(&scene.running, &given);
    for (log, at) in given.iter_mut().zip(&matched) {
        log.asked_page_size = match at.and_then(|at| scene.running.get(at)) {
            Some(instance) => demand::page_size(host, instance),
            None => host.default_huge_page.get(),
        };
    }
    let disagreements =
        log_agreement::find_disagreements(&scene.running, &standings, &given, &matched);
    let verdict = match log_agreement::worst_standing(&standings, &given, &matched) {
        // An instance that is not on huge pages may be among those that were not seen.
        Coverage::All if host.torn.is_some() => Coverage::Unknown,
        Coverage::All if named.is_none() && host.unseen_reason().is_some() => Coverage::Unknown,
        verdict => verdict,
    };
    let verified = Verified {
        host,
        instances: &scene.running,
        assessment,
        standings: &standings,
        logs: &given,
        disagreements: &disagreements,
        verdict: &verdict,
        named: named.is_some(),
        unread,
    };
    let layout = terminal::text_layout(arguments.color, false);
    let text = outcome::render_report(|out| match arguments.format {
        VerifyFormat::Text => verified.write_text(out, layout),
        VerifyFormat::Json => verified.write_json(out),
        VerifyFormat::Html => verified.write_html(out),
        VerifyFormat::Nagios => verified.write_nagios(out),
    })?;
    outcome::print_output(&text)?;
    Ok(verify_outcome(arguments.format, &verdict))
}

const fn verify_outcome(format: VerifyFormat, verdict: &Coverage) -> CommandOutcome {
    match (format, verdict) {
        (_, Coverage::All) => CommandOutcome::Fine,
        (_, Coverage::Unknown | Coverage::NotRunning | Coverage::NotCounted(_)) => {
            CommandOutcome::Incomplete
        }
        (VerifyFormat::Nagios, Coverage::None) => CommandOutcome::Critical,
        _ => CommandOutcome::Found,
    }
}

struct VerifySnapshot {
    diagnosis: Diagnosis,
    running: Vec<Instance>,
}

impl VerifySnapshot {
    fn read(arguments: &Arguments, source: &dyn Source) -> Self {
        let options =
            DiagnosisOptions { connect: arguments.connect, ..DiagnosisOptions::default() };
        let diagnosis = Diagnosis::run(source, &options);
        let runs = |instance: &&Instance| !instance.is_stopped();
        let running = diagnosis.instances.iter().filter(runs).cloned().collect();
        Self { diagnosis, running }
    }

    fn instance_standings(&self, named: bool) -> Vec<Coverage> {
        self.running
            .iter()
            .map(|instance| measure_coverage(&self.diagnosis.host, instance, named))
            .collect()
    }

    /// One that does not run has only its logs.
    fn narrow_to_instance(&mut self, wanted: &str, has_logs: bool) -> Result<(), CommandFailure> {
        let instances = &mut self.running;
        let titles: Vec<String> = instances.iter().map(Instance::title).collect();
        instance_selection::narrow_to_named(wanted, instances)?;
        if instances.is_empty() && !has_logs {
            let all = &self.diagnosis.instances;
            if let Some(one) = instance_names::find_matching_instances(all, wanted).first() {
                return Err(CommandFailure::new(format!(
                    "{} is not running, so there is nothing to verify",
                    one.title()
                )));
            }
            let mut why =
                instance_selection::explain_unknown_name(wanted, &titles, "running", "none runs");
            if crate::hints::is_path(wanted) {
                why += &format!("; to read a captured host, write hugewise verify --root {wanted}");
            }
            return Err(CommandFailure::new(why));
        }
        Ok(())
    }

    /// Adds the logs that the servers' own settings name.
    fn own_logs(
        &mut self,
        source: &dyn Source,
        standings: &[Coverage],
        given: &mut Vec<LogReport>,
    ) {
        let budgets = Budgets::new(OwnerReadLimits::LOGS);
        let Diagnosis { host, unread, .. } = &mut self.diagnosis;
        for (instance, standing) in self.running.iter().zip(standings) {
            if matches!(standing, Coverage::NotCounted(_)) {
                continue;
            }
            // A server's settings may only name what its owner can read.
            let Some(process) = host.find_process(instance.pid) else { continue };
            let files = budgets.for_owner(source, process);
            let Some(path) = log_files::find_readable_log(host, &files, instance, unread) else {
                continue;
            };
            if given.iter().any(|log| log.path == path) {
                continue;
            }
            match log_files::read_log(&LogFile::new(&files, &path), Some(instance.engine)) {
                Ok(log) => given.push(log),
                Err(LogError { path, what }) => {
                    unread.push(Unread::new(path, Reason::from_text(what)))
                }
            }
        }
        unread.retain(|note| host.unread.contains(note) || !Budgets::tells_of(note));
        unread.append(&mut budgets.unread_notes());
        unread.sort();
        unread.dedup();
    }
}

/// Waits until the server (or any) runs and its memory is the same at two looks.
fn wait_until_settled(
    arguments: &Arguments,
    source: &dyn Source,
    patience: Duration,
) -> Result<VerifySnapshot, CommandFailure> {
    let start = Instant::now();
    let mut before: Option<(AwaitedMappings, Instant)> = None;
    loop {
        let scene = VerifySnapshot::read(arguments, source);
        let (memory, whole) = awaited_memory(&scene, arguments.instance.as_deref());
        let mapped = !memory.is_empty() && memory.iter().all(|(_, segments)| !segments.is_empty());
        let same = before.take().filter(|(before, _)| mapped && *before == memory);
        if let Some((_, since)) = &same
            && (whole || since.elapsed() >= STILL)
        {
            return Ok(scene);
        }
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() {
            return match &arguments.instance {
                Some(name) if memory.is_empty() && arguments.log.is_empty() => {
                    let seconds = patience.as_secs();
                    Err(CommandFailure::new(format!(
                        "no instance called {name} started within {seconds} seconds"
                    )))
                }
                _ => Ok(scene),
            };
        }
        let name = arguments.instance.as_deref().unwrap_or("a server");
        terminal::show_progress(&format!(
            "\rwaiting for {}: {} s \x1b[K",
            hugewise_report::plain::escape_line(name),
            left.as_secs()
        ));
        before = Some((memory, same.map_or_else(Instant::now, |(_, since)| since)));
        std::thread::sleep(PAUSE.min(left));
    }
}

/// Compared between two looks.
type AwaitedMappings = Vec<(u32, Vec<hugewise_model::Segment>)>;

/// And whether all of it is on huge pages.
fn awaited_memory(scene: &VerifySnapshot, wanted: Option<&str>) -> (AwaitedMappings, bool) {
    let standings = scene.instance_standings(wanted.is_some());
    let meant: Vec<u32> = wanted.map_or_else(Vec::new, |name| {
        instance_names::find_matching_instances(&scene.running, name)
            .into_iter()
            .map(|instance| instance.pid)
            .collect()
    });
    let awaited = scene.running.iter().zip(standings).filter(|(instance, standing)| match wanted {
        Some(_) => meant.contains(&instance.pid),
        None => !matches!(standing, Coverage::NotCounted(_)),
    });
    let mut whole = true;
    let kept = awaited.map(|(instance, standing)| {
        whole &= standing == Coverage::All;
        // Sessions come and go, and change nothing.
        let segments = instance
            .segments
            .iter()
            .map(|segment| hugewise_model::Segment { mappers: 0, ..segment.clone() });
        (instance.pid, segments.collect())
    });
    (kept.collect(), whole)
}

/// Of the captured host, or of this machine if it has none of that path.
fn read_log(source: &dyn Source, path: &Path, captured: bool) -> Result<LogReport, CommandFailure> {
    let here = outcome::absolute_path(path)?;
    let read = |source: &dyn Source, path: &str| {
        log_files::read_log(&LogFile::new(source, path), None).map_err(CommandFailure::new)
    };
    match path.to_str() {
        Some(there)
            if captured
                && there.starts_with('/')
                && !source.read_part(there, None, 1).is_absent() =>
        {
            read(source, there)
        }
        _ => read(outcome::open_source(None)?.as_ref(), &here),
    }
}
