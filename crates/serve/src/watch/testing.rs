//! Rows made by hand.

use hugewise_model::instance::SessionModel;
use hugewise_model::{Bytes, Engine, Finding, HugePageUse, InstanceId, Level, RuleId};

use super::frame::InstanceRow;

/// The instance of a title.
pub(super) fn id(title: &str) -> Option<InstanceId> {
    let (engine, name) = title.split_once(' ')?;
    let engine = if engine == "oracle" { Engine::Oracle } else { Engine::PostgreSql };
    Some(InstanceId { engine, name: name.into() })
}

/// An instance of which only the title is known.
pub(super) fn instance(title: &str) -> InstanceRow {
    InstanceRow {
        id: id(title),
        title: title.into(),
        facts: Vec::new(),
        sessions: None,
        session_model: SessionModel::Processes,
        segments: Bytes(0),
        huge: Bytes(0),
        huge_pages: HugePageUse::Unknown,
        page_tables: None,
        chain: None,
    }
}

/// A finding of an instance, or of the host.
pub(super) fn finding(code: &'static str, instance: Option<&str>) -> Finding {
    Finding {
        code: RuleId::new(code),
        name: "no-pool",
        level: Level::Error,
        instance: instance.and_then(id),
        summary: format!("{code} is wrong"),
        short: format!("{code} is wrong"),
        evidence: vec!["/proc/meminfo: HugePages_Total 0".into()],
        cost: Some("4.1 GiB of page tables".into()),
        remedies: Vec::new(),
        fix: vec!["sysctl -w vm.nr_hugepages=17410".into()],
    }
}
