//! `hugewise plan`.

pub(crate) mod command_line;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hugewise_change::journal::{JournalState, JournalSummary, Unreadable};
use hugewise_change::planner::{self, PlanOptions};
use hugewise_change::{Plan, System, find_unfinished_apply, prepare_plan};
use hugewise_diagnose::sizing::{self, Request, SizeError, Sizing};
use hugewise_diagnose::{Diagnosis, DiagnosisOptions, target, untrusted};
use hugewise_engines::instance_names;
use hugewise_host::Source;
use hugewise_host::source::output_place::OutputPlace;
use hugewise_model::escape::shell;
use hugewise_model::{Host, Instance, PageCount, PageSize, Reason, Unread};
use hugewise_report::{PlanReport, formats};
use hugewise_system::Unfit;
use rustix::fs::Mode;

use crate::argument::Wrong;
use crate::captured_system::CapturedSystem;
use crate::failover_instances::Also;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::size::{self, PageSizeArgument};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
plan changes nothing; hugewise apply does.

  sudo hugewise plan
  sudo hugewise plan --restart 15/main --out plan.json
  sudo hugewise plan --format ansible > huge-pages.yml

Exit codes: 0 the plan is good, or there is nothing to change; 1 do not apply it: the host has \
     too little memory; \
2 it could not do its work, or an apply has not finished; 3 a server was left out, or nothing is \
     planned, because \
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
    /// Text for people, JSON for programs, or the same changes as a shell script, an Ansible
    /// playbook or cloud-init data.
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    /// Plan pools even if they leave the host too little memory, and allow writing them as a
    /// script, playbook or cloud-config.
    #[arg(long)]
    force: bool,
    /// Assume that pools with fewer pages than planned are kept, so that no server is set to refuse
    /// to start without them.
    #[arg(long)]
    keep_partial: bool,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PlanFormat {
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
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Wishes {
    /// Plan only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated.
    #[arg(long, value_name = "NAME")]
    instance: Vec<String>,
    /// Restart this instance so that it gets its huge pages now; may be repeated.
    #[arg(long, value_name = "NAME")]
    restart: Vec<String>,
    /// Page size: 2M, 1G, or auto, which is what each server's settings ask for.
    #[arg(long, value_name = "SIZE", value_parser = size::page_size, default_value = "auto", allow_hyphen_values = true)]
    page_size: PageSizeArgument,
    /// Add this many percent of spare pages, at most 100.
    #[arg(long, value_name = "PERCENT", value_parser = size::parse_percent, default_value = "0", allow_hyphen_values = true)]
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
    #[arg(long, value_name = "SIZE=PAGES", value_parser = parse_overcommit)]
    overcommit: Vec<Overcommit>,
    #[command(flatten)]
    also: Also,
    /// Also query the servers over their sockets. Without this option, hugewise connects to
    /// nothing.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overcommit(PageSize, PageCount);

fn parse_overcommit(text: &str) -> Result<Overcommit, Wrong> {
    let wrong = || Wrong::Overcommit(text.to_owned());
    let (page, pages) = text.split_once('=').ok_or_else(wrong)?;
    let page = crate::described_servers::parse_size(page)?;
    let page = PageSize::new(page.get()).ok_or_else(wrong)?;
    Ok(Overcommit(page, PageCount(pages.parse().map_err(|_| wrong())?)))
}

pub(crate) struct MadePlan {
    pub(crate) host: Host,
    pub(crate) plan: Plan,
    pub(crate) unread: Vec<Unread>,
    /// Servers are left out because facts could not be read.
    pub(crate) incomplete: bool,
}

/// Steps name accounts, so directory services are asked for them.
pub(crate) fn diagnosis_options(connect: bool) -> DiagnosisOptions<'static> {
    DiagnosisOptions { connect, ask_directory: true, ..DiagnosisOptions::default() }
}

impl MadePlan {
    /// A plan of which nothing is known but itself.
    pub(crate) fn from_plan(plan: Plan) -> Self {
        Self { host: Host::default(), plan, unread: Vec::new(), incomplete: false }
    }

    pub(crate) fn report(&self) -> PlanReport<'_> {
        PlanReport {
            host: &self.host,
            plan: &self.plan,
            kept: None,
            options: "",
            asking: false,
            unread: &self.unread,
        }
    }
}

/// Rules that a plan may break.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bent {
    /// A pool may fall short.
    pub(crate) keep_partial: bool,
    /// A pool may leave the host too little memory.
    pub(crate) force: bool,
}

impl Arguments {
    const fn plan_overrides(&self) -> Bent {
        Bent { keep_partial: self.keep_partial, force: self.force }
    }

    fn make_plan(&self) -> Result<MadePlan, CommandFailure> {
        let source = outcome::open_source(self.root.as_deref())?;
        let source = source.as_ref();
        if self.root.is_some() {
            let system = CapturedSystem(source);
            return self.wishes.make_plan(source, &system, self.plan_overrides());
        }
        let system = open_live_system()?;
        let unread = refuse_half_changed(&system)?;
        let mut made = self.wishes.make_plan(source, &system, self.plan_overrides())?;
        made.unread.extend(unread);
        Ok(made)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let made = arguments.make_plan()?;
    let plan = &made.plan;
    if let Some(path) = &arguments.out {
        save_plan(path, plan)?;
    }
    let kept = arguments.out.as_ref().map(|path| path.display().to_string());
    let options = arguments.wishes.to_command_line(arguments.plan_overrides());
    let planned = PlanReport { kept: kept.as_deref(), options: &options, ..made.report() };
    let layout = terminal::text_layout(arguments.color, false);
    let text = match arguments.format {
        PlanFormat::Text => Ok(outcome::render_report(|out| planned.write_text(out, layout))?),
        PlanFormat::Json => Ok(plan.to_json().into_bytes()),
        PlanFormat::Shell => formats::render_shell(plan, arguments.force).map(String::into_bytes),
        PlanFormat::Ansible => {
            formats::render_ansible(plan, arguments.force).map(String::into_bytes)
        }
        PlanFormat::CloudInit => formats::cloud_init(plan, arguments.force).map(String::into_bytes),
    };
    match text {
        Ok(text) => outcome::print_output(&text)?,
        Err(refused @ formats::Unwritable::Refused(_)) => {
            return outcome::print_complaint(
                &format!("{refused}; --force plans and writes it anyway"),
                CommandOutcome::Found,
            );
        }
        Err(unwritable) => return Err(CommandFailure::new(unwritable)),
    }
    Ok(if plan.refusal.is_some() {
        CommandOutcome::Found
    } else if made.incomplete {
        CommandOutcome::Incomplete
    } else {
        CommandOutcome::Fine
    })
}

/// Only root can read whether an apply has left the host half changed.
pub(crate) fn refuse_half_changed(system: &dyn System) -> Result<Vec<Unread>, CommandFailure> {
    match find_unfinished_apply(system) {
        Ok((None, unreadable)) => {
            let unread = |journal: Unreadable| Unread {
                why: Reason::from_text(format!("{}; {}", journal.why, journal.recovery_advice())),
                what: journal.path,
            };
            Ok(unreadable.into_iter().map(unread).collect())
        }
        Ok((Some(journal), _)) => Err(CommandFailure::new(half_changed(&journal))),
        Err(_) if matches!(system.check_can_change(), Err(Unfit::NotRoot)) => Ok(vec![Unread {
            what: hugewise_change::JOURNALS.into(),
            why: Reason::from_text(
                "only root may read it, so hugewise cannot tell whether an apply was interrupted",
            ),
        }]),
        Err(error) => Err(CommandFailure::new(error)),
    }
}

fn half_changed(journal: &JournalSummary) -> String {
    let id = &journal.id;
    let at = hugewise_report::date::format_rfc3339(journal.at)
        .map(|at| format!(" of {at}"))
        .unwrap_or_default();
    let half = "the host is half changed, so a plan for it would be wrong";
    match journal.state {
        JournalState::Stuck => format!(
            "apply {id}{at} could not be rolled back completely: {half}. hugewise undo {id} tries \
                 again and says what is in the way"
        ),
        JournalState::Undoing | JournalState::Waiting => {
            format!(
                "the undo of apply {id}{at} was interrupted or is still running: {half}. hugewise \
                     undo {id} finishes it"
            )
        }
        _ => format!(
            "apply {id}{at} was interrupted or is still running: {half}. Roll it back with \
                 hugewise undo {id}, or run \
             hugewise apply, which rolls it back first"
        ),
    }
}

pub(crate) fn open_live_system() -> Result<hugewise_change::LiveSystem, CommandFailure> {
    hugewise_change::LiveSystem::new().map_err(CommandFailure::new)
}

impl Wishes {
    pub(crate) fn with_also(also: Also) -> Self {
        Self { also, ..Self::default() }
    }

    /// Those of a plan file, as far as its author has a say: for what nothing vouches, and for
    /// instances of other nodes, whoever applies it has to name them too.
    ///
    /// # Errors
    /// Names that were not given with `--instance` and that nothing vouches for; captures that were
    /// not given with `--also`.
    pub(crate) fn confirm_file_wishes(
        &mut self,
        given: &Self,
        diagnosis: &Diagnosis,
    ) -> Result<(), CommandFailure> {
        for name in self.instance.iter().chain(&self.restart) {
            let found = instance_names::find_unique_instance(&diagnosis.instances, name);
            if let Ok(Some(one)) = found
                && !one.is_trusted()
                && !given.instance.contains(name)
            {
                return Err(CommandFailure::new(format!(
                    "the plan is for {name}, and {}; if you know it, name it too: --instance {}",
                    untrusted::untrusted_reason(one),
                    shell::quote_word(name)
                )));
            }
        }
        let given_paths: Vec<&Path> = given.also.paths().collect();
        if let Some(path) = self.also.paths().find(|path| !given_paths.contains(path)) {
            let path = shell::quote_word(&path.to_string_lossy());
            return Err(CommandFailure::new(format!(
                "the plan makes room for the instances of another node; name its capture too: \
                 --also {path}"
            )));
        }
        Ok(())
    }

    pub(crate) fn make_plan(
        &self,
        source: &dyn Source,
        system: &dyn System,
        bent: Bent,
    ) -> Result<MadePlan, CommandFailure> {
        let diagnosis = self.diagnose(source, self.diagnosis_options())?;
        self.plan_diagnosed_host(diagnosis, source, system, bent)
    }

    /// Whether running servers are asked, by clients that run as their accounts.
    pub(crate) fn connects(&self) -> bool {
        self.connect
    }

    pub(crate) fn diagnosis_options(&self) -> DiagnosisOptions<'static> {
        diagnosis_options(self.connect)
    }

    /// Diagnoses a host, with the instances of other nodes that were named.
    pub(crate) fn diagnose(
        &self,
        source: &dyn Source,
        options: DiagnosisOptions<'_>,
    ) -> Result<Diagnosis, CommandFailure> {
        self.also.diagnose(source, &options)
    }

    pub(crate) fn plan_diagnosed_host(
        &self,
        mut diagnosis: Diagnosis,
        source: &dyn Source,
        system: &dyn System,
        bent: Bent,
    ) -> Result<MadePlan, CommandFailure> {
        let options = self.plan_options(bent);
        if !(options.instances.is_empty() && options.restart.is_empty()) {
            planner::mark_named_instances(&mut diagnosis.instances, &options)
                .map_err(CommandFailure::new)?;
            diagnosis.reassess();
        }
        let Diagnosis { host, instances, assessment, unread, .. } = diagnosis;
        let sizing = self.size_instances(
            &host,
            &target::to_size(&host, &instances, &assessment, options.target_wish()),
        )?;
        let plan =
            planner::build_plan(&host, &instances, &assessment, sizing.as_ref(), source, &options);
        let mut plan = plan.map_err(CommandFailure::new)?;
        plan.host.machine_id = read_trimmed_file(system, MACHINE_ID);
        plan.host.boot_id = read_trimmed_file(system, BOOT_ID);
        plan.options = self.to_command_words(bent);
        if !host.read_at.is_known() {
            // A capture without a time is planned for now.
            plan.made_at = planner::made_at(Some(crate::unix_now()));
        }
        let plan = prepare_plan(plan, system).map_err(CommandFailure::new)?;
        let left_out = sizing.iter().flat_map(|sizing| &sizing.left_out);
        let left_out: Vec<_> = left_out.map(|left| &left.instance).collect();
        let incomplete = host.unseen_reason().is_some()
            || instances.iter().any(|instance| {
                left_out.contains(&&instance.id()) && size::is_unknown(instance, &unread)
            });
        let incomplete = incomplete || plan.is_undecided();
        Ok(MadePlan { host, plan, unread, incomplete })
    }

    fn plan_options(&self, bent: Bent) -> PlanOptions {
        PlanOptions {
            instances: self.instance.clone(),
            page_size: size::named_page_size(self.page_size.0),
            restart: self.restart.clone(),
            now: self.only != Some(Only::Boot),
            boot: self.only != Some(Only::Now),
            keep_partial: bent.keep_partial,
            overrule: bent.force,
            shrink: self.shrink,
            early: self.early,
            overcommit: self
                .overcommit
                .iter()
                .map(|Overcommit(page, pages)| (*page, *pages))
                .collect(),
        }
    }

    fn size_instances(
        &self,
        host: &Host,
        instances: &[Instance],
    ) -> Result<Option<Sizing>, CommandFailure> {
        if instances.is_empty() {
            return Ok(None);
        }
        let request = Request {
            page_size: self.page_size.0,
            headroom_percent: self.headroom,
            sessions: self.sessions,
            ..Request::default()
        };
        match sizing::size_servers(host, instances, &request) {
            Ok(sizing) => Ok(Some(sizing)),
            Err(SizeError::NothingToSize) => Ok(None),
            Err(error) => Err(CommandFailure::new(error)),
        }
    }
}

const MACHINE_ID: &str = "/etc/machine-id";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn read_trimmed_file(system: &dyn System, path: &str) -> Option<String> {
    let text = system.read_text(path).ok().flatten()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(crate) fn same_host(plan: &Plan, system: &dyn System) -> Result<(), CommandFailure> {
    let (here, name) = (
        read_trimmed_file(system, MACHINE_ID),
        read_trimmed_file(system, "/proc/sys/kernel/hostname"),
    );
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
    Err(CommandFailure::new(format!(
        "the plan was made for {} ({}), and this is {} ({}): make one here with hugewise plan",
        plan.host.name,
        id(&plan.host.machine_id),
        name.unwrap_or_default(),
        id(&here)
    )))
}

/// Only its owner may read the new file, as it has contents of the host's files.
fn save_plan(path: &Path, plan: &Plan) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| {
        let advice = if error.kind() == io::ErrorKind::AlreadyExists {
            "; --out names a new file"
        } else {
            ""
        };
        CommandFailure::new(format!("cannot write {}: {error}{advice}", path.display()))
    };
    let place = OutputPlace::find(path).map_err(failed)?;
    let mut file = place.create_file(Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let written = file.write_all(plan.to_json().as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Removes what would be half a plan.
        let _ = place.remove_file();
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_demand_name_their_size() {
        assert_eq!(parse_overcommit("2M=100"), Ok(Overcommit(PageSize::MIB_2, PageCount(100))));
        for wrong in ["", "100", "2M", "2M=", "2M=-1", "3M=1", "=1", "2M=1.5"] {
            assert!(parse_overcommit(wrong).is_err(), "{wrong}");
        }
    }
}
