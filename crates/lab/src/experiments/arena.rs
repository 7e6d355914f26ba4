//! Private memory as a database's work area takes it: extent by extent.

#![allow(unsafe_code, reason = "private memory is asked of the kernel by system calls")]

use std::io;
use std::ptr::{self, NonNull};

use hugewise_model::PageSize;

use crate::variant::Variant;

const RESERVED: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Arena {
    pages: Variant,
    extent: usize,
    mapped: Vec<(NonNull<u8>, usize)>,
    /// The rest of the last reservation or huge page.
    left: Option<(NonNull<u8>, usize)>,
    calls: u64,
    pooled: u64,
}

impl Arena {
    /// Extents of `extent` bytes, a power of two from 4 KiB up.
    pub(crate) const fn new(pages: Variant, extent: usize) -> Self {
        Self { pages, extent, mapped: Vec::new(), left: None, calls: 0, pooled: 0 }
    }

    pub(crate) const fn mmap_calls(&self) -> u64 {
        self.calls
    }

    /// Bytes taken from a pool, touched or not.
    pub(crate) const fn pooled_bytes(&self) -> u64 {
        self.pooled
    }

    pub(crate) fn next_extent(&mut self) -> io::Result<(NonNull<u8>, usize)> {
        let extent = self.extent;
        self.carve_bytes(extent).map(|start| (start, extent))
    }

    /// So many bytes in one piece, zeroed, valid as long as the arena is.
    pub(crate) fn allocate_piece(&mut self, bytes: usize) -> io::Result<NonNull<u8>> {
        let bytes = bytes.div_ceil(self.extent) * self.extent;
        if bytes <= RESERVED {
            return self.carve_bytes(bytes);
        }
        // Larger than a reservation: on its own.
        match self.pages.pool_page_size() {
            Some(page) => self.pool_pages(bytes, page).map(|(start, _)| start),
            None => {
                let start = self.map_memory(None, bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
                self.mapped.push((start, bytes));
                self.advise_thp(start, bytes)?;
                Ok(start)
            }
        }
    }

    fn carve_bytes(&mut self, bytes: usize) -> io::Result<NonNull<u8>> {
        let (start, left) = match self.left.take().filter(|(_, left)| *left >= bytes) {
            Some(left) => left,
            None => self.reserve_memory(bytes)?,
        };
        if self.pages.pool_page_size().is_none() {
            // Like the database in the story: the extent is mapped over the reservation.
            self.map_memory(
                Some(start),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_FIXED,
            )?;
            self.advise_thp(start, bytes)?;
        }
        // SAFETY: `bytes` is at most `left`, the length of what begins at `start`: the sum stays
        // inside the mapping or at its end.
        let rest = unsafe { start.add(bytes) };
        self.left = Some((rest, left - bytes));
        Ok(start)
    }

    fn reserve_memory(&mut self, bytes: usize) -> io::Result<(NonNull<u8>, usize)> {
        match self.pages.pool_page_size() {
            Some(page) => self.pool_pages(bytes, page),
            None => {
                let length = bytes.max(RESERVED);
                let start = self.map_memory(None, length, libc::PROT_NONE, libc::MAP_NORESERVE)?;
                self.mapped.push((start, length));
                Ok((start, length))
            }
        }
    }

    fn pool_pages(&mut self, bytes: usize, page: PageSize) -> io::Result<(NonNull<u8>, usize)> {
        let size = usize::try_from(page.bytes().get()).map_err(io::Error::other)?;
        let length = bytes.div_ceil(size) * size;
        let flags = crate::segment::SegmentPages::Huge(page).huge_page_flags(libc::MAP_HUGETLB);
        let start = self.map_memory(None, length, libc::PROT_READ | libc::PROT_WRITE, flags)?;
        self.mapped.push((start, length));
        self.pooled += u64::try_from(length).unwrap_or(0);
        Ok((start, length))
    }

    fn map_memory(
        &mut self,
        at: Option<NonNull<u8>>,
        length: usize,
        rights: libc::c_int,
        flags: libc::c_int,
    ) -> io::Result<NonNull<u8>> {
        self.calls += 1;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        let at = at.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: an address is given only with MAP_FIXED, and then is in this arena's own
        // reservation, in a part that was not handed out: nobody's memory is mapped over.
        let start = unsafe { libc::mmap(at.cast(), length, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
    }

    fn advise_thp(&self, start: NonNull<u8>, length: usize) -> io::Result<()> {
        let advice =
            if self.pages.is_transparent() { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: this arena has just mapped the range, and advice does not change its content.
        let done = unsafe { libc::madvise(start.as_ptr().cast(), length, advice) };
        let error = io::Error::last_os_error();
        // A kernel without THP has none to keep away.
        if done == 0 || (!self.pages.is_transparent() && error.raw_os_error() == Some(libc::EINVAL))
        {
            return Ok(());
        }
        Err(error)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (start, length) in &self.mapped {
            // SAFETY: mapped by this arena with this length; whoever has a part of it is bound to
            // the arena's lifetime.
            unsafe { libc::munmap(start.as_ptr().cast(), *length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_come_one_after_the_other_and_calls_are_counted() {
        let mut arena = Arena::new(Variant::Base, 64 << 10);
        let (first, length) = arena.next_extent().unwrap();
        let (second, _) = arena.next_extent().unwrap();
        assert_eq!((length, second.as_ptr().addr() - first.as_ptr().addr()), (64 << 10, 64 << 10));
        // One reservation and an extent laid over it, each time.
        assert_eq!(arena.mmap_calls(), 3);
        // SAFETY: an extent is readable and writable for its whole length.
        unsafe {
            second.as_ptr().write(7);
            assert_eq!((first.as_ptr().read(), second.as_ptr().read()), (0, 7));
        }
        let _ = arena.allocate_piece(RESERVED + 1).unwrap();
        assert_eq!((arena.mmap_calls(), arena.pooled_bytes()), (4, 0));
    }
}
