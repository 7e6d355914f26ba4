//! `hugewise investigate`: the timeline, what happened on it, and what could not be told.

mod timeline;

use std::io;

use hugewise_incident::{Clock, Facts, Format, History, Incident, Investigation, Moment, Signature, Source};
use hugewise_model::Bytes;
use hugewise_model::escape::shell;

use super::counted;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::view::hosts;
use crate::{Layout, date};

/// Column of the labels under an incident, and of the text beside them.
const LABELS: usize = 3;
const TEXT: usize = 11;
/// Rows of evidence of one signature, and lines of a list, before `and 3 more`.
const MOST_EVIDENCE: usize = 3;
const MOST_LINES: usize = 12;

/// Writes the report that people read.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(investigation: &Investigation, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    if investigation.hosts.len() > hosts::MANY {
        many(&mut screen, investigation)?;
        screen.blank()?;
        return closing(&mut screen, investigation);
    }
    for (at, history) in investigation.hosts.iter().enumerate() {
        if at > 0 {
            screen.blank()?;
        }
        host(&mut screen, history, investigation)?;
    }
    if !investigation.hosts.is_empty() {
        screen.blank()?;
    }
    closing(&mut screen, investigation)
}

const HOSTS: [Column; 5] = [
    Column { heading: "host", short: "host", right: false, least: Some(8) },
    Column { heading: "incidents", short: "inc.", right: true, least: None },
    Column { heading: "worst", short: "worst", right: false, least: None },
    Column { heading: "sure", short: "sure", right: false, least: None },
    Column { heading: "what it was", short: "what it was", right: false, least: Some(12) },
];

/// Many hosts, a line each, the worst first; those without an incident are counted.
fn many(screen: &mut Screen<'_>, investigation: &Investigation) -> io::Result<()> {
    let ranked = hosts::ranked(investigation);
    let mut rows = Vec::new();
    for line in &ranked {
        let Some(worst) = line.worst else { continue };
        let clock = &line.history.clock;
        rows.push(vec![
            Cell::new(Role::Strong, line.name()),
            Cell::new(Role::Text, line.history.incidents.len().to_string()),
            Cell::new(Role::Text, between(worst.from, worst.to, clock)).briefly(day_and_time(worst.from, clock)),
            Cell::new(Role::Text, worst.confidence.to_string()),
            Cell::new(Role::Text, format!("{}: {}", worst.verdict.name(), line.figures())),
        ]);
    }
    let quiet = ranked.len() - rows.len();
    if !rows.is_empty() {
        table::write_narrowing(screen, &HOSTS, &rows, &[3])?;
        screen.blank()?;
    }
    if quiet > 0 {
        let others = if rows.is_empty() { "hosts" } else { "other hosts" };
        screen.flow(0, &Spans::new().add(Role::Quiet, &format!("{quiet} {others}: nothing found.")))?;
    }
    let named = ranked.iter().filter(|line| line.worst.is_some()).find_map(|line| line.history.host.as_deref());
    if let Some(first) = named {
        let words = Spans::new()
            .add(Role::Text, "To see one host: the same command with ")
            .add(Role::Strong, &format!("--host {}", shell::word(first)))
            .add(Role::Text, ".");
        screen.flow(0, &words)?;
    }
    Ok(())
}

fn host(screen: &mut Screen<'_>, history: &History, investigation: &Investigation) -> io::Result<()> {
    let name = history.host.as_deref().unwrap_or("a host without a name");
    let mut first = vec![Spans::new().add(Role::Strong, name)];
    let kernel = history.series.iter().rev().find_map(|series| series.kernel.as_deref());
    let kernel = kernel.or_else(|| history.facts.as_ref()?.kernel.as_deref());
    if let Some(kernel) = kernel {
        let architecture = history.series.iter().rev().find_map(|series| series.architecture.as_deref());
        first.push(Spans::from(format!("Linux {kernel} {}", architecture.unwrap_or_default()).trim_end()));
    }
    if let Some((from, to)) = timeline::span(history) {
        first.push(Spans::from(
            format!("{} {}", between(from, to, &history.clock), zone(from, &history.clock)).as_str(),
        ));
    }
    screen.fields(2, &first)?;
    sources(screen, history, investigation)?;
    if let Some(facts) = &history.facts {
        set_up(screen, facts, history)?;
    }
    if timeline::span(history).is_some() {
        screen.blank()?;
        timeline::write(screen, history)?;
    }
    screen.blank()?;
    for (at, one) in history.incidents.iter().enumerate() {
        incident(screen, history, at + 1, one)?;
        screen.blank()?;
    }
    if history.incidents.is_empty() && !history.series.is_empty() {
        screen.flow(0, &Spans::new().add(Role::Good, "Nothing found."))?;
    }
    if !history.signatures.is_empty() {
        screen.flow(0, &Spans::new().add(Role::Quiet, "Also seen, but not part of an incident:"))?;
        let lines: Vec<Spans> = history.signatures.iter().map(|one| lone(one, history)).collect();
        list(screen, &lines)?;
    }
    if !history.looked.is_empty() {
        screen.flow(0, &Spans::new().add(Role::Quiet, "Looked at:"))?;
        list(screen, &plain(&history.looked))?;
    }
    if !history.unknown.is_empty() {
        screen.flow(0, &Spans::new().add(Role::Quiet, "Could not be determined:"))?;
        list(screen, &plain(&history.unknown))?;
    }
    Ok(())
}

fn plain(lines: &[String]) -> Vec<Spans> {
    lines.iter().map(|line| Spans::from(line.as_str())).collect()
}

/// Lines a little to the right, some of them where there are many.
fn list(screen: &mut Screen<'_>, lines: &[Spans]) -> io::Result<()> {
    let most = if screen.verbose() { usize::MAX } else { MOST_LINES };
    for line in lines.iter().take(most) {
        let mut indented = Spans::from("  ");
        indented.append(line);
        screen.flow(4, &indented)?;
    }
    match lines.len().saturating_sub(most) {
        0 => Ok(()),
        more => screen.flow(4, &Spans::from(format!("  and {more} more (--format json lists all)").as_str())),
    }
}

/// What of this host was read, by format.
fn sources(screen: &mut Screen<'_>, history: &History, investigation: &Investigation) -> io::Result<()> {
    let mut formats: Vec<(Format, usize, usize)> = Vec::new();
    let own = |source: &&Source| source.host == history.host && source.clock == history.clock && source.from.is_some();
    for source in investigation.sources.iter().filter(own) {
        let Some(format) = source.format else { continue };
        match formats.iter_mut().find(|(name, ..)| *name == format) {
            Some((_, files, samples)) => (*files, *samples) = (*files + 1, *samples + source.samples),
            None => formats.push((format, 1, source.samples)),
        }
    }
    let field = |(format, files, samples): &(Format, usize, usize)| {
        let (one, many) = if format.is_log() { ("event", "events") } else { ("sample", "samples") };
        let text = format!("{}, {}", counted(*files, "file", "files"), counted(*samples, one, many));
        Spans::new().add(Role::Quiet, &format!("{format} ")).add(Role::Text, &text)
    };
    if formats.is_empty() {
        return Ok(());
    }
    screen.fields(2, &formats.iter().map(field).collect::<Vec<_>>())
}

/// The host's set-up, where it was captured.
fn set_up(screen: &mut Screen<'_>, facts: &Facts, history: &History) -> io::Result<()> {
    let mut fields = Vec::new();
    let when = facts.at.map(|at| format!(" at {}", day_and_time(at, &history.clock))).unwrap_or_default();
    fields.push(Spans::new().add(Role::Quiet, &format!("set-up{when}: ")));
    let mut field = |text: String| fields.push(Spans::from(text.as_str()));
    if let Some(memory) = facts.memory {
        field(format!("memory {memory}"));
    }
    if let Some(tables) = facts.page_tables {
        field(format!("page tables {tables}"));
    }
    for pool in facts.pools.iter().flatten() {
        if let Some(total) = pool.total.filter(|total| *total > 0) {
            let free = pool.free.map(|free| format!(", {free} free")).unwrap_or_default();
            field(format!("{total} huge {} of {}{free}", if total == 1 { "page" } else { "pages" }, pool.page));
        }
    }
    if facts.pools.as_ref().is_some_and(|pools| pools.iter().all(|pool| pool.total == Some(0))) {
        field("no huge pages".into());
    }
    if let Some(thp) = &facts.thp {
        field(format!("THP {thp}"));
    }
    for instance in facts.instances.iter().flatten() {
        let sessions = instance.sessions.map(|sessions| format!(", {}", counted_u64(sessions))).unwrap_or_default();
        let size = if instance.segments > Bytes(0) { format!(" {}", instance.segments) } else { String::new() };
        field(format!("{}{size}{sessions}", instance.title()));
    }
    // The label stands before the first of them without a gap of two.
    if let [label, first, ..] = fields.as_slice() {
        let mut joined = label.clone();
        joined.append(first);
        fields.splice(0..2, [joined]);
    }
    screen.fields(2, &fields)
}

fn counted_u64(sessions: u64) -> String {
    counted(usize::try_from(sessions).unwrap_or(usize::MAX), "session", "sessions")
}

fn incident(screen: &mut Screen<'_>, history: &History, number: usize, incident: &Incident) -> io::Result<()> {
    let clock = &history.clock;
    let heading = Spans::new()
        .add(Role::Error, &format!("{number:<LABELS$}"))
        .add(Role::Strong, &between(incident.from, incident.to, clock))
        .add(Role::Text, "  ")
        .add(Role::Error, incident.verdict.name())
        .add(Role::Quiet, "  confidence ")
        .add(Role::Text, &incident.confidence.to_string());
    screen.flow(LABELS, &heading)?;
    let indent = " ".repeat(LABELS);
    screen.flow(LABELS, &Spans::from(format!("{indent}{}", incident.summary).as_str()))?;
    let day = day(incident.from, clock);
    let mut first = true;
    for signature in &incident.signatures {
        evidence(screen, signature, clock, &day, &mut first)?;
    }
    // What a source hides it hides of each of its signatures.
    let mut caveats: Vec<String> = Vec::new();
    for caveat in incident.signatures.iter().flat_map(|signature| &signature.caveats) {
        if !caveats.contains(caveat) {
            caveats.push(caveat.clone());
        }
    }
    for (label, lines) in [
        ("but", &caveats),
        ("who", &incident.who),
        ("also", &incident.elsewhere),
        ("days", &incident.other_days),
        ("against", &incident.against),
        ("surer", &incident.raised_by),
        ("next", &incident.next),
    ] {
        for (at, line) in lines.iter().enumerate() {
            let label = labelled(if at == 0 { label } else { "" });
            screen.flow(TEXT, &label.add(Role::Text, line))?;
        }
    }
    Ok(())
}

fn labelled(label: &str) -> Spans {
    let (before, width) = (" ".repeat(LABELS), TEXT - LABELS);
    Spans::new().add(Role::Text, &before).add(Role::Quiet, &format!("{label:width$}"))
}

/// The rows that show a signature: the first ones, and how many more there are.
fn evidence(
    screen: &mut Screen<'_>,
    signature: &Signature,
    clock: &Clock,
    today: &str,
    first: &mut bool,
) -> io::Result<()> {
    let most = if screen.verbose() { usize::MAX } else { MOST_EVIDENCE };
    for row in signature.evidence.iter().take(most) {
        let when = if day(row.at, clock) == today { time(row.at, clock) } else { day_and_time(row.at, clock) };
        let mut line = labelled(if std::mem::take(first) { "seen" } else { "" });
        line.push(Role::Quiet, &format!("{} {when}  ", signature.kind.name()));
        line.push(Role::Text, &row.what);
        let file = row.source.rsplit('/').next().unwrap_or(&row.source);
        line.push(Role::Quiet, &format!(" ({file})"));
        screen.flow(TEXT, &line)?;
    }
    match signature.evidence.len().saturating_sub(most) {
        0 => Ok(()),
        more => {
            let rows = if more == 1 { "row" } else { "rows" };
            screen.flow(TEXT, &labelled("").add(Role::Quiet, &format!("and {more} more {rows}")))
        }
    }
}

/// A signature outside of incidents, in one line.
fn lone(signature: &Signature, history: &History) -> Spans {
    let line = Spans::new()
        .add(Role::Text, &between(signature.from, signature.to, &history.clock))
        .add(Role::Text, "  ")
        .add(Role::Strong, signature.kind.name());
    match signature.headline() {
        Some(row) => line.add(Role::Text, &format!("  {}", row.what)),
        None => line,
    }
}

fn closing(screen: &mut Screen<'_>, investigation: &Investigation) -> io::Result<()> {
    let mut troubled = Vec::new();
    for source in &investigation.sources {
        for problem in &source.problems {
            let role = if source.format.is_none() { Role::Warn } else { Role::Text };
            troubled.push(Spans::new().add(role, &source.path).add(Role::Text, &format!(": {problem}")));
        }
    }
    if !troubled.is_empty() {
        screen.flow(0, &Spans::new().add(Role::Quiet, "Files with problems:"))?;
        list(screen, &troubled)?;
    }
    for line in investigation.unknown.iter().chain(&investigation.passed_over) {
        screen.flow(2, &Spans::new().add(Role::Quiet, line))?;
    }
    let incidents: usize = investigation.hosts.iter().map(|host| host.incidents.len()).sum();
    let refused = investigation.sources.iter().filter(|source| source.format.is_none()).count();
    let read = investigation.sources.len() - refused;
    let mut last = match incidents {
        0 => Spans::new().add(Role::Good, "Nothing found"),
        some => Spans::new().add(Role::Error, &counted(some, "incident", "incidents")),
    };
    last.push(Role::Text, &format!(" in {}", counted(read, "file", "files")));
    last.push(Role::Text, &format!(" of {}", counted(investigation.hosts.len(), "host", "hosts")));
    if refused > 0 {
        last.push(Role::Warn, &format!("; {} not read", counted(refused, "file was", "files were")));
    }
    last.push(Role::Text, ".");
    screen.flow(0, &last)
}

/// `2026-11-21 08:20:01 to 08:32:50`.
fn between(from: Moment, to: Moment, clock: &Clock) -> String {
    let first = format!("{} {}", day(from, clock), time(from, clock));
    if from == to {
        return first;
    }
    let same = day(from, clock) == day(to, clock);
    let last = if same { time(to, clock) } else { format!("{} {}", day(to, clock), time(to, clock)) };
    format!("{first} to {last}")
}

fn day(at: Moment, clock: &Clock) -> String {
    date::civil(at, clock).map_or_else(|| "?".into(), |time| time.date().to_string())
}

fn time(at: Moment, clock: &Clock) -> String {
    let time = date::civil(at, clock);
    time.map_or_else(|| "?".into(), |time| time.strftime("%H:%M:%S").to_string())
}

/// `11-21 08:20:01`.
fn day_and_time(at: Moment, clock: &Clock) -> String {
    let time = date::civil(at, clock);
    time.map_or_else(|| "?".into(), |time| time.strftime("%m-%d %H:%M:%S").to_string())
}

/// `+01:00`, `UTC`, or whose clock it is.
fn zone(at: Moment, clock: &Clock) -> String {
    match (clock, clock.offset_at(at)) {
        (Clock::Wall { zone: Some(zone) }, _) => format!("wall clock ({zone})"),
        (Clock::Wall { zone: None }, _) => "wall clock".into(),
        (Clock::Utc { .. }, None | Some(0)) => "UTC".into(),
        (Clock::Utc { .. }, Some(_)) => {
            let text = date::moment(at, clock);
            text.len().checked_sub(6).and_then(|start| text.get(start..)).unwrap_or_default().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::columns;
    use crate::stories;

    fn text(investigation: &Investigation, width: usize) -> String {
        let mut out = Vec::new();
        write(investigation, &mut out, Layout::plain(width)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_storm_on_its_timeline() {
        insta::assert_snapshot!(text(&stories::storm(), 80));
    }

    /// Nine hosts: the table names the two that had incidents, counts the seven others, and tells no story.
    #[test]
    fn many_hosts_are_a_table() {
        let mut many = Investigation::default();
        for number in 0..9 {
            let mut one = if number % 4 == 1 { stories::storm() } else { stories::quiet() };
            one.hosts[0].host = Some(format!("db{number}"));
            many.hosts.append(&mut one.hosts);
        }
        let shown = text(&many, 80);
        assert!(shown.contains("db1 ") && shown.contains("db5 ") && !shown.contains("db2"), "{shown}");
        assert!(shown.contains("7 other hosts: nothing found.") && shown.contains("--host db1"), "{shown}");
        assert!(shown.lines().count() < 12, "{shown}");
    }

    #[test]
    fn a_quiet_host_says_what_was_looked_at() {
        insta::assert_snapshot!(text(&stories::quiet(), 80));
    }

    #[test]
    fn hostile_names_reach_no_terminal() {
        let shown = text(&stories::hostile(), 80);
        assert!(!shown.chars().any(|c| c != '\n' && c.is_control()) && !shown.contains('\u{202e}'), "{shown:?}");
    }

    proptest! {
        #[test]
        fn no_report_is_wider_than_the_terminal(width in 72_usize..200) {
            for story in [stories::storm(), stories::quiet(), stories::hostile(), Investigation::default()] {
                for line in text(&story, width).lines() {
                    prop_assert!(columns(line) <= width, "{}: {line}", columns(line));
                }
            }
        }
    }
}
