//! Blocks on their way to the disk: a queue of fixed size, so that an unresponsive disk stops only
//! itself.

use std::collections::VecDeque;

use crate::ring::BLOCK;

struct BacklogSlot {
    sequence: u64,
    waits: bool,
    bytes: Box<[u8; BLOCK]>,
}

/// The blocks of one ring that are not written yet, and the newest one, which still grows.
pub(crate) struct Backlog {
    slots: VecDeque<BacklogSlot>,
    spare: Vec<BacklogSlot>,
    lost: u64,
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks, {} lost", self.slots.len(), self.lost)
    }
}

impl Backlog {
    pub(crate) fn new(room: usize) -> Self {
        let empty = || BacklogSlot { sequence: 0, waits: false, bytes: Box::new([1; BLOCK]) };
        Self {
            slots: VecDeque::with_capacity(room),
            spare: (0..room).map(|_| empty()).collect(),
            lost: 0,
        }
    }

    /// Adds a block, or replaces the newest by its present state. Without room the oldest is lost.
    pub(crate) fn put_block(&mut self, sequence: u64, bytes: &[u8; BLOCK]) {
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

    pub(crate) fn next(&mut self, into: &mut [u8; BLOCK]) -> Option<u64> {
        // Written blocks that no longer grow are done.
        while self.slots.len() > 1 && self.slots.front().is_some_and(|slot| !slot.waits) {
            self.spare.extend(self.slots.pop_front());
        }
        let slot = self.slots.front_mut().filter(|slot| slot.waits)?;
        slot.waits = false;
        into.copy_from_slice(&*slot.bytes);
        Some(slot.sequence)
    }

    pub(crate) fn retry_block(&mut self, sequence: u64) {
        if let Some(slot) = self.slots.front_mut().filter(|slot| slot.sequence == sequence) {
            slot.waits = true;
        }
    }

    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| !slot.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled_block(fill: u8) -> [u8; BLOCK] {
        [fill; BLOCK]
    }

    #[test]
    fn blocks_come_out_in_order_and_one_that_grows_comes_again() {
        let (mut backlog, mut out) = (Backlog::new(4), filled_block(0));
        assert_eq!(backlog.next(&mut out), None);
        backlog.put_block(7, &filled_block(1));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 1));
        assert_eq!(backlog.next(&mut out), None);
        backlog.put_block(7, &filled_block(2));
        backlog.put_block(8, &filled_block(3));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 2));
        backlog.retry_block(7);
        assert!(!backlog.is_done());
        assert_eq!((backlog.next(&mut out), out[0]), (Some(7), 2));
        assert_eq!((backlog.next(&mut out), out[0]), (Some(8), 3));
        assert!(backlog.next(&mut out).is_none() && backlog.is_done());
        assert_eq!(backlog.take_lost(), 0);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_the_oldest_and_that_is_counted() {
        let (mut backlog, mut out) = (Backlog::new(4), filled_block(0));
        for sequence in 0..10 {
            backlog.put_block(sequence, &filled_block(u8::try_from(sequence).unwrap()));
        }
        assert_eq!((backlog.take_lost(), backlog.take_lost()), (6, 0));
        let left: Vec<_> = std::iter::from_fn(|| backlog.next(&mut out)).collect();
        assert_eq!(left, [6, 7, 8, 9]);
        // One that was taken to be written and was dropped meanwhile does not come back in
        // another's place.
        for sequence in 10..20 {
            backlog.put_block(sequence, &filled_block(0));
        }
        let taken = backlog.next(&mut out).unwrap();
        for sequence in 20..30 {
            backlog.put_block(sequence, &filled_block(0));
        }
        backlog.retry_block(taken);
        assert_eq!(backlog.next(&mut out), Some(26));
    }
}
