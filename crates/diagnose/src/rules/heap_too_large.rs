use hugewise_engines::{EngineKind, Heap};
use hugewise_model::{Bytes, Finding, Instance, Level, Remedy};

use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW802"),
    name: "heap-too-large",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A Java heap of 32 GiB or more (with the usual object alignment of 8 bytes). From 32 \
               to 48 GiB it is a note: the extra heap is lost to references of twice the size. \
               Larger heaps are assumed to be deliberate. Elasticsearch is held to its vendor's \
               advice: it is a warning from 32 GiB on, whatever the size, and if the heap may take \
               more than half of memory. JVMs without -Xmx are not checked.",
        why: "Below 32 GiB HotSpot writes a reference in 4 bytes, above it in 8. A heap of 33 GiB \
              holds less than one of 31. And a search engine depends on the page cache: a larger \
              heap leaves less memory for it.",
        cost: "object references double in size; the heap takes page cache away",
        fix: "Keep -Xmx below the limit of compressed references, just under 32 GiB. Run two JVMs \
              instead of one larger heap.",
        sources: &[
            "OpenJDK: OopEncodingHeapMax; `java -XX:+PrintFlagsFinal` of 17: UseCompressedOops at \
             32,736 and 32,767 MiB",
            "Elasticsearch Guide 7.11, \"Advanced configuration\": setting JVM heap size",
        ],
    },
    check: |facts| RULE.of_each(facts, check_heap_too_large),
};

fn check_heap_too_large(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let kind = EngineKind::for_engine(instance.engine);
    let vendor = (kind.memory.vendor)(instance).filter(|vendor| vendor.heap);
    let Some(Heap { most, beyond }) = (kind.memory.heap)(instance) else { return Ok(None) };
    if let Some(end) = beyond {
        let wasted = most < end + Bytes(end.get() / 2);
        let level = match vendor {
            Some(_) => Level::Warn,
            None if wasted => Level::Info,
            None => return Ok(None),
        };
        let what = format!(
            "a heap of up to {most}: at {end} or more, each reference takes 8 bytes instead of 4"
        );
        let fix = format!("give it a heap below {end}, so that it can use compressed references");
        return Ok(Some(make_heap_finding(instance, level, &what, fix)));
    }
    let Some(vendor) = vendor else { return Ok(None) };
    let memory = *crate::require_known(&facts.host.memory.total, "/proc/meminfo MemTotal")?;
    if most.get() <= memory.get() / 2 {
        return Ok(None);
    }
    let what = format!(
        "a heap of up to {most} of {memory}: {} wants half of memory for the page cache",
        vendor.name
    );
    let fix = format!("give it a heap of at most {}", Bytes(memory.get() / 2));
    Ok(Some(make_heap_finding(instance, Level::Warn, &what, fix)))
}

fn make_heap_finding(instance: &Instance, level: Level, what: &str, fix: String) -> Finding {
    let setting = instance.settings.get("maxheapsize");
    let evidence = setting.map(ToString::to_string).into_iter().collect();
    let summary = format!("{} has {what}", instance.title());
    let short = format!("it has {}", what.split(':').next().unwrap_or_default());
    let remedies = vec![Remedy::Consider(fix)];
    RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_large_heap_case("Elasticsearch", "20g", 32),
    silent: || make_large_heap_case("Elasticsearch", "16g", 32),
    missing: || {
        let mut case = make_large_heap_case("Elasticsearch", "20g", 32);
        case.host.memory.total = hugewise_model::Observed::Denied;
        case
    },
};

/// A machine that runs that class, with that -Xmx, on a host of so many GiB.
#[cfg(test)]
fn make_large_heap_case(class: &str, most: &str, memory: u64) -> crate::testing::Case {
    use hugewise_model::instance::{Mechanism, SegmentKind, ServerSetting, SessionModel};
    let mut case = crate::testing::quiet();
    case.host.memory.total = hugewise_model::Observed::Known(crate::testing::gib(memory));
    case.host.memory.swap_total = hugewise_model::Observed::Known(Bytes::ZERO);
    let name = format!("org.elasticsearch.bootstrap.{class}");
    case.instance(hugewise_model::Engine::Jvm, &name, crate::testing::gib(1), 0, |instance| {
        instance.mechanism = Mechanism::Mmap;
        instance.asked = hugewise_model::HugePageMode::No;
        instance.sessions = hugewise_model::Observed::Absent;
        instance.session_model = SessionModel::Threads;
        instance.segments[0].kind = SegmentKind::Private;
        let place = Some(hugewise_model::configuration::FileLocation::command_line(7));
        let setting = ServerSetting { name: "MaxHeapSize".into(), value: most.into(), place };
        instance.settings.insert("maxheapsize".into(), setting);
    });
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(class: &str, most: &str, memory: u64) -> Option<Level> {
        let findings = make_large_heap_case(class, most, memory).assess().findings;
        findings
            .into_iter()
            .find(|finding| finding.code == RULE.code)
            .map(|other_finding| other_finding.level)
    }

    #[test]
    fn references_of_twice_the_size_are_told() {
        for (class, most, memory, expected) in [
            ("Other", "31g", 256, None),
            ("Other", "33g", 256, Some(Level::Info)),
            ("Other", "64g", 256, None),
            ("Elasticsearch", "31g", 256, None),
            ("Elasticsearch", "64g", 256, Some(Level::Warn)),
            ("Elasticsearch", "31g", 48, Some(Level::Warn)),
            ("Other", "31g", 48, None),
        ] {
            assert_eq!(level(class, most, memory), expected, "{class} {most} of {memory}");
        }
    }
}
