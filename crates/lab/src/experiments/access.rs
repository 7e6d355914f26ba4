//! What private memory costs by page size: the first touch, bringing it in with all cores, random access, fork.

#![allow(unsafe_code, reason = "what a fork costs is measured by forking")]

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::server::processors;
use super::{private, unit, warm};
use crate::budget::Available;
use crate::chase::Chain;
use crate::counters::TlbMisses;
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::measure::faults;
use crate::results::Reading;
use crate::segment::Segment;
use crate::thp;
use crate::touch::{Access as How, Order, Touch};
use crate::variant::{Variant, base_page};

/// Accesses of one sample.
const STEPS: u32 = 1 << 20;
/// Samples of random access, of filling and of forking in each round.
const REPEATS: u32 = 3;
/// The largest working set that is tried without being asked for.
const LARGEST: Bytes = Bytes::from_gib(8);
/// Each working set is so many times the one before.
const GROWTH: u64 = 4;
/// Time of everything but random access for one gibibyte, and of a sample of random access.
const PER_GIB: Duration = Duration::from_millis(4000);
const PER_SAMPLE: Duration = Duration::from_millis(150);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Access {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// How much memory is touched, filled and forked.
    pub size: Bytes,
    /// Working sets of random access, powers of two up to `size`.
    pub working_sets: Vec<Bytes>,
    /// Threads that bring memory in and fill it.
    pub threads: usize,
    notes: BTreeSet<String>,
}

impl Access {
    /// On as much memory as the largest power of two up to 8 GiB of which the host has twice as much to spare.
    pub fn new(variants: Vec<Variant>, room: &Available) -> Self {
        let half = room.spare().shared_by(2).unwrap_or_default().min(LARGEST).get();
        Self::of(variants, Bytes(half.checked_ilog2().map_or(0, |exponent| 1 << exponent)))
    }

    /// On `size` bytes, with working sets from the processor's second cache up to it.
    pub fn of(variants: Vec<Variant>, size: Bytes) -> Self {
        let mut working_sets = Vec::new();
        let mut set = second_cache().get();
        while set <= size.get() {
            working_sets.push(Bytes(set));
            set = set.saturating_mul(GROWTH);
        }
        let largest = size.get().checked_ilog2().map(|exponent| Bytes(1 << exponent));
        working_sets.extend(largest.filter(|largest| working_sets.last() < Some(largest) && largest.get() >= 4096));
        let threads = usize::try_from(processors()).unwrap_or(1);
        Self { variants, size, working_sets, threads, notes: BTreeSet::new() }
    }

    fn segment(&self, variant: Variant) -> Result<Segment, Failure> {
        private(variant, self.size)
    }

    /// One thread writes to each page for the first time.
    fn first_touch(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let segment = self.segment(variant)?;
        let step = variant.pool().unwrap_or_else(base_page);
        let touch = Touch { step, percent: 100, order: Order::Sequential, access: How::Write };
        let (begun, before) = (Instant::now(), faults()?);
        segment.touch_pages(touch, || !context.cancel.is_stopped());
        let (took, faults) = (begun.elapsed().as_secs_f64(), faults()?.saturating_sub(before).max(1));
        context.cancel.check()?;
        self.note_missing(variant, faults);
        let faults = f64::from(u32::try_from(faults).unwrap_or(u32::MAX));
        Ok(vec![
            Reading::higher("first_touch", "B/s", self.size.as_f64() / took),
            Reading::lower("faults", "1", faults),
            Reading::lower("fault_time", "s", took / faults),
        ])
    }

    /// A transparent page that the kernel did not give came as many base pages, each with a fault of its own.
    fn note_missing(&mut self, variant: Variant, faults: u64) {
        let page = match variant {
            Variant::Thp => thp::large_size(),
            Variant::Mthp(page) => page,
            Variant::Base | Variant::Huge(_) => return,
        };
        let pages = page.pages_for(self.size).get();
        let missing = faults.saturating_sub(pages) / (page.bytes().get() / base_page().bytes().get()).max(1);
        if missing > pages / 100 {
            self.notes.insert(format!("{variant}: about {missing} of {pages} pages were base pages"));
        }
    }

    /// All cores bring everything in, and fill what is there then, several times. Gives the last segment, too.
    fn filled(&self, variant: Variant, context: &Context<'_>) -> Result<(Segment, Vec<Reading>), Failure> {
        let mut segment = self.segment(variant)?;
        let (mut populated, mut fills, mut by_pages, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let rate = |work: &mut dyn FnMut() -> io::Result<()>| -> Result<f64, Failure> {
            context.cancel.check()?;
            let begun = Instant::now();
            work()?;
            Ok(self.size.as_f64() / begun.elapsed().as_secs_f64())
        };
        for _ in 0..REPEATS {
            // Given back first: both do not fit.
            drop(segment);
            segment = self.segment(variant)?;
            let had = rate(&mut || segment.populate(unit(variant), self.threads))?;
            let filled = rate(&mut || {
                segment.fill(self.threads);
                Ok(())
            })?;
            by_pages.push(rate(&mut || {
                segment.fill_by_pages(self.threads);
                Ok(())
            })?);
            populated.push(had);
            fills.push(filled);
            ratios.push(had / filled);
        }
        let readings = vec![
            Reading::higher("prefault", "B/s", 0.0).values(populated),
            Reading::higher("memset", "B/s", 0.0).values(fills),
            Reading::higher("memset_by_base_pages", "B/s", 0.0).values(by_pages),
            Reading::higher("prefault_of_memset", "1", 0.0).values(ratios),
        ];
        Ok((segment, readings))
    }

    fn random(&mut self, segment: &Segment, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let mut misses = match TlbMisses::open() {
            Ok(misses) => Some(misses),
            Err(reason) => {
                self.notes.insert(format!("TLB misses were not counted: {reason}"));
                None
            }
        };
        let mut readings = Vec::new();
        for set in &self.working_sets {
            let bytes = usize::try_from(set.get()).unwrap_or(usize::MAX);
            let chain = Chain::link(segment, bytes, || !context.cancel.is_stopped());
            context.cancel.check()?;
            let Some(mut chain) = chain else { continue };
            // What the caches can hold of it they shall hold.
            chain.follow(STEPS);
            let mut times = Vec::new();
            let mut counts = Vec::new();
            for _ in 0..REPEATS {
                context.cancel.check()?;
                let mut took = Duration::ZERO;
                match &mut misses {
                    Some(misses) => {
                        let count = misses.during(|| took = chain.follow(STEPS))?;
                        counts.push(f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / f64::from(STEPS));
                    }
                    None => took = chain.follow(STEPS),
                }
                times.push(took.as_secs_f64() * 1e9 / f64::from(STEPS));
            }
            readings.push(Reading::lower("random_access", "ns", 0.0).values(times).segment(set.get()));
            readings.push(Reading::lower("tlb_misses", "1", 0.0).values(counts).segment(set.get()));
        }
        Ok(readings)
    }
}

impl Experiment for Access {
    fn name(&self) -> &'static str {
        "access"
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    fn variants(&self) -> Vec<Variant> {
        self.variants.clone()
    }

    fn needs(&self, variant: Variant) -> Needs {
        // Page tables, of this process and for a moment of a forked one.
        let tables = self.size.shared_by(256).unwrap_or_default() + Bytes::from_mib(16);
        let (memory, huge) = match variant.pool() {
            Some(page) => (Bytes::ZERO, page.pages_for(self.size).of(page)),
            None => (self.size, Bytes::ZERO),
        };
        let samples = u32::try_from(self.working_sets.len()).unwrap_or(u32::MAX).saturating_mul(REPEATS + 1);
        let gibibytes = self.size.part_of(Bytes::from_gib(1)).unwrap_or(0.0);
        Needs {
            memory: memory + tables,
            huge,
            processes: 1,
            obeys: thp::Memory::Private,
            time: PER_GIB.mul_f64(gibibytes) + PER_SAMPLE * samples,
        }
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        warm(variant, self.size, self.threads)?;
        context.cancel.check()?;
        let mut readings = self.first_touch(variant, context)?;
        let (segment, filled) = self.filled(variant, context)?;
        readings.extend(filled);
        let mut forks = Vec::new();
        for _ in 0..REPEATS {
            forks.push(fork()?.as_secs_f64());
        }
        readings.push(Reading::lower("fork", "s", 0.0).values(forks));
        let size = self.size.get();
        let mut readings: Vec<_> = readings.into_iter().map(|reading| reading.segment(size)).collect();
        readings.extend(self.random(&segment, context)?);
        Ok(readings)
    }

    fn notes(&self) -> Vec<String> {
        let clearing = "the kernel must clear every page it brings in, and Linux 6.18 does so one base page at a time: \
                        at best prefault nears the speed of memset on base pages, which is slower than one large \
                        memset";
        self.notes.iter().cloned().chain([clearing.to_owned()]).collect()
    }
}

/// How long fork(2) takes in the parent.
fn fork() -> io::Result<Duration> {
    let begun = Instant::now();
    // SAFETY: the child does nothing but end at once, so that it needs no lock which another thread may hold.
    let pid = unsafe { libc::fork() };
    let took = begun.elapsed();
    match pid {
        // SAFETY: ends the child at once; what is set up to run at exit belongs to the parent.
        0 => unsafe { libc::_exit(0) },
        -1 => Err(io::Error::last_os_error()),
        pid => {
            let mut status = 0;
            // SAFETY: the pointer is to an integer of ours that the kernel may fill in.
            while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(took)
        }
    }
}

/// The size of the processor's second cache as a power of two, or a mebibyte where nothing is known of it.
fn second_cache() -> Bytes {
    let text = crate::values::value("/sys/devices/system/cpu/cpu0/cache/index2/size").unwrap_or_default();
    let size = Bytes::parse(&text).unwrap_or(Bytes::from_mib(1)).get().next_power_of_two();
    Bytes(size.clamp(64 << 10, 64 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Gauge;
    use crate::cancel::Cancel;

    #[test]
    fn working_sets_grow_to_the_whole() {
        let access = Access::of(Vec::new(), Bytes::from_gib(8));
        assert_eq!(access.working_sets.last(), Some(&Bytes::from_gib(8)));
        assert!(access.working_sets.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", access.working_sets);
        assert!(Access::of(Vec::new(), Bytes::ZERO).working_sets.is_empty());
        let room = |available| Available {
            total: Bytes::from_gib(64),
            available: Bytes::from_gib(available),
            processes: None,
        };
        assert_eq!(Access::new(Vec::new(), &room(60)).size, Bytes::from_gib(8));
        // 7 of 10 GiB to spare, half of it rounded down.
        assert_eq!(Access::new(Vec::new(), &room(10)).size, Bytes::from_gib(2));
        assert_eq!(Access::new(Vec::new(), &room(1)).size, Bytes::ZERO);
    }

    #[test]
    fn base_pages_have_a_fault_each_and_everything_is_measured() {
        let cancel = Cancel::never();
        let gauge = Gauge::new();
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let mut access = Access::of(vec![Variant::Base], Bytes::from_mib(16));
        let readings = access.measure(Variant::Base, &context).unwrap();
        let value = |metric: &str| readings.iter().find(|reading| reading.metric == metric).unwrap().values[0];
        let pages = f64::from(u32::try_from(base_page().pages_for(Bytes::from_mib(16)).get()).unwrap());
        assert!(value("faults") >= pages && value("faults") < pages * 1.1, "{}", value("faults"));
        let all = ["first_touch", "prefault", "memset", "memset_by_base_pages", "prefault_of_memset", "fork"];
        for metric in all.into_iter().chain(["random_access"]) {
            assert!(value(metric) > 0.0, "{metric}");
        }
        cancel.stop("enough");
        assert!(matches!(access.measure(Variant::Base, &context), Err(Failure::Stopped(_))));
    }
}
