use hugewise_model::{Level, Remedy};

use crate::boot::BootPlace;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW602"),
    name: "thp-differs-at-boot",
    level: Level::Warn,
    role: CaseRole::Thp,
    docs: Docs {
        what: "THP that is set to something else now than it will be after the next boot. The \
               order at boot:\n\n- the command line (transparent_hugepage=)\n- tmpfiles.d\n- \
               tuned, which leaves THP alone if the command line names it\n- lines of rc.local, \
               init scripts, enabled services, cron and hooks that write the switch\n\nWhether a \
               service comes before or after tmpfiles.d is taken from its unit. If no file says \
               which of two values comes last, the rule doesn't decide.\n\nIf nothing sets it, the \
               kernel's own default applies: how the running kernel was built \
               (CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS, _MADVISE or _NEVER in /boot/config-*). If that \
               file is missing, hugewise uses the distribution's default for such a kernel; that \
               is a note, not a warning. For other kernels hugewise can't tell, and the rule is \
               silent.",
        why: "A switch that was set by hand is gone after the reboot. If a tuned profile sets it \
              back, it looks like a setting that doesn't stick.",
        cost: "the next reboot loses what was set by hand",
        fix: "Set it in the file that wins.",
        sources: &[
            "Linux Documentation/admin-guide/mm/transhuge.rst",
            "tuned plugin_vm: transparent_hugepages",
            "tmpfiles.d(5)",
            "Linux mm/Kconfig: TRANSPARENT_HUGEPAGE_ALWAYS",
            "configurations of the kernels of RHEL 7 to 9 (as OpenELA and Rocky Linux have them), \
             UEK7 and UEK8 (oracle/linux-uek), Ubuntu 24.04, Debian 12 and 13; Red Hat Enterprise \
             Linux 10, \"Managing transparent hugepages\"",
        ],
    },
    check: |facts| RULE.of_host(facts, check_thp_boot_difference),
};

fn check_thp_boot_difference(facts: &RuleFacts<'_>) -> HostResult {
    let steps = boot::predict_thp(facts.host)?;
    let Some(last) = steps.last() else { return Ok(Vec::new()) };
    let file = facts.host.thp.switch_path("enabled");
    if crate::thp::kernel_has_none(facts.host) {
        return Ok(Vec::new());
    }
    let now = crate::require_known(&facts.host.thp.enabled, &file)?;
    if *now == last.value {
        return Ok(Vec::new());
    }
    let short = format!("THP is {now} now, and {} after the next boot", last.value);
    let summary = format!("{short}: {} decides", last.place);
    let mut evidence = vec![format!("{file}: {now}")];
    evidence.extend(steps.iter().map(|step| format!("{}: {}", step.place, step.value)));
    evidence.extend(boot::thp_not_in_menu(facts.host));
    let is_distributions = matches!(last.place, BootPlace::DistributionDefault(_));
    let level = if is_distributions { Level::Info } else { Level::Warn };
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, vec![Remedy::KeepThpAtBoot])])
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || at_boot("never"),
    silent: || at_boot("madvise"),
    missing: || {
        let mut case = at_boot("never");
        case.host.thp.enabled = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn at_boot(value: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.host.configuration.tmpfiles =
        hugewise_model::Observed::Known(vec![hugewise_model::configuration::TmpfilesWrite {
            path: "/sys/kernel/mm/transparent_hugepage/enabled".into(),
            value: value.into(),
            place: crate::testing::place("/etc/tmpfiles.d/thp.conf"),
        }]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed::{Absent, Known};
    use hugewise_model::configuration::Tuned;

    fn summary(case: &crate::testing::Case) -> Option<String> {
        let findings = case.assess().findings.into_iter();
        findings
            .filter(|finding| finding.code.as_str() == "HW602")
            .map(|other_finding| other_finding.summary)
            .next()
    }

    /// Set by hand, and no file keeps it: the kernel's own default is back after the boot.
    #[test]
    fn what_was_set_by_hand_gives_way_to_the_kernels_default() {
        let mut case = crate::testing::quiet();
        assert_eq!(summary(&case), None);
        let place = |file: &str| crate::testing::place(file);
        case.host.configuration.thp_of_kernel =
            Known(("always".into(), place("/boot/config-6.1.0")));
        let at = place("/boot/config-6.1.0").to_string();
        let said = format!(
            "THP is madvise now, and always after the next boot: the kernel's own default ({at}) \
             decides"
        );
        assert_eq!(summary(&case), Some(said));
        // rc.local has the last word, where all such lines say one.
        let writer = |value: Option<&str>, file: &str| hugewise_model::configuration::ThpWriter {
            value: value.map(str::to_owned),
            place: place(file),
            by: None,
            order: hugewise_model::configuration::BootOrder::Last,
        };
        case.host.configuration.thp_writers = vec![writer(Some("madvise"), "/etc/rc.d/rc.local")];
        assert_eq!(summary(&case), None);
        case.host.configuration.thp_writers.push(writer(Some("never"), "/etc/init.d/thp"));
        assert_eq!(summary(&case), None);
        let open: Vec<String> = case
            .assess()
            .unknown
            .iter()
            .map(|unknown_verdict| unknown_verdict.missing.to_string())
            .collect();
        let at = place("/etc/init.d/thp");
        assert_eq!(open, [format!("THP at the next boot: {at} also sets it during boot")]);
    }

    /// No file says how the kernel was built: what the distribution builds is a hint, and another
    /// kernel is not guessed at.
    #[test]
    fn the_distributions_default_is_a_hint() {
        let found = |release: &str| {
            let mut case = crate::testing::quiet();
            let kernel = hugewise_host::kernel::release::parse(release.as_bytes()).unwrap();
            case.host.kernel = Known(kernel);
            let found =
                case.assess().findings.into_iter().find(|finding| finding.code.as_str() == "HW602");
            found.map(|finding| (finding.level, finding.summary))
        };
        let said = "THP is madvise now, and always after the next boot: the distribution's default \
            (the RHEL 9 kernel) decides";
        assert_eq!(
            found("5.14.0-503.11.1.el9_5.x86_64"),
            Some((hugewise_model::Level::Info, said.to_owned()))
        );
        assert_eq!(found("5.14.0-503.el9.elrepo.x86_64"), None);
    }

    /// A unit of MongoDB's documents comes after tmpfiles.d; one that comes before it loses to it;
    /// and where no file tells, the words have to agree.
    #[test]
    fn the_order_of_a_unit_decides_which_word_is_the_last() {
        use hugewise_model::configuration::{BootOrder, ThpWriter};
        let with = |value: &str, order: BootOrder| {
            let mut case = super::at_boot("madvise");
            let place = crate::testing::place("/etc/systemd/system/thp.service");
            case.host.configuration.thp_writers =
                vec![ThpWriter { value: Some(value.into()), place, by: None, order }];
            let unknown = !case.assess().unknown.is_empty();
            (summary(&case).is_some(), unknown)
        };
        assert_eq!(with("never", BootOrder::Last), (true, false));
        assert_eq!(with("never", BootOrder::First), (false, false));
        assert_eq!(with("never", BootOrder::Untold), (false, true));
        assert_eq!(with("never", BootOrder::Beside), (false, true));
        assert_eq!(with("madvise", BootOrder::Untold), (false, false));
    }

    /// TuneD and a unit of multi-user.target come in no order.
    #[test]
    fn tuned_and_a_script_have_to_agree() {
        use hugewise_model::configuration::{BootOrder, ThpWriter};
        let mut case = crate::testing::quiet();
        let place = crate::testing::place("/usr/lib/tuned/oracle/tuned.conf");
        case.host.configuration.tuned = Known(Tuned {
            profile: "oracle".into(),
            transparent_hugepages: Known(("never".into(), place.clone())),
            sysctl: Vec::new(),
            reapplied: hugewise_model::Observed::Absent,
            command_line: Vec::new(),
        });
        let mut unknown = |word: &str| {
            let value = Some(word.to_owned());
            case.host.configuration.thp_writers =
                vec![ThpWriter { value, place: place.clone(), by: None, order: BootOrder::Last }];
            !case.assess().unknown.is_empty()
        };
        assert!(!unknown("never") && unknown("madvise"));
    }

    #[test]
    fn a_small_machine_begins_without_thp() {
        let mut case = crate::testing::quiet();
        case.host.thp.enabled = Known("never".into());
        case.host.configuration.thp_of_kernel =
            Known(("always".into(), crate::testing::place("/boot/config-6.1.0")));
        assert!(summary(&case).is_some());
        case.host.memory.total = Known(hugewise_model::Bytes::from_mib(500));
        assert_eq!(summary(&case), None);
    }

    #[test]
    fn tuned_yields_to_the_command_line() {
        let mut case = crate::testing::quiet();
        let place = crate::testing::place("/usr/lib/tuned/oracle/tuned.conf");
        case.host.configuration.tuned = Known(Tuned {
            profile: "oracle".into(),
            transparent_hugepages: Known(("never".into(), place)),
            sysctl: Vec::new(),
            reapplied: hugewise_model::Observed::Absent,
            command_line: Vec::new(),
        });
        assert_eq!(case.codes(), ["HW602"]);
        case.host.configuration.boot = Absent;
        case.host.command_line = Known(vec!["transparent_hugepage=madvise".into()]);
        assert!(case.codes().is_empty());
    }
}
