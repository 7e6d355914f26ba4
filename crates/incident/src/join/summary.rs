//! An incident in a sentence with its figures, and what to do next.

use hugewise_model::escape::shell;

use super::decide::Decision;
use super::facts::{Facts, Pool, SPARE, Scans, Tables};
use crate::page::bytes;
use crate::signatures::log::KILLED;
use crate::signatures::page_tables::NOTICE;
use crate::signatures::rows::{MINUTE, apart};
use crate::{Kind, Strength, Verdict};

/// Part of a pool from which on it is called unused.
const UNUSED: f64 = 0.5;
/// Samples farther apart than this hide much, in milliseconds.
const COARSE: i64 = 120_000;
/// What to do about a cgroup's limit.
const LIMIT: &str = "systemctl show -p MemoryMax,MemoryHigh UNIT, or memory.max and memory.high below /sys/fs/cgroup: which limit is reached";
/// What page tables have to grow by to be named with a login storm.
const GREW: f64 = 64.0 * 1_048_576.0;

/// What happened.
pub(super) fn summary(decision: &Decision, facts: &Facts<'_>) -> String {
    let mut parts = Vec::new();
    let name = match decision.verdict {
        Verdict::ReclaimByPageTables => "reclaim storm driven by page tables",
        Verdict::ReclaimStorm => "reclaim storm",
        Verdict::SwapStorm => "swap storm",
        Verdict::LoginStorm => "login storm",
        Verdict::CompactionStall => "stalls in memory compaction",
        Verdict::OutOfMemory => "out of memory",
        Verdict::CgroupLimit if facts.strong(Kind::CgroupOom) || facts.strong(Kind::Oom) => {
            "a cgroup reached its memory limit"
        }
        Verdict::CgroupLimit => "stalls at the memory limit of a cgroup, while the host had memory to spare",
        Verdict::ForkStorm => "fork storm",
        Verdict::DiskStall => "storage stall",
        Verdict::UserCpu => "programs wanted more than the processors have",
        Verdict::Steal => "the hypervisor withheld processor time",
        Verdict::Hang => "the host fell silent",
        Verdict::HungTasks => "tasks hung in the kernel, and no source says why",
        Verdict::KernelCpu => "the kernel was busy, and no source says with what",
        Verdict::Starved => "collectors did not get their turn, and no source says why",
        Verdict::PageTablesStanding | Verdict::PageTablesGrowing => "page tables are large",
        Verdict::PoolUnused => "a pool is reserved and not used",
        Verdict::HugePagesLost => "huge pages were lost",
    };
    if decision.verdict == Verdict::ReclaimByPageTables
        && let Some(tables) = facts.tables
    {
        parts.push(share(tables));
        parts.extend(facts.pool.map(pool));
    }
    match decision.verdict {
        Verdict::LoginStorm => parts.extend(sessions(facts)),
        Verdict::CgroupLimit => {
            parts.extend(facts.spare.map(|part| format!("at least {:.0} % of memory was available", part * 100.0)))
        }
        Verdict::CompactionStall => parts.extend(
            facts
                .compacted
                .filter(|rate| *rate >= 1.0)
                .map(|rate| format!("up to {rate:.0} allocations a second waited for compaction")),
        ),
        Verdict::ForkStorm => {
            parts.extend(facts.forks.map(|rate| format!("up to {rate:.0} processes and threads began a second")))
        }
        Verdict::DiskStall => parts.extend(waited(facts)),
        Verdict::UserCpu => parts.extend(queued(facts)),
        Verdict::Steal => parts.extend(facts.stolen.map(|percent| format!("up to {percent:.0} % of it"))),
        _ => {}
    }
    parts.extend(killed(decision.verdict, facts));
    parts.extend(logged(facts));
    parts.extend(processors(facts));
    if facts.clear(Kind::FreeMemory) {
        parts.extend(free(facts));
    }
    parts.extend(scans(facts));
    parts.extend(stalled(facts));
    parts.extend(swap(decision.verdict, facts));
    parts.extend(facts.late.map(late));
    parts.extend(silence(decision.verdict, facts));
    if facts.strength(Kind::Restart).is_some() && facts.strength(Kind::Silence).is_none() {
        parts.push("the host or the collector restarted".to_owned());
    }
    let alone = matches!(decision.verdict, Verdict::KernelCpu | Verdict::Starved | Verdict::Hang);
    let consistent = if decision.counted || alone { "" } else { "consistent with a " };
    let sure = match decision.verdict {
        Verdict::LoginStorm => "",
        Verdict::CgroupLimit => consistent.trim_end_matches("a "),
        _ => consistent,
    };
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
    let peak = facts.system.filter(|_| facts.strength(Kind::KernelCpu).is_some())?;
    Some(match facts.usual {
        Some(usual) => format!("%system rose from {usual:.0} to {peak:.0}"),
        None => format!("%system was up to {peak:.0}"),
    })
}

fn free(facts: &Facts<'_>) -> Option<String> {
    let (low, high) = facts.free?;
    Some(format!("free memory leapt from {} to {}", bytes(low), bytes(high)))
}

fn scans(facts: &Facts<'_>) -> Vec<String> {
    if facts.strength(Kind::Reclaim).is_none() || facts.scans.any() == Some(false) {
        return Vec::new();
    }
    let stalls = |stalls: f64| format!("up to {stalls:.0} allocations a second had to reclaim first");
    match facts.scans {
        Scans::Counted { direct, kswapd } if direct.pages < 1.0 => {
            vec![format!("kswapd scanned up to {} a second", kswapd.words())]
        }
        Scans::Counted { direct, kswapd } if kswapd.pages < 1.0 => {
            vec![format!("processes themselves scanned up to {} a second", direct.words())]
        }
        Scans::Counted { direct, kswapd } => {
            vec![format!("processes themselves scanned up to {} a second, kswapd {}", direct.words(), kswapd.words())]
        }
        Scans::Together(rate, waited) => {
            let scanned = format!("kswapd and processes themselves scanned up to {} a second", rate.words());
            [Some(scanned), waited.filter(|waited| *waited >= 1.0).map(stalls)].into_iter().flatten().collect()
        }
        Scans::Stalls(waited) => vec![stalls(waited)],
        Scans::Untrusted(_) | Scans::Absent => Vec::new(),
    }
}

fn stalled(facts: &Facts<'_>) -> Option<String> {
    let told = facts.strength(Kind::Reclaim).is_some() || facts.strength(Kind::MemoryStall).is_some();
    let (who, percent) = facts.pressure.filter(|(_, percent)| *percent >= 1.0 && told)?;
    Some(format!("{who} waited for memory in up to {percent:.0} % of the time"))
}

/// What logs say of it: whom the kernel killed first, and what the kernel and servers said first.
fn logged(facts: &Facts<'_>) -> Vec<String> {
    let first = |kind: Kind, least: Strength| {
        let of_kind = facts.signatures.iter().filter(|one| one.kind == kind && one.strength >= least);
        of_kind.flat_map(|one| &one.evidence).find(|evidence| kind != Kind::Oom || evidence.what.starts_with(KILLED))
    };
    let words = [
        (Kind::Oom, Strength::Strong, "the kernel "),
        (Kind::CgroupOom, Strength::Strong, "the kernel "),
        (Kind::KernelLog, Strength::Clear, ""),
        (Kind::ServerLog, Strength::Clear, ""),
        (Kind::HugePagesLost, Strength::Clear, ""),
    ];
    let told = words.into_iter().filter_map(|(kind, least, who)| Some(format!("{who}{}", first(kind, least)?.what)));
    told.collect()
}

fn killed(verdict: Verdict, facts: &Facts<'_>) -> Option<String> {
    // A log says whom.
    if facts.killed_by_its_word() || facts.strong(Kind::CgroupOom) {
        return None;
    }
    let kills = facts.strong(Kind::Oom).then_some(facts.killed)?;
    let who = if kills <= 1.0 { "a process".to_owned() } else { format!("{kills:.0} processes") };
    // Of a cgroup's limit it is the verdict that says so.
    let limit = facts.spare.filter(|spare| *spare >= SPARE && verdict != Verdict::CgroupLimit);
    let limit = limit.map(|spare| {
        format!(", apparently at a cgroup's limit: at least {:.0} % of memory was available", spare * 100.0)
    });
    Some(format!("the kernel killed {who} for memory{}", limit.unwrap_or_default()))
}

fn waited(facts: &Facts<'_>) -> Vec<String> {
    let tasks =
        facts.blocked.filter(|tasks| *tasks >= 1.0).map(|tasks| format!("up to {tasks:.0} tasks waited for a disk"));
    let idle = facts.iowait.filter(|percent| *percent >= 1.0).map(|percent| format!("%iowait rose to {percent:.0}"));
    let moved = facts.moved.map(|moved| format!("disks moved {} a second (median)", bytes(moved)));
    [tasks, idle, moved].into_iter().flatten().collect()
}

fn queued(facts: &Facts<'_>) -> Option<String> {
    let (load, processors) = facts.load?;
    Some(format!("up to {load:.0} tasks wanted {processors:.0} processors"))
}

fn late(late: i64) -> String {
    if late >= 20 * 60 {
        format!(
            "nothing was written for {} minutes more than usual: the host stood still, was paused, or its collector was off",
            late / 60
        )
    } else {
        format!("a collector's sample came {late} s late")
    }
}

fn silence(verdict: Verdict, facts: &Facts<'_>) -> Option<String> {
    let silent = facts.signatures.iter().filter(|one| one.kind == Kind::Silence && one.strength == Strength::Strong);
    let longest = silent.map(|one| apart(one.from, one.to)).max()?;
    let mut words = format!("nothing was written for {} minutes, and then the host restarted", longest / MINUTE);
    if verdict == Verdict::Hang && !facts.last_seen.is_empty() {
        words += &format!("; the last sample shows {}", facts.last_seen.join(", "));
    }
    Some(words)
}

fn swap(verdict: Verdict, facts: &Facts<'_>) -> Option<String> {
    let (out, back) = facts.swap.filter(|_| verdict == Verdict::SwapStorm || facts.clear(Kind::Swap))?;
    Some(format!("up to {} a second went to swap and {} came back", out.words(), back.words()))
}

fn sessions(facts: &Facts<'_>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(count) = facts.count {
        words.push(format!("{} went from {:.0} to {:.0}", count.name, count.from, count.to));
    }
    if let Some((from, to)) = facts.grown.filter(|(from, to)| (to - from).abs() >= GREW) {
        let verb = if to > from { "grew" } else { "shrank" };
        let mut text = format!("page tables {verb} from {} to {}", bytes(from), bytes(to));
        if let Some(count) = facts.count.filter(|count| (count.to > count.from) == (to > from)) {
            let one = match count.name {
                "sessions" => "a session",
                "processes" => "a process",
                _ => "a task",
            };
            text += &format!(", {} {one}", bytes((to - from) / (count.to - count.from)));
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
    let root = facts.root.as_ref().map(|root| format!(" --root {}", shell::word(root))).unwrap_or_default();
    let check = format!("hugewise check{root}: page tables, pools and memory of the host as it was set up");
    match verdict {
        Verdict::ReclaimByPageTables
        | Verdict::PageTablesStanding
        | Verdict::PageTablesGrowing
        | Verdict::LoginStorm => next.extend(sizing(&root, no_pool)),
        Verdict::PoolUnused => {
            next.push("hugewise verify: which server should use the pool, and what keeps it from it".to_owned());
            next.push(format!("hugewise size{root}: how many pages are needed, and how many can be given back"));
        }
        Verdict::CompactionStall => {
            next.push(format!("hugewise check{root}: whether transparent huge pages are set as its servers need"))
        }
        Verdict::ReclaimStorm | Verdict::SwapStorm | Verdict::OutOfMemory => {
            let limit = verdict == Verdict::OutOfMemory && facts.spare.is_some_and(|spare| spare >= SPARE);
            next.push(if limit { LIMIT.to_owned() } else { check });
            // Small page tables are not what took the memory: huge pages would free none of it.
            if facts.tables.is_none_or(|tables| tables.part() >= NOTICE) {
                next.extend(sizing(&root, no_pool));
            } else {
                next.push("ps -eo pid,user,rss,args --sort=-rss | head: which programs have the memory".to_owned());
            }
        }
        Verdict::CgroupLimit => next.push(LIMIT.to_owned()),
        Verdict::HugePagesLost => {
            next.push(format!(
                "hugewise check{root}: which server is without huge pages, and what the next boot brings"
            ));
            next.push(format!("hugewise plan{root}: a pool that is there at each boot, before the servers start"));
        }
        Verdict::ForkStorm => {
            next.push(
                "while it lasts: perf trace -s -e clone,execve, or execsnoop: which program starts them".to_owned(),
            );
        }
        Verdict::DiskStall => {
            next.push(
                "journalctl -k: errors, resets and lost paths of disks; iostat -x 1: which of them is slow".to_owned(),
            );
        }
        Verdict::UserCpu => {
            next.push("top, or the server's own list of sessions: which of them take the time".to_owned())
        }
        Verdict::Steal => {
            next.push(
                "the hypervisor's own view of this machine: how many processors its guests share, and its limits"
                    .to_owned(),
            );
        }
        Verdict::HungTasks => next.push(
            "the call traces behind the first hung task in the kernel's log: they say what it waited for".to_owned(),
        ),
        Verdict::Hang => {
            next.push("kdump, and kernel.hardlockup_panic, kernel.hung_task_panic or a watchdog: a host that hangs then says why".to_owned());
            next.push(check);
        }
        Verdict::KernelCpu | Verdict::Starved => next.push(check),
    }
    let about_tables = !matches!(
        verdict,
        Verdict::CgroupLimit
            | Verdict::ForkStorm
            | Verdict::DiskStall
            | Verdict::UserCpu
            | Verdict::Steal
            | Verdict::HugePagesLost
    );
    if !facts.tables_read && about_tables {
        next.push("sar -r ALL shows page tables (kbpgtbl) where sysstat 11.1.3 or later stores them".to_owned());
    }
    if facts.coarsest >= COARSE {
        next.push("have sysstat sample every minute: a stall of a few minutes then has its own rows".to_owned());
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
