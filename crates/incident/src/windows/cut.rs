//! Cutting the time of a host.

use crate::Moment;
use crate::gather::hosts::{Bounds, Machine, Placed};

/// How far a window reaches into its neighbours.
const OVERLAP: i64 = 12 * 3_600_000;

/// A stretch of time of one host: its own, and what is seen of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Its place among the windows of its host.
    pub(super) number: usize,
    pub(super) own: (Option<Moment>, Option<Moment>),
    pub(super) seen: (Option<Moment>, Option<Moment>),
}

impl Window {
    /// Whether it has no neighbours.
    pub(super) fn is_all(&self) -> bool {
        self.own == self.seen
    }
}

/// Cuts a host's time so that each window's rows fit.
pub(super) fn windows(host: &Machine, bounds: Bounds, most: usize) -> Vec<Window> {
    let mut pieces: Vec<(Moment, usize)> = host
        .pieces
        .iter()
        .filter(|placed| overlaps(placed, bounds.from, bounds.to))
        .filter_map(|placed| Some((placed.span?.0, placed.piece.weight)))
        .collect();
    pieces.sort_unstable();
    let mut ends = Vec::new();
    let mut filled = 0_usize;
    for (from, weight) in pieces {
        if filled > 0 && filled.saturating_add(weight) > most && ends.last() != Some(&from) {
            ends.push(from);
            filled = 0;
        }
        filled = filled.saturating_add(weight);
    }
    let mut from = bounds.from;
    let mut windows = Vec::new();
    for to in ends.into_iter().map(Some).chain([bounds.to]) {
        let number = windows.len();
        let first = number == 0;
        let more = |at: Option<Moment>, by: i64| at.map(|at| Moment(at.0.saturating_add(by)));
        let seen_from = if first { from } else { more(from, -OVERLAP).max(bounds.from) };
        windows.push(Window { number, own: (from, to), seen: (seen_from, more(to, OVERLAP)) });
        from = to;
    }
    if let Some(last) = windows.last_mut() {
        last.seen.1 = bounds.to;
    }
    for window in &mut windows {
        window.seen.1 = match (window.seen.1, bounds.to) {
            (Some(seen), Some(to)) => Some(seen.min(to)),
            (seen, to) => seen.or(to),
        };
    }
    windows
}

pub(super) fn overlaps(placed: &Placed, from: Option<Moment>, to: Option<Moment>) -> bool {
    placed.copy_of.is_none()
        && placed
            .span
            .is_some_and(|(first, last)| from.is_none_or(|from| last >= from) && to.is_none_or(|to| first <= to))
}
