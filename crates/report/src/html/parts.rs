//! What the pages of check, size and verify have in common. The words are those of the terminal.

use hugewise_model::{Chain, Host, Unread};
use maud::{Markup, html};

use crate::palette::Role;
use crate::screen::Spans;
use crate::table::{Cell, Column};
use crate::view::{chain as words, closing, host as lines};
use crate::{date, plain};

/// What the classes look like.
pub(super) const STYLE: &str = include_str!("parts.css");

pub(super) fn clean(text: &str) -> String {
    plain::clean(text).into_owned()
}

/// The class of a role.
pub(super) const fn class(role: Role) -> &'static str {
    match role {
        Role::Text => "text",
        Role::Strong => "strong",
        Role::Quiet => "faint",
        Role::Good => "good",
        Role::Info => "info",
        Role::Warn => "warn",
        Role::Error => "error",
    }
}

pub(super) fn spans(spans: &Spans) -> Markup {
    html! { @for (role, text) in spans.pieces() { span class=(class(role)) { (text) } } }
}

/// Fields beside each other, as many in a line as fit.
pub(super) fn fields(fields: &[Spans]) -> Markup {
    html! { p.fields { @for field in fields { span { (spans(field)) } " " } } }
}

/// The host in three lines.
pub(super) fn host(host: &Host) -> Markup {
    html! { div.machine { @for line in lines::lines(host) { (fields(&line)) } } }
}

/// The host's name, for a title.
pub(super) fn name(host: &Host) -> String {
    host.name.known().map_or_else(|| "this host".into(), |name| clean(name))
}

/// A table of the terminal as one of a page.
pub(super) fn table(label: &str, columns: &[Column], rows: &[Vec<Cell>]) -> Markup {
    html! {
        @if !rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label={ "table: " (label) } {
                table {
                    thead { tr { @for column in columns { th.number[column.right] scope="col" { (column.heading) } } } }
                    tbody {
                        @for row in rows {
                            tr {
                                @for (column, cell) in columns.iter().zip(row) {
                                    td.number[column.right] { span class=(class(cell.role)) { (cell.text) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The chain between an instance and its huge pages, a link a step.
pub(super) fn chain(chain: &Chain) -> Markup {
    html! {
        ol.chain {
            @for link in &chain.links {
                li class=(class(words::role(link.state))) {
                    span.strong { (words::name(link.name)) } " " span { (words::state(chain, link)) }
                    @if !link.evidence.is_empty() { span.faint { (clean(&link.evidence)) } }
                }
            }
        }
    }
}

/// What was not read, and who would see more.
pub(super) fn unread(host: &Host, unread: &[Unread], denied: bool) -> Markup {
    let denied = denied || unread.iter().any(|fact| fact.why.is_denied());
    html! {
        @if unread.is_empty() {
            p.faint { "Everything was read." (closing::as_whom(host, denied)) }
        } @else {
            section {
                h2 { "Not read" }
                ul { @for fact in closing::grouped(unread) { li { (clean(&fact)) } } }
                @if denied { p.strong { (closing::as_whom(host, denied)) } }
            }
        }
    }
}

/// A command that can be copied as it stands.
pub(super) fn command(text: &str) -> Markup {
    copied(&html! { (plain::clean(text)) })
}

/// Commands that can be copied as they stand, a line each.
pub(super) fn commands(text: &str) -> Markup {
    copied(&html! { (plain::lines(text).trim_end()) })
}

fn copied(text: &Markup) -> Markup {
    html! { div.copied { pre { (text) } button type="button" hidden data-copy { "Copy" } } }
}

/// A part of a page that its contents lead to.
pub(super) struct Section {
    /// Its anchor.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// What stands below.
    pub(super) body: Markup,
}

/// A host's page: its head, the way to each section, the sections, what was not read.
pub(super) fn document(head: &Markup, sections: &[Section], end: &Markup) -> Markup {
    html! {
        header { (head) }
        nav.contents aria-label="contents" {
            ul { @for section in sections { li { a href={ "#" (section.id) } { (section.title) } } } }
        }
        @for section in sections {
            section id=(section.id) aria-labelledby={ (section.id) "-title" } {
                h2 id={ (section.id) "-title" } { (section.title) }
                (section.body)
            }
        }
        (end)
    }
}

/// When the host was read, as far as that is known.
pub(super) fn read_at(host: &Host) -> String {
    let at = host.read_at.get().and_then(date::rfc3339);
    match (at, host.live) {
        (Some(at), true) => format!("read {at}"),
        (Some(at), false) => format!("captured {at}"),
        (None, _) => "captured at an unknown time".into(),
    }
}
