//! Metrics of the host: memory, page tables, pools, THP, compaction, processors.

use hugewise_diagnose::demand;
use hugewise_diagnose::prediction::HostPrediction;
use hugewise_model::host::NodePool;
use hugewise_model::{Bytes, Host, Observed, PageCount, Pool};

use super::CpuSeconds;
use super::families::{Families, Labels, MetricKind};
use crate::CheckReport;

/// Counters of /proc/vmstat: the kernel's name, the metric's, and what it counts
/// (Documentation/admin-guide/mm/transhuge.rst, hugetlbpage.rst).
const COUNTERS: [(&str, &str, &str); 17] = [
    (
        "thp_fault_alloc",
        "hugewise_thp_fault_alloc_total",
        "Transparent huge pages allocated at a page fault.",
    ),
    (
        "thp_fault_fallback",
        "hugewise_thp_fault_fallback_total",
        "Page faults that fell back to base pages.",
    ),
    (
        "thp_collapse_alloc",
        "hugewise_thp_collapse_alloc_total",
        "Huge pages that khugepaged made from base pages.",
    ),
    (
        "thp_collapse_alloc_failed",
        "hugewise_thp_collapse_alloc_failed_total",
        "Times that khugepaged found no huge page.",
    ),
    ("thp_split_page", "hugewise_thp_split_page_total", "Huge pages split into base pages."),
    ("thp_split_pmd", "hugewise_thp_split_pmd_total", "Mappings of a huge page split."),
    (
        "thp_file_alloc",
        "hugewise_thp_file_alloc_total",
        "Huge pages allocated for shared memory and files.",
    ),
    ("thp_zero_page_alloc", "hugewise_thp_zero_page_alloc_total", "Huge zero pages made."),
    (
        "compact_stall",
        "hugewise_compact_stall_total",
        "Times that a process had to wait for compaction.",
    ),
    ("compact_success", "hugewise_compact_success_total", "Compactions that made a huge page."),
    ("compact_fail", "hugewise_compact_fail_total", "Compactions that made none."),
    (
        "compact_daemon_wake",
        "hugewise_compact_daemon_wake_total",
        "Times that kcompactd was woken.",
    ),
    (
        "htlb_buddy_alloc_success",
        "hugewise_pool_alloc_success_total",
        "Pages allocated for the pools.",
    ),
    (
        "htlb_buddy_alloc_fail",
        "hugewise_pool_alloc_fail_total",
        "Pages for the pools that could not be allocated.",
    ),
    ("pswpin", "hugewise_swap_in_pages_total", "Base pages read from swap."),
    ("pswpout", "hugewise_swap_out_pages_total", "Base pages written to swap."),
    ("oom_kill", "hugewise_oom_kill_total", "Processes killed because memory ran out."),
];

pub(super) fn write(out: &mut Families, checked: &CheckReport<'_>, cpu: Option<CpuSeconds>) {
    let host = checked.host;
    write_host_info(out, host);
    write_memory(out, host);
    write_pools(out, checked);
    node_pools(out, host);
    write_thp(out, host);
    if let Some(counters) = host.memory.vmstat.as_known() {
        for (kernels, name, help) in COUNTERS {
            out.begin_family(name, MetricKind::Counter, help);
            out.add_known_sample(&Labels::none(), counters.get(kernels));
        }
    }
    out.begin_family(
        "hugewise_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of all processors together since boot.",
    );
    if let Some(cpu) = cpu {
        for (mode, seconds) in [("idle", cpu.idle), ("kernel", cpu.kernel), ("user", cpu.user)] {
            out.add_sample(&Labels::from_pairs([("mode", mode)]), seconds);
        }
    }
}

fn write_host_info(out: &mut Families, host: &Host) {
    out.begin_family("hugewise_host_info", MetricKind::Info, "The host.");
    let text = |fact: &Observed<String>| fact.as_known().cloned().unwrap_or_default();
    let kernel = host.kernel.as_known().map_or("", |kernel| kernel.text.as_str());
    let labels = [
        ("architecture", &*text(&host.architecture)),
        ("kernel", kernel),
        ("os", &*text(&host.os)),
    ];
    out.add_sample(&Labels::from_pairs(labels), 1_u64);
}

fn write_memory(out: &mut Families, host: &Host) {
    let memory = &host.memory;
    let facts: [(&'static str, &str, &Observed<Bytes>); 8] = [
        ("hugewise_memory_bytes", "Memory of the host (MemTotal).", &memory.total),
        ("hugewise_memory_free_bytes", "Free memory (MemFree).", &memory.free),
        (
            "hugewise_memory_available_bytes",
            "Memory available without swapping (MemAvailable).",
            &memory.available,
        ),
        (
            "hugewise_page_tables_bytes",
            "Page tables of all processes (PageTables).",
            &memory.page_tables,
        ),
        (
            "hugewise_thp_anonymous_bytes",
            "Private memory on transparent huge pages.",
            &memory.anonymous_huge,
        ),
        (
            "hugewise_thp_shmem_bytes",
            "Shared memory on transparent huge pages.",
            &memory.shmem_huge,
        ),
        ("hugewise_swap_bytes", "Swap space (SwapTotal).", &memory.swap_total),
        ("hugewise_swap_free_bytes", "Free swap space (SwapFree).", &memory.swap_free),
    ];
    for (name, help, fact) in facts {
        out.add_gauge(name, help, fact.get().map(Bytes::get));
    }
    out.add_gauge(
        "hugewise_pools_bytes",
        "Memory of all pools of all page sizes (Hugetlb).",
        memory.hugetlb.get().map(Bytes::get).or_else(|| in_pools(host)),
    );
}

/// Older kernels have no `Hugetlb`: without this sum, a fleet's total would miss their pools.
fn in_pools(host: &Host) -> Option<u64> {
    let bytes = |pool: &Pool| Some(pool.total.get()?.to_bytes(pool.page_size).get());
    host.pools
        .as_known()?
        .iter()
        .try_fold(0_u64, |sum, pool| Some(sum.saturating_add(bytes(pool)?)))
}

/// Pages that servers ask for beyond what they can get from the pool.
fn pool_shortfall(host: &Host, pool: &Pool, situation: &HostPrediction) -> Option<u64> {
    let wanted = situation.pages_wanted(pool.page_size);
    // A server that restarts frees what it has on base pages.
    let there = demand::pages_obtainable(host, pool, wanted.to_bytes(pool.page_size))?;
    Some(wanted.saturating_sub(there).get())
}

type PoolFact<'a> = (&'static str, &'static str, &'a dyn Fn(&Pool) -> Option<u64>);

fn write_pools(out: &mut Families, checked: &CheckReport<'_>) {
    let Some(pools) = checked.host.pools.as_known() else { return };
    let (host, situation) = (checked.host, &checked.assessment.situation);
    let target = |pool: &Pool| Some(checked.assessment.target.pool(pool.page_size)?.goal.get());
    let at_boot = |pool: &Pool| {
        let goal = checked.assessment.target.pool(pool.page_size)?;
        Some(goal.pages_from_next_boot(checked.host, checked.instances).get())
    };
    let pages = |fact: &Observed<PageCount>| fact.get().map(PageCount::get);
    let facts: [PoolFact<'_>; 10] = [
        ("hugewise_pool_pages", "Pages in the pool, surplus ones included.", &|pool| {
            pages(&pool.total)
        }),
        ("hugewise_pool_free_pages", "Free pages, including reserved ones.", &|pool| {
            pages(&pool.free)
        }),
        ("hugewise_pool_reserved_pages", "Pages reserved but not yet touched.", &|pool| {
            pages(&pool.reserved)
        }),
        ("hugewise_pool_surplus_pages", "Pages above the configured number.", &|pool| {
            pages(&pool.surplus)
        }),
        (
            "hugewise_pool_overcommit_pages",
            "Surplus pages that the pool may take on demand.",
            &|pool| pages(&pool.overcommit),
        ),
        ("hugewise_pool_committed_pages", "Pages spoken for: total - free + reserved.", &|pool| {
            pool.committed_pages().map(PageCount::get)
        }),
        (
            "hugewise_pool_available_pages",
            "Pages available to a new mapping: free - reserved.",
            &|pool| pool.available_pages().map(PageCount::get),
        ),
        (
            "hugewise_pool_shortfall_pages",
            "Pages that servers ask for but the pool does not have.",
            &|pool| pool_shortfall(host, pool, situation),
        ),
        (
            "hugewise_pool_target_pages",
            "Pages that the pool should have for the servers here.",
            &target,
        ),
        (
            "hugewise_pool_boot_target_pages",
            "Pages that the pool should have after the next boot.",
            &at_boot,
        ),
    ];
    for (name, help, fact) in facts {
        out.begin_family(name, MetricKind::Gauge, help);
        for pool in pools {
            let labels = Labels::from_pairs([("page_bytes", &*page_bytes(pool))]);
            out.add_known_sample(&labels, fact(pool));
        }
    }
}

type NodeFact<'a> = (&'static str, &'static str, &'a dyn Fn(&NodePool) -> Option<u64>);

/// With names of their own, so that a sum over a pool's metric counts no page twice.
fn node_pools(out: &mut Families, host: &Host) {
    let pages = |fact: &Observed<PageCount>| fact.get().map(PageCount::get);
    let facts: [NodeFact<'_>; 3] = [
        ("hugewise_pool_node_pages", "Pages of the pool on a NUMA node.", &|part| {
            pages(&part.total)
        }),
        ("hugewise_pool_node_free_pages", "Of these, free pages.", &|part| pages(&part.free)),
        ("hugewise_pool_node_surplus_pages", "Of these, surplus pages.", &|part| {
            pages(&part.surplus)
        }),
    ];
    for (name, help, fact) in facts {
        out.begin_family(name, MetricKind::Gauge, help);
        for pool in host.pools.as_known().into_iter().flatten() {
            let labels = Labels::from_pairs([("page_bytes", &*page_bytes(pool))]);
            for part in &pool.nodes {
                out.add_known_sample(
                    &labels.with_label("node", &part.node.to_string()),
                    fact(part),
                );
            }
        }
    }
}

fn page_bytes(pool: &Pool) -> String {
    u64::from(pool.page_size).to_string()
}

fn write_thp(out: &mut Families, host: &Host) {
    out.begin_family(
        "hugewise_thp_mode",
        MetricKind::Gauge,
        "The transparent huge page switch: 1 for the mode that is set.",
    );
    if let Some(set) = host.thp.enabled.as_known() {
        for mode in ["always", "madvise", "never"] {
            out.add_sample(&Labels::from_pairs([("mode", mode)]), set == mode);
        }
    }
}
