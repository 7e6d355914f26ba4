use hugewise_model::{Finding, Instance, Level, PageCount, Remedy};

use crate::words::percent;
use crate::{Docs, Facts, Missing, Rule, boot, demand, starving};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW605"),
    name: "pages-asked-late",
    level: Level::Warn,
    docs: Docs {
        what: "Gigantic pages that a server here uses or asks for, but that are reserved late in the boot: by \
               sysctl.d, tmpfiles.d or tuned instead of the kernel command line. This is a warning. A pool of \
               smaller pages that those files set up is a note if it takes 70 % of memory or more. Gigantic pages \
               are larger than any block of the kernel's page allocator (/proc/buddyinfo has a column for each block \
               size):\n\n\
               - x86-64: 1 GiB\n\
               - arm64 with base pages of 4 KiB: 32 MiB and 1 GiB\n\
               - arm64 with base pages of 16 KiB: 1 GiB\n\
               - arm64 with base pages of 64 KiB: 16 GiB",
        why: "Files are read late in the boot, when memory is in use. A 1 GiB page needs 1 GiB in one piece, and \
              finding one then is a matter of luck: the write succeeds, and the pool has fewer pages or none. A \
              server that insists on them doesn't start.",
        cost: "after a boot the pool may have fewer pages than its file says, or none",
        fix: "Reserve them on the kernel command line (hugepagesz=1G hugepages=N), which takes them before anything \
              else.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: the most reliable way is at boot time",
            "Linux mm/hugetlb.c, hstate_is_gigantic: of an order beyond MAX_PAGE_ORDER (ARCH_FORCE_MAX_ORDER of arch/*/Kconfig)",
            "Measured on Linux 6.1: 4 written to the 1 GiB pool of a host with 3.8 GiB free gives 0, and no error",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    let mut findings = Vec::new();
    for pool in crate::known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let Some(step) = boot::pool_of_files(host, page)?.pop() else { continue };
        let (asked, early) = (PageCount(step.value), boot::reserved_early(host, page).map(|(pages, _)| pages));
        let late = asked.saturating_sub(early.unwrap_or_default());
        if late == PageCount::ZERO {
            continue;
        }
        let evidence = vec![format!("{}: {asked}", step.place)];
        if host.is_gigantic(page) {
            let uses =
                |it: &Instance| demand::held(it, page) > PageCount::ZERO || demand::page_size(host, it) == Some(page);
            if !facts.instances.iter().any(uses) {
                continue;
            }
            let short = format!("{} {} asked for late in the boot", late.in_pages_of(page), late.are());
            let summary = format!("{short}, when few may be found");
            let remedies = vec![Remedy::KeepAtBoot(page)];
            findings.push(Finding { short, evidence, remedies, ..RULE.finding(Level::Warn, None, summary) });
            continue;
        }
        let Some(part) = host.memory.total.get().and_then(|total| late.of(page).part_of(total)) else { continue };
        // Where the pools starve the host, that is what is to be said of it.
        if part >= boot::LARGE_PART && !starving::starves(facts.host) {
            let summary = format!(
                "{}, {} of memory, {} asked for late in the boot",
                late.in_pages_of(page),
                percent(part),
                late.are()
            );
            let short = summary.clone();
            let consider = "reserve them on the kernel's command line (hugewise plan --early)";
            let remedies = vec![Remedy::Consider(consider.into())];
            findings.push(Finding { short, evidence, remedies, ..RULE.finding(Level::Info, None, summary) });
        }
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = large_pages(hugewise_model::PageSize::GIB_1);
        case.host.configuration.boot = crate::testing::quiet().host.configuration.boot;
        case
    },
    silent: || large_pages(hugewise_model::PageSize::GIB_1),
    missing: || {
        let mut case = large_pages(hugewise_model::PageSize::GIB_1);
        case.host.configuration.tmpfiles = hugewise_model::Observed::Denied;
        case
    },
};

/// A server of 4 GiB on such pages, which the command line and a file bring.
#[cfg(test)]
fn large_pages(page: hugewise_model::PageSize) -> crate::testing::Case {
    use hugewise_model::Observed::Known;
    use hugewise_model::configuration::TmpfilesWrite;
    let pages = page.pages_for(crate::testing::gib(4));
    let mut case = crate::testing::quiet();
    let server = crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(4)));
    server.asked_page_size = Known(page);
    server.segments.iter_mut().for_each(|segment| segment.page_size = Known(page));
    server.demand = server.demand.take().map(|it| hugewise_model::Demand { page_size: page, pages, ..it });
    case.pools()[1].page_size = page;
    case.pools()[1].total = Known(pages);
    let words = [format!("hugepagesz={}", crate::words::boot_name(page)), format!("hugepages={pages}")];
    if let Known(entry) = &mut case.host.configuration.boot {
        entry.command_line.extend(words);
    }
    case.host.configuration.tmpfiles = Known(vec![TmpfilesWrite {
        path: crate::words::pool_file(page, "nr_hugepages"),
        value: pages.get().to_string(),
        place: crate::testing::place("/etc/tmpfiles.d/db.conf"),
    }]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::host::ZoneFreeBlocks;
    use hugewise_model::{Observed, PageSize};

    use super::*;
    use crate::standing::Standing;
    use crate::testing::{Case, quiet};

    fn at_boot(case: &Case) -> Standing {
        let assessment = case.assess();
        assessment.situation.of(&case.instances[0]).unwrap().boot.standing.clone()
    }

    #[test]
    fn only_the_command_line_secures_pages_of_1_gib() {
        let mut case = large_pages(PageSize::GIB_1);
        assert_eq!(at_boot(&case), Standing::All);
        case.host.configuration.boot = quiet().host.configuration.boot;
        assert_eq!(at_boot(&case), Standing::Unknown);
    }

    /// arm64 with base pages of 4 KiB has pools of 32 MiB, and blocks of 4 MiB at most (arch/arm64/Kconfig).
    #[test]
    fn pages_of_32_mib_are_had_by_luck_where_no_block_is_as_large() {
        let speaks = |orders: usize, early: bool| {
            let mut case = large_pages(PageSize::from_kib(32 << 10).unwrap());
            case.host.architecture = Observed::Known("aarch64".into());
            let zone = ZoneFreeBlocks { node: 0, zone: "Normal".into(), blocks: vec![0; orders] };
            case.host.memory.free_blocks = Observed::Known(vec![zone]);
            if !early {
                case.host.configuration.boot = quiet().host.configuration.boot;
            }
            (at_boot(&case), case.assess().findings.iter().any(|it| it.code == RULE.code))
        };
        assert_eq!(speaks(11, true), (Standing::All, false));
        assert_eq!(speaks(11, false), (Standing::Unknown, true));
        assert_eq!(speaks(14, false), (Standing::All, false), "a kernel that was built with larger blocks");
    }

    #[test]
    fn a_pool_of_small_pages_is_a_note_where_it_is_large() {
        let level = |pages: u64| {
            let mut case = quiet();
            case.pool(pages, pages);
            case.assess().findings.iter().find(|it| it.code == RULE.code).map(|it| it.level)
        };
        // 71 and 67 % of 64 GiB.
        assert_eq!(level(23_300), Some(Level::Info));
        assert_eq!(level(22_000), None);
    }
}
