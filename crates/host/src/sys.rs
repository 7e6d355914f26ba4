//! System calls and instructions that no safe interface offers. The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Result;
use rustix::ioctl::{Setter, Updater, ioctl, opcode};

/// `struct procmap_query` of include/uapi/linux/fs.h, Linux 6.11.
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

/// Page size in bytes of the mapping that covers `address`, asked of an open /proc/PID/maps.
///
/// # Errors
/// `NOTTY` on kernels before 6.11, `NOENT` where nothing is mapped, `SRCH` when the process is gone.
pub(crate) fn mapping_page_size(maps: BorrowedFd<'_>, address: u64) -> Result<u64> {
    query(maps, address, &mut []).map(|query| query.vma_page_size)
}

/// The mapping that covers `address`, and into `name` what it is called, asked of an open /proc/PID/maps.
///
/// # Errors
/// As above; `NAMETOOLONG` where the name does not fit.
pub(crate) fn mapping_at<'n>(maps: BorrowedFd<'_>, address: u64, name: &'n mut [u8]) -> Result<(There, &'n [u8])> {
    let query = query(maps, address, name)?;
    // A zero ends it.
    let length = usize::try_from(query.vma_name_size).ok().and_then(|size| size.checked_sub(1)).unwrap_or(0);
    let there = There {
        start: query.vma_start,
        end: query.vma_end,
        shared: query.vma_flags & SHARED != 0,
        accessible: query.vma_flags & ANY_ACCESS != 0,
        offset: query.vma_offset,
        device: u64::from(query.dev_major) << 32 | u64::from(query.dev_minor),
        inode: query.inode,
        page_size: query.vma_page_size,
    };
    Ok((there, name.get(..length).unwrap_or_default()))
}

/// What the kernel says of a mapping, as [`Mapping`](hugewise_model::Mapping) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) shared: bool,
    pub(crate) accessible: bool,
    pub(crate) offset: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) page_size: u64,
}

/// PROCMAP_QUERY_VMA_SHARED, and _READABLE, _WRITABLE and _EXECUTABLE together.
const SHARED: u64 = 8;
const ANY_ACCESS: u64 = 7;

fn query(maps: BorrowedFd<'_>, address: u64, name: &mut [u8]) -> Result<ProcmapQuery> {
    let size = u64::try_from(size_of::<ProcmapQuery>()).unwrap_or(0);
    let mut query = ProcmapQuery { size, query_addr: address, ..ProcmapQuery::default() };
    if !name.is_empty() {
        query.vma_name_size = u32::try_from(name.len()).unwrap_or(u32::MAX);
        query.vma_name_addr = name.as_mut_ptr().expose_provenance() as u64;
    }
    // SAFETY: the opcode bears the size of this very structure, which has the layout of the kernel's. Beside it the kernel
    // writes the name alone, no more of it than `name` has room for, which is borrowed for us alone meanwhile; where there is
    // no room, both its fields are zero as the build id's are. Other files answer NOTTY.
    unsafe { ioctl(maps, Updater::<PROCMAP_QUERY, _>::new(&mut query)) }?;
    Ok(query)
}

/// CPUCLOCK_SCHED of include/linux/posix-timers_types.h: the clock that the scheduler counts by, in nanoseconds.
const BY_SCHEDULER: libc::clockid_t = 2;

/// What all threads of a process have run so far, ended ones too; `None` where no process has that id in this program's
/// namespace. Anybody may ask of anybody. One call, where /proc/PID/schedstat takes three and knows one thread:
/// clock_getcpuclockid(3) would take a second one to try the number out.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    // Zero is the process that asks.
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where the reference points, and knows every number that is no clock.
    let known = unsafe { libc::clock_gettime(!pid << 3 | BY_SCHEDULER, &raw mut time) } == 0;
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    known.then(|| Duration::new(seconds, nanoseconds))
}

/// Lets the calling thread run before all ordinary ones, first come first served (SCHED_FIFO of sched(7)), at the lowest of
/// those priorities. Threads and programs that it starts are ordinary ones.
///
/// # Errors
/// It may not: that takes CAP_SYS_NICE or RLIMIT_RTPRIO, and a cgroup with time for such threads.
pub fn run_before_others() -> std::io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads one sched_param from where the reference points; 0 is the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const lowest) })
}

/// Makes the calling thread an ordinary one again.
///
/// # Errors
/// What the kernel says; nobody is kept from it.
pub fn run_as_others() -> std::io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) })
}

/// Has all threads allocate from one heap: each other one reserves 64 MiB of addresses, which count as locked memory where all
/// memory is to be locked. Only glibc's allocator has several.
pub fn one_heap() {
    // SAFETY: mallopt(3) takes numbers alone, and is called while there is one thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// EXT4_IOC_CHECKPOINT of fs/ext4/ext4.h, Linux 5.14.
const EXT4_CHECKPOINT: rustix::ioctl::Opcode = opcode::write::<u32>(b'f', 43);

/// Has ext4 write what its journal holds to where it belongs: a boot loader reads the file system without its journal.
///
/// # Errors
/// `NOTTY` or `OPNOTSUPP` on other file systems and on kernels before 5.14.
pub fn checkpoint(file: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the opcode bears the size of the flags that it reads, and the kernel writes nothing to our memory. No flag
    // is set, so no block is discarded.
    unsafe { ioctl(file, Setter::<EXT4_CHECKPOINT, u32>::new(0)) }
}

/// Lets a command run in a session of its own: without a terminal of ours, whose input it could fill with commands
/// (TIOCSTI), and as the leader of its process group.
pub fn without_terminal(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only setsid(2) is called, which is safe after a signal and allocates nothing.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
}

/// What a program may use that reads what strangers wrote.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Seconds of a processor.
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

/// Lets a command run with nothing but what it is given: in a session of its own, without a capability and any way to one,
/// within bounds, with no descriptor but its standard ones, and killed when the thread that starts it ends. With a `user`,
/// which takes root, it runs as that user and group alone; if `offline`, without a network where the kernel can do that.
/// What cannot be done but for the network fails the start.
pub(crate) fn without_rights(command: &mut std::process::Command, user: Option<u32>, offline: bool, bounds: Bounds) {
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
        bound(&bounds)
    };
    // SAFETY: between fork and exec only system calls are made, none of which allocates or takes a lock.
    unsafe { command.pre_exec(setup) };
}

fn checked(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Descriptors that whoever started this program left open are none of the command's.
fn close_others_at_exec() {
    // SAFETY: close_range(2) takes numbers alone; 5.11 has the flag.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked != 0 {
        for descriptor in 3..4096 {
            // SAFETY: one that is not open is no harm.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Becomes a user and its group for good.
fn become_user(user: u32) -> std::io::Result<()> {
    // SAFETY: no group is read from the null pointer, as there are none; the others take numbers alone.
    unsafe {
        checked(libc::setgroups(0, std::ptr::null()))?;
        checked(libc::setresgid(user, user, user))?;
        checked(libc::setresuid(user, user, user))?;
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
    // _LINUX_CAPABILITY_VERSION_3 of linux/capability.h, and the process that asks. A kernel that does not know it writes the one
    // that it knows in its place, and qemu asks for that right at once.
    let mut header = [0x2008_0522_u32, 0];
    // SAFETY: prctl(2) takes numbers alone here; capset(2) reads a header of two words, may write the first, and reads six more.
    unsafe {
        // Kernels before 4.3 have none of these.
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        match libc::syscall(libc::SYS_capset, header.as_mut_ptr(), NONE.as_ptr()) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

fn bound(bounds: &Bounds) -> std::io::Result<()> {
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
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
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
    use hugewise_model::Observed;

    use super::*;

    #[test]
    fn the_query_has_the_kernels_size() {
        assert_eq!(size_of::<ProcmapQuery>(), 104);
    }

    #[test]
    fn a_real_huge_page_is_told_from_a_base_page() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

        use hugewise_lab::{guard, require};
        use hugewise_model::PageCount;

        use crate::Source;

        let live = crate::source::Live::new();
        let meminfo = crate::kernel::meminfo::read(&mut crate::Door::new(&live)).into_known().unwrap();
        let huge = meminfo.default_huge_page.get().unwrap();
        let pools = require!(guard::PoolGuard::take());
        require!(pools.provide(huge, PageCount(1)));
        let length = usize::try_from(huge.bytes().get()).unwrap();
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice, unmapped below and never touched.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ, flags) };
        let address = require!(mapped.map_err(|error| guard::Skip(format!("another process took the page: {error}"))));
        let start = address.addr() as u64;
        let by_query = live.mapping_page_size(std::process::id(), start);
        let smaps = live.read("/proc/self/smaps").into_known().unwrap();
        let by_smaps = crate::process::smaps::page_size_at(&smaps, start).unwrap();
        // SAFETY: the mapping made above, of which nothing is borrowed.
        unsafe { munmap(address, length) }.unwrap();
        assert_eq!(by_smaps, Some(huge));
        // Distributions carry the call back to older kernels; since 6.11 every kernel has it.
        let kernel = crate::kernel::release::parse(rustix::system::uname().release().to_bytes()).unwrap();
        let older = !kernel.at_least(6, 11);
        assert!(by_query == Observed::Known(huge) || older && by_query == Observed::Absent, "{by_query:?}");
    }

    /// The same of every mapping as /proc/PID/maps says.
    #[test]
    fn a_mapping_is_told_as_maps_tells_it() {
        use std::os::fd::AsFd;

        use crate::Source;

        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (live, begun) = (crate::source::Live::new(), std::time::Instant::now());
        let maps = |name: &str| live.read(&format!("/proc/{}/{name}", child.id())).into_known().unwrap_or_default();
        while !maps("stat").windows(10).any(|part| part == b" (sleep) S") {
            assert!(begun.elapsed().as_secs() < 60);
        }
        let path = format!("/proc/{}/maps", child.id());
        let file = rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let told =
            crate::process::maps::parse_kept(&maps("maps"), |line| !line.name.starts_with(b"[vsyscall")).unwrap();
        let asked = |mapping: &hugewise_model::Mapping| {
            let mut name = [0; 4096];
            mapping_at(file.as_fd(), mapping.start, &mut name)
                .map(|(there, name)| (there, String::from_utf8(name.to_vec()).unwrap()))
        };
        let asked: Vec<_> = told.iter().map(asked).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        if asked.iter().all(|one| *one == Err(rustix::io::Errno::NOTTY)) {
            return;
        }
        for (mapping, asked) in told.iter().zip(asked) {
            let hugewise_model::Mapping { start, end, shared, accessible, offset, device, inode, name, .. } =
                mapping.clone();
            let page_size = asked.as_ref().unwrap().0.page_size;
            let there = There { start, end, shared, accessible, offset, device, inode, page_size };
            assert_eq!(asked, Ok((there, name)));
        }
        assert!(told.len() > 5, "{told:?}");
    }

    /// This process runs all the time; it maps shared memory, and then other memory of that size in its place.
    #[test]
    fn what_a_process_that_runs_maps_is_seen_at_the_next_reading() {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

        use crate::process::{Earlier, Facts, read};
        use crate::source::{Between, Live};

        let memory = |name: &str| {
            let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&file, 32 << 20).unwrap();
            file
        };
        let (one, other) = (memory("one"), memory("other"));
        let map = |file: &std::os::fd::OwnedFd| {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            // SAFETY: a new mapping at an address of the kernel's choice, unmapped below and never touched.
            unsafe { mmap(std::ptr::null_mut(), 32 << 20, protection, flags, file, 0) }.unwrap()
        };
        // SAFETY: a mapping made above, of which nothing is borrowed.
        let unmap = |at| unsafe { munmap(at, 32 << 20) }.unwrap();
        let (between, mut before) = (Between::default(), Vec::new());
        let facts = Facts {
            base_page: hugewise_model::PageSize::new(u64::try_from(rustix::param::page_size()).unwrap()),
            default_huge_page: Some(hugewise_model::PageSize::MIB_2),
            ..Facts::default()
        };
        let mut mapped = || {
            let live = Live::after(&between);
            // Never its turn.
            let turn = u64::from(std::process::id()) + 1;
            let earlier = Some(Earlier { processes: &before, others: &[], turn, files: None });
            let found = read(&mut crate::Door::new(&live), facts, earlier).processes.into_known().unwrap();
            let own = found.iter().find(|process| process.pid == std::process::id()).unwrap().clone();
            before = found;
            let names = own.mappings.known().unwrap().iter().map(|mapping| mapping.name.clone());
            names.filter(|name| name.starts_with("/memfd:o")).collect::<Vec<_>>()
        };
        assert_eq!(mapped(), Vec::<String>::new());
        let first = map(&one);
        for _ in 0..3 {
            assert_eq!(mapped(), ["/memfd:one (deleted)"]);
        }
        unmap(first);
        let second = map(&other);
        assert_eq!(mapped(), ["/memfd:other (deleted)"]);
        unmap(second);
        assert_eq!(mapped(), Vec::<String>::new());
    }

    /// This process maps a file, which is then removed: nothing but the mapping's name is another one.
    #[test]
    fn a_file_that_is_removed_while_it_is_mapped_is_seen_at_the_next_reading() {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

        use crate::process::status::{self, Matters};
        use crate::source::{Known, Live, Next, Source};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mapped");
        let file = rustix::fs::open(
            &path,
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CREATE,
            rustix::fs::Mode::from_raw_mode(0o600),
        );
        rustix::fs::ftruncate(file.as_ref().unwrap(), 64 << 20).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped below and never touched.
        let at = unsafe {
            mmap(std::ptr::null_mut(), 64 << 20, ProtFlags::READ, MapFlags::SHARED, file.as_ref().unwrap(), 0)
        };
        let at = at.unwrap();
        let pid = std::process::id();
        let own = |live: &Live, name: &str| live.read(&format!("/proc/{pid}/{name}")).into_known().unwrap();
        // Other threads map and unmap: what counts is here that of one mapping.
        let holds = |name: &str| {
            let live = Live::new();
            let maps = crate::process::maps::parse(&own(&live, "maps")).unwrap();
            let start = at.addr() as u64;
            let page_size = live.mapping_page_size(pid, start).get().into();
            let mapping = maps.into_iter().find(|mapping| mapping.start == start).unwrap();
            let mapping = hugewise_model::Mapping { name: name.to_owned(), page_size, ..mapping };
            let status = status::parse(&own(&live, "status")).unwrap();
            let before = hugewise_model::Process {
                pid,
                hugetlb: status.hugetlb.clone(),
                mapped: status.mapped(),
                mappings: Observed::Known(vec![mapping]),
                ..hugewise_model::Process::default()
            };
            let next = Next { pid, known: Known::Ran(std::sync::Arc::new(before)) };
            live.ahead(&[next], Matters { least: hugewise_model::Bytes(1), code: false });
            live.maps_hold(pid)
        };
        let name = path.display().to_string();
        let begun = std::time::Instant::now();
        let queried = crate::source::Live::new().mapping_page_size(pid, at.addr() as u64).is_known();
        while queried && !holds(&name) {
            assert!(begun.elapsed().as_secs() < 60, "its mapping was never found where it is");
        }
        std::fs::remove_file(&path).unwrap();
        assert!((0..20).all(|_| !holds(&name)), "it is called otherwise now");
        while queried && !holds(&format!("{name} (deleted)")) {
            assert!(begun.elapsed().as_secs() < 60);
        }
        // SAFETY: the mapping made above, of which nothing is borrowed.
        unsafe { munmap(at, 64 << 20) }.unwrap();
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn leaves_above_the_highest_are_none() {
        let [highest, ..] = cpuid(0, 0).unwrap();
        assert!(cpuid(highest, 0).is_some());
        assert_eq!(cpuid(highest + 1, 0), None);
        assert_eq!(cpuid(0x8fff_ffff, 0), None);
    }

    #[test]
    fn what_a_process_has_run_is_what_proc_says() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let said = || {
            #[allow(clippy::disallowed_methods)] // What is looked at is what the call said.
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap_or_default();
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
        std::thread::spawn(|| (0..100_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)))
            .join()
            .unwrap();
        assert!(cpu_time(std::process::id()).unwrap() > before, "what a thread ran that has ended");
    }
}
