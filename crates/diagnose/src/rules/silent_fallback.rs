use hugewise_engines::EngineKind;
use hugewise_model::instance::{Mechanism, Trait};
use hugewise_model::{
    Engine, HugePageMode, HugePageUse, Instance, Lack, Level, PageCount, Reason, Remedy,
};

use crate::cause::{is_big, wants_thp};
use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, boot, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW401"),
    name: "silent-fallback",
    level: Level::Warn,
    role: CaseRole::Bystander,
    docs: Docs {
        what: "A server whose setting asks for huge pages, but silently lets it start without \
               them: huge_pages=try, USE_LARGE_PAGES=TRUE, large-pages of MySQL and MariaDB. A \
               warning if {BIG_SEGMENT} or more fell back, or if the pool of the next boot is too \
               small for it. A note if all of it is on huge pages.",
        why: "PostgreSQL logs the fallback at DEBUG1 only, Oracle's table says ERROR(s)=NONE, and \
              newer MariaDB says nothing. Nobody notices until the page tables have grown.",
        cost: "nobody notices until the page tables have grown",
        fix: "Set it to refuse: huge_pages=on, USE_LARGE_PAGES=ONLY. Do that once the pool is \
              large enough, or the next start fails. MySQL, MariaDB and the JVM have no such \
              setting: watch them. ASM is never told to refuse and never reported: every database \
              of its node is down until it starts.",
        sources: &[
            "PostgreSQL 15 manual: huge_pages; src/backend/port/sysv_shmem.c",
            "Oracle Database Reference 19c: USE_LARGE_PAGES",
            "MariaDB 10.11 mysys/my_largepage.c",
        ],
    },
    check: |facts| RULE.of_each(facts, check_silent_fallback),
};

fn check_silent_fallback(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if instance.mechanism == Mechanism::None
        || instance.engine == Engine::Other
        || wants_thp(instance)
    {
        return Ok(None);
    }
    if instance.asked == HugePageMode::Unknown {
        if instance.segment_bytes() < demand::BIG_SEGMENT {
            return Ok(None);
        }
        let what = format!("settings of {}", instance.title());
        return Err(Missing::Instance(Lack::new(what, Reason::from_text("not read"))));
    }
    // That ASM starts whatever it finds is what every database of its node lives on.
    if instance.asked != HugePageMode::Try || instance.traits.contains(&Trait::Asm) {
        return Ok(None);
    }
    let said = match (&instance.setting, instance.version.as_known()) {
        (Some(setting), _) => setting.to_string(),
        (None, Some(version)) => format!("release {version}"),
        (None, None) => "its setting".to_owned(),
    };
    let mut evidence = vec![said];
    let Some((level, what, silently)) = find_fallback(facts, instance, &mut evidence)? else {
        return Ok(None);
    };
    let insisting = EngineKind::for_engine(instance.engine).settings.insisting_setting(instance);
    let (summary, short) = describe_fallback(instance, insisting.is_some(), &what, silently);
    let remedy = match insisting {
        Some(_) => Remedy::SetSetting(instance.id()),
        None => Remedy::Consider(
            "it has no setting to forbid a start without huge pages: check after each start".into(),
        ),
    };
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, vec![remedy])))
}

fn describe_fallback(
    instance: &Instance,
    can_insist: bool,
    what: &str,
    silently: &str,
) -> (String, String) {
    let title = instance.title();
    let name = match &instance.setting {
        Some(setting) => format!("{}={}", setting.name, setting.value),
        None if can_insist => "its setting".to_owned(),
        None => {
            let summary = format!(
                "{title} silently starts without huge pages if it gets none, and has no setting to \
                 forbid that: {what}"
            );
            let short = "its release has no setting to forbid a start without huge pages";
            return (summary, short.to_owned());
        }
    };
    let summary = if instance.huge_pages == HugePageUse::All {
        format!("{title} may silently start without huge pages, because {name} allows it; {what}")
    } else {
        format!(
            "{title} asked for huge pages and silently went without, because {name} allows it: \
             {what}"
        )
    };
    (summary, format!("{name} {silently}"))
}

fn find_fallback(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    evidence: &mut Vec<String>,
) -> Result<Option<(Level, String, &'static str)>, Missing> {
    if instance.huge_pages != HugePageUse::All {
        if !is_big(facts, instance)? {
            return Ok(None);
        }
        evidence.push(chain::seen_on_base(facts.host, instance));
        let held = chain::on_base(facts.host, instance);
        return Ok(Some((Level::Warn, held, "silently let it start without huge pages")));
    }
    if instance.segment_bytes() < demand::BIG_SEGMENT {
        return Ok(None);
    }
    Ok(Some(match next_boot_too_small(facts, instance)? {
        Some((pages, place)) => {
            evidence.push(format!("{place}: {} at the next boot", pages.in_pages()));
            let what = format!("the next boot brings {}, too few for it", pages.in_pages());
            let silently = "will silently let it start without huge pages after the next boot";
            (Level::Warn, what, silently)
        }
        None => {
            let what = "all of it is on huge pages now".to_owned();
            (Level::Info, what, "would silently let it start without huge pages")
        }
    }))
}

fn next_boot_too_small(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> Result<Option<(PageCount, String)>, Missing> {
    let Some(demand) = demand::find_demand(facts.host, instance) else { return Ok(None) };
    // Of a pool that something else writes too nothing is foretold: HW606 says so.
    if boot::is_written(facts.host, demand.page_size) {
        return Ok(None);
    }
    let steps = boot::predict_pool_steps(facts.host, demand.page_size)?;
    let (pages, place) = match steps.last() {
        Some(step) => (PageCount(step.value), step.place.to_string()),
        None => (PageCount::ZERO, boot::nothing_sets(facts.host, demand.page_size)),
    };
    Ok((pages < demand.pages).then_some((pages, place)))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6)).asked = HugePageMode::Must;
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6)).asked = HugePageMode::Unknown;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all_huge, gib, quiet};

    /// A database is told to refuse; the instance that holds its disks is not.
    #[test]
    fn asm_is_never_told_to_refuse_a_start() {
        let told = |is_asm: bool| {
            let mut case = quiet();
            let instance = case.oracle("+ASM1", gib(8), 3);
            instance.traits.extend(is_asm.then_some(Trait::Asm));
            let assessment = case.assess();
            let insists = |remedy: &Remedy| matches!(remedy, Remedy::SetSetting(_));
            let speaks = assessment.findings.iter().any(|finding| finding.code == RULE.code);
            (speaks, assessment.findings.iter().flat_map(|finding| &finding.remedies).any(insists))
        };
        assert_eq!(told(false), (true, true));
        assert_eq!(told(true), (false, false));
    }

    #[test]
    fn a_note_while_all_is_well_and_a_warning_when_the_next_boot_is_not() {
        let level = |at_boot: &str| {
            let mut case = quiet();
            all_huge(case.postgresql("15/main", gib(6)));
            case.pool(3072, 0);
            case.host.configuration.sysctl =
                hugewise_model::Observed::Known(vec![crate::testing::sysctl(
                    "vm.nr_hugepages",
                    at_boot,
                )]);
            case.assess()
                .findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW401")
                .map(|finding| finding.level)
        };
        assert_eq!(level("3072"), Some(Level::Info));
        assert_eq!(level("3071"), Some(Level::Warn));
    }
}
