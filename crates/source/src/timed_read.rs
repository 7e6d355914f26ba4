//! Readings that may wait for somebody else, each with a bound.
//!
//! Some files of a process the kernel reads under that process's lock: its command line, its
//! mappings, the links to what it runs. Whoever holds that lock forever (by a page fault on a file
//! system of his own that never answers) would block every reader, and only SIGKILL ends such a
//! wait. Three ways were played on Linux 6.18 with a FUSE server: the command line is moved
//! (prctl(2)) to a page that is never read; a dirty mapping is replaced by another, for which the
//! kernel writes its page first; a program is run while a file that is closed by that cannot be
//! flushed. A server's own files may wait as well: they may lie on an NFS whose server is gone, or on
//! a FUSE of their owner's.
//!
//! So another thread reads these and is left behind where it does not return in time. Threads left
//! behind are few, and of one user fewer: a service that may have no more than so many would go
//! blind. To hand over each file costs a switch of threads; of processes that are read one after
//! the other, all files are read ahead together.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hugewise_model::Observed;

use super::owner::{Owner, OwnerPathCache};
use super::process_files::ProcessFiles;

/// How long readings are waited for.
#[derive(Clone, Copy, Debug)]
struct WaitLimits {
    /// On a host that swaps, a process under reclaim keeps its lock for parts of a second.
    process: Duration,
    /// A disk that was asleep takes seconds.
    files: Duration,
    /// For all that never answer, together; after that each gets a moment.
    all: Duration,
    moment: Duration,
    /// After this long there is as much patience as at first.
    restored: Duration,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self {
            process: Duration::from_secs(2),
            files: Duration::from_secs(5),
            all: Duration::from_secs(8),
            moment: Duration::from_millis(20),
            restored: Duration::from_secs(600),
        }
    }
}

/// What of a process's folder in /proc may wait for the process.
const MAY_WAIT: [&str; 11] = [
    "cmdline",
    "cwd",
    "environ",
    "exe",
    "fd",
    "maps",
    "ns",
    "numa_maps",
    "root",
    "smaps",
    "smaps_rollup",
];

/// Threads that may wait for one user.
const MOST_OF_USER: usize = 2;
/// Threads that may wait in all, before nothing of people is read any more.
const MOST: usize = 8;
/// The first number of an account that a person has (UID_MIN of login.defs(5)).
const FIRST_PERSON: u32 = 1000;

/// The process that a path in /proc may wait for.
pub(super) fn locked_by(path: &str) -> Option<u32> {
    let (pid, name) = path.strip_prefix("/proc/")?.split_once('/')?;
    let name = name.split('/').next()?;
    MAY_WAIT.contains(&name).then(|| pid.parse().ok())?
}

/// Whom a reading may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadSubject {
    /// The process of that number, which holds its memory's lock.
    Process(u32),
    /// The files of the server of that process and user.
    FilesOf(u32, u32),
    /// A file that belongs to nobody known.
    File,
}

impl ReadSubject {
    fn never_answers<T>(self) -> Observed<T> {
        let why = match self {
            Self::Process(_) => "the kernel does not answer, as its memory is locked",
            Self::FilesOf(..) | Self::File => "its file system does not answer",
        };
        Observed::Malformed(format!("left out: {why}"))
    }
}

type Job = Box<dyn FnOnce(&OwnerPathCache) + Send>;

#[derive(Debug)]
struct TimedReadWorker {
    jobs: Sender<(ReadSubject, Job)>,
    /// Whom it waits for, or waited for last.
    subject: Arc<Mutex<ReadSubject>>,
    /// As long as its thread is there.
    is_alive: Weak<()>,
}

impl TimedReadWorker {
    fn start_thread() -> Option<Self> {
        let (jobs, given) = channel::<(ReadSubject, Job)>();
        let alive = Arc::new(());
        let is_alive = Arc::downgrade(&alive);
        let subject = Arc::new(Mutex::new(ReadSubject::File));
        let current = Arc::clone(&subject);
        let work = move || {
            let _alive = alive;
            let ways = OwnerPathCache::default();
            for (subject, job) in given {
                *current.lock().unwrap_or_else(PoisonError::into_inner) = subject;
                job(&ways);
            }
        };
        std::thread::Builder::new().name("proc".into()).stack_size(256 << 10).spawn(work).ok()?;
        Some(Self { jobs, subject, is_alive })
    }

    fn subject(&self) -> ReadSubject {
        *self.subject.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct TimedReader {
    worker: RefCell<Option<TimedReadWorker>>,
    /// Of all readers of the program: each has threads of its own, but their number counts together.
    silent: &'static Mutex<Silent>,
    /// Who answered last: it may be asked many questions.
    answered: Cell<Option<ReadSubject>>,
    ahead: RefCell<BTreeMap<u32, FilesAhead>>,
    limits: WaitLimits,
    /// The real user of a process.
    user_of: fn(u32) -> Option<u32>,
}

#[derive(Debug)]
enum FilesAhead {
    Coming(Receiver<ProcessFiles>),
    Here(Box<ProcessFiles>),
}

static SILENT: Mutex<Silent> = Mutex::new(Silent::new());

/// Those that did not answer in time.
#[derive(Debug)]
struct Silent {
    /// Each with its user and the thread that waits for it, until that returns.
    waiting: BTreeMap<ReadSubject, (Option<u32>, Weak<()>)>,
    waited: Duration,
    since: Option<Instant>,
}

impl Silent {
    const fn new() -> Self {
        Self { waiting: BTreeMap::new(), waited: Duration::ZERO, since: None }
    }

    fn forget_answered(&mut self, restored: Duration) {
        self.waiting.retain(|_, (_, thread)| thread.strong_count() > 0);
        if self.since.is_some_and(|since| since.elapsed() > restored) {
            (self.waited, self.since) = (Duration::ZERO, None);
        }
    }
}

/// Why there is no answer.
enum NoAnswer {
    /// Whoever was asked keeps the thread waiting.
    Silent,
    /// The thread waits for somebody who was asked before.
    Lost,
}

impl TimedReader {
    pub(super) fn new(user_of: fn(u32) -> Option<u32>) -> Self {
        Self {
            worker: RefCell::default(),
            silent: &SILENT,
            answered: Cell::default(),
            ahead: RefCell::default(),
            limits: WaitLimits::default(),
            user_of,
        }
    }

    fn lock_silent(&self) -> MutexGuard<'static, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user_behind(&self, subject: ReadSubject) -> Option<u32> {
        let uid = match subject {
            ReadSubject::Process(pid) => (self.user_of)(pid),
            ReadSubject::FilesOf(_, uid) => Some(uid),
            ReadSubject::File => None,
        };
        uid.map(Owner::user_behind)
    }

    /// Whether somebody is not asked: he, or others of his user, keep threads waiting.
    fn is_silent(&self, subject: ReadSubject) -> bool {
        let mut silent = self.lock_silent();
        silent.forget_answered(self.limits.restored);
        if silent.waiting.is_empty() || self.answered.get() == Some(subject) {
            return false;
        }
        if silent.waiting.contains_key(&subject) {
            return true;
        }
        let user = self.user_behind(subject);
        let of_user = silent.waiting.values().filter(|(other, _)| *other == user).count();
        let is_person = user.is_none_or(|uid| uid >= FIRST_PERSON);
        of_user >= MOST_OF_USER || (is_person && silent.waiting.len() >= MOST)
    }

    fn wait_limit(&self, subject: ReadSubject) -> Duration {
        if self.lock_silent().waited >= self.limits.all {
            return self.limits.moment;
        }
        match subject {
            ReadSubject::Process(_) => self.limits.process,
            ReadSubject::FilesOf(..) | ReadSubject::File => self.limits.files,
        }
    }

    /// Leaves the thread where it waits; the next reading gets a new one.
    fn leave_behind(&self, worker: TimedReadWorker, waited: Duration) -> ReadSubject {
        let subject = worker.subject();
        self.answered.set(None);
        self.ahead.borrow_mut().clear();
        let user = self.user_behind(subject);
        let mut silent = self.lock_silent();
        silent.waiting.insert(subject, (user, worker.is_alive));
        silent.waited += waited;
        silent.since.get_or_insert_with(Instant::now);
        subject
    }

    fn start(&self, subject: ReadSubject, job: Job) -> bool {
        let mut worker = self.worker.borrow_mut();
        if worker.is_none() {
            *worker = TimedReadWorker::start_thread();
        }
        worker.as_ref().is_some_and(|worker| worker.jobs.send((subject, job)).is_ok())
    }

    fn wait_for<T>(&self, subject: ReadSubject, answers: &Receiver<T>) -> Result<T, NoAnswer> {
        let limit = self.wait_limit(subject);
        if let Ok(answer) = answers.recv_timeout(limit) {
            self.answered.set(Some(subject));
            return Ok(answer);
        }
        let Some(worker) = self.worker.borrow_mut().take() else { return Err(NoAnswer::Lost) };
        let is_silent = self.leave_behind(worker, limit) == subject;
        Err(if is_silent { NoAnswer::Silent } else { NoAnswer::Lost })
    }

    /// What `work` reads, if it returns in time.
    pub(super) fn ask_in_time<T: Send + 'static>(
        &self,
        subject: ReadSubject,
        work: impl Fn(&OwnerPathCache) -> Observed<T> + Send + Sync + 'static,
    ) -> Observed<T> {
        let work = Arc::new(work);
        // Who was asked before may keep the thread: each of these is silent from then on.
        loop {
            if self.is_silent(subject) {
                return subject.never_answers();
            }
            let (answer, answers) = channel();
            let work = Arc::clone(&work);
            let job: Job = Box::new(move |ways| _ = answer.send(work(ways)));
            if !self.start(subject, job) {
                return Observed::Malformed("no thread could be started to read it".into());
            }
            match self.wait_for(subject, &answers) {
                Ok(answer) => return answer,
                Err(NoAnswer::Silent) => return subject.never_answers(),
                Err(NoAnswer::Lost) => {}
            }
        }
    }

    /// Has the files of these processes read, which are asked for next; what was read ahead before
    /// is forgotten.
    pub(super) fn read_ahead<F: FnOnce() -> ProcessFiles + Send + 'static>(
        &self,
        processes: impl Iterator<Item = (u32, F)>,
    ) {
        self.ahead.borrow_mut().clear();
        for (pid, read) in processes {
            let subject = ReadSubject::Process(pid);
            if self.is_silent(subject) {
                continue;
            }
            let (answer, answers) = channel();
            if self.start(subject, Box::new(move |_| _ = answer.send(read()))) {
                self.ahead.borrow_mut().insert(pid, FilesAhead::Coming(answers));
            }
        }
    }

    /// Keeps files of one process that were read together, which are asked for next.
    pub(super) fn keep_ahead(&self, pid: u32, files: ProcessFiles) {
        *self.ahead.borrow_mut() = BTreeMap::from([(pid, FilesAhead::Here(Box::new(files)))]);
    }

    /// What `take` finds among the files that were read ahead of a process.
    pub(super) fn take_ahead<T>(
        &self,
        pid: u32,
        take: impl FnOnce(&mut ProcessFiles) -> Option<T>,
    ) -> Option<T> {
        let ahead = self.ahead.borrow_mut().remove(&pid)?;
        let mut files = match ahead {
            FilesAhead::Here(files) => files,
            FilesAhead::Coming(answers) => {
                Box::new(self.wait_for(ReadSubject::Process(pid), &answers).ok()?)
            }
        };
        let taken = take(&mut files);
        self.ahead.borrow_mut().insert(pid, FilesAhead::Here(files));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::process_files::ReadCalls;
    use super::*;

    const LIMITS: WaitLimits = WaitLimits {
        process: Duration::from_millis(100),
        files: Duration::from_millis(200),
        all: Duration::from_millis(400),
        moment: Duration::from_millis(1),
        restored: Duration::from_secs(600),
    };

    /// The first processes are those of user 4242; all others are of user 1.
    fn reader() -> TimedReader {
        reader_sharing(Box::leak(Box::new(Mutex::new(Silent::new()))))
    }

    fn reader_sharing(silent: &'static Mutex<Silent>) -> TimedReader {
        let user_of = |pid: u32| Some(if pid < 100 { 4242 } else { 1 });
        TimedReader { limits: LIMITS, silent, ..TimedReader::new(user_of) }
    }

    /// Whether a process answers; one that does not takes an hour.
    fn answers(reader: &TimedReader, pid: u32, is_silent: bool) -> bool {
        let read = move |_: &OwnerPathCache| {
            if is_silent {
                std::thread::sleep(Duration::from_secs(3600));
            }
            Observed::Known(pid)
        };
        match reader.ask_in_time(ReadSubject::Process(pid), read) {
            Observed::Known(answer) => answer == pid,
            other => {
                assert!(other.reason_text().unwrap().contains("does not answer"), "{other:?}");
                false
            }
        }
    }

    #[test]
    fn what_a_process_can_keep_from_its_readers() {
        for name in ["cmdline", "maps", "exe", "ns/mnt", "fd", "root/etc/my.cnf"] {
            assert_eq!(locked_by(&format!("/proc/4711/{name}")), Some(4711));
        }
        for path in [
            "/proc/4711/status",
            "/proc/4711/cgroup",
            "/proc/self/maps",
            "/proc/maps",
            "/etc/4711/maps",
        ] {
            assert_eq!(locked_by(path), None, "{path}");
        }
    }

    #[test]
    fn who_never_answers_is_waited_for_once() {
        let reader = reader();
        assert!(answers(&reader, 2, false));
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(!answers(&reader, 1, true));
        }
        assert!(begun.elapsed() < 2 * LIMITS.process, "{:?}", begun.elapsed());
        assert!(answers(&reader, 2, false), "others have a reader again");
    }

    #[test]
    fn processes_of_one_user_keep_few_threads_waiting() {
        let reader = reader();
        for pid in 1..100 {
            assert!(!answers(&reader, pid, true));
        }
        assert_eq!(reader.lock_silent().waiting.len(), MOST_OF_USER);
        assert!(answers(&reader, 100, false), "another user's");
        // The next reading of a service has a reader of its own.
        let next = reader_sharing(reader.silent);
        for pid in 1..100 {
            assert!(!answers(&next, pid, true));
        }
        assert_eq!(reader.lock_silent().waiting.len(), MOST_OF_USER);
        for _ in 0..3 {
            let long_ago = Instant::now().checked_sub(2 * LIMITS.restored);
            reader.lock_silent().since = long_ago;
            assert!(!answers(&reader, 1, true));
            assert_eq!(reader.lock_silent().waiting.len(), MOST_OF_USER, "asked again");
        }
    }

    #[test]
    fn subordinate_ids_of_one_user_count_as_one() {
        let user_of = |pid: u32| Some(if pid < 100 { 65_536 + pid } else { 2000 });
        let reader = TimedReader { user_of, ..reader() };
        for pid in 1..100 {
            assert!(!answers(&reader, pid, true));
        }
        assert_eq!(reader.lock_silent().waiting.len(), MOST_OF_USER);
        assert!(answers(&reader, 100, false), "another person's");
    }

    #[test]
    fn files_that_never_answer_leave_their_process_and_other_servers_to_be_read() {
        let reader = reader();
        let files = |pid: u32, is_silent: bool| {
            let read = move |_: &OwnerPathCache| {
                if is_silent {
                    std::thread::sleep(Duration::from_secs(3600));
                }
                Observed::Known(())
            };
            reader.ask_in_time(ReadSubject::FilesOf(pid, 5), read)
        };
        let why = files(7, true).reason_text().map(|why| why.to_owned());
        assert_eq!(why.as_deref(), Some("malformed: left out: its file system does not answer"));
        assert!(!files(7, false).is_known());
        assert!(files(8, false).is_known());
        assert!(answers(&reader, 7, false));
    }

    #[test]
    fn who_answers_at_last_is_asked_again() {
        let reader = reader();
        let slowly = |_: &OwnerPathCache| {
            std::thread::sleep(2 * LIMITS.process);
            Observed::Known(())
        };
        assert!(!reader.ask_in_time(ReadSubject::Process(1), slowly).is_known());
        assert!(!answers(&reader, 1, false));
        let started = Instant::now();
        while !answers(&reader, 1, false) {
            assert!(started.elapsed() < 100 * LIMITS.process);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn files_read_ahead_are_taken_once_and_one_silent_process_costs_the_others_nothing() {
        let reader = reader();
        let ahead = |pid: u32| {
            let calls = ReadCalls {
                file: |path, _| {
                    if path.starts_with("/proc/2/") {
                        std::thread::sleep(Duration::from_secs(3600));
                    }
                    Observed::Known(path.as_bytes().to_vec())
                },
                link: |path| Observed::Known(path.to_owned()),
            };
            (pid, move || ProcessFiles::read(pid, pid != 3, calls))
        };
        reader.read_ahead([1, 2, 3].into_iter().map(ahead));
        let taken = |pid: u32, name: &str| {
            let path = format!("/proc/{pid}/{name}");
            reader.take_ahead(pid, |files| {
                files
                    .take_file(&path)
                    .map(|read| read.is_known())
                    .or_else(|| files.take_link(&path).map(|read| read.is_known()))
            })
        };
        assert_eq!(
            ["cmdline", "maps", "exe", "ns/user", "exe", "status"].map(|name| taken(1, name)),
            [Some(true), Some(true), Some(true), Some(true), None, None]
        );
        // The third is behind the second, which is found to be the one that is waited for.
        assert_eq!(taken(3, "cmdline"), None);
        assert!(!answers(&reader, 2, false));
        assert!(answers(&reader, 3, false));
        reader.read_ahead([2, 3].into_iter().map(ahead));
        assert_eq!([taken(2, "cmdline"), taken(3, "cmdline")], [None, Some(true)]);
        assert_eq!([taken(3, "maps"), taken(3, "exe")], [None, Some(true)]);
        reader.read_ahead(std::iter::empty::<(u32, fn() -> ProcessFiles)>());
        assert_eq!(taken(3, "ns/mnt"), None, "of an earlier reading");
    }
}
