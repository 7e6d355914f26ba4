use hugewise_engines::EngineKind;
use hugewise_model::instance::Trait;
use hugewise_model::{Instance, Level, Remedy};

use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, thp};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW502"),
    name: "thp-defrag",
    level: Level::Info,
    role: CaseRole::Plain,
    docs: Docs {
        what: "The `defrag` switch of transparent huge pages, if the vendor of a server wants \
               never and it is set to something else. DataStax wants that for Cassandra, unless \
               its heap is touched as it starts (-XX:+AlwaysPreTouch). It is checked only if the \
               server gets transparent huge pages at all: under always, or under madvise with \
               -XX:+UseTransparentHugePages.",
        why: "`defrag` decides who has to make a 2 MiB piece if none is free. Under `always`, and \
              under `madvise` for memory that asked, a thread that touches a page for the first \
              time waits until the kernel has moved other pages out of the way. khugepaged does \
              the same in the background.",
        cost: "threads wait while memory is compacted; khugepaged takes a processor",
        fix: "Set defrag to never, now and at each boot, or have the server touch its heap as it \
              starts.",
        sources: &[
            "Linux Documentation/admin-guide/mm/transhuge.rst: defrag",
            "DataStax, \"No DataStax Enterprise processing but high CPU usage\"",
        ],
    },
    check: |facts| RULE.of_each(facts, check_thp_defrag),
};

fn check_thp_defrag(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let kind = EngineKind::for_engine(instance.engine);
    let Some(vendor) = (kind.memory.vendor)(instance).filter(|vendor| vendor.no_defrag) else {
        return Ok(None);
    };
    if (kind.memory.touches_heap)(instance) || thp::kernel_has_none(facts.host) {
        return Ok(None);
    }
    let switches = &facts.host.thp;
    let (file, top) = (switches.switch_path("defrag"), switches.switch_path("enabled"));
    let enabled = crate::require_known(&switches.enabled, &top)?;
    // A Java machine asks for none, unless it is told to.
    let takes_any = enabled == "always"
        || (enabled == "madvise" && instance.traits.contains(&Trait::TransparentPages));
    if !takes_any {
        return Ok(None);
    }
    let defrag = crate::require_known(&switches.defrag, &file)?;
    if defrag == "never" {
        return Ok(None);
    }
    let summary = format!(
        "{}: defrag of THP is {defrag}; for {} it should be never",
        instance.title(),
        vendor.name
    );
    let short = format!("defrag of THP is {defrag}; for {} it should be never", vendor.name);
    let evidence = vec![
        format!("{file}: {defrag}"),
        format!("{top}: {enabled}"),
        "no -XX:+AlwaysPreTouch".to_owned(),
    ];
    let fix = format!(
        "set {file} to never, now and at each boot, or start {} with -XX:+AlwaysPreTouch",
        instance.title()
    );
    let remedies = vec![Remedy::Consider(fix)];
    Ok(Some(RULE.new_finding(Level::Info, Some(instance), summary, short, evidence, remedies)))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_defrag_case("madvise", false),
    silent: || make_defrag_case("madvise", true),
    missing: || {
        let mut case = make_defrag_case("madvise", false);
        case.host.thp.defrag = hugewise_model::Observed::Denied;
        case
    },
};

/// A Cassandra whose heap is touched as it starts, or not.
#[cfg(test)]
fn make_defrag_case(defrag: &str, touched: bool) -> crate::testing::Case {
    use hugewise_model::instance::{Mechanism, SegmentKind, ServerSetting, SessionModel};
    let mut case = crate::testing::quiet();
    case.host.thp.enabled = hugewise_model::Observed::Known("always".into());
    case.host.thp.defrag = hugewise_model::Observed::Known(defrag.into());
    let name = "org.apache.cassandra.service.CassandraDaemon";
    case.host.memory.swap_total = hugewise_model::Observed::Known(hugewise_model::Bytes::ZERO);
    case.instance(hugewise_model::Engine::Jvm, name, crate::testing::gib(8), 0, |instance| {
        instance.mechanism = Mechanism::Mmap;
        instance.asked = hugewise_model::HugePageMode::No;
        instance.sessions = hugewise_model::Observed::Absent;
        instance.session_model = SessionModel::Threads;
        instance.segments[0].kind = SegmentKind::Private;
        let value = touched.to_string();
        let setting = ServerSetting { name: "AlwaysPreTouch".into(), value, place: None };
        instance.settings.insert("alwayspretouch".into(), setting);
    });
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(case: &crate::testing::Case) -> bool {
        case.codes().contains(&"HW502")
    }

    #[test]
    fn never_is_never_wherever_it_stands() {
        assert!(speaks(&make_defrag_case("always", false)));
        assert!(!speaks(&make_defrag_case("never", false)));
        for (enabled, asks, expected) in
            [("never", true, false), ("madvise", false, false), ("madvise", true, true)]
        {
            let mut case = make_defrag_case("always", false);
            case.host.thp.enabled = hugewise_model::Observed::Known(enabled.into());
            case.instances[0].traits.extend(asks.then_some(Trait::TransparentPages));
            assert_eq!(speaks(&case), expected, "{enabled} {asks}");
        }
        let mut other = make_defrag_case("always", false);
        other.instances[0].name = "app.jar".into();
        assert!(!speaks(&other));
    }
}
