//! Reads captures on all cores and puts their rows into a lake, a batch at a time: what waits for the disk is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_report::parquet::Cell;
use hugewise_report::plain;
use sha2::{Digest, Sha256};

use crate::archives;
use crate::bundle::{self, Content, Member};
use crate::clusters::Clusters;
use crate::failed::Failed;
use crate::id::{Id, hex};
use crate::lake::{self, Batch, Lake, Of, Partition};
use crate::reading::{self, Taken};
use crate::rows::{Whose, text};
use crate::schema::Place;
use crate::sources::{self, At, Unit};
#[cfg(feature = "store")]
use crate::store::Captures;
use crate::summary::{Failure, Summary};

/// Rows that wait for the disk, in bytes: more captures make more rows of files, not more files.
const MOST_WAITING: usize = 32 << 20;
/// Or as long as the first of them waits: a kill loses no more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// In seconds.
const DAY: i64 = 86_400;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Captures, bundles, and folders of them; `-` is what comes as input.
    pub paths: Vec<PathBuf>,
    /// The folder of the tables.
    pub lake: PathBuf,
    /// The clusters of these hosts.
    pub clusters: Clusters,
    /// The keys to buckets and containers.
    #[cfg(feature = "store")]
    pub credentials: crate::store::Credentials,
    /// Names of the hosts that ought to be in the tables.
    pub expected: Vec<String>,
    /// Days after which the last capture of an expected host is stale.
    pub stale_days: u32,
    /// Now, in seconds since the epoch.
    pub now: i64,
    /// How many captures are read at the same time.
    pub threads: usize,
}

/// What is read from standard input.
const INPUT: &str = "-";
/// How addresses of object storage that is read begin: of what speaks S3, of Google's, of Azure's.
pub const STORES: [&str; 3] = ["s3://", "gs://", "az://"];

/// Whether that is such an address, and no path.
pub fn is_stored(path: &Path) -> bool {
    STORES.iter().any(|scheme| path.as_os_str().as_encoded_bytes().starts_with(scheme.as_bytes()))
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Captures that are done.
    pub done: usize,
    /// Captures that were found so far: more come while folders and streams are gone through.
    pub found: usize,
    /// Those of the done that failed.
    pub failed: usize,
}

/// What the workers send: where it was found, and what came of it.
type Told = (PathBuf, Result<Option<Taken>, Failed>);

/// Reads all that was asked for; `input` is what the path `-` stands for.
///
/// # Errors
/// The lake cannot be written. What could not be read is in the summary and in the table `failures`, and no error.
pub fn collect(
    asked: &Asked,
    input: &mut (dyn Read + Send),
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Summary> {
    let lake = Lake::open(&asked.lake)?;
    let mut keeper = Keeper {
        lake,
        batch: Batch::default(),
        since: Instant::now(),
        summary: Summary::default(),
        asked,
        others: Vec::new(),
        archived: BTreeSet::new(),
    };
    // What is in the lake when the run begins; what the run itself meets twice, the keeper sees.
    let known = keeper.lake.ids();
    let threads = asked.threads.max(1);
    let found = AtomicUsize::new(0);
    let lake = keeper.lake.real_path()?;
    thread::scope(|scope| {
        // Both are short: what is held on its way is bounded.
        let (give, units) = sync_channel::<Unit>(threads);
        let (tell, told) = sync_channel::<Told>(2 * threads);
        let units = Arc::new(Mutex::new(units));
        for _ in 0..threads {
            let (tell, units, known) = (tell.clone(), Arc::clone(&units), &known);
            scope.spawn(move || {
                while let Some(unit) = next(&units) {
                    let path = unit.path.clone();
                    let read = || reading::read(unit, &asked.clusters, &|id| known.contains(id));
                    let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(defect()));
                    if tell.send((path, read)).is_err() {
                        return;
                    }
                }
            });
        }
        // Without workers there is nobody to give to: one that cannot write ends them all.
        drop(units);
        let found = &found;
        scope.spawn(move || Feeder { give, tell, found, asked, lake }.feed(input));
        for (done, (path, read)) in told.iter().enumerate() {
            keeper.take(&path, read)?;
            let failed = keeper.summary.failures.len();
            progress(Progress { done: done + 1, found: found.load(Ordering::Relaxed), failed });
        }
        keeper.flush()
    })?;
    keeper.archives()?;
    keeper.miss()?;
    Ok(keeper.summary)
}

fn next(units: &Mutex<Receiver<Unit>>) -> Option<Unit> {
    units.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Finds the captures and gives them to the workers, and what it cannot go through to the keeper.
struct Feeder<'a> {
    give: SyncSender<Unit>,
    tell: SyncSender<Told>,
    found: &'a AtomicUsize,
    asked: &'a Asked,
    /// Whose files are no captures, wherever it is.
    lake: PathBuf,
}

impl Feeder<'_> {
    fn feed(&self, input: &mut dyn Read) {
        for path in &self.asked.paths {
            let more = if path.as_os_str() == INPUT {
                self.bundle(path, &mut *input, false)
            } else if is_stored(path) {
                self.store(path)
            } else {
                self.path(path)
            };
            if !more {
                return;
            }
        }
    }

    #[cfg(feature = "store")]
    fn store(&self, path: &Path) -> bool {
        let captures: Arc<dyn Captures> = match crate::store::captures(&path.to_string_lossy(), &self.asked.credentials)
        {
            Ok(captures) => captures.into(),
            Err(error) => {
                let message = error.to_string();
                return self.failed(path.to_owned(), Failed::new("unreadable", message));
            }
        };
        let mut more = true;
        captures.each(&mut |object| {
            more = match object {
                Ok((key, size)) => {
                    let path = PathBuf::from(captures.path(&key));
                    self.unit(Unit { path, at: At::Stored(Arc::clone(&captures), key, size) })
                }
                Err(failed) => self.failed(path.to_owned(), failed),
            };
            more
        });
        more
    }

    #[cfg(not(feature = "store"))]
    fn store(&self, path: &Path) -> bool {
        let message = "this hugewise was built without object storage (feature store)".to_owned();
        self.failed(path.to_owned(), Failed::new("unreadable", message))
    }

    /// Whether somebody still wants more.
    fn path(&self, path: &Path) -> bool {
        let sources::Found { units, problems } = match sources::at(path, &self.lake) {
            Ok(found) => found,
            Err(error) => return self.failed(path.to_owned(), Failed::io(&error)),
        };
        let denied = io::Error::from(rustix::io::Errno::ACCESS).to_string();
        for (path, why) in problems {
            let class = if why == denied { "denied" } else { "unreadable" };
            if !self.failed(path, Failed::new(class, why)) {
                return false;
            }
        }
        units.into_iter().all(|unit| match unit.bundled() {
            Some(file) => self.bundle(&unit.path, &file, true),
            None => self.unit(unit),
        })
    }

    /// `is_file` of one that is a file, or a member of the input: what it holds are captures, no bundles.
    fn bundle(&self, path: &Path, stream: impl Read, is_file: bool) -> bool {
        let mut more = true;
        let ended = bundle::each(stream, &mut |member| {
            more = match member {
                Ok(Member { name, content }) => self.member(within(path, &name), content, is_file),
                Err((name, failed)) => self.failed(within(path, &name), failed),
            };
            more
        });
        match ended {
            Ok(()) => more,
            Err(failed) => more && self.failed(path.to_owned(), failed),
        }
    }

    fn member(&self, path: PathBuf, content: Content, is_files: bool) -> bool {
        let nested = match &content {
            Content::Bytes(bytes) => bundle::is_one(bytes.as_slice()),
            Content::File(file) => {
                let nested = bundle::is_one(file);
                let mut file: &File = file;
                if let Err(error) = file.rewind() {
                    return self.failed(path, Failed::io(&error));
                }
                nested
            }
        };
        if nested && !is_files {
            return match content {
                Content::Bytes(bytes) => self.bundle(&path, bytes.as_slice(), true),
                Content::File(file) => self.bundle(&path, &file, true),
            };
        }
        if nested {
            let message = "is a bundle within a bundle, which is not read: unpack it first".to_owned();
            return self.failed(path, Failed::new("not_a_capture", message));
        }
        self.unit(Unit { path, at: At::Held(content) })
    }

    fn unit(&self, unit: Unit) -> bool {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.give.send(unit).is_ok()
    }

    fn failed(&self, path: PathBuf, failed: Failed) -> bool {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.tell.send((path, Err(failed))).is_ok()
    }
}

/// `captures.tar:db7.tar.gz`.
fn within(bundle: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("{}:{name}", bundle.display()))
}

/// Whether a path is that of a member of the bundle.
fn is_within(path: &Path, bundle: &Path) -> bool {
    let rest = path.to_str().and_then(|path| path.strip_prefix(&*bundle.to_string_lossy()));
    rest.is_some_and(|rest| rest.starts_with(':'))
}

/// When a host was captured last, by the name that it gives itself or by the first part of that; `None` where it never was. A
/// moment after `latest` counts where there is no other.
fn captured(hosts: &BTreeMap<String, Option<i64>>, name: &str, latest: i64) -> Option<Option<i64>> {
    let name = name.to_ascii_lowercase();
    let short = |host: &str| host.split('.').next().unwrap_or_default().to_owned();
    let alike = |host: &str| {
        // A name without a domain is anybody's of that name.
        host == name || (!(host.contains('.') && name.contains('.')) && short(host) == short(&name))
    };
    let found = hosts.iter().filter(|(host, _)| alike(host)).map(|(_, at)| *at);
    found.max_by_key(|at| lake::by_age(*at, latest))
}

fn defect() -> Failed {
    let message = "a defect of hugewise ended its reading; hugewise check --root shows where".to_owned();
    Failed::new("defect", message)
}

struct Keeper<'a> {
    lake: Lake,
    batch: Batch,
    /// When the batch was begun.
    since: Instant,
    summary: Summary,
    asked: &'a Asked,
    /// Files that are no captures and begin as archives do.
    others: Vec<(PathBuf, Failed)>,
    /// What was given and has archives in it.
    archived: BTreeSet<PathBuf>,
}

impl Keeper<'_> {
    fn has(&self, id: &Id) -> bool {
        self.lake.has(id) || self.batch.ids.contains_key(id)
    }

    fn take(&mut self, path: &Path, read: Result<Option<Taken>, Failed>) -> io::Result<()> {
        let read = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.summary.already += 1;
                return Ok(());
            }
            // It was never meant as a capture: sos leaves one beside each of its archives.
            Err(failed) if failed.is_checksum => return Ok(()),
            Err(failed) if failed.archive && self.given(path).is_some() => {
                self.others.push((path.to_owned(), failed));
                return Ok(());
            }
            Err(failed) => return self.fail(path, &failed),
        };
        if read.archives
            && let Some(given) = self.given(path).cloned()
        {
            self.archived.insert(given);
        }
        self.add(path, read)
    }

    /// What was given that has the path in it; `None` for what came through a stream or from a store, which is not read twice.
    fn given(&self, path: &Path) -> Option<&PathBuf> {
        let has = |given: &&PathBuf| path.starts_with(given) || is_within(path, given);
        self.asked.paths.iter().filter(|given| given.as_os_str() != INPUT && !is_stored(given)).find(has)
    }

    /// Reads what collectors left, where there is any, and says of the rest that it is no capture.
    fn archives(&mut self) -> io::Result<()> {
        let others = std::mem::take(&mut self.others);
        let mut paths = std::mem::take(&mut self.archived);
        paths.extend(others.iter().filter_map(|(path, _)| self.given(path).cloned()));
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let mut wrong = None;
        let asked = self.asked;
        let found = archives::read(&paths, &asked.clusters, &mut |taken| {
            if wrong.is_none() && !self.has(&taken.id) {
                wrong = self.add(Path::new(""), taken).err();
            }
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        if let (true, Some(why), Some(path)) = (others.is_empty(), &found.wrong, paths.first()) {
            self.fail(path, &Failed::new("unreadable", format!("its archives: {why}")))?;
        }
        for (path, failed) in others {
            if !found.has(&path.to_string_lossy()) {
                self.fail(&path, &failed)?;
            }
        }
        self.flush()
    }

    fn add(&mut self, path: &Path, read: Taken) -> io::Result<()> {
        if self.has(&read.id) {
            self.summary.already += 1;
            return Ok(());
        }
        self.summary.add(&read);
        let key = read.whose.host.clone().unwrap_or_else(|| read.whose.capture.clone());
        if let Some(torn) = &read.torn {
            self.failure(path, &read.whose, "torn", torn, true);
        }
        for row in read.rows {
            self.batch.add(Partition::new(row.0, read.whose.captured_at, &key), row);
        }
        self.batch.ids.insert(read.id, Of { host: read.whose.host, at: read.whose.captured_at });
        self.due()
    }

    fn fail(&mut self, path: &Path, failed: &Failed) -> io::Result<()> {
        let shown = plain::clean(&path.to_string_lossy()).into_owned();
        // What has no bytes to be known by fails once a day.
        let day = hugewise_report::date::day(self.asked.now).unwrap_or_default();
        let id = failed.id.unwrap_or_else(|| Sha256::digest(format!("{shown}\0{}\0{day}", failed.class)).into());
        let known = self.has(&id);
        if known && failed.id.is_some() {
            self.summary.already += 1;
            return Ok(());
        }
        let cluster = self.asked.clusters.of(None).map(str::to_owned);
        let whose = Whose { capture: hex(&id), host: None, cluster, captured_at: None };
        if known {
            self.summary.failures.push(Failure::new(&shown, failed.class, &failed.message));
            return Ok(());
        }
        self.failure(path, &whose, failed.class, &failed.message, false);
        self.batch.ids.insert(id, Of::default());
        self.due()
    }

    /// Says which hosts that ought to be there are not, or have not been for long. It is looked for in all tables, not in this
    /// run alone.
    fn miss(&mut self) -> io::Result<()> {
        // A clock may be ahead a little. What is from later than that says nothing about how old it is.
        let latest = self.asked.now.saturating_add(DAY);
        let hosts = self.lake.hosts(latest);
        let since = self.asked.now.saturating_sub(i64::from(self.asked.stale_days).saturating_mul(DAY));
        let mut seen = BTreeSet::new();
        for name in &self.asked.expected {
            if !seen.insert(name.to_ascii_lowercase()) {
                continue;
            }
            let captured = captured(&hosts, name, latest);
            let (class, message) = match captured {
                None => ("absent", "no capture of it is in the tables".to_owned()),
                Some(Some(at)) if at > latest => {
                    let day = hugewise_report::date::day(at).unwrap_or_default();
                    ("stale", format!("its captures are from the future ({day}): its clock is wrong"))
                }
                Some(Some(at)) if at < since => {
                    let day = hugewise_report::date::day(at).unwrap_or_default();
                    ("stale", format!("its last capture is from {day}"))
                }
                Some(_) => continue,
            };
            match class {
                "absent" => self.summary.absent.push(name.clone()),
                _ => self.summary.stale.push(name.clone()),
            }
            // Once a day, as what has no bytes to be known by.
            let day = hugewise_report::date::day(self.asked.now).unwrap_or_default();
            let id: Id = Sha256::digest(format!("{name}\0{class}\0{day}")).into();
            if self.has(&id) {
                continue;
            }
            let cluster = self.asked.clusters.of(Some(name)).map(str::to_owned);
            let captured_at = captured.flatten();
            let whose = Whose { capture: hex(&id), host: Some(name.clone()), cluster, captured_at };
            self.row(Path::new(name), &whose, class, &message, false);
            self.batch.ids.insert(id, Of::default());
        }
        self.flush()
    }

    fn failure(&mut self, path: &Path, whose: &Whose, class: &'static str, message: &str, kept: bool) {
        self.row(path, whose, class, message, kept);
        self.summary.failures.push(Failure::new(&plain::clean(&path.to_string_lossy()), class, message));
    }

    fn row(&mut self, path: &Path, whose: &Whose, class: &'static str, message: &str, kept: bool) {
        let failure = Failure::new(&plain::clean(&path.to_string_lossy()), class, message);
        let at = Cell::Time(self.asked.now.saturating_mul(1000));
        let own = [text(&failure.path), text(class), text(&failure.message), at, Cell::Flag(kept)];
        let key = whose.host.as_deref().unwrap_or(&whose.capture);
        let partition = Partition::new(Place::Failures, Some(self.asked.now), key);
        self.batch.add(partition, whose.row(Place::Failures, own));
    }

    /// Puts the batch in where it is large or old enough.
    fn due(&mut self) -> io::Result<()> {
        if self.batch.ids.len() == 1 {
            self.since = Instant::now();
        }
        let is_due = self.batch.size >= MOST_WAITING || self.since.elapsed() >= LONGEST_WAIT;
        if is_due { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lake.put(std::mem::take(&mut self.batch))
    }
}

#[cfg(test)]
mod tests;
