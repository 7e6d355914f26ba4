//! Readings made by hand.

use hugewise_host::source::MapSource;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Engine, Instance};

use crate::HostReading;

/// A host with little in it.
pub(crate) fn source() -> MapSource {
    MapSource::new()
        .with_file(
            "/proc/meminfo",
            "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nPageTables: 64 kB\n",
        )
        .with_file("/proc/stat", "cpu  1 1 1 1\nprocs_running 1\n")
}

/// It, read.
pub(crate) fn reading() -> HostReading {
    HostReading::from_source(&source(), 1)
}

/// A server of which nothing is known but its name.
pub(crate) fn instance(name: &str) -> Instance {
    Instance {
        engine: Engine::Oracle,
        name: name.into(),
        pid: 1,
        pids: vec![1],
        owner: "oracle".into(),
        mechanism: Mechanism::SysvShm,
        trusted_by: vec![hugewise_model::trusted_by::TrustReason::Account],
        ..Instance::default()
    }
}
