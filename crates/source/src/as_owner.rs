//! A server's files, read with its owner's rights and within a budget.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hugewise_model::{Observed, Process, Reason, Unread};

use super::read_limits::{name_length, too_large};
use super::{
    FilePart, FileRequest, MachineFacts, Owner, ProcessSource, RawSource, Source, TrustedWriters,
};

/// What is read of the files of all of one user's servers in one reading of the host; more is left
/// out, with a note, and affects no other user's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReadLimits {
    /// Bytes of one file, or of a part that is read at once.
    pub file: u64,
    /// Bytes of the names in one folder, each with 32 more for its memory.
    pub names: u64,
    /// Bytes, names in folders included.
    pub bytes: u64,
    /// Lookups of files, folders and links, whether they exist or not.
    pub questions: u64,
    /// Time spent on them.
    pub time: Duration,
}

impl OwnerReadLimits {
    /// Configuration. The largest file that servers write is an hsperfdata of 64 KiB, and each
    /// server takes some ten lookups of microseconds: two hundred servers of a user stay below a
    /// tenth. Lines in memory take a hundred times a file's bytes at worst, and `serve` has 128
    /// MiB.
    pub const CONFIGURATION: Self = Self {
        file: 1 << 20,
        names: 4 << 20,
        bytes: 32 << 20,
        questions: 10_000,
        time: Duration::from_secs(2),
    };
    /// Logs, which `verify` reads a mebibyte at a time from their ends: enough for two searches for
    /// a start.
    pub const LOGS: Self = Self {
        file: 16 << 20,
        names: 4 << 20,
        bytes: 512 << 20,
        questions: 10_000,
        time: Duration::from_secs(10),
    };
}

const LEFT_OUT: &str = "left out: ";

/// What each user's servers have spent of their limits.
#[derive(Debug)]
pub struct Budgets {
    limits: OwnerReadLimits,
    spent: RefCell<BTreeMap<u32, SpentBudget>>,
    /// By process: where something was read, or found to be missing.
    believed: RefCell<BTreeMap<u32, BTreeSet<String>>>,
}

#[derive(Clone, Debug, Default)]
struct SpentBudget {
    bytes: u64,
    questions: u64,
    time: Duration,
    over: Option<String>,
}

impl Budgets {
    /// A budget of which nothing is spent.
    pub const fn new(limits: OwnerReadLimits) -> Self {
        let believed = RefCell::new(BTreeMap::new());
        Self { limits, spent: RefCell::new(BTreeMap::new()), believed }
    }

    /// The source as the owner of this process sees it.
    pub fn for_owner<'a>(&'a self, source: &'a dyn Source, process: &Process) -> OwnerSource<'a> {
        OwnerSource { source, budgets: self, owner: Owner::from_process(process), as_owner: true }
    }

    /// The source with the reader's rights, at the owner's expense: for files that the host's own
    /// configuration names to all servers.
    pub fn for_host_files<'a>(
        &'a self,
        source: &'a dyn Source,
        process: &Process,
    ) -> OwnerSource<'a> {
        OwnerSource { source, budgets: self, owner: Owner::from_process(process), as_owner: false }
    }

    /// `size` is the cost of the answer.
    fn ask_within_budget<T>(
        &self,
        uid: u32,
        size: impl FnOnce(&T) -> u64,
        ask: impl FnOnce(&OwnerReadLimits) -> Observed<T>,
    ) -> Observed<T> {
        let uid = Owner::user_behind(uid);
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
        let bytes = answer.as_known().map_or(0, size);
        let mut spent = self.spent.borrow_mut();
        let spent = spent.entry(uid).or_default();
        spent.bytes = spent.bytes.saturating_add(bytes);
        spent.time = spent.time.saturating_add(took);
        let OwnerReadLimits { bytes, questions, time, .. } = self.limits;
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

    /// Where the files and folders lie by which a process was described. What could not be read is
    /// not among them: nothing is believed of it.
    pub fn paths_believed(&self, pid: u32) -> BTreeSet<String> {
        self.believed.borrow().get(&pid).cloned().unwrap_or_default()
    }

    fn note_believed<T>(&self, owner: &Owner, path: &str, answer: &Observed<T>) {
        if !matches!(answer, Observed::Known(_) | Observed::Absent) {
            return;
        }
        let mut believed = self.believed.borrow_mut();
        if believed.entry(owner.pid).or_default().insert(path.to_owned()) {
            let mut spent = self.spent.borrow_mut();
            let spent = spent.entry(Owner::user_behind(owner.uid)).or_default();
            spent.bytes = spent.bytes.saturating_add(name_length(path));
        }
    }

    /// One note for each user whose files were left out.
    pub fn unread_notes(&self) -> Vec<Unread> {
        let spent = self.spent.borrow();
        let over = spent.iter().filter_map(|(uid, spent)| Some((uid, spent.over.clone()?)));
        over.map(|(uid, why)| {
            let what = format!("files of user {uid}'s servers");
            Unread::new(what, Reason::LeftOut { user: *uid, why })
        })
        .collect()
    }

    /// Whether a note on one file is covered by [`unread_notes`](Self::unread_notes).
    pub fn tells_of(note: &Unread) -> bool {
        matches!(&note.why, Reason::Malformed(why) if why.starts_with(LEFT_OUT))
    }
}

/// A source as the owner of a server sees it, within that user's budget.
#[derive(Clone)]
pub struct OwnerSource<'a> {
    source: &'a dyn Source,
    budgets: &'a Budgets,
    owner: Owner,
    as_owner: bool,
}

fn byte_length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn names_length(names: &[String]) -> u64 {
    names.iter().map(|name| name_length(name)).sum()
}

impl OwnerSource<'_> {
    fn reader(&self) -> Option<&Owner> {
        self.as_owner.then_some(&self.owner)
    }
}

impl RawSource for OwnerSource<'_> {
    /// A glance's result is used here, so that a recording keeps it.
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        let size = |part: &FilePart| byte_length(&part.bytes);
        let answer = self.budgets.ask_within_budget(self.owner.uid, size, |limits| {
            let extent = request.extent.at_most(limits.file);
            let reader = self.reader();
            self.source.read_file(&FileRequest { reader, extent, is_glance: false, ..*request })
        });
        self.budgets.note_believed(&self.owner, request.path, &answer);
        answer
    }

    fn folder_names(&self, folder: &str, _: Option<&Owner>, _: u64) -> Observed<Vec<String>> {
        let size = |names: &Vec<String>| names_length(names);
        let answer = self.budgets.ask_within_budget(self.owner.uid, size, |limits| {
            let most = if self.as_owner { limits.names } else { u64::MAX };
            self.source.folder_names(folder, self.reader(), most)
        });
        self.budgets.note_believed(&self.owner, folder, &answer);
        answer
    }

    fn link_target(&self, path: &str, _: Option<&Owner>) -> Observed<String> {
        self.budgets.ask_within_budget(
            self.owner.uid,
            |_| 0,
            |_| self.source.link_target(path, self.reader()),
        )
    }

    fn changed_since_start(&self, _: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let Self { source, owner, .. } = self;
        self.budgets.ask_within_budget(
            owner.uid,
            |_| 0,
            |_| source.changed_since_start(owner, path, pid),
        )
    }

    fn check_writers(&self, path: &str, writers: &TrustedWriters) -> Observed<()> {
        self.budgets.ask_within_budget(
            self.owner.uid,
            |()| 0,
            |_| self.source.check_writers(path, writers),
        )
    }

    fn processes(&self) -> &dyn ProcessSource {
        self.source.processes()
    }
    fn machine_facts(&self) -> MachineFacts {
        self.source.machine_facts()
    }
}

pub(super) fn limit_file_size(bytes: Vec<u8>, most: u64) -> Observed<Vec<u8>> {
    if byte_length(&bytes) > most { too_large(most) } else { Observed::Known(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapSource;

    #[test]
    fn one_users_excess_takes_nothing_from_others() {
        let source = MapSource::new()
            .with_file("/a", [b'x'; 600])
            .with_file("/b", [b'y'; 10])
            .with_file("/huge", [b'z'; 2000]);
        let limits = OwnerReadLimits {
            file: 1000,
            names: 100,
            bytes: 1500,
            questions: 20,
            time: Duration::from_secs(60),
        };
        let budgets = Budgets::new(limits);
        let owner_source_of =
            |uid| budgets.for_owner(&source, &Process { uid, ..Process::default() });
        assert_eq!(
            owner_source_of(1).read("/huge"),
            Observed::Malformed("larger than 1000 bytes".into())
        );
        assert_eq!(
            owner_source_of(1).read_limited("/huge", 5000),
            owner_source_of(1).read("/huge")
        );
        assert_eq!(
            owner_source_of(1).read_limited("/b", 9),
            Observed::Malformed("larger than 9 bytes".into())
        );
        assert!(
            owner_source_of(1).read("/a").is_known() && owner_source_of(1).read("/a").is_known()
        );
        // The file with which it is reached is still read.
        assert!(owner_source_of(1).read("/a").is_known());
        let reason = owner_source_of(1).read("/b").reason_text().unwrap();
        assert_eq!(
            reason,
            "malformed: left out: the files of user 1's servers take more than 0 MiB"
        );
        assert_eq!(owner_source_of(1).list_folder("/").reason_text(), Some(reason.clone()));
        assert!(owner_source_of(2).read("/b").is_known());
        let unread = budgets.unread_notes();
        assert_eq!(unread.len(), 1);
        assert_eq!(unread[0].what, "files of user 1's servers");
        assert!(Budgets::tells_of(&Unread::new(
            "/b",
            owner_source_of(1).read("/b").unknown_reason().unwrap()
        )));
        // What is not there costs a look.
        for _ in 0..19 {
            assert_eq!(owner_source_of(3).read("/none"), Observed::Absent);
        }
        assert_eq!(owner_source_of(3).read("/none"), Observed::Absent);
        assert!(owner_source_of(3).read("/none").reason_text().unwrap().contains("looks"));
    }
}
