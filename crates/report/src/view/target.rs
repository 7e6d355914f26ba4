use hugewise_diagnose::target::PoolGoal;
use hugewise_model::PageCount;

use crate::CheckReport;
use crate::palette::Role;
use crate::table::{TableCell, TableColumn};

pub(crate) const COLUMNS: [TableColumn; 6] = [
    TableColumn::right("pool of").short("pool"),
    TableColumn::right("pages now").short("now"),
    TableColumn::right("needed"),
    TableColumn::right("target"),
    TableColumn::right("from each boot on").short("at boot"),
    TableColumn::right("memory"),
];

/// Pools that exist, or should.
pub(crate) fn relevant_goals<'a>(checked: &CheckReport<'a>) -> impl Iterator<Item = &'a PoolGoal> {
    let is_any = |goal: &&PoolGoal| {
        goal.now.max(goal.surplus).max(goal.goal).max(goal.needed) > PageCount::ZERO
    };
    checked.assessment.target.pools.iter().filter(is_any)
}

pub(crate) fn target_rows(checked: &CheckReport<'_>) -> Vec<Vec<TableCell>> {
    let row = |goal: &PoolGoal| {
        let is_there = goal.goal == goal.now;
        let text = |text: String| TableCell::new(Role::Text, text);
        vec![
            TableCell::new(Role::Strong, goal.page_size.to_string()),
            text(goal.now.to_string()),
            text(goal.needed.to_string()),
            TableCell::new(if is_there { Role::Good } else { Role::Strong }, goal.goal.to_string()),
            text(goal.pages_from_next_boot(checked.host, checked.instances).to_string()),
            text(goal.memory().to_string()),
        ]
    };
    relevant_goals(checked).map(row).collect()
}

/// Pages that only a boot brings, and pools that could not be sized.
pub(crate) fn target_notes(checked: &CheckReport<'_>) -> Vec<String> {
    let waits = |goal: &PoolGoal| {
        Some(format!("Pages of {} only after a boot: {}.", goal.page_size, goal.not_now.as_ref()?))
    };
    let unknown = checked.assessment.target.unknown.iter().cloned();
    relevant_goals(checked).filter_map(waits).chain(unknown).collect()
}
