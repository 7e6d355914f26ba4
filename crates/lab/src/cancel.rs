//! Ending early: by a signal, or because memory is short.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Why an experiment ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

/// Whether an experiment may go on, asked between its steps.
#[derive(Clone, Debug)]
pub struct Cancel {
    interrupted: Arc<AtomicBool>,
    reason: Arc<OnceLock<String>>,
}

impl Cancel {
    /// Ends only by [`Cancel::stop`].
    pub fn never() -> Self {
        Self::on_interrupt(Arc::default())
    }

    pub(crate) fn on_interrupt(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, reason: Arc::default() }
    }

    /// Ends on SIGINT, SIGTERM and SIGHUP, which no longer kill this process: the caller has to ask
    /// often. A second signal changes nothing, so that cleaning up is not cut short.
    /// Errors: as sigaction(2).
    pub fn on_signals() -> io::Result<Self> {
        let interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self::on_interrupt(interrupted))
    }

    /// Ends it for this reason; the first reason counts.
    pub fn stop(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.check_running().is_err()
    }

    /// Goes on, unless stopped. Errors: why it was stopped.
    pub fn check_running(&self) -> Result<(), Stopped> {
        if let Some(reason) = self.reason.get() {
            return Err(Stopped(reason.clone()));
        }
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Stopped("interrupted".to_owned()));
        }
        Ok(())
    }

    /// Sleeps, and wakes early when stopped. Errors: why it was stopped.
    pub fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        const STEP: Duration = Duration::from_millis(20);
        let until = Instant::now() + time;
        loop {
            self.check_running()?;
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
        assert_eq!(cancel.check_running(), Ok(()));
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
        let cancel = Cancel::on_interrupt(Arc::clone(&flag));
        assert_eq!(cancel.check_running(), Ok(()));
        flag.store(true, Ordering::Relaxed);
        assert_eq!(cancel.check_running(), Err(Stopped("interrupted".to_owned())));
    }

    #[test]
    fn each_signal_that_asks_a_program_to_end_ends_it() {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let cancel = Cancel::on_signals().unwrap();
            assert_eq!(cancel.check_running(), Ok(()));
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(cancel.check_running(), Err(Stopped("interrupted".to_owned())), "{signal}");
        }
    }
}
