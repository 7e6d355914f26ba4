//! Reads captures on all cores and puts their rows into a lake, a batch at a time: what waits for
//! the disk is bounded.

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

use hugewise_report::parquet::ParquetCell;
use hugewise_report::plain;
use sha2::{Digest, Sha256};

use crate::archives;
use crate::bundle::{self, BundleMember, CaptureContent};
use crate::capture_failure::CaptureFailure;
use crate::capture_id::{Id, to_hex};
use crate::capture_reader::{self, CollectedCapture};
use crate::capture_sources::{self, CaptureLocation, CaptureUnit};
use crate::clusters::Clusters;
use crate::lake::{self, CaptureOrigin, Lake, LakeBatch, Partition};
use crate::rows::{Whose, text_cell};
use crate::schema::LakeTableId;
#[cfg(feature = "store")]
use crate::store::Captures;
use crate::summary::{CollectFailure, CollectSummary};

/// Rows that wait for the disk, in bytes: more captures make more rows of files, not more files.
const MOST_WAITING: usize = 32 << 20;
/// Or as long as the first of them waits: a kill loses no more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// In seconds.
const DAY: i64 = 86_400;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct CollectRequest {
    /// Captures, bundles, and folders of them; `-` is what comes as input.
    pub paths: Vec<PathBuf>,
    /// The folder of the tables.
    pub lake: PathBuf,
    /// The clusters of these hosts.
    pub clusters: Clusters,
    /// The keys to buckets and containers.
    #[cfg(feature = "store")]
    pub credentials: crate::store::StoreCredentials,
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
pub struct CollectProgress {
    /// Captures that are done.
    pub done: usize,
    /// Captures that were found so far: more come while folders and streams are gone through.
    pub found: usize,
    /// Those of the done that failed.
    pub failed: usize,
}

/// What the workers send: where it was found, and what came of it.
type WorkerMessage = (PathBuf, Result<Option<CollectedCapture>, CaptureFailure>);

/// Reads all that was asked for; `input` is what the path `-` stands for.
///
/// # Errors
/// The lake cannot be written. What could not be read is in the summary and in the table
/// `failures`, and no error.
pub fn collect_captures(
    asked: &CollectRequest,
    input: &mut (dyn Read + Send),
    progress: &mut dyn FnMut(CollectProgress),
) -> io::Result<CollectSummary> {
    let lake = Lake::open(&asked.lake)?;
    let mut keeper = Keeper {
        lake,
        batch: LakeBatch::default(),
        since: Instant::now(),
        summary: CollectSummary::default(),
        asked,
        others: Vec::new(),
        archived: BTreeSet::new(),
    };
    // What is in the lake when the run begins; what the run itself meets twice, the keeper sees.
    let known = keeper.lake.capture_ids();
    let threads = asked.threads.max(1);
    let found = AtomicUsize::new(0);
    let lake = keeper.lake.real_path()?;
    thread::scope(|scope| {
        // Both are short: what is held on its way is bounded.
        let (give, units) = sync_channel::<CaptureUnit>(threads);
        let (tell, told) = sync_channel::<WorkerMessage>(2 * threads);
        let units = Arc::new(Mutex::new(units));
        for _ in 0..threads {
            let (tell, units, known) = (tell.clone(), Arc::clone(&units), &known);
            scope.spawn(move || {
                while let Some(unit) = next(&units) {
                    let path = unit.path.clone();
                    let read =
                        || capture_reader::read(unit, &asked.clusters, &|id| known.contains(id));
                    let read = catch_unwind(AssertUnwindSafe(read))
                        .unwrap_or_else(|_| Err(defect_failure()));
                    if tell.send((path, read)).is_err() {
                        return;
                    }
                }
            });
        }
        // Without workers there is nobody to give to: one that cannot write ends them all.
        drop(units);
        let found = &found;
        scope.spawn(move || Feeder { give, tell, found, asked, lake }.feed_paths(input));
        for (done, (path, read)) in told.iter().enumerate() {
            keeper.handle_result(&path, read)?;
            let failed = keeper.summary.failures.len();
            progress(CollectProgress {
                done: done + 1,
                found: found.load(Ordering::Relaxed),
                failed,
            });
        }
        keeper.flush_batch()
    })?;
    keeper.read_archives()?;
    keeper.report_missing_hosts()?;
    Ok(keeper.summary)
}

fn next(units: &Mutex<Receiver<CaptureUnit>>) -> Option<CaptureUnit> {
    units.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Finds the captures and gives them to the workers, and what it cannot go through to the keeper.
struct Feeder<'a> {
    give: SyncSender<CaptureUnit>,
    tell: SyncSender<WorkerMessage>,
    found: &'a AtomicUsize,
    asked: &'a CollectRequest,
    /// Whose files are no captures, wherever it is.
    lake: PathBuf,
}

impl Feeder<'_> {
    fn feed_paths(&self, input: &mut dyn Read) {
        for path in &self.asked.paths {
            let more = if path.as_os_str() == INPUT {
                self.feed_bundle(path, &mut *input, false)
            } else if is_stored(path) {
                self.feed_store(path)
            } else {
                self.feed_path(path)
            };
            if !more {
                return;
            }
        }
    }

    #[cfg(feature = "store")]
    fn feed_store(&self, path: &Path) -> bool {
        let captures: Arc<dyn Captures> =
            match crate::store::open_store(&path.to_string_lossy(), &self.asked.credentials) {
                Ok(captures) => captures.into(),
                Err(error) => {
                    let message = error.to_string();
                    return self
                        .send_failure(path.to_owned(), CaptureFailure::new("unreadable", message));
                }
            };
        let mut more = true;
        captures.for_each_object(&mut |object| {
            more = match object {
                Ok((key, size)) => {
                    let path = PathBuf::from(captures.display_path(&key));
                    self.send_unit(CaptureUnit {
                        path,
                        at: CaptureLocation::Stored(Arc::clone(&captures), key, size),
                    })
                }
                Err(failed) => self.send_failure(path.to_owned(), failed),
            };
            more
        });
        more
    }

    #[cfg(not(feature = "store"))]
    fn feed_store(&self, path: &Path) -> bool {
        let message = "this hugewise was built without object storage (feature store)".to_owned();
        self.send_failure(path.to_owned(), CaptureFailure::new("unreadable", message))
    }

    /// Whether somebody still wants more.
    fn feed_path(&self, path: &Path) -> bool {
        let capture_sources::FoundCaptures { units, problems } =
            match capture_sources::find_captures(path, &self.lake) {
                Ok(found) => found,
                Err(error) => {
                    return self.send_failure(path.to_owned(), CaptureFailure::from_io(&error));
                }
            };
        let denied = io::Error::from(rustix::io::Errno::ACCESS).to_string();
        for (path, why) in problems {
            let class = if why == denied { "denied" } else { "unreadable" };
            if !self.send_failure(path, CaptureFailure::new(class, why)) {
                return false;
            }
        }
        units.into_iter().all(|unit| match unit.open_bundle() {
            Some(file) => self.feed_bundle(&unit.path, &file, true),
            None => self.send_unit(unit),
        })
    }

    /// `is_file` of one that is a file, or a member of the input: what it holds are captures, no
    /// bundles.
    fn feed_bundle(&self, path: &Path, stream: impl Read, is_file: bool) -> bool {
        let mut more = true;
        let ended = bundle::for_each_member(stream, &mut |member| {
            more = match member {
                Ok(BundleMember { name, content }) => {
                    self.feed_member(path_within(path, &name), content, is_file)
                }
                Err((name, failed)) => self.send_failure(path_within(path, &name), failed),
            };
            more
        });
        match ended {
            Ok(()) => more,
            Err(failed) => more && self.send_failure(path.to_owned(), failed),
        }
    }

    fn feed_member(&self, path: PathBuf, content: CaptureContent, is_files: bool) -> bool {
        let nested = match &content {
            CaptureContent::Bytes(bytes) => bundle::is_one(bytes.as_slice()),
            CaptureContent::File(file) => {
                let nested = bundle::is_one(file);
                let mut file: &File = file;
                if let Err(error) = file.rewind() {
                    return self.send_failure(path, CaptureFailure::from_io(&error));
                }
                nested
            }
        };
        if nested && !is_files {
            return match content {
                CaptureContent::Bytes(bytes) => self.feed_bundle(&path, bytes.as_slice(), true),
                CaptureContent::File(file) => self.feed_bundle(&path, &file, true),
            };
        }
        if nested {
            let message =
                "is a bundle within a bundle, which is not read: unpack it first".to_owned();
            return self.send_failure(path, CaptureFailure::new("not_a_capture", message));
        }
        self.send_unit(CaptureUnit { path, at: CaptureLocation::Held(content) })
    }

    fn send_unit(&self, unit: CaptureUnit) -> bool {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.give.send(unit).is_ok()
    }

    fn send_failure(&self, path: PathBuf, failed: CaptureFailure) -> bool {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.tell.send((path, Err(failed))).is_ok()
    }
}

/// `captures.tar:db7.tar.gz`.
fn path_within(bundle: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("{}:{name}", bundle.display()))
}

/// Whether a path is that of a member of the bundle.
fn is_within(path: &Path, bundle: &Path) -> bool {
    let rest = path.to_str().and_then(|path| path.strip_prefix(&*bundle.to_string_lossy()));
    rest.is_some_and(|rest| rest.starts_with(':'))
}

/// When a host was captured last, by the name that it gives itself or by the first part of that;
/// `None` where it never was. A moment after `latest` counts where there is no other.
fn last_captured(
    hosts: &BTreeMap<String, Option<i64>>,
    name: &str,
    latest: i64,
) -> Option<Option<i64>> {
    let name = name.to_ascii_lowercase();
    let short = |host: &str| host.split('.').next().unwrap_or_default().to_owned();
    let alike = |host: &str| {
        // A name without a domain is anybody's of that name.
        host == name || (!(host.contains('.') && name.contains('.')) && short(host) == short(&name))
    };
    let found = hosts.iter().filter(|(host, _)| alike(host)).map(|(_, at)| *at);
    found.max_by_key(|at| lake::by_age(*at, latest))
}

fn defect_failure() -> CaptureFailure {
    let message =
        "a defect of hugewise ended its reading; hugewise check --root shows where".to_owned();
    CaptureFailure::new("defect", message)
}

struct Keeper<'a> {
    lake: Lake,
    batch: LakeBatch,
    /// When the batch was begun.
    since: Instant,
    summary: CollectSummary,
    asked: &'a CollectRequest,
    /// Files that are no captures and begin as archives do.
    others: Vec<(PathBuf, CaptureFailure)>,
    /// What was given and has archives in it.
    archived: BTreeSet<PathBuf>,
}

impl Keeper<'_> {
    fn has_capture(&self, id: &Id) -> bool {
        self.lake.has_capture(id) || self.batch.ids.contains_key(id)
    }

    fn handle_result(
        &mut self,
        path: &Path,
        read: Result<Option<CollectedCapture>, CaptureFailure>,
    ) -> io::Result<()> {
        let read = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.summary.already += 1;
                return Ok(());
            }
            // It was never meant as a capture: sos leaves one beside each of its archives.
            Err(failed) if failed.is_checksum => return Ok(()),
            Err(failed) if failed.archive && self.find_requested_path(path).is_some() => {
                self.others.push((path.to_owned(), failed));
                return Ok(());
            }
            Err(failed) => return self.record_failed_capture(path, &failed),
        };
        if read.archives
            && let Some(given) = self.find_requested_path(path).cloned()
        {
            self.archived.insert(given);
        }
        self.add(path, read)
    }

    /// What was given that has the path in it; `None` for what came through a stream or from a
    /// store, which is not read twice.
    fn find_requested_path(&self, path: &Path) -> Option<&PathBuf> {
        let has = |given: &&PathBuf| path.starts_with(given) || is_within(path, given);
        self.asked
            .paths
            .iter()
            .filter(|given| given.as_os_str() != INPUT && !is_stored(given))
            .find(has)
    }

    /// Reads what collectors left, where there is any, and says of the rest that it is no capture.
    fn read_archives(&mut self) -> io::Result<()> {
        let others = std::mem::take(&mut self.others);
        let mut paths = std::mem::take(&mut self.archived);
        paths.extend(others.iter().filter_map(|(path, _)| self.find_requested_path(path).cloned()));
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let mut wrong = None;
        let asked = self.asked;
        let found = archives::read(&paths, &asked.clusters, &mut |taken| {
            if wrong.is_none() && !self.has_capture(&taken.id) {
                wrong = self.add(Path::new(""), taken).err();
            }
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        if let (true, Some(why), Some(path)) = (others.is_empty(), &found.wrong, paths.first()) {
            self.record_failed_capture(
                path,
                &CaptureFailure::new("unreadable", format!("its archives: {why}")),
            )?;
        }
        for (path, failed) in others {
            if !found.has_read(&path.to_string_lossy()) {
                self.record_failed_capture(&path, &failed)?;
            }
        }
        self.flush_batch()
    }

    fn add(&mut self, path: &Path, read: CollectedCapture) -> io::Result<()> {
        if self.has_capture(&read.id) {
            self.summary.already += 1;
            return Ok(());
        }
        self.summary.add(&read);
        let key = read.whose.host.clone().unwrap_or_else(|| read.whose.capture.clone());
        if let Some(torn) = &read.torn {
            self.add_failure(path, &read.whose, "torn", torn, true);
        }
        for row in read.rows {
            self.batch.add(Partition::new(row.0, read.whose.captured_at, &key), row);
        }
        self.batch
            .ids
            .insert(read.id, CaptureOrigin { host: read.whose.host, at: read.whose.captured_at });
        self.flush_if_due()
    }

    fn record_failed_capture(&mut self, path: &Path, failed: &CaptureFailure) -> io::Result<()> {
        let shown = plain::escape_line(&path.to_string_lossy()).into_owned();
        // What has no bytes to be known by fails once a day.
        let day = hugewise_report::date::format_utc_day(self.asked.now).unwrap_or_default();
        let id = failed
            .id
            .unwrap_or_else(|| Sha256::digest(format!("{shown}\0{}\0{day}", failed.class)).into());
        let known = self.has_capture(&id);
        if known && failed.id.is_some() {
            self.summary.already += 1;
            return Ok(());
        }
        let cluster = self.asked.clusters.find_cluster(None).map(str::to_owned);
        let whose = Whose { capture: to_hex(&id), host: None, cluster, captured_at: None };
        if known {
            self.summary.failures.push(CollectFailure::new(&shown, failed.class, &failed.message));
            return Ok(());
        }
        self.add_failure(path, &whose, failed.class, &failed.message, false);
        self.batch.ids.insert(id, CaptureOrigin::default());
        self.flush_if_due()
    }

    /// Says which hosts that ought to be there are not, or have not been for long. It is looked for
    /// in all tables, not in this run alone.
    fn report_missing_hosts(&mut self) -> io::Result<()> {
        // A clock may be ahead a little. What is from later than that says nothing about how old it
        // is.
        let latest = self.asked.now.saturating_add(DAY);
        let hosts = self.lake.last_capture_by_host(latest);
        let since =
            self.asked.now.saturating_sub(i64::from(self.asked.stale_days).saturating_mul(DAY));
        let mut seen = BTreeSet::new();
        for name in &self.asked.expected {
            if !seen.insert(name.to_ascii_lowercase()) {
                continue;
            }
            let captured = last_captured(&hosts, name, latest);
            let (class, message) = match captured {
                None => ("absent", "no capture of it is in the tables".to_owned()),
                Some(Some(at)) if at > latest => {
                    let day = hugewise_report::date::format_utc_day(at).unwrap_or_default();
                    (
                        "stale",
                        format!("its captures are from the future ({day}): its clock is wrong"),
                    )
                }
                Some(Some(at)) if at < since => {
                    let day = hugewise_report::date::format_utc_day(at).unwrap_or_default();
                    ("stale", format!("its last capture is from {day}"))
                }
                Some(_) => continue,
            };
            match class {
                "absent" => self.summary.absent.push(name.clone()),
                _ => self.summary.stale.push(name.clone()),
            }
            // Once a day, as what has no bytes to be known by.
            let day = hugewise_report::date::format_utc_day(self.asked.now).unwrap_or_default();
            let id: Id = Sha256::digest(format!("{name}\0{class}\0{day}")).into();
            if self.has_capture(&id) {
                continue;
            }
            let cluster = self.asked.clusters.find_cluster(Some(name)).map(str::to_owned);
            let captured_at = captured.flatten();
            let whose =
                Whose { capture: to_hex(&id), host: Some(name.clone()), cluster, captured_at };
            self.add_failure_row(Path::new(name), &whose, class, &message, false);
            self.batch.ids.insert(id, CaptureOrigin::default());
        }
        self.flush_batch()
    }

    fn add_failure(
        &mut self,
        path: &Path,
        whose: &Whose,
        class: &'static str,
        message: &str,
        kept: bool,
    ) {
        self.add_failure_row(path, whose, class, message, kept);
        self.summary.failures.push(CollectFailure::new(
            &plain::escape_line(&path.to_string_lossy()),
            class,
            message,
        ));
    }

    fn add_failure_row(
        &mut self,
        path: &Path,
        whose: &Whose,
        class: &'static str,
        message: &str,
        kept: bool,
    ) {
        let failure =
            CollectFailure::new(&plain::escape_line(&path.to_string_lossy()), class, message);
        let at = ParquetCell::Time(self.asked.now.saturating_mul(1000));
        let own = [
            text_cell(&failure.path),
            text_cell(class),
            text_cell(&failure.message),
            at,
            ParquetCell::Flag(kept),
        ];
        let key = whose.host.as_deref().unwrap_or(&whose.capture);
        let partition = Partition::new(LakeTableId::Failures, Some(self.asked.now), key);
        self.batch.add(partition, whose.build_row(LakeTableId::Failures, own));
    }

    /// Puts the batch in where it is large or old enough.
    fn flush_if_due(&mut self) -> io::Result<()> {
        if self.batch.ids.len() == 1 {
            self.since = Instant::now();
        }
        let is_due = self.batch.size >= MOST_WAITING || self.since.elapsed() >= LONGEST_WAIT;
        if is_due { self.flush_batch() } else { Ok(()) }
    }

    fn flush_batch(&mut self) -> io::Result<()> {
        self.lake.write_batch(std::mem::take(&mut self.batch))
    }
}

#[cfg(test)]
mod tests;
