//! Files of a process that the kernel reads under that process's own lock: its command line, its mappings.
//!
//! Whoever holds that lock for ever (a page fault on a file system of his own that never answers will do) would hold every
//! reader with it, and no signal but the last one ends such a wait. So these files are read by another thread, which is
//! waited for so long and no longer, and left behind where it does not come back.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use hugewise_model::Observed;

/// A process that is reclaimed from, on a host that swaps, keeps its lock for parts of a second.
const PATIENCE: Duration = Duration::from_secs(2);
/// What all processes that never answer may take together; after that each has but a moment.
const ALL: Duration = Duration::from_secs(8);
const MOMENT: Duration = Duration::from_millis(20);
/// What was not answered is asked again after that.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Names of these files.
const FILES: [&str; 4] = ["cmdline", "maps", "smaps", "numa_maps"];

/// The process whose lock a file is read under.
pub(super) fn locked_by(path: &str) -> Option<u32> {
    let (pid, name) = path.strip_prefix("/proc/")?.split_once('/')?;
    FILES.contains(&name).then(|| pid.parse().ok())?
}

/// A thread that reads.
#[derive(Debug)]
struct Worker {
    paths: Sender<String>,
    answers: Receiver<Observed<Vec<u8>>>,
}

impl Worker {
    fn start(read: fn(&str) -> Observed<Vec<u8>>) -> Option<Self> {
        let (paths, asked) = channel::<String>();
        let (answer, answers) = channel();
        let work = move || {
            for path in asked {
                if answer.send(read(&path)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("proc".into()).stack_size(256 << 10).spawn(work).ok()?;
        Some(Self { paths, answers })
    }
}

/// Reads with patience, and remembers for whom it ran out.
#[derive(Debug, Default)]
pub(super) struct Patient {
    worker: RefCell<Option<Worker>>,
    silent: RefCell<Silent>,
}

#[derive(Debug, Default)]
struct Silent {
    pids: BTreeSet<u32>,
    waited: Duration,
    since: Option<Instant>,
}

impl Patient {
    /// Whether a process has been waited for in vain.
    pub(super) fn is_silent(&self, pid: u32) -> bool {
        let mut silent = self.silent.borrow_mut();
        if silent.since.is_some_and(|since| since.elapsed() > FORGOTTEN) {
            *silent = Silent::default();
        }
        silent.pids.contains(&pid)
    }

    /// How long the next one is waited for.
    pub(super) fn patience(&self) -> Duration {
        if self.silent.borrow().waited < ALL { PATIENCE } else { MOMENT }
    }

    /// Remembers that a process was waited for in vain.
    pub(super) fn give_up(&self, pid: u32) {
        let patience = self.patience();
        let mut silent = self.silent.borrow_mut();
        silent.pids.insert(pid);
        silent.waited += patience;
        silent.since.get_or_insert_with(Instant::now);
    }

    /// The file as `read` reads it, if that comes back.
    pub(super) fn read(&self, pid: u32, path: &str, read: fn(&str) -> Observed<Vec<u8>>) -> Observed<Vec<u8>> {
        if self.is_silent(pid) {
            return never(pid);
        }
        let mut worker = self.worker.borrow_mut();
        if worker.is_none() {
            *worker = Worker::start(read);
        }
        let Some(at_work) = worker.as_ref().filter(|worker| worker.paths.send(path.to_owned()).is_ok()) else {
            return Observed::Malformed("no thread could be started to read it".into());
        };
        match at_work.answers.recv_timeout(self.patience()) {
            Ok(answer) => answer,
            Err(_) => {
                // It stays where it waits; the next file has another reader.
                *worker = None;
                self.give_up(pid);
                never(pid)
            }
        }
    }
}

fn never(pid: u32) -> Observed<Vec<u8>> {
    Observed::Malformed(format!("left out: the kernel does not answer for process {pid}, whose memory is locked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_process_can_keep_from_its_readers() {
        assert_eq!(locked_by("/proc/4711/cmdline"), Some(4711));
        assert_eq!(locked_by("/proc/4711/maps"), Some(4711));
        for path in ["/proc/4711/status", "/proc/self/maps", "/proc/maps", "/proc/4711/root/maps", "/etc/4711/maps"] {
            assert_eq!(locked_by(path), None, "{path}");
        }
    }

    /// One path is never answered.
    fn read(path: &str) -> Observed<Vec<u8>> {
        if path == "/proc/1/maps" {
            std::thread::sleep(Duration::from_secs(3600));
        }
        Observed::Known(path.as_bytes().to_vec())
    }

    #[test]
    fn who_never_answers_is_waited_for_once() {
        let patient = Patient::default();
        let path = |pid: u32, name: &str| format!("/proc/{pid}/{name}");
        assert_eq!(patient.read(2, &path(2, "maps"), read), Observed::Known(b"/proc/2/maps".to_vec()));
        let begun = Instant::now();
        for name in ["maps", "cmdline", "maps"] {
            let said = patient.read(1, &path(1, name), read);
            assert!(said.reason().unwrap().contains("does not answer for process 1"), "{said:?}");
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
        // Others have a reader again.
        assert_eq!(patient.read(2, &path(2, "cmdline"), read), Observed::Known(b"/proc/2/cmdline".to_vec()));
    }
}
