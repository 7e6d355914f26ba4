//! Restarts of servers that were named for it; huge pages come at a server's start alone.

use std::collections::BTreeMap;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::permission::{self, HugePageRight, MemlockEffect};
use hugewise_diagnose::prediction::Obstacle;
use hugewise_diagnose::target::is_named;
use hugewise_diagnose::wording::shell_word;
use hugewise_diagnose::{demand, ipc_privileges};
use hugewise_engines::EngineKind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Bytes, HugePageMode, HugePageUse, Instance, PageCount, PageSize, Remedy};

use super::draft::{Carried, Draft, Drafted, PlanPart};
use super::{PlanRequest, commands};
use crate::plan::{CommandChange, EffectTime, Risk, Step};

pub(super) fn plan_restarts(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let is_asked = |instance: &Instance| is_named(ask.instances, instance, &ask.options.restart);
    for instance in ask.instances.iter().filter(|one| one.is_stopped() && is_asked(one)) {
        let why = "it is not running, and nothing on this host starts it";
        leave_running(draft, instance, why);
    }
    let mut left = count_left_pages(ask, draft);
    // What is short goes to those that the plan is about.
    let mut instances: Vec<&Instance> =
        ask.instances.iter().filter(|instance| instance.pid != 0).collect();
    instances.sort_by_cached_key(|instance| !ask.is_kept_off(instance));
    for instance in instances {
        let gain = predict_gain(ask, draft, instance)
            .and_then(|gain| take_pages(ask, &mut left, instance).map(|()| gain));
        let asked = is_asked(instance);
        let command = if asked { build_restart_command(ask, instance) } else { None };
        match (gain, command) {
            (Err(why), _) => {
                restart_with_boot(ask, draft, instance);
                if asked {
                    leave_running(draft, instance, &why.to_string());
                }
            }
            (Ok(RestartGain::Sure), Some(command)) => {
                add_restart_step(ask, draft, instance, command);
            }
            (Ok(RestartGain::Sure), None) => {
                if asked {
                    leave_running(draft, instance, explain_who_restarts(instance));
                }
                prepare_manual_restart(ask, draft, instance);
            }
            (Ok(RestartGain::Perhaps(unseen)), _) => {
                if asked {
                    let why =
                        format!("hugewise cannot tell whether it may use huge pages ({unseen})");
                    leave_running(draft, instance, &why);
                }
                instruct_uncertain_restart(ask, draft, instance, &unseen);
            }
        }
    }
}

fn leave_running(draft: &mut Draft<'_>, instance: &Instance, why: &str) {
    draft.add_warning(format!("{} is not restarted: {why}", instance.title()));
}

fn explain_who_restarts(instance: &Instance) -> &'static str {
    match &EngineKind::for_engine(instance.engine).restart.starter {
        _ if instance.containered => "restart it through whatever runs its container",
        Some(starter) => starter.whose,
        None => "no systemd service runs it alone, and it is not a known Debian cluster",
    }
}

fn count_left_pages(ask: &PlanRequest<'_>, draft: &Draft<'_>) -> BTreeMap<PageSize, PageCount> {
    let pools = ask.host.pools.as_known().into_iter().flatten();
    let freed: Bytes = ask.instances.iter().filter_map(demand::on_base_pages).sum();
    let left = pools.filter_map(|pool| {
        let there = demand::pages_obtainable(ask.host, pool, freed)?;
        let goal = draft.pool_goal(pool.page_size).filter(|goal| goal.not_now.is_none());
        let left = goal.map_or(there, |goal| {
            let (more, less) =
                (goal.goal.saturating_sub(goal.now), goal.now.saturating_sub(goal.goal));
            (there + more).saturating_sub(less)
        });
        Some((pool.page_size, left))
    });
    left.collect()
}

/// An error where they are not all there: then its restart brings it nothing.
fn take_pages(
    ask: &PlanRequest<'_>,
    left: &mut BTreeMap<PageSize, PageCount>,
    instance: &Instance,
) -> Result<(), NoGain> {
    let waits = instance.huge_pages == HugePageUse::None && instance.asked != HugePageMode::Raises;
    if let Some(sized) = ask.sized(instance).filter(|_| waits)
        && let Some(left) = left.get_mut(&sized.page_size)
    {
        let (needs, page) = (sized.demand_pages, sized.page_size);
        if *left < needs {
            return Err(NoGain::Short { needs, page, left: *left });
        }
        *left = left.saturating_sub(needs);
    }
    Ok(())
}

/// A server whose pages come with the next boot starts with it.
fn restart_with_boot(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let Some(page) = ask.planned_page_size(instance) else { return };
    let comes = |carried: &Carried| {
        carried.remedy == Remedy::SetPool(page) && carried.when == EffectTime::Reboot
    };
    if let Some(step) = draft.steps.iter_mut().rev().find(|step| step.carries.iter().any(comes)) {
        step.carry_remedy(Remedy::Restart(instance.id()), EffectTime::Reboot);
    }
}

enum RestartGain {
    Sure,
    /// What it lacks, unless that which could not be seen is in its way.
    Perhaps(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoGain {
    /// What no step takes out of the way of its start.
    #[error("{0}")]
    Kept(String),
    #[error("no huge pages are planned for it")]
    Unplanned,
    #[error("its settings do not ask for huge pages, or are not known")]
    DoesNotAsk,
    #[error("it is on huge pages already")]
    There,
    #[error("its settings ask for huge pages for only part of its memory")]
    AsksInPart,
    #[error("the pools are not known")]
    PoolsUnknown,
    #[error("its pages will not be there before the next boot: {0}")]
    NotBeforeBoot(String),
    #[error("the limit of its cgroup is too small: raise it first")]
    Cgroup,
    #[error("it may not use System V huge pages yet")]
    Right,
    #[error("this plan is not about it")]
    NotConcerned,
    #[error("it needs {}, and {left} {} left for it beside the other servers",needs.in_pages_of(*page), left.linking_verb())]
    Short { needs: PageCount, page: PageSize, left: PageCount },
}

fn predict_gain(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    instance: &Instance,
) -> Result<RestartGain, NoGain> {
    if let Some(why) = find_start_obstacle(ask, instance) {
        return Err(NoGain::Kept(why));
    }
    let id = instance.id();
    let changed =
        draft.steps.iter().any(|step| step.risk == Risk::Restart && step.of.as_ref() == Some(&id));
    let waiting = find_waiting_pages(ask, instance);
    let permitted = || waiting.filter(|_| is_permitted(draft, instance));
    let page = ask.planned_page_size(instance).or_else(permitted).ok_or(NoGain::Unplanned)?;
    let set = draft.carries_remedy(&Remedy::SetSetting(id));
    if !set
        && !matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises)
    {
        return Err(NoGain::DoesNotAsk);
    }
    if instance.huge_pages == HugePageUse::All {
        return if changed { Ok(RestartGain::Sure) } else { Err(NoGain::There) };
    }
    if instance.huge_pages == HugePageUse::Partly && instance.asks_in_part() && !set {
        return Err(NoGain::AsksInPart);
    }
    let goal = draft.pool_goal(page).ok_or(NoGain::PoolsUnknown)?;
    // Pages that are wanted beyond its own need are not waited for.
    if !goal.is_there() && waiting != Some(page) {
        return Err(NoGain::NotBeforeBoot(goal.not_now.clone().unwrap_or_default()));
    }
    if ask.is_held_by_its_cgroup(instance) {
        return Err(NoGain::Cgroup);
    }
    let gain = match predict_shm_right(ask, draft, instance) {
        HugePageRight::Has(_) => RestartGain::Sure,
        HugePageRight::Unknown(unseen) => RestartGain::Perhaps(unseen),
        HugePageRight::Lacks(_) => return Err(NoGain::Right),
    };
    let suffers = ask.is_kept_off(instance) || changed || ask.is_chosen(instance);
    if suffers { Ok(gain) } else { Err(NoGain::NotConcerned) }
}

/// What no step takes out of the way: its start is refused, its hugetlbfs is gone or of another
/// kind, or its nodes have too few pages.
fn find_start_obstacle(ask: &PlanRequest<'_>, instance: &Instance) -> Option<String> {
    let restart = ask.restart_forecast(instance)?;
    let is_bad = matches!(restart.coverage, Coverage::DoesNotStart | Coverage::None);
    let is_in_the_way = matches!(
        restart.obstacle?,
        Obstacle::Start
            | Obstacle::Mount
            | Obstacle::MountOptions
            | Obstacle::DefaultSize
            | Obstacle::Nodes
    );
    (is_bad && is_in_the_way).then(|| restart.why.clone().unwrap_or_default())
}

/// The size of the pages that a server asks for, where enough of them are there already.
fn find_waiting_pages(ask: &PlanRequest<'_>, instance: &Instance) -> Option<PageSize> {
    let share = ask.assessment.situation.share(instance).filter(|share| share.fits())?;
    Some(share.page_size)
}

fn is_permitted(draft: &Draft<'_>, instance: &Instance) -> bool {
    draft.carries_remedy(&Remedy::SetGroup(instance.id()))
        || draft.carries_remedy(&Remedy::RaiseMemlock(instance.id()))
}

fn predict_shm_right(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    instance: &Instance,
) -> HugePageRight {
    if instance.mechanism != Mechanism::SysvShm {
        return HugePageRight::Has("its memory is not System V's".into());
    }
    let needs = ask.assessment.situation.locked().at_restart(ask.host, instance);
    let (limit, enough) = ipc_privileges::at_restart(ask.host, instance).memlock_for(needs);
    let right = permission::without_memlock(ask.host, instance);
    let rule = permission::memlock_effect(ask.host);
    let by_group = !matches!(rule, MemlockEffect::Buys(_))
        && draft.carries_remedy(&Remedy::SetGroup(instance.id()));
    let raised = || draft.carries_remedy(&Remedy::RaiseMemlock(instance.id()));
    let by_limit = !matches!(rule, MemlockEffect::Useless(_)) && (enough == Some(true) || raised());
    match right {
        HugePageRight::Lacks(_) | HugePageRight::Unknown(_) if by_group || by_limit => {
            HugePageRight::Has("by this plan, or its limit".into())
        }
        HugePageRight::Lacks(_)
            if !matches!(rule, MemlockEffect::Useless(_)) && enough.is_none() =>
        {
            HugePageRight::Unknown(limit)
        }
        right => right,
    }
}

/// `None` where it cannot be shown to restart this server alone. Nothing else names what to
/// restart.
fn build_restart_command(ask: &PlanRequest<'_>, instance: &Instance) -> Option<CommandChange> {
    let why = "it gets huge pages when it starts";
    if let Some(unit) = instance.unit.as_deref().filter(|_| commands::can_restart_service(instance))
    {
        let systemctl =
            ask.find_program(&["systemctl"]).unwrap_or_else(|| "/usr/bin/systemctl".into());
        return Some(CommandChange::new([systemctl.as_str(), "restart", unit], why));
    }
    let restarter = EngineKind::for_engine(instance.engine).restart.restarter.as_ref();
    let restarter =
        restarter.filter(|_| instance.is_known_to_the_host() && !instance.containered)?;
    let arguments = (restarter.arguments)(instance)?;
    let program = ask.find_program(&[restarter.program])?;
    Some(CommandChange::new(std::iter::once(program).chain(arguments), why))
}

fn add_restart_step(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    command: CommandChange,
) {
    let id = instance.id();
    let set_to_insist =
        |step: &Drafted| step.of.as_ref() == Some(&id) && !step.relies_on.is_empty();
    let insists = instance.asked == HugePageMode::Must || draft.steps.iter().any(set_to_insist);
    let page = ask.planned_page_size(instance).filter(|_| insists);
    let pool = page.and_then(|page| draft.find_pool_step(page));
    let why = "it maps its memory when it starts; its current sessions end";
    let name = format!("restart-{}-{}", instance.engine, instance.name);
    let step = Step::new(name, format!("restart {}", instance.title()), Risk::Restart, why);
    let mut step = Drafted::for_part(PlanPart::Restart, step).for_instance(instance);
    step.carry_remedy(Remedy::Restart(id), EffectTime::Now);
    step.relies_on.extend(pool);
    draft.add_step(step.with_change(command));
}

/// The steps that prepare a restart promise what it ends.
fn prepare_manual_restart(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let id = instance.id();
    let pool = ask.planned_page_size(instance).map(PlanPart::PoolNow);
    let prepares = |step: &Drafted| {
        step.of.as_ref() == Some(&id)
            || step.carries.iter().any(|carried| carried.remedy.instance() == Some(&id))
    };
    let own = draft.steps.iter().rposition(prepares);
    let of_pool = || draft.steps.iter().position(|step| Some(step.part) == pool);
    if let Some(step) = own.or_else(of_pool).and_then(|at| draft.steps.get_mut(at)) {
        step.carry_remedy(Remedy::Restart(id), EffectTime::Restart);
    }
    if instance.huge_pages != HugePageUse::All {
        instruct_restart(draft, instance, &restart_lines(ask, instance));
    }
}

fn instruct_restart(draft: &mut Draft<'_>, instance: &Instance, lines: &[String]) {
    let title = format!("restart {}", instance.title());
    let restart = Remedy::Restart(instance.id());
    draft.instruct_for(restart, title, lines, Risk::Restart, Some(instance));
}

/// Nothing is promised, and what could not be seen is said.
fn instruct_uncertain_restart(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    unseen: &str,
) {
    let mut lines = vec![format!(
        "# it gets huge pages when it starts, unless something that could not be read prevents \
         it: {unseen}"
    )];
    lines.extend(restart_lines(ask, instance));
    instruct_restart(draft, instance, &lines);
}

/// Its kind's own tool, where no unit has it.
fn restart_lines(ask: &PlanRequest<'_>, instance: &Instance) -> Vec<String> {
    let lines = commands::restart_commands(ask.host, instance);
    let has_none = lines.iter().all(|line| line.starts_with('#'));
    match build_restart_command(ask, instance).filter(|_| has_none) {
        Some(CommandChange { command, .. }) => {
            vec![command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")]
        }
        None => lines,
    }
}
