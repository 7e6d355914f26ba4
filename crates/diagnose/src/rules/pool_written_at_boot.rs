use hugewise_model::{Instance, Level, PageCount, Remedy};

use crate::wording::join_names;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW606"),
    name: "pool-written-at-boot",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool that is set during boot by something other than sysctl.d, tmpfiles.d and the \
               kernel command line. A warning if a server uses such pages or asks for them, \
               otherwise a note. hugewise looks for commands in:\n\n- /etc/rc.local\n- init \
               scripts, jobs of Upstart, and OpenRC's run levels and local.d\n- enabled services (ExecStart lines of the unit and its drop-ins)\n- \
               `@reboot` lines of cron\n- `bootcmd` and boothooks of cloud-init\n- notes of saptune\n- \
               udev rules\n- hooks of the \
               network (ifupdown, NetworkManager, networkd-dispatcher) and of libvirt\n- scripts \
               and `[sysfs]` sections of TuneD's active profile\n- shell scripts that root starts \
               from one of these\n\nCommands that only read the pool are ignored. Not examined: \
               scripts started by other scripts, programs that are not shell scripts, scripts that \
               run as another user, and whether rc.local is executable.",
        why: "Under systemd, no file says whether such a command runs before a server starts, \
              after it, or at all. A server that starts early may find one pool size, and a \
              server that starts later another. hugewise therefore doesn't predict this pool for \
              the next boot, and tells no server to insist on its pages. Init scripts run one \
              after the other, and rc.local last: a server that such a script starts doesn't find \
              the pool that rc.local sets.",
        cost: "the pool that a server finds after a reboot depends on what runs first",
        fix: "Set the pool in sysctl.d or tmpfiles.d; `hugewise plan` writes the file with the \
              number that is needed. Then remove the command from the script.",
        sources: &[
            "systemd-rc-local-generator(8), systemd.special(7): sysinit.target comes before \
             services",
            "cloud-init: bootcmd runs at every boot, runcmd at an instance's first one",
            "crontab(5): @reboot",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pool_boot_writers),
};

fn check_pool_boot_writers(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    if host.configuration.pool_writers.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for pool in crate::require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let places: Vec<String> = boot::pool_writers(host, page).map(ToString::to_string).collect();
        if places.is_empty() {
            continue;
        }
        let (set, lines) =
            if places.len() == 1 { ("sets", "the line") } else { ("set", "the lines") };
        let uses = |instance: &&Instance| demand::uses_page_size(host, instance, page);
        let users = || facts.instances.iter().filter(uses);
        let is_used = users().next().is_some();
        let is_late = |instance| boot::find_late_writer(host, instance, page).is_some();
        let then = match users().all(is_late) {
            true if is_used => format!("too late for {}", chain::join_titles(users())),
            _ => "its size after a reboot cannot be predicted".to_owned(),
        };
        let summary =
            format!("{} {set} the pool of {page} pages during boot: {then}", join_names(&places));
        let short = format!("a script sets the pool of {page} pages during boot");
        let mut evidence = places;
        let by_files = boot::pool_of_files(host, page).unwrap_or_default();
        evidence.extend(
            by_files.iter().map(|step| format!("{}: {}", step.place, PageCount(step.value))),
        );
        let mut files: Vec<String> =
            boot::pool_writers(host, page).map(|writer| writer.place.to_string()).collect();
        files.dedup();
        let out =
            format!("remove {lines} that {set} the pool of {page} pages: {}", join_names(&files));
        let mut remedies = vec![Remedy::by_hand(out)];
        let level = if is_used { Level::Warn } else { Level::Info };
        if is_used {
            remedies.insert(0, facts.keep_at_boot(page, None));
        }
        findings.push(RULE.new_finding(level, None, summary, short, evidence, remedies));
    }
    Ok(findings)
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
        place: hugewise_model::configuration::FileLocation {
            file: "/etc/rc.local".into(),
            line: 3,
        },
        by: None,
        after_scripts: std::collections::BTreeSet::new(),
    }];
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Coverage;
    use crate::remedy::to_do;
    use crate::testing::{all_huge, gib, quiet};

    /// What systemd runs before a server is run at each of its starts (systemd.service(5),
    /// `ExecStartPre=`).
    #[test]
    fn what_a_servers_own_service_writes_it_writes_at_a_restart_too() {
        let mut case = with_script(quiet());
        let instance = all_huge(case.postgresql("15/main", gib(2)));
        instance.unit = Some("postgresql@15-main.service".into());
        case.pool(1024, 0);
        let drop_in = "/etc/systemd/system/postgresql@15-main.service.d/pages.conf";
        let unit = |files: &[&str]| hugewise_model::configuration::ServiceUnit {
            name: "postgresql@15-main.service".into(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..hugewise_model::configuration::ServiceUnit::default()
        };
        let restart = |case: &crate::testing::Case| {
            let restart =
                case.assess().situation.forecasts_for(&case.instances[0]).unwrap().restart.clone();
            (restart.coverage, restart.why.unwrap_or_default())
        };
        case.host.configuration.units = vec![unit(&[drop_in])];
        assert_eq!(restart(&case).0, Coverage::All, "rc.local runs at the boot alone");
        case.host.configuration.pool_writers[0].place.file = drop_in.into();
        let (standing, why) = restart(&case);
        assert_eq!(standing, Coverage::Unknown);
        assert!(why.contains(&format!("{drop_in}:3 sets it then")), "{why}");
        // A script that such a line starts.
        let by = case.host.configuration.pool_writers[0].place.clone();
        case.host.configuration.pool_writers[0].place.file = "/opt/pages.sh".into();
        case.host.configuration.pool_writers[0].by = Some(by);
        assert_eq!(restart(&case).0, Coverage::Unknown);
    }

    #[test]
    fn nothing_is_foretold_and_nobody_told_to_insist() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        let insists = |case: &crate::testing::Case| !case.assess().target.insisting.is_empty();
        assert!(insists(&case));
        let case = with_script(case);
        let assessment = case.assess();
        let boot = &assessment.situation.forecasts_for(&case.instances[0]).unwrap().boot;
        assert_eq!(boot.coverage, Coverage::Unknown);
        assert!(boot.why.as_ref().unwrap().contains("/etc/rc.local:3 also sets it during boot"));
        assert!(!insists(&case));
        let found: Vec<_> =
            assessment.findings.iter().filter(|finding| finding.level >= Level::Warn).collect();
        assert_eq!(
            found.iter().map(|finding| finding.code.as_str()).collect::<Vec<_>>(),
            ["HW606"]
        );
        let lines: Vec<String> = to_do(&case.host, &case.instances, &assessment, Level::Warn)
            .into_iter()
            .map(|(_, what)| what)
            .collect();
        // sysctl.d has the right number already.
        let out = "remove the line that sets the pool of 2 MiB pages: /etc/rc.local:3";
        let later = "once nothing else sets its pool at boot, make postgresql 15/main require huge \
            pages: huge_pages=on";
        assert_eq!(lines, [out, later]);
    }
}
