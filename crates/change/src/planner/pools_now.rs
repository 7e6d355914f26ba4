//! Pools of the running kernel: every page size, by node where nodes matter.

use hugewise_advice::boot;
use hugewise_advice::demand::{self, starting};
use hugewise_advice::situation::Obstacle;
use hugewise_advice::sizing::Sized;
use hugewise_advice::standing::Standing;
use hugewise_advice::words::{boot_name, one_line, pool_switch};
use hugewise_model::escape::shell::operand;
use hugewise_model::instance::Trait;
use hugewise_model::{HugePageUse, Instance, PageCount, PageSize, Remedy};

use super::draft::{Draft, Drafted, Whom};
use super::pools::Goal;
use super::{Ask, commands};
use crate::plan::{Instruction, PoolRef, Risk, Step, ValueChange, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let mut goals = draft.pools.clone();
    // Memory has to be given back before it can be taken.
    goals.sort_by_key(|goal| goal.grows());
    for goal in goals {
        let set = Remedy::SetPool(goal.page_size);
        if !goal.grows() && goal.goal >= goal.needed {
            draft.settled.push((set.clone(), Whom::These(ask.sized_on(goal.page_size))));
        }
        if goal.goal == goal.now || !ask.options.now {
            continue;
        }
        match &goal.not_now {
            None => draft.steps.push(step(ask, &goal)),
            Some(why) => {
                if goal.surplus > PageCount::ZERO {
                    draft.steps.push(kept(ask, &goal));
                }
                draft.told.insert(set);
                draft.instructions.push(later(ask, &goal, why));
            }
        }
    }
}

/// The step's.
pub(super) fn id(page: PageSize) -> String {
    format!("pool-{}-now", boot_name(page))
}

/// The step for pages of that size, where the plan has one: a pool that is as it is to be needs none.
pub(super) fn of(draft: &Draft<'_>, page: PageSize) -> Option<String> {
    let ids = [id(page), kept_id(page)];
    ids.into_iter().find(|id| draft.steps.iter().any(|step| step.id == *id))
}

/// The step's that keeps what servers hold beyond the pool.
pub(super) fn kept_id(page: PageSize) -> String {
    format!("pool-{}-kept", boot_name(page))
}

fn step(ask: &Ask<'_>, goal: &Goal) -> Drafted {
    let page = goal.page_size;
    let (now, pages) = (goal.now, goal.goal);
    let grows = goal.grows();
    let title = match grows {
        true => format!("set the pool of {page} pages to {pages} ({})", pages.of(page)),
        false => format!("give {} back ({})", now.saturating_sub(pages).in_pages_of(page), saved(goal)),
    };
    let are = |pages: PageCount| format!("{} {}", pages.in_pages(), pages.are());
    let needed = are(goal.needed);
    let why = match grows {
        true if goal.surplus > PageCount::ZERO => {
            format!(
                "{needed} needed, {now} {} there permanently, and {} until their holders end",
                now.are(),
                goal.surplus
            )
        }
        true if pages > goal.needed => {
            format!("{needed} needed, {pages} {} configured, and {now} {} there permanently", pages.are(), now.are())
        }
        true => format!("{needed} needed, {now} {} there", now.are()),
        false => format!("{} of {} {} needed; nobody uses the others", goal.needed, now.in_pages(), goal.needed.are()),
    };
    let mut step = Drafted::from(Step::new(id(page), title, Risk::Safe, why));
    if grows {
        step.carry_for(Remedy::SetPool(page), When::Now, ask.sized_on(page));
    } else {
        step.carry(Remedy::GiveBack(page), When::Now);
    }
    if grows && !goal.nodes.is_empty() {
        for (node, _, pages) in goal.nodes.iter().filter(|(_, now, pages)| pages > now) {
            let pool = PoolRef { page_size: page, node: Some(*node) };
            step = step.change(ValueChange::pool(pool, pages.get()));
        }
        return step;
    }
    step.change(whole(ask, page, pages))
}

/// What servers hold beyond the pool becomes the pool's own, where the pages that it is to have don't fit beside what runs:
/// that takes no memory, and without it a restart would lose them.
fn kept(ask: &Ask<'_>, goal: &Goal) -> Drafted {
    let (page, surplus, pages) = (goal.page_size, goal.surplus, goal.now + goal.surplus);
    let title = format!("keep {} in the pool, for a total of {pages}", surplus.in_pages_of(page));
    let why = format!("{} there only until their holders end; keeping them takes no memory now", surplus.are());
    let mut step = Drafted::from(Step::new(kept_id(page), title, Risk::Safe, why));
    // It brings no page to anybody else.
    let its_own = ask.sized().filter(|(instance, sized)| sized.page_size == page && finds_its_own(ask, instance, page));
    step.carry_for(Remedy::SetPool(page), When::Now, its_own.map(|(instance, _)| instance.id()).collect());
    step.change(whole(ask, page, pages))
}

/// Whether a server holds all the pages that it will ask for.
fn finds_its_own(ask: &Ask<'_>, instance: &Instance, page: PageSize) -> bool {
    let then = starting(ask.host, instance);
    let pages: PageCount = then.demands.iter().filter(|it| it.page_size == page).map(|it| it.pages).sum();
    pages <= demand::held(instance, page)
}

fn whole(ask: &Ask<'_>, page: PageSize, pages: PageCount) -> ValueChange {
    match ask.host.one_huge_page_size {
        true => ValueChange::only_pool(page, pages.get()),
        false => ValueChange::pool(PoolRef { page_size: page, node: None }, pages.get()),
    }
}

fn saved(goal: &Goal) -> hugewise_model::Bytes {
    goal.now.saturating_sub(goal.goal).of(goal.page_size)
}

/// The servers that would come out worse of a restart for want of these pages, a line each.
fn until_then(ask: &Ask<'_>, goal: &Goal) -> Vec<String> {
    let page = goal.page_size;
    // Who holds surplus pages keeps them now.
    let keeps = |instance: &Instance| goal.surplus > PageCount::ZERO && finds_its_own(ask, instance, page);
    let line = |(instance, _): (&Instance, &Sized)| {
        let moments = ask.assessment.situation.of(instance)?;
        let loses = moments.loses_at_restart() && moments.restart.obstacle == Some(Obstacle::Pages);
        let what = match moments.restart.standing {
            Standing::DoesNotStart => "not start again",
            _ => "lose huge pages at a restart",
        };
        (loses && !keeps(instance)).then(|| format!("# Until then {} would {what}.", one_line(&instance.title())))
    };
    ask.sized().filter(|(_, sized)| sized.page_size == page).filter_map(line).collect()
}

/// The running kernel would come out short: what somebody can do about it. A server that is stopped is not planned for,
/// so the pages are set by hand between its stop and its start.
fn later(ask: &Ask<'_>, goal: &Goal, why: &str) -> Instruction {
    let page = goal.page_size;
    let at_boot = match ask.options.boot {
        true if boot::is_not_read(ask.host, "sysctl.d") => "the manual step below reserves them at the next boot",
        true => "this plan reserves them at the next boot",
        false => "reserve them at boot",
    };
    let pages: PageCount = goal.goal;
    let waiting = || ask.sized().filter(|(it, sized)| sized.page_size == page && it.huge_pages != HugePageUse::All);
    let service = |instance: &Instance| instance.unit.as_deref().filter(|_| commands::restarts(instance)).map(operand);
    let each = |verb: &str, of: &dyn Fn(&Instance) -> bool| -> Vec<String> {
        let line = |(instance, _): (&Instance, &Sized)| match service(instance) {
            Some(unit) => format!("systemctl {verb} {unit}"),
            None => format!("# {verb} {}", one_line(&instance.title())),
        };
        // Databases live on the disks that ASM holds.
        let is_asm = |(instance, _): &(&Instance, &Sized)| instance.traits.contains(&Trait::Asm);
        let (asm, others): (Vec<_>, Vec<_>) = waiting().filter(|(instance, _)| of(instance)).partition(is_asm);
        let (first, last) = if verb == "stop" { (others, asm) } else { (asm, others) };
        first.into_iter().chain(last).map(line).collect()
    };
    let title = format!("{} don't fit in memory now", pages.in_pages_of(page));
    if goal.crowds {
        // However it is done, it would leave the host too little.
        let lines: Vec<String> = std::iter::once(format!("# {why}")).chain(until_then(ask, goal)).collect();
        return Instruction { title, text: lines.join("\n"), risk: Risk::Safe, instance: None };
    }
    let file = pool_switch(ask.host, page);
    let mut lines = vec![format!("# {why}: {at_boot}.")];
    lines.extend(until_then(ask, goal));
    lines.push("# To get them earlier, stop the servers that hold memory and run:".into());
    lines.extend(each("stop", &|instance| !instance.is_asleep()));
    lines.push(format!("echo {} > {file}", pages.get()));
    lines.push("# the kernel may give fewer if memory is fragmented:".into());
    lines.push(format!("cat {file}"));
    lines.extend(each("start", &|_| true));
    Instruction { title, text: lines.join("\n"), risk: Risk::Reboot, instance: None }
}
