//! How many pages an instance still needs, and whether the pools have them.

use std::collections::BTreeMap;

use hugewise_engines::Kind;
use hugewise_model::vouch::Voucher;
use hugewise_model::{
    Asked, Bytes, Demand, DemandSource, Engine, Host, HugePageUse, Instance, InstanceId, Lack, NextStart, Observed,
    PageCount, PageSize, Pool, Reason,
};

use crate::Missing;
use crate::words::pool_file;

/// From here on a segment on base pages is worth a finding. PostgreSQL and MariaDB as installed
/// (143 and 128 MiB) stay below; at 256 MiB a hundred processes spend 51 MiB on page tables.
pub const BIG_SEGMENT: Bytes = Bytes::from_mib(256);

/// From here on a segment on base pages is more than a note: at 1 GiB a hundred processes that
/// touch all of it spend 201 MiB on page tables.
pub const LARGE_SEGMENT: Bytes = Bytes::from_gib(1);

/// A pool beyond this part of memory leaves too little for everything else: none is planned.
pub(crate) const LARGEST_POOL: f64 = LARGEST_POOL_PERCENT as f64 / 100.0;

/// The same in percent.
pub const LARGEST_POOL_PERCENT: u8 = 80;

/// Memory that pools may take of `total` at most.
pub fn largest_pools(total: Bytes) -> Bytes {
    total.shared_by(100).unwrap_or_default().times(LARGEST_POOL_PERCENT.into())
}

/// The pages of a demand in words: one that is estimated is no count.
pub fn in_words(demand: &Demand) -> String {
    let pages = demand.pages.in_pages_of(demand.page_size);
    let is_exact = demand.error_percent().unwrap_or_default() == 0;
    if is_exact { pages } else { format!("about {pages}") }
}

/// Memory in which pages of a size are found now, where that is known. Small ones come out of the page cache as well; pages
/// as large as a tenth of a gigabyte, which nothing but the buddy allocator hands out, are found in what is free at best; and of
/// gigantic ones the kernel finds room for a part of what it can clear.
pub fn found_now(host: &Host, page: PageSize) -> Option<Bytes> {
    let obtainable = || host.obtainable_memory().map(|memory| memory.bytes);
    match () {
        () if host.is_gigantic(page) => obtainable()?.shared_by(2),
        () if is_hardly_found(host, page) => host.memory.free.get().or_else(obtainable),
        () => obtainable(),
    }
}

/// Whether pages of a size are found in free memory alone.
pub(crate) fn is_hardly_found(host: &Host, page: PageSize) -> bool {
    page.bytes() >= HARDLY_FOUND && !host.is_gigantic(page)
}

/// Pages from this size on are hardly made of memory that has been in use (512 MiB of arm64 with base pages of 64 KiB).
const HARDLY_FOUND: Bytes = Bytes::from_mib(128);

/// Whether pages of the host's default size are nothing for a server that would take them.
pub fn cannot_do_with_default(host: &Host, instance: &Instance) -> bool {
    let not = Kind::of(instance.engine).start.not_with_default;
    not.is_some() && host.default_huge_page.get() == not
}

/// Smaller segments don't go into a measured demand: servers keep them on base pages on purpose
/// (PostgreSQL's interlock of a few bytes).
pub(crate) const SMALLEST_MEASURED: Bytes = Bytes::from_mib(1);

/// The page size that an instance asks for, or would if it asked.
pub fn page_size(host: &Host, instance: &Instance) -> Option<PageSize> {
    let demanded = || instance.demand.as_ref().map(|demand| demand.page_size);
    instance.asked_page_size.get().or_else(demanded).or_else(|| host.default_huge_page.get())
}

/// What an instance needs to be wholly on huge pages of the size that it asks for: the engine's own
/// number where there is one, otherwise measured from its segments.
pub fn of(host: &Host, instance: &Instance) -> Option<Demand> {
    let page_size = page_size(host, instance)?;
    let mut own = instance.demands();
    // On pages of several sizes of its own choice, it asks for none of one size alone.
    let stated = own
        .find(|demand| demand.page_size == page_size)
        .or(instance.demand.as_ref().filter(|_| !instance.beside.is_empty()));
    if let Some(demand) = stated.filter(|_| only_touched(instance).is_none()) {
        return Some(demand.clone());
    }
    let pages: PageCount = segment_sizes(instance).into_iter().map(|size| page_size.pages_for(size)).sum();
    (pages > PageCount::ZERO).then_some(Demand { page_size, pages, source: DemandSource::Measured })
}

/// What an instance needs on pages of other sizes beside [`demand`], as it runs now.
pub fn beside(host: &Host, instance: &Instance) -> Vec<Demand> {
    let Some(first) = of(host, instance) else { return Vec::new() };
    let several = !instance.beside.is_empty() && instance.demands().any(|own| *own == first);
    instance.demands().filter(|own| several && own.page_size != first.page_size).cloned().collect()
}

/// Sizes of the segments that count: servers keep small areas on base pages on purpose.
pub(crate) fn segment_sizes(instance: &Instance) -> Vec<Bytes> {
    let sizes = instance.segments.iter().map(|segment| segment.size).filter(|size| *size >= SMALLEST_MEASURED);
    let sizes: Vec<Bytes> = sizes.collect();
    match only_touched(instance) {
        Some(touched) => vec![touched],
        None => sizes,
    }
}

/// Sizes of the stretches that its sessions touch: its segments, and where none is there yet what it needs, or will.
pub(crate) fn stretches(instance: &Instance) -> Vec<Bytes> {
    let bytes = |demand: &Demand| demand.pages.of(demand.page_size);
    let mut stretches = segment_sizes(instance);
    if stretches.is_empty() {
        stretches = instance.demands().map(bytes).collect();
    }
    if stretches.is_empty() {
        stretches = instance.coming().into_iter().flat_map(|next| &next.demands).map(bytes).collect();
    }
    stretches
}

/// What counts of an instance's memory, where that is what has been touched and no more: of a stranger, of a container's
/// tenant, and of a program that is known by nothing but what it maps, unless somebody has named it.
pub(crate) fn only_touched(instance: &Instance) -> Option<Bytes> {
    let told = |voucher: &Voucher| matches!(voucher, Voucher::Named | Voucher::Described);
    // What runs in a container is its tenant's word.
    let tenants = instance.vouchers.iter().all(|voucher| *voucher == Voucher::Container);
    let counts_touched = instance.engine == Engine::Other || tenants;
    let touched = instance.touched.get().filter(|touched| *touched < instance.segment_bytes());
    touched.filter(|_| counts_touched && !instance.vouchers.iter().any(told))
}

/// Memory of an instance that is on base pages and need not be; `None` where it is not known.
pub fn on_base_pages(instance: &Instance) -> Option<Bytes> {
    match instance.huge_pages {
        HugePageUse::All => Some(Bytes::ZERO),
        HugePageUse::None => Some(only_touched(instance).unwrap_or_else(|| instance.segment_bytes())),
        HugePageUse::Partly => Some(instance.segment_bytes().saturating_sub(instance.huge_bytes())),
        HugePageUse::Unknown => None,
    }
}

/// Pages of that size that an instance maps now.
pub fn held(instance: &Instance, page_size: PageSize) -> PageCount {
    let there = instance.segments.iter().filter(|segment| segment.page_size == Observed::Known(page_size));
    there.map(|segment| page_size.pages_for(segment.size)).sum()
}

/// Pages that an instance needs beyond those that it holds: nothing where it is wholly on huge pages,
/// everything where it is on base pages.
pub fn more(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = of(host, instance)?;
    Some(Demand { pages: lacking(instance, &demand)?, ..demand })
}

/// What an instance is held against: what it holds, where that is on pages of another size than it asks for now; and where it
/// has nothing, what its next start asks for.
pub fn held_against(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = of(host, instance)?;
    match instance.huge_pages {
        HugePageUse::All if held(instance, demand.page_size) == PageCount::ZERO => {
            let sizes = instance.segments.iter().filter(|segment| segment.huge.get() == Some(true));
            let page_size = sizes.max_by_key(|segment| segment.size).and_then(|segment| segment.page_size.get());
            let there =
                |page_size| Demand { page_size, pages: held(instance, page_size), source: DemandSource::Measured };
            page_size.map(there).or(Some(demand))
        }
        HugePageUse::None => {
            let mut next = instance.coming().into_iter().flat_map(|next| &next.demands);
            next.find(|next| next.page_size == demand.page_size).cloned().or(Some(demand))
        }
        _ => Some(demand),
    }
}

/// What is missing of one of its demands.
pub fn lacking(instance: &Instance, demand: &Demand) -> Option<PageCount> {
    match instance.huge_pages {
        HugePageUse::All => Some(PageCount::ZERO),
        HugePageUse::None => Some(next_pages(instance, demand.page_size).unwrap_or(demand.pages)),
        HugePageUse::Partly => Some(demand.pages.saturating_sub(held(instance, demand.page_size))),
        HugePageUse::Unknown => None,
    }
}

/// Pages of a size that its next start asks for, where its settings come to others than it runs with.
fn next_pages(instance: &Instance, page: PageSize) -> Option<PageCount> {
    let demands = instance.coming()?.demands.iter();
    let mut of_page = demands.filter(|demand| demand.page_size == page).map(|demand| demand.pages);
    of_page.next()
}

/// Whether its next start asks for so much that it is worth a finding, as its settings were changed.
pub(crate) fn asks_for_more(instance: &Instance) -> bool {
    asked_for(instance) >= BIG_SEGMENT
}

/// Memory on huge pages that its next start asks for, where what it asks for then is known.
pub(crate) fn asked_for(instance: &Instance) -> Bytes {
    let next = instance.coming().filter(|next| next.asks());
    next.into_iter().flat_map(|next| &next.demands).map(|it| it.pages.of(it.page_size)).sum()
}

/// Pages of a size that a server which has its pages will ask for beyond them at its next start, as its settings were changed.
pub(crate) fn to_come(instance: &Instance, page: PageSize) -> PageCount {
    let asks = instance.coming().is_some_and(hugewise_model::NextStart::asks);
    if !asks || instance.huge_pages != HugePageUse::All {
        return PageCount::ZERO;
    }
    next_pages(instance, page).unwrap_or_default().saturating_sub(held(instance, page))
}

/// Pages of a size that a server which has its pages may yet take of the pool: for a heap that grows, and for settings that
/// were changed.
pub(crate) fn yet_to_take(instance: &Instance, page: PageSize) -> PageCount {
    let grows = Kind::of(instance.engine).start.grows && instance.huge_pages == HugePageUse::All;
    let whole: PageCount =
        instance.demands().filter(|demand| demand.page_size == page).map(|demand| demand.pages).sum();
    let growth = if grows { whole.saturating_sub(held(instance, page)) } else { PageCount::ZERO };
    growth.max(to_come(instance, page))
}

/// Pages that a new mapping can have once `freed` of memory came back: available ones, and surplus ones that the pool may still
/// grow by, as far as there is memory for them.
pub fn obtainable(host: &Host, pool: &Pool, freed: Bytes) -> Option<PageCount> {
    let overcommit = pool.overcommit.get().unwrap_or_default();
    let surplus = pool.surplus.get().unwrap_or_default();
    let allowed = overcommit.saturating_sub(surplus);
    Some(pool.available()? + found_on_demand(host, pool.page_size, freed).map_or(allowed, |found| allowed.min(found)))
}

/// Pages of a size that a server's next start can have, which gives back first what it has on base pages.
pub fn obtainable_for(host: &Host, instance: &Instance, page: PageSize) -> Option<PageCount> {
    obtainable(host, host.pool(page)?, on_base_pages(instance).unwrap_or_default())
}

/// Pages on demand that there is memory for once `freed` of it came back; none where that cannot be told.
pub(crate) fn found_on_demand(host: &Host, page: PageSize, freed: Bytes) -> Option<PageCount> {
    let memory = host.obtainable_memory()?.bytes + freed;
    Some(PageCount(memory.get() / page.bytes().get()))
}

/// What a pool has for one instance, after the ones before it by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The instance.
    pub instance: InstanceId,
    /// Page size that it asks for.
    pub page_size: PageSize,
    /// Pages that it needs beyond those that it holds.
    pub wants: PageCount,
    /// What the pool has for anyone.
    pub obtainable: PageCount,
    /// What is left of that for this one.
    pub left: PageCount,
    /// Instances that take their part before it: the first few by name.
    pub before: Vec<InstanceId>,
    /// How many more there are of these.
    pub more_before: usize,
}

impl Share {
    /// Whether there is enough.
    pub fn fits(&self) -> bool {
        self.wants <= self.left
    }
}

/// How many of those that come before an instance are named.
const NAMED_BEFORE: usize = 3;

/// Deals the pools out to the instances that ask for huge pages and are not wholly on them, in name
/// order. One that doesn't fit takes nothing: most servers ask for all or nothing.
pub fn shares<'h>(host: &Host, instances: &'h [Instance]) -> Vec<Share> {
    let asks = |instance: &&Instance| matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    let of = |instance: &'h Instance| Some((instance.id(), more(host, instance)?, instance));
    let mut asking: Vec<(InstanceId, Demand, &Instance)> = instances.iter().filter(asks).filter_map(of).collect();
    asking.retain(|(_, demand, _)| demand.pages > PageCount::ZERO);
    asking.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let mut taken = BTreeMap::<PageSize, (PageCount, Vec<InstanceId>, usize)>::new();
    let mut shares: Vec<Share> = Vec::new();
    for (id, demand, instance) in asking {
        let Some(obtainable) = obtainable_for(host, instance, demand.page_size) else { continue };
        let (taken, before, more_before) = taken.entry(demand.page_size).or_default();
        let share = Share {
            instance: id.clone(),
            page_size: demand.page_size,
            wants: demand.pages,
            obtainable,
            left: obtainable.saturating_sub(*taken),
            before: before.clone(),
            more_before: *more_before,
        };
        if share.fits() {
            *taken = *taken + share.wants;
            if before.len() < NAMED_BEFORE { before.push(id) } else { *more_before += 1 }
        }
        shares.push(share);
    }
    shares
}

/// Why it is not known whether an instance is on huge pages.
pub(crate) fn why_unknown(host: &Host, instance: &Instance) -> Missing {
    if let Some(why) = host.process(instance.pid).and_then(|process| process.mappings.why()) {
        return Missing::Instance(Lack::new(format_args!("/proc/{}/maps", instance.pid), why));
    }
    let why = instance.segments.iter().find_map(|segment| segment.page_size.why());
    let what = format_args!("page size of the mappings of pid {}", instance.pid);
    Missing::Instance(Lack::new(what, why.unwrap_or(Reason::untold("not told"))))
}
/// What a pool that has pages says of them.
pub(crate) struct Counts {
    pub(crate) total: PageCount,
    pub(crate) free: PageCount,
    pub(crate) reserved: PageCount,
}

/// The counts of a pool; none where it is empty, and an error where a count that matters is not known.
pub(crate) fn counts(pool: &Pool) -> Result<Option<Counts>, Missing> {
    let count = |fact: &Observed<PageCount>, file| crate::known(fact, &pool_file(pool.page_size, file)).copied();
    let total = count(&pool.total, "nr_hugepages")?;
    if total == PageCount::ZERO {
        return Ok(None);
    }
    let (free, reserved) = (count(&pool.free, "free_hugepages")?, count(&pool.reserved, "resv_hugepages")?);
    Ok(Some(Counts { total, free, reserved }))
}
/// What a server asks for at its next start.
pub fn starting(host: &Host, instance: &Instance) -> NextStart {
    if let Some(next) = instance.next.known() {
        return next.clone();
    }
    // What it says itself, a demand a page size; where it does not count at its word, what it has touched.
    let said = instance.demand.is_some() && only_touched(instance).is_none();
    let demands = if said { instance.demands().cloned().collect() } else { of(host, instance).into_iter().collect() };
    NextStart { asked: instance.asked, setting: instance.setting.clone(), demands }
}

/// What a server asks for when the next boot starts it.
pub fn starting_at_boot(host: &Host, instance: &Instance) -> NextStart {
    instance.at_boot.known().cloned().unwrap_or_else(|| starting(host, instance))
}

/// Whether files that ask for so many pages ask for no more than what servers have of them and a tenth to spare: a pool that
/// came out short of it is filled up again. What is far more was perhaps given back on purpose.
pub(crate) fn is_with_spare(asked: PageCount, claimed: PageCount) -> bool {
    claimed > PageCount::ZERO && asked.get().saturating_mul(10) <= claimed.get().saturating_mul(11)
}
