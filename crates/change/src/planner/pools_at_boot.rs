//! Pools of the next boot: sysctl.d for the size that is the default now and then, tmpfiles.d for others and for nodes, and the
//! kernel's command line where pages have to be reserved before memory is in use.

use hugewise_advice::situation::{self, Obstacle, starting};
use hugewise_advice::standing::Standing;
use hugewise_advice::words::{self, pool_file};
use hugewise_advice::{Missing, boot, demand};
use hugewise_host::Door;
use hugewise_host::config::tmpfiles;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{Bytes, Instance, Observed, PageCount, PageSize, Remedy};

use super::boot_loader::{self, Reserved};
use super::draft::{Draft, Drafted, Part, Whom};
use super::overlay::Overlay;
use super::pools::Goal;
use super::{Ask, ours, unread};
use crate::plan::{Change, PoolAtBoot, Risk, Step, When};

/// Pages of the default size.
const SETTING: &str = "/proc/sys/vm/nr_hugepages";

/// A pool that the next boot has to be told of.
struct Due {
    goal: Goal,
    /// Pages that the next boot is to bring.
    pages: PageCount,
}

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if ask.options.boot {
        without_misread(ask, draft);
    }
    if let Some(why) = other_default(ask) {
        draft.warn(why);
        nothing_planned(ask, draft);
        return;
    }
    let crowding = boot::crowding(&boot::with_files(ask.host, &draft.after)).ok().flatten();
    let crowds = |page| crowding.iter().flat_map(|it| &it.parts).find(|part| part.page_size == page);
    let mut due = Vec::new();
    let mut then = Vec::new();
    for at in 0..draft.pools.len() {
        let Some(goal) = draft.pools.get(at).cloned() else { continue };
        let page = goal.page_size;
        let next = match steps(ask, &draft.after, None, page) {
            Ok(steps) => steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value)),
            Err(missing) => {
                if goal.needed > PageCount::ZERO {
                    draft.warn(format!("the {page} pool of the next boot stays as it is: {missing}"));
                }
                continue;
            }
        };
        // What it would bring one that it has too few for now, another one would lack, and this plan has no more.
        if ask.short.contains(&page) && !goal.grows() && next > PageCount::ZERO {
            draft.told.insert(Remedy::KeepAtBoot(page));
            if ask.options.boot {
                draft.warn(format!(
                    "the {page} pool of the next boot stays as it is: more pages, and fewer than all need, would go to \
                     servers that find too few now, and others would lack them"
                ));
            }
            continue;
        }
        let pages = goal.pages_at_boot(ask.host, ask.instances);
        let needed = goal.needed > PageCount::ZERO;
        // More than the host can carry is no more than somebody may keep: a file of ours has the last word on files.
        let too_many = needed && crowds(page).is_some_and(|part| !part.early);
        let gives_back = ask.options.boot && (goal.goal < goal.now || too_many);
        // What is lowered keeps what servers need that this plan is not about.
        let pages = if too_many { pages.max(goal.needed) } else { pages };
        let early = crowds(page).filter(|part| part.early).map(|part| part.pages);
        let planned = ask.options.boot && (needed || goal.goal != goal.now);
        let left = if planned && (next < pages || gives_back) { pages } else { next };
        then.push(left.max(early.unwrap_or_default()).of(page));
        if planned {
            let pages = if next > pages && !gives_back { next } else { pages };
            let promised = !boot::is_written(ask.host, page);
            draft.at_boot.extend(promised.then_some(PoolAtBoot { page_size: page, pages: pages.get() }));
        }
        let late = ask.host.is_gigantic(page) && needed && reserved(ask, None, page) < goal.needed;
        if next == pages || (next > pages && !gives_back) {
            set_at_boot(ask, draft, page);
            if boot::is_written(ask.host, page) {
                draft.settled.push((Remedy::KeepAtBoot(page), Whom::Everybody));
            }
            if planned && late {
                due.push(Due { goal, pages: next });
            }
        } else if planned {
            due.push(Due { goal, pages });
        }
    }
    if let Some(why) = too_much(ask, then.into_iter().sum()) {
        // Nothing relies on what such a boot brings.
        draft.warn(why);
        nothing_planned(ask, draft);
        draft.at_boot.clear();
        draft.pools.iter_mut().for_each(|goal| goal.at_boot = false);
        return;
    }
    let entry = if due.is_empty() { None } else { by_steps(ask, draft, &due) };
    for goal in &mut draft.pools {
        goal.is_sure =
            !ask.host.is_gigantic(goal.page_size) || reserved(ask, entry.as_ref(), goal.page_size) >= goal.needed;
    }
}

/// Why no pool of the next boot is planned, where servers will take pages of another size than those that are planned for them.
fn other_default(ask: &Ask<'_>) -> Option<String> {
    let takes = |instance: &&Instance| {
        let sized = ask.sized().any(|(of, _)| std::ptr::eq(of, *instance));
        sized || starting(ask.host, instance).asks()
    };
    // Whoever is planned pages of that very size takes what is planned for it.
    let is_planned = |instance: &Instance, then: PageSize| {
        ask.sized().any(|(of, sized)| std::ptr::eq(of, instance) && sized.page_size == then)
    };
    let of =
        |instance: &Instance| situation::other_default(ask.host, instance).filter(|then| !is_planned(instance, *then));
    let others: Vec<&Instance> = ask.instances.iter().filter(takes).filter(|it| of(it).is_some()).collect();
    let then = others.first().copied().and_then(of)?;
    let titles: Vec<String> = others.iter().map(|instance| instance.title()).collect();
    Some(format!(
        "no pool is planned for the next boot, nor anything that relies on it: its default size is {then}, and {} will take \
         such pages, as their settings name no size; remove default_hugepagesz= from its command line and plan again, or \
         plan after that boot",
        words::list(&titles)
    ))
}

/// Says what a boot of which nothing is planned leaves servers, and leaves nobody a pool to set by hand that is not planned.
fn nothing_planned(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    bereft(ask, draft);
    let kept: Vec<Remedy> = draft.pools.iter().map(|goal| Remedy::KeepAtBoot(goal.page_size)).collect();
    draft.told.extend(kept);
}

/// Says of servers whose page size stays what such a boot leaves them.
fn bereft(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let stays = |it: &&Instance| ask.is_chosen(it) && situation::other_default(ask.host, it).is_none();
    for instance in ask.instances.iter().filter(stays).filter(|_| ask.options.boot) {
        let Some(boot) = ask.assessment.situation.of(instance).map(|moments| &moments.boot) else { continue };
        let what = match (&boot.standing, boot.obstacle) {
            (Standing::DoesNotStart, Some(Obstacle::Pages)) => "does not start",
            (Standing::None | Standing::Partly, Some(Obstacle::Pages)) => "lacks huge pages",
            (Standing::Unknown, Some(Obstacle::Pages) | None) => "may lack huge pages",
            _ => continue,
        };
        if let Some(why) = &boot.why {
            draft.warn(format!("{} {what} at that boot: {why}", instance.title()));
        }
    }
}

/// Why no pool of the next boot is planned, where all together would take more than the host can carry and lives with.
fn too_much(ask: &Ask<'_>, pools: Bytes) -> Option<String> {
    let memory = ask.host.memory.total.get().filter(|_| ask.options.boot && !ask.options.overrule)?;
    let lives_with: Bytes = ask.host.pools.known()?.iter().filter_map(hugewise_model::Pool::memory).sum();
    let is_too_much = pools > demand::largest_pools(memory) && pools > lives_with;
    is_too_much.then(|| {
        format!(
            "no pool is planned for the next boot, nor anything that relies on it: together the pools would take {pools} \
             of {memory}; first lower what asks for too many"
        )
    })
}

/// Says of a pool that takes much of memory and that a file asks for, late in the boot, that it may come out short.
fn late(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &Due, entry: Option<&BootEntry>) {
    let page = due.goal.page_size;
    let part = ask.host.memory.total.get().and_then(|memory| due.pages.of(page).part_of(memory));
    let early = reserved(ask, entry, page);
    if early < due.pages && (ask.host.is_gigantic(page) || part.is_some_and(|part| part >= boot::LARGE_PART)) {
        draft.warn(format!(
            "the {} {} asked for late in the boot and may come out fewer: the kernel's command line takes \
             them first{}",
            due.pages.in_pages_of(page),
            due.pages.are(),
            if ask.options.early { "" } else { " (--early)" }
        ));
    }
}

/// Pages of a size that the kernel takes before memory is in use.
fn reserved(ask: &Ask<'_>, entry: Option<&BootEntry>, page: PageSize) -> PageCount {
    let early = match entry {
        Some(entry) => {
            let mut host = boot::with_files(ask.host, ask.source);
            host.configuration.boot = Observed::Known(entry.clone());
            boot::reserved_early(&host, page)
        }
        None => boot::reserved_early(ask.host, page),
    };
    early.map(|(pages, _)| pages).unwrap_or_default()
}

/// The steps for the pools that are due; gives the entry of the boot loader, where they change it.
fn by_steps(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due]) -> Option<BootEntry> {
    let entry = command_line(ask, draft, due);
    files(ask, draft, due, entry.as_ref());
    let settled = |draft: &Draft<'_>, due: &Due| {
        let steps = steps(ask, &draft.after, entry.as_ref(), due.goal.page_size).unwrap_or_default();
        steps.last().map(|step| (PageCount(step.value), step.place.clone()))
    };
    for due in due {
        late(ask, draft, due, entry.as_ref());
        match settled(draft, due) {
            Some((pages, _)) if pages == due.pages => set_at_boot(ask, draft, due.goal.page_size),
            Some((pages, _)) if pages < due.pages && is_by_hand(draft, due) => {}
            Some((pages, place)) => {
                // More than are to be there are enough for whoever relies on them.
                if pages > due.pages {
                    set_at_boot(ask, draft, due.goal.page_size);
                }
                // Once is enough: nobody is told to set it who is told what is in the way.
                let page = due.goal.page_size;
                draft.instruct_for(
                    Remedy::KeepAtBoot(page),
                    format!("remove {place}, which has the last word on the {page} pool of the next boot"),
                    &["# and plan again: hugewise plan".to_owned()],
                    Risk::Safe,
                    None,
                );
            }
            // Why was said.
            None if boot::unheeded(ask.host, "tmpfiles.d").is_some() => {}
            None => unheard(ask, draft, due),
        }
    }
    carry(ask, draft, due);
    entry
}

/// Says of a pool that the next boot does not bring, and that nothing else sets, why.
fn unheard(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &Due) {
    let page = due.goal.page_size;
    match boot::ours::overruled(ask.host, page, due.pages) {
        Ok(Some(why)) => draft.leave(
            Remedy::KeepAtBoot(page),
            format!("the next boot does not bring the {page} pool: {why}, and plan again"),
        ),
        _ => draft.warn(format!("the {page} pool of the next boot stays as it is")),
    }
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
fn without_misread(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let Some(page) = boot::default_size(ask.host).filter(|_| !default_stays(ask)) else { return };
    let Some(text) = ours::sysctl_without(&draft.after, ours::SYSCTL_POOL, "vm.nr_hugepages") else { return };
    let Some(change) = draft.write(ours::SYSCTL_POOL, &text) else { return };
    let title = format!("no {page} pages at each boot from a number meant for another size");
    let why = format!("vm.nr_hugepages counts pages of {page} at the next boot");
    let step = Step::new("pools-default-size", title, Risk::Safe, why);
    draft.step(Drafted::part(Part::MisreadPools, step).change(change));
}

/// Notes that the next boot brings a pool; nothing relies on what something else writes too.
fn set_at_boot(ask: &Ask<'_>, draft: &mut Draft<'_>, page: PageSize) {
    if boot::is_written(ask.host, page) {
        return;
    }
    for goal in draft.pools.iter_mut().filter(|goal| goal.page_size == page) {
        goal.at_boot = true;
    }
}

/// What sets the pool of one page size at the next boot, in order, with these files and this entry of the boot loader.
fn steps(
    ask: &Ask<'_>,
    files: &Overlay<'_>,
    entry: Option<&BootEntry>,
    page: PageSize,
) -> Result<Vec<boot::Step<u64>>, Missing> {
    let mut host = boot::with_files(ask.host, files);
    if let Some(entry) = entry {
        host.configuration.boot = Observed::Known(entry.clone());
    }
    boot::pool_of_files(&host, page)
}

/// Reserves on the kernel's command line what is surest there; gives the entry that the next boot then has.
fn command_line(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due]) -> Option<BootEntry> {
    let early = |due: &&Due| {
        let shrinks = due.goal.goal < due.goal.now;
        let needed = due.goal.needed > PageCount::ZERO;
        let surest_there = ask.host.is_gigantic(due.goal.page_size) && (needed || !shrinks);
        // The line has them: what is due is what comes after it.
        let is_there = reserved(ask, None, due.goal.page_size) == due.pages && uneven(&due.goal).is_empty();
        due.pages > PageCount::ZERO && !is_there && (ask.options.early || surest_there)
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
            let title = format!("reserve the {} pages on the kernel command line", sizes.join(" and "));
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
fn files(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due], entry: Option<&BootEntry>) {
    let mut settings = Vec::new();
    let mut writes: Vec<(String, String)> = Vec::new();
    let mut lines = Vec::new();
    let mut overridden = Vec::new();
    for due in due {
        let page = due.goal.page_size;
        let before = steps(ask, &draft.after, entry, page).unwrap_or_default();
        if before.last().is_some_and(|step| PageCount(step.value) == due.pages) {
            continue;
        }
        lines.push(due.pages.in_pages_of(page));
        let of_others = |step: &&boot::Step<u64>| {
            let own = [ours::SYSCTL_POOL, ours::TMPFILES_POOLS].iter().any(|file| step.place.starts_with(file));
            !own && PageCount(step.value) != due.pages
        };
        overridden.extend(before.iter().filter(of_others).map(|step| (page, step.clone())));
        let value = due.pages.get().to_string();
        let own_file = pool_file(page, "nr_hugepages");
        let default = default_at_boot(ask, &draft.after, entry);
        // What vm.nr_hugepages counts is the next boot's to say: another default size would make it other pages. A number for a
        // size that is the default then and not now would be wrong until then.
        let unheeded = |files: &str| boot::unheeded(ask.host, files);
        let counts_it = default == Some(page) && is_default(ask, page);
        let by_setting = counts_it && unheeded("sysctl.d").is_none();
        if !by_setting && let Some(unheeded) = unheeded("tmpfiles.d") {
            if boot::is_not_read(ask.host, "tmpfiles.d") {
                by_hand(ask, draft, due, counts_it);
            } else {
                draft.warn(format!("the {page} pool of the next boot stays as it is: {unheeded}"));
            }
            lines.pop();
            continue;
        }
        if by_setting {
            settings.push(("vm.nr_hugepages".to_owned(), value.clone()));
        }
        // tmpfiles.d comes after sysctl.d: a line there has to say the same.
        let there = tmpfiles::read(&mut Door::new(&draft.after)).into_known().unwrap_or_default();
        let is_written = |path: &str| there.iter().any(|write| write.path == path);
        if !by_setting || is_written(&own_file) {
            writes.push((own_file, value.clone()));
        }
        if default == Some(page) && is_written(SETTING) {
            writes.push((SETTING.to_owned(), value));
        }
        // So do lines for single nodes: of lines about one file the first counts, and ours come first.
        let nodes = parts(ask, due);
        if nodes.iter().any(|(_, file, _)| is_written(file)) && uneven(&due.goal).is_empty() {
            writes.extend(nodes.into_iter().map(|(_, file, pages)| (file, pages.get().to_string())));
        }
        writes.extend(
            uneven(&due.goal).into_iter().map(|(node, pages)| (node_file(page, node), pages.get().to_string())),
        );
    }
    if lines.is_empty() {
        return;
    }
    let mut why = "pools set at run time are gone after a reboot".to_owned();
    if !writes.is_empty()
        && let Some(unheeded) = boot::unheeded(ask.host, "sysctl.d")
    {
        why = format!("{why}; {unheeded}");
    }
    let is_written = due.iter().any(|due| boot::is_written(ask.host, due.goal.page_size));
    // No promise where something else writes it too.
    let when = if is_written { "by the boot's files" } else { "at each boot" };
    let mut step = Step::new("pools-boot", format!("{} {when}", lines.join(", ")), Risk::Safe, why);
    if !settings.is_empty() {
        match ours::sysctl(&draft.after, ours::SYSCTL_POOL, &settings) {
            Ok(text) => step.changes.extend(draft.write(ours::SYSCTL_POOL, &text).map(Change::from)),
            Err(why) => draft.warn(format!("the pool of the next boot stays as it is: {why}")),
        }
    }
    if !writes.is_empty() {
        match ours::tmpfiles(&draft.after, ours::TMPFILES_POOLS, &writes) {
            Ok(text) => step.changes.extend(draft.write(ours::TMPFILES_POOLS, &text).map(Change::from)),
            Err(why) => draft.warn(format!("the pools of the next boot stay as they are: {why}")),
        }
    }
    // Of those that come after it, it overrides none.
    let wins = |(page, of): &(PageSize, boot::Step<u64>)| {
        let after = steps(ask, &draft.after, entry, *page).unwrap_or_default();
        after.last().is_some_and(|last| last.place == of.place)
    };
    overridden.retain(|it| !wins(it));
    let overridden: Vec<String> =
        overridden.iter().map(|(_, step)| format!("{} ({})", step.place, step.value)).collect();
    if !overridden.is_empty() {
        step.why = format!("{}; it overrides {}", step.why, words::list(&overridden));
    }
    draft.step(Drafted::part(Part::PoolsAtBoot, step));
}

/// Says how a pool is kept where nothing here reads a file of a plan's; no step promises it then.
fn by_hand(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &Due, counts_it: bool) {
    let (page, pages) = (due.goal.page_size, due.pages.get().to_string());
    let how = match counts_it {
        true => unread::in_conf(ask.host, &[("vm.nr_hugepages", &pages)]),
        false => unread::pool_in_rc_local(ask, page, due.pages),
    };
    let title = format!("{} at each boot", due.pages.in_pages_of(page));
    draft.instruct_for(Remedy::KeepAtBoot(page), title, &how, Risk::Safe, None);
    draft.at_boot.retain(|pool| pool.page_size != page);
    draft.pools.iter_mut().filter(|goal| goal.page_size == page).for_each(|goal| goal.by_hand = true);
}

/// Whether a person is told to keep it.
fn is_by_hand(draft: &Draft<'_>, due: &Due) -> bool {
    draft.pool(due.goal.page_size).is_some_and(|goal| goal.by_hand)
}

fn default_at_boot(ask: &Ask<'_>, files: &Overlay<'_>, entry: Option<&BootEntry>) -> Option<PageSize> {
    let mut host = boot::with_files(ask.host, files);
    if let Some(entry) = entry {
        host.configuration.boot = Observed::Known(entry.clone());
    }
    boot::default_size(&host)
}

fn node_file(page: PageSize, node: u32) -> String {
    let kib = page.bytes().get() >> 10;
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages")
}

/// A pool by node, as evenly as it goes, with the file of each.
fn parts(ask: &Ask<'_>, due: &Due) -> Vec<(u32, String, PageCount)> {
    let page = due.goal.page_size;
    let nodes: Vec<u32> = ask.host.pool(page).into_iter().flat_map(|pool| &pool.nodes).map(|part| part.node).collect();
    let (pages, count) = (due.pages.get(), u64::try_from(nodes.len()).unwrap_or_default());
    let (Some(each), Some(rest)) = (pages.checked_div(count), pages.checked_rem(count)) else { return Vec::new() };
    let part = |(place, node): (u64, u32)| (node, node_file(page, node), PageCount(each + u64::from(place < rest)));
    (0..).zip(nodes).map(part).collect()
}

/// Notes what the last of the steps for the next boot carries out.
fn carry(ask: &Ask<'_>, draft: &mut Draft<'_>, due: &[Due]) {
    let goals: Vec<Goal> = draft.pools.iter().filter(|goal| goal.at_boot).cloned().collect();
    let Some(step) = draft.steps.iter_mut().rev().find(|step| step.part == Part::PoolsAtBoot) else { return };
    for page in due.iter().map(|due| due.goal.page_size).filter(|page| boot::is_written(ask.host, *page)) {
        step.carry(Remedy::KeepAtBoot(page), When::Now);
    }
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
pub(super) fn may_ask(draft: &mut Draft<'_>, instance: &Instance, page: PageSize) -> bool {
    let there = draft.pool(page).is_none_or(|goal| goal.goal >= goal.needed);
    // Its settings stay where only what works at once is asked for.
    let may = there && draft.pool(page).is_none_or(|goal| goal.at_boot || goal.by_hand);
    if !may {
        let why = if there { "the next boot does not bring" } else { "the host has no room for" };
        draft.warn(format!(
            "{} is not set to ask for huge pages: {why} enough {page} pages for all servers",
            instance.title()
        ));
    }
    may
}

/// Whether the pool of that size, now and after the next boot, holds what a server needs of it.
pub(super) fn is_secured(draft: &Draft<'_>, page: PageSize) -> bool {
    draft.pool(page).is_some_and(|goal| goal.is_there() && goal.at_boot && goal.is_sure && goal.goal >= goal.needed)
}
