use hugewise_model::instance::SegmentKind;
use hugewise_model::{Bytes, HugePageUse, Instance, Level, Observed, Remedy, Segment};

use crate::cause::is_big;
use crate::wording::render_count;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause, demand};

/// Less swap in use than this is what every host has that has been up for a while.
pub(crate) const SWAP_IN_USE: Bytes = Bytes::from_mib(64);

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW801"),
    name: "swap-with-unlocked-segment",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Swap in use on a host where a server keeps a shared segment of {BIG_SEGMENT} or more on \
               base pages, not locked. It is reported from {SWAP_IN_USE} of swap on; hosts swap out less \
               than that over weeks without need. An error if the kernel says that some of the \
               segment itself is in swap (it does for System V segments), otherwise a warning.",
        why: "A buffer cache in swap is worse than none: the server reads from disk what it keeps \
              in memory to avoid reading from disk. Memory from a pool is never swapped.",
        cost: "the server reads from disk what it cached to avoid the disk",
        fix: "Put the segment on huge pages. Until then give the server less memory, or lower \
              vm.swappiness.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: huge pages cannot be swapped",
            "shmctl(2): SHM_LOCK",
        ],
    },
    check: |facts| RULE.of_each(facts, check_unlocked_segment_swap),
};

fn check_unlocked_segment_swap(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let is_shared = |segment: &&Segment| {
        segment.kind != SegmentKind::Private && segment.size >= demand::BIG_SEGMENT
    };
    let shared: Vec<&Segment> = instance.segments.iter().filter(is_shared).collect();
    if instance.huge_pages == HugePageUse::All || shared.is_empty() || !is_big(facts, instance)? {
        return Ok(None);
    }
    let is_open = |segment: &&Segment| {
        segment.huge == Observed::Known(false) && !is_segment_locked(facts, instance, segment)
    };
    let open: Vec<&Segment> = shared.into_iter().filter(is_open).collect();
    if open.is_empty() {
        return Ok(None);
    }
    let memory = &facts.host.memory;
    crate::require_known(&memory.swap_total, "/proc/meminfo SwapTotal")?;
    crate::require_known(&memory.swap_free, "/proc/meminfo SwapFree")?;
    let used = memory.swap_used().unwrap_or_default();
    if used < SWAP_IN_USE {
        return Ok(None);
    }
    let size: Bytes = open.iter().map(|segment| segment.size).sum();
    let own: Bytes =
        open.iter().filter_map(|segment| find_sysv_segment(facts, segment)?.swap.get()).sum();
    let mut evidence = vec![format!("/proc/meminfo SwapTotal - SwapFree: {used}")];
    let mut summary = format!(
        "{used} of swap is in use, and {} keeps {size} on base pages, not locked",
        instance.title()
    );
    let mut short = format!("{used} of swap is in use, and its {size} can be swapped out");
    if own > Bytes::ZERO {
        summary.push_str(&format!("; {own} of it is in swap"));
        short = format!("{own} of its memory is in swap");
        evidence.push(format!("/proc/sysvipc/shm swap of its segments: {own}"));
    }
    evidence.extend(open.iter().map(|segment| {
        let processes = render_count(segment.mappers, "process", "processes");
        format!("{}: {}, mapped by {processes}", segment.name, segment.size)
    }));
    let mut remedies = cause::find_remedies(facts, instance);
    let what = "until it is on huge pages, which are never swapped, keep the kernel from swapping: \
        vm.swappiness=1";
    remedies.push(Remedy::Consider(what.into()));
    let level = if own > Bytes::ZERO { Level::Error } else { Level::Warn };
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = cause::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

fn find_sysv_segment<'a>(
    facts: &RuleFacts<'a>,
    segment: &Segment,
) -> Option<&'a hugewise_model::host::SysvSegment> {
    let all = facts.host.sysv_segments.as_known()?;
    all.iter().find(|known| segment.kind == SegmentKind::SystemV && known.id == segment.identity.1)
}

fn is_segment_locked(facts: &RuleFacts<'_>, instance: &Instance, segment: &Segment) -> bool {
    let by_process = facts.host.find_process(instance.pid).and_then(|process| process.locked.get());
    find_sysv_segment(facts, segment).is_some_and(hugewise_model::host::SysvSegment::is_locked)
        || by_process.is_some_and(|locked| locked >= segment.size)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_swapping_case(crate::testing::gib(6)),
    silent: || make_swapping_case(crate::testing::gib(8)),
    missing: || {
        let mut case = make_swapping_case(crate::testing::gib(6));
        case.host.memory.swap_free = Observed::Absent;
        case
    },
};

#[cfg(test)]
fn make_swapping_case(free: Bytes) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.postgresql("15/main", crate::testing::gib(6));
    case.host.memory.swap_free = Observed::Known(free);
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, sysv};
    use Observed::Known;

    #[test]
    fn a_locked_segment_is_safe_and_one_in_swap_is_an_error() {
        let level = |mode: u32, swap: Bytes| {
            let mut case = crate::testing::quiet();
            case.oracle("PROD", gib(6), 20).segments[0].identity = (1, 77);
            case.host.memory.swap_free = Known(gib(6));
            let mut segment = sysv(77, gib(6), 21);
            segment.mode |= mode;
            segment.swap = Known(swap);
            case.host.sysv_segments = Known(vec![segment]);
            case.assess()
                .findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW801")
                .map(|finding| finding.level)
        };
        assert_eq!(level(0, Bytes::ZERO), Some(Level::Warn));
        assert_eq!(level(0, gib(1)), Some(Level::Error));
        assert_eq!(level(0o2000, Bytes::ZERO), None);
    }
}
