use hugewise_diagnose::forecast::PageTableForecast;
use hugewise_model::trusted_by::{TrustProofs, TrustReason};
use hugewise_model::{Host, HugePageMode, Instance, Limit, Observed};

use super::json_view::json_view;
use super::{ChainLink, Reasons};
use crate::CheckReport;

json_view! {
    /// One database server: one that runs, or one that belongs to the host and does not.
    pub struct InstanceJson new(instance: &Instance, checked: &CheckReport<'_>), reasons {
        let id = instance.id();
        let prediction = &checked.assessment.situation;
        let chain = checked.assessment.chains.iter().find(|chain| chain.instance == id);
        let demand = hugewise_diagnose::demand::find_demand(checked.host, instance)
            .as_ref()
            .map(DemandJson::from);
    } => {
        /// Kind of server: `oracle`, `postgresql`, ...
        engine: &'static str = instance.engine.as_str(),
        /// Its name, unique among the engine's instances on the host.
        name: String = instance.name.clone(),
        /// Whether it is running.
        running: bool = !instance.is_stopped(),
        /// For a server that is not running: what shows that it belongs to the host, and whether
        /// the boot starts it. Null if it is running.
        asleep: Option<StoppedInstanceJson> =
            instance.stopped.as_ref().map(StoppedInstanceJson::from),
        /// Pid of the main process; 0 if it is not running.
        pid: u32 = instance.pid,
        /// Server version.
        version: Option<String> = reasons.value_or_reason("version", &instance.version),
        /// Operating system user.
        owner: String = instance.owner.clone(),
        /// Data directory, as the server's own mount namespace names it.
        data_directory: Option<String> =
            reasons.value_or_reason("data_directory", &instance.data_directory),
        /// Ports and sockets.
        endpoints: Vec<String> = instance.endpoints.clone(),
        /// Whether it runs in another mount namespace than hugewise.
        containered: bool = instance.containered,
        /// Client sessions now.
        sessions: Option<u64> = reasons.value_or_reason("sessions", &instance.sessions),
        /// Sessions that the settings allow.
        max_sessions: Option<u64> = reasons.value_or_reason("max_sessions", &instance.max_sessions),
        /// Whether the settings ask for huge pages.
        #[schemars(extend("enum" = ["no", "try", "must", "raises", "cannot", "unknown"]))]
        asked: &'static str = huge_page_request_name(instance.asked),
        /// The setting that decides it, with its file and line.
        setting: Option<String> = reasons.derived_or_reason(
            "setting",
            instance.setting.as_ref().map(ToString::to_string),
            "absent",
        ),
        /// How much of its memory is on huge pages.
        #[schemars(extend("enum" = ["all", "partly", "none", "unknown"]))]
        huge_pages: &'static str = instance.huge_pages.as_str(),
        /// How it stands now, after its next restart alone, and after the next boot of the host;
        /// null if that was not determined.
        moments: Option<InstanceStagesJson> =
            prediction.forecasts_for(instance).map(InstanceStagesJson::from),
        /// Pages that it needs to be wholly on huge pages.
        demand: Option<DemandJson> = reasons.derived_or_reason("demand", demand, "absent"),
        /// Pages of other sizes that it needs as well.
        beside: Vec<DemandJson> =
            hugewise_diagnose::demand::other_size_demands(checked.host, instance)
                .iter()
                .map(DemandJson::from)
                .collect(),
        /// Page tables of all its processes.
        page_tables_bytes: Option<u64> =
            reasons.bytes_or_reason("page_tables_bytes", &instance.page_tables),
        /// Page tables that all its processes are expected to have at the largest number of
        /// sessions its settings allow: on base pages, then on each huge page size of the host.
        /// Null if that number is not known.
        page_tables_at_max: Option<Vec<PageTablesAtMax>> = reasons.derived_or_reason(
            "page_tables_at_max",
            page_tables_at_max(checked.host, instance),
            "the most sessions that its settings allow, or the base page, is not known",
        ),
        /// The systemd service that it runs in.
        unit: Option<String> = reasons.derived_or_reason("unit", instance.unit.clone(), "absent"),
        /// What vouches for it: `unit`, `account`, `root`, `container`, `listed`, `named`,
        /// `described`. If this is empty, nothing is planned for it unless it is named.
        vouched_by: Vec<&'static str> =
            instance.trusted_by.iter().map(|voucher| voucher.as_str()).collect(),
        /// What was found for that, and what each other reason lacks, in words.
        trust: TrustJson = TrustJson::from(&instance.trust),
        /// How much of its segments has been touched, at most.
        touched_bytes: Option<u64> =
            reasons.bytes_or_reason("touched_bytes", &instance.touched_bytes),
        /// How much of its shared memory on base pages is on transparent huge pages, at least:
        /// those mapped whole.
        transparent_bytes: Option<u64> =
            reasons.bytes_or_reason("transparent_bytes", &instance.transparent),
        /// Soft memlock limit of the main process; null if it is unlimited or not known: `reasons`
        /// says which.
        memlock_bytes: Option<u64> = memlock_bytes(instance, checked.host, &mut reasons),
        /// Memory that huge pages could back, largest first.
        segments: Vec<SegmentJson> = instance.segments.iter().map(SegmentJson::from).collect(),
        /// Links between the instance and its huge pages; empty if all of it is on them.
        chain: Vec<ChainLink> = chain
            .map(|chain| chain.links.iter().map(ChainLink::from).collect())
            .unwrap_or_default(),
    }
}

json_view! {
    /// What is known about a server that belongs to the host but is not running.
    pub struct StoppedInstanceJson from(stopped: &hugewise_model::StoppedInstance) => {
        /// The file that shows that it belongs here.
        known_by: String = stopped.known_by.clone(),
        /// Whether the boot starts it.
        #[schemars(extend("enum" = ["yes", "no", "unknown"]))]
        at_boot: &'static str = stopped.at_boot.as_str(),
        /// The evidence for that.
        at_boot_why: String = stopped.at_boot.boot_evidence().to_owned(),
    }
}

json_view! {
    /// Page tables of all processes of an instance at the largest number of sessions its settings
    /// allow.
    pub struct PageTablesAtMax from(forecast: &PageTableForecast) => {
        /// The number of sessions.
        sessions: u64 = forecast.sessions,
        /// With its memory on pages of this size.
        page_bytes: u64 = forecast.page_size.into(),
        /// What is expected, as `hugewise size` forecasts it.
        expected_bytes: u64 = forecast.total.get(),
        /// What it would be if every session touched all of the memory.
        most_bytes: u64 = forecast.most.get(),
        /// How it is known which part of the memory a session touches.
        #[schemars(extend("enum" = ["measured", "full_touch"]))]
        basis: &'static str = forecast.basis.as_str(),
    }
}

pub(super) fn page_tables_at_max(host: &Host, instance: &Instance) -> Option<Vec<PageTablesAtMax>> {
    let at_max = hugewise_diagnose::forecast::at_max(host, instance)?;
    Some(at_max.by_page.iter().map(PageTablesAtMax::from).collect())
}

json_view! {
    /// How an instance stands at three moments.
    pub struct InstanceStagesJson from(moments: &hugewise_diagnose::prediction::StageForecasts) => {
        /// As it runs.
        now: StageForecastJson = (&moments.now).into(),
        /// After it is restarted and nothing else is done.
        restart: StageForecastJson = (&moments.restart).into(),
        /// After the host is rebooted and nothing else is done, in the worst order of starts.
        reboot: StageForecastJson = (&moments.boot).into(),
    }
}

json_view! {
    /// How much of an instance's memory is on huge pages at a moment.
    pub struct StageForecastJson from(forecast: &hugewise_diagnose::prediction::StageForecast) => {
        /// In one word.
        #[schemars(extend("enum" = ["all", "partly", "none", "does_not_start", "not_running", "unknown", "not_counted"]))]
        state: &'static str = forecast.coverage.as_str(),
        /// The evidence for that; null if there is nothing to say.
        why: Option<String> = forecast.why.clone(),
    }
}

json_view! {
    /// Pages that an instance needs.
    pub struct DemandJson from(demand: &hugewise_model::Demand) => {
        /// Their size.
        page_bytes: u64 = demand.page_size.into(),
        /// The number of pages.
        needed_pages: u64 = demand.pages.get(),
        /// Where the number comes from: the server itself, its mappings, or a formula.
        #[schemars(extend("enum" = ["engine", "measured", "estimated"]))]
        source: &'static str = demand.source.as_str(),
        /// Largest error of the formula seen, in percent; null for other sources.
        error_percent: Option<u8> = demand.error_percent(),
    }
}

json_view! {
    /// A stretch of memory.
    pub struct SegmentJson from(segment: &hugewise_model::Segment), reasons => {
        /// What it is.
        #[schemars(extend("enum" = ["sysv", "posix", "anonymous_shared", "hugetlbfs", "private"]))]
        kind: &'static str = segment.kind.as_str(),
        /// Its name for people.
        name: String = segment.name.clone(),
        /// Its size as mapped.
        size_bytes: u64 = segment.size.get(),
        /// Kernel page size of the mapping.
        page_bytes: Option<u64> =
            reasons.value_or_reason("page_bytes", &segment.page_size).map(u64::from),
        /// Whether that is larger than a base page.
        huge: Option<bool> = reasons.value_or_reason("huge", &segment.huge),
        /// Processes that map it.
        mappers: u64 = segment.mappers,
    }
}

/// `None` where that is unlimited, or not known.
fn memlock_bytes(instance: &Instance, host: &Host, reasons: &mut Reasons) -> Option<u64> {
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

json_view! {
    /// The proofs of what vouches for an instance.
    pub struct TrustJson from(proofs: &TrustProofs) => {
        /// What was found of the reasons in `vouched_by`.
        held: Vec<String> = proofs.held.clone(),
        /// What the other reasons lack.
        failed: Vec<FailedTrustJson> = proofs.failed.iter().map(FailedTrustJson::from).collect(),
    }
}

json_view! {
    /// A reason that does not vouch for an instance.
    pub struct FailedTrustJson from(failed: &(TrustReason, String)) => {
        /// The reason, by its name in `vouched_by`.
        reason: &'static str = failed.0.as_str(),
        /// What is missing.
        why: String = failed.1.clone(),
    }
}
