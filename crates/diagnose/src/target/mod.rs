//! What a host is to be: how many pages of which size its servers need, now and at each boot. The
//! only place where pages are counted for a host.

mod insist;
mod pools;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hugewise_engines::{EngineKind, instance_names};
use hugewise_model::{
    Host, HugePageMode, HugePageUse, Instance, InstanceId, Level, PageCount, PageSize,
};

use crate::boot::CrowdingPool;
use crate::cause::{self, Cause};
use crate::coverage::Coverage;
use crate::demand::predict_next_start;
use crate::prediction::{Obstacle, StageForecast};
use crate::sizing::{PoolSizeTarget, Request, SizeError, SizedServer, Sizing, size_servers};
use crate::{Assessment, RuleFacts, boot, demand, untrusted};

pub use insist::{Insist, NotYet, describe_insist_condition};
pub use pools::{PoolGoal, sum_goal_memory};

/// What is asked of the target.
#[derive(Clone, Copy, Debug)]
pub struct TargetRequest<'a> {
    /// Titles or names of the instances that it is about; empty for all.
    pub names: &'a [String],
    /// Page size of the pools, where it is not each server's own choice.
    pub page_size: Option<PageSize>,
    /// Whether the running kernel is to be changed.
    pub now: bool,
    /// Whether the next boot is.
    pub boot: bool,
    /// Whether pages that nobody uses or asks for are given back, even if no pool starves the host.
    pub shrink: bool,
}

impl Default for TargetRequest<'_> {
    fn default() -> Self {
        Self { names: &[], page_size: None, now: true, boot: true, shrink: false }
    }
}

/// The one state of a host that its servers need.
#[derive(Clone, Debug, Default)]
pub struct HostTarget {
    /// How large each pool is to be, by page size.
    pub pools: Vec<PoolGoal>,
    /// What the servers need, and what that leaves of the host; none where nobody needs a pool.
    pub sizing: Option<Sizing>,
    /// Pools that could not be reckoned, and why.
    pub unknown: Vec<String>,
    /// Servers that may be told to refuse a start without huge pages, as they find theirs.
    pub insisting: BTreeSet<InstanceId>,
}

impl HostTarget {
    /// The goal for pools of a size.
    pub fn pool(&self, page: PageSize) -> Option<&PoolGoal> {
        self.pools.iter().find(|pool| pool.page_size == page)
    }
}

/// What the goals of the pools depend on.
#[derive(Clone, Copy)]
pub struct PoolGoalInputs<'a> {
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
    pub wish: TargetRequest<'a>,
    /// Servers that no step sets to their planned pages: they go on to ask for those they have.
    pub unmoved: &'a [InstanceId],
    /// Page sizes of which a server would have fewer at the next boot, if the pool stayed.
    pub short: &'a [PageSize],
}

impl<'a> PoolGoalInputs<'a> {
    /// Pools as they should be, by page size and node.
    pub fn targets(&self) -> &'a [PoolSizeTarget] {
        let Some(sizing) = self.sizing else { return &[] };
        sizing.refusal.as_ref().map_or(&sizing.pools, |refusal| &refusal.wanted)
    }

    /// Instances that pages are planned for, with what they need.
    pub fn sized_instances(
        &self,
    ) -> impl Iterator<Item = (&'a Instance, &'a SizedServer)> + use<'a> {
        let instances = self.instances;
        let sized = self.sizing.map(|sizing| sizing.instances.as_slice()).unwrap_or_default();
        let mut next = 0;
        sized.iter().filter_map(move |sized| {
            let is = |instance: &Instance| {
                instance.engine == sized.engine && instance.name == sized.name
            };
            // Both stand in one order: a search from the first on for each would be quadratic.
            let (before, after) = instances.split_at_checked(next)?;
            let at = after.iter().position(is).map(|at| next + at);
            let found = at.or_else(|| before.iter().position(is))?;
            next = found + 1;
            Some((instances.get(found)?, sized))
        })
    }

    /// Pages of a size that servers have until they are restarted onto pages of another size.
    pub fn held_until_restart(&self, page: PageSize) -> PageCount {
        let leaving = self.sized_instances().filter(|(_, sized)| sized.page_size != page);
        let beyond = leaving.map(|(instance, sized)| {
            let planned = sized.beside.iter().find(|demand| demand.page_size == page);
            let planned = planned.map(|demand| demand.pages).unwrap_or_default();
            demand::pages_held(instance, page).saturating_sub(planned)
        });
        beyond.sum()
    }

    fn is_kept_off(&self, instance: &Instance) -> bool {
        let facts = self.assessment.rule_facts(self.host, self.instances);
        is_kept_off(&facts, instance) && !only_idle_pages_call(&facts, instance, self.wish)
    }

    /// How large each pool is to be, and for which that could not be told.
    pub fn plan_goals(&self) -> (Vec<PoolGoal>, Vec<String>) {
        pools::plan_pool_goals(self)
    }
}

/// The target of a host. With a page size in the wish, the request is to have the same.
///
/// # Errors
/// Where the request makes no sense.
pub fn find_target(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    wish: TargetRequest<'_>,
    request: &Request,
) -> Result<HostTarget, SizeError> {
    let wanted = to_size(host, instances, assessment, wish);
    let sizing = match size_servers(host, &wanted, request) {
        Ok(sizing) => Some(sizing),
        Err(SizeError::NothingToSize) => None,
        Err(error) => return Err(error),
    };
    let known = untrusted::trusted_instances(instances);
    let strangers: Vec<&Instance> =
        instances.iter().filter(|instance| !instance.is_trusted()).collect();
    let sized = sizing.as_ref();
    let ask = PoolGoalInputs {
        host,
        instances: &known,
        strangers: &strangers,
        assessment,
        sizing: sized,
        wish,
        unmoved: &[],
        short: &[],
    };
    let (pools, unknown) = ask.plan_goals();
    let insisting = find_insisting(ask, &pools);
    let sizing = sizing.map(|sizing| sizing.with_pools(sum_goal_memory(&pools)));
    Ok(HostTarget { pools, sizing, unknown, insisting })
}

fn find_insisting(ask: PoolGoalInputs<'_>, pools: &[PoolGoal]) -> BTreeSet<InstanceId> {
    let crowding = boot::predict_crowding(ask.host).ok().flatten();
    let parts = crowding.iter().flat_map(|crowding| &crowding.parts);
    // What the files ask for too much is lowered with the rest; words of the boot loader are not.
    // Where the boot reads no file of a plan, people lower them, and nothing relies on that.
    let by_people = boot::is_not_read(ask.host, "sysctl.d");
    let is_lowered = |part: &CrowdingPool| {
        !by_people
            && pools.iter().filter(|pool| pool.page_size == part.page_size && !part.early).any(
                |pool| {
                    pool.find_boot_change(ask.host, ask.instances, part.pages, Some(part)).is_some()
                },
            )
    };
    let crowded = !parts.clone().all(is_lowered);
    let is_secured = |pool: &PoolGoal| {
        let page = pool.page_size;
        // Large pages that are asked for late in a boot may not be had.
        let early =
            || boot::reserved_early(ask.host, page).map(|(pages, _)| pages).unwrap_or_default();
        let sure = !crowded && (!ask.host.is_gigantic(page) || early() >= pool.needed);
        let pages = pool.pages_at_boot(ask.host, ask.instances);
        let stays = || matches!(boot::overruling::find_overruling(ask.host, page, pages), Ok(None));
        pool.is_there() && pool.goal >= pool.needed && sure && stays()
    };
    let secured: BTreeSet<PageSize> =
        pools.iter().filter(|pool| is_secured(pool)).map(|pool| pool.page_size).collect();
    let insist = Insist::new(ask, pools.iter().map(|pool| (pool.page_size, pool.goal)));
    let asking = ask.sized_instances().map(|(instance, _)| instance).filter(|instance| {
        EngineKind::for_engine(instance.engine).settings.insisting_setting(instance).is_some()
    });
    asking
        .filter(|instance| insist.may_insist(instance, |page| secured.contains(&page)).is_ok())
        .map(Instance::id)
        .collect()
}

/// How large each pool is to be with this sizing.
pub fn goals_for_sizing(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    sizing: &Sizing,
) -> Vec<PoolGoal> {
    let known = untrusted::trusted_instances(instances);
    let strangers: Vec<&Instance> =
        instances.iter().filter(|instance| !instance.is_trusted()).collect();
    let (sizing, wish) = (Some(sizing), TargetRequest::default());
    let ask = PoolGoalInputs {
        host,
        instances: &known,
        strangers: &strangers,
        assessment,
        sizing,
        wish,
        unmoved: &[],
        short: &[],
    };
    ask.plan_goals().0
}

/// Whether one of these names means an instance.
pub fn is_named(instances: &[Instance], instance: &Instance, names: &[String]) -> bool {
    names.iter().any(|name| {
        instance_names::find_matching_instances(instances, name)
            .iter()
            .any(|meant| meant.id() == instance.id())
    })
}

/// The instances that are named, or kept off huge pages, and with them all that hold or ask for
/// such pages, as they share the pools.
pub fn to_size(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    wish: TargetRequest<'_>,
) -> Vec<Instance> {
    // Whoever is started by hand alone is planned for where somebody names him.
    let counts = |instance: &&Instance| {
        instance.is_trusted()
            && (!instance.waits_for_hands() || is_named(instances, instance, wish.names))
    };
    let instances: &[Instance] = &instances.iter().filter(counts).cloned().collect::<Vec<_>>();
    let facts = assessment.rule_facts(host, instances);
    let named = |instance: &Instance| is_named(instances, instance, wish.names);
    let holds =
        |instance: &Instance| matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly);
    // Whoever names instances has no part for others that perhaps never ask.
    let may_ask = |instance: &Instance| {
        wish.names.is_empty()
            && instance.asked == HugePageMode::Unknown
            && instance.segment_bytes() >= demand::BIG_SEGMENT
    };
    let asks = |instance: &Instance| {
        predict_next_start(host, instance).asks_for_huge_pages() || may_ask(instance)
    };
    let suffers = |instance: &Instance| {
        wish.names.is_empty()
            && is_kept_off(&facts, instance)
            && !only_idle_pages_call(&facts, instance, wish)
    };
    if let Some(page) = wish.page_size {
        // Set to pages of that size since it started on others: of the rest nobody said so.
        let moves = |instance: &Instance| {
            let other = demand::pages_held(instance, page) == PageCount::ZERO;
            other
                && instance.huge_pages == HugePageUse::All
                && instance.asked_page_size.get() == Some(page)
        };
        let wanted = |instance: &&Instance| {
            takes_page_size(instance, page)
                && (named(instance) || suffers(instance) || moves(instance))
        };
        let has_it = |instance: &Instance| {
            instance.asked_page_size.get() == Some(page) && (holds(instance) || asks(instance))
        };
        if !wish.shrink && !instances.iter().any(|instance| wanted(&instance)) {
            return Vec::new();
        }
        let sized = instances.iter().filter(|instance| wanted(instance) || has_it(instance));
        return sized.cloned().collect();
    }
    let wanted = |instance: &&Instance| named(instance) || suffers(instance) || holds(instance);
    if !wish.shrink && !instances.iter().any(|instance| wanted(&instance)) {
        return Vec::new();
    }
    instances.iter().filter(|instance| wanted(instance) || asks(instance)).cloned().collect()
}

/// Leaves the instances that a plan would have pages for; all of them where it would have none.
pub fn planned_for(host: &Host, instances: &mut Vec<Instance>, assessment: &Assessment) {
    let planned = to_size(host, instances, assessment, TargetRequest::default());
    if !planned.is_empty() {
        let ids: BTreeSet<InstanceId> = planned.iter().map(Instance::id).collect();
        // Strangers and servers that have no way to a pool are named with the reason.
        instances.retain(|instance| {
            ids.contains(&instance.id())
                || !instance.is_trusted()
                || instance.asked != HugePageMode::No
        });
    }
}

/// Whether a server can be given pages of that size: it asks for them, or has a setting for it.
pub fn takes_page_size(instance: &Instance, page: PageSize) -> bool {
    let demanded = || instance.demand.as_ref().map(|demand| demand.page_size);
    let its_own = instance.asked_page_size.get().or_else(demanded) == Some(page);
    its_own || (EngineKind::for_engine(instance.engine).page_size.can_be_named)(instance)
}

/// Whether a server is off huge pages because its settings, or its kind of memory, rule them out.
pub fn does_not_ask(facts: &RuleFacts<'_>, instance: &Instance) -> bool {
    matches!(cause::find_cause(facts, instance), Ok(Some(Cause::NotAsked)))
}

/// Whether only idle pages call for a plan, and these are to be given back or are of another size.
fn only_idle_pages_call(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    wish: TargetRequest<'_>,
) -> bool {
    let Some((idle, _)) = cause::idle_pages_for(facts, instance) else { return false };
    let is_none = wish.shrink || wish.page_size.is_some_and(|page| page != idle);
    is_none
        && does_not_ask(facts, instance)
        && cause::rate_base_pages(facts, instance) < Level::Warn
}

/// Whether a server is off huge pages and should not be: what keeps it off is worth a plan.
pub fn is_kept_off(facts: &RuleFacts<'_>, instance: &Instance) -> bool {
    // However small it is, it is to start.
    let stays_down = |outlook: &StageForecast| {
        outlook.coverage == Coverage::DoesNotStart && outlook.obstacle == Some(Obstacle::Pages)
    };
    let moments = facts.situation.forecasts_for(instance).filter(|_| instance.is_trusted());
    if instance.is_stopped() {
        // Of one that does not run the boot is what counts: it is the next that starts it. Whatever
        // is in its way there, its pages are planned with what takes that away.
        let is_big = demand::asks_for_more(instance);
        let is_planned = |obstacle| {
            matches!(
                obstacle,
                Obstacle::Pages | Obstacle::Right | Obstacle::Segments | Obstacle::Lock
            )
        };
        return moments.is_some_and(|forecasts| {
            let boot = &forecasts.boot;
            let lacks =
                boot.rank().is_some_and(|rank| rank < 3) && boot.obstacle.is_some_and(is_planned);
            stays_down(boot) || (is_big && lacks)
        });
    }
    if moments.is_some_and(|moments| stays_down(&moments.restart) || stays_down(&moments.boot)) {
        return true;
    }
    match cause::find_cause(facts, instance) {
        Ok(Some(
            Cause::NoPool | Cause::Partly | Cause::DoesNotFit | Cause::WrongSize | Cause::Restart,
        )) => true,
        Ok(Some(Cause::Memlock | Cause::Group | Cause::Cgroup)) => true,
        Ok(Some(Cause::NotAsked)) => cause::not_asked(facts, instance) >= Level::Warn,
        // Its files take it off: what is in the way of its next start is the pool.
        Ok(Some(Cause::Amm)) => {
            predict_next_start(facts.host, instance).asks_for_huge_pages()
                && demand::asks_for_more(instance)
        }
        Ok(Some(Cause::GibUnsupported | Cause::OtherDefault) | None) | Err(_) => false,
    }
}
