//! The newest blocks of a ring alone: frequent readers cannot read 170 MiB each time.

use std::fs::File;

use super::block::StoredBlock;
use super::read::{FileAt, block_at, read_header};
use super::{BLOCK, Position, RingEntry, RingHeader, RingSummary, UnreadableRing};
use crate::HostSample;

/// Most blocks, each of up to 4 seconds: more than two minutes.
const MOST: u64 = 40;
/// Consecutive torn blocks that are skipped on the way to the newest.
const TORN: u64 = 8;

/// Passes on the last `span_ms` before the newest block began, in order, even while the ring is
/// written. The summary covers these blocks alone.
/// Errors: it is no ring, or has another version of the format.
pub fn read_newest(
    file: &File,
    span_ms: i64,
    each: &mut dyn FnMut(Position, RingEntry<'_>),
) -> Result<RingSummary, UnreadableRing> {
    let mut summary = read_header(&mut FileAt { file, at: 0 })?;
    let Some((newest, begun)) = find_newest_block(file, &summary.header) else {
        return Ok(summary);
    };
    let blocks = summary.header.blocks;
    let mut bytes = vec![0; BLOCK];
    let mut samples = Box::<[HostSample; 2]>::default();
    let mut first = newest;
    while first > 0 && newest - first < MOST.min(blocks - 1) {
        match read_block_start(file, &summary.header, (first - 1) % blocks) {
            Some((sequence, wall))
                if sequence == first - 1 && wall >= begun.saturating_sub(span_ms) =>
            {
                first -= 1
            }
            _ => break,
        }
    }
    for sequence in first..=newest {
        block_at(file, &summary.header, sequence % blocks, &mut bytes);
        summary.add_block(sequence % blocks, &bytes, &mut samples, each);
    }
    Ok(summary)
}

/// Number and begin of the newest block: up to it numbers grow with their places, and behind it is
/// what is older by a whole ring.
fn find_newest_block(file: &File, header: &RingHeader) -> Option<(u64, i64)> {
    let blocks = header.blocks;
    // The first place may just be written; then the last place is the newest but one.
    let Some((base, begun)) = read_block_start(file, header, 0) else {
        return read_block_start(file, header, blocks.checked_sub(1)?);
    };
    let (mut low, mut high) = (0, blocks);
    let mut newest = (base, begun);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let whole = (middle..high.min(middle + TORN))
            .find_map(|place| Some((place, read_block_start(file, header, place)?)));
        match whole {
            Some((place, (sequence, begun))) if sequence == base.wrapping_add(place) => {
                low = place;
                newest = (sequence, begun);
            }
            _ => high = middle,
        }
    }
    Some(newest)
}

/// Number and begin of the block at a place; `None` unless it is whole and belongs there.
fn read_block_start(file: &File, header: &RingHeader, place: u64) -> Option<(u64, i64)> {
    let mut bytes = vec![0; BLOCK];
    block_at(file, header, place, &mut bytes);
    match StoredBlock::read(&bytes, header.ring) {
        StoredBlock::Whole(block) if block.sequence % header.blocks == place => {
            Some((block.sequence, block.wall))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)]

    use super::*;
    use crate::HostSample;
    use crate::ring::{About, RingFolder, RingKind, read_in_order};
    use crate::testing::{self, Blocks};

    type Each<'a> = dyn FnMut(Position, RingEntry<'_>) + 'a;

    fn seconds_read(add: &dyn Fn(&mut Each<'_>)) -> Vec<u64> {
        let mut seconds = Vec::new();
        add(&mut |_, entry| {
            if let RingEntry::Sample(sample) = entry {
                seconds.push(sample.uptime / 1000);
            }
        });
        seconds
    }

    /// At each length of a ring that goes round three times: what is there by reading all of it.
    #[test]
    fn the_newest_are_found_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let opened = RingFolder::open(folder.path())
            .unwrap()
            .open_ring(RingKind::Seconds, 16, &About::default())
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let file = File::open(folder.path().join(RingKind::Seconds.file_name())).unwrap();
        assert_eq!(seconds_read(&|each| _ = read_newest(&file, 20_000, each).unwrap()), [0; 0]);
        for second in 0..200 {
            let mut sample = HostSample::default();
            sample.uptime = second * 1000;
            sample.wall = i64::try_from(second).unwrap() * 1000;
            blocks.push(&opened.ring, &sample);
            let newest = seconds_read(&|each| _ = read_newest(&file, 20_000, each).unwrap());
            let all = seconds_read(&|each| _ = read_in_order(&file, each).unwrap());
            assert!(all.ends_with(&newest), "{second}: {newest:?}");
            assert_eq!(
                (newest.first(), newest.last()),
                (Some(&((second / 4 * 4).saturating_sub(20))), Some(&second))
            );
        }
    }

    #[test]
    fn whatever_the_bytes_are_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        for ring in [testing::with_extremes(&[7; 64]), testing::with_checksums(&[1; 40_000])] {
            for cut in (0..ring.len()).step_by(611) {
                let mut torn = ring.clone();
                torn[cut] ^= 0x55;
                for bytes in [&torn[..], &ring[..cut]] {
                    std::fs::write(&path, bytes).unwrap();
                    _ = read_newest(&File::open(&path).unwrap(), i64::MAX, &mut |_, _| {});
                }
            }
        }
    }
}
