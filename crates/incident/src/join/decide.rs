//! What an incident is taken for, and how sure that is.

use super::facts::{Facts, Scans};
use crate::page::bytes;
use crate::{Confidence, Kind, Signature, Strength, Verdict};

/// %idle and %iowait together above which the processors were not the matter on average.
const IDLE: f64 = 50.0;
/// %system of an average that is a storm's even when nobody counted scans and only free memory agrees.
const HIGH: f64 = 30.0;
/// An interval from which on it hides much, in milliseconds.
const COARSE: i64 = 120_000;
/// Part of a pool that is left in one that is used.
const USED: f64 = 0.1;

pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) confidence: Confidence,
    pub(super) against: Vec<String>,
    /// Whether the mechanism was counted, or is only what the rest is consistent with.
    pub(super) counted: bool,
}

/// The verdict of what met; `None` where it makes none.
pub(super) fn decide(facts: &Facts<'_>) -> Option<Decision> {
    let (verdict, confidence, counted) =
        reclaim(facts).or_else(|| logins(facts)).or_else(|| compaction(facts)).or_else(|| unexplained(facts))?;
    let against = against(verdict, facts);
    let confidence = if against.is_empty() || counted { confidence } else { lower(confidence) };
    Some(Decision { verdict, confidence, against, counted })
}

const fn lower(confidence: Confidence) -> Confidence {
    match confidence {
        Confidence::High => Confidence::Medium,
        Confidence::Medium | Confidence::Low => Confidence::Low,
    }
}

type Taken = (Verdict, Confidence, bool);

/// Reclaim, by its counters or by what it leaves behind; swapping is reclaim of what has to come back.
fn reclaim(facts: &Facts<'_>) -> Option<Taken> {
    let felt = [Kind::KernelCpu, Kind::FreeMemory, Kind::Starved].into_iter().any(|kind| facts.clear(kind));
    let scanned = facts.strong(Kind::Reclaim) || (facts.clear(Kind::Reclaim) && (felt || facts.clear(Kind::Swap)));
    let swapped = facts.strong(Kind::Swap) || (facts.clear(Kind::Swap) && felt);
    let left_behind = facts.low_while_busy();
    // kswapd's scans speak for reclaim where the rest does.
    let by_kswapd = left_behind && facts.strength(Kind::Reclaim).is_some();
    let not_counted = !matches!(facts.scans, Scans::Counted { .. } | Scans::Stalls(_));
    let consistent = left_behind && not_counted && (facts.kernel_leads() || facts.clear(Kind::Starved));
    let (counted, confidence) = if scanned || swapped {
        // Where reclaim itself was counted, time in the kernel beside it needs no other proof.
        let felt = felt || facts.strength(Kind::KernelCpu).is_some();
        (true, if felt { Confidence::High } else { Confidence::Medium })
    } else if by_kswapd {
        (true, Confidence::Medium)
    } else if consistent {
        let high = facts.system.is_some_and(|peak| peak >= HIGH);
        let agree = facts.clear(Kind::Starved) || high;
        (false, if agree { Confidence::Medium } else { Confidence::Low })
    } else {
        return None;
    };
    if facts.large_tables() {
        // Read at another time, they may have been smaller then.
        let then = facts.tables.is_some_and(|tables| tables.then);
        let confidence = if then { confidence } else { confidence.min(Confidence::Medium) };
        return Some((Verdict::ReclaimByPageTables, confidence, counted));
    }
    let swap_leads = swapped && (!scanned || facts.strong(Kind::Swap));
    let verdict = if swap_leads { Verdict::SwapStorm } else { Verdict::ReclaimStorm };
    Some((verdict, confidence, counted))
}

/// Sessions that came or went at once, and were felt.
fn logins(facts: &Facts<'_>) -> Option<Taken> {
    // Builds and batches start as many tasks; with them the programs have more of the processors than the kernel.
    let felt = (facts.clear(Kind::KernelCpu) && facts.kernel_rules()) || facts.clear(Kind::Starved);
    if !facts.clear(Kind::Logins) || !(felt || facts.strong(Kind::Logins)) {
        return None;
    }
    let sessions = facts.count.is_some_and(|(name, ..)| name == "sessions");
    let confidence = match (facts.strong(Kind::Logins), felt) {
        (true, true) => Confidence::High,
        (true, false) => Confidence::Medium,
        (false, _) if sessions => Confidence::Medium,
        (false, _) => Confidence::Low,
    };
    Some((Verdict::LoginStorm, confidence, facts.strong(Kind::Logins)))
}

fn compaction(facts: &Facts<'_>) -> Option<Taken> {
    let felt = facts.clear(Kind::KernelCpu) || facts.clear(Kind::Starved);
    let there = facts.strong(Kind::Compaction) || (facts.clear(Kind::Compaction) && felt);
    let confidence = if felt { Confidence::High } else { Confidence::Medium };
    there.then_some((Verdict::CompactionStall, confidence, true))
}

/// What was felt without anything that says why.
fn unexplained(facts: &Facts<'_>) -> Option<Taken> {
    let busy = facts.clear(Kind::KernelCpu) && facts.clear(Kind::Starved);
    if facts.strong(Kind::KernelCpu) || busy {
        return Some((Verdict::KernelCpu, Confidence::Low, false));
    }
    facts.strong(Kind::Starved).then_some((Verdict::Starved, Confidence::Low, false))
}

/// What speaks against a verdict.
fn against(verdict: Verdict, facts: &Facts<'_>) -> Vec<String> {
    let mut against = Vec::new();
    if let Some(idle) = facts.idle.filter(|idle| *idle >= IDLE) {
        against.push(format!("processors were idle or waiting for disks in at least {idle:.0} % of every interval"));
    }
    let reclaim = matches!(verdict, Verdict::ReclaimByPageTables | Verdict::ReclaimStorm);
    if let Scans::Counted { direct, kswapd } = facts.scans
        && reclaim
        && !facts.clear(Kind::Reclaim)
    {
        against.push(format!(
            "scans were counted and low: {:.0} pages a second by processes themselves, {:.0} by kswapd",
            direct.pages, kswapd.pages
        ));
    }
    if facts.no_scans && matches!(verdict, Verdict::KernelCpu | Verdict::Starved) {
        against.push(
            "scans were counted, and there were none then nor in the minutes around it: it was not reclaim".to_owned(),
        );
    }
    if verdict == Verdict::ReclaimByPageTables
        && let Some(pool) = facts.pool.filter(|pool| pool.total > 0.0 && pool.available < USED * pool.total)
    {
        let pool = bytes(pool.total);
        against.push(format!("the pool of {pool} was used: what page tables map is not, or not only, what is in it"));
    }
    against
}

impl Decision {
    /// Whether a lasting signature belongs to an incident's story.
    pub(super) fn tells(&self, signature: &Signature, facts: &Facts<'_>) -> bool {
        let about_tables = matches!(self.verdict, Verdict::ReclaimByPageTables | Verdict::LoginStorm);
        match signature.kind {
            Kind::PageTables => about_tables,
            // A pool that is missing or unused is a reason for large page tables only where they are.
            _ => about_tables && (facts.large_tables() || signature.strength >= Strength::Clear),
        }
    }

    /// What would make it surer.
    pub(super) fn raised_by(&self, facts: &Facts<'_>) -> Vec<String> {
        let mut raised = Vec::new();
        let storm = matches!(
            self.verdict,
            Verdict::ReclaimByPageTables | Verdict::ReclaimStorm | Verdict::KernelCpu | Verdict::Starved
        );
        if storm {
            match &facts.scans {
                Scans::Counted { .. } | Scans::Stalls(_) => {}
                Scans::Untrusted(why) => raised.push(format!(
                    "scans by kswapd and by processes themselves, which are not to be trusted here ({why}): a newer sysstat, or a log of /proc/vmstat"
                )),
                Scans::Absent => raised.push(
                    "scans by kswapd and by processes themselves: sar -B, or a log of /proc/vmstat".to_owned(),
                ),
            }
        }
        match facts.tables {
            None if facts.tables_read => raised.push(
                "the size of memory, which no source says beside page tables: one /proc/meminfo of the host".to_owned(),
            ),
            None => raised.push(
                "the size of page tables: sar -r ALL of sysstat 11.1.3 or later, or a log of /proc/meminfo".to_owned(),
            ),
            Some(tables) if !tables.then && storm => {
                raised.push("the size of page tables at that time: they were read at another".to_owned())
            }
            Some(_) => {}
        }
        if matches!(self.verdict, Verdict::LoginStorm) && facts.count.is_none_or(|(name, ..)| name != "sessions") {
            raised.push("the number of sessions: a log of ps, or the server's own".to_owned());
        }
        if matches!(self.verdict, Verdict::KernelCpu) {
            raised.push("what the kernel did: perf record -a -g, or a log of top, while it lasts".to_owned());
        }
        if facts.coarsest >= COARSE {
            raised.push(format!(
                "samples a minute or less apart: an average of {} s does not tell how high and how long",
                facts.coarsest / 1000
            ));
        }
        raised
    }
}
