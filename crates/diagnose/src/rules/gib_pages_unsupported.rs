use hugewise_model::{Host, Instance, Level, PageSize, Remedy};

use crate::cause::Cause;
use crate::wording::parse_size;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW404"),
    name: "gib-pages-unsupported",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::GibUnsupported]),
    docs: Docs {
        what: "1 GiB pages that the command line or a server asks for, on an x86-64 processor that \
               doesn't have them. The command line asks with hugepagesz=1G or \
               default_hugepagesz=1G. The processor has no pdpe1gb among its flags; virtual \
               machines often hide it. An error if a server asks, otherwise a warning. Other \
               architectures have no such flag and are not checked.",
        why: "The kernel ignores the parameter and every hugepages= that belongs to it, so the \
              host boots without the pool. A server that insists on such pages doesn't start.",
        cost: "the host boots without that pool; a server that insists does not start",
        fix: "Ask for 2 MiB pages, or have the hypervisor pass the flag through.",
        sources: &[
            "Linux Documentation/admin-guide/kernel-parameters.txt: hugepagesz",
            "proc(5): flags of /proc/cpuinfo",
        ],
    },
    check: |facts| RULE.of_host(facts, check_gib_pages_unsupported),
};

fn check_gib_pages_unsupported(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    if host.architecture.as_known().is_some_and(|architecture| architecture != "x86_64") {
        return Ok(Vec::new());
    }
    let asks = |instance: &&Instance| {
        instance.asked_page_size.get() == Some(PageSize::GIB_1) && demand::asks_now(instance)
    };
    let servers: Vec<&Instance> = facts.instances.iter().filter(asks).collect();
    let mut evidence = find_gib_words(host);
    evidence.extend(servers.iter().copied().map(describe_gib_setting));
    if evidence.is_empty()
        || *crate::require_known(&host.processors.gib_pages, "/proc/cpuinfo flags")?
    {
        return Ok(Vec::new());
    }
    evidence.push("/proc/cpuinfo flags: no pdpe1gb".into());
    let (level, who) = if servers.is_empty() {
        (Level::Warn, "the command line".to_owned())
    } else {
        (Level::Error, chain::join_titles(servers.iter().copied()))
    };
    let summary = format!("{who} asks for 1 GiB pages, which this processor does not have");
    let short = "1 GiB pages are requested, but this processor has none".to_owned();
    let remedies = vec![
        Remedy::by_hand(
            "ask for 2 MiB pages on the command line and in the server: 512 times as many",
        ),
        Remedy::by_hand(
            "alternatively, have the hypervisor pass the flag on (libvirt: <feature \
             policy='require' name='pdpe1gb'/>)",
        ),
    ];
    Ok(vec![RULE.new_finding(level, servers.first().copied(), summary, short, evidence, remedies)])
}

fn find_gib_words(host: &Host) -> Vec<String> {
    let asks = |word: &str| {
        let size =
            word.strip_prefix("default_hugepagesz=").or_else(|| word.strip_prefix("hugepagesz="));
        size.and_then(parse_size) == Some(PageSize::GIB_1)
    };
    let words = host.command_line.as_known().into_iter().flatten();
    let words = words.map(|word| (word, "/proc/cmdline".to_owned()));
    let next = host.configuration.boot.as_known().into_iter();
    let next = next
        .flat_map(|entry| entry.command_line.iter().map(|word| (word, entry.place.to_string())));
    words
        .chain(next)
        .filter(|(word, _)| asks(word))
        .map(|(word, place)| format!("{place}: {word}"))
        .collect()
}

fn describe_gib_setting(instance: &Instance) -> String {
    let setting = instance.settings.get("huge_page_size").or(instance.setting.as_ref());
    let setting = setting.map_or_else(|| "asks for 1 GiB pages".to_owned(), ToString::to_string);
    format!("{}: {setting}", instance.title())
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_gib_pages_case(hugewise_model::Observed::Known(false)),
    silent: || make_gib_pages_case(hugewise_model::Observed::Known(true)),
    missing: || make_gib_pages_case(hugewise_model::Observed::Absent),
};

#[cfg(test)]
fn make_gib_pages_case(gib_pages: hugewise_model::Observed<bool>) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.command_line =
        hugewise_model::Observed::Known(vec!["hugepagesz=1G".into(), "hugepages=4".into()]);
    case.host.processors.gib_pages = gib_pages;
    case
}

#[cfg(test)]
mod tests {
    #[test]
    fn another_architecture_has_no_such_flag() {
        let mut case = super::make_gib_pages_case(hugewise_model::Observed::Absent);
        case.host.architecture = hugewise_model::Observed::Known("aarch64".into());
        let assessment = case.assess();
        assert!(assessment.findings.is_empty() && assessment.unknown.is_empty());
    }
}
