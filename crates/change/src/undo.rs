//! Takes an apply back, and brings one that was killed to its end.

use hugewise_system::Unfit;

use crate::chain;
use crate::journal::{self, Journal, Log, Record, Shelf, State, Summary, Unreadable};
use crate::outcome::{Event, Progress, RestoreResult, Undone};
use crate::restore::{Foreign, Restorer, TakenBack};
use crate::{Error, Failure, Risk, System};

/// Takes the last apply back that is not undone and did more than restart servers, or the one of this ID: every file, value, owner, permission and label
/// is as before. What is as before already is left alone, so that a killed undo can be run again. What a younger apply has
/// changed since waits for the undo of that one.
///
/// # Errors
/// Nothing was changed: this is not root or not the real machine, another apply runs, there is nothing to undo, or
/// somebody has changed since what was applied (`force` overrules that, and takes back from within a container or chroot
/// what was applied from there).
pub fn undo(system: &dyn System, id: Option<&str>, force: bool, progress: &mut Progress<'_>) -> Result<Undone, Error> {
    match system.fit() {
        Err(Unfit::Confined { .. }) if force => {}
        Err(Unfit::Confined { why }) => return Err(Error::Confined { why, instead: FROM_HERE.into() }),
        fit => fit?,
    }
    let _lock = journal::lock(system)?;
    let shelf = Shelf::read(system)?;
    let log = match id {
        Some(id) => shelf.named(id)?,
        None => match (shelf.last_to_undo(), shelf.unreadable.iter().rfind(|it| it.id.is_some())) {
            (Some(log), _) => log,
            (None, Some(unreadable)) => return Err(Error::Unreadable(unreadable.clone())),
            (None, None) => return Err(Error::NothingToUndo),
        },
    };
    if log.state.is_over() {
        return Err(Error::AlreadyUndone(log.id.to_string()));
    }
    let foreign = if force { Foreign::Replace } else { Foreign::Refuse };
    let taken = take_back(system, &shelf, log, foreign, State::Undone, progress)?;
    let mut undone = taken.undone;
    if taken.recorded {
        finish(system, &mut undone, progress)?;
    }
    undone.notes.extend(shelf.unreadable.iter().map(Unreadable::to_string));
    undone.notes.extend(Shelf::read(system).ok().as_ref().and_then(Shelf::last_to_undo).and_then(still_in_place));
    Ok(undone)
}

/// Whoever has applied twice and undone once is told so.
fn still_in_place(log: &Log) -> Option<String> {
    let id = log.id;
    (log.state == State::Done).then(|| format!("apply {id} is still in place: hugewise undo {id} reverses it"))
}

const FROM_HERE: &str = "run hugewise undo on the host itself. If you applied it from here, hugewise undo --force reverses it \
                         from here";

/// Takes back what an apply or undo has left that was killed; `None` where there is none. What somebody else has in hand
/// meanwhile is left as it is, and named. Call it before the host is read for a new plan.
///
/// # Errors
/// As those of [`undo`], and where not everything could be taken back.
pub fn recover(system: &dyn System, progress: &mut Progress<'_>) -> Result<Option<Undone>, Error> {
    system.fit()?;
    let _lock = journal::lock(system)?;
    recover_locked(system, progress)
}

/// The apply or undo that has not ended: it was killed, or is at work. Until [`recover`] has taken it back the host is
/// half changed. Nothing is changed, and no lock is taken. Journals that cannot be read come with it: whether those ended
/// is not known.
///
/// # Errors
/// The folder of the journals cannot be listed.
pub fn unfinished(system: &dyn System) -> Result<(Option<Summary>, Vec<Unreadable>), Error> {
    let shelf = Shelf::read(system)?;
    Ok((chain::unfinished(&shelf).cloned().map(Summary::from), shelf.unreadable))
}

pub(crate) fn recover_locked(system: &dyn System, progress: &mut Progress<'_>) -> Result<Option<Undone>, Error> {
    let mut all: Option<Undone> = None;
    loop {
        let shelf = Shelf::read(system)?;
        let Some(log) = chain::unfinished(&shelf) else { return Ok(all) };
        let id = log.id.to_string();
        progress(&Event::Recovering { journal: &id });
        let taken = take_back(system, &shelf, log, foreign_of(log), State::Undone, progress)?;
        if let Some(why) = failed(&taken.undone) {
            let why = format!("apply {id} was interrupted and could not be rolled back completely: {why}");
            let advice = format!("fix that and run hugewise undo {id}; hugewise undo {id} --force leaves it as it is");
            return Err(Failure::new(journal::path(log.id), why).advising(advice).into());
        }
        let all = all.get_or_insert_with(|| Undone { restored: Vec::new(), ..taken.undone.clone() });
        join(all, taken.undone);
        // Without its end on the disk it would be taken back for ever.
        if !taken.recorded {
            return Ok(Some(all.clone()));
        }
    }
}

/// Takes back what has waited for an undo that has ended.
fn finish(system: &dyn System, undone: &mut Undone, progress: &mut Progress<'_>) -> Result<(), Error> {
    loop {
        let shelf = Shelf::read(system)?;
        let due = chain::unfinished(&shelf).filter(|log| log.state == State::Waiting);
        let Some(log) = due else { return Ok(()) };
        let taken = take_back(system, &shelf, log, foreign_of(log), State::Undone, progress)?;
        undone.notes.push(format!("apply {} was waiting for this and is undone too", log.id));
        let stuck = !taken.recorded || failed(&taken.undone).is_some();
        join(undone, taken.undone);
        if stuck {
            return Ok(());
        }
    }
}

fn join(all: &mut Undone, more: Undone) {
    all.complete &= more.complete;
    all.risk = all.risk.max(more.risk);
    all.restored.extend(more.restored);
    all.notes.extend(more.notes);
    let mut seen = std::collections::BTreeSet::new();
    all.notes.retain(|note| seen.insert(note.clone()));
}

fn failed(undone: &Undone) -> Option<&str> {
    undone.restored.iter().find_map(|one| match &one.result {
        RestoreResult::Failed { why } => Some(why.as_str()),
        _ => None,
    })
}

/// Whoever has undone it with force has said so for what waited, too.
const fn foreign_of(log: &Log) -> Foreign {
    if log.force { Foreign::Replace } else { Foreign::Leave }
}

/// What was taken back, and whether its journal says so.
pub(crate) struct Taken {
    pub(crate) undone: Undone,
    pub(crate) recorded: bool,
}

/// Takes a journal back whole, but for what a younger one has changed since.
///
/// # Errors
/// Somebody has changed since what was applied, and that is to be refused; nothing was changed.
pub(crate) fn take_back(
    system: &dyn System,
    shelf: &Shelf,
    log: &Log,
    foreign: Foreign,
    end: State,
    progress: &mut Progress<'_>,
) -> Result<Taken, Error> {
    let waits = chain::waits(shelf, log);
    let superseded = chain::superseded(shelf, log, &waits);
    let restorer = Restorer::new(system, log, foreign).without(waits);
    if foreign == Foreign::Refuse {
        let differences = restorer.differences();
        if !differences.is_empty() {
            return Err(Error::ChangedSince { journal: log.id.to_string(), differences });
        }
    }
    let mut unwritten = Vec::new();
    let journal = Journal::resume(system, log);
    let write = |record: &Record| match &journal {
        Ok(journal) => journal.add(record),
        Err(failure) => Err(failure.clone()),
    };
    // A full disk must not keep anybody from taking changes back: without the record, undo can be run again.
    unwritten.extend(write(&Record::TakingBack).err());
    unwritten.extend(superseded.into_iter().filter_map(|(other, left)| supersede(system, other, left).err()));
    let taken = restorer.take_back(None, progress);
    let waits = taken.restored.iter().any(|one| matches!(one.result, RestoreResult::Waits { .. }));
    let state = match (taken.failed(), waits, taken.left()) {
        (true, ..) => State::Stuck,
        (false, true, _) => State::Waiting,
        (false, false, true) => State::UndoneExcept,
        (false, false, false) => end,
    };
    let complete = taken.complete();
    let TakenBack { restored, mut notes, remain, tried } = taken;
    let mut ended = Ok(());
    if matches!(state, State::Waiting | State::UndoneExcept) {
        ended = write(&Record::Left { entries: remain, force: foreign == Foreign::Replace, tried });
    }
    let ended = ended.and_then(|()| write(&Record::End { state, at: system.now() }));
    let recorded = ended.is_ok();
    unwritten.extend(ended.err());
    notes.extend(unwritten.into_iter().map(|failure| format!("the journal does not know of it: {failure}")));
    if state == State::UndoneExcept {
        let id = log.id;
        notes.push(format!(
            "apply {id} counts as undone, but something was left as it is: look at it, then run hugewise undo {id} to try again"
        ));
    }
    notes.dedup();
    Ok(Taken { undone: Undone { journal: log.id.to_string(), complete, risk: risk(log), restored, notes }, recorded })
}

/// Tells a younger journal what is no longer its to put back.
fn supersede(system: &dyn System, log: &Log, left: Vec<usize>) -> Result<(), Failure> {
    let journal = Journal::resume(system, log)?;
    let state = if left.is_empty() { State::Undone } else { State::UndoneExcept };
    journal.add(&Record::Left { entries: left, force: log.force, tried: Vec::new() })?;
    journal.end(state)
}

/// What the steps that were begun still ask for.
fn risk(log: &Log) -> Risk {
    let entries = log.entries.iter().filter(|entry| !entry.taken_back);
    entries.filter_map(|entry| log.step(entry)).map(|step| step.risk).max().unwrap_or(Risk::Safe)
}
