//! The costs of private memory by page size: first touch, populating on all cores, random access,
//! fork.

#![allow(unsafe_code, reason = "what a fork costs is measured by forking")]

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::server::processor_count;
use super::{create_private_segment, populate_unit, warm_up_memory};
use crate::budget::AvailableResources;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::pointer_chase::PointerChain;
use crate::results::MetricReading;
use crate::segment::MappedSegment;
use crate::system_call::thread_minor_faults;
use crate::thp_switches;
use crate::tlb_counter::TlbMisses;
use crate::touch::{Touch, TouchAccess as How, TouchOrder};
use crate::variant::{Variant, base_page};

const STEPS: u32 = 1 << 20;
const REPEATS: u32 = 3;
const LARGEST: Bytes = Bytes::from_gib(8);
const GROWTH: u64 = 4;
/// Time for a gibibyte of everything but random access, and for a sample of random access.
const PER_GIB: Duration = Duration::from_millis(4000);
const PER_SAMPLE: Duration = Duration::from_millis(150);

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct AccessExperiment {
    /// The pages to compare.
    pub variants: Vec<Variant>,
    /// How much memory is touched, filled and forked.
    pub size: Bytes,
    /// Working sets of random access, powers of two up to `size`.
    pub working_sets: Vec<Bytes>,
    /// Threads that populate and fill memory.
    pub threads: usize,
    notes: BTreeSet<String>,
}

impl AccessExperiment {
    /// With the largest power of two up to 8 GiB of which the host can spare twice as much.
    pub fn new(variants: Vec<Variant>, room: &AvailableResources) -> Self {
        let half = room.spare_memory().shared_by(2).unwrap_or_default().min(LARGEST).get();
        Self::with_size(variants, Bytes(half.checked_ilog2().map_or(0, |exponent| 1 << exponent)))
    }

    /// With `size` bytes, and working sets from the processor's second cache up to it.
    pub fn with_size(variants: Vec<Variant>, size: Bytes) -> Self {
        let mut working_sets = Vec::new();
        let mut set = second_cache().get();
        while set <= size.get() {
            working_sets.push(Bytes(set));
            set = set.saturating_mul(GROWTH);
        }
        let largest = size.get().checked_ilog2().map(|exponent| Bytes(1 << exponent));
        working_sets.extend(
            largest.filter(|largest| working_sets.last() < Some(largest) && largest.get() >= 4096),
        );
        let threads = usize::try_from(processor_count()).unwrap_or(1);
        Self { variants, size, working_sets, threads, notes: BTreeSet::new() }
    }

    fn first_touch(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let segment = create_private_segment(variant, self.size)?;
        let step = variant.pool_page_size().unwrap_or_else(base_page);
        let touch = Touch { step, percent: 100, order: TouchOrder::Sequential, access: How::Write };
        let (begun, before) = (Instant::now(), thread_minor_faults()?);
        segment.touch_pages(touch, || !context.cancel.is_stopped());
        let (took, faults) =
            (begun.elapsed().as_secs_f64(), thread_minor_faults()?.saturating_sub(before).max(1));
        context.cancel.check_running()?;
        self.note_missing(variant, faults);
        let faults = f64::from(u32::try_from(faults).unwrap_or(u32::MAX));
        Ok(vec![
            MetricReading::higher_is_better("first_touch", "B/s", self.size.as_f64() / took),
            MetricReading::lower_is_better("faults", "1", faults),
            MetricReading::lower_is_better("fault_time", "s", took / faults),
        ])
    }

    /// Each base page in place of a transparent huge page costs a fault.
    fn note_missing(&mut self, variant: Variant, faults: u64) {
        let page = match variant {
            Variant::Thp => thp_switches::large_size(),
            Variant::Mthp(page) => page,
            Variant::Base | Variant::Huge(_) => return,
        };
        let pages = page.pages_for(self.size).get();
        let missing =
            faults.saturating_sub(pages) / (page.bytes().get() / base_page().bytes().get()).max(1);
        if missing > pages / 100 {
            self.notes
                .insert(format!("{variant}: about {missing} of {pages} pages were base pages"));
        }
    }

    fn measure_fills(
        &self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<(MappedSegment, Vec<MetricReading>), ExperimentFailure> {
        let mut segment = create_private_segment(variant, self.size)?;
        let (mut populated, mut fills, mut by_pages, mut ratios) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let rate = |work: &mut dyn FnMut() -> io::Result<()>| -> Result<f64, ExperimentFailure> {
            context.cancel.check_running()?;
            let begun = Instant::now();
            work()?;
            Ok(self.size.as_f64() / begun.elapsed().as_secs_f64())
        };
        for _ in 0..REPEATS {
            // Given back first: both do not fit.
            drop(segment);
            segment = create_private_segment(variant, self.size)?;
            let had = rate(&mut || segment.populate_pages(populate_unit(variant), self.threads))?;
            let filled = rate(&mut || {
                segment.fill_with_zeros(self.threads);
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
            MetricReading::higher_is_better("prefault", "B/s", 0.0).with_values(populated),
            MetricReading::higher_is_better("memset", "B/s", 0.0).with_values(fills),
            MetricReading::higher_is_better("memset_by_base_pages", "B/s", 0.0)
                .with_values(by_pages),
            MetricReading::higher_is_better("prefault_of_memset", "1", 0.0).with_values(ratios),
        ];
        Ok((segment, readings))
    }

    fn measure_random_access(
        &mut self,
        segment: &MappedSegment,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
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
            let chain = PointerChain::link_lines(segment, bytes, || !context.cancel.is_stopped());
            context.cancel.check_running()?;
            let Some(mut chain) = chain else { continue };
            // Warms the caches.
            chain.follow_steps(STEPS);
            let mut times = Vec::new();
            let mut counts = Vec::new();
            for _ in 0..REPEATS {
                context.cancel.check_running()?;
                let mut took = Duration::ZERO;
                match &mut misses {
                    Some(misses) => {
                        let count = misses.count_during(|| took = chain.follow_steps(STEPS))?;
                        counts.push(
                            f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / f64::from(STEPS),
                        );
                    }
                    None => took = chain.follow_steps(STEPS),
                }
                times.push(took.as_secs_f64() * 1e9 / f64::from(STEPS));
            }
            readings.push(
                MetricReading::lower_is_better("random_access", "ns", 0.0)
                    .with_values(times)
                    .with_segment(set.get()),
            );
            readings.push(
                MetricReading::lower_is_better("tlb_misses", "1", 0.0)
                    .with_values(counts)
                    .with_segment(set.get()),
            );
        }
        Ok(readings)
    }
}

impl Experiment for AccessExperiment {
    fn name(&self) -> &'static str {
        "access"
    }
    fn engine(&self) -> &'static str {
        "memory"
    }
    fn variants(&self) -> Vec<Variant> {
        self.variants.clone()
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        // Page tables of this process and briefly of a forked one.
        let tables = self.size.shared_by(256).unwrap_or_default() + Bytes::from_mib(16);
        let (memory, huge) = match variant.pool_page_size() {
            Some(page) => (Bytes::ZERO, page.pages_for(self.size).to_bytes(page)),
            None => (self.size, Bytes::ZERO),
        };
        let samples =
            u32::try_from(self.working_sets.len()).unwrap_or(u32::MAX).saturating_mul(REPEATS + 1);
        let gibibytes = self.size.part_of(Bytes::from_gib(1)).unwrap_or(0.0);
        Needs {
            memory: memory + tables,
            huge,
            processes: 1,
            obeys: thp_switches::ThpMemoryKind::Private,
            time: PER_GIB.mul_f64(gibibytes) + PER_SAMPLE * samples,
        }
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        warm_up_memory(variant, self.size, self.threads)?;
        context.cancel.check_running()?;
        let mut readings = self.first_touch(variant, context)?;
        let (segment, filled) = self.measure_fills(variant, context)?;
        readings.extend(filled);
        let mut forks = Vec::new();
        for _ in 0..REPEATS {
            forks.push(time_fork()?.as_secs_f64());
        }
        readings.push(MetricReading::lower_is_better("fork", "s", 0.0).with_values(forks));
        let size = self.size.get();
        let mut readings: Vec<_> =
            readings.into_iter().map(|reading| reading.with_segment(size)).collect();
        readings.extend(self.measure_random_access(&segment, context)?);
        Ok(readings)
    }

    fn result_notes(&self) -> Vec<String> {
        let clearing = "the kernel must clear every page it brings in, and Linux 6.18 does so one \
             base page at a time: at best prefault nears the speed of memset on base pages, which \
             is slower than one large memset";
        self.notes.iter().cloned().chain([clearing.to_owned()]).collect()
    }
}

fn time_fork() -> io::Result<Duration> {
    let begun = Instant::now();
    // SAFETY: the child ends at once, so that it needs no lock which another thread may hold.
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

/// A power of two; a mebibyte where it is unknown.
fn second_cache() -> Bytes {
    let text = crate::kernel_values::read_value("/sys/devices/system/cpu/cpu0/cache/index2/size")
        .unwrap_or_default();
    let size = Bytes::parse(&text).unwrap_or(Bytes::from_mib(1)).get().next_power_of_two();
    Bytes(size.clamp(64 << 10, 64 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ResourceGauge;
    use crate::cancel::Cancel;

    #[test]
    fn working_sets_grow_to_the_whole() {
        let access = AccessExperiment::with_size(Vec::new(), Bytes::from_gib(8));
        assert_eq!(access.working_sets.last(), Some(&Bytes::from_gib(8)));
        assert!(
            access.working_sets.windows(2).all(|pair| pair[0] < pair[1]),
            "{:?}",
            access.working_sets
        );
        assert!(AccessExperiment::with_size(Vec::new(), Bytes::ZERO).working_sets.is_empty());
        let room = |available| AvailableResources {
            total: Bytes::from_gib(64),
            available: Bytes::from_gib(available),
            processes: None,
        };
        assert_eq!(AccessExperiment::new(Vec::new(), &room(60)).size, Bytes::from_gib(8));
        // 7 of 10 GiB to spare, half of it rounded down.
        assert_eq!(AccessExperiment::new(Vec::new(), &room(10)).size, Bytes::from_gib(2));
        assert_eq!(AccessExperiment::new(Vec::new(), &room(1)).size, Bytes::ZERO);
    }

    #[test]
    fn base_pages_have_a_fault_each_and_everything_is_measured() {
        let cancel = Cancel::never();
        let gauge = ResourceGauge::new();
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let mut access = AccessExperiment::with_size(vec![Variant::Base], Bytes::from_mib(16));
        let readings = access.measure_variant(Variant::Base, &context).unwrap();
        let value = |metric: &str| {
            readings.iter().find(|reading| reading.metric == metric).unwrap().values[0]
        };
        let pages =
            f64::from(u32::try_from(base_page().pages_for(Bytes::from_mib(16)).get()).unwrap());
        assert!(value("faults") >= pages && value("faults") < pages * 1.1, "{}", value("faults"));
        let all = [
            "first_touch",
            "prefault",
            "memset",
            "memset_by_base_pages",
            "prefault_of_memset",
            "fork",
        ];
        for metric in all.into_iter().chain(["random_access"]) {
            assert!(value(metric) > 0.0, "{metric}");
        }
        cancel.stop("enough");
        assert!(matches!(
            access.measure_variant(Variant::Base, &context),
            Err(ExperimentFailure::Stopped(_))
        ));
    }
}
