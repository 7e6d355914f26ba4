//! The chain between an instance and its huge pages.

use std::io;

use hugewise_model::{Chain, Link, LinkName, LinkState};

use super::findings::{LABELS, TEXT, labelled};
use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// The cause, then the chain: on one line where that fits, else a line a link.
pub(super) fn write(screen: &mut Screen<'_>, chain: &Chain) -> io::Result<()> {
    if let Some(link) = chain.broken() {
        screen.flow(TEXT, &cause(link))?;
    }
    let mut line = labelled("chain");
    for (at, link) in chain.links.iter().enumerate() {
        if at > 0 {
            line.push(Role::Quiet, " > ");
        }
        line.push(Role::Text, &format!("{}: ", name(link.name)));
        line.push(role(link.state), state(chain, link));
        if !link.evidence.is_empty() {
            line.push(Role::Text, &format!(" ({})", link.evidence));
        }
    }
    if line.width() <= screen.width() { screen.line(&line) } else { apart(screen, chain) }
}

fn apart(screen: &mut Screen<'_>, chain: &Chain) -> io::Result<()> {
    let widest = chain.links.iter().map(|link| name(link.name).len()).max().unwrap_or(0);
    for (at, link) in chain.links.iter().enumerate() {
        let mut line = if at == 0 { labelled("chain") } else { Spans::from(" ".repeat(TEXT).as_str()) };
        line.push(Role::Text, &format!("{:widest$}  ", name(link.name)));
        line.push(role(link.state), &format!("{:3}", state(chain, link)));
        line.push(Role::Text, &format!("  {}", link.evidence));
        screen.flow(TEXT + widest + 7, &line)?;
    }
    Ok(())
}

fn cause(link: &Link) -> Spans {
    let cause = labelled("cause").add(Role::Strong, name(link.name));
    if link.evidence.is_empty() { cause } else { cause.add(Role::Text, &format!(": {}", link.evidence)) }
}

/// What a link is called.
pub const fn name(link: LinkName) -> &'static str {
    match link {
        LinkName::Asked => "asked for",
        LinkName::Pool => "pool",
        LinkName::Room => "room",
        LinkName::Permission => "permission",
        LinkName::Cgroup => "cgroup",
        LinkName::Mapped => "mapped",
    }
}

/// Whether a link holds: the cause stands out; what is broken behind it may be so because of it.
pub fn state(chain: &Chain, link: &Link) -> &'static str {
    match link.state {
        LinkState::Ok => "yes",
        LinkState::Broken if chain.broken().is_some_and(|cause| cause.name == link.name) => "NO",
        LinkState::Broken => "no",
        LinkState::Unknown => "?",
    }
}

/// What the state of a link means to its reader.
pub const fn role(state: LinkState) -> Role {
    match state {
        LinkState::Ok => Role::Good,
        LinkState::Broken => Role::Error,
        LinkState::Unknown => Role::Quiet,
    }
}

const _: () = assert!(LABELS < TEXT);
