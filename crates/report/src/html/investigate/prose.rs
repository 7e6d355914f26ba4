//! What is said beside the charts.

use std::borrow::Cow;

use hugewise_incident::{Clock, Evidence, History, Incident, Kind, MarkKind, Moment, Signature};
use maud::{Markup, html};

use crate::chart::calendar::day;
use crate::{date, plain};

/// Comments of an archive that are shown, those that come first.
const MOST_MARKS: usize = 40;

pub(super) fn clean(text: &str) -> String {
    plain::clean(text).into_owned()
}

const fn kind_words(kind: Kind) -> &'static str {
    match kind {
        Kind::KernelCpu => "Time in the kernel",
        Kind::FreeMemory => "Free memory",
        Kind::Reclaim => "Reclaim",
        Kind::MemoryStall => "Waiting for memory",
        Kind::Oom => "Killed for memory",
        Kind::PageTables => "Page tables",
        Kind::Pool => "Huge page pool",
        Kind::HugePagesLost => "Huge pages lost",
        Kind::Logins => "Logins and logouts",
        Kind::Forks => "Processes begun",
        Kind::Swap => "Swap",
        Kind::Compaction => "Compaction",
        Kind::Disk => "Waiting for disks",
        Kind::UserCpu => "Programs",
        Kind::Steal => "Taken by the hypervisor",
        Kind::Starved => "The collector came late",
        Kind::CgroupOom => "Killed at a cgroup's limit",
        Kind::KernelLog => "The kernel's log",
        Kind::ServerLog => "A server's log",
        Kind::Silence => "Silence, then a start",
        Kind::Restart => "Restart",
    }
}

/// `08:32:50`; without seconds where there are none.
fn time(at: Moment, clock: &Clock) -> String {
    date::civil(at, clock).map_or_else(
        || "?".into(),
        |time| match time.second() {
            0 => format!("{:02}:{:02}", time.hour(), time.minute()),
            second => format!("{:02}:{:02}:{second:02}", time.hour(), time.minute()),
        },
    )
}

/// `2 Mar 08:32:50`.
pub(super) fn day_and_time(at: Moment, clock: &Clock) -> String {
    match date::civil(at, clock) {
        Some(civil) => format!("{} {}", day(civil), time(at, clock)),
        None => "?".into(),
    }
}

/// `2 Mar 2026, 08:20 to 08:32:50`, or both days where they differ.
pub(super) fn window(from: Moment, to: Moment, clock: &Clock) -> String {
    let days = (date::civil(from, clock), date::civil(to, clock));
    let (Some(first), Some(last)) = days else { return "?".into() };
    if first.date() == last.date() {
        format!("{} {}, {} to {}", day(first), first.year(), time(from, clock), time(to, clock))
    } else if first.year() == last.year() {
        format!("{} {} to {} {}, {}", day(first), time(from, clock), day(last), time(to, clock), last.year())
    } else {
        let year = |civil: jiff::civil::DateTime| format!("{} {}", day(civil), civil.year());
        format!("{} {} to {} {}", year(first), time(from, clock), year(last), time(to, clock))
    }
}

/// What a host's times are: `times are 5 hours behind UTC (-05:00)`.
pub(super) fn clock_words(clock: &Clock, at: Moment) -> Cow<'static, str> {
    match (clock, clock.offset_at(at)) {
        (Clock::Wall { zone: Some(zone) }, _) => format!("times of the host's wall clock ({})", clean(zone)).into(),
        (Clock::Wall { zone: None }, _) => "times of the host's wall clock; its zone is not known".into(),
        (Clock::Utc { .. }, None) => "times in UTC; the host's own zone is not known".into(),
        (Clock::Utc { .. }, Some(seconds)) => {
            let (sign, size) =
                if seconds < 0 { ("\u{2212}", seconds.unsigned_abs()) } else { ("+", seconds.unsigned_abs()) };
            format!("times of the host, UTC{sign}{:02}:{:02}", size / 3600, size / 60 % 60).into()
        }
    }
}

/// Begun with a capital.
pub(super) fn sentence(text: &str) -> String {
    let text = clean(text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text,
    }
}

/// Words with commands in them: what stands between backticks, or a command line of our own before what it is for.
fn step(text: &str) -> Markup {
    let text = clean(text);
    if text.starts_with("hugewise ") {
        let (command, what_for) = text.split_once(": ").unwrap_or((&text, ""));
        return html! { code.command { (command) } (what_for) };
    }
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn list(heading: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h4 { (heading) }
            ul { @for item in items { li { (step(item)) } } }
        }
    }
}

fn evidence(evidence: &Evidence, history: &History, days: bool) -> Markup {
    // Of a host with one source alone it would be the same words in every line.
    let several = history.series.len() != 1;
    let shown = if days { day_and_time } else { time };
    html! {
        li {
            time datetime=(date::moment(evidence.at, &history.clock)) { (shown(evidence.at, &history.clock)) }
            span {
                (clean(&evidence.what))
                @if several { " " span.source { (clean(&evidence.source)) } }
            }
        }
    }
}

/// With their days where these are not all the same one.
fn signature(signature: &Signature, history: &History, days: bool) -> Markup {
    html! {
        div.signature {
            h4 { (kind_words(signature.kind)) }
            ul.evidence { @for row in &signature.evidence { (evidence(row, history, days)) } }
        }
    }
}

/// The caveats of signatures, each once.
fn caveats(signatures: &[Signature]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for caveat in signatures.iter().flat_map(|signature| &signature.caveats) {
        if !seen.contains(caveat) {
            seen.push(caveat.clone());
        }
    }
    seen
}

/// An incident in words.
pub(super) fn incident(number: usize, incident: &Incident, history: &History) -> Markup {
    let clock = &history.clock;
    let moments = incident.signatures.iter().flat_map(|one| one.evidence.iter().map(|row| row.at));
    let mut days =
        moments.chain([incident.from, incident.to]).map(|at| date::civil(at, clock).map(jiff::civil::DateTime::date));
    let first = days.next();
    let days = days.any(|day| Some(day) != first);
    html! {
        article.incident {
            p.when {
                span.badge aria-label={ "incident " (number) } { (number) }
                " " (window(incident.from, incident.to, clock)) " "
                button type="button" hidden data-from=(incident.from.0) data-to=(incident.to.0) { "Show in the charts" }
            }
            h3 {
                @if incident.summary.is_empty() {
                    (sentence(&incident.verdict.name().replace('-', " ")))
                } @else {
                    (sentence(&incident.summary))
                }
            }
            p { span.tag { (incident.verdict.name()) } " " span.tag { (incident.confidence) " confidence" } }
            @for one in &incident.signatures { (signature(one, history, days)) }
            (list("What this does not prove", &caveats(&incident.signatures)))
            (list("Who", &incident.who))
            (list("On other hosts", &incident.elsewhere))
            (list("On other days", &incident.other_days))
            (list("What speaks against it", &incident.against))
            (list("What would make it more certain", &incident.raised_by))
            (list("Next", &incident.next))
        }
    }
}

/// All that is said of a host beside its charts.
pub(super) fn all(history: &History) -> Markup {
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
        @for (number, one) in (1..).zip(&history.incidents) { (incident(number, one, history)) }
        @if !history.signatures.is_empty() {
            section {
                h3 { "Also seen" }
                @for one in &history.signatures { (signature(one, history, true)) }
                (list("What this does not prove", &caveats(&history.signatures)))
            }
        }
        @if !history.looked.is_empty() {
            section { h3 { "Looked at" } ul { @for what in &history.looked { li { (clean(what)) } } } }
        }
        @if !history.unknown.is_empty() {
            section { h3 { "What could not be determined" } ul { @for what in &history.unknown { li { (step(what)) } } } }
        }
        @if !comments.is_empty() {
            section {
                h3 { "Written into the archive" }
                ul.evidence {
                    @for (at, text) in &comments {
                        li { time datetime=(date::moment(*at, clock)) { (day_and_time(*at, clock)) } span { (clean(text)) } }
                    }
                }
            }
        }
    }
}
