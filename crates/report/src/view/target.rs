//! The pools as they should be.

use hugewise_advice::target::Goal;
use hugewise_model::PageCount;

use crate::Checked;
use crate::palette::Role;
use crate::table::{Cell, Column};

const fn column(heading: &'static str, short: &'static str, right: bool) -> Column {
    Column { heading, short, right, least: None }
}

/// Columns of the pools.
pub(crate) const COLUMNS: [Column; 6] = [
    column("pool of", "pool", true),
    column("pages now", "now", true),
    column("needed", "needed", true),
    column("target", "target", true),
    column("from each boot on", "at boot", true),
    column("memory", "memory", true),
];

/// Pools that are there, or are to be.
pub(crate) fn goals<'a>(checked: &Checked<'a>) -> impl Iterator<Item = &'a Goal> {
    let is_any = |goal: &&Goal| goal.now.max(goal.surplus).max(goal.goal).max(goal.needed) > PageCount::ZERO;
    checked.assessment.target.pools.iter().filter(is_any)
}

/// A row a pool.
pub(crate) fn rows(checked: &Checked<'_>) -> Vec<Vec<Cell>> {
    let row = |goal: &Goal| {
        let is_there = goal.goal == goal.now;
        let text = |text: String| Cell::new(Role::Text, text);
        vec![
            Cell::new(Role::Strong, goal.page_size.to_string()),
            text(goal.now.to_string()),
            text(goal.needed.to_string()),
            Cell::new(if is_there { Role::Good } else { Role::Strong }, goal.goal.to_string()),
            text(goal.pages_at_boot(checked.host, checked.instances).to_string()),
            text(goal.memory().to_string()),
        ]
    };
    goals(checked).map(row).collect()
}

/// What keeps the running kernel from having its pages, and pools that could not be reckoned.
pub(crate) fn notes(checked: &Checked<'_>) -> Vec<String> {
    let waits =
        |goal: &Goal| Some(format!("Pages of {} only after a boot: {}.", goal.page_size, goal.not_now.as_ref()?));
    let unknown = checked.assessment.target.unknown.iter().cloned();
    goals(checked).filter_map(waits).chain(unknown).collect()
}
