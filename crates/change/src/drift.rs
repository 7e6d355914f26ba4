//! The host as a plan found it, and as it is now.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::{self, Difference, FileView};
use crate::plan::{Change, CommandChange, FileChange, NewFile, Plan, Step, ValueChange};
use crate::{Error, Failure, System, values};

/// The machine with the changes that come before in the plan.
struct Ahead<'a> {
    system: &'a dyn System,
    values: BTreeMap<String, String>,
    files: BTreeMap<String, Option<NewFile>>,
    /// Paths that are as the whole plan leaves them.
    so: BTreeSet<String>,
}

/// What is to be done with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It has to be made.
    Make,
    /// It is so already.
    AlreadySo,
}

impl<'a> Ahead<'a> {
    fn new(system: &'a dyn System) -> Self {
        Self { system, values: BTreeMap::new(), files: BTreeMap::new(), so: BTreeSet::new() }
    }

    fn value(&self, change: &ValueChange) -> Result<Option<String>, Failure> {
        match self.values.get(&change.path) {
            Some(value) => Ok(Some(value.clone())),
            None => values::read(self.system, &change.path, change.pool),
        }
    }

    fn file(&self, path: &str) -> Result<Option<NewFile>, Failure> {
        if let Some(file) = self.files.get(path) {
            return Ok(file.clone());
        }
        let now = self.system.file(path)?;
        Ok(now.map(|now| NewFile { content: now.content, mode: now.mode, uid: now.uid, gid: now.gid }))
    }

    /// Whether a command need not run, for what a file holds. A file that cannot be read holds nothing.
    fn holds(&self, command: &CommandChange) -> bool {
        let Some(unless) = &command.unless else { return false };
        let text = match self.files.get(&unless.path) {
            Some(file) => file.as_ref().map(|file| String::from_utf8_lossy(file.content.bytes()).into_owned()),
            None => self.system.text(&unless.path).ok().flatten(),
        };
        text.is_some_and(|text| text.lines().any(|line| line.trim() == unless.line))
    }

    /// What a plan changes more than once, and what is as after the last time already, is not changed at all.
    fn skip_what_is_so(&mut self, plan: &Plan) -> Result<(), Failure> {
        let mut last: BTreeMap<&str, &Change> = BTreeMap::new();
        for (_, change) in plan.changes() {
            match change {
                Change::Value(value) => last.insert(&value.path, change),
                Change::File(file) => last.insert(&file.path, change),
                Change::Command(_) => None,
            };
        }
        for (path, change) in last {
            let so = match change {
                Change::Value(value) => self.value(value)?.as_deref() == Some(&*values::normal(&value.after)),
                Change::File(file) => self.file(path)? == file.after,
                Change::Command(_) => false,
            };
            if so {
                self.so.insert(path.to_owned());
            }
        }
        Ok(())
    }

    fn after(&mut self, change: &Change) {
        match change {
            Change::Value(change) => {
                self.values.insert(change.path.clone(), values::normal(&change.after));
            }
            Change::File(change) => {
                self.files.insert(change.path.clone(), change.after.clone());
            }
            Change::Command(_) => {}
        }
    }
}

/// Fills in what is there now before each change, keeps owner and permissions of files that are there, leaves out what
/// is so already, and seals the plan.
///
/// # Errors
/// A file or value of the plan cannot be read, or this kernel has no such value.
pub fn prepare(mut plan: Plan, system: &dyn System) -> Result<Plan, Error> {
    let mut ahead = Ahead::new(system);
    for step in &mut plan.steps {
        let only_commands = step.changes.iter().all(|change| matches!(change, Change::Command(_)));
        let mut kept = Vec::new();
        let mut changed = only_commands;
        for mut change in std::mem::take(&mut step.changes) {
            let needed = match &mut change {
                Change::Value(change) => {
                    let now = ahead.value(change)?;
                    let now = now.ok_or_else(|| Failure::new(&change.path, "this kernel has no such value"))?;
                    let needed = now != values::normal(&change.after);
                    change.before = Some(now);
                    needed
                }
                Change::File(change) => fill(change, &ahead)?,
                Change::Command(command) => changed && !ahead.holds(command),
            };
            if needed {
                changed = true;
                ahead.after(&change);
                kept.push(change);
            }
        }
        step.changes = kept;
    }
    plan.steps.retain(|step| !step.changes.is_empty());
    plan.seal();
    Ok(plan)
}

fn fill(change: &mut FileChange, ahead: &Ahead<'_>) -> Result<bool, Failure> {
    let now = ahead.file(&change.path)?;
    if let (Some(now), Some(after)) = (&now, &mut change.after) {
        (after.mode, after.uid, after.gid) = (now.mode, now.uid, now.gid);
    }
    let needed = now != change.after;
    change.before = match (ahead.files.get(&change.path), now) {
        (None, Some(_)) => ahead.system.file(&change.path)?,
        (_, now) => now.map(|now| crate::plan::FileState {
            content: now.content,
            mode: now.mode,
            uid: now.uid,
            gid: now.gid,
            labels: Vec::new(),
        }),
    };
    Ok(needed)
}

/// What is to be done with each change of each step, on the host as it is.
///
/// # Errors
/// [`Error::Drifted`] with everything that is neither as before nor as after; or something cannot be read.
pub(crate) fn needs(plan: &Plan, system: &dyn System, applied_before: bool) -> Result<Vec<Vec<Need>>, Error> {
    let mut ahead = Ahead::new(system);
    ahead.skip_what_is_so(plan)?;
    let mut differences = Vec::new();
    let mut needs = Vec::new();
    for step in &plan.steps {
        needs.push(needs_of(step, &mut ahead, &mut differences, applied_before)?);
    }
    if differences.is_empty() { Ok(needs) } else { Err(Error::Drifted(differences)) }
}

fn needs_of(
    step: &Step,
    ahead: &mut Ahead<'_>,
    differences: &mut Vec<Difference>,
    applied_before: bool,
) -> Result<Vec<Need>, Error> {
    let only_commands = step.changes.iter().all(|change| matches!(change, Change::Command(_)));
    let mut changed = only_commands && !applied_before;
    let mut needs = Vec::new();
    for change in &step.changes {
        let needed = match change {
            Change::Value(ValueChange { path, .. }) | Change::File(FileChange { path, .. })
                if ahead.so.contains(path) =>
            {
                false
            }
            Change::Value(value) => {
                let now = ahead.value(value)?;
                let so = now.as_deref() == Some(&*values::normal(&value.after));
                if !so && (now.is_none() || now != value.before) {
                    let diff = diff::of_values(&value.path, value.before.as_deref(), now.as_deref());
                    differences.push(Difference { path: value.path.clone(), diff });
                }
                !so
            }
            Change::File(file) => {
                let now = ahead.file(&file.path)?;
                let so = now == file.after;
                let (before, now) = (file.before.as_ref().map(FileView::from), now.as_ref().map(FileView::from));
                if !so && now != before {
                    let diff = diff::of_files(&file.path, before, now);
                    differences.push(Difference { path: file.path.clone(), diff });
                }
                !so
            }
            Change::Command(command) => changed && !ahead.holds(command),
        };
        changed |= needed;
        if needed {
            ahead.after(change);
        }
        needs.push(if needed { Need::Make } else { Need::AlreadySo });
    }
    Ok(needs)
}
