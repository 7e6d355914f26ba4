//! Reads what was found, on all processors, tars entry by entry.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use hugewise_host::compressed::{self, MAX_UNPACKED};
use hugewise_host::source::files::{self, Given};
use hugewise_host::source::{Archive, Folder, tarred};

use super::places::{Job, Where};
use super::scratch::Scratch;
use super::setup::{self, Setup};
use crate::investigate::Progress;
use crate::readers::{self, HEAD, Promise, pcp};
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
        Where::Pcp(base) => {
            let what = match pcp::archive(base, &job.label) {
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

    /// A file of any kind; `again` is the same for a second reading.
    fn file(&self, file: File, again: io::Result<File>, entry: &str, label: &str, depth: usize) {
        let root = self.job.root.clone();
        let head = compressed::open(file).and_then(|mut plain| Ok((head(&mut plain)?, plain)));
        let (head, plain) = match head {
            Ok(opened) => opened,
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
        match readers::read(Cursor::new(head).chain(rest), label) {
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
            Promise::Packed => What::Packed,
            Promise::None | Promise::Likely => What::Unknown,
        }
    }

    fn tar(&self, plain: impl Read, again: io::Result<File>, entry: &str, label: &str, depth: usize) {
        // How much its entries may become when they are unpacked in turn.
        let left = Cell::new(MAX_UNPACKED);
        let mut is_host = false;
        let mut unpacked: Vec<(String, PathBuf)> = Vec::new();
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
                        let why = "is a tar in a tar in a tar, and not read".to_owned();
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
            self.hand(&inner, &shown, root(), what.unwrap_or(What::Unknown));
        });
        let problem = match tarred {
            Ok(tarred) => tarred.torn,
            Err(why) => Some(why),
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
        unpacked: &mut Vec<(String, PathBuf)>,
    ) -> io::Result<Option<File>> {
        let mut file = tempfile::tempfile()?;
        self.scratch.fill(stream, &mut file)?;
        file.rewind()?;
        if let Some(base) = pcp::base(path) {
            let first = compressed::open(&mut file).and_then(|mut plain| head(&mut plain));
            file.rewind()?;
            if first.is_ok_and(|head| Promise::of(&head) == Promise::Pcp) {
                let folder = match unpacked.iter().find(|(of, _)| of == base) {
                    Some((_, folder)) => folder.clone(),
                    None => {
                        let folder = self.scratch.folder()?;
                        unpacked.push((base.to_owned(), folder.clone()));
                        folder
                    }
                };
                // The name within the tar is nowhere in it but for `.0.xz`.
                let suffix = path.get(base.len()..).unwrap_or_default();
                io::copy(&mut file, &mut File::create_new(folder.join(format!("archive{suffix}")))?)?;
                return Ok(None);
            }
        }
        Ok(Some(file))
    }

    /// The archives of PCP that were unpacked.
    fn archives(&self, unpacked: &[(String, PathBuf)], entry: &str, label: &str) {
        for (base, folder) in unpacked {
            let shown = format!("{label}:{base}");
            let what = match pcp::archive(&folder.join("archive"), &shown) {
                Ok(series) => What::Series(vec![series]),
                Err(Refused(why)) => What::Refused(why.replace(&*folder.to_string_lossy(), label)),
            };
            let inner = if entry.is_empty() { base.clone() } else { format!("{entry}:{base}") };
            self.hand(&inner, &shown, Some(label.to_owned()), what);
            // What cannot be removed now is with all of the folder.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// What a captured host has of its kernel's own files: snapshots, no archives.
fn is_kernels(path: &str) -> bool {
    path.split('/').take(2).any(|part| matches!(part, "proc" | "sys"))
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

/// The base of a PCP archive that a file in a folder is of, for those that read it by its path; and as it is called.
///
/// # Errors
/// Its name is of no such archive, or a part of the archive is a link, which could lead out of the folder.
pub(crate) fn pcp_base(job: &Job) -> Result<(PathBuf, String), String> {
    let path = match &job.at {
        Where::Given(path) => std::path::absolute(path).ok(),
        Where::Below(below, path) => below.real_path().ok().map(|folder| folder.join(path)),
        Where::Pcp(_) | Where::Host(..) => None,
    };
    let base = path.as_ref().and_then(|path| pcp::base(path.to_str()?)).map(PathBuf::from);
    let (Some(base), Some(label)) = (base, pcp::base(&job.label)) else {
        return Err(
            "is a part of a PCP archive by its content, and its name does not end in .0, .meta or .index".into()
        );
    };
    let of_base = |link: &&PathBuf| pcp::base(&link.to_string_lossy()).is_some_and(|of| Path::new(of) == base);
    if let Where::Below(below, _) = &job.at
        && let (Ok(folder), Some(parent)) = (below.real_path(), base.parent())
        && let Ok(Given::Folder(beside)) = files::open(parent)
        && parent.starts_with(folder)
        && let Some(link) = beside.links().iter().map(|name| parent.join(name)).collect::<Vec<_>>().iter().find(of_base)
    {
        return Err(format!("{} is a link, which is not followed", link.display()));
    }
    Ok((base, label.to_owned()))
}
