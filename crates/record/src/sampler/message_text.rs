//! The recorder's messages, composed without an allocation.

use std::io::Write;

use crate::notes::{LONGEST_MESSAGE, RecordedEvent, RecordedEventKind};

pub(super) fn compose_message(wall: i64, number: u64, words: &[&str]) -> RecordedEvent {
    let mut room = [0; LONGEST_MESSAGE];
    let mut rest = &mut room[..];
    // What does not fit is left out.
    let _ = write!(rest, "{number}")
        .and_then(|()| words.iter().try_for_each(|word| rest.write_all(word.as_bytes())));
    let length = LONGEST_MESSAGE - rest.len();
    RecordedEvent::new(wall, RecordedEventKind::Recorder, room.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_words_are_written_as_far_as_they_fit() {
        assert_eq!(
            compose_message(5, 12, &[" a", " b"]),
            RecordedEvent::new(5, RecordedEventKind::Recorder, b"12 a b")
        );
        assert_eq!(compose_message(5, 12, &[&"x".repeat(1000)]).as_bytes().len(), LONGEST_MESSAGE);
    }
}
