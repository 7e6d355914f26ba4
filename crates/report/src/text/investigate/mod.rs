//! `hugewise investigate`: the timeline, what happened on it, and what could not be told.

mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use hugewise_investigate::{
    Clock, HostSetupFacts, Incident, IncidentHistory, InvestigatedSource, Investigation, Moment,
    Signature, SourceFormat,
};
use hugewise_model::Bytes;
use hugewise_model::escape::shell;

use super::counted_noun;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, TableCell, TableColumn};
use crate::view::{capitalize, distinct_caveats, hosts};

/// Columns of the labels under an incident, and of the text beside them.
const LABELS: usize = 3;
const TEXT: usize = 11;
/// Rows of evidence of one signature, and lines of a list, before `and 3 more`.
const MOST_EVIDENCE: usize = 3;
const MOST_LINES: usize = 12;

pub(crate) fn write(screen: &mut Screen<'_>, investigation: &Investigation) -> io::Result<()> {
    if investigation.hosts.len() > hosts::MANY {
        write_host_ranking(screen, investigation)?;
        screen.write_blank()?;
        return write_closing(screen, investigation);
    }
    for (at, history) in investigation.hosts.iter().enumerate() {
        if at > 0 {
            screen.write_blank()?;
        }
        write_host(screen, history, investigation)?;
    }
    if !investigation.hosts.is_empty() {
        screen.write_blank()?;
    }
    write_closing(screen, investigation)
}

const HOSTS: [TableColumn; 5] = [
    TableColumn::left("host").cut_to(8),
    TableColumn::right("incidents").short("inc."),
    TableColumn::left("worst"),
    TableColumn::left("sure"),
    TableColumn::left("what it was").cut_to(12),
];

/// Hosts without an incident are only counted.
fn write_host_ranking(screen: &mut Screen<'_>, investigation: &Investigation) -> io::Result<()> {
    let ranked = hosts::rank_hosts(investigation);
    let mut rows = Vec::new();
    for line in &ranked {
        let Some(worst) = line.worst else { continue };
        let clock = &line.history.clock;
        rows.push(vec![
            TableCell::new(Role::Strong, line.name()),
            TableCell::new(Role::Text, line.history.incidents.len().to_string()),
            TableCell::new(Role::Text, format_window(worst.from, worst.to, clock))
                .with_brief(day_and_time(worst.from, clock)),
            TableCell::new(Role::Text, worst.confidence.to_string()),
            TableCell::new(Role::Text, format!("{}: {}", worst.verdict.label(), line.figures())),
        ]);
    }
    let quiet = ranked.len() - rows.len();
    if !rows.is_empty() {
        table::write_narrowing(screen, &HOSTS, &rows, &[3])?;
        screen.write_blank()?;
    }
    if quiet > 0 {
        let others = if rows.is_empty() { "hosts" } else { "other hosts" };
        screen.write_paragraph(
            0,
            &Spans::new().add(Role::Quiet, &format!("{quiet} {others}: nothing found.")),
        )?;
    }
    let named = ranked
        .iter()
        .filter(|line| line.worst.is_some())
        .find_map(|line| line.history.host.as_deref());
    if let Some(first) = named {
        let words = Spans::new()
            .add(Role::Text, "To see one host: the same command with ")
            .add(Role::Strong, &format!("--host {}", shell::quote_word(first)))
            .add(Role::Text, ".");
        screen.write_paragraph(0, &words)?;
    }
    Ok(())
}

fn write_host(
    screen: &mut Screen<'_>,
    history: &IncidentHistory,
    investigation: &Investigation,
) -> io::Result<()> {
    write_gravest(screen, history)?;
    screen.write_fields(2, &host_fields(history))?;
    write_sources(screen, history, investigation)?;
    if let Some(facts) = &history.facts {
        set_up(screen, facts, history)?;
    }
    if timeline::history_span(history).is_some() {
        screen.write_blank()?;
        timeline::write(screen, history)?;
    }
    screen.write_blank()?;
    let mut told = LinesTold::default();
    for (at, one) in history.incidents.iter().enumerate() {
        write_incident(screen, history, at + 1, one, &mut told)?;
        screen.write_blank()?;
    }
    if history.incidents.is_empty() && !history.series.is_empty() {
        screen.write_paragraph(0, &Spans::new().add(Role::Good, "Nothing found."))?;
    }
    if !history.signatures.is_empty() {
        screen.write_paragraph(
            0,
            &Spans::new().add(Role::Quiet, "Also seen, but not part of an incident:"),
        )?;
        let lines: Vec<Spans> =
            history.signatures.iter().map(|one| signature_line(one, history)).collect();
        write_list(screen, &lines)?;
    }
    if !history.looked.is_empty() {
        screen.write_paragraph(0, &Spans::new().add(Role::Quiet, "Looked at:"))?;
        write_list(screen, &plain_spans(&history.looked))?;
    }
    if !history.unknown.is_empty() {
        screen.write_paragraph(0, &Spans::new().add(Role::Quiet, "Could not be determined:"))?;
        write_list(screen, &plain_spans(&history.unknown))?;
    }
    Ok(())
}

/// Of several incidents the gravest, in one sentence before all else.
fn write_gravest(screen: &mut Screen<'_>, history: &IncidentHistory) -> io::Result<()> {
    let count = history.incidents.len();
    let Some(worst) = history.worst_incident().filter(|_| count > 1) else { return Ok(()) };
    let place = history.incidents.iter().position(|one| std::ptr::eq(one, worst)).unwrap_or(0) + 1;
    let headline = worst.summary.split("; ").next().unwrap_or_default();
    let words = Spans::new()
        .add(Role::Text, &format!("The gravest of {count} incidents is {place}: "))
        .add(Role::Strong, headline);
    screen.write_paragraph(0, &words)
}

fn host_fields(history: &IncidentHistory) -> Vec<Spans> {
    let name = history.host.as_deref().unwrap_or("a host without a name");
    let mut fields = vec![Spans::new().add(Role::Strong, name)];
    let kernel = history.series.iter().rev().find_map(|series| series.kernel.as_deref());
    let kernel = kernel.or_else(|| history.facts.as_ref()?.kernel.as_deref());
    if let Some(kernel) = kernel {
        let architecture =
            history.series.iter().rev().find_map(|series| series.architecture.as_deref());
        fields.push(Spans::from(
            format!("Linux {kernel} {}", architecture.unwrap_or_default()).trim_end(),
        ));
    }
    if let Some((from, to)) = timeline::history_span(history) {
        fields.push(Spans::from(format!(
            "{} {}",
            format_window(from, to, &history.clock),
            format_zone(from, &history.clock)
        )));
    }
    fields
}

fn plain_spans(lines: &[String]) -> Vec<Spans> {
    lines.iter().map(|line| Spans::from(line.as_str())).collect()
}

fn write_list(screen: &mut Screen<'_>, lines: &[Spans]) -> io::Result<()> {
    let most = if screen.is_verbose() { usize::MAX } else { MOST_LINES };
    for line in lines.iter().take(most) {
        let mut indented = Spans::from("  ");
        indented.append(line);
        screen.write_paragraph(4, &indented)?;
    }
    match lines.len().saturating_sub(most) {
        0 => Ok(()),
        more => screen.write_paragraph(
            4,
            &Spans::from(format!("  and {more} more (--format json lists all)")),
        ),
    }
}

fn write_sources(
    screen: &mut Screen<'_>,
    history: &IncidentHistory,
    investigation: &Investigation,
) -> io::Result<()> {
    let mut formats: Vec<(SourceFormat, usize, usize)> = Vec::new();
    let own = |source: &&InvestigatedSource| {
        source.host == history.host && source.clock == history.clock && source.from.is_some()
    };
    for source in investigation.sources.iter().filter(own) {
        let Some(format) = source.format else { continue };
        match formats.iter_mut().find(|(name, ..)| *name == format) {
            Some((_, files, samples)) => {
                (*files, *samples) = (*files + 1, *samples + source.samples)
            }
            None => formats.push((format, 1, source.samples)),
        }
    }
    let field = |(format, files, samples): &(SourceFormat, usize, usize)| {
        let (one, many) = if format.is_log() { ("event", "events") } else { ("sample", "samples") };
        let text = format!(
            "{}, {}",
            counted_noun(*files, "file", "files"),
            counted_noun(*samples, one, many)
        );
        Spans::new().add(Role::Quiet, &format!("{format} ")).add(Role::Text, &text)
    };
    if formats.is_empty() {
        return Ok(());
    }
    screen.write_fields(2, &formats.iter().map(field).collect::<Vec<_>>())
}

fn set_up(
    screen: &mut Screen<'_>,
    facts: &HostSetupFacts,
    history: &IncidentHistory,
) -> io::Result<()> {
    let mut fields = Vec::new();
    let when =
        facts.at.map(|at| format!(" at {}", day_and_time(at, &history.clock))).unwrap_or_default();
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
            field(format!(
                "{total} huge {} of {}{free}",
                if total == 1 { "page" } else { "pages" },
                pool.page
            ));
        }
    }
    if facts.pools.as_ref().is_some_and(|pools| pools.iter().all(|pool| pool.total == Some(0))) {
        field("no huge pages".into());
    }
    if let Some(thp) = &facts.thp {
        field(format!("THP {thp}"));
    }
    for instance in facts.instances.iter().flatten() {
        let sessions = instance
            .sessions
            .map(|sessions| format!(", {}", counted_u64(sessions)))
            .unwrap_or_default();
        let size = if instance.segments > Bytes(0) {
            format!(" {}", instance.segments)
        } else {
            String::new()
        };
        field(format!("{}{size}{sessions}", instance.title()));
    }
    // The label goes before the first field without a gap.
    if let [label, first, ..] = fields.as_slice() {
        let mut joined = label.clone();
        joined.append(first);
        fields.splice(0..2, [joined]);
    }
    screen.write_fields(2, &fields)
}

fn counted_u64(sessions: u64) -> String {
    counted_noun(usize::try_from(sessions).unwrap_or(usize::MAX), "session", "sessions")
}

/// Lines below labels, with the number of the incident that said them first: what two incidents of
/// one cause have in common is said once.
#[derive(Default)]
struct LinesTold(BTreeMap<(&'static str, String), usize>);

impl LinesTold {
    /// The lines that no incident had below that label, and one that names who had the others.
    fn keep_new_lines(
        &mut self,
        label: &'static str,
        lines: &[String],
        number: usize,
    ) -> Vec<String> {
        let mut new = Vec::new();
        let mut before: BTreeSet<usize> = BTreeSet::new();
        for line in lines {
            let first = *self.0.entry((label, line.clone())).or_insert(number);
            if first == number {
                new.push(line.clone());
            } else {
                before.insert(first);
            }
        }
        if !before.is_empty() {
            let named: Vec<String> = before.iter().map(usize::to_string).collect();
            new.push(format!("as for {}", named.join(" and ")));
        }
        new
    }
}

/// A summary's first statement, which has the figure that matters, and the others.
fn split_headline(incident: &Incident) -> (String, &str) {
    let (first, rest) = incident.summary.split_once("; ").unwrap_or((&incident.summary, ""));
    let first = if first.is_empty() { incident.verdict.label() } else { first };
    (capitalize(first), rest)
}

fn write_incident(
    screen: &mut Screen<'_>,
    history: &IncidentHistory,
    number: usize,
    incident: &Incident,
    told: &mut LinesTold,
) -> io::Result<()> {
    let clock = &history.clock;
    let (headline, rest) = split_headline(incident);
    let heading =
        Spans::new().add(Role::Error, &format!("{number:<LABELS$}")).add(Role::Strong, &headline);
    screen.write_paragraph(LABELS, &heading)?;
    let indent = " ".repeat(LABELS);
    let when = Spans::from(indent.as_str())
        .add(Role::Text, &format_window(incident.from, incident.to, clock))
        .add(Role::Quiet, ", confidence ")
        .add(Role::Text, &incident.confidence.to_string());
    screen.write_paragraph(LABELS, &when)?;
    if !rest.is_empty() {
        screen.write_paragraph(LABELS, &Spans::from(format!("{indent}{}", capitalize(rest))))?;
    }
    let day = format_day(incident.from, clock);
    let mut first = true;
    for signature in &incident.signatures {
        write_evidence(screen, signature, clock, &day, &mut first)?;
    }
    let caveats = distinct_caveats(&incident.signatures);
    for (label, lines) in [
        ("but", &caveats),
        ("who", &incident.who),
        ("also", &incident.elsewhere),
        ("days", &incident.other_days),
        ("against", &incident.against),
        ("surer", &incident.raised_by),
        ("next", &incident.next),
    ] {
        let lines = match label {
            "but" | "surer" | "next" => told.keep_new_lines(label, lines, number),
            _ => lines.clone(),
        };
        for (at, line) in lines.iter().enumerate() {
            let label = indented_label(if at == 0 { label } else { "" });
            screen.write_paragraph(TEXT, &label.add(Role::Text, line))?;
        }
    }
    Ok(())
}

fn indented_label(label: &str) -> Spans {
    let (before, width) = (" ".repeat(LABELS), TEXT - LABELS);
    Spans::new().add(Role::Text, &before).add(Role::Quiet, &format!("{label:width$}"))
}

fn write_evidence(
    screen: &mut Screen<'_>,
    signature: &Signature,
    clock: &Clock,
    today: &str,
    first: &mut bool,
) -> io::Result<()> {
    let most = if screen.is_verbose() { usize::MAX } else { MOST_EVIDENCE };
    for row in signature.evidence.iter().take(most) {
        let when = if format_day(row.at, clock) == today {
            format_time_of_day(row.at, clock)
        } else {
            day_and_time(row.at, clock)
        };
        let mut line = indented_label(if std::mem::take(first) { "seen" } else { "" });
        line.push(Role::Quiet, &format!("{} {when}  ", signature.kind.label()));
        line.push(Role::Text, &row.what);
        let file = row.source.rsplit('/').next().unwrap_or(&row.source);
        line.push(Role::Quiet, &format!(" ({file})"));
        screen.write_paragraph(TEXT, &line)?;
    }
    match signature.evidence.len().saturating_sub(most) {
        0 => Ok(()),
        more => {
            let rows = if more == 1 { "row" } else { "rows" };
            screen.write_paragraph(
                TEXT,
                &indented_label("").add(Role::Quiet, &format!("and {more} more {rows}")),
            )
        }
    }
}

fn signature_line(signature: &Signature, history: &IncidentHistory) -> Spans {
    let line = Spans::new()
        .add(Role::Text, &format_window(signature.from, signature.to, &history.clock))
        .add(Role::Text, "  ")
        .add(Role::Strong, signature.kind.label());
    match signature.headline() {
        Some(row) => line.add(Role::Text, &format!("  {}", row.what)),
        None => line,
    }
}

fn write_closing(screen: &mut Screen<'_>, investigation: &Investigation) -> io::Result<()> {
    let mut troubled = Vec::new();
    for source in &investigation.sources {
        for problem in &source.problems {
            let role = if source.format.is_none() { Role::Warn } else { Role::Text };
            troubled.push(
                Spans::new().add(role, &source.path).add(Role::Text, &format!(": {problem}")),
            );
        }
    }
    if !troubled.is_empty() {
        screen.write_paragraph(0, &Spans::new().add(Role::Quiet, "Files with problems:"))?;
        write_list(screen, &troubled)?;
    }
    for line in investigation.unknown.iter().chain(&investigation.passed_over) {
        screen.write_paragraph(2, &Spans::new().add(Role::Quiet, line))?;
    }
    let incidents: usize = investigation.hosts.iter().map(|host| host.incidents.len()).sum();
    let refused = investigation.sources.iter().filter(|source| source.format.is_none()).count();
    let read = investigation.sources.len() - refused;
    let mut last = match incidents {
        0 => Spans::new().add(Role::Good, "Nothing found"),
        some => Spans::new().add(Role::Error, &counted_noun(some, "incident", "incidents")),
    };
    last.push(Role::Text, &format!(" in {}", counted_noun(read, "file", "files")));
    last.push(
        Role::Text,
        &format!(" of {}", counted_noun(investigation.hosts.len(), "host", "hosts")),
    );
    if refused > 0 {
        last.push(
            Role::Warn,
            &format!("; {} not read", counted_noun(refused, "file was", "files were")),
        );
    }
    last.push(Role::Text, ".");
    screen.write_paragraph(0, &last)
}

/// `2026-11-21 08:20:01 to 08:32:50`.
fn format_window(from: Moment, to: Moment, clock: &Clock) -> String {
    let first = format!("{} {}", format_day(from, clock), format_time_of_day(from, clock));
    if from == to {
        return first;
    }
    let same = format_day(from, clock) == format_day(to, clock);
    let last = if same {
        format_time_of_day(to, clock)
    } else {
        format!("{} {}", format_day(to, clock), format_time_of_day(to, clock))
    };
    format!("{first} to {last}")
}

/// Whether a wall clock's day is not known: times of day alone are shown as of 1970.
fn lacks_day(at: Moment, clock: &Clock) -> bool {
    let in_first_days = (0..31 * 86_400_000).contains(&at.0);
    matches!(clock, Clock::Wall { .. }) && in_first_days
}

fn format_day(at: Moment, clock: &Clock) -> String {
    if lacks_day(at, clock) {
        return format!("day {}", at.0 / 86_400_000 + 1);
    }
    clock.civil_time(at).map_or_else(|| "?".into(), |time| time.date().to_string())
}

fn format_time_of_day(at: Moment, clock: &Clock) -> String {
    let time = clock.civil_time(at);
    time.map_or_else(|| "?".into(), |time| time.strftime("%H:%M:%S").to_string())
}

/// `11-21 08:20:01`.
fn day_and_time(at: Moment, clock: &Clock) -> String {
    if lacks_day(at, clock) {
        return format!("{} {}", format_day(at, clock), format_time_of_day(at, clock));
    }
    let time = clock.civil_time(at);
    time.map_or_else(|| "?".into(), |time| time.strftime("%m-%d %H:%M:%S").to_string())
}

/// `+01:00`, `UTC`, or whose clock it is.
fn format_zone(at: Moment, clock: &Clock) -> String {
    match (clock, clock.offset_at(at)) {
        _ if lacks_day(at, clock) => "of which the date is not known".into(),
        (Clock::Wall { zone: Some(zone) }, _) => format!("wall clock ({zone})"),
        (Clock::Wall { zone: None }, _) => "wall clock".into(),
        (Clock::Utc { .. }, None | Some(0)) => "UTC".into(),
        (Clock::Utc { .. }, Some(_)) => {
            let text = clock.format(at);
            text.len()
                .checked_sub(6)
                .and_then(|start| text.get(start..))
                .unwrap_or_default()
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::text_width;
    use crate::testing::sample_investigations;
    use crate::{Report, TextLayout};

    fn text(investigation: &Investigation, width: usize) -> String {
        let mut out = Vec::new();
        investigation.write_text(&mut out, TextLayout::plain_text(width)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_storm_on_its_timeline() {
        insta::assert_snapshot!(text(&sample_investigations::storm_investigation(), 80));
    }

    /// Nine hosts: the table names the two that had incidents, counts the seven others, and tells
    /// no story.
    #[test]
    fn many_hosts_are_a_table() {
        let mut many = Investigation::default();
        for number in 0..9 {
            let mut one = if number % 4 == 1 {
                sample_investigations::storm_investigation()
            } else {
                sample_investigations::quiet_investigation()
            };
            one.hosts[0].host = Some(format!("db{number}"));
            many.hosts.append(&mut one.hosts);
        }
        let shown = text(&many, 80);
        assert!(
            shown.contains("db1 ") && shown.contains("db5 ") && !shown.contains("db2"),
            "{shown}"
        );
        assert!(
            shown.contains("7 other hosts: nothing found.") && shown.contains("--host db1"),
            "{shown}"
        );
        assert!(shown.lines().count() < 12, "{shown}");
    }

    /// The same host stalled twice: what the first says below its labels is not said again.
    #[test]
    fn what_two_incidents_have_in_common_is_said_once() {
        let mut twice = sample_investigations::storm_investigation();
        let again = twice.hosts[0].incidents[0].clone();
        let mut more = again.clone();
        more.next.push("look at the host's console".into());
        twice.hosts[0].incidents.extend([again, more]);
        let shown = text(&twice, 80);
        for line in ["10 minutes hides what", "direct reclaim stalls", "--sessions 500"] {
            assert_eq!(shown.matches(line).count(), 1, "{line}: {shown}");
        }
        assert_eq!(shown.matches("   next    as for 1\n").count(), 1, "{shown}");
        assert!(shown.contains("look at the host's console\n           as for 1\n"), "{shown}");
    }

    #[test]
    fn times_without_a_day_are_not_of_1970() {
        let clock = Clock::Wall { zone: None };
        let at = Moment::from_seconds(6 * 3600);
        assert_eq!(format_window(at, at, &clock), "day 1 06:00:00");
        assert_eq!(format_zone(at, &clock), "of which the date is not known");
        let known = Moment::from_seconds(1_795_301_255);
        assert_eq!(format_zone(known, &clock), "wall clock");
    }

    #[test]
    fn a_quiet_host_says_what_was_looked_at() {
        insta::assert_snapshot!(text(&sample_investigations::quiet_investigation(), 80));
    }

    #[test]
    fn hostile_names_reach_no_terminal() {
        let shown = text(&sample_investigations::hostile_investigation(), 80);
        assert!(
            !shown.chars().any(|character| character != '\n' && character.is_control())
                && !shown.contains('\u{202e}'),
            "{shown:?}"
        );
    }

    proptest! {
        #[test]
        fn no_report_is_wider_than_the_terminal(width in 72_usize..200) {
            for story in [sample_investigations::storm_investigation(), sample_investigations::quiet_investigation(), sample_investigations::hostile_investigation(), Investigation::default()] {
                for line in text(&story, width).lines() {
                    prop_assert!(text_width(line) <= width, "{}: {line}", text_width(line));
                }
            }
        }
    }
}
