//! The ring on the disk: made under another name and put in its place whole, root's alone, locked while somebody writes to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_host::trust;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, fallocate, fdatasync, flock, fstat, fsync,
    mkdirat, openat, renameat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};

use super::block::Place;
use super::{About, BLOCK, HEADERS, Header, Kind};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
/// Read at a time when the newest block is looked for.
const LOT: usize = 64;

/// Why there is no ring to write to.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel says no.
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

fn failed(path: &Path, error: impl Into<io::Error>) -> RingError {
    RingError::Failed { path: path.display().to_string(), error: error.into() }
}

/// The folder of the rings.
#[derive(Debug)]
pub struct Folder {
    file: OwnedFd,
    path: PathBuf,
}

/// A ring that is open to be written.
#[derive(Debug)]
pub struct RingFile {
    file: OwnedFd,
    header: Header,
}

/// A ring as it was found or made.
#[derive(Debug)]
pub struct Opened {
    /// The ring.
    pub ring: RingFile,
    /// The sequence number of the next block.
    pub next: u64,
    /// What became of a ring of another size that stood there.
    pub moved: Option<String>,
}

impl Folder {
    /// Opens the folder, and makes it where it is not there.
    ///
    /// # Errors
    /// It is a link, or anybody but root and this program's user could put something into it.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        make(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => RingError::Distrusted(format!(
                "{} is a link or not a folder; record to a folder that only root can write to",
                path.display()
            )),
            error => failed(path, error),
        })?;
        trust::ours(path).map_err(|why| RingError::Distrusted(why.to_string()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Opens the ring of a kind, or makes it where there is none. One of another size is moved to a name of its own, where it
    /// takes the place of one that was moved there before.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn ring(&self, kind: Kind, blocks: u64, about: &About) -> Result<Opened, RingError> {
        let path = self.path.join(kind.file());
        let mut moved = None;
        if let Some(mut ring) = self.existing(kind, &path)? {
            if ring.header.blocks == blocks {
                ring.header.about = About { run: ring.header.about.run + 1, ..about.clone() };
                let next = ring.newest().map_err(|error| failed(&path, error))?.map_or(0, |newest| newest + 1);
                ring.write_header().map_err(|error| failed(&path, error))?;
                return Ok(Opened { ring, next, moved });
            }
            let aside = format!("{}.before", kind.file());
            renameat(&self.file, kind.file(), &self.file, aside.as_str()).map_err(|error| failed(&path, error))?;
            moved = Some(format!("the existing ring had another size and is now {}", self.path.join(aside).display()));
        }
        let ring = self.create(kind, blocks, about, &path)?;
        Ok(Opened { ring, next: 0, moved })
    }

    fn existing(&self, kind: Kind, path: &Path) -> Result<Option<RingFile>, RingError> {
        let foreign = |why: &str| RingError::Foreign { path: path.display().to_string(), why: why.to_owned() };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.file, kind.file(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(foreign("is a link")),
            Err(error) => return Err(failed(path, error)),
        };
        let stat = fstat(&file).map_err(|error| failed(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(foreign("is not a regular file, or has other hard links"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(foreign(&format!("belongs to user {}", stat.st_uid)));
        }
        if stat.st_mode & 0o027 != 0 {
            return Err(foreign("can be read or written by others (its mode should be 0600 or 0640)"));
        }
        lock(&file, path)?;
        let mut head = vec![0; BLOCK * HEADERS];
        let length = pread(&file, head.as_mut_slice(), 0).map_err(|error| failed(path, error))?;
        head.truncate(length);
        let header = Header::of_copies(&head).map_err(|why| foreign(&why))?;
        if header.kind != kind {
            return Err(foreign("is the other of the two rings"));
        }
        Ok(Some(RingFile { file, header }))
    }

    fn create(&self, kind: Kind, blocks: u64, about: &About, path: &Path) -> Result<RingFile, RingError> {
        let wrong = |error: Errno| failed(path, error);
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(wrong)?;
        let about = About { run: 1, ..about.clone() };
        let header = Header { kind, blocks, ring: u64::from_le_bytes(id), about };
        let temporary = format!(".{}.new", kind.file());
        match unlinkat(&self.file, temporary.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(wrong(error)),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.file, temporary.as_str(), flags, FILE_MODE).map_err(wrong)?;
        let ring = RingFile { file, header };
        let filled = lock(&ring.file, path).and_then(|()| {
            ring.reserve().map_err(wrong)?;
            ring.write_header().map_err(wrong)?;
            renameat(&self.file, temporary.as_str(), &self.file, kind.file()).map_err(wrong)?;
            fsync(&self.file).map_err(wrong)
        });
        if filled.is_err() {
            // What matters is the first error.
            let _ = unlinkat(&self.file, temporary.as_str(), AtFlags::empty());
        }
        filled.map(|()| ring)
    }
}

/// Makes a folder and those on the way to it, each in one that nobody else could have put there.
fn make(path: &Path) -> Result<(), RingError> {
    if rustix::fs::lstat(path).is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make(parent)?;
        trust::ours(parent).map_err(|why| RingError::Distrusted(why.to_string()))?;
    }
    match mkdirat(CWD, path, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(failed(path, error)),
    }
}

fn lock(file: &OwnedFd, path: &Path) -> Result<(), RingError> {
    let mut tries = 0;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            // Whoever asks whether somebody records holds it for a moment.
            Err(Errno::WOULDBLOCK) if tries < 20 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(Errno::WOULDBLOCK) => return Err(RingError::Taken(path.display().to_string())),
            Err(error) => return Err(failed(path, error)),
        }
    }
}

impl RingFile {
    /// Its header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Takes all the room it will ever have, so that a full disk cannot end the recording.
    fn reserve(&self) -> rustix::io::Result<()> {
        let bytes = self.header.bytes();
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot promise: zeros take the room.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeros = [0; BLOCK];
                (0..bytes / BLOCK as u64).try_for_each(|place| self.put(&zeros, place * BLOCK as u64))
            }
            done => done,
        }
    }

    /// Both copies, one behind the other: a power cut leaves one of them whole.
    fn write_header(&self) -> rustix::io::Result<()> {
        let bytes = self.header.encode();
        for copy in [1, 0] {
            self.put(&bytes, copy * BLOCK as u64)?;
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    /// The sequence number of the newest block.
    fn newest(&self) -> rustix::io::Result<Option<u64>> {
        let mut bytes = vec![0; BLOCK * LOT];
        let mut newest = None;
        let mut place = 0;
        while place < self.header.blocks {
            let length = pread(&self.file, bytes.as_mut_slice(), (place + HEADERS as u64) * BLOCK as u64)?;
            let blocks = bytes.get(..length).unwrap_or_default().chunks_exact(BLOCK);
            if blocks.len() == 0 {
                break;
            }
            for block in blocks {
                if let Place::Whole(block) = Place::read(block, self.header.ring)
                    && block.sequence % self.header.blocks == place
                {
                    newest = newest.max(Some(block.sequence));
                }
                place += 1;
            }
        }
        Ok(newest)
    }

    /// Writes a block to its place.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write(&self, sequence: u64, bytes: &[u8; BLOCK]) -> rustix::io::Result<()> {
        self.put(bytes, (sequence % self.header.blocks + HEADERS as u64) * BLOCK as u64)
    }

    fn put(&self, bytes: &[u8; BLOCK], at: u64) -> rustix::io::Result<()> {
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

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self) -> rustix::io::Result<()> {
        fdatasync(&self.file)
    }
}
