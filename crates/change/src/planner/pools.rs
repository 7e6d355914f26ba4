//! The goals of the pools as the steps for now and for the next boot share them, and the findings that they end.

use hugewise_advice::{boot, need, target};
use hugewise_model::{Finding, Instance, PageCount, PageSize};

use super::Ask;

/// What a pool is to be, and whether the next boot brings it: set by the steps for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    target: target::Goal,
    /// Whether the next boot brings as many.
    pub(super) at_boot: bool,
}

impl From<target::Goal> for Goal {
    fn from(target: target::Goal) -> Self {
        Self { target, at_boot: false }
    }
}

impl std::ops::Deref for Goal {
    type Target = target::Goal;

    fn deref(&self) -> &target::Goal {
        &self.target
    }
}

pub(super) use target::is_gigantic;

pub(super) fn goals(ask: &Ask<'_>, warnings: &mut Vec<String>) -> Vec<Goal> {
    let target = target::Ask {
        host: ask.host,
        instances: ask.instances,
        strangers: ask.strangers,
        assessment: ask.assessment,
        sizing: ask.sizing,
        wish: ask.options.wish(),
        unmoved: ask.unmoved,
    };
    let (goals, mut unknown) = target.goals();
    warnings.append(&mut unknown);
    goals.into_iter().map(Goal::from).collect()
}

/// Findings that end when a pool, one of these, has its pages: now, or with the next boot.
pub(super) fn cured<'a>(ask: &Ask<'a>, goal: &Goal, all: &[Goal]) -> Vec<&'a Finding> {
    let here = |instance: &&Instance| {
        let asks = need::page_size(ask.host, instance) == Some(goal.page_size);
        let mut sized = ask.sized().filter(|(_, sized)| sized.page_size == goal.page_size);
        asks && sized.any(|(of, _)| std::ptr::eq(of, *instance))
    };
    let codes = |instance: &Instance| {
        let wrong_size = if need::cannot_do_with_default(ask.host, instance) { None } else { Some("HW405") };
        ["HW201", "HW204"].into_iter().chain(wrong_size)
    };
    let instances = ask.instances.iter().filter(here);
    let mut found: Vec<&Finding> =
        instances.flat_map(|instance| codes(instance).filter_map(|code| ask.found(code, instance))).collect();
    if goal.not_now.is_none() {
        found.extend(short_of_request(ask, goal, all));
    }
    found
}

/// HW207, where this is the only pool that is short of what the files ask for, gets it, and no other falls short by
/// what it gives back.
fn short_of_request<'a>(ask: &Ask<'a>, goal: &Goal, all: &[Goal]) -> Option<&'a Finding> {
    let mut findings = ask.findings("HW207");
    let (first, more) = (findings.next()?, findings.next());
    let asked = |page: PageSize| boot::pool(ask.host, page).ok()?.last().map(|step| PageCount(step.value));
    let own = asked(goal.page_size)?;
    let falls_short = |other: &Goal| other.goal < other.now && asked(other.page_size).is_some_and(|it| it > other.goal);
    (more.is_none() && own > goal.now && own <= goal.goal && !all.iter().any(falls_short)).then_some(first)
}
