//! Ending early: a signal from the keyboard, or memory that runs short.

#![allow(unsafe_code, reason = "a signal's handler is set by a system call")]

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Set by the handler of the signals that ask a program to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// For those who never ask: nobody sets it.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Why an experiment ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped(pub String);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Asked between the steps of an experiment: may it go on?
#[derive(Clone, Debug)]
pub struct Cancel {
    interrupted: &'static AtomicBool,
    reason: Arc<OnceLock<String>>,
}

impl Cancel {
    /// Never ends by itself; [`Cancel::stop`] ends it.
    pub fn never() -> Self {
        Self { interrupted: &NEVER, reason: Arc::default() }
    }

    /// Ends when `interrupted` becomes true.
    pub fn on(interrupted: &'static AtomicBool) -> Self {
        Self { interrupted, reason: Arc::default() }
    }

    /// Ends on SIGINT, SIGTERM and SIGHUP, which from now on no longer end this process by themselves: whoever takes
    /// this has promised to ask it often. A second signal changes nothing, so that cleaning up is not cut short.
    ///
    /// # Errors
    /// The kernel's.
    pub fn on_signals() -> io::Result<Self> {
        extern "C" fn note(_: libc::c_int) {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
        let handler: extern "C" fn(libc::c_int) = note;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: sigaction is plain numbers, for which zero is a value: no flags, so that waiting calls return
            // with EINTR.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = handler as libc::sighandler_t;
            // SAFETY: the handler does nothing but store to an atomic, which is safe after any signal; `action` is a
            // whole sigaction.
            if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self::on(&INTERRUPTED))
    }

    /// Ends it for this reason. The first reason stands.
    pub fn stop(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
    }

    /// Whether it has ended.
    pub fn is_stopped(&self) -> bool {
        self.check().is_err()
    }

    /// Goes on, or says why not.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), Stopped> {
        if let Some(reason) = self.reason.get() {
            return Err(Stopped(reason.clone()));
        }
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Stopped("interrupted".to_owned()));
        }
        Ok(())
    }

    /// Sleeps, and wakes early when it ends.
    ///
    /// # Errors
    /// The reason for the end.
    pub fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        const STEP: Duration = Duration::from_millis(20);
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands_and_a_sleeper_wakes() {
        let cancel = Cancel::never();
        assert_eq!(cancel.check(), Ok(()));
        let other = cancel.clone();
        let sleeper = std::thread::spawn(move || other.sleep(Duration::from_secs(60)));
        cancel.stop("memory");
        cancel.stop("later");
        assert_eq!(sleeper.join().unwrap(), Err(Stopped("memory".to_owned())));
        assert!(!Cancel::never().is_stopped());
    }

    #[test]
    fn a_flag_from_outside_ends_it() {
        static FLAG: AtomicBool = AtomicBool::new(false);
        let cancel = Cancel::on(&FLAG);
        assert_eq!(cancel.check(), Ok(()));
        FLAG.store(true, Ordering::Relaxed);
        assert_eq!(cancel.check(), Err(Stopped("interrupted".to_owned())));
    }
}
