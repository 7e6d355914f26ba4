//! A host's memory over the last hours, in a ring of bounded size.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hugewise_host::kernel::stat::ProcStat;
use hugewise_model::{Bytes, Instance, PageCount, Pool};
use hugewise_report::json::history::{HistoryPoint, InstancePoint, PoolPoint};

use crate::HostReading;

/// A point has no more instances than this: the first by engine and name.
const MOST_INSTANCES: usize = 32;
/// arm64 kernels offer four sizes, x86-64 two.
const MOST_POOLS: usize = 8;

/// How far back a history goes, and how fine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// The shortest time between two points.
    pub gap: Duration,
    /// The most points that are kept.
    pub points: usize,
}

/// Six hours in steps of 15 seconds: at 40 bytes a pool and 48 an instance, 3 MiB at most.
impl Default for HistorySpan {
    fn default() -> Self {
        Self { gap: Duration::from_secs(15), points: 1440 }
    }
}

#[derive(Debug)]
pub(crate) struct ReadingHistory {
    span: HistorySpan,
    points: VecDeque<Arc<HistoryPoint>>,
    last: Option<(Instant, Option<ProcStat>)>,
    /// Titles of points, so that each is in memory once.
    titles: Vec<Arc<str>>,
}

impl ReadingHistory {
    pub(crate) fn new(span: HistorySpan) -> Self {
        let span = HistorySpan { points: span.points.max(1), ..span };
        Self { span, points: VecDeque::new(), last: None, titles: Vec::new() }
    }

    pub(crate) const fn span(&self) -> HistorySpan {
        self.span
    }

    pub(crate) fn points(&self) -> Vec<Arc<HistoryPoint>> {
        self.points.iter().cloned().collect()
    }

    /// Adds a point, unless the last one is too recent.
    pub(crate) fn add(&mut self, reading: &HostReading) -> Option<Arc<HistoryPoint>> {
        // A reading on a schedule may be a little early.
        let least = self.span.gap.saturating_sub(self.span.gap / 10);
        if self.last.is_some_and(|(at, _)| reading.taken.saturating_duration_since(at) < least) {
            return None;
        }
        let stat = reading.stat.get();
        let before = self.last.and_then(|(_, stat)| stat);
        self.last = Some((reading.taken, stat));
        let point = Arc::new(self.build_point(reading, before));
        if self.points.len() >= self.span.points {
            self.points.pop_front();
        }
        self.points.push_back(Arc::clone(&point));
        self.titles.retain(|title| Arc::strong_count(title) > 1);
        Some(point)
    }

    fn build_point(&mut self, reading: &HostReading, before: Option<ProcStat>) -> HistoryPoint {
        let memory = &reading.host.memory;
        let told: Vec<u64> =
            reading.instances.iter().filter_map(|instance| instance.sessions.get()).collect();
        let pools = reading.host.pools.as_known().into_iter().flatten();
        let instances =
            reading.instances.iter().filter(|instance| !instance.is_stopped()).take(MOST_INSTANCES);
        HistoryPoint {
            at: reading.host.read_at.get(),
            page_tables_bytes: memory.page_tables.get().map(Bytes::get),
            memory_available_bytes: memory.available.get().map(Bytes::get),
            kernel_cpu: before
                .zip(reading.stat.get())
                .and_then(|(before, now)| kernel_part(&before, &now)),
            sessions: (!told.is_empty())
                .then(|| told.iter().fold(0_u64, |all, one| all.saturating_add(*one))),
            pools: pools.take(MOST_POOLS).map(build_pool_point).collect(),
            instances: instances.map(|instance| self.build_instance_point(instance)).collect(),
        }
    }

    fn build_instance_point(&mut self, instance: &Instance) -> InstancePoint {
        let title = instance.title();
        let known = self.titles.iter().find(|known| ***known == *title).cloned();
        let title = known.unwrap_or_else(|| {
            let title: Arc<str> = title.into();
            self.titles.push(Arc::clone(&title));
            title
        });
        InstancePoint {
            instance: title,
            sessions: instance.sessions.get(),
            page_tables_bytes: instance.page_tables.get().map(Bytes::get),
        }
    }
}

fn build_pool_point(pool: &Pool) -> PoolPoint {
    PoolPoint {
        page_bytes: pool.page_size.into(),
        total_pages: pool.total.get().map(PageCount::get),
        committed_pages: pool.committed_pages().map(PageCount::get),
        available_pages: pool.available_pages().map(PageCount::get),
    }
}

#[allow(clippy::cast_precision_loss, reason = "ticks between two points are far below 2^52")]
fn kernel_part(before: &ProcStat, now: &ProcStat) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let kernel = now.system.saturating_sub(before.system).min(all);
    Some(kernel as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing;

    fn at(seconds: u64, stat: Option<ProcStat>, begun: Instant) -> HostReading {
        let mut reading = testing::reading();
        reading.taken = begun + Duration::from_secs(seconds);
        reading.stat = stat.map_or(Observed::Absent, Observed::Known);
        reading
    }

    #[test]
    fn points_are_no_nearer_than_the_gap_and_the_oldest_go_first() {
        let mut history =
            ReadingHistory::new(HistorySpan { gap: Duration::from_secs(10), points: 3 });
        let begun = Instant::now();
        let kept: Vec<bool> = [0, 1, 9, 10, 15, 19, 28, 60]
            .map(|seconds| history.add(&at(seconds, None, begun)).is_some())
            .into();
        // Nine seconds after the last one is near enough to a schedule of ten.
        assert_eq!(kept, [true, false, true, false, false, true, true, true]);
        assert_eq!(history.points().len(), 3);
        assert_eq!(
            ReadingHistory::new(HistorySpan { points: 0, ..HistorySpan::default() }).span().points,
            1
        );
    }

    #[test]
    fn the_kernels_part_is_that_since_the_point_before() {
        let mut history = ReadingHistory::new(HistorySpan { gap: Duration::ZERO, points: 9 });
        let begun = Instant::now();
        let stat = |all, system| Some(ProcStat { all, system, ..ProcStat::default() });
        let mut part = |seconds, stat| history.add(&at(seconds, stat, begun)).unwrap().kernel_cpu;
        assert_eq!(part(0, stat(1000, 100)), None);
        assert_eq!(part(1, stat(1200, 150)), Some(0.25));
        assert_eq!(part(2, stat(1200, 150)), None, "no tick has passed");
        assert_eq!(part(3, None), None);
        assert_eq!(part(4, stat(1, 1)), None);
        assert_eq!(part(5, stat(0, 0)), None, "the clock of a restored machine");
    }

    #[test]
    fn a_title_stands_in_memory_once_and_goes_with_its_last_point() {
        let mut history = ReadingHistory::new(HistorySpan { gap: Duration::ZERO, points: 2 });
        let begun = Instant::now();
        let mut reading = at(0, None, begun);
        reading.instances = vec![testing::instance("PROD"), testing::instance("TEST")];
        let first = history.add(&reading).unwrap();
        let second = history.add(&reading).unwrap();
        assert!(Arc::ptr_eq(&first.instances[0].instance, &second.instances[0].instance));
        drop((first, second));
        reading.instances = vec![testing::instance("PROD")];
        history.add(&reading);
        history.add(&reading);
        history.add(&reading);
        assert_eq!(history.titles, ["oracle PROD".into()]);
    }

    #[test]
    fn sessions_of_servers_that_do_not_tell_are_not_zero() {
        let mut history = ReadingHistory::new(HistorySpan { gap: Duration::ZERO, points: 9 });
        let mut reading = at(0, None, Instant::now());
        reading.instances = vec![testing::instance("PROD"), testing::instance("TEST")];
        assert_eq!(history.add(&reading).unwrap().sessions, None);
        reading.instances[1].sessions = Observed::Known(7);
        assert_eq!(history.add(&reading).unwrap().sessions, Some(7));
        reading.instances = (0..100).map(|number| testing::instance(&number.to_string())).collect();
        assert_eq!(history.add(&reading).unwrap().instances.len(), MOST_INSTANCES);
    }
}
