use hugewise_engines::EngineKind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{
    Engine, HugePageMode, HugePageUse, Instance, Lack, Level, Limit, LinkName, Reason, Remedy,
};

use crate::cause::{Cause, is_big};
use crate::ipc_privileges::{self, IpcPrivileges};
use crate::login::Allowance;
use crate::memlock_charges::MemlockNeeded;
use crate::permission::{HugePageRight, MemlockEffect};
use crate::wording::distinguish_sizes;
use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, demand, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW301"),
    name: "memlock-below-segment",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Memlock]),
    docs: Docs {
        what: "A running server that takes System V huge pages, is not on them, and has a memlock \
               limit below what it needs, now or at its next start. The next limit depends on what \
               starts the server: systemd takes it from the unit, a login from limits.conf. \
               Servers that use mmap need no memlock and are never reported.\n\n- Error: this \
               kernel accepts memlock for SHM_HUGETLB, and nothing else gives the server the \
               right.\n- Warning: it is unknown whether this kernel accepts memlock, or whether \
               something else gives the right.\n- Note: everywhere else, but only for Oracle. It \
               compares the limit and warns in its alert log.",
        why: "Kernels before 5.16 let an ordinary user have SHM_HUGETLB if the segment fits under \
              RLIMIT_MEMLOCK together with all that the user has already. The segments of all the \
              user's servers count. If the limit is too small, shmget fails and the server falls \
              back. A limit between the server's smallest and its largest segment lets only the \
              small ones have huge pages.",
        cost: "the server falls back to base pages: page tables in every process",
        fix: "Raise the limit where the server gets it: in its unit if systemd starts it \
              (limits.conf does not reach services), in limits.conf if a login does. On newer \
              kernels the group is what counts. A plan sets the limit to unlimited: Oracle's own \
              checks want at least 90 % of memory where huge pages are used, and the 128 GiB from \
              its preinstall package are too little for a larger SGA. A limit reserves nothing.",
        sources: &[
            "Linux fs/hugetlbfs/inode.c can_do_hugetlb_shm(), before and since 5.16",
            "Linux mm/mlock.c user_shm_lock(): locked_shm of the user",
            "Tested with system calls on Linux 5.10, 6.1, 6.12 and 7.2; what is known of \
             distributions: docs/memlock.md",
            "systemd.exec(5): LimitMEMLOCK",
            "limits.conf(5): memlock is in KiB",
            "Oracle Database Installation Guide 19c for Linux, \"Configuring HugePages\"; \
             oracle-database-preinstall-19c",
        ],
    },
    check: |facts| RULE.of_each(facts, check_memlock_below_segment),
};

pub(super) fn check_memlock_below_segment(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> InstanceResult {
    if !lacks_sysv_huge_pages(instance) || !is_big(facts, instance)? {
        return Ok(None);
    }
    let host = facts.host;
    let needs = facts.situation.locked().at_restart(host, instance);
    let running = IpcPrivileges::from_running_process(host, instance);
    let (memlock, enough) = running.memlock_for(needs);
    let rule = permission::memlock_effect(host);
    let right = permission::without_memlock(host, instance);
    let Some(level) = rate_low_memlock(instance, &rule, &right) else { return Ok(None) };
    let next = ipc_privileges::at_restart(host, instance);
    let next_falls_short = next.memlock_for(needs).1 == Some(false);
    let (allowance, has) = match enough {
        Some(true) if next_falls_short => (next.first.memlock, "its next start has one of"),
        Some(true) => return Ok(None),
        None => {
            let process = host.find_process(instance.pid);
            let why = process.and_then(|process| process.memlock.unknown_reason());
            let why = why.unwrap_or(Reason::from_text("not read"));
            return Err(Missing::Instance(Lack { text: memlock, why }));
        }
        Some(false) => (running.memlock, "has one of"),
    };
    let (amount, needs) = describe_limit_and_need(&allowance, needs);
    let summary =
        format!("{} needs a memlock limit of {needs} and {has} {amount}", instance.title());
    let mut evidence = vec![memlock];
    let short = if enough == Some(true) {
        evidence.push(format!("at its next start: {}", allowance.in_words()));
        format!("its memlock limit is {amount} at its next start, and it needs {needs}")
    } else {
        format!("its memlock limit is {amount}, and it needs {needs}")
    };
    let (MemlockEffect::Buys(kernel)
    | MemlockEffect::Useless(kernel)
    | MemlockEffect::Unknown(kernel)) = rule;
    let (HugePageRight::Lacks(what) | HugePageRight::Has(what) | HugePageRight::Unknown(what)) =
        right;
    evidence.extend([kernel, what]);
    evidence.extend(facts.chain(instance).and_then(chain_cause));
    let mut remedies = vec![Remedy::RaiseMemlock(instance.id())];
    if level == Level::Warn {
        // This kernel may not accept a memlock limit.
        remedies.push(Remedy::SetGroup(instance.id()));
    }
    remedies.extend(facts.restart(instance));
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

/// Whether a server that asks for System V huge pages, or may, is not wholly on them.
pub(super) fn lacks_sysv_huge_pages(instance: &Instance) -> bool {
    let asks = demand::asks_now(instance)
        || (instance.asked == HugePageMode::Unknown && instance.engine != Engine::Other);
    instance.mechanism == Mechanism::SysvShm && asks && instance.huge_pages != HugePageUse::All
}

fn rate_low_memlock(
    instance: &Instance,
    rule: &MemlockEffect,
    right: &HugePageRight,
) -> Option<Level> {
    match (rule, right) {
        (MemlockEffect::Buys(_), HugePageRight::Lacks(_)) => Some(Level::Error),
        (MemlockEffect::Unknown(_), HugePageRight::Lacks(_))
        | (MemlockEffect::Buys(_) | MemlockEffect::Unknown(_), HugePageRight::Unknown(_)) => {
            Some(Level::Warn)
        }
        _ => EngineKind::for_engine(instance.engine).start.minds_memlock.then_some(Level::Info),
    }
}

fn describe_limit_and_need(allowance: &Allowance, needs: MemlockNeeded) -> (String, String) {
    match allowance.limit.get() {
        Some(Limit::At(limit)) => {
            let (limit, all) = distinguish_sizes(limit, needs.total());
            (limit, needs.append_others(all))
        }
        limit => (
            limit.map_or_else(|| "not known".to_owned(), |limit| limit.to_string()),
            needs.to_string(),
        ),
    }
}

fn chain_cause(chain: &hugewise_model::HugePageChain) -> Option<String> {
    let broken = chain.first_broken_link()?;
    (broken.name != LinkName::Permission && broken.name != LinkName::Mapped)
        .then(|| format!("first broken link: {}: {}", broken.name.as_str(), broken.evidence))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = old_kernel();
        let low = hugewise_model::Limit::At(hugewise_model::Bytes::from_mib(8));
        case.processes()[0].memlock =
            hugewise_model::Observed::Known(hugewise_model::process::SoftHard {
                soft: low,
                hard: low,
            });
        case
    },
    silent: old_kernel,
    missing: || {
        let mut case = old_kernel();
        case.processes()[0].memlock = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn old_kernel() -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.kernel = hugewise_model::Observed::Known(hugewise_model::KernelRelease {
        text: "4.18.0".into(),
        major: 4,
        minor: 18,
    });
    case.oracle("PROD", crate::testing::gib(8), 20);
    let rules = hugewise_host::config::limits::parse(
        "/etc/security/limits.conf",
        b"oracle - memlock unlimited\n",
    );
    case.host.configuration.limits = hugewise_model::Observed::Known(rules);
    case
}

#[cfg(test)]
mod tests {
    use crate::testing::{gib, quiet};
    use hugewise_model::process::SoftHard;
    use hugewise_model::{Bytes, Limit, Observed};

    #[test]
    fn a_server_that_uses_mmap_needs_none() {
        let mut case = quiet();
        case.postgresql("15/main", gib(8));
        let low = Limit::At(Bytes::from_kib(64));
        case.processes()[0].memlock = Observed::Known(SoftHard { soft: low, hard: low });
        assert!(!case.codes().contains(&"HW301"));
    }
}
