use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Finding, Level, Remedy};

use crate::words::apart;
use crate::{Docs, Facts, Missing, Rule, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW304"),
    name: "shm-limits",
    level: Level::Error,
    docs: Docs {
        what: "kernel.shmmax below the largest System V segment of a server (a warning), or kernel.shmall below all \
               segments together (an error), for servers with 256 MiB or more in System V segments. shmall counts base \
               pages, whatever page size a segment has.",
        why: "The segments that run now were made before the limits were lowered, or by a server that cut itself into \
              pieces. At the next start shmget fails with EINVAL (shmmax) or ENOSPC (shmall): the server cuts its memory \
              into more segments, or does not start.",
        cost: "the next start gets more and smaller segments, or fails",
        fix: "Raise the limits; no restart is needed for that. They protect nothing else on a database host.",
        sources: &["Linux Documentation/admin-guide/sysctl/kernel.rst: shmmax, shmall", "shmget(2): EINVAL, ENOSPC"],
    },
    check: |facts| RULE.of_host(facts, look),
};

pub(super) fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let settings = &facts.host.kernel_settings;
    let sysv: Vec<_> = facts.instances.iter().filter(|instance| instance.mechanism == Mechanism::SysvShm).collect();
    let segments = || {
        let all = sysv.iter().flat_map(|instance| instance.segments.iter().map(move |segment| (*instance, segment)));
        all.filter(|(_, segment)| segment.kind == SegmentKind::SystemV)
    };
    let all: Bytes = segments().map(|(_, segment)| segment.size).sum();
    if all < demand::BIG_SEGMENT {
        return Ok(Vec::new());
    }
    let shmmax = *crate::known(&settings.shmmax, "/proc/sys/kernel/shmmax")?;
    let shmall = *crate::known(&settings.shmall_pages, "/proc/sys/kernel/shmall")?;
    let base = *crate::known(&facts.host.base_page, "base page size")?;
    let mut findings = Vec::new();
    let allowed = base.bytes().times(shmall);
    if allowed < all {
        let owners = chain::titles(sysv.iter().copied());
        let (allowed, all) = apart(allowed, all);
        let summary = format!("kernel.shmall allows {allowed} of System V segments; {owners} have {all}");
        let short = format!("kernel.shmall allows {allowed} of segments, and there are {all}");
        findings.push(Finding {
            short,
            evidence: vec![format!("/proc/sys/kernel/shmall: {shmall} pages of {base}")],
            remedies: vec![Remedy::SetShmLimits],
            ..RULE.finding(Level::Error, None, summary)
        });
    }
    if let Some((instance, largest)) = segments().max_by_key(|(_, segment)| segment.size)
        && largest.size > shmmax
    {
        let (most, size) = apart(shmmax, largest.size);
        let summary = format!("kernel.shmmax is {most}; {} has a segment of {size}", instance.title());
        let short = format!("kernel.shmmax is {most}, and it has a segment of {size}");
        findings.push(Finding {
            short,
            evidence: vec![
                format!("/proc/sys/kernel/shmmax: {}", shmmax.get()),
                format!("{}: {}", largest.name, largest.size),
            ],
            remedies: vec![Remedy::SetShmLimits],
            ..RULE.finding(Level::Warn, Some(instance), summary)
        });
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.host.kernel_settings.shmall_pages = hugewise_model::Observed::Known((4 << 30) / 4096);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.host.kernel_settings.shmall_pages = hugewise_model::Observed::Known((8 << 30) / 4096);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.host.kernel_settings.shmmax = hugewise_model::Observed::Denied;
        case
    },
};
