//! A process that waits for the end of another, and restores what that could not: nobody can catch
//! SIGKILL.

#![allow(unsafe_code, reason = "a process is forked that outlives its parent")]

use std::io::{self, PipeWriter, Read};

use rustix::process::{Pid, WaitOptions, waitpid};

/// Dropping it ends the waiting process, and waits for it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    life: Option<PipeWriter>,
    process: Option<Pid>,
}

impl Watchdog {
    /// Forks the process that does `work` when this one has ended or dropped its watchdog. It
    /// inherits open files, with their locks, until the work is done.
    pub(crate) fn start(work: impl FnOnce()) -> io::Result<Self> {
        let (mut end, life) = io::pipe()?;
        // SAFETY: the child runs on with a copy of this one's memory. The C library keeps its
        // allocator usable after a fork from several threads, and `work` takes no lock that another
        // thread may have held.
        match unsafe { libc::fork() } {
            0 => {
                drop(life);
                // A signal from the keyboard is for the others.
                let _ = rustix::process::setsid();
                crate::segment::set_process_name("hugewise watchdog");
                while !matches!(end.read(&mut [0]), Ok(0)) {}
                work();
                // SAFETY: ends the process at once: what is set up to run at exit belongs to the
                // parent.
                unsafe { libc::_exit(0) }
            }
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(Self { life: Some(life), process: Pid::from_raw(pid) }),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.life = None;
        while let Err(rustix::io::Errno::INTR) = waitpid(self.process, WaitOptions::empty()) {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_works_after_its_parent_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("done");
        // SAFETY: the child calls nothing but what the watchdog itself may call, and waits.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            let watchdog = Watchdog::start(|| drop(std::fs::write(&path, "x")));
            std::mem::forget(watchdog);
            let _ = std::fs::write(path.with_extension("started"), "x");
            std::thread::sleep(Duration::from_secs(600));
        }
        let wait_for = |path: &Path| {
            let until = Instant::now() + Duration::from_secs(20);
            while !path.exists() {
                assert!(Instant::now() < until);
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(&path.with_extension("started"));
        assert!(!path.exists());
        let parent = Pid::from_raw(parent).unwrap();
        rustix::process::kill_process(parent, rustix::process::Signal::KILL).unwrap();
        waitpid(Some(parent), WaitOptions::empty()).unwrap();
        wait_for(&path);
    }

    #[test]
    fn dropping_it_waits_until_the_work_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("done");
        drop(Watchdog::start(|| drop(std::fs::write(&path, "x"))).unwrap());
        assert!(path.exists());
    }
}
