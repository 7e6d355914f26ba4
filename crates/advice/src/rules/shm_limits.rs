use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Finding, Host, Instance, Level, Remedy};

use crate::boot::{self, ShmLimit};
use crate::words::{apart, list};
use crate::{Docs, Facts, Missing, Rule, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW304"),
    name: "shm-limits",
    level: Level::Error,
    docs: Docs {
        what: "System V limits that are too low for servers with 256 MiB or more in System V segments.\n\n\
               - Error: kernel.shmall is below all segments together, or kernel.shmmni is below their number.\n\
               - Warning: kernel.shmmax is below the largest segment of a server.\n\
               - Warning, on kernels before 3.16: the limits are enough now, but no file sets them for the next \
               boot. Such a kernel starts with a shmmax of 32 MiB and a shmall of 8 GiB, unless its distribution set \
               others.\n\n\
               shmall counts base pages, whatever page size a segment has.",
        why: "The segments in use now were made before the limits were lowered, or by a server that split its memory \
              into several. At the next start shmget fails with EINVAL (shmmax) or ENOSPC (shmall, shmmni). The \
              server then cuts its memory into more segments, or doesn't start.",
        cost: "the next start gets more and smaller segments, or fails",
        fix: "Raise the limits; that needs no restart. They protect nothing else on a database host.",
        sources: &["Linux Documentation/admin-guide/sysctl/kernel.rst: shmmax, shmall", "shmget(2): EINVAL, ENOSPC"],
    },
    check: |facts| RULE.of_host(facts, look),
};

pub(crate) fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
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
    let mut findings: Vec<Finding> = by_hand(facts.host, sysv.iter().copied()).into_iter().collect();
    let allowed = base.bytes().times(shmall);
    if allowed < all {
        let owners = chain::titles(sysv.iter().copied());
        let (allowed, all) = apart(allowed, all);
        let have = if sysv.len() == 1 { "has" } else { "have" };
        let summary = format!("kernel.shmall allows {allowed} of System V segments; {owners} {have} {all}");
        let short = format!("kernel.shmall allows {allowed} of segments, and there are {all}");
        findings.push(Finding {
            short,
            evidence: vec![format!("/proc/sys/kernel/shmall: {shmall} pages of {base}")],
            remedies: vec![Remedy::SetShmLimits],
            ..RULE.finding(Level::Error, None, summary)
        });
    }
    let there = number(facts.host, segments().count());
    if let Some(shmmni) = settings.shmmni.get().filter(|most| *most < there) {
        findings.push(Finding {
            short: format!("kernel.shmmni is {shmmni}, and there are {there} segments"),
            evidence: vec![format!("/proc/sys/kernel/shmmni: {shmmni}")],
            remedies: vec![Remedy::SetShmLimits],
            ..RULE.finding(
                Level::Error,
                None,
                format!("kernel.shmmni is {shmmni}, and there are {there} System V segments"),
            )
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

/// Limits that are enough now, and that the next boot may not bring again.
fn by_hand<'a>(host: &Host, sysv: impl Iterator<Item = &'a Instance>) -> Option<Finding> {
    let keys: Vec<String> = kept_by_nobody(host).map(|limit| limit.key().to_owned()).collect();
    let names = list(&keys);
    let (is, them) = if keys.len() == 1 { ("is", "it") } else { ("are", "them") };
    let evidence = |limit: ShmLimit| Some(format!("{} = {} now, and set in no file", limit.key(), limit.now(host)?));
    (!keys.is_empty()).then(|| Finding {
        short: format!("{names} {is} enough now, and no file sets {them} for the next boot"),
        evidence: kept_by_nobody(host).filter_map(evidence).collect(),
        remedies: vec![Remedy::SetShmLimits],
        ..RULE.finding(
            Level::Warn,
            None,
            format!("{names} {is} enough for {} now, and no file sets {them} for the next boot", chain::titles(sysv)),
        )
    })
}

fn kept_by_nobody(host: &Host) -> impl Iterator<Item = ShmLimit> {
    ShmLimit::ALL.into_iter().filter(|limit| boot::shm_limit_is_by_hand(host, *limit))
}

/// What the segments need of a limit that are there, and those that servers which do not run ask for when they are started.
fn needed(host: &Host, instances: &[Instance], limit: ShmLimit) -> u64 {
    let sysv = || instances.iter().filter(|instance| instance.mechanism == Mechanism::SysvShm);
    let there = sysv().flat_map(|it| &it.segments).filter(|it| it.kind == SegmentKind::SystemV).map(|it| it.size);
    let asleep = sysv().filter(|it| it.is_asleep() && it.is_vouched()).map(demand::asked_for);
    let asleep = asleep.filter(|size| *size > Bytes::ZERO);
    match limit {
        // One that is cut into pieces starts all the same: what none has yet asked for is no such need.
        ShmLimit::Largest => there.max().unwrap_or_default().get(),
        ShmLimit::All => host.base_page.get().map_or(0, |base| base.pages_for(there.chain(asleep).sum()).get()),
        ShmLimit::Number => {
            number(host, there.count()).saturating_add(u64::try_from(asleep.count()).unwrap_or(u64::MAX))
        }
    }
}

/// Segments of the host; those of its servers where nobody has counted.
fn number(host: &Host, of_servers: usize) -> u64 {
    u64::try_from(host.sysv_segments.known().map_or(of_servers, Vec::len)).unwrap_or(u64::MAX)
}

/// What is to be done about the limits: which of them, and where a file has the last word of the boot, which.
pub(crate) fn in_words(host: &Host, instances: &[Instance]) -> Vec<String> {
    let of = |limit: ShmLimit| {
        let (key, needed, now) = (limit.key(), needed(host, instances, limit), limit.now(host)?);
        let at_boot = boot::shm_limit(host, limit);
        let place = || boot::setting(host, key).ok()?.pop().map(|step| step.place);
        if now < needed {
            let to = limit.with_room(needed);
            let too = match (&at_boot, place()) {
                (Ok(then), Some(place)) if *then < needed => {
                    format!(", and in {place}, which sets {then} at each boot")
                }
                _ => String::new(),
            };
            return Some(format!("raise {key} from {now} to {to} ({needed} are needed){too}"));
        }
        match at_boot {
            Ok(then) if then < needed => {
                let place = place().unwrap_or_else(|| "no file".into());
                Some(format!("keep {key} at {now} at each boot: {place} sets {then}"))
            }
            Err(_) if boot::shm_limit_is_by_hand(host, limit) => {
                Some(format!("keep {key} at {now} at each boot: no file sets it"))
            }
            _ => None,
        }
    };
    let what: Vec<String> = ShmLimit::ALL.into_iter().filter_map(of).collect();
    if what.is_empty() { vec!["raise kernel.shmmax and kernel.shmall".into()] } else { what }
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
