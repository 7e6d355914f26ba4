//! `hugewise size --format json`: `hugewise.size/1`.

use hugewise_diagnose::sizing;
use hugewise_diagnose::target::PoolGoal;
use hugewise_engines::{proposal, work_memory};
use hugewise_model::{Bytes, PageCount};
use schemars::JsonSchema;
use serde::Serialize;

use super::instance::{DemandJson, PageTablesAtMax, page_tables_at_max};
use super::{Reasons, UnreadFact};
use crate::SizeReport;

pub(crate) const SIZE_SCHEMA: &str = "hugewise.size/1";

/// What `hugewise size --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.size/1")]
pub struct SizeDocument {
    /// Name and version of this format.
    #[schemars(extend("const" = SIZE_SCHEMA))]
    pub schema: &'static str,
    /// Whether the host has room for the pools.
    pub fits: bool,
    /// Pools as they should be, by page size and node; empty if they don't fit.
    pub pools: Vec<PoolTargetJson>,
    /// Servers that the pools are for.
    pub instances: Vec<SizedInstance>,
    /// Servers that no pages are planned for.
    pub left_out: Vec<LeftOutServerJson>,
    /// Page tables, login cost and memory left, by sessions and page size.
    pub forecast: Vec<ForecastRowJson>,
    /// Limits that the demand depends on.
    pub limits: KernelLimitsJson,
    /// How the host's memory is divided.
    pub budget: MemoryBudgetJson,
    /// The same at the largest number of sessions the servers are configured for, with all the
    /// private memory that their settings grant; null if neither is known.
    pub budget_at_most: Option<MemoryBudgetJson>,
    /// Private memory of each server's processes.
    pub private_memory: Vec<PrivateMemory>,
    /// The host's huge page sizes, compared.
    pub choices: Vec<PageSizeRowJson>,
    /// Why it does not fit; null if it does.
    pub refusal: Option<SizingRefusalJson>,
    /// Everything that exists but could not be read.
    pub unread: Vec<UnreadFact>,
}

/// A pool, or one node's part of it.
#[derive(Serialize, JsonSchema)]
pub struct PoolTargetJson {
    /// Page size.
    pub page_bytes: u64,
    /// NUMA node; null on a host with one node, or whose nodes are not known.
    pub node: Option<u32>,
    /// Pages that it should have.
    pub pages: u64,
    /// Of these, pages beyond the demand.
    pub spare_pages: u64,
    /// Of these, pages held by others.
    pub others_pages: u64,
    /// Pages that it has now; null where there is no such pool, or it was not read.
    pub now_pages: Option<u64>,
    /// Whether the memory that is free now is enough; null if that is not known.
    pub room_now: Option<bool>,
    /// Pages of this size, on all nodes, that the host will have once `hugewise plan` is applied:
    /// without --shrink, pages beyond the need stay. Null if there is no plan, as for a host that
    /// is only described.
    pub planned_pages: Option<u64>,
}

/// What one server needs.
#[derive(Serialize, JsonSchema)]
pub struct SizedInstance {
    /// Kind of server.
    pub engine: &'static str,
    /// Its name.
    pub name: String,
    /// Whether it runs, or is only described.
    pub running: bool,
    /// Page size that it is sized for.
    pub page_bytes: u64,
    /// Why this size.
    pub page_size_why: String,
    /// Pages that it needs.
    pub demand_pages: u64,
    /// Where the number comes from: the server itself, its mappings, or a formula.
    #[schemars(extend("enum" = ["engine", "measured", "estimated"]))]
    pub source: &'static str,
    /// Largest error of the formula seen, in percent; null for other sources.
    pub error_percent: Option<u8>,
    /// What it needs on pages of other sizes as well.
    pub beside: Vec<DemandJson>,
    /// When it needs that: as it runs now, or at its next start, if its settings have changed since
    /// it started.
    #[schemars(extend("enum" = ["now", "restart"]))]
    pub moment: &'static str,
    /// Whether its settings ask for huge pages of this size; also false if they could not be read:
    /// `asked` says which.
    pub asks: bool,
    /// Whether its settings ask: `unknown` if they could not be read.
    #[schemars(extend("enum" = ["yes", "no", "unknown"]))]
    pub asked: &'static str,
    /// What could not be read, if anything.
    pub asked_why: Option<String>,
    /// The change of its settings that this assumes, if it cannot be on huge pages without; null if
    /// it can.
    pub change: Option<SettingsChangeJson>,
    /// Why `hugewise plan` has no pages for it before somebody names it; null if it has.
    pub unplanned_why: Option<String>,
    /// Page tables that all its processes are expected to have at the largest number of sessions
    /// its settings allow, as in `hugewise check`; null if that number is not known.
    pub page_tables_at_max: Option<Vec<PageTablesAtMax>>,
}

/// A server that no pages are planned for.
#[derive(Serialize, JsonSchema)]
pub struct LeftOutServerJson {
    /// `redis 6379`.
    pub instance: String,
    /// Why.
    pub why: String,
}

/// One line of the forecast.
#[derive(Serialize, JsonSchema)]
pub struct ForecastRowJson {
    /// Sessions on the host.
    pub sessions: u64,
    /// Whether that is the configured maximum of all servers.
    pub configured_max: bool,
    /// Page size of all servers' memory in this line.
    pub page_bytes: u64,
    /// Page tables of all servers' processes. If each process maps the memory at an address of its
    /// own, this is the average over the addresses.
    pub page_tables_bytes: u64,
    /// The same, if all processes of a server map its memory at one address.
    pub page_tables_least_bytes: u64,
    /// What it would be if every session touched all of its server's memory.
    pub page_tables_most_bytes: u64,
    /// Seconds that one login waits until it has touched all of its server's memory; null if no
    /// server makes its sessions do that.
    pub login_seconds: Option<f64>,
    /// Seconds that one session spends in total on touching memory for the first time, as it comes
    /// to use it; null if sessions are threads.
    pub touching_seconds: Option<f64>,
    /// Memory left beyond the page cache reserve, as in the budget, and 0 if there is too little;
    /// null where the host's memory is not known.
    pub memory_left_bytes: Option<u64>,
    /// How it is known which part of the memory a session touches.
    #[schemars(extend("enum" = ["measured", "full_touch"]))]
    pub basis: &'static str,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// All limits.
#[derive(Serialize, JsonSchema)]
pub struct KernelLimitsJson {
    /// RLIMIT_MEMLOCK of the server that needs most, in bytes; 18446744073709551615 is unlimited.
    pub memlock_bytes: KernelLimitJson,
    /// kernel.shmmax in bytes.
    pub shmmax_bytes: KernelLimitJson,
    /// kernel.shmall in base pages.
    pub shmall_pages: KernelLimitJson,
    /// vm.hugetlb_shm_group, a group's number.
    pub hugetlb_shm_group: KernelLimitJson,
    /// CommitLimit once the pools are set, in bytes.
    pub commit_limit_bytes: KernelLimitJson,
}

/// One limit.
#[derive(Serialize, JsonSchema)]
pub struct KernelLimitJson {
    /// The smallest value that is enough; null if nothing is needed or known.
    pub needed: Option<u64>,
    /// Its value; null if it is not known.
    pub now: Option<u64>,
    /// Whether it is enough; null if that is not known or does not matter.
    pub enough: Option<bool>,
    /// Whether this kernel checks it when these servers ask for their memory; null if that is not
    /// known.
    pub checked: Option<bool>,
    /// The evidence for that.
    pub evidence: String,
    /// Servers that it concerns.
    pub instances: Vec<String>,
}

/// How the host's memory is divided.
#[derive(Serialize, JsonSchema)]
pub struct MemoryBudgetJson {
    /// The total.
    pub total_bytes: Option<u64>,
    /// The pools as planned.
    pub pools_bytes: u64,
    /// The number of sessions that it is calculated for.
    pub sessions: u64,
    /// Private memory of the servers' processes at this number of sessions.
    pub sessions_private_bytes: Option<u64>,
    /// Oracle's managed global area, in files that processes share; null if there is none.
    pub managed_bytes: Option<u64>,
    /// Page tables of the servers' processes at this number of sessions.
    pub page_tables_bytes: Option<u64>,
    /// Memory of all other processes.
    pub others_bytes: Option<u64>,
    /// What the kernel holds for itself.
    pub kernel_bytes: Option<u64>,
    /// Min watermarks of all zones.
    pub watermarks_bytes: Option<u64>,
    /// What must stay for page cache and whatever is not counted.
    pub floor_bytes: u64,
    /// What is left.
    pub left_bytes: Option<u64>,
    /// What is missing; zero if it fits.
    pub short_bytes: u64,
    /// Facts that are not known and are counted as zero.
    pub unknown: Vec<String>,
}

/// Private memory of one server's processes.
#[derive(Serialize, JsonSchema)]
pub struct PrivateMemory {
    /// The server.
    pub instance: String,
    /// What they hold now; null if that is not known, or none of them is running.
    pub held_bytes: Option<u64>,
    /// What the budget counts.
    pub counted_bytes: Option<u64>,
    /// The target for all of them together, from its settings.
    pub target: Option<MemoryGrantJson>,
    /// What each session may take, each of its buffers once.
    pub each: Option<MemoryGrantJson>,
    /// What the server may take in addition to its sessions.
    pub once: Option<MemoryGrantJson>,
    /// The limit for all of them together.
    pub limit: Option<MemoryGrantJson>,
    /// Oracle's managed global area, in files that processes share; null if there is none.
    pub managed_bytes: Option<u64>,
    /// What they may reach at the largest number of sessions it is configured for.
    pub at_most_bytes: Option<u64>,
}

/// An amount that settings grant.
#[derive(Serialize, JsonSchema)]
pub struct MemoryGrantJson {
    /// How much.
    pub bytes: u64,
    /// By which settings.
    pub by: String,
}

/// A change of a server's settings that it is sized with.
#[derive(Serialize, JsonSchema)]
pub struct SettingsChangeJson {
    /// What keeps its memory off huge pages without it.
    pub instead_of: &'static str,
    /// Settings that its files should have.
    pub settings: Vec<ProposedSettingJson>,
    /// Settings to remove.
    pub gone: Vec<String>,
    /// What a person has to do, one line each.
    pub lines: Vec<String>,
}

/// One setting.
#[derive(Serialize, JsonSchema)]
pub struct ProposedSettingJson {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where the value comes from.
    pub because: String,
}

/// One huge page size, as if all servers were on it.
#[derive(Serialize, JsonSchema)]
pub struct PageSizeRowJson {
    /// The size.
    pub page_bytes: u64,
    /// Whether the plan uses it.
    pub chosen: bool,
    /// Pages for all servers; null where a demand is not known for this size.
    pub pages: Option<u64>,
    /// Memory lost to rounding.
    pub waste_bytes: Option<u64>,
    /// The largest number of sessions configured or asked for.
    pub sessions: u64,
    /// Page tables at that number of sessions.
    pub page_tables_bytes: u64,
    /// Memory that one processor's last-level TLB covers; null if the processor does not say.
    pub tlb_reach_bytes: Option<u64>,
    /// What speaks for it or against it.
    pub note: String,
}

/// Why there is no plan.
#[derive(Serialize, JsonSchema)]
pub struct SizingRefusalJson {
    /// In words with numbers.
    pub reasons: Vec<String>,
    /// The pools that were asked for.
    pub wanted: Vec<PoolTargetJson>,
    /// Memory that is missing.
    pub short_bytes: u64,
    /// The largest total of all pools that the host has room for.
    pub largest_pools_bytes: u64,
}

impl PoolTargetJson {
    pub(super) fn new(pool: &sizing::PoolSizeTarget, planned: &[PoolGoal]) -> Self {
        Self {
            page_bytes: pool.page_size.into(),
            node: pool.node,
            pages: pool.pages.get(),
            spare_pages: pool.spare_pages.get(),
            others_pages: pool.held_by_others.get(),
            now_pages: pool.now.map(PageCount::get),
            room_now: pool.room_now,
            planned_pages: planned
                .iter()
                .find(|goal| goal.page_size == pool.page_size)
                .map(|goal| goal.goal.get()),
        }
    }
}

impl SizedInstance {
    fn new(sized: &sizing::SizedServer, report: &SizeReport<'_>) -> Self {
        let error_percent = sized.source.error_percent(sized.demand_pages);
        let itself = report.instance_of(sized);
        Self {
            engine: sized.engine.as_str(),
            name: sized.name.clone(),
            running: itself.is_some_and(|instance| instance.pid != 0),
            page_bytes: sized.page_size.into(),
            page_size_why: sized.why.clone(),
            demand_pages: sized.demand_pages.get(),
            source: sized.source.as_str(),
            error_percent,
            beside: sized.beside.iter().map(DemandJson::from).collect(),
            moment: sized.moment.as_str(),
            asks: sized.asks == Some(true),
            asked: match sized.asks {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            },
            asked_why: sized.asks_unread.clone(),
            change: sized.change.as_ref().map(SettingsChangeJson::from),
            unplanned_why: sized.unplanned.as_ref().map(sizing::Unplanned::reason),
            page_tables_at_max: itself
                .and_then(|instance| page_tables_at_max(report.host, instance)),
        }
    }
}

impl From<&sizing::PageTableForecastRow> for ForecastRowJson {
    fn from(row: &sizing::PageTableForecastRow) -> Self {
        let mut reasons = Reasons::default();
        Self {
            sessions: row.sessions,
            configured_max: row.configured_max,
            page_bytes: row.page_size.into(),
            page_tables_bytes: row.page_tables.get(),
            page_tables_least_bytes: row.page_tables_least.get(),
            page_tables_most_bytes: row.page_tables_most.get(),
            login_seconds: reasons.derived_or_reason(
                "login_seconds",
                row.login_seconds,
                "no login touches all of the memory",
            ),
            touching_seconds: reasons.derived_or_reason(
                "touching_seconds",
                row.touching_seconds,
                "sessions are threads",
            ),
            memory_left_bytes: reasons.derived_or_reason(
                "memory_left_bytes",
                row.memory_left.map(Bytes::get),
                "the host's memory is not known",
            ),
            basis: row.basis.as_str(),
            reasons,
        }
    }
}

impl KernelLimitJson {
    fn new<T: Copy>(limit: &sizing::LimitNeed<T>, number: impl Fn(T) -> u64) -> Self {
        Self {
            needed: limit.needed.map(&number),
            now: limit.now.map(&number),
            enough: limit.enough,
            checked: limit.checked,
            evidence: limit.evidence.clone(),
            instances: limit.instances.clone(),
        }
    }
}

impl From<&sizing::LimitsNeeded> for KernelLimitsJson {
    fn from(limits: &sizing::LimitsNeeded) -> Self {
        Self {
            memlock_bytes: KernelLimitJson::new(&limits.memlock, Bytes::get),
            shmmax_bytes: KernelLimitJson::new(&limits.shmmax, Bytes::get),
            shmall_pages: KernelLimitJson::new(&limits.shmall_pages, |pages| pages),
            hugetlb_shm_group: KernelLimitJson::new(&limits.hugetlb_shm_group, u64::from),
            commit_limit_bytes: KernelLimitJson::new(&limits.commit_limit, Bytes::get),
        }
    }
}

impl From<&sizing::MemoryBudget> for MemoryBudgetJson {
    fn from(budget: &sizing::MemoryBudget) -> Self {
        let bytes = |amount: Option<Bytes>| amount.map(Bytes::get);
        Self {
            total_bytes: bytes(budget.total),
            pools_bytes: budget.pools.get(),
            sessions: budget.sessions,
            sessions_private_bytes: bytes(budget.sessions_private),
            managed_bytes: bytes(budget.managed),
            page_tables_bytes: bytes(budget.page_tables),
            others_bytes: bytes(budget.others),
            kernel_bytes: bytes(budget.kernel),
            watermarks_bytes: bytes(budget.watermarks),
            floor_bytes: budget.floor.get(),
            left_bytes: bytes(budget.left),
            short_bytes: budget.short.get(),
            unknown: budget.unknown.clone(),
        }
    }
}

impl From<&sizing::Work> for PrivateMemory {
    fn from(work: &sizing::Work) -> Self {
        let bytes = |amount: Option<Bytes>| amount.map(Bytes::get);
        let grant = |grant: &Option<work_memory::MemoryGrant>| {
            grant
                .as_ref()
                .map(|grant| MemoryGrantJson { bytes: grant.bytes.get(), by: grant.by.clone() })
        };
        let grants = &work.grants;
        Self {
            instance: work.instance.to_string(),
            held_bytes: bytes(work.held),
            counted_bytes: bytes(work.counted),
            target: grant(&grants.target),
            each: grant(&grants.each),
            once: grant(&grants.once),
            limit: grant(&grants.limit),
            managed_bytes: bytes(grants.managed),
            at_most_bytes: bytes(work.at_most),
        }
    }
}

impl From<&proposal::ProposedChange> for SettingsChangeJson {
    fn from(change: &proposal::ProposedChange) -> Self {
        let proposed = |one: &proposal::ProposedSetting| ProposedSettingJson {
            name: one.name,
            value: one.value.clone(),
            because: one.because.clone(),
        };
        Self {
            instead_of: change.instead_of,
            settings: change.settings.iter().map(proposed).collect(),
            gone: change.gone.clone(),
            lines: change.lines.clone(),
        }
    }
}

impl From<&sizing::PageSizeComparison> for PageSizeRowJson {
    fn from(row: &sizing::PageSizeComparison) -> Self {
        Self {
            page_bytes: row.page_size.into(),
            chosen: row.chosen,
            pages: row.pages.map(PageCount::get),
            waste_bytes: row.waste.map(Bytes::get),
            sessions: row.sessions,
            page_tables_bytes: row.page_tables_at_max.get(),
            tlb_reach_bytes: row.tlb_reach.map(Bytes::get),
            note: row.note.clone(),
        }
    }
}

impl From<&sizing::SizingRefusal> for SizingRefusalJson {
    fn from(refusal: &sizing::SizingRefusal) -> Self {
        Self {
            reasons: refusal.reasons.clone(),
            // Nothing is planned that does not fit.
            wanted: refusal.wanted.iter().map(|pool| PoolTargetJson::new(pool, &[])).collect(),
            short_bytes: refusal.short.get(),
            largest_pools_bytes: refusal.largest_pools.get(),
        }
    }
}

impl From<&SizeReport<'_>> for SizeDocument {
    fn from(report: &SizeReport<'_>) -> Self {
        let sizing = report.sizing;
        let left = |left: &sizing::UnplannedServer| LeftOutServerJson {
            instance: left.instance.to_string(),
            why: left.why.to_string(),
        };
        Self {
            schema: SIZE_SCHEMA,
            fits: sizing.refusal.is_none(),
            pools: sizing
                .pools
                .iter()
                .map(|pool| PoolTargetJson::new(pool, report.planned))
                .collect(),
            instances: sizing
                .instances
                .iter()
                .map(|sized| SizedInstance::new(sized, report))
                .collect(),
            left_out: sizing.left_out.iter().map(left).collect(),
            forecast: sizing.forecast.iter().map(ForecastRowJson::from).collect(),
            limits: KernelLimitsJson::from(&sizing.limits),
            budget: MemoryBudgetJson::from(&sizing.budget),
            budget_at_most: sizing.at_most.as_ref().map(MemoryBudgetJson::from),
            private_memory: sizing.work.iter().map(PrivateMemory::from).collect(),
            choices: sizing.choices.iter().map(PageSizeRowJson::from).collect(),
            refusal: sizing.refusal.as_ref().map(SizingRefusalJson::from),
            unread: report.unread.iter().map(UnreadFact::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value =
            serde_json::from_str(&crate::json::schema_of::<SizeDocument>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for sample in [samples::prod(), samples::hostile()] {
            for memory in [None, Some(Bytes::from_gib(8))] {
                let report = sample.sized_json(memory);
                let errors: Vec<String> =
                    validator.iter_errors(&report).map(|error| error.to_string()).collect();
                assert!(errors.is_empty(), "{errors:?}");
            }
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.size/2"})));
    }

    #[test]
    fn a_refusal_has_no_pools_and_says_what_was_wanted() {
        let report = samples::prod().sized_json(Some(Bytes::from_gib(8)));
        assert_eq!((&report["fits"], &report["pools"]), (&json!(false), &json!([])));
        assert!(report["refusal"]["short_bytes"].as_u64().unwrap() > Bytes::from_gib(20).get());
        assert_eq!(report["refusal"]["wanted"][0]["page_bytes"], 2_097_152);
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/size.json");
        assert_eq!(
            committed,
            crate::json::schema_of::<SizeDocument>(),
            "docs/schema/size.json is stale: run `cargo xtask docs`"
        );
    }
}
