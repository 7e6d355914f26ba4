//! What a host is to be: how many pages of which size its servers need, now and at each boot. The only place where pages
//! are counted for a host: `check`, `size` and `plan` print what stands here.

mod commit;
mod insist;
mod pools;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hugewise_engines::{Kind, named};
use hugewise_model::{Asked, Host, HugePageUse, Instance, InstanceId, Level, PageCount, PageSize};

use crate::cause::{self, Cause};
use crate::demand::starting;
use crate::situation::{Obstacle, Outlook};
use crate::sizing::{PoolTarget, Request, SizeError, Sized, Sizing, size};
use crate::standing::Standing;
use crate::{Assessment, Facts, boot, demand, starving, stranger};

pub use insist::{Insist, NotYet, when};
pub use pools::{Goal, memory};

/// What is asked of the target.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Titles or names of the instances that it is about; empty for all.
    pub names: &'a [String],
    /// Page size of the pools, where it is not each server's own choice.
    pub page_size: Option<PageSize>,
    /// Whether the running kernel is to be changed.
    pub now: bool,
    /// Whether the next boot is.
    pub boot: bool,
    /// Whether pages that nobody uses or asks for are given back. Without it only where the pools starve the host.
    pub shrink: bool,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self { names: &[], page_size: None, now: true, boot: true, shrink: false }
    }
}

/// The one state of a host that its servers need.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// How large each pool is to be, by page size.
    pub pools: Vec<Goal>,
    /// What the servers need, and what that leaves of the host; none where nobody needs a pool.
    pub sizing: Option<Sizing>,
    /// Pools that could not be reckoned, and why.
    pub unknown: Vec<String>,
    /// Servers that may be told to refuse a start without huge pages: they find theirs, whoever else starts.
    pub insisting: BTreeSet<InstanceId>,
}

impl Target {
    /// The goal for pools of a size.
    pub fn pool(&self, page: PageSize) -> Option<&Goal> {
        self.pools.iter().find(|pool| pool.page_size == page)
    }
}

/// What the goals of the pools hang on.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its instances that something vouches for.
    pub instances: &'a [Instance],
    /// The others: nothing is done for them, and no pages are taken from under them.
    pub strangers: &'a [&'a Instance],
    /// What is said of them.
    pub assessment: &'a Assessment,
    /// What the servers need; none where nobody needs a pool.
    pub sizing: Option<&'a Sizing>,
    /// What is asked.
    pub wish: Wish<'a>,
    /// Servers that no step sets to the pages that are planned for them: they go on to ask for those that they have.
    pub unmoved: &'a [InstanceId],
    /// Page sizes of which a server would have fewer at the next boot than without the plan, if the pool stayed as it is.
    pub short: &'a [PageSize],
}

impl<'a> Ask<'a> {
    /// Pools as they should be, by page size and node.
    pub fn targets(&self) -> &'a [PoolTarget] {
        let Some(sizing) = self.sizing else { return &[] };
        sizing.refusal.as_ref().map_or(&sizing.pools, |refusal| &refusal.wanted)
    }

    /// Instances that pages are planned for, with what they need.
    pub fn sized(&self) -> impl Iterator<Item = (&'a Instance, &'a Sized)> + use<'a> {
        let instances = self.instances;
        let sized = self.sizing.map(|sizing| sizing.instances.as_slice()).unwrap_or_default();
        let mut next = 0;
        sized.iter().filter_map(move |sized| {
            let is = |instance: &Instance| instance.engine == sized.engine && instance.name == sized.name;
            // Both stand in one order: with a search from the first on for each, many servers would take the square of their time.
            let (before, after) = instances.split_at_checked(next)?;
            let found = after.iter().position(is).map(|at| next + at).or_else(|| before.iter().position(is))?;
            next = found + 1;
            Some((instances.get(found)?, sized))
        })
    }

    /// Pages of a size that servers have until they are restarted, and that the target does not count: those of servers
    /// that are to have pages of another size.
    pub fn held_until_restart(&self, page: PageSize) -> PageCount {
        let beyond = self.sized().filter(|(_, sized)| sized.page_size != page).map(|(instance, sized)| {
            let planned = sized.beside.iter().find(|demand| demand.page_size == page).map(|demand| demand.pages);
            demand::held(instance, page).saturating_sub(planned.unwrap_or_default())
        });
        beyond.sum()
    }

    /// Whether a server is off huge pages and should not be, for what is asked.
    fn is_kept_off(&self, instance: &Instance) -> bool {
        let facts = self.assessment.facts(self.host, self.instances);
        is_kept_off(&facts, instance) && !only_idle_pages_call(&facts, instance, self.wish)
    }

    fn starves(&self) -> bool {
        starving::starves(self.host)
    }

    /// How large each pool is to be, and for which that could not be told.
    pub fn goals(&self) -> (Vec<Goal>, Vec<String>) {
        pools::goals(self)
    }
}

/// The target of a host. With a page size in the wish, the request is to have the same.
///
/// # Errors
/// Where the request makes no sense.
pub fn target(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    wish: Wish<'_>,
    request: &Request,
) -> Result<Target, SizeError> {
    let wanted = to_size(host, instances, assessment, wish);
    let sizing = match size(host, &wanted, request) {
        Ok(sizing) => Some(sizing),
        Err(SizeError::NothingToSize) => None,
        Err(error) => return Err(error),
    };
    let known = stranger::known(instances);
    let strangers: Vec<&Instance> = instances.iter().filter(|instance| !instance.is_vouched()).collect();
    let sized = sizing.as_ref();
    let ask = Ask {
        host,
        instances: &known,
        strangers: &strangers,
        assessment,
        sizing: sized,
        wish,
        unmoved: &[],
        short: &[],
    };
    let (pools, unknown) = ask.goals();
    let insisting = insisting(ask, &pools);
    let sizing = sizing.map(|sizing| sizing.with_pools(memory(&pools)));
    Ok(Target { pools, sizing, unknown, insisting })
}

/// The servers that may insist once the pools are as they are to be.
fn insisting(ask: Ask<'_>, pools: &[Goal]) -> BTreeSet<InstanceId> {
    let crowded = boot::crowding(ask.host).is_ok_and(|crowding| crowding.is_some());
    let is_secured = |pool: &Goal| {
        let page = pool.page_size;
        // Large pages that are asked for late in a boot may not be had.
        let early = || boot::reserved_early(ask.host, page).map(|(pages, _)| pages).unwrap_or_default();
        let sure = !crowded && (!ask.host.is_gigantic(page) || early() >= pool.needed);
        let pages = pool.pages_at_boot(ask.host, ask.instances);
        let stays = || matches!(boot::ours::overruled(ask.host, page, pages), Ok(None));
        pool.is_there() && pool.goal >= pool.needed && sure && stays()
    };
    let secured: BTreeSet<PageSize> = pools.iter().filter(|pool| is_secured(pool)).map(|pool| pool.page_size).collect();
    let insist = Insist::new(ask, pools.iter().map(|pool| (pool.page_size, pool.goal)));
    let asking = ask.sized().map(|(instance, _)| instance).filter(|it| Kind::of(it.engine).insist_of(it).is_some());
    asking.filter(|instance| insist.may(instance, |page| secured.contains(&page)).is_ok()).map(Instance::id).collect()
}

/// How large each pool is to be with this sizing: what a plan makes of the pages that it says.
pub fn goals(host: &Host, instances: &[Instance], assessment: &Assessment, sizing: &Sizing) -> Vec<Goal> {
    let known = stranger::known(instances);
    let strangers: Vec<&Instance> = instances.iter().filter(|instance| !instance.is_vouched()).collect();
    let (sizing, wish) = (Some(sizing), Wish::default());
    let ask =
        Ask { host, instances: &known, strangers: &strangers, assessment, sizing, wish, unmoved: &[], short: &[] };
    ask.goals().0
}

/// Whether one of these names means an instance.
pub fn is_named(instances: &[Instance], instance: &Instance, names: &[String]) -> bool {
    names.iter().any(|name| named::meant(instances, name).iter().any(|meant| meant.id() == instance.id()))
}

/// The instances that pools are planned for, for [`size`]: those that are named; without
/// names those that something keeps off huge pages; and then all that hold or ask for huge pages, as they take from
/// the same pools. Empty where nobody needs a pool.
pub fn to_size(host: &Host, instances: &[Instance], assessment: &Assessment, wish: Wish<'_>) -> Vec<Instance> {
    // Whoever is started by hand alone is planned for where somebody names him.
    let counts = |it: &&Instance| it.is_vouched() && (!it.waits_for_hands() || is_named(instances, it, wish.names));
    let instances: &[Instance] = &instances.iter().filter(counts).cloned().collect::<Vec<_>>();
    let facts = assessment.facts(host, instances);
    let named = |instance: &Instance| is_named(instances, instance, wish.names);
    let holds = |instance: &Instance| matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly);
    // Whoever names instances has no part for others that perhaps never ask.
    let may_ask = |instance: &Instance| {
        wish.names.is_empty() && instance.asked == Asked::Unknown && instance.segment_bytes() >= demand::BIG_SEGMENT
    };
    let asks = |instance: &Instance| starting(host, instance).asks() || may_ask(instance);
    let suffers = |instance: &Instance| {
        wish.names.is_empty() && is_kept_off(&facts, instance) && !only_idle_pages_call(&facts, instance, wish)
    };
    if let Some(page) = wish.page_size {
        // Of the others nobody said that they should change their page size.
        // Set to pages of that size since it started on others.
        let moves = |instance: &Instance| {
            let other = demand::held(instance, page) == PageCount::ZERO;
            other && instance.huge_pages == HugePageUse::All && instance.asked_page_size.get() == Some(page)
        };
        let wanted =
            |instance: &&Instance| takes(instance, page) && (named(instance) || suffers(instance) || moves(instance));
        let has_it =
            |instance: &Instance| instance.asked_page_size.get() == Some(page) && (holds(instance) || asks(instance));
        if !wish.shrink && !instances.iter().any(|instance| wanted(&instance)) {
            return Vec::new();
        }
        return instances.iter().filter(|instance| wanted(instance) || has_it(instance)).cloned().collect();
    }
    let wanted = |instance: &&Instance| named(instance) || suffers(instance) || holds(instance);
    if !wish.shrink && !instances.iter().any(|instance| wanted(&instance)) {
        return Vec::new();
    }
    instances.iter().filter(|instance| wanted(instance) || asks(instance)).cloned().collect()
}

/// Leaves the instances that a plan would have pages for, so that what is sized of them is what a plan says; all of them
/// where it would have none.
pub fn planned_for(host: &Host, instances: &mut Vec<Instance>, assessment: &Assessment) {
    let planned = to_size(host, instances, assessment, Wish::default());
    if !planned.is_empty() {
        let ids: BTreeSet<InstanceId> = planned.iter().map(Instance::id).collect();
        // Strangers and servers that have no way to a pool are told of with the reason.
        instances.retain(|it| ids.contains(&it.id()) || !it.is_vouched() || it.asked != Asked::No);
    }
}

/// Whether a server can be given pages of that size: it asks for them, or has a setting for it.
pub fn takes(instance: &Instance, page: PageSize) -> bool {
    let demanded = || instance.demand.as_ref().map(|demand| demand.page_size);
    let its_own = instance.asked_page_size.get().or_else(demanded) == Some(page);
    its_own || (hugewise_engines::Kind::of(instance.engine).takes_page_size)(instance)
}

/// Whether a server is off huge pages because its settings do not ask for them, or its memory cannot be on them as it is set.
pub fn does_not_ask(facts: &Facts<'_>, instance: &Instance) -> bool {
    matches!(cause::cause(facts, instance), Ok(Some(Cause::NotAsked)))
}

/// Whether nothing but idle pages calls for a plan for a server, and these are to be given back, or are of another size than is
/// asked for.
fn only_idle_pages_call(facts: &Facts<'_>, instance: &Instance, wish: Wish<'_>) -> bool {
    let Some((idle, _)) = cause::idle_pages_for(facts, instance) else { return false };
    let is_none = wish.shrink || wish.page_size.is_some_and(|page| page != idle);
    is_none && does_not_ask(facts, instance) && cause::pain(facts, instance) < Level::Warn
}

/// Whether a server is off huge pages and should not be: what keeps it off is worth a plan.
pub fn is_kept_off(facts: &Facts<'_>, instance: &Instance) -> bool {
    // However small it is, it is to start.
    let stays_down =
        |outlook: &Outlook| outlook.standing == Standing::DoesNotStart && outlook.obstacle == Some(Obstacle::Pages);
    let moments = facts.situation.of(instance).filter(|_| instance.is_vouched());
    if instance.is_asleep() {
        // Of one that does not run the boot is what counts: it is the next that starts it.
        let lacks = |it: &Outlook| it.rank().is_some_and(|rank| rank < 3) && it.obstacle == Some(Obstacle::Pages);
        let big = demand::asks_for_more(instance);
        return moments.is_some_and(|it| stays_down(&it.boot) || (big && lacks(&it.boot)));
    }
    if moments.is_some_and(|moments| stays_down(&moments.restart) || stays_down(&moments.boot)) {
        return true;
    }
    match cause::cause(facts, instance) {
        Ok(Some(Cause::NoPool | Cause::Partly | Cause::DoesNotFit | Cause::WrongSize | Cause::Restart)) => true,
        Ok(Some(Cause::Memlock | Cause::Group | Cause::Cgroup)) => true,
        Ok(Some(Cause::NotAsked)) => cause::not_asked(facts, instance) >= Level::Warn,
        // Its files take it off: what is in the way of its next start is the pool.
        Ok(Some(Cause::Amm)) => starting(facts.host, instance).asks() && demand::asks_for_more(instance),
        Ok(Some(Cause::GibUnsupported | Cause::OtherDefault) | None) | Err(_) => false,
    }
}
