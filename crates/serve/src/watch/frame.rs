//! What is shown of a host at one moment, be it live, a capture or an archive.

use std::sync::Arc;

use hugewise_diagnose::prediction::{PredictionStage, StageForecast, StageForecasts};
use hugewise_diagnose::untrusted;
use hugewise_model::instance::SessionModel;
use hugewise_model::{
    Bytes, Finding, HugePageChain, HugePageUse, Instance, InstanceId, Observed, PageCount,
    PageSize, Pool,
};
use hugewise_report::date;
use hugewise_report::json::history::HistoryPoint;

use crate::{HistorySpan, HostReading, ReadingHistory};

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Its name.
    pub host: String,
    /// What else is said of the host: `Linux 6.18.0 x86_64`.
    pub about: String,
    /// The moment, as the host's clock shows it.
    pub at: String,
    /// Its numbers.
    pub gauges: Gauges,
    /// Its pools, smallest pages first; `None` if they are not known.
    pub pools: Option<Vec<PoolRow>>,
    /// Its instances; `None` if they are not known.
    pub instances: Option<Vec<InstanceRow>>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// What could not be told, in a sentence; empty if everything could.
    pub unknown: String,
}

hugewise_model::named_enum! {
    /// A number that is drawn over time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FrameGauge label {
        /// Part of all processors' time in the kernel, 0 to 1, since the frame before.
        KernelCpu = "kernel CPU",
        PageTables = "page tables",
        /// Memory that programs can still have, in bytes.
        Available = "available",
        /// Free memory in bytes, where nothing tells what is available.
        Free = "free",
        /// Swap in use, in bytes.
        Swap = "swap",
        /// Client sessions of all instances that tell.
        Sessions = "sessions",
    }
}

impl FrameGauge {
    /// In the order in which they are shown.
    pub(crate) const ALL: [Self; 6] = [
        Self::KernelCpu,
        Self::PageTables,
        Self::Available,
        Self::Free,
        Self::Swap,
        Self::Sessions,
    ];

    pub(crate) fn render_value(self, value: f64) -> String {
        match self {
            Self::KernelCpu => format!("{:.0} %", value * 100.0),
            Self::Sessions => format!("{value:.0}"),
            Self::PageTables | Self::Available | Self::Free | Self::Swap => {
                bytes_from_float(value).to_string()
            }
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floats saturates"
)]
fn bytes_from_float(value: f64) -> Bytes {
    Bytes(value.max(0.0) as u64)
}

/// A host's numbers, amounts in bytes; each is `None` if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Part of all processors' time in the kernel, 0 to 1, since the frame before.
    pub kernel_cpu: Option<f64>,
    /// Page tables of all processes.
    pub page_tables: Option<f64>,
    /// Memory that programs can still have.
    pub available: Option<f64>,
    /// Free memory, where nothing tells what is available.
    pub free: Option<f64>,
    /// Swap in use.
    pub swap: Option<f64>,
    /// Client sessions of all instances that tell.
    pub sessions: Option<f64>,
    /// All memory.
    pub memory: Option<f64>,
}

impl Gauges {
    pub(crate) const fn get(&self, gauge: FrameGauge) -> Option<f64> {
        match gauge {
            FrameGauge::KernelCpu => self.kernel_cpu,
            FrameGauge::PageTables => self.page_tables,
            FrameGauge::Available => self.available,
            FrameGauge::Free => self.free,
            FrameGauge::Swap => self.swap,
            FrameGauge::Sessions => self.sessions,
        }
    }
}

/// A pool; each number is `None` if it could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// Size of its pages.
    pub page: PageSize,
    /// Pages in it.
    pub total: Option<PageCount>,
    /// Of these, committed.
    pub committed: Option<PageCount>,
    /// Of these, available to a new mapping.
    pub available: Option<PageCount>,
}

impl From<&Pool> for PoolRow {
    fn from(pool: &Pool) -> Self {
        Self {
            page: pool.page_size,
            total: pool.total.get(),
            committed: pool.committed_pages(),
            available: pool.available_pages(),
        }
    }
}

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    /// `None` in a recording, which knows only titles.
    pub id: Option<InstanceId>,
    /// `oracle PROD`.
    pub title: String,
    /// Facts for its own page, each with a label.
    pub facts: Vec<(&'static str, String)>,
    /// Client sessions.
    pub sessions: Option<u64>,
    /// What a session costs the kernel.
    pub session_model: SessionModel,
    /// Memory that huge pages could back.
    pub segments: Bytes,
    /// Of that, on huge pages.
    pub huge: Bytes,
    /// Whether that is all of it.
    pub huge_pages: HugePageUse,
    /// Page tables of all its processes.
    pub page_tables: Option<Bytes>,
    /// The links to its huge pages, unless all hold.
    pub chain: Option<Arc<HugePageChain>>,
}

impl InstanceRow {
    /// `None` if sessions share them, or one of the two is not known.
    pub(crate) fn page_tables_a_session(&self) -> Option<Bytes> {
        let sessions = self.sessions.filter(|_| self.session_model == SessionModel::Processes)?;
        self.page_tables?.get().checked_div(sessions).map(Bytes)
    }

    fn from_instance(
        instance: &Instance,
        chain: Option<&HugePageChain>,
        moments: Option<&StageForecasts>,
    ) -> Self {
        Self {
            id: Some(instance.id()),
            title: instance.title(),
            facts: describe_instance_facts(instance, moments),
            sessions: instance.sessions.get(),
            session_model: instance.session_model,
            segments: instance.segment_bytes(),
            huge: instance.huge_bytes(),
            huge_pages: instance.huge_pages,
            page_tables: instance.page_tables.get(),
            chain: chain.cloned().map(Arc::new),
        }
    }
}

/// `fails: needs 537 pages of 2 MiB and finds 0`
fn describe_outlook(outlook: &StageForecast) -> String {
    let word = outlook.coverage.label();
    outlook.why.as_ref().map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"))
}

fn describe_instance_facts(
    instance: &Instance,
    moments: Option<&StageForecasts>,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut fact = |label, value: Option<String>| facts.extend(value.map(|value| (label, value)));
    for (label, moment) in
        [("restart", PredictionStage::Restart), ("reboot", PredictionStage::Boot)]
    {
        fact(label, moments.map(|moments| describe_outlook(moments.at_stage(moment))));
    }
    fact("version", instance.version.as_known().cloned());
    fact(
        "process",
        Some(format!(
            "{} of {}, {} in all",
            instance.pid,
            instance.owner_in_words(),
            instance.pids.len()
        )),
    );
    fact("unit", instance.unit.clone());
    fact("stranger", (!instance.is_trusted()).then(|| untrusted::untrusted_reason(instance)));
    fact("data", instance.data_directory.as_known().cloned());
    fact("listens", (!instance.endpoints.is_empty()).then(|| instance.endpoints.join(", ")));
    fact(
        "most",
        instance.max_sessions.get().map(|most| format!("{most} sessions by its settings")),
    );
    fact("setting", instance.setting.as_ref().map(ToString::to_string));
    let demand = instance.demand.as_ref();
    fact("needs", demand.map(|demand| demand.pages.in_pages_of(demand.page_size)));
    facts
}

/// Makes frames of readings, each with what the processors did since the one before.
#[derive(Debug)]
pub struct Recorder(ReadingHistory);

impl Default for Recorder {
    fn default() -> Self {
        Self(ReadingHistory::new(HistorySpan { gap: std::time::Duration::ZERO, points: 1 }))
    }
}

impl Recorder {
    /// The frame of a reading.
    pub fn next_frame(&mut self, reading: &HostReading) -> Frame {
        let point = self.0.add(reading);
        build_frame(reading, point.as_deref())
    }
}

fn build_frame(reading: &HostReading, point: Option<&HistoryPoint>) -> Frame {
    let HostReading { host, instances, assessment, unread, .. } = reading;
    let chain = |instance: &Instance| {
        let id = instance.id();
        assessment.chains.iter().find(|chain| chain.instance == id)
    };
    let kernel = host.kernel.as_known().map(|kernel| format!("Linux {}", kernel.text));
    let about: Vec<String> =
        kernel.into_iter().chain(host.architecture.as_known().cloned()).collect();
    Frame {
        host: host.name.as_known().cloned().unwrap_or_else(|| "this host".into()),
        about: about.join(" "),
        at: host.read_at.get().and_then(date::format_rfc3339).unwrap_or_default(),
        gauges: build_gauges(reading, point),
        pools: host.pools.as_known().map(|pools| pools.iter().map(PoolRow::from).collect()),
        instances: host.processes.as_known().map(|_| {
            instances
                .iter()
                .filter(|instance| !instance.is_stopped())
                .map(|instance| {
                    InstanceRow::from_instance(
                        instance,
                        chain(instance),
                        assessment.situation.forecasts_for(instance),
                    )
                })
                .collect()
        }),
        findings: assessment.findings.clone(),
        unknown: match unread.as_slice() {
            [] => String::new(),
            [one] => format!("{} could not be read: {}", one.what, one.why),
            [one, ..] => format!(
                "{} facts could not be read, {} among them: {}",
                unread.len(),
                one.what,
                one.why
            ),
        },
    }
}

#[allow(clippy::cast_precision_loss, reason = "what is drawn needs no more than 2^52 of anything")]
fn build_gauges(reading: &HostReading, point: Option<&HistoryPoint>) -> Gauges {
    let memory = &reading.host.memory;
    let amount = |fact: &Observed<Bytes>| fact.get().map(|bytes| bytes.get() as f64);
    Gauges {
        kernel_cpu: point.and_then(|point| point.kernel_cpu),
        page_tables: amount(&memory.page_tables),
        available: amount(&memory.available),
        free: amount(&memory.free).filter(|_| !memory.available.is_known()),
        swap: memory.swap_used().filter(|used| *used > Bytes::ZERO).map(|used| used.get() as f64),
        sessions: point.and_then(|point| point.sessions).map(|sessions| sessions as f64),
        memory: amount(&memory.total),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_diagnose::coverage::Coverage;

    use super::*;
    use crate::testing;

    #[test]
    fn a_frame_tells_what_was_read_and_nothing_else() {
        let mut reading = testing::reading();
        reading.host.name = Observed::Known("db7".into());
        let frame = Recorder::default().next_frame(&reading);
        assert_eq!(frame.host, "db7");
        assert_eq!(frame.gauges.page_tables, Some(65536.0));
        assert_eq!(frame.gauges.memory, Some(1_073_741_824.0));
        // One reading alone tells nothing of what the processors do, and no processes could be
        // listed.
        assert_eq!(
            (frame.gauges.kernel_cpu, frame.gauges.sessions, frame.instances),
            (None, None, None)
        );
    }

    #[test]
    fn only_sessions_that_are_processes_have_page_tables_of_their_own() {
        let mut instance = testing::instance("PROD");
        instance.page_tables = Observed::Known(Bytes(1000));
        let row = |instance: &Instance| {
            InstanceRow::from_instance(instance, None, None).page_tables_a_session()
        };
        assert_eq!(row(&instance), None);
        instance.sessions = Observed::Known(0);
        assert_eq!(row(&instance), None);
        instance.sessions = Observed::Known(10);
        assert_eq!(row(&instance), Some(Bytes(100)));
        instance.session_model = SessionModel::Threads;
        assert_eq!(row(&instance), None);
    }

    #[test]
    fn what_comes_of_a_restart_and_of_the_boot_is_a_line_each() {
        let outlook = |standing, why: Option<&str>| StageForecast {
            coverage: standing,
            why: why.map(str::to_owned),
            obstacle: None,
        };
        let moments = StageForecasts {
            now: outlook(Coverage::All, None),
            restart: outlook(Coverage::All, None),
            boot: outlook(Coverage::DoesNotStart, Some("needs 537 pages of 2 MiB and finds 0")),
        };
        let row = InstanceRow::from_instance(&testing::instance("PROD"), None, Some(&moments));
        let facts: Vec<_> =
            row.facts.iter().take(2).map(|(label, text)| (*label, text.as_str())).collect();
        assert_eq!(
            facts,
            [("restart", "all"), ("reboot", "fails: needs 537 pages of 2 MiB and finds 0")]
        );
    }

    #[test]
    fn gauges_are_shown_in_their_units() {
        assert_eq!(FrameGauge::KernelCpu.render_value(0.345), "34 %");
        assert_eq!(FrameGauge::PageTables.render_value(1_610_612_736.0), "1.5 GiB");
        assert_eq!(FrameGauge::Sessions.render_value(40.0), "40");
        assert_eq!(FrameGauge::Swap.render_value(f64::NAN), "0 B");
    }
}
