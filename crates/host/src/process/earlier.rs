//! What an earlier reading knows of processes that have not run since.
//!
//! Of hundreds of sessions most sleep. The kernel counts how often a thread gives up a processor, and tells it in the file
//! that also says what a process holds (/proc/PID/status, proc(5)): a process of one thread that sleeps, with the same
//! count as when it slept before, has executed nothing in between. So its title, its mappings and its folders are as they
//! were, and reading them again, which is most of what a process costs, tells nothing new.
//!
//! What others do to it (limits by prlimit(2), its cgroup, a program or segment that is removed) moves no counter.
//! Therefore a part of all processes is read whole at each turn, and each of them once in [`Earlier::TURNS`].

use hugewise_model::{Observed, PageSize, Process};

use super::status::Status;

/// The processes of an earlier reading, through a source to the same machine.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// Sorted by pid, as [`read`](super::read) gives them.
    pub processes: &'a [Process],
    /// One more at each reading.
    pub turn: u64,
}

impl Earlier<'_> {
    /// In so many readings each process is read whole at least once.
    pub const TURNS: u64 = 16;

    /// The process as it is now, where it has not run since, and nothing of it went unread.
    pub(super) fn still(&self, pid: u32, status: &Status) -> Option<Process> {
        if u64::from(pid) % Self::TURNS == self.turn % Self::TURNS {
            return None;
        }
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        let before = self.processes.get(at)?;
        let rests = before.at_rest.is_some() && before.at_rest == status.at_rest();
        // A pid can be another process's by now.
        let same = before.name == status.name
            && (before.parent, before.uid, before.gid) == (status.parent, status.uid, status.gid)
            && before.groups == status.groups
            && before.namespace_pids == status.namespace_pids
            && before.hugetlb == status.hugetlb;
        if !rests || !same || !whole(before) {
            return None;
        }
        Some(Process {
            threads: status.threads.clone(),
            page_tables: status.page_tables.clone(),
            rss_shmem: status.rss_shmem.clone(),
            rss_anon: status.rss_anon.clone(),
            swap: status.swap.clone(),
            locked: status.locked.clone(),
            ipc_lock: status.ipc_lock.clone(),
            thp_enabled: status.thp_enabled.clone(),
            ..before.clone()
        })
    }
}

/// Whether all of it was read: what was denied or made no sense is read, and told, anew.
fn whole(process: &Process) -> bool {
    let spaces = &process.namespaces;
    process.command.is_known()
        && process.memlock.is_known()
        && process.cgroups.is_known()
        && [&spaces.mount, &spaces.pid, &spaces.ipc, &spaces.user].into_iter().all(Observed::is_known)
        && process.executable.is_known()
        && process.directory.is_known()
        && process
            .mappings
            .known()
            .is_some_and(|mappings| mappings.iter().all(|mapping| Observed::<PageSize>::is_known(&mapping.page_size)))
}

#[cfg(test)]
mod tests {
    use super::super::{Facts, read};
    use super::*;
    use crate::Door;
    use crate::source::{Live, MapSource};

    const FACTS: Facts<'_> =
        Facts { base_page: Some(PageSize::KIB_4), default_huge_page: Some(PageSize::MIB_2), hugetlbfs: &[] };

    /// Process 20, of which everything can be read, with so many switches and page tables, a title and a limit.
    fn source(state: &str, switches: u64, page_tables: u64, title: &str, limit: u64) -> MapSource {
        let status = format!(
            "Name:\tx\nState:\t{state}\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\n\
             VmPTE:\t{page_tables} kB\nThreads:\t1\nvoluntary_ctxt_switches:\t{switches}\n\
             nonvoluntary_ctxt_switches:\t3\n"
        );
        let mut source = MapSource::new()
            .file("/proc/20/status", status)
            .file("/proc/20/cmdline", title)
            .file(
                "/proc/20/limits",
                format!("Max locked memory         {limit}              {limit}              bytes\n"),
            )
            .file("/proc/20/cgroup", "0::/\n")
            .file("/proc/20/maps", "7f1000000000-7f1040000000 rw-s 00000000 00:01 5 /SYSV00000000 (deleted)\n")
            .page_size(20, 0x7f10_0000_0000, PageSize::MIB_2)
            .link("/proc/20/exe", "/bin/x")
            .link("/proc/20/cwd", "/");
        for space in ["mnt", "pid", "ipc", "user"] {
            source = source.link(&format!("/proc/20/ns/{space}"), &format!("{space}:[4026531841]"));
        }
        source
    }

    fn reading(source: &MapSource, earlier: Option<Earlier<'_>>) -> Vec<Process> {
        read(&mut Door::new(source), FACTS, earlier).into_known().unwrap()
    }

    fn title(processes: &[Process]) -> String {
        processes[0].command.known().unwrap()[0].clone()
    }

    /// What the next reading, at that turn, makes of the title after the process was first seen at rest.
    fn next(then: &MapSource, turn: u64) -> Vec<Process> {
        let first = reading(&source("S (sleeping)", 7, 40, "idle", 1), None);
        assert!(whole(&first[0]), "{first:?}");
        reading(then, Some(Earlier { processes: &first, turn }))
    }

    #[test]
    fn who_has_not_run_is_not_read_whole_and_what_it_holds_is() {
        let processes = next(&source("S (sleeping)", 7, 48, "cannot be", 2), 1);
        assert_eq!(title(&processes), "idle");
        assert_eq!(processes[0].page_tables.get().map(|tables| tables.get()), Some(48 << 10));
        assert_eq!(processes[0].mappings.known().map(Vec::len), Some(1));
    }

    #[test]
    fn who_has_run_or_runs_is_read_whole() {
        for then in [source("S (sleeping)", 8, 40, "busy", 1), source("R (running)", 7, 40, "busy", 1)] {
            assert_eq!(title(&next(&then, 1)), "busy");
        }
    }

    #[test]
    fn everybody_has_a_turn() {
        let whole = (0..Earlier::TURNS).filter(|turn| {
            let processes = next(&source("S (sleeping)", 7, 40, "idle", 2), *turn);
            processes[0].memlock != reading(&source("S (sleeping)", 7, 40, "idle", 1), None)[0].memlock
        });
        assert_eq!(whole.count(), 1);
    }

    #[test]
    fn another_process_of_that_pid_and_one_that_went_unread_are_read() {
        let then = source("S (sleeping)", 7, 40, "other", 1);
        let other = then.file("/proc/20/status", {
            "Name:\ty\nState:\tS (sleeping)\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\nThreads:\t1\n\
             voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
        });
        assert_eq!(title(&next(&other, 1)), "other");

        let hidden = || source("S (sleeping)", 7, 40, "idle", 1).denied("/proc/20/maps");
        let first = reading(&hidden(), None);
        let again = hidden();
        let mut door = Door::new(&again);
        read(&mut door, FACTS, Some(Earlier { processes: &first, turn: 1 }));
        assert_eq!(door.unread.len(), 1, "what is denied is told at each reading");
    }

    #[test]
    fn a_real_process_rests_and_is_then_as_if_read_whole() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let live = Live::new();
        let of = |earlier: Option<Earlier<'_>>| {
            let processes = read(&mut Door::new(&live), FACTS, earlier).into_known().unwrap();
            processes.into_iter().find(|process| process.pid == child.id()).unwrap()
        };
        let begun = std::time::Instant::now();
        // It has to become sleep, and that to fall asleep.
        let first = loop {
            let process = of(None);
            if process.name == "sleep" && process.at_rest.is_some() {
                break process;
            }
            assert!(begun.elapsed().as_secs() < 60, "{process:?}");
        };
        let turn = u64::from(child.id()) + 1;
        let again = of(Some(Earlier { processes: std::slice::from_ref(&first), turn }));
        let anew = of(None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(again.command, Observed::Known(vec!["sleep".to_owned(), "600".to_owned()]));
        let seldom = |process: Process| (process.command, process.mappings, process.memlock, process.cgroups);
        assert_eq!(seldom(again), seldom(anew));
    }
}
