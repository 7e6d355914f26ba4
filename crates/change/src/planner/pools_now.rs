//! Pools of the running kernel: every page size, by node where nodes matter.

use hugewise_diagnose::boot;
use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::demand::{self, predict_next_start};
use hugewise_diagnose::prediction::Obstacle;
use hugewise_diagnose::wording::{boot_name, one_line, pool_switch};
use hugewise_model::escape::shell::quote_operand;
use hugewise_model::instance::Trait;
use hugewise_model::{HugePageUse, Instance, PageCount, PageSize, Remedy};

use super::draft::{Draft, Drafted, PlanPart, PlannedPoolGoal, Whom};
use super::{PlanRequest, commands};
use crate::plan::{EffectTime, Instruction, PoolRef, Risk, Step, ValueChange};

pub(super) fn plan_current_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let mut goals = draft.pools.clone();
    // Memory has to be given back before it can be taken.
    goals.sort_by_key(|goal| goal.grows());
    for goal in goals {
        let set = Remedy::SetPool(goal.page_size);
        if !goal.grows() && goal.covers_need() {
            draft.settled.push((set.clone(), Whom::These(ask.ids_on(goal.page_size))));
        }
        if goal.goal == goal.now || !ask.options.now {
            continue;
        }
        match &goal.not_now {
            None => draft.steps.push(build_pool_step(ask, &goal)),
            Some(why) => {
                if goal.surplus > PageCount::ZERO {
                    draft.steps.push(build_surplus_step(ask, &goal));
                }
                draft.explained.insert(set);
                draft.instructions.push(build_later_instruction(ask, &goal, why));
            }
        }
    }
}

fn build_pool_step(ask: &PlanRequest<'_>, goal: &PlannedPoolGoal) -> Drafted {
    let page = goal.page_size;
    let (now, pages) = (goal.now, goal.goal);
    let grows = goal.grows();
    let title = match grows {
        true => format!("set the pool of {page} pages to {pages} ({})", pages.to_bytes(page)),
        false => {
            let freed = now.saturating_sub(pages);
            format!("give {} back ({})", freed.in_pages_of(page), freed.to_bytes(page))
        }
    };
    let (needed, are, now_are) =
        (goal.needed, goal.needed.linking_verb(), format!("{now} {}", now.linking_verb()));
    let are_needed = format!("{} {are} needed", needed.in_pages());
    let why = match grows {
        true if goal.surplus > PageCount::ZERO => format!(
            "{are_needed}, {now_are} there permanently, and {} until their holders end",
            goal.surplus
        ),
        true if pages > needed => format!(
            "{are_needed}, {pages} {} configured, and {now_are} there permanently",
            pages.linking_verb()
        ),
        true => format!("{are_needed}, {now_are} there"),
        false => format!("{needed} of {} {are} needed; nobody uses the others", now.in_pages()),
    };
    let id = format!("pool-{}-now", boot_name(page));
    let step = Step::new(id, title, Risk::Safe, why);
    let mut step = Drafted::for_part(PlanPart::PoolNow(page), step);
    if grows {
        step.carry_for(Remedy::SetPool(page), EffectTime::Now, ask.ids_on(page));
    } else {
        step.carry_remedy(Remedy::GiveBack(page), EffectTime::Now);
    }
    if grows && !goal.nodes.is_empty() {
        for (node, _, pages) in goal.nodes.iter().filter(|(_, now, pages)| pages > now) {
            let pool = PoolRef { page_size: page, node: Some(*node) };
            step = step.with_change(ValueChange::for_pool(pool, pages.get()));
        }
        return step;
    }
    step.with_change(whole_pool_change(ask, page, pages))
}

/// Surplus pages become the pool's own: that takes no memory, and a restart would lose them.
fn build_surplus_step(ask: &PlanRequest<'_>, goal: &PlannedPoolGoal) -> Drafted {
    let (page, surplus, pages) = (goal.page_size, goal.surplus, goal.now + goal.surplus);
    let title = format!("keep {} in the pool, for a total of {pages}", surplus.in_pages_of(page));
    let why = format!(
        "{} there only until their holders end; keeping them takes no memory now",
        surplus.linking_verb()
    );
    let id = format!("pool-{}-kept", boot_name(page));
    let step = Step::new(id, title, Risk::Safe, why);
    let mut step = Drafted::for_part(PlanPart::PoolKept(page), step);
    // It brings no page to anybody else.
    let holders = ask.servers_on(page).filter(|instance| holds_its_pages(ask, instance, page));
    let holders = holders.map(Instance::id).collect();
    step.carry_for(Remedy::SetPool(page), EffectTime::Now, holders);
    step.with_change(whole_pool_change(ask, page, pages))
}

fn holds_its_pages(ask: &PlanRequest<'_>, instance: &Instance, page: PageSize) -> bool {
    let start = predict_next_start(ask.host, instance);
    let demands = start.demands.iter().filter(|demand| demand.page_size == page);
    demands.map(|demand| demand.pages).sum::<PageCount>() <= demand::pages_held(instance, page)
}

fn whole_pool_change(ask: &PlanRequest<'_>, page: PageSize, pages: PageCount) -> ValueChange {
    match ask.host.one_huge_page_size {
        true => ValueChange::only_pool(page, pages.get()),
        false => ValueChange::for_pool(PoolRef { page_size: page, node: None }, pages.get()),
    }
}

/// The servers that would come out worse of a restart for want of these pages, a line each.
fn explain_restart_losses(ask: &PlanRequest<'_>, goal: &PlannedPoolGoal) -> Vec<String> {
    let page = goal.page_size;
    // Who holds surplus pages keeps them now.
    let keeps = |instance: &Instance| {
        goal.surplus > PageCount::ZERO && holds_its_pages(ask, instance, page)
    };
    let line = |instance: &Instance| {
        let moments = ask.assessment.situation.forecasts_for(instance)?;
        let loses = moments.loses_at_restart() && moments.restart.obstacle == Some(Obstacle::Pages);
        let what = match moments.restart.coverage {
            Coverage::DoesNotStart => "not start again",
            _ => "lose huge pages at a restart",
        };
        (loses && !keeps(instance))
            .then(|| format!("# Until then {} would {what}.", one_line(&instance.title())))
    };
    ask.servers_on(page).filter_map(line).collect()
}

/// A stopped server is not planned for, so the pages are set between its stop and its start.
fn build_later_instruction(
    ask: &PlanRequest<'_>,
    goal: &PlannedPoolGoal,
    why: &str,
) -> Instruction {
    let page = goal.page_size;
    let at_boot = match ask.options.boot {
        true if boot::is_not_read(ask.host, "sysctl.d") => {
            "the manual step below reserves them at the next boot"
        }
        true => "this plan reserves them at the next boot",
        false => "reserve them at boot",
    };
    let title = format!("{} don't fit in memory now", goal.goal.in_pages_of(page));
    let losses = explain_restart_losses(ask, goal);
    if goal.crowds {
        // However it is done, it would leave the host too little.
        let lines: Vec<String> = std::iter::once(format!("# {why}")).chain(losses).collect();
        return Instruction { title, text: lines.join("\n"), risk: Risk::Safe, instance: None };
    }
    let waiting: Vec<&Instance> =
        ask.servers_on(page).filter(|instance| instance.huge_pages != HugePageUse::All).collect();
    // Databases live on the disks that ASM holds.
    let (asm, others): (Vec<&Instance>, Vec<&Instance>) =
        waiting.into_iter().partition(|instance| instance.traits.contains(&Trait::Asm));
    let running = others.iter().chain(&asm).filter(|instance| !instance.is_stopped());
    let file = pool_switch(ask.host, page);
    let mut lines = vec![format!("# {why}: {at_boot}.")];
    lines.extend(losses);
    lines.push("# To get them earlier, stop the servers that hold memory and run:".into());
    lines.extend(running.map(|instance| control_command("stop", instance)));
    lines.push(format!("echo {} > {file}", goal.goal.get()));
    lines.push("# the kernel may give fewer if memory is fragmented:".into());
    lines.push(format!("cat {file}"));
    lines.extend(asm.iter().chain(&others).map(|instance| control_command("start", instance)));
    Instruction { title, text: lines.join("\n"), risk: Risk::Reboot, instance: None }
}

fn control_command(verb: &str, instance: &Instance) -> String {
    match instance.unit.as_deref().filter(|_| commands::can_restart_service(instance)) {
        Some(unit) => format!("systemctl {verb} {}", quote_operand(unit)),
        None => format!("# {verb} {}", one_line(&instance.title())),
    }
}
