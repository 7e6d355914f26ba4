//! What servers have of each pool and will ask for: none of that is idle, whatever lies free now.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_engines::EngineKind;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Demand, Engine, Host, HugePageMode, HugePageUse, Instance, InstanceId, PageCount, PageSize,
    Trait,
};

use crate::demand;
use crate::demand::predict_next_start;

/// What is claimed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Pages that are held, promised, or asked for at a restart or at the next boot.
    pub pages: PageCount,
    /// Those among them that servers may ask for or not, within the error of an estimate.
    pub perhaps: PageCount,
    /// Servers of which nobody knows whether they ask for more.
    pub unknown: Vec<InstanceId>,
    /// Those of them that have nothing by which their pages could be counted: any may be theirs.
    pub uncounted: Vec<InstanceId>,
}

pub(super) fn claims_by_size(host: &Host, instances: &[Instance]) -> BTreeMap<PageSize, Claim> {
    let pools = host.pools.as_known().into_iter().flatten();
    let mut claims: BTreeMap<PageSize, Claim> = pools
        .filter_map(|pool| {
            Some((pool.page_size, Claim { pages: pool.committed_pages()?, ..Claim::default() }))
        })
        .collect();
    for instance in instances {
        let instance = at_its_word(instance);
        let unread = is_unread(host, &instance);
        for (page, claim) in &mut claims {
            let to_come = to_come(host, &instance, *page);
            claim.pages = claim.pages + to_come;
            let surely = pages_to_come(host, &instance, *page, PageCount::ZERO);
            claim.perhaps = claim.perhaps + to_come.saturating_sub(surely);
            if unread && may_take(host, &instance, *page) {
                claim.unknown.push(instance.id());
                if instance.is_stopped() && to_come == PageCount::ZERO {
                    claim.uncounted.push(instance.id());
                }
            }
        }
    }
    for (page, claim) in &mut claims {
        claim.pages = claim.pages + pages_mapped_without_promise(host, instances, *page);
    }
    claims
}

/// Pages that running programs have mapped, have not touched, and were not promised (MAP_NORESERVE,
/// as Cloud Hypervisor maps a machine's memory): they lie free and are somebody's.
fn pages_mapped_without_promise(host: &Host, instances: &[Instance], page: PageSize) -> PageCount {
    let promised = host.find_pool(page).and_then(|pool| pool.reserved.get()).unwrap_or_default();
    let untouched: PageCount = instances
        .iter()
        .filter_map(|instance| {
            let touched = page.pages_for(instance.touched_bytes.get()?);
            Some(demand::pages_mapped(instance, page).saturating_sub(touched))
        })
        .sum();
    untouched.saturating_sub(promised)
}

/// Nobody takes pages from under a stranger, as it may be a server that could not be told from one.
fn at_its_word(instance: &Instance) -> Cow<'_, Instance> {
    if instance.is_trusted() {
        return Cow::Borrowed(instance);
    }
    let mut named = instance.clone();
    named.trusted_by.push(TrustReason::Named);
    Cow::Owned(named)
}

/// Beyond the pages that a server holds; of one with unread settings, what it needs now.
pub fn to_come(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    // It may be a few more, where that hangs on what cannot be reckoned exactly.
    let perhaps = instance.possible_demands.iter().filter(|demand| demand.page_size == page);
    pages_to_come(host, instance, page, perhaps.map(|demand| demand.pages).sum())
}

fn pages_to_come(
    host: &Host,
    instance: &Instance,
    page: PageSize,
    perhaps: PageCount,
) -> PageCount {
    let held = demand::pages_mapped(instance, page);
    if instance.huge_pages == HugePageUse::All && !instance.next.is_known() {
        return demand::yet_to_take(instance, page).max(perhaps.saturating_sub(held));
    }
    let start = predict_next_start(host, instance);
    let unread =
        if start.asked == HugePageMode::Unknown { of_unread(host, instance) } else { None };
    let said = start.demands.iter().filter(|_| start.asks_for_huge_pages());
    let of_page = said.chain(&unread).filter(|demand| demand.page_size == page);
    let asked: PageCount = of_page.map(|demand| demand.at_most().pages).sum();
    asked.max(perhaps).saturating_sub(held)
}

/// A program known by its mappings alone has no settings, and asks again where it has huge pages.
pub(super) fn of_unread(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = demand::find_demand(host, instance)?;
    let holds = || demand::pages_mapped(instance, demand.page_size) > PageCount::ZERO;
    (instance.engine != Engine::Other || holds()).then_some(demand)
}

fn is_unread(host: &Host, instance: &Instance) -> bool {
    let start = predict_next_start(host, instance);
    // Pages of a size that this kernel lacks are an error of its settings: mended, they ask for
    // pages of another size.
    let lacks_size = |demand: &Demand| host.find_pool(demand.page_size).is_none();
    let unread = start.asked == HugePageMode::Unknown
        || (start.asks_for_huge_pages()
            && (start.demands.is_empty() || start.demands.iter().all(lacks_size)));
    unread && instance.engine != Engine::Other && !is_running_asm(instance)
}

/// ASM keeps its parameters in itself, where no file tells them: what it has it will ask for.
fn is_running_asm(instance: &Instance) -> bool {
    instance.traits.contains(&Trait::Asm)
        && !instance.is_stopped()
        && instance.huge_pages == HugePageUse::All
}

fn may_take(host: &Host, instance: &Instance, page: PageSize) -> bool {
    demand::page_size(host, instance).is_none_or(|asked| asked == page)
        || (EngineKind::for_engine(instance.engine).page_size.can_be_named)(instance)
}
