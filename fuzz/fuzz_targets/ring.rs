#![no_main]

//! Any bytes as a ring: as they are, as blocks behind a whole header with the checksums that they
//! should have, and as the choice among the largest and smallest numbers of a ring that decodes
//! whole.

use std::hint::black_box;

use hugewise_record::ring::read;
use hugewise_record::testing::{with_checksums, with_extremes};

fn ring(bytes: &[u8]) -> usize {
    let mut entries = 0;
    for bytes in [bytes.to_vec(), with_checksums(bytes), with_extremes(bytes)] {
        let _ = black_box(read(&mut &bytes[..], &mut |_, entry| {
            black_box(entry);
            entries += 1;
        }));
        let _ = black_box(hugewise_investigate::readers::read(&bytes[..], "seconds.ring"));
    }
    entries
}

hugewise_fuzz::target!(ring);
