//! What a program costs: wall time and peak memory, as the kernel accounts for it.

#![allow(unsafe_code, reason = "the kernel tells a program's peak memory only to wait4")]

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

/// One finished run.
#[derive(Clone, Copy, Debug)]
pub struct RunCost {
    /// From start to end.
    pub wall: Duration,
    /// Time on processors, its own and the kernel's for it.
    pub busy: Duration,
    /// Largest resident set (`ru_maxrss`).
    pub peak: Bytes,
    /// Exit code; `None` where a signal ended it.
    pub code: Option<i32>,
}

/// Runs a program to its end.
///
/// # Errors
/// Where it cannot be started or waited for.
pub fn run(command: &mut Command) -> io::Result<RunCost> {
    let begun = Instant::now();
    let child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to whole values of ours that the kernel may fill in.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    let wall = begun.elapsed();
    if waited != pid {
        return Err(io::Error::last_os_error());
    }
    let peak = Bytes::from_kib(u64::try_from(usage.ru_maxrss).unwrap_or(0));
    let busy = duration_from_timeval(usage.ru_utime) + duration_from_timeval(usage.ru_stime);
    Ok(RunCost {
        wall,
        busy,
        peak,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
    })
}

fn duration_from_timeval(time: libc::timeval) -> Duration {
    let whole = |number| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(whole(time.tv_sec)) + Duration::from_micros(whole(time.tv_usec))
}

/// Time on processors that a process has had so far: its own and the kernel's for it, of all its
/// threads, of those that have ended too.
///
/// # Errors
/// Where there is no such process, or it is somebody else's and they may not be asked.
pub fn process_cpu_time(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock = 0;
    // SAFETY: `clock` is a whole clockid_t that may be filled in.
    match unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a whole timespec that the kernel may fill in.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => {
            let whole = |number| u64::try_from(number).unwrap_or(0);
            Ok(Duration::from_secs(whole(time.tv_sec)) + Duration::from_nanos(whole(time.tv_nsec)))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_processors_passes_with_work() {
        let (pid, begun) = (std::process::id(), Instant::now());
        let before = process_cpu_time(pid).unwrap();
        while process_cpu_time(pid).unwrap() < before + Duration::from_millis(20) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no time passes");
        }
        assert!(process_cpu_time(u32::MAX).is_err());
    }
}
