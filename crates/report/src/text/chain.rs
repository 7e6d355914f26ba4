//! The chain between an instance and its huge pages.

use std::io;

use hugewise_model::{Chain, Link, LinkName, LinkState};

use super::findings::{LABELS, TEXT, labelled};
use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// On one line where that fits, else a line a link; then the cause.
pub(super) fn write(screen: &mut Screen<'_>, chain: &Chain) -> io::Result<()> {
    let mut line = labelled("chain");
    for (at, link) in chain.links.iter().enumerate() {
        if at > 0 {
            line.push(Role::Quiet, " > ");
        }
        line.push(Role::Text, &format!("{}: ", name(link.name)));
        line.push(role(link.state), state(link.state));
        if !link.evidence.is_empty() {
            line.push(Role::Text, &format!(" ({})", link.evidence));
        }
    }
    if line.width() <= screen.width() {
        screen.line(&line)?;
    } else {
        apart(screen, chain)?;
    }
    match chain.broken() {
        Some(link) => screen.flow(TEXT, &cause(link)),
        None => Ok(()),
    }
}

fn apart(screen: &mut Screen<'_>, chain: &Chain) -> io::Result<()> {
    let widest = chain.links.iter().map(|link| name(link.name).len()).max().unwrap_or(0);
    for (at, link) in chain.links.iter().enumerate() {
        let mut line = if at == 0 { labelled("chain") } else { Spans::from(" ".repeat(TEXT).as_str()) };
        line.push(Role::Text, &format!("{:widest$}  ", name(link.name)));
        line.push(role(link.state), &format!("{:3}", state(link.state)));
        line.push(Role::Text, &format!("  {}", link.evidence));
        screen.flow(TEXT + widest + 7, &line)?;
    }
    Ok(())
}

fn cause(link: &Link) -> Spans {
    let cause = labelled("cause").add(Role::Strong, name(link.name));
    if link.evidence.is_empty() { cause } else { cause.add(Role::Text, &format!(": {}", link.evidence)) }
}

const fn name(link: LinkName) -> &'static str {
    match link {
        LinkName::Asked => "asked for",
        LinkName::Pool => "pool",
        LinkName::Room => "room",
        LinkName::Permission => "limits",
        LinkName::Cgroup => "cgroup",
        LinkName::Mapped => "mapped",
    }
}

const fn state(state: LinkState) -> &'static str {
    match state {
        LinkState::Ok => "yes",
        LinkState::Broken => "NO",
        LinkState::Unknown => "?",
    }
}

const fn role(state: LinkState) -> Role {
    match state {
        LinkState::Ok => Role::Good,
        LinkState::Broken => Role::Error,
        LinkState::Unknown => Role::Quiet,
    }
}

const _: () = assert!(LABELS < TEXT);
