//! `hugewise plan`.

mod retyped;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hugewise_advice::sizing::{self, PageSizeChoice, Request, SizeError, Sizing};
use hugewise_advice::{Assessment, assess, target};
use hugewise_change::journal::{State, Summary, Unreadable};
use hugewise_change::planner::{self, Options};
use hugewise_change::{Plan, System, prepare, unfinished};
use hugewise_engines::Found;
use hugewise_host::Source;
use hugewise_host::source::Once;
use hugewise_model::{Host, Instance, PageCount, PageSize, Reason, Unread};
use hugewise_report::{Planned, formats};
use hugewise_system::Unfit;

use crate::also::Also;
use crate::argument::Wrong;
use crate::captured::Captured;
use crate::outcome::{self, Failure, Outcome};
use crate::size::{self, Pages};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
plan changes nothing; hugewise apply does.

  sudo hugewise plan
  sudo hugewise plan --restart 15/main --out plan.json
  sudo hugewise plan --format ansible > huge-pages.yml

Exit codes: 0 the plan is good, or there is nothing to change; 1 do not apply it: the host has too little memory; \
2 it could not do its work, or an apply has not finished; 3 a server was left out, or nothing is planned, because \
some facts could not be read.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Plan for a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport.
    #[arg(long, value_name = "PATH", conflicts_with = "connect")]
    root: Option<PathBuf>,
    #[command(flatten)]
    wishes: Wishes,
    /// Save the plan to this new file, for hugewise apply.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Text for people, JSON for programs, or the same changes as a shell script, an Ansible playbook or cloud-init data.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Plan pools even if they leave the host too little memory, and allow writing them as a script, playbook or cloud-config.
    #[arg(long)]
    force: bool,
    /// Assume that pools with fewer pages than planned are kept, so that no server is set to refuse to start without them.
    #[arg(long)]
    keep_partial: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people: each change as a unified diff.
    Text,
    /// For programs, and for hugewise apply.
    Json,
    /// A script for any POSIX shell.
    Shell,
    /// An Ansible playbook.
    Ansible,
    /// User data for new hosts.
    CloudInit,
}

/// What a plan is to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Wishes {
    /// Plan only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated.
    #[arg(long, value_name = "NAME")]
    instance: Vec<String>,
    /// Restart this instance so that it gets its huge pages now; may be repeated.
    #[arg(long, value_name = "NAME")]
    restart: Vec<String>,
    /// Page size: 2M, 1G, or auto, which is what each server's settings ask for.
    #[arg(long, value_name = "SIZE", value_parser = size::page_size, default_value = "auto", allow_hyphen_values = true)]
    page_size: Pages,
    /// Add this many percent of spare pages, at most 100.
    #[arg(long, value_name = "PERCENT", value_parser = size::percent, default_value = "0", allow_hyphen_values = true)]
    headroom: u8,
    /// Plan for this many sessions on the host.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=sizing::MOST_SESSIONS))]
    sessions: Option<u64>,
    /// Only what takes effect now, or only what takes effect at the next boot.
    #[arg(long, value_enum, value_name = "WHEN")]
    only: Option<Only>,
    /// Reserve the pools on the kernel command line, before memory can fragment.
    #[arg(long)]
    early: bool,
    /// Give back pages that nobody uses or asks for, even if the host can spare the memory.
    #[arg(long)]
    shrink: bool,
    /// Let a pool grow on demand by this many pages: 2M=100; may be repeated.
    #[arg(long, value_name = "SIZE=PAGES", value_parser = overcommit)]
    overcommit: Vec<Overcommit>,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to nothing.
    #[arg(long)]
    connect: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// What takes effect now.
    Now,
    /// What takes effect at the next boot.
    Boot,
}

/// Pages that a pool may grow by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overcommit(PageSize, PageCount);

fn overcommit(text: &str) -> Result<Overcommit, Wrong> {
    let wrong = || Wrong::Overcommit(text.to_owned());
    let (page, pages) = text.split_once('=').ok_or_else(wrong)?;
    let page = crate::described::size(page)?;
    let page = PageSize::new(page.get()).ok_or_else(wrong)?;
    Ok(Overcommit(page, PageCount(pages.parse().map_err(|_| wrong())?)))
}

/// A plan and what it was made of.
pub(crate) struct Made {
    pub(crate) host: Host,
    pub(crate) plan: Plan,
    pub(crate) unread: Vec<Unread>,
    /// Servers that are left out because facts could not be read.
    pub(crate) incomplete: bool,
}

/// A host as it was looked at.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) host: Host,
    pub(crate) instances: Vec<Instance>,
    pub(crate) assessment: Assessment,
    pub(crate) unread: Vec<Unread>,
}

impl Seen {
    pub(crate) fn read(source: &dyn Source, connect: bool) -> Self {
        let source = Once::new(source);
        let mut host = hugewise_host::read(&source);
        let mut found = hugewise_engines::find(&host, &source);
        // What is to be done names accounts; a container's are not the host's.
        let owners = found.instances.iter().filter(|instance| !instance.containered);
        let owners: Vec<u32> = owners.filter_map(|instance| Some(host.process(instance.pid)?.uid)).collect();
        if hugewise_host::directory::add(&mut host, owners) {
            found = hugewise_engines::find(&host, &source);
        }
        let Found { mut instances, unread: mut unread_of_engines, .. } = found;
        let mut unread = host.unread.clone();
        unread.append(&mut unread_of_engines);
        if connect {
            unread.append(&mut hugewise_engines::connect::ask(&host, &mut instances));
        }
        unread.sort();
        unread.dedup();
        let assessment = assess(&host, &instances);
        Self { host, instances, assessment, unread }
    }
}

/// What a plan may do against its own rules.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bent {
    /// A pool may fall short.
    pub(crate) keep_partial: bool,
    /// A pool may leave the host too little memory.
    pub(crate) force: bool,
}

impl Arguments {
    const fn bent(&self) -> Bent {
        Bent { keep_partial: self.keep_partial, force: self.force }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let source = outcome::open(arguments.root.as_deref())?;
    let made = match &arguments.root {
        Some(_) => arguments.wishes.make(source.as_ref(), &Captured(source.as_ref()), arguments.bent())?,
        None => {
            let system = live()?;
            let unread = whole(&system)?;
            let mut made = arguments.wishes.make(source.as_ref(), &system, arguments.bent())?;
            made.unread.extend(unread);
            made
        }
    };
    let Made { host, plan, unread, incomplete } = &made;
    if let Some(path) = &arguments.out {
        keep(path, plan)?;
    }
    let kept = arguments.out.as_ref().map(|path| path.display().to_string());
    let options = arguments.wishes.retyped(arguments.bent());
    let planned = Planned { host, plan, kept: kept.as_deref(), options: &options, asking: false, unread };
    let format = |format: fn(&Plan, bool) -> Result<String, formats::Unwritable>| match format(plan, arguments.force) {
        Ok(text) => Ok(text.into_bytes()),
        Err(unwritable) => Err(unwritable),
    };
    let text = match arguments.format {
        Format::Text => {
            let mut text = Vec::new();
            let written = planned.write_text(&mut text, terminal::layout(arguments.color, false));
            written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
            Ok(text)
        }
        Format::Json => Ok(plan.to_json().into_bytes()),
        Format::Shell => format(formats::shell),
        Format::Ansible => format(formats::ansible),
        Format::CloudInit => format(formats::cloud_init),
    };
    match text {
        Ok(text) => outcome::print(&text)?,
        Err(refused @ formats::Unwritable::Refused(_)) => {
            return outcome::complain(&format!("{refused}; --force plans and writes it anyway"), Outcome::Found);
        }
        Err(unwritable) => return Err(Failure::new(unwritable.to_string())),
    }
    Ok(if plan.refusal.is_some() {
        Outcome::Found
    } else if *incomplete {
        Outcome::Incomplete
    } else {
        Outcome::Fine
    })
}

/// Refuses a host that an apply has left half changed. Only root can read whether one has.
pub(crate) fn whole(system: &dyn System) -> Result<Vec<Unread>, Failure> {
    match unfinished(system) {
        Ok((None, unreadable)) => {
            let unread = |journal: Unreadable| Unread {
                why: Reason::untold(format!("{}; {}", journal.why, journal.advice())),
                what: journal.path,
            };
            Ok(unreadable.into_iter().map(unread).collect())
        }
        Ok((Some(journal), _)) => Err(Failure::new(half_changed(&journal))),
        Err(_) if matches!(system.fit(), Err(Unfit::NotRoot)) => Ok(vec![Unread {
            what: hugewise_change::JOURNALS.into(),
            why: Reason::untold("only root may read it, so hugewise cannot tell whether an apply was interrupted"),
        }]),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

fn half_changed(journal: &Summary) -> String {
    let id = &journal.id;
    let of = hugewise_report::date::rfc3339(journal.at).map(|at| format!(" of {at}")).unwrap_or_default();
    let half = "the host is half changed, so a plan for it would be wrong";
    match journal.state {
        State::Stuck => format!(
            "apply {id}{of} could not be rolled back completely: {half}. hugewise undo {id} tries again and says what is in the way"
        ),
        State::Undoing | State::Waiting => {
            format!(
                "the undo of apply {id}{of} was interrupted or is still running: {half}. hugewise undo {id} finishes it"
            )
        }
        _ => format!(
            "apply {id}{of} was interrupted or is still running: {half}. Roll it back with hugewise undo {id}, or run \
             hugewise apply, which rolls it back first"
        ),
    }
}

/// The running machine as something that can be changed.
pub(crate) fn live() -> Result<hugewise_change::Live, Failure> {
    hugewise_change::Live::new().map_err(|failure| Failure::new(failure.to_string()))
}

impl Wishes {
    /// Those of who asks for nothing in particular, with instances of other nodes that may be started here.
    pub(crate) fn usual(also: Also) -> Self {
        Self {
            instance: Vec::new(),
            restart: Vec::new(),
            page_size: Pages(PageSizeChoice::Auto),
            headroom: 0,
            sessions: None,
            only: None,
            early: false,
            shrink: false,
            overcommit: Vec::new(),
            also,
            connect: false,
        }
    }

    /// Looks at a host and makes its plan.
    pub(crate) fn make(&self, source: &dyn Source, system: &dyn System, bent: Bent) -> Result<Made, Failure> {
        self.plan(Seen::read(source, self.connect), source, system, bent)
    }

    /// Makes the plan of a host that was looked at.
    pub(crate) fn plan(
        &self,
        seen: Seen,
        source: &dyn Source,
        system: &dyn System,
        bent: Bent,
    ) -> Result<Made, Failure> {
        let options = self.options(bent);
        let Seen { host, mut instances, mut assessment, mut unread } = seen;
        let own = instances.len();
        self.also.add(&host, source, &mut instances, &mut unread)?;
        if instances.len() > own {
            assessment = assess(&host, &instances);
        }
        if !(options.instances.is_empty() && options.restart.is_empty()) {
            planner::name(&mut instances, &options).map_err(|error| Failure::new(error.to_string()))?;
            assessment = assess(&host, &instances);
        }
        let sizing = self.size(&host, &target::to_size(&host, &instances, &assessment, options.wish()))?;
        let plan = planner::plan(&host, &instances, &assessment, sizing.as_ref(), source, &options);
        let mut plan = plan.map_err(|error| Failure::new(error.to_string()))?;
        identify(&mut plan, system);
        if !host.read_at.is_known() {
            // A capture that does not know its time is planned for now.
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            plan.made_at = planner::made_at(i64::try_from(since.as_secs()).ok());
        }
        let plan = prepare(plan, system).map_err(|error| Failure::new(error.to_string()))?;
        let left_out = sizing.iter().flat_map(|sizing| &sizing.left_out);
        let left_out: Vec<_> = left_out.map(|left| &left.instance).collect();
        let incomplete = host.unseen().is_some()
            || instances
                .iter()
                .any(|instance| left_out.contains(&&instance.id()) && size::is_unknown(instance, &unread));
        let incomplete = incomplete || plan.is_undecided();
        Ok(Made { host, plan, unread, incomplete })
    }

    fn options(&self, bent: Bent) -> Options {
        Options {
            instances: self.instance.clone(),
            page_size: match self.page_size.0 {
                PageSizeChoice::Auto => None,
                PageSizeChoice::Size(page) => Some(page),
            },
            restart: self.restart.clone(),
            now: self.only != Some(Only::Boot),
            boot: self.only != Some(Only::Now),
            keep_partial: bent.keep_partial,
            overrule: bent.force,
            shrink: self.shrink,
            early: self.early,
            overcommit: self.overcommit.iter().map(|Overcommit(page, pages)| (*page, *pages)).collect(),
        }
    }

    fn size(&self, host: &Host, instances: &[Instance]) -> Result<Option<Sizing>, Failure> {
        if instances.is_empty() {
            return Ok(None);
        }
        let request = Request {
            page_size: self.page_size.0,
            headroom_percent: self.headroom,
            sessions: self.sessions,
            ..Request::default()
        };
        match sizing::size(host, instances, &request) {
            Ok(sizing) => Ok(Some(sizing)),
            Err(SizeError::NothingToSize) => Ok(None),
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }
}

const MACHINE_ID: &str = "/etc/machine-id";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Says in the plan which host it is for.
fn identify(plan: &mut Plan, system: &dyn System) {
    plan.host.machine_id = line(system, MACHINE_ID);
    plan.host.boot_id = line(system, BOOT_ID);
}

fn line(system: &dyn System, path: &str) -> Option<String> {
    let text = system.text(path).ok().flatten()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A plan for another host is not this one's.
pub(crate) fn same_host(plan: &Plan, system: &dyn System) -> Result<(), Failure> {
    let (here, name) = (line(system, MACHINE_ID), line(system, "/proc/sys/kernel/hostname"));
    let same = match (&plan.host.machine_id, &here) {
        (None, None) => name.as_deref() == Some(&plan.host.name),
        (planned, here) => planned == here,
    };
    if same {
        return Ok(());
    }
    let id = |id: &Option<String>| match id {
        Some(id) => format!("machine-id {id}"),
        None => "without a machine-id".into(),
    };
    Err(Failure::new(format!(
        "the plan was made for {} ({}), and this is {} ({}): make one here with hugewise plan",
        plan.host.name,
        id(&plan.host.machine_id),
        name.unwrap_or_default(),
        id(&here)
    )))
}

/// Writes a plan to a file that is not there yet. It names files of the host with their contents, so only its maker
/// may read it.
fn keep(path: &Path, plan: &Plan) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |error: io::Error| {
        let advice = if error.kind() == io::ErrorKind::AlreadyExists { "; --out names a new file" } else { "" };
        Failure::new(format!("cannot write {}: {error}{advice}", path.display()))
    };
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let written = file.write_all(plan.to_json().as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a plan is none.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_demand_name_their_size() {
        assert_eq!(overcommit("2M=100"), Ok(Overcommit(PageSize::MIB_2, PageCount(100))));
        for wrong in ["", "100", "2M", "2M=", "2M=-1", "3M=1", "=1", "2M=1.5"] {
            assert!(overcommit(wrong).is_err(), "{wrong}");
        }
    }
}
