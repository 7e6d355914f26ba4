//! /proc/diskstats: the sums of all whole disks.

use super::{parse_number, split_words};
use crate::field::Field;
use crate::sample::HostSample;

/// The columns behind major, minor and name (Documentation/admin-guide/iostats.rst).
const COLUMNS: [(usize, Field); 7] = [
    (0, Field::DiskReads),
    (2, Field::DiskSectorsRead),
    (4, Field::DiskWrites),
    (6, Field::DiskSectorsWritten),
    (8, Field::DiskInFlight),
    (9, Field::DiskBusy),
    (10, Field::DiskWeighted),
];

pub(crate) fn read(text: &[u8], sample: &mut HostSample) {
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = split_words(line).skip(2);
        if !words.next().is_some_and(is_disk) {
            continue;
        }
        sample.add(Field::Disks, 1);
        let mut columns = COLUMNS.iter().peekable();
        for (column, word) in words.enumerate() {
            let Some((_, field)) = columns.next_if(|(index, _)| *index == column) else { continue };
            if let Some(value) = parse_number(word) {
                sample.add(*field, value);
            }
        }
    }
}

/// A disk, not a partition, nor what is made of disks (LVM, RAID, loops) or of memory.
fn is_disk(name: &[u8]) -> bool {
    let digits = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    let letters = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_lowercase);
    let behind = |prefix: &[u8]| name.strip_prefix(prefix);
    if [&b"sd"[..], b"vd", b"xvd", b"hd", b"dasd"]
        .iter()
        .any(|prefix| behind(prefix).is_some_and(letters))
    {
        return true;
    }
    // nvme0n1, and nvme0c0n1 for a path to it, which counts nothing.
    if let Some(rest) = behind(b"nvme") {
        return rest.splitn(2, |byte| *byte == b'n').map(digits).eq([true, true]);
    }
    [&b"mmcblk"[..], b"pmem"].iter().any(|prefix| behind(prefix).is_some_and(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_from_what_is_in_and_on_them() {
        for disk in ["sda", "sdaa", "vdb", "xvda", "nvme0n1", "nvme10n12", "mmcblk0", "dasda"] {
            assert!(is_disk(disk.as_bytes()), "{disk}");
        }
        for other in [
            "sda1",
            "dm-0",
            "md127",
            "loop3",
            "nvme0n1p2",
            "nvme0c1n1",
            "mmcblk0p1",
            "ram0",
            "zram0",
            "sr0",
            "",
        ] {
            assert!(!is_disk(other.as_bytes()), "{other}");
        }
        let mut sample = HostSample::default();
        read(
            b" 254 0 vda 10 1 80 5 20 2 160 9 1 14 30 0 0 0 0\n 254 1 vda1 9 1 80 5 20 2 160 9 1 \
                 14 30\n   8 0 sda 1 0 8 1 2 0 16 1 0 2 3\n",
            &mut sample,
        );
        let count_of = |field| sample.get(field);
        use Field::{
            DiskBusy, DiskInFlight, DiskReads, DiskSectorsRead, DiskSectorsWritten, DiskWeighted,
            DiskWrites, Disks,
        };
        assert_eq!(
            [
                Disks,
                DiskReads,
                DiskSectorsRead,
                DiskWrites,
                DiskSectorsWritten,
                DiskInFlight,
                DiskBusy,
                DiskWeighted
            ]
            .map(count_of),
            [2, 11, 88, 22, 176, 1, 16, 33].map(Some)
        );
    }
}
