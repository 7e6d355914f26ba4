use std::io;

use hugewise_engines::UNTRIED;

use super::chain;
use crate::CheckReport;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::instances::{
    COLUMNS, GIVE_WAY, checked_instance_rows, instance_notes, trust_notes, unmentioned_chains,
    untried_engines,
};

pub(super) fn write(screen: &mut Screen<'_>, checked: &CheckReport<'_>) -> io::Result<()> {
    table::write_narrowing(screen, &COLUMNS, &checked_instance_rows(checked), &GIVE_WAY)?;
    screen.write_notes(2, instance_notes(checked))?;
    if screen.is_verbose() {
        for (title, text) in trust_notes(checked.instances) {
            screen.write_paragraph(
                2,
                &Spans::new().add(Role::Strong, &title).add(Role::Quiet, &format!(": {text}")),
            )?;
        }
        for name in untried_engines(checked) {
            screen.write_paragraph(
                2,
                &Spans::new().add(Role::Strong, name).add(Role::Quiet, &format!(": {UNTRIED}")),
            )?;
        }
    }
    for chain in unmentioned_chains(checked) {
        screen.write_blank()?;
        screen.write_paragraph(2, &Spans::new().add(Role::Strong, &chain.instance.to_string()))?;
        chain::write(screen, chain)?;
    }
    Ok(())
}
