//! What an earlier reading knows of processes that have not run since.
//!
//! Of hundreds of sessions most sleep. The kernel counts to the nanosecond what the threads of a process run, and tells it
//! at once ([`Source::cpu_time`](crate::Source::cpu_time)): where that is what it was when the process was read, nothing of
//! it has run since. So its title, its mappings, its folders and its page tables are as they were, and reading them again,
//! which takes many times as long, tells nothing new.
//!
//! What others do to it is not counted. Therefore a part of all processes has its turn at each reading, each of them once in
//! [`Earlier::TURNS`]: its sums of memory (reclaim) and its parent are read. That it got other limits (prlimit(2)) or another
//! cgroup, that its program or a segment was removed, or its folder renamed, is rarer and costs most to see: at one turn in
//! [`Earlier::WHOLE`] all is read but its title, which lies in its own memory, and what it still maps.
//!
//! Of one that has run, and is still the one that it was by the inode of its folder, all is read that programs change as they
//! go: its status, its title, its folder, and what it maps, unless the kernel says that each mapping is where it was and the
//! sums are what they were. Its limits, cgroup, namespaces and root are set up by whoever starts it, or by itself before it
//! becomes another user or program: as long as it has the same ones, they are read at its turn.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Files;
use crate::source::Listed;
use hugewise_model::{Host, Observed, PageSize, Process};

/// The processes of an earlier reading, through a source to the same machine.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// Sorted by pid, as [`read`](super::read) gives them; none for who reads for the first time.
    pub processes: &'a [Arc<Process>],
    /// Sorted ids of what was no user process, with what they had run.
    pub others: &'a [(u32, Duration)],
    /// One more at each reading.
    pub turn: u64,
    /// What readings made of the machine's files so far.
    pub files: Option<&'a Files>,
}

impl<'a> Earlier<'a> {
    /// What a host knows of it.
    pub fn of(host: Option<&'a Host>, turn: u64) -> Self {
        let processes = host.and_then(|host| host.processes.known()).map_or(&[][..], Vec::as_slice);
        Self { processes, others: host.map_or(&[], |host| &host.others), turn, files: None }
    }

    /// In so many readings each process has a turn.
    pub const TURNS: u64 = 32;

    /// At one of so many turns all of it is read but its title.
    pub const WHOLE: u64 = 2;

    /// The process as it was read, where it has run no more than it had then, and nothing of it went unread; and what it is
    /// the turn of.
    pub(super) fn still(
        &self,
        Listed { pid, identity }: Listed,
        before: Option<&'a Arc<Process>>,
        cpu_time: Option<Duration>,
    ) -> Option<(&'a Arc<Process>, Turn)> {
        cpu_time?;
        let is_whole = || (u64::from(pid) / Self::TURNS) % Self::WHOLE == (self.turn / Self::TURNS) % Self::WHOLE;
        let turn = match self.has_turn(pid) {
            false => Turn::None,
            true if is_whole() => Turn::Whole,
            true => Turn::Sums,
        };
        // Another process that has that pid by now would have to have run as long to the nanosecond, and its folder that inode.
        let is_it = |before: &Process| before.identity.zip(identity).is_none_or(|(then, now)| then == now);
        let before = before.filter(|before| before.cpu_time == cpu_time && is_it(before) && whole(before))?;
        Some((before, turn))
    }

    /// The process as it was read, where it is still that one, however much it has run; none where it has its turn, or where
    /// something of it went unread.
    pub(super) fn ran(&self, listed: Listed, before: Option<&'a Arc<Process>>) -> Option<&'a Arc<Process>> {
        let identity = listed.identity?;
        if self.has_turn(listed.pid) {
            return None;
        }
        before.filter(|before| before.identity == Some(identity) && whole(before))
    }

    /// The processes of the reading before, for who asks for one after the other in the order of their pids.
    pub(super) const fn in_order(&self) -> InOrder<'a> {
        InOrder(self.processes)
    }

    /// What that process was, whoever has its pid by now.
    pub(super) fn process(&self, pid: u32) -> Option<&'a Arc<Process>> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        self.processes.get(at)
    }

    /// Whether it was no user process, and has not run since.
    pub(super) fn is_other(&self, other: (u32, Duration)) -> bool {
        !self.has_turn(other.0) && self.others.binary_search(&other).is_ok()
    }

    /// Whether it was none at the reading before, and has no turn: nothing but its number is known to be the same.
    pub(super) fn was_other(&self, pid: u32) -> bool {
        !self.has_turn(pid) && self.others.binary_search_by_key(&pid, |(other, _)| *other).is_ok()
    }

    fn has_turn(&self, pid: u32) -> bool {
        u64::from(pid) % Self::TURNS == self.turn % Self::TURNS
    }
}

/// What is read of a process that has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing.
    None,
    /// Its sums of memory and its parent.
    Sums,
    /// All but its title.
    Whole,
}

/// Processes that have not been asked for yet, by pid.
#[derive(Default)]
pub(super) struct InOrder<'a>(&'a [Arc<Process>]);

impl<'a> InOrder<'a> {
    /// The one with that pid; those before it are not asked for any more.
    pub(super) fn next(&mut self, pid: u32) -> Option<&'a Arc<Process>> {
        while let Some((first, rest)) = self.0.split_first() {
            if first.pid > pid {
                return None;
            }
            self.0 = rest;
            if first.pid == pid {
                return Some(first);
            }
        }
        None
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
    use crate::source::{Live, MapSource};
    use crate::{Door, Source};

    const FACTS: Facts<'_> = Facts {
        base_page: Some(PageSize::KIB_4),
        default_huge_page: Some(PageSize::MIB_2),
        hugetlbfs: &[],
        smallest_huge_page: None,
        has_reserved: false,
        one_size: false,
    };

    /// Process 20, of which everything can be read, that ran so many nanoseconds, with page tables, a title and a limit.
    fn source(ran: u64, page_tables: u64, title: &str, limit: u64) -> MapSource {
        let status = format!(
            "Name:\tx\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\n\
             VmPTE:\t{page_tables} kB\nThreads:\t1\n"
        );
        let mut source = MapSource::new()
            .file("/proc/20/status", status)
            .cpu_time(20, Duration::from_nanos(ran))
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

    /// Who will read again.
    const BEGIN: Option<Earlier<'_>> = Some(Earlier { processes: &[], others: &[], turn: 0, files: None });

    fn reading(source: &MapSource, earlier: Option<Earlier<'_>>) -> Vec<Arc<Process>> {
        read(&mut Door::new(source), FACTS, earlier).processes.into_known().unwrap()
    }

    fn title(processes: &[Arc<Process>]) -> String {
        processes[0].command.known().unwrap()[0].clone()
    }

    /// What the next reading, at that turn, makes of the title after the process was first seen at rest.
    fn next(then: &MapSource, turn: u64) -> Vec<Arc<Process>> {
        let first = reading(&source(7, 40, "idle", 1), BEGIN);
        assert!(whole(&first[0]), "{first:?}");
        reading(then, Some(Earlier { processes: &first, others: &[], turn, files: None }))
    }

    #[test]
    fn who_has_not_run_is_not_read() {
        let processes = next(&source(7, 48, "cannot be", 2), 1);
        assert_eq!(title(&processes), "idle");
        assert_eq!(processes[0].page_tables.get().map(|tables| tables.get()), Some(40 << 10));
        assert_eq!(processes[0].mappings.known().map(Vec::len), Some(1));
    }

    #[test]
    fn who_has_run_is_read() {
        assert_eq!(title(&next(&source(8, 40, "busy", 1), 1)), "busy");
    }

    /// A process that ran until then, by the inode of its folder, with a name and a program.
    fn who(ran: u64, identity: u64, name: &str, program: &str) -> MapSource {
        let status = format!(
            "Name:\t{name}\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\n\
             VmPTE:\t{ran} kB\nThreads:\t1\n"
        );
        source(ran, 0, &format!("title {ran}"), ran)
            .identity(20, identity)
            .file("/proc/20/status", status)
            .link("/proc/20/exe", program)
            .link("/proc/20/cwd", &format!("/{ran}"))
    }

    #[test]
    fn of_one_that_has_run_only_that_is_not_read_which_its_program_and_user_decide() {
        let first = reading(&who(7, 1, "x", "/bin/x"), BEGIN);
        let next = |then: &MapSource, turn: u64| {
            let mut found = reading(then, Some(Earlier { processes: &first, others: &[], turn, files: None }));
            Arc::unwrap_or_clone(found.remove(0))
        };
        let after = next(&who(9, 1, "x", "/bin/x"), 1);
        assert_eq!(after.command, Observed::Known(vec!["title 9".to_owned()]));
        assert_eq!(after.page_tables.get().map(|tables| tables.get()), Some(9 << 10));
        assert_eq!(after.directory, Observed::Known("/9".to_owned()));
        assert_eq!(after.cpu_time, Some(Duration::from_nanos(9)));
        assert_eq!((&after.memlock, &after.mappings), (&first[0].memlock, &first[0].mappings));
        let whole = |then: &MapSource, turn: u64| {
            let found = next(then, turn);
            assert_eq!(found, *reading(then, BEGIN)[0]);
            assert_ne!(found.memlock, first[0].memlock);
        };
        // Another process has its number; it has become another program, or calls itself so; it has its turn.
        whole(&who(9, 2, "x", "/bin/x"), 1);
        whole(&who(9, 1, "x", "/bin/y"), 1);
        whole(&who(9, 1, "y", "/bin/x"), 1);
        whole(&who(9, 1, "x", "/bin/x"), 20);
        let of_other_user = String::from_utf8(who(9, 1, "x", "/bin/x").read("/proc/20/status").into_known().unwrap());
        let of_other_user = of_other_user.unwrap().replace("Uid:\t0\t5", "Uid:\t0\t8");
        whole(&who(9, 1, "x", "/bin/x").file("/proc/20/status", of_other_user), 1);
    }

    #[test]
    fn one_that_became_a_zombie_is_no_user_process() {
        let first = reading(&who(7, 1, "x", "/bin/x"), BEGIN);
        let zombie = who(9, 1, "x", "/bin/x").file("/proc/20/status", "Name:\tx\nState:\tZ\nUid:\t0\t5\t5\t5\n");
        let found = read(
            &mut Door::new(&zombie),
            FACTS,
            Some(Earlier { processes: &first, others: &[], turn: 1, files: None }),
        );
        assert_eq!(found.processes, Observed::Known(Vec::new()));
        assert_eq!(found.others, [(20, Duration::from_nanos(9))]);
    }

    /// A shell that does as it is told, told of by one reading after the other.
    #[test]
    fn what_a_real_process_does_to_itself_is_seen_at_the_next_reading() {
        use std::io::Write as _;
        let mut shell = std::process::Command::new("sh").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let (pid, between) = (shell.id(), crate::source::Between::default());
        let (mut before, mut turn) = (Vec::new(), u64::from(pid));
        let mut seen = |line: &str, is_done: &dyn Fn(&Process) -> bool| {
            writeln!(input, "{line}").unwrap();
            let begun = std::time::Instant::now();
            loop {
                // Never its turn.
                turn += if u64::from(pid) % Earlier::TURNS == (turn + 1) % Earlier::TURNS { 2 } else { 1 };
                let live = Live::after(&between);
                let earlier = Some(Earlier { processes: &before, others: &[], turn, files: None });
                let found = read(&mut Door::new(&live), FACTS, earlier).processes.into_known().unwrap();
                let done = found.iter().any(|process| process.pid == pid && is_done(process));
                before = found;
                if done {
                    return;
                }
                assert!(begun.elapsed().as_secs() < 60, "{line}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        seen("", &|process| process.executable.is_known());
        seen("cd /proc", &|process| process.directory == Observed::Known("/proc".to_owned()));
        seen("exec sleep 600", &|process| process.name == "sleep" && process.command.known().unwrap()[1] == "600");
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(!reading_of(&between, &before).iter().any(|process| process.pid == pid), "it has ended");
    }

    fn reading_of(between: &crate::source::Between, before: &[Arc<Process>]) -> Vec<Arc<Process>> {
        let live = Live::after(between);
        let earlier = Some(Earlier { processes: before, others: &[], turn: 1, files: None });
        read(&mut Door::new(&live), FACTS, earlier).processes.into_known().unwrap()
    }

    #[test]
    fn each_pid_is_found_among_those_before_it_and_after_it() {
        let of = |pid: u32| Arc::new(Process { pid, ..Process::default() });
        let before = [3, 4, 7, 9].map(of);
        let mut in_order = Earlier { processes: &before, ..BEGIN.unwrap() }.in_order();
        let found = [1, 3, 5, 6, 7, 8, 9, 10].map(|pid| in_order.next(pid).map(|process| process.pid));
        assert_eq!(found, [None, Some(3), None, None, Some(7), None, Some(9), None]);
    }

    /// Two processes, read again at different readings, are in the cgroup that they were in; then the one is moved.
    #[test]
    fn processes_share_their_memberships_as_long_as_these_are_the_same() {
        let both = |cgroup: &str| {
            let text = source(7, 0, "x", 1).read("/proc/20/status").into_known().unwrap();
            let text = String::from_utf8(text).unwrap().replace("PPid:\t1", "PPid:\t20");
            let two = source(7, 0, "x", 1).file("/proc/21/status", text).file("/proc/21/cgroup", cgroup);
            two.file("/proc/21/maps", "").file("/proc/21/limits", "")
        };
        let cgroups = |process: &Process| process.cgroups.known().cloned().unwrap();
        let first = reading(&both("0::/\n"), BEGIN);
        assert!(Arc::ptr_eq(&cgroups(&first[0]), &cgroups(&first[1])));
        let at = |source: &MapSource, turn| {
            reading(source, Some(Earlier { processes: &first, others: &[], turn, files: None }))
        };
        // Of pid 21 no time is known: it is read whole at each reading.
        let again = at(&both("0::/\n"), 1);
        assert!(Arc::ptr_eq(&cgroups(&again[1]), &cgroups(&first[0])));
        let moved = at(&both("0::/db.slice\n"), 1);
        assert_eq!((cgroups(&moved[0])[0].path.as_str(), cgroups(&moved[1])[0].path.as_str()), ("/", "/db.slice"));
    }

    #[test]
    fn who_cannot_be_asked_about_is_read() {
        let unasked = |title: &str| {
            let before = reading(&source(7, 40, "idle", 1), None);
            reading(&source(7, 40, title, 1), Some(Earlier { processes: &before, others: &[], turn: 1, files: None }))
        };
        assert_eq!(title(&unasked("busy")), "busy");
    }

    #[test]
    fn another_limit_is_seen_when_it_is_read_whole() {
        let whole = (0..Earlier::TURNS * Earlier::WHOLE).filter(|turn| {
            let processes = next(&source(7, 40, "idle", 2), *turn);
            processes[0].memlock != reading(&source(7, 40, "idle", 1), None)[0].memlock
        });
        assert_eq!(whole.count(), 1);
    }

    #[test]
    fn everybody_is_read_whole_in_one_turn_of_some() {
        let all = Earlier::TURNS * Earlier::WHOLE;
        let moved =
            |turn: u64| next(&source(7, 40, "idle", 1).link("/proc/20/cwd", "/moved"), turn)[0].directory.clone();
        assert_eq!((0..all).filter(|turn| moved(*turn) == Observed::Known("/moved".to_owned())).count(), 1);
        // It may have set up other namespaces the last time that it ran.
        let space = |turn: u64| {
            let then = source(7, 40, "idle", 1).link("/proc/20/ns/mnt", "mnt:[5]").link("/proc/20/root", "/jail");
            let process = Arc::unwrap_or_clone(next(&then, turn).remove(0));
            (process.namespaces.mount, process.root)
        };
        let seen = (Observed::Known(5), Observed::Known("/jail".to_owned()));
        assert_eq!((0..all).filter(|turn| space(*turn) == seen).count(), 1);
        // What it would have to run for to change is not looked at.
        assert!((0..all).all(|turn| title(&next(&source(7, 40, "cannot be", 1), turn)) == "idle"));
        let sums = |turn: u64| next(&source(7, 8, "idle", 1), turn)[0].page_tables.get().map(|tables| tables.get());
        let seen = (0..all).filter(|turn| sums(*turn) == Some(8 << 10)).count();
        assert_eq!(u64::try_from(seen), Ok(Earlier::WHOLE), "what was reclaimed is seen at each turn");
    }

    #[test]
    fn who_ended_is_not_there_at_its_turn() {
        let gone = MapSource::new()
            .cpu_time(20, Duration::from_nanos(7))
            .file("/proc/1/status", "Name:\tx\nUid:\t0\t5\t5\t5\n");
        let left = |turn| {
            let first = reading(&source(7, 40, "idle", 1), BEGIN);
            let earlier = Some(Earlier { processes: &first, others: &[], turn, files: None });
            read(&mut Door::new(&gone.clone().file("/proc/20", "")), FACTS, earlier).processes
        };
        let stays = left(5).known().map(Vec::len);
        assert_eq!(stays, Some(1), "it is listed, and without a turn it is not looked at");
        // Pid 20 has its turn at 20 and at 52, and at the first of them all of it is read that others can change.
        for turn in [20, 52] {
            assert!(left(turn).known().is_none_or(Vec::is_empty), "turn {turn}");
        }
    }

    #[test]
    fn a_kernel_thread_that_has_not_run_is_not_read() {
        let thread = |ran| {
            let source = MapSource::new().file("/proc/20/status", "Name:\tkworker\nUid:\t0\t0\t0\t0\n");
            source.cpu_time(20, Duration::from_nanos(ran))
        };
        let others = read(&mut Door::new(&thread(7)), FACTS, BEGIN).others;
        assert_eq!(others, [(20, Duration::from_nanos(7))]);
        // Its number belongs to a user process now.
        let count = |source: &MapSource, turn| {
            let found = read(
                &mut Door::new(source),
                FACTS,
                Some(Earlier { processes: &[], others: &others, turn, files: None }),
            );
            (found.processes.into_known().unwrap().len(), found.others.len())
        };
        assert_eq!(count(&source(8, 40, "new", 1), 1), (1, 0));
        assert_eq!(count(&source(7, 40, "not looked at", 1), 1), (0, 1));
        assert_eq!(count(&source(7, 40, "its turn", 1), 20), (1, 0));
        assert_eq!(read(&mut Door::new(&thread(7)), FACTS, None).others, []);
    }

    #[test]
    fn a_kernel_thread_that_has_run_is_not_read_as_long_as_it_has_no_program() {
        let others = [(20, Duration::from_nanos(7))];
        let thread = MapSource::new().denied("/proc/20/status").cpu_time(20, Duration::from_nanos(9));
        let read_at = |turn| {
            let mut door = Door::new(&thread);
            let found = read(&mut door, FACTS, Some(Earlier { processes: &[], others: &others, turn, files: None }));
            (found.others, door.unread.len())
        };
        assert_eq!(read_at(1), (vec![(20, Duration::from_nanos(9))], 0));
        assert_eq!(read_at(20), (vec![], 1), "it has its turn");
    }

    #[test]
    fn what_went_unread_is_told_at_each_reading() {
        let hidden = || source(7, 40, "idle", 1).denied("/proc/20/maps");
        let first = reading(&hidden(), BEGIN);
        let again = hidden();
        let mut door = Door::new(&again);
        read(&mut door, FACTS, Some(Earlier { processes: &first, others: &[], turn: 1, files: None }));
        assert_eq!(door.unread.len(), 1);
    }

    #[test]
    fn a_real_process_rests_and_is_then_as_if_read_whole() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let live = Live::new();
        let of = |earlier: Option<Earlier<'_>>| {
            let processes = read(&mut Door::new(&live), FACTS, earlier).processes.into_known().unwrap();
            processes.into_iter().find(|process| process.pid == child.id()).unwrap()
        };
        let begun = std::time::Instant::now();
        // It has to become sleep, and that to fall asleep.
        let first = loop {
            let process = of(BEGIN);
            std::thread::sleep(Duration::from_millis(50));
            let still = process.cpu_time.is_some() && process.cpu_time == of(BEGIN).cpu_time;
            if process.name == "sleep" && still {
                break process;
            }
            assert!(begun.elapsed().as_secs() < 60, "{process:?}");
        };
        let turn = u64::from(child.id()) + 1;
        let again = of(Some(Earlier { processes: std::slice::from_ref(&first), others: &[], turn, files: None }));
        let anew = of(None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(again.command, Observed::Known(vec!["sleep".to_owned(), "600".to_owned()]));
        assert_eq!(*again, Process { cpu_time: again.cpu_time, ..Arc::unwrap_or_clone(anew) });
    }
}
