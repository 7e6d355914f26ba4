//! Signatures that meet in time are one incident.
//!
//! Clear signatures meet when they are no farther apart than one interval of the coarser source;
//! weak ones join what they fall into, and bring nothing together. Lasting ones (page tables, pools)
//! join every incident that they explain, and are a finding of their own where there is none.

mod causes;
mod changes;
mod culprits;
mod decide;
mod facts;
mod lasting;
mod recurrence;
mod scope;
mod summary;
mod window;

use std::collections::BTreeMap;

use self::causes::Cause;
use self::facts::WindowFacts;
use crate::signatures::observations::Observations;
use crate::signatures::rows::milliseconds_between;
use crate::{Incident, IncidentHistory, Moment, Signature, SignatureKind, SignatureStrength};

/// Milliseconds between signatures of one cluster: free memory is counted after the storm.
const LEAST_SLACK: i64 = 60_000;
/// A source of a sample an hour must not glue a day together.
const MOST_SLACK: i64 = 15 * 60_000;

/// Moves the signatures that [`find_signatures`](crate::signatures::find_signatures) left in
/// `history.signatures` into incidents, where they make some, and fills `unknown` and `looked`. It
/// needs all rows of the series: call it before they are thinned.
pub fn join_incidents(history: &mut IncidentHistory) {
    let mut signatures = std::mem::take(&mut history.signatures);
    signatures.sort_by_key(|signature| (signature.from, signature.kind));
    let (lasting, moments): (Vec<_>, Vec<_>) =
        signatures.into_iter().partition(|signature| is_lasting(signature.kind));
    let observations = Observations::new(history);
    let mut paces: BTreeMap<&str, i64> = BTreeMap::new();
    for rows in &observations.rows {
        let pace = paces.entry(rows.source()).or_insert(rows.usual);
        *pace = rows.usual.max(*pace);
    }
    let (clusters, mut left) = cluster_signatures(moments, &paces);
    let mut found = Vec::new();
    for cluster in clusters {
        match build_incidents(&observations, &cluster, &lasting) {
            told if told.is_empty() => left.extend(cluster.signatures),
            told => found.extend(told),
        }
    }
    let (standing, rest) = lasting::find_lasting_conditions(&observations, &lasting, &found);
    found.extend(standing);
    left.extend(rest);
    left.sort_by_key(|signature| (signature.from, signature.kind));
    sort_incidents(&mut found);
    recurrence::compare_other_days(&observations, &history.clock, &mut found);
    let (looked, unknown) =
        (scope::describe_coverage(&observations), scope::describe_gaps(&observations));
    history.looked = looked;
    history.unknown.extend(unknown);
    history.incidents = found;
    history.signatures = left;
}

const fn is_lasting(kind: SignatureKind) -> bool {
    matches!(kind, SignatureKind::PageTables | SignatureKind::Pool)
}

struct SignatureCluster {
    from: Moment,
    to: Moment,
    /// Milliseconds within which another signature still belongs to it.
    slack: i64,
    signatures: Vec<Signature>,
}

fn cluster_signatures(
    moments: Vec<Signature>,
    paces: &BTreeMap<&str, i64>,
) -> (Vec<SignatureCluster>, Vec<Signature>) {
    let slack_of = |signature: &Signature| {
        let paces =
            signature.evidence.iter().filter_map(|row| paces.get(row.source.as_str()).copied());
        paces.max().unwrap_or(0).clamp(LEAST_SLACK, MOST_SLACK)
    };
    let seeds = |signature: &Signature| {
        signature.strength >= SignatureStrength::Clear && signature.kind != SignatureKind::Restart
    };
    let (clear, others): (Vec<_>, Vec<_>) = moments.into_iter().partition(seeds);
    let mut clusters: Vec<SignatureCluster> = Vec::new();
    for signature in clear {
        let slack = slack_of(&signature);
        match clusters.last_mut() {
            Some(cluster)
                if milliseconds_between(cluster.to, signature.from) <= slack.max(cluster.slack) =>
            {
                cluster.to = cluster.to.max(signature.to);
                cluster.slack = slack.max(cluster.slack);
                cluster.signatures.push(signature);
            }
            _ => {
                let (from, to) = (signature.from, signature.to);
                clusters.push(SignatureCluster { from, to, slack, signatures: vec![signature] });
            }
        }
    }
    let mut left = Vec::new();
    for signature in others {
        // A host that starts anew right behind an incident may have been brought down by it.
        let own = slack_of(&signature);
        let meets = |cluster: &&mut SignatureCluster| {
            let slack = own.max(cluster.slack);
            milliseconds_between(cluster.to, signature.from) <= slack
                && milliseconds_between(signature.to, cluster.from) <= slack
        };
        match clusters.iter_mut().find(meets) {
            Some(cluster) => cluster.signatures.push(signature),
            None => left.push(signature),
        }
    }
    (clusters, left)
}

/// One incident for each cause of a cluster that no other explains.
fn build_incidents(
    observations: &Observations<'_>,
    cluster: &SignatureCluster,
    lasting: &[Signature],
) -> Vec<Incident> {
    let SignatureCluster { from, to, signatures, .. } = cluster;
    let facts = WindowFacts::new(observations, *from, *to, signatures);
    let leading = causes::keep_leading_causes(&decide::find_causes(&facts));
    if let [only] = leading.as_slice() {
        return vec![build_incident(observations, *only, &facts, (*from, *to), lasting)];
    }
    let parts = divide_signatures(signatures, &leading);
    let told = leading.iter().zip(&parts).map(|(cause, own)| {
        let (from, to) = span_of_clear(own).unwrap_or((*from, *to));
        let facts = WindowFacts::new(observations, from, to, own);
        let mut incident = build_incident(observations, *cause, &facts, (from, to), lasting);
        incident.summary += &causes_before(&leading, &parts, *cause, from);
        incident
    });
    told.collect()
}

/// Each signature to the first cause whose own it is; the rest to the first that is no outcome.
fn divide_signatures(signatures: &[Signature], leading: &[Cause]) -> Vec<Vec<Signature>> {
    let owns = |cause: &Cause, signature: &Signature| {
        causes::own_signatures(cause.verdict).contains(&signature.kind)
    };
    let mut parts = vec![Vec::new(); leading.len()];
    let main = leading.iter().position(|cause| !cause.verdict.is_outcome()).unwrap_or(0);
    for signature in signatures {
        let place = leading.iter().position(|cause| owns(cause, signature)).unwrap_or(main);
        if let Some(part) = parts.get_mut(place) {
            part.push(signature.clone());
        }
    }
    // Two causes may rest on one signature.
    for (part, cause) in parts.iter_mut().zip(leading).filter(|(part, _)| part.is_empty()) {
        part.extend(signatures.iter().filter(|signature| owns(cause, signature)).cloned());
        if part.is_empty() {
            part.extend_from_slice(signatures);
        }
    }
    parts
}

fn span_of_clear(signatures: &[Signature]) -> Option<(Moment, Moment)> {
    let clear = || {
        signatures.iter().filter(|one| {
            one.strength >= SignatureStrength::Clear && one.kind != SignatureKind::Restart
        })
    };
    clear().map(|one| one.from).min().zip(clear().map(|one| one.to).max())
}

/// What an outcome came after: `; before it: swap storm`.
fn causes_before(
    leading: &[Cause],
    parts: &[Vec<Signature>],
    outcome: Cause,
    began: Moment,
) -> String {
    if !outcome.verdict.is_outcome() {
        return String::new();
    }
    let earlier = leading.iter().zip(parts).filter(|(cause, own)| {
        !cause.verdict.is_outcome() && span_of_clear(own).is_some_and(|(from, _)| from <= began)
    });
    let named: Vec<&str> = earlier.map(|(cause, _)| cause.verdict.label()).collect();
    if named.is_empty() { String::new() } else { format!("; before it: {}", named.join(", ")) }
}

/// In the order of time; of one trouble, the gravest first.
fn sort_incidents(found: &mut [Incident]) {
    found.sort_by_key(|one| (one.from, one.to));
    for place in 1..found.len() {
        let mut at = place;
        // An outcome goes before what it came of, which it touches.
        while let Some([before, this]) = found.get(at.saturating_sub(1)..=at)
            && at > 0
            && this.verdict.is_outcome()
            && !before.verdict.is_outcome()
            && before.verdict.is_event()
            && milliseconds_between(before.to, this.from) <= 0
        {
            found.swap(at - 1, at);
            at -= 1;
        }
    }
}

fn build_incident(
    observations: &Observations<'_>,
    cause: Cause,
    facts: &WindowFacts<'_>,
    (from, to): (Moment, Moment),
    lasting: &[Signature],
) -> Incident {
    let decision = decide::decide_verdict(cause, facts);
    let mut signatures = facts.signatures.to_vec();
    signatures.extend(
        lasting.iter().filter(|signature| decision.includes_signature(signature, facts)).cloned(),
    );
    signatures.sort_by_key(|signature| (signature.kind, signature.from));
    Incident {
        from,
        to,
        verdict: decision.verdict,
        summary: summary::summarize_incident(&decision, facts),
        confidence: decision.confidence,
        raised_by: decision.raised_by(facts),
        against: decision.against,
        next: summary::suggest_next_steps(decision.verdict, facts),
        who: culprits::find_culprits(observations, from, to),
        elsewhere: Vec::new(),
        other_days: Vec::new(),
        signatures,
    }
}
