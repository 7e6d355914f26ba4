//! How many messages a ring takes: a user can have the kernel print some without end, and what is new takes the place of what is
//! old.

use crate::notes::{EventKind, KINDS};

/// So many messages of each kind in a stretch of time; those beyond are counted.
#[derive(Debug)]
pub(super) struct Budget {
    most: u32,
    stretch_ms: u64,
    /// When the stretch at hand ends, in milliseconds since the boot.
    ends: u64,
    kept: [u32; KINDS],
    left_out: [u32; KINDS],
}

impl Budget {
    pub(super) const fn new(most: u32, stretch_ms: u64) -> Self {
        Self { most, stretch_ms, ends: 0, kept: [0; KINDS], left_out: [0; KINDS] }
    }

    /// What was left out of each kind, where the stretch is over, and begins another one.
    pub(super) fn over(&mut self, uptime: u64) -> Option<[u32; KINDS]> {
        if uptime < self.ends {
            return None;
        }
        self.ends = uptime.saturating_add(self.stretch_ms);
        self.kept = [0; KINDS];
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether one more of a kind is kept.
    pub(super) fn takes(&mut self, kind: EventKind) -> bool {
        let (Some(kept), Some(left_out)) = (self.kept.get_mut(kind.index()), self.left_out.get_mut(kind.index()))
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
