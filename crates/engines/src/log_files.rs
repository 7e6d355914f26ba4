//! Where a running server writes its log, as far as its own files and settings tell.

use hugewise_host::Source;
use hugewise_model::{Engine, Host, Instance, Observed, Unread};

use crate::options;

/// The log of a running server that can be read; what is there and cannot be is added to `unread`.
/// The path is one of the reader's: a server in a container has its root before it. `source` is that of the server's
/// [owner](hugewise_host::source::Budgets::of).
pub fn of(host: &Host, source: &dyn Source, instance: &Instance, unread: &mut Vec<Unread>) -> Option<String> {
    let root = if instance.containered { format!("/proc/{}/root", instance.pid) } else { String::new() };
    let candidates = match instance.engine {
        Engine::PostgreSql => postgresql(source, &root, instance),
        Engine::MySql | Engine::MariaDb => mysql(host, instance),
        Engine::Oracle => oracle(host, source, &root, instance),
        _ => Vec::new(),
    };
    for path in candidates {
        let path = format!("{root}{path}");
        match source.read_part(&path, None, 1) {
            Observed::Known(_) => return Some(path),
            Observed::Absent => {}
            Observed::Denied => unread.push(Unread { what: path, why: "denied".into() }),
            Observed::Malformed(why) => unread.push(Unread { what: path, why: format!("malformed: {why}") }),
        }
    }
    None
}

/// The collector names its file in `current_logfiles` (10 and later); Debian's clusters have theirs
/// under /var/log.
fn postgresql(source: &dyn Source, root: &str, instance: &Instance) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(folder) = instance.data_directory.known() {
        let list = source.read(&format!("{root}{folder}/current_logfiles"));
        let text = list.known().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        let entries = text.lines().filter_map(|line| line.split_once(' ')).map(|(_, path)| path.trim());
        paths.extend(entries.filter(|path| !path.is_empty()).map(|path| beneath(folder, path)));
    }
    if let Some((version, cluster)) = instance.name.split_once('/') {
        paths.push(format!("/var/log/postgresql/postgresql-{version}-{cluster}.log"));
    }
    paths
}

/// `--log-error`, or the host's name in the data directory.
fn mysql(host: &Host, instance: &Instance) -> Vec<String> {
    let command = host.process(instance.pid).and_then(|process| process.command.known());
    let given = command.and_then(|command| options::value(command, "log-error"));
    let given = given.or_else(|| instance.setting_value("log_error")).filter(|path| !path.is_empty());
    let folder = instance.data_directory.known().map(String::as_str);
    let own = folder.zip(host.name.known()).map(|(folder, name)| beneath(folder, &format!("{name}.err")));
    given.map(|path| beneath(folder.unwrap_or("/"), path)).into_iter().chain(own).collect()
}

/// `BASE/diag/rdbms/DB/SID/trace/alert_SID.log`, where BASE holds the software that runs.
fn oracle(host: &Host, source: &dyn Source, root: &str, instance: &Instance) -> Vec<String> {
    let process = host.process(instance.pid);
    let executable = process.and_then(|process| Some(options::as_process_names(process, process.executable.known()?)));
    let Some((base, _)) = executable.and_then(|path| path.split_once("/product/")) else { return Vec::new() };
    let sid = &instance.name;
    let kind = if instance.traits.contains(&"asm") { "asm" } else { "rdbms" };
    let databases = source.list(&format!("{root}{base}/diag/{kind}")).into_known().unwrap_or_default();
    databases.iter().map(|name| format!("{base}/diag/{kind}/{name}/{sid}/trace/alert_{sid}.log")).collect()
}

fn beneath(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    #[test]
    fn the_collectors_own_list_leads_to_the_log() {
        let source = MapSource::new()
            .file("/srv/pg/current_logfiles", "stderr log/postgresql-Tue.log\n")
            .file("/srv/pg/log/postgresql-Tue.log", "LOG: started\n")
            .denied("/srv/secret/log");
        let list = postgresql(&source, "", &instance("/srv/pg"));
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
