//! `hugewise size`.

use std::path::{Path, PathBuf};

use hugewise_diagnose::sizing::{self, PageSizeChoice, Request, SizeError, Sizing};
use hugewise_diagnose::target::{self, HostTarget, PoolGoal, TargetRequest};
use hugewise_diagnose::{Assessment, Diagnosis, DiagnosisOptions};
use hugewise_engines::describe::{self, Description};
use hugewise_host::Source;
use hugewise_host::source::MemoizedSource;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Bytes, Host, HugePageMode, HugePageUse, Instance, PageCount, PageSize, Unread,
};
use hugewise_report::SizeReport;

use crate::argument::Wrong;
use crate::described_servers::{DescribedServers, parse_size};
use crate::failover_instances::Also;
use crate::format::PageFormat;
use crate::instance_selection;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::ColorChoice;

pub(crate) const AFTER_HELP: &str = "\
Described servers are sized together with those that run here; with --memory or --only-described \
     they are \
sized alone.

  hugewise size
  hugewise size --engine postgresql --data-dir /var/lib/postgresql/15/main
  hugewise size --memory 128G --engine oracle --sga 34G --engine mariadb --config my.cnf \
     --segment 5GiB
  hugewise size --engine jvm -- java -Xmx8g -XX:+UseLargePages -jar app.jar

Exit codes: 0 it fits; 1 it does not; 2 it could not do its work; 3 a server was left out because \
     some facts \
could not be read.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Text for people, JSON for programs, or a single HTML page that you can mail.
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// Plan for this many sessions on the host.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// Plan for a host with this much memory, instead of this host.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    memory: Option<Bytes>,
    /// Page size: 2M, 1G, or auto, which is what each server's settings ask for.
    #[arg(long, value_name = "SIZE", value_parser = page_size, default_value = "auto", allow_hyphen_values = true)]
    page_size: PageSizeArgument,
    /// Add this many percent of spare pages, at most 100.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0", allow_hyphen_values = true)]
    headroom: u8,
    /// Size only this instance, running or described: PROD, 15/main, or "oracle PROD". The others
    /// keep what they hold.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Leave out the servers that run here.
    #[arg(long)]
    only_described: bool,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to
    /// nothing.
    #[arg(long, conflicts_with = "root")]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    #[command(flatten)]
    servers: DescribedServers,
}

impl Arguments {
    fn request(&self) -> Request {
        Request {
            page_size: self.page_size.0,
            headroom_percent: self.headroom,
            sessions: self.sessions,
            memory: self.memory,
            proposed: true,
            ..Request::default()
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSizeArgument(pub(crate) PageSizeChoice);

impl Default for PageSizeArgument {
    fn default() -> Self {
        Self(PageSizeChoice::Auto)
    }
}

/// The size that was named.
pub(crate) const fn named_page_size(choice: PageSizeChoice) -> Option<PageSize> {
    match choice {
        PageSizeChoice::Auto => None,
        PageSizeChoice::Size(page) => Some(page),
    }
}

pub(crate) fn page_size(text: &str) -> Result<PageSizeArgument, Wrong> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(PageSizeArgument::default());
    }
    let number = text.trim();
    if !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && Bytes::parse(number).is_ok()
    {
        return Err(bare_page_size(number));
    }
    let bytes = parse_size(text)?;
    let page = PageSize::new(bytes.get());
    page.map(|page| PageSizeArgument(PageSizeChoice::Size(page)))
        .ok_or_else(|| Wrong::PageSize(text.to_owned()))
}

/// `2` means 2M, and `2048` is the kernel's way to write it, in KiB.
fn bare_page_size(number: &str) -> Wrong {
    let none = || Wrong::PageSize(number.to_owned());
    let Ok(count) = number.parse::<u64>() else { return none() };
    let instead = match count {
        1 => "1G",
        2 | 2048 | 2_097_152 => "2M",
        16 => "16M or 16G",
        32 | 32_768 | 33_554_432 => "32M",
        64 | 65_536 => "64K",
        512 | 524_288 | 536_870_912 => "512M",
        16_384 => "16M",
        1024 | 1_048_576 | 1_073_741_824 => "1G",
        _ => return none(),
    };
    Wrong::BarePage { number: count, instead }
}

pub(crate) fn parse_percent(text: &str) -> Result<u8, Wrong> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let fits = number.parse::<u8>().ok().filter(|percent| *percent <= 100);
    fits.ok_or_else(|| Wrong::Percent(text.to_owned()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let described = &arguments.servers.0;
    if arguments.only_described && described.is_empty() {
        return Err(CommandFailure::new(
            "nothing to size: with --only-described, describe a server with --engine or --segment",
        ));
    }
    let source = outcome::open_source(arguments.root.as_deref())?;
    let alone = !described.is_empty() && (arguments.only_described || arguments.memory.is_some());
    let diagnosis = diagnose_host(arguments, source.as_ref(), alone)?;
    let Diagnosis { host, instances: all, assessment, mut unread, .. } = diagnosis;
    let mut instances = all.clone();
    if arguments.instance.is_none() {
        target::planned_for(&host, &mut instances, &assessment);
    }
    let files = MemoizedSource::new(source.as_ref());
    add_described(arguments, &host, &files, &mut instances, &mut unread)?;
    if let Some(name) = &arguments.instance {
        narrow_to_instance(name, &mut instances)?;
    }
    unread.sort();
    unread.dedup();

    let mut request = arguments.request();
    // A plan is for a real host only.
    let has_plan = arguments.memory.is_none() && !alone;
    // A named server shares the pools with all others.
    let plan = (has_plan && arguments.instance.is_some())
        .then(|| plan_for(&host, &all, &assessment, &instances, &request))
        .flatten();
    if let Some(plan) = &plan {
        request.others = pages_for_others(&host, &instances, plan, &request);
    }
    let sizing = match sizing::size_found_servers(&host, &instances, &request) {
        Ok(sizing) => sizing,
        Err(error) => return explain_no_answer(&error, &host, &instances, &request, &unread),
    };
    let (planned, shrunk) = if has_plan && sizing.is_planned() {
        let planned = plan.map_or_else(
            || target::goals_for_sizing(&host, &all, &assessment, &sizing),
            |plan| plan.pools,
        );
        (planned, shrunk_pools(&host, &all, &assessment, &request))
    } else {
        (Vec::new(), Vec::new())
    };
    let sized = SizeReport {
        host: &host,
        instances: &instances,
        sizing: &as_planned(sizing, &planned),
        planned: &planned,
        shrunk: &shrunk,
        request: &request,
        unread: &unread,
    };
    outcome::print_output(&arguments.format.render(&sized, arguments.color, false)?)?;
    Ok(size_outcome(&sized, alone))
}

fn size_outcome(sized: &SizeReport<'_>, alone: bool) -> CommandOutcome {
    let host = sized.host;
    let is_incomplete = (host.unseen_reason().is_some() && !alone) || host.torn.is_some();
    match sized.sizing.refusal {
        Some(_) => CommandOutcome::Found,
        None if is_incomplete || leaves_out_unknown(sized) => CommandOutcome::Incomplete,
        None => CommandOutcome::Fine,
    }
}

fn diagnose_host(
    arguments: &Arguments,
    source: &dyn Source,
    alone: bool,
) -> Result<Diagnosis, CommandFailure> {
    let options = DiagnosisOptions {
        connect: arguments.connect,
        without_own_servers: alone,
        ..DiagnosisOptions::default()
    };
    let mut diagnosis = arguments.also.diagnose(source, &options)?;
    if alone {
        let Diagnosis { host, unread, .. } = &mut diagnosis;
        // Processes do not count, so none of their files is missed.
        let counts = |fact: &Unread| arguments.memory.is_none() && !of_a_process(&fact.what);
        unread.retain(|fact| !host.unread.contains(fact) || counts(fact));
    }
    Ok(diagnosis)
}

fn leaves_out_unknown(sized: &SizeReport<'_>) -> bool {
    let is_left_out = |instance: &&Instance| {
        sized.sizing.left_out.iter().any(|left| instance.has_id(&left.instance))
    };
    sized.instances.iter().filter(is_left_out).any(|instance| is_unknown(instance, sized.unread))
}

/// The sums with the pools as a plan leaves them.
fn as_planned(sizing: Sizing, planned: &[PoolGoal]) -> Sizing {
    if planned.is_empty() { sizing } else { sizing.with_pools(target::sum_goal_memory(planned)) }
}

/// What `plan --shrink` would make of the pools.
pub(crate) fn shrunk_pools(
    host: &Host,
    all: &[Instance],
    assessment: &Assessment,
    request: &Request,
) -> Vec<PoolGoal> {
    let target = target::find_target(
        host,
        all,
        assessment,
        TargetRequest { shrink: true, ..TargetRequest::default() },
        request,
    );
    target.map(|target| target.pools).unwrap_or_default()
}

/// `all` are the host's servers, `sized` those that are sized.
pub(crate) fn of_host(
    host: &Host,
    all: &[Instance],
    assessment: &Assessment,
    sized: &[Instance],
    request: &Request,
) -> Result<(Sizing, Vec<PoolGoal>), SizeError> {
    let sizing = sizing::size_found_servers(host, sized, request)?;
    let planned = if sizing.is_planned() {
        target::goals_for_sizing(host, all, assessment, &sizing)
    } else {
        Vec::new()
    };
    Ok((as_planned(sizing, &planned), planned))
}

/// A plan for the named servers, with all others that share the pools.
fn plan_for(
    host: &Host,
    all: &[Instance],
    assessment: &Assessment,
    named: &[Instance],
    request: &Request,
) -> Option<HostTarget> {
    let is_named = |instance: &&Instance| named.iter().any(|named| named.id() == instance.id());
    let both: Vec<Instance> =
        all.iter().filter(|instance| !is_named(instance)).chain(named).cloned().collect();
    let names: Vec<String> = named.iter().map(Instance::unique_title).collect();
    let page_size = named_page_size(request.page_size);
    let wish = TargetRequest { names: &names, page_size, ..TargetRequest::default() };
    target::find_target(host, &both, assessment, wish, request)
        .ok()
        .filter(|target| target.sizing.is_some())
}

/// Pages that the plan has for others, beyond what those hold.
fn pages_for_others(
    host: &Host,
    named: &[Instance],
    plan: &HostTarget,
    request: &Request,
) -> Vec<(PageSize, PageCount)> {
    let (Some(whole), Ok(alone)) = (&plan.sizing, sizing::size_servers(host, named, request))
    else {
        return Vec::new();
    };
    let more = |goal: &PoolGoal| {
        let page = goal.page_size;
        let pages =
            whole.pages_of_size(page).min(goal.goal).saturating_sub(alone.pages_of_size(page));
        (pages > PageCount::ZERO).then_some((page, pages))
    };
    plan.pools.iter().filter_map(more).collect()
}

fn of_a_process(what: &str) -> bool {
    let pid = what.strip_prefix("/proc/").and_then(|rest| rest.split('/').next());
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A server of the host that is described by its data directory is sized as described.
fn add_described(
    arguments: &Arguments,
    host: &Host,
    source: &dyn Source,
    instances: &mut Vec<Instance>,
    unread: &mut Vec<Unread>,
) -> Result<(), CommandFailure> {
    let servers = &arguments.servers.0;
    let rooted =
        servers.iter().map(|server| resolve_paths(&server.description, arguments.root.as_deref()));
    let descriptions = rooted.collect::<Result<Vec<_>, _>>()?;
    let described = describe::describe_all(host, source, &descriptions, arguments.root.is_none())
        .map_err(CommandFailure::new)?;
    for (server, mut described) in servers.iter().zip(described) {
        let instance = &mut described.instance;
        if let Some((name, is)) = server.known_as {
            name.clone_into(&mut instance.name);
            instance.traits.push(is);
        }
        // One that the host knows, and that is down, keeps its name: it is counted once.
        let known = instances.iter().find(|other| other.pid == 0 && same_server(other, instance));
        if let Some(known) = known {
            known.name.clone_into(&mut instance.name);
        }
        instances.retain(|other| !same_server(other, instance));
        make_unique(instances, instance);
        instances.push(described.instance);
        unread.append(&mut described.unread);
    }
    Ok(())
}

fn same_server(known: &Instance, described: &Instance) -> bool {
    let is_of_host = known.pid != 0 || known.is_stopped();
    if !is_of_host || known.containered || known.engine != described.engine {
        return false;
    }
    let folder = |instance: &Instance| {
        instance.data_directory.as_known().map(|path| path.trim_end_matches('/').to_owned())
    };
    (known.pid != 0 && known.pid == described.pid)
        || (folder(known).is_some() && folder(known) == folder(described))
}

fn make_unique(instances: &[Instance], instance: &mut Instance) {
    let taken = |name: &str| {
        instances.iter().any(|other_instance| {
            other_instance.engine == instance.engine && other_instance.name == name
        })
    };
    let numbered = (2_u64..).map(|number| format!("{} {number}", instance.name));
    let name = std::iter::once(instance.name.clone()).chain(numbered).find(|name| !taken(name));
    instance.name = name.unwrap_or_default();
}

/// Relative paths start at the working directory; with `root`, there are none.
fn resolve_paths(
    description: &Description,
    root: Option<&Path>,
) -> Result<Description, CommandFailure> {
    let place = |path: &String| -> Result<String, CommandFailure> {
        if path.starts_with('/') {
            return Ok(path.clone());
        }
        if root.is_some() {
            let message = format!(
                "{path}: with --root a path is one of the captured host, and starts with /"
            );
            return Err(CommandFailure::new(message));
        }
        outcome::absolute_path(Path::new(path))
    };
    let maybe = |path: &Option<String>| path.as_ref().map(place).transpose();
    Ok(match description {
        Description::Files { engine, data_dir, config, server_binary } => Description::Files {
            engine: *engine,
            data_dir: maybe(data_dir)?,
            config: maybe(config)?,
            server_binary: maybe(server_binary)?,
        },
        Description::Config { engine, path } => {
            Description::Config { engine: *engine, path: place(path)? }
        }
        other => other.clone(),
    })
}

fn narrow_to_instance(wanted: &str, instances: &mut Vec<Instance>) -> Result<(), CommandFailure> {
    let titles: Vec<String> = instances.iter().map(Instance::title).collect();
    instance_selection::narrow_to_named(wanted, instances)?;
    // Whoever names a server vouches for it.
    instances.iter_mut().for_each(|instance| instance.trusted_by.push(TrustReason::Named));
    if instances.is_empty() {
        return Err(CommandFailure::new(instance_selection::explain_unknown_name(
            wanted,
            &titles,
            "running or described",
            "none runs here, and none is described",
        )));
    }
    Ok(())
}

/// Whether a server was left out for want of facts, not because it needs no pages.
pub(crate) fn is_unknown(instance: &Instance, unread: &[Unread]) -> bool {
    let told =
        instance.huge_pages != HugePageUse::Unknown && instance.asked != HugePageMode::Unknown;
    !told && instance.asked != HugePageMode::Cannot && !unread.is_empty()
}

fn explain_no_answer(
    error: &SizeError,
    host: &Host,
    instances: &[Instance],
    request: &Request,
    unread: &[Unread],
) -> Result<CommandOutcome, CommandFailure> {
    if *error != SizeError::NothingToSize {
        return Err(CommandFailure::new(error));
    }
    if let Some(why) = host.processes.reason_text().filter(|_| instances.is_empty()) {
        let message = format!(
            "nothing to size: hugewise cannot tell what runs here (processes: {why}), and no \
                 server is described (--engine, --segment)"
        );
        return outcome::print_complaint(&message, CommandOutcome::Incomplete);
    }
    if let Some(why) = host.unseen_reason() {
        let message = format!(
            "nothing to size among the servers that could be seen, and there may be more: {why}"
        );
        return outcome::print_complaint(&message, CommandOutcome::Incomplete);
    }
    if instances.iter().any(|instance| is_unknown(instance, unread)) {
        let titles: Vec<String> = instances.iter().map(Instance::title).collect();
        let message = format!(
            "what {} needs could not be read; run as root, or describe it",
            titles.join(", ")
        );
        return outcome::print_complaint(&message, CommandOutcome::Incomplete);
    }
    Err(match explain_left_out(host, instances, request) {
        None => CommandFailure::new(error),
        Some(why) => CommandFailure::new(format!("nothing to size: {why}")),
    })
}

pub(crate) fn explain_left_out(
    host: &Host,
    instances: &[Instance],
    request: &Request,
) -> Option<String> {
    let left_out = sizing::left_out(host, instances, request);
    let left_out: Vec<String> =
        left_out.iter().map(|left| format!("{}: {}", left.instance, left.why)).collect();
    (!left_out.is_empty()).then(|| left_out.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_page_sizes() {
        assert_eq!(parse_percent("10"), Ok(10));
        assert_eq!(parse_percent("10%"), Ok(10));
        for wrong in ["-1", "101", "256", "ten", "", "1.5"] {
            assert!(
                parse_percent(wrong).unwrap_err().to_string().contains("not a percentage"),
                "{wrong}"
            );
        }
        assert_eq!(page_size("AUTO").map(|pages| pages.0), Ok(PageSizeChoice::Auto));
        assert_eq!(page_size("2M").map(|pages| pages.0), Ok(PageSizeChoice::Size(PageSize::MIB_2)));
        assert_eq!(
            page_size("1GiB").map(|pages| pages.0),
            Ok(PageSizeChoice::Size(PageSize::GIB_1))
        );
        for wrong in ["3M", "1K", "0", "-2M", "big"] {
            assert!(page_size(wrong).is_err(), "{wrong}");
        }
        // A number alone, in the unit that people leave out; 2048 and 1048576 are what the kernel
        // writes, in kB.
        for (number, instead) in [
            ("2", "write 2M;"),
            ("2048", "write 2M;"),
            ("1", "write 1G;"),
            ("1048576", "write 1G;"),
            ("16", "write 16M or 16G;"),
            ("32", "write 32M;"),
            ("512", "write 512M;"),
            ("64", "write 64K;"),
            ("34", "not a page size; huge pages are 2M or 1G on x86-64"),
        ] {
            let said = page_size(number).unwrap_err().to_string();
            assert!(said.contains(instead), "{number}: {said}");
        }
    }

    #[test]
    fn paths_are_those_of_the_host_that_is_read() {
        let config = |path: &str| Description::Config {
            engine: hugewise_model::Engine::MariaDb,
            path: path.into(),
        };
        assert!(resolve_paths(&config("my.cnf"), Some(Path::new("/capture"))).is_err());
        assert_eq!(
            resolve_paths(&config("/my.cnf"), Some(Path::new("/capture"))).ok(),
            Some(config("/my.cnf"))
        );
        let Ok(Description::Config { path, .. }) = resolve_paths(&config("my.cnf"), None) else {
            panic!("no path")
        };
        assert!(path.starts_with('/') && path.ends_with("/my.cnf"), "{path}");
    }

    #[test]
    fn files_of_processes_are_told_from_others() {
        assert!(of_a_process("/proc/12/maps"));
        assert!(!of_a_process("/proc/meminfo"));
        assert!(!of_a_process("/proc"));
    }
}
