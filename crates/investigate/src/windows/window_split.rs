//! Cuts the time of a host into windows.

use crate::Moment;
use crate::gather::hosts::{GatheredHost, PlacedPiece, TimeBounds};

/// Milliseconds that a window reaches into its neighbours.
const OVERLAP: i64 = 12 * 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostWindow {
    pub(super) number: usize,
    pub(super) own: (Option<Moment>, Option<Moment>),
    pub(super) seen: (Option<Moment>, Option<Moment>),
}

impl HostWindow {
    pub(super) fn is_all(&self) -> bool {
        self.own == self.seen
    }
}

pub(super) fn split_into_windows(
    host: &GatheredHost,
    bounds: TimeBounds,
    most: usize,
) -> Vec<HostWindow> {
    let mut pieces: Vec<(Moment, usize)> = host
        .pieces
        .iter()
        .filter(|placed| overlaps_window(placed, bounds.from, bounds.to))
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
        let more = |at: Option<Moment>, by: i64| at.map(|at| Moment(at.0.saturating_add(by)));
        let seen_from = if number == 0 { from } else { more(from, -OVERLAP).max(bounds.from) };
        let seen_to = match (more(to, OVERLAP), bounds.to) {
            (Some(seen), Some(to)) => Some(seen.min(to)),
            (seen, to) => seen.or(to),
        };
        windows.push(HostWindow { number, own: (from, to), seen: (seen_from, seen_to) });
        from = to;
    }
    windows
}

pub(super) fn overlaps_window(
    placed: &PlacedPiece,
    from: Option<Moment>,
    to: Option<Moment>,
) -> bool {
    placed.copy_of.is_none()
        && placed.span.is_some_and(|(first, last)| {
            from.is_none_or(|from| last >= from) && to.is_none_or(|to| first <= to)
        })
}
