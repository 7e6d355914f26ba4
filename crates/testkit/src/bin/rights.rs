//! Asks this kernel for huge pages with the rights and limits that it was started with, and says on
//! one line what came of each attempt: `ok`, or the error's name. For the question who may have
//! which pages on which kernel.

#![allow(
    unsafe_code,
    reason = "memory is asked of the kernel by system calls whose flags no safe interface has"
)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::ptr;

use clap::{Parser, ValueEnum};

/// What is asked for. No memory is touched.
#[derive(Clone, Copy, ValueEnum)]
enum Attempt {
    /// `shmget(SHM_HUGETLB)`.
    Shm,
    /// `shmget` of base pages, and `shmctl(SHM_LOCK)` of them.
    ShmLock,
    /// The same of huge pages.
    ShmHugeLock,
    /// `mmap(MAP_HUGETLB)`.
    Mmap,
    /// `mmap(MAP_HUGETLB|MAP_LOCKED)`.
    MmapLocked,
    /// `mmap(MAP_HUGETLB)`, and `mlock` of it.
    Mlock,
}

/// Asks this kernel for huge pages with the rights and limits that it was started with.
#[derive(Parser)]
struct Arguments {
    /// What to ask for, one after the other; all is held until the end.
    #[arg(required = true)]
    attempts: Vec<Attempt>,
    /// How much each time, in KiB.
    #[arg(long, default_value_t = 4096)]
    kib: usize,
    /// Leave the System V segments behind.
    #[arg(long)]
    leave: bool,
    /// Stay until standard input ends.
    #[arg(long)]
    hold: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let length = arguments.kib << 10;
    let mut segments = Vec::new();
    let said: Vec<&str> = arguments
        .attempts
        .iter()
        .map(|attempt| in_words(request_huge_pages(*attempt, length, &mut segments)))
        .collect();
    let mut output = io::stdout().lock();
    let mut done = writeln!(output, "{}", said.join(", ")).and_then(|()| output.flush());
    if arguments.hold {
        done = done.and(io::copy(&mut io::stdin().lock(), &mut io::sink()).map(|_| ()));
    }
    if !arguments.leave {
        segments.into_iter().for_each(remove_shm_segment);
    }
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn request_huge_pages(
    attempt: Attempt,
    length: usize,
    segments: &mut Vec<libc::c_int>,
) -> io::Result<()> {
    match attempt {
        Attempt::Shm => segments.push(create_shm_segment(length, libc::SHM_HUGETLB)?),
        Attempt::ShmLock | Attempt::ShmHugeLock => {
            let is_huge = matches!(attempt, Attempt::ShmHugeLock);
            let id = create_shm_segment(length, if is_huge { libc::SHM_HUGETLB } else { 0 })?;
            segments.push(id);
            // SAFETY: SHM_LOCK takes no third argument.
            check_return_code(unsafe { libc::shmctl(id, libc::SHM_LOCK, ptr::null_mut()) })?;
        }
        Attempt::Mmap => drop(map_huge_pages(length, 0)?),
        Attempt::MmapLocked => drop(map_huge_pages(length, libc::MAP_LOCKED)?),
        Attempt::Mlock => {
            let start = map_huge_pages(length, 0)?;
            // SAFETY: the range is the mapping that was just made, and stays until this process
            // ends.
            check_return_code(unsafe { libc::mlock(start, length) })?;
        }
    }
    Ok(())
}

fn create_shm_segment(length: usize, flags: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: shmget takes plain numbers and touches no memory of ours.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o600 | flags) };
    check_return_code(id).map(|()| id)
}

fn remove_shm_segment(id: libc::c_int) {
    // SAFETY: IPC_RMID takes no third argument, and nothing maps the segment.
    unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) };
}

/// A mapping of huge pages that stays until this process ends.
fn map_huge_pages(length: usize, flags: libc::c_int) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | flags;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
}

fn check_return_code(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn in_words(result: io::Result<()>) -> &'static str {
    let Err(error) = result else { return "ok" };
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM",
        Some(libc::ENOMEM) => "ENOMEM",
        Some(libc::EAGAIN) => "EAGAIN",
        Some(libc::EINVAL) => "EINVAL",
        Some(libc::ENOSPC) => "ENOSPC",
        _ => "another error",
    }
}
