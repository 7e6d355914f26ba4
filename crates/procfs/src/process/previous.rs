//! Processes that have not run since the reading before.
//!
//! Most of hundreds of sessions sleep. The kernel counts to the nanosecond what a process's threads
//! run: where the count is the same, its title, mappings, folders and page tables are too.
//!
//! What others do to it (reclaim, prlimit(2), another cgroup, a removed file) is not counted: after
//! [`LONGEST_REUSE`](hugewise_source::LONGEST_REUSE) all are read.

use std::sync::Arc;
use std::time::Duration;

use hugewise_model::{Host, Observed, PageSize, Process};
use hugewise_source::ListedProcess;

/// The processes of the reading before, of the same machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousProcesses<'a> {
    /// Sorted by pid, as [`read`](super::read) gives them; empty for a first reading.
    pub processes: &'a [Arc<Process>],
    /// Sorted ids of kernel threads and zombies, with their processor time.
    pub others: &'a [(u32, Duration)],
}

impl<'a> PreviousProcesses<'a> {
    /// What a host knows of them.
    pub fn from_host(host: &'a Host) -> Self {
        let processes = host.processes.as_known().map_or(&[][..], Vec::as_slice);
        Self { processes, others: &host.others }
    }

    /// The process as read before, where it has not run since and was read completely.
    pub(super) fn unchanged_process(
        &self,
        ListedProcess { pid, identity }: ListedProcess,
        cpu_time: Duration,
    ) -> Option<&'a Arc<Process>> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        // A reused pid would need the same processor time to the nanosecond, and the same inode.
        self.processes.get(at).filter(|before| {
            before.cpu_time == Some(cpu_time)
                && before.identity.zip(identity).is_none_or(|(then, now)| then == now)
                && is_fully_read(before)
        })
    }

    /// Whether it was a kernel thread or a zombie and has not run since.
    pub(super) fn is_other(&self, other: (u32, Duration)) -> bool {
        self.others.binary_search(&other).is_ok()
    }
}

/// What was denied or malformed is read, and reported, again.
fn is_fully_read(process: &Process) -> bool {
    let spaces = &process.namespaces;
    process.command.is_known()
        && process.memlock.is_known()
        && process.cgroups.is_known()
        && [&spaces.mount, &spaces.pid, &spaces.ipc, &spaces.user]
            .into_iter()
            .all(Observed::is_known)
        && process.executable.is_known()
        && process.directory.is_known()
        && process.mappings.as_known().is_some_and(|mappings| {
            mappings.iter().all(|mapping| Observed::<PageSize>::is_known(&mapping.page_size))
        })
}

#[cfg(test)]
mod tests {
    use super::super::{PageSizeFacts, read};
    use super::*;
    use hugewise_source::FactReader;
    use hugewise_source::{LiveSource, MapSource};

    const FACTS: PageSizeFacts<'_> = PageSizeFacts {
        base_page: Some(PageSize::KIB_4),
        default_huge_page: Some(PageSize::MIB_2),
        hugetlbfs: &[],
        smallest_huge_page: None,
        has_reserved: false,
        is_captured: false,
        one_size: false,
    };

    /// Process 20, of which everything can be read, that ran so many nanoseconds, with page tables,
    /// a title and a limit.
    fn source(ran: u64, page_tables: u64, title: &str, limit: u64) -> MapSource {
        let status = format!(
            "Name:\tx\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\n\
             VmPTE:\t{page_tables} kB\nThreads:\t1\n"
        );
        let mut source = MapSource::new()
            .with_file("/proc/20/status", status)
            .cpu_time(20, Duration::from_nanos(ran))
            .with_file("/proc/20/cmdline", title)
            .with_file(
                "/proc/20/limits",
                format!(
                    "Max locked memory         {limit}              {limit}              bytes\n"
                ),
            )
            .with_file("/proc/20/cgroup", "0::/\n")
            .with_file(
                "/proc/20/maps",
                "7f1000000000-7f1040000000 rw-s 00000000 00:01 5 /SYSV00000000 (deleted)\n",
            )
            .page_size(20, 0x7f10_0000_0000, PageSize::MIB_2)
            .with_link("/proc/20/exe", "/bin/x")
            .with_link("/proc/20/cwd", "/");
        for space in ["mnt", "pid", "ipc", "user"] {
            source =
                source.with_link(&format!("/proc/20/ns/{space}"), &format!("{space}:[4026531841]"));
        }
        source
    }

    const NONE: PreviousProcesses<'_> = PreviousProcesses { processes: &[], others: &[] };

    fn reading(source: &MapSource, before: Option<PreviousProcesses<'_>>) -> Vec<Arc<Process>> {
        read(&mut FactReader::new(source), FACTS, before).processes.into_known().unwrap()
    }

    fn title(processes: &[Arc<Process>]) -> String {
        processes[0].command.as_known().unwrap()[0].clone()
    }

    /// What the next reading makes of the process after it was first seen at rest.
    fn next(then: &MapSource) -> Vec<Arc<Process>> {
        let first = reading(&source(7, 40, "idle", 1), Some(NONE));
        assert!(is_fully_read(&first[0]), "{first:?}");
        reading(then, Some(PreviousProcesses { processes: &first, others: &[] }))
    }

    #[test]
    fn who_has_not_run_is_not_read() {
        let processes = next(&source(7, 48, "cannot be", 2));
        assert_eq!(title(&processes), "idle");
        assert_eq!(processes[0].page_tables.get().map(|tables| tables.get()), Some(40 << 10));
        assert_eq!(processes[0].mappings.as_known().map(Vec::len), Some(1));
    }

    #[test]
    fn who_has_run_is_read() {
        assert_eq!(title(&next(&source(8, 40, "busy", 1))), "busy");
    }

    #[test]
    fn another_process_with_the_same_number_is_read() {
        let first = reading(&source(7, 40, "idle", 1).with_identity(20, 1), Some(NONE));
        let before = Some(PreviousProcesses { processes: &first, others: &[] });
        let at = |identity| reading(&source(7, 40, "new", 1).with_identity(20, identity), before);
        assert_eq!([title(&at(1)), title(&at(2))], ["idle", "new"]);
    }

    #[test]
    fn who_cannot_be_asked_about_is_read() {
        let first = reading(&source(7, 40, "idle", 1), None);
        let before = PreviousProcesses { processes: &first, others: &[] };
        assert_eq!(title(&reading(&source(7, 40, "busy", 1), Some(before))), "busy");
    }

    #[test]
    fn a_kernel_thread_that_has_not_run_is_not_read() {
        let thread =
            MapSource::new().with_file("/proc/20/status", "Name:\tkworker\nUid:\t0\t0\t0\t0\n");
        let thread = thread.cpu_time(20, Duration::from_nanos(7));
        let others = read(&mut FactReader::new(&thread), FACTS, Some(NONE)).others;
        assert_eq!(others, [(20, Duration::from_nanos(7))]);
        let count = |source: &MapSource| {
            let before = PreviousProcesses { processes: &[], others: &others };
            let found = read(&mut FactReader::new(source), FACTS, Some(before));
            (found.processes.into_known().unwrap().len(), found.others.len())
        };
        assert_eq!(count(&source(7, 40, "not looked at", 1)), (0, 1));
        assert_eq!(count(&source(8, 40, "a user process by now", 1)), (1, 0));
        assert_eq!(read(&mut FactReader::new(&thread), FACTS, None).others, []);
    }

    #[test]
    fn what_went_unread_is_told_at_each_reading() {
        let hidden = source(7, 40, "idle", 1).with_denied("/proc/20/maps");
        let first = reading(&hidden, Some(NONE));
        let mut door = FactReader::new(&hidden);
        read(&mut door, FACTS, Some(PreviousProcesses { processes: &first, others: &[] }));
        assert_eq!(door.unread.len(), 1);
    }

    /// A shell that does as it is told, told of by one reading after the other.
    #[test]
    fn what_a_real_process_does_to_itself_is_seen_at_the_next_reading() {
        use std::io::Write as _;
        let mut shell =
            std::process::Command::new("sh").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let (pid, mut before) = (shell.id(), Vec::new());
        let mut read_again = || {
            let previous = PreviousProcesses { processes: &before, others: &[] };
            let live = LiveSource::new();
            before = read(&mut FactReader::new(&live), FACTS, Some(previous))
                .processes
                .into_known()
                .unwrap();
            before.iter().find(|process| process.pid == pid).cloned()
        };
        let mut seen = |line: &str, is_done: &dyn Fn(&Process) -> bool| {
            writeln!(input, "{line}").unwrap();
            let begun = std::time::Instant::now();
            while !read_again().is_some_and(|process| is_done(&process)) {
                assert!(begun.elapsed().as_secs() < 60, "{line}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        seen("", &|process| process.executable.is_known());
        seen("cd /proc", &|process| process.directory == Observed::Known("/proc".to_owned()));
        seen("exec sleep 600", &|process| {
            process.name == "sleep" && process.command.as_known().unwrap()[1] == "600"
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(read_again().is_none(), "it has ended");
    }

    #[test]
    fn a_real_process_rests_and_is_then_as_if_read_whole() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let live = LiveSource::new();
        let process_of = |before: Option<PreviousProcesses<'_>>| {
            let found = read(&mut FactReader::new(&live), FACTS, before).processes;
            found.into_known().unwrap().into_iter().find(|process| process.pid == child.id())
        };
        let begun = std::time::Instant::now();
        // It has to become sleep, and that to fall asleep.
        let first = loop {
            let process = process_of(Some(NONE)).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let still = process_of(Some(NONE)).is_some_and(|now| now.cpu_time == process.cpu_time);
            if process.name == "sleep" && process.cpu_time.is_some() && still {
                break process;
            }
            assert!(begun.elapsed().as_secs() < 60, "{process:?}");
        };
        let before = PreviousProcesses { processes: std::slice::from_ref(&first), others: &[] };
        let again = process_of(Some(before)).unwrap();
        let anew = process_of(None).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Arc::ptr_eq(&again, &first));
        assert_eq!(*again, Process { cpu_time: again.cpu_time, ..Arc::unwrap_or_clone(anew) });
    }
}
