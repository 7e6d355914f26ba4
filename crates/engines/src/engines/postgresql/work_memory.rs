//! What a PostgreSQL server's settings grant its sessions and its maintenance.

use hugewise_model::{Bytes, Host, Instance};

use super::values::{self, MEMORY};
use crate::shared::work_memory::{MemoryGrant, WorkMemory};

/// Each with the size of its unit and its default in it, in all releases from 13 to 18 (PostgreSQL
/// documentation, "Resource Consumption").
const WORK_MEM: (&str, u64, i128) = ("work_mem", 1 << 10, 4 << 10);
const TEMP_BUFFERS: (&str, u64, i128) = ("temp_buffers", 8 << 10, 1024);
const MAINTENANCE: (&str, u64, i128) = ("maintenance_work_mem", 1 << 10, 64 << 10);
/// -1 takes maintenance_work_mem's.
const AUTOVACUUM: (&str, u64, i128) = ("autovacuum_work_mem", 1 << 10, -1);
const WORKERS: &str = "3";

/// A session can take temp_buffers once and work_mem for each sort or hash of a statement, which
/// counts once here. Nothing where files were not read, as any of them may say more.
pub(super) fn estimate_work_memory(_: &Host, instance: &Instance) -> WorkMemory {
    if instance.max_sessions.get().is_none() {
        return WorkMemory::default();
    }
    let number = |(name, unit, default): (&str, u64, i128)| match instance.setting_value(name) {
        Some(value) => values::parse_amount(value, MEMORY, unit),
        None => Some(default),
    };
    let size = |setting: (&str, u64, i128)| {
        let (_, unit, _) = setting;
        Some(Bytes(u64::try_from(number(setting)?).ok()?).saturating_mul(unit))
    };
    let each = size(WORK_MEM).zip(size(TEMP_BUFFERS));
    let each = each.and_then(|(work, temporary)| {
        MemoryGrant::sum(&[(WORK_MEM.0, work), (TEMP_BUFFERS.0, temporary)])
    });
    let once = size(MAINTENANCE).and_then(|maintenance| {
        let workers = instance.setting_value("autovacuum_max_workers").unwrap_or(WORKERS);
        let workers = u64::try_from(values::parse_integer(workers)?).ok()?;
        let vacuum = if number(AUTOVACUUM)? < 0 { maintenance } else { size(AUTOVACUUM)? };
        MemoryGrant::sum(&[
            (MAINTENANCE.0, maintenance),
            ("autovacuum workers", vacuum.saturating_mul(workers)),
        ])
    });
    WorkMemory { each, once, ..WorkMemory::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hugewise_host::source::MapSource;
    use hugewise_model::instance::ServerSetting;
    use hugewise_model::{Engine, Observed, Process};

    use super::*;
    use crate::EngineContext;

    fn estimate_with(settings: &[(&str, &str)]) -> WorkMemory {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance = scene.new_instance(
            Engine::PostgreSql,
            "15/main".into(),
            &Process::default(),
            Vec::new(),
        );
        let setting = |(name, value): &(&str, &str)| {
            (
                (*name).to_owned(),
                ServerSetting { name: (*name).into(), value: (*value).into(), place: None },
            )
        };
        instance.settings = settings.iter().map(setting).collect::<BTreeMap<_, _>>();
        instance.max_sessions = Observed::Known(100);
        estimate_work_memory(&host, &instance)
    }

    /// PostgreSQL 15: work_mem 4 MB, temp_buffers 8 MB, maintenance_work_mem 64 MB, three workers.
    #[test]
    fn defaults_are_the_servers() {
        let work = estimate_with(&[]);
        assert_eq!(work.each.unwrap().bytes, Bytes::from_mib(12));
        assert_eq!(work.once.unwrap().bytes, Bytes::from_mib(4 * 64));
    }

    #[test]
    fn units_are_those_of_each_setting() {
        let work = estimate_with(&[
            ("work_mem", "65536"),
            ("temp_buffers", "2048"),
            ("autovacuum_work_mem", "128MB"),
        ]);
        let each = work.each.unwrap();
        assert_eq!(
            (each.bytes, each.by.as_str()),
            (Bytes::from_mib(64 + 16), "work_mem 64.0 MiB, temp_buffers 16.0 MiB")
        );
        assert_eq!(work.once.unwrap().bytes, Bytes::from_mib(64 + 3 * 128));
        // No number that the server takes: nothing is made of it.
        assert_eq!(estimate_with(&[("work_mem", "much")]).each, None);
    }
}
