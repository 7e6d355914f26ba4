use hugewise_model::{Finding, Level, Remedy};

use crate::{Docs, Facts, Missing, Rule, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW602"),
    name: "thp-differs-at-boot",
    level: Level::Warn,
    docs: Docs {
        what: "THP that is set to something else now than the files will set at the next boot. The command line \
               (transparent_hugepage=) comes first, then tmpfiles.d, then tuned, which leaves THP alone where the \
               command line names it. Where no file sets it the kernel's built-in default applies, which nothing \
               shows: then the rule is silent. Services that write the switch by themselves are not seen.",
        why: "A switch set by hand is gone after the reboot; a tuned profile that sets it back makes it look like a \
              setting that does not stick.",
        cost: "what was set by hand is gone after the next reboot",
        fix: "Set it in the file that wins.",
        sources: &[
            "Linux Documentation/admin-guide/mm/transhuge.rst",
            "tuned plugin_vm: transparent_hugepages",
            "tmpfiles.d(5)",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let steps = boot::thp(facts.host)?;
    let Some(last) = steps.last() else { return Ok(Vec::new()) };
    let now = crate::known(&facts.host.thp.enabled, "/sys/kernel/mm/transparent_hugepage/enabled")?;
    if *now == last.value {
        return Ok(Vec::new());
    }
    let short = format!("THP is {now} now, and {} after the next boot", last.value);
    let summary = format!("{short}: {} decides", last.place);
    let mut evidence = vec![format!("/sys/kernel/mm/transparent_hugepage/enabled: {now}")];
    evidence.extend(steps.iter().map(|step| format!("{}: {}", step.place, step.value)));
    Ok(vec![Finding {
        short,
        evidence,
        remedies: vec![Remedy::KeepThpAtBoot],
        ..RULE.finding(Level::Warn, None, summary)
    }])
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
