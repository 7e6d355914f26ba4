//! Touching a segment: page by page, by the kernel, with one thread or many.

#![allow(unsafe_code, reason = "memory is touched through raw addresses")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use hugewise_model::PageSize;
use serde::{Deserialize, Serialize};

use crate::segment::Segment;

/// In which order memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the start: a part lies in one piece.
    Sequential,
    /// All over the segment: a part is scattered, as the blocks are that a session works with.
    Random,
}

/// What is done to each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// One byte is read.
    Read,
    /// One byte is written: zero, as the kernel gives the memory.
    Write,
}

/// How memory is touched, one byte in every page.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// Distance from one byte to the next.
    pub step: PageSize,
    /// How much of it.
    pub percent: u8,
    /// In which order.
    pub order: Order,
    /// Read or written.
    pub access: Access,
}

impl Segment {
    /// Asks for transparent huge pages, or keeps them away.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` where it has none.
    pub fn transparent(&self, wanted: bool) -> io::Result<()> {
        self.advise(0, self.length(), if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE })
    }

    /// Spreads the pages that are not there yet over all NUMA nodes with memory. Nothing on a host with one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn interleave(&self, nodes: u64) -> io::Result<()> {
        /// `MPOL_INTERLEAVE` of linux/mempolicy.h.
        const INTERLEAVE: libc::c_long = 3;
        if nodes.count_ones() < 2 {
            return Ok(());
        }
        let (start, mask) = (self.start().as_ptr(), [nodes]);
        // SAFETY: the range is a mapping of ours; the mask has as many bits as are announced, and one more is announced
        // than is read (get_nodes in mm/mempolicy.c).
        let done = unsafe {
            libc::syscall(libc::SYS_mbind, start, self.length(), INTERLEAVE, mask.as_ptr(), u64::BITS + 1, 0)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has the kernel bring in every page for writing, with `threads` threads at once. Where it cannot
    /// (`MADV_POPULATE_WRITE` came with Linux 5.14) the threads write to each page.
    ///
    /// # Errors
    /// The kernel's: `EFAULT` or `ENOMEM` where memory is short, `EHWPOISON`.
    pub fn populate(&self, step: PageSize, threads: usize) -> io::Result<()> {
        self.in_parts(step, threads, |segment, from, to| {
            match segment.advise(from, to - from, libc::MADV_POPULATE_WRITE) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    segment.write_each(from, to, step);
                    Ok(())
                }
                done => done,
            }
        })
    }

    /// Fills it with zeros, with `threads` threads at once: as much in one go as a thread takes at a time.
    pub fn fill(&self, threads: usize) {
        self.zero(threads, usize::MAX);
    }

    /// Fills it with zeros a base page at a time, as Linux 6.18 clears a huge page (`folio_zero_user` in
    /// mm/memory.c): processors zero a longer stretch quicker than as many short ones.
    pub(crate) fn fill_by_pages(&self, threads: usize) {
        self.zero(threads, rustix::param::page_size());
    }

    fn zero(&self, threads: usize, at_once: usize) {
        let done = self.in_parts(PageSize::MIB_2, threads, |segment, from, to| {
            for start in (from..to).step_by(at_once) {
                let length = at_once.min(to - start);
                // SAFETY: the range is a part of the mapping, which is writable, and no reference into it exists.
                unsafe { segment.start().as_ptr().add(start).write_bytes(0, length) };
            }
            Ok(())
        });
        debug_assert!(done.is_ok());
    }

    /// Gives the pages of a part back to the kernel; private memory alone.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn discard(&self, from: usize, length: usize) -> io::Result<()> {
        self.advise(from, length, libc::MADV_DONTNEED)
    }

    /// Runs `work` on one part after the other, each from a multiple of `unit` on, with `threads` threads: whoever is
    /// done takes the next, so that nobody waits long for one that others kept from its processor. The first error
    /// counts.
    fn in_parts(
        &self,
        unit: PageSize,
        threads: usize,
        work: impl Fn(&Self, usize, usize) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        /// Large enough that taking one costs nothing.
        const PART: usize = 64 << 20;
        let unit = usize::try_from(unit.bytes().get()).map_err(io::Error::other)?;
        let even = self.length().div_ceil(unit).div_ceil(threads.max(1)) * unit;
        let part = (PART.div_ceil(unit) * unit).min(even).max(unit);
        let parts = self.length().div_ceil(part);
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut result = Ok(());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= parts || result.is_err() {
                    return result;
                }
                result = work(self, at * part, ((at + 1) * part).min(self.length()));
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.clamp(1, parts.max(1))).map(|_| scope.spawn(worker)).collect();
            let mut result = Ok(());
            for worker in workers {
                result = result.and(worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))));
            }
            result
        })
    }

    fn advise(&self, from: usize, length: usize, advice: libc::c_int) -> io::Result<()> {
        if from.checked_add(length).is_none_or(|end| end > self.length()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range lies within the mapping, and no reference into it exists that a change of its pages could
        // surprise.
        match unsafe { libc::madvise(self.start().as_ptr().add(from).cast(), length, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn write_each(&self, from: usize, to: usize, step: PageSize) {
        let step = usize::try_from(step.bytes().get()).unwrap_or(usize::MAX);
        for at in (from..to.min(self.length())).step_by(step) {
            // SAFETY: `at` is below `length`, the mapping is writable, and no reference into it exists.
            unsafe { self.start().as_ptr().add(at).write_volatile(0) };
        }
    }

    /// Touches one byte in each page as `touch` says, and asks `go_on` every few thousand pages.
    pub fn touch_pages(&self, touch: Touch, go_on: impl Fn() -> bool) {
        const BETWEEN: usize = 4096;
        let step = usize::try_from(touch.step.bytes().get()).unwrap_or(usize::MAX);
        let pages = self.length().div_ceil(step);
        let count = (pages * usize::from(touch.percent.min(100))).div_ceil(100);
        let stride = match touch.order {
            Order::Sequential => 1,
            Order::Random => scattering(pages),
        };
        let mut page = 0;
        for done in 0..count {
            if done % BETWEEN == BETWEEN - 1 && !go_on() {
                return;
            }
            // SAFETY: `page` is below the number of pages, so its first byte is below `length`; the mapping is readable
            // and writable as long as `self` lives. Other processes may write there meanwhile: access is volatile, what
            // is read is not used, and what is written is what all others write.
            unsafe {
                let at = self.start().as_ptr().add(page * step);
                match touch.access {
                    Access::Read => drop(at.read_volatile()),
                    Access::Write => at.write_volatile(0),
                }
            }
            page += stride;
            if page >= pages {
                page -= pages;
            }
        }
    }
}

/// A stride that leads to every one of so many pages before it comes back, and to none near the last one: the part of
/// the golden ratio, and on to the next number without a common divisor.
fn scattering(pages: usize) -> usize {
    fn divisor(mut a: usize, mut b: usize) -> usize {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }
    let wide = u128::try_from(pages).unwrap_or(0) * 0x9e37_79b9_7f4a_7c15;
    let stride = usize::try_from(wide >> 64).unwrap_or(0).max(1);
    (stride..pages).find(|stride| divisor(*stride, pages) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Kind, Pages};
    use hugewise_model::Bytes;

    /// How many of the segment's pages are in memory (mincore(2)).
    fn resident(segment: &Segment) -> usize {
        let mut pages = vec![0_u8; segment.length().div_ceil(rustix::param::page_size())];
        // SAFETY: the vector has a byte for each page of the mapping.
        let done = unsafe { libc::mincore(segment.start().as_ptr().cast(), segment.length(), pages.as_mut_ptr()) };
        assert_eq!(done, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn what_is_touched_is_in_memory_and_nothing_else() {
        let base = rustix::param::page_size();
        let step = PageSize::new(base as u64).unwrap();
        let mib = (1 << 20) / base;
        for (order, access) in [(Order::Sequential, Access::Write), (Order::Random, Access::Write)] {
            let segment = Segment::create(Kind::Private, Bytes::from_mib(4), Pages::Base).unwrap();
            segment.transparent(false).unwrap();
            assert_eq!(resident(&segment), 0);
            segment.touch_pages(Touch { step, percent: 25, order, access }, || true);
            assert_eq!(resident(&segment), mib, "{order:?}");
            segment.touch_pages(Touch { step, percent: 100, order, access }, || true);
            assert_eq!(resident(&segment), 4 * mib, "{order:?}");
            segment.discard(0, 1 << 20).unwrap();
            assert_eq!(resident(&segment), 3 * mib);
        }
    }

    #[test]
    fn populating_brings_in_everything_with_any_number_of_threads() {
        for threads in [1, 2, 3, 64] {
            let segment = Segment::create(Kind::Memfd, Bytes::from_mib(3), Pages::Base).unwrap();
            segment.populate(PageSize::MIB_2, threads).unwrap();
            assert_eq!(resident(&segment), segment.length() / rustix::param::page_size());
            segment.fill(threads);
            segment.fill_by_pages(threads);
        }
    }

    #[test]
    fn every_byte_is_in_one_part() {
        let segment = Segment::create(Kind::Private, Bytes::from_mib(131), Pages::Base).unwrap();
        for (unit, threads) in [(PageSize::MIB_2, 1), (PageSize::MIB_2, 3), (PageSize::KIB_4, 2), (PageSize::GIB_1, 2)]
        {
            let parts = std::sync::Mutex::new(Vec::new());
            let seen = |_: &Segment, from: usize, to: usize| {
                parts.lock().unwrap().push((from, to));
                Ok(())
            };
            segment.in_parts(unit, threads, seen).unwrap();
            let mut parts = parts.into_inner().unwrap();
            parts.sort_unstable();
            assert_eq!((parts[0].0, parts.last().unwrap().1), (0, segment.length()));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{parts:?}");
        }
        let failed = segment.in_parts(PageSize::MIB_2, 2, |_, _, _| Err(io::ErrorKind::Other.into()));
        assert!(failed.is_err());
    }

    #[test]
    fn a_scattered_way_leads_everywhere_once() {
        for pages in [1, 2, 3, 4, 6, 512, 1000, 2560] {
            let stride = scattering(pages);
            let mut seen = vec![false; pages];
            let mut at = 0;
            for _ in 0..pages {
                assert!(!std::mem::replace(&mut seen[at], true), "{pages}");
                at = (at + stride) % pages;
            }
        }
    }

    #[test]
    fn nothing_outside_the_segment_is_ever_advised() {
        let segment = Segment::create(Kind::Private, Bytes::from_mib(1), Pages::Base).unwrap();
        assert!(segment.discard(1 << 20, 1).is_err() && segment.discard(usize::MAX, 4096).is_err());
    }
}
