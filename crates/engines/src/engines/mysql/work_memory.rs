//! What a MySQL or MariaDB server's settings grant each of its sessions.

use hugewise_model::{Bytes, Engine, Host, Instance};

use super::values::{self, Dialect};
use crate::shared::work_memory::{MemoryGrant, WorkMemory};

/// The buffers of a session, with their defaults in MariaDB (10.5 to 11.8) and in MySQL (8.0 to 9),
/// in KiB (MariaDB Knowledge Base and MySQL 8.0 Reference Manual, "Server System Variables").
const BUFFERS: [(&str, u64, u64); 4] = [
    ("sort_buffer_size", 2048, 256),
    ("join_buffer_size", 256, 256),
    ("read_buffer_size", 128, 128),
    ("read_rnd_buffer_size", 256, 256),
];

/// Each buffer counts once; a statement takes a join buffer for each of its joins.
pub(super) fn estimate_work_memory(_: &Host, instance: &Instance) -> WorkMemory {
    if instance.max_sessions.get().is_none() {
        return WorkMemory::default();
    }
    let mariadb = instance.engine == Engine::MariaDb;
    let dialect = Dialect { mariadb, version: None };
    let amount = |(name, of_mariadb, of_mysql): (&'static str, u64, u64)| {
        let bytes = match instance.setting_value(name) {
            Some(value) => values::parse_amount(value, dialect).into_known()?,
            None => (if mariadb { of_mariadb } else { of_mysql }) << 10,
        };
        Some((name, Bytes(bytes)))
    };
    let parts: Option<Vec<(&str, Bytes)>> = BUFFERS.into_iter().map(amount).collect();
    WorkMemory { each: parts.and_then(|parts| MemoryGrant::sum(&parts)), ..WorkMemory::default() }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::instance::ServerSetting;
    use hugewise_model::{Observed, Process};

    use super::*;
    use crate::EngineContext;

    #[test]
    fn a_session_has_each_buffer_once() {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance =
            scene.new_instance(Engine::MariaDb, "main".into(), &Process::default(), Vec::new());
        assert_eq!(estimate_work_memory(&host, &instance).each, None, "its files were not read");
        instance.max_sessions = Observed::Known(151);
        let each =
            |instance: &Instance| estimate_work_memory(&host, instance).each.map(|each| each.bytes);
        assert_eq!(each(&instance), Some(Bytes::from_kib(2048 + 256 + 128 + 256)));
        let mut set = |name: &str, value: &str| {
            let setting = ServerSetting { name: name.into(), value: value.into(), place: None };
            instance.settings.insert(name.into(), setting);
        };
        set("sort_buffer_size", "64M");
        assert_eq!(each(&instance), Some(Bytes::from_kib((64 << 10) + 256 + 128 + 256)));
        let setting =
            ServerSetting { name: "join_buffer_size".into(), value: "lots".into(), place: None };
        instance.settings.insert("join_buffer_size".into(), setting);
        assert_eq!(each(&instance), None);
    }
}
