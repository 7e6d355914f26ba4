use hugewise_model::{Bytes, Level, Remedy};

use crate::wording::{boot_name, render_percent};
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW604"),
    name: "boot-starves-host",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Pools at the next boot that leave the host too little memory. All page sizes count \
               together.\n\n- Warning: the pools will take more than {LARGEST_POOL} of memory, and more than \
               they take now.\n- Error: they will also take more than {DEADLY_POOL}, or leave less than {SMALLEST_REST}. The host may not come up.\n\nWith `mem=` on the command line, only that much \
               of memory counts. What the kernel command line reserves counts even if a file gives \
               some of it back later.",
        why: "Pages on the command line are taken before the first program starts. If nothing is \
              left, the kernel panics or the first services are killed. If the host does come up, \
              it has fewer pages than the line says, and a server that insists on them doesn't \
              start. Only a rescue system or the boot menu's editor gets such a host back.",
        cost: "the host may not boot, or boots with fewer huge pages than planned",
        fix: "Lower the number in the file that asks. grub.cfg is generated: change \
              /etc/default/grub or its drop-in and regenerate the menu, or use the distribution's \
              tool.",
        sources: &[
            "Measured on Linux 6.1: 95 % of 2 GiB as hugepages= panics with 'System is deadlocked \
             on memory', 85 % boots",
            "Measured on Linux 6.1: hugepagesz=1G hugepages=4 on 4 GiB gives 1 page",
            "Documentation/admin-guide/kernel-parameters.txt: hugepages=",
        ],
    },
    check: |facts| RULE.of_host(facts, check_boot_starves_host),
};

fn check_boot_starves_host(facts: &RuleFacts<'_>) -> HostResult {
    let Some(crowding) = boot::predict_crowding(facts.host)? else { return Ok(Vec::new()) };
    let part = match crowding.asked.part_of(crowding.memory) {
        Some(part) if part <= 1.0 => format!("{} of memory", render_percent(part)),
        _ => "more than all memory".to_owned(),
    };
    let (level, then) = if crowding.is_deadly {
        (Level::Error, "the host may not come up")
    } else {
        (Level::Warn, "too little is left for everything else")
    };
    let asked = crowding.asked;
    let summary = format!("the next boot sets aside {asked} for huge pages, {part}: {then}");
    let short = format!("the next boot sets aside {part} for huge pages");
    let of_part = |part: &boot::CrowdingPool| {
        format!("{}: {}", part.place, part.pages.in_pages_of(part.page_size))
    };
    let mut evidence: Vec<String> = crowding.parts.iter().map(of_part).collect();
    let limited = facts.host.memory.total.get().filter(|total| *total > crowding.memory);
    let remedies = match limited {
        Some(total) => {
            evidence.push(format!("mem= on the command line: {} of {total}", crowding.memory));
            vec![remedy_memory_limit(facts, crowding.memory)]
        }
        None => {
            evidence.push(format!("/proc/meminfo MemTotal: {}", crowding.memory));
            crowding.parts.iter().map(|part| remedy_lower_pool(facts, part)).collect()
        }
    };
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, remedies)])
}

/// All memory again: pools that fit into it are not what is wrong.
fn remedy_memory_limit(facts: &RuleFacts<'_>, memory: Bytes) -> Remedy {
    let feeds = boot::find_cmdline_source(facts.host);
    let what =
        format!("remove mem= from {}: it leaves the next boot only {memory} of memory", feeds.file);
    Remedy::by_commands(what, feeds.how)
}

/// A plan writes files; words of the command line that are not hugewise's own, a person changes.
pub(super) fn remedy_lower_pool(facts: &RuleFacts<'_>, part: &boot::CrowdingPool) -> Remedy {
    if !part.early {
        return facts.keep_at_boot(part.page_size, None);
    }
    let (place, feeds) = (&part.place, boot::find_cmdline_source(facts.host));
    let (pages, page) = (part.pages.get(), part.page_size);
    let what = format!("lower hugepages={pages} for {page} pages in {}", feeds.file);
    let asked = format!(
        "# on the kernel's command line ({place}): hugepagesz={} hugepages={pages}, {} of memory",
        boot_name(page),
        part.memory()
    );
    Remedy::by_commands(what, [asked].into_iter().chain(feeds.how))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_crowded_case(32_440),
    silent: || make_crowded_case(20_000),
    missing: || {
        let mut case = make_crowded_case(32_440);
        case.host.memory.total = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
fn make_crowded_case(pages: u64) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    case.pool(10, 10);
    case.host.configuration.sysctl = hugewise_model::Observed::Known(vec![crate::testing::sysctl(
        "vm.nr_hugepages",
        &pages.to_string(),
    )]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing::{Case, quiet, sysctl};

    fn line(words: &str) -> Case {
        let mut case = quiet();
        let Observed::Known(entry) = &mut case.host.configuration.boot else { panic!("no entry") };
        entry.command_line = words.split(' ').map(str::to_owned).collect();
        case
    }

    fn level(case: &Case) -> Option<Level> {
        case.assess()
            .findings
            .iter()
            .find(|finding| finding.code == RULE.code)
            .map(|other_finding| other_finding.level)
    }

    #[test]
    fn pages_of_all_sizes_count_together() {
        // Of 64 GiB: 31 GiB in small pages and 31 in large ones are 97 %, and neither alone is too
        // much.
        assert_eq!(
            level(&line("hugepagesz=2M hugepages=15872 hugepagesz=1G hugepages=31")),
            Some(Level::Error)
        );
        assert_eq!(level(&line("hugepagesz=2M hugepages=15872")), None);
        assert_eq!(level(&line("hugepagesz=1G hugepages=31")), None);
        // 85 % are too many, and boot.
        assert_eq!(level(&line("hugepagesz=1G hugepages=54")), Some(Level::Warn));
        // One size by the line, the other by a file.
        let mut case = line("hugepagesz=1G hugepages=31");
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "15872")]);
        assert_eq!(level(&case), Some(Level::Error));
    }

    #[test]
    fn what_a_file_gives_back_was_taken_before() {
        let mut case = line("hugepages=32440");
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "100")]);
        assert_eq!(level(&case), Some(Level::Error));
    }

    #[test]
    fn a_host_that_lives_with_them_comes_up_again() {
        let mut case = quiet();
        case.pool(30_000, 0);
        case.host.memory.available = Observed::Known(Bytes::from_gib(4));
        assert_eq!(level(&case), None);
        // The kernel gave fewer than it was asked for.
        case.pools()[0].total = Observed::Known(hugewise_model::PageCount(29_000));
        assert_eq!(level(&case), Some(Level::Error));
    }

    #[test]
    fn a_limit_of_memory_counts_as_the_memory_of_the_boot() {
        // 20,000 pages are 39 of 64 GiB.
        assert_eq!(level(&make_crowded_case(20_000)), None);
        let mut case = line("mem=40G");
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "20000")]);
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code == RULE.code).unwrap();
        assert_eq!(found.level, Level::Error);
        assert!(found.fix[0].starts_with("remove mem= from "), "{found:?}");
        // What the host lives with now it lives with in all of its memory.
        case.pool(20_000, 0);
        assert_eq!(level(&case), Some(Level::Error));
    }

    #[test]
    fn a_generated_menu_is_not_what_is_changed() {
        let case = line("hugepages=32440");
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code == RULE.code).unwrap();
        assert_eq!(
            found.fix,
            ["lower hugepages=32440 for 2 MiB pages in /etc/default/grub or /etc/default/grub.d"]
        );
        let Remedy::ByHand(by_hand) = &found.remedies[0] else { panic!("{found:?}") };
        assert!(by_hand.how.iter().any(|line| line.contains("update-grub")), "{by_hand:?}");
    }

    #[test]
    fn nobody_is_said_to_start_on_a_host_that_may_not_come_up() {
        let mut case = line("hugepages=32440");
        case.postgresql("15/main", crate::testing::gib(2));
        let assessment = case.assess();
        let boot = &assessment.situation.forecasts_for(&case.instances[0]).unwrap().boot;
        assert_eq!(boot.coverage, crate::coverage::Coverage::Unknown);
    }
}
