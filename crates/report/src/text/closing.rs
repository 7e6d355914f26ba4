//! The last lines: how much was found, what could not be told, and as whom to run.

use std::collections::BTreeMap;
use std::io;

use hugewise_model::{Host, Level, Observed, Reason, Unread};

use super::counted;
use crate::Checked;
use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// Entries of a list before it says `and 3 more`.
const MOST: usize = 5;

pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>) -> io::Result<()> {
    if !checked.assessment.findings.is_empty() {
        screen.blank()?;
    }
    let mut last = Spans::from(counts(checked).as_str());
    if checked.unread.is_empty() && checked.assessment.unknown.is_empty() {
        return screen.flow(0, &last.add(Role::Text, " Everything was read."));
    }
    let undecided = undecided(checked);
    if !undecided.is_empty() {
        screen.flow(0, &last)?;
        last = Spans::new().add(Role::Quiet, "Undecided: ").add(Role::Text, &listed(&undecided));
    }
    let denied = checked.assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    end(screen, last, checked.host, checked.unread, denied)
}

/// The last line: what was not read, and who would see more, behind what is to be said before.
pub(super) fn end(
    screen: &mut Screen<'_>,
    mut last: Spans,
    host: &Host,
    unread: &[Unread],
    denied: bool,
) -> io::Result<()> {
    if !unread.is_empty() {
        if last.width() > 0 {
            screen.flow(2, &last)?;
        }
        last = Spans::new().add(Role::Quiet, "Not read: ").add(Role::Text, &listed(&grouped(unread)));
    }
    let denied = denied || unread.iter().any(|fact| fact.why.starts_with("denied"));
    screen.flow(2, &last.add(Role::Strong, as_whom(host, denied)))
}

pub(crate) fn counts(checked: &Checked<'_>) -> String {
    let findings = &checked.assessment.findings;
    let of = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings, infos) = (of(Level::Error), of(Level::Warn), of(Level::Info));
    let Some(worst) = findings.first() else {
        let all = checked.unread.is_empty() && checked.assessment.unknown.is_empty();
        return if all { "Nothing wrong was found." } else { "Nothing wrong was found in what could be read." }.into();
    };
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(counted(errors, "error", "errors"));
    }
    if warnings > 0 {
        parts.push(counted(warnings, "warning", "warnings"));
    }
    if infos > 0 {
        parts.push(format!("{infos} info"));
    }
    format!("{} (hugewise rules {}).", parts.join(", "), worst.code)
}

pub(crate) fn undecided(checked: &Checked<'_>) -> Vec<String> {
    let unknown = checked.assessment.unknown.iter();
    unknown
        .map(|verdict| match &verdict.instance {
            Some(instance) => format!("{} {} of {instance} ({})", verdict.code, verdict.name, verdict.missing),
            None => format!("{} {} ({})", verdict.code, verdict.name, verdict.missing),
        })
        .collect()
}

/// The same file of many processes is one entry.
pub(crate) fn grouped(unread: &[Unread]) -> Vec<String> {
    let mut groups: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for fact in unread {
        let kind = if fact.why.starts_with("malformed") { fact.what.clone() } else { pattern(&fact.what) };
        groups.entry((kind, &fact.why)).or_default().push(&fact.what);
    }
    groups
        .into_iter()
        .map(|((pattern, why), members)| match members.as_slice() {
            [one] => format!("{one} ({why})"),
            many => format!("{pattern} of {} processes ({why})", many.len()),
        })
        .collect()
}

/// `/proc/4711/maps` as `/proc/PID/maps`.
fn pattern(what: &str) -> String {
    let Some(below) = what.strip_prefix("/proc/") else { return what.to_owned() };
    let (first, rest) = below.split_once('/').unwrap_or((below, ""));
    if !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("/proc/PID/{rest}")
    } else {
        what.to_owned()
    }
}

fn listed(entries: &[String]) -> String {
    let shown = entries.get(..MOST.min(entries.len())).unwrap_or_default().join(", ");
    match entries.len().saturating_sub(MOST) {
        0 => format!("{shown}."),
        more => format!("{shown}, and {more} more (--format json lists all)."),
    }
}

/// Who would see more.
pub(crate) fn as_whom(host: &Host, denied: bool) -> &'static str {
    match (denied, &host.read_as, host.live) {
        (true, Observed::Known(0), _) => " Root itself was denied: a container or a security policy stands before it.",
        (true, _, true) => " Run as root to see the rest.",
        (true, _, false) => " Capture as root to see the rest.",
        (false, ..) => "",
    }
}
