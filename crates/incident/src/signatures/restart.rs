//! The host or the collector began anew.

use super::observations::Observations;
use super::rows::Rows;
use crate::{Evidence, Kind, Signature, Strength};

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let restarts = rows.boots().iter();
    restarts
        .map(|at| Signature {
            kind: Kind::Restart,
            from: *at,
            to: *at,
            strength: Strength::Clear,
            evidence: vec![Evidence {
                source: rows.series.source.clone(),
                at: *at,
                what: "the collector restarted, as it does at boot".to_owned(),
            }],
            caveats: Vec::new(),
        })
        .collect()
}
