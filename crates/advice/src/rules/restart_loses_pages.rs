use hugewise_model::{Asked, Finding, HugePageUse, Instance, Lack, Level, Reason, Remedy};

use crate::demand::starting;
use crate::rules::shm_limits;
use crate::situation::{Obstacle, startup};
use crate::standing::Standing;
use crate::{Docs, Facts, Missing, Rule, cause, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW210"),
    name: "restart-loses-pages",
    level: Level::Error,
    docs: Docs {
        what: "A server that would lose huge pages at its next restart, or would not start at all. An error if it \
               refuses to start, otherwise a warning. It reports:\n\n\
               - a server of 256 MiB or more that runs on huge pages and would not get them all back, or would not \
               start\n\
               - a server on base pages whose NUMA nodes or file system keep the pages from its next start too\n\
               - an Oracle instance whose files take it off automatic memory management, and that would then not \
               start for lack of pages\n\
               - a server that locks its memory as it starts (LOCK_SGA=TRUE), if its memlock limit is below its \
               memory on base pages\n\n\
               The server's files as they are now decide what it will ask for. The pool counts as it would be once \
               the server has stopped: surplus pages go with it.",
        why: "The server runs well until somebody restarts it. Its pool was made smaller or a setting was changed, \
              and nothing shows it until then.",
        cost: "everything looks fine until somebody restarts the server",
        fix: "Before you restart it, give the pool what the server will ask for, or revert the setting.",
        sources: &[
            "Documentation/admin-guide/mm/hugetlbpage.rst: surplus pages are freed as they come back",
            "postgresql.org: huge_pages; Oracle MOS 361323.1",
            "Oracle Database Reference, LOCK_SGA; shmctl(2): SHM_LOCK, tested on Linux 5.10 to 7.2 (docs/memlock.md)",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let Some(moments) = facts.situation.of(instance) else { return Ok(None) };
    let restart = &moments.restart;
    let fails = restart.standing == Standing::DoesNotStart;
    if let Some(unclear) = unclear(instance).filter(|_| restart.standing == Standing::Unknown) {
        return Err(unclear);
    }
    let is_down = matches!(restart.obstacle, Some(Obstacle::Start | Obstacle::Lock));
    let kept = is_kept_off(facts, instance, restart.obstacle, fails)?;
    if !kept && (!moments.loses_at_restart() || !(is_down || is_told(facts, instance, fails)?)) {
        return Ok(None);
    }
    // Of limits that are too low for what is there already, HW304 speaks.
    if restart.obstacle == Some(Obstacle::Segments) && !shm_limits::look(facts)?.is_empty() {
        return Ok(None);
    }
    let why = restart.why.clone().unwrap_or_default();
    let (level, what) = match restart.standing {
        Standing::DoesNotStart => (Level::Error, "would not start again"),
        Standing::Partly if kept => (Level::Warn, "would get at most part of its memory on huge pages at a restart"),
        _ if kept => (Level::Warn, "would get no huge pages at a restart either"),
        Standing::Partly => (Level::Warn, "would get only part of its huge pages back at a restart"),
        _ => (Level::Warn, "would lose its huge pages at a restart"),
    };
    let summary = format!("{} {what}: {why}", instance.title());
    let short = format!("it {what}");
    let start = starting(facts.host, instance);
    let mut evidence: Vec<String> = start.setting.iter().map(ToString::to_string).collect();
    if kept {
        evidence.push(chain::seen_on_base(facts.host, instance));
    } else {
        evidence.push(format!("{} of it on huge pages now (/proc/{}/maps)", instance.huge_bytes(), instance.pid));
    }
    let remedies = match restart.obstacle {
        Some(Obstacle::Start) => vec![startup::remedy(instance)],
        Some(Obstacle::Lock) => super::boot_loses_pages::unlocks(instance),
        Some(Obstacle::Right) => super::boot_loses_pages::rights(facts, instance),
        Some(Obstacle::Segments) => vec![Remedy::SetShmLimits],
        Some(Obstacle::Cgroup) => super::cgroup_limit::raises_for(facts, instance),
        Some(Obstacle::Nodes) => vec![super::boot_loses_pages::cpuset()],
        Some(Obstacle::Mount) => vec![Remedy::by_hand("mount the hugetlbfs that it keeps its memory in")],
        Some(Obstacle::MountOptions) => {
            vec![Remedy::by_hand("mount its hugetlbfs with its page size (pagesize=) and large enough (size=)")]
        }
        _ if start.asks() => start.demands.iter().map(|demand| Remedy::SetPool(demand.page_size)).collect(),
        _ => vec![Remedy::SetSetting(instance.id())],
    };
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

/// What nobody knows of the next start of a server whose settings were understood as it started.
fn unclear(instance: &Instance) -> Option<Missing> {
    let next = instance.next.known().filter(|next| next.asked == Asked::Unknown)?;
    let setting = next.setting.as_ref().filter(|_| instance.asked != Asked::Unknown)?;
    Some(Missing::Instance(Lack::new(format_args!("what {setting} comes to"), Reason::untold("not known"))))
}

/// Whether one that is on base pages is kept there by what its next start meets again: the nodes that it may use, or the file system
/// that its memory is in. One whose settings contradict each other does not start at all.
fn is_kept_off(
    facts: &Facts<'_>,
    instance: &Instance,
    obstacle: Option<Obstacle>,
    fails: bool,
) -> Result<bool, Missing> {
    if instance.huge_pages != HugePageUse::None {
        return Ok(false);
    }
    Ok(match obstacle {
        Some(Obstacle::Nodes | Obstacle::Mount | Obstacle::MountOptions) => {
            cause::cause(facts, instance)? == Some(cause::Cause::Restart)
        }
        Some(Obstacle::Settings) => fails,
        _ => false,
    })
}

/// Whether a server is large enough, and no cause of its own says it already.
fn is_told(facts: &Facts<'_>, instance: &Instance, fails: bool) -> Result<bool, Missing> {
    let own = if instance.huge_pages == HugePageUse::None { cause::cause(facts, instance)? } else { None };
    // AMM is what it runs under: of a next start without it that says nothing.
    let leaves = own == Some(cause::Cause::Amm) && starting(facts.host, instance).asks();
    if own.is_some() && !(leaves && fails) {
        return Ok(false);
    }
    Ok(fails || instance.segment_bytes() >= demand::BIG_SEGMENT)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        let instance = case.postgresql("15/main", crate::testing::gib(2));
        crate::testing::all_huge(instance);
        // The pool was set to nothing under it: its 1,024 pages are surplus.
        case.pool(1024, 0);
        case.pools()[0].surplus = hugewise_model::Observed::Known(hugewise_model::PageCount(1024));
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

#[cfg(test)]
mod tests {
    use hugewise_model::instance::Mechanism;
    use hugewise_model::process::SoftHard;
    use hugewise_model::{
        Asked, Bytes, Demand, DemandSource, KernelRelease, Level, Limit, NextStart, Observed, PageCount, PageSize,
        Trait,
    };

    use crate::testing::{all_huge, gib, quiet};

    /// Before Linux 5.16 the memlock limit gives the right to System V huge pages; from then on only the group does.
    #[test]
    fn the_right_that_it_lacks_is_the_one_that_its_kernel_checks() {
        for (text, major, minor, cure) in [("4.18.0", 4, 18, "raise the memlock"), ("6.1.0", 6, 1, "hugetlb_shm_group")]
        {
            let mut case = quiet();
            case.host.kernel = Observed::Known(KernelRelease { text: text.into(), major, minor });
            all_huge(case.oracle("PROD", gib(8), 20));
            case.pool(4098, 0);
            let low = Limit::At(Bytes::from_kib(64));
            for process in case.processes() {
                process.memlock = Observed::Known(SoftHard { soft: low, hard: low });
            }
            let assessment = case.assess();
            let found = assessment.findings.iter().find(|it| it.code.as_str() == "HW210");
            let fix = &found.unwrap_or_else(|| panic!("{text}: {:?}", case.codes())).fix;
            assert!(fix.iter().any(|line| line.contains(cure)), "{text}: {fix:?}");
            assert_eq!(fix.len(), 1, "{text}: {fix:?}");
        }
    }

    /// It runs under AMM; its files have it ask for 388 pages without, of which there are none.
    #[test]
    fn one_that_leaves_amm_for_pages_that_are_not_there_is_told_of() {
        for (asked, found) in [(Asked::Must, Some(Level::Error)), (Asked::Try, None)] {
            let mut case = quiet();
            let instance = case.oracle("PROD", Bytes::from_mib(768), 5);
            (instance.asked, instance.mechanism, instance.traits) =
                (Asked::Cannot, Mechanism::SysvShm, vec![Trait::Amm]);
            let demand = Demand { page_size: PageSize::MIB_2, pages: PageCount(388), source: DemandSource::Engine };
            instance.next = Observed::Known(NextStart { asked, setting: None, demands: vec![demand] });
            for process in case.processes() {
                process.ipc_lock = Observed::Known(true);
            }
            let assessment = case.assess();
            let level = |code| assessment.findings.iter().find(|it| it.code.as_str() == code).map(|it| it.level);
            assert_eq!(level("HW210"), found, "{:?}", case.codes());
            assert_eq!(level("HW402"), Some(Level::Warn));
        }
    }
}
