//! Rings as they are written and read: whole, cut anywhere, damaged anywhere, gone round, of
//! others.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use hugewise_record::ring::{
    About, BLOCK, HEADERS, OpenedRing, RingEntry, RingError, RingFolder, RingKind, RingSummary,
    read,
};
use hugewise_record::testing::Blocks;
use hugewise_record::{Field, HostSample, RecordedEvent, RecordedEventKind};
use proptest::prelude::*;

fn about() -> About {
    About { host: "db1".into(), base_page: 4096, ticks: 100, interval_ms: 1000, ..About::default() }
}

fn open(folder: &Path, blocks: u64) -> OpenedRing {
    RingFolder::open(folder).unwrap().open_ring(RingKind::Seconds, blocks, &about()).unwrap()
}

fn sample(second: u64) -> HostSample {
    let mut sample = HostSample::default();
    (sample.wall, sample.uptime) =
        (1_795_306_507_000 + i64::try_from(second * 1000).unwrap(), second * 1000);
    sample.set(Field::MemFree, 1_000_000 - second);
    sample.set(Field::Faults, second * 12_345);
    sample
}

/// So many samples as the recorder writes them: a block of four seconds each.
fn write(opened: &OpenedRing, from: u64, count: u64) {
    let mut blocks = Blocks::of(&opened.ring, opened.next);
    for second in from..from + count {
        blocks.push(&opened.ring, &sample(second));
    }
}

/// The seconds of the samples in it, each of which has to be what was written, and the summary.
fn seconds(bytes: &[u8]) -> (Vec<u64>, RingSummary) {
    let mut seconds = Vec::new();
    let summary = read(&mut { bytes }, &mut |_, entry| {
        if let RingEntry::Sample(read) = entry {
            let second = read.uptime / 1000;
            assert_eq!(*read, sample(second), "a sample that nobody wrote");
            seconds.push(second);
        }
    });
    (seconds, summary.unwrap())
}

#[test]
fn it_goes_round_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), 8);
    assert_eq!((opened.next, opened.ring.header().about.run), (0, 1));
    write(&opened, 0, 20);
    drop(opened);
    let path = folder.path().join("seconds.ring");
    let (all, summary) = seconds(&fs::read(&path).unwrap());
    assert_eq!(all, (0..20).collect::<Vec<_>>());
    assert_eq!((summary.blocks, summary.empty, summary.torn), (5, 3, 0));
    // Another run writes behind it, and over what is oldest.
    let opened = open(folder.path(), 8);
    assert_eq!((opened.next, opened.ring.header().about.run), (5, 2));
    write(&opened, 100, 20);
    let (all, summary) = seconds(&fs::read(&path).unwrap());
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (8..20).chain(100..120).collect::<Vec<_>>());
    assert_eq!((summary.newest.unwrap().0, summary.oldest.unwrap().0, summary.empty), (9, 2, 0));
    let length = fs::metadata(&path).unwrap().len();
    assert_eq!(length, (8 + HEADERS as u64) * BLOCK as u64);
}

#[test]
fn in_order_it_is_read_from_the_oldest_on() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), 8);
    write(&opened, 0, 50);
    let file = fs::File::open(folder.path().join("seconds.ring")).unwrap();
    let mut all = Vec::new();
    hugewise_record::ring::read_in_order(&file, &mut |_, entry| {
        if let RingEntry::Sample(sample) = entry {
            all.push(sample.uptime / 1000);
        }
    })
    .unwrap();
    assert_eq!(all, (20..50).collect::<Vec<_>>());
}

#[test]
fn a_cut_anywhere_costs_what_is_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), 8);
    write(&opened, 0, 32);
    let whole = fs::read(folder.path().join("seconds.ring")).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        let bytes = &whole[..cut];
        if cut < BLOCK {
            assert!(read(&mut { bytes }, &mut |_, _| {}).is_err(), "{cut}");
            continue;
        }
        let (all, summary) = seconds(bytes);
        let blocks = (cut / BLOCK).saturating_sub(HEADERS) as u64;
        assert_eq!(all, (0..blocks * 4).collect::<Vec<_>>(), "{cut}");
        assert!(summary.cut.is_some(), "{cut}");
    }
}

#[test]
fn the_room_is_taken_at_once_and_nobody_else_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a/b");
    let _ring = open(&place, 2000);
    let facts = fs::metadata(place.join("seconds.ring")).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.len()), (0o600, 2002 * 4096));
    assert!(facts.blocks() * 512 >= facts.len(), "{} of {}", facts.blocks() * 512, facts.len());
    assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o700);
    let names: Vec<_> =
        fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["seconds.ring"]);
}

#[test]
fn what_others_could_have_put_there_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let ring =
        || RingFolder::open(folder.path()).unwrap().open_ring(RingKind::Seconds, 8, &about());
    let path = folder.path().join("seconds.ring");
    let why = |made: Result<OpenedRing, RingError>| made.map(|_| ()).unwrap_err().to_string();

    fs::write(&path, "precious").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(why(ring()).contains("is not a hugewise recording"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    assert!(why(ring()).contains("others"));
    fs::remove_file(&path).unwrap();
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, &path).unwrap();
    assert!(why(ring()).contains("is a link"));
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    fs::hard_link(&target, &path).unwrap();
    assert!(why(ring()).contains("other hard links"));
    fs::remove_file(&path).unwrap();

    let held = ring().unwrap();
    assert!(why(ring()).contains("another recorder"));
    drop(held);

    let link = folder.path().join("link");
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink(folder.path().join("real"), &link).unwrap();
    assert!(RingFolder::open(&link).unwrap_err().to_string().contains("link"));
    let open_to_all = folder.path().join("all");
    fs::create_dir(&open_to_all).unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(
        RingFolder::open(&open_to_all).unwrap_err().to_string().contains("every user may write")
    );
    assert!(
        RingFolder::open(&open_to_all.join("new")).is_err() && !open_to_all.join("new").exists()
    );
}

#[test]
fn a_ring_of_another_size_is_kept_beside() {
    let folder = tempfile::tempdir().unwrap();
    write(&open(folder.path(), 8), 0, 4);
    let opened = open(folder.path(), 16);
    assert!(opened.moved.unwrap().contains("seconds.ring.before"));
    let (kept, _) = seconds(&fs::read(folder.path().join("seconds.ring.before")).unwrap());
    assert_eq!(kept, [0, 1, 2, 3]);
    assert_eq!((opened.next, opened.ring.header().blocks), (0, 16));
}

#[test]
fn blocks_of_a_ring_that_stood_there_before_are_not_taken_for_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seconds.ring");
    write(&open(folder.path(), 8), 0, 32);
    let old = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    write(&open(folder.path(), 8), 50, 4);
    let mut mixed = fs::read(&path).unwrap();
    mixed[3 * BLOCK..].copy_from_slice(&old[3 * BLOCK..]);
    assert_eq!(seconds(&mixed).0, [50, 51, 52, 53]);
}

#[test]
fn the_kernels_words_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), 8);
    let mut blocks = Blocks::of(&opened.ring, opened.next);
    let event = RecordedEvent::new(
        7,
        RecordedEventKind::OutOfMemory,
        b"Out of memory: Killed process 1 (\x1b[2J)",
    );
    blocks.push_event(&opened.ring, &event);
    let mut said = Vec::new();
    let bytes = fs::read(folder.path().join("seconds.ring")).unwrap();
    read(&mut &bytes[..], &mut |_, entry| {
        if let RingEntry::Event(event) = entry {
            said.push(*event);
        }
    })
    .unwrap();
    assert_eq!(said, [event]);
}

fn ring_of_32() -> &'static [u8] {
    static RING: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    RING.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        write(&open(folder.path(), 8), 0, 32);
        fs::read(folder.path().join("seconds.ring")).unwrap()
    })
}

proptest! {
    /// Damage costs the block in which it is, and no sample is made up.
    #[test]
    fn damage_costs_its_own_block(at in HEADERS * BLOCK..(HEADERS + 8) * BLOCK, bit in 0..8) {
        let mut bytes = ring_of_32().to_vec();
        bytes[at] ^= 1_u8 << bit;
        let lost = (at / BLOCK - HEADERS) as u64 * 4;
        let (all, summary) = seconds(&bytes);
        prop_assert_eq!(all, (0..32).filter(|second| !(lost..lost + 4).contains(second)).collect::<Vec<_>>());
        prop_assert_eq!((summary.torn, summary.first_torn), (1, Some(lost / 4)));
    }

    /// A block that was half written when the power went: the rest is what stood there before.
    #[test]
    fn a_torn_write_costs_its_own_block(keep in 1..8_usize) {
        let old = ring_of_32();
        let mut bytes = old.to_vec();
        let block = (HEADERS + 3) * BLOCK;
        // Another block's bytes, as much of them as sectors were written.
        let (from, length) = ((HEADERS + 5) * BLOCK, keep * 512);
        bytes.copy_within(from..from + length, block);
        prop_assert_eq!(seconds(&bytes).1.torn, 1);
    }

    /// Records that nobody wrote, in blocks with the right checksums.
    #[test]
    fn records_of_any_bytes_do_no_harm(records in prop::collection::vec((1..7_u8, prop::collection::vec(any::<u8>(), 0..80)), 0..60)) {
        let mut payload = Vec::new();
        for (kind, content) in records {
            payload.push(kind);
            payload.extend(u16::try_from(content.len()).unwrap().to_le_bytes());
            payload.extend(content);
        }
        let ring = hugewise_record::testing::with_checksums(&payload);
        prop_assert_eq!(read(&mut &ring[..], &mut |_, _| {}).unwrap().torn, 0);
    }

    #[test]
    fn any_bytes_behind_a_header_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..3 * BLOCK), whole in 0..2_usize) {
        let mut ring = ring_of_32()[..HEADERS * BLOCK * whole].to_vec();
        ring.extend(bytes);
        let _ = read(&mut &ring[..], &mut |_, _| {});
    }
}
