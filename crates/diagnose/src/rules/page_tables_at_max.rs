use hugewise_engines::EngineKind;
use hugewise_model::instance::SessionModel;
use hugewise_model::{HugePageUse, Instance, Lack, Level, Remedy, group_thousands};

use crate::cause::{PAGE_TABLES_HURT, find_remedies, is_big};
use crate::forecast::{self, Basis};
use crate::wording::{render_count, render_percent};
use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW102"),
    name: "page-tables-at-max",
    level: Level::Warn,
    role: CaseRole::Cost,
    docs: Docs {
        what: "Page tables that would take {PAGE_TABLES_WARN} of memory or more if as many sessions connected as \
               the settings allow (max_connections, processes). It looks at servers on base pages \
               that run one process per session. A session is expected to touch as much as the \
               mean of those that run now. If fewer than ten run, the rule assumes that each \
               touches the whole segment, and the summary says `at most`. Sessions that are \
               threads share one set of page tables, which counts once. {PAGE_TABLES_WARN} is also where \
               page-tables-heavy warns. `hugewise size` gives the same numbers.",
        why: "The settings allow more sessions than memory can carry. You find out on the worst \
              day, when an application opens all its connections at once.",
        cost: "page tables too large for memory once all sessions connect",
        fix: "Put the server on huge pages, or lower the number of sessions it allows. Both need a \
              restart of the server.",
        sources: &[
            "Linux mm: one 4 KiB table for each 2 MiB, 1 GiB and 512 GiB that a mapping reaches \
             into (x86-64, 4 KiB pages)",
            "Measured on Linux 6.1: 2052 kB a process for 1 GiB",
        ],
    },
    check: |facts| RULE.of_each(facts, check_max_page_tables),
};

fn check_max_page_tables(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let processes = instance.session_model == SessionModel::Processes;
    if !processes || instance.huge_pages == HugePageUse::All || !is_big(facts, instance)? {
        return Ok(None);
    }
    let host = facts.host;
    let base = *crate::require_known(&host.base_page, "base page size")?;
    let total = *crate::require_known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let Some(max) = instance.max_sessions.get() else {
        if !EngineKind::for_engine(instance.engine).sessions.are_counted {
            return Ok(None);
        }
        let what = "largest number of sessions in its settings";
        return Err(Missing::Instance(Lack::from_fact(what, &instance.max_sessions)));
    };
    let Some(at_max) = forecast::page_tables_at(host, instance, max, base) else { return Ok(None) };
    // A few sessions that have just begun are no promise for those that will come.
    let weighed = if at_max.basis.is_broad() { at_max.total } else { at_max.most };
    let part = weighed.part_of(total).unwrap_or_default();
    if part < PAGE_TABLES_HURT {
        return Ok(None);
    }
    let sessions = group_thousands(max);
    let share = render_percent(part);
    let summary = format!(
        "{} would spend {} on page tables at its {sessions} sessions, {share} of memory",
        instance.title(),
        at_max.in_words()
    );
    let short = format!("page tables would take {} at {sessions} sessions", at_max.in_words());
    let mut evidence = vec![
        format!("{} per session ({})", at_max.per_session, describe_basis(at_max.basis)),
        format!("{sessions} sessions allowed by its settings; /proc/meminfo MemTotal: {total}"),
    ];
    if let Some(now) = instance.page_tables.get() {
        let processes = render_count(instance.pids.len() as u64, "process", "processes");
        evidence.push(format!("{now} now in {processes} (/proc/PID/status VmPTE)"));
    }
    let huge = demand::page_size(host, instance)
        .and_then(|page| forecast::page_tables_at(host, instance, max, page));
    let cost = huge.map(|huge| {
        format!("{weighed} of page tables on base pages, {} on huge pages", huge.total)
    });
    let mut remedies = find_remedies(facts, instance);
    remedies.push(Remedy::Consider("alternatively, allow fewer sessions in its settings".into()));
    let level = Level::Warn;
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = cost;
    Ok(Some(finding))
}

fn describe_basis(basis: Basis) -> String {
    match basis {
        Basis::Measured(1) => "/proc/PID/status VmPTE of the one that runs".into(),
        Basis::Measured(sessions) => {
            format!("mean of /proc/PID/status VmPTE of {} that run", group_thousands(sessions))
        }
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
        case.mariadb("3306", crate::testing::gib(16)).max_sessions =
            hugewise_model::Observed::Known(10_000);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(16), 3).max_sessions =
            hugewise_model::Observed::Denied;
        case
    },
};
