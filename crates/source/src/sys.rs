//! System calls and instructions without a safe interface: the only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Result;
use rustix::ioctl::{Setter, Updater, ioctl, opcode};

#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// PROCFS_IOCTL_MAGIC and the number of PROCMAP_QUERY.
const PROCMAP_QUERY: rustix::ioctl::Opcode = opcode::read_write::<ProcmapQuery>(b'f', 17);

/// Page size in bytes of the mapping that covers `address`, from an open /proc/PID/maps. `NOTTY`
/// before 6.11, `NOENT` where nothing is mapped, `SRCH` for an ended process.
pub(crate) fn mapping_page_size(maps: BorrowedFd<'_>, address: u64) -> Result<u64> {
    let size = u64::try_from(size_of::<ProcmapQuery>()).unwrap_or(0);
    let mut query = ProcmapQuery { size, query_addr: address, ..ProcmapQuery::default() };
    // SAFETY: the opcode has the size of this structure, which has the kernel's layout. The kernel
    // writes nothing else, as the sizes of the name and the build id are zero. Other files answer
    // NOTTY.
    unsafe { ioctl(maps, Updater::<PROCMAP_QUERY, _>::new(&mut query)) }?;
    Ok(query.vma_page_size)
}

/// CPUCLOCK_SCHED of include/linux/posix-timers_types.h: the scheduler's clock, in nanoseconds.
const BY_SCHEDULER: libc::clockid_t = 2;

/// Processor time of all threads of a process, ended ones too; `None` for no process of this pid
/// namespace. Anybody may ask. One call: /proc/PID/schedstat takes three and knows one thread,
/// clock_getcpuclockid(3) a second one to try the pid out.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    // Zero is the calling process.
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where the reference points, and rejects other
    // clocks.
    let known = unsafe { libc::clock_gettime(!pid << 3 | BY_SCHEDULER, &raw mut time) } == 0;
    let (seconds, nanoseconds) =
        (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    known.then(|| Duration::new(seconds, nanoseconds))
}

/// Runs the calling thread before ordinary ones, first come first served (SCHED_FIFO of sched(7)),
/// at the lowest such priority; its children are ordinary.
/// Errors: without CAP_SYS_NICE or RLIMIT_RTPRIO, and in a cgroup without time for such threads.
pub fn run_before_others() -> std::io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads one sched_param from where the reference points; 0 is this thread.
    check_result(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const lowest)
    })
}

/// Makes the calling thread an ordinary one again; everybody may. Errors: as sched_setscheduler(2).
pub fn run_as_others() -> std::io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    check_result(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) })
}

/// One heap for all threads: each other one reserves 64 MiB of addresses, which count as locked
/// where all memory is to be locked. Only glibc's allocator has several.
pub fn one_heap() {
    // SAFETY: mallopt(3) takes numbers alone, and is called while there is one thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

const EXT4_CHECKPOINT: rustix::ioctl::Opcode = opcode::write::<u32>(b'f', 43);

/// Has ext4 write its journal's content in place: boot loaders read without the journal.
/// Errors: `NOTTY` or `OPNOTSUPP` on other file systems and on kernels before 5.14.
pub fn checkpoint_journal(file: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the opcode has the size of the flags that it reads, and the kernel writes nothing to
    // our memory. No flag is set, so no block is discarded.
    unsafe { ioctl(file, Setter::<EXT4_CHECKPOINT, u32>::new(0)) }
}

/// Gives a command a session of its own, as leader of its process group: it could fill our
/// terminal's input with commands (TIOCSTI).
pub fn without_terminal(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe and
    // allocates nothing.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
}

/// The same for a command that runs as another user, who gets nothing else of ours: no descriptor
/// that is open here, no key of our session (session-keyring(7) outlives setuid and exec), and no
/// way to more rights.
pub fn without_inheritance(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let setup = || {
        rustix::process::setsid()?;
        close_others_at_exec();
        leave_session_keyring()?;
        // SAFETY: prctl(2) takes numbers alone here.
        check_result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
    };
    // SAFETY: between fork and exec only system calls are made; none allocates or takes a lock.
    unsafe { command.pre_exec(setup) };
}

/// Joins a new and empty session keyring. Where the kernel has none (ENOSYS), or a filter of system
/// calls keeps everybody from it (EPERM), there is nothing to inherit.
fn leave_session_keyring() -> std::io::Result<()> {
    let anonymous = std::ptr::null::<libc::c_char>();
    // SAFETY: without a name keyctl(2) reads no memory.
    let joined =
        unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, anonymous) };
    match rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()) {
        _ if joined >= 0 => Ok(()),
        Some(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Limits of a program that reads what strangers wrote.
#[derive(Clone, Copy, Debug)]
pub struct ResourceBounds {
    /// Processor time in seconds.
    pub seconds: u64,
    /// Bytes of address space.
    pub memory: u64,
    /// Bytes of any file that it writes.
    pub file: u64,
    /// Files that it has open.
    pub descriptors: u64,
    /// Processes and threads of its user.
    pub processes: u64,
}

/// Starts a command without rights: a session of its own, no capabilities and no way to any,
/// `bounds`, only the standard descriptors, and killed when the thread that starts it ends. With
/// `user` (takes root) it runs as that user and group alone; `offline`, without a network where the
/// kernel can do that. Any other failure fails the start.
pub fn without_rights(
    command: &mut std::process::Command,
    user: Option<u32>,
    offline: bool,
    bounds: ResourceBounds,
) {
    use std::os::unix::process::CommandExt;
    let setup = move || {
        rustix::process::setsid()?;
        close_others_at_exec();
        if let Some(user) = user {
            if offline {
                // SAFETY: unshare(2) takes flags alone. In a container it may not be allowed.
                unsafe { libc::unshare(libc::CLONE_NEWNET) };
            }
            become_user(user)?;
        }
        drop_capabilities()?;
        set_resource_limits(&bounds)
    };
    // SAFETY: between fork and exec only system calls are made; none allocates or takes a lock.
    unsafe { command.pre_exec(setup) };
}

fn check_result(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Whoever started this program may have left descriptors open.
fn close_others_at_exec() {
    // SAFETY: close_range(2) takes numbers alone; 5.11 has the flag.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked != 0 {
        for descriptor in 3..4096 {
            // SAFETY: one that is not open is no harm.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

fn become_user(user: u32) -> std::io::Result<()> {
    // SAFETY: no group is read from the null pointer, as their number is 0; the others take
    // numbers.
    unsafe {
        check_result(libc::setgroups(0, std::ptr::null()))?;
        check_result(libc::setresgid(user, user, user))?;
        check_result(libc::setresuid(user, user, user))?;
        // Whoever can become root again has not dropped anything.
        if libc::setresuid(0, 0, 0) == 0 || libc::geteuid() == 0 || libc::getegid() == 0 {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
    }
    Ok(())
}

fn drop_capabilities() -> std::io::Result<()> {
    /// Effective, permitted and inheritable, the lower halves and the upper ones.
    const NONE: [u32; 6] = [0; 6];
    // _LINUX_CAPABILITY_VERSION_3 of linux/capability.h, and the calling process. A kernel that
    // does not know the version writes its own in its place, and qemu asks for that right at once.
    let mut header = [0x2008_0522_u32, 0];
    // SAFETY: prctl(2) takes numbers alone here; capset(2) reads a header of two words, may write
    // the first, and reads six more.
    unsafe {
        // Kernels before 4.3 have none of these.
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        check_result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check_result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        match libc::syscall(libc::SYS_capset, header.as_mut_ptr(), NONE.as_ptr()) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

fn set_resource_limits(bounds: &ResourceBounds) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Cpu, bounds.seconds),
        (Resource::As, bounds.memory),
        (Resource::Fsize, bounds.file),
        (Resource::Nofile, bounds.descriptors),
        (Resource::Nproc, bounds.processes),
    ] {
        let most = Some(getrlimit(resource).maximum.map_or(most, |hard| hard.min(most)));
        setrlimit(resource, Rlimit { current: most, maximum: most })?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(())
}

/// EAX, EBX, ECX, EDX of one CPUID leaf; `None` above the highest leaf, and on other architectures.
pub(crate) fn read_cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
        let (highest, _) = __get_cpuid_max(leaf & 0x8000_0000);
        (leaf <= highest).then(|| {
            let answer = __cpuid_count(leaf, subleaf);
            [answer.eax, answer.ebx, answer.ecx, answer.edx]
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (leaf, subleaf);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_has_the_kernels_size() {
        assert_eq!(size_of::<ProcmapQuery>(), 104);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn leaves_above_the_highest_are_none() {
        let [highest, ..] = read_cpuid(0, 0).unwrap();
        assert!(read_cpuid(highest, 0).is_some());
        assert_eq!(read_cpuid(highest + 1, 0), None);
        assert_eq!(read_cpuid(0x8fff_ffff, 0), None);
    }

    /// keyctl(2): a session's keys belong to whoever is started in it, whatever user that becomes.
    #[test]
    fn another_user_has_no_key_of_our_session() {
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            return hugewise_testkit::Skip("only root becomes another user".into()).report();
        }
        let own = c"hugewise-test-session";
        // SAFETY: keyctl(2) reads the name; the session is this thread's alone.
        let joined = unsafe {
            libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, own.as_ptr())
        };
        if joined < 0 {
            return hugewise_testkit::Skip("no keyrings here".into()).report();
        }
        let seen = |prepare: fn(&mut std::process::Command)| {
            let mut command = std::process::Command::new("cat");
            prepare(command.arg("/proc/keys").gid(65534).uid(65534));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert!(seen(without_terminal).contains("hugewise-test-session"), "/proc/keys tells");
        let keys = seen(without_inheritance);
        assert!(!keys.contains("hugewise-test-session"), "{keys}");
    }

    #[test]
    fn what_a_process_has_run_is_what_proc_says() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let said = || {
            #[allow(clippy::disallowed_methods)] // What is looked at is what the call said.
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()))
                .unwrap_or_default();
            text.split(' ').next().and_then(|first| first.parse().ok()).map(Duration::from_nanos)
        };
        let begun = std::time::Instant::now();
        // It may run between two of these.
        while (said(), cpu_time(child.id())) != (cpu_time(child.id()), said()) {
            assert!(begun.elapsed().as_secs() < 60);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((cpu_time(child.id()), cpu_time(0), cpu_time(u32::MAX)), (None, None, None));
        let before = cpu_time(std::process::id()).unwrap();
        std::thread::spawn(|| {
            (0..100_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number))
        })
        .join()
        .unwrap();
        assert!(cpu_time(std::process::id()).unwrap() > before, "what a thread ran that has ended");
    }
}
