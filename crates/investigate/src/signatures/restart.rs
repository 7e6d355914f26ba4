//! The host or the collector began anew.

use super::rows::SeriesRows;
use crate::{EvidenceBasis, Signature, SignatureEvidence, SignatureKind, SignatureStrength};

pub(super) fn detect_restarts(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let restarts = rows.boot_moments().iter();
    restarts
        .map(|at| Signature {
            kind: SignatureKind::Restart,
            from: *at,
            to: *at,
            strength: SignatureStrength::Clear,
            evidence: vec![SignatureEvidence {
                source: rows.series.source.clone(),
                at: *at,
                what: "the collector restarted, as it does at boot".to_owned(),
                basis: EvidenceBasis::Figures,
            }],
            caveats: Vec::new(),
        })
        .collect()
}
