//! The last lines: how much was found, what could not be told, and as whom to run.

use std::io;

use hugewise_model::{Host, Reason, Unread};

use crate::CheckReport;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::closing::{
    as_whom, group_unread, is_complete, list_undecided, summarize_findings,
};

/// Entries of a list before it says `and 3 more`.
const MOST: usize = 5;

pub(super) fn write(screen: &mut Screen<'_>, checked: &CheckReport<'_>) -> io::Result<()> {
    let mut last = Spans::from(summarize_findings(checked).as_str());
    if is_complete(checked) {
        return screen.write_paragraph(0, &last.add(Role::Text, " Everything was read."));
    }
    let undecided = list_undecided(checked);
    if !undecided.is_empty() {
        screen.write_paragraph(0, &last)?;
        last = Spans::new()
            .add(Role::Quiet, "Undecided: ")
            .add(Role::Text, &join_shortened(&undecided));
    }
    let denied = checked.assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    write_closing(screen, last, checked.host, checked.unread, denied)
}

/// Ends `last` with what was not read, and who would see more.
pub(super) fn write_closing(
    screen: &mut Screen<'_>,
    mut last: Spans,
    host: &Host,
    unread: &[Unread],
    denied: bool,
) -> io::Result<()> {
    if !unread.is_empty() {
        if last.width() > 0 {
            screen.write_paragraph(2, &last)?;
        }
        last = Spans::new()
            .add(Role::Quiet, "Not read: ")
            .add(Role::Text, &join_shortened(&group_unread(unread)));
    }
    let denied = denied || unread.iter().any(|fact| fact.why.is_denied());
    screen.write_paragraph(2, &last.add(Role::Strong, as_whom(host, denied)))
}

fn join_shortened(entries: &[String]) -> String {
    let shown = entries.get(..MOST.min(entries.len())).unwrap_or_default().join(", ");
    match entries.len().saturating_sub(MOST) {
        0 => format!("{shown}."),
        more => format!("{shown}, and {more} more (--format json lists all)."),
    }
}
