//! Servers' own settings, of the engines whose settings a plan may change: what each is to be set to, and by which step.

mod placed;

use hugewise_advice::demand;
use hugewise_advice::standing::Standing;
use hugewise_advice::target::{Insist, NotYet};
use hugewise_engines::settable::{Assignment, Settable};
use hugewise_engines::{Kind, SettingsBy};
use hugewise_model::{Asked, Instance, PageSize, Remedy};

use super::draft::{Draft, Drafted};
use super::{Ask, commands, pools_at_boot, pools_now};
use crate::plan::{Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    let insist = Insist::new(ask.target(), draft.pools.iter().map(|pool| (pool.page_size, pool.goal)));
    for (instance, sized) in ask.sized().filter(|(instance, _)| instance.pid != 0 && ask.is_chosen(instance)) {
        if let SettingsBy::Plan(settable) = Kind::of(instance.engine).settings_by {
            server(&ask, draft, &insist, settable, instance, sized.page_size);
        }
    }
}

fn server(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    insist: &Insist<'_>,
    settable: &Settable,
    instance: &Instance,
    page: PageSize,
) {
    let wanted = wanted(ask, draft, insist, settable, instance, page);
    if wanted.is_empty() {
        return;
    }
    let title = instance.title();
    let shown: Vec<String> = wanted.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let shown = shown.join(", ");
    let insists =
        settable.insists.is_some_and(|(name, value)| wanted.iter().any(|(set, to)| *set == name && to == value));
    let why = match instance.asked {
        Asked::Try if insists => settable.why_insist.to_owned(),
        Asked::Try | Asked::Must | Asked::Raises => format!("its pages are to be of {page}"),
        _ => settable.why_ask.to_owned(),
    };
    let id = format!("{}-{}", instance.engine, instance.name);
    let mut step = Drafted::from(Step::new(id, format!("{title}: {shown}"), Risk::Restart, why)).of(instance);
    if insists {
        step.relies_on.extend(pools_now::of(draft, page));
    }
    let sizes = |(name, _): &&Assignment| settable.page_size.is_some_and(|setting| *name == setting.name);
    let resized = wanted.iter().any(|it| sizes(&it));
    let setting = Remedy::SetSetting(instance.id());
    // Of one that tries, no less than that it insists is asked.
    if insists || (instance.asked != Asked::Try && !wanted.iter().all(|it| sizes(&it))) {
        step.carry(setting.clone(), When::Now);
    }
    if let Some(left) = demand::page_size(ask.host, instance).filter(|_| resized) {
        // It asks the pool that it was short of for nothing more.
        let there = draft.pool(page).is_some_and(|goal| goal.is_there());
        let when = if there { When::Now } else { When::Reboot };
        step.carry_for(Remedy::SetPool(left), when, vec![instance.id()]);
    }
    match placed::changes(ask, draft, settable, instance, &wanted) {
        Ok(changes) => {
            step.changes = changes;
            draft.step(step);
            if resized {
                draft.resized.push(instance.id());
            }
        }
        Err(why) => {
            let mut lines = (settable.by_hand)(instance, &wanted, &why.to_string());
            if !matches!(instance.asked, Asked::Try | Asked::Must) {
                lines.extend(commands::restart(ask.host, instance));
            }
            draft.instruct_for(setting, format!("{title}: {shown}"), &lines, Risk::Restart, Some(instance));
        }
    }
}

/// What a server is to be set to; nothing where its settings stay.
fn wanted(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    insist: &Insist<'_>,
    settable: &Settable,
    instance: &Instance,
    page: PageSize,
) -> Vec<Assignment> {
    let mut wanted = Vec::new();
    let setting = Remedy::SetSetting(instance.id());
    let called_for = ask.calls_for(&setting) || ask.is_asked_for(instance);
    if let Some((name, value)) = settable.can.filter(|_| instance.asked == Asked::Cannot && called_for) {
        wanted.push((name, value.to_owned()));
    }
    let other_size = instance.asked_page_size.get().is_some_and(|asked| asked != page);
    if let Some(setting) = settable.page_size.filter(|_| other_size) {
        if draft.pool(page).is_some_and(|pool| pool.crowds) {
            // It would leave pages that it has for such as the host is not to have.
            draft.warn(format!("{} keeps its page size: the pool gets no {page} pages for it", instance.title()));
            return Vec::new();
        }
        // Pages that the boot brings it now are not left for such as no boot brings.
        let boot = ask.assessment.situation.of(instance).map(|moments| &moments.boot);
        let has_some = boot.is_some_and(|boot| matches!(boot.standing, Standing::All | Standing::Partly));
        if has_some && !draft.pool(page).is_some_and(|pool| pool.at_boot || pool.by_hand) {
            draft
                .warn(format!("{} keeps its page size: the next boot brings no {page} pages for it", instance.title()));
            return Vec::new();
        }
        match may_insist(ask, draft, insist, instance) {
            Err(why) if instance.asked == Asked::Must => {
                draft.warn(format!("{} keeps its page size: {why}, and it insists on them", instance.title()));
                return Vec::new();
            }
            _ => wanted.push((setting.name, (setting.value)(page))),
        }
    }
    let off = matches!(instance.asked, Asked::No | Asked::Cannot);
    let Some((name, value)) = settable.insists else {
        if off && pools_at_boot::may_ask(draft, instance, page) {
            wanted.push((settable.asks.0, settable.asks.1.to_owned()));
        } else if off {
            // Nobody is told to do by hand what may not be.
            draft.told.insert(setting);
        }
        return wanted;
    };
    if called_for && (off || instance.asked == Asked::Try) {
        match may_insist(ask, draft, insist, instance) {
            Ok(()) => wanted.push((name, value.to_owned())),
            Err(why) => {
                draft.leave(
                    setting,
                    format!("{} is not set to refuse to start without huge pages: {why}", instance.title()),
                );
                let (name, value) = settable.asks;
                let tries = instance.setting_value(name).is_some_and(|it| it.eq_ignore_ascii_case(value));
                if off && !tries && pools_at_boot::may_ask(draft, instance, page) {
                    wanted.push((name, value.to_owned()));
                }
            }
        }
    }
    wanted
}

/// Why a server is not told to refuse a start without huge pages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MayNot {
    /// Somebody asked for what there is of a plan.
    #[error("its pool may fall short, and the rest of the plan goes on anyway")]
    Partial,
    #[error(transparent)]
    NotYet(#[from] NotYet),
}

/// Whether a server may be told to refuse a start without huge pages: the target's answer, with the pools as the steps
/// leave them.
///
/// # Errors
/// Why not, or not yet.
pub(super) fn may_insist(
    ask: &Ask<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
) -> Result<(), MayNot> {
    if ask.options.keep_partial {
        return Err(MayNot::Partial);
    }
    Ok(insist.may(instance, |page| pools_at_boot::is_secured(draft, page))?)
}
