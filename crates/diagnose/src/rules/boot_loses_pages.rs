use hugewise_engines::EngineKind;
use hugewise_model::{Demand, HugePageMode, Instance, Level, NextStart, Remedy};

use crate::coverage::Coverage;
use crate::demand::starting_at_boot;
use crate::permission::{self, MemlockEffect};
use crate::prediction::{Obstacle, startup};
use crate::rules::cgroup_limit;
use crate::{
    CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause, chain, demand, ipc_privileges, login,
    mounts,
};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW603"),
    name: "boot-loses-pages",
    level: Level::Error,
    role: CaseRole::Forecast,
    docs: Docs {
        what: "A server that gets fewer huge pages after the next boot than at a restart now, or \
               none. That includes a server that is down now, if the boot starts it. The pools \
               that the boot's files set up don't have enough for all servers that will ask, in \
               the worst order of their starts, or something else keeps the pages from it. That \
               includes programs that are no known servers and hold huge pages now: nobody knows \
               whether they start again, and whoever starts second does not get what the other \
               has taken. A warning for servers of {BIG_SEGMENT} or more; an error if the server \
               then refuses to start for certain.",
        why: "The host comes back from maintenance, and the server is on base pages or doesn't \
              come up at all.",
        cost: "after a reboot the server is on base pages, or does not start",
        fix: "Put the pools that the servers need in a file that the boot reads last.",
        sources: &[
            "systemd-sysctl(8), systemd-tmpfiles(8)",
            "Documentation/admin-guide/kernel-parameters.txt: hugepages=",
        ],
    },
    check: |facts| {
        let mut verdicts = RULE.of_each(facts, check_boot_loses_pages);
        if !facts.asleep.is_empty() {
            let asleep = RuleFacts { instances: facts.asleep, ..*facts };
            verdicts.extend(RULE.of_each(&asleep, check_boot_loses_pages));
        }
        verdicts
    },
};

fn check_boot_loses_pages(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some(moments) = facts.situation.forecasts_for(instance) else { return Ok(None) };
    let boot = &moments.boot;
    let fails = boot.coverage == Coverage::DoesNotStart;
    let is_big = || match instance.is_stopped() {
        true => demand::asks_for_more(instance),
        false => instance.segment_bytes() >= demand::BIG_SEGMENT,
    };
    let strangers = boot.obstacle == Some(Obstacle::Strangers);
    if !(moments.loses_at_boot() || strangers) || !(fails || is_big()) {
        return Ok(None);
    }
    let why = boot.why.clone().unwrap_or_default();
    let (level, what) = match boot.coverage {
        Coverage::DoesNotStart => (Level::Error, "may not start at the next boot"),
        Coverage::Unknown if starting_at_boot(facts.host, instance).asked == HugePageMode::Must => {
            (Level::Warn, "may not start at the next boot")
        }
        Coverage::Partly => (Level::Warn, "may get only part of its huge pages at the next boot"),
        _ => (Level::Warn, "may get no huge pages at the next boot"),
    };
    let summary = format!("{} {what}: {why}", instance.title());
    let short = format!("it {what}");
    let start = starting_at_boot(facts.host, instance);
    let mut evidence: Vec<String> = start.setting.iter().map(ToString::to_string).collect();
    evidence.push(format!("it will ask for {}", describe_demands(&start)));
    if let Some(asleep) = &instance.stopped {
        evidence.push(format!("it does not run now; {}", asleep.at_boot.boot_evidence()));
    }
    let mut remedies = remedies_for_obstacle(facts, instance, boot.obstacle, &start);
    // Of one that is down every link is new: the next one is not found at its first start alone.
    if instance.is_stopped() {
        for remedy in cause::right_to_pages(facts.host, facts.situation.locked(), instance) {
            if !remedies.contains(&remedy) {
                remedies.push(remedy);
            }
        }
    }
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

fn remedies_for_obstacle(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    obstacle: Option<Obstacle>,
    start: &NextStart,
) -> Vec<Remedy> {
    match obstacle {
        Some(Obstacle::Right) => match remedy_login_at_boot(facts, instance) {
            Some(remedy) => vec![remedy],
            None => remedies_for_right(facts, instance),
        },
        Some(Obstacle::Segments) => vec![Remedy::SetShmLimits],
        Some(Obstacle::Cgroup) => cgroup_limit::raises_for(facts, instance),
        Some(Obstacle::Start) => vec![startup::remedy_blocked_startup(instance)],
        Some(Obstacle::Lock) => remedies_for_locking(instance),
        Some(Obstacle::Mount) => vec![mounts::remedy_unpersisted_mount(facts.host, instance)],
        Some(Obstacle::DefaultSize) => vec![Remedy::by_hand(default_size(instance))],
        Some(Obstacle::Nodes) => vec![remedy_for_cpuset()],
        Some(Obstacle::Strangers) => vec![Remedy::by_hand(
            "if that program starts at each boot too, have the boot bring pages for it as well, or \
             start it after the server",
        )],
        Some(Obstacle::MountOptions) => {
            vec![Remedy::by_hand(
                "have /etc/fstab mount its hugetlbfs with its page size (pagesize=) and large \
                 enough (size=)",
            )]
        }
        _ => {
            let keep = |demand: &Demand| facts.keep_at_boot(demand.page_size, Some(instance));
            start.demands.iter().map(keep).collect()
        }
    }
}

pub(super) fn remedies_for_right(facts: &RuleFacts<'_>, instance: &Instance) -> Vec<Remedy> {
    // Its owner has the right: what starts it is older than that.
    let given = ipc_privileges::at_restart(facts.host, instance).first;
    if chain::outside_the_group(facts.host, instance, &given).is_some() {
        return vec![super::started_by_clusterware::remedy_restart_clusterware()];
    }
    match permission::memlock_effect(facts.host) {
        MemlockEffect::Buys(_) => vec![Remedy::RaiseMemlock(instance.id())],
        MemlockEffect::Useless(_) => vec![Remedy::SetGroup(instance.id())],
        MemlockEffect::Unknown(_) => {
            vec![Remedy::SetGroup(instance.id()), Remedy::RaiseMemlock(instance.id())]
        }
    }
}

/// Where a login may lock enough, and nobody knows what starts the server at a boot: no limit is
/// left to be raised.
fn remedy_login_at_boot(facts: &RuleFacts<'_>, instance: &Instance) -> Option<Remedy> {
    let host = facts.host;
    let is_by_service = instance.unit.is_some()
        || ipc_privileges::boot_unit_of(host, instance).is_some()
        || ipc_privileges::starter_of(host, instance).is_some();
    let process = permission::process_of(host, instance).filter(|_| !is_by_service)?;
    let login = login::of_log_in(host, process.uid);
    let needs = facts.situation.locked().at_boot(host, instance).total();
    let owner = instance.owner_in_words();
    (login.allows(needs) == Some(true)).then(|| {
        Remedy::by_hand(format!(
            "have what starts {} at boot go through a login of {owner} (su - {owner}), which may \
             lock enough: {}",
            instance.title(),
            login.place
        ))
    })
}

pub(super) fn remedies_for_locking(instance: &Instance) -> Vec<Remedy> {
    if instance.ring_bytes.is_some() {
        let then = "or set io_method=worker, PostgreSQL's default, which locks nothing";
        return vec![Remedy::RaiseMemlock(instance.id()), Remedy::Consider(then.to_owned())];
    }
    let name = (EngineKind::for_engine(instance.engine).memory.locks_all)(instance)
        .map_or("its setting", |setting| setting.name.as_str());
    let then = format!(
        "set {name}=FALSE once it is on huge pages: they are never swapped, and need no lock"
    );
    vec![Remedy::RaiseMemlock(instance.id()), Remedy::Consider(then)]
}

fn default_size(instance: &Instance) -> String {
    let sizes = &EngineKind::for_engine(instance.engine).page_size;
    let named = sizes.setting.filter(|_| (sizes.can_be_named)(instance));
    let own = named
        .zip(instance.asked_page_size.get())
        .map(|(name, page)| format!(", or name {page} in its own settings ({name})"))
        .unwrap_or_default();
    format!("remove default_hugepagesz= from the kernel command line of the next boot{own}")
}

pub(super) fn remedy_for_cpuset() -> Remedy {
    Remedy::by_hand(
        "let it use the nodes that have the pages (AllowedMemoryNodes= or NUMAMask= of its unit, \
         numactl in its command, cpuset.mems of its cgroup), or set them on the nodes that it may \
         use",
    )
}

/// `512 pages of 2 MiB`
fn describe_demands(start: &NextStart) -> String {
    let each: Vec<String> =
        start.demands.iter().map(|demand| demand.pages.in_pages_of(demand.page_size)).collect();
    each.join(" and ")
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        let instance = case.postgresql("15/main", crate::testing::gib(2));
        crate::testing::all_huge(instance);
        case.pool(1024, 0);
        case.host.configuration.sysctl =
            hugewise_model::Observed::Known(vec![crate::testing::sysctl(
                "vm.nr_hugepages",
                "1023",
            )]);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        let instance = case.postgresql("15/main", crate::testing::gib(2));
        crate::testing::all_huge(instance);
        case.pool(1024, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.host.processes = hugewise_model::Observed::Denied;
        case
    },
};
