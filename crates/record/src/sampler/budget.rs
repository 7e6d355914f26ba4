//! A limit for messages: a user can have the kernel print some without end, and they replace what
//! is older.

use crate::notes::{KINDS, RecordedEventKind};

/// So many messages of each kind in a period; those beyond are counted.
#[derive(Debug)]
pub(super) struct MessageBudget {
    most: u32,
    stretch_ms: u64,
    ends: u64,
    kept: [u32; KINDS],
    left_out: [u32; KINDS],
}

impl MessageBudget {
    pub(super) const fn new(most: u32, stretch_ms: u64) -> Self {
        Self { most, stretch_ms, ends: 0, kept: [0; KINDS], left_out: [0; KINDS] }
    }

    /// At the end of a period, what was left out of each kind; then begins another period.
    pub(super) fn end_stretch(&mut self, uptime: u64) -> Option<[u32; KINDS]> {
        if uptime < self.ends {
            return None;
        }
        self.ends = uptime.saturating_add(self.stretch_ms);
        self.kept = [0; KINDS];
        Some(std::mem::take(&mut self.left_out))
    }

    pub(super) fn admit_message(&mut self, kind: RecordedEventKind) -> bool {
        let (Some(kept), Some(left_out)) =
            (self.kept.get_mut(kind.index()), self.left_out.get_mut(kind.index()))
        else {
            return false;
        };
        if *kept < self.most {
            *kept += 1;
            return true;
        }
        *left_out = left_out.saturating_add(1);
        false
    }
}
