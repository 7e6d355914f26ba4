//! Files that bring pools at the next boot, where the command line does not.

use hugewise_diagnose::boot;
use hugewise_diagnose::wording::{self, pool_file};
use hugewise_host::FactReader;
use hugewise_host::config::tmpfiles;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{PageCount, PageSize, Remedy};

use super::draft::{Draft, Drafted, PlanPart, PlannedPoolGoal};
use super::owned_files::{self, SYSCTL_POOL, TMPFILES_POOLS};
use super::pools_at_boot::{BootPoolChange, host_at_boot, is_default_size, predict_boot_pool};
use super::{PlanRequest, commands};
use crate::plan::{PoolRef, Risk, Step};

const SETTING: &str = "/proc/sys/vm/nr_hugepages";

#[derive(Default)]
struct BootFiles {
    pools: Vec<String>,
    settings: Vec<(String, String)>,
    writes: Vec<(String, String)>,
    /// What others set, which these files override.
    overridden: Vec<(PageSize, boot::BootStep<u64>)>,
}

pub(super) fn write_boot_files(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    changes: &[BootPoolChange],
    entry: Option<&BootEntry>,
) {
    let mut files = BootFiles::default();
    changes.iter().for_each(|change| files.add_pool(ask, draft, change, entry));
    let BootFiles { pools, settings, writes, mut overridden } = files;
    if pools.is_empty() {
        return;
    }
    let mut why = "pools set at run time are gone after a reboot".to_owned();
    if !writes.is_empty()
        && let Some(unheeded) = boot::find_ignored_files(ask.host, "sysctl.d")
    {
        why = format!("{why}; {unheeded}");
    }
    // No promise where something else writes it too.
    let is_written = changes.iter().any(|change| boot::is_written(ask.host, change.goal.page_size));
    let when = if is_written { "by the boot's files" } else { "at each boot" };
    let mut step = Step::new("pools-boot", format!("{} {when}", pools.join(", ")), Risk::Safe, why);
    if !settings.is_empty() {
        let text = owned_files::merge_sysctl_settings(&draft.after, SYSCTL_POOL, &settings);
        let stays = "the pool of the next boot stays as it is";
        draft.add_file(&mut step, SYSCTL_POOL, text, stays);
    }
    if !writes.is_empty() {
        let text = owned_files::merge_tmpfiles_writes(&draft.after, TMPFILES_POOLS, &writes);
        let stays = "the pools of the next boot stay as they are";
        draft.add_file(&mut step, TMPFILES_POOLS, text, stays);
    }
    // Of those that come after it, it overrides none.
    overridden.retain(|(page, theirs)| {
        let after = predict_boot_pool(ask, &draft.after, entry, *page).unwrap_or_default();
        after.last().is_none_or(|last| last.place != theirs.place)
    });
    let overridden: Vec<String> =
        overridden.iter().map(|(_, step)| format!("{} ({})", step.place, step.value)).collect();
    if !overridden.is_empty() {
        step.why = format!("{}; it overrides {}", step.why, wording::join_names(&overridden));
    }
    draft.add_step(Drafted::for_part(PlanPart::PoolsAtBoot, step));
}

impl BootFiles {
    fn add_pool(
        &mut self,
        ask: &PlanRequest<'_>,
        draft: &mut Draft<'_>,
        change: &BootPoolChange,
        entry: Option<&BootEntry>,
    ) {
        let page = change.goal.page_size;
        let before = predict_boot_pool(ask, &draft.after, entry, page).unwrap_or_default();
        if before.last().is_some_and(|step| PageCount(step.value) == change.pages) {
            return;
        }
        let is_others = |step: &boot::BootStep<u64>| {
            let is_ours = |file| [SYSCTL_POOL, TMPFILES_POOLS].contains(&file);
            !step.place.file().is_some_and(is_ours) && PageCount(step.value) != change.pages
        };
        self.overridden.extend(before.into_iter().filter(is_others).map(|step| (page, step)));
        // With another default size, now or then, vm.nr_hugepages would mean other pages.
        let default = boot::default_size(&host_at_boot(ask, &draft.after, entry));
        let counts_it = default == Some(page) && is_default_size(ask, page);
        let by_setting = counts_it && boot::find_ignored_files(ask.host, "sysctl.d").is_none();
        if !by_setting && let Some(unheeded) = boot::find_ignored_files(ask.host, "tmpfiles.d") {
            if boot::is_not_read(ask.host, "tmpfiles.d") {
                instruct_boot_pool(ask, draft, change, counts_it);
            } else {
                draft.add_warning(format!(
                    "the {page} pool of the next boot stays as it is: {unheeded}"
                ));
            }
            return;
        }
        self.pools.push(change.pages.in_pages_of(page));
        self.add_lines(ask, draft, change, default == Some(page), by_setting);
    }

    fn add_lines(
        &mut self,
        ask: &PlanRequest<'_>,
        draft: &Draft<'_>,
        change: &BootPoolChange,
        has_default_size: bool,
        by_setting: bool,
    ) {
        let page = change.goal.page_size;
        let value = change.pages.get().to_string();
        if by_setting {
            self.settings.push(("vm.nr_hugepages".to_owned(), value.clone()));
        }
        // tmpfiles.d comes after sysctl.d: a line there has to say the same.
        let there =
            tmpfiles::read(&mut FactReader::new(&draft.after)).into_known().unwrap_or_default();
        let is_written = |path: &str| there.iter().any(|write| write.path == path);
        let own_file = pool_file(page, "nr_hugepages");
        if !by_setting || is_written(&own_file) {
            self.writes.push((own_file, value.clone()));
        }
        if has_default_size && is_written(SETTING) {
            self.writes.push((SETTING.to_owned(), value));
        }
        // So do lines for single nodes: the first about a file counts, and ours come first.
        let uneven = uneven_node_pages(&change.goal);
        let even = spread_over_nodes(ask, change);
        let nodes = if !uneven.is_empty() {
            uneven
        } else if even.iter().any(|(node, _)| is_written(&node_file(page, *node))) {
            even
        } else {
            Vec::new()
        };
        let lines = nodes.into_iter();
        let lines = lines.map(|(node, pages)| (node_file(page, node), pages.get().to_string()));
        self.writes.extend(lines);
    }
}

/// Where nothing reads a plan's files, no step promises the pool.
fn instruct_boot_pool(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    change: &BootPoolChange,
    counts_it: bool,
) {
    let (page, pages) = (change.goal.page_size, change.pages.get().to_string());
    let how = match counts_it {
        true => {
            let settings = [("vm.nr_hugepages", pages.as_str())];
            let typed =
                commands::edited_sysctl_conf(ask.host, &draft.with_typed_files(), &settings);
            draft.typed.extend(typed.map(|text| (commands::CONF.to_owned(), text)));
            commands::sysctl_conf_lines(ask.host, &settings)
        }
        false => commands::rc_local_lines(ask, page, change.pages),
    };
    let title = format!("{} at each boot", change.pages.in_pages_of(page));
    draft.instruct_for(Remedy::KeepAtBoot(page), title, &how, Risk::Safe, None);
    draft.at_boot.retain(|pool| pool.page_size != page);
    if let Some(goal) = draft.pool_goal_mut(page) {
        goal.by_hand = true;
    }
}

fn node_file(page_size: PageSize, node: u32) -> String {
    format!("{}/nr_hugepages", PoolRef { page_size, node: Some(node) }.sysfs_folder())
}

fn spread_over_nodes(ask: &PlanRequest<'_>, change: &BootPoolChange) -> Vec<(u32, PageCount)> {
    let pool = ask.host.find_pool(change.goal.page_size);
    let nodes: Vec<u32> =
        pool.into_iter().flat_map(|pool| &pool.nodes).map(|part| part.node).collect();
    let (pages, count) = (change.pages.get(), u64::try_from(nodes.len()).unwrap_or_default());
    let (Some(each), Some(rest)) = (pages.checked_div(count), pages.checked_rem(count)) else {
        return Vec::new();
    };
    let share = |place| PageCount(each + u64::from(place < rest));
    (0..).zip(nodes).map(|(place, node)| (node, share(place))).collect()
}

/// Empty where the kernel's even spread is what is wanted.
pub(super) fn uneven_node_pages(goal: &PlannedPoolGoal) -> Vec<(u32, PageCount)> {
    let counts = || goal.nodes.iter().map(|(_, _, pages)| pages.get());
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if most - least > 1 => {
            goal.nodes.iter().map(|(node, _, pages)| (*node, *pages)).collect()
        }
        _ => Vec::new(),
    }
}
