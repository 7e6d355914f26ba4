//! All journals of a host. One that cannot be read says nothing of the others.

use super::log::{JournalLog, parse};
use super::{JournalState, JournalSummary, SUFFIX, Unreadable, journal_path};
use crate::{Error, JOURNALS, System, SystemFailure};

/// No host sees as many applies. Larger numbers are somebody else's file names.
const MOST: u64 = 999_999_999;

#[derive(Clone, Debug, Default)]
pub(crate) struct JournalShelf {
    /// The oldest first.
    pub(crate) logs: Vec<JournalLog>,
    pub(crate) unreadable: Vec<Unreadable>,
    last: u64,
}

impl JournalShelf {
    pub(crate) fn read(system: &dyn System) -> Result<Self, SystemFailure> {
        let mut shelf = Self::default();
        let names = system.list_folder(JOURNALS)?.unwrap_or_default();
        let mut ids = Vec::new();
        for name in names.iter().filter(|name| name.ends_with(SUFFIX)) {
            match parse_journal_id(name) {
                Some(id) => ids.push(id),
                None => shelf.unreadable.push(Unreadable {
                    id: None,
                    path: format!("{JOURNALS}/{name}"),
                    why: "hugewise does not use such a name".into(),
                    newer: false,
                }),
            }
        }
        ids.sort_unstable();
        shelf.last = ids.last().copied().unwrap_or_default();
        for id in ids {
            match read(system, id) {
                Ok(Some(log)) => shelf.logs.push(log),
                // Nothing of it reached the disk, so that nothing was changed.
                Ok(None) => {}
                Err(unreadable) => shelf.unreadable.push(unreadable),
            }
        }
        Ok(shelf)
    }

    pub(crate) fn next(&self) -> Result<u64, SystemFailure> {
        let next = self.last + 1;
        if next > MOST {
            let why = "there is no number after this one";
            return Err(SystemFailure::new(journal_path(self.last), why)
                .with_advice("move it out of that folder"));
        }
        Ok(next)
    }

    /// One that only restarted servers has nothing to put back: the one before it is meant.
    pub(crate) fn last_to_undo(&self) -> Option<&JournalLog> {
        let is_due = |log: &&JournalLog| match log.state {
            JournalState::Done => log.begin.plan.can_be_undone(),
            state => !state.is_closed(),
        };
        self.logs.iter().rev().find(is_due)
    }

    pub(crate) fn find_log(&self, id: &str) -> Result<&JournalLog, Error> {
        let unknown = || Error::NoSuchJournal(id.to_owned());
        let number: u64 = id.parse().map_err(|_| unknown())?;
        if let Some(unreadable) = self.unreadable.iter().find(|one| one.id == Some(number)) {
            return Err(Error::Unreadable(unreadable.clone()));
        }
        self.logs.iter().find(|log| log.id == number).ok_or_else(unknown)
    }
}

fn parse_journal_id(name: &str) -> Option<u64> {
    let id = name.strip_suffix(SUFFIX)?.parse().ok().filter(|id| (1..=MOST).contains(id))?;
    (journal_path(id) == format!("{JOURNALS}/{name}")).then_some(id)
}

/// `None` where nothing of it reached the disk.
pub(crate) fn read(system: &dyn System, id: u64) -> Result<Option<JournalLog>, Unreadable> {
    let text = system.read_text(&journal_path(id));
    match text.map_err(|failure| Unreadable::of_journal(id, failure.why, false))? {
        Some(text) => parse(id, &text),
        None => Ok(None),
    }
}

/// Every journal, the oldest first, and what cannot be read as one.
pub fn list_journals(system: &dyn System) -> Result<(Vec<JournalSummary>, Vec<Unreadable>), Error> {
    let JournalShelf { logs, unreadable, .. } = JournalShelf::read(system)?;
    Ok((logs.into_iter().map(JournalSummary::from).collect(), unreadable))
}
