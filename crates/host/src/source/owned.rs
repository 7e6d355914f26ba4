//! A server's files: read with its owner's rights, and no more of them than a budget allows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hugewise_model::{Observed, PageSize, Process, Reason, Unread};

use super::bounds::{name_length, too_large};
use super::{Machine, Owner, Part, Source};

/// What is read of the files of all the servers of one user in one reading of the host. Beyond it they are left out, and that is
/// said; other users' servers are read as ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file, or of a part that is read at once.
    pub file: u64,
    /// Bytes of the names in one folder, each with 32 more for what it takes in memory.
    pub names: u64,
    /// Bytes, those of names in folders among them.
    pub bytes: u64,
    /// Questions: a file, a folder or a link that is looked for, there or not.
    pub questions: u64,
    /// Time spent on them.
    pub time: Duration,
}

impl Limits {
    /// Configuration. The largest file of it that servers write themselves is an hsperfdata file of 64 KiB, postgresql.conf has
    /// 30 KiB, and each server takes some ten questions: two hundred servers of one user stay below a tenth of this. What one
    /// file's lines take in memory is a hundred times its bytes at worst, and `serve` has 128 MiB. A question takes some
    /// microseconds.
    pub const CONFIGURATION: Self =
        Self { file: 1 << 20, names: 4 << 20, bytes: 32 << 20, questions: 10_000, time: Duration::from_secs(2) };
    /// Logs, which are read for `verify` alone, a mebibyte at a time from their ends: two of them as far back as a start is
    /// looked for.
    pub const LOGS: Self =
        Self { file: 16 << 20, names: 4 << 20, bytes: 512 << 20, questions: 10_000, time: Duration::from_secs(10) };
}

/// How a note on a file begins that was left out.
const LEFT_OUT: &str = "left out: ";

/// What each user's servers have had of their limits so far.
#[derive(Debug)]
pub struct Budgets {
    limits: Limits,
    spent: RefCell<BTreeMap<u32, Spent>>,
}

#[derive(Clone, Debug, Default)]
struct Spent {
    bytes: u64,
    questions: u64,
    time: Duration,
    /// What they have had too much of.
    over: Option<String>,
}

impl Budgets {
    /// Nothing is spent yet.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, spent: RefCell::new(BTreeMap::new()) }
    }

    /// The source as the owner of this process sees it.
    pub fn of<'a>(&'a self, source: &'a dyn Source, process: &Process) -> Owned<'a> {
        Owned { source, budgets: self, owner: Owner::of(process), as_owner: true }
    }

    /// The source as the reader sees it, for files that the host's own configuration names to all servers: what that takes is
    /// still the owner's.
    pub fn for_host_files<'a>(&'a self, source: &'a dyn Source, process: &Process) -> Owned<'a> {
        Owned { source, budgets: self, owner: Owner::of(process), as_owner: false }
    }

    /// Asks, where the user has something left; `size` tells what an answer has cost.
    fn ask<T>(&self, uid: u32, size: impl FnOnce(&T) -> u64, ask: impl FnOnce(&Limits) -> Observed<T>) -> Observed<T> {
        let uid = Owner::behind(uid);
        {
            let mut spent = self.spent.borrow_mut();
            let spent = spent.entry(uid).or_default();
            if let Some(over) = &spent.over {
                return Observed::Malformed(over.clone());
            }
            spent.questions += 1;
        }
        let begun = Instant::now();
        let answer = ask(&self.limits);
        let took = begun.elapsed();
        let bytes = answer.known().map_or(0, size);
        let mut spent = self.spent.borrow_mut();
        let spent = spent.entry(uid).or_default();
        spent.bytes = spent.bytes.saturating_add(bytes);
        spent.time = spent.time.saturating_add(took);
        let Limits { bytes, questions, time, .. } = self.limits;
        let more = if spent.bytes >= bytes {
            format!("take more than {} MiB", bytes >> 20)
        } else if spent.questions >= questions {
            format!("take more than {questions} looks")
        } else if spent.time >= time {
            format!("take longer than {} s", time.as_secs())
        } else {
            return answer;
        };
        spent.over = Some(format!("{LEFT_OUT}the files of user {uid}'s servers {more}"));
        answer
    }

    /// Whose files were left out, and why: one note for all of them.
    pub fn unread(&self) -> Vec<Unread> {
        let spent = self.spent.borrow();
        let over = spent.iter().filter_map(|(uid, spent)| Some((uid, spent.over.clone()?)));
        over.map(|(uid, why)| Unread::new(format!("files of user {uid}'s servers"), Reason::untold(why))).collect()
    }

    /// Whether a note on one file is of one that [`unread`](Self::unread) tells of.
    pub fn tells_of(note: &Unread) -> bool {
        matches!(&note.why, Reason::Malformed(why) if why.starts_with(LEFT_OUT))
    }
}

/// A source as the owner of a server sees it, within that user's budget.
#[derive(Clone)]
pub struct Owned<'a> {
    source: &'a dyn Source,
    budgets: &'a Budgets,
    owner: Owner,
    as_owner: bool,
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn names_length(names: &[String]) -> u64 {
    names.iter().map(|name| name_length(name)).sum()
}

impl Source for Owned<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.glance(path, self.budgets.limits.file)
    }

    /// What comes of it is used, so that a recording keeps it.
    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        let Self { source, owner, .. } = self;
        self.budgets.ask(
            owner.uid,
            |bytes: &Vec<u8>| length(bytes),
            |limits| match self.as_owner {
                true => source.read_as(owner, path, most.min(limits.file)),
                false => source.read(path).and_then(|bytes| bounded(bytes, most.min(limits.file))),
            },
        )
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        let Self { source, owner, .. } = self;
        let size = |part: &Part| length(&part.bytes);
        self.budgets.ask(owner.uid, size, |limits| match self.as_owner {
            true => source.read_part_as(owner, path, before, max.min(limits.file)),
            false => source.read_part(path, before, max.min(limits.file)),
        })
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        let Self { source, owner, .. } = self;
        self.budgets.ask(
            owner.uid,
            |names: &Vec<String>| names_length(names),
            |limits| match self.as_owner {
                true => source.list_as(owner, folder, limits.names),
                false => source.list(folder),
            },
        )
    }

    fn link(&self, path: &str) -> Observed<String> {
        let Self { source, owner, .. } = self;
        self.budgets.ask(
            owner.uid,
            |_| 0,
            |_| match self.as_owner {
                true => source.link_as(owner, path),
                false => source.link(path),
            },
        )
    }

    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let Self { source, owner, .. } = self;
        self.budgets.ask(owner.uid, |_| 0, |_| source.changed_since_start(owner, path, pid))
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.source.mapping_page_size(pid, start)
    }

    fn machine(&self) -> Machine {
        self.source.machine()
    }
}

/// A file that is no larger than that.
pub(super) fn bounded(bytes: Vec<u8>, most: u64) -> Observed<Vec<u8>> {
    if length(&bytes) > most { too_large(most) } else { Observed::Known(bytes) }
}

#[cfg(test)]
mod tests {
    use super::super::MapSource;
    use super::*;

    #[test]
    fn one_users_excess_takes_nothing_from_others() {
        let source = MapSource::new().file("/a", [b'x'; 600]).file("/b", [b'y'; 10]).file("/huge", [b'z'; 2000]);
        let limits = Limits { file: 1000, names: 100, bytes: 1500, questions: 20, time: Duration::from_secs(60) };
        let budgets = Budgets::new(limits);
        let of = |uid| budgets.of(&source, &Process { uid, ..Process::default() });
        assert_eq!(of(1).read("/huge"), Observed::Malformed("larger than 1000 bytes".into()));
        assert_eq!(of(1).glance("/huge", 5000), of(1).read("/huge"));
        assert_eq!(of(1).glance("/b", 9), Observed::Malformed("larger than 9 bytes".into()));
        assert!(of(1).read("/a").is_known() && of(1).read("/a").is_known());
        // The file with which it is reached is still read.
        assert!(of(1).read("/a").is_known());
        let reason = of(1).read("/b").reason().unwrap();
        assert_eq!(reason, "malformed: left out: the files of user 1's servers take more than 0 MiB");
        assert_eq!(of(1).list("/").reason(), Some(reason.clone()));
        assert!(of(2).read("/b").is_known());
        let unread = budgets.unread();
        assert_eq!(unread.len(), 1);
        assert_eq!(unread[0].what, "files of user 1's servers");
        assert!(Budgets::tells_of(&Unread::new("/b", of(1).read("/b").why().unwrap())));
        // What is not there costs a look.
        for _ in 0..19 {
            assert_eq!(of(3).read("/none"), Observed::Absent);
        }
        assert_eq!(of(3).read("/none"), Observed::Absent);
        assert!(of(3).read("/none").reason().unwrap().contains("looks"));
    }
}
