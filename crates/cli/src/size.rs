//! `hugewise size`.

use std::path::{Path, PathBuf};

use hugewise_advice::Assessment;
use hugewise_advice::sizing::{self, PageSizeChoice, Request, SizeError, Sizing};
use hugewise_advice::target::{self, Goal, Target, Wish};
use hugewise_engines::Found;
use hugewise_engines::describe::{self, Description};
use hugewise_host::Source;
use hugewise_host::source::Once;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Bytes, Host, HugePageUse, Instance, PageCount, PageSize, Unread};
use hugewise_report::SizeReport;

use crate::also::Also;
use crate::argument::Wrong;
use crate::described::{Servers, size};
use crate::format::PageFormat;
use crate::named;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Described servers are sized together with those that run here; with --memory or --only-described they are \
sized alone.

  hugewise size
  hugewise size --engine postgresql --data-dir /var/lib/postgresql/15/main
  hugewise size --memory 128G --engine oracle --sga 34G --engine mariadb --config my.cnf --segment 5GiB
  hugewise size --engine jvm -- java -Xmx8g -XX:+UseLargePages -jar app.jar

Exit codes: 0 it fits; 1 it does not; 2 it could not do its work; 3 a server was left out because some facts \
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
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    memory: Option<Bytes>,
    /// Page size: 2M, 1G, or auto, which is what each server's settings ask for.
    #[arg(long, value_name = "SIZE", value_parser = page_size, default_value = "auto", allow_hyphen_values = true)]
    page_size: Pages,
    /// Add this many percent of spare pages, at most 100.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0", allow_hyphen_values = true)]
    headroom: u8,
    /// Size only this instance, running or described: PROD, 15/main, or "oracle PROD". The others keep what they hold.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Leave out the servers that run here.
    #[arg(long)]
    only_described: bool,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to nothing.
    #[arg(long, conflicts_with = "root")]
    connect: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    #[command(flatten)]
    servers: Servers,
}

/// [`PageSizeChoice`] as an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages(pub(crate) PageSizeChoice);

pub(crate) fn page_size(text: &str) -> Result<Pages, Wrong> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(Pages(PageSizeChoice::Auto));
    }
    let number = text.trim();
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && Bytes::parse(number).is_ok() {
        return Err(bare_page_size(number));
    }
    let bytes = size(text)?;
    let page = PageSize::new(bytes.get());
    page.map(|page| Pages(PageSizeChoice::Size(page))).ok_or_else(|| Wrong::PageSize(text.to_owned()))
}

/// What is wrong with a page size without a unit: `2` is meant as 2M, and `2048` as the kernel writes it, in KiB.
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

pub(crate) fn percent(text: &str) -> Result<u8, Wrong> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let fits = number.parse::<u8>().ok().filter(|percent| *percent <= 100);
    fits.ok_or_else(|| Wrong::Percent(text.to_owned()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let described = &arguments.servers.0;
    if arguments.only_described && described.is_empty() {
        return Err(Failure::new(
            "nothing to size: with --only-described, describe a server with --engine or --segment",
        ));
    }
    let opened = outcome::open(arguments.root.as_deref())?;
    let source = Once::new(opened.as_ref());
    let host = hugewise_host::read(&source);
    let alone = !described.is_empty() && (arguments.only_described || arguments.memory.is_some());
    let (mut instances, mut unread) = running(arguments, &host, &source, alone);
    arguments.also.add(&host, &source, &mut instances, &mut unread)?;
    let all = instances.clone();
    let assessment = hugewise_advice::assess(&host, &all);
    if arguments.instance.is_none() {
        target::planned_for(&host, &mut instances, &assessment);
    }
    describe(arguments, &host, &source, &mut instances, &mut unread)?;
    if let Some(name) = &arguments.instance {
        narrow(name, &mut instances)?;
    }
    unread.sort();
    unread.dedup();

    let request = Request {
        page_size: arguments.page_size.0,
        headroom_percent: arguments.headroom,
        sessions: arguments.sessions,
        memory: arguments.memory,
        proposed: true,
        ..Request::default()
    };
    // Whoever names a server takes its pages from the pools of all.
    let shares = arguments.instance.is_some() && arguments.memory.is_none() && !alone;
    let plan = if shares { plan_for(&host, &all, &assessment, &instances, &request) } else { None };
    let request = match &plan {
        Some(plan) => Request { others: others(&host, &instances, plan, &request), ..request },
        None => request,
    };
    let sizing = match sizing::size(&host, &instances, &request) {
        Ok(sizing) => sizing,
        Err(error) => return nothing(&error, &host, &instances, &request, &unread),
    };
    // Of a host that is only thought of, no plan keeps anything.
    let planned = match arguments.memory {
        None if !alone => plan.map_or_else(|| target::goals(&host, &all, &assessment, &sizing), |plan| plan.pools),
        _ => Vec::new(),
    };
    let shrunk = match arguments.memory {
        None if !alone => shrunk(&host, &all, &assessment, &request),
        _ => Vec::new(),
    };
    let sizing = as_planned(sizing, &planned);
    let sized = SizeReport {
        host: &host,
        instances: &instances,
        sizing: &sizing,
        planned: &planned,
        shrunk: &shrunk,
        request: &request,
        unread: &unread,
    };
    let mut text = Vec::new();
    let written = match arguments.format {
        PageFormat::Text => sized.write_text(&mut text, terminal::layout(arguments.color, false)),
        PageFormat::Json => sized.write_json(&mut text),
        PageFormat::Html => sized.write_html(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    outcome::print(&text)?;
    let left_out = |instance: &&Instance| sizing.left_out.iter().any(|left| left.instance == instance.id());
    if sizing.refusal.is_some() {
        Ok(Outcome::Found)
    } else if (host.unseen().is_some() && !alone)
        || host.torn.is_some()
        || instances.iter().filter(left_out).any(|it| is_unknown(it, &unread))
    {
        Ok(Outcome::Incomplete)
    } else {
        Ok(Outcome::Fine)
    }
}

/// The sums with the pools as a plan leaves them.
fn as_planned(sizing: Sizing, planned: &[Goal]) -> Sizing {
    if planned.is_empty() { sizing } else { sizing.with_pools(target::memory(planned)) }
}

/// What a plan that gives back what nobody needs would make of the pools.
pub(crate) fn shrunk(host: &Host, all: &[Instance], assessment: &Assessment, request: &Request) -> Vec<Goal> {
    let target = target::target(host, all, assessment, Wish { shrink: true, ..Wish::default() }, request);
    target.map(|target| target.pools).unwrap_or_default()
}

/// What is said of a host's own servers, with what a plan makes of its pools: `all` are those that are there, `sized` those
/// that are sized.
///
/// # Errors
/// There is nothing to size.
pub(crate) fn of_host(
    host: &Host,
    all: &[Instance],
    assessment: &Assessment,
    sized: &[Instance],
    request: &Request,
) -> Result<(Sizing, Vec<Goal>), SizeError> {
    let sizing = sizing::size(host, sized, request)?;
    let planned = target::goals(host, all, assessment, &sizing);
    Ok((as_planned(sizing, &planned), planned))
}

/// What a plan for the named ones makes of the pools, with all that take from them; none where it has nothing to size.
fn plan_for(
    host: &Host,
    all: &[Instance],
    assessment: &Assessment,
    named: &[Instance],
    request: &Request,
) -> Option<Target> {
    let is_named = |instance: &&Instance| named.iter().any(|named| named.id() == instance.id());
    let both: Vec<Instance> = all.iter().filter(|it| !is_named(it)).chain(named).cloned().collect();
    let names: Vec<String> = named.iter().map(Instance::handle).collect();
    let page_size = match request.page_size {
        PageSizeChoice::Auto => None,
        PageSizeChoice::Size(page) => Some(page),
    };
    let wish = Wish { names: &names, page_size, ..Wish::default() };
    target::target(host, &both, assessment, wish, request).ok().filter(|target| target.sizing.is_some())
}

/// Pages that a plan for the named ones has for others beside what those hold.
fn others(host: &Host, named: &[Instance], plan: &Target, request: &Request) -> Vec<(PageSize, PageCount)> {
    let (Some(whole), Ok(alone)) = (&plan.sizing, sizing::size(host, named, request)) else { return Vec::new() };
    let more = |goal: &Goal| {
        let page = goal.page_size;
        let pages = whole.pages(page).min(goal.goal).saturating_sub(alone.pages(page));
        (pages > PageCount::ZERO).then_some((page, pages))
    };
    plan.pools.iter().filter_map(more).collect()
}

/// What runs here, and what could not be read of the host.
fn running(arguments: &Arguments, host: &Host, source: &dyn Source, alone: bool) -> (Vec<Instance>, Vec<Unread>) {
    if alone {
        // Nobody's processes count, so none of their files is missed.
        let unread = host.unread.iter().filter(|fact| !of_a_process(&fact.what)).cloned();
        let unread = if arguments.memory.is_some() { Vec::new() } else { unread.collect() };
        return (Vec::new(), unread);
    }
    let Found { mut instances, unread: mut unread_of_engines, .. } = hugewise_engines::find(host, source);
    let mut unread = host.unread.clone();
    unread.append(&mut unread_of_engines);
    if arguments.connect {
        unread.append(&mut hugewise_engines::connect::ask(host, &mut instances));
    }
    (instances, unread)
}

fn of_a_process(what: &str) -> bool {
    let pid = what.strip_prefix("/proc/").and_then(|rest| rest.split('/').next());
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Adds what is described. A server that runs here and is described by its data directory is
/// sized as described: it is the same one.
fn describe(
    arguments: &Arguments,
    host: &Host,
    source: &dyn Source,
    instances: &mut Vec<Instance>,
    unread: &mut Vec<Unread>,
) -> Result<(), Failure> {
    let servers = &arguments.servers.0;
    let rooted = servers.iter().map(|server| rooted(&server.description, arguments.root.as_deref()));
    let descriptions = rooted.collect::<Result<Vec<_>, _>>()?;
    let described = describe::describe_all(host, source, &descriptions, arguments.root.is_none())
        .map_err(|error| Failure::new(error.to_string()))?;
    for (server, mut described) in servers.iter().zip(described) {
        let instance = &mut described.instance;
        if let Some((name, is)) = server.known_as {
            name.clone_into(&mut instance.name);
            instance.traits.push(is);
        }
        instances.retain(|other| !same_server(other, instance));
        make_unique(instances, instance);
        instances.push(described.instance);
        unread.append(&mut described.unread);
    }
    Ok(())
}

fn same_server(running: &Instance, described: &Instance) -> bool {
    if running.pid == 0 || running.containered || running.engine != described.engine {
        return false;
    }
    let folder = |of: &Instance| of.data_directory.known().map(|path| path.trim_end_matches('/').to_owned());
    running.pid == described.pid || (folder(running).is_some() && folder(running) == folder(described))
}

fn make_unique(instances: &[Instance], instance: &mut Instance) {
    let taken = |name: &str| instances.iter().any(|it| it.engine == instance.engine && it.name == name);
    let numbered = (2_u64..).map(|number| format!("{} {number}", instance.name));
    let name = std::iter::once(instance.name.clone()).chain(numbered).find(|name| !taken(name));
    instance.name = name.unwrap_or_default();
}

/// Paths from where the user stands, or in the captured host.
fn rooted(description: &Description, root: Option<&Path>) -> Result<Description, Failure> {
    let place = |path: &String| -> Result<String, Failure> {
        if path.starts_with('/') {
            return Ok(path.clone());
        }
        if root.is_some() {
            let message = format!("{path}: with --root a path is one of the captured host, and starts with /");
            return Err(Failure::new(message));
        }
        let absolute = std::path::absolute(path).map_err(|error| Failure::new(format!("{path:?}: {error}")))?;
        let text = absolute.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Failure::new(format!("{}: the path is not UTF-8; hugewise cannot read it", absolute.display()))
        })
    };
    let maybe = |path: &Option<String>| path.as_ref().map(place).transpose();
    Ok(match description {
        Description::Files { engine, data_dir, config, server_binary } => Description::Files {
            engine: *engine,
            data_dir: maybe(data_dir)?,
            config: maybe(config)?,
            server_binary: maybe(server_binary)?,
        },
        Description::Config { engine, path } => Description::Config { engine: *engine, path: place(path)? },
        other => other.clone(),
    })
}

/// Leaves one instance.
fn narrow(wanted: &str, instances: &mut Vec<Instance>) -> Result<(), Failure> {
    let titles: Vec<String> = instances.iter().map(Instance::title).collect();
    named::narrow(wanted, instances)?;
    // Whoever names a server vouches for it.
    instances.iter_mut().for_each(|instance| instance.vouchers.push(Voucher::Named));
    if instances.is_empty() {
        let there = match titles.as_slice() {
            [] => "none runs here, and none is described".to_owned(),
            titles => format!("running or described: {}", titles.join(", ")),
        };
        return Err(Failure::new(format!("no instance is called {wanted}; {there}")));
    }
    Ok(())
}

/// Whether a server was left out for want of facts, not because it needs no pages.
pub(crate) fn is_unknown(instance: &Instance, unread: &[Unread]) -> bool {
    let told = instance.huge_pages != HugePageUse::Unknown && instance.asked != Asked::Unknown;
    !told && instance.asked != Asked::Cannot && !unread.is_empty()
}

/// There is no answer: for want of a server, or for want of facts.
fn nothing(
    error: &SizeError,
    host: &Host,
    instances: &[Instance],
    request: &Request,
    unread: &[Unread],
) -> Result<Outcome, Failure> {
    if *error != SizeError::NothingToSize {
        return Err(Failure::new(error.to_string()));
    }
    if let Some(why) = host.processes.reason().filter(|_| instances.is_empty()) {
        let message = format!(
            "nothing to size: hugewise cannot tell what runs here (processes: {why}), and no server is described (--engine, --segment)"
        );
        return outcome::complain(&message, Outcome::Incomplete);
    }
    if let Some(why) = host.unseen() {
        let message = format!("nothing to size among the servers that could be seen, and there may be more: {why}");
        return outcome::complain(&message, Outcome::Incomplete);
    }
    if instances.iter().any(|instance| is_unknown(instance, unread)) {
        let titles: Vec<String> = instances.iter().map(Instance::title).collect();
        let message = format!("what {} needs could not be read; run as root, or describe it", titles.join(", "));
        return outcome::complain(&message, Outcome::Incomplete);
    }
    let left_out = sizing::left_out(host, instances, request);
    let left_out: Vec<String> = left_out.iter().map(|left| format!("{}: {}", left.instance, left.why)).collect();
    match left_out.as_slice() {
        [] => Err(Failure::new(error.to_string())),
        _ => Err(Failure::new(format!("nothing to size: {}", left_out.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_page_sizes() {
        assert_eq!(percent("10"), Ok(10));
        assert_eq!(percent("10%"), Ok(10));
        for wrong in ["-1", "101", "256", "ten", "", "1.5"] {
            assert!(percent(wrong).unwrap_err().to_string().contains("not a percentage"), "{wrong}");
        }
        assert_eq!(page_size("AUTO").map(|pages| pages.0), Ok(PageSizeChoice::Auto));
        assert_eq!(page_size("2M").map(|pages| pages.0), Ok(PageSizeChoice::Size(PageSize::MIB_2)));
        assert_eq!(page_size("1GiB").map(|pages| pages.0), Ok(PageSizeChoice::Size(PageSize::GIB_1)));
        for wrong in ["3M", "1K", "0", "-2M", "big"] {
            assert!(page_size(wrong).is_err(), "{wrong}");
        }
        // A number alone, in the unit that people leave out; 2048 and 1048576 are what the kernel writes, in kB.
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
        let config = |path: &str| Description::Config { engine: hugewise_model::Engine::MariaDb, path: path.into() };
        assert!(rooted(&config("my.cnf"), Some(Path::new("/capture"))).is_err());
        assert_eq!(rooted(&config("/my.cnf"), Some(Path::new("/capture"))).ok(), Some(config("/my.cnf")));
        let Ok(Description::Config { path, .. }) = rooted(&config("my.cnf"), None) else { panic!("no path") };
        assert!(path.starts_with('/') && path.ends_with("/my.cnf"), "{path}");
    }

    #[test]
    fn files_of_processes_are_told_from_others() {
        assert!(of_a_process("/proc/12/maps"));
        assert!(!of_a_process("/proc/meminfo"));
        assert!(!of_a_process("/proc"));
    }
}
