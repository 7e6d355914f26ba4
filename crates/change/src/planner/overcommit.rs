//! Pages that a pool may grow by on demand, out of memory that is free then.

use hugewise_advice::boot;
use hugewise_advice::words::{boot_name, pool_file};

use super::draft::{Draft, Drafted};
use super::sysctl::{Setting, set};
use super::{Ask, ours, pools_at_boot};
use crate::plan::{Change, Risk, Step, ValueChange};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let why = "servers may take this many pages beyond the pool, if memory is free when they start";
    let mut writes = Vec::new();
    let mut others = Step::new("overcommit-other-sizes", String::new(), Risk::Safe, why);
    for (page, pages) in &ask.options.overcommit {
        let Some(pool) = ask.host.pool(*page) else {
            draft.warn(format!("this host has no {page} pages, so none on demand either"));
            continue;
        };
        let Some(now) = pool.overcommit.get() else {
            draft.warn(format!("{} cannot be read and stays as it is", pool_file(*page, "nr_overcommit_hugepages")));
            continue;
        };
        let value = pages.get().to_string();
        let title = format!("up to {} on demand", pages.in_pages_of(*page));
        if pools_at_boot::is_default(ask, *page) {
            let setting = Setting { key: "vm.nr_overcommit_hugepages", value, holds_now: now == *pages };
            let step = Drafted::from(Step::new(format!("overcommit-{}", boot_name(*page)), title, Risk::Safe, why));
            let step = set(ask, draft, step, ours::SYSCTL_OVERCOMMIT, &[setting]);
            draft.step(step);
            continue;
        }
        let file = pool_file(*page, "nr_overcommit_hugepages");
        if ask.options.now && now != *pages {
            others.changes.push(Change::from(ValueChange::new(file.clone(), value.clone())));
        }
        let separator = if others.title.is_empty() { "" } else { ", " };
        others.title = format!("{}{separator}{title}", others.title);
        let kept = boot::overcommit(&boot::with_files(ask.host, &draft.after), *page).unwrap_or_default();
        if kept.last().is_none_or(|last| last.value != pages.get()) {
            writes.push((file, value));
        }
    }
    if ask.options.boot && !writes.is_empty() {
        match ours::tmpfiles(&draft.after, ours::TMPFILES_OVERCOMMIT, &writes) {
            Ok(text) => others.changes.extend(draft.write(ours::TMPFILES_OVERCOMMIT, &text).map(Change::from)),
            Err(why) => draft.warn(format!("pages on demand are not kept for the next boot: {why}")),
        }
    }
    draft.step(others);
}
