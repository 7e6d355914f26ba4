use hugewise_engines::EngineKind;
use hugewise_model::{Instance, Level, Remedy};

use crate::chain::join_titles;
use crate::prediction::{asks_by_default, predict_next_start};
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW607"),
    name: "default-size-waits",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A default huge page size (default_hugepagesz=) that will change once the boot menu \
               is regenerated. Either it is in the file that the menu is made from, such as \
               /etc/default/grub, and not in the menu yet. Or it is in the menu and no longer in \
               that file. It is reported if a server asks for pages of the default size and names \
               none.",
        why: "The next kernel update regenerates the menu, and so does update-grub or \
              grub2-mkconfig. After the boot that follows, such a server asks for pages of another \
              size, and vm.nr_hugepages counts pages of that size. If the next boot already has \
              the new default, boot-loses-pages says what happens to each server.",
        cost: "after a new boot menu and a reboot, servers ask for another page size",
        fix: "Remove default_hugepagesz= from the file. Or plan for that size: name it in the \
              server's own settings, if it has such a setting. Or regenerate the menu now and plan \
              again.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: default_hugepagesz",
            "grub-mkconfig(8)",
        ],
    },
    check: |facts| RULE.of_host(facts, check_default_size_waits),
};

fn check_default_size_waits(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    let Some((then, waits)) = boot::default_size_not_in_menu(host) else { return Ok(Vec::new()) };
    let now = *crate::require_known(&host.default_huge_page, "/proc/meminfo Hugepagesize")?;
    let all = facts.instances.iter().chain(facts.asleep);
    let moved: Vec<&Instance> = all
        .filter(|instance| {
            now != then
                && asks_by_default(instance, now)
                && predict_next_start(host, instance).asks_for_huge_pages()
        })
        .collect();
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let names = join_titles(moved.iter().copied());
    let verb = if moved.len() == 1 { "asks" } else { "ask" };
    let short = format!("once the boot menu is regenerated, the default page size is {then}");
    let summary = format!(
        "{waits}: once the menu is regenerated, {names} {verb} for pages of {then} instead of {now}"
    );
    let mut evidence = vec![format!("/proc/meminfo Hugepagesize: {now}"), waits];
    let lacks = |instance: &&Instance| {
        EngineKind::for_engine(instance.engine).start.not_with_default == Some(then)
    };
    evidence.extend(
        moved.into_iter().filter(lacks).map(|instance| {
            format!("with such a default, {} gets no huge pages", instance.title())
        }),
    );
    let remedies = vec![Remedy::by_hand(format!(
        "keep the default at {now} in the file that the boot menu is made from, or regenerate the \
         menu now and plan again"
    ))];
    Ok(vec![RULE.new_finding(Level::Warn, None, summary, short, evidence, remedies)])
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_waiting_case("default_hugepagesz=1G"),
    silent: || make_waiting_case("default_hugepagesz=2M"),
    missing: || {
        let mut case = make_waiting_case("default_hugepagesz=1G");
        case.host.default_huge_page = hugewise_model::Observed::Denied;
        case
    },
};

/// A PostgreSQL that asks for the default size; /etc/default/grub has this word, and the menu has
/// not.
#[cfg(test)]
fn make_waiting_case(word: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.postgresql("15/main", crate::testing::gib(1));
    let place = crate::testing::place("/etc/default/grub");
    let word = hugewise_model::configuration::MenuWord { word: word.into(), place };
    case.host.configuration.menu_words = Some(vec![word]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Finding;

    use hugewise_model::{Observed, PageSize};

    use super::*;

    fn found(case: &crate::testing::Case) -> Option<Finding> {
        case.assess().findings.into_iter().find(|finding| finding.code.as_str() == "HW607")
    }

    #[test]
    fn an_oracle_is_told_that_it_gets_none() {
        let mut case = make_waiting_case("default_hugepagesz=1G");
        case.oracle("PROD", crate::testing::gib(8), 20);
        let said = found(&case).unwrap();
        let moved = "postgresql 15/main and oracle PROD ask for pages of 1 GiB instead of 2 MiB";
        assert!(said.summary.contains(moved), "{}", said.summary);
        assert!(
            said.evidence
                .iter()
                .any(|line| line == "with such a default, oracle PROD gets no huge pages")
        );
    }

    /// Whoever names a size goes on to ask for that, and a default that the next boot has already
    /// is another rule's.
    #[test]
    fn who_names_a_size_is_not_moved() {
        let mut case = make_waiting_case("default_hugepagesz=1G");
        case.instances[0].asked_page_size = Observed::Known(PageSize::GIB_1);
        assert_eq!(found(&case), None);
        let mut case = make_waiting_case("default_hugepagesz=1G");
        let mut entry = case.host.configuration.boot.as_known().unwrap().clone();
        entry.command_line.push("default_hugepagesz=1G".into());
        case.host.configuration.boot = Observed::Known(entry);
        assert_eq!(found(&case), None);
    }
}
