//! What an incident is taken for, and how sure that is.

use super::facts::{Facts, SPARE, Scans};
use crate::page::bytes;
use crate::signatures::log::RELAYED;
use crate::{Confidence, Kind, Signature, Strength, Verdict};

/// %idle and %iowait together above which the processors were not the matter on average.
const IDLE: f64 = 50.0;
/// %system of an average that is a storm's even when nobody counted scans and only free memory agrees.
const HIGH: f64 = 30.0;
/// An interval from which on it hides much, in milliseconds.
const COARSE: i64 = 120_000;
/// Pages a second that are taken back where that is no chance.
const TAKEN_BACK: f64 = 100.0;
/// Allocations a second that wait for compaction, at their most: fewer are none.
const FEW_STALLS: f64 = 1.0;
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
    // What was counted comes before what it brings about, and that before what is only seen.
    let order: [fn(&Facts<'_>) -> Option<Taken>; 16] = [
        killed,
        killed_in_cgroup,
        compaction_alone,
        reclaim,
        compaction,
        cgroup,
        stolen,
        disk,
        logins,
        forks,
        programs,
        silence,
        hung,
        unexplained,
        starved,
        without_huge_pages,
    ];
    let (verdict, confidence, counted) = order.into_iter().find_map(|decide| decide(facts))?;
    let mut against = against(verdict, facts);
    // One witness that anybody can make is not enough to be sure.
    let confidence = if facts.by_hearsay() {
        against.push(format!("only a log says so, and {RELAYED}"));
        confidence.min(Confidence::Medium)
    } else {
        confidence
    };
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

/// Processes that were killed. Where page tables had taken the memory, that is told first; on a host that had memory to
/// spare they were killed at the limit of a cgroup, unless the kernel itself says otherwise: its counter has both.
fn killed(facts: &Facts<'_>) -> Option<Taken> {
    if !facts.strong(Kind::Oom) {
        return None;
    }
    if facts.spare.is_some_and(|spare| spare >= SPARE) && !facts.killed_by_its_word() {
        // Where the kernel says itself which cgroup it was, that is told.
        let seems = !facts.strong(Kind::CgroupOom);
        return seems.then_some((Verdict::CgroupLimit, Confidence::Medium, true));
    }
    let verdict = if facts.large_tables() { Verdict::ReclaimByPageTables } else { Verdict::OutOfMemory };
    Some((verdict, Confidence::High, true))
}

/// Processes that were killed at the limit of a cgroup, by the kernel's word.
fn killed_in_cgroup(facts: &Facts<'_>) -> Option<Taken> {
    facts.strong(Kind::CgroupOom).then_some((Verdict::CgroupLimit, Confidence::High, true))
}

/// Reclaim, by its counters or by what it leaves behind; swapping is reclaim of what has to come back. Where scans were counted
/// and are none, it was none.
fn reclaim(facts: &Facts<'_>) -> Option<Taken> {
    let any = facts.scans.any();
    let felt =
        [Kind::KernelCpu, Kind::FreeMemory, Kind::Starved, Kind::MemoryStall].into_iter().any(|kind| facts.clear(kind));
    let scanned = any != Some(false)
        && (facts.strong(Kind::Reclaim) || (facts.clear(Kind::Reclaim) && (felt || facts.clear(Kind::Swap))));
    let swapped = facts.strong(Kind::Swap) || (facts.clear(Kind::Swap) && felt);
    let left_behind = any != Some(false) && facts.low_while_busy();
    // kswapd's scans speak for reclaim where the rest does.
    let by_kswapd = left_behind && facts.strength(Kind::Reclaim).is_some();
    // Who waits for memory of which there is little waits for reclaim.
    let waited = facts.clear(Kind::MemoryStall) && any != Some(false) && facts.spare.is_some_and(|spare| spare < SPARE);
    let not_counted = any.is_none();
    let consistent = left_behind && not_counted && (facts.kernel_leads() || facts.clear(Kind::Starved));
    let (counted, confidence) = if scanned || swapped {
        // Where reclaim itself was counted, time in the kernel beside it needs no other proof.
        let felt = felt || facts.strength(Kind::KernelCpu).is_some();
        (true, if felt { Confidence::High } else { Confidence::Medium })
    } else if by_kswapd || waited {
        (any == Some(true), Confidence::Medium)
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
    let swap_leads = (swapped && (!scanned || facts.strong(Kind::Swap))) || facts.mostly_swap();
    let verdict = if swap_leads { Verdict::SwapStorm } else { Verdict::ReclaimStorm };
    Some((verdict, confidence, counted))
}

/// Tasks that waited for memory although nobody scanned for any but at a limit of their own, and the host had some left.
fn cgroup(facts: &Facts<'_>) -> Option<Taken> {
    let spare = facts.spare.is_some_and(|spare| spare >= SPARE);
    if !facts.clear(Kind::MemoryStall) || !spare || facts.clear(Kind::Reclaim) {
        return None;
    }
    // What is taken back without a scan of the host's is taken back in a cgroup.
    let taken_back = taken_back(facts);
    if !taken_back && !facts.compaction_counted && facts.kernel_rules_throughout() {
        return None;
    }
    let confidence = match (taken_back, facts.scans.any()) {
        (true, _) => Confidence::High,
        (false, Some(false)) => Confidence::Medium,
        (false, _) => Confidence::Low,
    };
    Some((Verdict::CgroupLimit, confidence, taken_back))
}

fn taken_back(facts: &Facts<'_>) -> bool {
    facts.scans.any() == Some(false) && facts.taken_back.is_some_and(|pages| pages >= TAKEN_BACK)
}

/// Processors that the hypervisor gave to others.
fn stolen(facts: &Facts<'_>) -> Option<Taken> {
    facts.strong(Kind::Steal).then_some((Verdict::Steal, Confidence::High, true))
}

/// Disks that moved little while many waited for them.
fn disk(facts: &Facts<'_>) -> Option<Taken> {
    let confidence = if facts.clear(Kind::Starved) { Confidence::High } else { Confidence::Medium };
    (facts.strong(Kind::Disk) && !facts.kernel_rules_throughout()).then_some((Verdict::DiskStall, confidence, true))
}

/// Processes that began one after another: so many that nothing else can have the processors, or with the kernel ahead of
/// them, as no build has it.
fn forks(facts: &Facts<'_>) -> Option<Taken> {
    let storm = facts.strong(Kind::Forks);
    let confidence = if storm && facts.kernel_rules() { Confidence::High } else { Confidence::Medium };
    (storm || (facts.clear(Kind::Forks) && facts.kernel_rules())).then_some((Verdict::ForkStorm, confidence, true))
}

/// Programs that wanted far more than there is.
fn programs(facts: &Facts<'_>) -> Option<Taken> {
    facts.strong(Kind::UserCpu).then_some((Verdict::UserCpu, Confidence::High, true))
}

/// Nothing, and then a start.
fn silence(facts: &Facts<'_>) -> Option<Taken> {
    // What was felt before it says that the host was not shut down by order.
    let felt = [Kind::KernelCpu, Kind::FreeMemory, Kind::MemoryStall, Kind::Disk, Kind::Starved];
    let confidence = if felt.into_iter().any(|kind| facts.clear(kind)) { Confidence::Medium } else { Confidence::Low };
    facts.strong(Kind::Silence).then_some((Verdict::Hang, confidence, false))
}

/// Sessions that came or went at once, and were felt.
fn logins(facts: &Facts<'_>) -> Option<Taken> {
    // Builds and batches start as many tasks; with them the programs have more of the processors than the kernel.
    // Who has to wait for a processor leaves none idle: a collector that is late there has another reason.
    let idle = facts.coarsest < COARSE && facts.idle.is_some_and(|idle| idle >= IDLE);
    let felt = (facts.clear(Kind::KernelCpu) && facts.kernel_rules()) || (facts.clear(Kind::Starved) && !idle);
    if !facts.clear(Kind::Logins) || !(felt || facts.strong(Kind::Logins)) {
        return None;
    }
    let sessions = facts.count.is_some_and(|count| count.name == "sessions");
    let confidence = match (facts.strong(Kind::Logins), felt) {
        (true, true) => Confidence::High,
        (true, false) => Confidence::Medium,
        (false, _) if sessions => Confidence::Medium,
        (false, _) => Confidence::Low,
    };
    Some((Verdict::LoginStorm, confidence, facts.strong(Kind::Logins)))
}

/// Compaction that stands out by itself, beside reclaim that does not.
fn compaction_alone(facts: &Facts<'_>) -> Option<Taken> {
    let alone = facts.strong(Kind::Compaction) && !facts.strong(Kind::Reclaim) && !facts.clear(Kind::Swap);
    compaction(facts).filter(|_| alone)
}

fn compaction(facts: &Facts<'_>) -> Option<Taken> {
    let felt = [Kind::KernelCpu, Kind::Starved, Kind::MemoryStall].into_iter().any(|kind| facts.clear(kind));
    if facts.strong(Kind::Compaction) || (facts.clear(Kind::Compaction) && felt) {
        let confidence = if felt { Confidence::High } else { Confidence::Medium };
        return Some((Verdict::CompactionStall, confidence, true));
    }
    // A few that take long are as bad as many: nobody scanned or took anything back, and the kernel has the processors.
    let few = facts.compacted.is_some_and(|most| most >= FEW_STALLS);
    let waited = facts.clear(Kind::MemoryStall) && facts.scans.any() == Some(false) && !taken_back(facts);
    (few && waited && facts.kernel_rules_throughout()).then_some((Verdict::CompactionStall, Confidence::Medium, true))
}

/// Tasks that hung, or processors that did not come back, without anything that says why.
fn hung(facts: &Facts<'_>) -> Option<Taken> {
    let felt =
        [Kind::KernelCpu, Kind::Starved, Kind::Disk, Kind::MemoryStall].into_iter().any(|kind| facts.clear(kind));
    let there = facts.strong(Kind::KernelLog) || (facts.clear(Kind::KernelLog) && felt);
    there.then_some((Verdict::HungTasks, if felt { Confidence::Medium } else { Confidence::Low }, true))
}

/// What was felt without anything that says why.
fn unexplained(facts: &Facts<'_>) -> Option<Taken> {
    let busy = facts.clear(Kind::KernelCpu) && facts.clear(Kind::Starved);
    (facts.strong(Kind::KernelCpu) || busy).then_some((Verdict::KernelCpu, Confidence::Low, false))
}

fn starved(facts: &Facts<'_>) -> Option<Taken> {
    facts.strong(Kind::Starved).then_some((Verdict::Starved, Confidence::Low, false))
}

/// A pool that a restart took away, or a server's word that it got no huge pages.
fn without_huge_pages(facts: &Facts<'_>) -> Option<Taken> {
    facts.clear(Kind::HugePagesLost).then_some((Verdict::HugePagesLost, Confidence::High, true))
}

/// What speaks against a verdict.
fn against(verdict: Verdict, facts: &Facts<'_>) -> Vec<String> {
    let mut against = Vec::new();
    let of_processors = matches!(
        verdict,
        Verdict::ReclaimByPageTables
            | Verdict::ReclaimStorm
            | Verdict::SwapStorm
            | Verdict::LoginStorm
            | Verdict::CompactionStall
            | Verdict::KernelCpu
            | Verdict::Starved
            | Verdict::ForkStorm
    );
    let killed = facts.strong(Kind::Oom);
    if let Some(idle) = facts.idle.filter(|idle| *idle >= IDLE && of_processors && !killed) {
        against.push(format!("processors were idle or waiting for disks in at least {idle:.0} % of every interval"));
    }
    let reclaim = matches!(verdict, Verdict::ReclaimByPageTables | Verdict::ReclaimStorm);
    if let Scans::Counted { direct, kswapd } = facts.scans
        && reclaim
        && !killed
        && !facts.clear(Kind::Reclaim)
    {
        against.push(format!(
            "scans were counted and low: {:.0} pages a second by processes themselves, {:.0} by kswapd",
            direct.pages, kswapd.pages
        ));
    }
    if facts.no_scans && matches!(verdict, Verdict::KernelCpu | Verdict::Starved) {
        against.push(
            "scans were counted, and there were none at that time or in the minutes around it: it was not reclaim"
                .to_owned(),
        );
    }
    if verdict == Verdict::ReclaimByPageTables
        && let Some(pool) = facts.pool.filter(|pool| pool.total > 0.0 && pool.available < USED * pool.total)
    {
        let pool = bytes(pool.total);
        against.push(format!("the pool of {pool} was used: these page tables map other memory, or other memory too"));
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

    /// What would make it more certain.
    pub(super) fn raised_by(&self, facts: &Facts<'_>) -> Vec<String> {
        let mut raised = Vec::new();
        let storm = matches!(
            self.verdict,
            Verdict::ReclaimByPageTables | Verdict::ReclaimStorm | Verdict::KernelCpu | Verdict::Starved
        );
        if storm {
            match &facts.scans {
                Scans::Counted { .. } | Scans::Together(..) | Scans::Stalls(_) => {}
                Scans::Untrusted(why) => raised.push(format!(
                    "scans by kswapd and by processes themselves; those here cannot be trusted ({why}): a newer sysstat, or a log of /proc/vmstat"
                )),
                Scans::Absent => raised.push(
                    "scans by kswapd and by processes themselves: sar -B, or a log of /proc/vmstat".to_owned(),
                ),
            }
        }
        let about_memory = !matches!(
            self.verdict,
            Verdict::ForkStorm
                | Verdict::DiskStall
                | Verdict::UserCpu
                | Verdict::Steal
                | Verdict::CgroupLimit
                | Verdict::HugePagesLost
        );
        match facts.tables {
            _ if !about_memory => {}
            None if facts.tables_read => {
                raised.push("the size of memory, which no source gives: one /proc/meminfo of the host".to_owned())
            }
            None => raised.push(
                "the size of page tables: sar -r ALL of sysstat 11.1.3 or later, or a log of /proc/meminfo".to_owned(),
            ),
            Some(tables) if !tables.then && storm => {
                raised.push("the size of page tables at that time: they were read at another time".to_owned())
            }
            Some(_) => {}
        }
        if matches!(self.verdict, Verdict::LoginStorm) && facts.count.is_none_or(|count| count.name != "sessions") {
            raised.push("the number of sessions: a log of ps, or the server's own".to_owned());
        }
        if matches!(self.verdict, Verdict::KernelCpu) {
            raised.push("what the kernel did: perf record -a -g, or a log of top, while it lasts".to_owned());
        }
        let own: &[&str] = match self.verdict {
            Verdict::Hang => &[
                "what the host said last: journalctl -b -1 -e, its console, and the log of its management controller",
                "whether somebody shut it down: last -x shutdown reboot",
            ],
            Verdict::DiskStall => &["which disk, and how long each request took: iostat -x, or sar -d"],
            Verdict::UserCpu | Verdict::ForkStorm => &["which programs: a log of top or ps, atop, pidstat"],
            Verdict::CgroupLimit if facts.strong(Kind::CgroupOom) => &[],
            Verdict::CgroupLimit => &["which cgroup: memory.events and memory.pressure of each, or systemd-cgtop"],
            Verdict::OutOfMemory => {
                &["who was killed, and who had the memory: dmesg or journalctl -k, from \"Out of memory\" on"]
            }
            _ => &[],
        };
        raised.extend(own.iter().map(|words| (*words).to_owned()));
        if facts.coarsest >= COARSE {
            raised.push(format!(
                "samples a minute or less apart: an average over {} s does not show how high the peak was or how long it lasted",
                facts.coarsest / 1000
            ));
        }
        raised
    }
}
