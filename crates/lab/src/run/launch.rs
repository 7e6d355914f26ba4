//! Starting a program: in the place of this one, or watched.

#![allow(unsafe_code, reason = "signals are passed on and processes waited for by system calls")]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::memory::{self, Memory};

/// A command line with its settings.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// What it finds as its own name: the word that was typed.
    pub name: OsString,
    /// Arguments that come before the others.
    pub settings: Vec<String>,
    /// The arguments that were given.
    pub arguments: Vec<OsString>,
    /// Environment variables to set.
    pub variables: Vec<(&'static str, String)>,
}

impl Launch {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg0(&self.name).args(&self.settings).args(&self.arguments).envs(self.variables.iter().cloned());
        command
    }

    /// The same program without any setting.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self { settings: Vec::new(), variables: Vec::new(), ..self.clone() }
    }

    /// Becomes the program. Returns only where that fails.
    pub fn become_it(&self) -> io::Error {
        self.command().exec()
    }
}

/// The soft and hard limit of locked memory, in bytes; `None` is unlimited.
pub type Memlock = (Option<u64>, Option<u64>);

/// The limit of locked memory of this process and of what it starts.
pub fn memlock() -> Memlock {
    let limit = getrlimit(Resource::Memlock);
    (limit.current, limit.maximum)
}

/// Raises it as far as this process may; says what it was before and what it is.
pub fn raise_memlock() -> (Memlock, Memlock) {
    let before = memlock();
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // The soft limit may go as far as the hard one without any right; where even that fails it stays.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: before.1, maximum: before.1 });
    }
    (before, memlock())
}

/// Puts the limit back where it was.
///
/// # Errors
/// The kernel's.
pub(crate) fn set_memlock(limit: Memlock) -> io::Result<()> {
    Ok(setrlimit(Resource::Memlock, Rlimit { current: limit.0, maximum: limit.1 })?)
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of Linux 6.18: what is asked for by madvise is still had.
const EXCEPT_ADVISED: libc::c_int = 1 << 1;

/// Whether transparent huge pages are kept from this process, as its parent may have left it (`PR_SET_THP_DISABLE`).
///
/// # Errors
/// The kernel's, before Linux 3.15.
pub fn thp_is_kept_away() -> io::Result<bool> {
    // SAFETY: plain numbers; the kernel asks that the unused ones be zero.
    let answer = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer != 0 && answer & EXCEPT_ADVISED == 0) }
}

/// Lets this process and what it starts have transparent huge pages again, or keeps them away.
///
/// # Errors
/// The kernel's.
pub fn keep_thp_away(away: bool) -> io::Result<()> {
    // SAFETY: plain numbers.
    let done = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(away), 0, 0, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What a watched program used.
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
    /// Faults that the kernel answered from memory, of the program and its ended children.
    pub minor_faults: u64,
    /// Faults that waited for a disk.
    pub major_faults: u64,
    /// The largest resident set of one process (`ru_maxrss`), which has no hugetlb pages in it.
    pub largest_resident: u64,
    /// Its memory when that was largest; `None` where it ended before anybody looked.
    pub peak: Option<Memory>,
    /// How often its memory was sampled.
    pub looks: u32,
    /// What became of its text, where that was asked for.
    pub text: Option<memory::Text>,
}

impl Watched {
    /// Whether the program asked for transparent huge pages; `None` where it was not seen with enough memory to tell.
    pub fn asks(&self) -> Option<bool> {
        self.peak.as_ref().and_then(Memory::asks)
    }
}

/// How a program is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Its input, output are those of nobody: it runs to be measured.
    pub detached: bool,
    /// Its text is asked onto huge pages once it runs.
    pub text: bool,
}

/// Looks take so small a part of the time that they do not change what they measure.
const LOOKS_SHARE: u32 = 200;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A program has loaded its libraries by then.
const TEXT_AFTER: Duration = Duration::from_millis(200);

/// Starts a program, passes signals on to it, looks at its memory, and waits for its end.
///
/// # Errors
/// Where it cannot be started or waited for.
pub fn watch(launch: &Launch, how: Watch) -> io::Result<Watched> {
    let mut command = launch.command();
    if how.detached {
        command.stdin(input()?).stdout(Stdio::null());
    }
    let passing = Passing::begin()?;
    let before = children_usage()?;
    let begun = Instant::now();
    let mut child = command.spawn()?;
    passing.to(&child);
    let mut watcher = Watcher { pid: child.id(), peak: None, looks: 0, text: how.text, told: None, begun };
    let status = watcher.wait(&mut child);
    let wall = begun.elapsed();
    drop(passing);
    let status = status?;
    let used = children_usage()?;
    let time = |of: fn(&libc::rusage) -> libc::timeval| duration(of(&used)).saturating_sub(duration(of(&before)));
    let count = |of: fn(&libc::rusage) -> libc::c_long| u64::try_from(of(&used) - of(&before)).unwrap_or(0);
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

/// A file is read anew by each run; nothing else can be read twice.
fn input() -> io::Result<Stdio> {
    let stdin = io::stdin();
    let facts = rustix::fs::fstat(&stdin)?;
    if rustix::fs::FileType::from_raw_mode(facts.st_mode) != rustix::fs::FileType::RegularFile {
        return Ok(Stdio::null());
    }
    let again = rustix::fs::open("/proc/self/fd/0", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
    Ok(Stdio::from(again))
}

struct Watcher {
    pid: u32,
    peak: Option<Memory>,
    looks: u32,
    text: bool,
    told: Option<memory::Text>,
    begun: Instant,
}

impl Watcher {
    fn wait(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(status) = ended_within(child, pause)? {
                return Ok(status);
            }
            let before = own_time();
            if let Some(seen) = memory::of_tree(self.pid) {
                self.looks += 1;
                if self.peak.as_ref().is_none_or(|peak| seen.total() > peak.total()) {
                    self.peak = Some(seen);
                }
            }
            if self.text && self.begun.elapsed() > TEXT_AFTER {
                self.text = false;
                self.told = Some(memory::text_onto_huge_pages(self.pid));
            }
            let spent = own_time().saturating_sub(before);
            // Looks that take long are rare ones, and nobody waits that long for the text.
            let longest = if self.text { TEXT_AFTER } else { LONGEST_PAUSE };
            pause = (spent * LOOKS_SHARE).clamp(FIRST_PAUSE, longest);
        }
    }
}

/// Processor time of this thread: what a look takes, however long it waits for its turn on a busy machine.
fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Waits for the end, at most so long. The end itself is noticed at once: it is what is measured.
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
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a whole rusage that the kernel may fill in.
    match unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } {
        0 => Ok(usage),
        _ => Err(io::Error::last_os_error()),
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Whom signals are for; 0 is nobody yet.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// One that came before there was anybody.
static EARLY: AtomicI32 = AtomicI32::new(0);

const PASSED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// As long as it is there, signals that others send to this process go to the program. What a terminal sends, it sends
/// to the program as well, so that is not passed on.
struct Passing {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Passing {
    fn begin() -> io::Result<Self> {
        PROGRAM.store(0, Ordering::SeqCst);
        EARLY.store(0, Ordering::SeqCst);
        let mut passing = Self { before: Vec::new() };
        for signal in PASSED {
            // SAFETY: sigaction is plain numbers and a set of bits, for which zero is a value.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = pass_on;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: both are whole sigactions; the handler calls nothing but kill(2) and touches nothing but atomics,
            // which is safe after any signal.
            if unsafe { libc::sigaction(signal, &raw const action, &raw mut old) } != 0 {
                return Err(io::Error::last_os_error());
            }
            passing.before.push((signal, old));
            // What nohup has taken away stays away, here and in the program, which inherits it.
            if old.sa_sigaction == libc::SIG_IGN {
                // SAFETY: `old` is what the kernel gave.
                unsafe { libc::sigaction(signal, &raw const old, std::ptr::null_mut()) };
            }
        }
        Ok(passing)
    }

    #[expect(clippy::unused_self, reason = "only while signals are caught is there anything to pass on")]
    fn to(&self, child: &Child) {
        PROGRAM.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            send(early);
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
    // SAFETY: the kernel hands a whole siginfo to a handler with SA_SIGINFO. Codes above zero are the kernel's own.
    let from_the_kernel = unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if from_the_kernel {
        return;
    }
    if PROGRAM.load(Ordering::SeqCst) == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    } else {
        send(signal);
    }
}

fn send(signal: libc::c_int) {
    let pid = PROGRAM.load(Ordering::SeqCst);
    if pid > 0 {
        // SAFETY: plain numbers. The program is a child that has not been waited for, so its number is its own.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Ends this process as the program ended: by the same signal, so that whoever waits sees it.
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
        let told = watch(&shell("test \"$HUGEWISE_TEST\" = told && exit 7"), Watch::default()).unwrap();
        assert_eq!(told.status.code(), Some(7));
        let bare = watch(&shell("test \"$HUGEWISE_TEST\" = told && exit 7").bare(), Watch::default()).unwrap();
        // Without settings it is no `sh -c SCRIPT` with variables: the test fails, and with it the script.
        assert_eq!(bare.status.code(), Some(1));
        let killed = watch(&shell("kill -9 $$"), Watch::default()).unwrap();
        assert_eq!((killed.status.code(), killed.status.signal()), (None, Some(9)));
        assert!(watch(&Launch { program: "/nowhere".into(), ..shell("") }, Watch::default()).is_err());
    }

    #[test]
    fn a_signal_to_the_watcher_reaches_the_program() {
        let _one = ONE.lock();
        let own = std::process::id();
        let script = format!("trap 'exit 42' TERM; kill -TERM {own}; while :; do sleep 0.05; done");
        let watched = watch(&shell(&script), Watch::default()).unwrap();
        assert_eq!(watched.status.code(), Some(42));
    }

    #[test]
    fn time_faults_and_memory_are_the_programs() {
        let _one = ONE.lock();
        let script = "s=x; i=0; while [ $i -lt 22 ]; do s=$s$s; i=$((i+1)); done; sleep 1";
        let watched = watch(&shell(script), Watch { detached: true, text: true }).unwrap();
        assert!(watched.wall >= Duration::from_secs(1));
        // A string of 4 MiB at the end.
        assert!(watched.minor_faults >= 1024, "{watched:?}");
        assert!(watched.looks > 0 && watched.peak.is_some_and(|peak| peak.total() >= 4 << 20), "{watched:?}");
        assert!(watched.text.is_some());
    }

    #[test]
    fn memlock_goes_up_and_back() {
        let (before, after) = raise_memlock();
        assert!(after.0.is_none() || after.0 >= before.0);
        set_memlock(before).or_else(|_| set_memlock((before.0, after.1))).unwrap();
        assert_eq!(memlock().0, before.0);
    }
}
