//! Processor times: what all processors together did between two samples.

use crate::Metric;
use crate::readers::bytes::u64_at;

/// A counter that falls from above here has overflowed; sysstat draws the same line.
const NEAR_OVERFLOW: u64 = u64::MAX - 0x7ffff;

/// One processor's ticks since boot. User and nice include the guests'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTicks {
    user: u64,
    nice: u64,
    system: u64,
    idle: u64,
    iowait: u64,
    steal: u64,
    irq: u64,
    softirq: u64,
    guest: u64,
    guest_nice: u64,
}

impl CpuTicks {
    /// 8-byte fields so far apart, in sysstat's order; older kernels and versions have fewer.
    pub(super) fn read(item: &[u8], fields: usize, apart: usize) -> Self {
        let field = |index: usize| {
            if index < fields { u64_at(item, index * apart).unwrap_or(0) } else { 0 }
        };
        Self {
            user: field(0),
            nice: field(1),
            system: field(2),
            idle: field(3),
            iowait: field(4),
            steal: field(5),
            irq: field(6),
            softirq: field(7),
            guest: field(8),
            guest_nice: field(9),
        }
    }

    fn total(&self) -> u64 {
        [
            self.user,
            self.nice,
            self.system,
            self.idle,
            self.iowait,
            self.steal,
            self.irq,
            self.softirq,
        ]
        .into_iter()
        .fold(0, u64::wrapping_add)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTimeDelta {
    total: i64,
    user: i64,
    nice: i64,
    system: i64,
    idle: i64,
    iowait: i64,
    steal: i64,
    irq: i64,
    softirq: i64,
    guest: i64,
}

impl CpuTimeDelta {
    fn add(&mut self, now: &CpuTicks, before: &CpuTicks) {
        let mut before = *before;
        // Guest time may be booked before the user time that it is part of.
        let mut booked_late = 0_u64;
        for (whole, part, earlier) in [
            (now.user, now.guest, before.user.wrapping_sub(before.guest)),
            (now.nice, now.guest_nice, before.nice.wrapping_sub(before.guest_nice)),
        ] {
            let own = whole.wrapping_sub(part);
            if own < earlier {
                booked_late = booked_late.wrapping_add(earlier.wrapping_sub(own));
            }
        }
        // The kernel moves time from iowait to idle; where idle fell too, the processor was offline
        // and counts anew.
        if now.iowait < before.iowait && before.iowait < NEAR_OVERFLOW {
            let moved = now.idle > before.idle || before.idle >= NEAR_OVERFLOW;
            before.iowait = if moved { now.iowait } else { 0 };
        }
        if now.idle < before.idle && before.idle < NEAR_OVERFLOW {
            before.idle = 0;
        }
        let add = |sum: &mut i64, now: u64, before: u64| {
            *sum = sum.wrapping_add(now.wrapping_sub(before).cast_signed());
        };
        add(&mut self.total, now.total().wrapping_add(booked_late), before.total());
        add(&mut self.user, now.user, before.user);
        add(&mut self.nice, now.nice, before.nice);
        add(&mut self.system, now.system, before.system);
        add(&mut self.idle, now.idle, before.idle);
        add(&mut self.iowait, now.iowait, before.iowait);
        add(&mut self.steal, now.steal, before.steal);
        add(&mut self.irq, now.irq, before.irq);
        add(&mut self.softirq, now.softirq, before.softirq);
        add(&mut self.guest, now.guest, before.guest);
    }

    fn report_percentages(&self, mut set: impl FnMut(Metric, f64)) {
        if self.total <= 0 {
            return;
        }
        #[allow(clippy::cast_precision_loss)]
        let mut part =
            |metric, ticks: i64| set(metric, ticks.max(0) as f64 / self.total as f64 * 100.0);
        part(Metric::CpuUser, self.user);
        part(Metric::CpuNice, self.nice);
        part(Metric::CpuSystem, self.system.wrapping_add(self.irq).wrapping_add(self.softirq));
        part(Metric::CpuIowait, self.iowait);
        part(Metric::CpuSteal, self.steal);
        part(Metric::CpuIdle, self.idle);
        part(Metric::CpuIrq, self.irq);
        part(Metric::CpuSoftirq, self.softirq);
        part(Metric::CpuGuest, self.guest);
    }
}

/// The first item is all processors together, and the only one without SMP.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuSample {
    items: Vec<CpuTicks>,
}

impl CpuSample {
    pub(super) fn clear(&mut self) {
        self.items.clear();
    }

    pub(super) fn push(&mut self, ticks: CpuTicks) {
        self.items.push(ticks);
    }

    /// Offline processors have no line in /proc/stat, and no ticks.
    fn online_count(&self) -> usize {
        match self.items.as_slice() {
            [] => 0,
            [_] => 1,
            [_, each @ ..] => each.iter().filter(|ticks| ticks.total() > 0).count(),
        }
    }

    /// Sets what was used since `before`, and keeps the ticks of processors that are offline now.
    pub(super) fn report_usage_since(
        &mut self,
        before: Option<&Self>,
        mut set: impl FnMut(Metric, f64),
    ) {
        let online = self.online_count();
        if let Some(online) = u32::try_from(online).ok().filter(|online| *online > 0) {
            set(Metric::Processors, f64::from(online));
        }
        let Some(before) = before else { return };
        let mut spent = CpuTimeDelta::default();
        if let ([now], [earlier]) = (self.items.as_slice(), before.items.as_slice()) {
            spent.add(now, earlier);
        }
        if self.items.len() < before.items.len() {
            self.items.resize(before.items.len(), CpuTicks::default());
        }
        for (now, earlier) in self.items.iter_mut().zip(&before.items).skip(1) {
            if now.total() == 0 {
                *now = *earlier;
            }
            // A processor that came online has nothing to be compared with.
            if earlier.total() > 0 {
                spent.add(now, earlier);
            }
        }
        spent.report_percentages(set);
    }
}
