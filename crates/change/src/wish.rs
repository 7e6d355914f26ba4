//! A plan out of a file is a wish. Whoever can write the file can seal it too, so what is carried
//! out is this host's own plan, as far as the file asks for it: titles, reasons, risks and order
//! are the own plan's, and a step or change that this does not have is refused by name.

use std::collections::BTreeSet;

use crate::drift::{self, Need};
use crate::journal::{JournalShelf, JournalState};
use crate::plan::{
    Change, CommandChange, FileChange, FileContent, NewFile, Plan, PlannedBootPool, Step,
    ValueChange,
};
use crate::{Error, System};

/// What of this host's own plan a plan file asks for. A pool may be asked for with up to a tenth
/// fewer pages than are planned today: what servers need varies by a few.
///
/// # Errors
/// [`Error::Drifted`] where the host is neither as the file found it nor as it leaves it;
/// [`Error::NotAllowed`] names the first change that this host's own plan does not have; or
/// something cannot be read.
pub fn confirm_wish(wish: &Plan, own: &Plan, system: &dyn System) -> Result<Plan, Error> {
    refuse_repeated_steps(wish)?;
    let needs = drift::determine_needs(wish, system, false)?;
    let shelf = JournalShelf::read(system)?;
    let last = shelf.logs.last().filter(|log| log.state == JournalState::Done);
    let mut steps = Vec::new();
    for (step, needs) in wish.steps.iter().zip(&needs) {
        let changes: Vec<&Change> = step
            .changes
            .iter()
            .zip(needs)
            .filter(|(_, need)| **need == Need::Make)
            .map(|(change, _)| change)
            .collect();
        if let Some(first) = changes.first()
            && !last.is_some_and(|log| has_run(step, &changes, &log.begin.plan))
        {
            steps.push(confirm_step(step, first, &changes, own)?);
        }
    }
    let place = |step: &Step| own.steps.iter().position(|own| own.id == step.id);
    steps.sort_by_key(place);
    check_dependencies(&steps, own)?;
    let at_boot = own.at_boot.iter().filter_map(|pool| {
        let wished = wish.at_boot.iter().find(|wished| wished.page_size == pool.page_size)?;
        Some(PlannedBootPool { pages: wished.pages.min(pool.pages), ..*pool })
    });
    let mut plan = Plan { at_boot: at_boot.collect(), steps, ..own.clone() };
    plan.seal();
    Ok(plan)
}

/// A step of this host's own plan is carried out once, however often a file has it.
fn refuse_repeated_steps(wish: &Plan) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    match wish.steps.iter().find(|step| !seen.insert(step.id.as_str())) {
        Some(step) => Err(Error::NotAllowed {
            step: step.id.clone(),
            what: step.changes.first().map(describe_change).unwrap_or_default(),
            why: "the plan has this step more than once".to_owned(),
        }),
        None => Ok(()),
    }
}

/// Whether the last apply has carried this step out, commands and nothing else: no file tells, and
/// a server is not restarted for it again.
fn has_run(step: &Step, changes: &[&Change], applied: &Plan) -> bool {
    let same = |(change, done): (&&Change, &Change)| match (change, done) {
        (Change::Command(wish), Change::Command(own)) => is_same_command(wish, own),
        _ => false,
    };
    applied.steps.iter().filter(|done| done.id == step.id).any(|done| {
        done.changes.len() == step.changes.len()
            && changes.len() == step.changes.len()
            && changes.iter().zip(&done.changes).all(same)
    })
}

fn confirm_step(
    step: &Step,
    first: &Change,
    changes: &[&Change],
    own: &Plan,
) -> Result<Step, Error> {
    let refuse = |change: &Change, why: &str| Error::NotAllowed {
        step: step.id.clone(),
        what: describe_change(change),
        why: format!("{why}; 'hugewise plan' shows what it would do"),
    };
    let not_ours = |change: &Change| refuse(change, "hugewise would not do this on this host now");
    let own = own.steps.iter().find(|own| own.id == step.id).ok_or_else(|| not_ours(first))?;
    if let Some(missing) = own.changes.get(changes.len()) {
        let why = format!("now {} belongs to this step too", describe_change(missing));
        return Err(refuse(first, &why));
    }
    let mut own_changes = own.changes.iter();
    let confirmed = changes.iter().map(|change| {
        let own = own_changes.next();
        own.and_then(|own| confirm_change(change, own)).ok_or_else(|| not_ours(change))
    });
    Ok(Step { changes: confirmed.collect::<Result<_, _>>()?, ..own.clone() })
}

/// A step is done only after those that it relies on, where the host needs these.
fn check_dependencies(steps: &[Step], own: &Plan) -> Result<(), Error> {
    let wished: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    for step in steps {
        let is_left_out = |id: &&String| {
            !wished.contains(id.as_str()) && own.steps.iter().any(|own| own.id == **id)
        };
        if let Some(missing) = step.relies_on.iter().find(is_left_out) {
            return Err(Error::NotAllowed {
                step: step.id.clone(),
                what: step.changes.first().map(describe_change).unwrap_or_default(),
                why: format!("it relies on step {missing}, which the plan leaves out"),
            });
        }
    }
    Ok(())
}

fn describe_change(change: &Change) -> String {
    match change {
        Change::Value(change) => change.path.clone(),
        Change::File(change) => change.path.clone(),
        Change::Command(change) => change.command.join(" "),
    }
}

/// The own change, with the number of pages that was wished for.
fn confirm_change(wish: &Change, own: &Change) -> Option<Change> {
    match (wish, own) {
        (Change::Value(wish), Change::Value(own)) => {
            let same = (&wish.path, wish.pool) == (&own.path, own.pool);
            let pages = || {
                own.pool?;
                confirm_page_count(&wish.after, &own.after, own.before.as_deref())
            };
            let after = if wish.after == own.after { Some(own.after.clone()) } else { pages() };
            let after = after.filter(|_| same)?;
            Some(ValueChange { after, ..own.clone() }.into())
        }
        (Change::File(wish), Change::File(own)) => confirm_file(wish, own).map(Change::File),
        (Change::Command(wish), Change::Command(own)) => {
            is_same_command(wish, own).then(|| own.clone().into())
        }
        _ => None,
    }
}

fn confirm_file(wish: &FileChange, own: &FileChange) -> Option<FileChange> {
    if wish.path != own.path {
        return None;
    }
    let (wished, planned) = match (&wish.after, &own.after) {
        (None, None) => return Some(own.clone()),
        (Some(wished), Some(planned)) => (wished, planned),
        _ => return None,
    };
    let content = match (&wished.content, &planned.content) {
        (wished, planned) if wished == planned => planned.clone(),
        (FileContent::Text(wished), FileContent::Text(planned)) => {
            let before = own.before.as_ref().map(|before| before.content.bytes());
            let before = before.map(String::from_utf8_lossy);
            if wished.lines().count() != planned.lines().count() {
                return None;
            }
            let lines = planned.split_inclusive('\n').zip(wished.lines());
            let lines: Option<String> = lines
                .map(|(planned, wished)| confirm_line(wished, planned, before.as_deref()))
                .collect();
            FileContent::Text(lines?)
        }
        _ => return None,
    };
    Some(FileChange { after: Some(NewFile { content, ..planned.clone() }), ..own.clone() })
}

/// The planned line, which may end with its line's end; where both set the same pool, with the
/// wished number of pages, but no fewer than the file has today.
fn confirm_line(wished: &str, planned: &str, before: Option<&str>) -> Option<String> {
    let planned_line = planned.trim_end_matches(['\n', '\r']);
    if wished == planned_line {
        return Some(planned.to_owned());
    }
    let split = |line: &str| -> Option<(String, String)> {
        let digits = line.trim_end_matches(|c: char| c == '"' || c.is_whitespace());
        let start = digits.rfind(|c: char| !c.is_ascii_digit())? + 1;
        let (number, frame) = (digits.get(start..)?, line.get(..start)?);
        (!number.is_empty() && frame.contains("hugepages"))
            .then(|| (frame.to_owned(), number.to_owned()))
    };
    let ((frame, wished), (own_frame, own_number)) = (split(wished)?, split(planned_line)?);
    let before = before.into_iter().flat_map(str::lines).filter_map(split);
    let before = before.filter(|(old, _)| *old == frame).map(|(_, number)| number).next_back();
    let number = confirm_page_count(&wished, &own_number, before.as_deref())?;
    let behind = planned.get(own_frame.len() + own_number.len()..)?;
    (frame == own_frame).then(|| format!("{own_frame}{number}{behind}"))
}

/// The wished number of pages, where it is up to a tenth less than planned. It is written anew: the
/// kernel reads `0347` as an octal number, and sysctl does not read `0348` at all.
fn confirm_page_count(wished: &str, planned: &str, before: Option<&str>) -> Option<String> {
    let pages = |text: &str| text.parse::<u64>().ok();
    let (wished, planned) = (pages(wished)?, pages(planned)?);
    let before = before.and_then(pages).unwrap_or_default();
    let is_few_less = (planned - planned / 10..=planned).contains(&wished)
        && (wished >= before || before > planned);
    is_few_less.then(|| wished.to_string())
}

fn is_same_command(wish: &CommandChange, own: &CommandChange) -> bool {
    let parts = |change: &CommandChange| {
        (
            change.command.clone(),
            change.user.clone(),
            change.undo.clone(),
            change.undo_last,
            change.files.clone(),
            change.unless.clone(),
        )
    };
    parts(wish) == parts(own)
}
