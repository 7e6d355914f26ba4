//! The table of instances, and what there is to say of them.

use std::io;

use hugewise_engines::UNTRIED;

use super::chain;
use crate::Checked;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::instances::{COLUMNS, GIVE_WAY, notes, rows, unmentioned, untried};

pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>) -> io::Result<()> {
    table::write_narrowing(screen, &COLUMNS, &rows(checked), &GIVE_WAY)?;
    for (title, text) in notes(checked) {
        screen.flow(2, &Spans::new().add(Role::Strong, &title).add(Role::Text, &format!(": {text}")))?;
    }
    if screen.verbose() {
        for name in untried(checked) {
            screen.flow(2, &Spans::new().add(Role::Strong, name).add(Role::Quiet, &format!(": {UNTRIED}")))?;
        }
    }
    for chain in unmentioned(checked) {
        screen.blank()?;
        screen.flow(2, &Spans::new().add(Role::Strong, &chain.instance.to_string()))?;
        chain::write(screen, chain)?;
    }
    Ok(())
}
