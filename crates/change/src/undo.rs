//! Takes an apply back, and brings one that was killed to its end.

use crate::journal::{self, Journal, Log, Record, State, Summary};
use crate::outcome::{Event, Progress, Undone};
use crate::restore::{Restorer, TakenBack};
use crate::{Error, Risk, System};

/// Takes the last apply back that is not undone, or the one of this ID: every file, value, owner, permission and label
/// is as before. What is as before already is left alone, so that a killed undo can be run again.
///
/// # Errors
/// Nothing was changed: this is not root or not the real machine, another apply runs, there is nothing to undo, or
/// somebody has changed since what was applied (`force` overrules that).
pub fn undo(system: &dyn System, id: Option<&str>, force: bool, progress: &mut Progress<'_>) -> Result<Undone, Error> {
    system.fit()?;
    let _lock = journal::lock(system)?;
    let log = match id {
        Some(id) => asked_for(system, id)?,
        None => last(system, |state| !state.is_over())?.ok_or(Error::NothingToUndo)?,
    };
    if log.state.is_over() {
        return Err(Error::AlreadyUndone(log.id.to_string()));
    }
    take_back(system, &log, force, State::Undone, progress)
}

/// Takes back what an apply or undo has left that was killed; `None` where there is none. Call it before the host is
/// read for a new plan.
///
/// # Errors
/// As those of [`undo`], and where not everything could be taken back.
pub fn recover(system: &dyn System, progress: &mut Progress<'_>) -> Result<Option<Undone>, Error> {
    system.fit()?;
    let _lock = journal::lock(system)?;
    recover_locked(system, progress)
}

/// The apply or undo that has not ended: it was killed, or is at work. Until [`recover`] has taken it back the host is
/// half changed. Nothing is changed, and no lock is taken.
///
/// # Errors
/// A journal cannot be read, or makes no sense.
pub fn unfinished(system: &dyn System) -> Result<Option<Summary>, Error> {
    Ok(last(system, State::is_unfinished)?.map(Summary::from))
}

pub(crate) fn recover_locked(system: &dyn System, progress: &mut Progress<'_>) -> Result<Option<Undone>, Error> {
    let Some(log) = last(system, State::is_unfinished)? else { return Ok(None) };
    let id = log.id.to_string();
    progress(&Event::Recovering { journal: &id });
    let undone = take_back(system, &log, false, State::Undone, progress)?;
    if undone.complete {
        return Ok(Some(undone));
    }
    let failed = undone.restored.into_iter().find_map(|one| match one.result {
        crate::outcome::RestoreResult::Failed { why } => Some(why),
        _ => None,
    });
    let why =
        format!("apply {id} was interrupted, and not all of it could be taken back: {}", failed.unwrap_or_default());
    Err(crate::Failure::new(format!("{}/{:04}.journal", journal::FOLDER, log.id), why)
        .advising(format!("put that right, then hugewise undo {id}"))
        .into())
}

fn asked_for(system: &dyn System, id: &str) -> Result<Log, Error> {
    let unknown = || Error::NoSuchJournal(id.to_owned());
    let number = id.parse().map_err(|_| unknown())?;
    journal::read(system, number)?.ok_or_else(unknown)
}

fn last(system: &dyn System, wanted: impl Fn(State) -> bool) -> Result<Option<Log>, Error> {
    for id in journal::ids(system)?.into_iter().rev() {
        match journal::read(system, id)? {
            Some(log) if wanted(log.state) => return Ok(Some(log)),
            _ => {}
        }
    }
    Ok(None)
}

/// Takes a journal back whole; what somebody has changed since is an error before anything is changed.
pub(crate) fn take_back(
    system: &dyn System,
    log: &Log,
    force: bool,
    end: State,
    progress: &mut Progress<'_>,
) -> Result<Undone, Error> {
    let restorer = Restorer::new(system, log);
    let differences = restorer.differences();
    if !differences.is_empty() && !force {
        return Err(Error::ChangedSince { journal: log.id.to_string(), differences });
    }
    let mut unwritten = Vec::new();
    let journal = Journal::resume(system, log);
    let write = |record: &Record| match &journal {
        Ok(journal) => journal.add(record),
        Err(failure) => Err(failure.clone()),
    };
    // A full disk must not keep anybody from taking changes back: without the record, undo can be run again.
    unwritten.extend(write(&Record::TakingBack).err());
    let taken = restorer.take_back(None, force, progress);
    let complete = taken.complete();
    let TakenBack { restored, mut notes } = taken;
    let state = if complete { end } else { State::Stuck };
    unwritten.extend(write(&Record::End { state, at: system.now() }).err());
    notes.extend(unwritten.into_iter().map(|failure| format!("the journal does not know of it: {failure}")));
    notes.dedup();
    Ok(Undone { journal: log.id.to_string(), complete, risk: risk(log), restored, notes })
}

/// What the steps that were begun still ask for.
fn risk(log: &Log) -> Risk {
    let entries = log.entries.iter().filter(|entry| !entry.taken_back);
    entries.filter_map(|entry| log.step(entry)).map(|step| step.risk).max().unwrap_or(Risk::Safe)
}
