//! How much of a server's memory has been touched, at most. Mapping costs nothing: what the kernel
//! has really given tells how much counts of what anybody maps.

use hugewise_model::host::SysvSegment;
use hugewise_model::instance::{Segment, SegmentKind};
use hugewise_model::{Bytes, Host, Instance, Observed, Process};

use crate::each_known;
use crate::shared::segments;

/// The pages that a segment may be on, and how it is shared: the kernel counts each in a field of
/// its own of /proc/PID/status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Pages of a pool: `HugetlbPages`, which is no part of any RSS.
    Pool,
    /// Shared memory on base pages, or transparent huge pages: `RssShmem`.
    Shared,
    /// Private memory likewise: `RssAnon`.
    Private,
}

/// Of System V segments the kernel lists what is in memory, on whichever pages. Of all others no
/// process has touched more than its counters say, and all together no more than the host has.
pub(super) fn most_touched_bytes(host: &Host, instance: &Instance) -> Observed<Bytes> {
    let (listed, others): (Vec<_>, Vec<_>) =
        instance.segments.iter().partition(|segment| find_resident(host, segment).is_some());
    let resident = listed.into_iter().filter_map(|segment| find_resident(host, segment));
    let mut sum: Bytes = resident.sum();
    let ways: [&[Counted]; 5] = [
        &[Counted::Pool],
        &[Counted::Shared],
        &[Counted::Private],
        &[Counted::Pool, Counted::Shared],
        &[Counted::Pool, Counted::Private],
    ];
    for way in ways {
        let of_way = others.iter().filter(|segment| counted_as(segment) == way);
        let mapped: Bytes = of_way.map(|segment| segment.size).sum();
        if mapped == Bytes::ZERO {
            continue;
        }
        let touched: Option<Bytes> =
            way.iter().map(|counted| touched_at_most(host, instance, *counted)).sum();
        match touched {
            Some(touched) => sum += touched.min(mapped),
            None => return Observed::Absent,
        }
    }
    Observed::Known(sum)
}

fn counted_as(segment: &Segment) -> &'static [Counted] {
    match (segment.huge.get(), segment.kind) {
        (Some(true), _) => &[Counted::Pool],
        (Some(false), SegmentKind::Private) => &[Counted::Private],
        (Some(false), _) => &[Counted::Shared],
        (None, SegmentKind::Private) => &[Counted::Pool, Counted::Private],
        (None, _) => &[Counted::Pool, Counted::Shared],
    }
}

/// What of a System V segment of the host's own is in memory or swapped out.
fn find_resident(host: &Host, segment: &Segment) -> Option<Bytes> {
    // One of another ipc namespace has that in the upper half: the list is the host's.
    if segment.kind != SegmentKind::SystemV || segment.identity.0 >> 32 != 0 {
        return None;
    }
    let touched = |listed: &SysvSegment| Some(listed.rss.get()? + listed.swap.get()?);
    let touched = touched(segments::find_listed(host, segment.identity.1)?)?;
    Some(touched.min(segment.size))
}

/// Several processes may each have touched another part. What one of them maps often counts as
/// often, but the host has it once.
fn touched_at_most(host: &Host, instance: &Instance, counted: Counted) -> Option<Bytes> {
    let processes = instance.pids.iter().filter_map(|pid| host.find_process(*pid));
    let sum: Option<Bytes> = processes.map(|process| touched_by(process, counted)).sum();
    match (sum, held_by_host(host, counted)) {
        (Some(sum), Some(held)) => Some(sum.min(held)),
        (sum, held) => sum.or(held),
    }
}

/// A file of a pool is never swapped out.
fn touched_by(process: &Process, counted: Counted) -> Option<Bytes> {
    let swapped = process.swap.get().unwrap_or_default();
    match counted {
        Counted::Pool => process.hugetlb.get(),
        // Kernels before 4.5 count files among it.
        Counted::Shared => {
            let touched = process.rss_shmem.get().or_else(|| process.rss_shared.get());
            touched.map(|touched| touched + swapped)
        }
        Counted::Private => process.rss_anon.get().map(|touched| touched + swapped),
    }
}

/// What the whole host has of it, in pages that are handed out; `None` where that is not known.
fn held_by_host(host: &Host, counted: Counted) -> Option<Bytes> {
    match counted {
        Counted::Pool => {
            host.pools.as_known()?;
            each_known(&host.pools)
                .map(|pool| {
                    let used = pool.total.get()?.saturating_sub(pool.free.get()?);
                    Some(used.to_bytes(pool.page_size))
                })
                .sum()
        }
        Counted::Shared => {
            Some(host.memory.shmem.get()? + host.memory.swap_used().unwrap_or_default())
        }
        Counted::Private => None,
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::host::Pool;
    use hugewise_model::{PageCount, PageSize};

    use super::*;
    use crate::testing;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    fn segment(kind: SegmentKind, mib: u64, huge: Option<bool>, identity: (u64, u64)) -> Segment {
        Segment {
            kind,
            name: "x".into(),
            size: MIB(mib),
            page_size: Observed::Absent,
            huge: huge.into(),
            mappers: 1,
            identity,
        }
    }

    /// Two processes, each with `HugetlbPages`, `RssShmem` and `RssAnon` in MiB.
    fn host(counters: [[u64; 3]; 2]) -> Host {
        let process = |(pid, [pool, shared, private]): (u32, [u64; 3])| Process {
            pid,
            hugetlb: Observed::Known(MIB(pool)),
            rss_shmem: Observed::Known(MIB(shared)),
            rss_anon: Observed::Known(MIB(private)),
            ..Process::default()
        };
        let processes = (7..).zip(counters).map(process);
        Host { processes: testing::known(processes), ..Host::default() }
    }

    fn touched_mib(host: &Host, segments: Vec<Segment>) -> Option<u64> {
        let instance = Instance { pids: vec![7, 8], segments, ..Instance::default() };
        most_touched_bytes(host, &instance).get().map(|bytes| bytes.get() >> 20)
    }

    /// A shared hugetlb mapping with MAP_NORESERVE takes nothing before it is touched:
    /// `HugetlbPages: 0 kB`.
    #[test]
    fn what_is_mapped_and_not_touched_counts_on_no_kind_of_page() {
        let nothing = host([[0, 0, 0], [0, 0, 0]]);
        for kind in [SegmentKind::AnonymousShared, SegmentKind::Hugetlbfs, SegmentKind::Private] {
            for huge in [Some(true), Some(false), None] {
                let segments = vec![segment(kind, 12 << 10, huge, (1, 1))];
                assert_eq!(touched_mib(&nothing, segments), Some(0), "{kind:?} {huge:?}");
            }
        }
        let some = host([[100, 20, 3], [50, 10, 4]]);
        let one = |kind, huge| touched_mib(&some, vec![segment(kind, 12 << 10, huge, (1, 1))]);
        assert_eq!(one(SegmentKind::AnonymousShared, Some(true)), Some(150));
        assert_eq!(one(SegmentKind::Private, Some(true)), Some(150));
        assert_eq!(one(SegmentKind::AnonymousShared, Some(false)), Some(30));
        assert_eq!(one(SegmentKind::Private, Some(false)), Some(7));
        assert_eq!(one(SegmentKind::Posix, None), Some(180));
        assert_eq!(one(SegmentKind::Private, None), Some(157));
        let several = vec![
            segment(SegmentKind::Hugetlbfs, 64, Some(true), (1, 1)),
            segment(SegmentKind::Posix, 64, Some(false), (1, 2)),
            segment(SegmentKind::Private, 64, Some(false), (7, 3)),
        ];
        assert_eq!(touched_mib(&some, several), Some(64 + 30 + 7));
    }

    /// A page that a process maps at twelve addresses counts twelve times in its status.
    #[test]
    fn no_counter_says_more_than_the_host_has_handed_out() {
        let mut host = host([[12 << 10, 12 << 10, 0], [0, 0, 0]]);
        host.pools = Observed::Known(vec![Pool {
            page_size: PageSize::MIB_2,
            total: Observed::Known(PageCount(700)),
            free: Observed::Known(PageCount(200)),
            reserved: Observed::Absent,
            surplus: Observed::Absent,
            overcommit: Observed::Absent,
            nodes: Vec::new(),
        }]);
        host.memory.shmem = Observed::Known(MIB(300));
        let one = |host: &Host, huge| {
            let kind = SegmentKind::AnonymousShared;
            touched_mib(host, vec![segment(kind, 12 << 10, Some(huge), (1, 1))])
        };
        assert_eq!((one(&host, true), one(&host, false)), (Some(1000), Some(300)));
        // Kernels before 4.4 count no huge pages of a process: the pool does.
        for process in testing::processes(&mut host) {
            process.hugetlb = Observed::Absent;
        }
        assert_eq!(one(&host, true), Some(1000));
        host.pools = Observed::Absent;
        assert_eq!(one(&host, true), None, "nothing tells");
    }

    #[test]
    fn a_system_v_segment_is_as_touched_as_the_kernel_lists_it() {
        let mut host = host([[0, 0, 0], [0, 0, 0]]);
        host.sysv_segments = Observed::Known(vec![SysvSegment {
            id: 5,
            key: 0,
            mode: 0o600,
            size: MIB(12 << 10),
            creator: 7,
            attached: 1,
            uid: 0,
            gid: 0,
            rss: Observed::Known(MIB(40)),
            swap: Observed::Known(MIB(2)),
        }]);
        for huge in [Some(true), Some(false), None] {
            let own = segment(SegmentKind::SystemV, 12 << 10, huge, (1, 5));
            assert_eq!(touched_mib(&host, vec![own]), Some(42));
            // The same number in a container's ipc namespace is another segment.
            let foreign = segment(SegmentKind::SystemV, 12 << 10, huge, (4_026_531_839 << 32, 5));
            assert_eq!(touched_mib(&host, vec![foreign]), Some(0));
        }
    }
}
