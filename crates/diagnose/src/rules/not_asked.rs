use hugewise_engines::EngineKind;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Finding, HugePageMode, HugePageUse, Instance, Level, Remedy};

use crate::cause::{Cause, find_cause};
use crate::wording::pool_fact;
use crate::{
    CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, chain, demand, untrusted,
};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW403"),
    name: "not-asked",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::NotAsked]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that could use huge pages, but whose \
               settings don't ask for them.\n\n- Error: its page tables take {PAGE_TABLES_WARN} of memory now, or \
               would at its largest number of sessions.\n- Warning: {LARGE_SEGMENT} or more is on base \
               pages, or a pool with room for all of it lies idle.\n- Note: everything else. A \
               threaded server, whose sessions share one set of page tables, is a note unless such \
               a pool lies idle.\n\nAlso a warning: a PostgreSQL or Oracle on huge pages whose \
               settings have changed since it started and no longer ask.",
        why: "Every process needs page tables for memory that would need almost none on huge \
              pages. For threaded servers the only gain is in address translation.",
        cost: "page tables that would almost vanish on huge pages",
        fix: "Set up the pool, turn the setting on, restart the server.",
        sources: &[
            "PostgreSQL 15 manual: huge_pages",
            "MySQL 8.0 manual: large-pages",
            "java(1): -XX:+UseLargePages",
        ],
    },
    check: |facts| RULE.of_each(facts, check_not_asked),
};

fn check_not_asked(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if no_longer_asks(instance) {
        return Ok(Some(until_its_next_start(instance)));
    }
    if find_cause(facts, instance)? != Some(Cause::NotAsked) {
        return Ok(None);
    }
    let host = facts.host;
    let level = causes::not_asked(facts, instance);
    let mut evidence: Vec<String> = instance.setting.iter().map(ToString::to_string).collect();
    evidence.push(chain::seen_on_base(host, instance));
    if let Some((page, available)) = causes::idle_pages_for(facts, instance) {
        let file = pool_fact(host, page, "nr_hugepages");
        evidence.push(format!("{file}: {available} of them available"));
    }
    let setting = describe_setting(instance);
    let threads = instance.session_model == SessionModel::Threads;
    let how = if instance.asked == HugePageMode::Cannot {
        "holds memory that cannot be on"
    } else {
        "does not ask for"
    };
    let then = demand::predict_next_start(host, instance);
    let next = match &then.setting {
        Some(setting) if then.asks_for_huge_pages() => {
            format!(", and will at its next start: {setting}")
        }
        None if then.asks_for_huge_pages() => ", and will at its next start".to_owned(),
        _ => String::new(),
    };
    let summary = format!(
        "{} {how} huge pages{setting}{next}; {}",
        instance.title(),
        chain::on_base(host, instance)
    );
    let short = format!("it {how} huge pages{setting}{next}");
    // A note is no part of a plan, unless somebody asks for it.
    let limited = causes::explain_limit_to_asking(facts, instance);
    let remedies = if let Some(why) = limited {
        vec![Remedy::Consider(why)]
    } else if level >= Level::Warn {
        causes::find_remedies(facts, instance)
    } else if then.asks_for_huge_pages() {
        vec![Remedy::Consider("restart it if huge pages are worth it to you".into())]
    } else {
        let plan = untrusted::plan_for(instance);
        vec![Remedy::Consider(format!("if it is worth it to you, plan for it by name: {plan}"))]
    };
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    if !threads {
        finding.cost = causes::describe_base_cost(facts, instance);
    }
    Ok(Some(finding))
}

/// Settings newer than its start say no; only for engines that no allocator puts on huge pages.
fn no_longer_asks(instance: &Instance) -> bool {
    EngineKind::for_engine(instance.engine).settings.only_by_settings
        && matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot)
        && instance.huge_pages == HugePageUse::All
        && instance.segment_bytes() >= demand::BIG_SEGMENT
}

/// ` (huge_pages=off)`
fn describe_setting(instance: &Instance) -> String {
    let setting = instance.setting.as_ref();
    setting.map(|setting| format!(" ({}={})", setting.name, setting.value)).unwrap_or_default()
}

fn until_its_next_start(instance: &Instance) -> Finding {
    let setting = describe_setting(instance);
    let summary = format!(
        "{} is on huge pages until its next start: its settings no longer ask for them{setting}",
        instance.title()
    );
    let short = format!("its settings no longer ask for huge pages{setting}");
    let mut evidence: Vec<String> = instance.setting.iter().map(ToString::to_string).collect();
    evidence.push(format!("{} on huge pages (/proc/{}/maps)", instance.huge_bytes(), instance.pid));
    let remedies = vec![Remedy::SetSetting(instance.id())];
    RULE.new_finding(Level::Warn, Some(instance), summary, short, evidence, remedies)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6)).asked = hugewise_model::HugePageMode::No;
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        let small = hugewise_model::Bytes::from_mib(143);
        case.postgresql("15/main", small).asked = hugewise_model::HugePageMode::No;
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6)).asked = hugewise_model::HugePageMode::No;
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, quiet};

    #[test]
    fn settings_that_no_longer_ask_are_told_before_the_restart() {
        let mut case = quiet();
        let instance = case.postgresql("15/main", gib(6));
        crate::testing::all_huge(instance);
        instance.asked = HugePageMode::No;
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW403").unwrap();
        assert_eq!(found.level, Level::Warn);
        assert!(found.summary.contains("until its next start"), "{}", found.summary);
    }

    /// Its unit was given `--large-pages` since it started: that is all that there is to set.
    #[test]
    fn a_server_that_will_ask_at_its_next_start_is_not_to_be_made_to() {
        let mut case = quiet();
        let instance = case.mariadb("3306", gib(6));
        instance.asked = HugePageMode::No;
        let setting = hugewise_model::instance::ServerSetting {
            name: "large_pages".into(),
            value: "ON".into(),
            place: Some(crate::testing::place("/etc/systemd/system/mariadb.service.d/pages.conf")),
        };
        instance.next = hugewise_model::Observed::Known(hugewise_model::NextStart {
            asked: HugePageMode::Try,
            setting: Some(setting.clone()),
            demands: instance.demands().cloned().collect(),
        });
        case.pool(4096, 4096);
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW403").unwrap();
        assert!(
            found.summary.contains(&format!(", and will at its next start: {setting}; ")),
            "{}",
            found.summary
        );
        assert_eq!(
            found.remedies,
            [Remedy::Consider("restart it if huge pages are worth it to you".into())]
        );
    }

    /// Kubernetes writes 0 for a pod without a request for huge pages. The kernel charges that limit
    /// at the fault (mm/hugetlb_cgroup.c): told to ask, the server would start and die of SIGBUS.
    #[test]
    fn a_server_whose_cgroup_allows_no_pages_is_not_told_to_ask() {
        for pool in [3072, 0] {
            let mut case = quiet();
            case.postgresql("15/main", gib(6)).asked = HugePageMode::No;
            case.pool(pool, pool);
            let limit = hugewise_model::Limit::At(hugewise_model::Bytes::ZERO);
            let of_size = |page_size| hugewise_model::host::HugetlbCgroup {
                page_size,
                ..crate::testing::cgroup("/system.slice", limit)
            };
            case.host.hugetlb_cgroups =
                [hugewise_model::PageSize::MIB_2, hugewise_model::PageSize::GIB_1]
                    .map(of_size)
                    .into();
            let findings = case.assess().findings;
            let asking = [Remedy::SetSetting(case.instances[0].id())];
            let told = findings.iter().flat_map(|finding| &finding.remedies);
            assert!(!told.clone().any(|remedy| asking.contains(remedy)), "{findings:#?}");
            let leave = "leave postgresql 15/main as it is, or first raise the hugetlb limit of \
                         /system.slice from 0 B to 6.0 GiB: below that SIGBUS would kill it";
            assert!(told.clone().any(|remedy| *remedy == Remedy::Consider(leave.into())));
        }
    }

    #[test]
    fn system_v_memory_of_postgresql_is_a_matter_of_its_settings() {
        let mut case = quiet();
        case.postgresql("15/main", gib(6)).asked = HugePageMode::Cannot;
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW403").unwrap();
        assert!(
            found.fix.iter().any(|line| line.contains("shared_memory_type=mmap")),
            "{:?}",
            found.fix
        );
    }

    #[test]
    fn a_server_of_threads_gets_a_note_unless_its_pages_lie_idle() {
        let mut case = quiet();
        case.mariadb("3306", gib(6)).asked = HugePageMode::No;
        let level = |case: &crate::testing::Case| {
            case.assess()
                .findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW403")
                .map(|finding| finding.level)
        };
        assert_eq!(level(&case), Some(Level::Info));
        case.pool(3072, 3072);
        assert_eq!(level(&case), Some(Level::Warn));
    }
}
