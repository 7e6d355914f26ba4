//! Servers whose memory is private and cannot be hugetlb: transparent huge pages at most.

use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, SessionModel, Setting};
use hugewise_model::{Asked, Bytes, HugePageUse, Instance, Mapping, Process};

use crate::{Scene, options, segments};

/// Private mappings from here up are a server's data.
const SMALLEST_PART: Bytes = Bytes::from_mib(16);

/// Whether a process is a copy that its server made of itself, to save a snapshot or on its way to another program.
pub(crate) fn is_copy(scene: &Scene<'_>, process: &Process) -> bool {
    let parent = scene.host.process(process.parent);
    parent.is_some_and(|parent| parent.pid != process.pid && options::program(parent) == options::program(process))
}

/// What holds for every one of them: its memory, and what it makes of transparent huge pages.
pub(crate) fn describe(scene: &Scene<'_>, process: &Process, instance: &mut Instance) {
    if let Some(enabled) = process.thp_enabled.get() {
        let value = if enabled { "1" } else { "0" }.to_owned();
        let place = Some(Place { file: format!("/proc/{}/status", process.pid), line: 0 });
        instance.settings.insert("thp_enabled".into(), Setting { name: "THP_enabled".into(), value, place });
    }
    let data = |_: &Process, mapping: &Mapping| {
        let private = !mapping.shared && mapping.accessible && mapping.size() >= SMALLEST_PART;
        private && (mapping.name.is_empty() || mapping.name.starts_with('['))
    };
    instance.segments = segments::of(scene.host, &instance.pids, data);
    instance.huge_pages = match segments::huge_page_use(&instance.segments) {
        // Nothing large enough to see, or unknown page sizes: it has no way to them.
        HugePageUse::Unknown => HugePageUse::None,
        seen => seen,
    };
    instance.session_model = SessionModel::Threads;
    instance.asked = Asked::Cannot;
    instance.mechanism = Mechanism::None;
}
