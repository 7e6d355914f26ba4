//! Logs whose lines say no date.

use super::hosts::{GatheredHost, PlacedPiece, SeriesPiece};
use crate::series::{Offset, UnplacedTimes};
use crate::{Clock, Moment};

/// How a capture's kernel log of seconds since boot is put on UTC, by the capture's own boot: as if
/// the boot's clock were a wall's, and so far behind.
pub(super) fn offset_since_boot(piece: &SeriesPiece, booted: Option<i64>) -> Option<Vec<Offset>> {
    let is_captured = piece.root.is_some() && piece.hull.unplaced == Some(UnplacedTimes::SinceBoot);
    let ahead = booted.and_then(|booted| i32::try_from(booted).ok()).filter(|_| is_captured)?;
    Some(vec![Offset { from: Moment(i64::MIN), seconds: -ahead }])
}

/// A log whose lines say no date is judged by itself.
pub(super) fn host_of_unplaced(name: Option<String>, piece: SeriesPiece) -> GatheredHost {
    let why = piece.hull.unplaced.map(|unplaced| unplaced.describe());
    let note = why.map(|why| format!("{}: {why}", piece.hull.source));
    GatheredHost {
        name,
        clock: Clock::Wall { zone: None },
        pieces: vec![PlacedPiece::new(piece, None)],
        notes: note.into_iter().collect(),
        ..GatheredHost::default()
    }
}
