//! An incident in a sentence with its figures, and what to do next.

use hugewise_model::PageSize;
use hugewise_model::escape::shell;

use super::decide::Decision;
use super::facts::{PageTableShare, PoolUsage, SPARE, Scans, WindowFacts};
use super::window::COARSE;
use crate::page::{bytes_from_f64, format_processor_share};
use crate::signatures::page_tables::NOTICE;
use crate::signatures::rows::{MINUTE, milliseconds_between};
use crate::{
    IncidentVerdict, KernelWork, LogEventKind, MemoryReport, SignatureKind, SignatureStrength,
};

/// A load average that is worth a word where no source says how many processors there are.
const CROWD: f64 = 32.0;
/// Part of a pool that has to be available for the pool to be unused.
const UNUSED: f64 = 0.5;
const LIMIT: &str = "systemctl show -p MemoryMax,MemoryHigh UNIT, or memory.max and memory.high \
     below /sys/fs/cgroup: which limit is reached";
const MEMORY_USERS: &str =
    "ps -eo pid,user,rss,args --sort=-rss | head: which programs have the memory";
const FORKERS: &str =
    "while it lasts: perf trace -s -e clone,execve, or execsnoop: which program starts them";
const DISKS: &str = "journalctl -k: errors, resets and lost paths of disks; iostat -x 1: which of \
     them is slow";
const SESSIONS: &str = "top, or the server's own list of sessions: which of them take the time";
const HYPERVISOR: &str = "the hypervisor's own view of this machine: how many processors its \
     guests share, and its limits";
const CALL_TRACES: &str = "the call traces behind the first hung task in the kernel's log: they \
     say what it waited for";
const KILLS: &str = "journalctl -k, or dmesg -T, of that minute: whether the kernel killed it for \
     memory";
const CRASH: &str = "the messages before it in the kernel's log, and the dump of kdump below \
     /var/crash";
const CRASH_DUMP: &str = "kdump, and kernel.hardlockup_panic, kernel.hung_task_panic or a \
     watchdog: a host that hangs then says why";
/// Bytes that page tables have to grow by to be named with a login storm.
const GREW: f64 = 64.0 * 1_048_576.0;

pub(super) fn summarize_incident(decision: &Decision, facts: &WindowFacts<'_>) -> String {
    let verdict = decision.verdict;
    let mut parts = describe_cause(verdict, facts);
    parts.extend(describe_oom_kills(verdict, facts));
    parts.extend(describe_log_evidence(facts));
    parts.extend(describe_system_cpu(facts));
    if facts.is_clear(SignatureKind::FreeMemory) {
        parts.extend(describe_free_memory(facts));
    }
    parts.extend(describe_scans(facts));
    parts.extend(describe_memory_stall(facts));
    parts.extend(describe_swap(verdict, facts));
    parts.extend(facts.late.map(describe_late_sample));
    parts.extend(describe_silence(verdict, facts));
    if facts.strength_of(SignatureKind::Restart).is_some()
        && facts.strength_of(SignatureKind::Silence).is_none()
    {
        parts.push("the host or the collector restarted".to_owned());
    }
    let is_certain = decision.counted
        || matches!(
            verdict,
            IncidentVerdict::KernelCpu
                | IncidentVerdict::Starved
                | IncidentVerdict::Hang
                | IncidentVerdict::LoginStorm
        );
    let hedge = match verdict {
        _ if is_certain => "",
        IncidentVerdict::CgroupLimit | IncidentVerdict::CompactionStall => "consistent with ",
        _ => "consistent with a ",
    };
    format!("{hedge}{}: {}", describe_verdict(verdict, facts), parts.join("; "))
}

fn describe_verdict(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> &'static str {
    match verdict {
        IncidentVerdict::ReclaimByPageTables => "reclaim storm driven by page tables",
        IncidentVerdict::ReclaimStorm => "reclaim storm",
        IncidentVerdict::SwapStorm => "swap storm",
        IncidentVerdict::LoginStorm => "login storm",
        IncidentVerdict::CompactionStall if facts.in_pieces.0 > 0 && facts.compacted.is_none() => {
            "memory was in pieces that compaction did not join"
        }
        IncidentVerdict::CompactionStall => "stalls in memory compaction",
        IncidentVerdict::OutOfMemory => "out of memory",
        IncidentVerdict::CgroupLimit
            if facts.is_strong(SignatureKind::CgroupOom) || facts.is_strong(SignatureKind::Oom) =>
        {
            "a cgroup reached its memory limit"
        }
        IncidentVerdict::CgroupLimit if facts.swapped_without_scans() => {
            "a cgroup swapped at its memory limit"
        }
        IncidentVerdict::CgroupLimit => {
            "stalls at the memory limit of a cgroup, while the host had memory to spare"
        }
        IncidentVerdict::ForkStorm => "fork storm",
        IncidentVerdict::DiskStall => "storage stall",
        IncidentVerdict::UserCpu => "programs wanted more than the processors have",
        IncidentVerdict::Steal => "the hypervisor withheld processor time",
        IncidentVerdict::Hang => "the host fell silent",
        IncidentVerdict::KernelCrash => "the kernel crashed",
        IncidentVerdict::HungTasks => match facts.work {
            Some(KernelWork::Reclaim) => "the kernel stood still while it took memory back",
            Some(KernelWork::Compaction) => "the kernel stood still while it compacted memory",
            Some(KernelWork::Disk) => "tasks hung in the kernel, waiting for a disk",
            None => "tasks hung in the kernel, and no source says why",
        },
        IncidentVerdict::KernelCpu => "the kernel was busy, and no source says with what",
        IncidentVerdict::Starved => "collectors did not get their turn, and no source says why",
        IncidentVerdict::PageTablesStanding | IncidentVerdict::PageTablesGrowing => {
            "page tables are large"
        }
        IncidentVerdict::PoolUnused => "a pool is reserved and not used",
        IncidentVerdict::HugePagesLost => "huge pages were lost",
        IncidentVerdict::ServerFailed if facts.logged(LogEventKind::ServerRefused) => {
            "a server did not start"
        }
        IncidentVerdict::ServerFailed => "a server ended",
    }
}

fn describe_cause(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Vec<String> {
    let one = |words: Option<String>| words.into_iter().collect();
    match verdict {
        IncidentVerdict::ReclaimByPageTables => match facts.tables {
            Some(tables) => [describe_page_table_share(tables)]
                .into_iter()
                .chain(facts.pool.map(describe_pool))
                .chain(facts.report.and_then(describe_shared_memory))
                .collect(),
            None => Vec::new(),
        },
        IncidentVerdict::LoginStorm => describe_sessions(facts),
        IncidentVerdict::CgroupLimit if facts.swapped_without_scans() => {
            vec!["the host itself looked for no page to take back".to_owned()]
        }
        IncidentVerdict::CgroupLimit => one(facts
            .spare
            .map(|part| format!("at least {:.0} % of memory was available", part * 100.0))),
        IncidentVerdict::CompactionStall => {
            let stalls = facts.compacted.filter(|rate| *rate >= 1.0);
            let stalls = stalls
                .map(|rate| format!("up to {rate:.0} allocations a second waited for compaction"));
            stalls.into_iter().chain(describe_threads(facts)).collect()
        }
        IncidentVerdict::ReclaimStorm | IncidentVerdict::SwapStorm => {
            let lack = describe_available(facts);
            describe_growth(facts).into_iter().chain(describe_threads(facts)).chain(lack).collect()
        }
        IncidentVerdict::ForkStorm => one(facts
            .forks
            .map(|rate| format!("up to {rate:.0} processes and threads began a second"))),
        IncidentVerdict::DiskStall => describe_disk_waits(facts),
        IncidentVerdict::UserCpu => one(describe_run_queue(facts)),
        IncidentVerdict::Steal => {
            one(facts.stolen.map(|percent| format!("up to {percent:.0} % of it")))
        }
        _ => Vec::new(),
    }
}

/// `swap in use grew from 0.2 GiB to 74 GiB in 3 hours, committed memory from 28 to 117 GiB of 31`.
fn describe_growth(facts: &WindowFacts<'_>) -> Option<String> {
    let growth = facts.growth?;
    let committed = growth.committed.map(|(from, to)| {
        format!(", committed memory from {} to {}", bytes_from_f64(from), bytes_from_f64(to))
    });
    Some(format!(
        "swap in use grew from {} to {} in {}{}, on {} of memory",
        bytes_from_f64(growth.swap.0),
        bytes_from_f64(growth.swap.1),
        format_duration(growth.lasted),
        committed.unwrap_or_default(),
        bytes_from_f64(growth.memory)
    ))
}

/// `45 minutes`, `3 hours`.
pub(super) fn format_duration(milliseconds: i64) -> String {
    match milliseconds / 1000 {
        seconds @ ..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", (seconds + 1800) / 3600),
    }
}

/// `549.0 MiB of 86.3 GiB was available, without swap`, where that is little.
fn describe_available(facts: &WindowFacts<'_>) -> Option<String> {
    let (available, memory) = facts.available.zip(facts.memory)?;
    let swap = if facts.without_swap { ", without swap" } else { "" };
    (available < SPARE * memory).then(|| {
        let (available, memory) = (bytes_from_f64(available), bytes_from_f64(memory));
        format!("{available} of {memory} was available{swap}")
    })
}

/// Threads of the kernel, and the load that stands beside them.
fn describe_threads(facts: &WindowFacts<'_>) -> Vec<String> {
    let mut names = facts.threads.iter();
    let Some((first, percent)) = names.next() else { return Vec::new() };
    let mut words = format!("{first} took {}", format_processor_share(*percent));
    names.for_each(|(name, percent)| {
        words += &format!(", {name} {}", format_processor_share(*percent));
    });
    let load = facts.load_average.filter(|load| *load >= CROWD);
    let load = load.map(|load| format!("the load average was up to {load:.0}"));
    [Some(words), load].into_iter().flatten().collect()
}

pub(super) fn describe_page_table_share(tables: PageTableShare) -> String {
    let part = tables.memory_fraction() * 100.0;
    let amount = format!("{} of {}", bytes_from_f64(tables.bytes), bytes_from_f64(tables.total));
    let then = if tables.then { "" } else { ", read at another time" };
    format!("{part:.0} % of memory was page tables ({amount}{then})")
}

pub(super) fn describe_pool(pool: PoolUsage) -> String {
    if pool.total <= 0.0 {
        "huge pages were not configured".to_owned()
    } else if pool.available >= UNUSED * pool.total {
        format!(
            "of a pool of {} went {} unused",
            bytes_from_f64(pool.total),
            bytes_from_f64(pool.available)
        )
    } else {
        format!("the pool of {} was used", bytes_from_f64(pool.total))
    }
}

/// What huge pages could hold of the memory in the kernel's report.
fn describe_shared_memory(report: MemoryReport) -> Option<String> {
    let shared = report.shared.filter(|shared| shared.as_f64() >= GREW)?;
    let listed = report.huge_page.and_then(|page| PageSize::new(page.0));
    let page = listed.unwrap_or(PageSize::MIB_2);
    let pages = shared.0.div_ceil(page.bytes().0.max(1));
    Some(format!(
        "{shared} was shared memory (tmpfs included), which {pages} huge pages of {page} hold"
    ))
}

fn describe_system_cpu(facts: &WindowFacts<'_>) -> Option<String> {
    let peak = facts.system.filter(|_| facts.strength_of(SignatureKind::KernelCpu).is_some())?;
    Some(match facts.usual {
        Some(usual) => format!("%system rose from {usual:.0} to {peak:.0}"),
        None => format!("%system was up to {peak:.0}"),
    })
}

fn describe_free_memory(facts: &WindowFacts<'_>) -> Option<String> {
    let (low, high) = facts.free?;
    Some(format!("free memory leapt from {} to {}", bytes_from_f64(low), bytes_from_f64(high)))
}

fn describe_scans(facts: &WindowFacts<'_>) -> Vec<String> {
    if facts.strength_of(SignatureKind::Reclaim).is_none()
        || facts.scans.any_scanned() == Some(false)
    {
        return Vec::new();
    }
    let stalls =
        |stalls: f64| format!("up to {stalls:.0} allocations a second had to reclaim first");
    match facts.scans {
        Scans::Counted { direct, kswapd } if direct.pages < 1.0 => {
            vec![format!("kswapd scanned up to {} a second", kswapd.format_amount())]
        }
        Scans::Counted { direct, kswapd } if kswapd.pages < 1.0 => {
            vec![format!("processes themselves scanned up to {} a second", direct.format_amount())]
        }
        Scans::Counted { direct, kswapd } => {
            vec![format!(
                "processes themselves scanned up to {} a second, kswapd {}",
                direct.format_amount(),
                kswapd.format_amount()
            )]
        }
        Scans::Together(rate, waited) => {
            let scanned = format!(
                "kswapd and processes themselves scanned up to {} a second",
                rate.format_amount()
            );
            [Some(scanned), waited.filter(|waited| *waited >= 1.0).map(stalls)]
                .into_iter()
                .flatten()
                .collect()
        }
        Scans::Stalls(waited) => vec![stalls(waited)],
        Scans::Untrusted(_) | Scans::Absent => Vec::new(),
    }
}

fn describe_memory_stall(facts: &WindowFacts<'_>) -> Option<String> {
    let told = facts.strength_of(SignatureKind::Reclaim).is_some()
        || facts.strength_of(SignatureKind::MemoryStall).is_some();
    let (who, percent) = facts.pressure.filter(|(_, percent)| *percent >= 1.0 && told)?;
    Some(format!("{who} waited for memory in up to {percent:.0} % of the time"))
}

fn describe_log_evidence(facts: &WindowFacts<'_>) -> Vec<String> {
    let first = |kind: SignatureKind, least: SignatureStrength| {
        let of_kind =
            facts.signatures.iter().filter(|one| one.kind == kind && one.strength >= least);
        of_kind
            .flat_map(|one| &one.evidence)
            .filter(|evidence| kind != SignatureKind::Oom || evidence.log_event_kind().is_some())
            .min_by_key(|evidence| evidence.log_event_kind().map_or(u8::MAX, rank_event))
    };
    let words = [
        (SignatureKind::Oom, SignatureStrength::Clear, "the kernel "),
        (SignatureKind::CgroupOom, SignatureStrength::Strong, "the kernel "),
        (SignatureKind::KernelLog, SignatureStrength::Clear, ""),
        (SignatureKind::ServerLog, SignatureStrength::Clear, ""),
        (SignatureKind::HugePagesLost, SignatureStrength::Clear, ""),
    ];
    let told = words.into_iter().filter_map(|(kind, least, who)| {
        let evidence = first(kind, least)?;
        // Other killers say who they are.
        let of_kernel = kind != SignatureKind::Oom
            || matches!(
                evidence.log_event_kind(),
                Some(LogEventKind::OutOfMemory | LogEventKind::OomCutOff)
            );
        Some(format!("{}{}", if of_kernel { who } else { "" }, evidence.what))
    });
    told.collect()
}

/// The event that says most of an incident, of several of one kind.
const fn rank_event(kind: LogEventKind) -> u8 {
    match kind {
        LogEventKind::OutOfMemory | LogEventKind::Panic | LogEventKind::ServerRefused => 0,
        LogEventKind::OomCutOff | LogEventKind::Oops | LogEventKind::ServerFailed => 1,
        // What the others wait for.
        LogEventKind::StorageTimeout | LogEventKind::StorageLost => 2,
        LogEventKind::UserspaceKill | LogEventKind::Lockup | LogEventKind::HungTask => 3,
        LogEventKind::MemoryExhausted | LogEventKind::HostSwapped => 4,
        _ => 5,
    }
}

fn describe_oom_kills(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Option<String> {
    // Otherwise a log says who was killed.
    if facts.killed_by_its_word()
        || facts.logged(LogEventKind::UserspaceKill)
        || facts.is_strong(SignatureKind::CgroupOom)
    {
        return None;
    }
    let kills = facts.is_strong(SignatureKind::Oom).then_some(facts.killed)?;
    let who = if kills <= 1.0 { "a process".to_owned() } else { format!("{kills:.0} processes") };
    // If the verdict is a cgroup's limit, that is said already.
    let limit =
        facts.spare.filter(|spare| *spare >= SPARE && verdict != IncidentVerdict::CgroupLimit);
    let limit = limit.map(|spare| {
        format!(
            ", apparently at a cgroup's limit: at least {:.0} % of memory was available",
            spare * 100.0
        )
    });
    Some(format!("the kernel killed {who} for memory{}", limit.unwrap_or_default()))
}

fn describe_disk_waits(facts: &WindowFacts<'_>) -> Vec<String> {
    let tasks = facts
        .blocked
        .filter(|tasks| *tasks >= 1.0)
        .map(|tasks| format!("up to {tasks:.0} tasks waited for a disk"));
    let idle = facts
        .iowait
        .filter(|percent| *percent >= 1.0)
        .map(|percent| format!("%iowait rose to {percent:.0}"));
    let pressure = facts.disk_pressure.filter(|percent| *percent >= 10.0);
    let pressure = pressure
        .map(|percent| format!("all tasks waited for a disk in up to {percent:.0} % of the time"));
    let moved =
        facts.moved.map(|moved| format!("disks moved {} a second (median)", bytes_from_f64(moved)));
    [tasks, pressure, idle, moved].into_iter().flatten().collect()
}

fn describe_run_queue(facts: &WindowFacts<'_>) -> Option<String> {
    let (load, processors) = facts.load?;
    Some(format!("up to {load:.0} tasks wanted {processors:.0} processors"))
}

fn describe_late_sample(late: i64) -> String {
    if late >= 20 * 60 {
        format!(
            "nothing was written for {} minutes more than usual: the host stood still, was \
                 paused, or its collector was off",
            late / 60
        )
    } else {
        format!("a collector's sample came {late} s late")
    }
}

fn describe_silence(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Option<String> {
    let silent = facts.signatures.iter().filter(|one| {
        one.kind == SignatureKind::Silence && one.strength == SignatureStrength::Strong
    });
    let longest = silent.map(|one| milliseconds_between(one.from, one.to)).max()?;
    let mut words = format!(
        "nothing was written for {} minutes, and then the host restarted",
        longest / MINUTE
    );
    if verdict == IncidentVerdict::Hang && !facts.last_seen.is_empty() {
        words += &format!("; the last sample shows {}", facts.last_seen.join(", "));
    }
    Some(words)
}

fn describe_swap(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Option<String> {
    let (out, back) = facts
        .swap
        .filter(|_| verdict == IncidentVerdict::SwapStorm || facts.is_clear(SignatureKind::Swap))
        .filter(|(out, back)| out.pages + back.pages >= 1.0)?;
    Some(format!(
        "up to {} a second went to swap and {} came back",
        out.format_amount(),
        back.format_amount()
    ))
}

fn describe_sessions(facts: &WindowFacts<'_>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(count) = facts.count {
        words.push(format!("{} went from {:.0} to {:.0}", count.name, count.from, count.to));
    }
    if let Some((from, to)) = facts.grown.filter(|(from, to)| (to - from).abs() >= GREW) {
        let verb = if to > from { "grew" } else { "shrank" };
        let mut text =
            format!("page tables {verb} from {} to {}", bytes_from_f64(from), bytes_from_f64(to));
        if let Some(count) = facts.count.filter(|count| (count.to > count.from) == (to > from)) {
            let one = match count.name {
                "sessions" => "a session",
                "processes" => "a process",
                _ => "a task",
            };
            text += &format!(", {} {one}", bytes_from_f64((to - from) / (count.to - count.from)));
        }
        words.push(text);
        words.extend(facts.pool.map(describe_pool));
    }
    if facts.load.is_some_and(|(load, processors)| load > processors) {
        words.extend(describe_run_queue(facts));
    }
    words
}

pub(super) fn suggest_next_steps(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Vec<String> {
    let mut next = suggest_for_verdict(verdict, facts);
    if facts.coarsest >= COARSE {
        next.push(
            "have sysstat sample every minute: a stall of a few minutes then has its own rows"
                .to_owned(),
        );
    }
    next
}

fn suggest_for_verdict(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Vec<String> {
    let no_pool = facts.pool.is_none_or(|pool| pool.total <= 0.0);
    let quoted = facts.root.as_ref().map(|root| format!(" --root {}", shell::quote_word(root)));
    let root = quoted.unwrap_or_default();
    let check =
        format!("hugewise check{root}: page tables, pools and memory of the host as it was set up");
    match verdict {
        IncidentVerdict::ReclaimByPageTables
        | IncidentVerdict::PageTablesStanding
        | IncidentVerdict::PageTablesGrowing
        | IncidentVerdict::LoginStorm => suggest_sizing(&root, no_pool),
        IncidentVerdict::PoolUnused => vec![
            "hugewise verify: which server should use the pool, and what keeps it from it".into(),
            format!(
                "hugewise size{root}: how many pages are needed, and how many can be given back"
            ),
        ],
        IncidentVerdict::CompactionStall => vec![format!(
            "hugewise check{root}: whether transparent huge pages are set as its servers need"
        )],
        IncidentVerdict::ReclaimStorm
        | IncidentVerdict::SwapStorm
        | IncidentVerdict::OutOfMemory => {
            let is_limit = verdict == IncidentVerdict::OutOfMemory
                && facts.spare.is_some_and(|spare| spare >= SPARE);
            let mut next = vec![if is_limit { LIMIT.to_owned() } else { check }];
            // Small page tables did not take the memory: huge pages would free none of it.
            if facts.tables.is_none_or(|tables| tables.memory_fraction() >= NOTICE) {
                next.extend(suggest_sizing(&root, no_pool));
            } else {
                next.push(MEMORY_USERS.to_owned());
            }
            next
        }
        IncidentVerdict::HugePagesLost => vec![
            format!(
                "hugewise check{root}: which server is without huge pages, and what the next boot \
                 brings"
            ),
            format!(
                "hugewise plan{root}: a pool that is there at each boot, before the servers start"
            ),
        ],
        IncidentVerdict::CgroupLimit => vec![LIMIT.to_owned()],
        IncidentVerdict::ForkStorm => vec![FORKERS.to_owned()],
        IncidentVerdict::DiskStall => vec![DISKS.to_owned()],
        IncidentVerdict::UserCpu => vec![SESSIONS.to_owned()],
        IncidentVerdict::Steal => vec![HYPERVISOR.to_owned()],
        IncidentVerdict::KernelCrash => vec![CRASH.to_owned()],
        IncidentVerdict::ServerFailed => vec![
            format!("hugewise check{root}: whether its next start gets its memory and its pages"),
            KILLS.to_owned(),
        ],
        IncidentVerdict::HungTasks => vec![CALL_TRACES.to_owned()],
        IncidentVerdict::Hang => vec![CRASH_DUMP.to_owned(), check],
        IncidentVerdict::KernelCpu | IncidentVerdict::Starved => vec![check],
    }
}

fn suggest_sizing(root: &str, no_pool: bool) -> Vec<String> {
    let plan = if no_pool { "that give it a pool" } else { "that let its servers use the pool" };
    vec![
        format!("hugewise size{root}: how many huge pages the host's servers need"),
        format!("hugewise plan{root}: the changes {plan}, as a diff"),
    ]
}
