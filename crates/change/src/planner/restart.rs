//! Restarts of servers that were named for it; huge pages come at a server's start alone.

use hugewise_advice::permission::{self, Memlock, Right};
use hugewise_advice::words::shell_word;
use hugewise_advice::{chain, fix};
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Engine, HugePageUse, Instance, PageSize};

use super::boot_loader::find_program;
use super::{Ask, Draft, expected, is_named, pools_now};
use crate::plan::{CommandChange, Risk, Step, When};

/// Findings about a server that end with its next start on huge pages.
const ENDED: [&str; 5] = ["HW102", "HW203", "HW209", "HW301", "HW801"];

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for instance in ask.instances.iter().filter(|instance| instance.pid != 0) {
        let asked = ask.options.restart.iter().any(|name| is_named(instance, name));
        match gain(&ask, draft, instance) {
            Err(why) if asked => draft.warn(format!("{} is not restarted: {why}", instance.title())),
            Err(_) => {}
            Ok(()) if asked => match command(&ask, instance) {
                Some(command) => restart(&ask, draft, instance, command),
                None => by_hand(&ask, draft, instance),
            },
            Ok(()) => by_hand(&ask, draft, instance),
        }
    }
}

/// Whether a restart brings a server what it lacks.
fn gain(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> Result<(), String> {
    let title = instance.title();
    let changed = draft.steps.iter().any(|step| step.risk == Risk::Restart && step.instance.as_ref() == Some(&title));
    let Some((_, sized)) = ask.sized().find(|(of, _)| std::ptr::eq(*of, instance)) else {
        return Err("no huge pages are planned for it".into());
    };
    let ours = format!("{}-", instance.engine);
    let set = draft.steps.iter().any(|step| step.instance.as_ref() == Some(&title) && step.id.starts_with(&ours));
    if !set && !matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises) {
        return Err("its settings do not ask for huge pages, or are not known".into());
    }
    if instance.huge_pages == HugePageUse::All {
        return if changed { Ok(()) } else { Err("it is on huge pages already".into()) };
    }
    let goal = draft.pool(sized.page_size).ok_or("the pools are not known")?;
    if !goal.is_there() {
        return Err(format!(
            "its pages are not there before the next boot: {}",
            goal.not_now.as_deref().unwrap_or_default()
        ));
    }
    if !has_right(ask, draft, instance) {
        return Err("it may not use System V huge pages yet".into());
    }
    let suffers = super::is_kept_off(ask.assessment, instance) || changed || ask.is_chosen(instance);
    if suffers { Ok(()) } else { Err("it is not what this plan is about".into()) }
}

/// Whether its next start is let have System V huge pages, with what the plan does for that.
fn has_right(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> bool {
    if instance.mechanism != Mechanism::SysvShm {
        return true;
    }
    let planned = |id: &str| draft.steps.iter().any(|step| step.id.starts_with(id));
    let memlock = || chain::memlock_of(ask.host, instance).1 == Some(true) || planned("memlock-");
    match (permission::without_memlock(ask.host, instance), permission::memlock(ask.host)) {
        (Right::Has(_), _) => true,
        (_, Memlock::Useless(_)) => planned("shm-group"),
        (_, Memlock::Buys(_)) => memlock(),
        (_, Memlock::Unknown(_)) => planned("shm-group") || memlock(),
    }
}

fn command(ask: &Ask<'_>, instance: &Instance) -> Option<CommandChange> {
    if instance.containered || instance.engine == Engine::Oracle {
        return None;
    }
    let why = "huge pages come at its start";
    if let Some(unit) = instance.unit.as_deref().filter(|unit| unit.ends_with(".service")) {
        let systemctl = find_program(ask.source, &["systemctl"]).unwrap_or_else(|| "/usr/bin/systemctl".into());
        return Some(CommandChange::new([systemctl.as_str(), "restart", unit], why));
    }
    let (version, cluster) = instance.name.split_once('/').filter(|_| instance.engine == Engine::PostgreSql)?;
    let program = find_program(ask.source, &["pg_ctlcluster"])?;
    Some(CommandChange::new([program.as_str(), version, cluster, "restart"], why))
}

fn page_of(ask: &Ask<'_>, instance: &Instance) -> Option<PageSize> {
    ask.sized().find(|(of, _)| std::ptr::eq(*of, instance)).map(|(_, sized)| sized.page_size)
}

fn restart(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, command: CommandChange) {
    let title = instance.title();
    let set_to_insist = |step: &Step| step.instance.as_ref() == Some(&title) && !step.relies_on.is_empty();
    let insists = instance.asked == Asked::Must || draft.steps.iter().any(set_to_insist);
    let pool = page_of(ask, instance).filter(|_| insists).map(pools_now::id);
    let why = "its memory is mapped at its start: the sessions that it has now end";
    let id = format!("restart-{}-{}", instance.engine, instance.name);
    let mut step = Step::new(id, format!("restart {title}"), Risk::Restart, why).of(title);
    let ended = ENDED.iter().filter_map(|code| ask.found(code, instance));
    step.expects = ended.map(|finding| expected(finding, When::Now)).collect();
    step.relies_on.extend(pool);
    draft.step(step.change(command));
}

/// Nobody said that it may be restarted, or it cannot be from here: what its restart ends is promised by the steps
/// that prepare it.
fn by_hand(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let title = instance.title();
    let page = page_of(ask, instance);
    let pool = page.map(pools_now::id);
    let own = draft.steps.iter().rposition(|step| step.instance.as_ref() == Some(&title));
    let of_pool = || draft.steps.iter().position(|step| Some(&step.id) == pool.as_ref());
    let ended: Vec<_> = ENDED.iter().filter_map(|code| ask.found(code, instance)).collect();
    if let Some(step) = own.or_else(of_pool).and_then(|at| draft.steps.get_mut(at)) {
        step.expects.extend(ended.iter().map(|finding| expected(finding, When::Restart)));
    }
    if instance.huge_pages != HugePageUse::All {
        draft.instruct(format!("restart {title}"), &by_whom(ask, instance), Risk::Restart, Some(title));
    }
}

/// The lines that restart a server: Debian's own tool where no unit has it.
fn by_whom(ask: &Ask<'_>, instance: &Instance) -> Vec<String> {
    let lines = fix::restart(instance);
    match command(ask, instance).filter(|_| lines.iter().all(|line| line.starts_with('#'))) {
        Some(command) => vec![command.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")],
        None => lines,
    }
}
