use hugewise_model::{Instance, Level, PageCount, Remedy};

use crate::wording::render_percent;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot, demand, starvation};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW605"),
    name: "pages-asked-late",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Gigantic pages that a server here uses or asks for, but that are reserved late in \
               the boot: by sysctl.d, tmpfiles.d or tuned instead of the kernel command line. This \
               is a warning. A pool of smaller pages that those files set up is a note if it takes \
               {LARGE_PART} of memory or more. Gigantic pages are larger than any block of the kernel's \
               page allocator (/proc/buddyinfo has a column for each block size):\n\n- x86-64: 1 \
               GiB\n- arm64 with base pages of 4 KiB: 32 MiB and 1 GiB\n- arm64 with base pages of \
               16 KiB: 1 GiB\n- arm64 with base pages of 64 KiB: 16 GiB",
        why: "Files are read late in the boot, when memory is in use. A 1 GiB page needs 1 GiB in \
              one piece, and finding one then is a matter of luck: the write succeeds, and the \
              pool has fewer pages or none. A server that insists on them doesn't start.",
        cost: "after a boot the pool may have fewer pages than its file says, or none",
        fix: "Reserve them on the kernel command line (hugepagesz=1G hugepages=N), which takes \
              them before anything else.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: the most reliable way is at boot \
             time",
            "Linux mm/hugetlb.c, hstate_is_gigantic: of an order beyond MAX_PAGE_ORDER \
             (ARCH_FORCE_MAX_ORDER of arch/*/Kconfig)",
            "Measured on Linux 6.1: 4 written to the 1 GiB pool of a host with 3.8 GiB free gives \
             0, and no error",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pages_asked_late),
};

fn check_pages_asked_late(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    let mut findings = Vec::new();
    for pool in crate::require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let Some(step) = boot::pool_of_files(host, page)?.pop() else { continue };
        let (asked, early) =
            (PageCount(step.value), boot::reserved_early(host, page).map(|(pages, _)| pages));
        let late = asked.saturating_sub(early.unwrap_or_default());
        if late == PageCount::ZERO {
            continue;
        }
        let evidence = vec![format!("{}: {asked}", step.place)];
        if host.is_gigantic(page) {
            let uses = |instance: &Instance| demand::uses_page_size(host, instance, page);
            if !facts.instances.iter().any(uses) {
                continue;
            }
            let short = format!(
                "{} {} asked for late in the boot",
                late.in_pages_of(page),
                late.linking_verb()
            );
            let summary = format!("{short}, when few may be found");
            let remedies = vec![facts.keep_at_boot(page, None)];
            findings.push(RULE.new_finding(Level::Warn, None, summary, short, evidence, remedies));
            continue;
        }
        let part = host.memory.total.get().and_then(|total| late.to_bytes(page).part_of(total));
        // Where the pools starve the host, that is what is to be said of it.
        let is_told = |part: &f64| *part >= boot::LARGE_PART && !starvation::is_starving(host);
        let Some(part) = part.filter(is_told) else { continue };
        let summary = format!(
            "{}, {} of memory, {} asked for late in the boot",
            late.in_pages_of(page),
            render_percent(part),
            late.linking_verb()
        );
        let short = summary.clone();
        let consider = "reserve them on the kernel's command line (hugewise plan --early)";
        let remedies = vec![Remedy::Consider(consider.into())];
        findings.push(RULE.new_finding(Level::Info, None, summary, short, evidence, remedies));
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
    server.demand = server.demand.take().map(|demand| hugewise_model::Demand {
        page_size: page,
        pages,
        ..demand
    });
    case.pools()[1].page_size = page;
    case.pools()[1].total = Known(pages);
    let words =
        [format!("hugepagesz={}", crate::wording::boot_name(page)), format!("hugepages={pages}")];
    if let Known(entry) = &mut case.host.configuration.boot {
        entry.command_line.extend(words);
    }
    case.host.configuration.tmpfiles = Known(vec![TmpfilesWrite {
        path: crate::wording::pool_file(page, "nr_hugepages"),
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
    use crate::coverage::Coverage;
    use crate::testing::{Case, quiet};

    fn at_boot(case: &Case) -> Coverage {
        let assessment = case.assess();
        assessment.situation.forecasts_for(&case.instances[0]).unwrap().boot.coverage.clone()
    }

    #[test]
    fn only_the_command_line_secures_pages_of_1_gib() {
        let mut case = large_pages(PageSize::GIB_1);
        assert_eq!(at_boot(&case), Coverage::All);
        case.host.configuration.boot = quiet().host.configuration.boot;
        assert_eq!(at_boot(&case), Coverage::Unknown);
    }

    /// arm64 with base pages of 4 KiB has pools of 32 MiB, and blocks of 4 MiB at most
    /// (arch/arm64/Kconfig).
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
            (at_boot(&case), case.assess().findings.iter().any(|finding| finding.code == RULE.code))
        };
        assert_eq!(speaks(11, true), (Coverage::All, false));
        assert_eq!(speaks(11, false), (Coverage::Unknown, true));
        assert_eq!(
            speaks(14, false),
            (Coverage::All, false),
            "a kernel that was built with larger blocks"
        );
    }

    #[test]
    fn a_pool_of_small_pages_is_a_note_where_it_is_large() {
        let level = |pages: u64| {
            let mut case = quiet();
            case.pool(pages, pages);
            case.assess()
                .findings
                .iter()
                .find(|finding| finding.code == RULE.code)
                .map(|other_finding| other_finding.level)
        };
        // 71 and 67 % of 64 GiB.
        assert_eq!(level(23_300), Some(Level::Info));
        assert_eq!(level(22_000), None);
    }
}
