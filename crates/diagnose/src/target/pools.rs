//! How large each pool is to be: one goal a page size, which the steps for now and for boot share.

use std::collections::BTreeSet;

use hugewise_model::observed::{Lack, Reason};
use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Bytes, Host, HugePageMode, HugePageUse, Instance, InstanceId, PageCount, PageSize, Pool, Remedy,
};

use super::PoolGoalInputs;
use crate::boot::CrowdingPool;
use crate::commit_limit::StrictCommit;
use crate::demand::{is_with_spare, predict_next_start};
use crate::idle::is_worth_giving_back;
use crate::later_users::find_later_user;
use crate::prediction::{Obstacle, to_come};
use crate::sizing::{MemoryBudget, SizedServer};
use crate::{Missing, boot, demand, require_known, starvation};

/// What a pool is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGoal {
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
    /// Pages that the next boot is to bring, where these are fewer as idle ones are not kept.
    pub kept: Option<PageCount>,
    /// Why the running kernel is not asked for the pages; `None` where it is, or has them.
    pub not_now: Option<String>,
    /// Whether that is because all pools together would leave the host too little memory.
    pub crowds: bool,
}

impl PoolGoal {
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
        // Surplus pages that servers hold are gone with the boot, and have to be had on demand.
        // What starts some makes their pages then.
        let (made, kept): (Vec<&Instance>, Vec<&Instance>) =
            instances.iter().partition(|instance| demand::makes_own_pages(instance));
        let pages_of = |instances: Vec<&Instance>| -> PageCount {
            let held = instances.into_iter();
            held.map(|instance| demand::pages_held(instance, self.page_size)).sum()
        };
        let (made, held) = (pages_of(made), pages_of(kept));
        let pool = host.find_pool(self.page_size);
        let on_demand = pool.and_then(|pool| pool.overcommit.get()).unwrap_or_default();
        let pages = self.kept.unwrap_or(self.goal).saturating_sub(made);
        if on_demand > PageCount::ZERO { pages } else { pages.max(held) }
    }

    /// Pages that the boot's files are to be changed to, of those that they bring; `None` where what
    /// they bring stays. `crowding` is set where all pools together take too much at that boot.
    pub fn find_boot_change(
        &self,
        host: &Host,
        instances: &[Instance],
        brought: PageCount,
        crowding: Option<&CrowdingPool>,
    ) -> Option<PageCount> {
        let is_needed = self.needed > PageCount::ZERO;
        if !is_needed && self.goal == self.now {
            return None;
        }
        // A pool beyond what the host can carry is lowered: a file of ours has the last word.
        let is_too_much = is_needed && crowding.is_some_and(|part| !part.early);
        let gives_back = self.goal < self.now || is_too_much;
        let wanted = self.pages_at_boot(host, instances);
        // What is lowered keeps what servers need that nothing is planned for.
        let pages = if is_too_much { wanted.max(self.needed) } else { wanted };
        (brought < pages || (brought > pages && gives_back)).then_some(pages)
    }

    /// Pages that each boot brings once the target is reached: more than servers need, where its
    /// files ask for more and stay as they are.
    pub fn pages_from_next_boot(&self, host: &Host, instances: &[Instance]) -> PageCount {
        let wanted = self.pages_at_boot(host, instances);
        let brought = boot::pages_at_boot(host, self.page_size).unwrap_or_default();
        let crowding = boot::find_crowding_of(host, self.page_size);
        match self.find_boot_change(host, instances, brought, crowding.as_ref()) {
            Some(pages) => pages,
            None => wanted.max(brought),
        }
    }

    /// Memory of the pool afterwards, surplus pages among it that servers hold.
    pub fn memory(&self) -> Bytes {
        let held = if self.goal < self.now { PageCount::ZERO } else { self.now + self.surplus };
        self.goal.max(held).to_bytes(self.page_size)
    }

    pub(crate) fn extra_memory(&self) -> Bytes {
        // Surplus pages become the pool's own.
        self.goal.saturating_sub(self.now + self.surplus).to_bytes(self.page_size)
    }
}

/// Memory of all pools afterwards.
pub fn sum_goal_memory<'a>(goals: impl IntoIterator<Item = &'a PoolGoal>) -> Bytes {
    goals.into_iter().map(PoolGoal::memory).sum()
}

pub(super) fn plan_pool_goals(ask: &PoolGoalInputs<'_>) -> (Vec<PoolGoal>, Vec<String>) {
    let mut warnings = Vec::new();
    let Some(pools) = ask.host.pools.as_known() else {
        let reason = ask.host.pools.reason_text().unwrap_or_default();
        let why = format!("no pool is planned: /sys/kernel/mm/hugepages: {reason}");
        return (Vec::new(), vec![why]);
    };
    let mut goals: Vec<PoolGoal> = Vec::new();
    for pool in pools {
        match plan_pool_goal(ask, pool) {
            Ok(goal) => goals.push(goal),
            Err(missing) => {
                warnings.push(format!("no pool of {} pages is planned: {missing}", pool.page_size))
            }
        }
    }
    // What one pool gives back another one may have, and what one takes the next one cannot have.
    let keep = kept_free(ask);
    let pools: Bytes = goals.iter().map(|goal| goal.goal.to_bytes(goal.page_size)).sum();
    let most = ask.host.memory.total.get().map(demand::largest_pools);
    let given_back = |goal: &PoolGoal| goal.now.saturating_sub(goal.goal).to_bytes(goal.page_size);
    let given_back: Bytes = goals.iter().map(given_back).sum();
    let mut free =
        obtainable_memory(ask).map(|free| if ask.wish.now { free + given_back } else { free });
    let mut commit = StrictCommit::from_host(ask.host);
    for goal in &mut goals {
        let extra = goal.extra_memory();
        // Surplus pages take no more memory, and are nobody's until the pool keeps them.
        if goal.grows() && !ask.wish.now {
            goal.not_now = Some("only the next boot is planned for".into());
        }
        if extra == Bytes::ZERO {
            continue;
        }
        goal.crowds = most.is_some_and(|most| pools > most);
        let page = goal.page_size;
        let why = goal.not_now.take().or_else(|| match goal.crowds {
            true => Some(format!(
                "all pools together would take {pools}, more than {} % of memory; give back first \
                 what nobody uses (hugewise plan --shrink)",
                demand::LARGEST_POOL_PERCENT
            )),
            false => explain_shortage(ask.host, page, extra, keep, free?),
        });
        goal.not_now = why.or_else(|| commit.as_mut().and_then(|commit| commit.try_commit(extra)));
        if goal.not_now.is_none() {
            free = free.map(|free| free.saturating_sub(extra));
        }
    }
    (goals, warnings)
}

/// Why these bytes cannot be had out of the free ones, of which some must be kept.
fn explain_shortage(
    host: &Host,
    page: PageSize,
    extra: Bytes,
    keep: Bytes,
    free: Bytes,
) -> Option<String> {
    if extra > free {
        Some(format!("{extra} more is needed, and {free} of memory is available now"))
    } else if extra + keep > free {
        Some(format!(
            "{extra} more is needed; of the {free} available now, {keep} must stay free until the \
             servers have moved"
        ))
    } else if host.is_gigantic(page) && extra.saturating_mul(2) > free {
        Some(format!(
            "{extra} in pages of {page} is unlikely to be found in {free} of memory that has been \
             in use"
        ))
    } else if is_beyond_free(host, page, extra) {
        let found = demand::found_now(host, page).unwrap_or_default();
        Some(format!(
            "{extra} in pages of {page} can only be found in free memory, and {found} is free"
        ))
    } else {
        None
    }
}

fn is_beyond_free(host: &Host, page: PageSize, extra: Bytes) -> bool {
    demand::is_hardly_found(host, page)
        && demand::found_now(host, page).is_some_and(|found| extra > found)
}

fn obtainable_memory(ask: &PoolGoalInputs<'_>) -> Option<Bytes> {
    ask.host.obtainable_memory().map(|memory| memory.bytes)
}

/// What HW206 calls the end of a host, and no less than an apply leaves.
fn kept_free(ask: &PoolGoalInputs<'_>) -> Bytes {
    let memory = &ask.host.memory;
    let total = memory.total.get().unwrap_or_default();
    let base = ask.host.base_page.get().unwrap_or(PageSize::KIB_4).bytes();
    let zones = memory.watermarks.as_known().into_iter().flatten();
    let watermarks: Bytes = zones.map(|zone| base.saturating_mul(zone.high)).sum();
    let two_percent = total.shared_by(100).unwrap_or_default().saturating_mul(2);
    let least = two_percent.max(watermarks.saturating_mul(2)) + Bytes::from_mib(16);
    // An apply does not ask where nothing but free memory is known.
    let is_told =
        ask.host.obtainable_memory().is_some_and(|memory| memory.by != ObtainableBy::Free);
    if is_told { least.max(MemoryBudget::floor_of(total)) } else { least }
}

fn plan_pool_goal(ask: &PoolGoalInputs<'_>, pool: &Pool) -> Result<PoolGoal, Missing> {
    let page = pool.page_size;
    let total = *require_known(&pool.total, "nr_hugepages")?;
    let surplus = pool.surplus.get().unwrap_or_default();
    let now = total.saturating_sub(surplus);
    let uncounted = || {
        Missing::Host(Lack::new("free_hugepages or resv_hugepages", Reason::from_text("not known")))
    };
    let committed = pool.committed_pages().ok_or_else(uncounted)?;
    let targets: Vec<_> = ask.targets().iter().filter(|target| target.page_size == page).collect();
    let target = without_unmoved(ask, page);
    let needed = target.max(committed.saturating_sub(surplus));
    // What servers that are not planned for will ask for is needed too, as far as it is there.
    let needed = needed.max((needed + unplanned_pages(ask, page)).min(now));
    // After an undo under a running server the kernel would not give pages on demand again.
    let lacks = needs_pages(ask, page);
    // Whoever stops gives surplus pages back first: those of servers that will leave are kept too.
    let held = if surplus > PageCount::ZERO {
        (target + ask.held_until_restart(page)).min(now + surplus)
    } else {
        now
    };
    let grows = ((surplus > PageCount::ZERO || lacks) && target > now) || (lacks && held > now);
    // What is planned counts what is held, and not those who ask without being planned for.
    let least = needed
        .max(pages_claimed(ask, page, committed.max(target)))
        .max(configured_pages(ask, page, now, needed));
    let restored = |pages: PageCount| restored_pages(ask, pool, now, pages).unwrap_or(pages);
    let (goal, needed) = match () {
        () if grows => (restored(target).max(held), needed),
        () if gives_back(ask, pool, least) => (least, least),
        () if needed <= now + surplus => (restored(needed).max(now), needed),
        () => (now, needed),
    };
    // Servers that are yet to be made to ask for it may leave too little over for a word.
    let is_idle = || is_worth_giving_back(now.saturating_sub(least), now, page);
    let kept =
        kept_at_boot(ask, page, least).filter(|kept| goal == now && *kept < goal && is_idle());
    let nodes = plan_node_pages(pool, &targets, goal).unwrap_or_default();
    Ok(PoolGoal {
        page_size: page,
        now,
        surplus,
        goal,
        nodes,
        needed,
        kept,
        not_now: None,
        crowds: false,
    })
}

/// What is planned without servers that go on to insist on another size, and that nobody named.
pub(super) fn without_unmoved(ask: &PoolGoalInputs<'_>, page: PageSize) -> PageCount {
    let stays = |instance: &Instance| {
        let named = super::is_named(ask.instances, instance, ask.wish.names);
        instance.asked == HugePageMode::Must && ask.unmoved.contains(&instance.id()) && !named
    };
    let of_page = ask.sized_instances().filter(|(_, sized)| sized.page_size == page);
    let unmoved: Vec<&SizedServer> =
        of_page.filter(|(instance, _)| stays(instance)).map(|(_, sized)| sized).collect();
    let is_unmoved =
        |sized: &SizedServer| unmoved.iter().any(|unmoved| std::ptr::eq(*unmoved, sized));
    ask.sizing.map(|sizing| sizing.pages_without(page, is_unmoved)).unwrap_or_default()
}

fn needs_pages(ask: &PoolGoalInputs<'_>, page: PageSize) -> bool {
    if ask.short.contains(&page) {
        return true;
    }
    let mut lacking = ask.sized_instances().filter(|(instance, sized)| {
        let moments = ask.assessment.situation.forecasts_for(instance);
        let loses = moments.is_some_and(|forecasts| {
            forecasts.loses_at_restart() || forecasts.loses_at_boot() || forecasts.may_lack_pages()
        });
        // The boot starts it, and brings its pages: until then it has none to start with.
        let restart = moments.map(|forecasts| &forecasts.restart);
        let is_stuck = || {
            restart.is_some_and(|restart| restart.obstacle == Some(Obstacle::Pages))
                && is_brought(ask, page)
        };
        let loses = loses || (instance.is_stopped() && !instance.waits_for_hands() && is_stuck());
        let lacks = instance.huge_pages != HugePageUse::All
            || demand::pages_held(instance, page) == PageCount::ZERO;
        let named = super::is_named(ask.instances, instance, ask.wish.names);
        let about = named || ask.wish.names.is_empty();
        // A small one that has none loses none.
        let has = instance.huge_pages != HugePageUse::None || instance.is_stopped();
        sized.page_size == page
            && about
            && ((loses && has) || (lacks && (named || ask.is_kept_off(instance))))
    });
    lacking.next().is_some()
}

fn is_brought(ask: &PoolGoalInputs<'_>, page: PageSize) -> bool {
    let now = ask
        .host
        .find_pool(page)
        .and_then(|pool| Some(pool.total.get()?.saturating_sub(pool.surplus.get()?)));
    boot::pages_at_boot(ask.host, page).zip(now).is_some_and(|(asked, now)| asked > now)
}

/// Strangers count too, as one may be a server, and none gets a page by this.
fn pages_claimed(ask: &PoolGoalInputs<'_>, page: PageSize, counted: PageCount) -> PageCount {
    let asks = |instance: &Instance| {
        // One whose settings cannot be read may ask.
        let asks = predict_next_start(ask.host, instance).asks_for_huge_pages()
            || instance.asked == HugePageMode::Unknown;
        (asks || ask.is_kept_off(instance)) && demand::page_size(ask.host, instance) == Some(page)
    };
    let to_come = |instance: &Instance| to_come(ask.host, instance, page);
    let planned = planned_servers(ask);
    let more = |instance: &Instance| {
        // One on pages of another size needs them all.
        let moves = instance.huge_pages == HugePageUse::All
            && demand::pages_held(instance, page) == PageCount::ZERO;
        let demand = if moves {
            demand::counted_demand(ask.host, instance)
        } else {
            demand::find_missing_counted(ask.host, instance)
        };
        demand.map(|demand| demand.pages)
    };
    let known = ask.instances.iter().filter(|instance| !planned.contains(&instance.id()));
    let strangers = untrusted_instances(ask);
    let waiting = known.chain(&strangers).map(|instance| {
        let now = if asks(instance) { more(instance).unwrap_or_default() } else { PageCount::ZERO };
        now.max(to_come(instance))
    });
    counted + waiting.sum()
}

/// Servers whose pages the targets count. An unmoved one goes on to ask for those that it has.
fn planned_servers(ask: &PoolGoalInputs<'_>) -> BTreeSet<InstanceId> {
    ask.sized_instances()
        .map(|(instance, _)| instance.id())
        .filter(|id| !ask.unmoved.contains(id))
        .collect()
}

fn unplanned_pages(ask: &PoolGoalInputs<'_>, page: PageSize) -> PageCount {
    let planned = planned_servers(ask);
    let others = ask.instances.iter().filter(|instance| !planned.contains(&instance.id()));
    others.map(|instance| to_come(ask.host, instance, page)).sum()
}

/// Strangers at their word where pages would be given back for tidiness; by what they have touched
/// where the host starves, as nobody is to keep it starving who spends no memory himself.
fn untrusted_instances(ask: &PoolGoalInputs<'_>) -> Vec<Instance> {
    let mut strangers: Vec<Instance> = ask.strangers.iter().copied().cloned().collect();
    if !starvation::is_starving(ask.host) {
        strangers.iter_mut().for_each(|instance| instance.trusted_by.push(TrustReason::Named));
    }
    strangers
}

/// Whether the pools starve the host, or somebody wants pages given back. Not while servers may be
/// hidden; not for tidiness where a server's settings were not read; and never where one that is
/// down may have any of them, and nothing of it is counted.
fn gives_back(ask: &PoolGoalInputs<'_>, pool: &Pool, least: PageCount) -> bool {
    let spare = pool.total.get().unwrap_or_default().saturating_sub(least);
    let claim = ask.assessment.situation.claim(pool.page_size);
    let is_told = || claim.is_some_and(|claim| claim.unknown.is_empty());
    let is_counted = || claim.is_none_or(|claim| claim.uncounted.is_empty());
    let starves = starvation::is_starving(ask.host);
    let wanted = (starves && is_counted()) || (ask.wish.shrink && is_told());
    let is_told_all = || ask.host.unseen_reason().is_none() && find_later_user(ask.host).is_none();
    wanted && spare > PageCount::ZERO && is_told_all()
}

/// Pages of an idle pool that the next boot is to bring: those asked for, and those of its files.
fn kept_at_boot(ask: &PoolGoalInputs<'_>, page: PageSize, least: PageCount) -> Option<PageCount> {
    let idle = Remedy::GiveBack(page);
    ask.assessment.findings.iter().find(|finding| finding.remedies.contains(&idle))?;
    let steps = boot::predict_pool_steps(ask.host, page).ok()?;
    let brings = steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value));
    Some(least.max(brings))
}

/// Pages that the files ask for, where they are to stay as they are and the host can carry it.
fn configured_pages(
    ask: &PoolGoalInputs<'_>,
    page: PageSize,
    now: PageCount,
    needed: PageCount,
) -> PageCount {
    if ask.wish.boot {
        return PageCount::ZERO;
    }
    let asked = boot::pages_at_boot(ask.host, page).unwrap_or_default();
    // A few beyond what is needed starve nobody, and would be filled up again.
    let stay = !starvation::is_starving(ask.host)
        || (!ask.wish.shrink && !ask.host.is_gigantic(page) && is_with_spare(asked, needed));
    if asked <= now && stay { asked } else { PageCount::ZERO }
}

/// A pool that comes out short of its file is found short ever after.
fn restored_pages(
    ask: &PoolGoalInputs<'_>,
    pool: &Pool,
    now: PageCount,
    pages: PageCount,
) -> Option<PageCount> {
    let page = pool.page_size;
    let asked = boot::pages_at_boot(ask.host, page)?;
    if !ask.wish.now
        || ask.wish.shrink
        || asked <= pages.max(now)
        || !is_with_spare(asked, pages)
        || ask.host.is_gigantic(page)
    {
        return None;
    }
    let surplus = pool.surplus.get().unwrap_or_default();
    let extra = asked.saturating_sub(now + surplus).to_bytes(page);
    (extra + kept_free(ask) <= obtainable_memory(ask)?).then_some(asked)
}

/// A growing pool's nodes have what the targets say, but no more than it grows by; one that does
/// not grow keeps pages on the nodes of those that may use no others.
fn plan_node_pages(
    pool: &Pool,
    targets: &[&crate::sizing::PoolSizeTarget],
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
        return keep_node_pages(nodes, goal);
    }
    for (_, now, goal) in &mut nodes {
        let more = goal.saturating_sub(*now).min(grows);
        grows = grows.saturating_sub(more);
        *goal = *now + more;
    }
    // More than the targets ask for (as the files do): the kernel spreads that itself.
    (grows == PageCount::ZERO).then_some(nodes)
}

/// The pages of a pool that does not grow, where the kernel's even spread would take from a node
/// what is wanted and is there: that on each node, and of the others as many as there are.
fn keep_node_pages(
    mut nodes: Vec<(u32, PageCount, PageCount)>,
    goal: PageCount,
) -> Option<Vec<(u32, PageCount, PageCount)>> {
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
