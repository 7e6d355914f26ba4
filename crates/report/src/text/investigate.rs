//! `hugewise investigate`: the timeline, what happened on it, and what could not be told.

use std::io;

use hugewise_incident::Investigation;

use crate::Layout;
use crate::palette::Role;
use crate::screen::{Screen, Spans};

/// Writes the report that people read.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(investigation: &Investigation, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    if investigation.hosts.iter().all(|host| host.incidents.is_empty()) {
        screen.flow(0, &Spans::new().add(Role::Good, "nothing found"))?;
    }
    Ok(())
}
