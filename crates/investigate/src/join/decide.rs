//! What an incident is taken for, and how sure that is.

use super::causes::Cause;
use super::facts::{SPARE, Scans, WindowFacts};
use super::window::COARSE;
use crate::page::bytes_from_f64;
use crate::signatures::log_events::RELAYED;
use crate::signatures::rows::{SECOND, milliseconds_between};
use crate::{
    Confidence, IncidentVerdict, LogEventKind, Signature, SignatureKind, SignatureStrength,
};

/// %idle and %iowait together above which the processors were not short on average.
const IDLE: f64 = 50.0;
/// The same where new processes may be a nightly job's.
const LITTLE_IDLE: f64 = 25.0;
/// Average %system of a storm, even where nobody counted scans and only free memory agrees.
const HIGH: f64 = 30.0;
/// Pages a second taken back that are no chance.
const TAKEN_BACK: f64 = 100.0;
/// Allocations a second that wait for compaction, at their most: fewer are none.
const FEW_STALLS: f64 = 1.0;
/// Requests for pages in a row that failed within one trouble, and tasks whose requests they were:
/// a driver that asks for too much is one.
const FAILURES: usize = 3;
const FAILED_TASKS: usize = 2;
/// Waits for a disk that one server, or the kernel, tells of within one trouble and that are no
/// chance.
const DISK_WAITS: usize = 3;
/// Percent of a processor that kswapd takes where it finds no end.
const SPINS: f64 = 90.0;
/// Part of a pool that is left in one that counts as used.
const USED: f64 = 0.1;

pub(super) struct Decision {
    pub(super) verdict: IncidentVerdict,
    pub(super) confidence: Confidence,
    pub(super) against: Vec<String>,
    /// Whether the mechanism was counted, or the rest is only consistent with it.
    pub(super) counted: bool,
}

/// Every cause that the facts allow, in no order: [`causes`](super::causes) ranks them.
pub(super) fn find_causes(facts: &WindowFacts<'_>) -> Vec<Cause> {
    let judges: [fn(&WindowFacts<'_>) -> Option<VerdictCandidate>; 27] = [
        judge_killed_processes,
        |facts| judge_strong(facts, SignatureKind::CgroupOom, IncidentVerdict::CgroupLimit),
        judge_crash,
        judge_compaction,
        judge_reclaim,
        judge_cgroup_limit,
        judge_steal,
        judge_disk_stall,
        judge_login_storm,
        judge_fork_storm,
        |facts| judge_strong(facts, SignatureKind::UserCpu, IncidentVerdict::UserCpu),
        judge_silence,
        judge_hung_tasks,
        judge_killed_units,
        judge_exhausted_memory,
        judge_memory_in_pieces,
        judge_refused_memory,
        judge_told_disk_waits,
        judge_lost_storage,
        judge_seen_disk_waits,
        judge_seen_reclaim,
        judge_told_swapping,
        judge_busy_kernel,
        judge_starved_collectors,
        judge_refused_server,
        judge_lost_huge_pages,
        judge_failed_server,
    ];
    let told = judges.into_iter().filter_map(|judge| judge(facts));
    told.map(|(verdict, confidence, proven)| Cause { verdict, confidence, proven }).collect()
}

/// What is decided of one cause: what speaks against it, and how sure it is beside that.
pub(super) fn decide_verdict(cause: Cause, facts: &WindowFacts<'_>) -> Decision {
    let Cause { verdict, confidence, proven: counted } = cause;
    let mut against = evidence_against(verdict, facts);
    // A log that anybody can write to is not enough to be sure.
    let confidence = if facts.by_hearsay() {
        against.push(format!("only a log says so, and {RELAYED}"));
        confidence.min(Confidence::Medium)
    } else {
        confidence
    };
    let confidence =
        if against.is_empty() || counted { confidence } else { lower_confidence(confidence) };
    Decision { verdict, confidence, against, counted }
}

const fn lower_confidence(confidence: Confidence) -> Confidence {
    match confidence {
        Confidence::High => Confidence::Medium,
        Confidence::Medium | Confidence::Low => Confidence::Low,
    }
}

type VerdictCandidate = (IncidentVerdict, Confidence, bool);

/// On a host with memory to spare, processes were killed at the limit of a cgroup, unless the kernel
/// itself says otherwise: its counter has both.
fn judge_killed_processes(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    if !facts.is_strong(SignatureKind::Oom) {
        return None;
    }
    if facts.spare.is_some_and(|spare| spare >= SPARE) && !facts.killed_by_its_word() {
        // Where the kernel names the cgroup, judge_strong reports it.
        let seems = !facts.is_strong(SignatureKind::CgroupOom);
        return seems.then_some((IncidentVerdict::CgroupLimit, Confidence::Medium, true));
    }
    let verdict = if facts.large_tables() {
        IncidentVerdict::ReclaimByPageTables
    } else {
        IncidentVerdict::OutOfMemory
    };
    let is_told = !facts.logged(LogEventKind::OomCutOff) || facts.killed_by_its_word();
    // Whoever looks for a process to kill may do so at a cgroup's limit.
    Some((verdict, if is_told { Confidence::High } else { Confidence::Medium }, true))
}

fn judge_strong(
    facts: &WindowFacts<'_>,
    kind: SignatureKind,
    verdict: IncidentVerdict,
) -> Option<VerdictCandidate> {
    facts.is_strong(kind).then_some((verdict, Confidence::High, true))
}

/// Reclaim, by its counters or its traces; swapping is reclaim of what has to come back. Where scans
/// were counted and are none, it was not reclaim.
fn judge_reclaim(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    if is_compaction_alone(facts) {
        return None;
    }
    let any = facts.scans.any_scanned();
    let felt = facts.any_clear(&[
        SignatureKind::KernelCpu,
        SignatureKind::FreeMemory,
        SignatureKind::Starved,
        SignatureKind::MemoryStall,
    ]);
    let scanned = any != Some(false)
        && (facts.is_strong(SignatureKind::Reclaim)
            || (facts.is_clear(SignatureKind::Reclaim)
                && (felt || facts.is_clear(SignatureKind::Swap))));
    let grown = facts.is_strong(SignatureKind::MemoryGrowth);
    let swapped = !facts.swapped_without_scans()
        && (grown
            || facts.is_strong(SignatureKind::Swap)
            || (facts.is_clear(SignatureKind::Swap) && felt));
    let left_behind = any != Some(false) && facts.low_while_busy();
    // kswapd's scans speak for reclaim where the rest does.
    let by_kswapd = left_behind && facts.strength_of(SignatureKind::Reclaim).is_some();
    // Who waits while little memory is left waits for reclaim.
    let waited = facts.is_clear(SignatureKind::MemoryStall)
        && any != Some(false)
        && facts.spare.is_some_and(|spare| spare < SPARE);
    let not_counted = any.is_none();
    let consistent = left_behind
        && not_counted
        && (facts.kernel_leads() || facts.is_clear(SignatureKind::Starved));
    let (counted, confidence) = if scanned || swapped {
        // Where reclaim was counted, time in the kernel beside it needs no other proof.
        let felt = felt || facts.strength_of(SignatureKind::KernelCpu).is_some();
        (true, if felt { Confidence::High } else { Confidence::Medium })
    } else if by_kswapd || waited {
        (any == Some(true), Confidence::Medium)
    } else if consistent {
        let high = facts.system.is_some_and(|peak| peak >= HIGH);
        let agree = facts.is_clear(SignatureKind::Starved) || high;
        (false, if agree { Confidence::Medium } else { Confidence::Low })
    } else {
        return None;
    };
    // What programs took is many times as large as the tables that map it.
    if facts.large_tables() && !(swapped && grown) {
        // Read at another time, they may have been smaller then.
        let then = facts.tables.is_some_and(|tables| tables.then);
        let confidence = if then { confidence } else { confidence.min(Confidence::Medium) };
        return Some((IncidentVerdict::ReclaimByPageTables, confidence, counted));
    }
    let swap_leads = (swapped && (grown || !scanned || facts.is_strong(SignatureKind::Swap)))
        || facts.mostly_swap();
    let verdict =
        if swap_leads { IncidentVerdict::SwapStorm } else { IncidentVerdict::ReclaimStorm };
    Some((verdict, confidence, counted))
}

/// Tasks that waited for memory while the host had some left: at a limit of their own. What goes to
/// swap while the host scans nothing is taken back there too.
fn judge_cgroup_limit(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let felt = facts.any_clear(&[SignatureKind::KernelCpu, SignatureKind::MemoryStall]);
    if facts.swapped_without_scans()
        && (facts.is_strong(SignatureKind::Swap) || (facts.is_clear(SignatureKind::Swap) && felt))
    {
        return Some((IncidentVerdict::CgroupLimit, Confidence::High, true));
    }
    let spare = facts.spare.is_some_and(|spare| spare >= SPARE);
    if !facts.is_clear(SignatureKind::MemoryStall)
        || !spare
        || facts.is_clear(SignatureKind::Reclaim)
    {
        return None;
    }
    // Pages taken back without a scan of the host's were taken back in a cgroup.
    let taken_back = has_taken_back_pages(facts);
    // Waits for compaction are waits for memory as well.
    if judge_compaction(facts).is_some() {
        return None;
    }
    if !taken_back && !facts.compaction_counted && facts.kernel_rules_throughout() {
        return None;
    }
    let confidence = match (taken_back, facts.scans.any_scanned()) {
        (true, _) => Confidence::High,
        (false, Some(false)) => Confidence::Medium,
        (false, _) => Confidence::Low,
    };
    Some((IncidentVerdict::CgroupLimit, confidence, taken_back))
}

fn has_taken_back_pages(facts: &WindowFacts<'_>) -> bool {
    facts.scans.any_scanned() == Some(false)
        && facts.taken_back.is_some_and(|pages| pages >= TAKEN_BACK)
}

fn judge_steal(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let (verdict, confidence, proven) =
        judge_strong(facts, SignatureKind::Steal, IncidentVerdict::Steal)?;
    // A single reading is of a moment.
    let lasted = facts.signatures.iter().map(|one| milliseconds_between(one.from, one.to)).max();
    let confidence = if lasted <= Some(SECOND) { Confidence::Medium } else { confidence };
    Some((verdict, confidence, proven))
}

/// A server's own count of what the host swapped.
fn judge_told_swapping(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let told = facts.logged(LogEventKind::HostSwapped);
    told.then_some((IncidentVerdict::SwapStorm, Confidence::Low, true))
}

fn judge_disk_stall(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let confidence =
        if facts.is_clear(SignatureKind::Starved) { Confidence::High } else { Confidence::Medium };
    (facts.is_strong(SignatureKind::Disk) && !facts.kernel_rules_throughout()).then_some((
        IncidentVerdict::DiskStall,
        confidence,
        true,
    ))
}

/// So many new processes that nothing else runs, or with the kernel ahead, as in no build.
fn judge_fork_storm(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let storm = facts.is_strong(SignatureKind::Forks);
    if has_idle_processors(facts, if storm { IDLE } else { LITTLE_IDLE }) {
        return None;
    }
    let confidence =
        if storm && facts.kernel_rules() { Confidence::High } else { Confidence::Medium };
    (storm || (facts.is_clear(SignatureKind::Forks) && facts.kernel_rules())).then_some((
        IncidentVerdict::ForkStorm,
        confidence,
        true,
    ))
}

fn judge_silence(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    // Trouble before the silence means that the host was not shut down by order.
    let felt = facts.any_clear(&[
        SignatureKind::KernelCpu,
        SignatureKind::FreeMemory,
        SignatureKind::MemoryStall,
        SignatureKind::Disk,
        SignatureKind::Starved,
    ]);
    let confidence = if felt { Confidence::Medium } else { Confidence::Low };
    facts.is_strong(SignatureKind::Silence).then_some((IncidentVerdict::Hang, confidence, true))
}

fn judge_login_storm(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    // Builds and batches start as many tasks, but then programs have more of the processors than
    // the kernel. With idle processors nobody waits for one: a collector is late for another reason.
    let felt = (facts.is_clear(SignatureKind::KernelCpu) && facts.kernel_rules())
        || (facts.is_clear(SignatureKind::Starved) && !has_idle_processors(facts, IDLE));
    if !facts.is_clear(SignatureKind::Logins) || !(felt || facts.is_strong(SignatureKind::Logins)) {
        return None;
    }
    let sessions = facts.count.is_some_and(|count| count.name == "sessions");
    let confidence = match (facts.is_strong(SignatureKind::Logins), felt) {
        (true, true) => Confidence::High,
        (true, false) => Confidence::Medium,
        (false, _) if sessions => Confidence::Medium,
        (false, _) => Confidence::Low,
    };
    Some((IncidentVerdict::LoginStorm, confidence, facts.is_strong(SignatureKind::Logins)))
}

/// Whether processors were idle or waited for disks in so much of every interval, which averages over
/// minutes do not show.
fn has_idle_processors(facts: &WindowFacts<'_>, least: f64) -> bool {
    facts.coarsest < COARSE && facts.idle.is_some_and(|idle| idle >= least)
}

/// Whether what is taken back is taken back to make huge pages.
fn is_compaction_alone(facts: &WindowFacts<'_>) -> bool {
    facts.is_strong(SignatureKind::Compaction)
        && !facts.is_strong(SignatureKind::Reclaim)
        && !facts.is_clear(SignatureKind::Swap)
}

fn judge_compaction(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let felt = facts.any_clear(&[
        SignatureKind::KernelCpu,
        SignatureKind::Starved,
        SignatureKind::MemoryStall,
    ]);
    if facts.is_strong(SignatureKind::Compaction)
        || (facts.is_clear(SignatureKind::Compaction) && felt)
    {
        let confidence = if felt { Confidence::High } else { Confidence::Medium };
        return Some((IncidentVerdict::CompactionStall, confidence, true));
    }
    // A few long ones are as bad as many, if nothing was scanned and the kernel has the processors.
    let few = facts.compacted.is_some_and(|most| most >= FEW_STALLS);
    let waited = facts.is_clear(SignatureKind::MemoryStall)
        && facts.scans.any_scanned() == Some(false)
        && !has_taken_back_pages(facts);
    (few && waited && facts.kernel_rules_throughout()).then_some((
        IncidentVerdict::CompactionStall,
        Confidence::Medium,
        true,
    ))
}

/// The kernel's word that it ended; one that goes on behind an error may have lost a task only.
fn judge_crash(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let confidence = if facts.logged(LogEventKind::Panic) {
        Confidence::High
    } else if facts.logged(LogEventKind::Oops) {
        Confidence::Medium
    } else {
        return None;
    };
    Some((IncidentVerdict::KernelCrash, confidence, true))
}

/// A unit's process was killed, at the host's limit or at one of its own.
fn judge_killed_units(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    // The kernel says whose limit it was.
    if facts.is_strong(SignatureKind::CgroupOom) {
        return None;
    }
    (facts.is_clear(SignatureKind::Oom) && facts.logged(LogEventKind::UnitKilled)).then_some((
        IncidentVerdict::OutOfMemory,
        Confidence::Low,
        true,
    ))
}

/// Not a page was left, or it took seconds to find one: reclaim did not keep up.
fn judge_exhausted_memory(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    if !facts.logged(LogEventKind::MemoryExhausted) {
        return None;
    }
    let (verdict, confidence) = if facts.large_tables() {
        (IncidentVerdict::ReclaimByPageTables, Confidence::Medium)
    } else {
        (IncidentVerdict::ReclaimStorm, Confidence::Low)
    };
    Some((verdict, confidence, true))
}

/// Several tasks, again and again, got no pages in a row, for which the kernel had compacted first.
fn judge_memory_in_pieces(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let (failures, tasks) = facts.in_pieces;
    let is_told = failures >= FAILURES && tasks >= FAILED_TASKS;
    is_told.then_some((IncidentVerdict::CompactionStall, Confidence::Low, false))
}

/// A server was refused memory again and again: by a host that has none left, at a limit, or because
/// the kernel may not promise more (vm.overcommit_memory).
fn judge_refused_memory(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let again = facts.is_clear(SignatureKind::ServerLog);
    (again && facts.logged(LogEventKind::MemoryRefused)).then_some((
        IncidentVerdict::OutOfMemory,
        Confidence::Low,
        true,
    ))
}

/// A server waited for its disk again and again, by its own word alone.
fn judge_told_disk_waits(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let again = facts.disk_waits >= DISK_WAITS && facts.is_clear(SignatureKind::ServerLog);
    again.then_some((IncidentVerdict::DiskStall, Confidence::Low, false))
}

/// The kernel gave up requests, each after half a minute as a rule, or the file system with them.
fn judge_lost_storage(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let confidence = match facts.storage_timeouts {
        DISK_WAITS.. => Confidence::Medium,
        1.. => Confidence::Low,
        0 if facts.logged(LogEventKind::StorageLost) || facts.storage_errors >= DISK_WAITS => {
            Confidence::Low
        }
        0 => return None,
    };
    Some((IncidentVerdict::DiskStall, confidence, true))
}

/// Whether kswapd found no end, and nothing says how much memory there was.
fn kswapd_spins(facts: &WindowFacts<'_>) -> bool {
    facts.is_clear(SignatureKind::Reclaim)
        && facts.spare.is_none()
        && facts.threads.iter().any(|(name, percent)| *name == "kswapd" && *percent >= SPINS)
}

/// Nothing is known but that processors waited for disks, and for little else, all the while.
fn judge_seen_disk_waits(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    (facts.waited_throughout && facts.is_clear(SignatureKind::Disk)).then_some((
        IncidentVerdict::DiskStall,
        Confidence::Low,
        false,
    ))
}

/// Somebody looked once: kswapd was busy, or memory and swap were used up.
fn judge_seen_reclaim(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    // Fast reads keep kswapd as busy where there is memory.
    if facts.scans.any_scanned().is_some() || facts.spare.is_some_and(|spare| spare >= SPARE) {
        return None;
    }
    let was_seen = |kind: SignatureKind| {
        facts.signatures.iter().any(|one| {
            one.kind == kind
                && one.strength >= SignatureStrength::Clear
                && milliseconds_between(one.from, one.to) <= SECOND
        })
    };
    let verdict = if was_seen(SignatureKind::Swap) {
        IncidentVerdict::SwapStorm
    } else if was_seen(SignatureKind::Reclaim) || kswapd_spins(facts) {
        IncidentVerdict::ReclaimStorm
    } else {
        return None;
    };
    Some((verdict, Confidence::Low, false))
}

fn judge_hung_tasks(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let felt = facts.any_clear(&[
        SignatureKind::KernelCpu,
        SignatureKind::Starved,
        SignatureKind::Disk,
        SignatureKind::MemoryStall,
    ]);
    let there = facts.logged(LogEventKind::HungTask) || facts.logged(LogEventKind::Lockup);
    // What the kernel was at is more than that something hung.
    let is_known = felt || facts.work.is_some();
    there.then_some((
        IncidentVerdict::HungTasks,
        if is_known { Confidence::Medium } else { Confidence::Low },
        true,
    ))
}

fn judge_busy_kernel(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let busy = facts.is_clear(SignatureKind::KernelCpu) && facts.is_clear(SignatureKind::Starved);
    (facts.is_strong(SignatureKind::KernelCpu) || busy).then_some((
        IncidentVerdict::KernelCpu,
        Confidence::Low,
        false,
    ))
}

fn judge_starved_collectors(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    facts.is_strong(SignatureKind::Starved).then_some((
        IncidentVerdict::Starved,
        Confidence::Low,
        false,
    ))
}

/// A server's own word that it was refused memory or pages, and did not start.
fn judge_refused_server(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    facts.logged(LogEventKind::ServerRefused).then_some((
        IncidentVerdict::ServerFailed,
        Confidence::High,
        true,
    ))
}

/// The same that it ended; of why, the log says little. Who was killed may have been by order.
fn judge_failed_server(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    let confidence = if facts.logged(LogEventKind::ServerFailed) {
        Confidence::Medium
    } else if facts.logged(LogEventKind::ServerKilled) {
        Confidence::Low
    } else {
        return None;
    };
    Some((IncidentVerdict::ServerFailed, confidence, true))
}

fn judge_lost_huge_pages(facts: &WindowFacts<'_>) -> Option<VerdictCandidate> {
    facts.is_clear(SignatureKind::HugePagesLost).then_some((
        IncidentVerdict::HugePagesLost,
        Confidence::High,
        true,
    ))
}

fn evidence_against(verdict: IncidentVerdict, facts: &WindowFacts<'_>) -> Vec<String> {
    let mut against = Vec::new();
    let of_processors = matches!(
        verdict,
        IncidentVerdict::ReclaimByPageTables
            | IncidentVerdict::ReclaimStorm
            | IncidentVerdict::SwapStorm
            | IncidentVerdict::LoginStorm
            | IncidentVerdict::CompactionStall
            | IncidentVerdict::KernelCpu
            | IncidentVerdict::Starved
            | IncidentVerdict::ForkStorm
    );
    let killed = facts.is_strong(SignatureKind::Oom);
    let reclaim =
        matches!(verdict, IncidentVerdict::ReclaimByPageTables | IncidentVerdict::ReclaimStorm);
    // Who lacks memory waits for disks. A thread of the kernel has one processor of many.
    let of_memory = reclaim || verdict == IncidentVerdict::SwapStorm;
    let by_thread = verdict == IncidentVerdict::CompactionStall && !facts.threads.is_empty();
    let (unused, how) =
        if of_memory { (facts.unused, "idle") } else { (facts.idle, "idle or waiting for disks") };
    let counts = of_processors && !killed && !by_thread;
    if let Some(idle) = unused.filter(|idle| *idle >= IDLE && counts) {
        against.push(format!("processors were {how} in at least {idle:.0} % of every interval"));
    }
    if let Scans::Counted { direct, kswapd } = facts.scans
        && reclaim
        && !killed
        && !facts.is_clear(SignatureKind::Reclaim)
    {
        against.push(format!(
            "scans were counted and low: {:.0} pages a second by processes themselves, {:.0} by \
                 kswapd",
            direct.pages, kswapd.pages
        ));
    }
    if facts.no_scans && matches!(verdict, IncidentVerdict::KernelCpu | IncidentVerdict::Starved) {
        against.push(
            "scans were counted, and there were none at that time or in the minutes around it: it \
                 was not reclaim"
                .to_owned(),
        );
    }
    if verdict == IncidentVerdict::ReclaimByPageTables
        && let Some(pool) =
            facts.pool.filter(|pool| pool.total > 0.0 && pool.available < USED * pool.total)
    {
        let pool = bytes_from_f64(pool.total);
        against.push(format!(
            "the pool of {pool} was used: these page tables map other memory, or other memory too"
        ));
    }
    against
}

impl Decision {
    pub(super) fn includes_signature(
        &self,
        signature: &Signature,
        facts: &WindowFacts<'_>,
    ) -> bool {
        let about_tables = matches!(
            self.verdict,
            IncidentVerdict::ReclaimByPageTables | IncidentVerdict::LoginStorm
        );
        // A pool that is missing or unused explains large page tables only where they are.
        about_tables
            && (signature.kind == SignatureKind::PageTables
                || facts.large_tables()
                || signature.strength >= SignatureStrength::Clear)
    }

    pub(super) fn raised_by(&self, facts: &WindowFacts<'_>) -> Vec<String> {
        let is_storm = matches!(
            self.verdict,
            IncidentVerdict::ReclaimByPageTables
                | IncidentVerdict::ReclaimStorm
                | IncidentVerdict::KernelCpu
                | IncidentVerdict::Starved
        );
        let scans = match &facts.scans {
            Scans::Untrusted(why) => Some(format!(
                "scans by kswapd and by processes themselves; those here cannot be trusted \
                 ({why}): a newer sysstat, or a log of /proc/vmstat"
            )),
            Scans::Absent => Some(
                "scans by kswapd and by processes themselves: sar -B, or a log of /proc/vmstat"
                    .to_owned(),
            ),
            Scans::Counted { .. } | Scans::Together(..) | Scans::Stalls(_) => None,
        };
        let words = self
            .lacking_table_size(facts, is_storm)
            .into_iter()
            .chain(self.lacking_sources(facts).iter().copied());
        let coarse = (facts.coarsest >= COARSE).then(|| {
            format!(
                "samples a minute or less apart: an average over {} s does not show how high the \
                 peak was or how long it lasted",
                facts.coarsest / 1000
            )
        });
        scans
            // A kill proves what scans would.
            .filter(|_| is_storm && !facts.killed_by_its_word())
            .into_iter()
            .chain(words.map(str::to_owned))
            .chain(coarse)
            .collect()
    }

    fn lacking_table_size(&self, facts: &WindowFacts<'_>, is_storm: bool) -> Option<&'static str> {
        let about_memory = !matches!(
            self.verdict,
            IncidentVerdict::ForkStorm
                | IncidentVerdict::DiskStall
                | IncidentVerdict::UserCpu
                | IncidentVerdict::Steal
                | IncidentVerdict::CgroupLimit
                | IncidentVerdict::CompactionStall
                | IncidentVerdict::Hang
                | IncidentVerdict::KernelCrash
                | IncidentVerdict::ServerFailed
                | IncidentVerdict::HugePagesLost
        );
        match facts.tables {
            _ if !about_memory => None,
            None if facts.tables_read => {
                Some("the size of memory, which no source gives: one /proc/meminfo of the host")
            }
            None => Some(
                "the size of page tables: sar -r ALL of sysstat 11.1.3 or later, or a log of \
                 /proc/meminfo",
            ),
            Some(tables) if !tables.then && is_storm => {
                Some("the size of page tables at that time: they were read at another time")
            }
            Some(_) => None,
        }
    }

    fn lacking_sources(&self, facts: &WindowFacts<'_>) -> &'static [&'static str] {
        let knows_sessions = facts.count.is_some_and(|count| count.name == "sessions");
        match self.verdict {
            IncidentVerdict::LoginStorm if !knows_sessions => {
                &["the number of sessions: a log of ps, or the server's own"]
            }
            IncidentVerdict::KernelCpu if facts.lists_processes => {
                &["what the kernel did: perf record -a -g while it lasts"]
            }
            IncidentVerdict::KernelCpu => {
                &["what the kernel did: perf record -a -g, or a log of top, while it lasts"]
            }
            IncidentVerdict::Hang if facts.has_kernel_log => {
                &["whether somebody shut it down: last -x shutdown reboot"]
            }
            IncidentVerdict::Hang => &[
                "what the host said last: journalctl -b -1 -e, its console, and the log of its \
                 management controller",
                "whether somebody shut it down: last -x shutdown reboot",
            ],
            IncidentVerdict::DiskStall if !facts.lists_disks => {
                &["which disk, and how long each request took: iostat -x, or sar -d"]
            }
            IncidentVerdict::UserCpu | IncidentVerdict::ForkStorm if !facts.lists_processes => {
                &["which programs: a log of top or ps, atop, pidstat"]
            }
            IncidentVerdict::CgroupLimit if !facts.is_strong(SignatureKind::CgroupOom) => {
                &["which cgroup: memory.events and memory.pressure of each, or systemd-cgtop"]
            }
            IncidentVerdict::KernelCrash => {
                &["the dump that kdump writes: crash, or its vmcore-dmesg.txt"]
            }
            IncidentVerdict::OutOfMemory if facts.logged(LogEventKind::MemoryRefused) => &[
                "what refused the memory: vm.overcommit_memory with CommitLimit and Committed_AS \
                 of /proc/meminfo, a cgroup's limit, or the host: dmesg or journalctl -k",
            ],
            IncidentVerdict::OutOfMemory if !facts.killed_by_its_word() => {
                &["who was killed, and who had the memory: dmesg or journalctl -k, from \"Out of \
                   memory\" on"]
            }
            _ => &[],
        }
    }
}
