//! How large each pool is to be: one goal a page size, which the steps for now and for the next boot share.

use std::collections::BTreeSet;

use hugewise_model::observed::{Lack, Reason};
use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Bytes, Host, HugePageUse, Instance, InstanceId, PageCount, PageSize, Pool, Remedy};

use super::Ask;
use super::commit::Commit;
use crate::demand::{is_with_spare, starting};
use crate::idle::is_worth_giving_back;
use crate::situation::{Obstacle, to_come};
use crate::sizing::{Budget, Sized};
use crate::{Missing, boot, demand, known};

/// What a pool is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Page size.
    pub page_size: PageSize,
    /// Pages in it now, without surplus ones.
    pub now: PageCount,
    /// Surplus pages: servers hold them, and the kernel frees them when those end.
    pub surplus: PageCount,
    /// Pages in it afterwards.
    pub goal: PageCount,
    /// The same by node, where nodes matter: node, now, goal.
    pub nodes: Vec<(u32, PageCount, PageCount)>,
    /// Pages that servers hold or are promised, or that are planned for them.
    pub needed: PageCount,
    /// Pages that the next boot is to bring, where these are fewer: what nobody asks for stays until it is given back, and is not
    /// kept.
    pub kept: Option<PageCount>,
    /// Why the running kernel is not asked for the pages; `None` where it is, or has them.
    pub not_now: Option<String>,
    /// Whether that is because all pools together would leave the host too little memory: then nobody is to set it by hand.
    pub crowds: bool,
}

impl Goal {
    /// Whether the pool has its pages once the plan is applied, before any reboot.
    pub fn is_there(&self) -> bool {
        self.goal <= self.now || self.not_now.is_none()
    }

    /// Whether it is to have more pages than there are.
    pub fn grows(&self) -> bool {
        self.goal > self.now
    }

    /// Pages that the next boot is to bring: what is there afterwards.
    pub fn pages_at_boot(&self, host: &Host, instances: &[Instance]) -> PageCount {
        // Surplus pages that servers hold are gone with the next boot, and have to be had again on demand.
        let held: PageCount = instances.iter().map(|instance| demand::held(instance, self.page_size)).sum();
        let on_demand = host.pool(self.page_size).and_then(|pool| pool.overcommit.get()).unwrap_or_default();
        let pages = self.kept.unwrap_or(self.goal);
        if on_demand > PageCount::ZERO { pages } else { pages.max(held) }
    }

    /// Memory of the pool afterwards, surplus pages among it that servers hold.
    pub fn memory(&self) -> Bytes {
        let held = if self.goal < self.now { PageCount::ZERO } else { self.now + self.surplus };
        self.goal.max(held).of(self.page_size)
    }

    /// Memory to be taken from the host now.
    pub fn extra(&self) -> Bytes {
        // Surplus pages become the pool's own.
        self.goal.saturating_sub(self.now + self.surplus).of(self.page_size)
    }
}

/// Memory of all pools afterwards.
pub fn memory<'a>(goals: impl IntoIterator<Item = &'a Goal>) -> Bytes {
    goals.into_iter().map(Goal::memory).sum()
}

pub(super) fn goals(ask: &Ask<'_>) -> (Vec<Goal>, Vec<String>) {
    let mut warnings = Vec::new();
    let Some(pools) = ask.host.pools.known() else {
        let reason = ask.host.pools.reason().unwrap_or_default();
        return (Vec::new(), vec![format!("no pool is planned: /sys/kernel/mm/hugepages: {reason}")]);
    };
    let mut goals: Vec<Goal> = Vec::new();
    for pool in pools {
        match goal(ask, pool) {
            Ok(goal) => goals.push(goal),
            Err(missing) => warnings.push(format!("no pool of {} pages is planned: {missing}", pool.page_size)),
        }
    }
    // What one pool gives back another one may have, and what one takes the next one cannot have.
    let keep = kept_free(ask);
    let pools: Bytes = goals.iter().map(|goal| goal.goal.of(goal.page_size)).sum();
    let most = ask.host.memory.total.get().map(demand::largest_pools);
    let given_back = |goal: &Goal| goal.now.saturating_sub(goal.goal).of(goal.page_size);
    let given_back: Bytes = goals.iter().map(given_back).sum();
    let mut free = obtainable_memory(ask).map(|free| if ask.wish.now { free + given_back } else { free });
    let mut commit = Commit::of(ask.host);
    for goal in &mut goals {
        let extra = goal.extra();
        // Surplus pages take no more memory, and are nobody's at a restart until the pool is told to keep them.
        if goal.grows() && !ask.wish.now {
            goal.not_now = Some("only the next boot is planned for".into());
        }
        if extra == Bytes::ZERO {
            continue;
        }
        goal.crowds = most.is_some_and(|most| pools > most);
        goal.not_now = match free {
            _ if goal.not_now.is_some() => goal.not_now.take(),
            _ if goal.crowds => Some(format!(
                "all pools together would take {pools}, more than {} % of memory; give back first what nobody uses \
                 (hugewise plan --shrink)",
                demand::LARGEST_POOL_PERCENT
            )),
            Some(free) if extra > free => {
                Some(format!("{extra} more is needed, and {free} of memory is available now"))
            }
            Some(free) if extra + keep > free => Some(format!(
                "{extra} more is needed; of the {free} available now, {keep} must stay free until the servers have moved"
            )),
            Some(free) if ask.host.is_gigantic(goal.page_size) && extra.times(2) > free => Some(format!(
                "{extra} in pages of {} is unlikely to be found in {free} of memory that has been in use",
                goal.page_size
            )),
            Some(_) if is_beyond_free(ask.host, goal.page_size, extra) => Some(format!(
                "{extra} in pages of {} can only be found in free memory, and {} is free",
                goal.page_size,
                demand::found_now(ask.host, goal.page_size).unwrap_or_default()
            )),
            _ => commit.as_mut().and_then(|commit| commit.take(extra)),
        };
        if goal.not_now.is_none() {
            free = free.map(|free| free.saturating_sub(extra));
        }
    }
    (goals, warnings)
}

/// Whether pages are of a size that only free memory is made into, and so much is not free.
fn is_beyond_free(host: &Host, page: PageSize, extra: Bytes) -> bool {
    demand::is_hardly_found(host, page) && demand::found_now(host, page).is_some_and(|found| extra > found)
}

/// Memory that the kernel can be asked for: free, or page cache that it can drop.
fn obtainable_memory(ask: &Ask<'_>) -> Option<Bytes> {
    ask.host.obtainable_memory().map(|memory| memory.bytes)
}

/// Memory that has to stay with the running system while a server still holds its memory beside the new pool: what HW206 calls
/// the end of a host, and no less than an apply leaves.
fn kept_free(ask: &Ask<'_>) -> Bytes {
    let memory = &ask.host.memory;
    let total = memory.total.get().unwrap_or_default();
    let base = ask.host.base_page.get().unwrap_or(PageSize::KIB_4).bytes();
    let zones = memory.watermarks.known().into_iter().flatten();
    let watermarks: Bytes = zones.map(|zone| base.times(zone.high)).sum();
    let least = total.shared_by(100).unwrap_or_default().times(2).max(watermarks.times(2)) + Bytes::from_mib(16);
    // An apply does not ask where nothing but free memory is known.
    let is_told = ask.host.obtainable_memory().is_some_and(|memory| memory.by != ObtainableBy::Free);
    if is_told { least.max(Budget::floor_of(total)) } else { least }
}

fn goal(ask: &Ask<'_>, pool: &Pool) -> Result<Goal, Missing> {
    let page = pool.page_size;
    let total = *known(&pool.total, "nr_hugepages")?;
    let surplus = pool.surplus.get().unwrap_or_default();
    let now = total.saturating_sub(surplus);
    let uncounted = || Missing::Host(Lack::new("free_hugepages or resv_hugepages", Reason::untold("not known")));
    let committed = pool.committed().ok_or_else(uncounted)?;
    let targets: Vec<_> = ask.targets().iter().filter(|target| target.page_size == page).collect();
    let target = without_unmoved(ask, page);
    let needed = target.max(committed.saturating_sub(surplus));
    // What servers that are not planned for will ask for is needed too, as far as it is there.
    let needed = needed.max((needed + unplanned(ask, page)).min(now));
    // A server that lacks pages, or holds surplus ones, must not depend on pages on demand: they come out of memory that happens
    // to be free, and after an undo under a server that runs the kernel would not give them again.
    let lacks = needs_pages(ask, page);
    // Whoever stops gives surplus pages back first, be they its own or not: those of servers that will leave this size are kept
    // with the others until then, which takes no memory.
    let held = if surplus > PageCount::ZERO { (target + ask.held_until_restart(page)).min(now + surplus) } else { now };
    let grows = ((surplus > PageCount::ZERO || lacks) && target > now) || (lacks && held > now);
    // What is planned counts what is held, and not those who ask without being planned for.
    let least = needed.max(claimed(ask, page, committed.max(target))).max(configured(ask, page, now, needed));
    let restored = |pages: PageCount| restored(ask, pool, now, pages).unwrap_or(pages);
    let (goal, needed) = match () {
        () if grows => (restored(target).max(held), needed),
        () if gives_back(ask, pool, least) => (least, least),
        () if needed <= now + surplus => (restored(needed).max(now), needed),
        () => (now, needed),
    };
    // Servers that are yet to be made to ask for it may leave too little over for a word.
    let is_idle = || is_worth_giving_back(now.saturating_sub(least), now, page);
    let kept = kept_at_boot(ask, page, least).filter(|kept| goal == now && *kept < goal && is_idle());
    let nodes = nodes(pool, &targets, goal).unwrap_or_default();
    Ok(Goal { page_size: page, now, surplus, goal, nodes, needed, kept, not_now: None, crowds: false })
}

/// What is planned without the pages of servers that insist on another size, go on to do so, and that nobody named: once they
/// are well there, nothing is planned for them here.
pub(super) fn without_unmoved(ask: &Ask<'_>, page: PageSize) -> PageCount {
    let stays = |instance: &Instance| {
        let named = super::is_named(ask.instances, instance, ask.wish.names);
        instance.asked == Asked::Must && ask.unmoved.contains(&instance.id()) && !named
    };
    let of_page = ask.sized().filter(|(_, sized)| sized.page_size == page);
    let unmoved: Vec<&Sized> = of_page.filter(|(it, _)| stays(it)).map(|(_, sized)| sized).collect();
    let is_unmoved = |sized: &Sized| unmoved.iter().any(|unmoved| std::ptr::eq(*unmoved, sized));
    ask.sizing.map(|sizing| sizing.pages_without(page, is_unmoved)).unwrap_or_default()
}

/// Whether somebody lacks pages of that size.
fn needs_pages(ask: &Ask<'_>, page: PageSize) -> bool {
    if ask.short.contains(&page) {
        return true;
    }
    let mut lacking = ask.sized().filter(|(instance, sized)| {
        let moments = ask.assessment.situation.of(instance);
        let loses = moments.is_some_and(|it| it.loses_at_restart() || it.loses_at_boot() || it.may_lack_pages());
        // The boot starts it, and brings what it asks for: until then it has no pages to be started with.
        let is_stuck =
            || moments.is_some_and(|it| it.restart.obstacle == Some(Obstacle::Pages)) && is_brought(ask, page);
        let loses = loses || (instance.is_asleep() && !instance.waits_for_hands() && is_stuck());
        let lacks = instance.huge_pages != HugePageUse::All || demand::held(instance, page) == PageCount::ZERO;
        let named = super::is_named(ask.instances, instance, ask.wish.names);
        let about = named || ask.wish.names.is_empty();
        // A small one that has none loses none.
        let has = instance.huge_pages != HugePageUse::None || instance.is_asleep();
        sized.page_size == page && about && ((loses && has) || (lacks && (named || ask.is_kept_off(instance))))
    });
    lacking.next().is_some()
}

/// Whether the boot's files ask for more pages of a size than there are now.
fn is_brought(ask: &Ask<'_>, page: PageSize) -> bool {
    let now = ask.host.pool(page).and_then(|pool| Some(pool.total.get()?.saturating_sub(pool.surplus.get()?)));
    let asked = boot::pool(ask.host, page).ok().and_then(|steps| steps.last().map(|step| PageCount(step.value)));
    asked.zip(now).is_some_and(|(asked, now)| asked > now)
}

/// Pages that are held or planned, and those that servers will ask for at their next start without being planned for. Strangers
/// count too, as one may be a server that could not be told from them, and none gets a page by this.
fn claimed(ask: &Ask<'_>, page: PageSize, counted: PageCount) -> PageCount {
    let asks = |instance: &Instance| {
        // One whose settings cannot be read may ask.
        let asks = starting(ask.host, instance).asks() || instance.asked == Asked::Unknown;
        (asks || ask.is_kept_off(instance)) && demand::page_size(ask.host, instance) == Some(page)
    };
    let to_come = |instance: &Instance| to_come(ask.host, instance, page);
    let planned = planned(ask);
    let more = |instance: &Instance| {
        // One on pages of another size needs them all.
        let moves = instance.huge_pages == HugePageUse::All && demand::held(instance, page) == PageCount::ZERO;
        let demand = if moves { demand::of(ask.host, instance) } else { demand::more(ask.host, instance) };
        demand.map(|demand| demand.pages)
    };
    let known = ask.instances.iter().filter(|instance| !planned.contains(&instance.id()));
    let strangers = strangers(ask);
    let waiting = known.chain(&strangers).map(|instance| {
        let now = if asks(instance) { more(instance).unwrap_or_default() } else { PageCount::ZERO };
        now.max(to_come(instance))
    });
    counted + waiting.sum()
}

/// Servers whose pages the targets count. One that no step sets to the pages that are planned for it goes on to ask for those
/// that it has.
fn planned(ask: &Ask<'_>) -> BTreeSet<InstanceId> {
    ask.sized().map(|(instance, _)| instance.id()).filter(|id| !ask.unmoved.contains(id)).collect()
}

/// Pages that known servers which are not planned for will ask for beyond those that they hold.
fn unplanned(ask: &Ask<'_>, page: PageSize) -> PageCount {
    let planned = planned(ask);
    let others = ask.instances.iter().filter(|instance| !planned.contains(&instance.id()));
    others.map(|instance| to_come(ask.host, instance, page)).sum()
}

/// Strangers as they are taken for here: at their word where pages would be given back for tidiness, by what they have
/// touched where the host starves, as nobody is to keep it starving who spends no memory himself.
fn strangers(ask: &Ask<'_>) -> Vec<Instance> {
    let mut strangers: Vec<Instance> = ask.strangers.iter().copied().cloned().collect();
    if !ask.starves() {
        strangers.iter_mut().for_each(|instance| instance.vouchers.push(Voucher::Named));
    }
    strangers
}

/// Whether pages are to be given back: the pools starve the host, or somebody said so. Not while servers may be hidden, as
/// what nobody seems to ask for may be theirs at their next start; not for tidiness where a server's settings were not read; and
/// never where one that is down may have any of them, and nothing of it is counted.
fn gives_back(ask: &Ask<'_>, pool: &Pool, least: PageCount) -> bool {
    let spare = pool.total.get().unwrap_or_default().saturating_sub(least);
    let claim = ask.assessment.situation.claim(pool.page_size);
    let is_told = || claim.is_some_and(|claim| claim.unknown.is_empty());
    let is_counted = || claim.is_none_or(|claim| claim.uncounted.is_empty());
    let wanted = (ask.starves() && is_counted()) || (ask.wish.shrink && is_told());
    wanted && spare > PageCount::ZERO && ask.host.unseen().is_none()
}

/// Pages that the next boot is to bring of a pool that is found to be idle: those that somebody asks for, and what the files
/// bring already.
fn kept_at_boot(ask: &Ask<'_>, page: PageSize, least: PageCount) -> Option<PageCount> {
    let idle = Remedy::GiveBack(page);
    ask.assessment.findings.iter().find(|finding| finding.remedies.contains(&idle))?;
    let steps = boot::pool(ask.host, page).ok()?;
    let brings = steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value));
    Some(least.max(brings))
}

/// Pages that the files ask for, where they are to stay as they are and the host can carry it.
fn configured(ask: &Ask<'_>, page: PageSize, now: PageCount, needed: PageCount) -> PageCount {
    if ask.wish.boot {
        return PageCount::ZERO;
    }
    let steps = boot::pool(ask.host, page).unwrap_or_default();
    let asked = steps.last().map(|step| PageCount(step.value)).unwrap_or_default();
    // A few beyond what is needed starve nobody, and would be filled up again.
    let stay = !ask.starves() || (!ask.wish.shrink && !ask.host.is_gigantic(page) && is_with_spare(asked, needed));
    if asked <= now && stay { asked } else { PageCount::ZERO }
}

/// Pages that the boot's files ask for beyond those that are needed, where the running kernel can have them too: a pool that
/// comes out short of its file is found short ever after.
fn restored(ask: &Ask<'_>, pool: &Pool, now: PageCount, pages: PageCount) -> Option<PageCount> {
    let page = pool.page_size;
    let asked = PageCount(boot::pool(ask.host, page).ok()?.last()?.value);
    if !ask.wish.now
        || ask.wish.shrink
        || asked <= pages.max(now)
        || !is_with_spare(asked, pages)
        || ask.host.is_gigantic(page)
    {
        return None;
    }
    let surplus = pool.surplus.get().unwrap_or_default();
    let extra = asked.saturating_sub(now + surplus).of(page);
    (extra + kept_free(ask) <= obtainable_memory(ask)?).then_some(asked)
}

/// A pool's pages by node. A growing one has what the targets say, but no more in all than it is to grow by; one that does not
/// grow keeps them on the nodes of those that may use no others.
fn nodes(
    pool: &Pool,
    targets: &[&crate::sizing::PoolTarget],
    goal: PageCount,
) -> Option<Vec<(u32, PageCount, PageCount)>> {
    let mut nodes = Vec::new();
    for target in targets {
        let part = pool.nodes.iter().find(|part| Some(part.node) == target.node)?;
        let now = part.total.get()?.saturating_sub(part.surplus.get().unwrap_or_default());
        nodes.push((part.node, now, target.pages));
    }
    let now: PageCount = nodes.iter().map(|(_, now, _)| *now).sum();
    let mut grows = goal.saturating_sub(now);
    if nodes.len() < 2 {
        return None;
    }
    if grows == PageCount::ZERO {
        return kept(nodes, goal);
    }
    for (_, now, goal) in &mut nodes {
        let more = goal.saturating_sub(*now).min(grows);
        grows = grows.saturating_sub(more);
        *goal = *now + more;
    }
    // More than the targets ask for (as the files do): the kernel spreads that itself.
    (grows == PageCount::ZERO).then_some(nodes)
}

/// The pages of a pool that does not grow, where the kernel's even spread would take from a node what is wanted there and is there
/// now: what is wanted of each node, and of the others as many as there are.
fn kept(mut nodes: Vec<(u32, PageCount, PageCount)>, goal: PageCount) -> Option<Vec<(u32, PageCount, PageCount)>> {
    let each = goal.get() / u64::try_from(nodes.len()).ok()?;
    let wanted: PageCount = nodes.iter().map(|(_, _, wanted)| *wanted).sum();
    let bound = nodes.iter().any(|(_, _, wanted)| wanted.get() > each);
    if !bound || wanted > goal || nodes.iter().any(|(_, now, wanted)| now < wanted) {
        return None;
    }
    let mut rest = goal.saturating_sub(wanted);
    for (_, now, goal) in &mut nodes {
        let more = now.saturating_sub(*goal).min(rest);
        rest = rest.saturating_sub(more);
        *goal = *goal + more;
    }
    (rest == PageCount::ZERO).then_some(nodes)
}
