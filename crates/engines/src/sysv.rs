//! Servers whose memory is System V segments that several processes of one user share: what is measured of them.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::instance::{Mechanism, Segment};
use hugewise_model::{Bytes, Host, HugePageUse, Instance, Mapping, Process};

use crate::{Scene, segments, touched};

/// Smaller segments hold no part of a server's memory that is worth a huge page.
const SMALLEST: Bytes = Bytes::from_mib(1);

/// The identities of the System V segments that a process maps.
pub(crate) fn identities(host: &Host, process: &Process) -> BTreeSet<(u64, u64)> {
    let mappings = process.mappings.known().into_iter().flatten().filter(|mapping| is_sysv(mapping));
    mappings.map(|mapping| segments::identity(host, process, mapping)).collect()
}

/// The processes of a host that map each System V segment.
pub(crate) struct Mappers<'a>(BTreeMap<(u64, u64), Vec<&'a Process>>);

impl<'a> Mappers<'a> {
    /// Of all processes, each looked at once.
    pub(crate) fn of(host: &'a Host) -> Self {
        let mut mappers = BTreeMap::<(u64, u64), Vec<&Process>>::new();
        for process in host.processes.known().into_iter().flatten() {
            for segment in identities(host, process) {
                mappers.entry(segment).or_default().push(process);
            }
        }
        Self(mappers)
    }

    /// Those that map some segment that `main` maps.
    pub(crate) fn beside(&self, host: &Host, main: &Process) -> BTreeMap<u32, &'a Process> {
        let segments = identities(host, main);
        let sharing = segments.iter().filter_map(|segment| self.0.get(segment)).flatten();
        sharing.map(|process| (process.pid, *process)).collect()
    }
}

fn is_sysv(mapping: &Mapping) -> bool {
    mapping.shared && mapping.name.starts_with("/SYSV")
}

/// The segments of an instance, of which those that `main` maps are its own; where there are no maps, those of its user, unless
/// it has others there and did not make them. `alone` says whether it has none.
pub(crate) fn measured(host: &Host, main: &Process, pids: &[u32], alone: bool) -> Vec<Segment> {
    let all = if main.mappings.is_absent() {
        touched::sysv_segments(host, pids, main.uid, alone)
    } else {
        let own = identities(host, main);
        let ours = |process: &Process, mapping: &Mapping| {
            is_sysv(mapping) && own.contains(&segments::identity(host, process, mapping))
        };
        segments::of(host, pids, ours)
    };
    all.into_iter().filter(|segment| segment.size >= SMALLEST).collect()
}

/// Notes segments, and what they need of the host's default page size. Those that its settings leave on base pages are
/// no part of either.
pub(crate) fn describe(scene: &Scene<'_>, instance: &mut Instance, measured: Vec<Segment>) {
    instance.huge_pages = segments::huge_page_use(&measured);
    instance.mechanism = Mechanism::SysvShm;
    instance.asked_page_size = scene.host.default_huge_page.clone();
    if let Some(page) = scene.host.default_huge_page.get() {
        (instance.demand, instance.beside) = segments::demands(&measured, page);
    }
    instance.segments = measured;
}

/// Whether some of its memory is on huge pages.
pub(crate) const fn is_on_huge_pages(instance: &Instance) -> bool {
    matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly)
}

/// Whether two processes are of one user, in one container.
pub(crate) fn same_place(one: &Process, other: &Process) -> bool {
    let same = |one: Option<u64>, other: Option<u64>| one.is_none() || other.is_none() || one == other;
    let (ours, theirs) = (&one.namespaces, &other.namespaces);
    one.uid == other.uid && same(ours.ipc.get(), theirs.ipc.get()) && same(ours.pid.get(), theirs.pid.get())
}
