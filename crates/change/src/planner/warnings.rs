//! What copies the settings of a host, or shares its pools.

use hugewise_diagnose::boot::NewMenu;
use hugewise_diagnose::prediction::Obstacle;
use hugewise_diagnose::wording::{self, shell_word};
use hugewise_diagnose::{demand, target};
use hugewise_model::{Bytes, Host, HugePageMode, HugePageUse, Instance, PageCount, Remedy};

use super::PlanRequest;
use super::boot_loader;
use super::draft::Draft;

pub(super) fn plan_warnings(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    warn_left_alone(ask, draft);
    warn_small_servers(ask, draft);
    warn_kept_page_size(ask, draft);
    if let Some(why) = ask.host.unseen_reason() {
        draft.add_warning(format!(
            "there may be servers that hugewise cannot see ({why}): it plans nothing for them and \
             releases no pages"
        ));
    }
    warn_kept_pools(ask, draft);
    warn_shared_pools(ask, draft);
    warn_moving_pages(ask, draft);
    if draft.steps.iter().any(|step| step.part.keeps_pools()) {
        warn_copies_of_boot(ask, draft);
    }
    if draft.pools.iter().any(|goal| goal.grows()) {
        warn_growing_pools(ask, draft);
    }
}

fn warn_copies_of_boot(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    match boot_loader::predict_new_menu(ask) {
        Some(NewMenu::Brings(words)) => draft.add_warning(format!(
            "{words} is not in the boot menu, but will be once the menu is regenerated, for \
             example by a new kernel. This plan does not allow for it: remove it, or regenerate \
             the menu and make a new plan"
        )),
        Some(NewMenu::Drops(words)) => draft.add_warning(format!(
            "{words} is only in the boot menu and will be lost once the menu is regenerated, for \
             example by a new kernel: add it to the file that the menu is made from"
        )),
        None => {}
    }
    for image in small_boot_images(ask) {
        draft.add_warning(format!(
            "{image} copies these settings and has little memory: a pool of this size leaves it \
             none; keep the pool out of it, and test that it starts"
        ));
    }
    draft.add_warning(
        "an image of this host (golden image, template, snapshot) includes the pools: a smaller \
         host started from it has no memory left",
    );
}

fn warn_growing_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if has_containers(ask.host) || ask.instances.iter().any(|instance| instance.containered) {
        draft.add_warning(
            "containers here share the pools: one without a hugepages limit of its own may take \
             pages that are planned for a server, and one with a limit of 0 dies by SIGBUS when \
             its server finds the pool",
        );
    }
    let mut processes = ask.host.processes.as_known().into_iter().flatten();
    if processes.any(|process| process.name == "kubelet") {
        draft.add_warning(
            "kubelet counts huge pages when it starts: restart it after a pool changes",
        );
    }
    let strict = ask.host.kernel_settings.overcommit_memory.get() == Some(2);
    if let Some(limit) = ask.sizing.map(|sizing| &sizing.limits.commit_limit)
        && strict
        && limit.enough == Some(false)
    {
        draft.add_warning(format!(
            "the pools lower CommitLimit below what is already committed: {}",
            limit.evidence
        ));
    }
}

/// Mounts do not tell: systemd gives the host's services private ones (`PrivateTmp=`,
/// systemd.exec(5)).
fn has_containers(host: &Host) -> bool {
    let ours = host.namespaces.pid.get();
    let mut all = host.processes.as_known().into_iter().flatten();
    all.any(|process| process.namespaces.pid.get().zip(ours).is_some_and(|(its, ours)| its != ours))
}

/// Servers that move to another size hold these until their restart, and others lack them.
fn warn_moving_pages(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if !ask.options.now {
        return;
    }
    let is_short = |instance: &Instance| {
        let restart = ask.restart_forecast(instance);
        restart.is_some_and(|restart| restart.obstacle == Some(Obstacle::Pages))
    };
    for goal in draft.pools.clone() {
        let page = goal.page_size;
        let held = ask.held_until_restart(page);
        let waits = ask.servers_on(page).any(is_short);
        let movers = ask.sized_instances().filter(|(instance, sized)| {
            sized.page_size != page && demand::pages_held(instance, page) > PageCount::ZERO
        });
        let movers: Vec<String> = movers.map(|(instance, _)| instance.title()).collect();
        let there = goal.goal.max(goal.now + goal.surplus);
        if movers.is_empty() || !waits || there >= goal.needed + held {
            continue;
        }
        let (verb, whom, them) = match movers.len() {
            1 => ("holds", "it is", "it"),
            _ => ("hold", "they are", "them"),
        };
        draft.add_warning(format!(
            "{} {verb} {} until {whom} restarted: restart {them} before others that need such \
             pages, or those find too few",
            wording::join_names(&movers),
            held.in_pages_of(page)
        ));
    }
}

/// Whoever wants pages back is told why a pool keeps them.
fn warn_kept_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let kept = draft.pools.iter().filter(|goal| goal.goal >= goal.now && goal.needed < goal.now);
    for page in kept.map(|goal| goal.page_size).filter(|_| ask.options.shrink).collect::<Vec<_>>() {
        let claim = ask.assessment.situation.claim(page);
        if let Some(id) = claim.and_then(|claim| claim.unknown.first()) {
            draft.add_warning(format!(
                "no {page} pages are released, because hugewise cannot tell what {id} will ask \
                 for at its next start"
            ));
        }
    }
}

/// Whoever names servers is told of the others that the same pools are planned for.
fn warn_shared_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if ask.options.instances.is_empty() {
        return;
    }
    let growing = draft.pools.iter().filter(|goal| goal.grows()).map(|goal| goal.page_size);
    for page in growing.collect::<Vec<_>>() {
        let others = ask
            .sized_instances()
            .filter(|(instance, sized)| sized.page_size == page && !ask.is_asked_for(instance));
        let others: Vec<String> = others
            .map(|(instance, sized)| {
                let runs = demand::pages_held(instance, page) > PageCount::ZERO;
                let how = if runs { "runs on it" } else { "asks for it" };
                format!("{} for {}, which {how}", sized.demand_pages, instance.title())
            })
            .collect();
        if !others.is_empty() {
            draft.add_warning(format!(
                "the pool of {page} pages is also used by others: {}",
                others.join("; ")
            ));
        }
    }
}

/// Whoever misses a server in the plan is told how to have it there.
fn warn_left_alone(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    for instance in ask.instances.iter().filter(|instance| is_left_alone(ask, instance)) {
        let why = format!(
            "{} does not ask for huge pages, so the plan leaves it alone; --instance {} includes it",
            instance.title(),
            shell_word(&instance.name)
        );
        draft.leave_undone(Remedy::SetSetting(instance.id()), why);
    }
}

/// `check` shows that these have none: a plan that said nothing would contradict it.
fn warn_small_servers(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if !ask.options.instances.is_empty() {
        return;
    }
    let is_small = |instance: &&Instance| {
        instance.is_trusted()
            && matches!(instance.asked, HugePageMode::Try | HugePageMode::Must)
            && instance.huge_pages == HugePageUse::None
            && demand::on_base_pages(instance)
                .is_some_and(|base| base > Bytes::ZERO && base < demand::BIG_SEGMENT)
            && ask.sized(instance).is_none()
    };
    let small: Vec<&Instance> = ask.instances.iter().filter(is_small).collect();
    let enough = demand::BIG_SEGMENT;
    match small.as_slice() {
        [] => {}
        [one] => draft.add_warning(format!(
            "{} has less than {enough} on base pages, so no huge pages are planned for it; \
             --instance {} includes it",
            one.title(),
            shell_word(&one.name)
        )),
        [_, ..] => {
            let titles: Vec<String> = small.iter().map(|instance| instance.title()).collect();
            draft.add_warning(format!(
                "{} have less than {enough} each on base pages, so no huge pages are planned for \
                 them; --instance includes one by name",
                wording::join_names(&titles)
            ));
        }
    }
}

/// No page is planned for a server that does not ask, unless somebody names it.
pub(super) fn is_left_alone(ask: &PlanRequest<'_>, instance: &Instance) -> bool {
    ask.options.instances.is_empty()
        && ask.sized(instance).is_none()
        && target::does_not_ask(&ask.assessment.rule_facts(ask.host, ask.instances), instance)
}

/// Whoever asked for another size is told why a server stays on its own.
fn warn_kept_page_size(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let Some(page) = ask.options.page_size else { return };
    let is_elsewhere = |instance: &&Instance| {
        ask.is_chosen(instance) && ask.planned_page_size(instance) != Some(page)
    };
    for instance in ask.instances.iter().filter(is_elsewhere) {
        let Some(own) = demand::page_size(ask.host, instance).filter(|own| *own != page) else {
            continue;
        };
        if demand::pages_held(instance, own) == PageCount::ZERO {
            continue;
        }
        let title = instance.title();
        draft.add_warning(if target::takes_page_size(instance, page) {
            format!(
                "{title} stays on its pages of {own}, as nothing keeps it off them; --instance {} \
                 plans pages of {page} for it",
                shell_word(&instance.name)
            )
        } else {
            super::explain_default_size_only(instance, page)
        });
    }
}

fn small_boot_images(ask: &PlanRequest<'_>) -> impl Iterator<Item = &'static str> {
    let there = |path: &str| {
        !ask.source.list_folder(path).is_absent() || !ask.source.read(path).is_absent()
    };
    let mut words = ask.host.command_line.as_known().into_iter().flatten();
    let kdump = words.any(|word| word.starts_with("crashkernel=")) || there("/etc/kdump.conf");
    let images = [(kdump, "the kdump image"), (there("/etc/rear"), "the rescue image (ReaR)")];
    images.into_iter().filter(|(there, _)| *there).map(|(_, image)| image)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hugewise_model::Observed;
    use hugewise_model::process::Namespaces;

    use super::*;

    #[test]
    fn services_with_mounts_of_their_own_are_no_containers() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/no-pool-postgresql");
        let mut host =
            hugewise_host::read(&*hugewise_host::source::open_source(Some(&folder)).unwrap());
        let process = host
            .processes
            .as_known()
            .unwrap()
            .iter()
            .find(|process| process.namespaces.pid.get().is_some())
            .unwrap();
        let its = process.namespaces.clone();
        host.namespaces = Namespaces { mount: Observed::Known(1), ..its };
        assert!(!has_containers(&host));
        host.namespaces.pid = Observed::Known(1);
        assert!(has_containers(&host));
    }
}
