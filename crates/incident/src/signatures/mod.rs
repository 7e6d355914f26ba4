//! One file a kind of trouble, each a pure function from what is known of a host to where it shows.

use crate::{History, Signature};

/// Looks for every kind of trouble in the series of one host; in the order of time. It looks at the series only.
pub fn find(history: &History) -> Vec<Signature> {
    let _ = &history.series;
    Vec::new()
}
