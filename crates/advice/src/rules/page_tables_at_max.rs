use hugewise_engines::Kind;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Finding, HugePageUse, Instance, Lack, Level, PageCount, Remedy};

use crate::cause::{PAGE_TABLES_HURT, cure, is_big};
use crate::forecast::{self, Basis};
use crate::words::{counted, percent};
use crate::{Docs, Facts, Missing, Rule, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW102"),
    name: "page-tables-at-max",
    level: Level::Warn,
    docs: Docs {
        what: "Page tables that would take 5 % of memory or more if as many sessions connected as the settings allow \
               (max_connections, processes). It looks at servers on base pages that run one process per session. A \
               session is expected to touch as much as the mean of those that run now. If fewer than ten run, the \
               rule assumes that each touches the whole segment, and the summary says `at most`. Sessions that are \
               threads share one set of page tables, which counts once. 5 % is also where page-tables-heavy warns. \
               `hugewise size` gives the same numbers.",
        why: "The settings allow more sessions than memory can carry. You find out on the worst day, when an \
              application opens all its connections at once.",
        cost: "page tables too large for memory once all sessions connect",
        fix: "Put the server on huge pages, or lower the number of sessions it allows. Both need a restart of the \
              server.",
        sources: &[
            "Linux mm: one 4 KiB table for each 2 MiB, 1 GiB and 512 GiB that a mapping reaches into (x86-64, 4 KiB pages)",
            "Measured on Linux 6.1: 2052 kB a process for 1 GiB",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let processes = instance.session_model == SessionModel::Processes;
    if !processes || instance.huge_pages == HugePageUse::All || !is_big(facts, instance)? {
        return Ok(None);
    }
    let host = facts.host;
    let base = *crate::known(&host.base_page, "base page size")?;
    let total = *crate::known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let Some(max) = instance.max_sessions.get() else {
        if !Kind::of(instance.engine).counts_sessions {
            return Ok(None);
        }
        let what = "largest number of sessions in its settings";
        return Err(Missing::Instance(Lack::of(what, &instance.max_sessions)));
    };
    let Some(at_max) = forecast::page_tables_at(host, instance, max, base) else { return Ok(None) };
    // A few sessions that have just begun are no promise for those that will come.
    let weighed = if at_max.basis.is_broad() { at_max.total } else { at_max.most };
    let part = weighed.part_of(total).unwrap_or_default();
    if part < PAGE_TABLES_HURT {
        return Ok(None);
    }
    let sessions = PageCount(max);
    let share = percent(part);
    let summary = format!(
        "{} would spend {} on page tables at its {sessions} sessions, {share} of memory",
        instance.title(),
        at_max.in_words()
    );
    let short = format!("page tables would take {} at {sessions} sessions", at_max.in_words());
    let mut evidence = vec![format!("{} per session ({})", at_max.per_session, basis(at_max.basis))];
    evidence.push(format!("{sessions} sessions allowed by its settings; /proc/meminfo MemTotal: {total}"));
    if let Some(now) = instance.page_tables.get() {
        let processes = counted(instance.pids.len() as u64, "process", "processes");
        evidence.push(format!("{now} now in {processes} (/proc/PID/status VmPTE)"));
    }
    let huge = demand::page_size(host, instance).and_then(|page| forecast::page_tables_at(host, instance, max, page));
    let cost = huge.map(|huge| format!("{weighed} of page tables on base pages, {} on huge pages", huge.total));
    let mut remedies = cure(facts, instance);
    remedies.push(Remedy::Consider("alternatively, allow fewer sessions in its settings".into()));
    Ok(Some(Finding { short, evidence, cost, remedies, ..RULE.finding(Level::Warn, Some(instance), summary) }))
}

fn basis(basis: Basis) -> String {
    match basis {
        Basis::Measured(1) => "/proc/PID/status VmPTE of the one that runs".into(),
        Basis::Measured(sessions) => format!("mean of /proc/PID/status VmPTE of {} that run", PageCount(sessions)),
        Basis::FullTouch => "touching all of its memory".into(),
    }
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(16), 3);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.mariadb("3306", crate::testing::gib(16)).max_sessions = hugewise_model::Observed::Known(10_000);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(16), 3).max_sessions = hugewise_model::Observed::Denied;
        case
    },
};
