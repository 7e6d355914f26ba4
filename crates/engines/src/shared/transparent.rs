//! How much of a server's memory is on transparent huge pages, which no page size of a mapping
//! tells. smaps would, but makes the kernel walk all page tables. /proc/meminfo counts the whole
//! host (`AnonHugePages`, `ShmemHugePages`, `ShmemPmdMapped`): what others cannot hold is this
//! server's.

use hugewise_model::instance::{Segment, SegmentKind};
use hugewise_model::{Bytes, Host, Instance, Observed};

use crate::shared::segments::find_listed;

/// Of its segments on base pages.
pub(crate) fn least_transparent_bytes(host: &Host, instance: &Instance) -> Observed<Bytes> {
    let private = least_private_bytes(host, instance).unwrap_or_default();
    match least_shared_bytes(host, instance) {
        Observed::Known(shared) => Observed::Known(shared + private),
        _ if private > Bytes::ZERO => Observed::Known(private),
        unknown => unknown,
    }
}

/// What is left once every other process, and what this one has beside its segments, is taken to be
/// on such pages. None where a process may be hidden, or where less than the segments was touched:
/// it may be elsewhere.
fn least_private_bytes(host: &Host, instance: &Instance) -> Option<Bytes> {
    let is_private = |segment: &&Segment| {
        segment.kind == SegmentKind::Private && segment.huge.get() == Some(false)
    };
    let size: Bytes = instance.segments.iter().filter(is_private).map(|each| each.size).sum();
    let huge = host.memory.anonymous_huge.get().filter(|_| host.unseen_reason().is_none())?;
    if size == Bytes::ZERO || huge == Bytes::ZERO {
        return None;
    }
    let (mut own, mut others) = (Bytes::ZERO, Bytes::ZERO);
    for process in host.processes.as_known()? {
        let sum = if instance.pids.contains(&process.pid) { &mut own } else { &mut others };
        *sum += process.rss_anon.get()?;
    }
    let beside = own.saturating_sub(size);
    (own >= size).then(|| huge.saturating_sub(others).saturating_sub(beside).min(size))
}

fn least_shared_bytes(host: &Host, instance: &Instance) -> Observed<Bytes> {
    let shared = |segment: &&Segment| {
        let of_kind = !matches!(segment.kind, SegmentKind::Private | SegmentKind::Hugetlbfs);
        of_kind && segment.huge.get() == Some(false)
    };
    let own: Vec<&Segment> = instance.segments.iter().filter(shared).collect();
    let huge = match (&host.memory.shmem_huge, &host.memory.shmem_huge_mapped) {
        (Observed::Known(huge), Observed::Known(mapped)) => Observed::Known(*huge.min(mapped)),
        // Kernels before 4.8 have neither, and no such memory.
        (huge, _) => huge.clone(),
    };
    huge.and_then(|huge| {
        if own.is_empty() || huge == Bytes::ZERO {
            return Observed::Known(Bytes::ZERO);
        }
        host.memory.shmem.clone().and_then(|all| {
            let others = all.saturating_sub(least_resident_bytes(host, instance, &own));
            let least = huge.saturating_sub(others);
            if least > Bytes::ZERO { Observed::Known(least) } else { Observed::Absent }
        })
    })
}

/// At least so much is in memory, by the kernel's System V list or what one process touched.
fn least_resident_bytes(host: &Host, instance: &Instance, segments: &[&Segment]) -> Bytes {
    let of_kind = segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV);
    let listed = of_kind.filter_map(|segment| find_listed(host, segment.identity.1)?.rss.get());
    let listed: Bytes = listed.sum();
    let processes = instance.pids.iter().filter_map(|pid| host.find_process(*pid));
    let touched = processes.filter_map(|process| process.rss_shmem.get()).max().unwrap_or_default();
    let size: Bytes = segments.iter().map(|segment| segment.size).sum();
    listed.max(touched).min(size)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{Engine, PageSize, Process};

    use super::*;
    use crate::{EngineContext, testing};

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    /// A guest of 1,024 MiB in a process with 1,037, and 1,026 of the host's on such pages.
    #[test]
    fn private_memory_is_its_own_as_far_as_no_other_process_can_hold_it() {
        let least_beside = |own: u64, others: u64| {
            let process = |pid, anonymous| Process {
                pid,
                rss_anon: Observed::Known(MIB(anonymous)),
                ..Process::default()
            };
            let main = process(7, own);
            let all = [main.clone(), process(8, others)];
            let mut host = Host { processes: testing::known(all), ..Host::default() };
            host.memory.anonymous_huge = Observed::Known(MIB(1026));
            let source = MapSource::new();
            let scene = EngineContext::new(&host, &source);
            let mut guest = scene.new_instance(Engine::Qemu, "x".into(), &main, Vec::new());
            guest.pids = vec![7];
            guest.segments = vec![Segment {
                kind: SegmentKind::Private,
                name: String::new(),
                size: MIB(1024),
                page_size: Observed::Known(PageSize::KIB_4),
                huge: Observed::Known(false),
                mappers: 1,
                identity: (1, 1),
            }];
            least_transparent_bytes(&host, &guest).get().map(|bytes| bytes.get() >> 20)
        };
        assert_eq!(least_beside(1037, 100), Some(913));
        assert_eq!(least_beside(1037, 2000), None);
        // What it has touched may be its own heap.
        assert_eq!(least_beside(900, 100), None);
    }

    fn least_of(
        size: u64,
        touched: u64,
        shmem: u64,
        huge: u64,
        mapped: u64,
        on_huge: bool,
    ) -> Option<u64> {
        let process =
            Process { pid: 7, rss_shmem: Observed::Known(MIB(touched)), ..Process::default() };
        let mut host = Host { processes: testing::known([process.clone()]), ..Host::default() };
        host.memory.shmem = Observed::Known(MIB(shmem));
        host.memory.shmem_huge = Observed::Known(MIB(huge));
        host.memory.shmem_huge_mapped = Observed::Known(MIB(mapped));
        let source = MapSource::new();
        let mut instance = EngineContext::new(&host, &source).new_instance(
            Engine::PostgreSql,
            "x".into(),
            &process,
            Vec::new(),
        );
        instance.segments = vec![Segment {
            kind: SegmentKind::AnonymousShared,
            name: "/dev/zero".into(),
            size: MIB(size),
            page_size: Observed::Known(PageSize::KIB_4),
            huge: Observed::Known(on_huge),
            mappers: 1,
            identity: (1, 1),
        }];
        least_transparent_bytes(&host, &instance).get().map(|bytes| bytes.get() >> 20)
    }

    #[test]
    fn what_the_others_cannot_hold_is_its_own() {
        // 1.7 of 2.2 GiB, on a host with 100 MiB of other shared memory.
        assert_eq!(least_of(2252, 2200, 2300, 1740, 1740, false), Some(1640));
        assert_eq!(least_of(2252, 2200, 2200, 1740, 1000, false), Some(1000));
        // As much may be another's.
        assert_eq!(least_of(2252, 100, 4000, 1740, 1740, false), None);
        assert_eq!(least_of(2252, 2200, 2300, 0, 0, false), Some(0));
        assert_eq!(least_of(2252, 2200, 2300, 1740, 1740, true), Some(0));
    }
}
