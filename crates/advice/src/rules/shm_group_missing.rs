use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Engine, Finding, HugePageUse, Instance, Lack, Level, LinkName, Reason, Remedy};

use crate::cause::is_big;
use crate::given::Given;
use crate::permission::{Memlock, Right};
use crate::{Docs, Facts, Missing, Rule, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW303"),
    name: "shm-group-missing",
    level: Level::Error,
    docs: Docs {
        what: "A server with 256 MiB or more on base pages that takes System V huge pages, and whose owner has no \
               right to them. The owner neither has CAP_IPC_LOCK in the initial user namespace nor is in the group \
               of vm.hugetlb_shm_group. And this kernel accepts no memlock limit instead: kernels from 5.16 on \
               don't, nor do earlier ones whose log says so. Group 0, the default, is root's.\n\n\
               - Error: this is what keeps the server off huge pages.\n\
               - Warning: something else keeps it off first.\n\n\
               On 5.14 and 5.15 distributions differ. With a large enough memlock limit the verdict there is \
               unknown, until the kernel's log settles it.",
        why: "shmget(SHM_HUGETLB) fails with EPERM. An Oracle started with USE_LARGE_PAGES=TRUE then runs on base \
              pages next to an idle pool.",
        cost: "the server falls back to base pages, next to an idle pool",
        fix: "Set vm.hugetlb_shm_group to one of the owner's groups. Members of that group may then take pages from \
              every pool. Keep memlock large enough as well: Oracle compares it.",
        sources: &[
            "Linux fs/hugetlbfs/inode.c can_do_hugetlb_shm()",
            "Tested with system calls on Linux 5.10, 6.1, 6.12 and 7.2; what is known of distributions: docs/memlock.md",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises)
        || (instance.asked == Asked::Unknown && instance.engine != Engine::Other);
    if instance.mechanism != Mechanism::SysvShm || !asks || instance.huge_pages == HugePageUse::All {
        return Ok(None);
    }
    let host = facts.host;
    let rule = permission::memlock(host);
    if matches!(rule, Memlock::Buys(_)) || !is_big(facts, instance)? {
        return Ok(None);
    }
    let lacks = match permission::without_memlock(host, instance) {
        Right::Has(_) => return Ok(None),
        Right::Unknown(text) => {
            let why = permission::why_unknown(host, instance);
            return Err(Missing::Instance(Lack { text, why }));
        }
        Right::Lacks(what) => what,
    };
    let needs = facts.situation.locked().at_restart(host, instance);
    let (memlock, enough) = Given::now(host, instance).memlock_for(needs);
    let kernel = match rule {
        Memlock::Unknown(kernel) if enough != Some(false) => {
            let what = format_args!("{lacks}; whether {kernel} accepts memlock instead");
            return Err(Missing::Instance(Lack::new(what, Reason::untold("its log is silent"))));
        }
        Memlock::Unknown(kernel) | Memlock::Useless(kernel) | Memlock::Buys(kernel) => kernel,
    };
    let first = facts.chain(instance).and_then(hugewise_model::Chain::broken).map(|link| link.name);
    let level = if first == Some(LinkName::Permission) { Level::Error } else { Level::Warn };
    let summary = format!("{}: {lacks}; the kernel refuses it System V huge pages", instance.title());
    let short = format!("its owner, {}, may not use System V huge pages", instance.owner_in_words());
    let group = host.kernel_settings.hugetlb_shm_group.get().unwrap_or_default();
    let evidence = vec![
        format!("/proc/sys/vm/hugetlb_shm_group: {group}"),
        format!("/proc/{}/status: Groups, CapEff without CAP_IPC_LOCK", instance.pid),
        format!("{kernel}: a memlock limit does not make up for it; {memlock}"),
    ];
    let remedies = vec![Remedy::SetGroup(instance.id()), Remedy::Restart(instance.id())];
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.pool(5000, 5000);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.pool(5000, 5000);
        case.host.kernel_settings.hugetlb_shm_group = hugewise_model::Observed::Known(54321);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.pool(5000, 5000);
        case.host.kernel_settings.hugetlb_shm_group = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, quiet};
    use hugewise_model::{KernelRelease, LinkState, Observed};

    fn permission(minor: u32, log: &str) -> (LinkState, Vec<&'static str>) {
        let mut case = quiet();
        case.oracle("PROD", gib(8), 20);
        case.pool(5000, 5000);
        case.host.kernel = Observed::Known(KernelRelease { text: format!("5.{minor}.0"), major: 5, minor });
        case.host.kernel_log = Observed::Known(vec![log.into()]);
        let assessment = case.assess();
        let link = assessment.chains[0].links.iter().find(|link| link.name == LinkName::Permission).unwrap();
        (link.state, assessment.findings.iter().map(|finding| finding.code.as_str()).collect())
    }

    #[test]
    fn memlock_counts_as_this_kernel_counts_it() {
        let (state, codes) = permission(16, "");
        assert_eq!(state, LinkState::Broken);
        assert!(codes.contains(&"HW303"), "{codes:?}");
        let (state, codes) = permission(4, "");
        assert_eq!(state, LinkState::Ok);
        assert!(!codes.contains(&"HW303"), "{codes:?}");
        assert_eq!(permission(14, "").0, LinkState::Unknown);
        assert_eq!(permission(14, "oracle (1): Using mlock ulimits for SHM_HUGETLB is obsolete").0, LinkState::Broken);
        assert_eq!(permission(15, "oracle (1): Using mlock ulimits for SHM_HUGETLB is deprecated").0, LinkState::Ok);
    }

    #[test]
    fn a_capability_in_a_user_namespace_counts_for_nothing() {
        let mut case = quiet();
        case.oracle("PROD", gib(8), 20);
        case.pool(5000, 5000);
        case.processes()[0].ipc_lock = Observed::Known(true);
        assert!(!case.codes().contains(&"HW303"));
        case.host.namespaces.user = Observed::Known(1);
        case.processes()[0].namespaces.user = Observed::Known(2);
        assert!(case.codes().contains(&"HW303"));
    }
}
