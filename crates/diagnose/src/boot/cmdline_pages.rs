//! What the kernel's command line brings.

use hugewise_host::config::cmdline::{self, HugePageWords, KernelCmdlineRules};
use hugewise_model::{Host, PageCount, PageSize};

use super::command_line;
use crate::wording::boot_name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReservedPages {
    pub(super) total: u64,
    pub(super) nodes: Vec<(u32, u64)>,
    /// `hugetlb_cma=`, where the kernel makes none at boot for its sake.
    pub(super) left_to: Option<String>,
}

impl ReservedPages {
    /// The words that reserve as much: `hugepagesz=1G hugepages=4`.
    pub(super) fn render_boot_words(&self, host: &Host, page: PageSize) -> String {
        if let Some(word) = &self.left_to {
            return word.clone();
        }
        let count = if self.nodes.is_empty() {
            self.total.to_string()
        } else {
            let nodes: Vec<String> =
                self.nodes.iter().map(|(node, pages)| format!("{node}:{pages}")).collect();
            nodes.join(",")
        };
        let size = if default_size(host) == Some(page) {
            String::new()
        } else {
            format!("hugepagesz={} ", boot_name(page))
        };
        format!("{size}hugepages={count}")
    }
}

pub(super) fn read(host: &Host, words: &[String]) -> HugePageWords {
    if !words.iter().any(|word| word.contains("hugepage")) {
        return HugePageWords::default();
    }
    let sizes: Option<Vec<PageSize>> =
        host.pools.as_known().map(|pools| pools.iter().map(|pool| pool.page_size).collect());
    let x86 = host.architecture.as_known().is_some_and(|name| name == "x86_64");
    let has_size = |size: PageSize| match &sizes {
        Some(sizes) if !sizes.is_empty() => {
            let gib = size == PageSize::GIB_1 && host.processors.gib_pages.get() == Some(true);
            sizes.contains(&size) || (x86 && (size == PageSize::MIB_2 || gib))
        }
        _ => true,
    };
    let nodes = host.nodes.as_known();
    let has_node = |id: u32| {
        nodes.is_none_or(|nodes| nodes.is_empty() || nodes.iter().any(|node| node.id == id))
    };
    let since = |major, minor| host.kernel.as_known().map(|kernel| kernel.at_least(major, minor));
    // HUGE_MAX_HSTATE of the architectures that have more than two sizes.
    let most_sizes = match host.architecture.as_known().map(String::as_str) {
        Some("x86_64" | "s390x") => 2,
        Some("aarch64") => 4,
        _ => usize::MAX / 4,
    };
    let most_words = if since(6, 15) == Some(true) { 2 * most_sizes + 1 } else { usize::MAX };
    // Red Hat's 5.14 has what came with 5.16.
    let by_node = since(5, 14) != Some(false);
    let is_gigantic = |size: PageSize| host.is_gigantic(size);
    let is_gigantic_before_5_8: Option<&dyn Fn(PageSize) -> bool> =
        if is_before_5_8(host) { Some(&is_gigantic) } else { None };
    let rules = KernelCmdlineRules {
        has_size: &has_size,
        has_node: &has_node,
        most_words,
        by_node,
        is_gigantic_before_5_8,
    };
    cmdline::huge_page_words_of(words, rules)
}

/// Whether the words are surely read as before Linux 5.8 ("hugetlbfs: clean up command line
/// processing"). Later kernels of RHEL 8 may read them as after it.
fn is_before_5_8(host: &Host) -> bool {
    let kernel = host.kernel.as_known();
    kernel.is_some_and(|kernel| !kernel.at_least(5, 8) && !kernel.text.contains(".el8"))
}

pub(super) fn default_size_of(host: &Host, words: &[String]) -> Option<PageSize> {
    read(host, words).default_size.or_else(|| kernels_own_size(host))
}

/// Size of the pages that `vm.nr_hugepages` counts at the next boot; `None` where it is not known.
pub fn default_size(host: &Host) -> Option<PageSize> {
    match command_line(host) {
        Ok((words, _)) => default_size_of(host, words),
        Err(_) => host.default_huge_page.get(),
    }
}

fn kernels_own_size(host: &Host) -> Option<PageSize> {
    let running = host.default_huge_page.get();
    if host.command_line.as_known().is_none_or(|words| read(host, words).default_size.is_none()) {
        return running;
    }
    match host.architecture.as_known()?.as_str() {
        "x86_64" => Some(PageSize::MIB_2),
        "aarch64" => host.base_page.get().and_then(|base| {
            let bytes = base.bytes().get();
            PageSize::new(bytes.checked_mul(bytes / 8)?)
        }),
        _ => host.thp.pmd_size.get().or(running),
    }
}

pub(super) fn parse_reserved_pages(
    host: &Host,
    words: &[String],
    page: PageSize,
) -> Option<ReservedPages> {
    let read = read(host, words);
    let default = default_size_of(host, words);
    let value_of = |wanted: &dyn Fn(Option<PageSize>) -> bool| {
        let pools: Vec<_> = read.pools.iter().filter(|pool| wanted(pool.page_size)).collect();
        let nodes: Vec<(u32, u64)> =
            pools.iter().filter_map(|pool| Some((pool.node?, pool.pages.get()))).collect();
        let total = pools.iter().fold(0_u64, |sum, pool| sum.saturating_add(pool.pages.get()));
        (!pools.is_empty()).then_some(ReservedPages { total, nodes, left_to: None })
    };
    // Pages that stand before any size are of the default size, whatever is said of it later.
    let implicit = if default == Some(page) { value_of(&|size| size.is_none()) } else { None };
    let found = implicit.or_else(|| value_of(&|size| size == Some(page)))?;
    let cma = cmdline::assignments_of(words, |name| name == "hugetlb_cma").into_iter();
    let left_to = cma.rev().find(|(_, value, _)| value != "0").map(|(_, _, word)| word);
    // The kernel leaves gigantic pages to the contiguous allocator then.
    match left_to.filter(|_| host.is_gigantic(page)) {
        None => Some(found),
        left_to => Some(ReservedPages { total: 0, nodes: Vec::new(), left_to }),
    }
}

/// Whether `hugetlb_cma=` keeps the next boot from making pages of a size early: they can be had
/// for the asking later.
pub fn is_left_to_cma(host: &Host, page: PageSize) -> bool {
    let words = command_line(host).ok().map(|(words, _)| words);
    let reserved = words.and_then(|words| parse_reserved_pages(host, words, page));
    reserved.is_some_and(|reserved| reserved.left_to.is_some())
}

/// Pages of a size that the kernel that runs reserved as it booted, before any process.
pub(crate) fn reserved_by_command_line(host: &Host, page: PageSize) -> Option<PageCount> {
    let words = host.command_line.as_known()?;
    parse_reserved_pages(host, words, page).map(|reserved| PageCount(reserved.total))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of `page` that these words ask for on a kernel with that default size.
    fn pages_on_command_line(
        words: &[String],
        page: PageSize,
        default: Option<PageSize>,
    ) -> Option<u64> {
        let host = Host { default_huge_page: default.into(), ..Host::default() };
        parse_reserved_pages(&host, words, page).map(|reserved| reserved.total)
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_counts_by_size() {
        let pages =
            |line: &str, page| pages_on_command_line(&words(line), page, Some(PageSize::MIB_2));
        let line = "hugepagesz=1G hugepages=0:2,1:3 hugepagesz=2M hugepages=512 quiet";
        assert_eq!(pages(line, PageSize::MIB_2), Some(512));
        assert_eq!(pages(line, PageSize::GIB_1), Some(5));
        // "Using hugepages=8 for number of default huge pages", says the kernel.
        assert_eq!(pages(&format!("hugepages=8 {line}"), PageSize::MIB_2), Some(8));
        let line = "default_hugepagesz=1G hugepages=4";
        assert_eq!(pages(line, PageSize::GIB_1), Some(4));
        assert_eq!(pages(line, PageSize::MIB_2), None);
        assert_eq!(pages("hugepages=x", PageSize::MIB_2), None);
    }

    /// mm/hugetlb.c: "HugeTLB: hugetlb_cma is enabled, skip boot time allocation".
    #[test]
    fn what_is_left_to_cma_is_said_by_its_own_word() {
        let line = words("hugepagesz=1G hugepages=16 hugetlb_cma=32G");
        let host = Host { default_huge_page: Some(PageSize::MIB_2).into(), ..Host::default() };
        let reserved = parse_reserved_pages(&host, &line, PageSize::GIB_1).unwrap();
        assert_eq!(reserved.total, 0);
        assert_eq!(reserved.render_boot_words(&host, PageSize::GIB_1), "hugetlb_cma=32G");
        let off = words("hugepagesz=1G hugepages=16 hugetlb_cma=0");
        assert_eq!(parse_reserved_pages(&host, &off, PageSize::GIB_1).unwrap().total, 16);
    }

    #[test]
    fn sums_do_not_overflow() {
        let line = words(&format!("hugepages=0:{0},1:{0}", u64::MAX));
        assert_eq!(
            pages_on_command_line(&line, PageSize::MIB_2, Some(PageSize::MIB_2)),
            Some(u64::MAX)
        );
    }
}
