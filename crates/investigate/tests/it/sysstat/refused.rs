//! What is not read is refused with the reason.

use super::{fixture, read};

fn refusal(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

#[test]
fn files_of_other_machines_and_tools_are_refused_by_name() {
    let new = fixture("12.6.1.xz");
    let mut swapped = new.clone();
    swapped[..4].copy_from_slice(&[0xd5, 0x96, 0x21, 0x75]);
    assert!(refusal(&swapped).contains("big-endian"));

    // `sa_sizeof_long` behind the day and the month, in each header's place.
    for (version, place) in [
        ("9.1.5", 23),
        ("10.1.5", 23),
        ("11.0.8", 76 + 23),
        ("11.7.4", 76 + 16 + 44 + 2),
        ("12.6.1", 76 + 16 + 48 + 2),
    ] {
        let mut narrow = fixture(&format!("{version}.xz"));
        assert_eq!(narrow[place], 8, "{version}");
        narrow[place] = 4;
        assert!(refusal(&narrow).contains("32-bit"), "{version}");
        narrow[place] = 3;
        assert!(refusal(&narrow).contains("makes no sense"), "{version}");
    }

    let mut later = new.clone();
    later[2] = 0x76;
    assert_eq!(
        refusal(&later),
        "is a sysstat file of format 0x2176 (sysstat 12.6.1), which is not known"
    );

    // sysstat 7: the time, an interval and counts come before its magic.
    let mut rhel5 = vec![0; 4096];
    rhel5[..4].copy_from_slice(&1_348_122_601_u32.to_le_bytes());
    rhel5[36..38].copy_from_slice(&0x2169_u16.to_le_bytes());
    assert!(refusal(&rhel5).contains("RHEL 5"));

    assert_eq!(refusal(b"12:00:01 AM  CPU  %user\n"), "is not a sysstat file");
    assert_eq!(refusal(b""), "is too short for a sysstat file");
}

#[test]
fn a_head_that_makes_no_sense_is_refused() {
    let new = fixture("12.6.1.xz");
    let narrow = 76 + 16;
    for (what, place, value) in [
        ("length", 8, 0),
        ("length", 8, 1 << 20),
        ("fields", 16, 1000),
        ("fields", 24, 1000),
        ("activities", narrow + 4, 0),
        ("activities", narrow + 4, 100_000),
        ("activities too short", narrow + 36, 20),
        ("bounds", narrow + 36, 1 << 30),
        ("type", narrow + 40, 8),
        ("bounds", narrow + 40, 1 << 20),
    ] {
        let mut bytes = new.clone();
        bytes[place..place + 4].copy_from_slice(&u32::to_le_bytes(value));
        let refusal = refusal(&bytes);
        assert!(refusal.contains("makes no sense") && refusal.contains(what), "{place}: {refusal}");
    }
    let first = 76 + usize::from(new[8]) + 256 * usize::from(new[9]);
    // Items, subitems, size, fields beyond the size.
    for (field, value) in [(2, u32::MAX), (3, 0), (3, 1 << 20), (5, 0), (5, 1 << 20), (6, 1 << 10)]
    {
        let mut bytes = new.clone();
        let place = first + 4 * field;
        bytes[place..place + 4].copy_from_slice(&u32::to_le_bytes(value));
        assert!(refusal(&bytes).contains("an activity"), "{field}");
    }
}
