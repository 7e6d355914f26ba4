use hugewise_model::host::{NodePool, NumaNode, TlbHolds, TlbLevel};
use hugewise_model::{Bytes, Host, Observed, PageCount, Pool};

use super::Reasons;
use super::json_view::json_view;
use crate::date::format_rfc3339;

json_view! {
    /// One machine's memory set-up at one moment.
    pub struct HostJson from(host: &Host), reasons {
        let memory = &host.memory;
        let swap_free = memory
            .swap_total
            .reason_text()
            .or_else(|| memory.swap_free.reason_text())
            .unwrap_or_default();
        let read_at = host.read_at.clone().and_then(|seconds| match format_rfc3339(seconds) {
            Some(text) => Observed::Known(text),
            None => Observed::Malformed(format!("{seconds} s after the epoch")),
        });
    } => {
        /// Host name.
        name: Option<String> = reasons.value_or_reason("name", &host.name),
        /// Operating system.
        os: Option<String> = reasons.value_or_reason("os", &host.os),
        /// Kernel release.
        kernel: Option<String> =
            reasons.value_or_reason("kernel", &host.kernel).map(|kernel| kernel.text),
        /// `uname -m`.
        architecture: Option<String> = reasons.value_or_reason("architecture", &host.architecture),
        /// Online processors.
        processors: Option<u64> = reasons.value_or_reason("processors", &host.processors.online),
        /// Size of a base page.
        base_page_bytes: Option<u64> =
            reasons.value_or_reason("base_page_bytes", &host.base_page).map(u64::from),
        /// Default size of a huge page, for programs that name none.
        default_huge_page_bytes: Option<u64> = reasons
            .value_or_reason("default_huge_page_bytes", &host.default_huge_page)
            .map(u64::from),
        /// When the facts were read, RFC 3339.
        #[schemars(extend("format" = "date-time"))]
        read_at: Option<String> = reasons.value_or_reason("read_at", &read_at),
        /// Whether these are the facts of the running machine, not of a captured one.
        live: bool = host.live,
        /// `MemTotal`.
        memory_bytes: Option<u64> = reasons.bytes_or_reason("memory_bytes", &memory.total),
        /// `MemFree`.
        memory_free_bytes: Option<u64> =
            reasons.bytes_or_reason("memory_free_bytes", &memory.free),
        /// `MemAvailable`.
        memory_available_bytes: Option<u64> =
            reasons.bytes_or_reason("memory_available_bytes", &memory.available),
        /// `SwapTotal`.
        swap_total_bytes: Option<u64> =
            reasons.bytes_or_reason("swap_total_bytes", &memory.swap_total),
        /// Swap in use.
        swap_used_bytes: Option<u64> = reasons.derived_or_reason(
            "swap_used_bytes",
            memory.swap_used().map(Bytes::get),
            &swap_free,
        ),
        /// Page tables of all processes.
        page_tables_bytes: Option<u64> =
            reasons.bytes_or_reason("page_tables_bytes", &memory.page_tables),
        /// Transparent huge pages.
        thp: ThpJson = ThpJson::from(&host.thp),
        /// Pools of huge pages: for each size the whole host, then each NUMA node.
        pools: Option<Vec<PoolJson>> = reasons.value_or_reason("pools", &host.pools).map(|pools| {
            pools.iter().flat_map(|pool| PoolJson::pools_per_node(pool, host)).collect()
        }),
        /// NUMA nodes.
        nodes: Option<Vec<NumaNodeJson>> = reasons
            .value_or_reason("nodes", &host.nodes)
            .map(|nodes| nodes.iter().map(NumaNodeJson::from).collect()),
        /// Translation buffers by page size.
        tlb: Option<Vec<TlbBuffer>> = reasons
            .value_or_reason("tlb", &host.processors.tlb)
            .map(|tlb| tlb.iter().map(TlbBuffer::from).collect()),
    }
}

json_view! {
    /// Transparent huge pages.
    pub struct ThpJson from(thp: &hugewise_model::host::Thp), reasons => {
        /// `always`, `madvise`, `never`.
        enabled: Option<String> = reasons.value_or_reason("enabled", &thp.enabled),
        /// When an allocation may wait for compaction.
        defrag: Option<String> = reasons.value_or_reason("defrag", &thp.defrag),
        /// The same switch for shared memory.
        shmem_enabled: Option<String> =
            reasons.value_or_reason("shmem_enabled", &thp.shmem_enabled),
    }
}

json_view! {
    /// Huge pages of one size, on the whole host or on one NUMA node.
    pub struct PoolJson new(pool: &Pool, part: Option<&NodePool>, host: &Host), reasons {
        let pages = |field, fact: &Observed<PageCount>, reasons: &mut Reasons| {
            reasons.value_or_reason(field, fact).map(PageCount::get)
        };
        let whole = |field, value: Option<PageCount>, why: Option<String>, reasons: &mut Reasons| {
            let (value, why) = match part {
                None => (value.map(PageCount::get), why.unwrap_or_default()),
                Some(_) => (None, WHOLE_HOST.to_owned()),
            };
            reasons.derived_or_reason(field, value, &why)
        };
        let counts = [&pool.total, &pool.free, &pool.reserved];
        let missing = || counts.into_iter().find_map(Observed::reason_text);
        let node = part.map(|part| part.node);
        let [total, free, surplus] = match part {
            None => [&pool.total, &pool.free, &pool.surplus],
            Some(part) => [&part.total, &part.free, &part.surplus],
        };
    } => {
        /// Page size.
        page_bytes: u64 = pool.page_size.into(),
        /// NUMA node; null for the whole host.
        node: Option<u32> = node,
        /// Pages in the pool.
        total_pages: Option<u64> = pages("total_pages", total, &mut reasons),
        /// Free pages, including the reserved ones.
        free_pages: Option<u64> = pages("free_pages", free, &mut reasons),
        /// Pages reserved and not yet touched. The kernel counts these for the whole host only.
        reserved_pages: Option<u64> = whole(
            "reserved_pages", pool.reserved.get(), pool.reserved.reason_text(), &mut reasons,
        ),
        /// Pages above the configured number.
        surplus_pages: Option<u64> = pages("surplus_pages", surplus, &mut reasons),
        /// Surplus pages that the pool may take on demand. For the whole host only.
        overcommit_pages: Option<u64> = whole(
            "overcommit_pages", pool.overcommit.get(), pool.overcommit.reason_text(), &mut reasons,
        ),
        /// total - free + reserved.
        committed_pages: Option<u64> =
            whole("committed_pages", pool.committed_pages(), missing(), &mut reasons),
        /// free - reserved.
        available_pages: Option<u64> =
            whole("available_pages", pool.available_pages(), missing(), &mut reasons),
        /// Pages of this size that free memory outside of the pool has room for in one piece: so
        /// many the pool can get at most without the kernel moving memory. Null for pages larger
        /// than any block of the kernel's page allocator.
        room_pages: Option<u64> = reasons.derived_or_reason(
            "room_pages",
            host.free_page_capacity(pool.page_size, node).map(PageCount::get),
            host.memory.free_blocks.reason_text().as_deref().unwrap_or(NO_BLOCK),
        ),
    }
}

const WHOLE_HOST: &str = "absent: the kernel keeps it for the whole host only";
const NO_BLOCK: &str = "absent: larger than any block of the kernel's page allocator";

impl PoolJson {
    fn pools_per_node(pool: &Pool, host: &Host) -> Vec<Self> {
        let nodes = pool.nodes.iter().map(Some);
        std::iter::once(None).chain(nodes).map(|part| Self::new(pool, part, host)).collect()
    }
}

json_view! {
    /// One NUMA node.
    pub struct NumaNodeJson from(node: &NumaNode), reasons => {
        /// Its number.
        node: u32 = node.id,
        /// Memory on it.
        memory_bytes: Option<u64> = reasons.bytes_or_reason("memory_bytes", &node.total),
        /// Free memory on it.
        memory_free_bytes: Option<u64> = reasons.bytes_or_reason("memory_free_bytes", &node.free),
    }
}

json_view! {
    /// Entries of one translation buffer for one page size.
    pub struct TlbBuffer from(buffer: &TlbLevel) => {
        /// 1 is nearest to the core.
        level: u8 = buffer.level,
        /// What it serves.
        #[schemars(extend("enum" = ["data", "instructions", "both"]))]
        holds: &'static str = match buffer.holds {
            TlbHolds::Data => "data",
            TlbHolds::Instructions => "instructions",
            TlbHolds::Both => "both",
        },
        /// Page size of these entries.
        page_bytes: u64 = buffer.page_size.into(),
        /// Number of entries.
        entries: u32 = buffer.entries,
    }
}
