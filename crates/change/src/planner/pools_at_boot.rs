//! Pools of the next boot: sysctl.d for the size that is the default now and then, tmpfiles.d for
//! others and for nodes, the kernel's command line where memory must not be in use yet.

use hugewise_diagnose::boot::CrowdingPool;
use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::{self, Obstacle, predict_next_start};
use hugewise_diagnose::wording;
use hugewise_diagnose::{Missing, boot, demand};
use hugewise_host::Source;
use hugewise_host::source::OverlaySource;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{Bytes, Host, Instance, Observed, PageCount, PageSize, Pool, Remedy};

use super::boot_files::write_boot_files;
use super::boot_loader::reserve_early;
use super::draft::{Draft, Drafted, PlanPart, PlannedPoolGoal, Whom};
use super::{PlanRequest, owned_files};
use crate::plan::{EffectTime, PlannedBootPool, Risk, Step};

/// A pool whose size at the next boot has to change.
pub(super) struct BootPoolChange {
    pub(super) goal: PlannedPoolGoal,
    pub(super) pages: PageCount,
}

pub(super) fn plan_boot_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if ask.options.boot {
        drop_misread_setting(ask, draft);
    }
    if let Some(why) = explain_other_default(ask) {
        draft.add_warning(why);
        return warn_unplanned_boot(ask, draft);
    }
    let crowding = boot::predict_crowding(&boot::with_files(ask.host, &draft.after)).ok().flatten();
    let crowding = crowding.map(|crowding| crowding.parts).unwrap_or_default();
    let (mut changes, mut total) = (Vec::new(), Bytes::ZERO);
    for goal in draft.pools.clone() {
        let part = crowding.iter().find(|part| part.page_size == goal.page_size);
        let (memory, change) = plan_boot_pool(ask, draft, goal, part);
        total += memory;
        changes.extend(change);
    }
    if let Some(why) = explain_excess(ask, total) {
        // Nothing relies on what such a boot brings.
        draft.add_warning(why);
        warn_unplanned_boot(ask, draft);
        draft.at_boot.clear();
        draft.pools.iter_mut().for_each(|goal| goal.at_boot = false);
        return;
    }
    let entry = if changes.is_empty() { None } else { add_boot_steps(ask, draft, &changes) };
    for goal in &mut draft.pools {
        goal.is_sure = !ask.host.is_gigantic(goal.page_size)
            || early_reserved_pages(ask, entry.as_ref(), goal.page_size) >= goal.needed;
    }
}

/// With the memory that the pool takes then. `part` is set where all together take too much.
fn plan_boot_pool(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    goal: PlannedPoolGoal,
    part: Option<&CrowdingPool>,
) -> (Bytes, Option<BootPoolChange>) {
    let page = goal.page_size;
    let needed = goal.needed > PageCount::ZERO;
    let Some(next) = find_next_pages(ask, draft, page, needed) else { return (Bytes::ZERO, None) };
    // More pages would go to a server that has too few now, and another one would lack them.
    if ask.short.contains(&page) && !goal.grows() && next > PageCount::ZERO {
        draft.explained.insert(Remedy::KeepAtBoot(page));
        if ask.options.boot {
            draft.add_warning(format!(
                "the {page} pool of the next boot stays as it is: more pages, and fewer than all \
                 need, would go to servers that find too few now, and others would lack them"
            ));
        }
        return (Bytes::ZERO, None);
    }
    let wanted = goal.pages_at_boot(ask.host, ask.instances);
    let planned = ask.options.boot && (needed || goal.goal != goal.now);
    let change = goal.find_boot_change(ask.host, ask.instances, next, part).filter(|_| planned);
    let is_written = boot::is_written(ask.host, page);
    if planned && !is_written {
        let pages = change.unwrap_or(wanted.max(next)).get();
        draft.at_boot.push(PlannedBootPool { page_size: page, pages });
    }
    let early = part.filter(|part| part.early).map(|part| part.pages);
    let left = change.unwrap_or(next).max(early.unwrap_or_default());
    let memory = left.to_bytes(page);
    if change.is_some() || next < wanted {
        return (memory, change.map(|pages| BootPoolChange { goal, pages }));
    }
    mark_at_boot(ask, draft, page);
    if is_written {
        draft.settled.push((Remedy::KeepAtBoot(page), Whom::Everybody));
    }
    let is_late =
        ask.host.is_gigantic(page) && needed && early_reserved_pages(ask, None, page) < goal.needed;
    (memory, (planned && is_late).then_some(BootPoolChange { goal, pages: next }))
}

/// `None` where that is not known, with a warning for a pool that is needed.
fn find_next_pages(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    page: PageSize,
    needed: bool,
) -> Option<PageCount> {
    match predict_boot_pool(ask, &draft.after, None, page) {
        Ok(steps) => Some(steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value))),
        Err(missing) => {
            if needed {
                draft.add_warning(format!(
                    "the {page} pool of the next boot stays as it is: {missing}"
                ));
            }
            None
        }
    }
}

/// Why nothing is planned, where servers will take pages of another size than planned.
fn explain_other_default(ask: &PlanRequest<'_>) -> Option<String> {
    // Whoever is planned pages of that very size takes what is planned for it.
    let other_size = |instance: &Instance| {
        let planned = ask.planned_page_size(instance);
        let takes =
            planned.is_some() || predict_next_start(ask.host, instance).asks_for_huge_pages();
        prediction::other_default(ask.host, instance).filter(|size| takes && planned != Some(*size))
    };
    let others = ask.instances.iter().map(|instance| (instance, other_size(instance)));
    let others: Vec<_> = others.filter_map(|(instance, size)| Some((instance, size?))).collect();
    let (_, default) = others.first()?;
    let titles: Vec<String> = others.iter().map(|(instance, _)| instance.title()).collect();
    Some(format!(
        "no pool is planned for the next boot, nor anything that relies on it: its default size is \
         {default}, and {} will take such pages, as their settings name no size; remove \
         default_hugepagesz= from its command line and plan again, or plan after that boot",
        wording::join_names(&titles)
    ))
}

/// Warns of what such a boot leaves servers; nobody is told to set a pool by hand then.
fn warn_unplanned_boot(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let stays = |instance: &&Instance| {
        ask.is_chosen(instance) && prediction::other_default(ask.host, instance).is_none()
    };
    for instance in ask.instances.iter().filter(stays).filter(|_| ask.options.boot) {
        let Some(boot) = ask.boot_forecast(instance) else { continue };
        let what = match (&boot.coverage, boot.obstacle) {
            (Coverage::DoesNotStart, Some(Obstacle::Pages)) => "does not start",
            (Coverage::None | Coverage::Partly, Some(Obstacle::Pages)) => "lacks huge pages",
            (Coverage::Unknown, Some(Obstacle::Pages | Obstacle::Strangers) | None) => {
                "may lack huge pages"
            }
            _ => continue,
        };
        if let Some(why) = &boot.why {
            draft.add_warning(format!("{} {what} at that boot: {why}", instance.title()));
        }
    }
    // What asks for too many is a person's to lower: nobody needs it.
    let is_left = |page: &PageSize| boot::find_crowding_of(ask.host, *page).is_none();
    let pages = draft.pools.iter().map(|goal| goal.page_size).filter(is_left);
    draft.explained.extend(pages.map(Remedy::KeepAtBoot));
}

/// Why nothing is planned, where all pools take more than the host can carry and lives with.
fn explain_excess(ask: &PlanRequest<'_>, pools: Bytes) -> Option<String> {
    let memory =
        ask.host.memory.total.get().filter(|_| ask.options.boot && !ask.options.overrule)?;
    let now: Bytes = ask.host.pools.as_known()?.iter().filter_map(Pool::memory_bytes).sum();
    let is_excess = pools > demand::largest_pools(memory) && pools > now;
    is_excess.then(|| {
        format!(
            "no pool is planned for the next boot, nor anything that relies on it: together the \
             pools would take {pools} of {memory}; first lower what asks for too many"
        )
    })
}

/// A large pool that a file asks for late in the boot may come out short.
fn warn_late_reservation(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    change: &BootPoolChange,
    entry: Option<&BootEntry>,
) {
    let (page, pages) = (change.goal.page_size, change.pages);
    let part = ask.host.memory.total.get().and_then(|memory| pages.to_bytes(page).part_of(memory));
    let is_large = part.is_some_and(|part| part >= boot::LARGE_PART);
    if early_reserved_pages(ask, entry, page) < pages && (ask.host.is_gigantic(page) || is_large) {
        draft.add_warning(format!(
            "the {} {} asked for late in the boot and may come out fewer: the kernel's command \
             line takes them first{}",
            pages.in_pages_of(page),
            pages.linking_verb(),
            if ask.options.early { "" } else { " (--early)" }
        ));
    }
}

pub(super) fn early_reserved_pages(
    ask: &PlanRequest<'_>,
    entry: Option<&BootEntry>,
    page: PageSize,
) -> PageCount {
    let early = match entry {
        Some(_) => boot::reserved_early(&host_at_boot(ask, ask.source, entry), page),
        None => boot::reserved_early(ask.host, page),
    };
    early.map(|(pages, _)| pages).unwrap_or_default()
}

pub(super) fn host_at_boot(
    ask: &PlanRequest<'_>,
    files: &dyn Source,
    entry: Option<&BootEntry>,
) -> Host {
    let mut host = boot::with_files(ask.host, files);
    if let Some(entry) = entry {
        host.configuration.boot = Observed::Known(entry.clone());
    }
    host
}

/// Returns the boot loader's entry, where the steps change it.
fn add_boot_steps(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    changes: &[BootPoolChange],
) -> Option<BootEntry> {
    let entry = reserve_early(ask, draft, changes);
    write_boot_files(ask, draft, changes, entry.as_ref());
    for change in changes {
        warn_late_reservation(ask, draft, change, entry.as_ref());
        let page = change.goal.page_size;
        let by_hand = draft.pool_goal(page).is_some_and(|goal| goal.by_hand);
        // What a person is told to type is tried like what the steps write.
        let steps = predict_boot_pool(ask, &draft.with_typed_files(), entry.as_ref(), page);
        let steps = steps.unwrap_or_default();
        match steps.last().map(|step| (PageCount(step.value), &step.place)) {
            Some((pages, _)) if pages == change.pages && by_hand => {}
            Some((pages, _)) if pages == change.pages => mark_at_boot(ask, draft, page),
            Some((pages, _)) if pages < change.pages && by_hand => {}
            Some((pages, place)) => {
                // More than are to be there are enough for whoever relies on them.
                if pages > change.pages {
                    mark_at_boot(ask, draft, page);
                }
                // Once is enough: nobody is told to set it who is told what is in the way.
                let title = format!(
                    "remove {place}, which has the last word on the {page} pool of the next boot"
                );
                let lines = ["# and plan again: hugewise plan".to_owned()];
                let remedy = Remedy::KeepAtBoot(page);
                draft.instruct_for(remedy, title, &lines, Risk::Safe, None);
            }
            // Why was said.
            None if boot::find_ignored_files(ask.host, "tmpfiles.d").is_some() => {}
            None => explain_missing_boot_pool(ask, draft, change),
        }
    }
    carry_boot_remedies(ask, draft, changes);
    entry
}

fn explain_missing_boot_pool(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    change: &BootPoolChange,
) {
    let page = change.goal.page_size;
    match boot::overruling::find_overruling(ask.host, page, change.pages) {
        Ok(Some(why)) => draft.leave_undone(
            Remedy::KeepAtBoot(page),
            format!("the next boot does not bring the {page} pool: {why}, and plan again"),
        ),
        _ => draft.add_warning(format!("the {page} pool of the next boot stays as it is")),
    }
}

/// Whether `vm.nr_hugepages` counts pages of one size now and at the next boot.
fn keeps_default_size(ask: &PlanRequest<'_>) -> bool {
    boot::default_size(ask.host) == ask.host.default_huge_page.get()
}

/// Otherwise the size's own files are written: they mean it whatever the default is.
pub(super) fn is_default_size(ask: &PlanRequest<'_>, page: PageSize) -> bool {
    keeps_default_size(ask) && ask.host.default_huge_page.get() == Some(page)
}

/// The next boot counts pages of another size by it than it was written for.
fn drop_misread_setting(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let path = owned_files::SYSCTL_POOL;
    if let Some(page) = boot::default_size(ask.host).filter(|_| !keeps_default_size(ask))
        && let Some(text) = owned_files::sysctl_without(&draft.after, path, "vm.nr_hugepages")
        && let Some(change) = draft.write(path, &text)
    {
        let title = format!("no {page} pages at each boot from a number meant for another size");
        let why = format!("vm.nr_hugepages counts pages of {page} at the next boot");
        let step = Step::new("pools-default-size", title, Risk::Safe, why);
        draft.add_step(Drafted::for_part(PlanPart::MisreadPools, step).with_change(change));
    }
}

/// Nothing relies on what something else writes too.
fn mark_at_boot(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, page: PageSize) {
    if boot::is_written(ask.host, page) {
        return;
    }
    if let Some(goal) = draft.pool_goal_mut(page) {
        goal.at_boot = true;
    }
}

pub(super) fn predict_boot_pool(
    ask: &PlanRequest<'_>,
    files: &OverlaySource<'_>,
    entry: Option<&BootEntry>,
    page: PageSize,
) -> Result<Vec<boot::BootStep<u64>>, Missing> {
    boot::pool_of_files(&host_at_boot(ask, files, entry), page)
}

fn carry_boot_remedies(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, changes: &[BootPoolChange]) {
    let goals: Vec<PlannedPoolGoal> =
        draft.pools.iter().filter(|goal| goal.at_boot).cloned().collect();
    let Some(step) = draft.steps.iter_mut().rev().find(|step| step.part == PlanPart::PoolsAtBoot)
    else {
        return;
    };
    let pages = changes.iter().map(|change| change.goal.page_size);
    for page in pages.filter(|page| boot::is_written(ask.host, *page)) {
        step.carry_remedy(Remedy::KeepAtBoot(page), EffectTime::Now);
    }
    for goal in goals {
        let page = goal.page_size;
        step.carry_remedy(Remedy::KeepAtBoot(page), EffectTime::Now);
        if goal.not_now.is_some() {
            step.carry_for(Remedy::SetPool(page), EffectTime::Reboot, ask.ids_on(page));
        }
    }
}
