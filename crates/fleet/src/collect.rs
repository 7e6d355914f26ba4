//! Reads captures on all cores and puts their rows into a lake, a batch at a time: what waits for the disk is bounded.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use hugewise_report::parquet::Cell;
use hugewise_report::plain;
use sha2::{Digest, Sha256};

use crate::lake::{Batch, Lake, Partition};
use crate::reading::{self, Failed, Id, Taken, hex};
use crate::rows::{Whose, text};
use crate::schema::Place;
use crate::sources::{self, Unit};
use crate::summary::{Failure, Summary};

/// Rows that wait for the disk, in bytes: more captures make more rows of files, not more files.
const MOST_WAITING: usize = 32 << 20;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Captures, and folders of captures.
    pub paths: Vec<PathBuf>,
    /// The folder of the tables.
    pub lake: PathBuf,
    /// The cluster of all these hosts.
    pub cluster: Option<String>,
    /// Now, in seconds since the epoch.
    pub now: i64,
    /// How many captures are read at the same time.
    pub threads: usize,
}

/// What the workers send.
type Told = (Unit, Result<Option<Taken>, Failed>);

/// Reads all that was asked for. `progress` is told how many captures are done, and of how many.
///
/// # Errors
/// The lake cannot be written. What could not be read is in the summary and in the table `failures`, and no error.
pub fn collect(asked: &Asked, progress: &mut dyn FnMut(usize, usize)) -> io::Result<Summary> {
    let lake = Lake::open(&asked.lake)?;
    let mut keeper = Keeper { lake, batch: Batch::default(), summary: Summary::default(), asked };
    let mut units = Vec::new();
    for path in &asked.paths {
        match sources::at(path) {
            Ok((mut found, problems)) => {
                units.append(&mut found);
                for (path, why) in problems {
                    keeper.fail(&path, &Failed { id: None, class: "unreadable", message: why })?;
                }
            }
            Err(error) => keeper.fail(path, &Failed::io(&error))?,
        }
    }
    // What is in the lake when the run begins; what the run itself meets twice, the keeper sees.
    let known = keeper.lake.ids().clone();
    let (next, all) = (AtomicUsize::new(0), units.len());
    thread::scope(|scope| {
        let (send, receive) = sync_channel::<Told>(2 * asked.threads.max(1));
        for _ in 0..asked.threads.max(1) {
            let (send, units, next, known) = (send.clone(), &units, &next, &known);
            scope.spawn(move || {
                while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let read = || reading::read(unit, asked.cluster.as_deref(), &|id| known.contains(id));
                    let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(defect()));
                    if send.send((unit.clone(), read)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (done, (unit, read)) in receive.iter().enumerate() {
            keeper.take(&unit, read)?;
            progress(done + 1, all);
        }
        keeper.flush()
    })?;
    Ok(keeper.summary)
}

fn defect() -> Failed {
    let message = "a defect of hugewise ended its reading; hugewise check --root shows where".to_owned();
    Failed { id: None, class: "defect", message }
}

struct Keeper<'a> {
    lake: Lake,
    batch: Batch,
    summary: Summary,
    asked: &'a Asked,
}

impl Keeper<'_> {
    fn has(&self, id: &Id) -> bool {
        self.lake.has(id) || self.batch.ids.contains(id)
    }

    fn take(&mut self, unit: &Unit, read: Result<Option<Taken>, Failed>) -> io::Result<()> {
        let read = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.summary.already += 1;
                return Ok(());
            }
            Err(failed) => return self.fail(&unit.path, &failed),
        };
        if self.has(&read.id) {
            self.summary.already += 1;
            return Ok(());
        }
        self.summary.add(&read);
        let key = read.whose.host.clone().unwrap_or_else(|| read.whose.capture.clone());
        if let Some(torn) = &read.torn {
            self.failure(&unit.path, &read.whose, "torn", torn, true);
        }
        for row in read.rows {
            self.batch.add(Partition::new(row.0, read.whose.captured_at, &key), row);
        }
        self.batch.ids.insert(read.id);
        if self.batch.size >= MOST_WAITING { self.flush() } else { Ok(()) }
    }

    fn fail(&mut self, path: &std::path::Path, failed: &Failed) -> io::Result<()> {
        let shown = plain::clean(&path.to_string_lossy()).into_owned();
        // What has no bytes to be known by fails once a day.
        let day = hugewise_report::date::day(self.asked.now).unwrap_or_default();
        let id = failed.id.unwrap_or_else(|| Sha256::digest(format!("{shown}\0{}\0{day}", failed.class)).into());
        let known = self.has(&id);
        if known && failed.id.is_some() {
            self.summary.already += 1;
            return Ok(());
        }
        let whose = Whose { capture: hex(&id), host: None, cluster: self.asked.cluster.clone(), captured_at: None };
        if known {
            self.summary.failures.push(Failure::new(&shown, failed.class, &failed.message));
            return Ok(());
        }
        self.failure(path, &whose, failed.class, &failed.message, false);
        self.batch.ids.insert(id);
        if self.batch.size >= MOST_WAITING { self.flush() } else { Ok(()) }
    }

    fn failure(&mut self, path: &std::path::Path, whose: &Whose, class: &'static str, message: &str, kept: bool) {
        let failure = Failure::new(&plain::clean(&path.to_string_lossy()), class, message);
        let at = Cell::Time(self.asked.now.saturating_mul(1000));
        let own = [text(&failure.path), text(class), text(&failure.message), at, Cell::Flag(kept)];
        let key = whose.host.as_deref().unwrap_or(&whose.capture);
        let partition = Partition::new(Place::Failures, Some(self.asked.now), key);
        self.batch.add(partition, whose.row(Place::Failures, own));
        self.summary.failures.push(failure);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lake.put(std::mem::take(&mut self.batch))
    }
}

#[cfg(test)]
mod tests;
