use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Finding, Host, Instance, Level, PageSize, Remedy, Segment};

use crate::boot::{self, ShmLimit};
use crate::coverage::Coverage;
use crate::prediction::{Obstacle, is_asked};
use crate::sizing::LimitsNeeded;
use crate::wording::{distinguish_sizes, join_names};
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW304"),
    name: "shm-limits",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "System V limits that are too low for servers with {BIG_SEGMENT} or more in System V \
               segments.\n\n- Error: kernel.shmall is below all segments together, or \
               kernel.shmmni is below their number, or what a server asks for at its next start, \
               or after the next boot, is beyond one of them.\n- Warning: kernel.shmmax is below \
               the largest segment of a server.\n- Warning, on kernels before 3.16: the limits are enough now, \
               but no file sets them for the next boot. Such a kernel starts with a shmmax of 32 \
               MiB and a shmall of 8 GiB, unless its distribution set others.\n\nshmall counts \
               base pages, whatever page size a segment has. Db2 raises the limits itself when it \
               starts, and is left out.",
        why: "The segments in use now were made before the limits were lowered, or by a server \
              that split its memory into several. At the next start shmget fails with EINVAL \
              (shmmax) or ENOSPC (shmall, shmmni). The server then cuts its memory into more \
              segments, or doesn't start.",
        cost: "the next start gets more and smaller segments, or fails",
        fix: "Raise the limits; that needs no restart. They protect nothing else on a database \
              host.",
        sources: &[
            "Linux Documentation/admin-guide/sysctl/kernel.rst: shmmax, shmall",
            "shmget(2): EINVAL, ENOSPC",
        ],
    },
    check: |facts| RULE.of_host(facts, check_limits_and_starts),
};

fn check_limits_and_starts(facts: &RuleFacts<'_>) -> HostResult {
    let mut findings = check_shm_limits(facts)?;
    if findings.is_empty() {
        findings.extend(facts.instances.iter().find_map(|one| check_next_starts(facts, one)));
    }
    Ok(findings)
}

/// Limits that are too low for what is there.
pub(crate) fn check_shm_limits(facts: &RuleFacts<'_>) -> HostResult {
    let (host, settings) = (facts.host, &facts.host.kernel_settings);
    let usage = SysvUsage::count(facts.instances);
    if usage.size() < demand::BIG_SEGMENT {
        return Ok(Vec::new());
    }
    let shmmax = *crate::require_known(&settings.shmmax, "/proc/sys/kernel/shmmax")?;
    let shmall = *crate::require_known(&settings.shmall_pages, "/proc/sys/kernel/shmall")?;
    let base = *crate::require_known(&host.base_page, "base page size")?;
    let findings = [
        by_hand(host, usage.servers.iter().copied()),
        usage.check_shmall(shmall, base),
        usage.check_shmmni(host),
        usage.check_shmmax(shmmax),
    ];
    Ok(findings.into_iter().flatten().collect())
}

/// Limits that are enough for what is there, and not for what a server asks for at its next start,
/// or once the next boot has lowered them.
fn check_next_starts(facts: &RuleFacts<'_>, instance: &Instance) -> Option<Finding> {
    let forecasts = facts.situation.forecasts_for(instance)?;
    let mut starts =
        [(&forecasts.restart, "at its next start"), (&forecasts.boot, "after the next boot")]
            .into_iter();
    let (start, when) = starts.find(|(start, _)| start.obstacle == Some(Obstacle::Segments))?;
    let why = start.why.clone()?;
    let summary = format!("{} gets no segments {when}: {why}", instance.title());
    let short = format!("it gets no segments {when}: {why}");
    let fails = start.coverage == Coverage::DoesNotStart;
    let level = if fails { Level::Error } else { Level::Warn };
    Some(new_limit_finding(level, Some(instance), summary, short, vec![why]))
}

struct SysvUsage<'a> {
    servers: Vec<&'a Instance>,
    segments: Vec<(&'a Instance, &'a Segment)>,
}

impl<'a> SysvUsage<'a> {
    fn count(instances: &'a [Instance]) -> Self {
        let servers: Vec<_> = instances.iter().filter(|one| is_asked(one)).collect();
        let segments = servers
            .iter()
            .flat_map(|instance| instance.segments.iter().map(move |segment| (*instance, segment)))
            .filter(|(_, segment)| segment.kind == SegmentKind::SystemV)
            .collect();
        Self { servers, segments }
    }

    fn size(&self) -> Bytes {
        self.segments.iter().map(|(_, segment)| segment.size).sum()
    }

    fn check_shmall(&self, shmall: u64, base: PageSize) -> Option<Finding> {
        let (allowed, all) = (base.bytes().saturating_mul(shmall), self.size());
        if allowed >= all {
            return None;
        }
        let owners = chain::join_titles(self.servers.iter().copied());
        let (allowed, all) = distinguish_sizes(allowed, all);
        let have = if self.servers.len() == 1 { "has" } else { "have" };
        let summary =
            format!("kernel.shmall allows {allowed} of System V segments; {owners} {have} {all}");
        let short = format!("kernel.shmall allows {allowed} of segments, and there are {all}");
        let evidence = vec![format!("/proc/sys/kernel/shmall: {shmall} pages of {base}")];
        Some(new_limit_finding(Level::Error, None, summary, short, evidence))
    }

    fn check_shmmni(&self, host: &Host) -> Option<Finding> {
        let segments = count_sysv_segments(host, self.segments.len());
        let shmmni = host.kernel_settings.shmmni.get().filter(|most| *most < segments)?;
        let summary =
            format!("kernel.shmmni is {shmmni}, and there are {segments} System V segments");
        let short = format!("kernel.shmmni is {shmmni}, and there are {segments} segments");
        let evidence = vec![format!("/proc/sys/kernel/shmmni: {shmmni}")];
        Some(new_limit_finding(Level::Error, None, summary, short, evidence))
    }

    fn check_shmmax(&self, shmmax: Bytes) -> Option<Finding> {
        let (instance, largest) = self.segments.iter().max_by_key(|(_, segment)| segment.size)?;
        if largest.size <= shmmax {
            return None;
        }
        let (most, size) = distinguish_sizes(shmmax, largest.size);
        let summary =
            format!("kernel.shmmax is {most}; {} has a segment of {size}", instance.title());
        let short = format!("kernel.shmmax is {most}, and it has a segment of {size}");
        let evidence = vec![
            format!("/proc/sys/kernel/shmmax: {}", shmmax.get()),
            format!("{}: {}", largest.name, largest.size),
        ];
        Some(new_limit_finding(Level::Warn, Some(instance), summary, short, evidence))
    }
}

fn new_limit_finding(
    level: Level,
    instance: Option<&Instance>,
    summary: String,
    short: String,
    evidence: Vec<String>,
) -> Finding {
    RULE.new_finding(level, instance, summary, short, evidence, vec![Remedy::SetShmLimits])
}

/// Limits that are enough now, and that the next boot may not bring again.
fn by_hand<'a>(host: &Host, sysv: impl Iterator<Item = &'a Instance>) -> Option<Finding> {
    let keys: Vec<String> =
        kept_by_nobody(host).map(|limit| limit.sysctl_key().to_owned()).collect();
    let names = join_names(&keys);
    let (is, them) = if keys.len() == 1 { ("is", "it") } else { ("are", "them") };
    let evidence = |limit: ShmLimit| {
        Some(format!(
            "{} = {} now, and set in no file",
            limit.sysctl_key(),
            limit.current_value(host)?
        ))
    };
    (!keys.is_empty()).then(|| {
        RULE.new_finding(
            Level::Warn,
            None,
            format!(
                "{names} {is} enough for {} now, and no file sets {them} for the next boot",
                chain::join_titles(sysv)
            ),
            format!("{names} {is} enough now, and no file sets {them} for the next boot"),
            kept_by_nobody(host).filter_map(evidence).collect(),
            vec![Remedy::SetShmLimits],
        )
    })
}

fn kept_by_nobody(host: &Host) -> impl Iterator<Item = ShmLimit> {
    ShmLimit::ALL.into_iter().filter(|limit| boot::shm_limit_is_by_hand(host, *limit))
}

/// What the servers have, what those that are down will ask for, and what is planned.
fn needed_of_limit(
    host: &Host,
    instances: &[Instance],
    planned: Option<&LimitsNeeded>,
    limit: ShmLimit,
) -> u64 {
    let planned = planned.and_then(|limits| match limit {
        ShmLimit::Largest => limits.shmmax.needed.map(Bytes::get),
        ShmLimit::All => limits.shmall_pages.needed,
        ShmLimit::Number => None,
    });
    needed_by_servers(host, instances, limit).max(planned.unwrap_or_default())
}

fn needed_by_servers(host: &Host, instances: &[Instance], limit: ShmLimit) -> u64 {
    let sysv = || instances.iter().filter(|instance| instance.mechanism == Mechanism::SysvShm);
    let there = sysv()
        .flat_map(|instance| &instance.segments)
        .filter(|segment| segment.kind == SegmentKind::SystemV)
        .map(|segment| segment.size);
    let asleep = sysv()
        .filter(|instance| instance.is_stopped() && instance.is_trusted())
        .map(demand::asked_for);
    let asleep = asleep.filter(|size| *size > Bytes::ZERO);
    match limit {
        // One that is cut into pieces starts all the same.
        ShmLimit::Largest => there.max().unwrap_or_default().get(),
        ShmLimit::All => {
            host.base_page.get().map_or(0, |base| base.pages_for(there.chain(asleep).sum()).get())
        }
        ShmLimit::Number => count_sysv_segments(host, there.count())
            .saturating_add(u64::try_from(asleep.count()).unwrap_or(u64::MAX)),
    }
}

/// Segments of the host; those of its servers where nobody has counted.
fn count_sysv_segments(host: &Host, of_servers: usize) -> u64 {
    u64::try_from(host.sysv_segments.as_known().map_or(of_servers, Vec::len)).unwrap_or(u64::MAX)
}

/// What is to be done about the limits, and where a file has the last word of the boot, in which.
pub(crate) fn in_words(
    host: &Host,
    instances: &[Instance],
    planned: Option<&LimitsNeeded>,
) -> Vec<String> {
    let text_of = |limit: ShmLimit| {
        let key = limit.sysctl_key();
        let now = limit.current_value(host)?;
        let needed = needed_of_limit(host, instances, planned, limit);
        let at_boot = boot::shm_limit(host, limit);
        let place =
            || boot::predict_setting(host, key).ok()?.pop().map(|step| step.place.to_string());
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
    let what: Vec<String> = ShmLimit::ALL.into_iter().filter_map(text_of).collect();
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

#[cfg(test)]
mod tests {
    use hugewise_model::{Engine, KernelRelease, Observed};

    /// A recipe that takes the KiB of free(1) for bytes: shmall 11110, shmmax 32505856 of 62 GiB.
    #[test]
    fn limits_that_the_next_boot_lowers_are_too_low() {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(16), 2);
        assert!(!case.codes().contains(&"HW304"), "{:?}", case.codes());
        let lowered = vec![crate::testing::sysctl("kernel.shmall", "11110")];
        case.host.configuration.sysctl = Observed::Known(lowered);
        assert!(case.codes().contains(&"HW304"), "{:?}", case.codes());
    }

    /// "Enforced minimum settings" of Db2 9.7: it raises them at each start of an instance.
    #[test]
    fn who_raises_the_limits_itself_needs_no_file_that_does() {
        let mut case = crate::testing::quiet();
        crate::testing::all_huge(case.oracle("PROD", crate::testing::gib(4), 2));
        case.pool(2048, 0);
        let text = "3.2.0-60-virtual".to_owned();
        case.host.kernel = Observed::Known(KernelRelease { text, major: 3, minor: 2 });
        case.host.kernel_settings.shmall_pages = Observed::Known(8_388_608);
        case.host.kernel_settings.shmmax = Observed::Known(crate::testing::gib(16));
        assert!(case.codes().contains(&"HW304"), "{:?}", case.codes());
        case.instances[0].engine = Engine::from_name("db2");
        assert!(!case.codes().contains(&"HW304"), "{:?}", case.codes());
    }
}
