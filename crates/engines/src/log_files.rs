//! Where a running server writes its log, as far as its own files and settings tell.

use hugewise_host::Source;
use hugewise_model::{Host, Instance, Observed, Reason, Unread};

use crate::Kind;

/// The log of a running server that can be read; what is there and cannot be is added to `unread`.
/// The path is one of the reader's: a server in a container has its root before it. `source` is that of the server's
/// [owner](hugewise_host::source::Budgets::of).
pub fn of(host: &Host, source: &dyn Source, instance: &Instance, unread: &mut Vec<Unread>) -> Option<String> {
    let root = if instance.containered { format!("/proc/{}/root", instance.pid) } else { String::new() };
    for path in (Kind::of(instance.engine).logs)(host, source, &root, instance) {
        let path = format!("{root}{path}");
        match source.read_part(&path, None, 1) {
            Observed::Known(_) => return Some(path),
            Observed::Absent => {}
            Observed::Denied => unread.push(Unread::new(path, Reason::Denied)),
            Observed::Malformed(why) => unread.push(Unread::new(path, Reason::Malformed(why))),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::Engine;

    use super::*;

    #[test]
    fn the_collectors_own_list_leads_to_the_log() {
        let source = MapSource::new()
            .file("/srv/pg/current_logfiles", "stderr log/postgresql-Tue.log\n")
            .file("/srv/pg/log/postgresql-Tue.log", "LOG: started\n")
            .denied("/srv/secret/log");
        let list = (crate::postgresql::KIND.logs)(&Host::default(), &source, "", &instance("/srv/pg"));
        assert_eq!(list, ["/srv/pg/log/postgresql-Tue.log", "/var/log/postgresql/postgresql-15-main.log"]);
        let mut unread = Vec::new();
        let found = of(&Host::default(), &source, &instance("/srv/pg"), &mut unread);
        assert_eq!((found.as_deref(), unread.len()), (Some("/srv/pg/log/postgresql-Tue.log"), 0));
        assert_eq!(of(&Host::default(), &source, &instance("/elsewhere"), &mut unread), None);
    }

    fn instance(folder: &str) -> Instance {
        let host = Host::default();
        let nothing = MapSource::new();
        let scene = crate::Scene::new(&host, &nothing);
        let mut instance = scene.instance(Engine::PostgreSql, "15/main".into(), &Default::default(), Vec::new());
        instance.data_directory = Observed::Known(folder.into());
        instance
    }
}
