//! One reading of the host for everybody who wants one.
//!
//! However many ask at once, one of them reads the host, at most once in a [`LEAST_AGE`]; the
//! others wait for it and share what it found. A reading costs what `hugewise check` costs at most,
//! and no `smaps`. Where that is much, the host is read less often.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_engines::EngineFileCache;
use hugewise_host::Source;
use hugewise_host::source::LiveSource;
use hugewise_report::json::history::HistoryPoint;

use crate::HostReading;
use crate::history::{HistorySpan, ReadingHistory};
use crate::pace::ReadingPace;

/// Between two readings.
pub(crate) const LEAST_AGE: Duration = Duration::from_secs(1);

/// Opens the source anew for each reading.
type Open = Box<dyn Fn() -> Box<dyn Source> + Send + Sync>;

/// Called with each reading, and with the point in the history that it became, if it did.
type Listener = Box<dyn Fn(&Arc<HostReading>, Option<&Arc<HistoryPoint>>) + Send + Sync>;

/// Reads a host for everybody.
pub struct HostCollector {
    open: Open,
    listeners: Vec<Listener>,
    recorder: Option<PathBuf>,
    /// Held while the host is read.
    turn: Mutex<CollectorTurn>,
    kept: Mutex<RetainedReadings>,
}

/// What a reading takes from those before it.
#[derive(Default)]
struct CollectorTurn {
    /// Readings so far.
    count: u64,
    files: EngineFileCache,
    pace: ReadingPace,
}

struct RetainedReadings {
    latest: Option<Arc<HostReading>>,
    history: ReadingHistory,
}

impl HostCollector {
    /// Reads the running machine.
    pub fn for_live_host(span: HistorySpan) -> Self {
        Self::new(|| Box::new(LiveSource::new()), span)
    }

    pub(crate) fn new(
        open: impl Fn() -> Box<dyn Source> + Send + Sync + 'static,
        span: HistorySpan,
    ) -> Self {
        let kept =
            Mutex::new(RetainedReadings { latest: None, history: ReadingHistory::new(span) });
        Self {
            open: Box::new(open),
            listeners: Vec::new(),
            recorder: None,
            turn: Mutex::default(),
            kept,
        }
    }

    /// Reads the flight recorder in a folder, too.
    #[must_use]
    pub fn with_recorder(mut self, recorder: &Path) -> Self {
        self.recorder = Some(recorder.to_owned());
        self
    }

    /// Calls `listener` with each reading, in the thread that has made it.
    #[must_use]
    pub fn with_listener(
        mut self,
        listener: impl Fn(&Arc<HostReading>, Option<&Arc<HistoryPoint>>) + Send + Sync + 'static,
    ) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// However old.
    pub(crate) fn latest_reading(&self) -> Option<Arc<HostReading>> {
        self.lock_retained().latest.clone()
    }

    /// A reading that was no older than that (or than [`LEAST_AGE`]) at the call. It reads the host
    /// if need be, which takes as long as `hugewise check`; of several callers one reads, and the
    /// others wait. Where readings take more than a hundredth of a core, an older one has to do.
    pub fn no_older_than(&self, age: Duration) -> Arc<HostReading> {
        self.reading_since(Instant::now(), age)
    }

    /// For a caller who has waited since `asked`: readings made meanwhile will do.
    pub(crate) fn reading_since(&self, asked: Instant, age: Duration) -> Arc<HostReading> {
        if let Some(reading) = self.fresh_reading(asked, age) {
            return reading;
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Another caller may have read it meanwhile.
        if let Some(reading) = self.fresh_reading(asked, age) {
            return reading;
        }
        let before = self.latest_reading();
        let CollectorTurn { count, files, pace } = &mut *turn;
        if !pace.allows_reading(Instant::now())
            && let Some(before) = before
        {
            return before;
        }
        let number = count.saturating_add(1);
        let mut reading = pace.time_reading(|| {
            let source = (self.open)();
            HostReading::from_source_after(before.as_deref(), files, source.as_ref(), number)
        });
        reading.unread.extend(pace.take_note());
        let reading = match &self.recorder {
            Some(recorder) => reading.with_recorder(recorder),
            None => reading,
        };
        let reading = Arc::new(reading);
        drop(before);
        *count = number;
        let point = {
            let mut kept = self.lock_retained();
            kept.latest = Some(Arc::clone(&reading));
            kept.history.add(&reading)
        };
        for listener in &self.listeners {
            listener(&reading, point.as_ref());
        }
        reading
    }

    pub(crate) fn history_points(&self) -> Vec<Arc<HistoryPoint>> {
        self.lock_retained().history.points()
    }

    pub(crate) fn history_span(&self) -> HistorySpan {
        self.lock_retained().history.span()
    }

    /// The last reading, if it was no older than that (or than [`LEAST_AGE`]) at that moment.
    pub(crate) fn fresh_reading(&self, asked: Instant, age: Duration) -> Option<Arc<HostReading>> {
        let age = age.max(LEAST_AGE);
        self.latest_reading().filter(|reading| asked.saturating_duration_since(reading.taken) < age)
    }

    /// What a reader that panicked left is whole.
    fn lock_retained(&self) -> MutexGuard<'_, RetainedReadings> {
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
        let collector = HostCollector::new(
            move || {
                counter.fetch_add(1, Ordering::SeqCst);
                Box::new(testing::source())
            },
            HistorySpan::default(),
        )
        .with_listener(move |_, _| {
            ear.fetch_add(1, Ordering::SeqCst);
        });
        assert!(collector.latest_reading().is_none());
        // An hour: no machine is so slow that the first reading gets old meanwhile.
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| assert_eq!(collector.no_older_than(age).number, 1));
            }
        });
        assert_eq!((opened.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(collector.history_points().len(), 1);
    }

    #[test]
    fn an_old_reading_is_made_anew() {
        let collector = HostCollector::new(|| Box::new(testing::source()), HistorySpan::default());
        let first = collector.no_older_than(Duration::ZERO);
        while first.taken.elapsed() < LEAST_AGE {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.no_older_than(Duration::ZERO).number, 2);
        assert_eq!(
            collector.history_points().len(),
            1,
            "the second is too near for a point of its own"
        );
    }

    #[test]
    fn what_was_read_while_somebody_waited_is_for_them_too() {
        let collector = HostCollector::new(|| Box::new(testing::source()), HistorySpan::default());
        let asked = Instant::now();
        assert_eq!(collector.reading_since(asked, Duration::ZERO).number, 1);
        // As old as a queue of slow callers makes it.
        while asked.elapsed() < LEAST_AGE + Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.reading_since(asked, Duration::ZERO).number, 1);
        assert!(collector.fresh_reading(asked + LEAST_AGE * 1000, Duration::ZERO).is_none());
    }

    #[test]
    fn a_reader_that_panics_takes_nobody_with_it() {
        let calls = AtomicUsize::new(0);
        let collector = HostCollector::new(
            move || {
                assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "the first reading goes wrong");
                Box::new(testing::source())
            },
            HistorySpan::default(),
        );
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| collector.no_older_than(age)).join().is_err())
        });
        assert_eq!(collector.no_older_than(age).number, 1);
    }
}
