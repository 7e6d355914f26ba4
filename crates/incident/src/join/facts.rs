//! What a host looked like in a window of time: the figures that verdicts are made of.

use super::changes::Change;
use super::window::{AROUND, Window, rows_in};
use crate::baseline::median;
use crate::page::Page;
use crate::signatures::log::{KILLED, RELAYED};
use crate::signatures::observations::Observations;
use crate::signatures::rows::{Rows, apart};
use crate::signatures::{kernel_cpu, page_tables};
use crate::{Kind, Metric, Moment, Series, Signature, Strength};

/// Percent of the processors.
const HALF: f64 = 50.0;
/// %system that is much for an interval of any length.
const MUCH: f64 = 20.0;

/// Part of memory that is to be had on a host which is not short of it.
pub(super) const SPARE: f64 = 0.1;
/// Allocations that had to reclaim, and got nothing, for each kill: the kernel tries as often as that before it kills
/// (MAX_RECLAIM_RETRIES, mm/page_alloc.c). What is reclaimed at a cgroup's limit is not among them.
const IN_VAIN: f64 = 16.0;
/// Pages that go to swap, for each that is scanned, where reclaim is of programs' memory: a page is scanned a few times before
/// it goes.
const OUT: f64 = 0.2;

/// Part of what was reclaimed that went to swap, where it is programs that the host has no room for; and the part of that which
/// they ask back for.
const SWAPPED: f64 = 0.3;
const CAME_BACK: f64 = 0.25;
/// Part of scanned pages that are reclaimed where programs' memory is: counted of such a host, 0.3 to 0.5.
const TAKEN: f64 = 0.4;

/// Samples as far apart as this, in milliseconds, thin what one process does.
const COARSE: i64 = 60_000;

/// Page tables, and the memory they are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) bytes: f64,
    pub(super) total: f64,
    /// Whether they were read in the window, not at another time.
    pub(super) then: bool,
}

impl Tables {
    pub(super) fn part(&self) -> f64 {
        self.bytes / self.total
    }
}

/// A pool of the default page size, or all that were captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) total: f64,
    pub(super) available: f64,
}

/// Pages a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) pages: f64,
    page: Page,
}

impl Scans {
    /// Whether somebody counted, and there was anything; `None` where nobody did.
    pub(super) fn any(&self) -> Option<bool> {
        match self {
            Self::Counted { direct, kswapd } => Some(direct.pages + kswapd.pages >= 1.0),
            Self::Together(rate, _) => Some(rate.pages >= 1.0),
            Self::Stalls(stalls) => Some(*stalls > 0.0),
            Self::Untrusted(_) | Self::Absent => None,
        }
    }
}

impl Rate {
    /// As an amount of memory.
    pub(super) fn words(self) -> String {
        self.page.words(self.pages)
    }
}

/// What is known of scans.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scans {
    /// Counted; the highest rates of processes themselves and of kswapd.
    Counted { direct: Rate, kswapd: Rate },
    /// Counted together; the highest rate, and of allocations that had to reclaim, where they were counted.
    Together(Rate, Option<f64>),
    /// Not counted, but how many allocations a second had to reclaim, at the highest.
    Stalls(f64),
    /// Counters that are there and false, with the reason.
    Untrusted(String),
    /// Nobody counted.
    Absent,
}

pub(super) struct Facts<'a> {
    pub(super) signatures: &'a [Signature],
    /// Highest %system.
    pub(super) system: Option<f64>,
    /// What is usual of it, where it stands out.
    pub(super) usual: Option<f64>,
    /// %user where %system is highest.
    pub(super) user: Option<f64>,
    /// The lowest %idle with %iowait.
    pub(super) idle: Option<f64>,
    /// The same, half of the time.
    pub(super) usually_idle: Option<f64>,
    /// Free memory at its lowest and at its highest behind that.
    pub(super) free: Option<(f64, f64)>,
    pub(super) tables: Option<Tables>,
    /// Whether page tables were read at all: without the size of memory they make no [`Tables`].
    pub(super) tables_read: bool,
    pub(super) pool: Option<Pool>,
    pub(super) scans: Scans,
    /// Whether scans were counted, and there were none in the window nor in the minutes around it.
    pub(super) no_scans: bool,
    /// Who waited for memory, and the percent of the time, at its highest.
    pub(super) pressure: Option<(&'static str, f64)>,
    /// Allocations a second that waited for compaction, at their highest.
    pub(super) compacted: Option<f64>,
    /// Processes that the kernel killed for their memory.
    pub(super) killed: f64,
    /// The least part of memory that was available, or free where nobody tells more.
    pub(super) spare: Option<f64>,
    /// Processes and threads begun a second, at their highest.
    pub(super) forks: Option<f64>,
    /// Tasks that waited for a disk, at their most, and bytes a second that disks moved, at their median.
    pub(super) blocked: Option<f64>,
    pub(super) moved: Option<f64>,
    /// Percent that the hypervisor took, and that processors waited for disks, at their highest.
    pub(super) stolen: Option<f64>,
    pub(super) iowait: Option<f64>,
    /// Pages a second that were taken back, at their highest: what is reclaimed at a cgroup's limit is among them, and not
    /// among the scans.
    pub(super) taken_back: Option<f64>,
    /// Whether anybody counts compaction.
    pub(super) compaction_counted: bool,
    /// What the last sample before the window shows.
    pub(super) last_seen: Vec<String>,
    /// Pages that went to swap, as a part of all that were reclaimed, where at least a fourth of them came back; otherwise 0.
    pub(super) swapped: f64,
    /// Pages a second out to swap and back, at their highest.
    pub(super) swap: Option<(Rate, Rate)>,
    /// Sessions, or tasks, where they rose or fell most.
    pub(super) count: Option<Change>,
    /// Page tables before and behind that; where no count tells, where they rose or fell most.
    pub(super) grown: Option<(f64, f64)>,
    /// The longest queue for a processor and how many processors there are.
    pub(super) load: Option<(f64, f64)>,
    /// How late a collector was, in seconds.
    pub(super) late: Option<i64>,
    /// Where the host was captured, for other commands to look at.
    pub(super) root: Option<String>,
    /// Time between samples of the coarsest source that shows it, in milliseconds.
    pub(super) coarsest: i64,
}

impl Window<'_> {
    /// The values of a metric in the window, of each source, with their rows.
    fn values(&self, metric: Metric) -> impl Iterator<Item = (&Series, usize, f64)> {
        self.history.series.iter().flat_map(move |series| {
            let rows = rows_in(series, self.from, self.to);
            rows.filter_map(move |row| Some((series, row, series.value(metric, row)?)))
        })
    }

    fn highest(&self, metric: Metric) -> Option<(&Series, usize, f64)> {
        // What stands at the window's begin is the end of an interval before it, for rates.
        let inside = self
            .values(metric)
            .filter(|(series, row, _)| series.samples().get(*row).is_some_and(|sample| sample.at > self.from));
        inside.max_by(|one, other| one.2.total_cmp(&other.2))
    }

    /// The highest rate of a counter of pages.
    fn rate(&self, metric: Metric) -> Option<Rate> {
        let (series, _, pages) = self.highest(metric)?;
        Some(Rate { pages, page: Page::of(series, self.observations.page) })
    }

    /// As [`Facts::swapped`] has it.
    fn swapped(&self) -> f64 {
        let rows = self.values(Metric::SwapOut).filter_map(|(series, row, out)| {
            let scanned = [Metric::ScanKswapd, Metric::ScanDirect].map(|metric| series.value(metric, row));
            let scanned = || Some(TAKEN * scanned.into_iter().sum::<Option<f64>>()?);
            let reclaimed = series.value(Metric::Steal, row).or_else(scanned)?;
            Some((reclaimed, out, series.value(Metric::SwapIn, row)?))
        });
        let (reclaimed, out, back) =
            rows.fold((0.0, 0.0, 0.0), |sum: (f64, f64, f64), row| (sum.0 + row.0, sum.1 + row.1, sum.2 + row.2));
        if reclaimed > 0.0 && back >= CAME_BACK * out { out / reclaimed } else { 0.0 }
    }

    fn system(&self) -> Option<(f64, Option<f64>)> {
        let (series, row, peak) = self.highest(Metric::CpuSystem)?;
        Some((peak, series.value(Metric::CpuUser, row)))
    }

    /// Bytes a second that disks moved, half of the time: a moment of much is no sign that they were at work.
    fn moved(&self) -> Option<f64> {
        let written = |series: &Series, row| series.value(Metric::PagedOut, row).unwrap_or(0.0);
        let mut all: Vec<f64> =
            self.values(Metric::PagedIn).map(|(series, row, read)| read + written(series, row)).collect();
        median(&mut all)
    }

    /// Percent of the processors that had nothing to do or waited for disks: the least, and half of the time.
    fn idle(&self) -> Option<(f64, f64)> {
        let idle = self
            .values(Metric::CpuIdle)
            .map(|(series, row, idle)| idle + series.value(Metric::CpuIowait, row).unwrap_or(0.0));
        let mut all: Vec<f64> = idle.collect();
        let least = all.iter().copied().min_by(f64::total_cmp);
        least.zip(median(&mut all))
    }

    fn free(&self) -> Option<(f64, f64)> {
        let (source, at, low) = self.values(Metric::MemFree).min_by(|one, other| one.2.total_cmp(&other.2))?;
        let behind =
            self.values(Metric::MemFree).filter(|(series, row, _)| series.source == source.source && *row > at);
        behind.map(|(.., free)| free).max_by(f64::total_cmp).map(|high| (low, high))
    }

    fn tables(&self) -> Option<Tables> {
        let total = self.observations.memory?;
        if let Some((.., bytes)) = self.values(Metric::PageTables).max_by(|one, other| one.2.total_cmp(&other.2)) {
            return Some(Tables { bytes, total, then: true });
        }
        let all = self.history.series.iter().filter_map(|series| Some((series, series.column(Metric::PageTables)?)));
        let read = all.flat_map(|(series, column)| {
            column.iter().filter_map(|(row, bytes)| Some((series.samples().get(row)?.at, bytes)))
        });
        let facts = self.history.facts.as_ref();
        let captured = facts.and_then(|facts| Some((facts.at?, facts.page_tables?.as_f64())));
        let outside = |at: Moment| apart(self.to, at).max(apart(at, self.from));
        let (at, bytes) = read.chain(captured).min_by_key(|(at, _)| outside(*at))?;
        Some(Tables { bytes, total, then: outside(at) <= 0 })
    }

    fn pool(&self) -> Option<Pool> {
        let inside = self.values(Metric::HugeTotal).last();
        let anywhere = || {
            let columns = self.history.series.iter().filter_map(|one| Some((one, one.column(Metric::HugeTotal)?)));
            columns.flat_map(|(series, column)| column.iter().map(move |(row, total)| (series, row, total))).last()
        };
        let Some((series, row, total)) = inside.or_else(anywhere) else {
            return self.captured_pools();
        };
        // None are none, whatever else was logged.
        let free = series.value(Metric::HugeFree, row).or((total <= 0.0).then_some(0.0))?;
        Some(Pool { total, available: free - series.value(Metric::HugeReserved, row).unwrap_or(0.0) })
    }

    /// Pools of every size, as they were when the host was captured.
    fn captured_pools(&self) -> Option<Pool> {
        let pools = self.history.facts.as_ref()?.pools.as_ref()?;
        let mut all = Pool { total: 0.0, available: 0.0 };
        for pool in pools {
            let bytes = |pages: u64| pool.page.bytes().times(pages).as_f64();
            all.total += bytes(pool.total?);
            all.available += bytes(pool.free?.saturating_sub(pool.reserved.unwrap_or(0)));
        }
        Some(all)
    }

    fn scans(&self) -> Scans {
        // Who does not always tell them apart tells most where it does not.
        let apart = self.values(Metric::ScanDirect).any(|(series, ..)| series.column(Metric::Scan).is_none());
        let counted = self.rate(Metric::ScanDirect).zip(self.rate(Metric::ScanKswapd));
        if let Some((direct, kswapd)) = counted.filter(|_| apart) {
            return Scans::Counted { direct, kswapd };
        }
        let stalls = self.highest(Metric::AllocStall).map(|(.., stalls)| stalls);
        if let Some(rate) = self.rate(Metric::Scan) {
            return Scans::Together(rate, stalls);
        }
        if let Some(stalls) = stalls {
            return Scans::Stalls(stalls);
        }
        let mut lies = self.history.series.iter().flat_map(|series| &series.untrusted);
        let lie = lies.find(|(metric, _)| matches!(metric, Metric::ScanDirect | Metric::ScanKswapd));
        lie.map_or(Scans::Absent, |(_, why)| Scans::Untrusted(why.clone()))
    }

    fn pressure(&self) -> Option<(&'static str, f64)> {
        let of = |metric, who| self.highest(metric).map(|(.., percent)| (who, percent.min(100.0)));
        let all = of(Metric::PressureMemoryFull, "all tasks").filter(|(_, percent)| *percent >= 10.0);
        all.or_else(|| of(Metric::PressureMemorySome, "some task"))
    }

    /// The least part of memory that was to be had: free, or of caches that are no shared memory.
    fn spare(&self) -> Option<f64> {
        let total = self.observations.memory?;
        let caches = |series: &Series, row: usize| {
            let cached = series.value(Metric::Cached, row)? - series.value(Metric::Shmem, row)?;
            Some(cached.max(0.0) + series.value(Metric::Buffers, row).unwrap_or(0.0))
        };
        // Caches hold programs too, and what is locked in memory: where there is little in them, a kill says that nothing was left
        // to give up.
        let in_vain = self.reclaimed_in_vain();
        let told = self.values(Metric::MemFree).filter_map(|(series, row, free)| {
            series.value(Metric::MemAvailable, row).or_else(|| {
                let all = free + caches(series, row)?;
                Some(if in_vain && all < 2.0 * SPARE * total { free } else { all })
            })
        });
        // Who tells of free memory alone says nothing of what caches would give up.
        let free = || self.values(Metric::MemFree).map(|(_, _, free)| free).min_by(f64::total_cmp);
        told.min_by(f64::total_cmp).or_else(free).map(|bytes| bytes / total)
    }

    /// Whether processes reclaimed memory of the host itself where one was killed for memory all the same.
    fn reclaimed_in_vain(&self) -> bool {
        self.values(Metric::OomKill).any(|(series, row, kills)| {
            let stalls = series.value(Metric::AllocStall, row).unwrap_or(0.0);
            kills > 0.0 && stalls >= IN_VAIN * kills
        })
    }

    /// Kills of the source that tells most of them.
    fn killed(&self) -> f64 {
        let of = |series: &Series| {
            let rows = rows_in(series, Moment(self.from.0.saturating_add(1)), self.to);
            let kills = rows.filter_map(|row| {
                let interval = series.samples().get(row)?.interval?;
                Some(series.value(Metric::OomKill, row)? * interval.as_secs_f64())
            });
            kills.sum::<f64>()
        };
        self.history.series.iter().map(of).max_by(f64::total_cmp).unwrap_or(0.0).round()
    }

    fn load(&self) -> Option<(f64, f64)> {
        let queue = self.highest(Metric::RunQueue);
        let load = self.highest(Metric::Load1);
        let (series, row, most) = queue.into_iter().chain(load).max_by(|one, other| one.2.total_cmp(&other.2))?;
        let processors = series.value(Metric::Processors, row).filter(|processors| *processors >= 1.0)?;
        Some((most, processors))
    }
}

impl<'a> Facts<'a> {
    pub(super) fn of(observations: &Observations<'_>, from: Moment, to: Moment, signatures: &'a [Signature]) -> Self {
        let history = observations.history;
        let window = Window { observations, history, from, to };
        let wider =
            Window { from: Moment(from.0.saturating_sub(AROUND)), to: Moment(to.0.saturating_add(AROUND)), ..window };
        let captured = || history.facts.as_ref().is_some_and(|facts| facts.page_tables.is_some());
        let system = window.system();
        let shows = |rows: &&Rows<'_>| {
            let mut sources = signatures.iter().flat_map(|signature| &signature.evidence);
            sources.any(|evidence| evidence.source == rows.source())
        };
        let involved = observations.rows.iter().filter(shows);
        // Around these all rows are there, even where others were thinned away.
        let starved = signatures.iter().filter(|one| one.kind == Kind::Starved);
        let late = starved.filter_map(|one| observations.latest(one.from, one.to));
        let most = |metric| window.highest(metric).map(|(.., value)| value);
        let count = window.count();
        let idle = window.idle();
        Self {
            signatures,
            system: system.map(|(peak, _)| peak),
            usual: signatures.iter().filter(|one| one.kind == Kind::KernelCpu).find_map(kernel_cpu::usual),
            user: system.and_then(|(_, user)| user),
            idle: idle.map(|(least, _)| least),
            usually_idle: idle.map(|(_, usually)| usually),
            free: window.free(),
            tables: window.tables(),
            tables_read: history.series.iter().any(|one| one.column(Metric::PageTables).is_some()) || captured(),
            pool: window.pool(),
            scans: window.scans(),
            no_scans: wider.scans().any() == Some(false),
            pressure: window.pressure(),
            compacted: most(Metric::CompactStall),
            killed: window.killed(),
            spare: window.spare(),
            forks: most(Metric::Forks),
            blocked: most(Metric::Blocked),
            moved: window.moved(),
            stolen: most(Metric::CpuSteal),
            iowait: most(Metric::CpuIowait),
            taken_back: most(Metric::Steal),
            compaction_counted: history.series.iter().any(|one| one.column(Metric::CompactStall).is_some()),
            last_seen: window.last_seen(),
            swap: window.rate(Metric::SwapOut).zip(window.rate(Metric::SwapIn)),
            swapped: window.swapped(),
            grown: window.grown(count.as_ref()),
            count,
            load: window.load(),
            late: late.max(),
            root: history.facts.as_ref().map(|facts| facts.source.clone()),
            coarsest: involved.map(|rows| rows.usual).max().unwrap_or(0),
        }
    }

    /// How far a kind stands out here.
    pub(super) fn strength(&self, kind: Kind) -> Option<Strength> {
        self.signatures.iter().filter(|one| one.kind == kind).map(|one| one.strength).max()
    }

    pub(super) fn clear(&self, kind: Kind) -> bool {
        self.strength(kind) >= Some(Strength::Clear)
    }

    /// Whether the kernel's own log says whom it killed because the host was out of memory.
    pub(super) fn killed_by_its_word(&self) -> bool {
        let oom = self.signatures.iter().filter(|one| one.kind == Kind::Oom);
        oom.flat_map(|one| &one.evidence).any(|row| row.what.starts_with(KILLED))
    }

    /// Whether all that is clear is told by logs into which every user may write.
    pub(super) fn by_hearsay(&self) -> bool {
        let clear = || self.signatures.iter().filter(|one| one.strength >= Strength::Clear);
        let hearsay = |one: &Signature| one.caveats.iter().any(|caveat| caveat == RELAYED);
        clear().next().is_some() && clear().all(hearsay)
    }

    pub(super) fn strong(&self, kind: Kind) -> bool {
        self.strength(kind) == Some(Strength::Strong)
    }

    /// Whether free memory was seen low while the kernel was busy, not just before: a large process that ends frees its
    /// memory with the kernel's time. Where a minute and more lies between samples, that takes too little of it to be seen.
    pub(super) fn low_while_busy(&self) -> bool {
        let of = |kind| self.signatures.iter().filter(move |one| one.kind == kind && one.strength >= Strength::Clear);
        // Between two times at which it was busy, it is on the way from one to the next.
        let begin = of(Kind::KernelCpu).map(|busy| busy.from.0).min();
        let end = of(Kind::KernelCpu).map(|busy| busy.to.0).max();
        let Some((begin, end)) = begin.zip(end) else { return false };
        let begin = begin.saturating_add(i64::from(self.coarsest < COARSE));
        of(Kind::FreeMemory).any(|low| (begin..=end).contains(&low.from.0))
    }

    /// Whether most of what was reclaimed went to swap: pages of programs, not of files.
    pub(super) fn mostly_swap(&self) -> bool {
        if self.swapped >= SWAPPED && self.strength(Kind::Swap).is_some() {
            return true;
        }
        let scanned = match &self.scans {
            Scans::Counted { direct, kswapd } => direct.pages + kswapd.pages,
            Scans::Together(rate, _) => rate.pages,
            Scans::Stalls(_) | Scans::Untrusted(_) | Scans::Absent => return false,
        };
        let swapped = self.swap.is_some_and(|(out, _)| out.pages >= OUT * scanned);
        swapped && self.strength(Kind::Swap).is_some()
    }

    /// Whether the kernel took more than the programs, and much, for as long as it lasted.
    pub(super) fn kernel_rules_throughout(&self) -> bool {
        self.kernel_rules() && self.usually_idle.is_none_or(|idle| idle < HALF)
    }

    /// Whether the kernel took more than the programs, and much, at its highest.
    pub(super) fn kernel_rules(&self) -> bool {
        self.kernel_is_high() && self.system.zip(self.user).is_none_or(|(peak, user)| peak > user)
    }

    /// Whether the kernel took much of the processors.
    pub(super) fn kernel_is_high(&self) -> bool {
        self.system.is_some_and(|peak| peak >= MUCH)
    }

    /// Whether the kernel took much, or more than the programs.
    pub(super) fn kernel_leads(&self) -> bool {
        let user = self.user.unwrap_or(100.0);
        self.kernel_is_high() || self.system.is_some_and(|peak| peak > user)
    }

    /// Whether page tables take a large part of memory, as far as it was read.
    pub(super) fn large_tables(&self) -> bool {
        self.tables.is_some_and(|tables| tables.part() >= page_tables::CLEAR)
    }
}
