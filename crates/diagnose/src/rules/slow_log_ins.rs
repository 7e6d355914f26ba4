use hugewise_engines::EngineKind;
use hugewise_model::instance::SegmentKind;
use hugewise_model::{
    Bytes, HugePageUse, Instance, Level, PageSize, Process, Remedy, group_thousands,
};

use crate::cause::{find_remedies, is_big};
use crate::fault_cost::{FaultCost, render_duration};
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, demand};

/// A login that takes this long is felt: seconds.
const FELT: f64 = 0.5;
/// Of fewer sessions nobody speaks as of a storm.
const STORM: u64 = 10;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW104"),
    name: "slow-log-ins",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Oracle up to 11.2 with pre_page_sga=TRUE and {BIG_SEGMENT} or more of its SGA on \
               base pages: every new process touches each page of the SGA before it does anything \
               else. A warning if that takes half a second or more, otherwise a note. From 12.1 \
               on, one process touches the pages once, and no login waits. The time is an estimate \
               from 1.1 \u{b5}s per page of a System V segment, as measured on one machine. If \
               most processes of the instance have touched less than half of the SGA, they started \
               without the setting. The finding is then about the next start of the server.",
        why: "The kernel has to fill in a page table for each process, page by page: 1.3 million \
              pages for 5 GiB. Logins that arrive together compete for the processors, and \
              applications give up before they are let in.",
        cost: "each login waits until its process has touched the whole SGA",
        fix: "There are two cures. The cheaper one is pre_page_sga=FALSE, the default up to 11.2. \
              The other is huge pages, which cut the time to a fiftieth. Both take effect when the \
              instance restarts.",
        sources: &[
            "Oracle Database Reference 11.2, PRE_PAGE_SGA: every process that starts must access \
             every page in the SGA",
            "My Oracle Support 1987975.1: what changed in 12.1",
            "Measured on Linux 6.18: 5 GiB of a System V segment in 1.45 s on 4 KiB pages, in \
             0.028 s on 2 MiB",
        ],
    },
    check: |facts| RULE.of_each(facts, check_slow_log_ins),
};

fn check_slow_log_ins(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some(setting) = (EngineKind::for_engine(instance.engine).memory.touches_all)(instance)
    else {
        return Ok(None);
    };
    if instance.huge_pages == HugePageUse::All || !is_big(facts, instance)? {
        return Ok(None);
    }
    let base = *crate::require_known(&facts.host.base_page, "base page size")?;
    let memory = demand::on_base_pages(instance).unwrap_or_default();
    let system_v = instance.segments.iter().any(|segment| segment.kind == SegmentKind::SystemV);
    let cost = FaultCost::default();
    let seconds = cost.fault_seconds(memory, base, base, system_v);
    let takes = render_duration(seconds);
    let touched = measure_touched_memory(facts, instance);
    let half = memory.shared_by(2).unwrap_or_default();
    let is_new = touched.as_ref().is_some_and(|touched| touched.median < half);
    let which = if is_new { "each login after its next start" } else { "each login" };
    let what = format!("{which} first touches {memory} on {base} pages, about {takes} of CPU time");
    let summary = format!("{}: {what} ({}={})", instance.title(), setting.name, setting.value);
    let short = format!("{which} touches {memory} first: about {takes}");
    let mut evidence = vec![
        setting.to_string(),
        "up to 11.2 every new process touches all of the SGA; from 12.1 on one process does, once"
            .to_owned(),
    ];
    if let Some(TouchedMemory { least, median, count, told_by }) = touched {
        let count = group_thousands(count);
        evidence.push(match is_new {
            true => format!(
                "half of its {count} processes have touched at most {median}: they were started \
                 without it ({told_by})"
            ),
            false => {
                format!("each of its {count} processes has touched {least} or more ({told_by})")
            }
        });
    }
    let level = if seconds >= FELT { Level::Warn } else { Level::Info };
    let asks =
        "set pre_page_sga=FALSE, the default of this release: no login waits after its next start";
    // The cheaper of the two cures is the one that people look for.
    let mut remedies = vec![Remedy::by_hand(asks)];
    remedies.extend(find_remedies(facts, instance));
    let huge = demand::page_size(facts.host, instance).unwrap_or(PageSize::MIB_2);
    let on_huge = cost.fault_seconds(memory, base, huge, system_v);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = describe_login_storm(facts, instance, seconds, on_huge);
    Ok(Some(finding))
}

fn describe_login_storm(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    base: f64,
    huge: f64,
) -> Option<String> {
    let now = instance.sessions.get().filter(|sessions| *sessions >= STORM);
    let sessions = now.or(instance.max_sessions.get()).filter(|sessions| *sessions >= STORM)?;
    let processors = facts.host.processors.online.get().filter(|online| *online > 0)?;
    let all = |seconds: f64| Bytes(sessions).as_f64() * seconds / Bytes(processors).as_f64();
    Some(format!(
        "{} logins at once keep {processors} processors busy for {} on base pages, for {} on huge \
         pages",
        group_thousands(sessions),
        render_duration(all(base)),
        render_duration(all(huge))
    ))
}

struct TouchedMemory {
    least: Bytes,
    median: Bytes,
    count: u64,
    told_by: &'static str,
}

fn measure_touched_memory(facts: &RuleFacts<'_>, instance: &Instance) -> Option<TouchedMemory> {
    let all = |amount: fn(&Process) -> Option<Bytes>| {
        let amounts = instance.pids.iter().map(|pid| amount(facts.host.find_process(*pid)?));
        amounts.collect::<Option<Vec<Bytes>>>()
    };
    // Before Linux 4.5 files are among what is shared: hardly more than program and libraries.
    let older = || {
        all(|process| {
            let [_, _, _, code] = process.mapped?;
            Some(process.rss_shared.get()?.saturating_sub(code))
        })
    };
    let (mut amounts, told_by) = match all(|process| process.rss_shmem.get()) {
        Some(amounts) => (amounts, "/proc/PID/status RssShmem"),
        None => (older()?, "/proc/PID/statm, without its code"),
    };
    amounts.sort_unstable();
    let median = *amounts.get(amounts.len() / 2)?;
    Some(TouchedMemory {
        least: *amounts.first()?,
        median,
        count: u64::try_from(amounts.len()).ok()?,
        told_by,
    })
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        pre_pages(&mut case);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        pre_pages(&mut case);
        crate::testing::all_huge(case.instances.last_mut().unwrap());
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        pre_pages(&mut case);
        case.host.base_page = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
fn pre_pages(case: &mut crate::testing::Case) {
    let instance = case.oracle("META", crate::testing::gib(5), 625);
    instance.version = hugewise_model::Observed::Known("11.2.0.3".into());
    let setting = hugewise_model::instance::ServerSetting {
        name: "pre_page_sga".into(),
        value: "TRUE".into(),
        place: None,
    };
    instance.settings.insert("pre_page_sga".into(), setting);
}

#[cfg(test)]
mod tests {
    use hugewise_model::Finding;

    use hugewise_model::Observed::Known;

    use super::*;
    use crate::testing::{Case, quiet};

    fn found(case: &Case) -> Option<Finding> {
        case.assess().findings.into_iter().find(|finding| finding.code == RULE.code)
    }

    /// The web farm of the field: 625 sessions at once on 4 processors, 5 GiB, about 2.5 s a login
    /// there.
    #[test]
    fn a_storm_of_log_ins_is_foretold() {
        let mut case = quiet();
        case.host.processors.online = Known(4);
        pre_pages(&mut case);
        let finding = found(&case).unwrap();
        // 1,310,720 pages at 1.1 µs; 625 of them on 4 processors.
        assert!(
            finding
                .summary
                .contains("first touches 5.0 GiB on 4 KiB pages, about 1.4 s of CPU time"),
            "{finding:?}"
        );
        assert_eq!(finding.level, Level::Warn);
        let cost = finding.cost.unwrap();
        assert!(
            cost.starts_with(
                "625 logins at once keep 4 processors busy for 3.8 minutes on base pages, for 4."
            ),
            "{cost}"
        );
        assert!(
            matches!(finding.remedies.first(), Some(Remedy::ByHand(by_hand)) if by_hand.what.contains("pre_page_sga=FALSE"))
        );
    }

    #[test]
    fn what_its_processes_have_touched_tells_whether_it_was_so_at_their_start() {
        let mut case = quiet();
        pre_pages(&mut case);
        let pids = case.instances[0].pids.clone();
        let touch = |case: &mut Case, amount: Bytes| {
            let own = case.processes().into_iter().filter(|process| pids.contains(&process.pid));
            own.for_each(|process| process.rss_shmem = Known(amount));
        };
        touch(&mut case, Bytes::from_gib(5));
        let evidence = found(&case).unwrap().evidence.join("; ");
        assert!(evidence.contains("has touched 5.0 GiB or more"), "{evidence}");
        touch(&mut case, Bytes::from_mib(40));
        let finding = found(&case).unwrap();
        assert!(finding.summary.contains("each login after its next start"), "{}", finding.summary);
    }

    #[test]
    fn older_kernels_tell_it_in_statm() {
        let mut case = quiet();
        pre_pages(&mut case);
        let pids = case.instances[0].pids.clone();
        for process in case.processes().into_iter().filter(|process| pids.contains(&process.pid)) {
            process.rss_shmem = hugewise_model::Observed::Absent;
            process.rss_shared = Known(Bytes::from_mib(5120 + 200));
            process.mapped = Some([Bytes::ZERO, Bytes::ZERO, Bytes::ZERO, Bytes::from_mib(200)]);
        }
        let evidence = found(&case).unwrap().evidence.join("; ");
        assert!(evidence.contains("has touched 5.0 GiB or more (/proc/PID/statm"), "{evidence}");
    }

    #[test]
    fn newer_releases_let_no_log_in_wait() {
        let mut case = quiet();
        pre_pages(&mut case);
        case.instances[0].version = Known("12.1.0.2".into());
        assert!(found(&case).is_none());
    }
}
