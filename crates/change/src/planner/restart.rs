//! Restarts of servers that were named for it; huge pages come at a server's start alone.

use std::collections::BTreeMap;

use hugewise_advice::permission::{self, Memlock, Right};
use hugewise_advice::situation::Obstacle;
use hugewise_advice::standing::Standing;
use hugewise_advice::words::shell_word;
use hugewise_advice::{demand, given};
use hugewise_engines::options::file_name;
use hugewise_engines::{Kind, restarters};
use hugewise_host::Source;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Bytes, HugePageUse, Instance, PageCount, PageSize, Remedy};

use super::boot_loader::find_program;
use super::draft::{Carried, Draft, Drafted, Part};
use super::{Ask, commands, is_named, pools_now};
use crate::Error;
use crate::plan::{Change, CommandChange, Plan, Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for instance in ask.instances.iter().filter(|instance| instance.is_asleep()) {
        if is_named(ask.instances, instance, &ask.options.restart) {
            draft.warn(format!(
                "{} is not restarted: it is not running, and nothing on this host starts it",
                instance.title()
            ));
        }
    }
    let mut left = left_after(&ask, draft);
    // What is short goes to those that the plan is about.
    let mut instances: Vec<&Instance> = ask.instances.iter().filter(|instance| instance.pid != 0).collect();
    instances.sort_by_key(|instance| !ask.is_kept_off(instance));
    for instance in instances {
        let asked = is_named(ask.instances, instance, &ask.options.restart);
        match gain(&ask, draft, instance).and_then(|gain| take(&ask, &mut left, instance).map(|()| gain)) {
            Err(why) => {
                with_the_boot(&ask, draft, instance);
                if asked {
                    draft.warn(format!("{} is not restarted: {why}", instance.title()));
                }
            }
            Ok(Gain::Sure) if asked => match command(ask.source, instance) {
                Some(command) => restart(&ask, draft, instance, command),
                None => {
                    let whose = match &Kind::of(instance.engine).starter {
                        _ if instance.containered => "restart it through whatever runs its container",
                        Some(starter) => starter.whose,
                        None => "no systemd service runs it alone, and it is not a known Debian cluster",
                    };
                    draft.warn(format!("{} is not restarted: {whose}", instance.title()));
                    by_hand(&ask, draft, instance);
                }
            },
            Ok(Gain::Sure) => by_hand(&ask, draft, instance),
            Ok(Gain::Perhaps(unseen)) => {
                if asked {
                    draft.warn(format!(
                        "{} is not restarted: hugewise cannot tell whether it may use huge pages ({unseen})",
                        instance.title()
                    ));
                }
                by_hand_perhaps(&ask, draft, instance, &unseen);
            }
        }
    }
}

/// Pages that the steps leave for servers that start, by page size.
fn left_after(ask: &Ask<'_>, draft: &Draft<'_>) -> BTreeMap<PageSize, PageCount> {
    let pools = ask.host.pools.known().into_iter().flatten();
    let freed: Bytes = ask.instances.iter().filter_map(demand::on_base_pages).sum();
    let left = pools.filter_map(|pool| {
        let there = demand::obtainable(ask.host, pool, freed)?;
        let goal = draft.pool(pool.page_size).filter(|goal| goal.not_now.is_none());
        let (more, less) = goal.map_or((PageCount::ZERO, PageCount::ZERO), |goal| {
            (goal.goal.saturating_sub(goal.now), goal.now.saturating_sub(goal.goal))
        });
        Some((pool.page_size, (there + more).saturating_sub(less)))
    });
    left.collect()
}

/// Takes a server's pages out of what is left.
///
/// # Errors
/// They are not all there: its restart brings it nothing.
fn take(ask: &Ask<'_>, left: &mut BTreeMap<PageSize, PageCount>, instance: &Instance) -> Result<(), NoGain> {
    let sized = ask.sized().find(|(of, _)| std::ptr::eq(*of, instance)).map(|(_, sized)| sized);
    let waits = instance.huge_pages == HugePageUse::None && instance.asked != Asked::Raises;
    let Some((sized, left)) = sized.filter(|_| waits).and_then(|sized| Some((sized, left.get_mut(&sized.page_size)?)))
    else {
        return Ok(());
    };
    if *left < sized.demand_pages {
        return Err(NoGain::Short { needs: sized.demand_pages, page: sized.page_size, left: *left });
    }
    *left = left.saturating_sub(sized.demand_pages);
    Ok(())
}

/// A server whose pages come with the next boot starts with it.
fn with_the_boot(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let Some(page) = page_of(ask, instance) else { return };
    let comes = |it: &Carried| it.remedy == Remedy::SetPool(page) && it.when == When::Reboot;
    if let Some(step) = draft.steps.iter_mut().rev().find(|step| step.carries.iter().any(comes)) {
        step.carry(Remedy::Restart(instance.id()), When::Reboot);
    }
}

/// What a restart brings a server.
enum Gain {
    /// What it lacks.
    Sure,
    /// What it lacks, unless that which could not be seen is in its way.
    Perhaps(String),
}

/// Why a restart brings a server nothing.
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
    #[error("it needs {}, and {left} {} left for it beside the other servers",needs.in_pages_of(*page), left.are())]
    Short { needs: PageCount, page: PageSize, left: PageCount },
}

/// What a restart brings a server; an error where it brings nothing.
fn gain(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> Result<Gain, NoGain> {
    if let Some(why) = kept_from_starting(ask, instance) {
        return Err(NoGain::Kept(why));
    }
    let id = instance.id();
    let changed = draft.steps.iter().any(|step| step.risk == Risk::Restart && step.of.as_ref() == Some(&id));
    let waiting = pages_that_wait(ask, instance);
    let permitted = || waiting.filter(|_| is_permitted(draft, instance));
    let page = page_of(ask, instance).or_else(permitted).ok_or(NoGain::Unplanned)?;
    let set = draft.carries(&Remedy::SetSetting(id));
    if !set && !matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises) {
        return Err(NoGain::DoesNotAsk);
    }
    if instance.huge_pages == HugePageUse::All {
        return if changed { Ok(Gain::Sure) } else { Err(NoGain::There) };
    }
    if instance.huge_pages == HugePageUse::Partly && instance.asks_in_part() && !set {
        return Err(NoGain::AsksInPart);
    }
    let goal = draft.pool(page).ok_or(NoGain::PoolsUnknown)?;
    // Pages that are wanted beyond its own need are not waited for.
    if !goal.is_there() && waiting != Some(page) {
        return Err(NoGain::NotBeforeBoot(goal.not_now.clone().unwrap_or_default()));
    }
    if ask.is_held_by_its_cgroup(instance) {
        return Err(NoGain::Cgroup);
    }
    let gain = match right(ask, draft, instance) {
        Right::Has(_) => Gain::Sure,
        Right::Unknown(unseen) => Gain::Perhaps(unseen),
        Right::Lacks(_) => return Err(NoGain::Right),
    };
    let suffers = ask.is_kept_off(instance) || changed || ask.is_chosen(instance);
    if suffers { Ok(gain) } else { Err(NoGain::NotConcerned) }
}

/// What no step takes out of the way of a start: what starts it refuses, its hugetlbfs is gone or of another kind, or the nodes
/// that it may use have too few pages. It would be down, or without huge pages.
fn kept_from_starting(ask: &Ask<'_>, instance: &Instance) -> Option<String> {
    let restart = &ask.assessment.situation.of(instance)?.restart;
    let bad = matches!(restart.standing, Standing::DoesNotStart | Standing::None);
    let in_the_way = match restart.obstacle? {
        Obstacle::Start | Obstacle::Mount | Obstacle::MountOptions | Obstacle::DefaultSize | Obstacle::Nodes => true,
        Obstacle::Settings
        | Obstacle::Right
        | Obstacle::Lock
        | Obstacle::Cgroup
        | Obstacle::Segments
        | Obstacle::Pages => false,
    };
    (bad && in_the_way).then(|| restart.why.clone().unwrap_or_default())
}

/// The size of the pages that a server asks for, where enough of them are there already.
fn pages_that_wait(ask: &Ask<'_>, instance: &Instance) -> Option<PageSize> {
    let share = ask.assessment.situation.share(instance).filter(|share| share.fits())?;
    Some(share.page_size)
}

/// Whether a step gives a server the right to huge pages.
fn is_permitted(draft: &Draft<'_>, instance: &Instance) -> bool {
    draft.carries(&Remedy::SetGroup(instance.id())) || draft.carries(&Remedy::RaiseMemlock(instance.id()))
}

/// Whether its next start is let have System V huge pages, with what the plan does for that.
fn right(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> Right {
    if instance.mechanism != Mechanism::SysvShm {
        return Right::Has("its memory is not System V's".into());
    }
    let needs = ask.assessment.situation.locked().at_restart(ask.host, instance);
    let (limit, enough) = given::at_restart(ask.host, instance).memlock_for(needs);
    let right = permission::without_memlock(ask.host, instance);
    let rule = permission::memlock(ask.host);
    let by_group = !matches!(rule, Memlock::Buys(_)) && draft.carries(&Remedy::SetGroup(instance.id()));
    let raised = || draft.carries(&Remedy::RaiseMemlock(instance.id()));
    let by_limit = !matches!(rule, Memlock::Useless(_)) && (enough == Some(true) || raised());
    match right {
        Right::Lacks(_) | Right::Unknown(_) if by_group || by_limit => Right::Has("by this plan, or its limit".into()),
        Right::Lacks(_) if !matches!(rule, Memlock::Useless(_)) && enough.is_none() => Right::Unknown(limit),
        right => right,
    }
}

/// Refuses a plan that restarts what is no server here, or more than a server: whoever wrote it, root restarts by its own
/// knowledge.
///
/// # Errors
/// [`Error::NotAllowed`] names the first such step.
pub fn check(plan: &Plan, instances: &[Instance], source: &dyn Source) -> Result<(), Error> {
    let known: Vec<Vec<String>> =
        instances.iter().filter_map(|instance| command(source, instance)).map(|known| known.command).collect();
    for (step, change) in plan.changes() {
        let Change::Command(change) = change else { continue };
        let words: Vec<&str> = change.command.iter().map(String::as_str).collect();
        let restarts = match words.as_slice() {
            [_, "restart", _] => true,
            [_, arguments @ ..] => restarters().any(|restarter| (restarter.allows)(arguments)),
            [] => false,
        };
        // The same program may have several paths.
        let same = |known: &&Vec<String>| {
            let name = |words: &[String]| words.first().map(|path| file_name(path).to_owned());
            name(known) == name(&change.command) && known.get(1..) == change.command.get(1..)
        };
        if restarts && !known.iter().any(|it| same(&it)) {
            return Err(Error::NotAllowed {
                step: step.id.clone(),
                what: change.command.join(" "),
                why: "no running server is restarted by that alone".into(),
            });
        }
    }
    Ok(())
}

/// The command that restarts a server and nothing else; none where that cannot be shown. The only place that names a unit
/// or a cluster to restart.
fn command(source: &dyn Source, instance: &Instance) -> Option<CommandChange> {
    let why = "it gets huge pages when it starts";
    if let Some(unit) = instance.unit.as_deref().filter(|_| commands::restarts(instance)) {
        let systemctl = find_program(source, &["systemctl"]).unwrap_or_else(|| "/usr/bin/systemctl".into());
        return Some(CommandChange::new([systemctl.as_str(), "restart", unit], why));
    }
    let restarter = Kind::of(instance.engine).restarter.as_ref();
    let restarter = restarter.filter(|_| instance.is_known_to_the_host() && !instance.containered)?;
    let arguments = (restarter.arguments)(instance)?;
    let program = find_program(source, &[restarter.program])?;
    Some(CommandChange::new(std::iter::once(program).chain(arguments), why))
}

fn page_of(ask: &Ask<'_>, instance: &Instance) -> Option<PageSize> {
    ask.sized().find(|(of, _)| std::ptr::eq(*of, instance)).map(|(_, sized)| sized.page_size)
}

fn restart(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, command: CommandChange) {
    let id = instance.id();
    let set_to_insist = |step: &Drafted| step.of.as_ref() == Some(&id) && !step.relies_on.is_empty();
    let insists = instance.asked == Asked::Must || draft.steps.iter().any(set_to_insist);
    let pool = page_of(ask, instance).filter(|_| insists).and_then(|page| pools_now::of(draft, page));
    let why = "it maps its memory when it starts; its current sessions end";
    let name = format!("restart-{}-{}", instance.engine, instance.name);
    let step = Step::new(name, format!("restart {}", instance.title()), Risk::Restart, why);
    let mut step = Drafted::part(Part::Restart, step).of(instance);
    step.carry(Remedy::Restart(id), When::Now);
    step.relies_on.extend(pool);
    draft.step(step.change(command));
}

/// Nobody said that it may be restarted, or it cannot be from here: what its restart ends is promised by the steps
/// that prepare it.
fn by_hand(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let id = instance.id();
    let pool = page_of(ask, instance).map(pools_now::id);
    let prepares = |step: &Drafted| {
        let carries = step.carries.iter().any(|it| it.remedy.instance() == Some(&id));
        carries || step.of.as_ref() == Some(&id)
    };
    let own = draft.steps.iter().rposition(prepares);
    let of_pool = || draft.steps.iter().position(|step| Some(&step.id) == pool.as_ref());
    let restart = Remedy::Restart(id.clone());
    if let Some(step) = own.or_else(of_pool).and_then(|at| draft.steps.get_mut(at)) {
        step.carry(restart.clone(), When::Restart);
    }
    if instance.huge_pages != HugePageUse::All {
        let title = format!("restart {}", instance.title());
        draft.instruct_for(restart, title, &by_whom(ask, instance), Risk::Restart, Some(instance));
    }
}

/// A restart that may bring it what it lacks: nothing is promised, and what could not be seen is said.
fn by_hand_perhaps(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, unseen: &str) {
    let mut lines = vec![format!(
        "# it gets huge pages when it starts, unless something that could not be read prevents it: {unseen}"
    )];
    lines.extend(by_whom(ask, instance));
    let title = format!("restart {}", instance.title());
    draft.instruct_for(Remedy::Restart(instance.id()), title, &lines, Risk::Restart, Some(instance));
}

/// The lines that restart a server: its kind's own tool where no unit has it.
fn by_whom(ask: &Ask<'_>, instance: &Instance) -> Vec<String> {
    let lines = commands::restart(ask.host, instance);
    match command(ask.source, instance).filter(|_| lines.iter().all(|line| line.starts_with('#'))) {
        Some(command) => vec![command.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")],
        None => lines,
    }
}
