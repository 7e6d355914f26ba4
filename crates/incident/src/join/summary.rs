//! An incident in a sentence with its figures, and what to do next.

use super::decide::Decision;
use super::facts::{Facts, Pool, Scans, Tables};
use crate::page::bytes;
use crate::{Kind, Verdict};

/// Part of a pool from which on it is called unused.
const UNUSED: f64 = 0.5;
/// Samples farther apart than this hide much, in milliseconds.
const COARSE: i64 = 120_000;
/// What page tables have to grow by to be named with a log-in storm.
const GREW: f64 = 64.0 * 1_048_576.0;

/// What happened.
pub(super) fn summary(decision: &Decision, facts: &Facts<'_>) -> String {
    let mut parts = Vec::new();
    let name = match decision.verdict {
        Verdict::ReclaimByPageTables => "reclaim storm driven by page tables",
        Verdict::ReclaimStorm => "reclaim storm",
        Verdict::SwapStorm => "swap storm",
        Verdict::LoginStorm => "log-in storm",
        Verdict::CompactionStall => "stalls in memory compaction",
        Verdict::KernelCpu => "the kernel was busy, and nothing says with what",
        Verdict::Starved => "collectors did not get their turn, and nothing says why",
        Verdict::PageTablesStanding => "page tables are large",
        Verdict::PoolUnused => "a pool is reserved and not used",
    };
    if decision.verdict == Verdict::ReclaimByPageTables
        && let Some(tables) = facts.tables
    {
        parts.push(share(tables));
        parts.extend(facts.pool.map(pool));
    }
    if decision.verdict == Verdict::LoginStorm {
        parts.extend(sessions(facts));
    }
    parts.extend(processors(facts));
    if facts.strength(Kind::FreeMemory).is_some() {
        parts.extend(free(facts));
    }
    parts.extend(scans(facts));
    parts.extend(swap(decision.verdict, facts));
    parts.extend(facts.late.map(|late| format!("a collector's sample came {late} s late")));
    if facts.strength(Kind::Restart).is_some() {
        parts.push("the host or the collector started anew".to_owned());
    }
    let alone = matches!(decision.verdict, Verdict::KernelCpu | Verdict::Starved);
    let consistent = if decision.counted || alone { "" } else { "consistent with a " };
    let sure = if decision.verdict == Verdict::LoginStorm { "" } else { consistent };
    format!("{sure}{name}: {}", parts.join("; "))
}

/// `24 % of memory (4.8 of 19.6 GiB) was page tables`
pub(super) fn share(tables: Tables) -> String {
    let part = tables.part() * 100.0;
    let amount = format!("{} of {}", bytes(tables.bytes), bytes(tables.total));
    let then = if tables.then { "" } else { ", read at another time" };
    format!("{part:.0} % of memory was page tables ({amount}{then})")
}

/// What was with the pool.
pub(super) fn pool(pool: Pool) -> String {
    if pool.total <= 0.0 {
        "huge pages were not configured".to_owned()
    } else if pool.available >= UNUSED * pool.total {
        format!("of a pool of {} went {} unused", bytes(pool.total), bytes(pool.available))
    } else {
        format!("the pool of {} was used", bytes(pool.total))
    }
}

fn processors(facts: &Facts<'_>) -> Option<String> {
    let (peak, usual) = facts.system.zip(facts.usual)?;
    Some(format!("%system rose from {usual:.0} to {peak:.0}"))
}

fn free(facts: &Facts<'_>) -> Option<String> {
    let (low, high) = facts.free?;
    Some(format!("free memory leapt from {} to {}", bytes(low), bytes(high)))
}

fn scans(facts: &Facts<'_>) -> Vec<String> {
    if facts.strength(Kind::Reclaim).is_none() {
        return Vec::new();
    }
    let counted = match facts.scans {
        Scans::Counted { direct, kswapd } => {
            Some(format!("processes themselves scanned up to {} a second, kswapd {}", direct.words(), kswapd.words()))
        }
        Scans::Stalls(stalls) => Some(format!("up to {stalls:.0} allocations a second had to reclaim first")),
        Scans::Untrusted(_) | Scans::Absent => None,
    };
    let waited = facts.pressure.filter(|percent| *percent >= 1.0);
    let waited = waited.map(|percent| format!("all tasks waited for memory in up to {percent:.0} % of the time"));
    counted.into_iter().chain(waited).collect()
}

fn swap(verdict: Verdict, facts: &Facts<'_>) -> Option<String> {
    let (out, back) = facts.swap.filter(|_| verdict == Verdict::SwapStorm || facts.clear(Kind::Swap))?;
    Some(format!("up to {} a second went to swap and {} came back", out.words(), back.words()))
}

fn sessions(facts: &Facts<'_>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some((name, from, to)) = facts.count {
        words.push(format!("{name} went from {from:.0} to {to:.0}"));
    }
    if let Some((from, to)) = facts.grown.filter(|(from, to)| (to - from).abs() >= GREW) {
        let verb = if to > from { "grew" } else { "shrank" };
        let mut text = format!("page tables {verb} from {} to {}", bytes(from), bytes(to));
        if let Some((name, before, after)) = facts.count.filter(|(_, before, after)| (after - before).abs() >= 1.0) {
            let one = match name {
                "sessions" => "a session",
                "processes" => "a process",
                _ => "a task",
            };
            text += &format!(", {} {one}", bytes((to - from) / (after - before)));
        }
        words.push(text);
        words.extend(facts.pool.map(pool));
    }
    if let Some((load, processors)) = facts.load.filter(|(load, processors)| load > processors) {
        words.push(format!("up to {load:.0} tasks wanted {processors:.0} processors"));
    }
    words
}

/// What to do next.
pub(super) fn next(verdict: Verdict, facts: &Facts<'_>) -> Vec<String> {
    let mut next = Vec::new();
    let no_pool = facts.pool.is_none_or(|pool| pool.total <= 0.0);
    let root = facts.root.as_ref().map(|root| format!(" --root {root}")).unwrap_or_default();
    let check = format!("hugewise check{root}: page tables, pools and memory of the host as it was set up");
    match verdict {
        Verdict::ReclaimByPageTables | Verdict::PageTablesStanding | Verdict::LoginStorm => {
            next.extend(sizing(&root, no_pool));
        }
        Verdict::PoolUnused => {
            next.push("hugewise verify: which server should use the pool, and what keeps it from it".to_owned());
            next.push(format!("hugewise size{root}: how many pages are needed; what is too much can be given back"));
        }
        Verdict::CompactionStall => {
            next.push(format!("hugewise check{root}: whether transparent huge pages are what its servers ask for"))
        }
        Verdict::ReclaimStorm | Verdict::SwapStorm => {
            next.push(check);
            next.extend(sizing(&root, no_pool));
        }
        Verdict::KernelCpu | Verdict::Starved => next.push(check),
    }
    if !facts.tables_read {
        next.push("sar -r ALL shows page tables (kbpgtbl) where sysstat 11.1.3 or later stores them".to_owned());
    }
    if facts.coarsest >= COARSE {
        next.push("have sysstat sample every minute: a stall of minutes then has rows of its own".to_owned());
    }
    next
}

fn sizing(root: &str, no_pool: bool) -> Vec<String> {
    let plan = if no_pool { "that give it a pool" } else { "that let its servers use the pool" };
    vec![
        format!("hugewise size{root}: how many huge pages the host's servers need"),
        format!("hugewise plan{root}: the changes {plan}, as a diff"),
    ]
}
