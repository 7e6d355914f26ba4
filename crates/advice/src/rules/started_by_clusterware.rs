use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Finding, Instance, Lack, Level, Limit, Remedy};

use crate::login::{self, Allowance};
use crate::permission::{Memlock, Right};
use crate::words::apart;
use crate::{Docs, Facts, Missing, Rule, demand, given, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW305"),
    name: "started-by-clusterware",
    level: Level::Warn,
    docs: Docs {
        what: "A running database that Oracle Clusterware starts, and that gets huge pages when started with srvctl \
               but not with sqlplus, or the other way round.\n\n\
               - Memlock: the owner's agent (oraagent) gets a limit that is enough for the database's System V huge \
               pages, and a login of the owner doesn't, or the other way round. This counts if the kernel accepts a \
               memlock limit, or may, and nothing else gives the right.\n\
               - Group: the owner is in vm.hugetlb_shm_group, and the agent runs without that group.",
        why: "A process has the limits of whoever starts it. With srvctl or at boot, that is Clusterware's agent. \
              With sqlplus it is the shell of the login, and pam_limits gave it what limits.conf says. Groups work \
              the same way: a process keeps those it was started with, whatever /etc/group says later. So the \
              command that you type decides whether the instance comes up on huge pages.",
        cost: "started the other way, the database is on base pages",
        fix: "Make both limits large enough. For logins that is limits.conf. For Clusterware it is CRS_LIMIT_MEMLOCK \
              in s_crsconfig_NODE_env.txt, below crs/install of its home; in older releases it is `ulimit -l` in \
              /etc/init.d/ohasd. It takes effect when you restart Clusterware on the node. That restart also gives \
              the agent the groups its user has now.",
        sources: &[
            "Oracle Clusterware Administration and Deployment Guide: s_crsconfig_NODE_env.txt",
            "getrlimit(2): a child has its parent's limits",
            "Linux mm/mlock.c user_shm_lock()",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let host = facts.host;
    let asks = !matches!(instance.asked, Asked::No | Asked::Cannot);
    if instance.mechanism != Mechanism::SysvShm || !asks || instance.segment_bytes() < demand::BIG_SEGMENT {
        return Ok(None);
    }
    if instance.containered || !given::is_limited_by_others(host, instance) {
        return Ok(None);
    }
    let given = given::at_restart(host, instance).first;
    if let Some(what) = crate::chain::outside_the_group(host, instance, &given) {
        return Ok(Some(by_group(instance, what)));
    }
    let by_limit = !matches!(permission::memlock(host), Memlock::Useless(_));
    if !by_limit || matches!(permission::without_memlock(host, instance), Right::Has(_)) {
        return Ok(None);
    }
    let Some(process) = host.process(instance.pid) else { return Ok(None) };
    let agent = given.memlock;
    let log_in = login::of_log_in(host, process.uid);
    let needed = facts.situation.locked().at_most(host, instance);
    let needs = needed.all();
    let allows =
        |found: &Allowance| found.allows(needs).ok_or_else(|| Missing::Instance(Lack::of(&found.place, &found.limit)));
    let (by_agent, by_log_in) = (allows(&agent)?, allows(&log_in)?);
    if by_agent == by_log_in {
        return Ok(None);
    }
    let (with, not_with) = if by_agent { ("srvctl", "sqlplus") } else { ("sqlplus", "srvctl") };
    let too_small = if by_agent { &log_in } else { &agent };
    let needed = match too_small.limit.get() {
        Some(Limit::At(limit)) => needed.beside(apart(limit, needs).1),
        _ => needed.to_string(),
    };
    let given = |found: &Allowance| match found.limit.get() {
        Some(Limit::At(limit)) if found == too_small => apart(limit, needs).0,
        limit => limit.map_or_else(String::new, |limit| limit.to_string()),
    };
    let (by_clusterware, by_log_in) = (given(&agent), given(&log_in));
    let then = match permission::memlock(host) {
        Memlock::Buys(_) => format!("started with {with} it gets huge pages, with {not_with} it does not"),
        // This kernel may ask for the group all the same.
        _ => format!("that is enough when it is started with {with}, and too little with {not_with}"),
    };
    let summary = format!(
        "{} needs a memlock limit of {needed} and gets {by_clusterware} from Clusterware, {by_log_in} from a login: {then}",
        instance.title()
    );
    let short = format!("its memlock is {by_clusterware} from Clusterware, {by_log_in} from a login");
    let evidence = vec![
        format!("Clusterware: {}", agent.in_words()),
        format!("login of {}: {}", instance.owner_in_words(), log_in.in_words()),
    ];
    let remedies = vec![Remedy::RaiseMemlock(instance.id())];
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(Level::Warn, Some(instance), summary) }))
}

/// What gives the agent the groups of its user.
pub(super) fn anew() -> Remedy {
    Remedy::by_hand("restart Clusterware on this node, so that its agent gets the groups its user has now")
}

/// The same on every kernel, where the group gives the right.
fn by_group(instance: &Instance, what: String) -> Finding {
    let summary = format!(
        "{} may use System V huge pages by its owner's group, and Clusterware may not: started with sqlplus it gets huge pages, \
         with srvctl it does not",
        instance.title()
    );
    let short = "a login has the group for huge pages, Clusterware does not".to_owned();
    let remedies = vec![anew()];
    Finding { short, evidence: vec![what], remedies, ..RULE.finding(Level::Warn, Some(instance), summary) }
}

#[cfg(test)]
use hugewise_model::{Bytes, KernelRelease, Observed, process::SoftHard};

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case(Observed::Known(Limit::At(Bytes::from_kib(64)))),
    silent: || case(Observed::Known(Limit::Unlimited)),
    missing: || case(Observed::Denied),
};

/// A database of 8 GiB on an old kernel, whose logins have no limit; its owner's agent has this one.
#[cfg(test)]
fn case(agent: Observed<Limit>) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.kernel = Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
    case.oracle("PROD1", crate::testing::gib(8), 20);
    let rules = hugewise_host::config::limits::parse("/etc/security/limits.conf", b"oracle - memlock unlimited\n");
    case.host.configuration.limits = Observed::Known(rules);
    let owner = case.processes()[0].uid;
    let stack = [(10, "ohasd.bin", 0, Observed::Known(Limit::Unlimited)), (20, "oraagent.bin", owner, agent)];
    for (pid, name, uid, limit) in stack {
        let memlock = limit.map(|limit| SoftHard { soft: limit, hard: limit });
        let process = hugewise_model::Process { pid, name: name.into(), uid, memlock, ..Default::default() };
        if let Observed::Known(all) = &mut case.host.processes {
            all.push(std::sync::Arc::new(process));
            all.sort_by_key(|process| process.pid);
        }
    }
    case
}
