use hugewise_host::config::cmdline::{IgnoredWord, WordRefusal};
use hugewise_model::{Finding, Host, Level, PageSize, Remedy};

use crate::boot::RefusedValue;
use crate::wording::{boot_name, join_names};
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW608"),
    name: "boot-values-ignored",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Settings of the next boot about huge pages and shared memory that the kernel \
               ignores.\n\n- A value that it refuses (Invalid argument), in sysctl.d, tmpfiles.d \
               or TuneD's active profile: `vm.nr_hugepages = 16609.0`, `512M`, an empty one.\n- A \
               page size on the kernel command line that this kernel does not have, and the \
               count behind it. An arm64 kernel with base pages of 64 KiB has pages of 2 MiB, 512 \
               MiB and 16 GiB, and none of 1 GiB.\n- A second `hugepages=` for one size, as in \
               `hugepagesz=1G hugepagesz=2M hugepages=32 hugepages=1024`: both counts stand \
               behind 2M, so the second is ignored and 1G has none.\n\n1 GiB pages that an x86-64 \
               processor lacks are gib-pages-unsupported's.",
        why: "The pool that the line promises never comes, and only the journal or dmesg says so. \
              systemd-sysctl writes one line of a key, the last: if that one is refused, earlier \
              lines of the same key are lost too.",
        cost: "the pool that the line promises never comes",
        fix: "Write a whole number of pages. On the command line put each hugepages= directly \
              behind the hugepagesz= that it belongs to, and name only sizes that are listed in \
              /sys/kernel/mm/hugepages.",
        sources: &[
            "Linux kernel/sysctl.c: proc_doulongvec_minmax; mm/hugetlb.c: hugepages_setup, \
             hugepagesz_setup",
            "Linux Documentation/admin-guide/kernel-parameters.txt: hugepages",
            "autobase-tech/autobase#1537, siderolabs/image-factory#154",
        ],
    },
    check: |facts| RULE.of_host(facts, check_boot_values_ignored),
};

fn check_boot_values_ignored(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    let refused = boot::find_refused_values(host)?;
    let mut findings: Vec<Finding> = refused.iter().map(find_refused_value).collect();
    findings.extend(find_ignored_words(host)?);
    Ok(findings)
}

fn find_refused_value(refused: &RefusedValue) -> Finding {
    let RefusedValue { what, value, place } = refused;
    let value = value.trim();
    let said = if value.is_empty() { "an empty value".to_owned() } else { format!("\"{value}\"") };
    let summary = format!("the kernel refuses {said} for {what} ({place}): the line has no effect");
    let short = format!("the kernel refuses a value for {what}");
    let remedy = format!("write a whole number for {what} in {place}");
    let evidence = vec![format!("{place}: {what} = {value}")];
    RULE.new_finding(Level::Warn, None, summary, short, evidence, vec![Remedy::by_hand(remedy)])
}

fn find_ignored_words(host: &Host) -> Result<Option<Finding>, crate::Missing> {
    let (words, place) = boot::read_page_words(host)?;
    let ignored = without_gib_words(host, words.ignored);
    if ignored.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> =
        ignored.iter().map(|word| format!("{} ({})", word.word, describe_refusal(word))).collect();
    let has = if ignored.len() == 1 { "has" } else { "have" };
    let summary = format!(
        "{} {has} no effect on the next boot's kernel command line ({place})",
        join_names(&named)
    );
    let short = "words on the kernel command line have no effect".to_owned();
    let sizes: Vec<String> = host
        .pools
        .as_known()
        .into_iter()
        .flatten()
        .map(|pool| pool.page_size.to_string())
        .collect();
    let mut evidence = vec![format!("{place}: {}", join_words(&ignored))];
    if !sizes.is_empty() {
        evidence.push(format!("/sys/kernel/mm/hugepages: pages of {}", join_names(&sizes)));
    }
    let source = boot::find_cmdline_source(host);
    let what = match boot::reorder_page_words(host, &ignored) {
        Some(order) => format!(
            "put each count directly behind its size, in {}: {order}; check which count was \
             meant for which size",
            source.file
        ),
        None => format!(
            "remove {} from {}, or put each count directly behind a size that this kernel has",
            join_words(&ignored),
            source.file
        ),
    };
    let remedies = vec![Remedy::by_commands(what, source.how)];
    Ok(Some(RULE.new_finding(Level::Warn, None, summary, short, evidence, remedies)))
}

/// What ends the words without effect, for a plan that writes the whole line anew.
pub fn remedies_for_ignored_words(host: &Host) -> Vec<Remedy> {
    find_ignored_words(host).ok().flatten().map(|finding| finding.remedies).unwrap_or_default()
}

fn join_words(words: &[IgnoredWord]) -> String {
    words.iter().map(|ignored| ignored.word.as_str()).collect::<Vec<_>>().join(" ")
}

/// Those are another rule's, with the counts that belong to them.
fn without_gib_words(host: &Host, words: Vec<IgnoredWord>) -> Vec<IgnoredWord> {
    let x86 = host.architecture.as_known().is_none_or(|name| name == "x86_64");
    let mut belongs = false;
    let mut is_told_elsewhere = |word: &IgnoredWord| {
        belongs = match word.why {
            WordRefusal::UnknownSize(size) => x86 && size == PageSize::GIB_1,
            WordRefusal::AfterIgnoredSize => belongs,
            _ => false,
        };
        belongs
    };
    words.into_iter().filter(|word| !is_told_elsewhere(word)).collect()
}

fn describe_refusal(word: &IgnoredWord) -> String {
    match word.why {
        WordRefusal::NoSize => "no page size".to_owned(),
        WordRefusal::UnknownSize(size) => format!("this kernel has no pages of {size}"),
        WordRefusal::SizeTwice(size) => format!("{size} was named before"),
        WordRefusal::DefaultTwice => "a default size was named before".to_owned(),
        WordRefusal::AfterIgnoredSize => "the size before it is ignored".to_owned(),
        WordRefusal::CountTwice(Some(size)) => format!("pages of {size} have a count already"),
        WordRefusal::CountTwice(None) => {
            "pages of the default size have a count already".to_owned()
        }
        WordRefusal::NoCount => "no count of pages".to_owned(),
        WordRefusal::TooMany => "the kernel takes no more such words".to_owned(),
        WordRefusal::NotBehindSize(size) => format!(
            "before Linux 5.8 pages of {size} are made only for a count directly behind \
             hugepagesz={}",
            boot_name(size)
        ),
    }
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_sysctl_case("16609.0"),
    silent: || make_sysctl_case("16609"),
    missing: || {
        let mut case = make_sysctl_case("16609.0");
        case.host.configuration.sysctl = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn make_sysctl_case(value: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    let line = crate::testing::sysctl("vm.nr_hugepages", value);
    case.host.configuration.sysctl = hugewise_model::Observed::Known(vec![line]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing::{Case, quiet};

    fn found(case: &Case) -> Vec<Finding> {
        let findings = case.assess().findings.into_iter();
        findings.filter(|finding| finding.code.as_str() == "HW608").collect()
    }

    fn with_words(line: &str) -> Case {
        let mut case = quiet();
        let mut entry = case.host.configuration.boot.as_known().unwrap().clone();
        entry.command_line = line.split(' ').map(str::to_owned).collect();
        case.host.configuration.boot = Observed::Known(entry);
        case
    }

    #[test]
    fn a_value_that_is_no_whole_number_is_named_where_it_stands() {
        let found = found(&make_sysctl_case("16609.0"));
        assert_eq!(
            found[0].summary,
            "the kernel refuses \"16609.0\" for vm.nr_hugepages (/etc/sysctl.d/50-db.conf:7): the \
             line has no effect"
        );
    }

    #[test]
    fn the_forecast_of_a_pool_names_the_value_that_was_refused() {
        let mut case = quiet();
        crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(2)));
        case.pool(1024, 0);
        let line = crate::testing::sysctl("vm.nr_hugepages", "16609.0");
        case.host.configuration.sysctl = Observed::Known(vec![line]);
        let assessment = case.assess();
        let boot = &assessment.situation.forecasts_for(&case.instances[0]).unwrap().boot;
        let why = boot.why.as_deref().unwrap();
        assert!(why.contains("the kernel refuses 16609.0 (/etc/sysctl.d/50-db.conf:7)"), "{why}");
    }

    #[test]
    fn a_second_count_is_told_and_put_behind_its_size() {
        let case = with_words("quiet hugepagesz=1G hugepagesz=2M hugepages=32 hugepages=1024");
        let found = found(&case);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .summary
                .starts_with("hugepages=1024 (pages of 2 MiB have a count already) has no effect"),
            "{}",
            found[0].summary
        );
        assert!(
            found[0].fix.iter().any(
                |line| line.contains("hugepagesz=1G hugepages=32 hugepagesz=2M hugepages=1024")
            ),
            "{:?}",
            found[0].fix
        );
    }

    /// arch/arm64/mm/hugetlbpage.c: with base pages of 64 KiB 2 MiB, 512 MiB and 16 GiB.
    #[test]
    fn a_size_that_the_kernel_lacks_is_told_with_its_count() {
        let mut case = with_words("hugepagesz=2M hugepages=5128 hugepagesz=1G hugepages=2 quiet");
        case.host.architecture = Observed::Known("aarch64".into());
        case.host.processors.gib_pages = Observed::Absent;
        case.pools().retain(|pool| pool.page_size != PageSize::GIB_1);
        let found = found(&case);
        assert_eq!(
            found[0].summary,
            "hugepagesz=1G (this kernel has no pages of 1 GiB) and hugepages=2 (the size before \
             it is ignored) have no effect on the next boot's kernel command line \
             (/boot/grub/grub.cfg:7)"
        );
    }

    #[test]
    fn words_in_order_are_no_finding() {
        for line in [
            "hugepagesz=2M hugepages=512",
            "hugepages=512 quiet",
            "default_hugepagesz=2M hugepagesz=2M hugepages=512",
        ] {
            assert_eq!(found(&with_words(line)), [], "{line}");
        }
    }
}
