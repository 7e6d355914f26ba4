//! A host in a window of time: the figures that verdicts are made of.

use std::collections::BTreeSet;

use hugewise_model::Bytes;

use super::changes::CountChange;
use super::window::{AROUND, IncidentWindow, rows_in};
use crate::baseline::median_of;
use crate::page::BasePage;
use crate::signatures::observations::Observations;
use crate::signatures::rows::{SeriesRows, milliseconds_between};
use crate::signatures::{disk, kernel_cpu, page_tables};
use crate::{
    KernelWork, LogEvent, LogEventKind, MemoryReport, Metric, Moment, Series, Signature,
    SignatureEvidence, SignatureKind, SignatureStrength,
};

/// Percent of the processors.
const HALF: f64 = 50.0;
/// %system that is much for an interval of any length.
const MUCH: f64 = 20.0;
/// Part of memory that is available on a host which is not short of it.
pub(super) const SPARE: f64 = 0.1;
/// Failed reclaims for each kill: the kernel tries as often before it kills (MAX_RECLAIM_RETRIES,
/// mm/page_alloc.c). Reclaim at a cgroup's limit is not among them.
const IN_VAIN: f64 = 16.0;
/// Pages that go to swap, for each that is scanned, where reclaim is of programs' memory.
const OUT: f64 = 0.2;
/// Part of reclaimed pages that goes to swap where the host lacks room for its programs, and the
/// part of that which comes back.
const SWAPPED: f64 = 0.3;
const CAME_BACK: f64 = 0.25;
/// Part of scanned pages that is reclaimed of programs' memory: such a host had 0.3 to 0.5.
const TAKEN: f64 = 0.4;
/// Milliseconds between samples that thin what one process does.
const COARSE: i64 = 60_000;
/// Percent of a processor that a thread of the kernel takes in trouble.
const BUSY_THREAD: f64 = 20.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct PageTableShare {
    pub(super) bytes: f64,
    pub(super) total: f64,
    /// Whether they were read in the window, not at another time.
    pub(super) then: bool,
}

impl PageTableShare {
    pub(super) fn memory_fraction(&self) -> f64 {
        self.bytes / self.total
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PoolUsage {
    pub(super) total: f64,
    pub(super) available: f64,
}

/// What programs held before and after it grew.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryGrowth {
    pub(super) swap: (f64, f64),
    pub(super) committed: Option<(f64, f64)>,
    pub(super) memory: f64,
    /// Milliseconds that it took.
    pub(super) lasted: i64,
}

/// Pages a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) pages: f64,
    page: BasePage,
}

impl Scans {
    /// Whether anything was counted; `None` where nobody counted.
    pub(super) fn any_scanned(&self) -> Option<bool> {
        match self {
            Self::Counted { direct, kswapd } => Some(direct.pages + kswapd.pages >= 1.0),
            Self::Together(rate, _) => Some(rate.pages >= 1.0),
            Self::Stalls(stalls) => Some(*stalls > 0.0),
            Self::Untrusted(_) | Self::Absent => None,
        }
    }
}

impl Rate {
    pub(super) fn format_amount(self) -> String {
        self.page.format_pages(self.pages)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scans {
    /// Counted; the highest rates of processes themselves and of kswapd.
    Counted {
        direct: Rate,
        kswapd: Rate,
    },
    /// Counted together; the highest rate, and that of allocations that had to reclaim.
    Together(Rate, Option<f64>),
    /// Not counted, but how many allocations a second had to reclaim, at the highest.
    Stalls(f64),
    /// Counters that are false, with the reason.
    Untrusted(String),
    Absent,
}

pub(super) struct WindowFacts<'a> {
    pub(super) signatures: &'a [Signature],
    /// Highest %system.
    pub(super) system: Option<f64>,
    /// Its usual value, where it stands out.
    pub(super) usual: Option<f64>,
    /// %user where %system is highest.
    pub(super) user: Option<f64>,
    /// The lowest %idle with %iowait.
    pub(super) idle: Option<f64>,
    /// The lowest %idle alone: who lacks memory waits for disks.
    pub(super) unused: Option<f64>,
    /// The median of both.
    pub(super) usually_idle: Option<f64>,
    /// Free memory at its lowest, and at its highest after that.
    pub(super) free: Option<(f64, f64)>,
    pub(super) tables: Option<PageTableShare>,
    /// Whether page tables were read: without the size of memory they make no [`PageTableShare`].
    pub(super) tables_read: bool,
    pub(super) pool: Option<PoolUsage>,
    /// What the kernel's report in a log says of memory, of several the last.
    pub(super) report: Option<MemoryReport>,
    /// What the kernel was at where tasks hung, by its log.
    pub(super) work: Option<KernelWork>,
    /// How often pages in a row were not to be had, and by how many tasks or sizes.
    pub(super) in_pieces: (usize, usize),
    /// How often servers waited for a disk, by their own word.
    pub(super) disk_waits: usize,
    /// Requests to storage that the kernel gave up.
    pub(super) storage_timeouts: usize,
    pub(super) storage_errors: usize,
    pub(super) scans: Scans,
    /// Whether scans were counted, and none were in the window nor in the minutes around it.
    pub(super) no_scans: bool,
    /// Who waited for memory, and the highest percent of the time.
    pub(super) pressure: Option<(&'static str, f64)>,
    /// Allocations a second that waited for compaction, at their highest.
    pub(super) compacted: Option<f64>,
    pub(super) killed: f64,
    /// The least part of memory that was available, or free where nothing else was counted.
    pub(super) spare: Option<f64>,
    /// Processes and threads begun a second, at their highest.
    pub(super) forks: Option<f64>,
    /// Tasks that waited for a disk, at their most, and the median of bytes a second moved.
    pub(super) blocked: Option<f64>,
    pub(super) moved: Option<f64>,
    /// Percent that the hypervisor took, and %iowait, at their highest.
    pub(super) stolen: Option<f64>,
    pub(super) iowait: Option<f64>,
    /// Whether some source has nothing but such waits.
    pub(super) waited_throughout: bool,
    /// Pages a second taken back, at their highest, those at a cgroup's limit included.
    pub(super) taken_back: Option<f64>,
    pub(super) compaction_counted: bool,
    pub(super) last_seen: Vec<String>,
    /// Pages that went to swap, as a part of all that were reclaimed, where at least a fourth of
    /// them came back; otherwise 0.
    pub(super) swapped: f64,
    /// Pages a second out to swap and back, at their highest.
    pub(super) swap: Option<(Rate, Rate)>,
    pub(super) count: Option<CountChange>,
    /// Page tables before and after that; without a count, where they rose or fell most.
    pub(super) grown: Option<(f64, f64)>,
    /// The longest queue for a processor, and the number of processors.
    pub(super) load: Option<(f64, f64)>,
    /// The highest one-minute load.
    pub(super) load_average: Option<f64>,
    /// Threads of the kernel that took much of a processor, and percent of one at their highest.
    pub(super) threads: Vec<(&'static str, f64)>,
    /// Swap in use and committed memory where a growth of memory began and where it ended.
    pub(super) growth: Option<MemoryGrowth>,
    /// Percent of the time in which all tasks waited for a disk, at the highest.
    pub(super) disk_pressure: Option<f64>,
    /// Seconds that a collector was late.
    pub(super) late: Option<i64>,
    /// The least memory that was available, and whether the host has swap.
    pub(super) available: Option<f64>,
    pub(super) memory: Option<f64>,
    pub(super) without_swap: bool,
    /// Whether some source lists processes, disks, or the kernel's messages.
    pub(super) lists_processes: bool,
    pub(super) lists_disks: bool,
    pub(super) has_kernel_log: bool,
    pub(super) root: Option<String>,
    /// Milliseconds between samples of the coarsest source that shows the incident.
    pub(super) coarsest: i64,
}

impl IncidentWindow<'_> {
    fn metric_values(&self, metric: Metric) -> impl Iterator<Item = (&Series, usize, f64)> {
        self.metric_values_from(metric, self.from)
    }

    fn metric_values_from(
        &self,
        metric: Metric,
        from: Moment,
    ) -> impl Iterator<Item = (&Series, usize, f64)> {
        self.history.series.iter().flat_map(move |series| {
            let column = series.column(metric).into_iter();
            column.flat_map(move |column| {
                let rows = rows_in(series, from, self.to);
                rows.filter_map(move |row| Some((series, row, column.get(row)?)))
            })
        })
    }

    /// Rates at the window's begin are of an interval before it.
    fn highest_value(&self, metric: Metric) -> Option<(&Series, usize, f64)> {
        let is_moment = self.from == self.to;
        let from = if is_moment { self.from } else { Moment(self.from.0.saturating_add(1)) };
        self.metric_values_from(metric, from).max_by(|one, other| one.2.total_cmp(&other.2))
    }

    fn highest_page_rate(&self, metric: Metric) -> Option<Rate> {
        let (series, _, pages) = self.highest_value(metric)?;
        Some(Rate { pages, page: BasePage::from_series(series, self.observations.page) })
    }

    fn busy_kernel_threads(&self) -> Vec<(&'static str, f64)> {
        let threads = [
            ("khugepaged", Metric::KhugepagedCpu),
            ("kcompactd", Metric::KcompactdCpu),
            ("kswapd", Metric::KswapdCpu),
        ];
        let percent =
            |metric| self.metric_values(metric).map(|(.., percent)| percent).max_by(f64::total_cmp);
        let busy = threads.into_iter().filter_map(|(name, metric)| {
            Some((name, percent(metric).filter(|percent| *percent >= BUSY_THREAD)?))
        });
        busy.collect()
    }

    fn memory_growth(&self, signatures: &[Signature]) -> Option<MemoryGrowth> {
        let memory = self.observations.memory?;
        let growths = signatures.iter().filter(|one| one.kind == SignatureKind::MemoryGrowth);
        let told = growths.filter_map(|growth| {
            let between = |metric| {
                let value_at = |at: Moment| {
                    let mut all = self.metric_values(metric);
                    let here = |(series, row, _): &(&Series, usize, f64)| {
                        series.samples().get(*row).is_some_and(|sample| sample.at == at)
                    };
                    all.find(here).map(|(.., value)| value)
                };
                value_at(growth.from).zip(value_at(growth.to))
            };
            Some(MemoryGrowth {
                swap: between(Metric::SwapUsed)?,
                committed: between(Metric::Committed),
                memory,
                lasted: milliseconds_between(growth.from, growth.to),
            })
        });
        told.max_by(|one, other| one.swap.1.total_cmp(&other.swap.1))
    }

    fn swapped_fraction(&self) -> f64 {
        let rows = self.metric_values(Metric::SwapOut).filter_map(|(series, row, out)| {
            let scanned =
                [Metric::ScanKswapd, Metric::ScanDirect].map(|metric| series.value(metric, row));
            let scanned = || Some(TAKEN * scanned.into_iter().sum::<Option<f64>>()?);
            let reclaimed = series.value(Metric::Steal, row).or_else(scanned)?;
            Some((reclaimed, out, series.value(Metric::SwapIn, row)?))
        });
        let (reclaimed, out, back) = rows.fold((0.0, 0.0, 0.0), |sum: (f64, f64, f64), row| {
            (sum.0 + row.0, sum.1 + row.1, sum.2 + row.2)
        });
        if reclaimed > 0.0 && back >= CAME_BACK * out { out / reclaimed } else { 0.0 }
    }

    fn peak_system_cpu(&self) -> Option<(f64, Option<f64>)> {
        let (series, row, peak) = self.highest_value(Metric::CpuSystem)?;
        Some((peak, series.value(Metric::CpuUser, row)))
    }

    /// The median, as a short burst does not mean that disks were working.
    fn median_disk_throughput(&self) -> Option<f64> {
        let written = |series: &Series, row| series.value(Metric::PagedOut, row).unwrap_or(0.0);
        let mut all: Vec<f64> = self
            .metric_values(Metric::PagedIn)
            .map(|(series, row, read)| read + written(series, row))
            .collect();
        median_of(&mut all)
    }

    fn idle_cpu(&self) -> Option<(f64, f64)> {
        let idle = self
            .metric_values(Metric::CpuIdle)
            .map(|(series, row, idle)| idle + series.value(Metric::CpuIowait, row).unwrap_or(0.0));
        let mut all: Vec<f64> = idle.collect();
        let least = all.iter().copied().min_by(f64::total_cmp);
        least.zip(median_of(&mut all))
    }

    fn free_memory_leap(&self) -> Option<(f64, f64)> {
        let (source, at, low) =
            self.metric_values(Metric::MemFree).min_by(|one, other| one.2.total_cmp(&other.2))?;
        let behind = self
            .metric_values(Metric::MemFree)
            .filter(|(series, row, _)| series.source == source.source && *row > at);
        behind.map(|(.., free)| free).max_by(f64::total_cmp).map(|high| (low, high))
    }

    fn log_events(&self) -> impl Iterator<Item = &LogEvent> {
        let (from, to) = (self.from, self.to);
        let all = self.history.series.iter().flat_map(Series::events);
        all.filter(move |(at, _)| (from..=to).contains(at)).map(|(_, event)| event)
    }

    fn count_log_events(&self, kind: LogEventKind) -> usize {
        self.log_events().filter(|event| event.kind == kind).count()
    }

    fn count_allocation_failures(&self) -> (usize, usize) {
        let failed = || {
            let is_failure = |event: &&LogEvent| event.kind == LogEventKind::AllocationFailure;
            self.log_events().filter(is_failure)
        };
        let said: BTreeSet<&str> = failed().map(|event| event.what.as_str()).collect();
        (failed().count(), said.len())
    }

    fn memory_report(&self) -> Option<MemoryReport> {
        self.log_events().filter_map(|event| event.memory).last()
    }

    fn page_table_share(&self) -> Option<PageTableShare> {
        // A report of the kernel is of the moment itself.
        if let Some(report) = self.memory_report()
            && let Some(bytes) = report.page_tables
            && let Some(total) = report.total.map(Bytes::as_f64).or(self.observations.memory)
        {
            return Some(PageTableShare { bytes: bytes.as_f64(), total, then: true });
        }
        let total = self.observations.memory?;
        // No host has more of them than memory: one of the numbers is another machine's.
        self.read_page_tables(total).filter(|share| share.bytes <= total)
    }

    fn read_page_tables(&self, total: f64) -> Option<PageTableShare> {
        if let Some((.., bytes)) =
            self.metric_values(Metric::PageTables).max_by(|one, other| one.2.total_cmp(&other.2))
        {
            return Some(PageTableShare { bytes, total, then: true });
        }
        let facts = self.history.facts.as_ref();
        let captured = facts.and_then(|facts| Some((facts.at?, facts.page_tables?.as_f64())));
        let outside =
            |at: Moment| milliseconds_between(self.to, at).max(milliseconds_between(at, self.from));
        let read = self.page_table_readings();
        let (at, bytes) = read.chain(captured).min_by_key(|(at, _)| outside(*at))?;
        Some(PageTableShare { bytes, total, then: outside(at) <= 0 })
    }

    fn pool_usage(&self) -> Option<PoolUsage> {
        let inside = self.metric_values(Metric::HugeTotal).last();
        let anywhere = || {
            let columns = self
                .history
                .series
                .iter()
                .filter_map(|one| Some((one, one.column(Metric::HugeTotal)?)));
            columns
                .flat_map(|(series, column)| {
                    column.iter().map(move |(row, total)| (series, row, total))
                })
                .last()
        };
        let reported = || {
            let (total, free) = self.memory_report()?.pools?;
            Some(PoolUsage { total: total.as_f64(), available: free.as_f64() })
        };
        if let Some(pools) = reported().filter(|_| inside.is_none()) {
            return Some(pools);
        }
        let Some((series, row, total)) = inside.or_else(anywhere) else {
            return self.captured_pools();
        };
        // A pool of no pages has no free ones.
        let free = series.value(Metric::HugeFree, row).or((total <= 0.0).then_some(0.0))?;
        Some(PoolUsage {
            total,
            available: free - series.value(Metric::HugeReserved, row).unwrap_or(0.0),
        })
    }

    fn captured_pools(&self) -> Option<PoolUsage> {
        let pools = self.history.facts.as_ref()?.pools.as_ref()?;
        let mut all = PoolUsage { total: 0.0, available: 0.0 };
        for pool in pools {
            let bytes = |pages: u64| pool.page.bytes().saturating_mul(pages).as_f64();
            all.total += bytes(pool.total?);
            all.available += bytes(pool.free?.saturating_sub(pool.reserved.unwrap_or(0)));
        }
        Some(all)
    }

    fn page_scans(&self) -> Scans {
        // A source that tells them apart only sometimes tells most where it does not.
        let apart = self
            .metric_values(Metric::ScanDirect)
            .any(|(series, ..)| series.column(Metric::Scan).is_none());
        let counted = self
            .highest_page_rate(Metric::ScanDirect)
            .zip(self.highest_page_rate(Metric::ScanKswapd));
        if let Some((direct, kswapd)) = counted.filter(|_| apart) {
            return Scans::Counted { direct, kswapd };
        }
        let stalls = self.highest_value(Metric::AllocStall).map(|(.., stalls)| stalls);
        if let Some(rate) = self.highest_page_rate(Metric::Scan) {
            return Scans::Together(rate, stalls);
        }
        if let Some(stalls) = stalls {
            return Scans::Stalls(stalls);
        }
        let mut lies = self.history.series.iter().flat_map(|series| &series.untrusted);
        let lie =
            lies.find(|(metric, _)| matches!(metric, Metric::ScanDirect | Metric::ScanKswapd));
        lie.map_or(Scans::Absent, |(_, why)| Scans::Untrusted(why.clone()))
    }

    fn memory_pressure(&self) -> Option<(&'static str, f64)> {
        let text_of =
            |metric, who| self.highest_value(metric).map(|(.., percent)| (who, percent.min(100.0)));
        let all = text_of(Metric::PressureMemoryFull, "all tasks")
            .filter(|(_, percent)| *percent >= 10.0);
        all.or_else(|| text_of(Metric::PressureMemorySome, "some task"))
    }

    /// The least part of memory that was available: free, or in caches that are no shared memory.
    fn spare_memory_fraction(&self) -> Option<f64> {
        let total = self.observations.memory?;
        let caches = |series: &Series, row: usize| {
            let cached = series.value(Metric::Cached, row)? - series.value(Metric::Shmem, row)?;
            Some(cached.max(0.0) + series.value(Metric::Buffers, row).unwrap_or(0.0))
        };
        // Caches hold programs and locked memory too: where they are small, a kill proves a lack.
        let in_vain = self.reclaimed_in_vain();
        let told = self.metric_values(Metric::MemFree).filter_map(|(series, row, free)| {
            series.value(Metric::MemAvailable, row).or_else(|| {
                let all = free + caches(series, row)?;
                Some(if in_vain && all < 2.0 * SPARE * total { free } else { all })
            })
        });
        // Sources that only have free memory say nothing of caches.
        let free =
            || self.metric_values(Metric::MemFree).map(|(_, _, free)| free).min_by(f64::total_cmp);
        told.min_by(f64::total_cmp).or_else(free).map(|bytes| bytes / total)
    }

    fn reclaimed_in_vain(&self) -> bool {
        self.metric_values(Metric::OomKill).any(|(series, row, kills)| {
            let stalls = series.value(Metric::AllocStall, row).unwrap_or(0.0);
            kills > 0.0 && stalls >= IN_VAIN * kills
        })
    }

    fn count_oom_kills(&self) -> f64 {
        let value_of = |series: &Series| {
            let rows = rows_in(series, Moment(self.from.0.saturating_add(1)), self.to);
            let kills = rows.filter_map(|row| {
                let interval = series.samples().get(row)?.interval?;
                Some(series.value(Metric::OomKill, row)? * interval.as_secs_f64())
            });
            kills.sum::<f64>()
        };
        self.history.series.iter().map(value_of).max_by(f64::total_cmp).unwrap_or(0.0).round()
    }

    fn lowest_value(&self, metric: Metric) -> Option<f64> {
        self.metric_values(metric).map(|(.., value)| value).min_by(f64::total_cmp)
    }

    /// Out to swap, and back in.
    fn highest_swap_rates(&self) -> Option<(Rate, Rate)> {
        self.highest_page_rate(Metric::SwapOut).zip(self.highest_page_rate(Metric::SwapIn))
    }

    /// Whether any source tells how large page tables were.
    fn has_page_tables(&self) -> bool {
        let counts = |one: &Series| one.column(Metric::PageTables).is_some();
        let facts = self.history.facts.as_ref();
        self.history.series.iter().any(counts)
            || self.memory_report().is_some_and(|report| report.page_tables.is_some())
            || facts.is_some_and(|facts| facts.page_tables.is_some())
    }

    fn peak_processor_load(&self) -> Option<(f64, f64)> {
        let queue = self.highest_value(Metric::RunQueue);
        let load = self.highest_value(Metric::Load1);
        let (series, row, most) =
            queue.into_iter().chain(load).max_by(|one, other| one.2.total_cmp(&other.2))?;
        let processors =
            series.value(Metric::Processors, row).filter(|processors| *processors >= 1.0)?;
        Some((most, processors))
    }
}

fn coarsest_interval(observations: &Observations<'_>, signatures: &[Signature]) -> i64 {
    let shows = |rows: &&SeriesRows<'_>| {
        let mut evidence = signatures.iter().flat_map(|signature| &signature.evidence);
        evidence.any(|evidence| evidence.source == rows.source())
    };
    observations.rows.iter().filter(shows).map(|rows| rows.usual).max().unwrap_or(0)
}

impl<'a> WindowFacts<'a> {
    pub(super) fn new(
        observations: &Observations<'_>,
        from: Moment,
        to: Moment,
        signatures: &'a [Signature],
    ) -> Self {
        let history = observations.history;
        let window = IncidentWindow { observations, history, from, to };
        let wider = IncidentWindow {
            from: Moment(from.0.saturating_sub(AROUND)),
            to: Moment(to.0.saturating_add(AROUND)),
            ..window
        };
        let system = window.peak_system_cpu();
        // All rows around these are kept, even where others were thinned away.
        let starved = signatures.iter().filter(|one| one.kind == SignatureKind::Starved);
        let late = starved.filter_map(|one| observations.worst_lateness(one.from, one.to));
        let has = |metric| history.series.iter().any(|one| one.column(metric).is_some());
        let most = |metric| window.highest_value(metric).map(|(.., value)| value);
        let count = window.find_count_change();
        let idle = window.idle_cpu();
        Self {
            signatures,
            system: system.map(|(peak, _)| peak),
            usual: kernel_cpu::usual_system_percent(signatures),
            user: system.and_then(|(_, user)| user),
            idle: idle.map(|(least, _)| least),
            unused: window.lowest_value(Metric::CpuIdle),
            usually_idle: idle.map(|(_, usually)| usually),
            free: window.free_memory_leap(),
            tables: window.page_table_share(),
            report: window.memory_report(),
            work: window.log_events().filter_map(|event| event.work).max(),
            in_pieces: window.count_allocation_failures(),
            disk_waits: window.count_log_events(LogEventKind::DiskWait),
            storage_errors: window.count_log_events(LogEventKind::StorageError),
            storage_timeouts: window.count_log_events(LogEventKind::StorageTimeout),
            tables_read: window.has_page_tables(),
            pool: window.pool_usage(),
            scans: window.page_scans(),
            no_scans: wider.page_scans().any_scanned() == Some(false),
            pressure: window.memory_pressure(),
            compacted: most(Metric::CompactStall),
            killed: window.count_oom_kills(),
            spare: window.spare_memory_fraction(),
            forks: most(Metric::Forks),
            blocked: most(Metric::Blocked),
            moved: window.median_disk_throughput(),
            stolen: most(Metric::CpuSteal),
            iowait: most(Metric::CpuIowait),
            waited_throughout: history.series.iter().any(disk::waits_throughout),
            taken_back: most(Metric::Steal),
            compaction_counted: has(Metric::CompactStall),
            last_seen: window.last_seen(),
            swap: window.highest_swap_rates(),
            swapped: window.swapped_fraction(),
            grown: window.page_table_change(count.as_ref()),
            count,
            load: window.peak_processor_load(),
            load_average: most(Metric::Load1),
            threads: window.busy_kernel_threads(),
            growth: window.memory_growth(signatures),
            disk_pressure: most(Metric::PressureIoFull),
            late: late.max(),
            available: window.lowest_value(Metric::MemAvailable),
            memory: observations.memory,
            without_swap: most(Metric::SwapTotal) == Some(0.0),
            lists_processes: history.series.iter().any(Series::lists_processes),
            lists_disks: has(Metric::DiskQueue),
            has_kernel_log: history
                .series
                .iter()
                .any(|one| one.format == crate::SourceFormat::SystemLog),
            root: history.facts.as_ref().map(|facts| facts.source.clone()),
            coarsest: coarsest_interval(observations, signatures),
        }
    }

    pub(super) fn strength_of(&self, kind: SignatureKind) -> Option<SignatureStrength> {
        self.signatures.iter().filter(|one| one.kind == kind).map(|one| one.strength).max()
    }

    pub(super) fn any_clear(&self, kinds: &[SignatureKind]) -> bool {
        kinds.iter().any(|kind| self.is_clear(*kind))
    }

    pub(super) fn is_clear(&self, kind: SignatureKind) -> bool {
        self.strength_of(kind) >= Some(SignatureStrength::Clear)
    }

    /// Whether the kernel's own log names a process that it killed as the host was out of memory.
    pub(super) fn killed_by_its_word(&self) -> bool {
        self.signatures
            .iter()
            .flat_map(|one| &one.evidence)
            .any(SignatureEvidence::names_oom_victim)
    }

    /// Whether a log says that such a thing happened.
    pub(super) fn logged(&self, kind: LogEventKind) -> bool {
        let mut evidence = self.signatures.iter().flat_map(|one| &one.evidence);
        evidence.any(|row| row.log_event_kind() == Some(kind))
    }

    /// Whether everything clear is from logs into which any user may write.
    pub(super) fn by_hearsay(&self) -> bool {
        let clear =
            || self.signatures.iter().filter(|one| one.strength >= SignatureStrength::Clear);
        let hearsay = |one: &Signature| one.evidence.iter().any(SignatureEvidence::is_hearsay);
        clear().next().is_some() && clear().all(hearsay)
    }

    pub(super) fn is_strong(&self, kind: SignatureKind) -> bool {
        self.strength_of(kind) == Some(SignatureStrength::Strong)
    }

    /// Whether free memory was low while the kernel was busy, not just before: a large process that
    /// ends frees its memory with the kernel's time, which intervals of a minute hide.
    pub(super) fn low_while_busy(&self) -> bool {
        let filter_of = |kind| {
            self.signatures
                .iter()
                .filter(move |one| one.kind == kind && one.strength >= SignatureStrength::Clear)
        };
        // Between two times at which it was busy, it counts as busy.
        let begin = filter_of(SignatureKind::KernelCpu).map(|busy| busy.from.0).min();
        let end = filter_of(SignatureKind::KernelCpu).map(|busy| busy.to.0).max();
        let Some((begin, end)) = begin.zip(end) else { return false };
        let begin = begin.saturating_add(i64::from(self.coarsest < COARSE));
        filter_of(SignatureKind::FreeMemory).any(|low| (begin..=end).contains(&low.from.0))
    }

    /// Whether most of what was reclaimed went to swap: pages of programs, not of files.
    pub(super) fn mostly_swap(&self) -> bool {
        if self.swapped >= SWAPPED && self.strength_of(SignatureKind::Swap).is_some() {
            return true;
        }
        let scanned = match &self.scans {
            Scans::Counted { direct, kswapd } => direct.pages + kswapd.pages,
            Scans::Together(rate, _) => rate.pages,
            Scans::Stalls(_) | Scans::Untrusted(_) | Scans::Absent => return false,
        };
        let swapped = self.swap.is_some_and(|(out, _)| out.pages >= OUT * scanned);
        swapped && self.strength_of(SignatureKind::Swap).is_some()
    }

    /// Whether the kernel took more than the programs, and much, for as long as it lasted.
    pub(super) fn kernel_rules_throughout(&self) -> bool {
        self.kernel_rules() && self.usually_idle.is_none_or(|idle| idle < HALF)
    }

    /// The same at its highest.
    pub(super) fn kernel_rules(&self) -> bool {
        self.kernel_is_high() && self.system.zip(self.user).is_none_or(|(peak, user)| peak > user)
    }

    pub(super) fn kernel_is_high(&self) -> bool {
        self.system.is_some_and(|peak| peak >= MUCH)
    }

    pub(super) fn kernel_leads(&self) -> bool {
        let user = self.user.unwrap_or(100.0);
        self.kernel_is_high() || self.system.is_some_and(|peak| peak > user)
    }

    /// Whether pages went to swap while the host scanned none: the kernel counts scans of the host's
    /// reclaim alone, and pages that go out whoever reclaims. What went out, a cgroup's limit did.
    pub(super) fn swapped_without_scans(&self) -> bool {
        let counted = matches!(self.scans, Scans::Counted { .. } | Scans::Together(..));
        counted && self.no_scans && self.swap.is_some_and(|(out, _)| out.pages >= 1.0)
    }

    pub(super) fn large_tables(&self) -> bool {
        self.tables.is_some_and(|tables| tables.memory_fraction() >= page_tables::CLEAR)
    }
}
