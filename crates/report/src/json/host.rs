use hugewise_model::host::{NodePool, NumaNode, TlbHolds, TlbLevel};
use hugewise_model::{Bytes, Observed, PageCount, PageSize};
use schemars::JsonSchema;
use serde::Serialize;

use super::Reasons;
use crate::date::format_rfc3339;

/// One machine's memory set-up at one moment.
#[derive(Serialize, JsonSchema)]
pub struct HostJson {
    /// Host name.
    pub name: Option<String>,
    /// Operating system.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// `uname -m`.
    pub architecture: Option<String>,
    /// Online processors.
    pub processors: Option<u64>,
    /// Size of a base page.
    pub base_page_bytes: Option<u64>,
    /// Default size of a huge page, for programs that name none.
    pub default_huge_page_bytes: Option<u64>,
    /// When the facts were read, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub read_at: Option<String>,
    /// Whether these are the facts of the running machine, not of a captured one.
    pub live: bool,
    /// `MemTotal`.
    pub memory_bytes: Option<u64>,
    /// `MemFree`.
    pub memory_free_bytes: Option<u64>,
    /// `MemAvailable`.
    pub memory_available_bytes: Option<u64>,
    /// `SwapTotal`.
    pub swap_total_bytes: Option<u64>,
    /// Swap in use.
    pub swap_used_bytes: Option<u64>,
    /// Page tables of all processes.
    pub page_tables_bytes: Option<u64>,
    /// Transparent huge pages.
    pub thp: ThpJson,
    /// Pools of huge pages: for each size the whole host, then each NUMA node.
    pub pools: Option<Vec<PoolJson>>,
    /// NUMA nodes.
    pub nodes: Option<Vec<NumaNodeJson>>,
    /// Translation buffers by page size.
    pub tlb: Option<Vec<TlbBuffer>>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// Transparent huge pages.
#[derive(Serialize, JsonSchema)]
pub struct ThpJson {
    /// `always`, `madvise`, `never`.
    pub enabled: Option<String>,
    /// When an allocation may wait for compaction.
    pub defrag: Option<String>,
    /// The same switch for shared memory.
    pub shmem_enabled: Option<String>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// Huge pages of one size, on the whole host or on one NUMA node.
#[derive(Serialize, JsonSchema)]
pub struct PoolJson {
    /// Page size.
    pub page_bytes: u64,
    /// NUMA node; null for the whole host.
    pub node: Option<u32>,
    /// Pages in the pool.
    pub total_pages: Option<u64>,
    /// Free pages, including the reserved ones.
    pub free_pages: Option<u64>,
    /// Pages reserved and not yet touched. The kernel counts these for the whole host only.
    pub reserved_pages: Option<u64>,
    /// Pages above the configured number.
    pub surplus_pages: Option<u64>,
    /// Surplus pages that the pool may take on demand. For the whole host only.
    pub overcommit_pages: Option<u64>,
    /// total - free + reserved.
    pub committed_pages: Option<u64>,
    /// free - reserved.
    pub available_pages: Option<u64>,
    /// Pages of this size that free memory outside of the pool has room for in one piece: so many
    /// the pool can get at most without the kernel moving memory. Null for pages larger than any
    /// block of the kernel's page allocator.
    pub room_pages: Option<u64>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// One NUMA node.
#[derive(Serialize, JsonSchema)]
pub struct NumaNodeJson {
    /// Its number.
    pub node: u32,
    /// Memory on it.
    pub memory_bytes: Option<u64>,
    /// Free memory on it.
    pub memory_free_bytes: Option<u64>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// Entries of one translation buffer for one page size.
#[derive(Serialize, JsonSchema)]
pub struct TlbBuffer {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What it serves.
    #[schemars(extend("enum" = ["data", "instructions", "both"]))]
    pub holds: &'static str,
    /// Page size of these entries.
    pub page_bytes: u64,
    /// Number of entries.
    pub entries: u32,
}

impl From<&hugewise_model::Host> for HostJson {
    fn from(host: &hugewise_model::Host) -> Self {
        let mut reasons = Reasons::default();
        let memory = &host.memory;
        let mut bytes =
            |field, fact: &Observed<Bytes>| reasons.value_or_reason(field, fact).map(Bytes::get);
        let memory_bytes = bytes("memory_bytes", &memory.total);
        let memory_free_bytes = bytes("memory_free_bytes", &memory.free);
        let memory_available_bytes = bytes("memory_available_bytes", &memory.available);
        let swap_total_bytes = bytes("swap_total_bytes", &memory.swap_total);
        let page_tables_bytes = bytes("page_tables_bytes", &memory.page_tables);
        let swap_free = memory
            .swap_total
            .reason_text()
            .or_else(|| memory.swap_free.reason_text())
            .unwrap_or_default();
        let swap_used_bytes = reasons.derived_or_reason(
            "swap_used_bytes",
            memory.swap_used().map(Bytes::get),
            &swap_free,
        );
        let read_at = host.read_at.clone().and_then(|seconds| match format_rfc3339(seconds) {
            Some(text) => Observed::Known(text),
            None => Observed::Malformed(format!("{seconds} s after the epoch")),
        });
        Self {
            name: reasons.value_or_reason("name", &host.name),
            os: reasons.value_or_reason("os", &host.os),
            kernel: reasons.value_or_reason("kernel", &host.kernel).map(|kernel| kernel.text),
            architecture: reasons.value_or_reason("architecture", &host.architecture),
            processors: reasons.value_or_reason("processors", &host.processors.online),
            base_page_bytes: reasons
                .value_or_reason("base_page_bytes", &host.base_page)
                .map(u64::from),
            default_huge_page_bytes: reasons
                .value_or_reason("default_huge_page_bytes", &host.default_huge_page)
                .map(u64::from),
            read_at: reasons.value_or_reason("read_at", &read_at),
            live: host.live,
            memory_bytes,
            memory_free_bytes,
            memory_available_bytes,
            swap_total_bytes,
            swap_used_bytes,
            page_tables_bytes,
            thp: ThpJson::from(&host.thp),
            pools: reasons.value_or_reason("pools", &host.pools).map(|pools| {
                pools.iter().flat_map(|pool| PoolJson::pools_per_node(pool, host)).collect()
            }),
            nodes: reasons
                .value_or_reason("nodes", &host.nodes)
                .map(|nodes| nodes.iter().map(NumaNodeJson::from).collect()),
            tlb: reasons
                .value_or_reason("tlb", &host.processors.tlb)
                .map(|tlb| tlb.iter().map(TlbBuffer::from).collect()),
            reasons,
        }
    }
}

impl From<&hugewise_model::host::Thp> for ThpJson {
    fn from(thp: &hugewise_model::host::Thp) -> Self {
        let mut reasons = Reasons::default();
        Self {
            enabled: reasons.value_or_reason("enabled", &thp.enabled),
            defrag: reasons.value_or_reason("defrag", &thp.defrag),
            shmem_enabled: reasons.value_or_reason("shmem_enabled", &thp.shmem_enabled),
            reasons,
        }
    }
}

impl PoolJson {
    fn pools_per_node(pool: &hugewise_model::Pool, host: &hugewise_model::Host) -> Vec<Self> {
        let nodes = pool.nodes.iter().map(|node| Self::on_node(pool.page_size, node, host));
        std::iter::once(Self::on_host(pool, host)).chain(nodes).collect()
    }

    /// In pieces that are large enough, on a node or on the whole host.
    fn free_room(
        page: PageSize,
        node: Option<u32>,
        host: &hugewise_model::Host,
        reasons: &mut Reasons,
    ) -> Option<u64> {
        let blocks = host.memory.free_blocks.reason_text();
        let reason = blocks
            .as_deref()
            .unwrap_or("absent: larger than any block of the kernel's page allocator");
        reasons.derived_or_reason(
            "room_pages",
            host.free_page_capacity(page, node).map(PageCount::get),
            reason,
        )
    }

    fn on_host(pool: &hugewise_model::Pool, host: &hugewise_model::Host) -> Self {
        let mut reasons = Reasons::default();
        let mut pages = |field, fact: &Observed<PageCount>| {
            reasons.value_or_reason(field, fact).map(PageCount::get)
        };
        let total_pages = pages("total_pages", &pool.total);
        let free_pages = pages("free_pages", &pool.free);
        let reserved_pages = pages("reserved_pages", &pool.reserved);
        let surplus_pages = pages("surplus_pages", &pool.surplus);
        let overcommit_pages = pages("overcommit_pages", &pool.overcommit);
        let missing = [&pool.total, &pool.free, &pool.reserved]
            .into_iter()
            .find_map(Observed::reason_text)
            .unwrap_or_default();
        Self {
            page_bytes: pool.page_size.into(),
            node: None,
            total_pages,
            free_pages,
            reserved_pages,
            surplus_pages,
            overcommit_pages,
            committed_pages: reasons.derived_or_reason(
                "committed_pages",
                pool.committed_pages().map(PageCount::get),
                &missing,
            ),
            available_pages: reasons.derived_or_reason(
                "available_pages",
                pool.available_pages().map(PageCount::get),
                &missing,
            ),
            room_pages: Self::free_room(pool.page_size, None, host, &mut reasons),
            reasons,
        }
    }

    fn on_node(page_size: PageSize, node: &NodePool, host: &hugewise_model::Host) -> Self {
        const WHOLE_HOST: &str = "absent: the kernel keeps it for the whole host only";
        let mut reasons = Reasons::default();
        let mut pages = |field, fact: &Observed<PageCount>| {
            reasons.value_or_reason(field, fact).map(PageCount::get)
        };
        let total_pages = pages("total_pages", &node.total);
        let free_pages = pages("free_pages", &node.free);
        let surplus_pages = pages("surplus_pages", &node.surplus);
        Self {
            page_bytes: page_size.into(),
            node: Some(node.node),
            total_pages,
            free_pages,
            reserved_pages: reasons.derived_or_reason("reserved_pages", None, WHOLE_HOST),
            surplus_pages,
            overcommit_pages: reasons.derived_or_reason("overcommit_pages", None, WHOLE_HOST),
            committed_pages: reasons.derived_or_reason("committed_pages", None, WHOLE_HOST),
            available_pages: reasons.derived_or_reason("available_pages", None, WHOLE_HOST),
            room_pages: Self::free_room(page_size, Some(node.node), host, &mut reasons),
            reasons,
        }
    }
}

impl From<&NumaNode> for NumaNodeJson {
    fn from(node: &NumaNode) -> Self {
        let mut reasons = Reasons::default();
        Self {
            node: node.id,
            memory_bytes: reasons.value_or_reason("memory_bytes", &node.total).map(Bytes::get),
            memory_free_bytes: reasons
                .value_or_reason("memory_free_bytes", &node.free)
                .map(Bytes::get),
            reasons,
        }
    }
}

impl From<&TlbLevel> for TlbBuffer {
    fn from(buffer: &TlbLevel) -> Self {
        let holds = match buffer.holds {
            TlbHolds::Data => "data",
            TlbHolds::Instructions => "instructions",
            TlbHolds::Both => "both",
        };
        Self {
            level: buffer.level,
            holds,
            page_bytes: buffer.page_size.into(),
            entries: buffer.entries,
        }
    }
}
