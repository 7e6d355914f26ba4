//! Pools of the next boot: sysctl.d for the size that is the default now and then, tmpfiles.d for others and for nodes, and the
//! kernel's command line where pages have to be reserved before memory is in use.

use hugewise_advice::words::pool_file;
use hugewise_advice::{boot, demand};
use hugewise_host::Door;
use hugewise_host::config::tmpfiles;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{Instance, Observed, PageCount, PageSize, Remedy};

use super::boot_loader::{self, Reserved};
use super::draft::{Draft, Drafted};
use super::overlay::Overlay;
use super::pools::{self, Goal};
use super::{Ask, ours};
use crate::plan::{Change, FileChange, PoolAtBoot, Risk, Step, When};

/// Pages of the default size.
const SETTING: &str = "/proc/sys/vm/nr_hugepages";

/// A pool that the next boot has to be told of.
struct Due {
    goal: Goal,
    /// Pages that the next boot is to bring.
    pages: PageCount,
}

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let misread = if ask.options.boot { without_misread(ask, draft) } else { None };
    let mut due = Vec::new();
    for at in 0..draft.pools.len() {
        let Some(goal) = draft.pools.get(at).cloned() else { continue };
        let page = goal.page_size;
        let next = match steps(ask, &draft.after, None, page) {
            Ok(steps) => steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value)),
            Err(missing) => {
                if goal.needed > PageCount::ZERO {
                    draft.warn(format!("the {page} pool of the next boot is left as it is: {missing}"));
                }
                continue;
            }
        };
        let pages = wanted(ask, &goal);
        let gives_back = ask.options.boot && goal.goal < goal.now;
        if ask.options.boot && (goal.needed > PageCount::ZERO || goal.goal != goal.now) {
            let pages = if next > pages && !gives_back { next } else { pages };
            draft.at_boot.push(PoolAtBoot { page_size: page, pages: pages.get() });
        }
        if next == pages || (next > pages && !gives_back) {
            set_at_boot(draft, page);
        } else if ask.options.boot && (goal.needed > PageCount::ZERO || goal.goal != goal.now) {
            due.push(Due { goal, pages });
        }
    }
    if due.is_empty() && misread.is_none() {
        return;
    }
    let entry = command_line(ask, draft, &due);
    files(ask, draft, &due, entry.as_ref(), misread);
    let settled = |draft: &Draft<'_>, due: &Due| {
        let steps = steps(ask, &draft.after, entry.as_ref(), due.goal.page_size).unwrap_or_default();
        steps.last().map(|step| (PageCount(step.value) == due.pages, step.place.clone()))
    };
    for due in &due {
        match settled(draft, due) {
            Some((true, _)) => set_at_boot(draft, due.goal.page_size),
            Some((false, place)) => draft.warn(format!(
                "{place} has the last word on the {} pool of the next boot; take that line out and plan again",
                due.goal.page_size
            )),
            None => draft.warn(format!("the {} pool of the next boot is left as it is", due.goal.page_size)),
        }
    }
    carry(ask, draft);
}

/// Whether `vm.nr_hugepages` counts pages of one size now and at the next boot.
fn default_stays(ask: &Ask<'_>) -> bool {
    boot::default_size(ask.host) == ask.host.default_huge_page.get()
}

/// Whether settings of /proc/sys mean pages of this size now and at the next boot too. Otherwise its own files are written:
/// they mean it whatever the default is.
pub(super) fn is_default(ask: &Ask<'_>, page: PageSize) -> bool {
    default_stays(ask) && ask.host.default_huge_page.get() == Some(page)
}

/// Takes `vm.nr_hugepages` out of a file of ours where the next boot counts pages of another size by it than the one that it
/// was written for.
fn without_misread(ask: &Ask<'_>, draft: &mut Draft<'_>) -> Option<FileChange> {
    if default_stays(ask) {
        return None;
    }
    let text = ours::sysctl_without(&draft.after, ours::SYSCTL_POOL, "vm.nr_hugepages")?;
    draft.write(ours::SYSCTL_POOL, &text)
}

fn set_at_boot(draft: &mut Draft<'_>, page: PageSize) {
    for goal in draft.pools.iter_mut().filter(|goal| goal.page_size == page) {
        goal.at_boot = true;
    }
}

/// Pages that the next boot should bring: what is there afterwards.
fn wanted(ask: &Ask<'_>, goal: &Goal) -> PageCount {
    // Surplus pages that servers hold are gone with the next boot, and have to be had again on demand.
    let held: PageCount = ask.instances.iter().map(|instance| demand::held(instance, goal.page_size)).sum();
    let on_demand = ask.host.pool(goal.page_size).and_then(|pool| pool.overcommit.get()).unwrap_or_default();
    if on_demand > PageCount::ZERO { goal.goal } else { goal.goal.max(held) }
}

/// What sets the pool of one page size at the next boot, in order, with these files and this entry of the boot loader.
fn steps(
    ask: &Ask<'_>,
    files: &Overlay<'_>,
    entry: Option<&BootEntry>,
    page: PageSize,
) -> Result<Vec<boot::Step<u64>>, String> {
    let mut host = boot::with_files(ask.host, files);
    if let Some(entry) = entry {
        host.configuration.boot = Observed::Known(entry.clone());
    }
    boot::pool(&host, page).map_err(|missing| missing.to_string())
}

/// Reserves on the kernel's command line what is surest there; gives the entry that the next boot then has.
fn command_line(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due]) -> Option<BootEntry> {
    let early = |due: &&Due| {
        let shrinks = due.goal.goal < due.goal.now;
        let surest_there = pools::is_gigantic(due.goal.page_size) && !shrinks;
        due.pages > PageCount::ZERO && (ask.options.early || surest_there)
    };
    let reserved: Vec<Reserved> = due
        .iter()
        .filter(early)
        .map(|due| Reserved { page_size: due.goal.page_size, pages: due.pages, nodes: uneven(&due.goal) })
        .collect();
    // A size that others name already is theirs to change, and keeps no other size back.
    let (theirs, free): (Vec<_>, Vec<_>) =
        reserved.into_iter().partition(|it| boot_loader::is_named(ask, it.page_size));
    reserve(ask, draft, &theirs);
    reserve(ask, draft, &free)
}

fn reserve(ask: &Ask<'_>, draft: &mut Draft<'_>, wanted: &[Reserved]) -> Option<BootEntry> {
    if wanted.is_empty() {
        return None;
    }
    match boot_loader::reserve(ask, draft, wanted) {
        Ok(entry) => Some(entry),
        Err(by_hand) => {
            let sizes: Vec<String> = wanted.iter().map(|it| it.page_size.to_string()).collect();
            let title = format!("reserve the pages of {} on the kernel's command line", sizes.join(" and "));
            draft.instruct(title, &by_hand, Risk::Reboot, None);
            None
        }
    }
}

/// Pages by node where the kernel's even spread is not what is wanted.
fn uneven(goal: &Goal) -> Vec<(u32, PageCount)> {
    let counts = || goal.nodes.iter().map(|(_, _, pages)| pages.get());
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if most - least > 1 => {
            goal.nodes.iter().map(|(node, _, pages)| (*node, *pages)).collect()
        }
        _ => Vec::new(),
    }
}

/// Files for the pools that the command line does not bring.
fn files(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due], entry: Option<&BootEntry>, misread: Option<FileChange>) {
    let mut settings = Vec::new();
    let mut writes: Vec<(String, String)> = Vec::new();
    let mut lines = Vec::new();
    for due in due {
        let page = due.goal.page_size;
        let before = steps(ask, &draft.after, entry, page).unwrap_or_default();
        if before.last().is_some_and(|step| PageCount(step.value) == due.pages) {
            continue;
        }
        lines.push(format!("{} pages of {page}", due.pages));
        let value = due.pages.get().to_string();
        let own_file = pool_file(page, "nr_hugepages");
        let by_setting = is_default(ask, page);
        if by_setting {
            settings.push(("vm.nr_hugepages".to_owned(), value.clone()));
        }
        // tmpfiles.d comes after sysctl.d: a line there has to say the same.
        let there = tmpfiles::read(&mut Door::new(&draft.after)).into_known().unwrap_or_default();
        let is_written = |path: &str| there.iter().any(|write| write.path == path);
        if !by_setting || is_written(&own_file) {
            writes.push((own_file, value.clone()));
        }
        if boot::default_size(ask.host) == Some(page) && is_written(SETTING) {
            writes.push((SETTING.to_owned(), value));
        }
        let kib = page.bytes().get() >> 10;
        writes.extend(uneven(&due.goal).into_iter().map(|(node, pages)| {
            let file = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages");
            (file, pages.get().to_string())
        }));
    }
    if lines.is_empty() && misread.is_none() {
        return;
    }
    let mut why = "what is set at run time is gone after a reboot".to_owned();
    let mut title = format!("{} at each boot", lines.join(", "));
    if let (Some(_), Some(page)) = (&misread, boot::default_size(ask.host)) {
        why = format!("vm.nr_hugepages counts pages of {page} at the next boot");
        if lines.is_empty() {
            title = format!("no pages of {page} at each boot by a number that was meant for others");
        }
    }
    let mut step = Step::new("pools-boot", title, Risk::Safe, why);
    step.changes.extend(misread.map(Change::from));
    if !settings.is_empty() {
        match ours::sysctl(&draft.after, ours::SYSCTL_POOL, &settings) {
            Ok(text) => step.changes.extend(draft.write(ours::SYSCTL_POOL, &text).map(Change::from)),
            Err(why) => draft.warn(format!("the pool of the next boot is left as it is: {why}")),
        }
    }
    if !writes.is_empty() {
        match ours::tmpfiles(&draft.after, ours::TMPFILES_POOLS, &writes) {
            Ok(text) => step.changes.extend(draft.write(ours::TMPFILES_POOLS, &text).map(Change::from)),
            Err(why) => draft.warn(format!("the pools of the next boot are left as they are: {why}")),
        }
    }
    draft.step(step);
}

/// Notes what the last of the steps for the next boot carries out.
fn carry(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let goals: Vec<Goal> = draft.pools.iter().filter(|goal| goal.at_boot).cloned().collect();
    let of_boot = |step: &Drafted| step.id == "pools-boot" || step.id == "pools-command-line";
    let Some(step) = draft.steps.iter_mut().rev().find(|step| of_boot(step)) else { return };
    for goal in goals {
        let page = goal.page_size;
        step.carry(Remedy::KeepAtBoot(page), When::Now);
        if goal.not_now.is_some() {
            step.carry_for(Remedy::SetPool(page), When::Reboot, ask.sized_on(page));
        }
    }
}

/// Whether one more server may be made to ask for pages of that size: where the next boot does not bring enough for all, it
/// would take those of others. Says so where not.
pub(super) fn may_ask(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, page: PageSize) -> bool {
    let may = !ask.options.boot || draft.pool(page).is_none_or(|goal| goal.at_boot);
    if !may {
        draft.warn(format!(
            "{} is not made to ask for huge pages: the next boot does not bring enough pages of {page} for all",
            instance.title()
        ));
    }
    may
}

/// Whether the pool of that size, now and after the next boot, holds what a server needs of it.
pub(super) fn is_secured(draft: &Draft<'_>, page: PageSize) -> bool {
    draft.pool(page).is_some_and(|goal| goal.is_there() && goal.at_boot && goal.goal >= goal.needed)
}
