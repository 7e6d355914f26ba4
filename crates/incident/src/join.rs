//! Signatures that meet in time are one incident.
//!
//! What is clear meets when it is no farther apart than one interval of the coarser source; what is weak is told with what
//! it falls into, and brings nothing together. What stands all the time (page tables, pools) is told with every incident
//! that it explains, and is a finding of its own where there is none.

mod changes;
mod culprits;
mod days;
mod decide;
mod facts;
mod lasting;
mod scope;
mod summary;
mod window;

use self::facts::Facts;
use crate::signatures::observations::Observations;
use crate::signatures::rows::apart;
use crate::{History, Incident, Kind, Moment, Signature, Strength};

/// Signatures of one second's samples still belong together when they are this far apart, in milliseconds: free memory
/// is counted when the storm is over.
const LEAST_SLACK: i64 = 60_000;
/// A source of a sample an hour does not glue a day together.
const MOST_SLACK: i64 = 15 * 60_000;

/// Moves the signatures that [`find`](crate::signatures::find) left in `history.signatures` into incidents, where they make
/// some, and fills `unknown` and `looked`. It looks at the series again for the figures: call it before they are thinned.
pub fn incidents(history: &mut History) {
    let mut signatures = std::mem::take(&mut history.signatures);
    signatures.sort_by_key(|signature| (signature.from, signature.kind));
    let (lasting, moments): (Vec<_>, Vec<_>) = signatures.into_iter().partition(|signature| lasts(signature.kind));
    let observations = Observations::of(history);
    let paces: Vec<(&str, i64)> = observations.rows.iter().map(|rows| (rows.source(), rows.usual)).collect();
    let (clusters, mut left) = clusters(moments, &paces);
    let mut found = Vec::new();
    for cluster in clusters {
        match incident(&observations, &cluster, &lasting) {
            Some(incident) => found.push(incident),
            None => left.extend(cluster.signatures),
        }
    }
    let (standing, rest) = lasting::findings(&observations, &lasting, &found);
    found.extend(standing);
    left.extend(rest);
    left.sort_by_key(|signature| (signature.from, signature.kind));
    found.sort_by_key(|incident| (incident.from, incident.to));
    days::tell(&observations, &history.clock, &mut found);
    let (looked, unknown) = (scope::looked(&observations), scope::unknown(&observations));
    history.looked = looked;
    history.unknown.extend(unknown);
    history.incidents = found;
    history.signatures = left;
}

/// What is a state and not an event.
const fn lasts(kind: Kind) -> bool {
    matches!(kind, Kind::PageTables | Kind::Pool)
}

/// Signatures that meet.
struct Cluster {
    from: Moment,
    to: Moment,
    signatures: Vec<Signature>,
}

fn clusters(moments: Vec<Signature>, paces: &[(&str, i64)]) -> (Vec<Cluster>, Vec<Signature>) {
    let slack = |signature: &Signature| {
        let of = |source: &str| paces.iter().filter(|(name, _)| *name == source).map(|(_, pace)| *pace).max();
        let coarsest = signature.evidence.iter().filter_map(|evidence| of(&evidence.source)).max();
        coarsest.unwrap_or(0).clamp(LEAST_SLACK, MOST_SLACK)
    };
    let seeds = |signature: &Signature| signature.strength >= Strength::Clear && signature.kind != Kind::Restart;
    let (clear, others): (Vec<_>, Vec<_>) = moments.into_iter().partition(seeds);
    let mut clusters: Vec<(Cluster, i64)> = Vec::new();
    for signature in clear {
        let own = slack(&signature);
        match clusters.last_mut() {
            Some((cluster, wide)) if apart(cluster.to, signature.from) <= own.max(*wide) => {
                cluster.to = cluster.to.max(signature.to);
                *wide = own.max(*wide);
                cluster.signatures.push(signature);
            }
            _ => clusters.push((Cluster { from: signature.from, to: signature.to, signatures: vec![signature] }, own)),
        }
    }
    let mut left = Vec::new();
    for signature in others {
        // A host that starts anew right behind an incident may have been brought down by it.
        let wide = slack(&signature);
        let meets = |(cluster, own): &&mut (Cluster, i64)| {
            let slack = wide.max(*own);
            apart(cluster.to, signature.from) <= slack && apart(signature.to, cluster.from) <= slack
        };
        match clusters.iter_mut().find(meets) {
            Some((cluster, _)) => cluster.signatures.push(signature),
            None => left.push(signature),
        }
    }
    (clusters.into_iter().map(|(cluster, _)| cluster).collect(), left)
}

fn incident(observations: &Observations<'_>, cluster: &Cluster, lasting: &[Signature]) -> Option<Incident> {
    let facts = Facts::of(observations, cluster.from, cluster.to, &cluster.signatures);
    let decision = decide::decide(&facts)?;
    let mut signatures = cluster.signatures.clone();
    signatures.extend(lasting.iter().filter(|signature| decision.tells(signature, &facts)).cloned());
    signatures.sort_by_key(|signature| (signature.kind, signature.from));
    Some(Incident {
        from: cluster.from,
        to: cluster.to,
        verdict: decision.verdict,
        summary: summary::summary(&decision, &facts),
        confidence: decision.confidence,
        raised_by: decision.raised_by(&facts),
        against: decision.against,
        next: summary::next(decision.verdict, &facts),
        who: culprits::of(observations, cluster.from, cluster.to),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    })
}
