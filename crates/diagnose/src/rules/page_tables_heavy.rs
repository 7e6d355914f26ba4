use hugewise_model::instance::SessionModel;
use hugewise_model::page_tables::{ERROR, NOTE, NOTE_BYTES, WARN};
use hugewise_model::{Bytes, HugePageUse, Instance, Level, Remedy};

use crate::cause;
use crate::wording::{render_count, render_percent};
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, demand, forecast};

const NAMED: usize = 3;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW101"),
    name: "page-tables-heavy",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Page tables that take a large part of memory. {PAGE_TABLES_NOTE} of memory or {PAGE_TABLES_NOTE_BYTES} is a note, {PAGE_TABLES_WARN} \
               a warning, {PAGE_TABLES_ERROR} an error. For comparison: fifteen readings of about twelve healthy \
               hosts were between 0.03 and 0.76 %. The finding names the instances with the most \
               page tables, and what each of their processes costs.",
        why: "Every process that maps a segment on base pages builds its own page tables: on \
              x86-64 about 1/512 of the memory it touches. They can't be swapped out. They grow \
              with each login, and building and tearing them down costs kernel time. A host that \
              runs out of memory because of them stalls in reclaim.",
        cost: "memory that nothing else can use, and kernel time at each login",
        fix: "Put the instances that cause it on huge pages; they need a restart for that. Or \
              allow fewer sessions, with a connection pool in front of the server. Trust \
              PageTables in /proc/meminfo: the sum over processes counts tables that the kernel \
              shares between them more than once.",
        sources: &[
            "Linux Documentation/filesystems/proc.rst: PageTables, VmPTE",
            "Measured on Linux 6.1: 200 processes on 1 GiB add 410,400 kB in 4 KiB pages",
        ],
    },
    check: |facts| RULE.of_host(facts, check_page_tables_heavy),
};

/// With a smaller part of all page tables an instance is not what to mend first.
const WEIGHS: f64 = 0.1;

fn check_page_tables_heavy(facts: &RuleFacts<'_>) -> HostResult {
    let memory = &facts.host.memory;
    let tables = *crate::require_known(&memory.page_tables, "/proc/meminfo PageTables")?;
    let total = *crate::require_known(&memory.total, "/proc/meminfo MemTotal")?;
    let part = tables.part_of(total).unwrap_or_default();
    let level = match part {
        part if part >= ERROR => Level::Error,
        part if part >= WARN => Level::Warn,
        part if part >= NOTE || tables >= NOTE_BYTES => Level::Info,
        _ => return Ok(Vec::new()),
    };
    let everybody = facts.everybody.iter();
    let mut causes: Vec<(Bytes, &Instance)> =
        everybody.filter_map(|instance| Some((instance.page_tables.get()?, instance))).collect();
    causes.sort_by_key(|(tables, instance)| (std::cmp::Reverse(*tables), instance.title()));
    let mut summary = format!("page tables take {tables}, {} of memory", render_percent(part));
    let short = summary.clone();
    let mut evidence = vec![format!("/proc/meminfo PageTables: {tables} of MemTotal {total}")];
    if let Some((most, instance)) = causes.first() {
        summary.push_str(&format!("; {} has {most} of them", instance.title()));
    }
    for (tables, instance) in causes.iter().take(NAMED) {
        let mut line = format!(
            "{}: {tables} in {}",
            instance.title(),
            render_count(instance.pids.len() as u64, "process", "processes")
        );
        if let Some(each) = forecast::per_process(instance) {
            line.push_str(&format!(", {each} each"));
        }
        line.push_str(" (/proc/PID/status VmPTE)");
        evidence.push(line);
    }
    let weighs = |own: Bytes| own.part_of(tables).is_some_and(|part| part >= WEIGHS);
    let cure = causes.iter().find(|(own, instance)| weighs(*own) && on_base(instance));
    let cure = cure.map(|(_, instance)| *instance);
    let mut remedies = match cure {
        Some(instance) if instance.is_trusted() => cause::find_remedies(facts, instance),
        Some(instance) => vec![Remedy::Consider(format!("put {} on huge pages", instance.title()))],
        None => vec![Remedy::Consider(
            "find the processes that have them: VmPTE in /proc/PID/status".into(),
        )],
    };
    remedies.push(Remedy::Consider(
        "alternatively, allow fewer sessions, through a connection pool".into(),
    ));
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, remedies)])
}

fn on_base(instance: &Instance) -> bool {
    let base = matches!(instance.huge_pages, HugePageUse::None | HugePageUse::Partly);
    base && instance.session_model == SessionModel::Processes
        && demand::on_base_pages(instance).is_some_and(|base| base >= demand::BIG_SEGMENT)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(16), 200);
        case.host.memory.page_tables = hugewise_model::Observed::Known(crate::testing::gib(7));
        case
    },
    silent: crate::testing::quiet,
    missing: || {
        let mut case = crate::testing::quiet();
        case.host.memory.page_tables = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, quiet};
    use hugewise_model::Observed::Known;

    #[test]
    fn the_level_follows_the_part_of_memory() {
        let level = |mib| {
            let mut case = quiet();
            case.host.memory.total = Known(gib(10));
            case.host.memory.page_tables = Known(Bytes::from_mib(mib));
            case.assess().findings.first().map(|finding| finding.level)
        };
        assert_eq!(level(204), None);
        assert_eq!(level(205), Some(Level::Info));
        assert_eq!(level(512), Some(Level::Warn));
        assert_eq!(level(1024), Some(Level::Error));
    }
}
