//! Text that sar and sadf printed of a file that is read too.

use std::collections::BTreeMap;

use super::hosts::PlacedPiece;

/// Milliseconds by which the print of a file may begin or end later or earlier than the file.
const ABOUT: i64 = 120_000;

/// What sar and sadf printed of a file that was read too is not read twice.
pub(super) fn mark_printed_copies(pieces: &mut [PlacedPiece]) {
    for printed in [1, 2] {
        let copies = find_printed_copies(pieces, printed);
        for (at, original) in copies {
            let source = pieces.get(original).map(|placed| placed.piece.hull.source.clone());
            if let Some(placed) = pieces.get_mut(at) {
                placed.copy_of = source;
            }
        }
    }
}

/// Places of the pieces of this rank that another of a lower one holds whole, and of that one. In
/// the order of their beginnings: only what ends late with many samples is kept to compare with, so
/// that the work grows with the number of files and not with its square.
fn find_printed_copies(pieces: &[PlacedPiece], printed: u8) -> Vec<(usize, usize)> {
    let mut all: Vec<(i64, u8, usize, i64, usize)> = Vec::new();
    for (at, placed) in pieces.iter().enumerate() {
        let (Some(rank), Some((first, last))) =
            (placed.piece.hull.format.sysstat_rank(), placed.span)
        else {
            continue;
        };
        let samples = placed.piece.samples;
        if rank < printed {
            all.push((first.0.saturating_sub(ABOUT), 0, at, last.0.saturating_add(ABOUT), samples));
        } else if rank == printed {
            all.push((first.0, 1, at, last.0, samples));
        }
    }
    all.sort_unstable();
    // By their ends; of those that end later, each has fewer samples.
    let mut originals: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    let mut copies = Vec::new();
    for (_, is_print, at, last, samples) in all {
        let holder = originals.range(last..).next().map(|(_, held)| *held);
        let holder = holder.filter(|(held, _)| *held >= samples);
        match (is_print, holder) {
            (1, Some((_, original))) => copies.push((at, original)),
            (0, None) => {
                while let Some((end, _)) =
                    originals.range(..=last).next_back().filter(|(_, held)| held.0 <= samples)
                {
                    let end = *end;
                    originals.remove(&end);
                }
                originals.insert(last, (samples, at));
            }
            _ => {}
        }
    }
    copies
}
