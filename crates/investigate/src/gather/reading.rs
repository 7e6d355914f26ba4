//! Reads what was found on all processors, tars entry by entry.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hugewise_host::compressed::{self, MAX_UNPACKED};
use hugewise_host::source::files::{self, OpenedPath};
use hugewise_host::source::{ArchiveSource, FolderSource, tarred};

use super::budget::{FileBudget, MOST_PCP, PROGRAM_WORTH};
use super::places::{GivenFolder, PcpLocation, ReadJob, Where};
use super::scratch::ScratchSpace;
use super::setup::{self, Setup};
use crate::readers::pcp::{self, PcpArchiveParts};
use crate::readers::{self, HEAD, Pasted, Promise};
use crate::request::InvestigationProgress;
use crate::{FileRefused, Series};

#[derive(Debug)]
pub(crate) struct FileOutcome {
    pub(crate) job: usize,
    /// Its path in the tar; empty for a file by itself.
    pub(crate) entry: String,
    pub(crate) label: String,
    pub(crate) root: Option<String>,
    pub(crate) what: FileContents,
}

#[derive(Debug)]
pub(crate) enum FileContents {
    /// A series for each host in it.
    Series(Vec<Series>),
    Refused(String),
    Unknown,
    /// Compressed in a way that is not supported.
    Packed,
    /// A part of a PCP archive.
    Pcp,
    Host(Box<Setup>),
    /// Entries of a tar that were not read.
    LeftOut(usize),
}

impl FileContents {
    fn from_archive(read: Result<Series, FileRefused>) -> Self {
        match read {
            Ok(series) => Self::Series(vec![series]),
            Err(FileRefused(why)) => Self::Refused(why),
        }
    }

    fn unreadable(error: &io::Error) -> Self {
        Self::Refused(format!("cannot be read: {error}"))
    }
}

/// How all files of a run are read.
#[derive(Default)]
pub(crate) struct RunReading {
    pub(crate) scratch: ScratchSpace,
    pub(crate) pasted: Pasted,
    /// Whether metrics that are only told may be left out.
    pub(crate) judged: bool,
    /// Whether files of a folder are read as if they were given by name.
    pub(crate) as_named: bool,
}

/// Reads the jobs from the `first` on, on all processors, and hands on what comes, in no order.
pub(crate) fn read_jobs(
    jobs: &[ReadJob],
    first: usize,
    run: &RunReading,
    progress: &(dyn Fn(InvestigationProgress) + Sync),
    hand: &(dyn Fn(FileOutcome) + Sync),
) {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    // The largest first: the last one to end is then a small one.
    let mut order: Vec<(usize, &ReadJob)> = jobs.iter().enumerate().skip(first).collect();
    order.sort_by_key(|(_, job)| std::cmp::Reverse(job.size));
    let work = || {
        while let Some((at, job)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            read_job(*at, job, None, run, hand);
            let read = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(InvestigationProgress { read, found: order.len() });
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(order.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

struct JobReader<'a> {
    at: usize,
    job: &'a ReadJob,
    label: String,
    wanted: Option<&'a BTreeSet<String>>,
    run: &'a RunReading,
    hand: &'a (dyn Fn(FileOutcome) + Sync),
    budget: FileBudget,
}

/// Where `wanted` names entries of a job, only these are read.
pub(crate) fn read_job(
    at: usize,
    job: &ReadJob,
    wanted: Option<&BTreeSet<String>>,
    run: &RunReading,
    hand: &(dyn Fn(FileOutcome) + Sync),
) {
    let (label, budget) = (job.label(), FileBudget::default());
    let reader = JobReader { at, job, label, wanted, run, hand, budget };
    let opened = match &job.at {
        Where::Given(path) => match files::open_path(path) {
            Ok(OpenedPath::File(file, _)) => Ok(file),
            Ok(OpenedPath::Folder(_)) => {
                Err(FileContents::unreadable(&io::Error::other("is a folder now")))
            }
            Err(error) => Err(FileContents::unreadable(&error)),
        },
        Where::Below(folder, path) => {
            folder.opened.open_file(path).map_err(|error| FileContents::unreadable(&error))
        }
        Where::Pcp(archive) => Err(FileContents::from_archive(reader.read_pcp_copy(archive))),
        Where::Host(folder, path) => {
            let opened = FolderSource::open(&folder.opened.descriptor_path().join(path));
            Err(opened.map_or(FileContents::Unknown, |host| {
                FileContents::Host(Box::new(setup::read(&host, &reader.label)))
            }))
        }
    };
    match opened {
        Ok(file) => {
            let again = file.try_clone();
            reader.read_any_file(reader.budget.count_input(file), again, "", &reader.label, 0);
            reader.report_excess();
        }
        Err(what) => reader.report_outcome("", &reader.label, job.root_name(), what),
    }
}

impl JobReader<'_> {
    fn report_outcome(&self, entry: &str, label: &str, root: Option<String>, what: FileContents) {
        let (job, entry, label) = (self.at, entry.to_owned(), label.to_owned());
        (self.hand)(FileOutcome { job, entry, label, root, what });
    }

    /// Says what was left out of a file that holds more than is read.
    fn report_excess(&self) {
        if self.wanted.is_some() {
            return;
        }
        let (label, root) = (&self.label, || self.job.root_name());
        if let Some(why) = self.budget.describe_excess() {
            self.report_outcome("", label, root(), FileContents::Refused(why));
        }
        let left_out = self.budget.entries_left_out();
        if left_out > 0 {
            self.report_outcome("", label, root(), FileContents::LeftOut(left_out));
        }
    }

    /// Copies a PCP archive's parts out of its folder: who reads them may not come near other files.
    fn read_pcp_copy(&self, archive: &PcpLocation) -> Result<Series, FileRefused> {
        let wrong = |error: io::Error| FileRefused(format!("cannot be read: {error}"));
        let folder = self.run.scratch.create_folder().map_err(wrong)?;
        let mut bytes = 0;
        let copied = PcpArchiveParts::in_folder(folder.clone()).and_then(|parts| {
            for name in &archive.parts {
                let packed = self.budget.count_input(archive.folder.open_file(name)?);
                let unpacked = self.budget.open_decompressed(packed)?;
                parts.add(&name.to_string_lossy(), unpacked, |stream, file| {
                    let filled = self.run.scratch.fill_file(stream, file);
                    bytes += file.metadata().map_or(0, |facts| facts.len());
                    filled
                })?;
            }
            Ok(parts)
        });
        let read = copied.map_err(wrong).and_then(|parts| parts.read(&self.label));
        let _ = std::fs::remove_dir_all(folder);
        self.run.scratch.release_bytes(bytes);
        read
    }

    /// `again` is the same file for a second reading.
    fn read_any_file(
        &self,
        file: impl Read,
        again: io::Result<File>,
        entry: &str,
        label: &str,
        depth: usize,
    ) {
        let root = self.job.root_name();
        let head = self
            .budget
            .open_decompressed(file)
            .and_then(|mut plain| Ok((read_head(&mut plain)?, plain)));
        let (head, plain) = match head {
            Ok(opened) => opened,
            Err(error) if is_packed(&error) && !self.job.named => {
                return self.report_outcome(entry, label, root, FileContents::Packed);
            }
            Err(error) => {
                let what =
                    self.classify_lost_file(Promise::None, format!("cannot be read: {error}"));
                return self.report_outcome(entry, label, root, what);
            }
        };
        if tarred::is_tar(&head) {
            return self.read_tar(Cursor::new(head).chain(plain), again, entry, label, depth);
        }
        let what = self.read_plain_file(&head, plain, label, self.job.named && depth == 0);
        self.report_outcome(entry, label, root, what);
    }

    fn read_plain_file(
        &self,
        head: &[u8],
        rest: impl Read,
        label: &str,
        named: bool,
    ) -> FileContents {
        let promise = Promise::from_head(head);
        if promise == Promise::Part {
            return FileContents::Pcp;
        }
        // Without a day, they would be of 1970 among others.
        let is_dated = self.run.pasted.began.is_some() && promise != Promise::Sure;
        let as_named = named || self.run.as_named || is_dated && readers::is_unmistakable(head);
        if promise == Promise::None && !as_named {
            return FileContents::Unknown;
        }
        // Whoever says how far apart lines are says it of all files.
        let may = as_named || self.run.pasted.interval.is_some();
        match readers::read_as(
            Cursor::new(head).chain(rest),
            label,
            readers::ReadingMode {
                pasted: may.then_some(self.run.pasted),
                judged: self.run.judged,
                budget: Some(&self.budget),
            },
        ) {
            Ok(series) => FileContents::Series(series),
            Err(FileRefused(why)) if named => FileContents::Refused(why),
            Err(FileRefused(why)) => self.classify_lost_file(promise, why),
        }
    }

    fn classify_lost_file(&self, promise: Promise, why: String) -> FileContents {
        let is_given = self.job.named && self.wanted.is_none();
        match promise {
            Promise::Sure | Promise::Part => FileContents::Refused(why),
            Promise::None if is_given => FileContents::Refused(why),
            Promise::None | Promise::Faint | Promise::Likely => FileContents::Unknown,
        }
    }

    fn read_tar(
        &self,
        plain: impl Read,
        again: io::Result<File>,
        entry: &str,
        label: &str,
        depth: usize,
    ) {
        let left = Cell::new(MAX_UNPACKED);
        let mut is_host = false;
        let mut unpacked: BTreeMap<String, PcpArchiveParts> = BTreeMap::new();
        let root = || Some(label.to_owned());
        let tarred = tarred::for_each_file(plain, &mut |path, _, content| {
            is_host |= is_of_captured_host(path);
            let inner = if entry.is_empty() { path.to_owned() } else { format!("{entry}:{path}") };
            if is_kernels(path) || !self.is_entry_wanted(&inner) || !self.budget.claim_entries(1) {
                return;
            }
            let shown = format!("{label}:{path}");
            let mut bounded = UnpackBudget { stream: content, left: &left };
            let what = if pcp::archive_base(path).is_some() || is_named_as_tar(path) {
                match self.spool_entry(&mut bounded, path, &mut unpacked) {
                    Ok(None) => return,
                    Ok(Some(_)) if depth > 0 && is_named_as_tar(path) => FileContents::Refused(
                        "is a tar within a tar within a tar, which is not read".to_owned(),
                    ),
                    Ok(Some(file)) => {
                        let again = file.try_clone();
                        return self.read_any_file(file, again, &inner, &shown, depth + 1);
                    }
                    Err(error) => FileContents::unreadable(&error),
                }
            } else {
                self.read_packed_entry(bounded, &left, &shown)
            };
            self.report_outcome(&inner, &shown, root(), what);
        });
        let problem = match tarred {
            Ok(tarred) => tarred.torn,
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = problem.filter(|_| self.wanted.is_none()) {
            self.report_outcome(entry, label, None, FileContents::Refused(why));
        }
        self.read_pcp_archives(&unpacked, entry, label);
        if is_host && self.wanted.is_none() && self.budget.claim_entries(PROGRAM_WORTH) {
            self.report_outcome(entry, label, root(), read_captured_host(again, label));
        }
    }

    /// Whether an entry, or one in a tar that it is, has rows that are wanted.
    fn is_entry_wanted(&self, inner: &str) -> bool {
        self.wanted.is_none_or(|all| {
            let from = (Bound::Included(inner), Bound::Unbounded);
            all.range::<str, _>(from).next().is_some_and(|one| one.starts_with(inner))
        })
    }

    fn read_packed_entry(&self, stream: impl Read, left: &Cell<u64>, label: &str) -> FileContents {
        // Entries compressed by themselves are bounded with the rest.
        let what = self.budget.open_decompressed(stream).and_then(|plain| {
            let mut plain = UnpackBudget { stream: plain, left };
            let head = read_head(&mut plain)?;
            Ok(self.read_plain_file(&head, plain, label, false))
        });
        what.unwrap_or_else(|error| {
            if is_packed(&error) { FileContents::Packed } else { FileContents::Unknown }
        })
    }

    /// Unpacks an entry that has to be read by its path, or twice. Parts of PCP archives are kept
    /// together; anything else comes back in a file without a name.
    fn spool_entry(
        &self,
        stream: &mut dyn Read,
        path: &str,
        unpacked: &mut BTreeMap<String, PcpArchiveParts>,
    ) -> io::Result<Option<File>> {
        let mut file = tempfile::tempfile()?;
        self.run.scratch.fill_file(stream, &mut file)?;
        file.rewind()?;
        if let Some(base) = pcp::archive_base(path) {
            let first = compressed::open_decompressed(&mut file)
                .and_then(|mut plain| read_head(&mut plain));
            file.rewind()?;
            if first.is_ok_and(|head| Promise::from_head(&head) == Promise::Part) {
                if !unpacked.contains_key(base) && self.budget.claim_entries(PROGRAM_WORTH) {
                    let parts = PcpArchiveParts::in_folder(self.run.scratch.create_folder()?)?;
                    unpacked.insert(base.to_owned(), parts);
                }
                if let Some(parts) = unpacked.get(base) {
                    let unpacked = self.budget.open_decompressed(file)?;
                    parts.add(path, unpacked, |stream, file| {
                        self.run.scratch.fill_file(stream, file)
                    })?;
                }
                return Ok(None);
            }
        }
        Ok(Some(file))
    }

    fn read_pcp_archives(
        &self,
        unpacked: &BTreeMap<String, PcpArchiveParts>,
        entry: &str,
        label: &str,
    ) {
        for (base, parts) in unpacked {
            let shown = format!("{label}:{base}");
            let what = FileContents::from_archive(parts.read(&shown));
            let inner = if entry.is_empty() { base.clone() } else { format!("{entry}:{base}") };
            self.report_outcome(&inner, &shown, Some(label.to_owned()), what);
            parts.remove_folder();
        }
    }
}

/// Whether a path is a captured host's /proc or /sys: snapshots, no archives.
fn is_kernels(path: &str) -> bool {
    path.split('/').take(2).any(|part| matches!(part, "proc" | "sys"))
}

/// Whether something is a zip that is not supported.
fn is_packed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

fn is_named_as_tar(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

fn is_of_captured_host(path: &str) -> bool {
    let begin: Vec<&str> = path.split('/').take(3).collect();
    begin.iter().take(2).any(|part| matches!(*part, "sos_commands" | "hugewise"))
        || begin.ends_with(&["proc", "meminfo"])
}

fn read_captured_host(tar: io::Result<File>, label: &str) -> FileContents {
    let opened = tar.and_then(|mut file| {
        file.rewind()?;
        let path =
            PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        ArchiveSource::open(&path).map_err(|error| io::Error::other(error.what))
    });
    match opened {
        Ok(archive) => FileContents::Host(Box::new(setup::read(&archive, label))),
        Err(error) => {
            FileContents::Refused(format!("the host's set-up in it cannot be read: {error}"))
        }
    }
}

fn read_head(stream: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    match stream.take(HEAD).read_to_end(&mut head) {
        // A torn file still tells its format.
        Err(error) if head.is_empty() => Err(error),
        _ => Ok(head),
    }
}

struct UnpackBudget<'a, R> {
    stream: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for UnpackBudget<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = u64::try_from(read).ok().and_then(|read| self.left.get().checked_sub(read));
        let left = left.ok_or_else(|| {
            io::Error::other(format!("more than {} GiB unpacked", MAX_UNPACKED >> 30))
        })?;
        self.left.set(left);
        Ok(read)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoArchive {
    #[error("looks like part of a PCP archive, but its name does not end in .0, .meta or .index")]
    Nameless,
    #[error("cannot be read: {0}")]
    Lost(#[from] io::Error),
}

/// Below which folder an archive is, and its base.
type PcpKey = (usize, PathBuf);

/// The files of each PCP archive below a folder that parts were found of.
pub(crate) struct PcpFiles(BTreeMap<PcpKey, Vec<PathBuf>>);

fn pcp_base(path: &Path) -> Option<PathBuf> {
    path.to_str().and_then(pcp::archive_base).map(PathBuf::from)
}

fn pcp_key(job: &ReadJob) -> Option<PcpKey> {
    let Where::Below(folder, path) = &job.at else { return None };
    Some((folder_key(folder), pcp_base(path)?))
}

fn folder_key(folder: &Arc<GivenFolder>) -> usize {
    Arc::as_ptr(folder).addr()
}

impl PcpFiles {
    /// `parts` are the jobs that found one.
    pub(crate) fn new(jobs: &[ReadJob], parts: &[usize]) -> Self {
        let mut files: BTreeMap<PcpKey, Vec<PathBuf>> = BTreeMap::new();
        for key in parts.iter().filter_map(|part| pcp_key(jobs.get(*part)?)) {
            if files.len() < MOST_PCP {
                files.entry(key).or_default();
            }
        }
        if files.is_empty() {
            return Self(files);
        }
        for job in jobs {
            if let Where::Below(_, path) = &job.at
                && let Some(all) = pcp_key(job).and_then(|key| files.get_mut(&key))
            {
                all.push(path.clone());
            }
        }
        Self(files)
    }

    /// Where the archive is that a job found a part of, and its base.
    pub(crate) fn find_archive(&self, job: &ReadJob) -> Result<(PcpLocation, PathBuf), NoArchive> {
        let label = pcp::archive_base(&job.label()).ok_or(NoArchive::Nameless)?.to_owned();
        match &job.at {
            // Whoever gave a link meant its target.
            Where::Given(path) => {
                let base = pcp_base(&path.canonicalize()?).ok_or(NoArchive::Nameless)?;
                let (folder, parts) = pcp::find_archive_parts(&base)?;
                Ok((PcpLocation { folder: Arc::new(folder), parts, label }, base))
            }
            Where::Below(folder, _) => {
                let key = pcp_key(job).ok_or(NoArchive::Nameless)?;
                let parts = self.0.get(&key).cloned().unwrap_or_default();
                let base = folder.opened.real_path()?.join(&key.1);
                Ok((PcpLocation { folder: Arc::clone(&folder.opened), parts, label }, base))
            }
            Where::Pcp(..) | Where::Host(..) => Err(NoArchive::Nameless),
        }
    }
}
