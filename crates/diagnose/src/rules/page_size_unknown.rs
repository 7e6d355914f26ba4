use hugewise_model::{Engine, Instance, Level, PageSize, Remedy};

use crate::prediction::predict_next_start;
use crate::wording::join_names;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW406"),
    name: "page-size-unknown",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A server, running or down, whose settings ask for huge pages of a size that this \
               kernel does not have. An example is a guest of libvirt with `<page size='1024' \
               unit='KiB'/>`: libvirt counts in KiB where no other unit is named, and there are \
               no pages of 1 MiB. An error if it insists on them, otherwise a warning. 1 GiB \
               pages that an x86-64 processor lacks are gib-pages-unsupported's.",
        why: "No pool can ever have such pages, so the server does not start, or starts without \
              huge pages. Pages of other sizes that lie idle meanwhile may well be meant for it: \
              hugewise does not give them back.",
        cost: "it does not start, or starts without huge pages",
        fix: "Ask for a size that is listed in /sys/kernel/mm/hugepages. In libvirt these are \
              size='2048' or size='1048576' with unit='KiB'.",
        sources: &[
            "libvirt, Domain XML format: Memory Backing",
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "karmab/kcli#707",
        ],
    },
    check: |facts| {
        let mut verdicts = RULE.of_each(facts, check_page_size);
        if !facts.asleep.is_empty() {
            let asleep = RuleFacts { instances: facts.asleep, ..*facts };
            verdicts.extend(RULE.of_each(&asleep, check_page_size));
        }
        verdicts
    },
};

fn check_page_size(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let host = facts.host;
    let start = predict_next_start(host, instance);
    if !start.asks_for_huge_pages() {
        return Ok(None);
    }
    let there: Vec<PageSize> = crate::require_known(&host.pools, "/sys/kernel/mm/hugepages")?
        .iter()
        .map(|pool| pool.page_size)
        .collect();
    let x86 = host.architecture.as_known().is_none_or(|name| name == "x86_64");
    let is_lacking = |page: &PageSize| {
        let is_told_elsewhere = x86 && *page == PageSize::GIB_1;
        !there.contains(page) && !is_told_elsewhere
    };
    // What a server that runs was given before is no demand of its settings.
    let asked = instance.asked_page_size.get().filter(|_| !instance.next.is_known());
    let sizes = start.demands.iter().map(|demand| demand.page_size);
    let mut sizes = asked.into_iter().chain(sizes);
    let Some(page) = sizes.find(is_lacking).filter(|_| !there.is_empty()) else { return Ok(None) };
    let names: Vec<String> = there.iter().map(PageSize::to_string).collect();
    let insists = start.asked == hugewise_model::HugePageMode::Must;
    let (level, then) = if insists {
        (Level::Error, "it does not start")
    } else {
        (Level::Warn, "it starts without huge pages")
    };
    let has = join_names(&names);
    let title = instance.title();
    let summary =
        format!("{title} asks for pages of {page}, and this kernel has pages of {has}: {then}");
    let short = format!("it asks for pages of {page}, which this kernel does not have");
    let mut evidence = vec![format!("/sys/kernel/mm/hugepages: pages of {has}")];
    evidence.extend(start.setting.iter().map(ToString::to_string));
    evidence.extend(instance.stopped.iter().map(|stopped| stopped.known_by.clone()));
    let what = match instance.engine {
        Engine::Qemu => {
            let words = there.iter().map(|page| format!("size='{}'", page.bytes().get() >> 10));
            let words: Vec<String> = words.collect();
            format!(
                "write {} with unit='KiB' in the guest's <hugepages> (virsh edit)",
                words.join(" or ")
            )
        }
        _ => format!("have its settings ask for pages of {}", names.join(" or ")),
    };
    let remedies = vec![Remedy::by_hand(what)];
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_size_case(1 << 20),
    silent: || make_size_case(2 << 20),
    missing: || {
        let mut case = make_size_case(1 << 20);
        case.host.pools = hugewise_model::Observed::Denied;
        case
    },
};

/// A server that insists on pages of so many bytes.
#[cfg(test)]
fn make_size_case(bytes: u64) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    let page_size = PageSize::new(bytes).unwrap();
    let instance = case.postgresql("15/main", crate::testing::gib(1));
    instance.asked = hugewise_model::HugePageMode::Must;
    instance.asked_page_size = hugewise_model::Observed::Known(page_size);
    case.pool(512, 512);
    case
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_of_one_mib_is_named_beside_those_that_there_are() {
        let findings = super::make_size_case(1 << 20).assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW406").unwrap();
        assert_eq!(
            found.summary,
            "postgresql 15/main asks for pages of 1 MiB, and this kernel has pages of 2 MiB and \
             1 GiB: it does not start"
        );
    }
}
