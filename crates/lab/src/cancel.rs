//! Ending early: a signal from the keyboard, or memory that runs short.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Why an experiment ends before its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

/// Asked between the steps of an experiment: may it go on?
#[derive(Clone, Debug)]
pub struct Cancel {
    interrupted: Arc<AtomicBool>,
    reason: Arc<OnceLock<String>>,
}

impl Cancel {
    /// Never ends by itself; [`Cancel::stop`] ends it.
    pub fn never() -> Self {
        Self::on(Arc::default())
    }

    /// Ends when `interrupted` becomes true.
    pub fn on(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, reason: Arc::default() }
    }

    /// Ends on SIGINT, SIGTERM and SIGHUP, which from now on no longer end this process by themselves: whoever takes
    /// this has promised to ask it often. A second signal changes nothing, so that cleaning up is not cut short.
    ///
    /// # Errors
    /// The kernel's.
    pub fn on_signals() -> io::Result<Self> {
        let interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self::on(interrupted))
    }

    /// Ends it for this reason. The first reason stands.
    pub fn stop(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
    }

    /// Whether it has ended.
    pub(crate) fn is_stopped(&self) -> bool {
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
        let flag = Arc::new(AtomicBool::new(false));
        let cancel = Cancel::on(Arc::clone(&flag));
        assert_eq!(cancel.check(), Ok(()));
        flag.store(true, Ordering::Relaxed);
        assert_eq!(cancel.check(), Err(Stopped("interrupted".to_owned())));
    }

    #[test]
    fn each_signal_that_asks_a_program_to_end_ends_it() {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let cancel = Cancel::on_signals().unwrap();
            assert_eq!(cancel.check(), Ok(()));
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(cancel.check(), Err(Stopped("interrupted".to_owned())), "{signal}");
        }
    }
}
