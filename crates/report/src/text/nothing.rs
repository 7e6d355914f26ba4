//! What is said of a host without a database.

use std::io;

use hugewise_model::Host;

use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// What to try where nothing was found: each a command of this program and what it is for.
const TRY_NEXT: [(&str, &str); 3] = [
    ("hugewise check --root PATH", "checks a captured host or a sosreport, a folder or a tar"),
    ("hugewise size --engine ...", "says what a server would need that does not run here"),
    ("hugewise rules", "lists what is looked for on a host with a database"),
];

/// That there is none, and what was looked for.
pub(crate) fn none_runs() -> String {
    let named = hugewise_engines::kinds().iter().flat_map(|kind| kind.names);
    let names = named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    format!("No database runs here. Looked for {names}, and for any other processes that share a segment over 256 MiB.")
}

pub(super) fn write(screen: &mut Screen<'_>, host: &Host) -> io::Result<()> {
    if let Some(why) = host.processes.reason() {
        let text = if host.processes.is_absent() {
            "No instance can be recognised: neither the processes' files under /proc nor the output of ps is here."
                .into()
        } else {
            format!("No instance can be recognised: the processes of this host could not be read ({why}).")
        };
        screen.flow(0, &Spans::from(text.as_str()))?;
    } else {
        screen.flow(0, &Spans::from(none_runs().as_str()))?;
    }
    let widest = TRY_NEXT.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (at, (command, purpose)) in TRY_NEXT.iter().enumerate() {
        let label = if at == 0 { "try next  " } else { "          " };
        let line = Spans::new()
            .add(Role::Quiet, label)
            .add(Role::Strong, &format!("{command:widest$}"))
            .add(Role::Text, &format!("  {purpose}"));
        screen.flow(label.len() + widest + 2, &line)?;
    }
    Ok(())
}
