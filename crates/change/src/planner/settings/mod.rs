//! Servers' own settings, where a plan may change them: what each is set to, by which step.

mod setting_files;

use std::collections::BTreeSet;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::demand;
use hugewise_diagnose::target::{Insist, NotYet};
use hugewise_engines::settable::{Settable, SettingAssignment};
use hugewise_engines::{EngineKind, SettingsBy};
use hugewise_model::{HugePageMode, Instance, PageSize, Remedy};

use super::draft::{Draft, Drafted};
use super::{PlanRequest, commands, pools_at_boot, pools_now};
use crate::plan::{Change, EffectTime, Risk, Step};
use setting_files::SettingsGoal;

pub(super) fn plan_server_settings(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let insist = new_insist(ask, draft);
    let mut goals = Vec::new();
    for (instance, sized) in
        ask.sized_instances().filter(|(instance, _)| instance.pid != 0 && ask.is_chosen(instance))
    {
        let page = sized.page_size;
        let kind = EngineKind::for_engine(instance.engine);
        if let SettingsBy::Plan(settable) = kind.settings.changed_by {
            let wanted = choose_settings(ask, draft, &insist, settable, instance, page);
            if !wanted.is_empty() {
                goals.push(SettingsGoal { instance, settable, page, wanted });
            }
        }
    }
    if goals.is_empty() {
        return;
    }
    let all = setting_files::build_changes(ask, draft, &goals);
    for (server, changes) in goals.iter().zip(all) {
        match changes {
            Ok(changes) => add_setting_step(ask, draft, server, changes),
            Err(why) => instruct_settings(ask, draft, server, &why.to_string()),
        }
    }
}

pub(super) fn new_insist<'a>(ask: &PlanRequest<'a>, draft: &Draft<'_>) -> Insist<'a> {
    Insist::new(ask.target, draft.pools.iter().map(|pool| (pool.page_size, pool.goal)))
}

impl SettingsGoal<'_> {
    fn title(&self) -> String {
        let shown: Vec<String> =
            self.wanted.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!("{}: {}", self.instance.title(), shown.join(", "))
    }

    fn insists(&self) -> bool {
        let is_it = |(name, value): (&str, &str)| {
            self.wanted.iter().any(|(set, to)| *set == name && to == value)
        };
        self.settable.insists.is_some_and(is_it)
    }

    fn sets_page_size(&self, (name, _): &SettingAssignment) -> bool {
        self.settable.page_size.is_some_and(|setting| *name == setting.name)
    }
}

fn add_setting_step(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    server: &SettingsGoal<'_>,
    changes: Vec<Change>,
) {
    let SettingsGoal { instance, settable, page, wanted } = server;
    let insists = server.insists();
    let why = match instance.asked {
        HugePageMode::Try if insists => settable.why_insist.to_owned(),
        HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises => {
            format!("its pages are to be of {page}")
        }
        _ => settable.why_ask.to_owned(),
    };
    let id = format!("{}-{}", instance.engine, instance.name);
    let step = Step { changes, ..Step::new(id, server.title(), Risk::Restart, why) };
    let mut step = Drafted::from(step).for_instance(instance);
    if insists {
        step.relies_on.extend(pools_now::find_pool_step(draft, *page));
    }
    let resizes = wanted.iter().any(|pair| server.sets_page_size(pair));
    // Of one that tries, no less than that it insists is asked.
    let asks = instance.asked != HugePageMode::Try
        && !wanted.iter().all(|pair| server.sets_page_size(pair));
    if insists || asks {
        step.carry_remedy(Remedy::SetSetting(instance.id()), EffectTime::Now);
    }
    if let Some(left) = demand::page_size(ask.host, instance).filter(|_| resizes) {
        // It asks the pool that it was short of for nothing more.
        let there = draft.pool_goal(*page).is_some_and(|goal| goal.is_there());
        let when = if there { EffectTime::Now } else { EffectTime::Reboot };
        step.carry_for(Remedy::SetPool(left), when, BTreeSet::from([instance.id()]));
    }
    draft.add_step(step);
    if resizes {
        draft.resized.push(instance.id());
    }
}

fn instruct_settings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    server: &SettingsGoal<'_>,
    why: &str,
) {
    let instance = server.instance;
    let mut lines = (server.settable.by_hand)(instance, &server.wanted, why);
    if !matches!(instance.asked, HugePageMode::Try | HugePageMode::Must) {
        lines.extend(commands::restart_commands(ask.host, instance));
    }
    let setting = Remedy::SetSetting(instance.id());
    draft.instruct_for(setting, server.title(), &lines, Risk::Restart, Some(instance));
}

fn choose_settings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    insist: &Insist<'_>,
    settable: &Settable,
    instance: &Instance,
    page: PageSize,
) -> Vec<SettingAssignment> {
    let mut wanted = Vec::new();
    let setting = Remedy::SetSetting(instance.id());
    let called_for = ask.calls_for(&setting) || ask.is_asked_for(instance);
    if let Some((name, value)) =
        settable.can.filter(|_| instance.asked == HugePageMode::Cannot && called_for)
    {
        wanted.push((name, value.to_owned()));
    }
    let other_size = instance.asked_page_size.get().is_some_and(|asked| asked != page);
    if let Some(size) = settable.page_size.filter(|_| other_size) {
        if let Some(why) = explain_kept_size(ask, draft, insist, instance, page) {
            draft.add_warning(format!("{} keeps its page size: {why}", instance.title()));
            return Vec::new();
        }
        wanted.push((size.name, (size.value)(page)));
    }
    let off = matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot);
    let asks = || (settable.asks.0, settable.asks.1.to_owned());
    let Some((name, value)) = settable.insists else {
        if off && pools_at_boot::may_ask(draft, instance, page) {
            wanted.push(asks());
        } else if off {
            // Nobody is told to do by hand what may not be.
            draft.explained.insert(setting);
        }
        return wanted;
    };
    if !called_for || !(off || instance.asked == HugePageMode::Try) {
        return wanted;
    }
    match may_insist(ask, draft, insist, instance) {
        Ok(()) => wanted.push((name, value.to_owned())),
        Err(why) => {
            let title = instance.title();
            let why = format!("{title} is not set to refuse to start without huge pages: {why}");
            draft.leave_undone(setting, why);
            let (name, value) = settable.asks;
            let now = instance.setting_value(name);
            let tries = now.is_some_and(|now| now.eq_ignore_ascii_case(value));
            if off && !tries && pools_at_boot::may_ask(draft, instance, page) {
                wanted.push(asks());
            }
        }
    }
    wanted
}

fn explain_kept_size(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
    page: PageSize,
) -> Option<String> {
    if draft.pool_goal(page).is_some_and(|pool| pool.crowds) {
        // It would leave pages that it has for such as the host is not to have.
        return Some(format!("the pool gets no {page} pages for it"));
    }
    // Pages that the boot brings it now are not left for such as no boot brings.
    let has_some = ask
        .boot_forecast(instance)
        .is_some_and(|boot| matches!(boot.coverage, Coverage::All | Coverage::Partly));
    if has_some && !draft.pool_goal(page).is_some_and(|pool| pool.at_boot || pool.by_hand) {
        return Some(format!("the next boot brings no {page} pages for it"));
    }
    let why = may_insist(ask, draft, insist, instance).err()?;
    (instance.asked == HugePageMode::Must).then(|| format!("{why}, and it insists on them"))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MayNot {
    /// Somebody asked for what there is of a plan.
    #[error("its pool may fall short, and the rest of the plan goes on anyway")]
    Partial,
    #[error(transparent)]
    NotYet(#[from] NotYet),
}

/// The target's answer, with the pools as the steps leave them.
pub(super) fn may_insist(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
) -> Result<(), MayNot> {
    if ask.options.keep_partial {
        return Err(MayNot::Partial);
    }
    Ok(insist.may_insist(instance, |page| pools_at_boot::is_secured(draft, page))?)
}
