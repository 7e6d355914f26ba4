use hugewise_diagnose::forecast::PageTableForecast;
use hugewise_model::trusted_by::TrustProofs;
use hugewise_model::{Bytes, Host, HugePageMode, Limit, Observed};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ChainLink, Reasons};
use crate::CheckReport;

/// One database server: one that runs, or one that belongs to the host and does not.
#[derive(Serialize, JsonSchema)]
pub struct InstanceJson {
    /// Kind of server: `oracle`, `postgresql`, ...
    pub engine: &'static str,
    /// Its name, unique among the engine's instances on the host.
    pub name: String,
    /// Whether it is running.
    pub running: bool,
    /// For a server that is not running: what shows that it belongs to the host, and whether the
    /// boot starts it. Null if it is running.
    pub asleep: Option<StoppedInstanceJson>,
    /// Pid of the main process; 0 if it is not running.
    pub pid: u32,
    /// Server version.
    pub version: Option<String>,
    /// Operating system user.
    pub owner: String,
    /// Data directory, as the server's own mount namespace names it.
    pub data_directory: Option<String>,
    /// Ports and sockets.
    pub endpoints: Vec<String>,
    /// Whether it runs in another mount namespace than hugewise.
    pub containered: bool,
    /// Client sessions now.
    pub sessions: Option<u64>,
    /// Sessions that the settings allow.
    pub max_sessions: Option<u64>,
    /// Whether the settings ask for huge pages.
    #[schemars(extend("enum" = ["no", "try", "must", "raises", "cannot", "unknown"]))]
    pub asked: &'static str,
    /// The setting that decides it, with its file and line.
    pub setting: Option<String>,
    /// How much of its memory is on huge pages.
    #[schemars(extend("enum" = ["all", "partly", "none", "unknown"]))]
    pub huge_pages: &'static str,
    /// How it stands now, after its next restart alone, and after the next boot of the host; null
    /// if that was not determined.
    pub moments: Option<InstanceStagesJson>,
    /// Pages that it needs to be wholly on huge pages.
    pub demand: Option<DemandJson>,
    /// Pages of other sizes that it needs as well.
    pub beside: Vec<DemandJson>,
    /// Page tables of all its processes.
    pub page_tables_bytes: Option<u64>,
    /// Page tables that all its processes are expected to have at the largest number of sessions
    /// its settings allow: on base pages, then on each huge page size of the host. Null if that
    /// number is not known.
    pub page_tables_at_max: Option<Vec<PageTablesAtMax>>,
    /// The systemd service that it runs in.
    pub unit: Option<String>,
    /// What vouches for it: `unit`, `account`, `root`, `container`, `listed`, `named`, `described`.
    /// If this is empty, nothing is planned for it unless it is named.
    pub vouched_by: Vec<&'static str>,
    /// What was found for that, and what each other reason lacks, in words.
    pub trust: TrustJson,
    /// How much of its segments has been touched, at most.
    pub touched_bytes: Option<u64>,
    /// How much of its shared memory on base pages is on transparent huge pages, at least: those
    /// mapped whole.
    pub transparent_bytes: Option<u64>,
    /// Soft memlock limit of the main process; null if it is unlimited or not known: `reasons` says
    /// which.
    pub memlock_bytes: Option<u64>,
    /// Memory that huge pages could back, largest first.
    pub segments: Vec<SegmentJson>,
    /// Links between the instance and its huge pages; empty if all of it is on them.
    pub chain: Vec<ChainLink>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// What is known about a server that belongs to the host but is not running.
#[derive(Serialize, JsonSchema)]
pub struct StoppedInstanceJson {
    /// The file that shows that it belongs here.
    pub known_by: String,
    /// Whether the boot starts it.
    #[schemars(extend("enum" = ["yes", "no", "unknown"]))]
    pub at_boot: &'static str,
    /// The evidence for that.
    pub at_boot_why: String,
}

impl From<&hugewise_model::StoppedInstance> for StoppedInstanceJson {
    fn from(asleep: &hugewise_model::StoppedInstance) -> Self {
        let (known_by, at_boot) = (asleep.known_by.clone(), asleep.at_boot.as_str());
        Self { known_by, at_boot, at_boot_why: asleep.at_boot.boot_evidence().to_owned() }
    }
}

/// Page tables of all processes of an instance at the largest number of sessions its settings
/// allow.
#[derive(Serialize, JsonSchema)]
pub struct PageTablesAtMax {
    /// The number of sessions.
    pub sessions: u64,
    /// With its memory on pages of this size.
    pub page_bytes: u64,
    /// What is expected, as `hugewise size` forecasts it.
    pub expected_bytes: u64,
    /// What it would be if every session touched all of the memory.
    pub most_bytes: u64,
    /// How it is known which part of the memory a session touches.
    #[schemars(extend("enum" = ["measured", "full_touch"]))]
    pub basis: &'static str,
}

pub(super) fn page_tables_at_max(
    host: &Host,
    instance: &hugewise_model::Instance,
) -> Option<Vec<PageTablesAtMax>> {
    let at_max = hugewise_diagnose::forecast::at_max(host, instance)?;
    let page_tables_at_max_of = |forecast: &PageTableForecast| PageTablesAtMax {
        sessions: forecast.sessions,
        page_bytes: forecast.page_size.into(),
        expected_bytes: forecast.total.get(),
        most_bytes: forecast.most.get(),
        basis: forecast.basis.as_str(),
    };
    Some(at_max.by_page.iter().map(page_tables_at_max_of).collect())
}

/// How an instance stands at three moments.
#[derive(Serialize, JsonSchema)]
pub struct InstanceStagesJson {
    /// As it runs.
    pub now: StageForecastJson,
    /// After it is restarted and nothing else is done.
    pub restart: StageForecastJson,
    /// After the host is rebooted and nothing else is done, in the worst order of starts.
    pub reboot: StageForecastJson,
}

/// How much of an instance's memory is on huge pages at a moment.
#[derive(Serialize, JsonSchema)]
pub struct StageForecastJson {
    /// In one word.
    #[schemars(extend("enum" = ["all", "partly", "none", "does_not_start", "not_running", "unknown", "not_counted"]))]
    pub state: &'static str,
    /// The evidence for that; null if there is nothing to say.
    pub why: Option<String>,
}

impl From<&hugewise_diagnose::prediction::StageForecast> for StageForecastJson {
    fn from(outlook: &hugewise_diagnose::prediction::StageForecast) -> Self {
        Self { state: outlook.coverage.as_str(), why: outlook.why.clone() }
    }
}

impl From<&hugewise_diagnose::prediction::StageForecasts> for InstanceStagesJson {
    fn from(moments: &hugewise_diagnose::prediction::StageForecasts) -> Self {
        Self {
            now: (&moments.now).into(),
            restart: (&moments.restart).into(),
            reboot: (&moments.boot).into(),
        }
    }
}

/// Pages that an instance needs.
#[derive(Serialize, JsonSchema)]
pub struct DemandJson {
    /// Their size.
    pub page_bytes: u64,
    /// The number of pages.
    pub needed_pages: u64,
    /// Where the number comes from: the server itself, its mappings, or a formula.
    #[schemars(extend("enum" = ["engine", "measured", "estimated"]))]
    pub source: &'static str,
    /// Largest error of the formula seen, in percent; null for other sources.
    pub error_percent: Option<u8>,
}

/// A stretch of memory.
#[derive(Serialize, JsonSchema)]
pub struct SegmentJson {
    /// What it is.
    #[schemars(extend("enum" = ["sysv", "posix", "anonymous_shared", "hugetlbfs", "private"]))]
    pub kind: &'static str,
    /// Its name for people.
    pub name: String,
    /// Its size as mapped.
    pub size_bytes: u64,
    /// Kernel page size of the mapping.
    pub page_bytes: Option<u64>,
    /// Whether that is larger than a base page.
    pub huge: Option<bool>,
    /// Processes that map it.
    pub mappers: u64,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

impl InstanceJson {
    pub(super) fn new(instance: &hugewise_model::Instance, checked: &CheckReport<'_>) -> Self {
        let mut reasons = Reasons::default();
        let id = instance.id();
        let prediction = &checked.assessment.situation;
        let chain = checked.assessment.chains.iter().find(|chain| chain.instance == id);
        let memlock_bytes = memlock_bytes(instance, checked.host, &mut reasons);
        let demand = hugewise_diagnose::demand::find_demand(checked.host, instance)
            .as_ref()
            .map(DemandJson::from);
        Self {
            engine: instance.engine.as_str(),
            name: instance.name.clone(),
            running: !instance.is_stopped(),
            asleep: instance.stopped.as_ref().map(StoppedInstanceJson::from),
            pid: instance.pid,
            version: reasons.value_or_reason("version", &instance.version),
            owner: instance.owner.clone(),
            data_directory: reasons.value_or_reason("data_directory", &instance.data_directory),
            endpoints: instance.endpoints.clone(),
            containered: instance.containered,
            sessions: reasons.value_or_reason("sessions", &instance.sessions),
            max_sessions: reasons.value_or_reason("max_sessions", &instance.max_sessions),
            asked: huge_page_request_name(instance.asked),
            setting: reasons.derived_or_reason(
                "setting",
                instance.setting.as_ref().map(ToString::to_string),
                "absent",
            ),
            huge_pages: instance.huge_pages.as_str(),
            moments: prediction.forecasts_for(instance).map(InstanceStagesJson::from),
            demand: reasons.derived_or_reason("demand", demand, "absent"),
            beside: hugewise_diagnose::demand::other_size_demands(checked.host, instance)
                .iter()
                .map(DemandJson::from)
                .collect(),
            page_tables_bytes: reasons
                .value_or_reason("page_tables_bytes", &instance.page_tables)
                .map(Bytes::get),
            page_tables_at_max: reasons.derived_or_reason(
                "page_tables_at_max",
                page_tables_at_max(checked.host, instance),
                "the most sessions that its settings allow, or the base page, is not known",
            ),
            unit: reasons.derived_or_reason("unit", instance.unit.clone(), "absent"),
            vouched_by: instance.trusted_by.iter().map(|voucher| voucher.as_str()).collect(),
            trust: TrustJson::from(&instance.trust),
            touched_bytes: reasons
                .value_or_reason("touched_bytes", &instance.touched_bytes)
                .map(Bytes::get),
            transparent_bytes: reasons
                .value_or_reason("transparent_bytes", &instance.transparent)
                .map(Bytes::get),
            memlock_bytes,
            segments: instance.segments.iter().map(SegmentJson::from).collect(),
            chain: chain
                .map(|chain| chain.links.iter().map(ChainLink::from).collect())
                .unwrap_or_default(),
            reasons,
        }
    }
}

/// `None` where that is unlimited, or not known.
fn memlock_bytes(
    instance: &hugewise_model::Instance,
    host: &hugewise_model::Host,
    reasons: &mut Reasons,
) -> Option<u64> {
    let memlock = match host.find_process(instance.pid) {
        Some(process) => process.memlock.clone().map(|limits| limits.soft),
        None => Observed::Absent,
    };
    match reasons.value_or_reason("memlock_bytes", &memlock)? {
        Limit::At(bytes) => Some(bytes.get()),
        Limit::Unlimited => reasons.derived_or_reason("memlock_bytes", None, "unlimited"),
    }
}

const fn huge_page_request_name(asked: HugePageMode) -> &'static str {
    match asked {
        HugePageMode::No => "no",
        HugePageMode::Try => "try",
        HugePageMode::Must => "must",
        HugePageMode::Raises => "raises",
        HugePageMode::Cannot => "cannot",
        HugePageMode::Unknown => "unknown",
    }
}

impl From<&hugewise_model::Demand> for DemandJson {
    fn from(demand: &hugewise_model::Demand) -> Self {
        let (source, error_percent) = (demand.source.as_str(), demand.error_percent());
        Self {
            page_bytes: demand.page_size.into(),
            needed_pages: demand.pages.get(),
            source,
            error_percent,
        }
    }
}

impl From<&hugewise_model::Segment> for SegmentJson {
    fn from(segment: &hugewise_model::Segment) -> Self {
        let mut reasons = Reasons::default();
        Self {
            kind: segment.kind.as_str(),
            name: segment.name.clone(),
            size_bytes: segment.size.get(),
            page_bytes: reasons.value_or_reason("page_bytes", &segment.page_size).map(u64::from),
            huge: reasons.value_or_reason("huge", &segment.huge),
            mappers: segment.mappers,
            reasons,
        }
    }
}

/// The proofs of what vouches for an instance.
#[derive(Serialize, JsonSchema)]
pub struct TrustJson {
    /// What was found of the reasons in `vouched_by`.
    pub held: Vec<String>,
    /// What the other reasons lack.
    pub failed: Vec<FailedTrustJson>,
}

/// A reason that does not vouch for an instance.
#[derive(Serialize, JsonSchema)]
pub struct FailedTrustJson {
    /// The reason, by its name in `vouched_by`.
    pub reason: &'static str,
    /// What is missing.
    pub why: String,
}

impl From<&TrustProofs> for TrustJson {
    fn from(proofs: &TrustProofs) -> Self {
        let failed = proofs
            .failed
            .iter()
            .map(|(reason, why)| FailedTrustJson { reason: reason.as_str(), why: why.clone() });
        Self { held: proofs.held.clone(), failed: failed.collect() }
    }
}
