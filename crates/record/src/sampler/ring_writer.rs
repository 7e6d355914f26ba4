//! The block of a ring that is being filled, and its way to the writing thread.

use std::sync::{PoisonError, TryLockError};

use super::budget::MessageBudget;
use super::message_text::compose_message;
use super::{Backlog, Shared};
use crate::notes::{RecordedEvent, RecordedEventKind};
use crate::ring::{BLOCK, BlockWriter, RingRecord};

/// Age of the first sample at which a block of seconds is closed, as a torn block loses all of it.
pub(crate) const CLOSE_MS: u64 = 4_000;
/// Messages of a kind in a minute in the ring of seconds: a third of its samples' room.
const MOST_A_MINUTE: u32 = 60;
/// Messages of a kind in an hour in the ring of minutes: a fifteenth.
const MOST_AN_HOUR: u32 = 20;

pub(crate) struct RingWriter {
    writer: BlockWriter,
    place: usize,
    /// Age at which a block with room is closed; never for minutes.
    close_ms: Option<u64>,
    budget: MessageBudget,
    stretch: &'static str,
    /// A closed block that could not be handed over, as the other thread held the backlog.
    waiting: Box<[u8; BLOCK]>,
    waits: Option<u64>,
    lost: u64,
}

impl RingWriter {
    pub(crate) fn for_seconds(ring: u64, run: u64, next: u64) -> Self {
        Self {
            writer: BlockWriter::new(ring, run, next),
            place: 0,
            close_ms: Some(CLOSE_MS),
            budget: MessageBudget::new(MOST_A_MINUTE, 60_000),
            stretch: "minute",
            // Not zeros, for which the kernel would allocate no memory before use.
            waiting: Box::new([1; BLOCK]),
            waits: None,
            lost: 0,
        }
    }

    pub(crate) fn for_minutes(ring: u64, run: u64, next: u64) -> Self {
        Self {
            place: 1,
            close_ms: None,
            budget: MessageBudget::new(MOST_AN_HOUR, 3_600_000),
            stretch: "hour",
            ..Self::for_seconds(ring, run, next)
        }
    }

    pub(super) fn push(&mut self, shared: &Shared, wall: i64, record: &RingRecord<'_>) {
        if let RingRecord::Sample(sample) = record
            && self.close_ms.is_some_and(|most| self.writer.age_at_uptime(sample.uptime) >= most)
        {
            self.close_block(shared);
        }
        if !self.writer.push(wall, record) {
            self.close_block(shared);
            // Every record fits into an empty block.
            self.writer.push(wall, record);
        }
    }

    /// Keeps a message, or counts it where there were many of its kind.
    pub(super) fn admit_event(&mut self, shared: &Shared, uptime: u64, event: &RecordedEvent) {
        self.tell_left_out(shared, uptime);
        if self.budget.admit_message(event.kind) {
            self.push(shared, event.wall, &RingRecord::Event(event));
        }
    }

    pub(super) fn tell_left_out(&mut self, shared: &Shared, uptime: u64) {
        let Some(left_out) = self.budget.end_stretch(uptime) else { return };
        for (kind, number) in
            RecordedEventKind::ALL.iter().zip(left_out).filter(|(_, number)| *number > 0)
        {
            let wall = super::wall_clock_ms();
            let words =
                [" more messages (", kind.name(), ") in the last ", self.stretch, " were not kept"];
            let event = compose_message(wall, number.into(), &words);
            self.push(shared, wall, &RingRecord::Event(&event));
        }
    }

    fn close_block(&mut self, shared: &Shared) {
        self.hand_over(shared, true);
        self.writer.next();
    }

    /// Leaves the block's present state for the writing thread. While that holds the backlog, a
    /// block that still grows is left the next time; a closed one is kept until then.
    pub(super) fn hand_over(&mut self, shared: &Shared, closed: bool) {
        if self.writer.is_empty() {
            return;
        }
        let mut backlogs = match shared.backlogs.try_lock() {
            Ok(backlogs) => backlogs,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if closed {
                    self.lost += u64::from(self.waits.is_some());
                    self.waits = Some(self.writer.sequence());
                    self.waiting.copy_from_slice(self.writer.seal_block(true));
                }
                return;
            }
        };
        self.put_blocks(&mut backlogs, closed);
    }

    fn put_blocks(&mut self, backlogs: &mut [Backlog; 2], closed: bool) {
        let Some(backlog) = backlogs.get_mut(self.place) else { return };
        if let Some(sequence) = self.waits.take() {
            backlog.put_block(sequence, &self.waiting);
        }
        backlog.put_block(self.writer.sequence(), self.writer.seal_block(closed));
    }

    /// Waits for the other thread.
    pub(super) fn finish(&mut self, shared: &Shared, words: &RecordedEvent) {
        self.tell_left_out(shared, u64::MAX);
        self.push(shared, words.wall, &RingRecord::Event(words));
        self.put_blocks(&mut shared.backlogs.lock().unwrap_or_else(PoisonError::into_inner), true);
    }

    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    #[cfg(test)]
    pub(super) fn sequence(&self) -> u64 {
        self.writer.sequence()
    }

    #[cfg(test)]
    pub(super) fn close_after(&mut self, milliseconds: u64) {
        self.close_ms = Some(milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::ring::PAYLOAD;
    use crate::{Field, HostSample};

    fn new_shared() -> Shared {
        Shared::new([Backlog::new(4), Backlog::new(4)], Arc::new(AtomicBool::new(false)))
    }

    fn oom_kill_event() -> RecordedEvent {
        let mut text = b"Memory cgroup out of memory: Killed process 9 (x) total-vm:1kB ".to_vec();
        text.resize(320, b'.');
        RecordedEvent::new(0, RecordedEventKind::OutOfMemory, &text)
    }

    /// The blocks that an hour takes in which the kernel says that 20 times a second.
    fn blocks_of_a_flood(ring: &mut RingWriter, per_second: u64) -> u64 {
        let (shared, event) = (new_shared(), oom_kill_event());
        for tenth in 0..36_000_u64 {
            for _ in 0..per_second / 10 {
                ring.admit_event(&shared, 1_000_000 + tenth * 100, &event);
            }
        }
        ring.sequence() + 1
    }

    /// By hand: a message takes 3 bytes of head and at most 10 + 1 + 2 + 320 of content, 12 of them
    /// a block of 4,048. 72,000 of them in an hour took 6,000 blocks, and the 21,600 of 30 days
    /// were gone within four hours. 20 and the count of the rest take 2 blocks beside the 30 of an
    /// hour's samples; 60 a minute and their count 6 a minute beside the 15 of its samples.
    #[test]
    fn messages_without_end_take_a_part_of_a_ring_alone() {
        assert_eq!(PAYLOAD / (3 + 10 + 1 + 2 + 320), 12);
        let minutes = blocks_of_a_flood(&mut RingWriter::for_minutes(1, 1, 0), 20);
        assert!(minutes <= 2, "{minutes} blocks an hour");
        let seconds = blocks_of_a_flood(&mut RingWriter::for_seconds(1, 1, 0), 1000);
        assert!((240..=60 * 6).contains(&seconds), "{seconds} blocks an hour");
    }

    /// Other kinds are heard meanwhile, and what was left out is counted to the last one.
    #[test]
    fn what_is_left_out_is_counted_and_other_kinds_are_kept() {
        let (shared, mut ring) = (new_shared(), RingWriter::for_minutes(1, 1, 0));
        for _ in 0..120 {
            ring.admit_event(
                &shared,
                5_000,
                &RecordedEvent::new(0, RecordedEventKind::OutOfMemory, b"killed"),
            );
        }
        ring.admit_event(
            &shared,
            5_000,
            &RecordedEvent::new(0, RecordedEventKind::HungTask, b"hung"),
        );
        ring.tell_left_out(&shared, 3_604_999);
        let texts = |ring: &mut RingWriter| {
            let events = crate::ring::events_in_block(ring.writer.seal_block(false), 1);
            events.iter().map(RecordedEvent::to_text).collect::<Vec<_>>()
        };
        let kept = texts(&mut ring);
        assert_eq!((kept.len(), kept.last().unwrap().as_str()), (21, "hung"));
        ring.tell_left_out(&shared, 3_605_000);
        assert_eq!(
            texts(&mut ring).last().unwrap(),
            "100 more messages (out-of-memory) in the last hour were not kept"
        );
        ring.admit_event(
            &shared,
            3_605_000,
            &RecordedEvent::new(0, RecordedEventKind::OutOfMemory, b"killed again"),
        );
        assert_eq!(texts(&mut ring).last().unwrap(), "killed again");
    }

    /// While the thread that writes is at the backlog nothing waits, and the block that was closed
    /// meanwhile comes the next time.
    #[test]
    fn nobody_waits_for_the_thread_that_writes() {
        let (shared, mut ring) = (new_shared(), RingWriter::for_seconds(1, 1, 0));
        let mut sample = HostSample::default();
        sample.set(Field::MemFree, 1);
        let held = shared.backlogs.lock().unwrap();
        for second in 0..6 {
            sample.uptime = second * 1000;
            ring.push(&shared, 0, &RingRecord::Sample(&sample));
            ring.hand_over(&shared, false);
        }
        assert_eq!((ring.sequence(), ring.waits, ring.lost), (1, Some(0), 0));
        drop(held);
        ring.hand_over(&shared, false);
        let mut bytes = [0; BLOCK];
        let mut next = || shared.backlogs.lock().unwrap()[0].next(&mut bytes);
        assert_eq!([next(), next(), next()], [Some(0), Some(1), None]);
        let held = shared.backlogs.lock().unwrap();
        for second in 6..20 {
            sample.uptime = second * 1000;
            ring.push(&shared, 0, &RingRecord::Sample(&sample));
        }
        drop(held);
        assert_eq!((ring.take_lost(), ring.take_lost()), (2, 0));
    }
}
