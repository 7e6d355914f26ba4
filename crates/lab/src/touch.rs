//! Touching a segment: page by page, or by the kernel, with one thread or many.

#![allow(unsafe_code, reason = "memory is touched through raw addresses")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use hugewise_model::PageSize;
use serde::{Deserialize, Serialize};

use crate::segment::MappedSegment;
use crate::system_call::check_result;

/// In which order memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TouchOrder {
    /// From the start: a part is in one piece.
    Sequential,
    /// All over the segment: a part is scattered, like the blocks of a session.
    Random,
}

/// What is done to each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TouchAccess {
    /// One byte is read.
    Read,
    /// One byte is written: zero, like the kernel's memory.
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
    pub order: TouchOrder,
    /// Read or written.
    pub access: TouchAccess,
}

impl MappedSegment {
    /// Asks for transparent huge pages, or keeps them away.
    /// Errors: `EINVAL` where the kernel has none.
    pub(crate) fn advise_transparent(&self, wanted: bool) -> io::Result<()> {
        self.advise_range(
            0,
            self.byte_length(),
            if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE },
        )
    }

    pub(crate) fn interleave_nodes(&self, nodes: u64) -> io::Result<()> {
        /// `MPOL_INTERLEAVE` of linux/mempolicy.h.
        const INTERLEAVE: libc::c_long = 3;
        if nodes.count_ones() < 2 {
            return Ok(());
        }
        let (start, mask) = (self.start_address().as_ptr(), [nodes]);
        // SAFETY: the range is a mapping of ours; the mask has as many bits as are announced, and
        // one more is announced than is read (get_nodes in mm/mempolicy.c).
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                start,
                self.byte_length(),
                INTERLEAVE,
                mask.as_ptr(),
                u64::BITS + 1,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has the kernel bring in every page for writing, with `threads` threads. Before
    /// `MADV_POPULATE_WRITE` (Linux 5.14) the threads write to each page.
    /// Errors: `EFAULT` or `ENOMEM` where memory is short, `EHWPOISON`.
    pub(crate) fn populate_pages(&self, step: PageSize, threads: usize) -> io::Result<()> {
        self.in_parts(step, threads, |segment, from, to| {
            match segment.advise_range(from, to - from, libc::MADV_POPULATE_WRITE) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    segment.write_each(from, to, step);
                    Ok(())
                }
                done => done,
            }
        })
    }

    pub(crate) fn fill_with_zeros(&self, threads: usize) {
        self.zero_in_chunks(threads, usize::MAX);
    }

    /// Fills it with zeros a base page at a time, as Linux 6.18 clears a huge page
    /// (`folio_zero_user` in mm/memory.c): processors zero one long stretch faster than many short
    /// ones.
    pub(crate) fn fill_by_pages(&self, threads: usize) {
        self.zero_in_chunks(threads, rustix::param::page_size());
    }

    fn zero_in_chunks(&self, threads: usize, at_once: usize) {
        let done = self.in_parts(PageSize::MIB_2, threads, |segment, from, to| {
            for start in (from..to).step_by(at_once) {
                let length = at_once.min(to - start);
                // SAFETY: the range is in the mapping, which is writable, and no reference into it
                // exists.
                unsafe { segment.start_address().as_ptr().add(start).write_bytes(0, length) };
            }
            Ok(())
        });
        debug_assert!(done.is_ok());
    }

    pub(crate) fn discard_pages(&self, from: usize, length: usize) -> io::Result<()> {
        self.advise_range(from, length, libc::MADV_DONTNEED)
    }

    /// Runs `work` on consecutive parts at multiples of `unit`, with `threads` threads: whoever is
    /// done takes the next, so that nobody waits long for a slow one. The first error counts.
    fn in_parts(
        &self,
        unit: PageSize,
        threads: usize,
        work: impl Fn(&Self, usize, usize) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        /// Large enough that taking one costs nothing.
        const PART: usize = 64 << 20;
        let unit = usize::try_from(unit.bytes().get()).map_err(io::Error::other)?;
        let even = self.byte_length().div_ceil(unit).div_ceil(threads.max(1)) * unit;
        let part = (PART.div_ceil(unit) * unit).min(even).max(unit);
        let parts = self.byte_length().div_ceil(part);
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut result = Ok(());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= parts || result.is_err() {
                    return result;
                }
                result = work(self, at * part, ((at + 1) * part).min(self.byte_length()));
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads.clamp(1, parts.max(1))).map(|_| scope.spawn(worker)).collect();
            let mut result = Ok(());
            for worker in workers {
                result = result.and(
                    worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))),
                );
            }
            result
        })
    }

    fn advise_range(&self, from: usize, length: usize, advice: libc::c_int) -> io::Result<()> {
        if from.checked_add(length).is_none_or(|end| end > self.byte_length()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is in the mapping, and no reference into it exists that a change of its
        // pages could surprise.
        check_result(unsafe {
            libc::madvise(self.start_address().as_ptr().add(from).cast(), length, advice)
        })
    }

    fn write_each(&self, from: usize, to: usize, step: PageSize) {
        let step = usize::try_from(step.bytes().get()).unwrap_or(usize::MAX);
        for at in (from..to.min(self.byte_length())).step_by(step) {
            // SAFETY: `at` is below `length`, the mapping is writable, and no reference into it
            // exists.
            unsafe { self.start_address().as_ptr().add(at).write_volatile(0) };
        }
    }

    /// Touches one byte in each page as `touch` says, and asks `go_on` every few thousand pages.
    pub fn touch_pages(&self, touch: Touch, go_on: impl Fn() -> bool) {
        const BETWEEN: usize = 4096;
        let step = usize::try_from(touch.step.bytes().get()).unwrap_or(usize::MAX);
        let pages = self.byte_length().div_ceil(step);
        let count = (pages * usize::from(touch.percent.min(100))).div_ceil(100);
        let stride = match touch.order {
            TouchOrder::Sequential => 1,
            TouchOrder::Random => scattering_stride(pages),
        };
        let mut page = 0;
        for done in 0..count {
            if done % BETWEEN == BETWEEN - 1 && !go_on() {
                return;
            }
            // SAFETY: `page` is below the number of pages, so its first byte is below `length`; the
            // mapping is readable and writable as long as `self` lives. Others may write there
            // meanwhile: access is volatile, what is read is not used, and all write the same.
            unsafe {
                let at = self.start_address().as_ptr().add(page * step);
                match touch.access {
                    TouchAccess::Read => drop(at.read_volatile()),
                    TouchAccess::Write => at.write_volatile(0),
                }
            }
            page += stride;
            if page >= pages {
                page -= pages;
            }
        }
    }
}

/// A stride that visits every page before it returns, and none near the last one: by the golden
/// ratio, and on to the next number without a common divisor.
fn scattering_stride(pages: usize) -> usize {
    fn common_divisor(mut a: usize, mut b: usize) -> usize {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }
    let wide = u128::try_from(pages).unwrap_or(0) * 0x9e37_79b9_7f4a_7c15;
    let stride = usize::try_from(wide >> 64).unwrap_or(0).max(1);
    (stride..pages).find(|stride| common_divisor(*stride, pages) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{SegmentPages, SegmentSource};
    use hugewise_model::Bytes;

    /// How many of the segment's pages are in memory (mincore(2)).
    fn resident(segment: &MappedSegment) -> usize {
        let mut pages = vec![0_u8; segment.byte_length().div_ceil(rustix::param::page_size())];
        // SAFETY: the vector has a byte for each page of the mapping.
        let done = unsafe {
            libc::mincore(
                segment.start_address().as_ptr().cast(),
                segment.byte_length(),
                pages.as_mut_ptr(),
            )
        };
        assert_eq!(done, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn what_is_touched_is_in_memory_and_nothing_else() {
        let base = rustix::param::page_size();
        let step = PageSize::new(base as u64).unwrap();
        let mib = (1 << 20) / base;
        for (order, access) in
            [(TouchOrder::Sequential, TouchAccess::Write), (TouchOrder::Random, TouchAccess::Write)]
        {
            let segment = MappedSegment::create(
                SegmentSource::Private,
                Bytes::from_mib(4),
                SegmentPages::Base,
            )
            .unwrap();
            segment.advise_transparent(false).unwrap();
            assert_eq!(resident(&segment), 0);
            segment.touch_pages(Touch { step, percent: 25, order, access }, || true);
            assert_eq!(resident(&segment), mib, "{order:?}");
            segment.touch_pages(Touch { step, percent: 100, order, access }, || true);
            assert_eq!(resident(&segment), 4 * mib, "{order:?}");
            segment.discard_pages(0, 1 << 20).unwrap();
            assert_eq!(resident(&segment), 3 * mib);
        }
    }

    #[test]
    fn populating_brings_in_everything_with_any_number_of_threads() {
        for threads in [1, 2, 3, 64] {
            let segment =
                MappedSegment::create(SegmentSource::Memfd, Bytes::from_mib(3), SegmentPages::Base)
                    .unwrap();
            segment.populate_pages(PageSize::MIB_2, threads).unwrap();
            assert_eq!(resident(&segment), segment.byte_length() / rustix::param::page_size());
            segment.fill_with_zeros(threads);
            segment.fill_by_pages(threads);
        }
    }

    #[test]
    fn every_byte_is_in_one_part() {
        let segment =
            MappedSegment::create(SegmentSource::Private, Bytes::from_mib(131), SegmentPages::Base)
                .unwrap();
        for (unit, threads) in
            [(PageSize::MIB_2, 1), (PageSize::MIB_2, 3), (PageSize::KIB_4, 2), (PageSize::GIB_1, 2)]
        {
            let parts = std::sync::Mutex::new(Vec::new());
            let seen = |_: &MappedSegment, from: usize, to: usize| {
                parts.lock().unwrap().push((from, to));
                Ok(())
            };
            segment.in_parts(unit, threads, seen).unwrap();
            let mut parts = parts.into_inner().unwrap();
            parts.sort_unstable();
            assert_eq!((parts[0].0, parts.last().unwrap().1), (0, segment.byte_length()));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{parts:?}");
        }
        let failed =
            segment.in_parts(PageSize::MIB_2, 2, |_, _, _| Err(io::ErrorKind::Other.into()));
        assert!(failed.is_err());
    }

    #[test]
    fn a_scattered_way_leads_everywhere_once() {
        for pages in [1, 2, 3, 4, 6, 512, 1000, 2560] {
            let stride = scattering_stride(pages);
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
        let segment =
            MappedSegment::create(SegmentSource::Private, Bytes::from_mib(1), SegmentPages::Base)
                .unwrap();
        assert!(
            segment.discard_pages(1 << 20, 1).is_err()
                && segment.discard_pages(usize::MAX, 4096).is_err()
        );
    }
}
