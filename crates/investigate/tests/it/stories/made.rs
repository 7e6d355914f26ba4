//! Hosts that are made: what happens in each second, and what a collector sees of it.

use std::time::Duration;

use hugewise_investigate::series::{Mark, MarkKind};
use hugewise_investigate::{
    HostSetupFacts, Incident, IncidentHistory, IncidentVerdict, Metric, Moment, Series, join,
    signatures,
};

pub(crate) const GIB: f64 = 1_073_741_824.0;
pub(crate) const MIB: f64 = 1_048_576.0;
pub(crate) const DAY: i64 = 86_400;
/// 2026-11-21 00:00:00.
pub(crate) const MIDNIGHT: i64 = 1_795_219_200;

/// One second of a host. Rates and shares are of the second, the rest of its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) iowait: f64,
    pub(crate) steal: f64,
    pub(crate) forks: f64,
    pub(crate) accepted: f64,
    pub(crate) direct: f64,
    pub(crate) kswapd: f64,
    pub(crate) swap_in: f64,
    pub(crate) swap_out: f64,
    pub(crate) paged: f64,
    pub(crate) compacted: f64,
    pub(crate) free: f64,
    pub(crate) cached: f64,
    pub(crate) tables: f64,
    pub(crate) tasks: f64,
    pub(crate) queue: f64,
    pub(crate) blocked: f64,
    /// Percent in which some task and all tasks waited for memory.
    pub(crate) stalled: (f64, f64),
    pub(crate) taken_back: f64,
    pub(crate) killed: f64,
    pub(crate) pool: f64,
    pub(crate) pool_free: f64,
}

/// What a collector keeps of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeps {
    pub(crate) total: f64,
    pub(crate) processors: f64,
    /// As sysstat before 11.2.8 cannot on Linux 4.8.
    pub(crate) scans: bool,
    /// As sysstat before 11.1.3 does not.
    pub(crate) tables: bool,
    /// As sar does not.
    pub(crate) compaction: bool,
    /// As sysstat does since 12.3.3.
    pub(crate) pressure: bool,
}

impl Default for Keeps {
    fn default() -> Self {
        Self {
            total: 16.0 * GIB,
            processors: 4.0,
            scans: true,
            tables: true,
            compaction: false,
            pressure: false,
        }
    }
}

/// Splitmix64, between -1 and 1: the same noise in every run.
pub(crate) fn noise(seed: u64, second: i64, what: u64) -> f64 {
    let mut z = seed
        .wrapping_add(u64::try_from(second).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15))
        ^ (what << 56);
    for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        z = (z ^ (z >> 29)).wrapping_mul(factor);
    }
    f64::from(u32::try_from(z >> 40).unwrap()) / f64::from(1u32 << 23) - 1.0
}

/// Moments of a schedule, a second after the full interval as cron's are.
pub(crate) fn every(interval: i64, from: i64, to: i64) -> Vec<i64> {
    (from / interval + 1..).map(|slot| slot * interval + 1).take_while(|at| *at <= to).collect()
}

/// What a collector sees that samples at these moments.
pub(crate) fn seen(host: &dyn Fn(i64) -> Second, moments: &[i64], keeps: Keeps) -> Series {
    let mut series = Series::new("/var/log/sa/sa21", hugewise_investigate::SourceFormat::SYSSTAT);
    series.version = Some("12.6.1".to_owned());
    // As the head of every file of sysstat has it.
    series.architecture = Some("x86_64".to_owned());
    let mut before: Option<i64> = None;
    for at in moments {
        let mut sum = Second::default();
        let from = before.map_or(*at, |before| before + 1);
        for second in from..=*at {
            let now = host(second);
            sum = Second {
                user: sum.user + now.user,
                system: sum.system + now.system,
                iowait: sum.iowait + now.iowait,
                steal: sum.steal + now.steal,
                forks: sum.forks + now.forks,
                accepted: sum.accepted + now.accepted,
                direct: sum.direct + now.direct,
                kswapd: sum.kswapd + now.kswapd,
                swap_in: sum.swap_in + now.swap_in,
                swap_out: sum.swap_out + now.swap_out,
                paged: sum.paged + now.paged,
                compacted: sum.compacted + now.compacted,
                stalled: (sum.stalled.0 + now.stalled.0, sum.stalled.1 + now.stalled.1),
                taken_back: sum.taken_back + now.taken_back,
                killed: sum.killed + now.killed,
                ..now
            };
        }
        let passed = before.and_then(|before| u64::try_from(at - before).ok());
        series.push(Moment::from_seconds(MIDNIGHT + at), passed.map(Duration::from_secs));
        for (metric, value) in [
            (Metric::MemTotal, keeps.total),
            (Metric::MemFree, sum.free),
            (Metric::Cached, sum.cached),
            (Metric::Tasks, sum.tasks),
            (Metric::RunQueue, sum.queue),
            (Metric::Blocked, sum.blocked),
            (Metric::HugeTotal, sum.pool),
            (Metric::HugeFree, sum.pool_free),
            (Metric::HugeReserved, 0.0),
            (Metric::Processors, keeps.processors),
        ] {
            series.set_value(metric, value);
        }
        if keeps.tables {
            series.set_value(Metric::PageTables, sum.tables);
        }
        if let Some(passed) = passed {
            let mut rate = |metric, sum: f64| {
                series.set_value(metric, sum / Duration::from_secs(passed).as_secs_f64())
            };
            rate(Metric::CpuUser, sum.user);
            rate(Metric::CpuSystem, sum.system);
            rate(Metric::CpuIowait, sum.iowait);
            rate(Metric::CpuSteal, sum.steal);
            rate(
                Metric::CpuIdle,
                (Duration::from_secs(passed).as_secs_f64() * 100.0
                    - sum.user
                    - sum.system
                    - sum.iowait
                    - sum.steal)
                    .max(0.0),
            );
            rate(Metric::Forks, sum.forks);
            rate(Metric::TcpPassive, sum.accepted);
            rate(Metric::SwapIn, sum.swap_in);
            rate(Metric::SwapOut, sum.swap_out);
            rate(Metric::PagedIn, sum.paged / 2.0);
            rate(Metric::PagedOut, sum.paged / 2.0);
            if keeps.pressure {
                rate(Metric::PressureMemorySome, sum.stalled.0);
                rate(Metric::PressureMemoryFull, sum.stalled.1);
            }
            if keeps.scans {
                rate(Metric::Steal, sum.taken_back);
                rate(Metric::ScanDirect, sum.direct);
                rate(Metric::ScanKswapd, sum.kswapd);
            }
            if keeps.compaction {
                rate(Metric::CompactStall, sum.compacted);
                rate(Metric::OomKill, sum.killed);
            }
        }
        before = Some(*at);
    }
    if !keeps.scans {
        series.untrusted = [Metric::ScanDirect, Metric::ScanKswapd]
            .map(|metric| (metric, "sysstat 11.1.5 writes 0 on Linux 4.8 and later".to_owned()))
            .to_vec();
    }
    series.finish()
}

/// Notes that the host was started.
pub(crate) fn started(mut series: Series, at: i64) -> Series {
    series.marks.push(Mark { at: Moment::from_seconds(MIDNIGHT + at), kind: MarkKind::Restart });
    series
}

/// Looks for incidents, as an investigation does.
pub(crate) fn investigated(series: Vec<Series>) -> IncidentHistory {
    investigated_with(series, None)
}

/// The same of a host that was captured.
pub(crate) fn investigated_with(
    series: Vec<Series>,
    facts: Option<HostSetupFacts>,
) -> IncidentHistory {
    let mut history = IncidentHistory { series, facts, ..IncidentHistory::default() };
    history.signatures = signatures::find_signatures(&history);
    join::join_incidents(&mut history);
    history
}

pub(crate) fn verdicts(history: &IncidentHistory) -> Vec<IncidentVerdict> {
    history.incidents.iter().map(|incident| incident.verdict).collect()
}

/// The time of day at which an incident begins and ends.
pub(crate) fn window(incident: &Incident) -> (String, String) {
    let time = |moment: Moment| {
        let second = moment.0.div_euclid(1000).rem_euclid(DAY);
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    };
    (time(incident.from), time(incident.to))
}

/// Checks that a text has all of these in it.
pub(crate) fn says(text: &str, all: &[&str]) {
    for part in all {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}
