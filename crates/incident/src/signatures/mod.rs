//! One file a kind of trouble, each a pure function from what is known of a host to where it shows.
//!
//! A signature says what was seen and how far it stands out; what it means is for [`join`](crate::join) to say, which looks
//! at what meets. `Weak` makes nothing by itself or with others of its like, `Clear` speaks beside another, `Strong` alone.

mod compaction;
mod disk;
mod forks;
mod free_memory;
pub(crate) mod kernel_cpu;
mod late;
pub(crate) mod log;
mod logins;
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
use crate::{Evidence, History, Moment, Signature, Strength};

/// Signatures of one kind that are kept.
const MOST_OF_A_KIND: usize = 500;
/// Rows of one signature that are kept.
const MOST_EVIDENCE: usize = 12;

/// Looks for every kind of trouble in the series of one host; in the order of time. It looks at the series only, so that
/// `history` may be empty otherwise.
pub fn find(history: &History) -> Vec<Signature> {
    let finders = [
        kernel_cpu::find,
        free_memory::find,
        reclaim::find,
        memory_stall::find,
        oom::find,
        log::find,
        page_tables::find,
        pool::find,
        pool_lost::find,
        logins::find,
        forks::find,
        swap::find,
        compaction::find,
        disk::find,
        user_cpu::find,
        steal::find,
        starved::find,
        silence::find,
        restart::find,
    ];
    let observations = Observations::of(history);
    let mut all: Vec<Signature> = finders.iter().flat_map(|find| foremost(merged(find(&observations)))).collect();
    all.sort_by_key(|signature| (signature.from, signature.kind));
    all
}

/// The strongest and longest of one kind, where there are so many that nobody would read them; the last one says so.
fn foremost(mut found: Vec<Signature>) -> Vec<Signature> {
    let more = found.len().saturating_sub(MOST_OF_A_KIND);
    if more > 0 {
        found
            .sort_by_key(|signature| (Reverse(signature.strength), Reverse(rows::apart(signature.from, signature.to))));
        found.truncate(MOST_OF_A_KIND);
        found.sort_by_key(|signature| signature.from);
        if let Some(last) = found.last_mut() {
            last.caveats.push(format!("{more} more like it, none clearer, are left out"));
        }
    }
    found
}

/// Signatures of one kind that overlap, of several sources or rules, as one.
fn merged(mut found: Vec<Signature>) -> Vec<Signature> {
    found.sort_by_key(|signature| (signature.kind, signature.from));
    let mut all: Vec<Signature> = Vec::new();
    for mut next in found {
        match all.last_mut() {
            Some(last) if next.kind == last.kind && is_one(last, &next) => {
                last.to = last.to.max(next.to);
                last.strength = last.strength.max(next.strength);
                last.evidence.append(&mut next.evidence);
                for caveat in next.caveats {
                    if !last.caveats.contains(&caveat) {
                        last.caveats.push(caveat);
                    }
                }
            }
            _ => all.push(next),
        }
    }
    for signature in &mut all {
        tidy(&mut signature.evidence);
    }
    all
}

/// What overlaps, and what follows at once and is as strong: what is weak makes nothing longer that it only touches.
fn is_one(last: &Signature, next: &Signature) -> bool {
    next.from < last.to || (next.from == last.to && (next.strength == last.strength || next.to == next.from))
}

/// Puts evidence in the order of time, each once, and keeps the first and the last where it is too much.
fn tidy(evidence: &mut Vec<Evidence>) {
    evidence.sort_by(|one, other| (one.at, &one.source, &one.what).cmp(&(other.at, &other.source, &other.what)));
    evidence.dedup();
    if evidence.len() > MOST_EVIDENCE {
        evidence.drain(MOST_EVIDENCE / 2..evidence.len() - MOST_EVIDENCE / 2);
    }
}

/// What speaks for less than a strength says.
const fn weaker(strength: Strength) -> Strength {
    match strength {
        Strength::Strong => Strength::Clear,
        Strength::Clear | Strength::Weak => Strength::Weak,
    }
}

/// What backs a strength up by a source of its own.
const fn stronger(strength: Strength) -> Strength {
    match strength {
        Strength::Weak => Strength::Clear,
        Strength::Clear | Strength::Strong => Strength::Strong,
    }
}

/// What is shorter than a row's interval is thinned by it.
fn hides(usual: i64) -> Option<String> {
    // A tenth: at 100 % it would show as the 10 % that the least spike has.
    (usual >= 2 * rows::MINUTE).then(|| {
        let seconds = usual / rows::SECOND;
        format!(
            "an average over {seconds} s: the peak and how long it lasted are not recorded, and anything shorter than {} s does not show",
            seconds / 10
        )
    })
}

/// The moment of the latest of two.
fn later(one: Moment, other: Moment) -> Moment {
    one.max(other)
}
