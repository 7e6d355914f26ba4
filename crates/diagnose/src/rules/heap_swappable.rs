use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, Instance, Level, Remedy};

use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts};

/// Less of a server's own memory in swap is what every host has that has been up for a while.
pub(crate) const IN_SWAP: Bytes = Bytes::from_mib(64);

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW803"),
    name: "heap-swappable",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A server whose vendor wants its heap kept out of swap (Elasticsearch, OpenSearch, \
               Cassandra), but whose heap can be swapped out. The host has swap, and the process \
               has locked less memory than its heap. A warning if {IN_SWAP} or more of the process is in \
               swap, otherwise a note. If vm.swappiness is 0 or 1, nothing is reported.",
        why: "A garbage collection walks the whole heap. Memory in swap comes back one page at a \
              time: collections pause for minutes, and nodes drop out of the cluster.",
        cost: "garbage collection waits for swap; nodes drop out of their cluster",
        fix: "Turn swap off, set vm.swappiness=1, or lock the heap and raise the memlock limit to \
              allow it.",
        sources: &[
            "Elasticsearch Guide, \"Disable swapping\"",
            "OpenSearch documentation, \"Configuration and system settings\"",
            "DataStax, \"Recommended production settings\": user resource limits; disable swap",
        ],
    },
    check: |facts| RULE.of_each(facts, check_heap_swappable),
};

fn check_heap_swappable(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some((vendor, lock)) = (EngineKind::for_engine(instance.engine).memory.vendor)(instance)
        .and_then(|vendor| Some((vendor, vendor.lock?)))
    else {
        return Ok(None);
    };
    let heap = instance.segment_bytes();
    let Some(process) = facts.host.find_process(instance.pid).filter(|_| heap > Bytes::ZERO) else {
        return Ok(None);
    };
    let swap = *crate::require_known(&facts.host.memory.swap_total, "/proc/meminfo SwapTotal")?;
    let is_kept = facts.host.kernel_settings.swappiness.get().is_some_and(|value| value <= 1);
    if swap == Bytes::ZERO || is_kept {
        return Ok(None);
    }
    let file = |name: &str| format!("/proc/{}/status {name}", instance.pid);
    let locked = *crate::require_known(&process.locked, &file("VmLck"))?;
    if locked >= heap {
        return Ok(None);
    }
    let in_swap = *crate::require_known(&process.swap, &file("VmSwap"))?;
    let level = if in_swap >= IN_SWAP { Level::Warn } else { Level::Info };
    let short = match level {
        Level::Warn => format!("{in_swap} of its memory is in swap"),
        _ => format!("its heap of {heap} can be swapped out"),
    };
    let summary = format!(
        "{}: {short}; {} should have its memory locked, or no swap",
        instance.title(),
        vendor.name
    );
    let mut evidence = vec![
        format!("/proc/{}/status VmLck: {locked}, VmSwap: {in_swap}", instance.pid),
        format!("/proc/meminfo SwapTotal: {swap}"),
    ];
    let memlock = process.memlock.get();
    evidence.extend(
        memlock.map(|limits| format!("/proc/{}/limits memlock: {}", instance.pid, limits.soft)),
    );
    let remedies = vec![Remedy::Consider(format!(
        "turn swap off, set vm.swappiness=1, or have it locked: {lock}"
    ))];
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_heap_case(Bytes::ZERO, Bytes::ZERO),
    silent: || make_heap_case(crate::testing::gib(8), Bytes::ZERO),
    missing: || {
        let mut case = make_heap_case(Bytes::ZERO, Bytes::ZERO);
        case.host.memory.swap_total = hugewise_model::Observed::Denied;
        case
    },
};

/// An Elasticsearch of 8 GiB, so much of which is locked, and in swap.
#[cfg(test)]
fn make_heap_case(locked: Bytes, in_swap: Bytes) -> crate::testing::Case {
    use hugewise_model::Observed::{Absent, Known};
    use hugewise_model::instance::{Mechanism, SegmentKind, SessionModel};
    let mut case = crate::testing::quiet();
    let name = "org.elasticsearch.bootstrap.Elasticsearch";
    case.instance(hugewise_model::Engine::Jvm, name, crate::testing::gib(8), 0, |instance| {
        instance.mechanism = Mechanism::Mmap;
        instance.asked = hugewise_model::HugePageMode::No;
        instance.sessions = Absent;
        instance.session_model = SessionModel::Threads;
        instance.segments[0].kind = SegmentKind::Private;
    });
    case.processes()[0].locked = Known(locked);
    case.processes()[0].swap = Known(in_swap);
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Case;

    fn level(case: &Case) -> Option<Level> {
        case.assess()
            .findings
            .into_iter()
            .find(|finding| finding.code == RULE.code)
            .map(|other_finding| other_finding.level)
    }

    #[test]
    fn what_is_in_swap_is_worse_than_what_may_be() {
        assert_eq!(level(&make_heap_case(Bytes::ZERO, Bytes::ZERO)), Some(Level::Info));
        assert_eq!(
            level(&make_heap_case(Bytes::from_mib(100), Bytes::from_mib(200))),
            Some(Level::Warn)
        );
    }

    #[test]
    fn each_of_the_three_ways_is_enough() {
        assert_eq!(level(&make_heap_case(crate::testing::gib(9), Bytes::ZERO)), None);
        let mut without = make_heap_case(Bytes::ZERO, Bytes::ZERO);
        without.host.memory.swap_total = hugewise_model::Observed::Known(Bytes::ZERO);
        assert_eq!(level(&without), None);
        let mut kept = make_heap_case(Bytes::ZERO, Bytes::ZERO);
        kept.host.kernel_settings.swappiness = hugewise_model::Observed::Known(1);
        assert_eq!(level(&kept), None);
    }
}
