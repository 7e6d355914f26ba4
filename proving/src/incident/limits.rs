//! What a source cannot tell, and why: the only cells of the matrix that may be empty.

use super::collectors::Collector::{self, Pcp, Sar, Vmstat};

/// A cause, who cannot tell it, from which interval on, and why.
const LIMITS: &[(&str, &[Collector], u32, &str)] = &[
    ("oom-kill", &[Sar, Vmstat], 1, "it has no count of processes that the kernel killed"),
    ("cgroup-limit", &[Vmstat], 1, "it has neither pressure (PSI) nor kills"),
    ("compaction", &[Sar, Vmstat], 1, "it has no count of compaction"),
    ("login-storm", &[Vmstat], 1, "it has no count of processes or sessions"),
    (
        "page-tables-reclaim",
        &[Vmstat],
        1,
        "it has neither page tables nor scans, and its free memory stands still (procps 4.0.2)",
    ),
    (
        "hang",
        &[Vmstat, Pcp],
        1,
        "without the host's uptime, a start of the host looks like one of the collector",
    ),
    ("fork-storm", &[Vmstat], 1, "it has no count of processes that begin"),
    ("user-cpu", &[Vmstat], 1, "it does not say how many processors there are"),
    ("page-tables-growing", &[Vmstat], 1, "it has no page tables"),
    ("page-tables-standing", &[Vmstat], 1, "it has no page tables"),
    ("unused-pool", &[Vmstat], 1, "it has no pools"),
];

/// Why that source cannot tell that cause; `None` where it can.
pub(super) fn cannot_tell(
    cause: &str,
    collector: Collector,
    interval: u32,
) -> Option<&'static str> {
    let limit = LIMITS.iter().find(|(name, collectors, from, _)| {
        *name == cause && collectors.contains(&collector) && interval >= *from
    });
    limit.map(|(_, _, _, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::super::causes;
    use super::*;

    #[test]
    fn every_limit_is_of_a_cause() {
        for (name, ..) in LIMITS {
            assert!(causes::all().any(|cause| cause.name == *name), "{name}");
        }
    }
}
