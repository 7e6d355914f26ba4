//! What servers have of each pool and will ask for at their next start: nothing of that is idle, whatever lies free now.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_engines::Kind;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Demand, Engine, Host, HugePageUse, Instance, InstanceId, PageCount, PageSize};

use crate::demand;
use crate::demand::starting;

/// What is claimed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Pages that are held or promised, and those that servers ask for beyond them at a restart or at the next boot.
    pub pages: PageCount,
    /// Those among them that servers may ask for, or not: within the error of what their files come to.
    pub perhaps: PageCount,
    /// Servers of which nobody knows whether they ask for more.
    pub unknown: Vec<InstanceId>,
    /// Those of them that have nothing by which their pages could be counted: any may be theirs.
    pub uncounted: Vec<InstanceId>,
}

/// The claims to all pools whose counts are known; linear in the servers.
pub(super) fn claims(host: &Host, instances: &[Instance]) -> BTreeMap<PageSize, Claim> {
    let pools = host.pools.known().into_iter().flatten();
    let mut claims: BTreeMap<PageSize, Claim> = pools
        .filter_map(|pool| Some((pool.page_size, Claim { pages: pool.committed()?, ..Claim::default() })))
        .collect();
    for instance in instances {
        let instance = at_its_word(instance);
        let unread = is_unread(host, &instance);
        for (page, claim) in &mut claims {
            let to_come = to_come(host, &instance, *page);
            claim.pages = claim.pages + to_come;
            claim.perhaps = claim.perhaps + to_come.saturating_sub(surely_to_come(host, &instance, *page));
            if unread && may_take(host, &instance, *page) {
                claim.unknown.push(instance.id());
                if instance.is_asleep() && to_come == PageCount::ZERO {
                    claim.uncounted.push(instance.id());
                }
            }
        }
    }
    claims
}

/// Nobody takes pages from under a stranger, as it may be a server that could not be told from one.
fn at_its_word(instance: &Instance) -> Cow<'_, Instance> {
    if instance.is_vouched() {
        return Cow::Borrowed(instance);
    }
    let mut named = instance.clone();
    named.vouchers.push(Voucher::Named);
    Cow::Owned(named)
}

/// Pages of a size that a server asks for at its next start beyond those that it holds; of one whose settings were not read,
/// what it needs now.
pub fn to_come(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    // It may be a few more, where that hangs on what cannot be reckoned exactly.
    let perhaps = instance.perhaps.iter().filter(|demand| demand.page_size == page);
    coming(host, instance, page, perhaps.map(|demand| demand.pages).sum())
}

/// The same, but for those that it may ask for or not.
fn surely_to_come(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    coming(host, instance, page, PageCount::ZERO)
}

fn coming(host: &Host, instance: &Instance, page: PageSize, perhaps: PageCount) -> PageCount {
    let held = demand::held(instance, page);
    if instance.huge_pages == HugePageUse::All && !instance.next.is_known() {
        return demand::yet_to_take(instance, page).max(perhaps.saturating_sub(held));
    }
    let start = starting(host, instance);
    let unread = if start.asked == Asked::Unknown { of_unread(host, instance) } else { None };
    let said = start.demands.iter().filter(|_| start.asks());
    let of_page = said.chain(&unread).filter(|demand| demand.page_size == page);
    let asked: PageCount = of_page.map(|demand| demand.at_most().pages).sum();
    asked.max(perhaps).saturating_sub(held)
}

/// What a server may ask for whose settings were not read: what it needs now. A program that is known by nothing but what it
/// maps has no settings, and asks for huge pages again where it has them.
pub(super) fn of_unread(host: &Host, instance: &Instance) -> Option<Demand> {
    let demand = demand::of(host, instance)?;
    let holds = || demand::held(instance, demand.page_size) > PageCount::ZERO;
    (instance.engine != Engine::Other || holds()).then_some(demand)
}

/// Whether nobody knows what a server asks for.
fn is_unread(host: &Host, instance: &Instance) -> bool {
    let start = starting(host, instance);
    let unread = start.asked == Asked::Unknown || (start.asks() && start.demands.is_empty());
    unread && instance.engine != Engine::Other
}

/// Whether its settings may name pages of that size.
fn may_take(host: &Host, instance: &Instance, page: PageSize) -> bool {
    demand::page_size(host, instance).is_none_or(|asked| asked == page)
        || (Kind::of(instance.engine).takes_page_size)(instance)
}
