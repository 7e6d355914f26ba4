//! What copies the settings of a host, or shares its pools.

use hugewise_advice::boot::NewMenu;
use hugewise_advice::situation::Obstacle;
use hugewise_advice::words::{self, shell_word};
use hugewise_advice::{demand, target};
use hugewise_model::{Asked, Bytes, Host, HugePageUse, Instance, Observed, PageCount, Remedy};

use super::Ask;
use super::boot_loader;
use super::draft::Draft;
use crate::plan::{Change, Step};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    left_alone(ask, draft);
    small(ask, draft);
    kept_size(ask, draft);
    if let Some(why) = ask.host.unseen() {
        draft.warn(format!(
            "there may be servers that hugewise cannot see ({why}): it plans nothing for them and releases no pages"
        ));
    }
    unread(ask, draft);
    shared(ask, draft);
    moving(ask, draft);
    let grows: Vec<_> = draft.pools.iter().filter(|goal| goal.grows()).cloned().collect();
    let kept = |step: &Step| {
        step.changes.iter().any(|change| match change {
            Change::File(file) => {
                ["/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/default/grub.d"].iter().any(|it| file.path.starts_with(it))
            }
            Change::Command(command) => command.command.iter().any(|word| word.contains("hugepages=")),
            Change::Value(_) => false,
        })
    };
    let pools_kept = draft.steps.iter().any(|step| step.part.keeps_pools() && kept(step));
    if pools_kept {
        match boot_loader::new_menu(ask) {
            Some(NewMenu::Brings(words)) => draft.warn(format!(
                "{words} is not in the boot menu, but will be once the menu is regenerated, for example by a new kernel. This plan \
                 does not allow for it: remove it, or regenerate the menu and make a new plan"
            )),
            Some(NewMenu::Drops(words)) => draft.warn(format!(
                "{words} is only in the boot menu and will be lost once the menu is regenerated, for example by a new kernel: add it \
                 to the file that the menu is made from"
            )),
            None => {}
        }
        for (there, image) in images(ask) {
            if there {
                draft.warn(format!(
                    "{image} copies these settings and has little memory: a pool of this size leaves it none; \
                     keep the pool out of it, and test that it starts"
                ));
            }
        }
        draft.warn(
            "an image of this host (golden image, template, snapshot) includes the pools: a smaller host started \
             from it has no memory left",
        );
    }
    if grows.is_empty() {
        return;
    }
    let kubelet = ask.host.processes.known().into_iter().flatten().any(|process| process.name == "kubelet");
    if has_containers(ask.host) || ask.instances.iter().any(|instance| instance.containered) {
        draft.warn(
            "containers here share the pools: one without a hugepages limit of its own may take pages that are planned \
             for a server, and one with a limit of 0 dies by SIGBUS when its server finds the pool",
        );
    }
    if kubelet {
        draft.warn("kubelet counts huge pages when it starts: restart it after a pool changes");
    }
    let strict = ask.host.kernel_settings.overcommit_memory.get() == Some(2);
    if let Some(limit) = ask.sizing.map(|sizing| &sizing.limits.commit_limit)
        && strict
        && limit.enough == Some(false)
    {
        draft.warn(format!("the pools lower CommitLimit below what is already committed: {}", limit.evidence));
    }
}

/// Whether some processes are in a container. Their mounts do not tell: systemd gives services of the host itself some of their
/// own (`PrivateTmp=`, systemd.exec(5)).
fn has_containers(host: &Host) -> bool {
    let ours = host.namespaces.pid.get();
    let mut all = host.processes.known().into_iter().flatten();
    all.any(|it| it.namespaces.pid.get().zip(ours).is_some_and(|(its, ours)| its != ours))
}

/// Says of pages that servers hold which are to have others: until these have gone, there are too few for all that need them.
fn moving(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if !ask.options.now {
        return;
    }
    let target = ask.target();
    for goal in draft.pools.clone() {
        let page = goal.page_size;
        let held = target.held_until_restart(page);
        let lacks = |it: &Instance| {
            let moments = ask.assessment.situation.of(it);
            moments.is_some_and(|it| it.restart.obstacle == Some(Obstacle::Pages))
        };
        let there = goal.goal.max(goal.now + goal.surplus);
        let waits = ask.sized().any(|(it, sized)| sized.page_size == page && lacks(it));
        let holds = |it: &Instance| demand::held(it, page) > PageCount::ZERO;
        let movers = ask.sized().filter(|(it, sized)| sized.page_size != page && holds(it));
        let movers: Vec<String> = movers.map(|(it, _)| it.title()).collect();
        if !movers.is_empty() && waits && there < goal.needed + held {
            let verb = if movers.len() == 1 { "holds" } else { "hold" };
            let (whom, them) = if movers.len() == 1 { ("it is", "it") } else { ("they are", "them") };
            draft.warn(format!(
                "{} {verb} {} until {whom} restarted: restart {them} before others that need such pages, or \
                 those find too few",
                words::list(&movers),
                held.in_pages_of(page)
            ));
        }
    }
}

/// Whoever wants pages back is told why a pool keeps them.
fn unread(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if !ask.options.shrink {
        return;
    }
    let kept = draft.pools.iter().filter(|goal| goal.goal >= goal.now && goal.needed < goal.now);
    for page in kept.map(|goal| goal.page_size).collect::<Vec<_>>() {
        let unknown = ask.assessment.situation.claim(page).map(|claim| claim.unknown.as_slice()).unwrap_or_default();
        if let Some(id) = unknown.first() {
            draft.warn(format!(
                "no {page} pages are released, because hugewise cannot tell what {id} will ask for at its next start"
            ));
        }
    }
}

/// Whoever names servers is told of the others that the same pools are planned for.
fn shared(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if ask.options.instances.is_empty() {
        return;
    }
    let pages: Vec<_> = draft.pools.iter().filter(|goal| goal.grows()).map(|goal| goal.page_size).collect();
    for page in pages {
        let others = ask.sized().filter(|(of, sized)| sized.page_size == page && !ask.is_asked_for(of));
        let others: Vec<String> = others
            .map(|(of, sized)| {
                let runs = hugewise_advice::demand::held(of, page) > hugewise_model::PageCount::ZERO;
                let how = if runs { "runs on it" } else { "asks for it" };
                format!("{} for {}, which {how}", sized.demand_pages, of.title())
            })
            .collect();
        if !others.is_empty() {
            draft.warn(format!("the pool of {page} pages is also used by others: {}", others.join("; ")));
        }
    }
}

/// Servers that nobody has said should ask for huge pages: whoever misses them in the plan is told how to have them in it.
fn left_alone(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    for instance in ask.instances {
        if is_left_alone(ask, instance) {
            draft.leave(
                Remedy::SetSetting(instance.id()),
                format!(
                    "{} does not ask for huge pages, so the plan leaves it alone; --instance {} includes it",
                    instance.title(),
                    shell_word(&instance.name)
                ),
            );
        }
    }
}

/// Servers that ask for huge pages, have none, and are too small for a plan that nobody asked for: `check` shows that they have
/// none, and a plan that said nothing of it would contradict it.
fn small(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if !ask.options.instances.is_empty() {
        return;
    }
    let planned = |instance: &Instance| ask.sized().any(|(of, _)| std::ptr::eq(of, instance));
    let is_small = |instance: &&Instance| {
        instance.is_vouched()
            && matches!(instance.asked, Asked::Try | Asked::Must)
            && instance.huge_pages == HugePageUse::None
            && demand::on_base_pages(instance).is_some_and(|base| base > Bytes::ZERO && base < demand::BIG_SEGMENT)
            && !planned(instance)
    };
    let small: Vec<&Instance> = ask.instances.iter().filter(is_small).collect();
    let titles: Vec<String> = small.iter().map(|it| it.title()).collect();
    let enough = demand::BIG_SEGMENT;
    match small.as_slice() {
        [] => {}
        [one] => draft.warn(format!(
            "{} has less than {enough} on base pages, so no huge pages are planned for it; --instance {} includes it",
            one.title(),
            shell_word(&one.name)
        )),
        [_, ..] => draft.warn(format!(
            "{} have less than {enough} each on base pages, so no huge pages are planned for them; --instance includes one by \
             name",
            words::list(&titles)
        )),
    }
}

/// Whether a server does not ask for huge pages, and nobody has said that it should: no page is planned for it.
pub(super) fn is_left_alone(ask: &Ask<'_>, instance: &Instance) -> bool {
    let planned = || ask.sized().any(|(of, _)| std::ptr::eq(of, instance));
    let does_not_ask = || target::does_not_ask(&ask.assessment.facts(ask.host, ask.instances), instance);
    ask.options.instances.is_empty() && !planned() && does_not_ask()
}

/// Servers that stay on pages of another size than the one that was asked for: whoever asked is told why.
fn kept_size(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let Some(page) = ask.options.page_size else { return };
    let planned =
        |instance: &Instance| ask.sized().any(|(of, sized)| std::ptr::eq(of, instance) && sized.page_size == page);
    for instance in ask.instances.iter().filter(|it| ask.is_chosen(it) && !planned(it)) {
        let Some(own) = demand::page_size(ask.host, instance).filter(|own| *own != page) else { continue };
        if demand::held(instance, own) == PageCount::ZERO {
            continue;
        }
        let title = instance.title();
        draft.warn(if target::takes(instance, page) {
            format!(
                "{title} stays on its pages of {own}, as nothing keeps it off them; --instance {} plans pages of {page} \
                 for it",
                shell_word(&instance.name)
            )
        } else {
            format!("{title} can use only the default page size, so no {page} pages are planned for it")
        });
    }
}

/// Small systems that are made out of this one's files.
fn images(ask: &Ask<'_>) -> [(bool, &'static str); 2] {
    let there = |path: &str| !ask.source.list(path).is_absent() || !ask.source.read(path).is_absent();
    let words = match &ask.host.command_line {
        Observed::Known(words) => words.as_slice(),
        _ => &[],
    };
    let kdump = words.iter().any(|word| word.starts_with("crashkernel=")) || there("/etc/kdump.conf");
    let rescue = there("/etc/rear");
    [(kdump, "the kdump image"), (rescue, "the rescue image (ReaR)")]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hugewise_model::process::Namespaces;

    use super::*;

    #[test]
    fn services_with_mounts_of_their_own_are_no_containers() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/no-pool-postgresql");
        let mut host = hugewise_host::read(&*hugewise_host::source::open(Some(&folder)).unwrap());
        let process = host.processes.known().unwrap().iter().find(|it| it.namespaces.pid.get().is_some()).unwrap();
        let its = process.namespaces.clone();
        host.namespaces = Namespaces { mount: Observed::Known(1), ..its };
        assert!(!has_containers(&host));
        host.namespaces.pid = Observed::Known(1);
        assert!(has_containers(&host));
    }
}
