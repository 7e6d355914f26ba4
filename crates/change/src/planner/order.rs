//! What each step relies on, and so in which orders a plan may be carried out: reckoned here alone, from the remedies that the
//! steps carry out.
//!
//! Pools come first. A server that is made to ask, or is let have pages, before those that are planned for it are there
//! takes those of others at its next start; one that is restarted before its own settings and limits stand starts in vain.

use hugewise_advice::demand;
use hugewise_model::{InstanceId, PageSize, Remedy};

use super::draft::{Draft, Drafted, Part};
use super::{Ask, pools_now};

/// Notes at each step those that have to be done whole before it.
pub(super) fn reckon(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    // Whoever keeps a part of a pool has the rest done all the same; who insists on pages relies on them by himself.
    if ask.options.keep_partial {
        return;
    }
    let relies: Vec<Vec<String>> = draft.steps.iter().enumerate().map(|(at, _)| before(ask, draft, at)).collect();
    for (step, relies) in draft.steps.iter_mut().zip(relies) {
        for id in relies {
            if !step.relies_on.contains(&id) {
                step.relies_on.push(id);
            }
        }
    }
}

/// Steps of the plan that come before this one.
fn before(ask: &Ask<'_>, draft: &Draft<'_>, at: usize) -> Vec<String> {
    let Some(step) = draft.steps.get(at) else { return Vec::new() };
    let servers = servers(step);
    let pages: Vec<PageSize> = servers.iter().filter_map(|id| page_of(ask, id)).collect();
    let restarts = is_restart(step);
    let earlier = draft.steps.iter().take(at).filter(|earlier| {
        let pool = pages.iter().any(|page| brings(draft, earlier, *page));
        let own = || self::servers(earlier).iter().any(|id| servers.contains(id)) || sets_limits(earlier);
        pool || (restarts && own())
    });
    earlier.map(|earlier| earlier.id.clone()).collect()
}

/// Servers that a step makes ask, lets have pages, or starts.
fn servers(step: &Drafted) -> Vec<&InstanceId> {
    let carried = step.carries.iter().filter_map(|it| match &it.remedy {
        Remedy::SetGroup(id) | Remedy::RaiseMemlock(id) | Remedy::SetSetting(id) => Some(id),
        _ => None,
    });
    let mut servers: Vec<&InstanceId> = carried.chain(&step.of).collect();
    servers.sort();
    servers.dedup();
    servers
}

fn is_restart(step: &Drafted) -> bool {
    let own = |id: &InstanceId| step.carries.iter().any(|it| it.remedy == Remedy::Restart(id.clone()));
    step.part == Part::Restart && step.of.as_ref().is_some_and(own)
}

fn sets_limits(step: &Drafted) -> bool {
    step.carries.iter().any(|it| it.remedy == Remedy::SetShmLimits)
}

/// The pages that a server will ask for.
fn page_of(ask: &Ask<'_>, id: &InstanceId) -> Option<PageSize> {
    let sized = ask.sized().find(|(of, _)| of.id() == *id).map(|(_, sized)| sized.page_size);
    let instance = || ask.instances.iter().find(|instance| instance.id() == *id);
    sized.or_else(|| demand::page_size(ask.host, instance()?))
}

/// Whether a step brings pages of a size, now or with the next boot.
fn brings(draft: &Draft<'_>, step: &Drafted, page: PageSize) -> bool {
    let grows = draft.pool(page).is_some_and(|goal| goal.grows());
    let now = grows && [pools_now::id(page), pools_now::kept_id(page)].contains(&step.id);
    now || step.part == Part::PoolsAtBoot
}
