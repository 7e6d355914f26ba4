use std::io;

use hugewise_model::Host;

use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::no_instances::why_no_instance;

/// Commands, each with its purpose.
const TRY_NEXT: [(&str, &str); 3] = [
    ("hugewise check --root PATH", "check a captured host or a sosreport: a folder or a tar"),
    ("hugewise size --engine ...", "calculate the huge pages for a server that does not run here"),
    ("hugewise rules", "list what is checked on a host with a database"),
];

pub(super) fn write(screen: &mut Screen<'_>, host: &Host) -> io::Result<()> {
    screen.write_paragraph(0, &Spans::from(why_no_instance(host).as_str()))?;
    let widest = TRY_NEXT.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (at, (command, purpose)) in TRY_NEXT.iter().enumerate() {
        let label = if at == 0 { "try next  " } else { "          " };
        let line = Spans::new()
            .add(Role::Quiet, label)
            .add(Role::Strong, &format!("{command:widest$}"))
            .add(Role::Text, &format!("  {purpose}"));
        screen.write_paragraph(label.len() + widest + 2, &line)?;
    }
    Ok(())
}
