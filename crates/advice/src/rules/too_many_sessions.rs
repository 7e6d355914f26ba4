use hugewise_engines::Kind;
use hugewise_model::{Finding, Instance, Lack, Level, PageCount, Remedy};

use crate::{Docs, Facts, Missing, Rule};

/// Sessions for each processor from which on there is a note.
const NOTE: u64 = 50;
/// And a warning. A host that stalled in the field had 625 sessions on 4 processors, 156 for each.
const WARN: u64 = 100;
/// Fewer sessions than this never matter.
const FEW: u64 = 100;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW103"),
    name: "too-many-sessions",
    level: Level::Warn,
    docs: Docs {
        what: "More sessions than the processors can ever serve: from 50 for each processor on a note, from 100 on a \
               warning, and never below 100 sessions in all. A host that stalled in the field had 625 sessions on 4 \
               processors, 156 for each; the common sizing rule for PostgreSQL's active sessions is two for each core.",
        why: "A processor runs one session at a time. The others wait, and meanwhile hold page tables, private memory \
              and locks; when they all wake, the host does nothing but switch between them.",
        cost: "time lost to waiting and switching; page tables for each session",
        fix: "A connection pool in front of the server, or fewer connections in the application's own pool. Only the \
              application has to be restarted.",
        sources: &["PostgreSQL wiki, Number Of Database Connections", "Field report: 625 sessions on 4 cores"],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let Some(sessions) = instance.sessions.get() else {
        // The sessions of other servers cannot be counted from outside.
        return if Kind::of(instance.engine).counts_sessions {
            Err(Missing::Instance(Lack::of("number of its sessions", &instance.sessions)))
        } else {
            Ok(None)
        };
    };
    if sessions < FEW {
        return Ok(None);
    }
    let online = *crate::known(&facts.host.processors.online, "/sys/devices/system/cpu/online")?;
    let Some(each) = sessions.checked_div(online).filter(|each| *each >= NOTE) else { return Ok(None) };
    let level = if each >= WARN { Level::Warn } else { Level::Info };
    let count = PageCount(sessions);
    let summary = format!("{} has {count} sessions on {online} processors, {each} for each", instance.title());
    let short = format!("it has {count} sessions on {online} processors, {each} for each");
    let evidence = vec![
        format!("{count} sessions, counted from {} processes in /proc", instance.pids.len()),
        format!("/sys/devices/system/cpu/online: {online} processors"),
    ];
    let remedies =
        vec![Remedy::Consider("put a connection pool in front, or shrink the application's own pools".into())];
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.host.processors.online = hugewise_model::Observed::Known(4);
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.host.processors.online = hugewise_model::Observed::Absent;
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
};
