//! Remedies in words, with the target's numbers: the same wherever they are shown.

use hugewise_engines::{Kind, SettingsBy};
use hugewise_model::instance::Trait;
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
                return Some(format!("size the pool of {page} pages for its servers"));
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
                // What each boot brings is more than enough, perhaps on purpose: it is left as it is.
                None if let Some((there, place)) = kept_by_files(host, instances, goal) => format!(
                    "set the pool of {page} pages to {pages} ({size}) now: each boot brings {there} already ({place})"
                ),
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
                    "before giving back {page} pages, find out what {id} asks for when it starts: they may be its own"
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
                format!("make the boot's files set the pool of {page} pages to {pages} ({size})")
            }
            Some(goal) if brings_exactly(host, instances, goal) => return None,
            Some(goal) if kept_by_files(host, instances, goal).is_some() => return None,
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
            format!("make systemd reload {waiting}, which has changed (systemctl daemon-reload)")
        }
        Remedy::RaiseMemlock(id) => {
            let whose = match lacking((host, locked), instances, id) {
                Some(Lacking { starter: Some(by), log_ins: true }) => format!(", for {by} and for logins"),
                Some(Lacking { starter: Some(by), log_ins: false }) => format!(", for {by}"),
                Some(Lacking { starter: None, log_ins: true }) => ", for logins".to_owned(),
                Some(Lacking { starter: None, log_ins: false }) | None => String::new(),
            };
            format!("raise the memlock limit of {id}{whose}")
        }
        Remedy::SetThp => {
            let said = thp::in_words(host, instances)?;
            match boot::thp_is_undone_by(host, thp::meeting_point(host, instances)) {
                Some((place, value)) => format!("{said}, and remove {place}, which sets {value} at each boot"),
                None => said,
            }
        }
        Remedy::KeepThpAtBoot => match host.thp.enabled.known().and_then(|now| boot::thp_is_undone_by(host, now)) {
            Some((place, value)) => {
                format!("keep transparent huge pages as they are: remove {place}, which sets {value} at each boot")
            }
            None => {
                let is_wrong = assessment.findings.iter().any(|it| it.remedies.contains(&Remedy::SetThp));
                let now = host.thp.enabled.known().map(String::as_str).filter(|_| !is_wrong);
                let to = now.unwrap_or_else(|| thp::meeting_point(host, instances));
                let then = boot::thp_is_tuneds(host, to).map(|(place, value)| {
                    format!(": change {}, which has the last word and sets {value}", boot::place_to_edit(host, &place))
                });
                format!("set transparent huge pages to {to} at each boot too{}", then.unwrap_or_default())
            }
        },
        Remedy::SetSetting(id) => setting(host, instances, target, id),
        Remedy::Restart(id) if is_asm(instances, id) => {
            format!(
                "leave {id} running until the next restart of Grid Infrastructure, because every database on this node goes down with it"
            )
        }
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
    Some(format!("make the servers smaller: this host cannot give {asked} of {page} pages"))
}

/// Whether it is an ASM instance.
fn is_asm(instances: &[Instance], id: &InstanceId) -> bool {
    instances.iter().any(|it| it.id() == *id && it.traits.contains(&Trait::Asm))
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
    /// Of what starts it without a login: `its service`, `Clusterware`.
    starter: Option<&'static str>,
    log_ins: bool,
}

/// Whose memlock limit is too small; none where the limit is not the files' to say.
fn lacking((host, locked): (&Host, &Locked), instances: &[Instance], id: &InstanceId) -> Option<Lacking> {
    let instance = instances.iter().find(|instance| instance.id() == *id)?;
    let process = permission::process_of(host, instance).filter(|_| !instance.containered)?;
    let needs = locked.at_most(host, instance).all();
    let is_short = |found: &login::Allowance| found.allows(needs) != Some(true);
    let log_ins = is_short(&login::of_log_in(host, process.uid));
    if let Some(starter) = given::starter_of(host, instance) {
        let by = (!given::suffices(host, instance, locked)).then_some(starter.by);
        return Some(Lacking { starter: by, log_ins });
    }
    let unit = given::unit_of(host, instance);
    let named = instance.unit.as_deref().or(unit.map(|unit| unit.name.as_str()));
    let service = match (named, unit) {
        (Some(_), Some(unit)) if instance.is_known_to_the_host() => {
            given::memlocks_by_unit(host, unit, process).iter().any(is_short)
        }
        (Some(_), None) => instance.is_known_to_the_host(),
        _ => false,
    };
    Some(Lacking { starter: service.then_some("its service"), log_ins })
}

/// Whether a server's next start finds a memlock limit that is large enough, from a login and from its service.
fn is_raised(around: (&Host, &Locked), instances: &[Instance], id: &InstanceId) -> bool {
    lacking(around, instances, id).is_some_and(|it| it.starter.is_none() && !it.log_ins)
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

/// What the boot's files bring of a pool and where that stands, where it is more than enough and nothing of it is to be given
/// back.
fn kept_by_files(host: &Host, instances: &[Instance], goal: &Goal) -> Option<(PageCount, String)> {
    let steps = boot::pool(host, goal.page_size).unwrap_or_default();
    let last = steps.last().filter(|_| goal.goal >= goal.now && !is_crowded(host))?;
    let there = PageCount(last.value);
    (there > goal.pages_at_boot(host, instances)).then(|| (there, last.place.clone()))
}

/// How the owner of a server comes by its right to System V huge pages.
fn group(host: &Host, instances: &[Instance], assessment: &Assessment, id: &InstanceId) -> String {
    let Some(instance) = instances.iter().find(|instance| instance.id() == *id) else {
        return format!("allow the owner of {id} System V huge pages: vm.hugetlb_shm_group");
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
    let allow = format!("allow {owner} System V huge pages: vm.hugetlb_shm_group");
    match permission::way(host, &lacking, instance) {
        Some(Way::Keep(gid)) => format!("keep vm.hugetlb_shm_group = {} at each boot", named(gid).0),
        Some(Way::Join(gid)) => {
            format!("add {owner} to {}, the group of vm.hugetlb_shm_group, and leave that as it is", named(gid).1)
        }
        Some(Way::Set(gid)) => format!("{allow} = {}", named(gid).0),
        None => allow,
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
                format!("once nothing else sets its pool at boot, make {id} require huge pages: {how}")
            } else {
                format!("once {}, make {id} require them: {how}", crate::target::when(host, instance))
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

/// The pools that a plan makes larger since it is not known whether a server finds enough in them: no finding says so.
fn pools_in_doubt(host: &Host, instances: &[Instance], assessment: &Assessment) -> Vec<Remedy> {
    let lacking = instances
        .iter()
        .filter(|instance| assessment.situation.of(instance).is_some_and(crate::situation::Moments::may_lack_pages));
    let pages: std::collections::BTreeSet<PageSize> = lacking
        .flat_map(|instance| starting(host, instance).demands.into_iter().chain(instance.perhaps.iter().cloned()))
        .map(|demand| demand.page_size)
        .collect();
    pages.into_iter().map(Remedy::SetPool).collect()
}

/// What is to be done on a host, each thing once, in the order in which it is done: what ends its findings of a level or
/// worse, and of the others what a plan does all the same.
pub fn to_do(host: &Host, instances: &[Instance], assessment: &Assessment, least: Level) -> Vec<(Remedy, String)> {
    let findings = assessment.findings.iter();
    let open = pools_in_doubt(host, instances, assessment);
    let mut all: Vec<&Remedy> = findings
        .flat_map(|finding| finding.remedies.iter().filter(move |it| finding.level >= least || is_planned(it)))
        .chain(&open)
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
mod tests;
