//! All journals of a host. One that cannot be read says nothing of the others.

use super::log::{Log, parse};
use super::{SUFFIX, State, Summary, Unreadable, path};
use crate::{Error, Failure, JOURNALS, System};

/// No host sees as many applies. Larger numbers are somebody else's file names.
const MOST: u64 = 999_999_999;

/// Every journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    /// The oldest first.
    pub(crate) logs: Vec<Log>,
    /// What looks like a journal and cannot be read as one.
    pub(crate) unreadable: Vec<Unreadable>,
    last: u64,
}

impl Shelf {
    pub(crate) fn read(system: &dyn System) -> Result<Self, Failure> {
        let mut shelf = Self::default();
        let names = system.list(JOURNALS)?.unwrap_or_default();
        let mut ids = Vec::new();
        for name in names.iter().filter(|name| name.ends_with(SUFFIX)) {
            match number(name) {
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

    /// The number of the next one.
    pub(crate) fn next(&self) -> Result<u64, Failure> {
        let next = self.last + 1;
        if next > MOST {
            let why = "there is no number after this one";
            return Err(Failure::new(path(self.last), why).advising("move it out of that folder"));
        }
        Ok(next)
    }

    /// The last one that an undo has something to do of. One that has only restarted servers changed nothing that could be put
    /// back, and what was applied before it is what somebody wants undone.
    pub(crate) fn last_to_undo(&self) -> Option<&Log> {
        let is_due = |log: &&Log| match log.state {
            State::Done => log.begin.plan.can_be_undone(),
            state => !state.is_closed(),
        };
        self.logs.iter().rev().find(is_due)
    }

    /// The one that somebody has named.
    pub(crate) fn named(&self, id: &str) -> Result<&Log, Error> {
        let unknown = || Error::NoSuchJournal(id.to_owned());
        let number: u64 = id.parse().map_err(|_| unknown())?;
        if let Some(unreadable) = self.unreadable.iter().find(|it| it.id == Some(number)) {
            return Err(Error::Unreadable(unreadable.clone()));
        }
        self.logs.iter().find(|log| log.id == number).ok_or_else(unknown)
    }
}

/// The number in a name that hugewise has given.
fn number(name: &str) -> Option<u64> {
    let id = name.strip_suffix(SUFFIX)?.parse().ok().filter(|id| (1..=MOST).contains(id))?;
    (path(id) == format!("{JOURNALS}/{name}")).then_some(id)
}

/// One journal; `None` where nothing of it reached the disk.
pub(crate) fn read(system: &dyn System, id: u64) -> Result<Option<Log>, Unreadable> {
    let unreadable = |why: String, newer: bool| Unreadable { id: Some(id), path: path(id), why, newer };
    match system.text(&path(id)) {
        Ok(Some(text)) => parse(id, &text).map_err(|senseless| unreadable(senseless.why, senseless.newer)),
        Ok(None) => Ok(None),
        Err(failure) => Err(unreadable(failure.why, false)),
    }
}

/// Every journal, the oldest first, and what cannot be read as one.
///
/// # Errors
/// The folder of the journals cannot be listed.
pub fn list(system: &dyn System) -> Result<(Vec<Summary>, Vec<Unreadable>), Error> {
    let Shelf { logs, unreadable, .. } = Shelf::read(system)?;
    Ok((logs.into_iter().map(Summary::from).collect(), unreadable))
}
