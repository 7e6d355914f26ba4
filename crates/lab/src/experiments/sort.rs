//! Rows sorted in private memory, as a database's work area sorts them: through pointers to rows that lie where they
//! came in, so that every comparison reads two places far apart.

#![allow(unsafe_code, reason = "rows lie in memory that was asked of the kernel by hand")]
#![allow(clippy::disallowed_methods, reason = "this process looks at its own memory")]

use std::io;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use hugewise_model::{Bytes, PageSize};

use super::arena::Arena;
use super::server::processors;
use super::warm;
use crate::experiment::{Context, Experiment, Failure, Needs, Random};
use crate::measure::faults;
use crate::results::{Reading, median};
use crate::run::memory;
use crate::variant::Variant;

/// Bytes of a row by which it is sorted; they come first in it.
const KEY: usize = 16;

/// Rows that are sorted between two looks at whether to go on.
const STRETCH: usize = 1 << 17;

/// What is sorted, and how its memory is taken.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Rows.
    pub rows: u32,
    /// Bytes of each, at least the key's 16.
    pub row_bytes: u32,
    /// Sizes of the extents in which memory is taken, powers of two from 4 KiB up; each is measured.
    pub extents: Vec<u32>,
    /// The pages; the others are compared with the first.
    pub variants: Vec<Variant>,
}

impl Default for Settings {
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
    settings: Settings,
    /// Memory that was seen, by pages and extent.
    memory: Vec<(Variant, u32, f64)>,
}

/// Settings of a sort that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// No row, or rows that hold no key.
    #[error("use at least one row, of at least {KEY} bytes")]
    Rows,
    /// An extent of so many bytes.
    #[error("an extent of {0} bytes: use a power of two from 4 KiB to 1 GiB that holds a row")]
    Extent(u32),
    /// None at all.
    #[error("give at least one extent size")]
    NoExtents,
}

impl Sort {
    /// With these settings.
    ///
    /// # Errors
    /// What of them makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Nonsense> {
        let key = u32::try_from(KEY).unwrap_or(u32::MAX);
        if settings.row_bytes < key || settings.rows == 0 {
            return Err(Nonsense::Rows);
        }
        for extent in &settings.extents {
            if !extent.is_power_of_two() || *extent < 4096 || *extent < settings.row_bytes || *extent > 1 << 30 {
                return Err(Nonsense::Extent(*extent));
            }
        }
        if settings.extents.is_empty() {
            return Err(Nonsense::NoExtents);
        }
        Ok(Self { settings, memory: Vec::new() })
    }

    /// Memory for rows in extents of this size, and for the pointers to them.
    fn size(&self, extent: u32, page: Option<PageSize>) -> Bytes {
        let rows = u64::from(self.settings.rows);
        let in_extent = u64::from(extent / self.settings.row_bytes.max(1)).max(1);
        let extents = Bytes(rows.div_ceil(in_extent).saturating_mul(u64::from(extent)));
        let pointers = Bytes(rows.saturating_mul(8).div_ceil(u64::from(extent)).saturating_mul(u64::from(extent)));
        match page {
            None => extents + pointers,
            Some(page) => {
                let chunk = page.bytes().get().max(u64::from(extent));
                // Pointers come first, and what is left of their last page takes rows.
                let all = (extents + pointers).get().div_ceil(chunk).saturating_mul(chunk);
                page.pages_for(Bytes(all)).of(page) + page.bytes()
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

    fn needs(&self, variant: Variant) -> Needs {
        let largest = |page| self.settings.extents.iter().map(|extent| self.size(*extent, page)).max();
        let all = largest(variant.pool()).unwrap_or_default();
        // The merge keeps half of the pointers beside the arena.
        let beside = Bytes(u64::from(self.settings.rows).saturating_mul(4)) + Bytes::from_mib(16);
        let (memory, huge) = if variant.pool().is_some() { (beside, all) } else { (all + beside, Bytes::ZERO) };
        // Some eighty nanoseconds a comparison, and half a microsecond to load and to read a row: a third above what
        // 3.8 million rows took on base pages of a Xeon at 2.1 GHz.
        let rows = f64::from(self.settings.rows);
        let sizes = f64::from(u32::try_from(self.settings.extents.len()).unwrap_or(u32::MAX));
        let time = Duration::from_secs_f64(rows * (rows.log2().max(1.0) * 8e-8 + 5e-7) * sizes);
        Needs { memory, huge, time, ..Needs::default() }
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let mut readings = Vec::new();
        for extent in self.settings.extents.clone() {
            warm(variant, self.size(extent, variant.pool()), usize::try_from(processors()).unwrap_or(1))?;
            let sorted = sort(&self.settings, variant, extent, context)?;
            let case = format!("{} extents", whole(extent));
            let data = u64::from(self.settings.rows).saturating_mul(u64::from(self.settings.row_bytes));
            self.memory.push((variant, extent, sorted.memory));
            let all = [
                Reading::lower("sort_time", "s", sorted.load + sorted.order + sorted.read),
                Reading::lower("load_time", "s", sorted.load),
                Reading::lower("order_time", "s", sorted.order),
                Reading::lower("read_time", "s", sorted.read),
                Reading::lower("mmap_calls", "1", sorted.calls),
                Reading::lower("faults", "1", sorted.faults),
                Reading::lower("memory", "B", sorted.memory),
            ];
            readings.extend(all.into_iter().map(|reading| reading.case(case.clone()).segment(data)));
        }
        Ok(readings)
    }

    fn notes(&self) -> Vec<String> {
        let Some(first) = self.settings.variants.first().copied() else { return Vec::new() };
        let of = |variant: Variant, extent: u32| {
            let seen = self.memory.iter().filter(|(pages, size, _)| *pages == variant && *size == extent);
            median(&seen.map(|(_, _, memory)| *memory).collect::<Vec<_>>())
        };
        let mut notes = Vec::new();
        for variant in self.settings.variants.iter().skip(1) {
            let more = self.settings.extents.iter().filter_map(|extent| {
                let waste = (of(*variant, *extent)? / of(first, *extent)? - 1.0) * 100.0;
                // A hundredth is the least that anybody asks for; -0.0 is nothing.
                Some(format!("{:+.1} % in extents of {}", (waste * 10.0).round() / 10.0 + 0.0, whole(*extent)))
            });
            let more: Vec<String> = more.collect();
            if !more.is_empty() {
                notes.push(format!("memory of {variant} compared with {first}: {}", more.join(", ")));
            }
        }
        notes
    }
}

/// `64 KiB`.
fn whole(extent: u32) -> String {
    PageSize::new(u64::from(extent)).map_or_else(|| Bytes(u64::from(extent)).to_string(), |size| size.to_string())
}

/// What one sort took.
struct Sorted {
    load: f64,
    order: f64,
    read: f64,
    calls: f64,
    faults: f64,
    memory: f64,
}

fn sort(settings: &Settings, variant: Variant, extent: u32, context: &Context<'_>) -> Result<Sorted, Failure> {
    let count = usize::try_from(settings.rows).map_err(io::Error::other)?;
    let row = usize::try_from(settings.row_bytes).map_err(io::Error::other)?;
    let mut arena = Arena::new(variant, usize::try_from(extent).map_err(io::Error::other)?);
    let before = (own_memory()?, faults()?);
    let begun = Instant::now();
    let pointers = arena.piece(count.saturating_mul(size_of::<Row>())).map_err(|error| refused(variant, &error))?;
    // SAFETY: the piece is as long as `count` pointers, aligned to a page, zeroed, which is no pointer but a missing
    // one, and nobody else has it. It lives as long as `arena`, which is dropped last.
    let pointers = unsafe { std::slice::from_raw_parts_mut(pointers.as_ptr().cast::<Option<Row>>(), count) };
    let mut place: Option<(NonNull<u8>, usize)> = None;
    // The same rows each time.
    let mut random = Random::new(1);
    for (at, pointer) in pointers.iter_mut().enumerate() {
        if at % STRETCH == 0 {
            context.cancel.check()?;
        }
        let (start, left) = match place.take().filter(|(_, left)| *left >= row) {
            Some(there) => there,
            None => arena.extent().map_err(|error| refused(variant, &error))?,
        };
        // SAFETY: `left` bytes from `start` on are an extent's, of which nothing has been handed out; a row fits.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), row) };
        write(bytes, &mut random);
        *pointer = Some(Row(start));
        // SAFETY: `row` is at most `left`, so this is in the extent or at its end.
        place = Some((unsafe { start.add(row) }, left - row));
    }
    let load = begun.elapsed();

    let key = |pointer: &Option<Row>| -> [u8; KEY] {
        // SAFETY: each pointer was set above to a row of at least KEY bytes, which nobody writes any more.
        pointer.as_ref().map_or([0; KEY], |row| unsafe { row.0.as_ptr().cast::<[u8; KEY]>().read() })
    };
    let begun = Instant::now();
    for stretch in pointers.chunks_mut(STRETCH) {
        context.cancel.check()?;
        stretch.sort_unstable_by_key(key);
    }
    // A stable sort takes the sorted stretches as they are, and merges them.
    pointers.sort_by_key(key);
    let order = begun.elapsed();

    let begun = Instant::now();
    let mut output = vec![0_u8; 64 << 10];
    let (mut sum, mut last, mut written) = (0_u64, [0_u8; KEY], 0_usize);
    for pointer in pointers.iter() {
        let Some(Row(start)) = pointer else { continue };
        if written + row > output.len() {
            sum = sum.wrapping_add(output.iter().map(|byte| u64::from(*byte)).sum());
            written = 0;
        }
        // SAFETY: a whole row begins at each pointer, and nobody writes it any more.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), row) };
        if let Some(place) = output.get_mut(written..written + row) {
            place.copy_from_slice(bytes);
            written += row;
        }
        let this = key(pointer);
        if this < last {
            return Err(Failure::Failed("the rows came out of order".into()));
        }
        last = this;
    }
    std::hint::black_box(sum);
    let read = begun.elapsed();
    let memory = if variant.pool().is_some() { arena.pooled() } else { own_memory()?.saturating_sub(before.0) };
    let faults = faults()?.saturating_sub(before.1);
    let number = |count: u64| Bytes(count).as_f64();
    Ok(Sorted {
        load: load.as_secs_f64(),
        order: order.as_secs_f64(),
        read: read.as_secs_f64(),
        calls: number(arena.calls()),
        faults: number(faults),
        memory: number(memory),
    })
}

/// Where a row begins.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Row(NonNull<u8>);

fn refused(variant: Variant, error: &io::Error) -> Failure {
    Failure::Unavailable(format!("memory on {variant}: {error}"))
}

/// Private memory of this process outside the pools.
fn own_memory() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let own = memory::parse(&text).ok_or_else(|| Failure::Failed("/proc/self/smaps makes no sense".into()))?;
    Ok(own.anonymous)
}

/// Writes a row: its key, and text.
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
    use crate::budget::Gauge;
    use crate::cancel::Cancel;
    use crate::guard::PoolGuard;
    use hugewise_model::PageCount;

    fn measure(variant: Variant, rows: u32, extent: u32) -> Result<Vec<Reading>, Failure> {
        let settings = Settings { rows, row_bytes: 243, extents: vec![extent], variants: vec![variant] };
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        Sort::new(settings).unwrap().measure(variant, &context)
    }

    fn value(readings: &[Reading], metric: &str) -> f64 {
        readings.iter().find(|reading| reading.metric == metric).unwrap().values[0]
    }

    #[test]
    fn base_pages_fault_once_each_and_are_mapped_extent_by_extent() {
        // 269 rows fit in 64 KiB: 372 extents for 100,000 rows, and pointers of 800,000 bytes, which are 13 extents.
        // The program's memory is that of other tests beside this one too: it is measured until they leave it alone.
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
        let guard = crate::require!(PoolGuard::take());
        crate::require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));
        let readings = measure(Variant::MIB_2, 100_000, 64 << 10).unwrap();
        // 25.2 MB in pages of 2 MiB, the pointers' first.
        assert!((value(&readings, "memory") - f64::from(13 * (2 << 20))).abs() < 1e-9, "{readings:?}");
        assert!((value(&readings, "mmap_calls") - 13.0).abs() < 1e-9, "{readings:?}");
        assert!(value(&readings, "faults") < 400.0, "{readings:?}");
        drop(guard);
    }

    #[test]
    fn what_the_pool_does_not_have_is_said() {
        let guard = crate::require!(PoolGuard::take());
        crate::require!(guard.set_pool(PageSize::MIB_2, PageCount(2)));
        let failed = measure(Variant::MIB_2, 100_000, 1 << 20).unwrap_err();
        assert!(matches!(failed, Failure::Unavailable(_)), "{failed:?}");
        drop(guard);
    }

    #[test]
    fn the_plan_covers_what_is_taken() {
        let sort = Sort::new(Settings::default()).unwrap();
        let base = sort.needs(Variant::Base);
        // 923.4 MB of rows and 30.4 MB of pointers, and no more than a tenth beside.
        assert!(base.memory > Bytes(953_800_000) && base.memory < Bytes(1_049_000_000), "{base:?}");
        assert_eq!(sort.needs(Variant::GIB_1).huge, Bytes::from_gib(2));
        assert!(Sort::new(Settings { row_bytes: 8, ..Settings::default() }).is_err());
        assert!(Sort::new(Settings { extents: vec![5000], ..Settings::default() }).is_err());
        assert!(Sort::new(Settings { extents: vec![], ..Settings::default() }).is_err());
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let settings = Settings { rows: 1000, ..Settings::default() };
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        cancel.stop("enough");
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        let ended = Sort::new(settings).unwrap().measure(Variant::Base, &context);
        assert!(matches!(ended, Err(Failure::Stopped(_))));
    }
}
