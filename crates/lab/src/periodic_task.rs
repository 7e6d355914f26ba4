//! A thread that does something again and again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct PeriodicTask {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicTask {
    /// Calls `look` at once and after every `interval`; fails where no thread can be started.
    pub(crate) fn start(
        name: &str,
        interval: Duration,
        mut look: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                look();
                std::thread::park_timeout(interval);
            }
        })?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for PeriodicTask {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
