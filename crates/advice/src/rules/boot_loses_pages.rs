use hugewise_engines::Kind;
use hugewise_model::{Finding, Instance, Level, NextStart, Remedy};

use crate::demand::starting_at_boot;
use crate::permission::{self, Memlock};
use crate::rules::cgroup_limit;
use crate::situation::{Obstacle, startup};
use crate::standing::Standing;
use crate::{Docs, Facts, Missing, Rule, chain, demand, given, mounts};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW603"),
    name: "boot-loses-pages",
    level: Level::Error,
    docs: Docs {
        what: "A server that gets fewer huge pages after the next boot than at a restart now, or none. That includes \
               a server that is down now, if the boot starts it. The pools that the boot's files set up don't have \
               enough for all servers that will ask, in the worst order of their starts, or something else keeps the \
               pages from it. A warning for servers of 256 MiB or more; an error if the server then refuses to \
               start.",
        why: "The host comes back from maintenance, and the server is on base pages or doesn't come up at all.",
        cost: "after a reboot the server is on base pages, or does not start",
        fix: "Put the pools that the servers need in a file that the boot reads last.",
        sources: &[
            "systemd-sysctl(8), systemd-tmpfiles(8)",
            "Documentation/admin-guide/kernel-parameters.txt: hugepages=",
        ],
    },
    check: |facts| {
        let mut verdicts = RULE.of_each(facts, look);
        if !facts.asleep.is_empty() {
            let asleep = Facts { instances: facts.asleep, ..*facts };
            verdicts.extend(RULE.of_each(&asleep, look));
        }
        verdicts
    },
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let Some(moments) = facts.situation.of(instance) else { return Ok(None) };
    let boot = &moments.boot;
    let fails = boot.standing == Standing::DoesNotStart;
    let is_big = || match instance.is_asleep() {
        true => demand::asks_for_more(instance),
        false => instance.segment_bytes() >= demand::BIG_SEGMENT,
    };
    if !moments.loses_at_boot() || !(fails || is_big()) {
        return Ok(None);
    }
    let why = boot.why.clone().unwrap_or_default();
    let (level, what) = match boot.standing {
        Standing::DoesNotStart => (Level::Error, "may not start at the next boot"),
        Standing::Partly => (Level::Warn, "may get only part of its huge pages at the next boot"),
        _ => (Level::Warn, "may get no huge pages at the next boot"),
    };
    let summary = format!("{} {what}: {why}", instance.title());
    let short = format!("it {what}");
    let start = starting_at_boot(facts.host, instance);
    let mut evidence: Vec<String> = start.setting.iter().map(ToString::to_string).collect();
    evidence.push(format!("it will ask for {}", asked(&start)));
    if let Some(asleep) = &instance.asleep {
        evidence.push(format!("it does not run now; {}", asleep.at_boot.why()));
    }
    let remedies = match boot.obstacle {
        Some(Obstacle::Right) => rights(facts, instance),
        Some(Obstacle::Segments) => vec![Remedy::SetShmLimits],
        Some(Obstacle::Cgroup) => cgroup_limit::raises_for(facts, instance),
        Some(Obstacle::Start) => vec![startup::remedy(instance)],
        Some(Obstacle::Lock) => unlocks(instance),
        Some(Obstacle::Mount) => vec![mounts::remedy(facts.host, instance)],
        Some(Obstacle::DefaultSize) => vec![Remedy::by_hand(default_size(instance))],
        Some(Obstacle::Nodes) => vec![cpuset()],
        Some(Obstacle::MountOptions) => {
            vec![Remedy::by_hand(
                "have /etc/fstab mount its hugetlbfs with its page size (pagesize=) and large enough (size=)",
            )]
        }
        _ => start.demands.iter().map(|demand| Remedy::KeepAtBoot(demand.page_size)).collect(),
    };
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

/// What gives a server the right to System V huge pages, as this kernel checks it.
pub(super) fn rights(facts: &Facts<'_>, instance: &Instance) -> Vec<Remedy> {
    // Its owner has the right: what starts it is older than that.
    let given = given::at_restart(facts.host, instance).first;
    if chain::outside_the_group(facts.host, instance, &given).is_some() {
        return vec![super::started_by_clusterware::anew()];
    }
    match permission::memlock(facts.host) {
        Memlock::Buys(_) => vec![Remedy::RaiseMemlock(instance.id())],
        Memlock::Useless(_) => vec![Remedy::SetGroup(instance.id())],
        Memlock::Unknown(_) => vec![Remedy::SetGroup(instance.id()), Remedy::RaiseMemlock(instance.id())],
    }
}

/// What lets a server start that may not lock its memory.
pub(super) fn unlocks(instance: &Instance) -> Vec<Remedy> {
    let name = (Kind::of(instance.engine).locks_all)(instance).map_or("its setting", |setting| setting.name.as_str());
    let then = format!("set {name}=FALSE once it is on huge pages: they are never swapped, and need no lock");
    vec![Remedy::RaiseMemlock(instance.id()), Remedy::Consider(then)]
}

/// What a person does about a boot whose default size is another.
fn default_size(instance: &Instance) -> String {
    let named =
        Kind::of(instance.engine).page_size_by.filter(|_| (Kind::of(instance.engine).takes_page_size)(instance));
    let own = named.zip(instance.asked_page_size.get());
    let own = own.map(|(name, page)| format!(", or name {page} in its own settings ({name})")).unwrap_or_default();
    format!("remove default_hugepagesz= from the kernel command line of the next boot{own}")
}

/// What a person does about nodes that have too few pages for a server.
pub(super) fn cpuset() -> Remedy {
    Remedy::by_hand(
        "let it use the nodes that have the pages (AllowedMemoryNodes= or NUMAMask= of its unit, numactl in its command, \
         cpuset.mems of its cgroup), or set \
         them on the nodes that it may use",
    )
}

/// `512 pages of 2 MiB`
fn asked(start: &NextStart) -> String {
    let each: Vec<String> = start.demands.iter().map(|it| it.pages.in_pages_of(it.page_size)).collect();
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
            hugewise_model::Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "1023")]);
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
