//! Reads what was found, on all processors, tars entry by entry.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hugewise_host::compressed::{self, MAX_UNPACKED};
use hugewise_host::source::files::{self, Below, Given};
use hugewise_host::source::{Archive, Folder, tarred};

use super::places::{Job, Where};
use super::scratch::Scratch;
use super::setup::{self, Setup};
use crate::asked::Progress;
use crate::readers::pcp::{self, Parts};
use crate::readers::{self, HEAD, Promise};
use crate::{Refused, Series};

/// One file that was read, or that was not.
#[derive(Debug)]
pub(crate) struct Found {
    /// Which job.
    pub(crate) job: usize,
    /// Its path in the tar; empty for a file by itself.
    pub(crate) entry: String,
    /// As it is called in reports.
    pub(crate) label: String,
    /// The captured host that it lies in.
    pub(crate) root: Option<String>,
    pub(crate) what: What,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum What {
    /// A series for each host in it.
    Series(Vec<Series>),
    /// It was to be read, and was refused.
    Refused(String),
    /// None of a collector's.
    Unknown,
    /// Packed in a way that is not unpacked.
    Packed,
    /// A part of a PCP archive.
    Pcp,
    /// A captured host.
    Host(Box<Setup>),
}

/// Reads jobs on all processors and hands on what comes, in no order. Where `wanted` names entries of a job, only these.
pub(crate) fn all(
    jobs: &[(usize, &Job, Option<BTreeSet<String>>)],
    scratch: &Scratch,
    progress: &(dyn Fn(Progress) + Sync),
    hand: &(dyn Fn(Found) + Sync),
) {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // The largest first: the last one to end is then a small one.
    order.sort_by_key(|at| std::cmp::Reverse(jobs.get(*at).map_or(0, |(_, job, _)| job.size)));
    let work = || {
        while let Some((at, job, wanted)) = order.get(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| jobs.get(*at))
        {
            one(*at, job, wanted.as_ref(), scratch, hand);
            progress(Progress { read: done.fetch_add(1, Ordering::Relaxed) + 1, found: jobs.len() });
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

struct Reader<'a> {
    at: usize,
    job: &'a Job,
    wanted: Option<&'a BTreeSet<String>>,
    scratch: &'a Scratch,
    hand: &'a (dyn Fn(Found) + Sync),
}

/// Reads one job.
pub(crate) fn one(
    at: usize,
    job: &Job,
    wanted: Option<&BTreeSet<String>>,
    scratch: &Scratch,
    hand: &(dyn Fn(Found) + Sync),
) {
    let reader = Reader { at, job, wanted, scratch, hand };
    let opened = match &job.at {
        Where::Given(path) => match files::open(path) {
            Ok(Given::File(file, _)) => Ok(file),
            Ok(Given::Folder(_)) => Err(io::Error::other("is a folder now")),
            Err(error) => Err(error),
        },
        Where::Below(below, path) => below.open(path),
        Where::Pcp(below, parts) => {
            let what = match reader.copied(below, parts) {
                Ok(series) => What::Series(vec![series]),
                Err(Refused(why)) => What::Refused(why),
            };
            return reader.hand("", &job.label, job.root.clone(), what);
        }
        Where::Host(below, path) => {
            let what = match Folder::open(&below.path().join(path)) {
                Ok(folder) => What::Host(Box::new(setup::read(&folder, &job.label))),
                // A folder that only looks like a host's.
                Err(_) => What::Unknown,
            };
            return reader.hand("", &job.label, job.root.clone(), what);
        }
    };
    match opened {
        Ok(file) => {
            let again = file.try_clone();
            reader.file(file, again, "", &job.label, 0);
        }
        Err(error) => reader.hand("", &job.label, job.root.clone(), What::Refused(format!("cannot be read: {error}"))),
    }
}

impl Reader<'_> {
    fn hand(&self, entry: &str, label: &str, root: Option<String>, what: What) {
        let (job, entry, label) = (self.at, entry.to_owned(), label.to_owned());
        (self.hand)(Found { job, entry, label, root, what });
    }

    /// A PCP archive in a folder. Its parts are copied: who reads them may not come near anything else.
    fn copied(&self, below: &Below, names: &[PathBuf]) -> Result<Series, Refused> {
        let wrong = |error: io::Error| Refused(format!("cannot be read: {error}"));
        let folder = self.scratch.folder().map_err(wrong)?;
        let mut bytes = 0;
        let copied = Parts::into(folder.clone()).and_then(|parts| {
            for name in names {
                parts.add(&name.to_string_lossy(), below.open(name)?, |stream, file| {
                    let filled = self.scratch.fill(stream, file);
                    bytes += file.metadata().map_or(0, |facts| facts.len());
                    filled
                })?;
            }
            Ok(parts)
        });
        let read = copied.map_err(wrong).and_then(|parts| parts.read(&self.job.label));
        // What cannot be removed now is with all of the folder.
        let _ = std::fs::remove_dir_all(folder);
        self.scratch.is_free_of(bytes);
        read
    }

    /// A file of any kind; `again` is the same for a second reading.
    fn file(&self, file: File, again: io::Result<File>, entry: &str, label: &str, depth: usize) {
        let root = self.job.root.clone();
        let head = compressed::open(file).and_then(|mut plain| Ok((head(&mut plain)?, plain)));
        let (head, plain) = match head {
            Ok(opened) => opened,
            Err(error) if is_packed(&error) && !self.job.named => return self.hand(entry, label, root, What::Packed),
            Err(error) => {
                let what = self.lost(Promise::None, format!("cannot be read: {error}"));
                return self.hand(entry, label, root, what);
            }
        };
        if tarred::begins(&head) {
            return self.tar(Cursor::new(head).chain(plain), again, entry, label, depth);
        }
        let what = self.plain(&head, plain, label, self.job.named && depth == 0);
        self.hand(entry, label, root, what);
    }

    /// A plain file that is no tar.
    fn plain(&self, head: &[u8], rest: impl Read, label: &str, named: bool) -> What {
        let promise = Promise::of(head);
        if promise == Promise::Pcp {
            return What::Pcp;
        }
        if promise == Promise::None && !named {
            return What::Unknown;
        }
        // Who says how far apart lines are says it of all files.
        let may = named || self.job.pasted.interval.is_some();
        match readers::read_as(
            Cursor::new(head).chain(rest),
            label,
            readers::How { pasted: may.then_some(self.job.pasted), judged: self.job.judged },
        ) {
            Ok(series) => What::Series(series),
            Err(Refused(why)) if named => What::Refused(why),
            Err(Refused(why)) => self.lost(promise, why),
        }
    }

    /// A file in a folder or tar that was not read: whether that is worth a word.
    fn lost(&self, promise: Promise, why: String) -> What {
        match promise {
            _ if self.job.named && self.wanted.is_none() && promise == Promise::None => What::Refused(why),
            Promise::Sure | Promise::Pcp => What::Refused(why),
            Promise::None | Promise::Likely => What::Unknown,
        }
    }

    fn tar(&self, plain: impl Read, again: io::Result<File>, entry: &str, label: &str, depth: usize) {
        // How much its entries may become when they are unpacked in turn.
        let left = Cell::new(MAX_UNPACKED);
        let mut is_host = false;
        let mut unpacked: Vec<(String, Parts)> = Vec::new();
        let root = || Some(label.to_owned());
        let tarred = tarred::each(plain, &mut |path, _, content| {
            is_host |= path.split('/').take(2).any(|part| matches!(part, "sos_commands" | "hugewise"))
                || path.split('/').take(3).collect::<Vec<_>>().ends_with(&["proc", "meminfo"]);
            let inner = if entry.is_empty() { path.to_owned() } else { format!("{entry}:{path}") };
            if is_kernels(path) || self.wanted.is_some_and(|wanted| !wanted.iter().any(|one| one.starts_with(&inner))) {
                return;
            }
            let shown = format!("{label}:{path}");
            let mut bounded = Bounded { stream: content, left: &left };
            if pcp::base(path).is_some() || is_named_as_tar(path) {
                match self.spool(&mut bounded, path, &mut unpacked) {
                    Ok(None) => {}
                    Ok(Some(_)) if depth > 0 && is_named_as_tar(path) => {
                        let why = "is a tar within a tar within a tar, which is not read".to_owned();
                        self.hand(&inner, &shown, root(), What::Refused(why));
                    }
                    Ok(Some(file)) => {
                        let again = file.try_clone();
                        self.file(file, again, &inner, &shown, depth + 1);
                    }
                    Err(error) => self.hand(&inner, &shown, root(), What::Refused(format!("cannot be read: {error}"))),
                }
                return;
            }
            // Another way of packing makes a file of nothing; what it holds is bounded with the rest.
            let what = compressed::open(bounded).and_then(|plain| {
                let mut plain = Bounded { stream: plain, left: &left };
                let head = head(&mut plain)?;
                Ok(self.plain(&head, plain, &shown, false))
            });
            let lost = |error: io::Error| if is_packed(&error) { What::Packed } else { What::Unknown };
            self.hand(&inner, &shown, root(), what.unwrap_or_else(lost));
        });
        let problem = match tarred {
            Ok(tarred) => tarred.torn,
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = problem.filter(|_| self.wanted.is_none()) {
            self.hand(entry, label, None, What::Refused(why));
        }
        self.archives(&unpacked, entry, label);
        if is_host && self.wanted.is_none() {
            let opened = again.and_then(|mut file| {
                file.rewind()?;
                let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
                Archive::open(&path).map_err(|error| io::Error::other(error.what))
            });
            let what = match opened {
                Ok(archive) => What::Host(Box::new(setup::read(&archive, label))),
                Err(error) => What::Refused(format!("the host's set-up in it cannot be read: {error}")),
            };
            self.hand(entry, label, root(), what);
        }
    }

    /// Unpacks an entry that has to be read by its path, or more than once. What is of PCP is kept with the others of its
    /// archive; anything else is handed back, in a file that has no name.
    fn spool(
        &self,
        stream: &mut dyn Read,
        path: &str,
        unpacked: &mut Vec<(String, Parts)>,
    ) -> io::Result<Option<File>> {
        let mut file = tempfile::tempfile()?;
        self.scratch.fill(stream, &mut file)?;
        file.rewind()?;
        if let Some(base) = pcp::base(path) {
            let first = compressed::open(&mut file).and_then(|mut plain| head(&mut plain));
            file.rewind()?;
            if first.is_ok_and(|head| Promise::of(&head) == Promise::Pcp) {
                if !unpacked.iter().any(|(of, _)| of == base) {
                    unpacked.push((base.to_owned(), Parts::into(self.scratch.folder()?)?));
                }
                if let Some((_, parts)) = unpacked.iter().find(|(of, _)| of == base) {
                    parts.add(path, file, |stream, file| self.scratch.fill(stream, file))?;
                }
                return Ok(None);
            }
        }
        Ok(Some(file))
    }

    /// The archives of PCP that were unpacked.
    fn archives(&self, unpacked: &[(String, Parts)], entry: &str, label: &str) {
        for (base, parts) in unpacked {
            let shown = format!("{label}:{base}");
            let what = match parts.read(&shown) {
                Ok(series) => What::Series(vec![series]),
                Err(Refused(why)) => What::Refused(why),
            };
            let inner = if entry.is_empty() { base.clone() } else { format!("{entry}:{base}") };
            self.hand(&inner, &shown, Some(label.to_owned()), what);
            parts.remove();
        }
    }
}

/// What a captured host has of its kernel's own files: snapshots, no archives.
fn is_kernels(path: &str) -> bool {
    path.split('/').take(2).any(|part| matches!(part, "proc" | "sys"))
}

/// Whether something is a zip that is not read here.
fn is_packed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

fn is_named_as_tar(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst"].iter().any(|suffix| name.ends_with(suffix))
}

fn head(stream: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    match stream.take(HEAD).read_to_end(&mut head) {
        // A torn file tells what it is all the same.
        Err(error) if head.is_empty() => Err(error),
        _ => Ok(head),
    }
}

/// Ends with an error where all together have become too much.
struct Bounded<'a, R> {
    stream: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = u64::try_from(read).ok().and_then(|read| self.left.get().checked_sub(read));
        let left = left.ok_or_else(|| io::Error::other(format!("more than {} GiB unpacked", MAX_UNPACKED >> 30)))?;
        self.left.set(left);
        Ok(read)
    }
}

/// Why a file leads to no PCP archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoArchive {
    #[error("looks like part of a PCP archive, but its name does not end in .0, .meta or .index")]
    Nameless,
    #[error("cannot be read: {0}")]
    Lost(#[from] io::Error),
}

/// The PCP archive that a file in a folder is of, for those that read it by its path: its parts, its base, and as it is
/// called.
///
/// # Errors
/// Its name is of no such archive, or it cannot be found again.
pub(crate) fn pcp_base(job: &Job, jobs: &[Job]) -> Result<(Where, PathBuf, String), NoArchive> {
    let of = |path: &Path| path.to_str().and_then(pcp::base).map(PathBuf::from);
    let label = pcp::base(&job.label).ok_or(NoArchive::Nameless)?.to_owned();
    match &job.at {
        // Whoever gave a link meant what it leads to.
        Where::Given(path) => {
            let base = of(&path.canonicalize()?).ok_or(NoArchive::Nameless)?;
            let (below, parts) = pcp::beside(&base)?;
            Ok((Where::Pcp(Arc::new(below), parts), base, label))
        }
        Where::Below(below, path) => {
            let base = of(path).ok_or(NoArchive::Nameless)?;
            let parts = jobs.iter().filter_map(|job| match &job.at {
                Where::Below(other, path) if Arc::ptr_eq(below, other) && of(path).as_ref() == Some(&base) => {
                    Some(path.clone())
                }
                _ => None,
            });
            let at = Where::Pcp(Arc::clone(below), parts.collect());
            Ok((at, below.real_path()?.join(base), label))
        }
        Where::Pcp(..) | Where::Host(..) => Err(NoArchive::Nameless),
    }
}
