//! Takes an apply back, and brings one that was killed to its end.

use hugewise_system::Unfit;

use crate::journal::{
    self, JournalLog, JournalRecord, JournalShelf, JournalState, JournalSummary, JournalWriter,
    Unreadable,
};
use crate::journal_history;
use crate::outcome::{ApplyEvent, ProgressListener, RestoreResult, RestoredItem, Undone};
use crate::restore::{ForeignChanges, Restorer, TakenBack};
use crate::{Error, Risk, System, SystemFailure};

/// Takes back the last apply that did more than restart servers, or the one of this ID: every file,
/// value, owner, permission and label is as before. A killed undo can be run again. What a younger
/// apply has changed since waits for the undo of that one.
///
/// # Errors
/// Nothing was changed: this is not root or not the real machine, another apply runs, there is
/// nothing to undo, or somebody has changed what was applied (`force` overrules that, and undoes in
/// a container or chroot what was applied there).
pub fn undo_apply(
    system: &dyn System,
    id: Option<&str>,
    force: bool,
    progress: &mut ProgressListener<'_>,
) -> Result<Undone, Error> {
    match system.check_can_change() {
        Err(Unfit::Confined { .. }) if force => {}
        Err(Unfit::Confined { why }) => {
            return Err(Error::Confined { why, instead: FROM_HERE.into() });
        }
        fit => fit?,
    }
    let _lock = journal::lock_journals(system)?;
    let shelf = JournalShelf::read(system)?;
    let log = match id {
        Some(id) => shelf.find_log(id)?,
        None => shelf.last_to_undo().ok_or_else(|| {
            let unreadable = shelf.unreadable.iter().rfind(|unreadable| unreadable.id.is_some());
            unreadable.cloned().map_or(Error::NothingToUndo, Error::Unreadable)
        })?,
    };
    if log.state.is_over() {
        return Err(Error::AlreadyUndone(log.id.to_string()));
    }
    let foreign = if force { ForeignChanges::Replace } else { ForeignChanges::Refuse };
    let taken = take_back(system, &shelf, log, foreign, JournalState::Undone, progress)?;
    let mut undone = taken.undone;
    if taken.recorded {
        undo_waiting_applies(system, &mut undone, progress)?;
    }
    undone.notes.extend(shelf.unreadable.iter().map(Unreadable::to_string));
    let shelf = JournalShelf::read(system).ok();
    undone
        .notes
        .extend(shelf.as_ref().and_then(JournalShelf::last_to_undo).and_then(explain_remaining));
    Ok(undone)
}

/// Whoever has applied twice and undone once is told so.
fn explain_remaining(log: &JournalLog) -> Option<String> {
    let id = log.id;
    (log.state == JournalState::Done)
        .then(|| format!("apply {id} is still in place: hugewise undo {id} reverses it"))
}

const FROM_HERE: &str = "run hugewise undo on the host itself. If you applied it from here, \
                         hugewise undo --force reverses it from here";

/// Takes back what a killed apply or undo has left; `None` where there is none. What somebody else
/// has in hand is left and named. Call it before the host is read for a new plan.
///
/// # Errors
/// As those of [`undo_apply`], and where not everything could be taken back.
pub fn recover_interrupted(
    system: &dyn System,
    progress: &mut ProgressListener<'_>,
) -> Result<Option<Undone>, Error> {
    system.check_can_change()?;
    let _lock = journal::lock_journals(system)?;
    recover_locked(system, progress)
}

/// The apply or undo that was killed or is at work: the host is half changed. Journals that cannot
/// be read come with it. Nothing is changed or locked.
pub fn find_unfinished_apply(
    system: &dyn System,
) -> Result<(Option<JournalSummary>, Vec<Unreadable>), Error> {
    let shelf = JournalShelf::read(system)?;
    Ok((
        journal_history::find_unfinished_log(&shelf).cloned().map(JournalSummary::from),
        shelf.unreadable,
    ))
}

pub(crate) fn recover_locked(
    system: &dyn System,
    progress: &mut ProgressListener<'_>,
) -> Result<Option<Undone>, Error> {
    let mut all: Option<Undone> = None;
    loop {
        let shelf = JournalShelf::read(system)?;
        let Some(log) = journal_history::find_unfinished_log(&shelf) else { return Ok(all) };
        let id = log.id.to_string();
        progress(&ApplyEvent::Recovering { journal: &id });
        let taken = take_back(
            system,
            &shelf,
            log,
            policy_for_foreign_changes(log),
            JournalState::Undone,
            progress,
        )?;
        if let Some(why) = first_failure(&taken.undone) {
            let why = format!(
                "apply {id} was interrupted and could not be rolled back completely: {why}"
            );
            let advice = format!(
                "fix that and run hugewise undo {id}; hugewise undo {id} --force leaves it as it is"
            );
            let failure = SystemFailure::new(journal::journal_path(log.id), why);
            return Err(failure.with_advice(advice).into());
        }
        let all =
            all.get_or_insert_with(|| Undone { restored: Vec::new(), ..taken.undone.clone() });
        merge_undone(all, taken.undone);
        // Without its end on the disk it would be taken back for ever.
        if !taken.recorded {
            return Ok(Some(all.clone()));
        }
    }
}

fn undo_waiting_applies(
    system: &dyn System,
    undone: &mut Undone,
    progress: &mut ProgressListener<'_>,
) -> Result<(), Error> {
    loop {
        let shelf = JournalShelf::read(system)?;
        let due = journal_history::find_unfinished_log(&shelf)
            .filter(|log| log.state == JournalState::Waiting);
        let Some(log) = due else { return Ok(()) };
        let taken = take_back(
            system,
            &shelf,
            log,
            policy_for_foreign_changes(log),
            JournalState::Undone,
            progress,
        )?;
        undone.notes.push(format!("apply {} was waiting for this and is undone too", log.id));
        let stuck = !taken.recorded || first_failure(&taken.undone).is_some();
        merge_undone(undone, taken.undone);
        if stuck {
            return Ok(());
        }
    }
}

fn merge_undone(all: &mut Undone, more: Undone) {
    all.complete &= more.complete;
    all.risk = all.risk.max(more.risk);
    all.restored.extend(more.restored);
    all.notes.extend(more.notes);
    let mut seen = std::collections::BTreeSet::new();
    all.notes.retain(|note| seen.insert(note.clone()));
}

fn first_failure(undone: &Undone) -> Option<&str> {
    undone.restored.iter().find_map(|one| match &one.result {
        RestoreResult::Failed { why } => Some(why.as_str()),
        _ => None,
    })
}

/// Whoever has undone it with force has said so for what waited, too.
const fn policy_for_foreign_changes(log: &JournalLog) -> ForeignChanges {
    if log.force { ForeignChanges::Replace } else { ForeignChanges::Leave }
}

pub(crate) struct UndoResult {
    pub(crate) undone: Undone,
    pub(crate) recorded: bool,
}

/// An error where foreign changes are refused: nothing was changed.
pub(crate) fn take_back(
    system: &dyn System,
    shelf: &JournalShelf,
    log: &JournalLog,
    foreign: ForeignChanges,
    end: JournalState,
    progress: &mut ProgressListener<'_>,
) -> Result<UndoResult, Error> {
    let waits = journal_history::waiting_steps(shelf, log);
    let superseded = journal_history::superseded_entries(shelf, log, &waits);
    let restorer = Restorer::new(system, log, foreign)
        .without_steps(waits)
        .with_files_made_since(journal_history::files_made_since(shelf, log));
    if foreign == ForeignChanges::Refuse {
        let differences = restorer.find_differences();
        if !differences.is_empty() {
            return Err(Error::ChangedSince { journal: log.id.to_string(), differences });
        }
    }
    let journal = JournalWriter::resume(system, log);
    let write = |record: &JournalRecord| match &journal {
        Ok(journal) => journal.add(record),
        Err(failure) => Err(failure.clone()),
    };
    // A full disk must keep nobody from taking changes back: undo can run again without the record.
    let mut unwritten: Vec<SystemFailure> =
        write(&JournalRecord::TakingBack).err().into_iter().collect();
    for (other, left) in superseded {
        unwritten.extend(supersede_entries(system, other, left).err());
    }
    let taken = restorer.take_back(None, progress);
    let (state, complete) = (state_after(&taken, end), taken.is_complete());
    let TakenBack { restored, mut notes, remain, tried, made } = taken;
    let mut ended = Ok(());
    if matches!(state, JournalState::Waiting | JournalState::UndoneExcept) {
        let force = foreign == ForeignChanges::Replace;
        ended = write(&JournalRecord::Left { entries: remain, force, tried, made });
    }
    let ended = ended.and_then(|()| write(&JournalRecord::End { state, at: system.unix_time() }));
    let recorded = ended.is_ok();
    unwritten.extend(ended.err());
    notes.extend(
        unwritten.into_iter().map(|failure| format!("the journal does not know of it: {failure}")),
    );
    if state == JournalState::UndoneExcept {
        let id = log.id;
        notes.push(format!(
            "apply {id} counts as undone, but something was left as it is: look at it, then run \
             hugewise undo {id} to try again"
        ));
    }
    notes.dedup();
    let (journal, risk) = (log.id.to_string(), remaining_risk(log));
    Ok(UndoResult { undone: Undone { journal, complete, risk, restored, notes }, recorded })
}

fn state_after(taken: &TakenBack, whole: JournalState) -> JournalState {
    let waits = |one: &RestoredItem| matches!(one.result, RestoreResult::Waits { .. });
    if taken.has_failed() {
        JournalState::Stuck
    } else if taken.restored.iter().any(waits) {
        JournalState::Waiting
    } else if taken.has_leftovers() {
        JournalState::UndoneExcept
    } else {
        whole
    }
}

fn supersede_entries(
    system: &dyn System,
    log: &JournalLog,
    left: Vec<usize>,
) -> Result<(), SystemFailure> {
    let journal = JournalWriter::resume(system, log)?;
    let state = if left.is_empty() { JournalState::Undone } else { JournalState::UndoneExcept };
    journal.add(&JournalRecord::Left {
        entries: left,
        force: log.force,
        tried: Vec::new(),
        made: Vec::new(),
    })?;
    journal.write_end(state)
}

fn remaining_risk(log: &JournalLog) -> Risk {
    let steps = log.standing_entries().filter_map(|(_, entry)| log.find_step(entry));
    steps.map(|step| step.risk).max().unwrap_or(Risk::Safe)
}
