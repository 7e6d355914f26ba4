//! Readings made by hand.

use std::collections::BTreeMap;

use hugewise_host::source::MapSource;
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::{Asked, Engine, HugePageUse, Instance, Observed};

use crate::Reading;

/// A host with little in it.
pub(crate) fn source() -> MapSource {
    MapSource::new()
        .file("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nPageTables: 64 kB\n")
        .file("/proc/stat", "cpu  1 1 1 1\nprocs_running 1\n")
}

/// It, read.
pub(crate) fn reading() -> Reading {
    Reading::of(&source(), 1)
}

/// A server of which nothing is known but its name.
pub(crate) fn instance(name: &str) -> Instance {
    Instance {
        engine: Engine::Oracle,
        name: name.into(),
        pid: 1,
        pids: vec![1],
        version: Observed::Absent,
        owner: "oracle".into(),
        data_directory: Observed::Absent,
        endpoints: Vec::new(),
        sessions: Observed::Absent,
        crowd: Observed::Absent,
        max_sessions: Observed::Absent,
        session_model: SessionModel::Processes,
        asked: Asked::Unknown,
        setting: None,
        asked_page_size: Observed::Absent,
        mechanism: Mechanism::SysvShm,
        segments: Vec::new(),
        huge_pages: HugePageUse::Unknown,
        demand: None,
        beside: Vec::new(),
        next: Observed::Absent,
        at_boot: Observed::Absent,
        perhaps: Vec::new(),
        on_smaller: Vec::new(),
        page_tables: Observed::Absent,
        unit: None,
        unit_is_its_own: false,
        startup: None,
        asleep: None,
        vouchers: vec![hugewise_model::vouch::Voucher::Account],
        touched: Observed::Absent,
        transparent: Observed::Absent,
        containered: false,
        settings: BTreeMap::new(),
        traits: Vec::new(),
    }
}
