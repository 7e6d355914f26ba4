//! Files of many processes, read before they are asked for.
//!
//! Two threads go through the processes and hand over what they have read some processes at a time, so that reading,
//! parsing and waiting are at work at once. One of them may be kept waiting for ever (see [`patient`](super::patient)): it
//! is left behind then, with the process that keeps it, and another one goes on after that. Of few processes one thread reads
//! all before anybody is woken: to change between threads costs more than it brings.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use hugewise_model::Observed;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::beneath::{open_to_read, read_into, read_link};
use super::errno::kernels_not_known;
use super::patient::Patient;
use super::still::still_mapped;
use super::threads::Threads;
use super::{Known, Next};
use crate::process::status::{self, Matters};

/// What is read of each process: files, and links.
const FILES: [&str; 5] = ["status", COMMAND, "limits", "cgroup", MAPS];
const LINKS: [&str; 7] = ["ns/mnt", "ns/pid", "ns/ipc", "ns/user", "exe", "cwd", "root"];

/// Of this file alone a short answer does not mean that there is no more.
const MAPS: &str = "maps";

/// A longer command line is not read ahead but when it is asked for: what waits to be asked for must not be as large as any
/// user likes.
const COMMAND: &str = "cmdline";
const LONG_COMMAND: u64 = 64 << 10;

/// What is read of one that was read before and has run since: what else there is of it changes with its program or user.
const OF_RAN: [&str; 5] = ["status", COMMAND, MAPS, "exe", "cwd"];

/// What is left out of one that has not run since: its title lies in its own memory, and is read whenever it has run.
const NOT_OF_RESTED: &str = COMMAND;

/// Processes that are handed over at once, and how often a thread may do so before anybody has asked.
const AT_ONCE: usize = 8;
const WAITING: usize = 2;
/// Below this many processes a second thread costs more than it brings, and so does handing them over one after the other,
/// unless they have more bytes than that.
const FEW: usize = 64;
const MANY_BYTES: usize = 256 << 10;

/// What was read of a process. Each answer is given once: whoever asks again wants to know how it is by then.
#[derive(Debug)]
struct Shown {
    pid: u32,
    files: [Option<Observed<Vec<u8>>>; FILES.len()],
    links: [Option<Observed<String>>; LINKS.len()],
    /// Whether it maps what it mapped when it was read before.
    maps_hold: bool,
}

impl Shown {
    fn bytes(&self) -> usize {
        self.files.iter().flatten().filter_map(Observed::known).map(Vec::len).sum()
    }
}

/// Some processes that were read.
#[derive(Debug)]
struct Handed {
    shown: Vec<Shown>,
    /// Whether these were the last ones of their part.
    ends_part: bool,
}

/// A thread that reads, and what is left for it.
#[derive(Debug)]
struct Worker {
    /// In the order in which they are handed over.
    left: VecDeque<Vec<Next>>,
    shown: Receiver<Handed>,
    /// The process that it is at.
    at: Arc<AtomicU32>,
}

/// What is read ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    workers: Vec<Worker>,
    threads: Threads,
    /// The smallest mapping that anybody asks for.
    matters: Matters,
    /// Whose turn it is to hand over.
    turn: usize,
    ready: VecDeque<Shown>,
    /// Processes that are still to come.
    expected: BTreeSet<u32>,
}

impl Ahead {
    /// Begins with these processes, which are then asked for in this order.
    pub(super) fn of(next: &[Next], matters: Matters, patient: &Patient, threads: &Threads) -> Self {
        let next: Vec<&Next> = next.iter().filter(|next| !patient.is_silent(next.pid)).collect();
        if next.is_empty() {
            return Self::default();
        }
        let (count, at_once) = if next.len() < FEW { (1, FEW) } else { (2, AT_ONCE) };
        let mut shares = vec![VecDeque::new(); count];
        for (part, at) in next.chunks(at_once).zip((0..count).cycle()) {
            if let Some(share) = shares.get_mut(at) {
                share.push_back(part.iter().copied().cloned().collect());
            }
        }
        let workers: Option<Vec<Worker>> =
            shares.into_iter().map(|share| Worker::start(share, matters, threads)).collect();
        match workers {
            Some(workers) => {
                let expected = next.into_iter().map(|next| next.pid).collect();
                Self { workers, threads: threads.clone(), matters, expected, ..Self::default() }
            }
            // Without threads everything is read as it is asked for.
            None => Self::default(),
        }
    }

    /// A file that was read ahead; `None` where it was not.
    pub(super) fn file(&mut self, path: &str, patient: &Patient) -> Option<Observed<Vec<u8>>> {
        let (pid, name) = split(path)?;
        let at = FILES.iter().position(|file| *file == name)?;
        self.shown(pid, patient)?.files.get_mut(at)?.take()
    }

    /// A link that was read ahead; `None` where it was not.
    pub(super) fn link(&mut self, path: &str, patient: &Patient) -> Option<Observed<String>> {
        let (pid, name) = split(path)?;
        let at = LINKS.iter().position(|link| *link == name)?;
        self.shown(pid, patient)?.links.get_mut(at)?.take()
    }

    /// Whether a process was read ahead and maps what it mapped before.
    pub(super) fn maps_hold(&mut self, pid: u32, patient: &Patient) -> bool {
        self.shown(pid, patient).is_some_and(|shown| shown.maps_hold)
    }

    /// What was read of a process. Whatever came before it is not asked for any more.
    fn shown(&mut self, pid: u32, patient: &Patient) -> Option<&mut Shown> {
        while self.expected.contains(&pid) {
            match self.next(patient) {
                Some(shown) => {
                    for one in &shown {
                        self.expected.remove(&one.pid);
                    }
                    self.ready.extend(shown);
                }
                // One that is waited for in vain; or no thread could be had.
                None if self.workers.is_empty() => self.expected.clear(),
                None => {}
            }
            if patient.is_silent(pid) {
                self.expected.remove(&pid);
            }
        }
        while self.ready.front().is_some_and(|first| first.pid != pid) && self.ready.iter().any(|one| one.pid == pid) {
            self.ready.pop_front();
        }
        self.ready.front_mut().filter(|first| first.pid == pid)
    }

    /// The next ones, by the thread whose turn it is.
    fn next(&mut self, patient: &Patient) -> Option<Vec<Shown>> {
        let worker = self.workers.get_mut(self.turn)?;
        let (mut at, mut since) = (worker.at.load(Ordering::Relaxed), Instant::now());
        loop {
            let patience = patient.patience();
            match worker.shown.recv_timeout(patience) {
                Ok(Handed { shown, ends_part }) => {
                    if let Some(part) = worker.left.front_mut() {
                        part.drain(..shown.len().min(part.len()));
                    }
                    if ends_part {
                        worker.left.pop_front();
                        self.turn = (self.turn + 1) % self.workers.len().max(1);
                    }
                    return Some(shown);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = worker.at.load(Ordering::Relaxed);
                    if now != at {
                        (at, since) = (now, Instant::now());
                    } else if since.elapsed() >= patience {
                        patient.give_up(at);
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // It stays where it waits; what it had in hand is read anew by another, but for the one that keeps it.
        let mut left = std::mem::take(&mut worker.left);
        if left.is_empty() {
            self.workers.clear();
            return None;
        }
        left.iter_mut().for_each(|part| part.retain(|next| !patient.is_silent(next.pid)));
        match Worker::start(left, self.matters, &self.threads) {
            Some(another) => *worker = another,
            None => self.workers.clear(),
        }
        None
    }
}

/// `/proc/4711/ns/mnt`: 4711 and `ns/mnt`.
fn split(path: &str) -> Option<(u32, &str)> {
    let (pid, name) = path.strip_prefix("/proc/")?.split_once('/')?;
    Some((pid.parse().ok()?, name))
}

impl Worker {
    fn start(left: VecDeque<Vec<Next>>, matters: Matters, threads: &Threads) -> Option<Self> {
        let (hand, shown) = sync_channel(WAITING);
        let at = Arc::new(AtomicU32::new(0));
        let (parts, own) = (left.clone(), Arc::clone(&at));
        threads.give(Box::new(move |buffer| work(&parts, matters, &own, &hand, buffer)))?;
        Some(Self { left, shown, at })
    }
}

/// Reads these processes, until nobody takes them any more.
fn work(
    parts: &VecDeque<Vec<Next>>,
    matters: Matters,
    at: &AtomicU32,
    hand: &SyncSender<Handed>,
    buffer: &mut Vec<u8>,
) {
    for part in parts {
        let (mut shown, mut bytes) = (Vec::with_capacity(part.len()), 0);
        for next in part {
            at.store(next.pid, Ordering::Relaxed);
            let one = show(next, matters, buffer);
            bytes += one.bytes();
            shown.push(one);
            if bytes > MANY_BYTES {
                bytes = 0;
                if hand.send(Handed { shown: std::mem::take(&mut shown), ends_part: false }).is_err() {
                    return;
                }
            }
        }
        if hand.send(Handed { shown, ends_part: true }).is_err() {
            return;
        }
    }
}

/// Reads a process through its folder, which stays its own whoever has its number by then.
fn show(next: &Next, matters: Matters, buffer: &mut Vec<u8>) -> Shown {
    let pid = next.pid;
    let root = format!("/proc/{pid}");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut shown = Shown { pid, files: Default::default(), links: Default::default(), maps_hold: false };
    let folder = match openat(CWD, &root, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(error) => {
            shown.files.fill_with(|| Some(kernels_not_known(&root, error)));
            shown.links.fill_with(|| Some(kernels_not_known(&root, error)));
            return shown;
        }
    };
    let is_wanted = |name: &&str| match next.known {
        Known::Nothing => true,
        Known::Ran(_) => OF_RAN.contains(name),
        Known::Rested(_) => *name != NOT_OF_RESTED,
    };
    let mut has_mappings = true;
    for (name, answer) in FILES.iter().zip(&mut shown.files).filter(|(name, _)| is_wanted(name)) {
        if *name == MAPS && !has_mappings {
            continue;
        }
        let said = file(&folder, name, buffer);
        if *name == COMMAND && matches!(said, Ok(Observed::Malformed(_))) {
            continue;
        }
        let said = said.unwrap_or_else(|error| kernels_not_known(&root, error));
        let status = said.known().filter(|_| *name == "status").map(|text| status::parse(text).ok());
        *answer = Some(said);
        let Some(status) = status.flatten() else { continue };
        // What is no user process is looked at no further.
        if status.size.is_absent() {
            return shown;
        }
        has_mappings = status.could_map(matters);
        if has_mappings && let Some(before) = next.known.before() {
            shown.maps_hold = still_mapped(folder.as_fd(), &status, before);
            has_mappings = !shown.maps_hold;
        }
    }
    for (name, answer) in LINKS.iter().zip(&mut shown.links).filter(|(name, _)| is_wanted(name)) {
        *answer = Some(read_link(folder.as_fd(), name).unwrap_or_else(|error| kernels_not_known(&root, error)));
    }
    shown
}

fn file(folder: &OwnedFd, name: &str, buffer: &mut Vec<u8>) -> Result<Observed<Vec<u8>>, Errno> {
    let opened = open_to_read(folder.as_fd(), name)?;
    buffer.clear();
    let most = if name == COMMAND { LONG_COMMAND } else { super::MAX_FILE };
    let complete = read_into(&opened, buffer, most, name == MAPS)?;
    Ok(complete.map(|()| buffer.as_slice().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    const ANY: Matters = Matters { least: hugewise_model::Bytes(1), code: false };

    /// Processes of which nothing is known.
    fn new(pids: &[u32]) -> Vec<Next> {
        pids.iter().map(|pid| Next { pid: *pid, known: Known::Nothing }).collect()
    }

    use super::*;
    use crate::Source;
    use crate::source::Live;

    /// Processes that sleep, ended when dropped.
    struct Asleep(Vec<Child>);

    impl Asleep {
        fn new(count: usize) -> Self {
            let asleep = Self((0..count).map(|_| Command::new("sleep").arg("600").spawn().unwrap()).collect());
            let live = Live::new();
            for pid in asleep.pids() {
                // Before exec(2) it is another program, and before it sleeps its loader is at work on its mappings.
                while !live
                    .read(&format!("/proc/{pid}/stat"))
                    .known()
                    .is_some_and(|stat| stat.starts_with(format!("{pid} (sleep) S").as_bytes()))
                {
                    std::thread::yield_now();
                }
            }
            asleep
        }

        fn pids(&self) -> Vec<u32> {
            let mut pids: Vec<u32> = self.0.iter().map(Child::id).collect();
            pids.sort_unstable();
            pids
        }
    }

    impl Drop for Asleep {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    /// Without the signals that wait for all processes of the user together, which others send between two readings.
    fn own(file: Observed<Vec<u8>>) -> Observed<String> {
        file.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.lines().filter(|line| !line.starts_with("SigQ:")).collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn what_is_read_ahead_is_what_is_there() {
        let asleep = Asleep::new(FEW + 40);
        let (ahead, plain) = (Live::new(), Live::new());
        ahead.ahead(&new(&asleep.pids()), ANY);
        for pid in asleep.pids() {
            for name in FILES {
                let path = format!("/proc/{pid}/{name}");
                assert_eq!(own(ahead.read(&path)), own(plain.read(&path)), "{path}");
            }
            for name in LINKS {
                let path = format!("/proc/{pid}/{name}");
                assert_eq!(Source::link(&ahead, &path), Source::link(&plain, &path), "{path}");
            }
        }
    }

    #[test]
    fn who_ended_is_absent_and_who_is_asked_for_again_is_read_again() {
        let mut asleep = Asleep::new(3);
        let pids = asleep.pids();
        let live = Live::new();
        // In any order, and not all of them; the last one is none.
        live.ahead(&new(&[pids[0], pids[1], pids[2], u32::MAX - 1]), ANY);
        let status = |pid: u32| live.read(&format!("/proc/{pid}/status"));
        assert!(status(pids[1]).is_known());
        for child in &mut asleep.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(status(pids[2]).is_known(), "it was there when it was read");
        assert_eq!(
            (status(pids[1]), status(pids[2]), status(u32::MAX - 1)),
            (Observed::Absent, Observed::Absent, Observed::Absent)
        );
        assert_eq!(status(pids[0]), Observed::Absent);
    }

    #[test]
    fn who_is_waited_for_in_vain_keeps_nobody_else() {
        let asleep = Asleep::new(3);
        let (pids, patient) = (asleep.pids(), Patient::default());
        let mut ahead = Ahead::of(&new(&pids), ANY, &patient, &Threads::default());
        // A thread that was handed the same work and never comes back from the second one.
        let (_hand, shown) = sync_channel(WAITING);
        let left = ahead.workers[0].left.clone();
        ahead.workers[0] = Worker { left, shown, at: Arc::new(AtomicU32::new(pids[1])) };
        let mut read = |pid: u32| ahead.file(&format!("/proc/{pid}/cmdline"), &patient).map(|read| read.is_known());
        assert_eq!(pids.iter().map(|pid| read(*pid)).collect::<Vec<_>>(), [Some(true), None, Some(true)]);
        assert!(patient.is_silent(pids[1]) && !patient.is_silent(pids[0]));
    }

    /// What a process says its command line is may be as large as its memory.
    #[test]
    fn a_long_command_line_is_not_held_until_it_is_asked_for() {
        let spawn = |count| {
            let mut sh = Command::new("sh");
            sh.args(["-c", "read line"]).args(vec!["x".repeat(120 << 10); count]);
            sh.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let all = Asleep([0, 2, 10].map(spawn).into());
        let (live, patient) = (Live::new(), Patient::default());
        // For a moment of exec(2) it has none.
        while all.pids().iter().any(|pid| live.read(&format!("/proc/{pid}/cmdline")) == Observed::Known(Vec::new())) {
            std::thread::yield_now();
        }
        let mut ahead = Ahead::of(&new(&all.pids()), ANY, &patient, &Threads::default());
        let lengths: Vec<(bool, Option<usize>)> = all
            .0
            .iter()
            .map(|child| {
                let path = format!("/proc/{}/cmdline", child.id());
                (ahead.file(&path, &patient).is_some(), live.read(&path).known().map(Vec::len))
            })
            .collect();
        let own = "sh\0-c\0read line\0".len();
        assert_eq!(lengths, [(true, Some(own)), (false, Some(own + 2 * (1 + (120 << 10)))), (false, None)]);
    }
}
