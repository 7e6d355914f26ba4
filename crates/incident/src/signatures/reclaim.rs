//! kswapd or processes themselves scanned for pages to take back.
//!
//! What is much depends on the memory that there is, not on what is usual: a host that scans all its memory every few
//! minutes is in trouble even where it always does.

use hugewise_model::Bytes;

use super::hides;
use super::observations::Observations;
use super::rows::{Rows, whole};
use crate::page::Page;
use crate::{Kind, Metric, Signature, Strength};

/// Memory where the source does not say how much there is.
const MEMORY: Bytes = Bytes::from_gib(4);
/// Processes' own scans that go once through all memory in an hour. A busy desktop whose disks fill its cache was at a
/// twentieth of it.
const DIRECT: f64 = 1.0 / 3600.0;
/// And in ten minutes.
const DIRECT_STRONG: f64 = 1.0 / 600.0;
/// The part of memory, or the amount, that has to be scanned altogether: bursts of a second are usual.
const SCANNED: f64 = 0.02;
const SCANNED_BYTES: Bytes = Bytes::from_gib(1);
/// kswapd's scans that go through all memory in ten minutes, and what it has to scan altogether. It does so whenever
/// disks are read fast through the page cache, so it speaks weakly.
const KSWAPD: f64 = 1.0 / 600.0;
const KSWAPD_SCANNED: f64 = 0.2;
/// kswapd's processor time in percent of one: hosts in trouble had 56 and 76.
const KSWAPD_CPU: f64 = 50.0;
/// Allocations a second that had to reclaim, and how many altogether.
const STALLS: f64 = 10.0;
const STALLED: f64 = 1000.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

/// `1536 pages a second (6.0 MiB/s)`
fn scanned(rate: f64, page: Page) -> String {
    let amount = if page.known() { format!(" ({}/s)", page.words(rate)) } else { String::new() };
    format!("{rate:.0} pages a second{amount}")
}

/// One counter with what is clear and what is strong in it.
struct Rule {
    metric: Metric,
    least: f64,
    /// Altogether in a spike.
    sum: f64,
    strength: Strength,
    strong: f64,
    /// Whether it counts pages.
    pages: bool,
    words: fn(f64, Page) -> String,
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let total = rows.column(Metric::MemTotal).and_then(|total| total.iter().last()).map(|(_, total)| total);
    let pages = total.map_or(rows.page.pages(MEMORY), |total| rows.page.pages(Bytes(whole(total).unsigned_abs())));
    let enough = rows.page.pages(SCANNED_BYTES);
    let rules = [
        Rule {
            metric: Metric::ScanDirect,
            least: DIRECT * pages,
            sum: (SCANNED * pages).min(enough),
            strength: Strength::Clear,
            strong: DIRECT_STRONG * pages,
            pages: true,
            words: |rate, page| format!("processes themselves scanned {}", scanned(rate, page)),
        },
        Rule {
            metric: Metric::ScanKswapd,
            least: KSWAPD * pages,
            sum: KSWAPD_SCANNED * pages,
            strength: Strength::Weak,
            strong: f64::INFINITY,
            pages: true,
            words: |rate, page| format!("kswapd scanned {}", scanned(rate, page)),
        },
        // Both together: as kswapd's, which they may be.
        Rule {
            metric: Metric::Scan,
            least: KSWAPD * pages,
            sum: KSWAPD_SCANNED * pages,
            strength: Strength::Weak,
            strong: f64::INFINITY,
            pages: true,
            words: |rate, page| format!("kswapd and processes together scanned {}", scanned(rate, page)),
        },
        Rule {
            metric: Metric::KswapdCpu,
            least: KSWAPD_CPU,
            sum: 0.0,
            strength: Strength::Clear,
            strong: f64::INFINITY,
            pages: false,
            words: |percent, _| format!("kswapd took {percent:.0} % of a processor"),
        },
        Rule {
            metric: Metric::AllocStall,
            least: STALLS,
            sum: STALLED,
            strength: Strength::Clear,
            strong: f64::INFINITY,
            pages: false,
            words: |rate, _| format!("{rate:.0} allocations a second had to reclaim first"),
        },
    ];
    rules.iter().flat_map(|rule| rule.find(rows)).collect()
}

impl Rule {
    fn find(&self, rows: &Rows<'_>) -> Vec<Signature> {
        let Some(column) = rows.column(self.metric) else { return Vec::new() };
        let spikes = rows.above(|row| column.get(row), self.least);
        let spikes = spikes.into_iter().filter(|spike| spike.excess >= self.sum);
        spikes
            .map(|spike| Signature {
                kind: Kind::Reclaim,
                from: rows.from(spike.first),
                to: rows.at(spike.last),
                strength: if spike.peak >= self.strong { Strength::Strong } else { self.strength },
                evidence: spike
                    .rows()
                    .into_iter()
                    .filter_map(|row| Some(rows.evidence(row, (self.words)(column.get(row)?, rows.page))))
                    .collect(),
                caveats: hides(rows.usual).into_iter().chain(rows.page.caveat().filter(|_| self.pages)).collect(),
            })
            .collect()
    }
}
