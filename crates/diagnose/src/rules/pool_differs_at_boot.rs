use hugewise_model::{Host, HugePageMode, Level, PageCount, PageSize, Pool, Remedy};

use super::idle_pool;
use crate::boot::{BootPlace, BootStep};
use crate::later_users::find_later_user;
use crate::prediction::all_leave;
use crate::wording::pool_fact;
use crate::{CaseRole, Docs, HostResult, InstanceResult, Rule, RuleFacts, boot, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW601"),
    name: "pool-differs-at-boot",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool that is larger now than the next boot will make it. Also, as a note: several \
               files that set a pool to different numbers. The note says which one wins. There is \
               no note if hugewise's own file wins, because its plan said what it overrides. The \
               order at boot:\n\n- the kernel command line\n- sysctl.d by file name, where the \
               last one wins\n- tmpfiles.d\n- tuned, which writes the files of /etc/sysctl.d and \
               /etc/sysctl.conf once more after its profile's own settings\n\nWithout systemd \
               nothing reads tmpfiles.d, and a script reads the sysctl files. On RHEL 5 and 6 that \
               is rc.sysinit: from initscripts 8.45.37 and 9.03.24 on it reads /etc/sysctl.conf \
               first and /etc/sysctl.d after it. Before that, and on RHEL 4, it reads \
               /etc/sysctl.conf alone. Debian reads /etc/sysctl.conf last. Files below /run are \
               gone after a reboot. Words in /etc/default/grub count once GRUB's menu is \
               regenerated; the finding names those that are not in the menu yet.\n\nIf an Oracle \
               raises the pool itself (AUTO), that explains a larger pool. It is a note then, \
               because Oracle may not find the pages next time. Other rules report related \
               cases:\n\n- idle-pool: pages that no server asks for\n- pool-short-of-request: \
               files that ask for more than there is\n- pool-written-at-boot: a pool that \
               something else writes at boot",
        why: "A pool that was set by hand at run time is gone after the reboot. The server that \
              was on huge pages falls back, usually on the night of planned maintenance.",
        cost: "after the next reboot servers find fewer huge pages than now",
        fix: "Write the pool's present size to a file that the boot reads last. That changes \
              nothing now.",
        sources: &[
            "sysctl.d(5): all files are sorted by name, the last one wins",
            "tmpfiles.d(5)",
            "systemd-sysctl(8)",
            "github.com/fedora-sysv/initscripts: rc.d/rc.sysinit, apply_sysctl of \
             rc.d/init.d/functions",
            "tuned plugin_sysctl: reapply_sysctl",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pool_boot_difference),
};

fn check_pool_boot_difference(facts: &RuleFacts<'_>) -> HostResult {
    let mut findings = Vec::new();
    for pool in crate::require_known(&facts.host.pools, "/sys/kernel/mm/hugepages")? {
        findings.extend(compare_pool_at_boot(facts, pool)?);
    }
    Ok(findings)
}

fn compare_pool_at_boot(facts: &RuleFacts<'_>, pool: &Pool) -> InstanceResult {
    let (host, page) = (facts.host, pool.page_size);
    // What nobody will ask for then is no loss: of what they ask for instead HW603 speaks.
    if boot::is_written(host, page) || all_leave(host, facts.instances, page) {
        return Ok(None);
    }
    let steps = boot::predict_pool_steps(host, page)?;
    let file = pool_fact(host, page, "nr_hugepages");
    let total = *crate::require_known(&pool.total, &file)?;
    let now = total.saturating_sub(demand::surplus_pages(host, pool)?);
    let next = PageCount(steps.last().map_or(0, |step| step.value));
    let loss = if now > next { describe_loss(facts, pool, now, next) } else { None };
    let is_loss = loss.is_some();
    let described = loss.or_else(|| describe_contradiction(&steps, page, next));
    let Some((level, short, separator)) = described else { return Ok(None) };
    let by = steps
        .last()
        .map_or_else(|| boot::nothing_sets(host, page), |step| format!("{} decides", step.place));
    let summary = format!("{short}{separator} {by}");
    let mut evidence = vec![format!("{file}: {now} without surplus")];
    evidence.extend(steps.iter().map(|step| format!("{}: {}", step.place, PageCount(step.value))));
    evidence.extend(host.configuration.unheeded.iter().map(ToString::to_string));
    evidence.extend(boot::not_in_menu(host, page));
    let remedies = match () {
        () if is_loss => vec![facts.keep_at_boot(page, None)],
        () if now == next => {
            let losers = steps.iter().filter(|step| PageCount(step.value) != next);
            losers.map(|step| remedy_overridden_step(host, step)).collect()
        }
        // Which of them is meant nobody here can tell.
        () => vec![Remedy::by_hand("leave the one that is meant, and remove the others")],
    };
    Ok(Some(RULE.new_finding(level, None, summary, short, evidence, remedies)))
}

/// What the next boot takes from a pool, and the sign before who decides that.
fn describe_loss(
    facts: &RuleFacts<'_>,
    pool: &Pool,
    now: PageCount,
    next: PageCount,
) -> Option<(Level, String, char)> {
    // Pages that nobody asks for are said to be idle; that they are gone with the boot is no loss.
    let is_idle = idle_pool::covers_all_claims(facts, pool, now, next);
    // But for those that somebody is to hand out.
    if (is_idle || is_nobodys(facts, pool)) && find_later_user(facts.host).is_none() {
        return None;
    }
    let brings = if next == PageCount::ZERO { "none".to_owned() } else { next.to_string() };
    let short = format!("the next boot brings {brings} of the {}", now.in_pages_of(pool.page_size));
    if facts.instances.iter().all(|instance| instance.asked != HugePageMode::Raises) {
        return Some((Level::Warn, short, ':'));
    }
    let short = format!("{short}: its server raises it by the others, if it finds them");
    Some((Level::Info, short, ';'))
}

/// Whether no page of a pool is used, and no server that something vouches for could take one: what
/// a stranger would like to have is no reason to keep a pool.
fn is_nobodys(facts: &RuleFacts<'_>, pool: &Pool) -> bool {
    let counts = demand::read_pool_counts(pool).ok().flatten();
    let is_unused = counts.is_some_and(|counts| counts.available() == counts.total);
    let mut servers = facts.instances.iter().chain(facts.asleep);
    is_unused && !servers.any(|one| demand::uses_page_size(facts.host, one, pool.page_size))
}

fn describe_contradiction(
    steps: &[BootStep<u64>],
    page: PageSize,
    next: PageCount,
) -> Option<(Level, String, char)> {
    let is_meant = steps.last().is_some_and(|step| is_ours(&step.place));
    if is_meant || steps.iter().all(|step| PageCount(step.value) == next) {
        return None;
    }
    let words = steps.iter().any(|step| step.place.kernel_word().is_some());
    let what = if words { "settings" } else { "files" };
    let short = format!("{} {what} set the pool of {page} pages to different numbers", steps.len());
    Some((Level::Info, short, ':'))
}

fn remedy_overridden_step(host: &Host, step: &BootStep<u64>) -> Remedy {
    let what = step.place.kernel_word().unwrap_or("it");
    Remedy::by_hand(format!("remove {what} from {}", boot::place_to_edit(host, &step.place)))
}

/// Whether a place is in a file that hugewise made: what it overrides, it was to override.
fn is_ours(place: &BootPlace) -> bool {
    let name = place.file().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
    OUR_NAMES.iter().any(|begin| name.starts_with(begin))
}

/// How the names of hugewise's files for the boot begin: last of sysctl.d, first of tmpfiles.d.
const OUR_NAMES: [&str; 2] = ["zz-hugewise", "00-hugewise"];

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case.host.configuration.sysctl = hugewise_model::Observed::Known(Vec::new());
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case.host.configuration.sysctl = hugewise_model::Observed::Malformed("line 3".into());
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::Observed::{self, Known};

    use super::{CASES, RULE};
    use crate::testing::{quiet, sysctl};

    #[test]
    fn the_last_file_wins_and_is_named() {
        let mut case = quiet();
        case.pool(4096, 0);
        case.host.configuration.sysctl =
            Known(vec![sysctl("vm.nr_hugepages", "8192"), sysctl("vm.nr_hugepages", "512")]);
        let findings = case.assess().findings;
        let finding = findings.iter().find(|finding| finding.code.as_str() == "HW601").unwrap();
        assert_eq!(
            finding.summary,
            "the next boot brings 512 of the 4,096 pages of 2 MiB: /etc/sysctl.d/50-db.conf:7 \
             decides"
        );
    }

    /// Half the pool is idle, and the file that is read last is of a former cluster.
    #[test]
    fn files_that_contradict_each_other_are_told_where_nobody_minds_the_loss() {
        let mut case = quiet();
        case.pool(4096, 4096);
        case.host.configuration.sysctl =
            Known(vec![sysctl("vm.nr_hugepages", "4096"), sysctl("vm.nr_hugepages", "2048")]);
        let findings = case.assess().findings;
        let finding = findings.iter().find(|finding| finding.code.as_str() == "HW601").unwrap();
        assert_eq!(finding.level, hugewise_model::Level::Info);
        assert!(finding.summary.starts_with("2 files set the pool"), "{}", finding.summary);
    }

    /// The file of a plan has what the server asks for, and a third of the pool of now is idle.
    #[test]
    fn a_boot_that_brings_all_that_is_asked_for_loses_nothing() {
        let told = |pages: &str| {
            let mut case = quiet();
            crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
            case.pool(5028, 1956);
            case.host.configuration.sysctl = Known(vec![sysctl("vm.nr_hugepages", pages)]);
            case.codes().contains(&"HW601")
        };
        assert!(told("3000"));
        assert!(!told("3072"));
    }

    #[test]
    fn words_that_are_not_in_the_boot_menu_are_named() {
        let mut case = quiet();
        case.pool(600, 0);
        case.host.configuration.sysctl = Known(Vec::new());
        let place = |file: &str, line| hugewise_model::configuration::FileLocation {
            file: file.into(),
            line,
        };
        let entry = hugewise_model::configuration::BootEntry {
            loader: hugewise_model::configuration::BootLoader::Grub,
            command_line: vec!["quiet".into()],
            place: place("/boot/grub/grub.cfg", 4),
        };
        case.host.configuration.boot = Known(entry);
        let summary = |case: &crate::testing::Case, words: &[&str]| {
            let mut case = case.clone();
            let word = |word: &&str| hugewise_model::configuration::MenuWord {
                word: (*word).into(),
                place: place("/etc/default/grub", 6),
            };
            case.host.configuration.menu_words = Some(words.iter().map(word).collect());
            let findings = case.assess().findings;
            findings
                .into_iter()
                .find(|finding| finding.code.as_str() == "HW601")
                .map(|finding| finding.summary)
        };
        let begins = "the next boot brings none of the 600 pages of 2 MiB: ";
        let none = Some(format!("{begins}no file sets any"));
        assert_eq!(summary(&case, &[]), none);
        let waits =
            Some(format!("{begins}hugepages=600 in /etc/default/grub:6 is not in the boot menu"));
        assert_eq!(summary(&case, &["transparent_hugepage=never", "hugepages=600"]), waits);
        // Pages of another size are no answer.
        assert_eq!(summary(&case, &["hugepagesz=1G", "hugepages=600"]), none);
        assert_eq!(summary(&case, &["hugepages=600", "hugepagesz=1G", "hugepages=600"]), waits);
    }

    /// Oracle's own advice for AUTO and AUTO_ONLY is a pool that is there before (Exadata,
    /// use_large_pages).
    #[test]
    fn what_a_server_raises_the_pool_by_is_a_note_with_what_a_plan_keeps() {
        let mut case = quiet();
        let instance = crate::testing::all_huge(case.oracle("PROD", crate::testing::gib(4), 0));
        instance.asked = hugewise_model::HugePageMode::Raises;
        case.pool(2048, 0);
        case.host.configuration.sysctl = Known(vec![sysctl("vm.nr_hugepages", "100")]);
        let findings = case.assess().findings;
        let finding = findings.iter().find(|finding| finding.code.as_str() == "HW601").unwrap();
        let kept = hugewise_model::Remedy::KeepAtBoot(hugewise_model::PageSize::MIB_2);
        assert_eq!(
            (finding.level, finding.remedies.as_slice()),
            (hugewise_model::Level::Info, [kept].as_slice())
        );
    }

    #[test]
    fn a_file_of_ours_overrides_others_on_purpose_and_others_do_not() {
        let place = |file: &str, value: &str| hugewise_model::configuration::SysctlAssignment {
            place: hugewise_model::configuration::FileLocation { file: file.into(), line: 2 },
            ..sysctl("vm.nr_hugepages", value)
        };
        let found = |last: &str| {
            let mut case = quiet();
            case.pool(4096, 0);
            case.host.configuration.sysctl =
                Known(vec![place("/etc/sysctl.d/50-db.conf", "512"), place(last, "4096")]);
            let findings = case.assess().findings;
            findings.iter().any(|finding| finding.code.as_str() == "HW601")
        };
        assert!(!found("/etc/sysctl.d/zz-hugewise-pool.conf"));
        assert!(found("/etc/sysctl.d/zz-site.conf"));
        assert!(found("/etc/zz-hugewise/60-site.conf"));
    }

    #[test]
    fn surplus_pages_that_were_denied_are_missing() {
        let mut case = (CASES.speaks)();
        case.pools()[0].surplus = Observed::Denied;
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
        assert_eq!(case.missing_facts(&RULE), [format!("{file}: denied")]);
        case.pools()[0].surplus = Observed::Absent;
        assert!(case.missing_facts(&RULE).is_empty());
    }
}
