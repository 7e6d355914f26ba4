//! Kernel settings: set now, and kept for the next boot by a file that has the last word. Among
//! them, pages that a pool may grow by on demand, out of memory that is free then.

use hugewise_diagnose::boot::{self, SettingOutcome, predict_effective_settings};
use hugewise_diagnose::wording::{boot_name, pool_file};
use hugewise_diagnose::{Missing, demand, target};
use hugewise_host::source::OverlaySource;
use hugewise_model::Bytes;
use hugewise_model::configuration::IgnoredFile;

use super::draft::{Draft, Drafted};
use super::{PlanRequest, commands, owned_files, pools_at_boot};
use crate::plan::{Change, Risk, Step, ValueChange};

pub(super) struct PlannedSysctl {
    /// With dots.
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) holds_now: bool,
}

/// What the file had before is kept.
pub(super) fn set_sysctls(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    mut step: Drafted,
    path: &str,
    settings: &[PlannedSysctl],
) -> Drafted {
    if ask.options.now {
        for setting in settings.iter().filter(|setting| !setting.holds_now) {
            let file = format!("/proc/sys/{}", setting.key.replace('.', "/"));
            step.changes.push(Change::from(ValueChange::new(file, setting.value.clone())));
        }
    }
    if ask.options.boot {
        match persist_sysctls(ask, draft, path, settings) {
            Ok(change) => step.changes.extend(change),
            Err(SysctlNotPersisted::NotRead) => {
                let pairs: Vec<_> =
                    settings.iter().map(|setting| (setting.key, setting.value.as_str())).collect();
                let lines = commands::sysctl_conf_lines(ask.host, &pairs);
                let title =
                    format!("{} at each boot", step.title.trim_end_matches(" at each boot"));
                draft.add_instruction(title, &lines, Risk::Safe, None);
                draft.explained.extend(step.carries.iter().map(|carried| carried.remedy.clone()));
            }
            Err(why) => draft
                .add_warning(format!("{} will not last beyond the next boot: {why}", step.title)),
        }
    }
    step
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SysctlNotPersisted {
    #[error(transparent)]
    Taken(#[from] owned_files::OwnedFileError),
    #[error(
        "{place} sets {key} = {value} and is read after {path}: remove that line and plan again"
    )]
    Later { place: String, key: &'static str, value: String, path: String },
    #[error("the boot does not take {key} from {path}")]
    Unheard { key: &'static str, path: String },
    #[error("{0}")]
    Masked(IgnoredFile),
    #[error("no file on this host could keep it")]
    NotRead,
    #[error("hugewise cannot tell whether {path} has the last word ({missing})")]
    Unknown { path: String, missing: Missing },
    #[error("hugewise cannot tell whether {0} is read")]
    Unread(String),
}

fn persist_sysctls(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    path: &str,
    settings: &[PlannedSysctl],
) -> Result<Option<Change>, SysctlNotPersisted> {
    let kept = |files: &OverlaySource<'_>| {
        settings.iter().all(|setting| {
            predict_value(ask, files, setting.key).is_some_and(|value| value == setting.value)
        })
    };
    if kept(&draft.after) {
        return Ok(None);
    }
    if boot::is_not_read(ask.host, "sysctl.d") {
        return Err(SysctlNotPersisted::NotRead);
    }
    let pairs: Vec<_> =
        settings.iter().map(|setting| (setting.key.to_owned(), setting.value.clone())).collect();
    let text = owned_files::merge_sysctl_settings(&draft.after, path, &pairs)?;
    let words = predict_effective_settings(ask.host, &draft.after, path, &text);
    for PlannedSysctl { key, .. } in settings {
        let outcome = words.iter().find(|word| word.what == *key).map(|word| &word.outcome);
        let path = path.to_owned();
        return Err(match outcome {
            Some(SettingOutcome::Wins | SettingOutcome::Agrees { .. }) => continue,
            Some(SettingOutcome::Loses { place, value }) => {
                let (place, value) = (place.to_string(), value.clone());
                SysctlNotPersisted::Later { place, key, value, path }
            }
            Some(SettingOutcome::Unheard) => boot::find_ignored_files(ask.host, "sysctl.d")
                .cloned()
                .map_or(SysctlNotPersisted::Unheard { key, path }, SysctlNotPersisted::Masked),
            Some(SettingOutcome::Unknown(missing)) => {
                SysctlNotPersisted::Unknown { path, missing: missing.clone() }
            }
            None => SysctlNotPersisted::Unread(path),
        });
    }
    Ok(draft.write(path, &text).map(Change::from))
}

fn predict_value(ask: &PlanRequest<'_>, files: &OverlaySource<'_>, key: &str) -> Option<String> {
    let steps = boot::predict_setting(&boot::with_files(ask.host, files), key).ok()?;
    steps.into_iter().next_back().map(|step| step.value)
}

const WHY_OVERCOMMIT: &str =
    "servers may take this many pages beyond the pool, if memory is free when they start";

pub(super) fn plan_overcommit(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if let Some(why) = exceeds_memory(ask, draft).filter(|_| !ask.options.overrule) {
        return draft.add_warning(why);
    }
    let mut writes = Vec::new();
    let mut others = Step::new("overcommit-other-sizes", String::new(), Risk::Safe, WHY_OVERCOMMIT);
    for (page, pages) in &ask.options.overcommit {
        let file = pool_file(*page, "nr_overcommit_hugepages");
        let Some(pool) = ask.host.find_pool(*page) else {
            draft.add_warning(format!("this host has no {page} pages, so none on demand either"));
            continue;
        };
        let Some(now) = pool.overcommit.get() else {
            draft.add_warning(format!("{file} cannot be read and stays as it is"));
            continue;
        };
        let value = pages.get().to_string();
        let title = format!("up to {} on demand", pages.in_pages_of(*page));
        if pools_at_boot::is_default_size(ask, *page) {
            let key = "vm.nr_overcommit_hugepages";
            let setting = PlannedSysctl { key, value, holds_now: now == *pages };
            let id = format!("overcommit-{}", boot_name(*page));
            let step = Drafted::from(Step::new(id, title, Risk::Safe, WHY_OVERCOMMIT));
            let step = set_sysctls(ask, draft, step, owned_files::SYSCTL_OVERCOMMIT, &[setting]);
            draft.add_step(step);
            continue;
        }
        if ask.options.now && now != *pages {
            others.changes.push(ValueChange::new(file.clone(), value.clone()).into());
        }
        let separator = if others.title.is_empty() { "" } else { ", " };
        others.title = format!("{}{separator}{title}", others.title);
        let kept = boot::predict_overcommit(&boot::with_files(ask.host, &draft.after), *page)
            .unwrap_or_default();
        if kept.last().is_none_or(|last| last.value != pages.get()) {
            writes.push((file, value));
        }
    }
    if ask.options.boot && !writes.is_empty() {
        let path = owned_files::TMPFILES_OVERCOMMIT;
        let text = owned_files::merge_tmpfiles_writes(&draft.after, path, &writes);
        let stays = "pages on demand are not kept for the next boot";
        draft.add_file(&mut others, path, text, stays);
    }
    draft.add_step(others);
}

/// Pages on demand are memory that servers may take like a pool's: the same share of the host's is
/// the most.
fn exceeds_memory(ask: &PlanRequest<'_>, draft: &Draft<'_>) -> Option<String> {
    let total = ask.host.memory.total.get()?;
    let pages = ask.options.overcommit.iter();
    let asked: Bytes = pages.map(|(page, pages)| pages.to_bytes(*page)).sum();
    let pools = target::sum_goal_memory(draft.pools.iter().map(|goal| &**goal));
    let most = demand::largest_pools(total).saturating_sub(pools);
    (asked > most).then(|| {
        format!(
            "{asked} on demand are more than the {most} that pools may have beside those planned, \
             so they are not planned; --force plans them all the same"
        )
    })
}
