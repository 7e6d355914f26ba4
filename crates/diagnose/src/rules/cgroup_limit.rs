use hugewise_model::{
    Bytes, Finding, HugePageMode, HugePageUse, Instance, Level, PageCount, PageSize, Remedy,
};

use crate::cause::Cause;
use crate::cgroup::Shortage;
use crate::prediction::Obstacle;
use crate::wording::{at_least, boot_name, distinguish_sizes, render_count, shell_word};
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause, cgroup, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW702"),
    name: "cgroup-limit",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Cgroup]),
    docs: Docs {
        what: "A server that asks for huge pages or is on them, in a cgroup whose hugetlb limit is \
               too low. The limit, or that of a cgroup above it, is below the server's demand, or \
               below what all servers there that ask for huge pages need together.\n\n- Error: the \
               fault limit (hugetlb.*.max, v1 limit_in_bytes) is too low, and no reservation limit \
               keeps the server from mapping more.\n- Error: the reservation limit (rsvd.max) is \
               too low, and the server insists on huge pages.\n- Warning: the reservation limit \
               is too low, and the server can fall back.\n- Warning: there is no pool yet, and \
               the server is large enough to need one.",
        why: "The reservation limit is enforced first, when memory is mapped: the server can fall \
              back, and then the fault limit never matters. The fault limit is enforced when a \
              page is touched: the mapping succeeds, the server starts wholly on huge pages, and \
              later a read fails (PostgreSQL: `could not read block`) or SIGBUS kills it. Only a \
              server that touches more than the limit as it starts does not start: PostgreSQL \
              touches all but shared_buffers, QEMU with prealloc everything, and a limit of 0 \
              stops them all. The usual case is a container without a hugepages limit on a host \
              with a pool: its limit is 0.\n\nWho sets which:\n\n| | fault limit | \
              reservation limit |\n| --- | --- | --- |\n| runc up to 1.1.9, crun, \
              containerd's cgroups library | yes | no |\n| runc from 1.1.10 | yes | yes |\n| \
              Incus before lxc/incus#769 was mended, LXD | yes | no |\n| Incus since | yes | yes \
              |\n| docker run, systemd | no setting | no setting |",
        cost: "reads fail or SIGBUS kills it, or it falls back to base pages",
        fix: "Raise the limit to what its servers need together: in Kubernetes as resources limits \
              hugepages-2Mi, otherwise in the cgroup. Or switch huge pages off in the server.",
        sources: &[
            "Linux Documentation/admin-guide/cgroup-v2.rst, HugeTLB",
            "Linux mm/hugetlb.c: hugetlb_reserve_pages, alloc_hugetlb_folio",
            "kubernetes/kubernetes#71233",
            "opencontainers/runc#4073, #4077 (release 1.1.10)",
            "containers/crun src/libcrun/cgroup-resources.c: write_hugetlb_resources",
            "containerd/cgroups#244, lxc/incus#769 and #774, moby/moby#30959",
        ],
    },
    check: |facts| RULE.of_each(facts, check_cgroup_limit),
};

fn check_cgroup_limit(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if !demand::asks_now(instance) {
        return Ok(None);
    }
    // Without any pool nothing can be hit, until the server is given what it lacks, or takes it.
    let runs_into_it = facts
        .situation
        .forecasts_for(instance)
        .is_some_and(|forecasts| forecasts.restart.obstacle == Some(Obstacle::Cgroup));
    let pools = facts.host.pools.as_known().into_iter().flatten();
    let mut pools = pools.filter(|pool| {
        pool.total.get() != Some(PageCount::ZERO)
            || pool.overcommit.get().is_some_and(|pages| pages > PageCount::ZERO)
    });
    let empty = facts.host.pools.is_known() && pools.next().is_none() && !runs_into_it;
    if empty && cause::find_cause(facts, instance)?.is_none() {
        return Ok(None);
    }
    let lacks = facts.situation.limits().find_shortages(facts.host, instance)?;
    let Some(lack) = cgroup::pick_worst_shortage(instance, &lacks) else { return Ok(None) };
    let (what, then, level) = if empty {
        let what = if lack.at_fault { "fault limit" } else { "reservation limit" };
        (what, "a pool alone would not help", Level::Warn)
    } else if lack.at_fault {
        ("fault limit", "reads fail or SIGBUS kills it when it touches more", Level::Error)
    } else if instance.asked == HugePageMode::Must {
        ("reservation limit", "its next start fails", Level::Error)
    } else {
        ("reservation limit", "its next start falls back to base pages", Level::Warn)
    };
    let (limit, needs) = describe_shortage(lack);
    let title = instance.title();
    let summary = format!("{title} {needs}; the {what} of its cgroup is {limit}: {then}");
    let short = format!("it {needs}; its cgroup allows {limit}");
    let mut evidence = Vec::new();
    for lack in &lacks {
        let (file, path, limit, charged) =
            (lack.limit_file(), &lack.path, lack.limit, lack.charged);
        evidence.push(format!("hugetlb {file} of {path}: {limit}, {charged} charged"));
        let hits = lack.failures.filter(|count| *count > 0);
        evidence.extend(
            hits.map(|count| format!("limit hit {}", render_count(count, "time", "times"))),
        );
    }
    evidence.dedup();
    let mut remedies = remedies_for_limits(&lacks);
    if instance.huge_pages != HugePageUse::All {
        remedies.extend(facts.restart(instance));
    }
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

/// Whether a finding names the hugetlb limit of a server's cgroup as too small.
pub fn tells_of_limit(finding: &Finding) -> bool {
    finding.code == RULE.code
}

fn describe_shortage(lack: &Shortage) -> (String, String) {
    match lack.servers.saturating_sub(1) {
        0 => {
            let (limit, needs) = distinguish_sizes(lack.limit, lack.demand);
            (limit, format!("needs {needs} of huge pages"))
        }
        others => {
            let (limit, needs) = distinguish_sizes(lack.limit, lack.enough);
            let who = if others == 1 {
                "one more server".to_owned()
            } else {
                format!("{others} more servers")
            };
            (limit, format!("and {who} in its cgroup need {needs} of huge pages"))
        }
    }
}

pub(super) fn raises_for(facts: &RuleFacts<'_>, instance: &Instance) -> Vec<Remedy> {
    remedies_for_limits(
        &facts.situation.limits().find_shortages(facts.host, instance).unwrap_or_default(),
    )
}

/// One for each cgroup and page size: every cgroup on the way has to let all servers through.
fn remedies_for_limits(lacks: &[Shortage]) -> Vec<Remedy> {
    let mut cgroups: Vec<(&str, PageSize)> =
        lacks.iter().map(|lack| (lack.path.as_str(), lack.page_size)).collect();
    cgroups.sort_unstable();
    cgroups.dedup();
    let raise = |(path, page): (&str, PageSize)| {
        let shortages: Vec<&Shortage> =
            lacks.iter().filter(|lack| lack.path == path && lack.page_size == page).collect();
        let enough = shortages.iter().map(|lack| lack.enough).max().unwrap_or_default();
        let what = format!("raise the hugetlb limit of {path} to {}", at_least(enough));
        Remedy::by_commands(what, raise_limit_commands(path, page, enough, &shortages))
    };
    cgroups.into_iter().map(raise).collect()
}

fn raise_limit_commands(
    path: &str,
    page: PageSize,
    enough: Bytes,
    lacks: &[&Shortage],
) -> Vec<String> {
    let folder = path.trim_end_matches('/');
    let kubernetes = format!(
        "# Kubernetes: limits of the container, hugepages-{}i: {}Mi",
        boot_name(page),
        enough.get().div_ceil(1 << 20)
    );
    if folder.is_empty() {
        // The root that is seen in a container is its own, and its limit is not set from within.
        return vec![
            kubernetes,
            "# otherwise: raise the limit of its container, on the container's host".into(),
        ];
    }
    // Where systemd mounts version 2, version 2 beside version 1, and version 1.
    let at = |root: &str, name: &str| {
        shell_word(&format!("{root}{folder}/hugetlb.{}B.{name}", boot_name(page)))
    };
    let mut lines = vec![
        kubernetes,
        "# otherwise, until the next boot or the next start of its container:".to_owned(),
    ];
    for lack in lacks {
        let (new, old) = if lack.at_fault {
            ("max", "limit_in_bytes")
        } else {
            ("rsvd.max", "rsvd.limit_in_bytes")
        };
        let files = [("", new), ("/unified", new), ("/hugetlb", old)];
        let files =
            files.map(|(mount, name)| at(&format!("/sys/fs/cgroup{mount}"), name)).join(" ");
        let bytes = lack.enough.get();
        lines.push(format!(
            "for file in {files}; do [ ! -e \"$file\" ] || echo {bytes} > \"$file\"; done"
        ));
    }
    lines
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_limit_case(crate::testing::gib(4)),
    silent: || make_limit_case(crate::testing::gib(6)),
    missing: || {
        let mut case = make_limit_case(crate::testing::gib(4));
        case.host.hugetlb_cgroups[0].fault_max = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn make_limit_case(limit: hugewise_model::Bytes) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
    case.pool(3072, 0);
    case.host.hugetlb_cgroups =
        vec![crate::testing::cgroup("/system.slice", hugewise_model::Limit::At(limit))];
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::{Bytes, Limit, LinkName, Observed};

    #[test]
    fn what_others_were_charged_counts_too() {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3072, 3072);
        let mut cgroup =
            crate::testing::cgroup("/system.slice/db.service", Limit::At(crate::testing::gib(7)));
        cgroup.fault_current = Observed::Known(Bytes::from_gib(2));
        case.host.hugetlb_cgroups = vec![cgroup];
        let assessment = case.assess();
        assert!(assessment.findings.iter().any(|finding| finding.code.as_str() == "HW702"));
        assert_eq!(
            assessment.chains[0].first_broken_link().map(|link| link.name),
            Some(LinkName::Cgroup)
        );
    }

    #[test]
    fn the_fix_raises_the_file_of_either_version_to_what_is_enough() {
        let case = super::make_limit_case(crate::testing::gib(4));
        let findings = case.assess().findings;
        let remedies =
            &findings.iter().find(|finding| finding.code.as_str() == "HW702").unwrap().remedies;
        assert_eq!(
            remedies.len(),
            1,
            "a server that has its pages need not be restarted: {remedies:?}"
        );
        let Remedy::ByHand(hugewise_model::ByHand { what, how: fix, .. }) = &remedies[0] else {
            panic!("{remedies:?}")
        };
        assert_eq!(what, "raise the hugetlb limit of /system.slice to 6.0 GiB");
        assert_eq!(fix[0], "# Kubernetes: limits of the container, hugepages-2Mi: 6144Mi");
        assert_eq!(
            fix[2],
            "for file in /sys/fs/cgroup/system.slice/hugetlb.2MB.max \
             /sys/fs/cgroup/unified/system.slice/hugetlb.2MB.max \
             /sys/fs/cgroup/hugetlb/system.slice/hugetlb.2MB.limit_in_bytes; do [ ! -e \"$file\" ] \
             || echo 6442450944 > \"$file\"; done"
        );
        assert_eq!(fix.len(), 3, "{fix:?}");
    }

    #[test]
    fn a_root_of_cgroups_gives_no_command_that_writes() {
        let mut case = super::make_limit_case(crate::testing::gib(4));
        case.host.hugetlb_cgroups[0].path = "/".into();
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW702").unwrap();
        let Remedy::ByHand(hugewise_model::ByHand { how, .. }) = &found.remedies[0] else {
            panic!("{found:?}")
        };
        assert!(how.iter().all(|line| line.starts_with('#')), "{how:?}");
    }

    /// 1,073,741,824 bytes for 513 pages of 2 MiB, 1,075,838,976 bytes: both are 1.0 GiB.
    #[test]
    fn sizes_that_read_the_same_are_told_in_bytes() {
        let mut case = crate::testing::quiet();
        let instance = crate::testing::all_huge(case.postgresql("15/main", Bytes(513 << 21)));
        instance.asked = HugePageMode::Must;
        case.pool(513, 0);
        case.host.hugetlb_cgroups =
            vec![crate::testing::cgroup("/system.slice", Limit::At(Bytes::from_gib(1)))];
        let assessment = case.assess();
        let all: Vec<String> = assessment
            .findings
            .iter()
            .flat_map(|finding| finding.fix.iter().chain([&finding.summary]))
            .cloned()
            .collect();
        let told = |what: &str| all.iter().any(|line| line.contains(what));
        assert!(
            told(
                "needs 1,075,838,976 bytes of huge pages; the fault limit of its cgroup is \
                 1,073,741,824 bytes"
            ),
            "{all:?}"
        );
        assert!(told("limit of /system.slice to 1,026 MiB"), "{all:?}");
        assert!(!told("1.0 GiB"), "{all:?}");
    }

    /// Without a pool a limit stops nobody, but for one that makes itself a pool.
    #[test]
    fn one_that_raises_the_pool_runs_into_its_limit_without_one() {
        let level = |asked| {
            let mut case = crate::testing::quiet();
            case.oracle("PROD", crate::testing::gib(6), 300).asked = asked;
            case.processes()
                .iter_mut()
                .for_each(|process| process.ipc_lock = Observed::Known(true));
            case.pool(0, 0);
            let limit = Limit::At(crate::testing::gib(3));
            case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice", limit)];
            let findings = case.assess().findings;
            findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW702")
                .map(|finding| finding.level)
        };
        assert_eq!(level(HugePageMode::Raises), Some(Level::Error));
        assert_eq!(level(HugePageMode::Try), Some(Level::Warn));
    }

    #[test]
    fn a_reservation_limit_only_makes_it_fall_back() {
        let mut case = super::make_limit_case(crate::testing::gib(6));
        case.host.hugetlb_cgroups[0].reservation_max = Observed::Known(Limit::At(Bytes::ZERO));
        let findings = case.assess().findings;
        assert_eq!(
            findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW702")
                .map(|finding| finding.level),
            Some(Level::Warn)
        );
    }
}
