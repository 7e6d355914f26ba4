use hugewise_model::{Finding, Level, PageSize, Remedy};

use crate::{Docs, Facts, Missing, Rule, Verdict, chain, thp};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW501"),
    name: "thp-policy",
    level: Level::Warn,
    docs: Docs {
        what: "Transparent huge pages set against the advice of the engines that run here, for their versions. A JVM \
               with UseTransparentHugePages needs madvise or always; it is a warning if THP is never. Servers that \
               switched THP off for themselves don't count; Redis does so by default under `always`. Per-size \
               switches (Linux 6.8) count too: one that says always acts even if the top switch says never. If \
               engines disagree, madvise is the value that none of them rules out. What each engine advises:",
        why: "Under `always` the kernel hands out 2 MiB where a program asked for 4 KiB. That costs latency while it \
              compacts memory, more copying after a fork (up to Linux 5.7), and memory that an allocator can't give \
              back. The switch `defrag` next to it decides how long a program waits for it. THP never affects memory \
              from a pool.",
        cost: "latency while the kernel compacts memory; memory that is not returned",
        fix: "Switch it at run time and for the next boot. It applies to memory that is mapped from then on: restart \
              the servers so that it applies to all of their memory.",
        sources: &["Linux Documentation/admin-guide/mm/transhuge.rst"],
    },
    check: |facts| {
        let mut verdicts = RULE.of_host(facts, look);
        let undecided = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Unknown(_)));
        // What is known of the others does not hide what is missing of one.
        let missing = thp::policy(facts.host, facts.instances).missing;
        if let Some(missing) = missing.filter(|_| !undecided && !verdicts.is_empty()) {
            verdicts.push(RULE.unknown(None, missing));
        }
        verdicts
    },
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let policy = thp::policy(facts.host, facts.instances);
    if policy.is_empty() {
        return policy.missing.map_or(Ok(Vec::new()), Err);
    }
    let word = policy.word();
    let thp::Policy { against, wanting, advised, missing, .. } = policy;
    let switches = &facts.host.thp;
    let file = switches.file("enabled");
    let enabled = match switches.enabled.known() {
        Some(enabled) => enabled.as_str(),
        // A kernel without THP counts none of it either.
        None if thp::kernel_has_none(facts.host) => return Ok(Vec::new()),
        None => crate::known(&switches.enabled, &file)?.as_str(),
    };
    let mut evidence = vec![format!("{file}: {enabled}")];
    evidence.extend(switches.defrag.known().map(|defrag| format!("{}: {defrag}", switches.file("defrag"))));
    let mut sizes: Vec<PageSize> = Vec::new();
    let mut inherits = switches.sizes.is_empty();
    for size in &switches.sizes {
        match size.enabled.known().map(String::as_str) {
            Some("always") => {
                let kib = size.page_size.bytes().get() / 1024;
                evidence.push(format!("{}: always", switches.file(&format!("hugepages-{kib}kB/enabled"))));
                sizes.push(size.page_size);
            }
            Some("inherit") => inherits = true,
            Some(_) => {}
            // Only shared memory can have pages of a size without the file.
            None => inherits |= !size.enabled.is_absent(),
        }
    }
    let always = (enabled == "always" && inherits) || !sizes.is_empty();
    let mut findings = Vec::new();
    if enabled == "never" && !advised.is_empty() && switches.sizes.iter().all(|size| !acts_on_advice(size)) {
        let named = chain::titles(advised.iter().copied());
        let summary = format!("THP is never, and {named} asks for it (-XX:+UseTransparentHugePages)");
        let one = if advised.len() == 1 { advised.first().copied() } else { None };
        findings.push(Finding {
            short: "THP is never, and a server here asks for it".to_owned(),
            evidence: evidence.clone(),
            remedies: vec![Remedy::SetThp],
            ..RULE.finding(Level::Warn, one, summary)
        });
    }
    if always && !against.is_empty() {
        let level = against.iter().map(|(_, level)| *level).max().unwrap_or(Level::Info);
        let named = chain::titles(against.iter().map(|(instance, _)| *instance));
        let mut summary = if enabled == "always" {
            format!("THP is always; for {named} it should be {word}")
        } else {
            let names: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("THP is {enabled} but always for {}; for {named} it should be {word}", names.join(", "))
        };
        let short = summary.clone();
        if !wanting.is_empty() {
            let wants = chain::titles(wanting.iter().copied());
            summary.push_str(&format!("; {wants} wants always: madvise suits both"));
        }
        let one = if against.len() == 1 { against.first().map(|(instance, _)| *instance) } else { None };
        findings.push(Finding { short, evidence, remedies: vec![Remedy::SetThp], ..RULE.finding(level, one, summary) });
    } else if !always && against.is_empty() && !wanting.is_empty() && enabled != "always" {
        let named = chain::titles(wanting.iter().copied());
        let summary = format!("THP is {enabled}; for {named} it should be always");
        let one = if wanting.len() == 1 { wanting.first().copied() } else { None };
        let short = summary.clone();
        findings.push(Finding {
            short,
            evidence,
            remedies: vec![Remedy::SetThp],
            ..RULE.finding(Level::Info, one, summary)
        });
    }
    // What is missing of one server does not silence what is known of the others.
    match missing {
        Some(what) if findings.is_empty() => Err(what),
        _ => Ok(findings),
    }
}

fn acts_on_advice(size: &hugewise_model::host::ThpSize) -> bool {
    size.enabled.known().is_some_and(|enabled| enabled == "madvise" || enabled == "always")
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case("always"),
    silent: || case("madvise"),
    missing: || {
        let mut case = case("always");
        case.host.thp.enabled = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
fn case(enabled: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.oracle("PROD", hugewise_model::Bytes::from_mib(100), 3);
    case.host.thp.enabled = hugewise_model::Observed::Known(enabled.into());
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::Observed::Known;
    use hugewise_model::{Bytes, Engine, host::ThpSize, instance::Mechanism};

    fn summary(case: &crate::testing::Case) -> Option<String> {
        case.assess()
            .findings
            .into_iter()
            .find(|finding| finding.code.as_str() == "HW501")
            .map(|finding| finding.summary)
    }

    fn mongodb(case: &mut crate::testing::Case, version: &str) {
        case.instance(Engine::MongoDb, "27017", Bytes::from_mib(1), 0, |instance| {
            instance.mechanism = Mechanism::None;
            instance.version = Known(version.into());
        });
    }

    #[test]
    fn engines_that_disagree_meet_at_madvise() {
        let mut case = super::case("always");
        mongodb(&mut case, "8.0.4");
        assert_eq!(
            summary(&case).unwrap(),
            "THP is always; for oracle PROD it should be madvise or never; mongodb 27017 wants always: madvise \
             suits both"
        );
        case.host.thp.enabled = Known("madvise".into());
        assert_eq!(summary(&case), None);
    }

    #[test]
    fn what_is_missing_of_one_is_said_beside_what_is_known_of_the_others() {
        let mut case = super::case("always");
        mongodb(&mut case, "8.0.4");
        case.instances.last_mut().unwrap().version = hugewise_model::Observed::Absent;
        assert!(summary(&case).is_some());
        let assessment = case.assess();
        let open: Vec<_> = assessment.unknown.iter().map(|verdict| verdict.missing.to_string()).collect();
        assert_eq!(open, ["what mongodb 27017 makes of THP: its version is not known"]);
    }

    #[test]
    fn mongodb_changed_its_mind() {
        let advice = |version: &str, enabled: &str| {
            let mut case = crate::testing::quiet();
            mongodb(&mut case, version);
            case.host.thp.enabled = Known(enabled.into());
            summary(&case)
        };
        assert!(advice("7.0.2", "always").is_some());
        assert!(advice("7.0.2", "never").is_none());
        assert!(advice("8.0.4", "always").is_none());
        assert_eq!(advice("8.0.4", "never").unwrap(), "THP is never; for mongodb 27017 it should be always");
    }

    #[test]
    fn a_size_of_its_own_overrides_the_top_switch() {
        let mut case = super::case("never");
        let size = PageSize::from_kib(64).unwrap();
        let enabled = Known("always".into());
        case.host.thp.sizes =
            vec![ThpSize { page_size: size, enabled, shmem_enabled: hugewise_model::Observed::Absent }];
        assert_eq!(
            summary(&case).unwrap(),
            "THP is never but always for 64 KiB; for oracle PROD it should be madvise or never"
        );
    }

    /// Linux 6.18 lists hugepages-8kB without the file: no private memory can have such pages.
    #[test]
    fn a_size_without_the_file_does_not_inherit() {
        let mut case = super::case("always");
        let size = |kib: u64, enabled| ThpSize {
            page_size: PageSize::from_kib(kib).unwrap(),
            enabled,
            shmem_enabled: Known("inherit".into()),
        };
        case.host.thp.sizes = vec![size(8, hugewise_model::Observed::Absent), size(2048, Known("never".into()))];
        assert_eq!(summary(&case), None);
        case.host.thp.sizes = vec![size(8, hugewise_model::Observed::Absent), size(2048, Known("inherit".into()))];
        assert!(summary(&case).is_some());
        case.host.thp.sizes = vec![size(2048, hugewise_model::Observed::Denied)];
        assert!(summary(&case).is_some());
    }

    #[test]
    fn a_server_that_switched_it_off_for_itself_is_fine() {
        let mut case = super::case("always");
        case.processes()[0].thp_enabled = Known(false);
        assert_eq!(summary(&case), None);
    }

    #[test]
    fn a_jvm_that_asks_for_thp_gets_none_under_never() {
        let mut case = crate::testing::quiet();
        case.instance(Engine::Jvm, "app", crate::testing::gib(8), 0, |instance| {
            instance.traits = vec![hugewise_model::Trait::TransparentPages]
        });
        assert!(case.codes().is_empty(), "{:?}", case.codes());
        case.host.thp.enabled = Known("never".into());
        assert_eq!(case.codes(), ["HW501"]);
    }

    #[test]
    fn a_kernel_without_thp_has_nothing_to_say() {
        let mut case = super::case("always");
        case.host.thp.enabled = hugewise_model::Observed::Absent;
        case.host.memory.vmstat = Known([("pgfault", 1)].into_iter().collect());
        let assessment = case.assess();
        assert!(assessment.unknown.is_empty() && summary(&case).is_none());
    }

    /// THP came with 2.6.38, and with Red Hat's 2.6.32 of RHEL 6.
    #[test]
    fn a_kernel_that_is_older_than_thp_lacks_nothing() {
        let undecided = |kernel: &str| {
            let mut case = super::case("always");
            case.host.thp.enabled = hugewise_model::Observed::Absent;
            let parts: Vec<u32> = kernel.split(['.', '-']).filter_map(|part| part.parse().ok()).collect();
            let (major, minor) = (parts[0], parts[1]);
            case.host.kernel = Known(hugewise_model::KernelRelease { text: kernel.into(), major, minor });
            !case.assess().unknown.is_empty()
        };
        for (kernel, is_undecided) in [
            ("2.6.9-67.ELsmp", false),
            ("2.6.18-164.el5", false),
            ("2.6.32.12-0.7-default", false),
            ("2.6.32-431.el6.x86_64", true),
            ("2.6.38-8-server", true),
            ("2.6.39-400.17.1.el6uek.x86_64", true),
            ("3.10.0-1160.el7.x86_64", true),
        ] {
            assert_eq!(undecided(kernel), is_undecided, "{kernel}");
        }
    }

    /// The first kernels of RHEL 6 print `[always] never`, and refuse another word.
    #[test]
    fn a_kernel_without_madvise_is_told_never() {
        let mut case = super::case("always");
        case.host.thp.of_rhel_6 = true;
        case.host.thp.choices = vec!["always".into(), "never".into()];
        assert_eq!(crate::thp::in_words(&case.host, &case.instances).unwrap(), "set transparent huge pages to never");
        let findings = case.assess().findings;
        let evidence = &findings.iter().find(|finding| finding.code.as_str() == "HW501").unwrap().evidence;
        assert_eq!(evidence[0], "/sys/kernel/mm/redhat_transparent_hugepage/enabled: always");
        case.host.thp.choices.push("madvise".into());
        assert_eq!(crate::thp::in_words(&case.host, &case.instances).unwrap(), "set transparent huge pages to madvise");
    }
}
