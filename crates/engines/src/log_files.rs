//! Servers' logs: where a running one writes its own, as far as its files and settings tell, and what stands in one.

use hugewise_host::Source;
use hugewise_model::{Engine, Host, Instance, Observed, Reason, Unread};

use crate::Kind;
use crate::logs::{Format, LogBytes, LogError, LogReport, Search, Unsearched};

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

/// The kinds whose logs are read, each with its format.
fn formats() -> impl Iterator<Item = (&'static Kind, &'static Format)> {
    crate::kinds().iter().filter_map(|kind| Some((*kind, kind.log_format?)))
}

/// What a server's log says of the last start in it; the engine is told by the log where it is not given.
///
/// # Errors
/// The log cannot be read, is empty, is no server's log, or is written in a way that is not read here.
pub fn read_log(source: &dyn LogBytes, engine: Option<Engine>) -> Result<LogReport, LogError> {
    let fail = |what: String| LogError { path: source.path().to_owned(), what };
    let asked = |kind: &Kind| engine.is_none_or(|engine| std::ptr::eq(Kind::of(engine), kind));
    let formats: Vec<(&Kind, &Format)> = formats().filter(|(kind, _)| asked(kind)).collect();
    if formats.is_empty() {
        return Err(fail(format!("logs of {} are not read", engine.unwrap_or(Engine::Other))));
    }
    let unsearched = |why: Unsearched| fail(why.to_string());
    let mut search = Search::open(source).map_err(unsearched)?;
    let marks: Vec<(&[u8], &Format)> =
        formats.iter().flat_map(|(_, format)| format.marks.iter().map(|mark| (mark.as_bytes(), *format))).collect();
    while let Some((excerpt, format)) = search.next_mark(&marks).map_err(unsearched)? {
        if let Some(report) = (format.read)(&excerpt) {
            return Ok(finish(report, source));
        }
    }
    let text = search.ends().map_err(unsearched)?;
    let known =
        |(_, format): &&(&Kind, &Format)| engine.is_some() || format.hints.iter().any(|hint| text.contains(hint));
    let Some((kind, _)) = formats.iter().find(known) else {
        let names: Vec<&str> = self::formats().flat_map(|(kind, _)| kind.names).map(|(_, name)| *name).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        return Err(fail(format!("not recognised as a log of {} or {last}", others.join(", "))));
    };
    let mut report = LogReport::new(engine.unwrap_or(kind.engine), "no start found");
    report.unknown(search.why_not_found());
    Ok(finish(report, source))
}

fn finish(mut report: LogReport, source: &dyn LogBytes) -> LogReport {
    source.path().clone_into(&mut report.path);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;

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
