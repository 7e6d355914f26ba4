//! What servers' lines without times say of a start or an end.

use hugewise_engines::EngineKind;
use hugewise_engines::log_files::read_log;
use hugewise_engines::logs::{LogText, LogVerdict};
use hugewise_model::Engine;

use super::{ServerLogReader, postgresql, qemu};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;
use crate::series::{Mark, MarkKind, UnplacedTimes};
use crate::{Moment, Series, SourceFormat};

/// Servers whose lines tell by themselves what happened.
const TOLD_BY_LINES: [Engine; 3] = [Engine::PostgreSql, Engine::MySql, Engine::Jvm];
/// Refusals of memory that are no chance.
const SEVERAL: usize = 3;

/// What text without times says of a server's last start, as `hugewise verify --log` reads it; `None`
/// where it says nothing bad.
pub(in crate::readers) fn read_untimed(
    text: &str,
    source: &str,
    began: Option<Moment>,
) -> Option<Series> {
    if let Some(series) =
        TOLD_BY_LINES.iter().find_map(|engine| read_untimed_lines(text, source, *engine, began))
    {
        return Some(series);
    }
    if let Some(event) = text.lines().find_map(qemu::parse_daemon_event) {
        return Some(untimed_series(source, Engine::Qemu, event, began));
    }
    let log = LogText { path: source, bytes: text.as_bytes() };
    let report = read_log(&log, None).ok()?;
    // Every JVM that nobody gave large pages says so: they were not asked for.
    let is_asked = |line: &String| !line.contains("Large Page Support: Disabled");
    if report.errors.is_empty() && !report.lines.iter().any(is_asked) {
        return None;
    }
    let names = EngineKind::for_engine(report.engine).names;
    let name = names.iter().find(|(engine, _)| *engine == report.engine);
    let name = name.map_or("the server", |(_, name)| *name);
    let (kind, words) = match report.verdict {
        LogVerdict::Failed => (LogEventKind::ServerRefused, format!("{name} did not start")),
        LogVerdict::Died => (LogEventKind::ServerFailed, format!("{name} died")),
        LogVerdict::None | LogVerdict::Partly if !report.is_unasked => {
            (LogEventKind::WithoutHugePages, format!("{name} did not get its huge pages"))
        }
        _ => return None,
    };
    let why = Some(report.reason.as_str()).filter(|reason| !reason.is_empty());
    let why = why.or_else(|| report.errors.first().map(String::as_str)).unwrap_or_default();
    let event = LogEvent::new(kind, format!("{words}: {why}"));
    Some(untimed_series(source, report.engine, event, began))
}

/// What single lines say, at the time that a person gave or none.
fn read_untimed_lines(
    text: &str,
    source: &str,
    engine: Engine,
    began: Option<Moment>,
) -> Option<Series> {
    let mut reader = ServerLogReader::new(source, engine);
    let at = LineTimestamp::at_wall_clock(began.unwrap_or_default());
    // PostgreSQL's log_line_prefix may be anything.
    let without_prefix =
        |line| postgresql::split_at_level(line).map_or(line, |(_, message)| message);
    for line in text.lines().map(str::trim) {
        let line = if engine == Engine::PostgreSql { without_prefix(line) } else { line };
        reader.push_passed_line(Some(at.clone()), line);
    }
    let mut series = reader.into_series().ok()?;
    let count = |kinds: &[LogEventKind]| {
        series.events().filter(|(_, event)| kinds.contains(&event.kind)).count()
    };
    let ended = count(&[LogEventKind::ServerRefused, LogEventKind::ServerFailed]) > 0;
    if !ended && count(&[LogEventKind::MemoryRefused]) < SEVERAL {
        return None;
    }
    series.unplaced = began.is_none().then_some(UnplacedTimes::Untimed);
    Some(series)
}

fn untimed_series(source: &str, engine: Engine, event: LogEvent, began: Option<Moment>) -> Series {
    let mut series = Series::new(source, SourceFormat::ServerLog(engine));
    let at = began.unwrap_or_default();
    series.extend_coverage(at);
    series.unplaced = began.is_none().then_some(UnplacedTimes::Untimed);
    series.marks.push(Mark { at, kind: MarkKind::Event(event) });
    series.finish()
}

pub(in crate::readers) fn is_undated(line: &str) -> bool {
    postgresql::split_at_level(line).is_some_and(|(prefix, _)| prefix.len() < 64)
        && postgresql::parse_line(line).is_none()
}
