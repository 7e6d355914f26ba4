use hugewise_model::{Asked, Finding, Level, PageSize, Remedy};

use crate::words::parse_size;
use crate::{Docs, Facts, Missing, Rule, chain};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW404"),
    name: "gib-pages-unsupported",
    level: Level::Error,
    docs: Docs {
        what: "1 GiB pages that the command line or a server asks for, on an x86-64 processor that doesn't have \
               them. The command line asks with hugepagesz=1G or default_hugepagesz=1G. The processor has no pdpe1gb \
               among its flags; virtual machines often hide it. An error if a server asks, otherwise a warning. \
               Other architectures have no such flag and are not checked.",
        why: "The kernel ignores the parameter and every hugepages= that belongs to it, so the host boots without \
              the pool. A server that insists on such pages doesn't start.",
        cost: "the host boots without that pool; a server that insists does not start",
        fix: "Ask for 2 MiB pages, or have the hypervisor pass the flag through.",
        sources: &[
            "Linux Documentation/admin-guide/kernel-parameters.txt: hugepagesz",
            "proc(5): flags of /proc/cpuinfo",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    if host.architecture.known().is_some_and(|architecture| architecture != "x86_64") {
        return Ok(Vec::new());
    }
    let asks = |word: &&String| {
        let size = word.strip_prefix("default_hugepagesz=").or_else(|| word.strip_prefix("hugepagesz="));
        size.and_then(parse_size) == Some(PageSize::GIB_1)
    };
    let words = host.command_line.known().into_iter().flatten().map(|word| (word, "/proc/cmdline".to_owned()));
    let next = host.configuration.boot.known().into_iter();
    let next = next.flat_map(|entry| entry.command_line.iter().map(|word| (word, entry.place.to_string())));
    let mut evidence: Vec<String> =
        words.chain(next).filter(|(word, _)| asks(word)).map(|(word, place)| format!("{place}: {word}")).collect();
    let servers: Vec<_> = facts
        .instances
        .iter()
        .filter(|instance| instance.asked_page_size.get() == Some(PageSize::GIB_1))
        .filter(|instance| matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises))
        .collect();
    evidence.extend(servers.iter().map(|instance| {
        let setting = instance.settings.get("huge_page_size").or(instance.setting.as_ref());
        let setting = setting.map_or_else(|| "asks for 1 GiB pages".to_owned(), ToString::to_string);
        format!("{}: {setting}", instance.title())
    }));
    if evidence.is_empty() || *crate::known(&host.processors.gib_pages, "/proc/cpuinfo flags")? {
        return Ok(Vec::new());
    }
    evidence.push("/proc/cpuinfo flags: no pdpe1gb".into());
    let who = if servers.is_empty() { "the command line".to_owned() } else { chain::titles(servers.iter().copied()) };
    let summary = format!("{who} asks for 1 GiB pages, which this processor does not have");
    let short = "1 GiB pages are requested, but this processor has none".to_owned();
    let level = if servers.is_empty() { Level::Warn } else { Level::Error };
    let remedies = vec![
        Remedy::by_hand("ask for 2 MiB pages on the command line and in the server: 512 times as many"),
        Remedy::by_hand(
            "alternatively, have the hypervisor pass the flag on (libvirt: <feature policy='require' name='pdpe1gb'/>)",
        ),
    ];
    Ok(vec![Finding { short, evidence, remedies, ..RULE.finding(level, servers.first().copied(), summary) }])
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case(hugewise_model::Observed::Known(false)),
    silent: || case(hugewise_model::Observed::Known(true)),
    missing: || case(hugewise_model::Observed::Absent),
};

#[cfg(test)]
fn case(gib_pages: hugewise_model::Observed<bool>) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.command_line = hugewise_model::Observed::Known(vec!["hugepagesz=1G".into(), "hugepages=4".into()]);
    case.host.processors.gib_pages = gib_pages;
    case
}

#[cfg(test)]
mod tests {
    #[test]
    fn another_architecture_has_no_such_flag() {
        let mut case = super::case(hugewise_model::Observed::Absent);
        case.host.architecture = hugewise_model::Observed::Known("aarch64".into());
        let assessment = case.assess();
        assert!(assessment.findings.is_empty() && assessment.unknown.is_empty());
    }
}
