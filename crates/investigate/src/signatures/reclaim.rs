//! kswapd or processes themselves scanned for pages to reclaim.
//!
//! How much is too much depends on memory, not on what is usual: a host that scans all its memory
//! every few minutes is in trouble even if it always does.

use std::ops::Range;

use hugewise_model::Bytes;

use super::free_memory::available_memory;
use super::interval_caveat;
use super::rows::{SeriesRows, whole_milliseconds};
use crate::baseline::median_of;
use crate::page::{BasePage, bytes_from_f64, format_processor_share};
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Memory of a host whose source lacks its size.
const MEMORY: Bytes = Bytes::from_gib(4);
/// Direct scans of all memory in an hour: a busy desktop whose disks fill its cache had a twentieth.
const DIRECT: f64 = 1.0 / 3600.0;
/// And in ten minutes.
const DIRECT_STRONG: f64 = 1.0 / 600.0;
/// The part of memory, or the amount, that has to be scanned in all: short bursts are usual.
const SCANNED: f64 = 0.02;
const SCANNED_BYTES: Bytes = Bytes::from_gib(1);
/// kswapd's scans of all memory in ten minutes, and in all. It does so whenever disks are read fast
/// through the page cache, so they are weak.
const KSWAPD: f64 = 1.0 / 600.0;
const KSWAPD_SCANNED: f64 = 0.2;
/// Part of the scanned pages that is given back, major faults a second, and pages that are read for each
/// that is scanned, where disks are read fast and nobody is in need.
const GIVEN_BACK: f64 = 0.95;
const FEW_FAULTS: f64 = 10.0;
const READ: f64 = 4.0;
/// Percent of a processor that kswapd takes: hosts in trouble had 56 and 76.
const KSWAPD_CPU: f64 = 50.0;
/// The same in a single reading that somebody took for its sake, and where next to no memory is left
/// while processors wait for disks.
const KSWAPD_SEEN: f64 = 30.0;
const KSWAPD_CHOKED: f64 = 10.0;
/// Percent of a processor with which it finds no end, if little memory is available all the while:
/// fast reads through the page cache keep it as busy where there is plenty.
const KSWAPD_ALWAYS: f64 = 90.0;
const LITTLE: f64 = 0.1;
/// Percent of the time in which processors are idle over requests to disks.
const WAITED: f64 = 40.0;
/// Part of memory that is free on a host with hardly any, and of which swap holds a good part; the part
/// of swap that is used where it is full, and of memory where it is worth a word.
const FREE: f64 = 0.01;
const SWAPPED: f64 = 0.1;
const FULL: f64 = 0.95;
const SWAP: f64 = 0.02;
/// Allocations a second that had to reclaim, and in all.
const STALLS: f64 = 10.0;
const STALLED: f64 = 1000.0;

/// `kswapd scanned 1536 pages a second (6.0 MiB/s)`
fn describe_scan(who: &str, rate: f64, page: BasePage) -> String {
    let amount =
        if page.is_known() { format!(" ({}/s)", page.format_pages(rate)) } else { String::new() };
    format!("{who} scanned {rate:.0} pages a second{amount}")
}

struct ReclaimRule {
    metric: Metric,
    least: f64,
    /// In all in a spike.
    sum: f64,
    strength: SignatureStrength,
    strong: f64,
    pages: bool,
    words: fn(f64, BasePage) -> String,
}

pub(super) fn detect_reclaim(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let total =
        rows.column(Metric::MemTotal).and_then(|total| total.iter().last()).map(|(_, total)| total);
    let pages = total.map_or(rows.page.page_count(MEMORY), |total| {
        rows.page.page_count(Bytes(whole_milliseconds(total).unsigned_abs()))
    });
    let enough = rows.page.page_count(SCANNED_BYTES);
    let rules = [
        ReclaimRule {
            metric: Metric::ScanDirect,
            least: DIRECT * pages,
            sum: (SCANNED * pages).min(enough),
            strength: SignatureStrength::Clear,
            strong: DIRECT_STRONG * pages,
            pages: true,
            words: |rate, page| describe_scan("processes themselves", rate, page),
        },
        ReclaimRule {
            metric: Metric::ScanKswapd,
            least: KSWAPD * pages,
            sum: KSWAPD_SCANNED * pages,
            strength: SignatureStrength::Weak,
            strong: f64::INFINITY,
            pages: true,
            words: |rate, page| describe_scan("kswapd", rate, page),
        },
        // Both together count as kswapd's, which they may be.
        ReclaimRule {
            metric: Metric::Scan,
            least: KSWAPD * pages,
            sum: KSWAPD_SCANNED * pages,
            strength: SignatureStrength::Weak,
            strong: f64::INFINITY,
            pages: true,
            words: |rate, page| describe_scan("kswapd and processes together", rate, page),
        },
        ReclaimRule {
            metric: Metric::KswapdCpu,
            least: KSWAPD_CPU,
            sum: 0.0,
            strength: SignatureStrength::Clear,
            strong: KSWAPD_ALWAYS,
            pages: false,
            words: |percent, _| format!("kswapd took {}", format_processor_share(percent)),
        },
        ReclaimRule {
            metric: Metric::AllocStall,
            least: STALLS,
            sum: STALLED,
            strength: SignatureStrength::Clear,
            strong: f64::INFINITY,
            pages: false,
            words: |rate, _| format!("{rate:.0} allocations a second had to reclaim first"),
        },
    ];
    rules.iter().flat_map(|rule| rule.apply_rule(rows)).collect()
}

/// Whether less than a tenth of memory was available in most of these rows, and that is known.
fn lacks_memory(rows: &SeriesRows<'_>, range: Range<usize>) -> bool {
    let mut parts: Vec<f64> = range
        .filter_map(|row| {
            let total = rows.value(Metric::MemTotal, row).filter(|total| *total > 0.0)?;
            let available = available_memory(rows, row).map(|available| available / total);
            available.or_else(|| is_swapped_out(rows, row, total).then_some(0.0))
        })
        .collect();
    median_of(&mut parts).is_some_and(|part| part < LITTLE)
}

/// Whether swap is used to its last pages: a node or a limit is short, if not the host.
fn has_full_swap(rows: &SeriesRows<'_>, row: usize) -> bool {
    let swap = rows.value(Metric::SwapTotal, row).zip(rows.value(Metric::SwapFree, row));
    swap.is_some_and(|(total, free)| total > 0.0 && free < (1.0 - FULL) * total)
}

/// Whether processors are idle over requests to disks: what was taken back is read again.
fn waits_for_disks(rows: &SeriesRows<'_>, row: usize) -> bool {
    rows.value(Metric::CpuIowait, row).is_some_and(|waited| waited >= WAITED)
}

/// Whether what is read goes through the page cache once: each page that is scanned is given back, few
/// have to be looked at, and no program misses one of its own.
fn is_streamed(rows: &SeriesRows<'_>, row: usize) -> bool {
    let value = |metric| rows.value(metric, row);
    let scanned = value(Metric::ScanDirect).zip(value(Metric::ScanKswapd));
    let Some(scanned) = scanned.map(|(direct, kswapd)| direct + kswapd) else { return false };
    let read = value(Metric::PagedIn).map(|bytes| rows.page.page_count(bytes_from_f64(bytes)));
    value(Metric::Steal).is_some_and(|stolen| stolen >= GIVEN_BACK * scanned)
        && value(Metric::MajorFaults).is_some_and(|faults| faults < FEW_FAULTS)
        && read.is_some_and(|pages| pages >= READ * scanned)
}

/// Whether hardly anything is free, and swap is full or holds a good part of memory: what old tops
/// call cached is shared memory too, and nothing tells what of it could be taken back.
fn is_swapped_out(rows: &SeriesRows<'_>, row: usize, total: f64) -> bool {
    let value = |metric| rows.value(metric, row);
    let swap = || {
        let (all, used) = (value(Metric::SwapTotal)?, value(Metric::SwapUsed)?);
        Some(used >= SWAPPED * total || (used >= FULL * all && used >= SWAP * total))
    };
    value(Metric::MemFree).is_some_and(|free| free < FREE * total) && swap().unwrap_or(false)
}

impl ReclaimRule {
    fn least_in(&self, rows: &SeriesRows<'_>) -> f64 {
        if self.metric != Metric::KswapdCpu || !rows.is_snapshot() {
            return self.least;
        }
        let choked = waits_for_disks(rows, 0) && lacks_memory(rows, 0..1);
        if choked { KSWAPD_CHOKED } else { KSWAPD_SEEN }
    }

    fn apply_rule(&self, rows: &SeriesRows<'_>) -> Vec<Signature> {
        let Some(column) = rows.column(self.metric) else { return Vec::new() };
        let spikes = rows.find_above(|row| column.get(row), self.least_in(rows));
        let snapshot = rows.is_snapshot();
        let spikes = spikes.into_iter().filter(|spike| spike.excess >= self.sum || snapshot);
        spikes
            .map(|spike| {
                let choked =
                    self.metric == Metric::KswapdCpu && waits_for_disks(rows, spike.peak_row);
                let lacks = || lacks_memory(rows, spike.first..spike.last + 1);
                let is_strong = (spike.peak >= self.strong
                    && (self.pages || lacks() || has_full_swap(rows, spike.peak_row)))
                    || (choked && (self.pages || lacks()));
                let is_streamed =
                    self.pages && (spike.first..=spike.last).all(|row| is_streamed(rows, row));
                let strength = match (is_streamed, is_strong) {
                    (true, _) => SignatureStrength::Weak,
                    (false, true) => SignatureStrength::Strong,
                    (false, false) => self.strength,
                };
                let words = |row| Some((self.words)(column.get(row)?, rows.page));
                let caveats = interval_caveat(rows.usual)
                    .into_iter()
                    .chain(rows.page.unknown_size_caveat().filter(|_| self.pages))
                    .chain(rows.snapshot_caveat());
                rows.spike_signature(SignatureKind::Reclaim, &spike, strength, words, caveats)
            })
            .collect()
    }
}
