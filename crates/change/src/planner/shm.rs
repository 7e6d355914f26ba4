//! System V shared memory: who may have huge pages of it, and how much of it there may be.

use hugewise_advice::boot::{self, ShmLimit};
use hugewise_advice::demand;
use hugewise_advice::permission::{self, Memlock, Right};
use hugewise_advice::situation::{Obstacle, starting, to_come};
use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Asked, Bytes, HugePageUse, Instance, Observed, PageCount, PageSize, Remedy};

use super::draft::{Draft, Drafted};
use super::sysctl::{Setting, set};
use super::{Ask, commands, ours, pools_at_boot};
use crate::plan::{Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    group(ask, draft);
    limits(ask, draft);
}

/// Servers of the plan that take System V memory.
pub(super) fn takes_sysv<'a>(ask: &Ask<'a>) -> impl Iterator<Item = &'a Instance> {
    let (ask, instances) = (*ask, ask.instances);
    instances.iter().filter(move |instance| {
        if instance.mechanism != Mechanism::SysvShm || !ask.is_chosen(instance) {
            return false;
        }
        // One that its files put under AMM has no use for any of it from its next start on.
        let cannot = instance.next.known().is_some_and(|next| next.asked == Asked::Cannot);
        let told = || has_finding(&ask, instance) && !cannot;
        is_sized(&ask, instance) || told()
    })
}

/// Whether pages are planned for a server, or there for it: with the right to them alone it would take those of others.
pub(super) fn has_pages(ask: &Ask<'_>, draft: &Draft<'_>, instance: &Instance) -> bool {
    // At the boot as well, for all that will ask by then: with what this plan has it bring.
    let at_boot = |page| {
        let mut after = boot::with_files(ask.host, &draft.after);
        if let Some(entry) = &draft.entry {
            after.configuration.boot = Observed::Known(entry.clone());
        }
        boot::pool(&after, page).ok()?.last().map(|step| PageCount(step.value))
    };
    let is_kept = |page| {
        let claim =
            ask.assessment.situation.claim(page).map(|claim| claim.pages.saturating_sub(leaving(ask, draft, page)));
        claim.zip(at_boot(page)).is_some_and(|(claim, pool)| claim <= pool)
    };
    let share = ask.assessment.situation.share(instance);
    let has_all = instance.huge_pages == HugePageUse::All;
    let is_there = || match share {
        // What it has now the boot brings for those who have the right to it.
        None => has_all && demand::page_size(ask.host, instance).is_some_and(is_kept),
        Some(share) => share.fits() && is_kept(share.page_size),
    };
    // One that will not ask takes none; nor does one more who has its pages and keeps its right.
    let boot = ask.assessment.situation.of(instance).map(|moments| &moments.boot);
    let keeps = has_all && boot.is_none_or(|boot| boot.obstacle != Some(Obstacle::Right));
    let takes = starting(ask.host, instance).asks() && !keeps;
    !takes || is_sized(ask, instance) || is_there()
}

/// Pages of a size that servers have, or would ask for, which the plan sets to another.
fn leaving(ask: &Ask<'_>, draft: &Draft<'_>, page: PageSize) -> PageCount {
    let moved = ask.sized().filter(|(it, sized)| sized.page_size != page && draft.resized.contains(&it.id()));
    moved.map(|(it, _)| demand::held(it, page) + to_come(ask.host, it, page)).sum()
}

/// The group for servers whose pages are those of others until these are set to another size.
pub(super) fn after_settings(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    const ID: &str = "shm-group";
    if draft.resized.is_empty() || draft.steps.iter().any(|step| step.id == ID) {
        return;
    }
    let moves = draft.steps.iter().filter(|step| step.of.as_ref().is_some_and(|of| draft.resized.contains(of)));
    let moves: Vec<String> = moves.map(|step| step.id.clone()).collect();
    group(ask, draft);
    draft.steps.iter_mut().filter(|step| step.id == ID).for_each(|step| step.relies_on.extend(moves.iter().cloned()));
}

fn is_sized(ask: &Ask<'_>, instance: &Instance) -> bool {
    ask.sized().any(|(of, _)| std::ptr::eq(of, instance))
}

fn has_finding(ask: &Ask<'_>, instance: &Instance) -> bool {
    let id = instance.id();
    let about = ask.assessment.findings.iter().filter(|finding| finding.instance.as_ref() == Some(&id));
    about
        .flat_map(|finding| &finding.remedies)
        .any(|remedy| matches!(remedy, Remedy::RaiseMemlock(_) | Remedy::SetGroup(_) | Remedy::SetShmLimits))
}

fn group(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if matches!(permission::memlock(ask.host), Memlock::Buys(_)) {
        return keep_group(ask, draft);
    }
    let page = ask.host.default_huge_page.get();
    let mut lacking = Vec::new();
    let lacks = |instance: &&Instance| instance.huge_pages != HugePageUse::All || loses_right(ask, instance);
    let with_pages: Vec<&Instance> = takes_sysv(ask).filter(lacks).filter(|it| has_pages(ask, draft, it)).collect();
    for instance in with_pages {
        match permission::without_memlock(ask.host, instance) {
            Right::Has(_) => {}
            Right::Lacks(_) => lacking.push(instance),
            Right::Unknown(what) => draft.leave(
                Remedy::SetGroup(instance.id()),
                format!("hugewise cannot tell whether {} may use System V huge pages ({what}): vm.hugetlb_shm_group stays as it is",
                instance.title()),
            ),
        }
    }
    let Some(first) = lacking.first().copied() else { return keep_group(ask, draft) };
    // With the right it would take the pages of others at a boot that does not bring enough for all.
    if ask.options.boot && page.is_some_and(|page| !pools_at_boot::may_ask(draft, first, page)) {
        return;
    }
    let title = format!("let {} use System V huge pages", first.owner);
    let group = match ask.host.kernel_settings.hugetlb_shm_group.get() {
        Some(0) => permission::to_give(ask.host, &lacking),
        Some(_) => {
            for instance in &lacking {
                let lines = commands::permit(ask.host, instance);
                let remedy = Remedy::SetGroup(instance.id());
                draft.instruct_for(remedy, title.clone(), &lines, Risk::Restart, Some(instance));
            }
            return;
        }
        None => None,
    };
    let Some(group) = group else {
        let lines = commands::permit(ask.host, first);
        draft.instruct_for(Remedy::SetGroup(first.id()), title, &lines, Risk::Restart, Some(first));
        return;
    };
    let name = ask.host.accounts.groups.get(&group).map_or_else(|| group.to_string(), |group| group.name.clone());
    let why = format!("the kernel requires a group (or CAP_IPC_LOCK), and {} is in {name}", first.owner);
    let title = format!("vm.hugetlb_shm_group = {group} ({name})");
    let mut step = Drafted::from(Step::new("shm-group", title, Risk::Restart, why));
    for instance in &lacking {
        if permission::groups(ask.host, instance).contains(&group) {
            step.carry(Remedy::SetGroup(instance.id()), ask.at_once());
        } else {
            draft.leave(
                Remedy::SetGroup(instance.id()),
                format!(
                    "vm.hugetlb_shm_group takes one group, and {} is not in {name}: add it with usermod -aG",
                    instance.owner
                ),
            );
        }
    }
    let settings = [Setting { key: "vm.hugetlb_shm_group", value: group.to_string(), holds_now: false }];
    let step = set(ask, draft, step, ours::SYSCTL_SHM_GROUP, &settings);
    draft.step(step);
}

/// Whether a server that has huge pages has no right to them any more at its next restart.
pub(super) fn loses_right(ask: &Ask<'_>, instance: &Instance) -> bool {
    let restart = ask.assessment.situation.of(instance).map(|moments| &moments.restart);
    restart.is_some_and(|restart| restart.obstacle == Some(Obstacle::Right))
}

/// A group that servers have their right by, and that the next boot would take back.
fn keep_group(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let loses = |instance: &&Instance| {
        let boot = ask.assessment.situation.of(instance).map(|moments| &moments.boot);
        boot.is_some_and(|boot| boot.obstacle == Some(Obstacle::Right))
    };
    let group = ask.host.kernel_settings.hugetlb_shm_group.get().filter(|group| *group != 0);
    let losing: Vec<&Instance> = takes_sysv(ask).filter(loses).filter(|it| has_pages(ask, draft, it)).collect();
    let (Some(group), Some(first)) = (group, losing.first()) else { return };
    // System V segments are of the default size of that boot.
    let page = boot::default_size(ask.host);
    if !page.is_none_or(|page| pools_at_boot::may_ask(draft, first, page)) {
        return;
    }
    if !permission::may_be_given(ask.host, group) {
        return;
    }
    let name = ask.host.accounts.groups.get(&group).map_or_else(|| group.to_string(), |group| group.name.clone());
    let why = format!("it gives {} the right to huge pages, and the next boot sets another", first.title());
    let title = format!("vm.hugetlb_shm_group = {group} ({name}) at each boot");
    let mut step = Drafted::from(Step::new("shm-group", title, Risk::Safe, why));
    for instance in &losing {
        step.carry(Remedy::SetGroup(instance.id()), When::Reboot);
    }
    let settings = [Setting { key: "vm.hugetlb_shm_group", value: group.to_string(), holds_now: true }];
    let step = set(ask, draft, step, ours::SYSCTL_SHM_GROUP, &settings);
    draft.step(step);
}

fn limits(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let segments = takes_sysv(ask).flat_map(|instance| &instance.segments);
    let sizes: Vec<Bytes> =
        segments.filter(|segment| segment.kind == SegmentKind::SystemV).map(|segment| segment.size).collect();
    let planned = ask.sizing.map(|sizing| &sizing.limits);
    if takes_sysv(ask).next().is_none() {
        return;
    }
    let settings = &ask.host.kernel_settings;
    let mut wanted = Vec::new();
    let largest = sizes.iter().copied().max().max(planned.and_then(|limits| limits.shmmax.needed)).unwrap_or_default();
    match &settings.shmmax {
        Observed::Known(now) if *now < largest => {
            let value = ShmLimit::Largest.with_room(largest.get()).to_string();
            wanted.push(Setting { key: "kernel.shmmax", value, holds_now: false });
        }
        Observed::Known(now) => wanted.extend(kept(ask, draft, ShmLimit::Largest, largest.get(), now.get())),
        other => unknown(draft, "kernel.shmmax", &other.reason().unwrap_or_default()),
    }
    let base = ask.host.base_page.get();
    let all: Option<u64> =
        base.map(|base| sizes.iter().fold(0, |sum, size| base.pages_for(*size).get().saturating_add(sum)));
    let pages = all.max(planned.and_then(|limits| limits.shmall_pages.needed)).unwrap_or_default();
    match &settings.shmall_pages {
        Observed::Known(now) if *now < pages => {
            let value = ShmLimit::All.with_room(pages).to_string();
            wanted.push(Setting { key: "kernel.shmall", value, holds_now: false });
        }
        Observed::Known(now) => wanted.extend(kept(ask, draft, ShmLimit::All, pages, *now)),
        other => unknown(draft, "kernel.shmall", &other.reason().unwrap_or_default()),
    }
    let number = u64::try_from(ask.host.sysv_segments.known().map_or(sizes.len(), Vec::len)).unwrap_or(u64::MAX);
    match settings.shmmni.get() {
        Some(now) if now < number => {
            let value = ShmLimit::Number.with_room(number).to_string();
            wanted.push(Setting { key: "kernel.shmmni", value, holds_now: false });
        }
        Some(now) => wanted.extend(kept(ask, draft, ShmLimit::Number, number, now)),
        None => {}
    }
    if wanted.is_empty() {
        return;
    }
    let names: Vec<String> = wanted.iter().map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
    let why = "shmget refuses larger segments: the server splits its memory or does not start";
    let mut step = Drafted::from(Step::new("shm-limits", names.join(", "), Risk::Safe, why));
    step.carry(Remedy::SetShmLimits, ask.at_once());
    let step = set(ask, draft, step, ours::SYSCTL_SHM_LIMITS, &wanted);
    draft.step(step);
}

/// A limit that does as it is now, and that the next boot would lower below what is needed, or may, as it is in no file.
fn kept(ask: &Ask<'_>, draft: &Draft<'_>, limit: ShmLimit, needed: u64, now: u64) -> Option<Setting> {
    let after = boot::with_files(ask.host, &draft.after);
    let falls_short = boot::shm_limit(&after, limit)
        .map_or_else(|_| boot::shm_limit_is_by_hand(&after, limit), |at_boot| at_boot < needed);
    let keep = ask.options.boot && falls_short;
    keep.then(|| Setting { key: limit.key(), value: now.to_string(), holds_now: true })
}

fn unknown(draft: &mut Draft<'_>, what: &str, reason: &str) {
    draft.warn(format!("{what} stays as it is: {reason}"));
}

/// Whether a server that takes System V memory gets the right to huge pages by this plan, or has it.
pub(super) fn is_big(instance: &Instance) -> bool {
    instance.segment_bytes() >= demand::BIG_SEGMENT
}
