//! `hugewise apply`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_advice::standing::{Standing, standing};
use hugewise_change::apply::Options;
use hugewise_change::outcome::StepResult;
use hugewise_change::plan::{Change, Expected, Plan, When};
use hugewise_change::planner;
use hugewise_change::{Applied, End, Event, System, Unkept, apply, recover, unkept};
use hugewise_host::Source;
use hugewise_model::escape::shell;
use hugewise_model::{Host, Observed, Unread};
use hugewise_report::{AppliedReport, Expectation, Planned, Proof, Restarted, plain};

use crate::format::Format;
use crate::given::Given;
use crate::outcome::{self, Failure, Outcome};
use crate::plan::{Bent, Seen, Wishes, live, same_host};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Before it changes anything, apply saves the old state in /var/lib/hugewise/journal; hugewise undo restores it. If apply \
is killed, the next apply or undo puts the host back as it was.

  sudo hugewise apply                          make a plan, show it, ask
  sudo hugewise apply --yes --restart 15/main  make a plan, don't ask
  sudo hugewise apply plan.json                apply a saved plan

Exit codes: 0 done, or nothing to do; 1 done, but a finding remains that should be gone, the next boot will not find what was \
written, or only part was done; 2 nothing was changed, or a step failed and everything was rolled back; 3 done, but \
whether it helped cannot be determined.";

/// How long a restarted server may take to map its memory.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A plan saved with hugewise plan --out. Without it, apply makes one.
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
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

/// What shapes a plan has no say where one is given.
const PLANNING: [&str; 10] =
    ["instance", "restart", "page_size", "headroom", "sessions", "only", "early", "shrink", "overcommit", "connect"];

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let system = live()?;
    system.fit().map_err(|unfit| failed(unfit.into()))?;
    let source = outcome::open(None)?;
    let mut recovered = Vec::new();
    let (plan, host, unread) = match &arguments.plan {
        Some(path) => {
            let plan = read(source.as_ref(), path)?;
            let seen = Seen::read(source.as_ref(), false);
            planner::restart::check(&plan, &seen.instances, source.as_ref()).map_err(failed)?;
            (plan, Host::default(), Vec::new())
        }
        None => {
            // A plan is made of a host that is in a defined state.
            recovered = recover(&system, &mut say).map_err(failed)?.map(|undone| undone.left()).unwrap_or_default();
            // Both let a pool fall short and go on: a server that insists would not start again.
            let short = arguments.keep_partial || arguments.keep_going;
            let made = arguments.wishes.make(
                source.as_ref(),
                &system,
                Bent { keep_partial: short, force: arguments.force },
            )?;
            (made.plan, made.host, made.unread)
        }
    };
    same_host(&plan, &system)?;
    if !arguments.yes && !plan.steps.is_empty() && !agreed(arguments, &plan, &host, &unread)? {
        return Err(Failure::new("nothing was changed"));
    }
    let options =
        Options { force: arguments.force, keep_going: arguments.keep_going, keep_partial: arguments.keep_partial };
    let applied = apply(&plan, &system, options, &mut say).map_err(failed);
    clear();
    let mut applied = applied?;
    applied.notes.splice(0..0, recovered);
    let (seen, expectations, restarted) = look(source.as_ref(), &plan, &applied);
    let unkept = unkept(&plan, &applied, &seen.host, &seen.instances);
    let report = AppliedReport {
        host: &seen.host,
        plan: &plan,
        applied: &applied,
        expectations: &expectations,
        restarted: &restarted,
        unkept: &unkept,
        unread: &seen.unread,
    };
    let mut text = Vec::new();
    let written = match arguments.format {
        Format::Text => report.write_text(&mut text, terminal::layout(arguments.color, false)),
        Format::Json => report.write_json(&mut text),
    };
    written.map_err(|error| Failure::new(format!("the report cannot be made: {error}")))?;
    outcome::print(&text)?;
    let ended = ending(&applied, &expectations, &restarted, &unkept)?;
    // What was planned was planned for the servers that were seen.
    let all_seen = seen.host.unseen().is_none();
    Ok(if ended == Outcome::Fine && !all_seen { Outcome::Incomplete } else { ended })
}

/// Where a finding that should be gone remains, that is what a failed check says too.
fn ending(
    applied: &Applied,
    expectations: &[Expectation],
    restarted: &[Restarted],
    unkept: &[Unkept],
) -> Result<Outcome, Failure> {
    let is = |proof: Proof| expectations.iter().any(|it| it.proof == proof);
    let off = |it: &Restarted| matches!(it.standing, None | Some(Standing::None | Standing::Partly));
    let unknown = |it: &Restarted| it.standing == Some(Standing::Unknown);
    match applied.end {
        End::TakenBack | End::Stuck => {
            let failure = applied.steps.iter().find_map(|step| match &step.result {
                StepResult::Failed { why } => Some(format!("step {}: {why}", step.id)),
                _ => None,
            });
            let then = match applied.end {
                End::TakenBack => "everything was rolled back",
                _ => "not everything could be rolled back",
            };
            Err(Failure::new(format!("{}; {then}", failure.unwrap_or_else(|| "a step failed".into()))))
        }
        End::Partly => Ok(Outcome::Found),
        _ if unkept.iter().any(|one| one.lost) => Ok(Outcome::Found),
        End::Done | End::NothingToDo if is(Proof::Remains) || restarted.iter().any(off) => Ok(Outcome::Found),
        _ if !unkept.is_empty() || is(Proof::Unknown) || restarted.iter().any(unknown) => Ok(Outcome::Incomplete),
        End::Done | End::NothingToDo => Ok(Outcome::Fine),
    }
}

pub(crate) fn failed(error: hugewise_change::Error) -> Failure {
    clear();
    match &error {
        // What is there against what should be is a diff.
        hugewise_change::Error::Drifted(_) | hugewise_change::Error::ChangedSince { .. } => {
            Failure::of_lines(&error.to_string())
        }
        _ => Failure::new(error.to_string()),
    }
}

/// The largest plan that is read: none comes near it.
const MOST: u64 = 16 << 20;

fn read(source: &dyn Source, path: &Path) -> Result<Plan, Failure> {
    let failure = |why: &str| Failure::new(format!("{}: {why}", path.display()));
    let absolute = std::path::absolute(path).map_err(|error| failure(&error.to_string()))?;
    if let Some(instead) = Given::at(path).instead_of("apply", path) {
        return Err(Failure::new(format!("{} is not a plan: {instead}", path.display())));
    }
    let place = absolute.to_str().ok_or_else(|| failure("the path is not UTF-8; hugewise cannot read it"))?;
    let bytes = match source.read_part(place, None, MOST) {
        Observed::Known(part) if part.offset == 0 => part.bytes,
        Observed::Known(_) => return Err(failure("this file is too large for a plan")),
        Observed::Absent => {
            let make = format!("sudo hugewise plan --out {}", shell::word(&path.to_string_lossy()));
            return Err(failure(&format!("no such file; to make a plan there, run '{make}'")));
        }
        other => return Err(failure(&other.reason().unwrap_or_default())),
    };
    Plan::from_json(&bytes).map_err(|why| failure(&why.to_string()))
}

/// Shows the plan and asks; where nobody can be asked, nothing is done.
fn agreed(arguments: &Arguments, plan: &Plan, host: &Host, unread: &[Unread]) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(
            "cannot ask for confirmation, because this is not a terminal. Nothing was changed; --yes applies without asking",
        ));
    }
    // What is asked goes where the question goes.
    let planned = Planned { host, plan, kept: None, options: "", asking: true, unread };
    let mut text = Vec::new();
    let written = planned.write_text(&mut text, terminal::layout(arguments.color, false));
    written.map_err(|error| Failure::new(format!("the plan cannot be shown: {error}")))?;
    let mut error = io::stderr().lock();
    let shown = error.write_all(&text).and_then(|()| error.write_all(b"\nApply this plan? [y/N] "));
    shown.and_then(|()| error.flush()).map_err(|error| Failure::new(format!("the plan cannot be shown: {error}")))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Progress, where somebody looks.
pub(crate) fn say(event: &Event<'_>) {
    let line = match event {
        Event::Recovering { journal } => format!("rolling back apply {journal}, which was interrupted"),
        Event::Step { step, number, of } => format!("{number}/{of} {}", step.title),
        Event::Changing { change } => match change {
            Change::Value(change) => format!("  {} = {}", change.path, change.after),
            Change::File(change) => format!("  {}", change.path),
            Change::Command(change) => format!("  {}", change.command.join(" ")),
        },
        Event::PoolShort { wanted, obtained, attempt, attempts, .. } => {
            format!("  {obtained} of {}; compacting memory, attempt {attempt} of {attempts}", wanted.in_pages())
        }
        Event::StepFailed { step, why } => format!("{} failed: {why}", step.id),
        Event::TakingBack { what } => format!("  rolling back {what}"),
        Event::AlreadySo { .. } => return,
    };
    let stays = matches!(event, Event::StepFailed { .. } | Event::Recovering { .. });
    progress(&line, stays);
}

fn progress(line: &str, stays: bool) {
    if io::stderr().is_terminal() {
        let end = if stays { "\n" } else { "" };
        let _ = write!(io::stderr().lock(), "\r\x1b[K{}{end}", plain::clean(line));
    }
}

pub(crate) fn clear() {
    if io::stderr().is_terminal() {
        let _ = io::stderr().write_all(b"\r\x1b[K");
    }
}

/// Looks at the host again: which of the findings that the plan was to end are gone, and where the memory of the
/// servers is that it has restarted.
fn look(source: &dyn Source, plan: &Plan, applied: &Applied) -> (Seen, Vec<Expectation>, Vec<Restarted>) {
    let start = Instant::now();
    loop {
        let seen = Seen::read(source, false);
        let restarted = restarted(plan, applied, &seen);
        let expectations = expectations(plan, applied, &restarted, &seen);
        // A server that was restarted just now may still be mapping its memory.
        let of_one =
            |it: &Expectation| restarted.iter().any(|one| it.expected.instance.as_ref() == Some(&one.instance));
        let settled = restarted.iter().all(|one| matches!(one.standing, Some(Standing::All | Standing::NotCounted(_))))
            && !expectations.iter().any(|it| it.proof != Proof::Gone && of_one(it));
        if settled || start.elapsed() > PATIENCE {
            clear();
            return (seen, expectations, restarted);
        }
        progress("waiting for the restarted servers", false);
        std::thread::sleep(PAUSE);
    }
}

/// How the IDs of steps begin that restart a server.
const RESTART: &str = "restart-";

/// The servers that were restarted, and how they stand.
fn restarted(plan: &Plan, applied: &Applied, seen: &Seen) -> Vec<Restarted> {
    let done = |id: &str| applied.steps.iter().any(|step| step.id == id && step.result == StepResult::Done);
    let steps = plan.steps.iter().filter(|step| step.id.starts_with(RESTART) && done(&step.id));
    let of = |title: &String| {
        let instance = seen.instances.iter().find(|instance| instance.id().is_titled(title));
        let standing = instance.map(|instance| standing(&seen.host, instance, true));
        Restarted { instance: title.clone(), standing }
    };
    steps.filter_map(|step| step.instance.as_ref()).map(of).collect()
}

fn expectations(plan: &Plan, applied: &Applied, restarted: &[Restarted], seen: &Seen) -> Vec<Expectation> {
    let made = plan.steps.iter().filter(|step| is_made(applied, &step.id));
    let mut expected: Vec<&Expected> = made.flat_map(|step| &step.expects).collect();
    // Of one finding that several steps work on, the last to come decides.
    expected.sort_by_key(|it| (&it.code, &it.instance, std::cmp::Reverse(it.when)));
    expected.dedup_by_key(|it| (&it.code, &it.instance));
    expected.into_iter().map(|expected| expectation(restarted, seen, expected)).collect()
}

fn is_made(applied: &Applied, id: &str) -> bool {
    let made =
        |result: &StepResult| matches!(result, StepResult::Done | StepResult::AlreadySo | StepResult::Partial { .. });
    applied.steps.iter().any(|step| step.id == id && made(&step.result))
}

fn expectation(restarted: &[Restarted], seen: &Seen, expected: &Expected) -> Expectation {
    let finding = seen.assessment.findings.iter().find(|it| expected.is(it.code, it.instance.as_ref()));
    let unknown = seen.assessment.unknown.iter().find(|it| {
        expected.is(it.code, it.instance.as_ref()) || (it.instance.is_none() && it.code.as_str() == expected.code)
    });
    let (proof, says) = match (finding, unknown, expected.when) {
        (Some(finding), _, When::Restart)
            if !restarted.iter().any(|one| Some(&one.instance) == expected.instance.as_ref()) =>
        {
            (Proof::WaitsForRestart, finding.summary.clone())
        }
        (Some(finding), _, When::Reboot) => (Proof::WaitsForReboot, finding.summary.clone()),
        (Some(finding), ..) => (Proof::Remains, finding.summary.clone()),
        (None, Some(unknown), _) => (Proof::Unknown, unknown.missing.clone()),
        (None, None, _) => (Proof::Gone, String::new()),
    };
    Expectation { expected: expected.clone(), proof, says }
}
