//! Instances.

use hugewise_advice::forecast::Forecast;
use hugewise_model::{Asked, Bytes, Host, Limit, Observed};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ChainLink, Reasons};
use crate::Checked;

/// One database server: one that runs, or one that belongs to the host and does not.
#[derive(Serialize, JsonSchema)]
pub struct Instance {
    /// Kind of server: `oracle`, `postgresql`, ...
    pub engine: &'static str,
    /// Its name, unique among the engine's instances on the host.
    pub name: String,
    /// Whether it is running.
    pub running: bool,
    /// For a server that is not running: what shows that it belongs to the host, and whether the boot starts it. Null if it
    /// is running.
    pub asleep: Option<Asleep>,
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
    /// How it stands now, after its next restart alone, and after the next boot of the host; null if that was not
    /// determined.
    pub moments: Option<Moments>,
    /// Pages that it needs to be wholly on huge pages.
    pub demand: Option<Demand>,
    /// Pages of other sizes that it needs as well.
    pub beside: Vec<Demand>,
    /// Page tables of all its processes.
    pub page_tables_bytes: Option<u64>,
    /// Page tables that all its processes are expected to have at the largest number of sessions its settings allow: on
    /// base pages, then on each huge page size of the host. Null if that number is not known.
    pub page_tables_at_max: Option<Vec<PageTablesAtMax>>,
    /// The systemd service that it runs in.
    pub unit: Option<String>,
    /// What vouches for it: `unit`, `account`, `root`, `container`, `listed`, `named`, `described`. If this is empty,
    /// nothing is planned for it unless it is named.
    pub vouched_by: Vec<&'static str>,
    /// How much of its segments has been touched, at most.
    pub touched_bytes: Option<u64>,
    /// How much of its shared memory on base pages is on transparent huge pages, at least: those mapped whole.
    pub transparent_bytes: Option<u64>,
    /// Soft memlock limit of the main process; null if it is unlimited or not known: `reasons` says which.
    pub memlock_bytes: Option<u64>,
    /// Memory that huge pages could back, largest first.
    pub segments: Vec<Segment>,
    /// Links between the instance and its huge pages; empty if all of it is on them.
    pub chain: Vec<ChainLink>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// What is known about a server that belongs to the host but is not running.
#[derive(Serialize, JsonSchema)]
pub struct Asleep {
    /// The file that shows that it belongs here.
    pub known_by: String,
    /// Whether the boot starts it.
    #[schemars(extend("enum" = ["yes", "no", "unknown"]))]
    pub at_boot: &'static str,
    /// The evidence for that.
    pub at_boot_why: String,
}

impl From<&hugewise_model::Asleep> for Asleep {
    fn from(asleep: &hugewise_model::Asleep) -> Self {
        let (known_by, at_boot) = (asleep.known_by.clone(), asleep.at_boot.as_str());
        Self { known_by, at_boot, at_boot_why: asleep.at_boot.why().to_owned() }
    }
}

/// Page tables of all processes of an instance at the largest number of sessions its settings allow.
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

/// The same for `check`, `verify` and `size`.
pub(super) fn page_tables_at_max(host: &Host, instance: &hugewise_model::Instance) -> Option<Vec<PageTablesAtMax>> {
    let at_max = hugewise_advice::forecast::at_max(host, instance)?;
    let of = |forecast: &Forecast| PageTablesAtMax {
        sessions: forecast.sessions,
        page_bytes: forecast.page_size.into(),
        expected_bytes: forecast.total.get(),
        most_bytes: forecast.most.get(),
        basis: forecast.basis.as_str(),
    };
    Some(at_max.by_page.iter().map(of).collect())
}

/// How an instance stands at three moments.
#[derive(Serialize, JsonSchema)]
pub struct Moments {
    /// As it runs.
    pub now: Outlook,
    /// After it is restarted and nothing else is done.
    pub restart: Outlook,
    /// After the host is rebooted and nothing else is done, in the worst order of starts.
    pub reboot: Outlook,
}

/// How much of an instance's memory is on huge pages at a moment.
#[derive(Serialize, JsonSchema)]
pub struct Outlook {
    /// In one word.
    #[schemars(extend("enum" = ["all", "partly", "none", "does_not_start", "not_running", "unknown", "not_counted"]))]
    pub state: &'static str,
    /// The evidence for that; null if there is nothing to say.
    pub why: Option<String>,
}

impl From<&hugewise_advice::situation::Outlook> for Outlook {
    fn from(outlook: &hugewise_advice::situation::Outlook) -> Self {
        Self { state: outlook.standing.as_str(), why: outlook.why.clone() }
    }
}

impl From<&hugewise_advice::situation::Moments> for Moments {
    fn from(moments: &hugewise_advice::situation::Moments) -> Self {
        Self { now: (&moments.now).into(), restart: (&moments.restart).into(), reboot: (&moments.boot).into() }
    }
}

/// Pages that an instance needs.
#[derive(Serialize, JsonSchema)]
pub struct Demand {
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
pub struct Segment {
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

impl Instance {
    pub(super) fn new(instance: &hugewise_model::Instance, checked: &Checked<'_>) -> Self {
        let mut reasons = Reasons::default();
        let id = instance.id();
        let chain = checked.assessment.chains.iter().find(|chain| chain.instance == id);
        let memlock = match checked.host.process(instance.pid) {
            Some(process) => process.memlock.clone().map(|limits| limits.soft),
            None => Observed::Absent,
        };
        let memlock_bytes = match reasons.take("memlock_bytes", &memlock) {
            Some(Limit::At(bytes)) => Some(bytes.get()),
            Some(Limit::Unlimited) => reasons.derive("memlock_bytes", None, "unlimited"),
            None => None,
        };
        let demand = hugewise_advice::demand::of(checked.host, instance).as_ref().map(Demand::from);
        Self {
            engine: instance.engine.as_str(),
            name: instance.name.clone(),
            running: !instance.is_asleep(),
            asleep: instance.asleep.as_ref().map(Asleep::from),
            pid: instance.pid,
            version: reasons.take("version", &instance.version),
            owner: instance.owner.clone(),
            data_directory: reasons.take("data_directory", &instance.data_directory),
            endpoints: instance.endpoints.clone(),
            containered: instance.containered,
            sessions: reasons.take("sessions", &instance.sessions),
            max_sessions: reasons.take("max_sessions", &instance.max_sessions),
            asked: asked(instance.asked),
            setting: reasons.derive("setting", instance.setting.as_ref().map(ToString::to_string), "absent"),
            huge_pages: instance.huge_pages.as_str(),
            moments: checked.assessment.situation.of(instance).map(Moments::from),
            demand: reasons.derive("demand", demand, "absent"),
            beside: hugewise_advice::demand::beside(checked.host, instance).iter().map(Demand::from).collect(),
            page_tables_bytes: reasons.take("page_tables_bytes", &instance.page_tables).map(Bytes::get),
            page_tables_at_max: reasons.derive(
                "page_tables_at_max",
                page_tables_at_max(checked.host, instance),
                "the most sessions that its settings allow, or the base page, is not known",
            ),
            unit: reasons.derive("unit", instance.unit.clone(), "absent"),
            vouched_by: instance.vouchers.iter().map(|voucher| voucher.as_str()).collect(),
            touched_bytes: reasons.take("touched_bytes", &instance.touched).map(Bytes::get),
            transparent_bytes: reasons.take("transparent_bytes", &instance.transparent).map(Bytes::get),
            memlock_bytes,
            segments: instance.segments.iter().map(Segment::from).collect(),
            chain: chain.map(|chain| chain.links.iter().map(ChainLink::from).collect()).unwrap_or_default(),
            reasons,
        }
    }
}

const fn asked(asked: Asked) -> &'static str {
    match asked {
        Asked::No => "no",
        Asked::Try => "try",
        Asked::Must => "must",
        Asked::Raises => "raises",
        Asked::Cannot => "cannot",
        Asked::Unknown => "unknown",
    }
}

impl From<&hugewise_model::Demand> for Demand {
    fn from(demand: &hugewise_model::Demand) -> Self {
        let (source, error_percent) = (demand.source.as_str(), demand.error_percent());
        Self { page_bytes: demand.page_size.into(), needed_pages: demand.pages.get(), source, error_percent }
    }
}

impl From<&hugewise_model::Segment> for Segment {
    fn from(segment: &hugewise_model::Segment) -> Self {
        let mut reasons = Reasons::default();
        Self {
            kind: segment.kind.as_str(),
            name: segment.name.clone(),
            size_bytes: segment.size.get(),
            page_bytes: reasons.take("page_bytes", &segment.page_size).map(u64::from),
            huge: reasons.take("huge", &segment.huge),
            mappers: segment.mappers,
            reasons,
        }
    }
}
