//! `hugewise verify`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_advice::demand;
use hugewise_advice::standing::{Standing, standing};
use hugewise_engines::logs::{LogError, LogFile, LogReport};
use hugewise_engines::{Found, log_files, named};
use hugewise_host::Source;
use hugewise_host::source::{Budgets, Limits};
use hugewise_model::{Host, Instance, Reason, Unread};
use hugewise_report::{Verified, nagios};

use crate::host_namespaces;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};
use crate::verdict;

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 every instance has all of its memory on huge pages; 1 one does not; 2 it could not do its work; \
3 it could not determine that. With --format nagios: 0 OK, 1 WARNING (partly), 2 CRITICAL (nothing, or a failed start), \
3 UNKNOWN.";

/// Between two looks at a starting server.
const PAUSE: Duration = Duration::from_millis(500);

/// How long its memory has to stand still before it is called wanting: between its buffer pool and the rest, MariaDB
/// reads its log.
const STILL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Verify only this instance: PROD, 15/main, or "oracle PROD".
    #[arg(value_name = "INSTANCE")]
    instance: Option<String>,
    /// Also read this server log: Oracle's alert log, or a log of PostgreSQL, MariaDB, MySQL, a JVM or QEMU; may be repeated.
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    /// Wait up to this many seconds for a starting server to map its memory.
    #[arg(long, value_name = "SECONDS", conflicts_with = "root", value_parser = clap::value_parser!(u64).range(1..=86400))]
    wait: Option<u64>,
    /// Verify a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Text for people, JSON for programs, a single HTML page that you can mail, or a line for a monitoring system.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// In a container with the host's pid namespace: enter the host's other namespaces, except its network, first.
    #[arg(long, conflicts_with = "root")]
    host_namespaces: bool,
    /// Also query the servers over their sockets. Without this option, hugewise connects to nothing.
    #[arg(long, conflicts_with = "root")]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// A single HTML page.
    Html,
    /// One line, with a monitoring plugin's exit codes.
    Nagios,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match host_namespaces::enter(arguments.host_namespaces).and_then(|()| look(arguments)) {
        Err(failure) if arguments.format == Format::Nagios => unanswered(failure.message()),
        other => other,
    }
}

/// Whether a monitoring system asks, as far as words tell that are no command line.
pub(crate) fn is_plugin(words: &[OsString]) -> bool {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    has("verify") && (has("nagios") || has("--format=nagios"))
}

/// The line and the code of a question that has no answer.
pub(crate) fn unanswered(why: &str) -> Result<Outcome, Failure> {
    let why = why.strip_prefix("error: ").unwrap_or(why);
    match outcome::print(nagios::failure(why).as_bytes()) {
        Ok(()) => Ok(Outcome::Incomplete),
        // Nobody hears the line; the code is heard.
        Err(failure) => outcome::complain(failure.message(), Outcome::Incomplete),
    }
}

fn look(arguments: &Arguments) -> Result<Outcome, Failure> {
    let source = outcome::open(arguments.root.as_deref())?;
    let mut given = Vec::new();
    let mut scene = match arguments.wait {
        Some(seconds) => waited(arguments, source.as_ref(), Duration::from_secs(seconds))?,
        None => Scene::read(arguments, source.as_ref()),
    };
    for path in &arguments.log {
        given.push(read_log(source.as_ref(), path, arguments.root.is_some())?);
    }
    let named = arguments.instance.as_deref();
    if let Some(name) = named {
        scene.narrow(name, !given.is_empty())?;
    }
    let all: Vec<Instance> = scene.found.instances.iter().chain(&scene.asleep).cloned().collect();
    let assessment = hugewise_advice::assess(&scene.host, &all);
    let standings = scene.standings(named.is_some());
    if arguments.format != Format::Nagios {
        scene.own_logs(source.as_ref(), &standings, &mut given);
    }
    let matched = verdict::matches(&scene.found.instances, &given);
    for (log, at) in given.iter_mut().zip(&matched) {
        let instance = at.and_then(|at| scene.found.instances.get(at));
        log.asked_page_size = match instance {
            Some(instance) => demand::page_size(&scene.host, instance),
            None => scene.host.default_huge_page.get(),
        };
    }
    let disagreements = verdict::disagreements(&scene.found.instances, &standings, &given, &matched);
    let verdict = match verdict::verdict(&standings, &given, &matched) {
        // The instance that is not may be in what is lost, or hidden.
        Standing::All if scene.host.torn.is_some() || (named.is_none() && scene.host.unseen().is_some()) => {
            Standing::Unknown
        }
        verdict => verdict,
    };
    let verified = Verified {
        host: &scene.host,
        instances: &scene.found.instances,
        assessment: &assessment,
        standings: &standings,
        logs: &given,
        disagreements: &disagreements,
        verdict: &verdict,
        named: named.is_some(),
        unread: &scene.unread(),
    };
    let mut text = Vec::new();
    let written = match arguments.format {
        Format::Text => verified.write_text(&mut text, terminal::layout(arguments.color, false)),
        Format::Json => verified.write_json(&mut text),
        Format::Html => verified.write_html(&mut text),
        Format::Nagios => verified.write_nagios(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    outcome::print(&text)?;
    Ok(match (arguments.format, verdict) {
        (_, Standing::All) => Outcome::Fine,
        (_, Standing::Unknown | Standing::NotRunning | Standing::NotCounted(_)) => Outcome::Incomplete,
        (Format::Nagios, Standing::None) => Outcome::Critical,
        _ => Outcome::Found,
    })
}

/// The host at one moment.
struct Scene {
    host: Host,
    /// What runs.
    found: Found,
    /// Those that belong here and do not run: they take from the same pools, and there is nothing to verify.
    asleep: Vec<Instance>,
}

impl Scene {
    fn read(arguments: &Arguments, source: &dyn Source) -> Self {
        let (host, mut found) = hugewise_engines::gather(source);
        if arguments.connect {
            found.unread.append(&mut hugewise_engines::connect::ask(&host, &mut found.instances));
        }
        let (asleep, running) = std::mem::take(&mut found.instances).into_iter().partition(Instance::is_asleep);
        found.instances = running;
        Self { host, found, asleep }
    }

    fn standings(&self, named: bool) -> Vec<Standing> {
        self.found.instances.iter().map(|instance| standing(&self.host, instance, named)).collect()
    }

    /// Leaves one instance; one that does not run has only its logs.
    fn narrow(&mut self, wanted: &str, has_logs: bool) -> Result<(), Failure> {
        let instances = &mut self.found.instances;
        let titles: Vec<String> = instances.iter().map(Instance::title).collect();
        crate::named::narrow(wanted, instances)?;
        if instances.is_empty() && !has_logs {
            if let Some(one) = named::meant(&self.asleep, wanted).first() {
                return Err(Failure::new(format!("{} is not running, so there is nothing to verify", one.title())));
            }
            let there = if titles.is_empty() { "none runs".into() } else { format!("running: {}", titles.join(", ")) };
            let tip = match crate::usage::is_path(wanted) {
                true => format!("; to read a captured host, write hugewise verify --root {wanted}"),
                false => String::new(),
            };
            return Err(Failure::new(format!("no instance is called {wanted}; {there}{tip}")));
        }
        Ok(())
    }

    /// Adds what the logs say that the servers' own settings name.
    fn own_logs(&mut self, source: &dyn Source, standings: &[Standing], given: &mut Vec<LogReport>) {
        let budgets = Budgets::new(Limits::LOGS);
        for (instance, standing) in self.found.instances.iter().zip(standings) {
            if matches!(standing, Standing::NotCounted(_)) {
                continue;
            }
            // What the settings of a server name is its owner's to read.
            let Some(process) = self.host.process(instance.pid) else { continue };
            let files = budgets.of(source, process);
            let Some(path) = log_files::of(&self.host, &files, instance, &mut self.found.unread) else { continue };
            if given.iter().any(|log| log.path == path) {
                continue;
            }
            match log_files::read_log(&LogFile::new(&files, &path), Some(instance.engine)) {
                Ok(log) => given.push(log),
                Err(LogError { path, what }) => self.found.unread.push(Unread::new(path, Reason::untold(what))),
            }
        }
        self.found.unread.retain(|note| !Budgets::tells_of(note));
        self.found.unread.append(&mut budgets.unread());
    }

    fn unread(&self) -> Vec<Unread> {
        let mut unread: Vec<Unread> = self.host.unread.iter().chain(&self.found.unread).cloned().collect();
        unread.sort();
        unread.dedup();
        unread
    }
}

/// Looks until the server (or any) is there and its memory has stayed the same for two looks.
fn waited(arguments: &Arguments, source: &dyn Source, patience: Duration) -> Result<Scene, Failure> {
    let scene = watch(arguments, source, patience);
    terminal::done();
    scene
}

fn watch(arguments: &Arguments, source: &dyn Source, patience: Duration) -> Result<Scene, Failure> {
    let start = Instant::now();
    let mut before: Option<(Memory, Instant)> = None;
    loop {
        let scene = Scene::read(arguments, source);
        let (memory, whole) = memory(&scene, arguments.instance.as_deref());
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
                    Err(Failure::new(format!("no instance called {name} started within {seconds} seconds")))
                }
                _ => Ok(scene),
            };
        }
        let name = arguments.instance.as_deref().unwrap_or("a server");
        terminal::progress(&format!(
            "\rwaiting for {}: {} s \x1b[K",
            hugewise_report::plain::clean(name),
            left.as_secs()
        ));
        before = Some((memory, same.map_or_else(Instant::now, |(_, since)| since)));
        std::thread::sleep(PAUSE.min(left));
    }
}

/// What the awaited instances map: two looks at it are compared.
type Memory = Vec<(u32, Vec<hugewise_model::Segment>)>;

/// And whether all of it is on huge pages.
fn memory(scene: &Scene, wanted: Option<&str>) -> (Memory, bool) {
    let standings = scene.standings(wanted.is_some());
    let meant: Vec<u32> = wanted.map_or_else(Vec::new, |name| {
        named::meant(&scene.found.instances, name).into_iter().map(|instance| instance.pid).collect()
    });
    let awaited = scene.found.instances.iter().zip(standings).filter(|(instance, standing)| match wanted {
        Some(_) => meant.contains(&instance.pid),
        None => !matches!(standing, Standing::NotCounted(_)),
    });
    let mut whole = true;
    let kept = awaited.map(|(instance, standing)| {
        whole &= standing == Standing::All;
        // Sessions come and go, and map what is there.
        let segments =
            instance.segments.iter().map(|segment| hugewise_model::Segment { mappers: 0, ..segment.clone() });
        (instance.pid, segments.collect())
    });
    (kept.collect(), whole)
}

/// A log that was given: of the captured host, or of this machine where it is not in there.
fn read_log(source: &dyn Source, path: &Path, captured: bool) -> Result<LogReport, Failure> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let not_utf8 = || Failure::new(format!("{}: the path is not UTF-8; hugewise cannot read it", path.display()));
    let here = absolute.to_str().ok_or_else(not_utf8)?;
    let there = path.to_str().ok_or_else(not_utf8)?;
    if captured && there.starts_with('/') && !source.read_part(there, None, 1).is_absent() {
        return log_files::read_log(&LogFile::new(source, there), None)
            .map_err(|error| Failure::new(error.to_string()));
    }
    let live = outcome::open(None)?;
    log_files::read_log(&LogFile::new(live.as_ref(), here), None).map_err(|error| Failure::new(error.to_string()))
}
