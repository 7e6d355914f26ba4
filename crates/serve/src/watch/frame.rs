//! What is shown of a host at one moment, wherever that comes from: a live host, a capture of one, an archive.

use std::sync::Arc;

use hugewise_advice::situation::{Moment, Moments, Outlook};
use hugewise_advice::stranger;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Bytes, Chain, Finding, HugePageUse, Instance, InstanceId, Observed, PageCount, PageSize, Pool};
use hugewise_report::date;
use hugewise_report::json::history::Point;

use crate::{History, Reading, Span};

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Its name.
    pub host: String,
    /// What else is said of the host as a whole: `Linux 6.18.0 x86_64`.
    pub about: String,
    /// The moment, as the host's clock shows it.
    pub at: String,
    /// How its memory stands.
    pub gauges: Gauges,
    /// Its pools, smallest pages first; `None` where nothing tells of them.
    pub pools: Option<Vec<PoolRow>>,
    /// Its instances; `None` where nothing tells of them.
    pub instances: Option<Vec<InstanceRow>>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// What could not be told, in a sentence; empty where everything could.
    pub unknown: String,
}

/// One number that is drawn over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Part of all processors' time in the kernel, 0 to 1, since the frame before.
    KernelCpu,
    /// Page tables of all processes, in bytes.
    PageTables,
    /// Memory that programs can still have, in bytes.
    Available,
    /// Memory that nobody uses, in bytes: where nothing tells what is available.
    Free,
    /// Swap in use, in bytes.
    Swap,
    /// Client sessions of all instances that tell.
    Sessions,
}

impl Gauge {
    /// Every one, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::KernelCpu, Self::PageTables, Self::Available, Self::Free, Self::Swap, Self::Sessions];

    /// What it is called.
    pub const fn label(self) -> &'static str {
        match self {
            Self::KernelCpu => "kernel CPU",
            Self::PageTables => "page tables",
            Self::Available => "available",
            Self::Free => "free",
            Self::Swap => "swap",
            Self::Sessions => "sessions",
        }
    }

    /// Its value in words.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::KernelCpu => format!("{:.0} %", value * 100.0),
            Self::Sessions => format!("{value:.0}"),
            Self::PageTables | Self::Available | Self::Free | Self::Swap => bytes(value).to_string(),
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0) as u64)
}

/// How a host's memory stands; each number is `None` where nothing tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// See [`Gauge::KernelCpu`].
    pub kernel_cpu: Option<f64>,
    /// See [`Gauge::PageTables`].
    pub page_tables: Option<f64>,
    /// See [`Gauge::Available`].
    pub available: Option<f64>,
    /// See [`Gauge::Free`].
    pub free: Option<f64>,
    /// See [`Gauge::Swap`].
    pub swap: Option<f64>,
    /// See [`Gauge::Sessions`].
    pub sessions: Option<f64>,
    /// All memory, in bytes: what the others are parts of.
    pub memory: Option<f64>,
}

impl Gauges {
    /// The value of one.
    pub const fn get(&self, gauge: Gauge) -> Option<f64> {
        match gauge {
            Gauge::KernelCpu => self.kernel_cpu,
            Gauge::PageTables => self.page_tables,
            Gauge::Available => self.available,
            Gauge::Free => self.free,
            Gauge::Swap => self.swap,
            Gauge::Sessions => self.sessions,
        }
    }
}

/// One pool; each number is `None` where it could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// Size of its pages.
    pub page: PageSize,
    /// Pages in it.
    pub total: Option<PageCount>,
    /// Of these, spoken for.
    pub committed: Option<PageCount>,
    /// Of these, to be had by a new mapping.
    pub available: Option<PageCount>,
}

impl From<&Pool> for PoolRow {
    fn from(pool: &Pool) -> Self {
        Self { page: pool.page_size, total: pool.total.get(), committed: pool.committed(), available: pool.available() }
    }
}

/// One instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    /// Which instance; none in a recording, which knows titles alone.
    pub id: Option<InstanceId>,
    /// `oracle PROD`.
    pub title: String,
    /// What is worth a line each when one looks at it alone: a label, and what stands behind it.
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
    /// The links to its huge pages, where they do not all hold.
    pub chain: Option<Arc<Chain>>,
}

impl InstanceRow {
    /// Page tables for each session; none where sessions share them, or where one of the two is not told.
    pub fn page_tables_a_session(&self) -> Option<Bytes> {
        let sessions = self.sessions.filter(|_| self.session_model == SessionModel::Processes)?;
        self.page_tables?.get().checked_div(sessions).map(Bytes)
    }

    fn of(instance: &Instance, chain: Option<&Chain>, moments: Option<&Moments>) -> Self {
        Self {
            id: Some(instance.id()),
            title: instance.title(),
            facts: facts(instance, moments),
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
fn outlook(outlook: &Outlook) -> String {
    let word = outlook.standing.in_a_word();
    outlook.why.as_ref().map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"))
}

fn facts(instance: &Instance, moments: Option<&Moments>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut fact = |label, value: Option<String>| facts.extend(value.map(|value| (label, value)));
    for (label, moment) in [("restart", Moment::Restart), ("reboot", Moment::Boot)] {
        fact(label, moments.map(|moments| outlook(moments.at(moment))));
    }
    fact("version", instance.version.known().cloned());
    fact("process", Some(format!("{} of {}, {} in all", instance.pid, instance.owner_in_words(), instance.pids.len())));
    fact("unit", instance.unit.clone());
    fact("stranger", (!instance.is_vouched()).then(|| stranger::why(instance)));
    fact("data", instance.data_directory.known().cloned());
    fact("listens", (!instance.endpoints.is_empty()).then(|| instance.endpoints.join(", ")));
    fact("most", instance.max_sessions.get().map(|most| format!("{most} sessions by its settings")));
    fact("setting", instance.setting.as_ref().map(ToString::to_string));
    let demand = instance.demand.as_ref();
    fact("needs", demand.map(|demand| demand.pages.in_pages_of(demand.page_size)));
    facts
}

/// Makes frames of readings, each with what the processors did since the one before.
#[derive(Debug)]
pub struct Recorder(History);

impl Default for Recorder {
    fn default() -> Self {
        Self(History::new(Span { gap: std::time::Duration::ZERO, points: 1 }))
    }
}

impl Recorder {
    /// The frame of a reading.
    pub fn frame(&mut self, reading: &Reading) -> Frame {
        let point = self.0.add(reading);
        frame(reading, point.as_deref())
    }
}

fn frame(reading: &Reading, point: Option<&Point>) -> Frame {
    let Reading { host, instances, assessment, unread, .. } = reading;
    let chain = |instance: &Instance| {
        let id = instance.id();
        assessment.chains.iter().find(|chain| chain.instance == id)
    };
    let kernel = host.kernel.known().map(|kernel| format!("Linux {}", kernel.text));
    let about: Vec<String> = kernel.into_iter().chain(host.architecture.known().cloned()).collect();
    Frame {
        host: host.name.known().cloned().unwrap_or_else(|| "this host".into()),
        about: about.join(" "),
        at: host.read_at.get().and_then(date::rfc3339).unwrap_or_default(),
        gauges: gauges(reading, point),
        pools: host.pools.known().map(|pools| pools.iter().map(PoolRow::from).collect()),
        instances: host.processes.known().map(|_| {
            instances
                .iter()
                .filter(|it| !it.is_asleep())
                .map(|instance| InstanceRow::of(instance, chain(instance), assessment.situation.of(instance)))
                .collect()
        }),
        findings: assessment.findings.clone(),
        unknown: match unread.as_slice() {
            [] => String::new(),
            [one] => format!("{} could not be read: {}", one.what, one.why),
            [one, ..] => format!("{} facts could not be read, {} among them: {}", unread.len(), one.what, one.why),
        },
    }
}

#[allow(clippy::cast_precision_loss, reason = "what is drawn needs no more than 2^52 of anything")]
fn gauges(reading: &Reading, point: Option<&Point>) -> Gauges {
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
    use hugewise_advice::standing::Standing;

    use super::*;
    use crate::testing;

    #[test]
    fn a_frame_tells_what_was_read_and_nothing_else() {
        let mut reading = testing::reading();
        reading.host.name = Observed::Known("db7".into());
        let frame = Recorder::default().frame(&reading);
        assert_eq!(frame.host, "db7");
        assert_eq!(frame.gauges.page_tables, Some(65536.0));
        assert_eq!(frame.gauges.memory, Some(1_073_741_824.0));
        // One reading alone tells nothing of what the processors do, and no processes could be listed.
        assert_eq!((frame.gauges.kernel_cpu, frame.gauges.sessions, frame.instances), (None, None, None));
    }

    #[test]
    fn only_sessions_that_are_processes_have_page_tables_of_their_own() {
        let mut instance = testing::instance("PROD");
        instance.page_tables = Observed::Known(Bytes(1000));
        let row = |instance: &Instance| InstanceRow::of(instance, None, None).page_tables_a_session();
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
        let outlook = |standing, why: Option<&str>| Outlook { standing, why: why.map(str::to_owned), obstacle: None };
        let moments = Moments {
            now: outlook(Standing::All, None),
            restart: outlook(Standing::All, None),
            boot: outlook(Standing::DoesNotStart, Some("needs 537 pages of 2 MiB and finds 0")),
        };
        let row = InstanceRow::of(&testing::instance("PROD"), None, Some(&moments));
        let facts: Vec<_> = row.facts.iter().take(2).map(|(label, text)| (*label, text.as_str())).collect();
        assert_eq!(facts, [("restart", "all"), ("reboot", "fails: needs 537 pages of 2 MiB and finds 0")]);
    }

    #[test]
    fn gauges_are_shown_in_their_units() {
        assert_eq!(Gauge::KernelCpu.shown(0.345), "34 %");
        assert_eq!(Gauge::PageTables.shown(1_610_612_736.0), "1.5 GiB");
        assert_eq!(Gauge::Sessions.shown(40.0), "40");
        assert_eq!(Gauge::Swap.shown(f64::NAN), "0 B");
    }
}
