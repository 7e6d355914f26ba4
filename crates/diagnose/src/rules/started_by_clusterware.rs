use hugewise_model::instance::Mechanism;
use hugewise_model::{Finding, Host, HugePageMode, Instance, Level, Limit, Remedy};

use crate::login::{self, Allowance};
use crate::memlock_charges::MemlockNeeded;
use crate::permission::MemlockEffect;
use crate::wording::distinguish_sizes;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, demand, ipc_privileges, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW305"),
    name: "started-by-clusterware",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A running database that Oracle Clusterware starts, and that gets huge pages when \
               started with srvctl but not with sqlplus, or the other way round.\n\n- Memlock: the \
               owner's agent (oraagent) gets a limit that is enough for the database's System V \
               huge pages, and a login of the owner doesn't, or the other way round. This counts \
               if the kernel accepts a memlock limit, or may, and nothing else gives the right.\n- \
               Group: the owner is in vm.hugetlb_shm_group, and the agent runs without that group.",
        why: "A process has the limits of whoever starts it. With srvctl or at boot, that is \
              Clusterware's agent. With sqlplus it is the shell of the login, and pam_limits gave \
              it what limits.conf says. Groups work the same way: a process keeps those it was \
              started with, whatever /etc/group says later. So the command that you type decides \
              whether the instance comes up on huge pages.",
        cost: "started the other way, the database is on base pages",
        fix: "Make both limits large enough. For logins that is limits.conf. For Clusterware it is \
              CRS_LIMIT_MEMLOCK in s_crsconfig_NODE_env.txt, below crs/install of its home; in \
              older releases it is `ulimit -l` in /etc/init.d/ohasd. It takes effect when you \
              restart Clusterware on the node. That restart also gives the agent the groups its \
              user has now.",
        sources: &[
            "Oracle Clusterware Administration and Deployment Guide: s_crsconfig_NODE_env.txt",
            "getrlimit(2): a child has its parent's limits",
            "Linux mm/mlock.c user_shm_lock()",
        ],
    },
    check: |facts| RULE.of_each(facts, check_started_by_clusterware),
};

fn check_started_by_clusterware(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let host = facts.host;
    if !takes_limits_from_clusterware(host, instance) {
        return Ok(None);
    }
    let privileges = ipc_privileges::at_restart(host, instance).first;
    if let Some(what) = crate::chain::outside_the_group(host, instance, &privileges) {
        return Ok(Some(by_group(instance, what)));
    }
    if !permission::memlock_decides(host, instance) {
        return Ok(None);
    }
    let Some(process) = host.find_process(instance.pid) else { return Ok(None) };
    let agent = privileges.memlock;
    let log_in = login::of_log_in(host, process.uid);
    let needed = facts.situation.locked().at_most(host, instance);
    let by_agent = agent.require_allows(needed.total())?;
    let by_log_in = log_in.require_allows(needed.total())?;
    Ok((by_agent != by_log_in)
        .then(|| report_unequal_limits(host, instance, needed, &agent, &log_in, by_agent)))
}

fn takes_limits_from_clusterware(host: &Host, instance: &Instance) -> bool {
    instance.mechanism == Mechanism::SysvShm
        && !matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot)
        && instance.segment_bytes() >= demand::BIG_SEGMENT
        && !instance.containered
        && ipc_privileges::is_limited_by_others(host, instance)
}

fn report_unequal_limits(
    host: &Host,
    instance: &Instance,
    needed: MemlockNeeded,
    agent: &Allowance,
    log_in: &Allowance,
    agent_suffices: bool,
) -> Finding {
    let needs = needed.total();
    let (with, not_with, too_small) =
        if agent_suffices { ("srvctl", "sqlplus", log_in) } else { ("sqlplus", "srvctl", agent) };
    let needed = match too_small.limit.get() {
        Some(Limit::At(limit)) => needed.append_others(distinguish_sizes(limit, needs).1),
        _ => needed.to_string(),
    };
    let describe_limit = |allowance: &Allowance| match allowance.limit.get() {
        Some(Limit::At(limit)) if allowance == too_small => distinguish_sizes(limit, needs).0,
        limit => limit.map_or_else(String::new, |limit| limit.to_string()),
    };
    let (by_clusterware, by_log_in) = (describe_limit(agent), describe_limit(log_in));
    let then = match permission::memlock_effect(host) {
        MemlockEffect::Buys(_) => {
            format!("started with {with} it gets huge pages, with {not_with} it does not")
        }
        // This kernel may ask for the group all the same.
        _ => {
            format!("that is enough when it is started with {with}, and too little with {not_with}")
        }
    };
    let summary = format!(
        "{} needs a memlock limit of {needed} and gets {by_clusterware} from Clusterware, \
         {by_log_in} from a login: {then}",
        instance.title()
    );
    let short =
        format!("its memlock is {by_clusterware} from Clusterware, {by_log_in} from a login");
    let evidence = vec![
        format!("Clusterware: {}", agent.in_words()),
        format!("login of {}: {}", instance.owner_in_words(), log_in.in_words()),
    ];
    let remedies = vec![Remedy::RaiseMemlock(instance.id())];
    RULE.new_finding(Level::Warn, Some(instance), summary, short, evidence, remedies)
}

pub(super) fn remedy_restart_clusterware() -> Remedy {
    Remedy::by_hand(
        "restart Clusterware on this node, so that its agent gets the groups its user has now",
    )
}

/// The same on every kernel, where the group gives the right.
fn by_group(instance: &Instance, what: String) -> Finding {
    let summary = format!(
        "{} may use System V huge pages by its owner's group, and Clusterware may not: started \
         with sqlplus it gets huge pages, with srvctl it does not",
        instance.title()
    );
    let short = "a login has the group for huge pages, Clusterware does not".to_owned();
    let remedies = vec![remedy_restart_clusterware()];
    RULE.new_finding(Level::Warn, Some(instance), summary, short, vec![what], remedies)
}

#[cfg(test)]
use hugewise_model::{Bytes, KernelRelease, Observed, process::SoftHard};

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_agent_case(Observed::Known(Limit::At(Bytes::from_kib(64)))),
    silent: || make_agent_case(Observed::Known(Limit::Unlimited)),
    missing: || make_agent_case(Observed::Denied),
};

/// A database of 8 GiB on an old kernel, whose logins have no limit; its owner's agent has this
/// one.
#[cfg(test)]
fn make_agent_case(agent: Observed<Limit>) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.kernel =
        Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
    case.oracle("PROD1", crate::testing::gib(8), 20);
    let rules = hugewise_host::config::limits::parse(
        "/etc/security/limits.conf",
        b"oracle - memlock unlimited\n",
    );
    case.host.configuration.limits = Observed::Known(rules);
    let owner = case.processes()[0].uid;
    let stack = [
        (10, "ohasd.bin", 0, Observed::Known(Limit::Unlimited)),
        (20, "oraagent.bin", owner, agent),
    ];
    for (pid, name, uid, limit) in stack {
        let memlock = limit.map(|limit| SoftHard { soft: limit, hard: limit });
        let process =
            hugewise_model::Process { pid, name: name.into(), uid, memlock, ..Default::default() };
        if let Observed::Known(all) = &mut case.host.processes {
            all.push(std::sync::Arc::new(process));
            all.sort_by_key(|process| process.pid);
        }
    }
    case
}
