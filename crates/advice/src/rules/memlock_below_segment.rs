use hugewise_engines::Kind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Engine, Finding, HugePageUse, Instance, Lack, Level, LinkName, Reason, Remedy};

use crate::cause::is_big;
use crate::given::{self, Given};
use crate::permission::{Memlock, Right};
use crate::{Docs, Facts, Missing, Rule, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW301"),
    name: "memlock-below-segment",
    level: Level::Error,
    docs: Docs {
        what: "A running server that takes System V huge pages, is not on them, and has a memlock limit below what \
               it needs, now or at its next start. The next limit depends on what starts the server: systemd takes \
               it from the unit, a login from limits.conf. Servers that use mmap need no memlock and are never \
               reported.\n\n\
               - Error: this kernel accepts memlock for SHM_HUGETLB, and nothing else gives the server the right.\n\
               - Warning: it is unknown whether this kernel accepts memlock, or whether something else gives the \
               right.\n\
               - Note: everywhere else, but only for Oracle. It compares the limit and warns in its alert log.",
        why: "Kernels before 5.16 let an ordinary user have SHM_HUGETLB if the segment fits under RLIMIT_MEMLOCK \
              together with all that the user has already. The segments of all the user's servers count. If the \
              limit is too small, shmget fails and the server falls back. A limit between the server's smallest and \
              its largest segment lets only the small ones have huge pages.",
        cost: "the server falls back to base pages: page tables in every process",
        fix: "Raise the limit where the server gets it: in its unit if systemd starts it (limits.conf does not reach \
              services), in limits.conf if a login does. On newer kernels the group is what counts. A plan sets the \
              limit to unlimited: Oracle's own checks want at least 90 % of memory where huge pages are used, and \
              the 128 GiB from its preinstall package are too little for a larger SGA. A limit reserves nothing.",
        sources: &[
            "Linux fs/hugetlbfs/inode.c can_do_hugetlb_shm(), before and since 5.16",
            "Linux mm/mlock.c user_shm_lock(): locked_shm of the user",
            "Tested with system calls on Linux 5.10, 6.1, 6.12 and 7.2; what is known of distributions: docs/memlock.md",
            "systemd.exec(5): LimitMEMLOCK",
            "limits.conf(5): memlock is in KiB",
            "Oracle Database Installation Guide 19c for Linux, \"Configuring HugePages\"; oracle-database-preinstall-19c",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

pub(super) fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises)
        || (instance.asked == Asked::Unknown && instance.engine != Engine::Other);
    if instance.mechanism != Mechanism::SysvShm || !asks || instance.huge_pages == HugePageUse::All {
        return Ok(None);
    }
    if !is_big(facts, instance)? {
        return Ok(None);
    }
    let host = facts.host;
    let needs = facts.situation.locked().at_restart(host, instance);
    let (memlock, enough) = Given::now(host, instance).memlock_for(needs);
    let rule = permission::memlock(host);
    let right = permission::without_memlock(host, instance);
    let level = match (&rule, &right) {
        (Memlock::Buys(_), Right::Lacks(_)) => Level::Error,
        (Memlock::Unknown(_), Right::Lacks(_)) | (Memlock::Buys(_) | Memlock::Unknown(_), Right::Unknown(_)) => {
            Level::Warn
        }
        _ if Kind::of(instance.engine).start.minds_memlock => Level::Info,
        _ => return Ok(None),
    };
    let next = given::at_restart(host, instance);
    let next_falls_short = next.memlock_for(needs).1 == Some(false);
    let (given, has) = match enough {
        Some(true) if next_falls_short => (next.first, "its next start has one of"),
        Some(true) => return Ok(None),
        None => {
            let why = host.process(instance.pid).and_then(|process| process.memlock.why());
            let why = why.unwrap_or(Reason::untold("not read"));
            return Err(Missing::Instance(Lack { text: memlock, why }));
        }
        Some(false) => (Given::now(host, instance), "has one of"),
    };
    let limit = given.memlock.limit.get();
    let (amount, needs) = match limit {
        Some(hugewise_model::Limit::At(limit)) => {
            let (limit, all) = crate::words::apart(limit, needs.all());
            (limit, needs.beside(all))
        }
        _ => (limit.map_or_else(|| "not known".to_owned(), |limit| limit.to_string()), needs.to_string()),
    };
    let is_next = enough == Some(true);
    let summary = format!("{} needs a memlock limit of {needs} and {has} {amount}", instance.title());
    let short = if is_next {
        format!("its memlock limit is {amount} at its next start, and it needs {needs}")
    } else {
        format!("its memlock limit is {amount}, and it needs {needs}")
    };
    let (Memlock::Buys(kernel) | Memlock::Useless(kernel) | Memlock::Unknown(kernel)) = rule;
    let mut evidence = vec![memlock, kernel];
    if is_next {
        evidence.insert(1, format!("at its next start: {}", given.memlock.in_words()));
    }
    let (Right::Lacks(what) | Right::Has(what) | Right::Unknown(what)) = right;
    evidence.push(what);
    let link = facts.chain(instance).and_then(chain_cause);
    evidence.extend(link);
    let mut remedies = vec![Remedy::RaiseMemlock(instance.id())];
    if level == Level::Warn {
        // This kernel may not accept a memlock limit.
        remedies.push(Remedy::SetGroup(instance.id()));
    }
    remedies.push(Remedy::Restart(instance.id()));
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

fn chain_cause(chain: &hugewise_model::Chain) -> Option<String> {
    let broken = chain.broken()?;
    (broken.name != LinkName::Permission && broken.name != LinkName::Mapped)
        .then(|| format!("first broken link: {}: {}", broken.name.as_str(), broken.evidence))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = old_kernel();
        let low = hugewise_model::Limit::At(hugewise_model::Bytes::from_mib(8));
        case.processes()[0].memlock =
            hugewise_model::Observed::Known(hugewise_model::process::SoftHard { soft: low, hard: low });
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
    case.host.kernel =
        hugewise_model::Observed::Known(hugewise_model::KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
    case.oracle("PROD", crate::testing::gib(8), 20);
    let rules = hugewise_host::config::limits::parse("/etc/security/limits.conf", b"oracle - memlock unlimited\n");
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
