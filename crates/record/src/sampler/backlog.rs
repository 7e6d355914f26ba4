//! Blocks on their way to the disk: a queue of fixed room, so that a disk that does not answer stops nothing but itself.

use std::collections::VecDeque;

use crate::ring::BLOCK;

struct Slot {
    sequence: u64,
    /// It is not on the disk as it is here.
    waits: bool,
    bytes: Box<[u8; BLOCK]>,
}

/// The blocks of one ring that are not written yet, and the newest one, which still grows.
pub(crate) struct Backlog {
    slots: VecDeque<Slot>,
    /// Room for slots that are empty.
    spare: Vec<Slot>,
    lost: u64,
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks, {} lost", self.slots.len(), self.lost)
    }
}

impl Backlog {
    /// With room for so many blocks.
    pub(crate) fn new(room: usize) -> Self {
        let empty = || Slot { sequence: 0, waits: false, bytes: Box::new([1; BLOCK]) };
        Self { slots: VecDeque::with_capacity(room), spare: (0..room).map(|_| empty()).collect(), lost: 0 }
    }

    /// Takes a block, or the same one again as it is by now. Where there is no room the oldest is lost.
    pub(crate) fn put(&mut self, sequence: u64, bytes: &[u8; BLOCK]) {
        if let Some(last) = self.slots.back_mut().filter(|last| last.sequence == sequence) {
            last.bytes.copy_from_slice(bytes);
            last.waits = true;
            return;
        }
        if self.spare.is_empty()
            && let Some(oldest) = self.slots.pop_front()
        {
            self.lost += u64::from(oldest.waits);
            self.spare.push(oldest);
        }
        if let Some(mut slot) = self.spare.pop() {
            slot.sequence = sequence;
            slot.waits = true;
            slot.bytes.copy_from_slice(bytes);
            self.slots.push_back(slot);
        }
    }

    /// Copies the oldest block that is to be written.
    pub(crate) fn next(&mut self, into: &mut [u8; BLOCK]) -> Option<u64> {
        // What is on the disk and grows no longer has done its work.
        while self.slots.len() > 1 && self.slots.front().is_some_and(|slot| !slot.waits) {
            self.spare.extend(self.slots.pop_front());
        }
        let slot = self.slots.front_mut().filter(|slot| slot.waits)?;
        slot.waits = false;
        into.copy_from_slice(&*slot.bytes);
        Some(slot.sequence)
    }

    /// A block could not be written: it is to be tried again.
    pub(crate) fn back(&mut self, sequence: u64) {
        if let Some(slot) = self.slots.front_mut().filter(|slot| slot.sequence == sequence) {
            slot.waits = true;
        }
    }

    /// Blocks that were lost since this was asked last.
    pub(crate) fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Whether nothing is to be written.
    pub(crate) fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| !slot.waits)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn block(fill: u8) -> [u8; BLOCK] {
        [fill; BLOCK]
    }

    #[test]
    fn blocks_come_out_in_order_and_one_that_grows_comes_again() {
        let (mut backlog, mut out) = (Backlog::new(4), block(0));
        assert_eq!(backlog.next(&mut out), None);
        backlog.put(7, &block(1));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 1));
        assert_eq!(backlog.next(&mut out), None);
        backlog.put(7, &block(2));
        backlog.put(8, &block(3));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 2));
        backlog.back(7);
        assert!(!backlog.is_done());
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 2));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(8), 3));
        assert!(backlog.next(&mut out).is_none() && backlog.is_done());
        assert_eq!(backlog.lost(), 0);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_the_oldest_and_that_is_counted() {
        let (mut backlog, mut out) = (Backlog::new(4), block(0));
        for sequence in 0..10 {
            backlog.put(sequence, &block(u8::try_from(sequence).unwrap()));
        }
        assert_eq!((backlog.lost(), backlog.lost()), (6, 0));
        let left: Vec<_> = std::iter::from_fn(|| backlog.next(&mut out)).collect();
        assert_eq!(left, [6, 7, 8, 9]);
        // One that was taken to be written and was dropped meanwhile does not come back in another's place.
        for sequence in 10..20 {
            backlog.put(sequence, &block(0));
        }
        let taken = backlog.next(&mut out).unwrap();
        for sequence in 20..30 {
            backlog.put(sequence, &block(0));
        }
        backlog.back(taken);
        assert_eq!(backlog.next(&mut out), Some(26));
    }
}
