use hugewise_model::host::SysvSegment;
use hugewise_model::{Bytes, Level, PageSize, Remedy};

use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts};

/// Orphans that hold less together are left alone.
pub(crate) const LEAST: Bytes = Bytes::from_mib(64);
pub(crate) const WARN: Bytes = Bytes::from_gib(1);
/// shmctl(IPC_RMID) was called: it goes away with the last process that maps it.
const SHM_DEST: u32 = 0o1000;
const LISTED: usize = 8;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW208"),
    name: "orphaned-segment",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "System V segments that no process maps and that still hold memory. {LEAST_ORPHANED} in total \
               is a note, {ORPHANED_WARN} a warning. What counts is memory in RAM or in swap. Kernels before \
               2.6.36 don't report that; there the size of the segment counts. Segments already \
               marked for removal don't count. hugewise sees only the ipc namespace it runs in.",
        why: "A segment outlives the server that made it. One that a killed server left behind \
              keeps its memory and its huge pages, and the next start finds too few.",
        cost: "memory and huge pages that are missing at the next start",
        fix: "Make sure that nobody needs the segment any more, then remove it. Its contents are \
              lost.",
        sources: &["shmctl(2): SHM_DEST", "proc(5): /proc/sysvipc/shm"],
    },
    check: |facts| RULE.of_host(facts, check_orphaned_segment),
};

fn check_orphaned_segment(facts: &RuleFacts<'_>) -> HostResult {
    let segments = crate::require_known(&facts.host.sysv_segments, "/proc/sysvipc/shm")?;
    let orphan = |segment: &&SysvSegment| segment.attached == 0 && segment.mode & SHM_DEST == 0;
    let page = facts.host.default_huge_page.get();
    let mut orphans: Vec<(Bytes, &SysvSegment)> = segments
        .iter()
        .filter(orphan)
        .map(|segment| (segment_memory_held(segment, page), segment))
        .collect();
    orphans.retain(|(held, _)| *held > Bytes::ZERO);
    orphans.sort_by_key(|(held, segment)| (std::cmp::Reverse(*held), segment.id));
    let all: Bytes = orphans.iter().map(|(held, _)| *held).sum();
    if all < LEAST {
        return Ok(Vec::new());
    }
    let count = orphans.len();
    let (what, hold) =
        if count == 1 { ("System V segment", "holds") } else { ("System V segments", "hold") };
    let summary = format!("{count} {what} that no process uses {hold} {all}");
    let short = summary.clone();
    let line = |(held, segment): &(Bytes, &SysvSegment)| {
        let owner = facts.host.accounts.user_name(segment.uid);
        let (id, size) = (segment.id, segment.size);
        format!(
            "/proc/sysvipc/shm: shmid {id} of {owner}, {size}, {held} held, made by pid {}",
            segment.creator
        )
    };
    let evidence = orphans.iter().take(LISTED).map(line).collect();
    let mut how =
        vec!["# only if you are sure that nobody needs them (their contents are lost):".to_owned()];
    how.extend(orphans.iter().take(LISTED).map(|(_, segment)| format!("ipcrm -m {}", segment.id)));
    let level = if all >= WARN { Level::Warn } else { Level::Info };
    let what =
        "remove them with ipcrm if you are sure that nobody needs them: their contents are lost";
    let remedies = vec![Remedy::by_irreversible_commands(what, how)];
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, remedies)])
}

/// What a segment holds: never more than its size in whole huge pages. On Linux 6.18
/// /proc/sysvipc/shm says 512 times too much of 2 MiB pages, as if it counted the base pages of
/// each base page; on 6.1 it does not.
fn segment_memory_held(segment: &SysvSegment, page: Option<PageSize>) -> Bytes {
    let whole = page.map_or(segment.size, |page| page.pages_for(segment.size).to_bytes(page));
    segment
        .rss
        .get()
        .map_or(segment.size, |rss| (rss + segment.swap.get().unwrap_or_default()).min(whole))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.host.sysv_segments = hugewise_model::Observed::Known(vec![crate::testing::sysv(
            7,
            crate::testing::gib(2),
            0,
        )]);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        let mut marked = crate::testing::sysv(8, crate::testing::gib(2), 0);
        marked.mode |= SHM_DEST;
        let mut untouched = crate::testing::sysv(9, crate::testing::gib(2), 0);
        untouched.rss = hugewise_model::Observed::Known(Bytes::ZERO);
        let used = crate::testing::sysv(7, crate::testing::gib(2), 3);
        case.host.sysv_segments = hugewise_model::Observed::Known(vec![used, marked, untouched]);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.host.sysv_segments = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    #[test]
    fn no_segment_holds_more_than_its_size() {
        // Linux 6.18 of a segment of 600 MiB on 2 MiB pages.
        let mut case = crate::testing::quiet();
        let mut segment = crate::testing::sysv(11, hugewise_model::Bytes::from_mib(600), 0);
        segment.rss = hugewise_model::Observed::Known(crate::testing::gib(300));
        case.host.sysv_segments = hugewise_model::Observed::Known(vec![segment]);
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW208").unwrap();
        assert_eq!(found.summary, "1 System V segment that no process uses holds 600.0 MiB");
    }
}
