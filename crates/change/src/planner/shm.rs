//! System V shared memory: who may have huge pages of it, and how much of it there may be.

use hugewise_diagnose::boot::{self, ShmLimit};
use hugewise_diagnose::permission::{self, HugePageRight, MemlockEffect};
use hugewise_diagnose::prediction::{Obstacle, predict_next_start, to_come};
use hugewise_diagnose::{demand, ipc_privileges};
use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{
    Bytes, HugePageMode, HugePageUse, Instance, Observed, PageCount, PageSize, Remedy,
};

use super::draft::{Draft, Drafted, PlanPart};
use super::sysctl::{PlannedSysctl, set_sysctls};
use super::{PlanRequest, commands, owned_files, pools_at_boot};
use crate::plan::{EffectTime, Risk, Step};

pub(super) fn plan_shm(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    plan_shm_group(ask, draft);
    plan_shm_limits(ask, draft);
}

pub(super) fn sysv_servers<'a>(ask: &PlanRequest<'a>) -> impl Iterator<Item = &'a Instance> {
    let (ask, instances) = (*ask, ask.instances);
    instances.iter().filter(move |instance| {
        if instance.mechanism != Mechanism::SysvShm || !ask.is_chosen(instance) {
            return false;
        }
        // One that its files put under AMM has no use for any of it from its next start on.
        let cannot =
            instance.next.as_known().is_some_and(|next| next.asked == HugePageMode::Cannot);
        let told = || has_finding(&ask, instance) && !cannot;
        ask.sized(instance).is_some() || told()
    })
}

/// With the right alone, where no pages are planned or there, it would take those of others.
pub(super) fn has_pages(ask: &PlanRequest<'_>, draft: &Draft<'_>, instance: &Instance) -> bool {
    // At the boot as well, for all that will ask by then: with what this plan has it bring.
    let pool_at_boot = |page| {
        let after = pools_at_boot::host_at_boot(ask, &draft.after, draft.entry.as_ref());
        boot::predict_pool_steps(&after, page).ok()?.last().map(|step| PageCount(step.value))
    };
    let is_kept = |page| {
        let claim = ask.assessment.situation.claim(page);
        let claim = claim.map(|claim| claim.pages.saturating_sub(leaving_pages(ask, draft, page)));
        claim.zip(pool_at_boot(page)).is_some_and(|(claim, pool)| claim <= pool)
    };
    let share = ask.assessment.situation.share(instance);
    let has_all = instance.huge_pages == HugePageUse::All;
    let is_there = || match share {
        // What it has now the boot brings for those who have the right to it.
        None => has_all && demand::page_size(ask.host, instance).is_some_and(is_kept),
        Some(share) => share.fits() && is_kept(share.page_size),
    };
    // One that will not ask takes none; nor does one more who has its pages and keeps its right.
    let keeps = has_all
        && ask.boot_forecast(instance).is_none_or(|boot| boot.obstacle != Some(Obstacle::Right));
    let takes = predict_next_start(ask.host, instance).asks_for_huge_pages() && !keeps;
    !takes || ask.sized(instance).is_some() || is_there()
}

/// Pages of a size that servers have, or would ask for, which the plan sets to another.
fn leaving_pages(ask: &PlanRequest<'_>, draft: &Draft<'_>, page: PageSize) -> PageCount {
    let moved = ask.sized_instances().filter(|(instance, sized)| {
        sized.page_size != page && draft.resized.contains(&instance.id())
    });
    let pages = |instance| demand::pages_held(instance, page) + to_come(ask.host, instance, page);
    moved.map(|(instance, _)| pages(instance)).sum()
}

/// The group for servers whose pages are those of others until these are set to another size.
pub(super) fn plan_group_of_moved_servers(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if draft.resized.is_empty() || draft.step_of(PlanPart::ShmGroup).is_some() {
        return;
    }
    let moves = |step: &&Drafted| step.of.as_ref().is_some_and(|id| draft.resized.contains(id));
    let moves: Vec<String> = draft.steps.iter().filter(moves).map(|step| step.id.clone()).collect();
    plan_shm_group(ask, draft);
    if let Some(step) = draft.step_of(PlanPart::ShmGroup) {
        step.relies_on.extend(moves);
    }
}

fn has_finding(ask: &PlanRequest<'_>, instance: &Instance) -> bool {
    let id = instance.id();
    let about =
        ask.assessment.findings.iter().filter(|finding| finding.instance.as_ref() == Some(&id));
    about.flat_map(|finding| &finding.remedies).any(|remedy| {
        matches!(remedy, Remedy::RaiseMemlock(_) | Remedy::SetGroup(_) | Remedy::SetShmLimits)
    })
}

fn plan_shm_group(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if matches!(permission::memlock_effect(ask.host), MemlockEffect::Buys(_)) {
        return keep_shm_group(ask, draft);
    }
    let lacking = find_servers_without_right(ask, draft);
    let Some(first) = lacking.first().copied() else { return keep_shm_group(ask, draft) };
    // With the right it would take others' pages at a boot that does not bring enough for all.
    let page = ask.host.default_huge_page.get();
    if ask.options.boot && page.is_some_and(|page| !draft.may_ask(first, page)) {
        return;
    }
    let (group, by_hand) = match ask.host.kernel_settings.hugetlb_shm_group.get() {
        Some(0) => (permission::to_give(ask.host, &lacking), std::slice::from_ref(&first)),
        Some(_) => (None, lacking.as_slice()),
        None => (None, std::slice::from_ref(&first)),
    };
    let Some(group) = group else {
        for instance in by_hand {
            let title = format!("let {} use System V huge pages", first.owner);
            let lines = commands::shm_group_commands(ask.host, instance);
            let remedy = Remedy::SetGroup(instance.id());
            draft.instruct_for(remedy, title, &lines, Risk::Restart, Some(instance));
        }
        return;
    };
    let name = group_name(ask, group);
    let why =
        format!("the kernel requires a group (or CAP_IPC_LOCK), and {} is in {name}", first.owner);
    let title = format!("vm.hugetlb_shm_group = {group} ({name})");
    let step = Step::new("shm-group", title, Risk::Restart, why);
    let mut step = Drafted::for_part(PlanPart::ShmGroup, step);
    for instance in &lacking {
        let remedy = Remedy::SetGroup(instance.id());
        if permission::owner_groups(ask.host, instance).contains(&group) {
            step.carry_remedy(remedy, ask.setting_effect_time());
        } else {
            let why = format!(
                "vm.hugetlb_shm_group takes one group, and {} is not in {name}: add it with \
                 usermod -aG",
                instance.owner
            );
            draft.leave_undone(remedy, why);
        }
    }
    add_group_step(ask, draft, step, group, false);
}

/// Servers that pages are there for and that may not have them. Says of which that cannot be told.
fn find_servers_without_right<'a>(
    ask: &PlanRequest<'a>,
    draft: &mut Draft<'_>,
) -> Vec<&'a Instance> {
    let mut lacking = Vec::new();
    for instance in sysv_servers(ask) {
        let loses = ipc_privileges::loses_shm_right(&ask.assessment.situation, instance);
        let has = instance.huge_pages == HugePageUse::All && !loses;
        if has || !has_pages(ask, draft, instance) {
            continue;
        }
        match permission::without_memlock(ask.host, instance) {
            HugePageRight::Has(_) => {}
            HugePageRight::Lacks(_) => lacking.push(instance),
            HugePageRight::Unknown(what) => draft.leave_undone(
                Remedy::SetGroup(instance.id()),
                format!(
                    "hugewise cannot tell whether {} may use System V huge pages ({what}): \
                     vm.hugetlb_shm_group stays as it is",
                    instance.title()
                ),
            ),
        }
    }
    lacking
}

fn group_name(ask: &PlanRequest<'_>, group: u32) -> String {
    let named = ask.host.accounts.groups.get(&group);
    named.map_or_else(|| group.to_string(), |group| group.name.clone())
}

fn add_group_step(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    step: Drafted,
    group: u32,
    holds_now: bool,
) {
    let setting =
        PlannedSysctl { key: "vm.hugetlb_shm_group", value: group.to_string(), holds_now };
    let step = set_sysctls(ask, draft, step, owned_files::SYSCTL_SHM_GROUP, &[setting]);
    draft.add_step(step);
}

/// A group that servers have their right by, and that the next boot would take back.
fn keep_shm_group(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let loses = |instance: &&Instance| {
        ask.boot_forecast(instance).is_some_and(|boot| boot.obstacle == Some(Obstacle::Right))
    };
    let group = ask.host.kernel_settings.hugetlb_shm_group.get().filter(|group| *group != 0);
    let is_member = |instance: &&Instance| {
        group.is_some_and(|group| permission::owner_groups(ask.host, instance).contains(&group))
    };
    let losing: Vec<&Instance> = sysv_servers(ask)
        .filter(loses)
        .filter(is_member)
        .filter(|instance| has_pages(ask, draft, instance))
        .collect();
    let (Some(group), Some(first)) = (group, losing.first()) else { return };
    // System V segments are of the default size of that boot.
    let page = boot::default_size(ask.host);
    if !page.is_none_or(|page| draft.may_ask(first, page))
        || !permission::may_be_given(ask.host, group)
    {
        return;
    }
    let why = format!(
        "it gives {} the right to huge pages, and the next boot sets another",
        first.title()
    );
    let title = format!("vm.hugetlb_shm_group = {group} ({}) at each boot", group_name(ask, group));
    let step = Step::new("shm-group", title, Risk::Safe, why);
    let mut step = Drafted::for_part(PlanPart::ShmGroup, step);
    for instance in &losing {
        step.carry_remedy(Remedy::SetGroup(instance.id()), EffectTime::Reboot);
    }
    add_group_step(ask, draft, step, group, true);
}

fn plan_shm_limits(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if sysv_servers(ask).next().is_none() {
        return;
    }
    let sizes: Vec<Bytes> = sysv_servers(ask)
        .flat_map(|instance| &instance.segments)
        .filter(|segment| segment.kind == SegmentKind::SystemV)
        .map(|segment| segment.size)
        .collect();
    let planned = ask.sizing.map(|sizing| &sizing.limits);
    let settings = &ask.host.kernel_settings;
    let largest = sizes.iter().copied().max().max(planned.and_then(|limits| limits.shmmax.needed));
    let base = ask.host.base_page.get();
    let all: Option<u64> = base.map(|base| {
        sizes.iter().fold(0, |sum, size| base.pages_for(*size).get().saturating_add(sum))
    });
    let pages = all.max(planned.and_then(|limits| limits.shmall_pages.needed));
    let number = u64::try_from(ask.host.sysv_segments.as_known().map_or(sizes.len(), Vec::len))
        .unwrap_or(u64::MAX);
    let largest_now = settings.shmmax.as_ref().map(|now| now.get());
    let limits = [
        (ShmLimit::Largest, largest.unwrap_or_default().get(), largest_now),
        (ShmLimit::All, pages.unwrap_or_default(), settings.shmall_pages.clone()),
        (ShmLimit::Number, number, settings.shmmni.clone()),
    ];
    let mut wanted = Vec::new();
    for (limit, needed, now) in limits {
        match now {
            Observed::Known(now) => wanted.extend(raise_shm_limit(ask, draft, limit, needed, now)),
            _ if limit == ShmLimit::Number => {}
            unknown => draft.add_warning(format!(
                "{} stays as it is: {}",
                limit.sysctl_key(),
                unknown.reason_text().unwrap_or_default()
            )),
        }
    }
    if wanted.is_empty() {
        return;
    }
    let names: Vec<String> =
        wanted.iter().map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
    let why = "shmget refuses larger segments: the server splits its memory or does not start";
    let mut step = Drafted::from(Step::new("shm-limits", names.join(", "), Risk::Safe, why));
    step.carry_remedy(Remedy::SetShmLimits, ask.setting_effect_time());
    let step = set_sysctls(ask, draft, step, owned_files::SYSCTL_SHM_LIMITS, &wanted);
    draft.add_step(step);
}

/// A limit that is too low, or that the next boot would or may lower below what is needed.
fn raise_shm_limit(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    limit: ShmLimit,
    needed: u64,
    now: u64,
) -> Option<PlannedSysctl> {
    let key = limit.sysctl_key();
    let after = boot::with_files(ask.host, &draft.after);
    let at_boot = boot::shm_limit(&after, limit);
    if now < needed {
        // What the boot's files allow beyond it stays.
        let value = limit.with_room(needed).max(at_boot.unwrap_or_default()).to_string();
        return Some(PlannedSysctl { key, value, holds_now: false });
    }
    let falls_short = || {
        at_boot
            .map_or_else(|_| boot::shm_limit_is_by_hand(&after, limit), |at_boot| at_boot < needed)
    };
    let keep = ask.options.boot && falls_short();
    keep.then(|| PlannedSysctl { key, value: now.to_string(), holds_now: true })
}
