//! Remedies in words, with the target's numbers: the same wherever they are shown.

mod order;

use std::collections::BTreeSet;

use hugewise_engines::{EngineKind, SettingsBy};
use hugewise_model::instance::Trait;
use hugewise_model::{Host, HugePageMode, Instance, InstanceId, PageCount, PageSize, Remedy};

use crate::demand::predict_next_start;
use crate::memlock_charges::MemlockCharges;
use crate::permission::{self, ShmGroupChoice};
use crate::prediction::{all_leave, arriving_at_default};
use crate::target::PoolGoal;
use crate::{Assessment, boot, demand, ipc_privileges, login, rules, thp};

pub use order::to_do;

/// What a remedy does on a host; none where that is done already.
pub fn describe_remedy(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    remedy: &Remedy,
) -> Option<String> {
    let words = RemedyWriter { host, instances, assessment }.describe(remedy)?;
    Some(crate::wording::one_line(&words))
}

/// A server that is down and may have any pages of a size, for all that is known of it.
pub fn find_uncounted_server(assessment: &Assessment, page: PageSize) -> Option<&InstanceId> {
    assessment.situation.claim(page)?.uncounted.first()
}

#[derive(Clone, Copy)]
struct RemedyWriter<'a> {
    host: &'a Host,
    instances: &'a [Instance],
    assessment: &'a Assessment,
}

impl<'a> RemedyWriter<'a> {
    fn describe(self, remedy: &Remedy) -> Option<String> {
        Some(match remedy {
            Remedy::SetPool(page) => return self.set_pool(*page),
            Remedy::GiveBack(page) => self.give_back(*page),
            Remedy::KeepAtBoot(page) => return self.keep_at_boot(*page),
            Remedy::SetShmLimits => self.set_shm_limits().join("; "),
            Remedy::SetGroup(id) => self.set_group(id),
            Remedy::RaiseMemlock(id) => return self.raise_memlock(id),
            Remedy::SetThp => return self.set_thp(),
            Remedy::KeepThpAtBoot => self.keep_thp_at_boot(),
            Remedy::SetSetting(id) => self.set_setting(id),
            Remedy::Restart(id) => self.restart(id),
            Remedy::ByHand(by_hand) => by_hand.what.clone(),
            Remedy::Consider(what) => what.clone(),
        })
    }

    fn set_shm_limits(self) -> Vec<String> {
        let sizing = self.assessment.target.sizing.as_ref();
        rules::shm_limits::in_words(self.host, self.instances, sizing.map(|sizing| &sizing.limits))
    }

    fn goal(self, page: PageSize) -> Option<&'a PoolGoal> {
        self.assessment.target.pool(page)
    }

    fn find_instance(self, id: &InstanceId) -> Option<&'a Instance> {
        self.instances.iter().find(|instance| instance.has_id(id))
    }

    fn goal_of(self, id: &InstanceId) -> Option<&'a PoolGoal> {
        self.goal(demand::page_size(self.host, self.find_instance(id)?)?)
    }

    /// Whether the host cannot carry the pools that its servers ask for, now or at a boot.
    fn is_refused(self) -> bool {
        let sizing = self.assessment.target.sizing.as_ref();
        sizing.is_some_and(|sizing| sizing.refusal.is_some())
    }

    fn set_pool(self, page: PageSize) -> Option<String> {
        let Some(goal) = self.goal(page) else {
            return Some(format!("size the pool of {page} pages for its servers"));
        };
        if !goal.grows() {
            return None;
        }
        if self.is_refused() {
            return Some(make_smaller(goal));
        }
        let (pages, size) = (goal.goal, format!("{}{}", goal.goal.to_bytes(page), by_node(goal)));
        let set = format!("set the pool of {page} pages to {pages} ({size})");
        Some(match &goal.not_now {
            // What the next boot is asked for is lowered by a line of its own.
            None if is_crowded(self.host) => format!("{set} now"),
            Some(_) if goal.crowds => "give back the huge pages that nobody uses, before others \
                                       are set aside (hugewise plan --shrink)"
                .into(),
            None if boot::is_written(self.host, page) => format!("{set} now"),
            // What each boot brings is more than enough, perhaps on purpose: it is left as it is.
            None if let Some((there, place)) = self.kept_by_files(goal) => {
                format!("{set} now: each boot brings {there} already ({place})")
            }
            None => format!("{set}, now and at each boot{}", self.in_the_way(goal)),
            Some(_) if self.is_left_to_a_reboot(goal) => {
                format!("reboot: the next boot brings the {} ({size})", pages.in_pages_of(page))
            }
            Some(_) => format!("{set}, from the next boot on{}", self.in_the_way(goal)),
        })
    }

    fn give_back(self, page: PageSize) -> String {
        if let Some(goal) = self.goal(page).filter(|goal| goal.goal < goal.now) {
            let now = goal.now.in_pages_of(page);
            return match goal.now.saturating_sub(goal.goal) {
                fewer if fewer == goal.now => format!("give back all {now}"),
                fewer => format!("give back {fewer} of the {now}"),
            };
        }
        match find_uncounted_server(self.assessment, page) {
            Some(id) => format!(
                "before giving back {page} pages, find out what {id} asks for when it starts: they \
                 may be its own"
            ),
            None => format!(
                "give back the {page} pages that no server asks for (hugewise plan --shrink)"
            ),
        }
    }

    fn keep_at_boot(self, page: PageSize) -> Option<String> {
        let (host, instances) = (self.host, self.instances);
        let Some(goal) = self.goal(page) else {
            return Some(format!("set the pool of {page} pages at each boot"));
        };
        if goal.needed == PageCount::ZERO {
            if let Some(part) = boot::find_crowding_of(host, page) {
                return Some(self.lower_at_boot(page, part.pages, &part.place.to_string()));
            }
            if let Some((brought, to, place)) = self.lowered_by_files(goal) {
                return Some(format!(
                    "lower the {} in {place} to {to}, as no server asks for more",
                    brought.in_pages_of(page)
                ));
            }
            return (!all_leave(host, instances, page)).then(|| {
                format!(
                    "keep the pool of {page} pages at each boot only if a server that is down now \
                     uses it"
                )
            });
        }
        if all_leave(host, instances, page) {
            return None;
        }
        // Something else writes it too: no file alone brings it at each boot.
        if boot::is_written(host, page) {
            let steps = boot::pool_of_files(host, page).unwrap_or_default();
            let is_there = steps.last().is_some_and(|step| PageCount(step.value) == goal.goal);
            let (pages, size) = (goal.goal, goal.goal.to_bytes(page));
            return (!is_there).then(|| {
                format!("make the boot's files set the pool of {page} pages to {pages} ({size})")
            });
        }
        if let Some((brought, to, place)) = self.lowered_by_files(goal) {
            return Some(format!(
                "lower the {} in {place} to {to} ({}{}){}",
                brought.in_pages_of(page),
                to.to_bytes(page),
                by_node(goal),
                self.in_the_way(goal)
            ));
        }
        let pages = goal.pages_at_boot(host, instances);
        if boot::pages_at_boot(host, page) == Some(pages) || self.kept_by_files(goal).is_some() {
            return None;
        }
        if goal.grows() && self.is_refused() {
            return Some(make_smaller(goal));
        }
        let is_now = goal.grows() && goal.not_now.is_none() && !is_crowded(host);
        Some(format!(
            "set the pool of {page} pages to {pages} ({}{}){} at each boot{}",
            pages.to_bytes(page),
            by_node(goal),
            if is_now { ", now and" } else { "" },
            self.in_the_way(goal)
        ))
    }

    /// Pages that the boot's files are to be changed to.
    fn find_boot_change(self, goal: &PoolGoal) -> Option<PageCount> {
        let steps = boot::pool_of_files(self.host, goal.page_size).ok()?;
        let brought = steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value));
        let crowding = boot::find_crowding_of(self.host, goal.page_size);
        // A pool that the host cannot give stays as it is.
        let kept = PoolGoal { goal: goal.now, nodes: Vec::new(), not_now: None, ..goal.clone() };
        let goal = if goal.grows() && self.is_refused() { &kept } else { goal };
        goal.find_boot_change(self.host, self.instances, brought, crowding.as_ref())
    }

    /// What the boot's files bring, what they are to bring, and where they say so, where that is
    /// more than the host is to have.
    fn lowered_by_files(self, goal: &PoolGoal) -> Option<(PageCount, PageCount, String)> {
        let steps = boot::pool_of_files(self.host, goal.page_size).ok()?;
        let last = steps.last()?;
        let brought = PageCount(last.value);
        let to = self.find_boot_change(goal)?;
        (to < brought).then(|| (brought, to, boot::place_to_edit(self.host, &last.place)))
    }

    fn lower_at_boot(self, page: PageSize, pages: PageCount, place: &str) -> String {
        let pages = pages.in_pages_of(page);
        match arriving_at_default(self.host, self.instances, page) {
            (PageCount::ZERO, _) => {
                format!("lower the {pages} in {place}: no server here asks for them")
            }
            (then, servers) => format!(
                "lower the {pages} in {place} to {then}, which {} will ask for at that boot",
                crate::chain::join_titles(servers)
            ),
        }
    }

    fn set_group(self, id: &InstanceId) -> String {
        let Some(instance) = self.find_instance(id) else {
            return format!("allow the owner of {id} System V huge pages: vm.hugetlb_shm_group");
        };
        let findings = &self.assessment.findings;
        let of_target: Vec<Remedy> =
            self.planned_sysv_servers().flat_map(|instance| self.target_rights(instance)).collect();
        let wanted: BTreeSet<&InstanceId> = findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .chain(&of_target)
            .filter_map(|remedy| match remedy {
                Remedy::SetGroup(id) => Some(id),
                _ => None,
            })
            .collect();
        let lacking: Vec<&Instance> =
            self.instances.iter().filter(|instance| wanted.contains(&instance.id())).collect();
        let named = |gid: u32| match self.host.accounts.groups.get(&gid) {
            Some(group) => (format!("{gid} ({})", group.name), group.name.clone()),
            None => (gid.to_string(), gid.to_string()),
        };
        let owner = instance.owner_in_words();
        let allow = format!("allow {owner} System V huge pages: vm.hugetlb_shm_group");
        match permission::choose_shm_group(self.host, &lacking, instance) {
            Some(ShmGroupChoice::Keep(gid)) => {
                format!("keep vm.hugetlb_shm_group = {} at each boot", named(gid).0)
            }
            Some(ShmGroupChoice::Join(gid)) => format!(
                "add {owner} to {}, the group of vm.hugetlb_shm_group, and leave that as it is",
                named(gid).1
            ),
            Some(ShmGroupChoice::Set(gid)) => format!("{allow} = {}", named(gid).0),
            None => allow,
        }
    }

    fn raise_memlock(self, id: &InstanceId) -> Option<String> {
        let lacking = self.find_instance(id).and_then(|instance| {
            find_lacking_memlock(self.host, self.assessment.situation.locked(), instance)
        });
        let whose = match lacking {
            // Its files have enough: a restart is all that is left, once systemd has read them.
            Some(Lacking { starter: None, log_ins: false }) => {
                let unit = ipc_privileges::unit_of(self.host, self.find_instance(id)?)?;
                let waiting = unit.loaded.as_known()?.pending_file()?;
                return Some(format!(
                    "make systemd reload {waiting}, which has changed (systemctl daemon-reload)"
                ));
            }
            Some(Lacking { starter: Some(by), log_ins: true }) => {
                format!(", for {by} and for logins")
            }
            Some(Lacking { starter: Some(by), log_ins: false }) => format!(", for {by}"),
            Some(Lacking { starter: None, log_ins: true }) => ", for logins".to_owned(),
            None => String::new(),
        };
        Some(format!("raise the memlock limit of {id}{whose}"))
    }

    fn set_thp(self) -> Option<String> {
        let (host, instances) = (self.host, self.instances);
        let set = thp::in_words(host, instances)?;
        Some(match boot::thp_is_undone_by(host, thp::meeting_point(host, instances)) {
            Some((place, value)) => {
                format!("{set}, and remove {place}, which sets {value} at each boot")
            }
            None => set,
        })
    }

    fn keep_thp_at_boot(self) -> String {
        let host = self.host;
        let now = host.thp.enabled.as_known().map(String::as_str);
        if let Some((place, value)) = now.and_then(|now| boot::thp_is_undone_by(host, now)) {
            return format!(
                "keep transparent huge pages as they are: remove {place}, which sets {value} at \
                 each boot"
            );
        }
        let is_wrong = self.calls_for(&Remedy::SetThp);
        let to =
            now.filter(|_| !is_wrong).unwrap_or_else(|| thp::meeting_point(host, self.instances));
        let then = boot::thp_is_tuneds(host, to).map(|step| {
            let file = boot::place_to_edit(host, &step.place);
            format!(": change {file}, which has the last word and sets {}", step.value)
        });
        format!("set transparent huge pages to {to} at each boot too{}", then.unwrap_or_default())
    }

    fn set_setting(self, id: &InstanceId) -> String {
        let (host, kind) = (self.host, EngineKind::for_engine(id.engine));
        let insists = self.assessment.target.insisting.contains(id);
        let (asks_by, insists_by) = (kind.settings.asks_by, kind.settings.insists_by);
        let ask = insists_by.filter(|_| insists).unwrap_or(asks_by);
        let Some(instance) = self.find_instance(id) else {
            return format!("make {id} ask for huge pages: {ask}");
        };
        if instance.asks_in_part() {
            return format!("make {id} ask for huge pages for all of its memory: {asks_by}");
        }
        // Until then it would not start again.
        let once = match self.goal_of(id).is_some_and(|goal| self.is_to_come(goal)) {
            true if insists && insists_by.is_some() => "once its pages are there, ",
            _ => "",
        };
        match (predict_next_start(host, instance).asked, kind.settings.can_by) {
            (HugePageMode::Try, _) => {
                let how = insists_by.unwrap_or(asks_by);
                let is_written = || {
                    demand::page_size(host, instance)
                        .is_some_and(|page| boot::is_written(host, page))
                };
                if insists {
                    format!("{once}make {id} refuse to start without huge pages: {how}")
                } else if is_written() {
                    format!(
                        "once nothing else sets its pool at boot, make {id} require huge pages: \
                         {how}"
                    )
                } else {
                    let condition = crate::target::describe_insist_condition(host, instance);
                    format!("once {condition}, make {id} require them: {how}")
                }
            }
            (HugePageMode::Cannot, Some(_)) => {
                let how = kind.settings.how_it_can(instance).unwrap_or_default();
                let asks_too = insists || switched_off(instance, kind);
                let more = if asks_too { format!(" and {ask}") } else { String::new() };
                format!("{once}make {id} use memory that can be on huge pages: {how}{more}")
            }
            _ => {
                let says = says_otherwise(instance, kind);
                format!("{once}make {id} ask for huge pages: {ask}{says}")
            }
        }
    }

    fn restart(self, id: &InstanceId) -> String {
        let is_asm = self.find_instance(id).is_some_and(|one| one.traits.contains(&Trait::Asm));
        match self.goal_of(id) {
            _ if is_asm => format!(
                "leave {id} running until the next restart of Grid Infrastructure, because every \
                 database on this node goes down with it"
            ),
            Some(goal) if !goal.is_there() => {
                format!("reboot, or restart {id} once its pages are there")
            }
            Some(goal) if self.is_to_come(goal) && self.insists_next(id) => {
                format!("once its pages are there, restart {id}")
            }
            _ => format!("restart {id}"),
        }
    }

    /// Whether a pool is yet to get its pages, now or from the next boot on.
    fn is_to_come(self, goal: &PoolGoal) -> bool {
        let brought = boot::pages_at_boot(self.host, goal.page_size).unwrap_or_default();
        let to = self.find_boot_change(goal);
        goal.grows() || to.is_some_and(|to| to > brought)
    }

    fn insists_next(self, id: &InstanceId) -> bool {
        let asked = |instance| predict_next_start(self.host, instance).asked;
        self.assessment.target.insisting.contains(id)
            || self.find_instance(id).map(asked) == Some(HugePageMode::Must)
    }

    /// Whether a server will ask for huge pages and start without them.
    fn tries_next(self, id: &InstanceId) -> bool {
        let instance = self.find_instance(id);
        instance.is_some_and(|instance| {
            predict_next_start(self.host, instance).asked == HugePageMode::Try
        })
    }

    /// Whether a pool does not fit beside what runs, and the boot's files bring it already.
    fn is_left_to_a_reboot(self, goal: &PoolGoal) -> bool {
        goal.grows()
            && goal.not_now.is_some()
            && !goal.crowds
            && boot::pages_at_boot(self.host, goal.page_size)
                .is_some_and(|pages| pages >= goal.goal)
    }

    /// What keeps a plan's line for the next boot from counting, after a colon.
    fn in_the_way(self, goal: &PoolGoal) -> String {
        let pages = goal.pages_at_boot(self.host, self.instances);
        match boot::overruling::find_overruling(self.host, goal.page_size, pages) {
            Ok(Some(why)) => format!(": {why}"),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// What the boot's files bring of a pool, and where, if that is more than enough and stays.
    fn kept_by_files(self, goal: &PoolGoal) -> Option<(PageCount, String)> {
        let steps = boot::predict_pool_steps(self.host, goal.page_size).unwrap_or_default();
        let last = steps.last().filter(|_| goal.goal >= goal.now && !is_crowded(self.host))?;
        let there = PageCount(last.value);
        (there > goal.pages_at_boot(self.host, self.instances))
            .then(|| (there, last.place.to_string()))
    }
}

fn make_smaller(goal: &PoolGoal) -> String {
    let (page, asked) = (goal.page_size, goal.goal.to_bytes(goal.page_size));
    format!("make the servers smaller: this host cannot give {asked} of {page} pages")
}

/// The nodes that a pool's pages belong on, unless they are even, as the kernel spreads them.
fn by_node(goal: &PoolGoal) -> String {
    let pages = || goal.nodes.iter().map(|(_, _, goal)| goal.get());
    let even = pages().max().unwrap_or_default() - pages().min().unwrap_or_default() <= 1;
    if goal.nodes.len() < 2 || even {
        return String::new();
    }
    let used = goal.nodes.iter().filter(|(_, _, goal)| *goal > PageCount::ZERO);
    let parts: Vec<String> = used.map(|(node, _, goal)| format!("{goal} on node {node}")).collect();
    format!(", {}", crate::wording::join_names(&parts))
}

struct Lacking {
    /// Of what starts it without a login: `its service`, `Clusterware`.
    starter: Option<&'static str>,
    log_ins: bool,
}

/// None where the limit is not the files' to say.
fn find_lacking_memlock(
    host: &Host,
    locked: &MemlockCharges,
    instance: &Instance,
) -> Option<Lacking> {
    let process = permission::process_of(host, instance).filter(|_| !instance.containered)?;
    let needs = locked.at_most(host, instance).total();
    let is_short = |found: &login::Allowance| found.allows(needs) != Some(true);
    let log_ins = is_short(&login::of_log_in(host, process.uid));
    if let Some(starter) = ipc_privileges::starter_of(host, instance) {
        let by =
            (!ipc_privileges::privileges_suffice(host, instance, locked)).then_some(starter.by);
        return Some(Lacking { starter: by, log_ins });
    }
    let unit = ipc_privileges::boot_unit_of(host, instance);
    let named = unit.map(|unit| unit.name.as_str()).or(instance.unit.as_deref());
    let service = match (named, unit) {
        (Some(_), Some(unit)) if instance.is_known_to_the_host() => {
            ipc_privileges::memlocks_by_unit(host, unit, process).iter().any(is_short)
        }
        (Some(_), None) => instance.is_known_to_the_host(),
        _ => false,
    };
    Some(Lacking { starter: service.then_some("its service"), log_ins })
}

fn is_crowded(host: &Host) -> bool {
    boot::predict_crowding(host).is_ok_and(|crowding| crowding.is_some())
}

/// The line that keeps a server from asking, where its files alone have the say.
fn says_otherwise(instance: &Instance, kind: &EngineKind) -> String {
    let SettingsBy::Plan(settable) = kind.settings.changed_by else { return String::new() };
    let setting = instance.settings.get(settable.asks.0).filter(|_| settable.by_itself.is_none());
    let place = setting
        .and_then(|setting| setting.place.as_ref())
        .filter(|place| place.file.starts_with('/'));
    match (setting, place) {
        (Some(setting), Some(place)) if !setting.value.eq_ignore_ascii_case(settable.asks.1) => {
            format!(" ({place} says {})", setting.value)
        }
        _ => String::new(),
    }
}

/// Whether the setting by which a server asks for huge pages has another value than those that do.
fn switched_off(instance: &Instance, kind: &EngineKind) -> bool {
    let mut asking = [Some(kind.settings.asks_by), kind.settings.insists_by]
        .into_iter()
        .flatten()
        .filter_map(|text| text.split_once('='));
    let name = kind.settings.asks_by.split_once('=').map_or("", |(name, _)| name);
    instance.setting_value(name).is_some_and(|is| {
        !asking.any(|(name_of, value)| name_of == name && is.eq_ignore_ascii_case(value))
    })
}

#[cfg(test)]
mod tests;
