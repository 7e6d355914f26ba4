//! The chain between an instance and its huge pages, line by line.

use std::io;

use hugewise_model::{Chain, Link};

use super::labels::{LABELS, TEXT, labelled};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::chain::{name, role, state};

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

const _: () = assert!(LABELS < TEXT);
