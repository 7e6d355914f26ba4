//! Other servers that share a large segment.

mod bare_segment;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::instance::{Mechanism, Segment, SegmentKind, SessionModel};
use hugewise_model::{Bytes, Engine, Host, HugePageMode, Mapping, Process};

use crate::shared::kind::{MemoryBehavior, PageSizeChoice, Recognition};
use crate::shared::segments;
use crate::{DescribedBy, EngineContext, EngineKind, FoundInstances, each_known};

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::Other,
    recognition: Recognition { find_running: find_unrecognized_instances, ..Recognition::PLAIN },
    describe: Some((DescribedBy::Segment, bare_segment::describe_segment)),
    page_size: PageSizeChoice {
        is_named: |_| true,
        can_be_named: |_| true,
        ..PageSizeChoice::PLAIN
    },
    memory: MemoryBehavior {
        often_small: true,
        // Unknown processes may map a segment at different addresses, which costs more.
        one_address: false,
        ..MemoryBehavior::PLAIN
    },
    ..EngineKind::PLAIN
};

/// Smaller ones do not matter: page tables of one that 100 processes touch whole take 50 MiB.
const SMALLEST_SEGMENT: Bytes = Bytes::from_mib(256);

fn find_unrecognized_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let host = scene.host;
    let mut mappers = BTreeMap::<(u64, u64), BTreeSet<u32>>::new();
    let all = each_known(&host.processes);
    for process in all.filter(|process| !found.has_process(process.pid)) {
        let mappings = each_known(&process.mappings);
        for mapping in mappings.filter(|mapping| is_shared_memory(host, mapping)) {
            let identity = segments::mapping_identity(host, process, mapping);
            if !found.has_segment(identity) {
                mappers.entry(identity).or_default().insert(process.pid);
            }
        }
    }
    let everyone: Vec<u32> =
        mappers.values().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let wanted = |process: &Process, mapping: &Mapping| {
        is_shared_memory(host, mapping)
            && mappers.contains_key(&segments::mapping_identity(host, process, mapping))
    };
    // A server may hold several segments: they go to the process that made them.
    let mut groups = BTreeMap::<u32, (BTreeSet<u32>, Vec<Segment>)>::new();
    for segment in segments::collect_segments(host, &everyone, wanted) {
        let Some(pids) = mappers.get(&segment.identity) else { continue };
        // Other memory of a single process is its own affair.
        let shared = pids.len() > 1
            || segment.kind == SegmentKind::SystemV
            || segment.huge.get() == Some(true);
        if segment.size >= SMALLEST_SEGMENT
            && shared
            && let Some(main) = main_of(host, &segment, pids)
        {
            let (members, segments) = groups.entry(main).or_default();
            members.extend(pids);
            segments.push(segment);
        }
    }
    for (main, (pids, segments)) in groups {
        if let Some(process) = host.find_process(main) {
            add(scene, found, process, pids, segments);
        }
    }
}

fn is_shared_memory(host: &Host, mapping: &Mapping) -> bool {
    let by_kind = || match segments::segment_kind(host, mapping) {
        SegmentKind::SystemV | SegmentKind::AnonymousShared | SegmentKind::Hugetlbfs => true,
        SegmentKind::Posix => {
            mapping.name.starts_with("/dev/shm/") || mapping.name.starts_with("/memfd:")
        }
        SegmentKind::Private => false,
    };
    mapping.shared && mapping.accessible && by_kind()
}

/// The process that made a segment and still maps it; or the parent of most; or the oldest.
fn main_of(host: &Host, segment: &Segment, pids: &BTreeSet<u32>) -> Option<u32> {
    let listed = segments::find_listed(host, segment.identity.1);
    let creator = listed.map(|listed| listed.creator).filter(|creator| pids.contains(creator));
    if creator.is_some() && segment.kind == SegmentKind::SystemV {
        return creator;
    }
    let mut children = BTreeMap::<u32, usize>::new();
    for process in pids.iter().filter_map(|pid| host.find_process(*pid)) {
        if pids.contains(&process.parent) {
            *children.entry(process.parent).or_default() += 1;
        }
    }
    let most = children.into_iter().max_by_key(|(pid, count)| (*count, std::cmp::Reverse(*pid)));
    most.map(|(pid, _)| pid).or_else(|| pids.first().copied())
}

fn add(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    process: &Process,
    pids: BTreeSet<u32>,
    segments: Vec<Segment>,
) {
    let mut instance = scene.new_instance(
        Engine::Other,
        process.name.clone(),
        process,
        pids.into_iter().collect(),
    );
    let huge = |segment: &Segment| segment.huge.get() == Some(true);
    instance.huge_pages = segments::huge_page_use(&segments);
    instance.asked = if segments.iter().any(huge) {
        HugePageMode::Must
    } else if segments
        .iter()
        .all(|segment| segment.kind == SegmentKind::Posix && segment.name.starts_with("/dev/shm/"))
    {
        // Files on tmpfs have no hugetlb pages.
        HugePageMode::Cannot
    } else {
        HugePageMode::Unknown
    };
    instance.mechanism = match segments.first().map(|largest| (largest.kind, instance.asked)) {
        Some((_, HugePageMode::Cannot)) => Mechanism::None,
        Some((SegmentKind::SystemV, _)) => Mechanism::SysvShm,
        Some((SegmentKind::Hugetlbfs, _)) => Mechanism::Hugetlbfs,
        _ => Mechanism::Mmap,
    };
    instance.session_model = SessionModel::Processes;
    let mapped =
        segments.iter().filter(|segment| huge(segment)).find_map(|one| one.page_size.get());
    let page_size = mapped.or_else(|| scene.host.default_huge_page.get());
    instance.asked_page_size = page_size.into();
    if let Some(page) = page_size.filter(|_| instance.asked != HugePageMode::Cannot) {
        (instance.demand, instance.other_demands) = segments::segment_demands(&segments, page);
    }
    instance.segments = segments;
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::host::SysvSegment;
    use hugewise_model::{HugePageUse, Observed, PageCount, PageSize};

    use super::*;
    use crate::testing;

    fn mapping(name: &str, mib: u64, inode: u64, page: PageSize) -> Mapping {
        Mapping {
            start: 1 << 40,
            end: (1 << 40) + (mib << 20),
            shared: true,
            accessible: true,
            offset: 0,
            device: 3,
            inode,
            name: name.into(),
            page_size: Observed::Known(page),
        }
    }

    fn process(pid: u32, parent: u32, name: &str, mappings: Vec<Mapping>) -> Process {
        Process {
            pid,
            parent,
            name: name.into(),
            mappings: Observed::Known(mappings),
            ..Process::default()
        }
    }

    fn host(processes: Vec<Process>) -> Host {
        Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known(processes),
            ..Host::default()
        }
    }

    fn seen(
        host: &Host,
        found: &mut FoundInstances,
    ) -> Vec<(String, Vec<u32>, HugePageMode, HugePageUse)> {
        find_unrecognized_instances(&EngineContext::new(host, &MapSource::new()), found);
        let others = found.instances.iter().filter(|instance| instance.engine == Engine::Other);
        others
            .map(|instance| {
                (instance.name.clone(), instance.pids.clone(), instance.asked, instance.huge_pages)
            })
            .collect()
    }

    #[test]
    fn large_shared_memory_makes_a_group_and_nothing_else_does() {
        let zero = |inode, mib| mapping("/dev/zero (deleted)", mib, inode, PageSize::KIB_4);
        let host = host(vec![
            process(10, 1, "appd", vec![zero(1, 300)]),
            process(11, 10, "worker", vec![zero(1, 300)]),
            process(12, 10, "worker", vec![zero(1, 300)]),
            process(20, 1, "small", vec![zero(2, 200)]),
            process(21, 20, "small", vec![zero(2, 200)]),
            process(30, 1, "alone", vec![zero(3, 900)]),
            process(
                40,
                1,
                "search",
                vec![mapping("/var/index/segment_1", 900, 4, PageSize::KIB_4)],
            ),
            process(
                41,
                40,
                "search",
                vec![mapping("/var/index/segment_1", 900, 4, PageSize::KIB_4)],
            ),
            process(
                50,
                1,
                "dpdk",
                vec![mapping("/anon_hugepage (deleted)", 512, 5, PageSize::MIB_2)],
            ),
            process(60, 1, "cache", vec![mapping("/dev/shm/cache", 512, 6, PageSize::KIB_4)]),
            process(61, 60, "cache", vec![mapping("/dev/shm/cache", 512, 6, PageSize::KIB_4)]),
        ]);
        let mut found = FoundInstances::default();
        assert_eq!(
            seen(&host, &mut found),
            [
                ("appd".into(), vec![10, 11, 12], HugePageMode::Unknown, HugePageUse::None),
                ("dpdk".into(), vec![50], HugePageMode::Must, HugePageUse::All),
                ("cache".into(), vec![60, 61], HugePageMode::Cannot, HugePageUse::None),
            ]
        );
        assert_eq!(
            found.instances[0].demand.as_ref().map(|demand| demand.pages),
            Some(PageCount(150))
        );
    }

    #[test]
    fn pages_of_two_sizes_are_counted_by_size() {
        let host = host(vec![process(
            10,
            1,
            "dpdk",
            vec![
                mapping("/anon_hugepage (deleted)", 1024, 1, PageSize::GIB_1),
                mapping("/anon_hugepage (deleted)", 300, 2, PageSize::MIB_2),
            ],
        )]);
        let mut found = FoundInstances::default();
        find_unrecognized_instances(&EngineContext::new(&host, &MapSource::new()), &mut found);
        let instance = &found.instances[0];
        let all = std::iter::once(instance.demand.as_ref().unwrap()).chain(&instance.other_demands);
        let mut pages: Vec<_> = all.map(|demand| (demand.page_size, demand.pages.get())).collect();
        pages.sort_unstable();
        assert_eq!(pages, [(PageSize::MIB_2, 150), (PageSize::GIB_1, 1)]);
    }

    #[test]
    fn segments_go_to_the_process_that_made_them() {
        let sysv = |id, mib| mapping("/SYSV00000000 (deleted)", mib, id, PageSize::KIB_4);
        let mut host = host(vec![
            process(5, 1, "client", vec![sysv(1, 512)]),
            process(10, 1, "server", vec![sysv(1, 512), sysv(2, 300)]),
            process(11, 10, "server", vec![sysv(1, 512), sysv(2, 300)]),
        ]);
        let listed = |id, mib| SysvSegment {
            id,
            key: 0,
            mode: 0o600,
            size: Bytes::from_mib(mib),
            creator: 10,
            attached: 3,
            uid: 0,
            gid: 0,
            rss: Observed::Absent,
            swap: Observed::Absent,
        };
        host.sysv_segments = Observed::Known(vec![listed(1, 512), listed(2, 300)]);
        let mut found = FoundInstances::default();
        assert_eq!(
            seen(&host, &mut found),
            [("server".into(), vec![5, 10, 11], HugePageMode::Unknown, HugePageUse::None)]
        );
        assert_eq!(
            (found.instances[0].segments.len(), found.instances[0].mechanism),
            (2, Mechanism::SysvShm)
        );
    }

    #[test]
    fn what_another_engine_has_is_left_to_it() {
        let memory = || vec![mapping("/SYSV00000000 (deleted)", 512, 1, PageSize::KIB_4)];
        let host =
            host(vec![process(10, 1, "ora_pmon_X", memory()), process(11, 1, "monitor", memory())]);
        let mut found = FoundInstances::default();
        (crate::engines::oracle::KIND.recognition.find_running)(
            &EngineContext::new(&host, &MapSource::new()),
            &mut found,
        );
        assert_eq!(found.instances.len(), 1);
        assert!(seen(&host, &mut found).is_empty());
    }
}
