//! Servers whose memory is private and cannot be hugetlb: transparent huge pages at most.

use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::{Bytes, HugePageMode, HugePageUse, Instance, Mapping, Process};

use crate::EngineContext;
use crate::shared::settings::new_setting;
use crate::shared::{options, segments};

const SMALLEST_PART: Bytes = Bytes::from_mib(16);

/// Whether a process is its server's copy of itself, which saves a snapshot or runs a program.
pub(crate) fn is_copy(scene: &EngineContext<'_>, process: &Process) -> bool {
    let program = options::program_name(process);
    scene.parent_of(process).is_some_and(|parent| options::program_name(parent) == program)
}

pub(crate) fn describe_private_memory(
    scene: &EngineContext<'_>,
    process: &Process,
    instance: &mut Instance,
) {
    if let Some(enabled) = process.thp_enabled.get() {
        let value = if enabled { "1" } else { "0" }.to_owned();
        let place = Some(FileLocation { file: format!("/proc/{}/status", process.pid), line: 0 });
        instance.settings.insert("thp_enabled".into(), new_setting("THP_enabled", value, place));
    }
    let data = |_: &Process, mapping: &Mapping| {
        let private = !mapping.shared && mapping.accessible && mapping.size() >= SMALLEST_PART;
        private && (mapping.name.is_empty() || mapping.name.starts_with('['))
    };
    instance.segments = segments::collect_segments(scene.host, &instance.pids, data);
    instance.huge_pages = match segments::huge_page_use(&instance.segments) {
        // Nothing large enough to see, or unknown page sizes: it has no way to them.
        HugePageUse::Unknown => HugePageUse::None,
        seen => seen,
    };
    instance.session_model = SessionModel::Threads;
    instance.asked = HugePageMode::Cannot;
    instance.mechanism = Mechanism::None;
}
