use proptest::prelude::*;

use super::*;

prop_compose! {
    pub(crate) fn any_pool()(
        page_kib: u64,
        node in prop::option::of(0_u16..1024),
        parts: [Option<u64>; 5],
    ) -> RecordedPool {
        let [total, free, reserved, surplus, overcommit] = parts;
        RecordedPool { page_kib, node, total, free, reserved, surplus, overcommit }
    }
}

prop_compose! {
    pub(crate) fn any_sample()(
        wall: i64,
        uptime: u64,
        values in prop::collection::vec(any::<Option<u64>>(), FIELDS),
        pools in prop::collection::vec(any_pool(), 0..12),
    ) -> HostSample {
        let mut sample = HostSample { wall, uptime, ..HostSample::default() };
        for (field, value) in Field::ALL.iter().zip(values) {
            if let Some(value) = value {
                sample.set(*field, value);
            }
        }
        for pool in pools {
            sample.push_pool(pool);
        }
        sample
    }
}

proptest! {
    #[test]
    fn what_was_put_is_taken_whatever_was_before(before: bool, one in any_sample(), two in any_sample()) {
        let before = before.then_some(&one);
        let mut room = [0; 4000];
        let mut put = VarintWriter::new(&mut room);
        two.encode(before, &mut put);
        let used = put.bytes_written().unwrap();
        let mut take = VarintReader::new(&room[..used]);
        let mut read = one.clone();
        prop_assert_eq!(read.decode(before, &mut take), Some(()));
        prop_assert_eq!(read.known_fields().collect::<Vec<_>>(), two.known_fields().collect::<Vec<_>>());
        prop_assert_eq!((read.pools(), read.wall, read.uptime), (two.pools(), two.wall, two.uptime));
        prop_assert!(take.is_empty());
    }

    #[test]
    fn any_bytes_are_a_sample_or_none(bytes: Vec<u8>) {
        let _ = HostSample::default().decode(None, &mut VarintReader::new(&bytes));
    }
}

#[test]
fn absent_is_not_zero() {
    let mut sample = HostSample::default();
    assert_eq!(sample.get(Field::MemFree), None);
    sample.set(Field::MemFree, 0);
    sample.add(Field::AllocStall, 3);
    sample.add(Field::AllocStall, 4);
    assert_eq!((sample.get(Field::MemFree), sample.get(Field::AllocStall)), (Some(0), Some(7)));
    assert_eq!(sample.known_fields().count(), 2);
    sample.clear();
    assert_eq!(sample.known_fields().count(), 0);
}
