//! Whether an instance has on huge pages what it needs there, in one word.

use hugewise_engines::EngineKind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{DemandSource, Host, HugePageMode, HugePageUse, Instance};

use crate::{cause, chain, demand};

/// How much of its demand an instance has on huge pages, now or at another moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All of it.
    All,
    /// Some of it.
    Partly,
    /// Nothing.
    None,
    /// It cannot be told.
    Unknown,
    /// It does not run, now or after the boot: nothing is asked of it.
    NotRunning,
    /// It refuses to start: its settings insist on huge pages that it does not get.
    DoesNotStart,
    /// It has no demand of a pool, for this reason.
    NotCounted(&'static str),
}

impl Coverage {
    /// What people read of it in a column: `all`, `fails`, `?`.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::DoesNotStart => "fails",
            Self::Unknown => "?",
            Self::NotRunning | Self::NotCounted(_) => "-",
            Self::All | Self::Partly | Self::None => self.as_str(),
        }
    }

    /// Name in text and JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Partly => "partly",
            Self::None => "none",
            Self::Unknown => "unknown",
            Self::NotRunning => "not_running",
            Self::DoesNotStart => "does_not_start",
            Self::NotCounted(_) => "not_counted",
        }
    }
}

/// How an instance stands. One that has no demand of a pool counts only where it is `named`, and
/// one whose engine has no way to a pool never does.
pub fn measure_coverage(host: &Host, instance: &Instance, named: bool) -> Coverage {
    if instance.is_stopped() {
        return Coverage::NotRunning;
    }
    let has_no_way = instance.mechanism == Mechanism::None && !chain::is_amm(instance);
    let is_exempt = (has_no_way || !named) && instance.huge_pages != HugePageUse::All;
    if let Some(why) = exemption_reason(instance).filter(|_| is_exempt) {
        return Coverage::NotCounted(why);
    }
    match instance.huge_pages {
        // The server's own number counts more than the mappings that were recognised.
        HugePageUse::All if lacks_demanded_pages(host, instance) => Coverage::Partly,
        HugePageUse::All => Coverage::All,
        HugePageUse::Partly => Coverage::Partly,
        HugePageUse::None => Coverage::None,
        HugePageUse::Unknown => Coverage::Unknown,
    }
}

fn exemption_reason(instance: &Instance) -> Option<&'static str> {
    let amm = chain::is_amm(instance);
    if instance.mechanism == Mechanism::None && !amm {
        return Some("cannot use huge pages from a pool");
    }
    if cause::is_asm_with_amm(instance) {
        return Some("an ASM instance manages its memory automatically, as it should");
    }
    if cause::wants_thp(instance) {
        return Some("takes transparent huge pages by its own settings");
    }
    let small = instance.segment_bytes() < demand::BIG_SEGMENT && !instance.segments.is_empty();
    let idle = EngineKind::for_engine(instance.engine).memory.often_small
        && instance.asked == HugePageMode::No;
    (small && idle).then_some("does not ask for huge pages and has little memory")
}

fn lacks_demanded_pages(host: &Host, instance: &Instance) -> bool {
    let demand =
        demand::find_demand(host, instance).filter(|demand| demand.source == DemandSource::Engine);
    demand.is_some_and(|demand| {
        let touched = demand::pages_held(instance, demand.page_size);
        // What it has not touched of a mapping is its own as far as pages are reserved.
        let mapped = demand::pages_mapped(instance, demand.page_size);
        let pool = host.find_pool(demand.page_size);
        let reserved = pool.and_then(|pool| pool.reserved.get()).unwrap_or_default();
        let held = mapped.min(touched + reserved);
        // Pages of another size hold it too.
        held.get() > 0 && held < demand.pages
    })
}

#[cfg(test)]
mod tests {
    use hugewise_model::{Bytes, Demand, Observed, PageCount, PageSize, Trait};

    use super::*;
    use crate::testing;

    #[test]
    fn engines_without_a_way_never_count_named_or_not() {
        let mut case = testing::quiet();
        let instance = case.mariadb("3306", testing::gib(1));
        (instance.mechanism, instance.huge_pages) = (Mechanism::None, HugePageUse::None);
        let instance = instance.clone();
        assert!(matches!(measure_coverage(&case.host, &instance, false), Coverage::NotCounted(_)));
        assert!(matches!(measure_coverage(&case.host, &instance, true), Coverage::NotCounted(_)));
    }

    #[test]
    fn automatic_memory_management_counts_in_a_database_and_not_in_asm() {
        let mut case = testing::quiet();
        let mut instance = case.oracle("PROD", testing::gib(8), 10).clone();
        (instance.traits, instance.huge_pages) = (vec![Trait::Amm], HugePageUse::None);
        assert_eq!(measure_coverage(&case.host, &instance, false), Coverage::None);
        instance.traits.push(Trait::Asm);
        assert!(matches!(measure_coverage(&case.host, &instance, false), Coverage::NotCounted(_)));
    }

    #[test]
    fn the_servers_own_number_counts_more_than_the_mappings_that_were_recognised() {
        let mut case = testing::quiet();
        let mut instance = testing::all_huge(case.postgresql("15/main", testing::gib(1))).clone();
        let demand = |pages| Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(pages),
            source: DemandSource::Engine,
        };
        instance.demand = Some(demand(512));
        assert_eq!(measure_coverage(&case.host, &instance, false), Coverage::All);
        instance.demand = Some(demand(600));
        assert_eq!(measure_coverage(&case.host, &instance, false), Coverage::Partly);
    }

    /// mm/hugetlb.c: what is mapped of a hugetlbfs and not touched yet is reserved for who maps it.
    #[test]
    fn pages_that_are_reserved_count_as_held() {
        let mut case = testing::quiet();
        let mut instance = testing::all_huge(case.postgresql("vm", testing::gib(1))).clone();
        instance.engine = hugewise_model::Engine::Qemu;
        instance.trusted_by.clear();
        instance.touched_bytes = Observed::Known(Bytes::from_mib(600));
        let (page_size, pages) = (PageSize::MIB_2, PageCount(512));
        instance.demand = Some(Demand { page_size, pages, source: DemandSource::Engine });
        case.pool(5500, 5200);
        assert_eq!(measure_coverage(&case.host, &instance, false), Coverage::Partly);
        case.pools()[0].reserved = Observed::Known(PageCount(212));
        assert_eq!(measure_coverage(&case.host, &instance, false), Coverage::All);
    }
}
