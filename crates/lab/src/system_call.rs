//! Results of system calls, and what the kernel counts for threads and processes.

#![allow(unsafe_code, reason = "only getrusage tells the faults of a thread and of ended children")]

use std::io;

/// The kernel's error, where a call did not return 0.
pub(crate) fn check_result(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resource usage of this thread, process, or its ended children: `RUSAGE_THREAD` and the like.
pub(crate) fn resource_usage(who: libc::c_int) -> io::Result<libc::rusage> {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a whole rusage that the kernel may fill in.
    check_result(unsafe { libc::getrusage(who, &raw mut usage) })?;
    Ok(usage)
}

pub(crate) fn thread_minor_faults() -> io::Result<u64> {
    Ok(u64::try_from(resource_usage(libc::RUSAGE_THREAD)?.ru_minflt).unwrap_or(0))
}
