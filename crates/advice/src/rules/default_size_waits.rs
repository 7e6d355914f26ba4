use hugewise_engines::Kind;
use hugewise_model::{Finding, Instance, Level, Remedy};

use crate::situation::{asks_by_default, starting};
use crate::words::list;
use crate::{Docs, Facts, Missing, Rule, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW607"),
    name: "default-size-waits",
    level: Level::Warn,
    docs: Docs {
        what: "A default huge page size (default_hugepagesz=) that will change once the boot menu is regenerated. \
               Either it is in the file that the menu is made from, such as /etc/default/grub, and not in the menu \
               yet. Or it is in the menu and no longer in that file. It is reported if a server asks for pages of \
               the default size and names none.",
        why: "The next kernel update regenerates the menu, and so does update-grub or grub2-mkconfig. After the boot \
              that follows, such a server asks for pages of another size, and vm.nr_hugepages counts pages of that \
              size. If the next boot already has the new default, boot-loses-pages says what happens to each server.",
        cost: "after a new boot menu and a reboot, servers ask for another page size",
        fix: "Remove default_hugepagesz= from the file. Or plan for that size: name it in the server's own settings, \
              if it has such a setting. Or regenerate the menu now and plan again.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst: default_hugepagesz", "grub-mkconfig(8)"],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    let Some((then, waits)) = boot::default_size_not_in_menu(host) else { return Ok(Vec::new()) };
    let now = *crate::known(&host.default_huge_page, "/proc/meminfo Hugepagesize")?;
    let all = facts.instances.iter().chain(facts.asleep);
    let moved: Vec<&Instance> =
        all.filter(|it| now != then && asks_by_default(it, now) && starting(host, it).asks()).collect();
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let (names, verb) = (list(&moved.iter().map(|it| it.title()).collect::<Vec<_>>()), plural(moved.len()));
    let short = format!("once the boot menu is regenerated, the default page size is {then}");
    let summary = format!("{waits}: once the menu is regenerated, {names} {verb} for pages of {then} instead of {now}");
    let mut evidence = vec![format!("/proc/meminfo Hugepagesize: {now}"), waits];
    let without = moved.iter().filter(|it| Kind::of(it.engine).start.not_with_default == Some(then));
    evidence.extend(without.map(|it| format!("with such a default, {} gets no huge pages", it.title())));
    let remedies = vec![Remedy::by_hand(format!(
        "keep the default at {now} in the file that the boot menu is made from, or regenerate the menu now and plan again"
    ))];
    Ok(vec![Finding { short, evidence, remedies, ..RULE.finding(Level::Warn, None, summary) }])
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "asks" } else { "ask" }
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || waiting("default_hugepagesz=1G"),
    silent: || waiting("default_hugepagesz=2M"),
    missing: || {
        let mut case = waiting("default_hugepagesz=1G");
        case.host.default_huge_page = hugewise_model::Observed::Denied;
        case
    },
};

/// A PostgreSQL that asks for the default size; /etc/default/grub has this word, and the menu has not.
#[cfg(test)]
fn waiting(word: &str) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.postgresql("15/main", crate::testing::gib(1));
    let place = crate::testing::place("/etc/default/grub");
    let word = hugewise_model::configuration::MenuWord { word: word.into(), place };
    case.host.configuration.menu_words = Some(vec![word]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::{Observed, PageSize};

    use super::*;

    fn found(case: &crate::testing::Case) -> Option<Finding> {
        case.assess().findings.into_iter().find(|it| it.code.as_str() == "HW607")
    }

    #[test]
    fn an_oracle_is_told_that_it_gets_none() {
        let mut case = waiting("default_hugepagesz=1G");
        case.oracle("PROD", crate::testing::gib(8), 20);
        let said = found(&case).unwrap();
        let moved = "postgresql 15/main and oracle PROD ask for pages of 1 GiB instead of 2 MiB";
        assert!(said.summary.contains(moved), "{}", said.summary);
        assert!(said.evidence.iter().any(|line| line == "with such a default, oracle PROD gets no huge pages"));
    }

    /// Whoever names a size goes on to ask for that, and a default that the next boot has already is another rule's.
    #[test]
    fn who_names_a_size_is_not_moved() {
        let mut case = waiting("default_hugepagesz=1G");
        case.instances[0].asked_page_size = Observed::Known(PageSize::GIB_1);
        assert_eq!(found(&case), None);
        let mut case = waiting("default_hugepagesz=1G");
        let mut entry = case.host.configuration.boot.known().unwrap().clone();
        entry.command_line.push("default_hugepagesz=1G".into());
        case.host.configuration.boot = Observed::Known(entry);
        assert_eq!(found(&case), None);
    }
}
