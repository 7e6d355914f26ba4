//! What tells servers apart that call themselves the same.

use std::io;

use hugewise_model::{Host, Instance};

use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::apart::notes;

/// A line for each of them.
pub(super) fn write(screen: &mut Screen<'_>, host: &Host, instances: &[Instance]) -> io::Result<()> {
    for (title, text) in notes(host, instances) {
        screen.flow(2, &Spans::new().add(Role::Strong, &title).add(Role::Text, &format!(": {text}")))?;
    }
    Ok(())
}
