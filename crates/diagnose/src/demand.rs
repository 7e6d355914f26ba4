//! How many pages an instance still needs, and whether the pools have them.

use std::collections::BTreeMap;

use hugewise_engines::EngineKind;
use hugewise_model::instance::Mechanism;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, Host, HugePageMode, HugePageUse, Instance, InstanceId,
    Lack, NextStart, Observed, PageCount, PageSize, Pool, Reason, Segment,
};

use crate::Missing;
use crate::boot::require_readable;
use crate::wording::{pool_fact, pool_file};

/// From here on a segment on base pages is worth a finding. PostgreSQL and MariaDB as installed
/// (143 and 128 MiB) stay below; at 256 MiB a hundred processes spend 51 MiB on page tables.
pub const BIG_SEGMENT: Bytes = Bytes::from_mib(256);

/// From here on a segment on base pages is more than a note: at 1 GiB a hundred processes that
/// touch all of it spend 201 MiB on page tables.
pub(crate) const LARGE_SEGMENT: Bytes = Bytes::from_gib(1);

/// A pool beyond this part of memory leaves too little for everything else: none is planned.
pub(crate) const LARGEST_POOL: f64 = LARGEST_POOL_PERCENT as f64 / 100.0;

pub(crate) const LARGEST_POOL_PERCENT: u8 = 80;

/// Memory that pools may take of `total` at most.
pub fn largest_pools(total: Bytes) -> Bytes {
    total.shared_by(100).unwrap_or_default().saturating_mul(LARGEST_POOL_PERCENT.into())
}

/// The pages of a demand in words: one that is estimated is no count.
pub fn in_words(demand: &Demand) -> String {
    let pages = demand.pages.in_pages_of(demand.page_size);
    let is_exact = demand.error_percent().unwrap_or_default() == 0;
    if is_exact { pages } else { format!("about {pages}") }
}

/// Small pages come out of the page cache as well; those that the buddy allocator alone hands out,
/// of what is free at best; gigantic ones, of a part of what the kernel can clear.
pub(crate) fn found_now(host: &Host, page: PageSize) -> Option<Bytes> {
    let obtainable = || host.obtainable_memory().map(|memory| memory.bytes);
    match () {
        () if host.is_gigantic(page) => obtainable()?.shared_by(2),
        () if is_hardly_found(host, page) => host.memory.free.get().or_else(obtainable),
        () => obtainable(),
    }
}

pub(crate) fn is_hardly_found(host: &Host, page: PageSize) -> bool {
    page.bytes() >= HARDLY_FOUND && !host.is_gigantic(page)
}

/// Larger pages are hardly made of used memory (512 MiB of arm64 with base pages of 64 KiB).
const HARDLY_FOUND: Bytes = Bytes::from_mib(128);

/// Whether pages of the host's default size are nothing for a server that would take them.
pub(crate) fn cannot_do_with_default(host: &Host, instance: &Instance) -> bool {
    let not = EngineKind::for_engine(instance.engine).start.not_with_default;
    not.is_some() && host.default_huge_page.get() == not
}

/// Servers keep smaller areas on base pages on purpose (PostgreSQL's interlock of a few bytes).
pub(crate) const SMALLEST_MEASURED: Bytes = Bytes::from_mib(1);

/// The page size that an instance asks for, or would if it asked.
pub fn page_size(host: &Host, instance: &Instance) -> Option<PageSize> {
    let demanded = || instance.demand.as_ref().map(|demand| demand.page_size);
    instance.asked_page_size.get().or_else(demanded).or_else(|| host.default_huge_page.get())
}

/// Of the size that an instance asks for: the engine's own number, or measured from its segments.
pub fn find_demand(host: &Host, instance: &Instance) -> Option<Demand> {
    let page_size = page_size(host, instance)?;
    let mut own = instance.demands();
    // On pages of several sizes of its own choice, it asks for none of one size alone.
    let stated = own
        .find(|demand| demand.page_size == page_size)
        .or(instance.demand.as_ref().filter(|_| !instance.other_demands.is_empty()));
    if let Some(demand) = stated {
        return Some(demand.clone());
    }
    measure_demand(page_size, mapped_sizes(instance))
}

/// The same as far as it counts for a pool: of some, no more than they have touched.
pub fn counted_demand(host: &Host, instance: &Instance) -> Option<Demand> {
    if only_touched(instance).is_none() {
        return find_demand(host, instance);
    }
    measure_demand(page_size(host, instance)?, segment_sizes(instance))
}

fn measure_demand(page_size: PageSize, sizes: Vec<Bytes>) -> Option<Demand> {
    let pages: PageCount = sizes.into_iter().map(|size| page_size.pages_for(size)).sum();
    (pages > PageCount::ZERO).then_some(Demand { page_size, pages, source: DemandSource::Measured })
}

fn mapped_sizes(instance: &Instance) -> Vec<Bytes> {
    let sizes = instance.segments.iter().map(|segment| segment.size);
    sizes.filter(|size| *size >= SMALLEST_MEASURED).collect()
}

/// What an instance needs on pages of other sizes beside [`demand`], as it runs now.
pub fn other_size_demands(host: &Host, instance: &Instance) -> Vec<Demand> {
    let Some(first) = find_demand(host, instance) else { return Vec::new() };
    let several = !instance.other_demands.is_empty() && instance.demands().any(|own| *own == first);
    instance.demands().filter(|own| several && own.page_size != first.page_size).cloned().collect()
}

pub(crate) fn segment_sizes(instance: &Instance) -> Vec<Bytes> {
    if let Some(touched) = only_touched(instance) {
        return vec![touched];
    }
    mapped_sizes(instance)
}

/// Sizes of the stretches that its sessions touch: its segments, else what it needs or will need.
pub(crate) fn touched_stretches(instance: &Instance) -> Vec<Bytes> {
    let bytes = |demand: &Demand| demand.pages.to_bytes(demand.page_size);
    let mut stretches = segment_sizes(instance);
    if stretches.is_empty() {
        stretches = instance.demands().map(bytes).collect();
    }
    if stretches.is_empty() {
        let next = instance.largest_next_start().into_iter();
        stretches = next.flat_map(|next| &next.demands).map(bytes).collect();
    }
    stretches
}

/// What counts of an instance's memory, where that is no more than it has touched.
pub(crate) fn only_touched(instance: &Instance) -> Option<Bytes> {
    let touched = instance
        .touched_bytes
        .get()
        .filter(|touched| *touched < instance.segment_bytes() || states_more_than_mapped(instance));
    touched.filter(|touched| counts_as_touched(instance) && !has_touched_most(instance, *touched))
}

/// Whether a server holds four fifths of what it says to need: its word adds a quarter to that at
/// most, and without it the pool is short of what it asks for.
fn has_touched_most(instance: &Instance, touched: Bytes) -> bool {
    let least = instance.demands().map(Demand::at_least);
    let stated: Bytes = least.map(|demand| demand.pages.to_bytes(demand.page_size)).sum();
    let all = stated.max(instance.segment_bytes());
    let is_server = instance.engine != Engine::Other;
    is_server && touched.saturating_mul(5) >= all.saturating_mul(4)
}

/// Whether no more counts than was touched, as nobody but the server itself tells its size: of a
/// stranger, a container's tenant, and a program known by its mappings alone, unless somebody has
/// named it.
fn counts_as_touched(instance: &Instance) -> bool {
    let told =
        |voucher: &TrustReason| matches!(voucher, TrustReason::Named | TrustReason::Described);
    let tenants = instance.trusted_by.iter().all(|voucher| *voucher == TrustReason::Container);
    (instance.engine == Engine::Other || tenants) && !instance.trusted_by.iter().any(told)
}

/// What its next start asks for by its files and arguments, where these count.
pub(crate) fn counted_next_start(instance: &Instance) -> Option<&NextStart> {
    instance.largest_next_start().filter(|_| !counts_as_touched(instance))
}

/// Whether its settings or arguments speak of memory that it has not even mapped.
fn states_more_than_mapped(instance: &Instance) -> bool {
    let least = instance.demands().map(Demand::at_least);
    let stated: Bytes = least.map(|demand| demand.pages.to_bytes(demand.page_size)).sum();
    let Some(page) = instance.demands().map(|demand| demand.page_size).max() else { return false };
    let in_pages = |segment: &Segment| page.pages_for(segment.size).to_bytes(page);
    stated > instance.segments.iter().map(in_pages).sum()
}

/// Memory of an instance that is on base pages and need not be; `None` where it is not known.
pub fn on_base_pages(instance: &Instance) -> Option<Bytes> {
    match instance.huge_pages {
        HugePageUse::All => Some(Bytes::ZERO),
        HugePageUse::None => {
            Some(only_touched(instance).unwrap_or_else(|| instance.segment_bytes()))
        }
        HugePageUse::Partly => Some(instance.segment_bytes().saturating_sub(instance.huge_bytes())),
        HugePageUse::Unknown => None,
    }
}

pub(crate) const fn asks_now(instance: &Instance) -> bool {
    matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises)
}

/// Whether what starts a server mounts its hugetlbfs and makes its pages, and takes them away again.
pub(crate) fn makes_own_pages(instance: &Instance) -> bool {
    instance.asked == HugePageMode::Raises && instance.mechanism == Mechanism::Hugetlbfs
}

/// Whether an instance maps pages of that size, or would ask for them.
pub(crate) fn uses_page_size(host: &Host, instance: &Instance, page: PageSize) -> bool {
    pages_held(instance, page) > PageCount::ZERO || page_size(host, instance) == Some(page)
}

/// Pages of a size that an instance maps: what it leaves to its own next start.
pub fn pages_mapped(instance: &Instance, page_size: PageSize) -> PageCount {
    let there =
        instance.segments.iter().filter(|segment| segment.page_size == Observed::Known(page_size));
    there.map(|segment| page_size.pages_for(segment.size)).sum()
}

/// Pages of that size that an instance maps now.
pub fn pages_held(instance: &Instance, page_size: PageSize) -> PageCount {
    let mapped = pages_mapped(instance, page_size);
    // A mapping without a reservation (MAP_NORESERVE) holds no page before it is touched.
    only_touched(instance).map_or(mapped, |touched| mapped.min(page_size.pages_for(touched)))
}

/// Pages that an instance needs beyond those that it holds.
pub fn find_missing_demand(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = find_demand(host, instance)?;
    Some(Demand { pages: pages_lacking(instance, &demand)?, ..demand })
}

/// The same of what counts for a pool.
pub fn find_missing_counted(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = counted_demand(host, instance)?;
    Some(Demand { pages: pages_lacking(instance, &demand)?, ..demand })
}

/// What an instance is held against: what it holds, where that is on pages of another size than it
/// asks for now; where it has nothing, what its next start asks for.
pub fn held_against(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = find_demand(host, instance)?;
    match instance.huge_pages {
        HugePageUse::All if pages_held(instance, demand.page_size) == PageCount::ZERO => {
            let sizes = instance.segments.iter().filter(|segment| segment.huge.get() == Some(true));
            let page_size = sizes
                .max_by_key(|segment| segment.size)
                .and_then(|segment| segment.page_size.get());
            let there = |page_size| Demand {
                page_size,
                pages: pages_held(instance, page_size),
                source: DemandSource::Measured,
            };
            page_size.map(there).or(Some(demand))
        }
        HugePageUse::None => {
            let mut next = instance.largest_next_start().into_iter().flat_map(|next| &next.demands);
            next.find(|next| next.page_size == demand.page_size).cloned().or(Some(demand))
        }
        _ => Some(demand),
    }
}

/// What an instance lacks of one of its demands.
pub fn pages_lacking(instance: &Instance, demand: &Demand) -> Option<PageCount> {
    match instance.huge_pages {
        HugePageUse::All => Some(PageCount::ZERO),
        HugePageUse::None => Some(next_pages(instance, demand.page_size).unwrap_or(demand.pages)),
        HugePageUse::Partly => {
            Some(demand.pages.saturating_sub(pages_held(instance, demand.page_size)))
        }
        HugePageUse::Unknown => None,
    }
}

/// Pages of a size that its next start asks for, where its settings were changed.
fn next_pages(instance: &Instance, page: PageSize) -> Option<PageCount> {
    let mut demands = instance.largest_next_start()?.demands.iter();
    demands.find(|demand| demand.page_size == page).map(|demand| demand.pages)
}

pub(crate) fn asks_for_more(instance: &Instance) -> bool {
    asked_for(instance) >= BIG_SEGMENT
}

/// Memory on huge pages that its next start asks for, where what it asks for then is known.
pub(crate) fn asked_for(instance: &Instance) -> Bytes {
    let next = instance.largest_next_start().filter(|next| next.asks_for_huge_pages());
    next.into_iter()
        .flat_map(|next| &next.demands)
        .map(|demand| demand.pages.to_bytes(demand.page_size))
        .sum()
}

/// Pages of a size that a server which has its pages asks for beyond them at its next start.
pub(crate) fn to_come(instance: &Instance, page: PageSize) -> PageCount {
    let asks =
        instance.largest_next_start().is_some_and(hugewise_model::NextStart::asks_for_huge_pages);
    if !asks || instance.huge_pages != HugePageUse::All {
        return PageCount::ZERO;
    }
    next_pages(instance, page).unwrap_or_default().saturating_sub(pages_held(instance, page))
}

/// Pages that a server which has its pages may yet take: for a growing heap, for changed settings.
pub(crate) fn yet_to_take(instance: &Instance, page: PageSize) -> PageCount {
    pages_to_grow(instance, page).max(to_come(instance, page))
}

/// Pages that a heap has yet to grow into, without a restart.
pub(crate) fn pages_to_grow(instance: &Instance, page: PageSize) -> PageCount {
    // Where something beside the heap was refused, the heap grows on huge pages all the same.
    let is_on_them = matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly);
    if !is_on_them || !(EngineKind::for_engine(instance.engine).start.grows)(instance) {
        return PageCount::ZERO;
    }
    let demands = instance.demands().filter(|demand| demand.page_size == page);
    // A growing heap that finds no page takes its server down: what it may need counts.
    let whole: PageCount = demands.map(|demand| demand.at_most().pages).sum();
    whole.saturating_sub(pages_held(instance, page))
}

/// Available pages once `freed` of memory came back, and surplus ones that there is memory for.
pub fn pages_obtainable(host: &Host, pool: &Pool, freed: Bytes) -> Option<PageCount> {
    let overcommit = pool.overcommit.get().unwrap_or_default();
    let surplus = pool.surplus.get().unwrap_or_default();
    let allowed = overcommit.saturating_sub(surplus);
    Some(
        pool.available_pages()?
            + found_on_demand(host, pool.page_size, freed)
                .map_or(allowed, |found| allowed.min(found)),
    )
}

/// Pages of a size that a server's next start can have, as it gives back its base pages first.
pub fn obtainable_for(host: &Host, instance: &Instance, page: PageSize) -> Option<PageCount> {
    pages_obtainable(host, host.find_pool(page)?, on_base_pages(instance).unwrap_or_default())
}

/// Pages on demand that there is memory for once `freed` of it came back.
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

const NAMED_BEFORE: usize = 3;

/// In name order. One that doesn't fit takes nothing: most servers ask for all or nothing.
pub(crate) fn deal_pool_shares<'h>(host: &Host, instances: &'h [Instance]) -> Vec<Share> {
    let with_demand = |instance: &'h Instance| {
        Some((instance.id(), find_missing_demand(host, instance)?, instance))
    };
    let mut asking: Vec<(InstanceId, Demand, &Instance)> =
        instances.iter().filter(|instance| asks_now(instance)).filter_map(with_demand).collect();
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

pub(crate) fn why_unknown(host: &Host, instance: &Instance) -> Missing {
    if let Some(why) =
        host.find_process(instance.pid).and_then(|process| process.mappings.unknown_reason())
    {
        return Missing::Instance(Lack::new(format_args!("/proc/{}/maps", instance.pid), why));
    }
    let why = instance.segments.iter().find_map(|segment| segment.page_size.unknown_reason());
    let what = format_args!("page size of the mappings of pid {}", instance.pid);
    Missing::Instance(Lack::new(what, why.unwrap_or(Reason::from_text("not told"))))
}

pub(crate) struct PoolCounts {
    pub(crate) total: PageCount,
    pub(crate) free: PageCount,
    pub(crate) reserved: PageCount,
}

impl PoolCounts {
    /// Pages that are neither used nor promised.
    pub(crate) const fn available(&self) -> PageCount {
        self.free.saturating_sub(self.reserved)
    }
}

/// Pages beyond a pool's own size: none where the kernel does not tell them apart.
pub(crate) fn surplus_pages(host: &Host, pool: &Pool) -> Result<PageCount, Missing> {
    let file = pool_fact(host, pool.page_size, "surplus_hugepages");
    Ok(require_readable(&pool.surplus, &file)?.copied().unwrap_or_default())
}

/// The counts of a pool; none where it is empty.
pub(crate) fn read_pool_counts(pool: &Pool) -> Result<Option<PoolCounts>, Missing> {
    let count = |fact: &Observed<PageCount>, file| {
        crate::require_known(fact, &pool_file(pool.page_size, file)).copied()
    };
    let total = count(&pool.total, "nr_hugepages")?;
    if total == PageCount::ZERO {
        return Ok(None);
    }
    let (free, reserved) =
        (count(&pool.free, "free_hugepages")?, count(&pool.reserved, "resv_hugepages")?);
    Ok(Some(PoolCounts { total, free, reserved }))
}

/// What a server asks for at its next start.
pub fn predict_next_start(host: &Host, instance: &Instance) -> NextStart {
    if let Some(next) = instance.next.as_known() {
        return next.clone();
    }
    // What comes of its own start goes by its word, whether a pool is planned for that or not.
    let demands = if instance.demand.is_some() {
        instance.demands().cloned().collect()
    } else {
        find_demand(host, instance).into_iter().collect()
    };
    NextStart { asked: instance.asked, setting: instance.setting.clone(), demands }
}

/// What a server asks for when the next boot starts it.
pub fn starting_at_boot(host: &Host, instance: &Instance) -> NextStart {
    instance.at_boot.as_known().cloned().unwrap_or_else(|| predict_next_start(host, instance))
}

/// Whether files ask for no more pages than servers have of them and a tenth to spare: a pool short
/// of it is filled up again. What is far more was perhaps given back on purpose.
pub(crate) fn is_with_spare(asked: PageCount, claimed: PageCount) -> bool {
    claimed > PageCount::ZERO && asked.get().saturating_mul(10) <= claimed.get().saturating_mul(11)
}

#[cfg(test)]
mod tests {
    use hugewise_model::trusted_by::TrustReason;

    use super::*;
    use crate::testing::{all_huge, gib, quiet};

    /// What an instance of 12 GiB counts for that has touched 1 GiB: its demand, and what it holds.
    fn counted(change: impl FnOnce(&mut Instance)) -> (u64, u64) {
        let mut case = quiet();
        let instance = all_huge(case.postgresql("15/main", gib(12)));
        instance.touched_bytes = Observed::Known(gib(1));
        change(instance);
        let instance = case.instances.last().unwrap();
        let demand = counted_demand(&case.host, instance).map(|demand| demand.pages.get());
        (demand.unwrap_or_default(), pages_held(instance, PageSize::MIB_2).get())
    }

    #[test]
    fn what_a_program_and_a_tenant_have_only_mapped_counts_nowhere() {
        assert_eq!(counted(|_| ()).1, 6144, "a server of its account's");
        assert_eq!(counted(|instance| instance.engine = Engine::Other), (512, 512));
        let tenant = |instance: &mut Instance| instance.trusted_by = vec![TrustReason::Container];
        assert_eq!(counted(tenant), (512, 512));
        // Not even mapped, and only in its own files.
        let claimed = |instance: &mut Instance| {
            tenant(instance);
            instance.segments.clear();
            instance.touched_bytes = Observed::Known(Bytes::ZERO);
            let pages = PageCount(6144);
            let source = DemandSource::Estimated { error_percent: 5 };
            instance.demand = Some(Demand { page_size: PageSize::MIB_2, pages, source });
        };
        assert_eq!(counted(claimed), (0, 0));
        let named = |instance: &mut Instance| {
            claimed(instance);
            instance.trusted_by.push(TrustReason::Named);
        };
        assert_eq!(counted(named).0, 6144);
        // A tenant's files say what he likes of his next start.
        let start = |instance: &mut Instance| {
            let (pages, source) = (PageCount(6144), DemandSource::Estimated { error_percent: 5 });
            let demands = vec![Demand { page_size: PageSize::MIB_2, pages, source }];
            let asked = HugePageMode::Must;
            instance.next = Observed::Known(NextStart { asked, setting: None, demands });
        };
        for (vouchers, is_counted) in [
            (vec![TrustReason::Account], true),
            (vec![TrustReason::Container], false),
            (vec![TrustReason::Container, TrustReason::Named], true),
        ] {
            let mut case = quiet();
            let instance = case.postgresql("15/main", gib(1));
            start(instance);
            instance.trusted_by = vouchers;
            assert_eq!(counted_next_start(instance).is_some(), is_counted);
        }
        // One that has touched most of it is short of pages without the rest.
        let mostly = |mib: u64| {
            counted(|instance: &mut Instance| {
                tenant(instance);
                instance.touched_bytes = Observed::Known(Bytes::from_mib(mib));
            })
        };
        assert_eq!(mostly(9000), (4500, 4500));
        assert_eq!(mostly(10_000), (6144, 6144));
        // What is touched whole and stated in whole pages counts as stated.
        let touched = |instance: &mut Instance| {
            tenant(instance);
            instance.touched_bytes = Observed::Known(instance.segment_bytes());
            let (pages, source) = (PageCount(6144), DemandSource::Engine);
            instance.demand = Some(Demand { page_size: PageSize::MIB_2, pages, source });
        };
        assert_eq!(counted(touched), (6144, 6144));
    }
}
