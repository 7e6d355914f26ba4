//! Starting a program: in place of this one, or watched.

#![allow(unsafe_code, reason = "signals are passed on and processes waited for by system calls")]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::program_memory::{self, ProgramMemory};
use crate::system_call::{check_result, resource_usage};

/// A command line with its settings.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// Its own name: the word that was typed.
    pub name: OsString,
    /// Arguments that precede the user's.
    pub settings: Vec<String>,
    /// The user's arguments.
    pub arguments: Vec<OsString>,
    /// Environment variables to set.
    pub variables: Vec<(&'static str, String)>,
}

impl Launch {
    fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg0(&self.name)
            .args(&self.settings)
            .args(&self.arguments)
            .envs(self.variables.iter().cloned());
        command
    }

    #[must_use]
    pub(crate) fn without_settings(&self) -> Self {
        Self { settings: Vec::new(), variables: Vec::new(), ..self.clone() }
    }

    /// Becomes the program; returns only on failure.
    pub fn become_it(&self) -> io::Error {
        self.to_command().exec()
    }
}

/// Soft and hard limit of locked memory in bytes; `None` is unlimited.
pub type MemlockLimits = (Option<u64>, Option<u64>);

pub(crate) fn read_memlock() -> MemlockLimits {
    let limit = getrlimit(Resource::Memlock);
    (limit.current, limit.maximum)
}

/// Raises it as far as this process may; the limits before and after.
pub fn raise_memlock() -> (MemlockLimits, MemlockLimits) {
    let before = read_memlock();
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // Raising the soft limit to the hard one takes no right; where even that fails it stays.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: before.1, maximum: before.1 });
    }
    (before, read_memlock())
}

pub(crate) fn set_memlock(limit: MemlockLimits) -> io::Result<()> {
    Ok(setrlimit(Resource::Memlock, Rlimit { current: limit.0, maximum: limit.1 })?)
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of Linux 6.18: madvise still gives them.
const EXCEPT_ADVISED: libc::c_int = 1 << 1;

/// Whether this process may have no transparent huge pages, by its parent's `PR_SET_THP_DISABLE`.
/// Errors: as prctl(2), before Linux 3.15.
pub fn thp_is_kept_away() -> io::Result<bool> {
    // SAFETY: plain numbers; the kernel requires zeros for the unused ones.
    let answer = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer != 0 && answer & EXCEPT_ADVISED == 0)
    }
}

/// Lets this process and its children have transparent huge pages again, or keeps them away.
/// Errors: as prctl(2).
pub fn keep_thp_away(away: bool) -> io::Result<()> {
    // SAFETY: plain numbers.
    check_result(unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(away), 0, 0, 0)
    })
}

/// Resource usage of a watched program.
#[derive(Clone, Debug)]
pub struct Watched {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time in its own code.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Page faults without disk access, of the program and its ended children.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// The largest resident set of one process (`ru_maxrss`), without hugetlb pages.
    pub largest_resident: u64,
    /// Its largest memory; `None` where it ended before the first look.
    pub peak: Option<ProgramMemory>,
    /// How often its memory was sampled.
    pub looks: u32,
    /// What happened to its text, where that was requested.
    pub text: Option<program_memory::TextPlacement>,
}

impl Watched {
    pub(crate) fn asks_for_thp(&self) -> Option<bool> {
        self.peak.as_ref().and_then(ProgramMemory::asks_for_thp)
    }
}

/// How a program is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchOptions {
    /// Whether it runs without our input and output, to be measured.
    pub detached: bool,
    /// Whether its text is put on huge pages once it runs.
    pub text: bool,
}

/// Looks take at most this part of the time, so as not to affect the measurement.
const LOOKS_SHARE: u32 = 200;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// By then a program has loaded its libraries.
const TEXT_AFTER: Duration = Duration::from_millis(200);

/// Starts a program, passes signals on to it, looks at its memory, and waits for its end.
/// Errors: it cannot be started or waited for.
pub fn watch_program(launch: &Launch, how: WatchOptions) -> io::Result<Watched> {
    let mut command = launch.to_command();
    if how.detached {
        command.stdin(reopen_input()?).stdout(Stdio::null());
    }
    let passing = Passing::catch_signals()?;
    let before = children_usage()?;
    let begun = Instant::now();
    let mut child = command.spawn()?;
    passing.forward_to_child(&child);
    let mut watcher =
        ChildWatcher { pid: child.id(), peak: None, looks: 0, text: how.text, told: None, begun };
    let status = watcher.wait_for_exit(&mut child);
    let wall = begun.elapsed();
    drop(passing);
    let status = status?;
    let used = children_usage()?;
    let time = |value_of: fn(&libc::rusage) -> libc::timeval| {
        duration_from_timeval(value_of(&used))
            .saturating_sub(duration_from_timeval(value_of(&before)))
    };
    let count = |seconds_of: fn(&libc::rusage) -> libc::c_long| {
        u64::try_from(seconds_of(&used) - seconds_of(&before)).unwrap_or(0)
    };
    Ok(Watched {
        status,
        wall,
        user: time(|usage| usage.ru_utime),
        system: time(|usage| usage.ru_stime),
        minor_faults: count(|usage| usage.ru_minflt),
        major_faults: count(|usage| usage.ru_majflt),
        largest_resident: u64::try_from(used.ru_maxrss).unwrap_or(0).saturating_mul(1024),
        peak: watcher.peak,
        looks: watcher.looks,
        text: watcher.told,
    })
}

/// A file can be read by each run; other inputs only once.
fn reopen_input() -> io::Result<Stdio> {
    let stdin = io::stdin();
    let facts = rustix::fs::fstat(&stdin)?;
    if rustix::fs::FileType::from_raw_mode(facts.st_mode) != rustix::fs::FileType::RegularFile {
        return Ok(Stdio::null());
    }
    let again =
        rustix::fs::open("/proc/self/fd/0", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
    Ok(Stdio::from(again))
}

struct ChildWatcher {
    pid: u32,
    peak: Option<ProgramMemory>,
    looks: u32,
    text: bool,
    told: Option<program_memory::TextPlacement>,
    begun: Instant,
}

impl ChildWatcher {
    fn wait_for_exit(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(status) = ended_within(child, pause)? {
                return Ok(status);
            }
            let before = own_time();
            if let Some(seen) = program_memory::of_tree(self.pid) {
                self.looks += 1;
                if self.peak.as_ref().is_none_or(|peak| seen.total() > peak.total()) {
                    self.peak = Some(seen);
                }
            }
            if self.text && self.begun.elapsed() > TEXT_AFTER {
                self.text = false;
                self.told = Some(program_memory::text_onto_huge_pages(self.pid));
            }
            let spent = own_time().saturating_sub(before);
            // Slow looks are rare, and the text does not wait that long.
            let longest = if self.text { TEXT_AFTER } else { LONGEST_PAUSE };
            pause = (spent * LOOKS_SHARE).clamp(FIRST_PAUSE, longest);
        }
    }
}

/// Processor time of this thread: what a look takes, without waiting on a busy machine.
fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Waits for the end, at most so long; the end is noticed at once, as it is measured.
fn ended_within(child: &mut Child, most: Duration) -> io::Result<Option<ExitStatus>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(io::Error::other("a process without a number"));
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(ending) => {
            let mut watched = [PollFd::new(&ending, PollFlags::IN)];
            let most = Timespec::try_from(most).map_err(io::Error::other)?;
            match poll(&mut watched, Some(&most)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => child.try_wait(),
                Err(error) => Err(error.into()),
            }
        }
        // Before Linux 5.3.
        Err(_) => {
            std::thread::sleep(most.min(FIRST_PAUSE));
            child.try_wait()
        }
    }
}

fn children_usage() -> io::Result<libc::rusage> {
    resource_usage(libc::RUSAGE_CHILDREN)
}

fn duration_from_timeval(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that came before there was a recipient.
static EARLY: AtomicI32 = AtomicI32::new(0);

const PASSED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// As long as it is kept, signals from other processes go to the program. Those of the terminal
/// reach it anyway.
struct Passing {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Passing {
    fn catch_signals() -> io::Result<Self> {
        PROGRAM.store(0, Ordering::SeqCst);
        EARLY.store(0, Ordering::SeqCst);
        let mut passing = Self { before: Vec::new() };
        for signal in PASSED {
            // SAFETY: sigaction is plain numbers and a set of bits, for which zero is a value.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                pass_on;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: both are whole sigactions; the handler only calls kill(2) and uses atomics,
            // which is safe after any signal.
            check_result(unsafe { libc::sigaction(signal, &raw const action, &raw mut old) })?;
            passing.before.push((signal, old));
            // What nohup ignores stays ignored, here and in the program, which inherits it.
            if old.sa_sigaction == libc::SIG_IGN {
                // SAFETY: `old` is what the kernel gave.
                unsafe { libc::sigaction(signal, &raw const old, std::ptr::null_mut()) };
            }
        }
        Ok(passing)
    }

    #[expect(
        clippy::unused_self,
        reason = "only while signals are caught is there anything to pass on"
    )]
    fn forward_to_child(&self, child: &Child) {
        PROGRAM.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            send_signal(early);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        PROGRAM.store(0, Ordering::SeqCst);
        for (signal, old) in &self.before {
            // SAFETY: `old` is what the kernel gave for this signal.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
    }
}

extern "C" fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a whole siginfo to a handler with SA_SIGINFO. Codes above zero are
    // the kernel's own.
    let from_the_kernel = unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if from_the_kernel {
        return;
    }
    if PROGRAM.load(Ordering::SeqCst) == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    } else {
        send_signal(signal);
    }
}

fn send_signal(signal: libc::c_int) {
    let pid = PROGRAM.load(Ordering::SeqCst);
    if pid > 0 {
        // SAFETY: plain numbers. The program is a child that has not been waited for, so its pid is
        // its own.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Ends this process as the program ended: by the same signal, so that the parent sees it.
pub fn end_like(status: ExitStatus) -> u8 {
    if let Some(code) = status.code() {
        return u8::try_from(code).unwrap_or(u8::MAX);
    }
    let signal = status.signal().unwrap_or(libc::SIGKILL);
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    // The program has left its own core where one was wanted.
    let _ = setrlimit(Resource::Core, none);
    // SAFETY: plain numbers; the default action of the signal ends this process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            name: "sh".into(),
            settings: Vec::new(),
            arguments: vec!["-c".into(), script.into()],
            variables: vec![("HUGEWISE_TEST", "told".into())],
        }
    }

    /// Usage of children and handlers of signals belong to the process: one at a time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn codes_signals_and_settings_get_through() {
        let _one = ONE.lock();
        let told = watch_program(
            &shell("test \"$HUGEWISE_TEST\" = told && exit 7"),
            WatchOptions::default(),
        )
        .unwrap();
        assert_eq!(told.status.code(), Some(7));
        let bare = watch_program(
            &shell("test \"$HUGEWISE_TEST\" = told && exit 7").without_settings(),
            WatchOptions::default(),
        )
        .unwrap();
        // Without settings it is no `sh -c SCRIPT` with variables: the test fails, and with it the
        // script.
        assert_eq!(bare.status.code(), Some(1));
        let killed = watch_program(&shell("kill -9 $$"), WatchOptions::default()).unwrap();
        assert_eq!((killed.status.code(), killed.status.signal()), (None, Some(9)));
        assert!(
            watch_program(
                &Launch { program: "/nowhere".into(), ..shell("") },
                WatchOptions::default()
            )
            .is_err()
        );
    }

    #[test]
    fn a_signal_to_the_watcher_reaches_the_program() {
        let _one = ONE.lock();
        let own = std::process::id();
        let script = format!("trap 'exit 42' TERM; kill -TERM {own}; while :; do sleep 0.05; done");
        let watched = watch_program(&shell(&script), WatchOptions::default()).unwrap();
        assert_eq!(watched.status.code(), Some(42));
    }

    #[test]
    fn time_faults_and_memory_are_the_programs() {
        let _one = ONE.lock();
        let script = "s=x; i=0; while [ $i -lt 22 ]; do s=$s$s; i=$((i+1)); done; sleep 1";
        let watched =
            watch_program(&shell(script), WatchOptions { detached: true, text: true }).unwrap();
        assert!(watched.wall >= Duration::from_secs(1));
        // A string of 4 MiB at the end.
        assert!(watched.minor_faults >= 1024, "{watched:?}");
        assert!(
            watched.looks > 0 && watched.peak.is_some_and(|peak| peak.total() >= 4 << 20),
            "{watched:?}"
        );
        assert!(watched.text.is_some());
    }

    #[test]
    fn memlock_goes_up_and_back() {
        let (before, after) = raise_memlock();
        assert!(after.0.is_none() || after.0 >= before.0);
        set_memlock(before).or_else(|_| set_memlock((before.0, after.1))).unwrap();
        assert_eq!(read_memlock().0, before.0);
    }
}
