use hugewise_engines::EngineKind;
use hugewise_model::{HugePageMode, Instance, Level, Remedy};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::demand::predict_next_start;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, chain};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW402"),
    name: "amm",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Amm]),
    docs: Docs {
        what: "An Oracle instance under automatic memory management (MEMORY_TARGET or \
               MEMORY_MAX_TARGET) with an SGA of {BIG_SEGMENT} or more, now or from its next start \
               on. Such an SGA consists of files under /dev/shm. An ASM instance with \
               MEMORY_TARGET is not reported: Oracle itself sets it up that way.",
        why: "Memory under /dev/shm never comes from the pool, whatever USE_LARGE_PAGES says, and \
              every process needs page tables for the whole SGA.",
        cost: "page tables in every process, whatever use_large_pages says",
        fix: "Switch to automatic shared memory management: reset MEMORY_TARGET and \
              MEMORY_MAX_TARGET, set SGA_TARGET and PGA_AGGREGATE_TARGET, set up the pool, and \
              restart. You then divide memory between the two targets yourself.",
        sources: &[
            "Oracle Database Reference 19c: USE_LARGE_PAGES, MEMORY_TARGET",
            "MOS note 749851.1",
        ],
    },
    check: |facts| RULE.of_each(facts, check_amm),
};

fn check_amm(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if find_cause(facts, instance)? != Some(Cause::Amm) {
        return Ok(None);
    }
    let held = chain::on_base(facts.host, instance);
    let runs = chain::is_amm(instance);
    let title = instance.title();
    let (short, does) = if runs {
        ("it runs under AMM, which rules out huge pages", "runs under AMM")
    } else {
        (
            "its next start puts it under AMM, which rules out huge pages",
            "goes under AMM with its next start",
        )
    };
    let summary = format!("{title} {does}, which rules out huge pages: {held}");
    let short = short.to_owned();
    let mut evidence = Vec::new();
    if runs {
        evidence.push(format!("/proc/{}/maps: its SGA is mapped from /dev/shm", instance.pid));
    }
    for name in ["memory_target", "memory_max_target"] {
        evidence.extend(instance.settings.get(name).map(ToString::to_string));
    }
    // Files that no longer ask for AMM need only a start.
    let gone = instance.next.as_known().is_some_and(|next| next.asked != HugePageMode::Cannot);
    let mut remedies = if gone {
        evidence.push("its parameter files no longer ask for AMM".into());
        Vec::new()
    } else {
        let kind = EngineKind::for_engine(instance.engine);
        let how = kind.settings.how_it_can(instance).unwrap_or_default();
        vec![Remedy::by_commands(
            format!("take {} off AMM: {how}; plan its pages before its restart", instance.title()),
            (kind.settings.commands)(facts.host, instance, false),
        )]
    };
    remedies.extend(causes::find_remedies(facts, instance));
    // What its next start does not find is no better for that.
    let lacks = facts
        .situation
        .forecasts_for(instance)
        .is_some_and(|moments| moments.restart.rank().is_some_and(|rank| rank < 3));
    let asks = gone && predict_next_start(facts.host, instance).asks_for_huge_pages();
    let least = if asks && lacks { Level::Warn } else { Level::Info };
    let level = rate_base_pages(facts, instance).max(least);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_amm_case(&[hugewise_model::Trait::Amm]),
    silent: || make_amm_case(&[hugewise_model::Trait::Amm, hugewise_model::Trait::Asm]),
    missing: || {
        let mut case = make_amm_case(&[hugewise_model::Trait::Amm]);
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
fn make_amm_case(traits: &[hugewise_model::Trait]) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    let instance = case.oracle("PROD", crate::testing::gib(8), 20);
    instance.asked = hugewise_model::HugePageMode::Cannot;
    instance.mechanism = hugewise_model::instance::Mechanism::None;
    instance.traits = traits.to_vec();
    instance.segments[0].kind = hugewise_model::instance::SegmentKind::Posix;
    case
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_chain_breaks_at_the_first_link() {
        let case = super::make_amm_case(&[hugewise_model::Trait::Amm]);
        let chain = case.assess().chains.remove(0);
        assert_eq!(
            chain.first_broken_link().map(|link| link.name),
            Some(hugewise_model::LinkName::Asked)
        );
    }

    /// The file is of the next start: a restart for pages that it cannot take helps nobody.
    #[test]
    fn one_that_goes_under_amm_is_not_sent_into_a_restart() {
        use hugewise_model::instance::ServerSetting;
        use hugewise_model::{HugePageMode, NextStart, Observed, Remedy};

        let mut case = crate::testing::quiet();
        case.pool(5000, 5000);
        let instance = case.oracle("PROD", crate::testing::gib(8), 20);
        let setting =
            ServerSetting { name: "memory_target".into(), value: "12G".into(), place: None };
        instance.settings.insert(setting.name.clone(), setting.clone());
        let next =
            NextStart { asked: HugePageMode::Cannot, setting: Some(setting), demands: Vec::new() };
        instance.next = Observed::Known(next);
        let codes = case.codes();
        assert!(codes.contains(&"HW402") && !codes.contains(&"HW209"), "{codes:?}");
        let assessment = case.assess();
        let amm =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW402").unwrap();
        let first = amm.remedies.first().unwrap();
        assert!(!matches!(first, Remedy::Restart(_)), "{first:?}");
    }
}
