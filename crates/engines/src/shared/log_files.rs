//! Servers' logs: where a running one writes its own, and what one says.

use hugewise_host::Source;
use hugewise_model::{Engine, Host, Instance, Observed, Reason, Unread};

use crate::EngineKind;
use crate::shared::logs::{LogBytes, LogError, LogReport, Search, ServerLogFormat, Unsearched};

/// The path by which the reader opens a running server's log. What cannot be read is added to
/// `unread`. `source` is that of the server's [owner](hugewise_host::source::Budgets::of).
pub fn find_readable_log(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    unread: &mut Vec<Unread>,
) -> Option<String> {
    let root =
        if instance.containered { format!("/proc/{}/root", instance.pid) } else { String::new() };
    for path in (EngineKind::for_engine(instance.engine).logs.paths)(host, source, &root, instance)
    {
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

fn log_formats() -> impl Iterator<Item = (&'static EngineKind, &'static ServerLogFormat)> {
    crate::all_kinds().iter().filter_map(|kind| Some((*kind, kind.logs.format?)))
}

/// What a log says of its last start; without `engine` the log tells whose it is.
/// # Errors
/// The log cannot be read, is empty, is no server's log, or has an unknown format.
pub fn read_log(source: &dyn LogBytes, engine: Option<Engine>) -> Result<LogReport, LogError> {
    let fail = |what: String| LogError { path: source.path().to_owned(), what };
    let asked = |kind: &EngineKind| {
        engine.is_none_or(|engine| std::ptr::eq(EngineKind::for_engine(engine), kind))
    };
    let formats: Vec<(&EngineKind, &ServerLogFormat)> =
        log_formats().filter(|(kind, _)| asked(kind)).collect();
    if formats.is_empty() {
        return Err(fail(format!("logs of {} are not read", engine.unwrap_or(Engine::Other))));
    }
    let unsearched = |why: Unsearched| fail(why.to_string());
    let mut search = Search::open(source).map_err(unsearched)?;
    let marks: Vec<(&[u8], &ServerLogFormat)> = formats
        .iter()
        .flat_map(|(_, format)| format.marks.iter().map(|mark| (mark.as_bytes(), *format)))
        .collect();
    while let Some((excerpt, format)) = search.next_mark(&marks).map_err(unsearched)? {
        if let Some(report) = (format.read)(&excerpt) {
            return Ok(finish_report(report, source));
        }
    }
    let text = search.head_and_tail().map_err(unsearched)?;
    if let Some(report) = formats.iter().find_map(|(_, format)| (format.read_paste)(&text)) {
        return Ok(finish_report(report, source));
    }
    let known = |(_, format): &&(&EngineKind, &ServerLogFormat)| {
        engine.is_some() || format.hints.iter().any(|hint| text.contains(hint))
    };
    let Some((kind, _)) = formats.iter().find(known) else {
        let names: Vec<&str> =
            self::log_formats().flat_map(|(kind, _)| kind.names).map(|(_, name)| *name).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        return Err(fail(format!("not recognised as a log of {} or {last}", others.join(", "))));
    };
    let mut report = LogReport::new(engine.unwrap_or(kind.engine), "no start found");
    report.set_unknown(search.why_not_found());
    Ok(finish_report(report, source))
}

fn finish_report(mut report: LogReport, source: &dyn LogBytes) -> LogReport {
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
            .with_file("/srv/pg/current_logfiles", "stderr log/postgresql-Tue.log\n")
            .with_file("/srv/pg/log/postgresql-Tue.log", "LOG: started\n")
            .with_denied("/srv/secret/log");
        let list = (crate::engines::postgresql::KIND.logs.paths)(
            &Host::default(),
            &source,
            "",
            &instance("/srv/pg"),
        );
        assert_eq!(
            list,
            ["/srv/pg/log/postgresql-Tue.log", "/var/log/postgresql/postgresql-15-main.log"]
        );
        let mut unread = Vec::new();
        let found = find_readable_log(&Host::default(), &source, &instance("/srv/pg"), &mut unread);
        assert_eq!((found.as_deref(), unread.len()), (Some("/srv/pg/log/postgresql-Tue.log"), 0));
        assert_eq!(
            find_readable_log(&Host::default(), &source, &instance("/elsewhere"), &mut unread),
            None
        );
    }

    fn instance(folder: &str) -> Instance {
        let host = Host::default();
        let nothing = MapSource::new();
        let scene = crate::EngineContext::new(&host, &nothing);
        let mut instance = scene.new_instance(
            Engine::PostgreSql,
            "15/main".into(),
            &Default::default(),
            Vec::new(),
        );
        instance.data_directory = Observed::Known(folder.into());
        instance
    }
}
