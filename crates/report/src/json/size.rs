//! `hugewise size --format json`: `hugewise.size/1`.

use hugewise_diagnose::sizing;
use hugewise_diagnose::target::PoolGoal;
use hugewise_engines::{proposal, work_memory};
use hugewise_model::{Bytes, PageCount};
use schemars::JsonSchema;
use serde::Serialize;

use super::UnreadFact;
use super::instance::{DemandJson, PageTablesAtMax, page_tables_at_max};
use super::json_view::json_view;
use crate::SizeReport;

pub(crate) const SIZE_SCHEMA: &str = "hugewise.size/1";

json_view! {
    /// What `hugewise size --format json` prints.
    #[schemars(title = "hugewise.size/1")]
    pub struct SizeDocument from(report: &SizeReport<'_>) {
        let sizing = report.sizing;
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = SIZE_SCHEMA))]
        schema: &'static str = SIZE_SCHEMA,
        /// Whether the host has room for the pools.
        fits: bool = sizing.refusal.is_none(),
        /// Pools as they should be, by page size and node; empty if they don't fit.
        pools: Vec<PoolTargetJson> = sizing
            .pools
            .iter()
            .map(|pool| PoolTargetJson::new(pool, report.planned))
            .collect(),
        /// Servers that the pools are for.
        instances: Vec<SizedInstance> = sizing
            .instances
            .iter()
            .map(|sized| SizedInstance::new(sized, report))
            .collect(),
        /// Servers that no pages are planned for.
        left_out: Vec<LeftOutServerJson> =
            sizing.left_out.iter().map(LeftOutServerJson::from).collect(),
        /// Page tables, login cost and memory left, by sessions and page size.
        forecast: Vec<ForecastRowJson> =
            sizing.forecast.iter().map(ForecastRowJson::from).collect(),
        /// Limits that the demand depends on.
        limits: KernelLimitsJson = KernelLimitsJson::from(&sizing.limits),
        /// How the host's memory is divided.
        budget: MemoryBudgetJson = MemoryBudgetJson::from(&sizing.budget),
        /// The same at the largest number of sessions the servers are configured for, with all the
        /// private memory that their settings grant; null if neither is known.
        budget_at_most: Option<MemoryBudgetJson> =
            sizing.at_most.as_ref().map(MemoryBudgetJson::from),
        /// Private memory of each server's processes.
        private_memory: Vec<PrivateMemory> = sizing.work.iter().map(PrivateMemory::from).collect(),
        /// The host's huge page sizes, compared.
        choices: Vec<PageSizeRowJson> = sizing.choices.iter().map(PageSizeRowJson::from).collect(),
        /// Why it does not fit; null if it does.
        refusal: Option<SizingRefusalJson> = sizing.refusal.as_ref().map(SizingRefusalJson::from),
        /// Everything that exists but could not be read.
        unread: Vec<UnreadFact> = report.unread.iter().map(UnreadFact::from).collect(),
    }
}

json_view! {
    /// A pool, or one node's part of it.
    pub struct PoolTargetJson new(pool: &sizing::PoolSizeTarget, planned: &[PoolGoal]) => {
        /// Page size.
        page_bytes: u64 = pool.page_size.into(),
        /// NUMA node; null on a host with one node, or whose nodes are not known.
        node: Option<u32> = pool.node,
        /// Pages that it should have.
        pages: u64 = pool.pages.get(),
        /// Of these, pages beyond the demand.
        spare_pages: u64 = pool.spare_pages.get(),
        /// Of these, pages held by others.
        others_pages: u64 = pool.held_by_others.get(),
        /// Pages that it has now; null where there is no such pool, or it was not read.
        now_pages: Option<u64> = pool.now.map(PageCount::get),
        /// Whether the memory that is free now is enough; null if that is not known.
        room_now: Option<bool> = pool.room_now,
        /// Pages of this size, on all nodes, that the host will have once `hugewise plan` is
        /// applied: without --shrink, pages beyond the need stay. Null if there is no plan, as for
        /// a host that is only described.
        planned_pages: Option<u64> = planned
            .iter()
            .find(|goal| goal.page_size == pool.page_size)
            .map(|goal| goal.goal.get()),
    }
}

json_view! {
    /// What one server needs.
    pub struct SizedInstance new(sized: &sizing::SizedServer, report: &SizeReport<'_>) {
        let itself = report.instance_of(sized);
    } => {
        /// Kind of server.
        engine: &'static str = sized.engine.as_str(),
        /// Its name.
        name: String = sized.name.clone(),
        /// Whether it runs, or is only described.
        running: bool = itself.is_some_and(|instance| instance.pid != 0),
        /// Page size that it is sized for.
        page_bytes: u64 = sized.page_size.into(),
        /// Why this size.
        page_size_why: String = sized.why.clone(),
        /// Pages that it needs.
        demand_pages: u64 = sized.demand_pages.get(),
        /// Where the number comes from: the server itself, its mappings, or a formula.
        #[schemars(extend("enum" = ["engine", "measured", "estimated"]))]
        source: &'static str = sized.source.as_str(),
        /// Largest error of the formula seen, in percent; null for other sources.
        error_percent: Option<u8> = sized.source.error_percent(sized.demand_pages),
        /// What it needs on pages of other sizes as well.
        beside: Vec<DemandJson> = sized.beside.iter().map(DemandJson::from).collect(),
        /// When it needs that: as it runs now, or at its next start, if its settings have changed
        /// since it started.
        #[schemars(extend("enum" = ["now", "restart"]))]
        moment: &'static str = sized.moment.as_str(),
        /// Whether its settings ask for huge pages of this size; also false if they could not be
        /// read: `asked` says which.
        asks: bool = sized.asks == Some(true),
        /// Whether its settings ask: `unknown` if they could not be read.
        #[schemars(extend("enum" = ["yes", "no", "unknown"]))]
        asked: &'static str = match sized.asks {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        },
        /// What could not be read, if anything.
        asked_why: Option<String> = sized.asks_unread.clone(),
        /// The change of its settings that this assumes, if it cannot be on huge pages without;
        /// null if it can.
        change: Option<SettingsChangeJson> = sized.change.as_ref().map(SettingsChangeJson::from),
        /// Why `hugewise plan` has no pages for it before somebody names it; null if it has.
        unplanned_why: Option<String> = sized.unplanned.as_ref().map(sizing::Unplanned::reason),
        /// Page tables that all its processes are expected to have at the largest number of
        /// sessions its settings allow, as in `hugewise check`; null if that number is not known.
        page_tables_at_max: Option<Vec<PageTablesAtMax>> = itself
            .and_then(|instance| page_tables_at_max(report.host, instance)),
    }
}

json_view! {
    /// A server that no pages are planned for.
    pub struct LeftOutServerJson from(left: &sizing::UnplannedServer) => {
        /// `redis 6379`.
        instance: String = left.instance.to_string(),
        /// Why.
        why: String = left.why.to_string(),
    }
}

json_view! {
    /// One line of the forecast.
    pub struct ForecastRowJson from(row: &sizing::PageTableForecastRow), reasons => {
        /// Sessions on the host.
        sessions: u64 = row.sessions,
        /// Whether that is the configured maximum of all servers.
        configured_max: bool = row.configured_max,
        /// Page size of all servers' memory in this line.
        page_bytes: u64 = row.page_size.into(),
        /// Page tables of all servers' processes. If each process maps the memory at an address of
        /// its own, this is the average over the addresses.
        page_tables_bytes: u64 = row.page_tables.get(),
        /// The same, if all processes of a server map its memory at one address.
        page_tables_least_bytes: u64 = row.page_tables_least.get(),
        /// What it would be if every session touched all of its server's memory.
        page_tables_most_bytes: u64 = row.page_tables_most.get(),
        /// Seconds that one login waits until it has touched all of its server's memory; null if no
        /// server makes its sessions do that.
        login_seconds: Option<f64> = reasons.derived_or_reason(
            "login_seconds",
            row.login_seconds,
            "no login touches all of the memory",
        ),
        /// Seconds that one session spends in total on touching memory for the first time, as it
        /// comes to use it; null if sessions are threads.
        touching_seconds: Option<f64> = reasons.derived_or_reason(
            "touching_seconds",
            row.touching_seconds,
            "sessions are threads",
        ),
        /// Memory left beyond the page cache reserve, as in the budget, and 0 if there is too
        /// little; null where the host's memory is not known.
        memory_left_bytes: Option<u64> = reasons.derived_or_reason(
            "memory_left_bytes",
            row.memory_left.map(Bytes::get),
            "the host's memory is not known",
        ),
        /// How it is known which part of the memory a session touches.
        #[schemars(extend("enum" = ["measured", "full_touch"]))]
        basis: &'static str = row.basis.as_str(),
    }
}

json_view! {
    /// All limits.
    pub struct KernelLimitsJson from(limits: &sizing::LimitsNeeded) => {
        /// RLIMIT_MEMLOCK of the server that needs most, in bytes; 18446744073709551615 is
        /// unlimited.
        memlock_bytes: KernelLimitJson = KernelLimitJson::new(&limits.memlock, Bytes::get),
        /// kernel.shmmax in bytes.
        shmmax_bytes: KernelLimitJson = KernelLimitJson::new(&limits.shmmax, Bytes::get),
        /// kernel.shmall in base pages.
        shmall_pages: KernelLimitJson = KernelLimitJson::new(&limits.shmall_pages, |pages| pages),
        /// vm.hugetlb_shm_group, a group's number.
        hugetlb_shm_group: KernelLimitJson =
            KernelLimitJson::new(&limits.hugetlb_shm_group, u64::from),
        /// CommitLimit once the pools are set, in bytes.
        commit_limit_bytes: KernelLimitJson =
            KernelLimitJson::new(&limits.commit_limit, Bytes::get),
    }
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

json_view! {
    /// How the host's memory is divided.
    pub struct MemoryBudgetJson from(budget: &sizing::MemoryBudget) {
        let bytes = |amount: Option<Bytes>| amount.map(Bytes::get);
    } => {
        /// The total.
        total_bytes: Option<u64> = bytes(budget.total),
        /// The pools as planned.
        pools_bytes: u64 = budget.pools.get(),
        /// The number of sessions that it is calculated for.
        sessions: u64 = budget.sessions,
        /// Private memory of the servers' processes at this number of sessions.
        sessions_private_bytes: Option<u64> = bytes(budget.sessions_private),
        /// Oracle's managed global area, in files that processes share; null if there is none.
        managed_bytes: Option<u64> = bytes(budget.managed),
        /// Page tables of the servers' processes at this number of sessions.
        page_tables_bytes: Option<u64> = bytes(budget.page_tables),
        /// Memory of all other processes.
        others_bytes: Option<u64> = bytes(budget.others),
        /// What the kernel holds for itself.
        kernel_bytes: Option<u64> = bytes(budget.kernel),
        /// Min watermarks of all zones.
        watermarks_bytes: Option<u64> = bytes(budget.watermarks),
        /// What must stay for page cache and whatever is not counted.
        floor_bytes: u64 = budget.floor.get(),
        /// What is left.
        left_bytes: Option<u64> = bytes(budget.left),
        /// What is missing; zero if it fits.
        short_bytes: u64 = budget.short.get(),
        /// Facts that are not known and are counted as zero.
        unknown: Vec<String> = budget.unknown.clone(),
    }
}

json_view! {
    /// Private memory of one server's processes.
    pub struct PrivateMemory from(work: &sizing::Work) {
        let bytes = |amount: Option<Bytes>| amount.map(Bytes::get);
        let grant = |grant: &Option<work_memory::MemoryGrant>| {
            grant.as_ref().map(MemoryGrantJson::from)
        };
        let grants = &work.grants;
    } => {
        /// The server.
        instance: String = work.instance.to_string(),
        /// What they hold now; null if that is not known, or none of them is running.
        held_bytes: Option<u64> = bytes(work.held),
        /// What the budget counts.
        counted_bytes: Option<u64> = bytes(work.counted),
        /// The target for all of them together, from its settings.
        target: Option<MemoryGrantJson> = grant(&grants.target),
        /// What each session may take, each of its buffers once.
        each: Option<MemoryGrantJson> = grant(&grants.each),
        /// What the server may take in addition to its sessions.
        once: Option<MemoryGrantJson> = grant(&grants.once),
        /// The limit for all of them together.
        limit: Option<MemoryGrantJson> = grant(&grants.limit),
        /// Oracle's managed global area, in files that processes share; null if there is none.
        managed_bytes: Option<u64> = bytes(grants.managed),
        /// What they may reach at the largest number of sessions it is configured for.
        at_most_bytes: Option<u64> = bytes(work.at_most),
    }
}

json_view! {
    /// An amount that settings grant.
    pub struct MemoryGrantJson from(grant: &work_memory::MemoryGrant) => {
        /// How much.
        bytes: u64 = grant.bytes.get(),
        /// By which settings.
        by: String = grant.by.clone(),
    }
}

json_view! {
    /// A change of a server's settings that it is sized with.
    pub struct SettingsChangeJson from(change: &proposal::ProposedChange) => {
        /// What keeps its memory off huge pages without it.
        instead_of: &'static str = change.instead_of,
        /// Settings that its files should have.
        settings: Vec<ProposedSettingJson> =
            change.settings.iter().map(ProposedSettingJson::from).collect(),
        /// Settings to remove.
        gone: Vec<String> = change.gone.clone(),
        /// What a person has to do, one line each.
        lines: Vec<String> = change.lines.clone(),
    }
}

json_view! {
    /// One setting.
    pub struct ProposedSettingJson from(proposed: &proposal::ProposedSetting) => {
        /// Its name.
        name: &'static str = proposed.name,
        /// Its value.
        value: String = proposed.value.clone(),
        /// Where the value comes from.
        because: String = proposed.because.clone(),
    }
}

json_view! {
    /// One huge page size, as if all servers were on it.
    pub struct PageSizeRowJson from(row: &sizing::PageSizeComparison) => {
        /// The size.
        page_bytes: u64 = row.page_size.into(),
        /// Whether the plan uses it.
        chosen: bool = row.chosen,
        /// Pages for all servers; null where a demand is not known for this size.
        pages: Option<u64> = row.pages.map(PageCount::get),
        /// Memory lost to rounding.
        waste_bytes: Option<u64> = row.waste.map(Bytes::get),
        /// The largest number of sessions configured or asked for.
        sessions: u64 = row.sessions,
        /// Page tables at that number of sessions.
        page_tables_bytes: u64 = row.page_tables_at_max.get(),
        /// Memory that one processor's last-level TLB covers; null if the processor does not say.
        tlb_reach_bytes: Option<u64> = row.tlb_reach.map(Bytes::get),
        /// What speaks for it or against it.
        note: String = row.note.clone(),
    }
}

json_view! {
    /// Why there is no plan.
    pub struct SizingRefusalJson from(refusal: &sizing::SizingRefusal) => {
        /// In words with numbers.
        reasons: Vec<String> = refusal.reasons.clone(),
        // Nothing is planned that does not fit.
        /// The pools that were asked for.
        wanted: Vec<PoolTargetJson> =
            refusal.wanted.iter().map(|pool| PoolTargetJson::new(pool, &[])).collect(),
        /// Memory that is missing.
        short_bytes: u64 = refusal.short.get(),
        /// The largest total of all pools that the host has room for.
        largest_pools_bytes: u64 = refusal.largest_pools.get(),
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
