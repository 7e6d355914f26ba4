//! Whether an instance has on huge pages what it needs there, in one word.

use hugewise_engines::Kind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, DemandSource, Host, HugePageUse, Instance};

use crate::{cause, chain, demand};

/// How much of its demand an instance has on huge pages, now or at another moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
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

impl Standing {
    /// What people read of it in a column: `all`, `fails`, `?`.
    pub const fn in_a_word(&self) -> &'static str {
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

/// How an instance stands. One that has no demand of a pool counts only where it is `named`.
pub fn standing(host: &Host, instance: &Instance, named: bool) -> Standing {
    if instance.is_asleep() {
        return Standing::NotRunning;
    }
    if let Some(why) = exempt(instance).filter(|_| !named && instance.huge_pages != HugePageUse::All) {
        return Standing::NotCounted(why);
    }
    match instance.huge_pages {
        // The server's own number counts more than the mappings that were recognised.
        HugePageUse::All if lacks(host, instance) => Standing::Partly,
        HugePageUse::All => Standing::All,
        HugePageUse::Partly => Standing::Partly,
        HugePageUse::None => Standing::None,
        HugePageUse::Unknown => Standing::Unknown,
    }
}

fn exempt(instance: &Instance) -> Option<&'static str> {
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
    let idle = Kind::of(instance.engine).often_small && instance.asked == Asked::No;
    (small && idle).then_some("does not ask for huge pages and has little memory")
}

fn lacks(host: &Host, instance: &Instance) -> bool {
    let demand = demand::of(host, instance).filter(|demand| demand.source == DemandSource::Engine);
    demand.is_some_and(|demand| {
        let held = demand::held(instance, demand.page_size);
        // Pages of another size hold it too.
        held.get() > 0 && held < demand.pages
    })
}

#[cfg(test)]
mod tests {
    use hugewise_model::{Demand, PageCount, PageSize, Trait};

    use super::*;
    use crate::testing;

    #[test]
    fn engines_without_a_way_count_only_where_they_are_named() {
        let mut case = testing::quiet();
        let instance = case.mariadb("3306", testing::gib(1));
        (instance.mechanism, instance.huge_pages) = (Mechanism::None, HugePageUse::None);
        let instance = instance.clone();
        assert!(matches!(standing(&case.host, &instance, false), Standing::NotCounted(_)));
        assert_eq!(standing(&case.host, &instance, true), Standing::None);
    }

    #[test]
    fn automatic_memory_management_counts_in_a_database_and_not_in_asm() {
        let mut case = testing::quiet();
        let mut instance = case.oracle("PROD", testing::gib(8), 10).clone();
        (instance.traits, instance.huge_pages) = (vec![Trait::Amm], HugePageUse::None);
        assert_eq!(standing(&case.host, &instance, false), Standing::None);
        instance.traits.push(Trait::Asm);
        assert!(matches!(standing(&case.host, &instance, false), Standing::NotCounted(_)));
    }

    #[test]
    fn the_servers_own_number_counts_more_than_the_mappings_that_were_recognised() {
        let mut case = testing::quiet();
        let mut instance = testing::all_huge(case.postgresql("15/main", testing::gib(1))).clone();
        let demand =
            |pages| Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source: DemandSource::Engine };
        instance.demand = Some(demand(512));
        assert_eq!(standing(&case.host, &instance, false), Standing::All);
        instance.demand = Some(demand(600));
        assert_eq!(standing(&case.host, &instance, false), Standing::Partly);
    }
}
