//! The chain between an instance and its huge pages.

use std::io;

use hugewise_model::{HugePageChain, Link};

use super::labels::{TEXT, indented_label};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::chain::{link_state_label, link_state_role, link_title};

/// On one line where it fits, else a line a link.
pub(super) fn write(screen: &mut Screen<'_>, chain: &HugePageChain) -> io::Result<()> {
    if let Some(link) = chain.first_broken_link() {
        screen.write_paragraph(TEXT, &describe_cause(link))?;
    }
    let mut line = indented_label("chain");
    for (at, link) in chain.links.iter().enumerate() {
        if at > 0 {
            line.push(Role::Quiet, " > ");
        }
        line.push(Role::Text, &format!("{}: ", link_title(link.name)));
        line.push(link_state_role(link.state), link_state_label(chain, link));
        if !link.evidence.is_empty() {
            line.push(Role::Text, &format!(" ({})", link.evidence));
        }
    }
    if line.width() <= screen.width() {
        screen.write_line(&line)
    } else {
        write_link_per_line(screen, chain)
    }
}

fn write_link_per_line(screen: &mut Screen<'_>, chain: &HugePageChain) -> io::Result<()> {
    let widest = chain.links.iter().map(|link| link_title(link.name).len()).max().unwrap_or(0);
    for (at, link) in chain.links.iter().enumerate() {
        let mut line =
            if at == 0 { indented_label("chain") } else { Spans::from(" ".repeat(TEXT)) };
        line.push(Role::Text, &format!("{:widest$}  ", link_title(link.name)));
        line.push(link_state_role(link.state), &format!("{:3}", link_state_label(chain, link)));
        line.push(Role::Text, &format!("  {}", link.evidence));
        screen.write_paragraph(TEXT + widest + 7, &line)?;
    }
    Ok(())
}

fn describe_cause(link: &Link) -> Spans {
    let cause = indented_label("cause").add(Role::Strong, link_title(link.name));
    if link.evidence.is_empty() {
        cause
    } else {
        cause.add(Role::Text, &format!(": {}", link.evidence))
    }
}
