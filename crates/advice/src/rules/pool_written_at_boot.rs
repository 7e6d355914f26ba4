use hugewise_model::{Finding, Instance, Level, PageCount, PageSize, Remedy};

use crate::words::list;
use crate::{Docs, Facts, Missing, Rule, boot, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW606"),
    name: "pool-written-at-boot",
    level: Level::Warn,
    docs: Docs {
        what: "A pool that something else writes when the host boots than the files that exist for it: a line of /etc/rc.local, \
               an init script, a service that is enabled (its unit's ExecStart lines and drop-ins), an `@reboot` line of cron, \
               `bootcmd` of cloud-init, or a shell script that one of these starts. A warning where a server uses such pages \
               or asks for them, else a note. Lines that only read are none; of scripts that scripts start, programs that are \
               no shell scripts, what is started by hand or later, and whether rc.local may be executed, nothing is seen.",
        why: "Whether such a line runs before a server starts, after it, or not at all is in no file. A server that starts \
              before finds one pool, the same server started an hour later another: so nothing is foretold of the pool's next \
              boot, and nobody is told to insist on its pages.",
        cost: "what a server finds after a boot hangs on who comes first",
        fix: "Let a file of sysctl.d or tmpfiles.d set the pool (a plan writes it, with the number that is needed) and take the \
              line out of the script.",
        sources: &[
            "systemd-rc-local-generator(8), systemd.special(7): sysinit.target comes before services",
            "cloud-init: bootcmd runs at every boot, runcmd at an instance's first one",
            "crontab(5): @reboot",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    if host.configuration.pool_writers.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for pool in crate::known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let places: Vec<String> = boot::writers(host, page).map(ToString::to_string).collect();
        if places.is_empty() {
            continue;
        }
        let (write, lines) = if places.len() == 1 { ("writes", "the line") } else { ("write", "the lines") };
        let summary = format!(
            "{} {write} the pool of {page} pages when the host boots: what comes of it cannot be told",
            list(&places)
        );
        let short = format!("something else writes the pool of {page} pages at boot");
        let mut evidence = places;
        let by_files = boot::pool_of_files(host, page).unwrap_or_default();
        evidence.extend(by_files.iter().map(|step| format!("{}: {}", step.place, PageCount(step.value))));
        let mut files: Vec<String> = boot::writers(host, page).map(|writer| writer.place.to_string()).collect();
        files.dedup();
        let is_used = facts.instances.iter().any(|it| uses(facts, it, page));
        let out = format!("take {lines} out that {write} the pool of {page} pages: {}", list(&files));
        let mut remedies = vec![Remedy::by_hand(out)];
        let level = if is_used { Level::Warn } else { Level::Info };
        if is_used {
            remedies.insert(0, Remedy::KeepAtBoot(page));
        }
        findings.push(Finding { short, evidence, remedies, ..RULE.finding(level, None, summary) });
    }
    Ok(findings)
}

fn uses(facts: &Facts<'_>, instance: &Instance, page: PageSize) -> bool {
    demand::held(instance, page) > PageCount::ZERO || demand::page_size(facts.host, instance) == Some(page)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || with_script(crate::testing::quiet()),
    silent: crate::testing::quiet,
    missing: || {
        let mut case = with_script(crate::testing::quiet());
        case.host.pools = hugewise_model::Observed::Denied;
        case
    },
};

/// A host whose rc.local writes the pool.
#[cfg(test)]
fn with_script(mut case: crate::testing::Case) -> crate::testing::Case {
    case.host.configuration.pool_writers = vec![hugewise_model::configuration::PoolWriter {
        pool: hugewise_model::configuration::WrittenPool::Default,
        place: hugewise_model::configuration::Place { file: "/etc/rc.local".into(), line: 3 },
        by: None,
    }];
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::to_do;
    use crate::standing::Standing;
    use crate::testing::{all_huge, gib, quiet};

    #[test]
    fn nothing_is_foretold_and_nobody_told_to_insist() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        let insists = |case: &crate::testing::Case| !case.assess().target.insisting.is_empty();
        assert!(insists(&case));
        let case = with_script(case);
        let assessment = case.assess();
        let boot = &assessment.situation.of(&case.instances[0]).unwrap().boot;
        assert_eq!(boot.standing, Standing::Unknown);
        assert!(boot.why.as_ref().unwrap().contains("/etc/rc.local:3 writes it too when the host boots"));
        assert!(!insists(&case));
        let found: Vec<_> = assessment.findings.iter().filter(|it| it.level >= Level::Warn).collect();
        assert_eq!(found.iter().map(|it| it.code.as_str()).collect::<Vec<_>>(), ["HW606"]);
        let lines: Vec<String> =
            to_do(&case.host, &case.instances, &assessment, Level::Warn).into_iter().map(|(_, what)| what).collect();
        // sysctl.d has the right number already.
        let out = "take the line out that writes the pool of 2 MiB pages: /etc/rc.local:3";
        let later = "once nothing else writes its pool at boot, have postgresql 15/main insist: huge_pages=on";
        assert_eq!(lines, [out, later]);
    }
}
