//! /proc/PID/statm: touched memory on kernels before 4.5, without `RssAnon` and `RssShmem`.

use hugewise_model::{Bytes, PageSize};

use hugewise_source::ParseError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resident {
    pub(super) anonymous: Bytes,
    /// Files and shared memory: System V segments, but no hugetlb pages (fs/proc/task_mmu.c of
    /// Linux 2.6.18 to 4.4, task_statm).
    pub(super) shared: Bytes,
}

pub(super) fn parse(bytes: &[u8], base: PageSize) -> Result<Resident, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut numbers = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(resident)), Some(Ok(shared))) => {
            let bytes = |pages: u64| Bytes(pages.saturating_mul(base.bytes().get()));
            Ok(Resident {
                anonymous: bytes(resident.saturating_sub(shared)),
                shared: bytes(shared),
            })
        }
        _ => Err(ParseError::at_line(1, "no sizes in pages")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_what_is_not_shared() {
        // 5,345,000 pages of an SGA of 20 GiB and 30,000 of files; 2,000 pages of its own.
        let read = parse(b"5500000 5377000 5375000 45000 0 9000 0\n", PageSize::KIB_4).unwrap();
        assert_eq!((read.anonymous, read.shared), (Bytes(2_000 << 12), Bytes(5_375_000 << 12)));
        assert_eq!(parse(b"1 2 3\n", PageSize::KIB_4).unwrap().anonymous, Bytes::ZERO);
        let no_sum = parse(b"1 18446744073709551615 1\n", PageSize::KIB_4).unwrap();
        assert_eq!(no_sum.anonymous, Bytes(u64::MAX));
        for wrong in ["", "1", "1 2", "1 a 3", "1 -2 3"] {
            assert!(parse(wrong.as_bytes(), PageSize::KIB_4).is_err(), "{wrong}");
        }
    }
}
