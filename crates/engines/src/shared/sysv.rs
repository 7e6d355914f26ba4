//! Measures servers whose memory is System V segments that several processes of one user share.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::instance::{Mechanism, Segment};
use hugewise_model::{Bytes, Host, HugePageUse, Instance, Mapping, Process};

use crate::shared::{residency, segments};
use crate::{EngineContext, each_known};

const SMALLEST: Bytes = Bytes::from_mib(1);

pub(crate) fn segment_identities(host: &Host, process: &Process) -> BTreeSet<(u64, u64)> {
    let mappings = each_known(&process.mappings).filter(|mapping| is_sysv(mapping));
    mappings.map(|mapping| segments::mapping_identity(host, process, mapping)).collect()
}

pub(crate) struct Mappers<'a>(BTreeMap<(u64, u64), Vec<&'a Process>>);

impl<'a> Mappers<'a> {
    pub(crate) fn new(host: &'a Host) -> Self {
        let mut mappers = BTreeMap::<(u64, u64), Vec<&Process>>::new();
        for process in each_known(&host.processes) {
            for segment in segment_identities(host, process) {
                mappers.entry(segment).or_default().push(process);
            }
        }
        Self(mappers)
    }

    pub(crate) fn sharing_pids(
        &self,
        host: &Host,
        main: &Process,
        wanted: impl Fn(&&Process) -> bool,
    ) -> Vec<u32> {
        let segments = segment_identities(host, main);
        let sharing = segments.iter().filter_map(|segment| self.0.get(segment)).flatten().copied();
        let pids: BTreeSet<u32> = sharing.filter(wanted).map(|process| process.pid).collect();
        pids.into_iter().collect()
    }
}

fn is_sysv(mapping: &Mapping) -> bool {
    mapping.shared && mapping.name.starts_with("/SYSV")
}

/// The segments that `main` maps; without maps those of its user, unless others of his instances
/// run (`alone`) and it did not make them.
pub(crate) fn measure_segments(
    host: &Host,
    main: &Process,
    pids: &[u32],
    alone: bool,
) -> Vec<Segment> {
    let all = if main.mappings.is_absent() {
        residency::sysv_segments(host, pids, main.uid, alone)
    } else {
        let own = segment_identities(host, main);
        let ours = |process: &Process, mapping: &Mapping| {
            is_sysv(mapping) && own.contains(&segments::mapping_identity(host, process, mapping))
        };
        segments::collect_segments(host, pids, ours)
    };
    all.into_iter().filter(|segment| segment.size >= SMALLEST).collect()
}

/// Sets segments and demand. Segments that settings leave on base pages are not to be passed.
pub(crate) fn describe_segments(
    scene: &EngineContext<'_>,
    instance: &mut Instance,
    measured: Vec<Segment>,
) {
    instance.huge_pages = segments::huge_page_use(&measured);
    instance.mechanism = Mechanism::SysvShm;
    instance.asked_page_size = scene.host.default_huge_page.clone();
    if let Some(page) = scene.host.default_huge_page.get() {
        (instance.demand, instance.other_demands) = segments::segment_demands(&measured, page);
    }
    instance.segments = measured;
}

pub(crate) const fn is_on_huge_pages(instance: &Instance) -> bool {
    matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly)
}

pub(crate) fn same_place(one: &Process, other: &Process) -> bool {
    let same =
        |one: Option<u64>, other: Option<u64>| one.is_none() || other.is_none() || one == other;
    let (ours, theirs) = (&one.namespaces, &other.namespaces);
    one.uid == other.uid
        && same(ours.ipc.get(), theirs.ipc.get())
        && same(ours.pid.get(), theirs.pid.get())
}
