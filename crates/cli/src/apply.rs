//! `hugewise apply`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_change::apply::ApplyOptions;
use hugewise_change::outcome::StepResult;
use hugewise_change::plan::{Change, EffectTime, ExpectedResolution, Plan};
use hugewise_change::{
    ApplyEnd, ApplyEvent, ApplyResult, System, UnpersistedChange, allowed, apply_plan,
    confirm_wish, find_unpersisted_changes, recover_interrupted,
};
use hugewise_diagnose::Diagnosis;
use hugewise_diagnose::coverage::{Coverage, measure_coverage};
use hugewise_host::container::IS_BUILT_FOR_TESTS;
use hugewise_host::{Source, container};
use hugewise_model::escape::shell;
use hugewise_model::{Host, Observed, Unread};
use hugewise_report::{AppliedReport, FindingOutcome, PlanReport, Proof, RestartedServer, plain};

use crate::format::OutputFormat;
use crate::hints::PathKind;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::plan::command_line::FileOptions;
use crate::plan::{Bent, MadePlan, Wishes, diagnosis_options, open_live_system, same_host};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Before it changes anything, apply saves the old state in /var/lib/hugewise/journal; hugewise undo \
     restores it. If apply \
is killed, the next apply or undo puts the host back as it was.

  sudo hugewise apply                          make a plan, show it, ask
  sudo hugewise apply --yes --restart 15/main  make a plan, don't ask
  sudo hugewise apply plan.json                apply a saved plan, if this host would \
     still plan it

Exit codes: 0 done, or nothing to do; 1 done, but a finding remains that should be gone, the next \
     boot will not find what was \
written, or only part was done; 2 nothing was changed, or a step failed and everything was rolled \
     back; 3 done, but \
whether it helped cannot be determined.";

/// How long a restarted server may take to map its memory.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A plan saved with hugewise plan --out. Without it, apply makes one. If it names an instance
    /// that nothing vouches for, or was made with --also or --connect, give --instance, --also or
    /// --connect here too.
    #[arg(value_name = "PLAN", conflicts_with_all = PLANNING)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    wishes: Wishes,
    /// Don't ask.
    #[arg(short, long)]
    yes: bool,
    /// Apply the plan even if it leaves the host too little memory.
    #[arg(long)]
    force: bool,
    /// If a pool gets fewer pages than planned, keep those it got.
    #[arg(long)]
    keep_partial: bool,
    /// If a step fails, roll back only that step and go on with the others.
    #[arg(long)]
    keep_going: bool,
    /// Text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

/// Options that shape a plan conflict with a plan that is given.
const PLANNING: [&str; 8] =
    ["restart", "page_size", "headroom", "sessions", "only", "early", "shrink", "overcommit"];

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let system = open_live_system()?;
    system.check_can_change().map_err(|unfit| apply_failure(unfit.into()))?;
    let source = outcome::open_source(None)?;
    let source = source.as_ref();
    let wish = match &arguments.plan {
        Some(path) => Some(read_plan(source, path)?),
        None => None,
    };
    if let Some(wish) = &wish {
        allowed::check_plan_allowed(wish).map_err(apply_failure)?;
        same_host(wish, &system)?;
    }
    // A plan is made of a host that is in a defined state.
    let recovered = recover_interrupted(&system, &mut show_event)
        .map_err(apply_failure)?
        .map(|undone| undone.describe_leftovers())
        .unwrap_or_default();
    let MadePlan { plan, host, unread, .. } = match wish {
        Some(wish) if takes_plan_as_it_is(&wish) => MadePlan::from_plan(wish),
        Some(wish) => confirm_plan_file(arguments, &wish, source, &system)?,
        None => arguments.wishes.make_plan(source, &system, plan_overrides(arguments))?,
    };
    if !arguments.yes
        && !plan.steps.is_empty()
        && !ask_for_consent(arguments, &plan, &host, &unread)?
    {
        return Err(CommandFailure::new("nothing was changed"));
    }
    let options = ApplyOptions {
        force: arguments.force,
        keep_going: arguments.keep_going,
        keep_partial: arguments.keep_partial,
    };
    let applied = apply_plan(&plan, &system, options, &mut show_event).map_err(apply_failure);
    terminal::clear_progress();
    let mut applied = applied?;
    applied.notes.splice(0..0, recovered);
    if applied.journal.is_some() {
        let own_root = source.machine_facts().own_root;
        applied.notes.extend(container::describe_host_without_init(source, &own_root));
    }
    let (seen, expectations, restarted) = reassess_host(source, &plan, &applied);
    let unkept = find_unpersisted_changes(&plan, &applied, &seen.host, &seen.instances);
    let report = AppliedReport {
        host: &seen.host,
        plan: &plan,
        applied: &applied,
        expectations: &expectations,
        restarted: &restarted,
        unkept: &unkept,
        unread: &seen.unread,
    };
    outcome::print_output(&arguments.format.render(&report, arguments.color)?)?;
    let ended = decide_outcome(&applied, &expectations, &restarted, &unkept)?;
    // Servers that were not seen were not planned for.
    let all_seen = seen.host.unseen_reason().is_none();
    Ok(if ended == CommandOutcome::Fine && !all_seen { CommandOutcome::Incomplete } else { ended })
}

/// A remaining finding counts as in `hugewise check`.
fn decide_outcome(
    applied: &ApplyResult,
    expectations: &[FindingOutcome],
    restarted: &[RestartedServer],
    unkept: &[UnpersistedChange],
) -> Result<CommandOutcome, CommandFailure> {
    let is =
        |proof: Proof| expectations.iter().any(|finding_outcome| finding_outcome.proof == proof);
    let off = |restarted_server: &RestartedServer| {
        matches!(restarted_server.standing, None | Some(Coverage::None | Coverage::Partly))
    };
    let unknown =
        |restarted_server: &RestartedServer| restarted_server.standing == Some(Coverage::Unknown);
    match applied.end {
        ApplyEnd::TakenBack | ApplyEnd::Stuck => {
            let failure = applied.steps.iter().find_map(|step| match &step.result {
                StepResult::Failed { why } => Some(format!("step {}: {why}", step.id)),
                _ => None,
            });
            let then = match applied.end {
                ApplyEnd::TakenBack => "everything was rolled back",
                _ => "not everything could be rolled back",
            };
            Err(CommandFailure::new(format!(
                "{}; {then}",
                failure.unwrap_or_else(|| "a step failed".into())
            )))
        }
        ApplyEnd::Partly => Ok(CommandOutcome::Found),
        _ if unkept.iter().any(|one| one.lost) => Ok(CommandOutcome::Found),
        ApplyEnd::Done | ApplyEnd::NothingToDo
            if is(Proof::Remains) || restarted.iter().any(off) =>
        {
            Ok(CommandOutcome::Found)
        }
        _ if !unkept.is_empty() || is(Proof::Unknown) || restarted.iter().any(unknown) => {
            Ok(CommandOutcome::Incomplete)
        }
        ApplyEnd::Done | ApplyEnd::NothingToDo => Ok(CommandOutcome::Fine),
    }
}

pub(crate) fn apply_failure(error: hugewise_change::Error) -> CommandFailure {
    terminal::clear_progress();
    match &error {
        // Its message has the lines of a diff.
        hugewise_change::Error::Drifted(_) | hugewise_change::Error::ChangedSince { .. } => {
            CommandFailure::of_lines(&error.to_string())
        }
        _ => CommandFailure::new(error),
    }
}

/// Far above any real plan.
const MOST: u64 = 16 << 20;

/// A pool that may fall short does not keep a server from its start: no server is set to insist.
fn plan_overrides(arguments: &Arguments) -> Bent {
    let short = arguments.keep_partial || arguments.keep_going;
    Bent { keep_partial: short, force: arguments.force }
}

/// A plan file is a wish: what is carried out is what this host's own plan has too.
fn confirm_plan_file(
    arguments: &Arguments,
    wish: &Plan,
    source: &dyn Source,
    system: &dyn System,
) -> Result<MadePlan, CommandFailure> {
    let options = FileOptions::parse_words(&wish.options).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        CommandFailure::new(format!("the options in the plan are not those of a plan: {why}"))
    })?;
    let (mut wishes, given) = (options.wishes, &arguments.wishes);
    if wishes.connects() && !given.connects() {
        return Err(CommandFailure::new(
            "the plan was made with answers of running servers; to let apply ask them too, add \
             --connect",
        ));
    }
    let diagnosis = given.diagnose(source, given.diagnosis_options())?;
    wishes.confirm_file_wishes(given, &diagnosis)?;
    let mut bent = plan_overrides(arguments);
    bent.keep_partial |= options.keep_partial;
    let own = wishes.plan_diagnosed_host(diagnosis, source, system, bent)?;
    let plan = confirm_wish(wish, &own.plan, system).map_err(apply_failure)?;
    Ok(MadePlan { plan, ..own })
}

/// Tests try what apply does with plans that no host has: the program that they run, and no other,
/// takes a plan of theirs as it is.
fn takes_plan_as_it_is(plan: &Plan) -> bool {
    IS_BUILT_FOR_TESTS && plan.options == ["as-it-is"]
}

fn read_plan(source: &dyn Source, path: &Path) -> Result<Plan, CommandFailure> {
    let failure = |why: &str| CommandFailure::for_path(path, why);
    let place = outcome::absolute_path(path)?;
    if let Some(instead) = PathKind::from_path(path).instead_of("apply", path) {
        return Err(CommandFailure::new(format!("{} is not a plan: {instead}", path.display())));
    }
    let bytes = match source.read_part(&place, None, MOST) {
        Observed::Known(part) if part.offset == 0 => part.bytes,
        Observed::Known(_) => return Err(failure("this file is too large for a plan")),
        Observed::Absent => {
            let make =
                format!("sudo hugewise plan --out {}", shell::quote_word(&path.to_string_lossy()));
            return Err(failure(&format!("no such file; to make a plan there, run '{make}'")));
        }
        other => return Err(failure(&other.reason_text().unwrap_or_default())),
    };
    Plan::from_json(&bytes).map_err(|why| failure(&why.to_string()))
}

fn ask_for_consent(
    arguments: &Arguments,
    plan: &Plan,
    host: &Host,
    unread: &[Unread],
) -> Result<bool, CommandFailure> {
    if !terminal::can_ask() {
        return Err(CommandFailure::new(
            "cannot ask for confirmation, because this is not a terminal. Nothing was changed; \
                 --yes applies without asking",
        ));
    }
    // On standard error, like the question.
    let planned = PlanReport { host, plan, kept: None, options: "", asking: true, unread };
    let mut text = Vec::new();
    let written = planned.write_text(&mut text, terminal::text_layout(arguments.color, false));
    written.map_err(|error| CommandFailure::new(format!("the plan cannot be shown: {error}")))?;
    let mut error = io::stderr().lock();
    let shown = error.write_all(&text).and_then(|()| error.write_all(b"\nApply this plan? [y/N] "));
    shown
        .and_then(|()| error.flush())
        .map_err(|error| CommandFailure::new(format!("the plan cannot be shown: {error}")))?;
    terminal::read_yes()
        .map_err(|error| CommandFailure::new(format!("the answer cannot be read: {error}")))
}

pub(crate) fn show_event(event: &ApplyEvent<'_>) {
    let line = match event {
        ApplyEvent::Recovering { journal } => {
            format!("rolling back apply {journal}, which was interrupted")
        }
        ApplyEvent::Step { step, number, of: index } => format!("{number}/{index} {}", step.title),
        ApplyEvent::Changing { change } => match change {
            Change::Value(change) => format!("  {} = {}", change.path, change.after),
            Change::File(change) => format!("  {}", change.path),
            Change::Command(change) => format!("  {}", change.command.join(" ")),
        },
        ApplyEvent::PoolShort { wanted, obtained, attempt, attempts, .. } => {
            format!(
                "  {obtained} of {}; compacting memory, attempt {attempt} of {attempts}",
                wanted.in_pages()
            )
        }
        ApplyEvent::StepFailed { step, why } => format!("{} failed: {why}", step.id),
        ApplyEvent::TakingBack { what } => format!("  rolling back {what}"),
        ApplyEvent::AlreadySo { .. } => return,
    };
    let stays = matches!(event, ApplyEvent::StepFailed { .. } | ApplyEvent::Recovering { .. });
    show_progress(&line, stays);
}

fn show_progress(line: &str, stays: bool) {
    let end = if stays { "\n" } else { "" };
    terminal::show_progress(&format!("\r\x1b[K{}{end}", plain::escape_line(line)));
}

fn reassess_host(
    source: &dyn Source,
    plan: &Plan,
    applied: &ApplyResult,
) -> (Diagnosis, Vec<FindingOutcome>, Vec<RestartedServer>) {
    let start = Instant::now();
    loop {
        let seen = Diagnosis::run(source, &diagnosis_options(false));
        let restarted = check_restarted(plan, applied, &seen);
        let expectations = check_expectations(plan, applied, &restarted, &seen);
        // A server that was just restarted may still be mapping its memory.
        let of_one = |finding_outcome: &FindingOutcome| {
            restarted
                .iter()
                .any(|one| finding_outcome.expected.instance.as_ref() == Some(&one.instance))
        };
        let settled = restarted
            .iter()
            .all(|one| matches!(one.standing, Some(Coverage::All | Coverage::NotCounted(_))))
            && !expectations.iter().any(|finding_outcome| {
                finding_outcome.proof != Proof::Gone && of_one(finding_outcome)
            });
        if settled || start.elapsed() > PATIENCE {
            terminal::clear_progress();
            return (seen, expectations, restarted);
        }
        show_progress("waiting for the restarted servers", false);
        std::thread::sleep(PAUSE);
    }
}

fn check_restarted(plan: &Plan, applied: &ApplyResult, seen: &Diagnosis) -> Vec<RestartedServer> {
    let done = |id: &str| {
        applied.steps.iter().any(|step| step.id == id && step.result == StepResult::Done)
    };
    let steps = plan.steps.iter().filter(|step| step.is_restart() && done(&step.id));
    let restarted_server_of = |title: &String| {
        let instance = seen.instances.iter().find(|instance| instance.id().is_titled(title));
        let standing = instance.map(|instance| measure_coverage(&seen.host, instance, true));
        RestartedServer { instance: title.clone(), standing }
    };
    steps.filter_map(|step| step.instance.as_ref()).map(restarted_server_of).collect()
}

fn check_expectations(
    plan: &Plan,
    applied: &ApplyResult,
    restarted: &[RestartedServer],
    seen: &Diagnosis,
) -> Vec<FindingOutcome> {
    let made = plan.steps.iter().filter(|step| is_made(applied, &step.id));
    let mut expected: Vec<&ExpectedResolution> = made.flat_map(|step| &step.expects).collect();
    // If several steps work on one finding, the last to take effect decides.
    expected.sort_by_key(|expected_resolution| {
        (
            &expected_resolution.code,
            &expected_resolution.instance,
            std::cmp::Reverse(expected_resolution.when),
        )
    });
    expected.dedup_by_key(|expected_resolution| {
        (&expected_resolution.code, &expected_resolution.instance)
    });
    expected.into_iter().map(|expected| check_expectation(restarted, seen, expected)).collect()
}

fn is_made(applied: &ApplyResult, id: &str) -> bool {
    let made = |result: &StepResult| {
        matches!(result, StepResult::Done | StepResult::AlreadySo | StepResult::Partial { .. })
    };
    applied.steps.iter().any(|step| step.id == id && made(&step.result))
}

fn check_expectation(
    restarted: &[RestartedServer],
    seen: &Diagnosis,
    expected: &ExpectedResolution,
) -> FindingOutcome {
    let finding = seen
        .assessment
        .findings
        .iter()
        .find(|finding| expected.is_about(finding.code, finding.instance.as_ref()));
    let unknown = seen.assessment.unknown.iter().find(|unknown_verdict| {
        expected.is_about(unknown_verdict.code, unknown_verdict.instance.as_ref())
            || (unknown_verdict.instance.is_none()
                && unknown_verdict.code.as_str() == expected.code)
    });
    let (proof, says) = match (finding, unknown, expected.when) {
        (Some(finding), _, EffectTime::Restart)
            if !restarted.iter().any(|one| Some(&one.instance) == expected.instance.as_ref()) =>
        {
            (Proof::WaitsForRestart, finding.summary.clone())
        }
        (Some(finding), _, EffectTime::Reboot) => (Proof::WaitsForReboot, finding.summary.clone()),
        (Some(finding), ..) => (Proof::Remains, finding.summary.clone()),
        (None, Some(unknown), _) => (Proof::Unknown, unknown.missing.clone()),
        (None, None, _) => (Proof::Gone, String::new()),
    };
    FindingOutcome { expected: expected.clone(), proof, says }
}
