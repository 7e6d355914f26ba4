//! What is said of a host without a database.

use hugewise_model::{Engine, Host};

/// What people call the engines that are looked for by name.
const LOOKED_FOR: [(Engine, &str); 9] = [
    (Engine::Oracle, "Oracle"),
    (Engine::PostgreSql, "PostgreSQL"),
    (Engine::MySql, "MySQL"),
    (Engine::MariaDb, "MariaDB"),
    (Engine::Jvm, "JVM"),
    (Engine::Redis, "Redis"),
    (Engine::Valkey, "Valkey"),
    (Engine::MongoDb, "MongoDB"),
    (Engine::Qemu, "QEMU/KVM"),
];

/// That there is none, and what was looked for.
pub(crate) fn none_runs() -> String {
    let names = LOOKED_FOR.map(|(_, name)| name).join(", ");
    format!("No database runs here. Looked for {names}, and for any other processes that share a segment over 256 MiB.")
}

/// Why no instance is told of, where none was found.
pub(crate) fn why(host: &Host) -> String {
    match host.processes.reason() {
        Some(_) if host.processes.is_absent() => {
            "No instance can be recognised: neither the processes' files under /proc nor the output of ps is here."
                .into()
        }
        Some(why) => {
            format!("No instance can be recognised: the processes of this host could not be read ({why}).")
        }
        None => none_runs(),
    }
}
