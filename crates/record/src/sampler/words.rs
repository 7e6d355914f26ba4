//! The recorder's own words, put together without an allocation.

use crate::notes::{Event, EventKind, LONGEST_MESSAGE};

/// A number and words behind it.
pub(super) fn worded(wall: i64, number: u64, words: &[&str]) -> Event {
    let mut room = [0; LONGEST_MESSAGE];
    let mut rest = &mut room[..];
    let mut length = 0;
    let mut put = |text: &str| {
        let taken = std::mem::take(&mut rest);
        let fits = text.len().min(taken.len());
        let (here, behind) = taken.split_at_mut(fits);
        here.copy_from_slice(text.as_bytes().get(..fits).unwrap_or_default());
        length += fits;
        rest = behind;
    };
    let mut digits = [0_u8; 20];
    put(decimal(number, &mut digits));
    for word in words {
        put(word);
    }
    Event::new(wall, EventKind::Recorder, room.get(..length).unwrap_or_default())
}

fn decimal(mut number: u64, room: &mut [u8; 20]) -> &str {
    let mut begin = room.len();
    loop {
        begin -= 1;
        if let Some(place) = room.get_mut(begin) {
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        }
        number /= 10;
        if number == 0 || begin == 0 {
            break;
        }
    }
    std::str::from_utf8(room.get(begin..).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_an_allocation() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string());
        }
        assert_eq!(worded(5, 12, &[" a", " b"]), Event::new(5, EventKind::Recorder, b"12 a b"));
        assert_eq!(worded(5, 12, &[&"x".repeat(1000)]).bytes().len(), LONGEST_MESSAGE);
    }
}
