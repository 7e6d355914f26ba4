//! One reading of the host for everybody who wants one.
//!
//! However many ask at once, the host is read by one of them, and at most once in a [`LEAST_AGE`]: the others
//! wait for it and share what it found. A reading costs what `hugewise check` costs, and no `smaps`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_engines::Files;
use hugewise_host::Source;
use hugewise_host::source::{Between, Live};
use hugewise_report::json::history::Point;

use crate::Reading;
use crate::history::{History, Span};

/// No two readings are nearer than this.
pub const LEAST_AGE: Duration = Duration::from_secs(1);

/// Where facts come from: opened anew for each reading.
type Open = Box<dyn Fn() -> Box<dyn Source> + Send + Sync>;

/// Who is told of each reading, and of the point in the history that it became, if it did.
type Listener = Box<dyn Fn(&Arc<Reading>, Option<&Arc<Point>>) + Send + Sync>;

/// Reads a host for everybody.
pub struct Collector {
    open: Open,
    listeners: Vec<Listener>,
    recorder: Option<PathBuf>,
    /// Held while the host is read.
    turn: Mutex<Turn>,
    kept: Mutex<Kept>,
}

/// What each reading takes from those before it.
#[derive(Default)]
struct Turn {
    /// How many there have been.
    count: u64,
    files: Files,
}

struct Kept {
    latest: Option<Arc<Reading>>,
    history: History,
}

impl Collector {
    /// Of the running machine.
    pub fn live(span: Span) -> Self {
        let between = Between::default();
        Self::new(move || Box::new(Live::after(&between)), span)
    }

    /// Of whatever a source shows; it is opened anew for each reading.
    pub fn new(open: impl Fn() -> Box<dyn Source> + Send + Sync + 'static, span: Span) -> Self {
        let kept = Mutex::new(Kept { latest: None, history: History::new(span) });
        Self { open: Box::new(open), listeners: Vec::new(), recorder: None, turn: Mutex::default(), kept }
    }

    /// Looks also at the flight recorder in a folder.
    #[must_use]
    pub fn beside(mut self, recorder: &Path) -> Self {
        self.recorder = Some(recorder.to_owned());
        self
    }

    /// Tells somebody of each reading, in the thread that has made it.
    #[must_use]
    pub fn telling(mut self, listener: impl Fn(&Arc<Reading>, Option<&Arc<Point>>) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// The last reading, however old; none before the first.
    pub fn latest(&self) -> Option<Arc<Reading>> {
        self.kept().latest.clone()
    }

    /// A reading no older than that, or than [`LEAST_AGE`] where that is more, at the moment of the call. Reads
    /// the host where there is none, which takes as long as `hugewise check`; of several callers one reads, and
    /// the others wait.
    pub fn no_older_than(&self, age: Duration) -> Arc<Reading> {
        self.since(Instant::now(), age)
    }

    /// The same for somebody who asked at that moment and has waited since: what was read meanwhile is for
    /// them too, however long they waited.
    pub fn since(&self, asked: Instant, age: Duration) -> Arc<Reading> {
        if let Some(reading) = self.fresh(asked, age) {
            return reading;
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have read it while this one waited for its turn.
        if let Some(reading) = self.fresh(asked, age) {
            return reading;
        }
        let number = turn.count.saturating_add(1);
        let before = self.latest();
        let reading = Reading::after(before.as_deref(), &turn.files, (self.open)().as_ref(), number);
        let reading = match &self.recorder {
            Some(recorder) => reading.beside(recorder),
            None => reading,
        };
        let reading = Arc::new(reading);
        drop(before);
        turn.count = number;
        let point = {
            let mut kept = self.kept();
            kept.latest = Some(Arc::clone(&reading));
            kept.history.add(&reading)
        };
        for listener in &self.listeners {
            listener(&reading, point.as_ref());
        }
        reading
    }

    /// The points of the last hours, oldest first.
    pub fn history(&self) -> Vec<Arc<Point>> {
        self.kept().history.points()
    }

    /// How far back the history goes.
    pub fn span(&self) -> Span {
        self.kept().history.span()
    }

    /// The last reading, where it was no older than that, or than [`LEAST_AGE`], at that moment.
    pub fn fresh(&self, asked: Instant, age: Duration) -> Option<Arc<Reading>> {
        let age = age.max(LEAST_AGE);
        self.latest().filter(|reading| asked.saturating_duration_since(reading.taken) < age)
    }

    /// A reader that panicked has left what was kept before it.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing;

    #[test]
    fn a_hundred_callers_at_once_share_one_reading() {
        let opened = Arc::new(AtomicUsize::new(0));
        let told = Arc::new(AtomicUsize::new(0));
        let (counter, ear) = (Arc::clone(&opened), Arc::clone(&told));
        let collector = Collector::new(
            move || {
                counter.fetch_add(1, Ordering::SeqCst);
                Box::new(testing::source())
            },
            Span::default(),
        )
        .telling(move |_, _| {
            ear.fetch_add(1, Ordering::SeqCst);
        });
        assert!(collector.latest().is_none());
        // An hour: no machine is so slow that the first reading gets old meanwhile.
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| assert_eq!(collector.no_older_than(age).number, 1));
            }
        });
        assert_eq!((opened.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(collector.history().len(), 1);
    }

    #[test]
    fn an_old_reading_is_made_anew() {
        let collector = Collector::new(|| Box::new(testing::source()), Span::default());
        let first = collector.no_older_than(Duration::ZERO);
        while first.taken.elapsed() < LEAST_AGE {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.no_older_than(Duration::ZERO).number, 2);
        assert_eq!(collector.history().len(), 1, "the second is too near for a point of its own");
    }

    #[test]
    fn what_was_read_while_somebody_waited_is_for_them_too() {
        let collector = Collector::new(|| Box::new(testing::source()), Span::default());
        let asked = Instant::now();
        assert_eq!(collector.since(asked, Duration::ZERO).number, 1);
        // As old as a queue of slow callers makes it.
        while asked.elapsed() < LEAST_AGE + Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.since(asked, Duration::ZERO).number, 1);
        assert!(collector.fresh(asked + LEAST_AGE * 1000, Duration::ZERO).is_none());
    }

    #[test]
    fn a_reader_that_panics_takes_nobody_with_it() {
        let calls = AtomicUsize::new(0);
        let collector = Collector::new(
            move || {
                assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "the first reading goes wrong");
                Box::new(testing::source())
            },
            Span::default(),
        );
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| assert!(scope.spawn(|| collector.no_older_than(age)).join().is_err()));
        assert_eq!(collector.no_older_than(age).number, 1);
    }
}
