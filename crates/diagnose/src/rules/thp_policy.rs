use hugewise_model::host::{Thp, ThpSize};
use hugewise_model::{Finding, Host, Instance, Level, PageSize, Remedy};

use crate::thp::ThpPolicy;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, RuleVerdict, chain, thp};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW501"),
    name: "thp-policy",
    level: Level::Warn,
    role: CaseRole::Thp,
    docs: Docs {
        what: "Transparent huge pages set against the advice of the engines that run here, for \
               their versions. A JVM with UseTransparentHugePages needs madvise or always: it is a \
               warning if the top switch, which it reads itself, is never, whatever those of \
               single sizes say; if shmem_enabled is never and its collector is ZGC, whose heap \
               is shared memory; and if it was started with THP switched off \
               (PR_SET_THP_DISABLE). For a server whose maker says madvise, never is a note. \
               Servers that switched THP off for themselves don't count; \
               Redis does so by default under `always`. Per-size switches (Linux 6.8) count too: \
               one that says always acts even if the top switch says never. If engines disagree, \
               madvise is the value that none of them rules out. What each engine advises:\n\
               {each engine}",
        why: "Under `always` the kernel hands out 2 MiB where a program asked for 4 KiB. That \
              costs latency while it compacts memory, more copying after a fork (up to Linux 5.7), \
              and memory that an allocator can't give back. The switch `defrag` next to it decides \
              how long a program waits for it. THP never affects memory from a pool.",
        cost: "latency while the kernel compacts memory; memory that is not returned",
        fix: "Switch it at run time and for the next boot. It applies to memory that is mapped \
              from then on: restart the servers so that it applies to all of their memory.",
        sources: &["Linux Documentation/admin-guide/mm/transhuge.rst"],
    },
    check: |facts| {
        let mut verdicts = RULE.of_host(facts, check_thp_policy);
        let undecided = verdicts.iter().any(|verdict| matches!(verdict, RuleVerdict::Unknown(_)));
        // What is known of the others does not hide what is missing of one.
        let missing = thp::find_thp_policy(facts.host, facts.instances).missing;
        if let Some(missing) = missing.filter(|_| !undecided && !verdicts.is_empty()) {
            verdicts.push(RULE.unknown_verdict(None, missing));
        }
        verdicts
    },
};

fn check_thp_policy(facts: &RuleFacts<'_>) -> HostResult {
    let policy = thp::find_thp_policy(facts.host, facts.instances);
    if policy.is_empty() {
        return policy.missing.map_or(Ok(Vec::new()), Err);
    }
    let switches = &facts.host.thp;
    let file = switches.switch_path("enabled");
    let enabled = match switches.enabled.as_known() {
        Some(enabled) => enabled.as_str(),
        // A kernel without THP counts none of it either.
        None if thp::kernel_has_none(facts.host) => return Ok(Vec::new()),
        None => crate::require_known(&switches.enabled, &file)?.as_str(),
    };
    let state = ThpSwitchState::read(switches, enabled);
    let reports = [
        state.report_never(switches, &policy),
        state.report_always(&policy),
        state.report_missing_always(&policy),
    ];
    let withheld =
        policy.advised.iter().filter_map(|instance| state.report_withheld(facts.host, instance));
    let findings: Vec<Finding> = reports.into_iter().flatten().chain(withheld).collect();
    // What is missing of one server does not silence what is known of the others.
    match policy.missing {
        Some(what) if findings.is_empty() => Err(what),
        _ => Ok(findings),
    }
}

struct ThpSwitchState<'a> {
    enabled: &'a str,
    /// Sizes that say always themselves, whatever the top switch says.
    always_sizes: Vec<PageSize>,
    is_always: bool,
    evidence: Vec<String>,
}

impl<'a> ThpSwitchState<'a> {
    fn read(switches: &Thp, enabled: &'a str) -> Self {
        let mut evidence = vec![format!("{}: {enabled}", switches.switch_path("enabled"))];
        if let Some(defrag) = switches.defrag.as_known() {
            evidence.push(format!("{}: {defrag}", switches.switch_path("defrag")));
        }
        let mut always_sizes: Vec<PageSize> = Vec::new();
        let mut inherits = switches.sizes.is_empty();
        for size in &switches.sizes {
            match size.enabled.as_known().map(String::as_str) {
                Some("always") => {
                    let kib = size.page_size.bytes().get() / 1024;
                    let file = switches.switch_path(&format!("hugepages-{kib}kB/enabled"));
                    evidence.push(format!("{file}: always"));
                    always_sizes.push(size.page_size);
                }
                Some("inherit") => inherits = true,
                Some(_) => {}
                // Only shared memory can have pages of a size without the file.
                None => inherits |= !size.enabled.is_absent(),
            }
        }
        let is_always = (enabled == "always" && inherits) || !always_sizes.is_empty();
        Self { enabled, always_sizes, is_always, evidence }
    }

    /// A JVM reads the top switch and gives up there, whatever those of single sizes say (OpenJDK
    /// 17.0.9 and later, hugepages.cpp).
    fn report_never(&self, switches: &Thp, policy: &ThpPolicy<'_>) -> Option<Finding> {
        let (advised, madvising) = (&policy.advised, &policy.madvising);
        if self.enabled != "never" {
            return None;
        }
        if advised.is_empty() {
            if madvising.is_empty() || switches.sizes.iter().any(acts_on_advice) {
                return None;
            }
            let named = chain::join_titles(madvising.iter().copied());
            let summary = format!("THP is never; for {named} it should be madvise");
            return Some(self.new_finding(Level::Info, madvising, summary.clone(), summary));
        }
        let named = chain::join_titles(advised.iter().copied());
        let summary =
            format!("THP is never, and {named} asks for it (-XX:+UseTransparentHugePages)");
        let short = "THP is never, and a server here asks for it".to_owned();
        Some(self.new_finding(Level::Warn, advised, summary, short))
    }

    /// What keeps THP from one that asks for it, while the top switch gives it.
    fn report_withheld(&self, host: &Host, instance: &Instance) -> Option<Finding> {
        if self.enabled == "never" {
            return None;
        }
        let title = instance.title();
        let is_disabled =
            |process: &hugewise_model::Process| process.thp_enabled.get() == Some(false);
        if host.find_process(instance.pid).is_some_and(is_disabled) {
            let why = "it was started with THP switched off (PR_SET_THP_DISABLE)";
            let evidence = vec![format!("/proc/{}/status: THP_enabled: 0", instance.pid)];
            let remedy = "have it started without PR_SET_THP_DISABLE, which a process inherits \
                          from whatever starts it, and restart it";
            return Some(Self::new_withheld(instance, &title, why, evidence, remedy));
        }
        let shared = host.thp.shmem_enabled.as_known()?;
        let gives = !matches!(shared.as_str(), "never" | "deny");
        if gives || instance.setting_value("usezgc") != Some("true") {
            return None;
        }
        let file = host.thp.switch_path("shmem_enabled");
        let why = format!("the heap of ZGC is shared memory, for which THP is {shared}");
        let evidence = vec![format!("{file}: {shared}")];
        let remedy = format!("set {file} to advise, now and at each boot, and restart it");
        Some(Self::new_withheld(instance, &title, &why, evidence, &remedy))
    }

    fn new_withheld(
        instance: &Instance,
        title: &str,
        why: &str,
        evidence: Vec<String>,
        remedy: &str,
    ) -> Finding {
        let asks = "asks for THP (-XX:+UseTransparentHugePages) and gets none";
        let summary = format!("{title} {asks}: {why}");
        let short = "it asks for THP and gets none".to_owned();
        let remedies = vec![Remedy::by_hand(remedy)];
        RULE.new_finding(Level::Warn, Some(instance), summary, short, evidence, remedies)
    }

    fn report_always(&self, policy: &ThpPolicy<'_>) -> Option<Finding> {
        let (against, levels): (Vec<&Instance>, Vec<Level>) =
            policy.against.iter().copied().unzip();
        if !self.is_always || against.is_empty() {
            return None;
        }
        let (enabled, word) = (self.enabled, policy.preferred_word());
        let named = chain::join_titles(against.iter().copied());
        let short = if enabled == "always" {
            format!("THP is always; for {named} it should be {word}")
        } else {
            let sizes: Vec<String> = self.always_sizes.iter().map(ToString::to_string).collect();
            format!(
                "THP is {enabled} but always for {}; for {named} it should be {word}",
                sizes.join(", ")
            )
        };
        let mut summary = short.clone();
        if !policy.wanting.is_empty() {
            let wants = chain::join_titles(policy.wanting.iter().copied());
            summary.push_str(&format!("; {wants} wants always: madvise suits both"));
        }
        let level = levels.into_iter().max().unwrap_or(Level::Info);
        Some(self.new_finding(level, &against, summary, short))
    }

    fn report_missing_always(&self, policy: &ThpPolicy<'_>) -> Option<Finding> {
        let (enabled, wanting) = (self.enabled, &policy.wanting);
        if self.is_always || !policy.against.is_empty() || wanting.is_empty() || enabled == "always"
        {
            return None;
        }
        let named = chain::join_titles(wanting.iter().copied());
        let summary = format!("THP is {enabled}; for {named} it should be always");
        Some(self.new_finding(Level::Info, wanting, summary.clone(), summary))
    }

    fn new_finding(
        &self,
        level: Level,
        servers: &[&Instance],
        summary: String,
        short: String,
    ) -> Finding {
        let instance = chain::single_instance(servers);
        let evidence = self.evidence.clone();
        RULE.new_finding(level, instance, summary, short, evidence, vec![Remedy::SetThp])
    }
}

fn acts_on_advice(size: &ThpSize) -> bool {
    size.enabled.as_known().is_some_and(|enabled| enabled == "madvise" || enabled == "always")
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_thp_case("always"),
    silent: || make_thp_case("madvise"),
    missing: || {
        let mut case = make_thp_case("always");
        case.host.thp.enabled = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
fn make_thp_case(enabled: &str) -> crate::testing::Case {
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

    /// SAP's own checker wants madvise for 2.0 SPS 08 on SLES 15 SP5: `never` is a note there, and
    /// no other engine's `never or madvise` is against that.
    #[test]
    fn where_the_maker_says_madvise_never_is_noted() {
        let advice = |version: &str, enabled: &str| {
            let mut case = crate::testing::quiet();
            case.host.os = Known("SUSE Linux Enterprise Server 15 SP5".into());
            case.host.thp.enabled = Known(enabled.into());
            let hana = Engine::from_name("hana");
            case.instance(hana, "HDB", Bytes::from_mib(1), 0, |instance| {
                instance.mechanism = Mechanism::None;
                instance.version = Known(version.into());
            });
            case.oracle("PROD", Bytes::from_mib(100), 3);
            let findings = case.assess().findings.into_iter();
            let mut findings = findings.filter(|finding| finding.code.as_str() == "HW501");
            let then = crate::thp::in_words(&case.host, &case.instances);
            (findings.next().map(|finding| (finding.level, finding.summary)), then)
        };
        let madvise = Some("set transparent huge pages to madvise".to_owned());
        let noted = "THP is never; for hana HDB it should be madvise".to_owned();
        assert_eq!(advice("2.00.080.00", "never"), (Some((Level::Info, noted)), madvise.clone()));
        assert_eq!(advice("2.00.080.00", "madvise"), (None, None));
        assert_eq!(advice("2.00.059.11", "never"), (None, None));
        let (said, then) = advice("2.00.080.00", "always");
        assert_eq!((said.unwrap().0, then), (Level::Warn, madvise));
    }

    #[test]
    fn engines_that_disagree_meet_at_madvise() {
        let mut case = super::make_thp_case("always");
        mongodb(&mut case, "8.0.4");
        assert_eq!(
            summary(&case).unwrap(),
            "THP is always; for oracle PROD it should be madvise or never; mongodb 27017 wants \
             always: madvise suits both"
        );
        case.host.thp.enabled = Known("madvise".into());
        assert_eq!(summary(&case), None);
    }

    #[test]
    fn what_is_missing_of_one_is_said_beside_what_is_known_of_the_others() {
        let mut case = super::make_thp_case("always");
        mongodb(&mut case, "8.0.4");
        case.instances.last_mut().unwrap().version = hugewise_model::Observed::Absent;
        assert!(summary(&case).is_some());
        let assessment = case.assess();
        let open: Vec<_> =
            assessment.unknown.iter().map(|verdict| verdict.missing.to_string()).collect();
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
        assert_eq!(
            advice("8.0.4", "never").unwrap(),
            "THP is never; for mongodb 27017 it should be always"
        );
    }

    #[test]
    fn a_size_of_its_own_overrides_the_top_switch() {
        let mut case = super::make_thp_case("never");
        let size = PageSize::from_kib(64).unwrap();
        let enabled = Known("always".into());
        case.host.thp.sizes = vec![ThpSize {
            page_size: size,
            enabled,
            shmem_enabled: hugewise_model::Observed::Absent,
        }];
        assert_eq!(
            summary(&case).unwrap(),
            "THP is never but always for 64 KiB; for oracle PROD it should be madvise or never"
        );
    }

    /// Linux 6.18 lists hugepages-8kB without the file: no private memory can have such pages.
    #[test]
    fn a_size_without_the_file_does_not_inherit() {
        let mut case = super::make_thp_case("always");
        let size = |kib: u64, enabled| ThpSize {
            page_size: PageSize::from_kib(kib).unwrap(),
            enabled,
            shmem_enabled: Known("inherit".into()),
        };
        case.host.thp.sizes =
            vec![size(8, hugewise_model::Observed::Absent), size(2048, Known("never".into()))];
        assert_eq!(summary(&case), None);
        case.host.thp.sizes =
            vec![size(8, hugewise_model::Observed::Absent), size(2048, Known("inherit".into()))];
        assert!(summary(&case).is_some());
        case.host.thp.sizes = vec![size(2048, hugewise_model::Observed::Denied)];
        assert!(summary(&case).is_some());
    }

    #[test]
    fn a_server_that_switched_it_off_for_itself_is_fine() {
        let mut case = super::make_thp_case("always");
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

    /// Seen with OpenJDK 17 and 25: 0 MiB on transparent pages in each of these, and exit code 0.
    #[test]
    fn a_jvm_that_asks_for_thp_and_gets_none_is_told() {
        let zgc = |case: &mut crate::testing::Case| {
            case.instance(Engine::Jvm, "app", crate::testing::gib(8), 0, |instance| {
                instance.traits = vec![hugewise_model::Trait::TransparentPages];
                let setting = hugewise_model::instance::ServerSetting {
                    name: "UseZGC".into(),
                    value: "true".into(),
                    place: None,
                };
                instance.settings.insert("usezgc".into(), setting);
            });
        };
        let mut case = crate::testing::quiet();
        zgc(&mut case);
        case.host.thp.shmem_enabled = Known("advise".into());
        assert_eq!(summary(&case), None);
        case.host.thp.shmem_enabled = Known("never".into());
        assert!(summary(&case).unwrap().ends_with("for which THP is never"));
        case.host.thp.shmem_enabled = Known("advise".into());
        case.processes()[0].thp_enabled = Known(false);
        assert!(summary(&case).unwrap().ends_with("(PR_SET_THP_DISABLE)"));

        let mut case = crate::testing::quiet();
        zgc(&mut case);
        case.host.thp.enabled = Known("never".into());
        case.host.thp.sizes = vec![ThpSize {
            page_size: PageSize::MIB_2,
            enabled: Known("madvise".into()),
            shmem_enabled: Known("inherit".into()),
        }];
        assert!(summary(&case).unwrap().starts_with("THP is never, and jvm app asks for it"));

        // JDK-8319969: from 22 on a heap in a memfd goes by shmem_enabled alone.
        case.host.thp.shmem_enabled = Known("advise".into());
        case.instances[0].segments[0].kind = hugewise_model::instance::SegmentKind::Posix;
        for (version, is_silent) in [("21.0.1", false), ("22", true), ("23.0.1", true)] {
            case.instances[0].version = Known(version.into());
            assert_eq!(summary(&case).is_none(), is_silent, "{version}");
        }
        case.host.thp.shmem_enabled = Known("never".into());
        assert!(summary(&case).is_some());
    }

    #[test]
    fn a_kernel_without_thp_has_nothing_to_say() {
        let mut case = super::make_thp_case("always");
        case.host.thp.enabled = hugewise_model::Observed::Absent;
        case.host.memory.vmstat = Known([("pgfault", 1)].into_iter().collect());
        let assessment = case.assess();
        assert!(assessment.unknown.is_empty() && summary(&case).is_none());
    }

    /// THP came with 2.6.38, and with Red Hat's 2.6.32 of RHEL 6.
    #[test]
    fn a_kernel_that_is_older_than_thp_lacks_nothing() {
        let undecided = |kernel: &str| {
            let mut case = super::make_thp_case("always");
            case.host.thp.enabled = hugewise_model::Observed::Absent;
            let parts: Vec<u32> =
                kernel.split(['.', '-']).filter_map(|part| part.parse().ok()).collect();
            let (major, minor) = (parts[0], parts[1]);
            case.host.kernel =
                Known(hugewise_model::KernelRelease { text: kernel.into(), major, minor });
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
        let mut case = super::make_thp_case("always");
        case.host.thp.of_rhel_6 = true;
        case.host.thp.choices = vec!["always".into(), "never".into()];
        assert_eq!(
            crate::thp::in_words(&case.host, &case.instances).unwrap(),
            "set transparent huge pages to never"
        );
        let findings = case.assess().findings;
        let evidence =
            &findings.iter().find(|finding| finding.code.as_str() == "HW501").unwrap().evidence;
        assert_eq!(evidence[0], "/sys/kernel/mm/redhat_transparent_hugepage/enabled: always");
        case.host.thp.choices.push("madvise".into());
        assert_eq!(
            crate::thp::in_words(&case.host, &case.instances).unwrap(),
            "set transparent huge pages to madvise"
        );
    }
}
