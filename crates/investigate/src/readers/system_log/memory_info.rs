//! What the kernel says of all memory in a report: Mem-Info, the sizes of pools, pages of RAM.
//!
//! Linux lib/show_mem.c and mm/page_alloc.c show_free_areas(), 2.6.9 to 6.18. Lines without a unit
//! count base pages. rsyslog writes `#012` for the ends of lines within one message.

use std::collections::BTreeMap;

use hugewise_model::{Bytes, PageSize};

use crate::event::MemoryReport;

/// Bytes of a base page where the report does not say: that of x86-64.
const USUAL_PAGE: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct MemoryInfo {
    /// Bytes of a base page, by the lists of free memory.
    page: Option<u64>,
    /// Pages of RAM, and those that the kernel keeps for itself.
    ram: Option<u64>,
    reserved: Option<u64>,
    tables: Option<u64>,
    shared: Option<u64>,
    /// KiB of page tables that nodes or zones tell of themselves.
    node_tables: Option<u64>,
    /// KiB that zones manage and that are free in them, and whether one has less than its marks.
    zones: (u64, u64),
    short_zone: bool,
    /// Pages and free pages of pools, by KiB of a page.
    pools: BTreeMap<u64, (u64, u64)>,
}

impl MemoryInfo {
    pub(super) fn parse_line(&mut self, message: &str) {
        if message.contains("hugepages_total=") {
            return self.push_pool_line(message);
        }
        if message.contains(" min:") && message.contains(" high:") {
            self.push_zone_line(message);
        }
        if message.starts_with("Node ") && message.contains("kB (") {
            self.page = self.page.or_else(|| parse_base_page(message));
        }
        for word in message.split([' ', '\t']).flat_map(|word| word.split("#012")) {
            let Some((name, amount)) = word.split_once(':') else { continue };
            if let Some(kib) = amount.strip_suffix("kB") {
                if name == "pagetables"
                    && let Ok(kib) = kib.parse::<u64>()
                {
                    self.node_tables = Some(self.node_tables.unwrap_or(0).saturating_add(kib));
                }
            } else if let Ok(pages) = amount.parse::<u64>() {
                match name {
                    "pagetables" => self.tables = Some(pages),
                    "shmem" => self.shared = Some(pages),
                    _ => {}
                }
            }
        }
        let pages = |behind: &str| {
            message.strip_suffix(behind).filter(|count| count.len() <= 15)?.trim().parse().ok()
        };
        self.ram = pages(" pages RAM").or_else(|| pages(" pages of RAM")).or(self.ram);
        self.reserved =
            pages(" pages reserved").or_else(|| pages(" reserved pages")).or(self.reserved);
    }

    /// `Node 0 hugepages_total=17410 hugepages_free=17000 hugepages_surp=0 hugepages_size=2048kB`
    fn push_pool_line(&mut self, message: &str) {
        let count_of = |name: &str| {
            super::oom::word_after(message, name)?.trim_end_matches("kB").parse::<u64>().ok()
        };
        if let (Some(total), Some(free), Some(size)) =
            (count_of("hugepages_total="), count_of("hugepages_free="), count_of("hugepages_size="))
        {
            let (all, left) = self.pools.entry(size).or_default();
            *all = all.saturating_add(total);
            *left = left.saturating_add(free);
        }
    }

    /// `Node 0 Normal free:49716kB min:2848kB low:3560kB high:4272kB ... present:524288kB ...`
    fn push_zone_line(&mut self, message: &str) {
        let kib = |name: &str| {
            super::oom::word_after(message, name)?.trim_end_matches("kB").parse::<u64>().ok()
        };
        let held = kib(" managed:").or_else(|| kib(" present:"));
        let (Some(free), Some(high), Some(held)) = (kib(" free:"), kib(" high:"), held) else {
            return;
        };
        let (all, left) = self.zones;
        self.zones = (all.saturating_add(held), left.saturating_add(free));
        self.short_zone |= free <= high;
    }

    /// Whether a quarter of memory was free, and no zone was short: something else was exhausted.
    pub(super) const fn has_plenty(&self) -> bool {
        let (all, left) = self.zones;
        all > 0 && !self.short_zone && left >= all / 4
    }

    /// Bytes of a base page, if the report says.
    pub(super) const fn base_page(&self) -> Option<u64> {
        self.page
    }

    /// `5122 huge pages of 2 MiB, 5000 of them free`, for each size.
    pub(super) fn describe_pools(&self) -> impl Iterator<Item = String> {
        self.pools.iter().filter(|(_, (total, _))| *total > 0).map(|(size, (total, free))| {
            let page = PageSize::from_kib(*size)
                .map_or_else(|| format!("{size} KiB"), |page| page.to_string());
            format!("{total} huge pages of {page}, {free} of them free")
        })
    }

    /// What the report says; page tables of `tasks` where it has no total of them. `None` where it
    /// says nothing of memory.
    pub(super) fn to_report(&self, tasks: Option<Bytes>) -> Option<MemoryReport> {
        let page = self.page.unwrap_or(USUAL_PAGE);
        let bytes = |pages: u64| Bytes(pages.saturating_mul(page));
        let pool_bytes = |pages: u64, kib: u64| Bytes::from_kib(pages.saturating_mul(kib));
        // Nodes count in KiB, for which the size of a page need not be known; some may be left out.
        let of_nodes = self.node_tables.map(Bytes::from_kib).filter(|_| self.page.is_none());
        let sum = |all: Bytes, more: Bytes| Bytes(all.0.saturating_add(more.0));
        let pools = self
            .pools
            .iter()
            .map(|(size, (total, free))| (pool_bytes(*total, *size), pool_bytes(*free, *size)));
        let report = MemoryReport {
            total: self
                .ram
                .map(|ram| bytes(ram.saturating_sub(self.reserved.unwrap_or(0))))
                .filter(|total| total.0 > 0),
            page_tables: of_nodes.or_else(|| self.tables.map(bytes)).or(tasks),
            shared: self.shared.map(bytes),
            pools: pools.reduce(|one, other| (sum(one.0, other.0), sum(one.1, other.1))),
            huge_page: self.pools.keys().next().copied().map(Bytes::from_kib),
        };
        (report != MemoryReport::default()).then_some(report)
    }
}

/// The smallest size in a list of free memory, a base page: `Node 0 DMA: 1*4kB (U) 0*8kB ...`.
fn parse_base_page(message: &str) -> Option<u64> {
    let (_, first) = message.split_ascii_whitespace().find_map(|word| word.split_once('*'))?;
    let kib = first.trim_end_matches("kB").parse::<u64>().ok()?;
    kib.checked_mul(1024).filter(|bytes| bytes.is_power_of_two())
}
