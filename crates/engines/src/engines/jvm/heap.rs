//! The memory of a running Java machine: its heap, what else is on huge pages, and what a start asks
//! for in turn.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::instance::{Mechanism, Segment, SegmentKind};
use hugewise_model::{
    Bytes, Host, HugePageMode, HugePageUse, Instance, Mapping, Observed, PageCount, PageSize,
    Process,
};

use super::demand;
use super::ergonomics::JvmParameters;
use super::flags::{self, Flags};
use super::hsperf::HeapCounters;
use crate::shared::segments;
use crate::{MemoryStretch, each_known};

const HEAP: &str = "heap";
const ZGC_HEAP: &str = "/memfd:java_heap";
const REST: &str = "code cache and tables";
const SMALLEST_PART: Bytes = Bytes::from_mib(16);
/// The largest step of a heap's size, where no flag sets it.
const LARGEST_REGION: Bytes = Bytes::from_mib(32);
/// The end of compressed references: a smaller heap lies below (HotSpot's `OopEncodingHeapMax`).
const COMPRESSED_END: u64 = 32 << 30;

pub(super) fn fill_in_segments(
    host: &Host,
    instance: &mut Instance,
    process: &Process,
    heap: &BTreeSet<u64>,
    machine: &JvmParameters<'_>,
) {
    let heap_segments = segments::collect_segments(host, &[process.pid], |_, mapping| {
        heap.contains(&mapping.start)
    });
    instance.segments =
        heap_segments.into_iter().map(|part| Segment { name: HEAP.into(), ..part }).collect();
    let heap_use = segments::huge_page_use(&instance.segments);
    let is_shared = machine.flags.uses_system_v(machine.release());
    instance.segments.extend(huge_rest(host, process, heap, is_shared));
    if heap_use == HugePageUse::All && machine.flags.asks_for_large_pages(machine.release()) {
        instance.segments.extend(find_refused_segment(host, instance, machine));
    }
    instance.huge_pages = segments::huge_page_use(&instance.segments);
}

/// The heap's mappings: ZGC's memfd, the System V segment of UseSHM, or the largest unbroken
/// stretch of private memory that the heap may fill. It has to be below the end of compressed
/// references, if any is: with large pages the code cache of 240 MiB can be larger than a small
/// heap, and more memory may lie right beside it.
pub(super) fn find_heap_mappings<'a>(
    process: &'a Process,
    flags: &Flags,
    release: Option<u32>,
    page: Option<PageSize>,
) -> Vec<&'a Mapping> {
    let mappings: Vec<_> =
        each_known(&process.mappings).filter(|mapping| mapping.accessible).collect();
    let shared = |start: &str| -> Vec<&'a Mapping> {
        mappings
            .iter()
            .copied()
            .filter(|mapping| mapping.shared && mapping.name.starts_with(start))
            .collect()
    };
    let named = shared(ZGC_HEAP);
    if !named.is_empty() {
        return named;
    }
    // Of AllocateHeapAt.
    let file = |mapping: &&Mapping| mapping.shared && mapping.name.contains("/jvmheap.");
    if let Some(mapped) = mappings.iter().copied().find(file) {
        return vec![mapped];
    }
    // Its tables are segments of their own.
    let segments = if flags.uses_system_v(release) { shared("/SYSV") } else { Vec::new() };
    if let Some(largest) = segments.into_iter().max_by_key(|mapping| mapping.size()) {
        return vec![largest];
    }
    let mut stretches: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in mappings.into_iter().filter(|mapping| is_private_memory(mapping)) {
        let goes_on =
            |stretch: &Vec<&Mapping>| stretch.last().is_some_and(|last| last.end == mapping.start);
        match stretches.last_mut().filter(|stretch| goes_on(stretch)) {
            Some(stretch) => stretch.push(mapping),
            None => stretches.push(vec![mapping]),
        }
    }
    let size =
        |stretch: &Vec<&Mapping>| stretch.iter().map(|mapping| mapping.size()).sum::<Bytes>();
    let region = flags.size_value("G1HeapRegionSize").unwrap_or_default().max(LARGEST_REGION);
    let rounding = page
        .map_or(Bytes::ZERO, PageSize::bytes)
        .max(Bytes(region.get().checked_next_power_of_two().unwrap_or_default()));
    let behind = permanent_generation(flags, release);
    let limit = flags.size_value("MaxHeapSize");
    let limit = limit.map_or(Bytes(u64::MAX), |most| most + rounding + behind);
    let fits = |stretch: &&Vec<&Mapping>| (SMALLEST_PART..=limit).contains(&size(stretch));
    let compressed =
        |stretch: &Vec<&Mapping>| stretch.first().is_some_and(|first| first.start < COMPRESSED_END);
    let largest =
        stretches.iter().filter(fits).max_by_key(|stretch| (compressed(stretch), size(stretch)));
    largest.cloned().unwrap_or_default()
}

/// Up to 7 the permanent generation is reserved right behind the heap, and both are one mapping
/// where both are committed (`Universe::reserve_heap`). Its default is 82 MiB on 64 bits.
fn permanent_generation(flags: &Flags, release: Option<u32>) -> Bytes {
    const DEFAULT: Bytes = Bytes::from_mib(82);
    if release.is_none_or(|release| release > 7) {
        return Bytes::ZERO;
    }
    let sizes = ["MaxPermSize", "PermSize"].into_iter().filter_map(|name| flags.size_value(name));
    sizes.max().unwrap_or_default().max(DEFAULT)
}

/// Whether its heap is in memory that the kernel module of Zing System Tools lends: a part of the
/// host's that is set aside, in large pages of its own, which are no pool's.
pub(super) fn is_in_memory_of_zing(process: &Process) -> bool {
    each_known(&process.mappings).any(|mapping| mapping.name.starts_with("/dev/zing_mm"))
}

/// What else it maps is small, and matters as little as its flags for a pool.
pub(super) fn leave_to_zing(instance: &mut Instance) {
    instance.asked = HugePageMode::Cannot;
    instance.mechanism = Mechanism::None;
    instance.huge_pages = HugePageUse::None;
    instance.segments.clear();
    instance.demand = None;
    instance.other_demands.clear();
    instance.possible_demands.clear();
    instance.next = Observed::Absent;
}

/// Whether its mappings show ZGC, whatever its flags are.
pub(super) fn maps_zgc_heap(process: &Process) -> bool {
    each_known(&process.mappings).any(|mapping| mapping.name.starts_with(ZGC_HEAP))
}

fn is_private_memory(mapping: &Mapping) -> bool {
    !mapping.shared && (mapping.name.is_empty() || mapping.name.starts_with("/anon_hugepage"))
}

/// What else is on huge pages, a segment for each page size: code cache, bitmaps, card tables.
fn huge_rest(
    host: &Host,
    process: &Process,
    heap: &BTreeSet<u64>,
    is_shared: bool,
) -> Vec<Segment> {
    let huge = |mapping: &Mapping| segments::mapping_is_huge(host, mapping).get() == Some(true);
    let rest = segments::collect_segments(host, &[process.pid], |_, mapping| {
        mapping.accessible
            && (is_private_memory(mapping) || (is_shared && mapping.name.starts_with("/SYSV")))
            && huge(mapping)
            && !heap.contains(&mapping.start)
    });
    let mut by_page = BTreeMap::<Option<PageSize>, Segment>::new();
    for segment in rest {
        let name = REST.to_owned();
        let size = segment.size;
        let page = segment.page_size.get();
        let whole = by_page.entry(page).or_insert(Segment { name, size: Bytes::ZERO, ..segment });
        whole.size += size;
    }
    by_page.into_values().collect()
}

/// What was refused huge pages beside the heap, as one segment: on base pages it has no mapping of
/// its own, as all is reserved and taken as needed.
fn find_refused_segment(
    host: &Host,
    instance: &Instance,
    machine: &JvmParameters<'_>,
) -> Option<Segment> {
    let page = instance.asked_page_size.get()?;
    let (heap, rest): (Vec<_>, Vec<_>) =
        instance.segments.iter().partition(|segment| segment.name == HEAP);
    let heap: Bytes = heap.iter().map(|segment| segment.size).sum();
    let held: Bytes = rest.iter().map(|segment| segment.size).sum();
    let estimate = demand::estimate_pages(machine, page, Some(heap))?;
    let least =
        estimate.rest.get() / 100 * u64::from(100_u8.saturating_sub(estimate.error_percent));
    let missing = estimate.rest.saturating_sub(held);
    let is_refused = held.get() < least && missing >= smallest_refusal(machine, page);
    is_refused.then(|| Segment {
        kind: SegmentKind::Private,
        name: REST.into(),
        size: missing,
        page_size: host.base_page.clone(),
        huge: Observed::Known(false),
        mappers: 1,
        identity: (u64::from(instance.pid), 0),
    })
}

/// The least that a start can have been refused. It asks in turn for what the pool has left: what
/// did not fit is larger than all that it got afterwards. Less than that is the estimate's error.
fn smallest_refusal(machine: &JvmParameters<'_>, largest: PageSize) -> Bytes {
    let refusals_of = |page: PageSize| {
        let mut later = 0_u64;
        let stretches = demand::start_stretches(machine, largest, page).unwrap_or_default();
        let smallest = stretches.iter().rev().filter_map(|stretch| {
            let fits_behind = later;
            later = later.saturating_add(stretch.pages);
            (stretch.pages > fits_behind).then_some(PageCount(stretch.pages))
        });
        smallest.min().map(|pages| pages.to_bytes(page))
    };
    let pages = [largest, PageSize::MIB_2];
    pages.into_iter().filter_map(refusals_of).min().unwrap_or_default()
}

/// The size that the heap may reach by its reserved address space: what follows it without a gap.
/// More than the default heap of this memory is not the heap's alone, as others reserve what they
/// like beside it.
pub(super) fn reserved_heap(
    process: &Process,
    heap: &[&Mapping],
    machine: &JvmParameters<'_>,
) -> Option<Bytes> {
    // ZGC reserves many times what it may take.
    let first = heap.first().filter(|first| is_private_memory(first))?;
    let (start, mut end) = (first.start, first.end);
    // Its upper end may be of the archive of classes, mapped over the heap.
    let is_part = |mapping: &&Mapping| {
        is_private_memory(mapping) || (!mapping.shared && mapping.name.ends_with(".jsa"))
    };
    for mapping in process.mappings.as_known()?.iter().filter(is_part) {
        if mapping.start <= end && mapping.end > end && mapping.start >= start {
            end = mapping.end;
        }
    }
    let reserved = Bytes(end.saturating_sub(start));
    let by_memory = machine.memory.zip(machine.largest_heap_by_memory());
    let beyond = by_memory.filter(|(all, most)| reserved > (*all).max(*most));
    Some(beyond.map_or(reserved, |(_, most)| most))
}

/// ZGC begins with its first heap and everything beside the heap; `needs` is with the largest. The
/// others take all at once.
pub(super) fn begins_with(
    instance: &Instance,
    page: PageSize,
    needs: PageCount,
) -> Option<PageCount> {
    if !instance.next.is_absent() {
        return None;
    }
    if !uses_zgc(instance) {
        return Some(needs);
    }
    let size = |name: &str| instance.setting_value(name).and_then(flags::parse_size);
    let (first, most) = (size("initialheapsize")?, size("maxheapsize")?);
    let later = page.pages_for(most).saturating_sub(page.pages_for(first));
    Some(needs.saturating_sub(later))
}

/// What its start asks for in turn, as long as it starts with what it was told.
pub(super) fn stretches(instance: &Instance, page: PageSize) -> Option<Vec<MemoryStretch>> {
    if !instance.next.is_absent() || !instance.at_boot.is_absent() {
        return None;
    }
    let flags = Flags::from_settings(&instance.settings);
    let version = instance.version.as_known().map(String::as_str);
    let release = version.and_then(demand::parse_major_release);
    // What others ask for in turn was never looked at.
    if !flags.asks_for_large_pages(release) || flags.is_on(flags::OPENJ9_LARGE_PAGES) {
        return None;
    }
    let counters = HeapCounters::default();
    let machine =
        JvmParameters { flags: &flags, version, memory: None, processors: None, counters };
    let to_stretch = |stretch: demand::StartStretch| {
        let pages = PageCount(stretch.pages);
        let is_essential = stretch.is_essential;
        MemoryStretch { least: pages, most: pages, follows: false, is_essential }
    };
    let largest = instance.asked_page_size.get()?;
    let stretches = demand::start_stretches(&machine, largest, page)?;
    Some(stretches.into_iter().map(to_stretch).collect())
}

/// Where no gibibyte is left it asks for 2 MiB pages: seen of 21 and 25; 17 goes without.
pub(super) fn asks_again(instance: &Instance, page: PageSize) -> Option<PageSize> {
    const ASKS_AGAIN: u32 = 21;
    let version = instance.version.as_known()?;
    let asks = demand::parse_major_release(version)? >= ASKS_AGAIN;
    let is_system_v = instance.mechanism == Mechanism::SysvShm;
    (asks && !is_system_v && page > PageSize::MIB_2).then_some(PageSize::MIB_2)
}

/// Its heap alone is taken as it grows.
pub(super) fn uses_zgc(instance: &Instance) -> bool {
    instance.setting_value("usezgc") == Some("true")
}

pub(super) fn heap_size(instance: &Instance) -> Bytes {
    let heap = instance.segments.iter().filter(|segment| segment.name == HEAP);
    heap.map(|segment| segment.size).sum()
}
