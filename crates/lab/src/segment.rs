//! Memory segments by kind and page size, given back when dropped.

#![allow(
    unsafe_code,
    reason = "memory is asked of the kernel by system calls, and touched through raw addresses"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use hugewise_model::{Bytes, PageSize};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::system_call::check_result;

/// `HUGETLB_FLAG_ENCODE_SHIFT` of linux/hugetlb_encode.h: the flags of shmget, mmap and
/// memfd_create have the logarithm of a huge page's size from this bit up.
const SIZE_SHIFT: u32 = 26;

/// The pages that a segment requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentPages {
    /// The base page.
    Base,
    /// Huge pages of the kernel's default size.
    DefaultHuge,
    /// Huge pages of this size.
    Huge(PageSize),
}

impl SegmentPages {
    /// `huge` and the size in bits for a system call that takes both; nothing for base pages.
    pub(crate) fn huge_page_flags(self, huge: libc::c_int) -> libc::c_int {
        match self {
            Self::Base => 0,
            Self::DefaultHuge => huge,
            Self::Huge(page) => {
                let exponent = page.bytes().get().trailing_zeros();
                huge | libc::c_int::try_from(exponent << SIZE_SHIFT).unwrap_or(0)
            }
        }
    }
}

/// How a segment is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SegmentSource {
    /// `shmget`: in the host's ipc namespace until it is removed.
    SystemV,
    /// `mmap(MAP_SHARED|MAP_ANONYMOUS)`: inherited only by fork.
    AnonymousShared,
    /// `memfd_create` and a shared mapping of it.
    Memfd,
    /// `mmap(MAP_PRIVATE|MAP_ANONYMOUS)`: a process's own memory.
    Private,
}

#[derive(Debug)]
enum Holds {
    Nothing,
    SystemV { id: libc::c_int, remove: bool },
    Descriptor(OwnedFd),
    File { path: PathBuf, remove: bool },
}

/// A mapped memory segment; dropping unmaps it, and removes it where this process made it.
#[derive(Debug)]
pub struct MappedSegment {
    start: NonNull<u8>,
    length: usize,
    holds: Holds,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for MappedSegment {}
// SAFETY: threads access a segment's memory only byte by byte and volatile, or each its own part;
// no reference into it is handed out.
unsafe impl Sync for MappedSegment {}

impl MappedSegment {
    /// Requests `size` bytes of `kind` on `pages` and maps them. Errors: `EPERM` without the right
    /// to `SHM_HUGETLB`, `ENOMEM` where the pool is short, `EINVAL` for an unsupported page size.
    pub fn create(kind: SegmentSource, size: Bytes, pages: SegmentPages) -> io::Result<Self> {
        match kind {
            SegmentSource::SystemV => {
                // The kernel rounds up, and keeps the requested size as its name.
                let length = usize::try_from(size.get()).map_err(io::Error::other)?;
                let flags = libc::IPC_CREAT
                    | libc::IPC_EXCL
                    | 0o600
                    | pages.huge_page_flags(libc::SHM_HUGETLB);
                // SAFETY: shmget takes plain numbers and touches no memory of ours.
                let id = unsafe { libc::shmget(libc::IPC_PRIVATE, length, flags) };
                if id < 0 {
                    return Err(io::Error::last_os_error());
                }
                let segment = attach_system_v(id, true)?;
                // The kernel removes it with the last process that maps it, killed or not; until
                // then Linux lets others attach it by its id (shmat(2)). A leftover would hold its
                // pages forever.
                remove_system_v(id);
                Ok(segment)
            }
            SegmentSource::AnonymousShared | SegmentSource::Private => {
                let length = whole_pages(size, pages)?;
                let sharing = if kind == SegmentSource::Private {
                    libc::MAP_PRIVATE
                } else {
                    libc::MAP_SHARED
                };
                let start = map_memory(
                    length,
                    sharing | libc::MAP_ANONYMOUS | pages.huge_page_flags(libc::MAP_HUGETLB),
                    -1,
                )?;
                Ok(Self { start, length, holds: Holds::Nothing })
            }
            SegmentSource::Memfd => {
                let length = whole_pages(size, pages)?;
                let flags =
                    pages.huge_page_flags(libc::c_int::try_from(libc::MFD_HUGETLB).unwrap_or(0));
                let flags =
                    MemfdFlags::CLOEXEC | MemfdFlags::from_bits_retain(flags.cast_unsigned());
                // The system call itself: glibc before 2.27 has no function for it.
                let descriptor = rustix::fs::memfd_create(c"hugewise-lab", flags)?;
                set_length(&descriptor, length)?;
                let start = map_memory(length, libc::MAP_SHARED, descriptor.as_raw_fd())?;
                Ok(Self { start, length, holds: Holds::Descriptor(descriptor) })
            }
        }
    }

    /// Attaches another process's System V segment; dropping only detaches it.
    /// Errors: `EINVAL` where there is no such segment, `EACCES` without permission.
    pub fn attach_by_id(id: i32) -> io::Result<Self> {
        attach_system_v(id, false)
    }

    /// Creates a file of `size` bytes (on /dev/shm: POSIX shared memory) and maps it; dropping
    /// removes it. Errors: the file system's, `AlreadyExists` among them.
    pub fn create_file(path: &Path, size: Bytes) -> io::Result<Self> {
        let length = usize::try_from(size.get()).map_err(io::Error::other)?;
        let file =
            std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let made = Removed(path);
        file.set_len(size.get())?;
        let start = map_memory(length, libc::MAP_SHARED, file.as_raw_fd())?;
        std::mem::forget(made);
        Ok(Self { start, length, holds: Holds::File { path: path.to_owned(), remove: true } })
    }

    /// Maps another process's file; dropping leaves it. Errors: the file system's.
    pub fn attach_file(path: &Path) -> io::Result<Self> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let start = map_memory(length, libc::MAP_SHARED, file.as_raw_fd())?;
        Ok(Self { start, length, holds: Holds::File { path: path.to_owned(), remove: false } })
    }

    /// The shmid of a System V segment.
    pub const fn shm_id(&self) -> Option<i32> {
        match self.holds {
            Holds::SystemV { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Where other processes find a memory file as long as this process has it.
    pub fn memory_file_path(&self) -> Option<PathBuf> {
        match &self.holds {
            Holds::Descriptor(file) => {
                Some(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into())
            }
            _ => None,
        }
    }

    /// Its length as requested, mappings in whole pages.
    pub fn size(&self) -> Bytes {
        Bytes(u64::try_from(self.length).unwrap_or(u64::MAX))
    }

    /// From now on dropping removes what is mapped, as its maker may be gone.
    pub const fn take_ownership(&mut self) {
        if let Holds::SystemV { remove, .. } | Holds::File { remove, .. } = &mut self.holds {
            *remove = true;
        }
    }

    /// From now on dropping removes nothing, as another process owns what is mapped.
    pub const fn release_ownership(&mut self) {
        if let Holds::SystemV { remove, .. } | Holds::File { remove, .. } = &mut self.holds {
            *remove = false;
        }
    }

    /// Marks a System V segment for removal with the last process that is attached; until then it
    /// can still be attached by its shmid (only on Linux, shmctl(2)).
    pub fn remove_at_last_detach(&mut self) {
        if let Holds::SystemV { id, remove } = &mut self.holds {
            remove_system_v(*id);
            *remove = false;
        }
    }

    /// Maps the same memory anew, as a new process does, unless it is inherited only by fork.
    pub(crate) fn attach_again(&mut self) -> io::Result<()> {
        match &self.holds {
            Holds::SystemV { id, .. } => *self = attach_system_v(*id, false)?,
            Holds::Descriptor(file) => {
                let start = map_memory(self.length, libc::MAP_SHARED, file.as_raw_fd())?;
                // SAFETY: mmap gave this address and length, and no reference into the mapping is
                // handed out.
                unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
                self.start = start;
            }
            Holds::Nothing | Holds::File { .. } => {}
        }
        Ok(())
    }

    pub(crate) const fn start_address(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) const fn byte_length(&self) -> usize {
        self.length
    }

    /// Reads one byte in each base page of the first `percent` of the segment, which fills in this
    /// process's page tables.
    pub fn touch_percent(&self, percent: u8) {
        const STEP: usize = 4096;
        let end = self.length / 100 * usize::from(percent.min(100)) + self.length % 100;
        for at in (0..end.min(self.length)).step_by(STEP) {
            // SAFETY: `at` is below `length`, which is mapped readable as long as `self` lives.
            // Others may write there meanwhile: the read is volatile and its value unused.
            let _ = unsafe { self.start.as_ptr().add(at).read_volatile() };
        }
    }
}

impl Drop for MappedSegment {
    fn drop(&mut self) {
        match &self.holds {
            Holds::SystemV { id, remove } => {
                // SAFETY: shmat gave this address, and no reference into the segment is handed out.
                unsafe { libc::shmdt(self.start.as_ptr().cast()) };
                if *remove {
                    remove_system_v(*id);
                }
            }
            holds => {
                // SAFETY: mmap gave this address and length, and no reference into the mapping is
                // handed out.
                unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
                if let Holds::File { path, remove: true } = holds {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }
}

struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

fn whole_pages(size: Bytes, pages: SegmentPages) -> io::Result<usize> {
    let bytes = match pages {
        SegmentPages::Base => size,
        SegmentPages::DefaultHuge => PageSize::MIB_2.pages_for(size).to_bytes(PageSize::MIB_2),
        SegmentPages::Huge(page) => page.pages_for(size).to_bytes(page),
    };
    usize::try_from(bytes.get()).map_err(io::Error::other)
}

fn map_memory(
    length: usize,
    flags: libc::c_int,
    descriptor: libc::c_int,
) -> io::Result<NonNull<u8>> {
    // SAFETY: the kernel chooses the address, so that no memory in use is mapped over.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            descriptor,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
}

fn set_length(descriptor: &OwnedFd, length: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and ftruncate touches no memory of ours.
    check_result(unsafe { libc::ftruncate(descriptor.as_raw_fd(), length) })
}

fn attach_system_v(id: libc::c_int, remove: bool) -> io::Result<MappedSegment> {
    let attached = system_v_length(id).and_then(|length| {
        // SAFETY: the kernel chooses the address, so that no memory in use is mapped over.
        let start = unsafe { libc::shmat(id, ptr::null(), 0) };
        // shmat answers an error with the address -1, as mmap does.
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("shmat gave address 0"))?;
        Ok(MappedSegment { start, length, holds: Holds::SystemV { id, remove } })
    });
    if attached.is_err() && remove {
        remove_system_v(id);
    }
    attached
}

fn system_v_length(id: libc::c_int) -> io::Result<usize> {
    // SAFETY: shmid_ds is plain numbers, for which zero is a value.
    let mut facts: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is a whole shmid_ds that the kernel may fill in.
    check_result(unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut facts) })?;
    Ok(facts.shm_segsz)
}

fn remove_system_v(id: libc::c_int) {
    // SAFETY: IPC_RMID reads no buffer; attached processes keep the memory until they detach.
    unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) };
}

/// Gives this process another user and group for good, without supplementary groups.
/// Errors: `EPERM` without root.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: nobody reads an empty list; setresgid and setresuid take plain numbers.
    let done = unsafe {
        libc::setgroups(0, ptr::null()) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Names this thread in `ps` and /proc/PID/comm; the kernel keeps the first 15 bytes.
pub(crate) fn set_process_name(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: the name is a C string that lives through the call, and the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody removes it, as where its maker was killed: the kernel does.
    #[test]
    fn a_system_v_segment_is_gone_with_the_last_that_maps_it() {
        let mut made =
            MappedSegment::create(SegmentSource::SystemV, Bytes::from_mib(3), SegmentPages::Base)
                .unwrap();
        let id = made.shm_id().unwrap();
        let other = MappedSegment::attach_by_id(id).unwrap();
        assert_eq!(other.size(), Bytes::from_mib(3));
        other.touch_percent(100);
        drop(other);
        let last = MappedSegment::attach_by_id(id).unwrap();
        made.release_ownership();
        drop(made);
        assert!(MappedSegment::attach_by_id(id).is_ok());
        drop(last);
        assert!(MappedSegment::attach_by_id(id).is_err());
    }

    #[test]
    fn a_file_is_gone_when_its_maker_drops_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ora_PROD_1_0");
        let made = MappedSegment::create_file(&path, Bytes::from_mib(1)).unwrap();
        let mut other = MappedSegment::attach_file(&path).unwrap();
        assert!(MappedSegment::create_file(&path, Bytes(1)).is_err() && path.exists());
        other.touch_percent(50);
        other.take_ownership();
        drop(other);
        assert!(!path.exists());
        drop(made);
    }

    #[test]
    fn the_page_size_goes_into_the_flags() {
        assert_eq!(SegmentPages::Base.huge_page_flags(libc::MAP_HUGETLB), 0);
        assert_eq!(
            SegmentPages::Huge(PageSize::MIB_2).huge_page_flags(libc::MAP_HUGETLB),
            libc::MAP_HUGETLB | libc::MAP_HUGE_2MB
        );
        assert_eq!(
            SegmentPages::Huge(PageSize::GIB_1).huge_page_flags(libc::MAP_HUGETLB),
            libc::MAP_HUGETLB | libc::MAP_HUGE_1GB
        );
    }

    #[test]
    fn anonymous_and_memfd_segments_map_what_was_asked() {
        for kind in [SegmentSource::AnonymousShared, SegmentSource::Memfd, SegmentSource::Private] {
            let segment =
                MappedSegment::create(kind, Bytes::from_mib(1), SegmentPages::Base).unwrap();
            assert_eq!(segment.size(), Bytes::from_mib(1));
            segment.touch_percent(100);
        }
    }

    #[test]
    fn a_segment_marked_for_removal_can_be_attached_until_the_last_one_leaves() {
        let mut made =
            MappedSegment::create(SegmentSource::SystemV, Bytes::from_mib(1), SegmentPages::Base)
                .unwrap();
        let id = made.shm_id().unwrap();
        made.remove_at_last_detach();
        let mut other = MappedSegment::attach_by_id(id).unwrap();
        drop(made);
        other.attach_again().unwrap();
        other.touch_percent(100);
        drop(other);
        assert!(MappedSegment::attach_by_id(id).is_err());
    }
}
