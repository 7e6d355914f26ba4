//! One file a kind of trouble, each a pure function from what is known of a host to signatures.
//!
//! A signature says what was seen and how far it stands out; [`join`](crate::join) says what it
//! means. `Weak` makes nothing by itself or with its like, `Clear` speaks beside another, `Strong`
//! alone.

mod compaction;
pub(crate) mod disk;
mod forks;
mod free_memory;
pub(crate) mod kernel_cpu;
mod late_rows;
pub(crate) mod log_events;
mod logins;
mod memory_growth;
mod memory_stall;
pub(crate) mod observations;
mod oom;
pub(crate) mod page_tables;
mod pool;
mod pool_lost;
mod reclaim;
mod restart;
pub(crate) mod rows;
mod silence;
mod starved;
mod steal;
mod swap;
mod user_cpu;

use std::cmp::Reverse;

use self::observations::Observations;
use self::rows::SeriesRows;
use crate::{IncidentHistory, Metric, Signature, SignatureEvidence, SignatureStrength};

const MOST_OF_A_KIND: usize = 500;
pub(crate) const MOST_EVIDENCE: usize = 12;
/// Processors of a host where no source has their number.
const ASSUMED_PROCESSORS: f64 = 4.0;
/// What rises with sessions, the nearest to them first.
pub(crate) const SESSION_COUNTS: [(Metric, &str); 3] =
    [(Metric::Sessions, "sessions"), (Metric::Processes, "processes"), (Metric::Tasks, "tasks")];

enum Finder {
    /// In each series by itself.
    InEachSeries(fn(&SeriesRows<'_>) -> Vec<Signature>),
    /// In all that is known of the host.
    InHost(fn(&Observations<'_>) -> Vec<Signature>),
}

const FINDERS: [Finder; 20] = [
    Finder::InEachSeries(kernel_cpu::detect_kernel_cpu),
    Finder::InHost(free_memory::find_free_memory_leaps),
    Finder::InEachSeries(reclaim::detect_reclaim),
    Finder::InEachSeries(memory_stall::detect_memory_stalls),
    Finder::InEachSeries(oom::detect_oom_kills),
    Finder::InHost(log_events::find_log_events),
    Finder::InHost(page_tables::find_large_page_tables),
    Finder::InHost(pool::find_pool_problems),
    Finder::InEachSeries(pool_lost::detect_lost_pools),
    Finder::InEachSeries(logins::detect_login_storms),
    Finder::InHost(forks::find_fork_storms),
    Finder::InEachSeries(swap::detect_swapping),
    Finder::InHost(memory_growth::find_memory_growth),
    Finder::InEachSeries(compaction::detect_compaction_stalls),
    Finder::InEachSeries(disk::detect_disk_stalls),
    Finder::InHost(user_cpu::find_user_cpu),
    Finder::InEachSeries(steal::detect_cpu_steal),
    Finder::InHost(starved::find_starved_collectors),
    Finder::InEachSeries(silence::detect_silences),
    Finder::InEachSeries(restart::detect_restarts),
];

/// Looks for every kind of trouble in the series of one host, in the order of time. The rest of
/// `history` may be empty.
pub fn find_signatures(history: &IncidentHistory) -> Vec<Signature> {
    let observations = Observations::new(history);
    let mut all: Vec<Signature> = FINDERS
        .iter()
        .flat_map(|finder| {
            let found = match finder {
                Finder::InEachSeries(find) => observations.rows.iter().flat_map(find).collect(),
                Finder::InHost(find) => find(&observations),
            };
            keep_foremost(merge_overlapping(found))
        })
        .collect();
    all.sort_by_key(|signature| (signature.from, signature.kind));
    all
}

fn keep_foremost(mut found: Vec<Signature>) -> Vec<Signature> {
    let more = found.len().saturating_sub(MOST_OF_A_KIND);
    if more > 0 {
        found.sort_by_key(|signature| {
            (
                Reverse(signature.strength),
                Reverse(rows::milliseconds_between(signature.from, signature.to)),
            )
        });
        found.truncate(MOST_OF_A_KIND);
        found.sort_by_key(|signature| signature.from);
        if let Some(last) = found.last_mut() {
            last.caveats.push(format!("{more} more like it, none clearer, are left out"));
        }
    }
    found
}

fn merge_overlapping(mut found: Vec<Signature>) -> Vec<Signature> {
    found.sort_by_key(|signature| (signature.kind, signature.from));
    let mut all: Vec<Signature> = Vec::new();
    for mut next in found {
        match all.last_mut() {
            Some(last) if next.kind == last.kind && is_same_trouble(last, &next) => {
                last.widen(&mut next);
                last.evidence.append(&mut next.evidence);
            }
            _ => all.push(next),
        }
    }
    for signature in &mut all {
        tidy_evidence(&mut signature.evidence);
    }
    all
}

/// Overlapping, or adjacent and as strong: a weak one must not lengthen what it only touches.
fn is_same_trouble(last: &Signature, next: &Signature) -> bool {
    next.from < last.to
        || (next.from == last.to && (next.strength == last.strength || next.to == next.from))
}

fn tidy_evidence(evidence: &mut Vec<SignatureEvidence>) {
    evidence.sort_by(|one, other| {
        (one.at, &one.source, &one.what).cmp(&(other.at, &other.source, &other.what))
    });
    evidence.dedup();
    if evidence.len() > MOST_EVIDENCE {
        evidence.drain(MOST_EVIDENCE / 2..evidence.len() - MOST_EVIDENCE / 2);
    }
}

const fn weaken_strength(strength: SignatureStrength) -> SignatureStrength {
    match strength {
        SignatureStrength::Strong => SignatureStrength::Clear,
        SignatureStrength::Clear | SignatureStrength::Weak => SignatureStrength::Weak,
    }
}

const fn raise_strength(strength: SignatureStrength) -> SignatureStrength {
    match strength {
        SignatureStrength::Weak => SignatureStrength::Clear,
        SignatureStrength::Clear | SignatureStrength::Strong => SignatureStrength::Strong,
    }
}

fn interval_caveat(usual: i64) -> Option<String> {
    // A tenth: at 100 % it would show as the 10 % of the least spike.
    (usual >= 2 * rows::MINUTE).then(|| {
        let seconds = usual / rows::SECOND;
        format!(
            "an average over {seconds} s: the peak and how long it lasted are not recorded, and \
                 anything shorter than {} s does not show",
            seconds / 10
        )
    })
}

fn processor_count_caveat(told: Option<f64>) -> Option<String> {
    told.is_none().then(|| {
        format!(
            "no source says how many processors there are: {ASSUMED_PROCESSORS:.0} were assumed"
        )
    })
}
