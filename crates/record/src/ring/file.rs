//! The ring on disk: created under another name and renamed, root's alone, locked while written.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_host::trust;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, fallocate, fdatasync,
    flock, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};

use super::block::StoredBlock;
use super::{About, BLOCK, HEADERS, RingHeader, RingKind};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
const LOT: usize = 64;

/// Why no ring can be written.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refuses.
    #[error("{path}: {error}")]
    Failed {
        /// The file or folder.
        path: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// Somebody else could have put it there, or could read it.
    #[error("{0}")]
    Distrusted(String),
    /// Something else has its name.
    #[error("{path} {why}; move it away, or record to another folder with --out")]
    Foreign {
        /// The file.
        path: String,
        /// What it is.
        why: String,
    },
    /// Another recorder writes to it.
    #[error("{0}: another recorder writes to it")]
    Taken(String),
}

fn ring_failure(path: &Path, error: impl Into<io::Error>) -> RingError {
    RingError::Failed { path: path.display().to_string(), error: error.into() }
}

/// The folder of the rings.
#[derive(Debug)]
pub struct RingFolder {
    file: OwnedFd,
    path: PathBuf,
}

/// A ring that is open to be written.
#[derive(Debug)]
pub struct RingFile {
    file: OwnedFd,
    header: RingHeader,
}

/// A ring as it was found or made.
#[derive(Debug)]
pub struct OpenedRing {
    /// The ring.
    pub ring: RingFile,
    /// The sequence number of the next block.
    pub next: u64,
    /// What became of a ring of another size.
    pub moved: Option<String>,
}

impl RingFolder {
    /// Opens the folder, or creates it.
    /// Errors: it is a link, or others than root and this program's user could write to it.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        make_folder(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => RingError::Distrusted(format!(
                "{} is a link or not a folder; record to a folder that only root can write to",
                path.display()
            )),
            error => ring_failure(path, error),
        })?;
        trust::check_trusted_file(path).map_err(|why| RingError::Distrusted(why.to_string()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Opens or creates the ring of a kind. One of another size is renamed, and replaces one that
    /// was renamed before. Errors: see [`RingError`].
    pub fn open_ring(
        &self,
        kind: RingKind,
        blocks: u64,
        about: &About,
    ) -> Result<OpenedRing, RingError> {
        let path = self.path.join(kind.file_name());
        let mut moved = None;
        if let Some(mut ring) = self.open_existing(kind, &path)? {
            if ring.header.blocks == blocks {
                ring.header.about = About { run: ring.header.about.run + 1, ..about.clone() };
                let next = ring
                    .newest_sequence()
                    .map_err(|error| ring_failure(&path, error))?
                    .map_or(0, |newest| newest + 1);
                ring.write_header().map_err(|error| ring_failure(&path, error))?;
                return Ok(OpenedRing { ring, next, moved });
            }
            let aside = format!("{}.before", kind.file_name());
            renameat(&self.file, kind.file_name(), &self.file, aside.as_str())
                .map_err(|error| ring_failure(&path, error))?;
            moved = Some(format!(
                "the existing ring had another size and is now {}",
                self.path.join(aside).display()
            ));
        }
        let ring = self.create_ring(kind, blocks, about, &path)?;
        Ok(OpenedRing { ring, next: 0, moved })
    }

    fn open_existing(&self, kind: RingKind, path: &Path) -> Result<Option<RingFile>, RingError> {
        let foreign = |why: &str| RingError::Foreign {
            path: path.display().to_string(),
            why: why.to_owned(),
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.file, kind.file_name(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(foreign("is a link")),
            Err(error) => return Err(ring_failure(path, error)),
        };
        let stat = fstat(&file).map_err(|error| ring_failure(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(foreign("is not a regular file, or has other hard links"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(foreign(&format!("belongs to user {}", stat.st_uid)));
        }
        if stat.st_mode & 0o027 != 0 {
            return Err(foreign(
                "can be read or written by others (its mode should be 0600 or 0640)",
            ));
        }
        lock_ring(&file, path)?;
        let mut head = vec![0; BLOCK * HEADERS];
        let length =
            pread(&file, head.as_mut_slice(), 0).map_err(|error| ring_failure(path, error))?;
        head.truncate(length);
        let header = RingHeader::of_copies(&head).map_err(|why| foreign(&why))?;
        if header.kind != kind {
            return Err(foreign("is the other of the two rings"));
        }
        Ok(Some(RingFile { file, header }))
    }

    fn create_ring(
        &self,
        kind: RingKind,
        blocks: u64,
        about: &About,
        path: &Path,
    ) -> Result<RingFile, RingError> {
        let wrong = |error: Errno| ring_failure(path, error);
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(wrong)?;
        let about = About { run: 1, ..about.clone() };
        let header = RingHeader { kind, blocks, ring: u64::from_le_bytes(id), about };
        let temporary = format!(".{}.new", kind.file_name());
        match unlinkat(&self.file, temporary.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(wrong(error)),
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.file, temporary.as_str(), flags, FILE_MODE).map_err(wrong)?;
        let ring = RingFile { file, header };
        let filled = lock_ring(&ring.file, path).and_then(|()| {
            ring.reserve_space().map_err(wrong)?;
            ring.write_header().map_err(wrong)?;
            renameat(&self.file, temporary.as_str(), &self.file, kind.file_name())
                .map_err(wrong)?;
            fsync(&self.file).map_err(wrong)
        });
        if filled.is_err() {
            // The first error matters.
            let _ = unlinkat(&self.file, temporary.as_str(), AtFlags::empty());
        }
        filled.map(|()| ring)
    }
}

/// Creates a folder and its parents, each in a trusted one.
fn make_folder(path: &Path) -> Result<(), RingError> {
    if rustix::fs::lstat(path).is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_folder(parent)?;
        trust::check_trusted_file(parent).map_err(|why| RingError::Distrusted(why.to_string()))?;
    }
    match mkdirat(CWD, path, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(ring_failure(path, error)),
    }
}

fn lock_ring(file: &OwnedFd, path: &Path) -> Result<(), RingError> {
    let mut tries = 0;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            // A reader that asks whether somebody records holds it for a moment.
            Err(Errno::WOULDBLOCK) if tries < 20 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(Errno::WOULDBLOCK) => return Err(RingError::Taken(path.display().to_string())),
            Err(error) => return Err(ring_failure(path, error)),
        }
    }
}

impl RingFile {
    /// Its header.
    pub const fn header(&self) -> &RingHeader {
        &self.header
    }

    /// A full disk cannot end the recording then.
    fn reserve_space(&self) -> rustix::io::Result<()> {
        let bytes = self.header.file_bytes();
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot reserve is filled with zeros.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeros = [0; BLOCK];
                (0..bytes / BLOCK as u64)
                    .try_for_each(|place| self.write_block_at(&zeros, place * BLOCK as u64))
            }
            done => done,
        }
    }

    /// Writes both copies in turn: a power cut leaves one of them whole.
    fn write_header(&self) -> rustix::io::Result<()> {
        let bytes = self.header.encode();
        for copy in [1, 0] {
            self.write_block_at(&bytes, copy * BLOCK as u64)?;
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    fn newest_sequence(&self) -> rustix::io::Result<Option<u64>> {
        let mut bytes = vec![0; BLOCK * LOT];
        let mut newest = None;
        let mut place = 0;
        while place < self.header.blocks {
            let length =
                pread(&self.file, bytes.as_mut_slice(), (place + HEADERS as u64) * BLOCK as u64)?;
            let blocks = bytes.get(..length).unwrap_or_default().chunks_exact(BLOCK);
            if blocks.len() == 0 {
                break;
            }
            for block in blocks {
                if let StoredBlock::Whole(block) = StoredBlock::read(block, self.header.ring)
                    && block.sequence % self.header.blocks == place
                {
                    newest = newest.max(Some(block.sequence));
                }
                place += 1;
            }
        }
        Ok(newest)
    }

    /// Writes a block to its place. Errors: as pwrite(2).
    pub fn write(&self, sequence: u64, bytes: &[u8; BLOCK]) -> rustix::io::Result<()> {
        self.write_block_at(bytes, (sequence % self.header.blocks + HEADERS as u64) * BLOCK as u64)
    }

    fn write_block_at(&self, bytes: &[u8; BLOCK], at: u64) -> rustix::io::Result<()> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match pwrite(self.file.as_fd(), rest, at + u64::try_from(written).unwrap_or(0)) {
                Ok(0) => return Err(Errno::IO),
                Ok(length) => written += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until everything is on the disk. Errors: as fdatasync(2).
    pub fn sync_data(&self) -> rustix::io::Result<()> {
        fdatasync(&self.file)
    }
}
