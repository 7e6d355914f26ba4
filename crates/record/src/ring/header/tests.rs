use super::*;

pub(crate) fn example_header() -> RingHeader {
    let about = About {
        run: 3,
        began: 1_795_306_507_000,
        host: "db1".into(),
        kernel: "5.14.0-503.el9".into(),
        architecture: "x86_64".into(),
        boot: "6d1c3f2e-5a8b-4e0f-9c27-3b1f5e7a9d04".into(),
        version: "0.1.0".into(),
        base_page: 4096,
        ticks: 100,
        offset: -18_000,
        interval_ms: 1000,
        lacks: vec!["locked memory: Operation not permitted".into()],
    };
    RingHeader { kind: RingKind::Seconds, blocks: 8, ring: 0x1234_5678_9abc_def0, about }
}

#[test]
fn the_newer_whole_copy_counts() {
    let one = example_header();
    let mut two = one.clone();
    two.about.run = 4;
    let both = [one.encode(), two.encode()].concat();
    assert_eq!(RingHeader::of_copies(&both).unwrap(), two);
    for broken in 0..BLOCK {
        let mut torn = both.clone();
        torn[BLOCK + broken] ^= 1;
        assert_eq!(RingHeader::of_copies(&torn).unwrap(), one, "byte {broken}");
    }
    assert_eq!(RingHeader::of_copies(&both[..BLOCK + 100]).unwrap(), one);
    assert!(RingHeader::of_copies(&both[..BLOCK - 1]).unwrap_err().contains("cut off"));
}

#[test]
fn another_version_and_other_files_are_refused_by_name() {
    let mut later = example_header().encode();
    later[12] = 2;
    let sum = CRC32C.checksum(&later[12..]);
    later[8..12].copy_from_slice(&sum.to_le_bytes());
    assert!(RingHeader::decode(&later).unwrap_err().contains("format 2"));
    assert!(RingHeader::decode(&[0; BLOCK]).unwrap_err().contains("not a hugewise recording"));
    assert!(RingHeader::decode(b"").unwrap_err().contains("not a hugewise recording"));
    let mut large = example_header();
    large.blocks = MOST_BLOCKS + 1;
    assert!(RingHeader::decode(&large.encode()).unwrap_err().contains("no sense"));
}

#[test]
fn words_without_end_still_fit() {
    let mut long = example_header();
    long.about.lacks = vec!["x".repeat(10_000); 1000];
    long.about.host = "h".repeat(10_000);
    let read = RingHeader::decode(&long.encode()).unwrap();
    assert_eq!(
        (read.about.lacks.len(), read.about.lacks[0].len(), read.about.host.len()),
        (16, 160, 160)
    );
}
