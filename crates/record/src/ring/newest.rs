//! The newest blocks of a ring, without reading the others: who looks every few seconds cannot read 170 MiB each time.

use std::fs::File;

use super::block::Place;
use super::read::{FileAt, block_at, fill};
use super::{BLOCK, Entry, HEADERS, Header, Position, Refused, Summary};

/// Blocks that are gone back over at most, each of up to 4 seconds: more than two minutes.
const MOST: u64 = 40;
/// Torn blocks behind one another that are passed over on the way to the newest.
const TORN: u64 = 8;

/// Hands on what a ring holds of the last milliseconds before its newest block was begun, in order, also while it is written.
/// Summary and entries are of these blocks alone.
///
/// # Errors
/// It is no ring, or is of another version of the format.
pub fn read_newest(file: &File, span_ms: i64, each: &mut dyn FnMut(Position, Entry<'_>)) -> Result<Summary, Refused> {
    let mut head = vec![0; BLOCK * HEADERS];
    let (length, failed) = fill(&mut FileAt::new(file, 0), &mut head);
    if let (0, Some(why)) = (length, &failed) {
        return Err(Refused(format!("cannot be read: {why}")));
    }
    head.truncate(length);
    let mut summary = Summary::of(Header::of_copies(&head).map_err(Refused)?, failed);
    let Some((newest, begun)) = newest(file, &summary.header) else { return Ok(summary) };
    let blocks = summary.header.blocks;
    let mut bytes = vec![0; BLOCK];
    let mut first = newest;
    while first > 0 && newest - first < MOST.min(blocks - 1) {
        match at(file, &summary.header, (first - 1) % blocks) {
            Some((sequence, wall)) if sequence == first - 1 && wall >= begun.saturating_sub(span_ms) => first -= 1,
            _ => break,
        }
    }
    for sequence in first..=newest {
        block_at(file, &summary.header, sequence % blocks, &mut bytes);
        summary.one(sequence % blocks, &bytes, each);
    }
    Ok(summary)
}

/// Number of the newest block, and when it was begun: up to it numbers grow with their places, and behind it stands what is
/// older by a whole ring.
fn newest(file: &File, header: &Header) -> Option<(u64, i64)> {
    let blocks = header.blocks;
    // The first place may just be written; then what stands before it in time is the newest but one.
    let Some((base, begun)) = at(file, header, 0) else { return at(file, header, blocks.checked_sub(1)?) };
    let (mut low, mut high) = (0, blocks);
    let mut newest = (base, begun);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let whole = (middle..high.min(middle + TORN)).find_map(|place| Some((place, at(file, header, place)?)));
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

/// Number of the block at a place, and when it was begun; none where it is not whole, or does not belong there.
fn at(file: &File, header: &Header, place: u64) -> Option<(u64, i64)> {
    let mut bytes = vec![0; BLOCK];
    block_at(file, header, place, &mut bytes);
    match Place::read(&bytes, header.ring) {
        Place::Whole(block) if block.sequence % header.blocks == place => Some((block.sequence, block.wall)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::Sample;
    use crate::ring::{About, Folder, Kind, read_in_order};
    use crate::testing::{self, Blocks};

    type Each<'a> = dyn FnMut(Position, Entry<'_>) + 'a;

    fn seconds(of: &dyn Fn(&mut Each<'_>)) -> Vec<u64> {
        let mut seconds = Vec::new();
        of(&mut |_, entry| {
            if let Entry::Sample(sample) = entry {
                seconds.push(sample.uptime / 1000);
            }
        });
        seconds
    }

    /// At each length of a ring that goes round three times: what is there by reading all of it.
    #[test]
    fn the_newest_are_found_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Folder::open(folder.path()).unwrap().ring(Kind::Seconds, 16, &About::default()).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let file = File::open(folder.path().join(Kind::Seconds.file())).unwrap();
        assert_eq!(seconds(&|each| _ = read_newest(&file, 20_000, each).unwrap()), [0; 0]);
        for second in 0..200 {
            let mut sample = Sample::default();
            sample.uptime = second * 1000;
            sample.wall = i64::try_from(second).unwrap() * 1000;
            blocks.push(&opened.ring, &sample);
            let newest = seconds(&|each| _ = read_newest(&file, 20_000, each).unwrap());
            let all = seconds(&|each| _ = read_in_order(&file, each).unwrap());
            assert!(all.ends_with(&newest), "{second}: {newest:?}");
            assert_eq!((newest.first(), newest.last()), (Some(&((second / 4 * 4).saturating_sub(20))), Some(&second)));
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
