//! The host as a plan found it, and as it is now.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::{self, FileView, StateDifference};
use crate::plan::{Change, CommandChange, FileChange, FileState, NewFile, Plan, Step, ValueChange};
use crate::{Error, System, SystemFailure, values};

/// The machine with the changes that come before in the plan.
struct ProjectedSystem<'a> {
    system: &'a dyn System,
    values: BTreeMap<String, String>,
    files: BTreeMap<String, Option<NewFile>>,
    /// Paths that are as the whole plan leaves them.
    so: BTreeSet<String>,
}

pub(crate) fn changes_to_make<'a>(
    plan: &'a Plan,
    needs: &'a [Vec<Need>],
) -> impl Iterator<Item = (&'a Step, &'a Change)> {
    let needs = needs.iter().flatten();
    plan.changes().zip(needs).filter(|(_, need)| **need == Need::Make).map(|(change, _)| change)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Make,
    AlreadySo,
}

impl<'a> ProjectedSystem<'a> {
    fn new(system: &'a dyn System) -> Self {
        Self { system, values: BTreeMap::new(), files: BTreeMap::new(), so: BTreeSet::new() }
    }

    fn read_value(&self, change: &ValueChange) -> Result<Option<String>, SystemFailure> {
        match self.values.get(&change.path) {
            Some(value) => Ok(Some(value.clone())),
            None => values::read(self.system, &change.path, change.pool),
        }
    }

    fn read_file(&self, path: &str) -> Result<Option<NewFile>, SystemFailure> {
        if let Some(file) = self.files.get(path) {
            return Ok(file.clone());
        }
        let now = self.system.read_file(path)?;
        Ok(now.map(|FileState { content, mode, uid, gid, .. }| NewFile { content, mode, uid, gid }))
    }

    /// A file that cannot be read holds nothing.
    fn is_command_satisfied(&self, command: &CommandChange) -> bool {
        let Some(unless) = &command.unless else { return false };
        let text = match self.files.get(&unless.path) {
            Some(file) => {
                file.as_ref().map(|file| String::from_utf8_lossy(file.content.bytes()).into_owned())
            }
            None => self.system.read_text(&unless.path).ok().flatten(),
        };
        text.is_some_and(|text| text.lines().any(|line| line.trim() == unless.line))
    }

    /// What a plan changes several times, and is as after the last time, is not changed at all.
    fn note_unchanged_paths(&mut self, plan: &Plan) -> Result<(), SystemFailure> {
        let mut last: BTreeMap<&str, &Change> = BTreeMap::new();
        for (_, change) in plan.changes() {
            last.extend(change.path().map(|path| (path, change)));
        }
        for (path, change) in last {
            let so = match change {
                Change::Value(value) => {
                    self.read_value(value)?.as_deref()
                        == Some(&*values::normalize_value(&value.after))
                }
                Change::File(file) => self.read_file(path)? == file.after,
                Change::Command(_) => false,
            };
            if so {
                self.so.insert(path.to_owned());
            }
        }
        Ok(())
    }

    fn apply_change(&mut self, change: &Change) {
        match change {
            Change::Value(change) => {
                self.values.insert(change.path.clone(), values::normalize_value(&change.after));
            }
            Change::File(change) => {
                self.files.insert(change.path.clone(), change.after.clone());
            }
            Change::Command(_) => {}
        }
    }
}

/// Fills in what is there before each change, keeps owners and permissions of existing files,
/// leaves out what is so already, and seals the plan.
pub fn prepare_plan(mut plan: Plan, system: &dyn System) -> Result<Plan, Error> {
    let mut ahead = ProjectedSystem::new(system);
    for step in &mut plan.steps {
        let only_commands = step.changes.iter().all(|change| matches!(change, Change::Command(_)));
        let mut kept = Vec::new();
        let mut changed = only_commands;
        for mut change in std::mem::take(&mut step.changes) {
            let needed = match &mut change {
                Change::Value(change) => {
                    let now = ahead.read_value(change)?;
                    let now = now.ok_or_else(|| values::no_such_value(&change.path))?;
                    let needed = now != values::normalize_value(&change.after);
                    change.before = Some(now);
                    needed
                }
                Change::File(change) => fill_before_state(change, &ahead)?,
                Change::Command(command) => changed && !ahead.is_command_satisfied(command),
            };
            if needed {
                changed = true;
                ahead.apply_change(&change);
                kept.push(change);
            }
        }
        step.changes = kept;
    }
    plan.steps.retain(|step| !step.changes.is_empty());
    plan.seal();
    Ok(plan)
}

fn fill_before_state(
    change: &mut FileChange,
    ahead: &ProjectedSystem<'_>,
) -> Result<bool, SystemFailure> {
    let now = ahead.read_file(&change.path)?;
    if let (Some(now), Some(after)) = (&now, &mut change.after) {
        (after.mode, after.uid, after.gid) = (now.mode, now.uid, now.gid);
    }
    let needed = now != change.after;
    change.before = match (ahead.files.get(&change.path), now) {
        (None, Some(_)) => ahead.system.read_file(&change.path)?,
        (_, now) => now.map(|NewFile { content, mode, uid, gid }| FileState {
            content,
            mode,
            uid,
            gid,
            labels: Vec::new(),
        }),
    };
    Ok(needed)
}

/// [`Error::Drifted`] names everything that is neither as before nor as after.
pub(crate) fn determine_needs(
    plan: &Plan,
    system: &dyn System,
    applied_before: bool,
) -> Result<Vec<Vec<Need>>, Error> {
    let mut ahead = ProjectedSystem::new(system);
    ahead.note_unchanged_paths(plan)?;
    let mut differences = Vec::new();
    let mut needs = Vec::new();
    for step in &plan.steps {
        needs.push(needs_of(step, &mut ahead, &mut differences, applied_before)?);
    }
    if differences.is_empty() { Ok(needs) } else { Err(Error::Drifted(differences)) }
}

fn needs_of(
    step: &Step,
    ahead: &mut ProjectedSystem<'_>,
    differences: &mut Vec<StateDifference>,
    applied_before: bool,
) -> Result<Vec<Need>, Error> {
    let only_commands = step.changes.iter().all(|change| matches!(change, Change::Command(_)));
    let mut changed = only_commands && !applied_before;
    let mut needs = Vec::new();
    for change in &step.changes {
        let needed = match change {
            _ if change.path().is_some_and(|path| ahead.so.contains(path)) => false,
            Change::Value(value) => {
                let now = ahead.read_value(value)?;
                let so = now.as_deref() == Some(&*values::normalize_value(&value.after));
                if !so && (now.is_none() || now != value.before) {
                    let diff =
                        diff::of_values(&value.path, value.before.as_deref(), now.as_deref());
                    differences.push(StateDifference { path: value.path.clone(), diff });
                }
                !so
            }
            Change::File(file) => {
                let now = ahead.read_file(&file.path)?;
                let so = now == file.after;
                let (before, now) =
                    (file.before.as_ref().map(FileView::from), now.as_ref().map(FileView::from));
                if !so && now != before {
                    let diff = diff::of_files(&file.path, before, now);
                    differences.push(StateDifference { path: file.path.clone(), diff });
                }
                !so
            }
            Change::Command(command) => changed && !ahead.is_command_satisfied(command),
        };
        changed |= needed;
        if needed {
            ahead.apply_change(change);
        }
        needs.push(if needed { Need::Make } else { Need::AlreadySo });
    }
    Ok(needs)
}
