use hugewise_model::{
    Demand, HugePageMode, HugePageUse, Instance, Lack, Level, NextStart, Reason, Remedy,
};

use crate::coverage::Coverage;
use crate::demand::predict_next_start;
use crate::prediction::{Obstacle, StageForecast, startup};
use crate::rules::shm_limits;
use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, cause, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW210"),
    name: "restart-loses-pages",
    level: Level::Error,
    role: CaseRole::Forecast,
    docs: Docs {
        what: "A server that would lose huge pages at its next restart, or would not start at all. \
               An error if it refuses to start, otherwise a warning. It reports:\n\n- a server of \
               {BIG_SEGMENT} or more that runs on huge pages and would not get them all back, or would \
               not start\n- a server on base pages whose next start something keeps from huge \
               pages, or from happening, that is not what keeps it off them now: limits of System \
               V segments, a cgroup, NUMA nodes, a file system\n- an Oracle instance whose files take it off automatic \
               memory management, and that would then not start for lack of pages\n- a server that \
               locks its memory as it starts (LOCK_SGA=TRUE), if its memlock limit is below its \
               memory on base pages\n- a server that is down and that people start, as a note\n\nThe server's files as they are now decide what it will ask \
               for. The pool counts as it would be once the server has stopped: surplus pages go \
               with it.",
        why: "The server runs well until somebody restarts it. Its pool was made smaller or a \
              setting was changed, and nothing shows it until then.",
        cost: "everything looks fine until somebody restarts the server",
        fix: "Before you restart it, give the pool what the server will ask for, or revert the \
              setting.",
        sources: &[
            "Documentation/admin-guide/mm/hugetlbpage.rst: surplus pages are freed as they come \
             back",
            "postgresql.org: huge_pages; Oracle MOS 361323.1",
            "Oracle Database Reference, LOCK_SGA; shmctl(2): SHM_LOCK, tested on Linux 5.10 to 7.2 \
             (docs/memlock.md)",
        ],
    },
    check: |facts| {
        let mut verdicts = RULE.of_each(facts, check_restart_loses_pages);
        if !facts.asleep.is_empty() {
            let asleep = RuleFacts { instances: facts.asleep, ..*facts };
            verdicts.extend(RULE.of_each(&asleep, check_start_of_stopped));
        }
        verdicts
    },
};

/// One that is down and that people start is no fault of the host, but whoever starts it should
/// know; of one that the boot starts HW603 tells, but for what is in the way before that alone.
fn check_start_of_stopped(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some(moments) = facts.situation.forecasts_for(instance) else { return Ok(None) };
    let restart = &moments.restart;
    let fails = restart.coverage == Coverage::DoesNotStart;
    let waits = instance.waits_for_hands();
    let is_open = restart.rank().is_none_or(|rank| rank == 3);
    let is_boot_well = moments.boot.rank() == Some(3);
    let is_told_elsewhere = !waits
        && (matches!(restart.obstacle, None | Some(Obstacle::Settings))
            || restart.obstacle == moments.boot.obstacle);
    if is_open || is_told_elsewhere || !(fails || demand::asks_for_more(instance)) {
        return Ok(None);
    }
    let start = predict_next_start(facts.host, instance);
    let why = restart.why.clone().unwrap_or_default();
    let what = match restart.coverage {
        Coverage::DoesNotStart => "is down and would not start",
        Coverage::Partly => "is down and would start with only part of its huge pages",
        _ => "is down and would start without huge pages",
    };
    let (level, remedies) = if waits {
        let plan = crate::untrusted::plan_for(instance);
        let first = format!("plan for {} before it is started: {plan}", instance.id());
        (Level::Info, vec![Remedy::Consider(first)])
    } else {
        // The boot that starts it brings its pages too: until then it has to wait for them.
        let waits = restart.obstacle == Some(Obstacle::Pages) && is_boot_well;
        let level = if waits { Level::Info } else { Level::Warn };
        (level, find_restart_remedies(facts, instance, restart.obstacle, &start))
    };
    let summary = format!("{} {what}: {why}", instance.title());
    let mut evidence: Vec<String> = start.setting.iter().map(ToString::to_string).collect();
    evidence.extend(instance.stopped.as_ref().map(|stopped| stopped.known_by.clone()));
    let short = format!("it {what}");
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

fn check_restart_loses_pages(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some(moments) = facts.situation.forecasts_for(instance) else { return Ok(None) };
    let restart = &moments.restart;
    let fails = restart.coverage == Coverage::DoesNotStart;
    if let Some(unclear) =
        find_unclear_setting(instance).filter(|_| restart.coverage == Coverage::Unknown)
    {
        return Err(unclear);
    }
    let is_down = matches!(restart.obstacle, Some(Obstacle::Start | Obstacle::Lock));
    let kept = is_kept_off(facts, instance, restart)?;
    if !kept && (!moments.loses_at_restart() || !(is_down || is_told(facts, instance, fails)?)) {
        return Ok(None);
    }
    // Of limits that are too low for what is there already, HW304 speaks.
    if restart.obstacle == Some(Obstacle::Segments)
        && !shm_limits::check_shm_limits(facts)?.is_empty()
    {
        return Ok(None);
    }
    let why = restart.why.clone().unwrap_or_default();
    let what = describe_restart(&restart.coverage, kept);
    let level = if fails { Level::Error } else { Level::Warn };
    let summary = format!("{} {what}: {why}", instance.title());
    let short = format!("it {what}");
    let start = predict_next_start(facts.host, instance);
    let mut evidence: Vec<String> = start.setting.iter().map(ToString::to_string).collect();
    if kept {
        evidence.push(chain::seen_on_base(facts.host, instance));
    } else {
        evidence.push(format!(
            "{} of it on huge pages now (/proc/{}/maps)",
            instance.huge_bytes(),
            instance.pid
        ));
    }
    let mut remedies = find_restart_remedies(facts, instance, restart.obstacle, &start);
    // Once that is out of its way, a start brings it the pages.
    let is_by_start = kept && start.asks_for_huge_pages();
    remedies.extend(facts.restart(instance).filter(|_| is_by_start));
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

const fn describe_restart(coverage: &Coverage, is_on_base: bool) -> &'static str {
    match coverage {
        Coverage::DoesNotStart => "would not start again",
        Coverage::Partly if is_on_base => {
            "would get at most part of its memory on huge pages at a restart"
        }
        _ if is_on_base => "would get no huge pages at a restart either",
        Coverage::Partly => "would get only part of its huge pages back at a restart",
        _ => "would lose its huge pages at a restart",
    }
}

fn find_restart_remedies(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    obstacle: Option<Obstacle>,
    start: &NextStart,
) -> Vec<Remedy> {
    match obstacle {
        Some(Obstacle::Start) => vec![startup::remedy_blocked_startup(instance)],
        Some(Obstacle::Lock) => super::boot_loses_pages::remedies_for_locking(instance),
        Some(Obstacle::Right) => super::boot_loses_pages::remedies_for_right(facts, instance),
        Some(Obstacle::Segments) => vec![Remedy::SetShmLimits],
        Some(Obstacle::Cgroup) => super::cgroup_limit::raises_for(facts, instance),
        Some(Obstacle::Nodes) => vec![super::boot_loses_pages::remedy_for_cpuset()],
        Some(Obstacle::Mount) => {
            vec![Remedy::by_hand("mount the hugetlbfs that it keeps its memory in")]
        }
        Some(Obstacle::MountOptions) => {
            vec![Remedy::by_hand(
                "mount its hugetlbfs with its page size (pagesize=) and large enough (size=)",
            )]
        }
        _ if start.asks_for_huge_pages() => {
            let set = |demand: &Demand| facts.set_pool(demand.page_size, Some(instance));
            start.demands.iter().map(set).collect()
        }
        _ => vec![Remedy::SetSetting(instance.id())],
    }
}

fn find_unclear_setting(instance: &Instance) -> Option<Missing> {
    let next = instance.next.as_known().filter(|next| next.asked == HugePageMode::Unknown)?;
    let setting = next.setting.as_ref().filter(|_| instance.asked != HugePageMode::Unknown)?;
    Some(Missing::Instance(Lack::new(
        format_args!("what {setting} comes to"),
        Reason::from_text("not known"),
    )))
}

/// Whether something keeps one on base pages at its next start, or keeps it down, that is not what
/// it runs on base pages for: of that its cause tells.
fn is_kept_off(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    restart: &StageForecast,
) -> Result<bool, Missing> {
    let Some(obstacle) = restart.obstacle.filter(|_| restart.rank().is_some_and(|rank| rank < 3))
    else {
        return Ok(false);
    };
    if instance.huge_pages != HugePageUse::None {
        return Ok(false);
    }
    let fails = restart.coverage == Coverage::DoesNotStart;
    if obstacle == Obstacle::Settings {
        return Ok(fails);
    }
    if fails && obstacle != Obstacle::Pages && cause::find_cause(facts, instance).is_err() {
        return Ok(true);
    }
    let cause = cause::find_cause(facts, instance)?;
    Ok(match cause {
        Some(cause) => !cause.explains_obstacle(obstacle),
        None => fails,
    })
}

/// Whether a server is large enough, and no cause of its own says it already.
fn is_told(facts: &RuleFacts<'_>, instance: &Instance, fails: bool) -> Result<bool, Missing> {
    let own = if instance.huge_pages == HugePageUse::None {
        cause::find_cause(facts, instance)?
    } else {
        None
    };
    // AMM is what it runs under: of a next start without it that says nothing.
    let leaves = own == Some(cause::Cause::Amm)
        && predict_next_start(facts.host, instance).asks_for_huge_pages();
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
        AtBoot, Bytes, Demand, DemandSource, Engine, HugePageMode, KernelRelease, Level, Limit,
        NextStart, Observed, PageCount, PageSize, StoppedInstance, Trait,
    };

    use crate::testing::{all_huge, gib, quiet};

    /// A guest of 2 GiB on huge pages that libvirt has defined without autostart, and no pool: QEMU
    /// does not start with less. With a pool it is nobody's business.
    #[test]
    fn a_server_that_is_down_and_would_not_start_is_noted() {
        let noted = |pages: u64, trusted: bool| {
            let mut case = quiet();
            let instance = case.instance(Engine::Qemu, "win10", gib(2), 0, |_| {});
            instance.asked = HugePageMode::Must;
            (instance.pid, instance.pids, instance.segments) = (0, Vec::new(), Vec::new());
            let demand = Demand {
                page_size: PageSize::MIB_2,
                pages: PageCount(1024),
                source: DemandSource::Engine,
            };
            instance.demand = Some(demand.clone());
            instance.next = Observed::Known(NextStart {
                asked: HugePageMode::Must,
                setting: None,
                demands: vec![demand],
            });
            let at_boot = AtBoot::No("no autostart".into());
            instance.stopped = Some(StoppedInstance::new("/etc/libvirt/qemu/win10.xml", at_boot));
            if !trusted {
                instance.trusted_by.clear();
            }
            case.pool(pages, pages);
            let findings = case.assess().findings.into_iter();
            let mut notes = findings.filter(|finding| finding.code.as_str() == "HW210");
            notes.next().map(|finding| (finding.level, finding.summary))
        };
        let (level, said) = noted(0, true).expect("a note");
        assert_eq!(level, Level::Info);
        assert!(said.starts_with("qemu win10 is down and would not start: needs 1,024"), "{said}");
        assert_eq!(noted(1024, true), None);
        assert_eq!(noted(0, false), None);
    }

    /// Before Linux 5.16 the memlock limit gives the right to System V huge pages; from then on
    /// only the group does.
    #[test]
    fn the_right_that_it_lacks_is_the_one_that_its_kernel_checks() {
        for (text, major, minor, cure) in
            [("4.18.0", 4, 18, "raise the memlock"), ("6.1.0", 6, 1, "hugetlb_shm_group")]
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
            let found = assessment.findings.iter().find(|finding| finding.code.as_str() == "HW210");
            let fix = &found.unwrap_or_else(|| panic!("{text}: {:?}", case.codes())).fix;
            assert!(fix.iter().any(|line| line.contains(cure)), "{text}: {fix:?}");
            assert_eq!(fix.len(), 1, "{text}: {fix:?}");
        }
    }

    /// It runs under AMM; its files have it ask for 388 pages without, of which there are none.
    #[test]
    fn one_that_leaves_amm_for_pages_that_are_not_there_is_told_of() {
        for (asked, found) in [(HugePageMode::Must, Some(Level::Error)), (HugePageMode::Try, None)]
        {
            let mut case = quiet();
            let instance = case.oracle("PROD", Bytes::from_mib(768), 5);
            (instance.asked, instance.mechanism, instance.traits) =
                (HugePageMode::Cannot, Mechanism::SysvShm, vec![Trait::Amm]);
            let demand = Demand {
                page_size: PageSize::MIB_2,
                pages: PageCount(388),
                source: DemandSource::Engine,
            };
            instance.next =
                Observed::Known(NextStart { asked, setting: None, demands: vec![demand] });
            for process in case.processes() {
                process.ipc_lock = Observed::Known(true);
            }
            let assessment = case.assess();
            let level = |code| {
                assessment
                    .findings
                    .iter()
                    .find(|finding| finding.code.as_str() == code)
                    .map(|other_finding| other_finding.level)
            };
            assert_eq!(level("HW210"), found, "{:?}", case.codes());
            assert_eq!(level("HW402"), Some(Level::Warn));
        }
    }
}
