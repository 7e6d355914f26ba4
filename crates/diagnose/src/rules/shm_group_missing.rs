use hugewise_model::{HugePageChain, Instance, Lack, Level, LinkName, Reason, Remedy};

use super::memlock_below_segment::lacks_sysv_huge_pages;
use crate::cause::{Cause, is_big};
use crate::ipc_privileges::IpcPrivileges;
use crate::memlock_witness::find_refused_memlock;
use crate::permission::{HugePageRight, MemlockEffect};
use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW303"),
    name: "shm-group-missing",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Group]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that takes System V huge pages, and \
               whose owner has no right to them. The owner neither has CAP_IPC_LOCK in the initial \
               user namespace nor is in the group of vm.hugetlb_shm_group. And this kernel accepts \
               no memlock limit instead: kernels from 5.16 on don't, nor do earlier ones whose log \
               says so. Group 0, the default, is root's.\n\n- Error: this is what keeps the server \
               off huge pages.\n- Warning: something else keeps it off first.\n\nOn 5.14 and 5.15 \
               distributions differ: those of RHEL 9 and of SLES 15 SP4 and SP5 are known not to \
               accept one. With a large enough memlock limit the verdict on others is unknown, \
               until the kernel's log settles it, or a server that was started beside enough \
               pages of the kernel's command line and has none.",
        why: "shmget(SHM_HUGETLB) fails with EPERM. An Oracle started with USE_LARGE_PAGES=TRUE \
              then runs on base pages next to an idle pool.",
        cost: "the server falls back to base pages, next to an idle pool",
        fix: "Set vm.hugetlb_shm_group to one of the owner's groups. Members of that group may \
              then take pages from every pool. Keep memlock large enough as well: Oracle compares \
              it.",
        sources: &[
            "Linux fs/hugetlbfs/inode.c can_do_hugetlb_shm()",
            "oravirt/ansible-oracle pull request 461, which quotes Oracle's note 3010862.1",
            "Tested with system calls on Linux 5.10, 6.1, 6.12 and 7.2; what is known of \
             distributions: docs/memlock.md",
        ],
    },
    check: |facts| RULE.of_each(facts, check_shm_group_missing),
};

fn check_shm_group_missing(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if !lacks_sysv_huge_pages(instance) {
        return Ok(None);
    }
    let host = facts.host;
    let rule = permission::memlock_effect(host);
    if matches!(rule, MemlockEffect::Buys(_)) || !is_big(facts, instance)? {
        return Ok(None);
    }
    let lacks = match permission::without_memlock(host, instance) {
        HugePageRight::Has(_) => return Ok(None),
        HugePageRight::Unknown(text) => {
            let why = permission::why_unknown(host, instance);
            return Err(Missing::Instance(Lack { text, why }));
        }
        HugePageRight::Lacks(what) => what,
    };
    let needs = facts.situation.locked().at_restart(host, instance);
    let (memlock, enough) = IpcPrivileges::from_running_process(host, instance).memlock_for(needs);
    let kernel = match (rule, find_refused_memlock(host, instance)) {
        (MemlockEffect::Unknown(kernel), Some(shown)) => format!("{kernel}: {shown}"),
        (MemlockEffect::Unknown(kernel), None) if enough != Some(false) => {
            let what = format_args!("{lacks}; whether {kernel} accepts memlock instead");
            return Err(Missing::Instance(Lack::new(what, Reason::from_text("its log is silent"))));
        }
        (
            MemlockEffect::Unknown(kernel)
            | MemlockEffect::Useless(kernel)
            | MemlockEffect::Buys(kernel),
            _,
        ) => kernel,
    };
    let broken = facts.chain(instance).and_then(HugePageChain::first_broken_link);
    let leads = broken.is_some_and(|link| link.name == LinkName::Permission);
    let level = if leads { Level::Error } else { Level::Warn };
    let summary =
        format!("{}: {lacks}; the kernel refuses it System V huge pages", instance.title());
    let short =
        format!("its owner, {}, may not use System V huge pages", instance.owner_in_words());
    let group = host.kernel_settings.hugetlb_shm_group.get().unwrap_or_default();
    let evidence = vec![
        format!("/proc/sys/vm/hugetlb_shm_group: {group}"),
        format!("/proc/{}/status: Groups, CapEff without CAP_IPC_LOCK", instance.pid),
        format!("{kernel}: a memlock limit does not make up for it; {memlock}"),
    ];
    let mut remedies = vec![Remedy::SetGroup(instance.id())];
    remedies.extend(facts.restart(instance));
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
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
    use hugewise_model::process::SoftHard;
    use hugewise_model::{KernelRelease, Limit, LinkState, Observed};

    fn permission(minor: u32, log: &str) -> (LinkState, Vec<&'static str>) {
        let mut case = quiet();
        case.oracle("PROD", gib(8), 20);
        case.pool(5000, 5000);
        case.host.kernel =
            Observed::Known(KernelRelease { text: format!("5.{minor}.0"), major: 5, minor });
        case.host.kernel_log = Observed::Known(vec![log.into()]);
        let assessment = case.assess();
        let link = assessment.chains[0]
            .links
            .iter()
            .find(|link| link.name == LinkName::Permission)
            .unwrap();
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
        assert_eq!(
            permission(14, "oracle (1): Using mlock ulimits for SHM_HUGETLB is obsolete").0,
            LinkState::Broken
        );
        assert_eq!(
            permission(15, "oracle (1): Using mlock ulimits for SHM_HUGETLB is deprecated").0,
            LinkState::Ok
        );
    }

    /// Whether kernels as distributions name them accept memlock: what the log of none has said.
    #[test]
    fn distributions_that_carried_the_change_back_are_known() {
        let accepts = |text: &str| {
            let mut numbers = text.split('.').map(|part| part.parse().unwrap_or_default());
            let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
            permission::accepts_memlock(&KernelRelease { text: text.into(), major, minor })
        };
        for (kernel, expected) in [
            ("5.14.0-362.8.1.el9_3.x86_64", Some(false)),
            ("5.14.0-503.el9.x86_64", Some(false)),
            ("5.14.0-427.13.1.el9_4.aarch64", Some(false)),
            ("5.14.21-150400.24.100-default", Some(false)),
            ("5.14.21-150500.55.136-default", Some(false)),
            ("5.14.0-1059-oem", None),
            ("5.15.0-302.167.6.el9uek.x86_64", None),
            ("5.15.0-119-generic", None),
            ("5.3.18-150300.59.161-default", Some(true)),
            ("4.18.0-553.el8_10.x86_64", Some(true)),
        ] {
            assert_eq!(accepts(kernel), expected, "{kernel}");
        }
    }

    /// A server of 8 GiB on a kernel of which nobody knows, with memlock unlimited however it is
    /// started.
    fn on_unknown_kernel(free: u64) -> crate::testing::Case {
        let mut case = quiet();
        case.oracle("PROD", gib(8), 20);
        case.pool(5000, free);
        let text = "5.15.0-119-generic".to_owned();
        case.host.kernel = Observed::Known(KernelRelease { text, major: 5, minor: 15 });
        let unlimited = SoftHard { soft: Limit::Unlimited, hard: Limit::Unlimited };
        for process in case.processes() {
            process.memlock = Observed::Known(unlimited);
        }
        let rules = b"oracle - memlock unlimited\n";
        let rules = hugewise_host::config::limits::parse("/etc/security/limits.conf", rules);
        case.host.configuration.limits = Observed::Known(rules);
        case
    }

    /// Pages that the kernel reserved itself were there first: who has none of them, with memlock
    /// enough, was refused.
    #[test]
    fn a_server_beside_older_pages_shows_what_its_kernel_makes_of_memlock() {
        let seen = |words: &str, free: u64| {
            let mut case = on_unknown_kernel(free);
            case.host.command_line = Observed::Known(words.split(' ').map(str::to_owned).collect());
            let codes = case.codes();
            (codes.contains(&"HW303"), codes.contains(&"HW209"))
        };
        assert_eq!(seen("quiet hugepages=5000", 5000), (true, false));
        // Too few to begin with, or somebody has some of them.
        assert_eq!(seen("quiet hugepages=500", 5000), (false, true));
        assert_eq!(seen("quiet hugepages=5000", 4900), (false, true));
        // Pages that were made later say nothing.
        assert_eq!(seen("quiet", 5000), (false, true));
    }

    #[test]
    fn a_restart_alone_is_not_advised_where_the_right_is_not_known() {
        let case = on_unknown_kernel(5000);
        let findings = case.assess().findings;
        let restart = findings.iter().find(|finding| finding.code.as_str() == "HW209").unwrap();
        let group = Remedy::SetGroup(case.instances[0].id());
        assert_eq!(restart.remedies.first(), Some(&group), "{:?}", restart.remedies);
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
