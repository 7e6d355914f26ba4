//! Sorting rows in private memory like a database's work area: through pointers to rows in their
//! order of arrival, so that every comparison reads two distant places.

#![allow(unsafe_code, reason = "rows lie in memory that was asked of the kernel by hand")]
#![allow(clippy::disallowed_methods, reason = "this process looks at its own memory")]

use std::io;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageSize};

use super::arena::Arena;
use super::server::processor_count;
use super::warm_up_memory;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs, Random};
use crate::results::{MetricReading, median_value};
use crate::run::program_memory;
use crate::system_call::thread_minor_faults;
use crate::variant::Variant;

/// The sort key comes first in a row.
const KEY: usize = 16;
const STRETCH: usize = 1 << 17;

/// What is sorted, and how its memory is taken.
#[derive(Clone, Debug)]
pub struct SortSettings {
    /// Rows.
    pub rows: u32,
    /// Bytes of each row, at least the key's 16.
    pub row_bytes: u32,
    /// Extent sizes to measure, powers of two from 4 KiB up.
    pub extents: Vec<u32>,
    /// The pages; the others are compared with the first.
    pub variants: Vec<Variant>,
}

impl Default for SortSettings {
    /// The story's table: 3.8 million rows of 243 bytes.
    fn default() -> Self {
        Self {
            rows: 3_800_000,
            row_bytes: 243,
            extents: vec![64 << 10, 1 << 20, 16 << 20],
            variants: vec![Variant::Base, Variant::Thp, Variant::MIB_2, Variant::GIB_1],
        }
    }
}

/// The experiment.
#[derive(Debug)]
pub struct Sort {
    settings: SortSettings,
    /// Measured memory, by pages and extent.
    memory: Vec<(Variant, u32, f64)>,
}

/// Invalid settings of a sort.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// No row, or rows without room for a key.
    #[error("use at least one row, of at least {KEY} bytes")]
    Rows,
    /// An invalid extent size.
    #[error("an extent of {0} bytes: use a power of two from 4 KiB to 1 GiB that holds a row")]
    Extent(u32),
    /// No extent size.
    #[error("give at least one extent size")]
    NoExtents,
}

impl Sort {
    /// With these settings. Errors: what is invalid in them.
    pub fn new(settings: SortSettings) -> Result<Self, Nonsense> {
        let key = u32::try_from(KEY).unwrap_or(u32::MAX);
        if settings.row_bytes < key || settings.rows == 0 {
            return Err(Nonsense::Rows);
        }
        for extent in &settings.extents {
            if !extent.is_power_of_two()
                || *extent < 4096
                || *extent < settings.row_bytes
                || *extent > 1 << 30
            {
                return Err(Nonsense::Extent(*extent));
            }
        }
        if settings.extents.is_empty() {
            return Err(Nonsense::NoExtents);
        }
        Ok(Self { settings, memory: Vec::new() })
    }

    fn memory_needed(&self, extent: u32, page: Option<PageSize>) -> Bytes {
        let rows = u64::from(self.settings.rows);
        let in_extent = u64::from(extent / self.settings.row_bytes.max(1)).max(1);
        let extents = Bytes(rows.div_ceil(in_extent).saturating_mul(u64::from(extent)));
        let pointers = Bytes(
            rows.saturating_mul(8).div_ceil(u64::from(extent)).saturating_mul(u64::from(extent)),
        );
        match page {
            None => extents + pointers,
            Some(page) => {
                let chunk = page.bytes().get().max(u64::from(extent));
                // Pointers come first, and the rest of their last page takes rows.
                let all = (extents + pointers).get().div_ceil(chunk).saturating_mul(chunk);
                page.pages_for(Bytes(all)).to_bytes(page) + page.bytes()
            }
        }
    }
}

impl Experiment for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn engine(&self) -> &'static str {
        "memory"
    }
    fn variants(&self) -> Vec<Variant> {
        self.settings.variants.clone()
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        let largest = |page| {
            self.settings.extents.iter().map(|extent| self.memory_needed(*extent, page)).max()
        };
        let all = largest(variant.pool_page_size()).unwrap_or_default();
        // The merge keeps half of the pointers besides the arena.
        let beside = Bytes(u64::from(self.settings.rows).saturating_mul(4)) + Bytes::from_mib(16);
        let (memory, huge) = if variant.pool_page_size().is_some() {
            (beside, all)
        } else {
            (all + beside, Bytes::ZERO)
        };
        // Eighty nanoseconds a comparison, and half a microsecond to load and read a row: a third
        // above 3.8 million rows on base pages of a Xeon at 2.1 GHz.
        let rows = f64::from(self.settings.rows);
        let sizes = f64::from(u32::try_from(self.settings.extents.len()).unwrap_or(u32::MAX));
        let time = Duration::from_secs_f64(rows * (rows.log2().max(1.0) * 8e-8 + 5e-7) * sizes);
        Needs { memory, huge, time, ..Needs::default() }
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let mut readings = Vec::new();
        for extent in self.settings.extents.clone() {
            warm_up_memory(
                variant,
                self.memory_needed(extent, variant.pool_page_size()),
                usize::try_from(processor_count()).unwrap_or(1),
            )?;
            let sorted = run_sort(&self.settings, variant, extent, context)?;
            let case = format!("{} extents", render_extent_size(extent));
            let data =
                u64::from(self.settings.rows).saturating_mul(u64::from(self.settings.row_bytes));
            self.memory.push((variant, extent, sorted.memory));
            let all = [
                MetricReading::lower_is_better(
                    "sort_time",
                    "s",
                    sorted.load + sorted.order + sorted.read,
                ),
                MetricReading::lower_is_better("load_time", "s", sorted.load),
                MetricReading::lower_is_better("order_time", "s", sorted.order),
                MetricReading::lower_is_better("read_time", "s", sorted.read),
                MetricReading::lower_is_better("mmap_calls", "1", sorted.calls),
                MetricReading::lower_is_better("faults", "1", sorted.faults),
                MetricReading::lower_is_better("memory", "B", sorted.memory),
            ];
            readings.extend(
                all.into_iter().map(|reading| reading.with_case(case.clone()).with_segment(data)),
            );
        }
        Ok(readings)
    }

    fn result_notes(&self) -> Vec<String> {
        let Some(first) = self.settings.variants.first().copied() else { return Vec::new() };
        let value_of = |variant: Variant, extent: u32| {
            let seen =
                self.memory.iter().filter(|(pages, size, _)| *pages == variant && *size == extent);
            median_value(&seen.map(|(_, _, memory)| *memory).collect::<Vec<_>>())
        };
        let mut notes = Vec::new();
        for variant in self.settings.variants.iter().skip(1) {
            let more = self.settings.extents.iter().filter_map(|extent| {
                let waste =
                    (value_of(*variant, *extent)? / value_of(first, *extent)? - 1.0) * 100.0;
                // A hundredth is the least that anybody asks for; + 0.0 turns -0.0 into 0.0.
                Some(format!(
                    "{:+.1} % in extents of {}",
                    (waste * 10.0).round() / 10.0 + 0.0,
                    render_extent_size(*extent)
                ))
            });
            let more: Vec<String> = more.collect();
            if !more.is_empty() {
                notes.push(format!(
                    "memory of {variant} compared with {first}: {}",
                    more.join(", ")
                ));
            }
        }
        notes
    }
}

fn render_extent_size(extent: u32) -> String {
    PageSize::new(u64::from(extent))
        .map_or_else(|| Bytes(u64::from(extent)).to_string(), |size| size.to_string())
}

struct Sorted {
    load: f64,
    order: f64,
    read: f64,
    calls: f64,
    faults: f64,
    memory: f64,
}

fn run_sort(
    settings: &SortSettings,
    variant: Variant,
    extent: u32,
    context: &Context<'_>,
) -> Result<Sorted, ExperimentFailure> {
    let count = usize::try_from(settings.rows).map_err(io::Error::other)?;
    let row = usize::try_from(settings.row_bytes).map_err(io::Error::other)?;
    let mut arena = Arena::new(variant, usize::try_from(extent).map_err(io::Error::other)?);
    let before = (own_memory()?, thread_minor_faults()?);
    let begun = Instant::now();
    let pointers = arena
        .allocate_piece(count.saturating_mul(size_of::<SortRowPointer>()))
        .map_err(|error| memory_refused(variant, &error))?;
    // SAFETY: the piece is as long as `count` pointers, aligned to a page, zeroed, which is `None`,
    // and nobody else has it. It lives as long as `arena`, which is dropped last.
    let pointers = unsafe {
        std::slice::from_raw_parts_mut(pointers.as_ptr().cast::<Option<SortRowPointer>>(), count)
    };
    load_rows(&mut arena, pointers, row, variant, context)?;
    let load = begun.elapsed();
    let begun = Instant::now();
    sort_pointers(pointers, context)?;
    let order = begun.elapsed();
    let begun = Instant::now();
    read_sorted_rows(pointers, row)?;
    let read = begun.elapsed();
    let memory = if variant.pool_page_size().is_some() {
        arena.pooled_bytes()
    } else {
        own_memory()?.saturating_sub(before.0)
    };
    let faults = thread_minor_faults()?.saturating_sub(before.1);
    let number = |count: u64| Bytes(count).as_f64();
    Ok(Sorted {
        load: load.as_secs_f64(),
        order: order.as_secs_f64(),
        read: read.as_secs_f64(),
        calls: number(arena.mmap_calls()),
        faults: number(faults),
        memory: number(memory),
    })
}

fn load_rows(
    arena: &mut Arena,
    pointers: &mut [Option<SortRowPointer>],
    row: usize,
    variant: Variant,
    context: &Context<'_>,
) -> Result<(), ExperimentFailure> {
    let mut place: Option<(NonNull<u8>, usize)> = None;
    // The same rows each time.
    let mut random = Random::new(1);
    for (at, pointer) in pointers.iter_mut().enumerate() {
        if at % STRETCH == 0 {
            context.cancel.check_running()?;
        }
        let (start, left) = match place.take().filter(|(_, left)| *left >= row) {
            Some(there) => there,
            None => arena.next_extent().map_err(|error| memory_refused(variant, &error))?,
        };
        // SAFETY: `left` bytes from `start` on are an extent's, not handed out yet; a row fits.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), row) };
        write(bytes, &mut random);
        *pointer = Some(SortRowPointer(start));
        // SAFETY: `row` is at most `left`, so this is in the extent or at its end.
        place = Some((unsafe { start.add(row) }, left - row));
    }
    Ok(())
}

fn sort_pointers(
    pointers: &mut [Option<SortRowPointer>],
    context: &Context<'_>,
) -> Result<(), ExperimentFailure> {
    let key = |pointer: &Option<SortRowPointer>| pointer.map_or([0; KEY], SortRowPointer::key);
    for stretch in pointers.chunks_mut(STRETCH) {
        context.cancel.check_running()?;
        stretch.sort_unstable_by_key(key);
    }
    // A stable sort merges the sorted stretches.
    pointers.sort_by_key(key);
    Ok(())
}

/// Copies the rows out in their order, as a database returns them.
fn read_sorted_rows(
    pointers: &[Option<SortRowPointer>],
    row: usize,
) -> Result<(), ExperimentFailure> {
    let mut output = vec![0_u8; 64 << 10];
    let (mut sum, mut last, mut written) = (0_u64, [0_u8; KEY], 0_usize);
    for pointer in pointers.iter().flatten() {
        if written + row > output.len() {
            sum = sum.wrapping_add(output.iter().map(|byte| u64::from(*byte)).sum());
            written = 0;
        }
        // SAFETY: a whole row begins at each pointer, and nobody writes it any more.
        let bytes = unsafe { std::slice::from_raw_parts(pointer.0.as_ptr(), row) };
        if let Some(place) = output.get_mut(written..written + row) {
            place.copy_from_slice(bytes);
            written += row;
        }
        let this = pointer.key();
        if this < last {
            return Err(ExperimentFailure::Failed("the rows came out of order".into()));
        }
        last = this;
    }
    std::hint::black_box(sum);
    Ok(())
}

/// The begin of a row. Only [`load_rows`] makes them, of rows in an arena that outlives them.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct SortRowPointer(NonNull<u8>);

impl SortRowPointer {
    fn key(self) -> [u8; KEY] {
        // SAFETY: a row of at least KEY bytes begins here, which nobody writes any more.
        unsafe { self.0.as_ptr().cast::<[u8; KEY]>().read() }
    }
}

fn memory_refused(variant: Variant, error: &io::Error) -> ExperimentFailure {
    ExperimentFailure::Unavailable(format!("memory on {variant}: {error}"))
}

fn own_memory() -> Result<u64, ExperimentFailure> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let own = program_memory::parse(&text)
        .ok_or_else(|| ExperimentFailure::Failed("/proc/self/smaps makes no sense".into()))?;
    Ok(own.anonymous)
}

fn write(row: &mut [u8], random: &mut Random) {
    let (key, text) = row.split_at_mut(KEY.min(row.len()));
    for part in key.chunks_mut(8) {
        for (to, from) in part.iter_mut().zip(random.next().to_be_bytes()) {
            *to = from;
        }
    }
    text.fill(b'x');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ResourceGauge;
    use crate::cancel::Cancel;
    use crate::guard::PoolGuard;
    use hugewise_model::PageCount;

    fn measure(
        variant: Variant,
        rows: u32,
        extent: u32,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let settings =
            SortSettings { rows, row_bytes: 243, extents: vec![extent], variants: vec![variant] };
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        Sort::new(settings).unwrap().measure_variant(variant, &context)
    }

    fn value(readings: &[MetricReading], metric: &str) -> f64 {
        readings.iter().find(|reading| reading.metric == metric).unwrap().values[0]
    }

    #[test]
    fn base_pages_fault_once_each_and_are_mapped_extent_by_extent() {
        // 269 rows fit in 64 KiB: 372 extents for 100,000 rows, and pointers of 800,000 bytes,
        // which are 13 extents. The program's memory is that of other tests beside this one too: it
        // is measured until they leave it alone.
        let mut tries = (0..100).map(|_| measure(Variant::Base, 100_000, 64 << 10).unwrap());
        let alone = tries.find(|readings| (24.2e6..27e6).contains(&value(readings, "memory")));
        let readings = alone.unwrap_or_else(|| measure(Variant::Base, 100_000, 64 << 10).unwrap());
        let memory = value(&readings, "memory");
        assert!((24.2e6..27e6).contains(&memory), "{memory}");
        // 372 + 1 times mmap over two reservations of 16 MiB.
        assert!((value(&readings, "mmap_calls") - 375.0).abs() < 1e-9, "{readings:?}");
        assert!((6100.0..7200.0).contains(&value(&readings, "faults")), "{readings:?}");
        assert!(value(&readings, "sort_time") > 0.0);
    }

    #[test]
    fn pool_pages_are_few_and_counted_whole() {
        let guard = hugewise_testkit::require!(PoolGuard::take_for_test());
        hugewise_testkit::require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));
        let readings = measure(Variant::MIB_2, 100_000, 64 << 10).unwrap();
        // 25.2 MB in pages of 2 MiB, the pointers' first.
        assert!(
            (value(&readings, "memory") - f64::from(13 * (2 << 20))).abs() < 1e-9,
            "{readings:?}"
        );
        assert!((value(&readings, "mmap_calls") - 13.0).abs() < 1e-9, "{readings:?}");
        assert!(value(&readings, "faults") < 400.0, "{readings:?}");
        drop(guard);
    }

    #[test]
    fn what_the_pool_does_not_have_is_said() {
        let guard = hugewise_testkit::require!(PoolGuard::take_for_test());
        hugewise_testkit::require!(guard.set_pool(PageSize::MIB_2, PageCount(2)));
        let failed = measure(Variant::MIB_2, 100_000, 1 << 20).unwrap_err();
        assert!(matches!(failed, ExperimentFailure::Unavailable(_)), "{failed:?}");
        drop(guard);
    }

    #[test]
    fn the_plan_covers_what_is_taken() {
        let sort = Sort::new(SortSettings::default()).unwrap();
        let base = sort.resource_needs(Variant::Base);
        // 923.4 MB of rows and 30.4 MB of pointers, and no more than a tenth beside.
        assert!(base.memory > Bytes(953_800_000) && base.memory < Bytes(1_049_000_000), "{base:?}");
        assert_eq!(sort.resource_needs(Variant::GIB_1).huge, Bytes::from_gib(2));
        assert!(Sort::new(SortSettings { row_bytes: 8, ..SortSettings::default() }).is_err());
        assert!(
            Sort::new(SortSettings { extents: vec![5000], ..SortSettings::default() }).is_err()
        );
        assert!(Sort::new(SortSettings { extents: vec![], ..SortSettings::default() }).is_err());
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let settings = SortSettings { rows: 1000, ..SortSettings::default() };
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        cancel.stop("enough");
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let ended = Sort::new(settings).unwrap().measure_variant(Variant::Base, &context);
        assert!(matches!(ended, Err(ExperimentFailure::Stopped(_))));
    }
}
