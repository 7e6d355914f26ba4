use std::borrow::Cow;

use hugewise_investigate::{
    Clock, Incident, IncidentHistory, MarkKind, Moment, Signature, SignatureEvidence, SignatureKind,
};
use maud::{Markup, html};

use super::super::markdown::render_inline_code;
use super::super::parts::clean_text;
use crate::chart::calendar::format_day_month;
use crate::view::{capitalize, distinct_caveats};

/// Comments of an archive that are shown, the first ones.
const MOST_MARKS: usize = 40;

const fn kind_words(kind: SignatureKind) -> &'static str {
    match kind {
        SignatureKind::KernelCpu => "Time in the kernel",
        SignatureKind::FreeMemory => "Free memory",
        SignatureKind::Reclaim => "Reclaim",
        SignatureKind::MemoryStall => "Waiting for memory",
        SignatureKind::Oom => "Killed for memory",
        SignatureKind::PageTables => "Page tables",
        SignatureKind::Pool => "Huge page pool",
        SignatureKind::HugePagesLost => "Huge pages lost",
        SignatureKind::Logins => "Logins and logouts",
        SignatureKind::Forks => "Processes begun",
        SignatureKind::Swap => "Swap",
        SignatureKind::MemoryGrowth => "Growth of memory",
        SignatureKind::Compaction => "Compaction",
        SignatureKind::Disk => "Waiting for disks",
        SignatureKind::UserCpu => "Programs",
        SignatureKind::Steal => "Taken by the hypervisor",
        SignatureKind::Starved => "The collector came late",
        SignatureKind::CgroupOom => "Killed at a cgroup's limit",
        SignatureKind::KernelLog => "The kernel's log",
        SignatureKind::ServerLog => "A server's log",
        SignatureKind::Silence => "Silence, then a start",
        SignatureKind::Restart => "Restart",
    }
}

/// `08:32:50`; without seconds where there are none.
fn format_time_of_day(at: Moment, clock: &Clock) -> String {
    clock.civil_time(at).map_or_else(
        || "?".into(),
        |time| match time.second() {
            0 => format!("{:02}:{:02}", time.hour(), time.minute()),
            second => format!("{:02}:{:02}:{second:02}", time.hour(), time.minute()),
        },
    )
}

/// `2 Mar 08:32:50`.
pub(super) fn day_and_time(at: Moment, clock: &Clock) -> String {
    match clock.civil_time(at) {
        Some(civil) => format!("{} {}", format_day_month(civil), format_time_of_day(at, clock)),
        None => "?".into(),
    }
}

/// `2 Mar 2026, 08:20 to 08:32:50`, or both days where they differ.
pub(super) fn format_window(from: Moment, to: Moment, clock: &Clock) -> String {
    let days = (clock.civil_time(from), clock.civil_time(to));
    let (Some(first), Some(last)) = days else { return "?".into() };
    let (start, end) = (format_time_of_day(from, clock), format_time_of_day(to, clock));
    let (first_day, last_day) = (format_day_month(first), format_day_month(last));
    if first.date() == last.date() {
        format!("{first_day} {}, {start} to {end}", first.year())
    } else if first.year() == last.year() {
        format!("{first_day} {start} to {last_day} {end}, {}", last.year())
    } else {
        format!("{first_day} {} {start} to {last_day} {} {end}", first.year(), last.year())
    }
}

pub(super) fn clock_words(clock: &Clock, at: Moment) -> Cow<'static, str> {
    match (clock, clock.offset_at(at)) {
        (Clock::Wall { zone: Some(zone) }, _) => {
            format!("times of the host's wall clock ({})", clean_text(zone)).into()
        }
        (Clock::Wall { zone: None }, _) => {
            "times of the host's wall clock; its zone is not known".into()
        }
        (Clock::Utc { .. }, None) => "times in UTC; the host's own zone is not known".into(),
        (Clock::Utc { .. }, Some(seconds)) => {
            let (sign, size) = (if seconds < 0 { "\u{2212}" } else { "+" }, seconds.unsigned_abs());
            format!("times of the host, UTC{sign}{:02}:{:02}", size / 3600, size / 60 % 60).into()
        }
    }
}

pub(super) fn to_sentence(text: &str) -> String {
    capitalize(&clean_text(text))
}

/// Sets code in backticks, or a command line of our own before its purpose.
fn render_next_step(text: &str) -> Markup {
    if text.starts_with("hugewise ") {
        let text = clean_text(text);
        let (command, what_for) = text.split_once(": ").unwrap_or((&text, ""));
        return html! { code.command { (command) } (what_for) };
    }
    render_inline_code(text)
}

fn render_list(heading: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h4 { (heading) }
            ul { @for item in items { li { (render_next_step(item)) } } }
        }
    }
}

fn render_evidence(evidence: &SignatureEvidence, history: &IncidentHistory, days: bool) -> Markup {
    // With one source, every line would repeat it.
    let several = history.series.len() != 1;
    let shown = if days { day_and_time } else { format_time_of_day };
    html! {
        li {
            time datetime=(history.clock.format(evidence.at)) { (shown(evidence.at, &history.clock)) }
            span {
                (clean_text(&evidence.what))
                @if several { " " span.source { (clean_text(&evidence.source)) } }
            }
        }
    }
}

fn render_signature(signature: &Signature, history: &IncidentHistory, days: bool) -> Markup {
    html! {
        div.signature {
            h4 { (kind_words(signature.kind)) }
            ul.evidence { @for row in &signature.evidence { (render_evidence(row, history, days)) } }
        }
    }
}

pub(super) fn render_incident(
    number: usize,
    incident: &Incident,
    history: &IncidentHistory,
) -> Markup {
    let clock = &history.clock;
    let moments = incident.signatures.iter().flat_map(|one| one.evidence.iter().map(|row| row.at));
    let mut days = moments
        .chain([incident.from, incident.to])
        .map(|at| clock.civil_time(at).map(jiff::civil::DateTime::date));
    let first = days.next();
    let days = days.any(|day| Some(day) != first);
    html! {
        article.incident {
            p.when {
                span.badge aria-label={ "incident " (number) } { (number) }
                " " (format_window(incident.from, incident.to, clock)) " "
                button type="button" hidden data-from=(incident.from.0) data-to=(incident.to.0) { "Show in the charts" }
            }
            h3 {
                @if incident.summary.is_empty() {
                    (to_sentence(&incident.verdict.name().replace('-', " ")))
                } @else {
                    (to_sentence(&incident.summary))
                }
            }
            p { span.tag { (incident.verdict.name()) } " " span.tag { (incident.confidence) " confidence" } }
            @for one in &incident.signatures { (render_signature(one, history, days)) }
            (render_list("What this does not prove", &distinct_caveats(&incident.signatures)))
            (render_list("Who", &incident.who))
            (render_list("On other hosts", &incident.elsewhere))
            (render_list("On other days", &incident.other_days))
            (render_list("What speaks against it", &incident.against))
            (render_list("What would make it more certain", &incident.raised_by))
            (render_list("Next", &incident.next))
        }
    }
}

pub(super) fn render_prose(history: &IncidentHistory) -> Markup {
    let clock = &history.clock;
    let comments: Vec<(Moment, &str)> = history
        .series
        .iter()
        .flat_map(|series| &series.marks)
        .filter_map(|mark| match &mark.kind {
            MarkKind::Comment(text) => Some((mark.at, text.as_str())),
            MarkKind::Restart | MarkKind::Resumed | MarkKind::Event(_) => None,
        })
        .take(MOST_MARKS)
        .collect();
    html! {
        @if history.incidents.is_empty() {
            article.quiet {
                h3 { "Nothing found" }
                @if history.looked.is_empty() { p.faint { "There was nothing to look at." } }
            }
        }
        @for (number, one) in (1..).zip(&history.incidents) { (render_incident(number, one, history)) }
        @if !history.signatures.is_empty() {
            section {
                h3 { "Also seen" }
                @for one in &history.signatures { (render_signature(one, history, true)) }
                (render_list("What this does not prove", &distinct_caveats(&history.signatures)))
            }
        }
        @if !history.looked.is_empty() {
            section { h3 { "Looked at" } ul { @for what in &history.looked { li { (clean_text(what)) } } } }
        }
        @if !history.unknown.is_empty() {
            section { h3 { "What could not be determined" } ul { @for what in &history.unknown { li { (render_next_step(what)) } } } }
        }
        @if !comments.is_empty() {
            section {
                h3 { "Written into the archive" }
                ul.evidence {
                    @for (at, text) in &comments {
                        li { time datetime=(clock.format(*at)) { (day_and_time(*at, clock)) } span { (clean_text(text)) } }
                    }
                }
            }
        }
    }
}
