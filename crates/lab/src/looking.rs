//! A thread that looks at something again and again until nobody wants it any more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks as long as it is there.
#[derive(Debug)]
pub(crate) struct Looking {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    /// Calls `look` at once and after every `interval`.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub(crate) fn start(name: &str, interval: Duration, mut look: impl FnMut() + Send + 'static) -> io::Result<Self> {
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

impl Drop for Looking {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
