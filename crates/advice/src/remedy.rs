//! Remedies in words, with the target's numbers: the same wherever they are shown.

use hugewise_engines::{Kind, SettingsBy};
use hugewise_model::{Asked, Host, Instance, InstanceId, Level, PageCount, PageSize, Remedy};

use crate::demand::starting;
use crate::locked::Locked;
use crate::permission::{self, Way};
use crate::situation::{all_leave, arriving};
use crate::target::{Goal, Target};
use crate::{Assessment, boot, demand, given, login, rules, thp};

/// What a remedy does on a host; none where that is done already.
pub fn say(host: &Host, instances: &[Instance], assessment: &Assessment, remedy: &Remedy) -> Option<String> {
    let (target, locked) = (&assessment.target, assessment.situation.locked());
    let goal = |page| target.pool(page);
    let text = match remedy {
        Remedy::SetPool(page) => {
            let Some(goal) = goal(*page) else {
                return Some(format!("give the pool of {page} pages what its servers need"));
            };
            if !goal.grows() {
                return None;
            }
            if let Some(refused) = too_much(target, goal) {
                return Some(refused);
            }
            let (pages, size) = (goal.goal, format!("{}{}", goal.goal.of(*page), by_node(goal)));
            let then = in_the_way(host, instances, goal);
            match &goal.not_now {
                // What the next boot is asked for has to be lowered first.
                None if is_crowded(host) => format!("set the pool of {page} pages to {pages} ({size})"),
                Some(_) if goal.crowds => {
                    "give back the huge pages that nobody uses, before others are set aside (hugewise plan --shrink)"
                        .into()
                }
                None if boot::is_written(host, *page) => {
                    format!("set the pool of {page} pages to {pages} ({size}) now")
                }
                None => format!("set the pool of {page} pages to {pages} ({size}), now and at each boot{then}"),
                Some(_) if is_left_to_a_reboot(host, goal) => {
                    format!("reboot: the next boot brings the {} ({size})", pages.in_pages_of(*page))
                }
                Some(_) => format!("set the pool of {page} pages to {pages} ({size}), from the next boot on{then}"),
            }
        }
        Remedy::GiveBack(page) => match goal(*page).filter(|goal| goal.goal < goal.now) {
            Some(goal) => {
                format!("give back {} of the {}", goal.now.saturating_sub(goal.goal), goal.now.in_pages_of(*page))
            }
            None => match uncounted(assessment, *page) {
                Some(id) => format!(
                    "see what {id} asks for when it is started, before pages of {page} are given back: they may be its"
                ),
                None => format!("give back the {page} pages that no server asks for (hugewise plan --shrink)"),
            },
        },
        Remedy::KeepAtBoot(page) => match goal(*page) {
            Some(goal) if goal.needed == PageCount::ZERO && crowds(host, *page).is_some() => {
                let (pages, place) = crowds(host, *page)?;
                match arriving(host, instances, *page) {
                    (PageCount::ZERO, _) => {
                        format!("lower the {} in {place}: no server here asks for them", pages.in_pages_of(*page))
                    }
                    (then, servers) => format!(
                        "lower the {} in {place} to {then}, which {} will ask for at that boot",
                        pages.in_pages_of(*page),
                        crate::chain::titles(servers)
                    ),
                }
            }
            Some(_) if all_leave(host, instances, *page) => return None,
            Some(goal) if goal.needed == PageCount::ZERO => {
                format!("keep the pool of {page} pages at each boot only if a server that is down now uses it")
            }
            // Something else writes it too: no file alone brings it at each boot.
            Some(goal) if boot::is_written(host, *page) => {
                let steps = boot::pool_of_files(host, *page).unwrap_or_default();
                if steps.last().is_some_and(|step| PageCount(step.value) == goal.goal) {
                    return None;
                }
                let (pages, size) = (goal.goal, goal.goal.of(*page));
                format!("have the boot's files set the pool of {page} pages to {pages} ({size})")
            }
            Some(goal) if brings_exactly(host, instances, goal) => return None,
            Some(goal) if goal.grows() && too_much(target, goal).is_some() => return too_much(target, goal),
            Some(goal) => {
                let pages = goal.pages_at_boot(host, instances);
                let (size, then) = (pages.of(*page), in_the_way(host, instances, goal));
                let is_now = goal.grows() && goal.not_now.is_none() && !is_crowded(host);
                let now = if is_now { ", now and" } else { "" };
                format!("set the pool of {page} pages to {pages} ({size}{}){now} at each boot{then}", by_node(goal))
            }
            None => format!("set the pool of {page} pages at each boot"),
        },
        Remedy::SetShmLimits => rules::shm_limits::in_words(host, instances).join("; "),
        Remedy::SetGroup(id) => group(host, instances, assessment, id),
        // Its files have enough: a restart is all that is left, once systemd has read them.
        Remedy::RaiseMemlock(id) if is_raised((host, locked), instances, id) => {
            let waiting = waiting(host, instances, id)?;
            format!("have systemd read {waiting}, which was changed since it last did (systemctl daemon-reload)")
        }
        Remedy::RaiseMemlock(id) => {
            let whose = match lacking((host, locked), instances, id) {
                Some(Lacking { service: true, log_ins: true }) => ", for its service and for log-ins",
                Some(Lacking { service: true, log_ins: false }) => ", for its service",
                Some(Lacking { service: false, log_ins: true }) => ", for log-ins",
                Some(Lacking { service: false, log_ins: false }) | None => "",
            };
            format!("raise the memlock limit of {id}{whose}")
        }
        Remedy::SetThp => {
            let said = thp::in_words(host, instances)?;
            match boot::thp_is_undone_by(host, thp::meeting_point(host, instances)) {
                Some((place, value)) => format!("{said}, and take out {place}, which sets {value} at each boot"),
                None => said,
            }
        }
        Remedy::KeepThpAtBoot => match host.thp.enabled.known().and_then(|now| boot::thp_is_undone_by(host, now)) {
            Some((place, value)) => {
                format!("keep transparent huge pages as they are: take out {place}, which sets {value} at each boot")
            }
            None => "set transparent huge pages at each boot too".into(),
        },
        Remedy::SetSetting(id) => setting(host, instances, target, id),
        Remedy::Restart(id) => match goal_of(host, instances, target, id) {
            Some(goal) if !goal.is_there() => format!("reboot, or restart {id} once its pages are there"),
            _ => format!("restart {id}"),
        },
        Remedy::ByHand(by_hand) => by_hand.what.clone(),
        Remedy::Consider(what) => what.clone(),
    };
    Some(crate::words::one_line(&text))
}

/// What there is to do where the pools that the servers ask for are more than the host can carry, now or at a boot.
fn too_much(target: &Target, goal: &Goal) -> Option<String> {
    target.sizing.as_ref()?.refusal.as_ref()?;
    let (page, asked) = (goal.page_size, goal.goal.of(goal.page_size));
    Some(format!("make the servers smaller: {asked} of {page} pages are more than this host can give"))
}

/// The nodes that a pool's pages belong on, where it is not all the same: the kernel spreads a pool that is set as a whole evenly.
fn by_node(goal: &Goal) -> String {
    let pages = || goal.nodes.iter().map(|(_, _, goal)| goal.get());
    let even = pages().max().unwrap_or_default() - pages().min().unwrap_or_default() <= 1;
    if goal.nodes.len() < 2 || even {
        return String::new();
    }
    let used = goal.nodes.iter().filter(|(_, _, goal)| *goal > PageCount::ZERO);
    let parts: Vec<String> = used.map(|(node, _, goal)| format!("{goal} on node {node}")).collect();
    format!(", {}", crate::words::list(&parts))
}

/// A server that is down and may have any pages of a size, for all that is known of it.
pub fn uncounted(assessment: &Assessment, page: PageSize) -> Option<&InstanceId> {
    assessment.situation.claim(page)?.uncounted.first()
}

/// Whether a pool does not fit beside what runs, and the boot's files bring it already: a reboot is all that is left to do.
fn is_left_to_a_reboot(host: &Host, goal: &Goal) -> bool {
    goal.grows() && goal.not_now.is_some() && !goal.crowds && is_brought(host, goal.page_size, goal.goal)
}

/// Whether the boot's files bring a pool already.
fn is_brought(host: &Host, page: PageSize, pages: PageCount) -> bool {
    let steps = boot::pool(host, page).unwrap_or_default();
    steps.last().is_some_and(|step| PageCount(step.value) >= pages)
}

/// The file of a server's unit that systemd has yet to load.
fn waiting<'a>(host: &'a Host, instances: &'a [Instance], id: &InstanceId) -> Option<&'a str> {
    let instance = instances.iter().find(|instance| instance.id() == *id)?;
    let unit = given::unit_of(host, instance)?;
    unit.loaded.known()?.waiting()
}

/// Whose memlock limit is too small for a server by the files.
struct Lacking {
    service: bool,
    log_ins: bool,
}

/// Whose memlock limit is too small; none where the limit is not the files' to say.
fn lacking((host, locked): (&Host, &Locked), instances: &[Instance], id: &InstanceId) -> Option<Lacking> {
    let instance = instances.iter().find(|instance| instance.id() == *id)?;
    let process = permission::process_of(host, instance).filter(|_| !instance.containered)?;
    if given::is_limited_by_others(host, instance) {
        return None;
    }
    let needs = locked.at_most(host, instance).all();
    let unit = given::unit_of(host, instance);
    let is_short = |found: &login::Allowance| found.allows(needs) != Some(true);
    let named = instance.unit.as_deref().or(unit.map(|unit| unit.name.as_str()));
    let service = match (named, unit) {
        (Some(_), Some(unit)) if instance.is_known_to_the_host() => {
            given::memlocks_by_unit(host, unit, process).iter().any(is_short)
        }
        (Some(_), None) => instance.is_known_to_the_host(),
        _ => false,
    };
    Some(Lacking { service, log_ins: is_short(&login::of_log_in(host, process.uid)) })
}

/// Whether a server's next start finds a memlock limit that is large enough, from a log-in and from its service.
fn is_raised(around: (&Host, &Locked), instances: &[Instance], id: &InstanceId) -> bool {
    lacking(around, instances, id).is_some_and(|it| !it.service && !it.log_ins)
}

/// What has to be done for the pool of the next boot beside setting it, after a colon; nothing where a plan's files win.
fn in_the_way(host: &Host, instances: &[Instance], goal: &Goal) -> String {
    let pages = goal.pages_at_boot(host, instances);
    match boot::ours::overruled(host, goal.page_size, pages) {
        Ok(Some(why)) => format!(": {why}"),
        Ok(None) | Err(_) => String::new(),
    }
}

/// Whether the next boot is told of a pool as it is to be.
fn brings_exactly(host: &Host, instances: &[Instance], goal: &Goal) -> bool {
    let steps = boot::pool(host, goal.page_size).unwrap_or_default();
    steps.last().is_some_and(|step| PageCount(step.value) == goal.pages_at_boot(host, instances))
}

/// How the owner of a server comes by its right to System V huge pages.
fn group(host: &Host, instances: &[Instance], assessment: &Assessment, id: &InstanceId) -> String {
    let Some(instance) = instances.iter().find(|instance| instance.id() == *id) else {
        return format!("let the owner of {id} use System V huge pages: vm.hugetlb_shm_group");
    };
    let is_about = |it: &&Instance| {
        let wanted = Remedy::SetGroup(it.id());
        assessment.findings.iter().any(|finding| finding.remedies.contains(&wanted))
    };
    let lacking: Vec<&Instance> = instances.iter().filter(is_about).collect();
    let named = |gid: u32| match host.accounts.groups.get(&gid) {
        Some(group) => (format!("{gid} ({})", group.name), group.name.clone()),
        None => (gid.to_string(), gid.to_string()),
    };
    let owner = instance.owner_in_words();
    let let_it = format!("let {owner} use System V huge pages: vm.hugetlb_shm_group");
    match permission::way(host, &lacking, instance) {
        Some(Way::Keep(gid)) => format!("keep vm.hugetlb_shm_group = {} at each boot", named(gid).0),
        Some(Way::Join(gid)) => {
            format!("add {owner} to {}, the group of vm.hugetlb_shm_group, and leave that as it is", named(gid).1)
        }
        Some(Way::Set(gid)) => format!("{let_it} = {}", named(gid).0),
        None => let_it,
    }
}

/// Whether the next boot is asked for more pages than the host can carry.
fn is_crowded(host: &Host) -> bool {
    boot::crowding(host).is_ok_and(|crowding| crowding.is_some())
}

/// What the next boot is asked for of a size, and where, where that is more than the host can carry.
fn crowds(host: &Host, page: PageSize) -> Option<(PageCount, String)> {
    let crowding = boot::crowding(host).ok()??;
    crowding.parts.into_iter().find(|part| part.page_size == page).map(|part| (part.pages, part.place))
}

/// The pool that a server takes its pages from.
fn goal_of<'a>(host: &Host, instances: &[Instance], target: &'a Target, id: &InstanceId) -> Option<&'a Goal> {
    let instance = instances.iter().find(|instance| instance.id() == *id)?;
    target.pool(demand::page_size(host, instance)?)
}

/// What the settings of a server are to say, in the words that a plan writes or says.
fn setting(host: &Host, instances: &[Instance], target: &Target, id: &InstanceId) -> String {
    let kind = Kind::of(id.engine);
    let insists = target.insisting.contains(id);
    let ask = kind.insists_by.filter(|_| insists).unwrap_or(kind.asks_by);
    let Some(instance) = instances.iter().find(|instance| instance.id() == *id) else {
        return format!("make {id} ask for huge pages: {ask}");
    };
    if instance.asks_in_part() {
        return format!("make {id} ask for huge pages for all of its memory: {}", kind.asks_by);
    }
    match (starting(host, instance).asked, kind.can_by) {
        (Asked::Try, _) => {
            let how = kind.insists_by.unwrap_or(kind.asks_by);
            if insists {
                format!("make {id} refuse to start without huge pages: {how}")
            } else if demand::page_size(host, instance).is_some_and(|page| boot::is_written(host, page)) {
                format!("once nothing else sets its pool at boot, have {id} insist: {how}")
            } else {
                format!("once it runs on huge pages, have {id} insist: {how}")
            }
        }
        (Asked::Cannot, Some(_)) => {
            let how = kind.how_it_can(instance).unwrap_or_default();
            let more = if insists || switched_off(instance, kind) { format!(" and {ask}") } else { String::new() };
            format!("make {id} use memory that can be on huge pages: {how}{more}")
        }
        _ => format!("make {id} ask for huge pages: {ask}{}", says_otherwise(instance, kind)),
    }
}

/// The line that keeps a server from asking, where its files alone have the say and a line elsewhere may change nothing.
fn says_otherwise(instance: &Instance, kind: &Kind) -> String {
    let SettingsBy::Plan(settable) = kind.settings_by else { return String::new() };
    let setting = instance.settings.get(settable.asks.0).filter(|_| settable.by_itself.is_none());
    let place = setting.and_then(|setting| setting.place.as_ref()).filter(|place| place.file.starts_with('/'));
    match (setting, place) {
        (Some(setting), Some(place)) if !setting.value.eq_ignore_ascii_case(settable.asks.1) => {
            format!(" ({place} says {})", setting.value)
        }
        _ => String::new(),
    }
}

/// Whether the setting by which a server asks for huge pages has another value than those that do.
fn switched_off(instance: &Instance, kind: &Kind) -> bool {
    let mut asking = [Some(kind.asks_by), kind.insists_by].into_iter().flatten().filter_map(|it| it.split_once('='));
    let name = kind.asks_by.split_once('=').map_or("", |(name, _)| name);
    instance
        .setting_value(name)
        .is_some_and(|is| !asking.any(|(name_of, value)| name_of == name && is.eq_ignore_ascii_case(value)))
}

/// Whether a plan has it, however little the finding weighs: the rest of what a note names is said with the note.
const fn is_planned(remedy: &Remedy) -> bool {
    match remedy {
        Remedy::ByHand(_) | Remedy::Consider(_) | Remedy::GiveBack(_) => false,
        Remedy::SetPool(_)
        | Remedy::KeepAtBoot(_)
        | Remedy::SetShmLimits
        | Remedy::SetGroup(_)
        | Remedy::RaiseMemlock(_)
        | Remedy::SetThp
        | Remedy::KeepThpAtBoot
        | Remedy::SetSetting(_)
        | Remedy::Restart(_) => true,
    }
}

/// What is to be done on a host, each thing once, in the order in which it is done: what ends its findings of a level or
/// worse, and of the others what a plan does all the same.
pub fn to_do(host: &Host, instances: &[Instance], assessment: &Assessment, least: Level) -> Vec<(Remedy, String)> {
    let findings = assessment.findings.iter();
    let mut all: Vec<&Remedy> = findings
        .flat_map(|finding| finding.remedies.iter().filter(move |it| finding.level >= least || is_planned(it)))
        .collect();
    all.sort();
    all.dedup();
    // Pages that the host has no room for are never there: nothing waits for them.
    let refused = assessment.target.sizing.as_ref().is_some_and(|sizing| sizing.refusal.is_some());
    let done = |remedy: &Remedy| match remedy {
        // A pool that is set is kept as well, and what is given back is not kept.
        Remedy::KeepAtBoot(page) => {
            let is_set =
                |it: &&Remedy| **it == Remedy::SetPool(*page) && say(host, instances, assessment, it).is_some();
            let is_needed = assessment.target.pool(*page).is_some_and(|goal| goal.needed > PageCount::ZERO);
            let is_written = boot::is_written(host, *page);
            all.iter().any(|it| (is_set(it) && !is_written) || (**it == Remedy::GiveBack(*page) && !is_needed))
        }
        // The reboot starts it again.
        Remedy::Restart(id) => {
            let goal = goal_of(host, instances, &assessment.target, id).filter(|goal| !goal.is_there());
            let waits =
                |goal: &Goal| is_left_to_a_reboot(host, goal) && all.contains(&&Remedy::SetPool(goal.page_size));
            goal.is_some_and(|goal| refused || waits(goal))
        }
        Remedy::SetSetting(id) => {
            let goal = goal_of(host, instances, &assessment.target, id).filter(|goal| refused && !goal.is_there());
            goal.is_some() && instances.iter().any(|it| it.id() == *id && starting(host, it).asked == Asked::Try)
        }
        _ => false,
    };
    // To insist before the pages are there is to stay down: that comes when the server has them.
    let later = |remedy: &Remedy| match remedy {
        Remedy::SetSetting(id) => {
            let is_it = |instance: &&Instance| instance.id() == *id;
            let tries = |instance: &Instance| starting(host, instance).asked == Asked::Try;
            !assessment.target.insisting.contains(id) && instances.iter().find(is_it).is_some_and(tries)
        }
        _ => false,
    };
    let (last, first): (Vec<&Remedy>, Vec<&Remedy>) =
        all.iter().filter(|remedy| !done(remedy)).partition(|it| later(it));
    // Each limit is a thing by itself.
    let said = |remedy: &Remedy| -> Vec<(Remedy, String)> {
        let lines = match remedy {
            Remedy::SetShmLimits => rules::shm_limits::in_words(host, instances),
            other => say(host, instances, assessment, other).into_iter().collect(),
        };
        lines.into_iter().map(|line| (remedy.clone(), line)).collect()
    };
    let is_thought = |remedy: &Remedy| matches!(remedy, Remedy::Consider(_));
    let (thoughts, first): (Vec<&Remedy>, Vec<&Remedy>) = first.into_iter().partition(|it| is_thought(it));
    // What it is to find has to be there before it.
    let is_reboot = |remedy: &Remedy| match remedy {
        Remedy::SetPool(page) => assessment.target.pool(*page).is_some_and(|goal| is_left_to_a_reboot(host, goal)),
        _ => false,
    };
    let (reboot, first): (Vec<&Remedy>, Vec<&Remedy>) = first.into_iter().partition(|it| is_reboot(it));
    first.into_iter().chain(reboot).chain(last).chain(thoughts).flat_map(said).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::LimitRule;
    use hugewise_model::process::SoftHard;
    use hugewise_model::{Bytes, Engine, KernelRelease, Limit, Observed};

    use super::*;
    use crate::testing::{all_huge, gib, part, quiet};

    fn do_lines(case: &crate::testing::Case) -> Vec<String> {
        let assessment = case.assess();
        let all = to_do(&case.host, &case.instances, &assessment, Level::Info);
        all.into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn what_is_given_back_is_not_kept_for_the_boot() {
        let mut case = quiet();
        case.pool(4096, 4096);
        case.host.configuration.sysctl = Observed::Known(Vec::new());
        let codes = case.codes();
        // That the boot does not bring idle pages either is no second finding.
        assert!(codes.contains(&"HW202") && !codes.contains(&"HW601"), "{codes:?}");
        let lines = do_lines(&case);
        assert!(lines.iter().any(|line| line.starts_with("give back")), "{lines:?}");
        assert!(lines.iter().all(|line| !line.ends_with("at each boot")), "{lines:?}");
    }

    #[test]
    fn a_pool_in_use_is_kept_and_said_once() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        case.host.configuration.sysctl = Observed::Known(Vec::new());
        let lines = do_lines(&case);
        let kept =
            lines.iter().filter(|line| **line == "set the pool of 2 MiB pages to 1,024 (2.0 GiB) at each boot").count();
        assert_eq!(kept, 1, "{lines:?}");
    }

    /// MEMORY_TARGET of the next start rules huge pages out whatever use_large_pages says (Database Reference 19c).
    #[test]
    fn memory_target_of_the_next_start_is_what_has_to_go() {
        let mut case = quiet();
        let instance = all_huge(case.oracle("DW", gib(4), 10));
        instance.asked = Asked::Must;
        let place = Some(crate::testing::place("/u01/dbs/initDW.ora"));
        let setting = hugewise_model::instance::Setting { name: "memory_target".into(), value: "16G".into(), place };
        instance.settings.insert("memory_target".into(), setting.clone());
        let next = hugewise_model::NextStart { asked: Asked::Cannot, setting: Some(setting), demands: Vec::new() };
        instance.next = Observed::Known(next);
        case.pool(2048, 0);
        let lines = do_lines(&case);
        assert!(lines.iter().any(|line| line.ends_with("sga_target instead of memory_target")), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("use_large_pages")), "{lines:?}");
    }

    #[test]
    fn a_server_that_will_find_its_pages_is_made_to_insist_at_once() {
        let lines = |change: fn(&mut crate::testing::Case)| {
            let mut case = quiet();
            all_huge(case.postgresql("15/main", gib(2))).asked = Asked::No;
            case.pool(1024, 0);
            change(&mut case);
            do_lines(&case)
        };
        let is = |lines: Vec<String>, end: &str| {
            assert!(
                lines.iter().any(|line| line == &format!("make postgresql 15/main ask for huge pages: {end}")),
                "{lines:?}"
            );
        };
        is(lines(|_| {}), "huge_pages=on");
        // One page too few keeps it down.
        let estimated = |case: &mut crate::testing::Case| {
            let source = hugewise_model::DemandSource::Estimated { error_percent: 10 };
            case.instances[0].demand.as_mut().unwrap().source = source;
        };
        is(lines(estimated), "huge_pages=try");
        // Pages that a limit keeps from it are not its own.
        let limited = |case: &mut crate::testing::Case| {
            let limit = hugewise_model::Limit::At(gib(1));
            case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice", limit)];
        };
        is(lines(limited), "huge_pages=try");
        // Nor are those of nodes that it may not use.
        let kept = |case: &mut crate::testing::Case| {
            case.pools()[0].nodes = vec![part(0, 984, 0), part(1, 40, 0)];
            case.processes().iter_mut().for_each(|it| it.nodes_allowed = Observed::Known(vec![(1, 1)]));
        };
        is(lines(kept), "huge_pages=try");
    }

    /// A page size without a pool in /sys/kernel/mm/hugepages: mmap with MAP_HUGETLB fails (EINVAL), however large any pool.
    #[test]
    fn no_pool_is_asked_for_of_a_size_that_the_kernel_does_not_have() {
        let mut case = quiet();
        let instance = all_huge(case.postgresql("15/main", gib(2)));
        let page = PageSize::new(16 << 20).unwrap();
        let demand = hugewise_model::Demand {
            page_size: page,
            pages: PageCount(128),
            source: hugewise_model::DemandSource::Engine,
        };
        let next = hugewise_model::NextStart { asked: Asked::Must, setting: None, demands: vec![demand] };
        instance.next = Observed::Known(next);
        case.pool(1024, 0);
        let lines = do_lines(&case);
        let told = "have postgresql 15/main ask for pages of a size that this kernel has (huge_page_size): 2 MiB and 1 GiB, \
                    and not 16 MiB";
        assert!(lines.iter().any(|line| line == told), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("the pool of 16 MiB")), "{lines:?}");
    }

    /// The note on huge_pages=try is what a plan acts on; a pool to give back is not, before somebody asks for it.
    #[test]
    fn what_a_plan_does_beside_is_to_be_done_too() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        case.host.thp.enabled = Observed::Known("always".into());
        case.oracle("X", hugewise_model::Bytes::from_mib(10), 1);
        let assessment = case.assess();
        assert!(assessment.findings.iter().any(|it| it.level == Level::Warn), "{:?}", case.codes());
        let all = to_do(&case.host, &case.instances, &assessment, Level::Warn);
        let notes = assessment.findings.iter().filter(|it| it.level == Level::Info);
        let settings = notes.flat_map(|it| &it.remedies).filter(|it| matches!(it, Remedy::SetSetting(_)));
        for remedy in settings {
            assert!(all.iter().any(|(it, _)| it == remedy), "{remedy:?} in {all:?}");
        }
        assert!(all.iter().any(|(it, _)| matches!(it, Remedy::SetSetting(_))), "{all:?}");
    }

    #[test]
    fn nobody_is_told_to_insist_on_pages_that_only_a_reboot_brings() {
        let mut case = quiet();
        case.postgresql("15/main", gib(6));
        case.host.memory.available = Observed::Known(gib(1));
        let lines = do_lines(&case);
        let at = |what: &str| lines.iter().position(|line| line.contains(what));
        let (reboot, insist) = (
            at("reboot, or restart postgresql 15/main once its pages are there"),
            at("have postgresql 15/main insist"),
        );
        assert!(reboot.is_some() && reboot < insist, "{lines:?}");
        assert!(
            at("from the next boot on").is_some() && lines.iter().all(|line| line != "restart postgresql 15/main"),
            "{lines:?}"
        );
    }

    #[test]
    fn what_is_done_is_not_asked_for_again() {
        // Its pool is in the boot's files and does not fit beside it now.
        let mut case = quiet();
        case.postgresql("15/main", gib(6));
        case.host.memory.available = Observed::Known(gib(1));
        case.host.configuration.sysctl = Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "3072")]);
        let lines = do_lines(&case);
        assert!(
            lines.contains(&"reboot: the next boot brings the 3,072 pages of 2 MiB (6.0 GiB)".to_owned()),
            "{lines:?}"
        );
        // The reboot starts it again, and is named once.
        assert_eq!(lines.iter().filter(|line| line.contains("reboot")).count(), 1, "{lines:?}");
        assert!(lines.iter().all(|line| !line.starts_with("restart")), "{lines:?}");
        assert!(
            lines.iter().all(|line| !line.starts_with("set the pool") && !line.contains("ask for fewer")),
            "{lines:?}"
        );

        // What it needs beside is to be there when the host comes up.
        let mut case = quiet();
        case.host.kernel = Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
        case.oracle("PROD", gib(6), 20);
        case.processes()[0].memlock =
            Observed::Known(SoftHard { soft: Limit::At(Bytes::from_kib(64)), hard: Limit::At(Bytes::from_kib(64)) });
        case.host.memory.available = Observed::Known(gib(1));
        case.host.configuration.sysctl = Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "3074")]);
        let lines = do_lines(&case);
        let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin));
        assert!(at("raise the memlock").is_some() && at("raise the memlock") < at("reboot:"), "{lines:?}");

        // Its memlock limit is raised in the files, and it has yet to be restarted.
        let mut case = quiet();
        case.host.kernel = Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
        case.oracle("PROD", gib(8), 20);
        case.pool(4098, 4098);
        let low = Limit::At(Bytes::from_kib(64));
        case.processes()[0].memlock = Observed::Known(SoftHard { soft: low, hard: low });
        let raise =
            |case: &crate::testing::Case| do_lines(case).iter().any(|line| line.starts_with("raise the memlock"));
        assert!(raise(&case));
        case.host.configuration.limits = Observed::Known(vec![LimitRule {
            domain: "oracle".into(),
            soft: true,
            hard: true,
            value: Limit::Unlimited,
            place: crate::testing::place("/etc/security/limits.d/zz-hugewise.conf"),
        }]);
        assert!(!raise(&case), "{:?}", do_lines(&case));
        assert!(do_lines(&case).contains(&"restart oracle PROD".to_owned()), "{:?}", do_lines(&case));
    }

    #[test]
    fn a_pool_that_is_given_back_in_part_is_kept_for_the_servers_that_need_it() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1)));
        case.pool(3000, 2488);
        case.host.configuration.sysctl = Observed::Known(Vec::new());
        let lines = do_lines(&case);
        assert!(lines.iter().any(|line| line.starts_with("give back")), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with("at each boot")), "{lines:?}");
    }

    #[test]
    fn a_restart_comes_after_what_the_server_is_to_find() {
        let id = hugewise_model::InstanceId { engine: Engine::Oracle, name: "HR".into() };
        let mut all = [
            Remedy::Restart(id.clone()),
            Remedy::by_hand("x"),
            Remedy::RaiseMemlock(id),
            Remedy::SetPool(PageSize::MIB_2),
        ];
        all.sort();
        assert!(matches!(all[3], Remedy::Restart(_)), "{all:?}");
    }
}
