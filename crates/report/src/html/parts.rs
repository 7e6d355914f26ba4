//! What the pages of check, size and verify share. The words are those of the terminal.

use hugewise_model::{Host, HugePageChain, Unread};
use maud::{Markup, html};

use crate::palette::Role;
use crate::screen::Spans;
use crate::table::{TableCell, TableColumn};
use crate::view::{chain as words, closing, host as lines};
use crate::{date, plain};

pub(super) const STYLE: &str = include_str!("parts.css");

pub(super) fn clean_text(text: &str) -> String {
    plain::escape_line(text).into_owned()
}

pub(super) const fn role_class(role: Role) -> &'static str {
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

pub(super) fn render_spans(spans: &Spans) -> Markup {
    html! { @for (role, text) in spans.pieces() { span class=(role_class(role)) { (text) } } }
}

pub(super) fn render_fields(fields: &[Spans]) -> Markup {
    html! { p.fields { @for field in fields { span { (render_spans(field)) } " " } } }
}

pub(super) fn render_host_lines(host: &Host) -> Markup {
    html! { div.machine { @for line in lines::host_lines(host) { (render_fields(&line)) } } }
}

pub(super) fn host_title(host: &Host) -> String {
    host.name.as_known().map_or_else(|| "this host".into(), |name| clean_text(name))
}

pub(super) fn render_table(
    label: &str,
    columns: &[TableColumn],
    rows: &[Vec<TableCell>],
) -> Markup {
    html! {
        @if !rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label={ "table: " (label) } {
                table {
                    thead { tr { @for column in columns { th.number[column.right] scope="col" { (column.heading) } } } }
                    tbody {
                        @for row in rows {
                            tr {
                                @for (column, cell) in columns.iter().zip(row) {
                                    td.number[column.right] { span class=(role_class(cell.role)) { (cell.text) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn render_chain(chain: &HugePageChain) -> Markup {
    html! {
        ol.chain {
            @for link in &chain.links {
                li class=(role_class(words::link_state_role(link.state))) {
                    span.strong { (words::link_title(link.name)) } " " span { (words::link_state_label(chain, link)) }
                    @if !link.evidence.is_empty() { span.faint { (clean_text(&link.evidence)) } }
                }
            }
        }
    }
}

pub(super) fn render_unread(host: &Host, unread: &[Unread], denied: bool) -> Markup {
    let denied = denied || unread.iter().any(|fact| fact.why.is_denied());
    html! {
        @if unread.is_empty() {
            p.faint { "Everything was read." (closing::as_whom(host, denied)) }
        } @else {
            section {
                h2 { "Not read" }
                ul { @for fact in closing::group_unread(unread) { li { (clean_text(&fact)) } } }
                @if denied { p.strong { (closing::as_whom(host, denied)) } }
            }
        }
    }
}

/// A paragraph for each title and text.
pub(super) fn render_notes<T: AsRef<str>>(notes: &[(String, T)]) -> Markup {
    html! {
        @for (title, text) in notes {
            p { span.strong { (clean_text(title)) } ": " (clean_text(text.as_ref())) }
        }
    }
}

pub(super) fn render_command(text: &str) -> Markup {
    render_copyable(&html! { (plain::escape_line(text)) })
}

pub(super) fn render_command_lines(text: &str) -> Markup {
    render_copyable(&html! { (plain::escape_lines(text).trim_end()) })
}

fn render_copyable(text: &Markup) -> Markup {
    html! { div.copied { pre { (text) } button type="button" hidden data-copy { "Copy" } } }
}

pub(super) struct PageSection {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) body: Markup,
}

pub(super) fn render_document(head: &Markup, sections: &[PageSection], end: &Markup) -> Markup {
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

pub(super) fn read_at(host: &Host) -> String {
    let at = host.read_at.get().and_then(date::format_rfc3339);
    match (at, host.live) {
        (Some(at), true) => format!("read {at}"),
        (Some(at), false) => format!("captured {at}"),
        (None, _) => "captured at an unknown time".into(),
    }
}
