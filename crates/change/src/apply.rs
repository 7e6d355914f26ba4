//! Carries a plan out.

use hugewise_engines::options::file_name;
use hugewise_host::kernel::{meminfo, zoneinfo};
use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use crate::drift::{self, Need};
use crate::journal::{self, After, Before, Intent, Journal, Record, Shelf, State};
use crate::outcome::{Applied, End, Event, Progress, StepOutcome, StepResult};
use crate::plan::{Change, CommandChange, FileChange, FileState, Label, Plan, Step, ValueChange};
use crate::restore::{self, Foreign, Restorer};
use crate::undo::{recover_locked, take_back};
use crate::{Error, Failure, System, allowed, at_boot, values};

/// What may be overruled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Apply a plan that was refused, or that leaves too little memory.
    pub force: bool,
    /// A step that fails is taken back alone, and the rest goes on.
    pub keep_going: bool,
    /// A pool that got fewer pages than asked for keeps them.
    pub keep_partial: bool,
}

/// Carries a plan out. What was there before is in a journal, on the disk, before anything is changed; what an apply or
/// undo has left that was killed is taken back first. A step that fails stops the rest, and everything is taken back.
///
/// # Errors
/// Nothing was changed: this is not root or not the real machine, the plan holds what hugewise does not do, another
/// apply runs, the host has drifted, the memory does not reach, or the journal cannot be written.
pub fn apply(
    plan: &Plan,
    system: &dyn System,
    options: Options,
    progress: &mut Progress<'_>,
) -> Result<Applied, Error> {
    system.fit()?;
    allowed::check(plan)?;
    same_host(plan, system)?;
    let _lock = journal::lock(system)?;
    let mut notes = recover_locked(system, progress)?.map(|undone| undone.left()).unwrap_or_default();
    let shelf = Shelf::read(system)?;
    notes.extend(shelf.unreadable.iter().map(ToString::to_string));
    let needs = drift::needs(plan, system, applied_before(plan, &shelf))?;
    if needs.iter().flatten().all(|need| *need == Need::AlreadySo) {
        let result = |step: &Step| outcome(step, StepResult::AlreadySo);
        let steps = plan.steps.iter().map(result).collect();
        return Ok(Applied { journal: None, end: End::NothingToDo, steps, notes });
    }
    at_boot::lowers_nothing(plan, system, &needs)?;
    if !options.force {
        has_room(plan, system, &needs)?;
        at_boot::leaves_room(plan, system)?;
    }
    let journal = Journal::begin(system, plan, restore::boot_id(system))?;
    let mut applied = Run { plan, system, options, journal }.all(&needs, progress)?;
    applied.notes.splice(0..0, notes);
    Ok(applied)
}

fn same_host(plan: &Plan, system: &dyn System) -> Result<(), Error> {
    let here = system.text("/etc/machine-id").ok().flatten().map(|text| text.trim().to_owned());
    match (&plan.host.machine_id, here) {
        (Some(plan_id), Some(here)) if *plan_id != here => {
            Err(Error::OtherHost { plan: plan.host.name.clone(), here: format!("machine-id {here}") })
        }
        _ => Ok(()),
    }
}

/// Whether this very plan was applied and still stands, so that its commands need not run again.
fn applied_before(plan: &Plan, shelf: &Shelf) -> bool {
    shelf.logs.last().is_some_and(|log| log.state == State::Done && log.begin.plan.checksum == plan.checksum)
}

/// Refuses where the plan was refused, or where the pools that grow now would take memory that the host needs.
fn has_room(plan: &Plan, system: &dyn System, needs: &[Vec<Need>]) -> Result<(), Error> {
    if let Some(refusal) = &plan.refusal {
        return Err(Error::Refused { reasons: refusal.reasons.clone() });
    }
    let made = plan.steps.iter().zip(needs).flat_map(|(step, needs)| step.changes.iter().zip(needs));
    let (mut grows, mut shrinks) = (Bytes::ZERO, Bytes::ZERO);
    for (change, _) in made.filter(|(_, need)| **need == Need::Make) {
        let Change::Value(ValueChange { pool: Some(pool), path, after, .. }) = change else { continue };
        // With surplus pages, which are taken from memory already.
        let now = values::read(system, path, None)?.and_then(|now| now.parse::<u64>().ok());
        let (now, after) = (now.unwrap_or_default(), after.parse::<u64>().unwrap_or_default());
        grows += PageCount(after.saturating_sub(now)).of(pool.page_size);
        shrinks += PageCount(now.saturating_sub(after)).of(pool.page_size);
    }
    let growth = grows.saturating_sub(shrinks);
    let Some(available) = available(system)?.filter(|_| growth > Bytes::ZERO) else {
        return Ok(());
    };
    let floor = Bytes(plan.budget.floor_bytes);
    if growth + floor > available {
        let left = available.saturating_sub(growth);
        return Err(Error::Refused {
            reasons: vec![format!(
                "the pools would grow by {growth} now; of {available} of available memory (/proc/meminfo) that would leave \
                 {left}, less than the {floor} that must stay for page cache and whatever is not counted"
            )],
        });
    }
    Ok(())
}

/// Memory that can be had now, as the kernel says or as it is reckoned of those before 3.14.
fn available(system: &dyn System) -> Result<Option<Bytes>, Failure> {
    let mut host = Host::default();
    let meminfo = system.text(meminfo::PATH)?.unwrap_or_default();
    if let Ok(all) = meminfo::parse(meminfo.as_bytes()) {
        host.memory = all.memory;
    }
    let zones = system.text(zoneinfo::PATH)?.and_then(|text| zoneinfo::parse(text.as_bytes()).ok());
    host.memory.watermarks = zones.into();
    // What is free and no more would stop pools that page cache makes room for.
    Ok(host.obtainable_memory().filter(|memory| memory.by != ObtainableBy::Free).map(|memory| memory.bytes))
}

fn outcome(step: &Step, result: StepResult) -> StepOutcome {
    StepOutcome { id: step.id.clone(), title: step.title.clone(), risk: step.risk, result }
}

/// What to do where the running kernel does not have the pages.
const AT_BOOT: &str = "reserve them at boot: --only boot plans the steps that do, for the next reboot; --keep-going applies \
                       these and all others now";

struct Run<'a> {
    plan: &'a Plan,
    system: &'a dyn System,
    options: Options,
    journal: Journal<'a>,
}

impl Run<'_> {
    fn all(&self, needs: &[Vec<Need>], progress: &mut Progress<'_>) -> Result<Applied, Error> {
        let mut applied = Applied {
            journal: Some(self.journal.id().to_string()),
            end: End::Done,
            steps: Vec::new(),
            notes: Vec::new(),
        };
        let of = self.plan.steps.len();
        for (place, (step, needs)) in self.plan.steps.iter().zip(needs).enumerate() {
            let whole = |done: &StepOutcome| matches!(done.result, StepResult::Done | StepResult::AlreadySo);
            if applied.steps.iter().any(|done| step.relies_on.contains(&done.id) && !whole(done)) {
                applied.end = End::Partly;
                applied.steps.push(outcome(step, StepResult::NotTried));
                continue;
            }
            progress(&Event::Step { step, number: place + 1, of });
            let result = match self.step(place, step, needs, progress) {
                Ok(result) => result,
                Err(failure) => {
                    let why = failure.to_string();
                    progress(&Event::StepFailed { step, why: &why });
                    applied.end = End::Partly;
                    applied.steps.push(outcome(step, StepResult::Failed { why }));
                    if self.options.keep_going && self.take_step_back(place, &mut applied.notes, progress)? {
                        continue;
                    }
                    self.take_all_back(&mut applied, progress)?;
                    return Ok(applied);
                }
            };
            if matches!(result, StepResult::Partial { .. }) {
                applied.end = End::Partly;
            }
            applied.steps.push(outcome(step, result));
        }
        if let Err(failure) = self.journal.end(State::Done) {
            // An apply whose end is not on the disk would be taken back by the next one.
            applied.notes.push(failure.to_string());
            self.take_all_back(&mut applied, progress)?;
        }
        Ok(applied)
    }

    fn step(
        &self,
        place: usize,
        step: &Step,
        needs: &[Need],
        progress: &mut Progress<'_>,
    ) -> Result<StepResult, Failure> {
        let mut result = StepResult::AlreadySo;
        for (number, (change, need)) in step.changes.iter().zip(needs).enumerate() {
            if *need == Need::AlreadySo {
                progress(&Event::AlreadySo { change });
                continue;
            }
            let before = self.before(change)?;
            let (mut old, mut folders, mut rewritten) = (None, Vec::new(), Vec::new());
            match &before {
                Before::File { file, folders: missing } => (old, folders) = (file.clone(), missing.clone()),
                Before::Command { files } => rewritten = files.iter().map(|(path, _)| path.clone()).collect(),
                Before::Value { .. } => {}
            }
            let intent = Intent { step: place, change: number, before };
            self.journal.add(&Record::Intent(Box::new(intent)))?;
            progress(&Event::Changing { change });
            let after = match change {
                Change::Value(value) => self.set(value, &mut result, progress)?,
                Change::File(file) => self.write(file, old, &folders)?,
                Change::Command(command) => self.run(command, &rewritten)?,
            };
            self.journal.add(&Record::Did(after))?;
            if result == StepResult::AlreadySo {
                result = StepResult::Done;
            }
        }
        Ok(result)
    }

    /// What is there now: it goes to the journal.
    fn before(&self, change: &Change) -> Result<Before, Failure> {
        Ok(match change {
            Change::Value(change) => {
                let value = values::read(self.system, &change.path, change.pool)?;
                let value = value.ok_or_else(|| Failure::new(&change.path, "this kernel has no such value"))?;
                let parts = change.pool.map_or(Ok(Vec::new()), |pool| values::parts(self.system, pool))?;
                Before::Value { value, parts }
            }
            Change::File(change) => {
                let file = self.system.file(&change.path)?;
                let folders = match &change.after {
                    Some(_) => self.missing_folders(&change.path)?,
                    None => Vec::new(),
                };
                Before::File { file, folders }
            }
            Change::Command(command) => Before::Command { files: self.files_of(command)? },
        })
    }

    /// Folders that have to be made for a file, the outermost first.
    fn missing_folders(&self, path: &str) -> Result<Vec<String>, Failure> {
        let mut missing = Vec::new();
        let mut folder = path;
        while let Some((parent, _)) = folder.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            if self.system.list(parent)?.is_some() {
                break;
            }
            missing.push(parent.to_owned());
            folder = parent;
        }
        missing.reverse();
        Ok(missing)
    }

    /// The files that a command rewrites, `*` in a name filled in.
    fn files_of(&self, command: &CommandChange) -> Result<Vec<(String, Option<FileState>)>, Failure> {
        let mut files = Vec::new();
        for path in &command.files {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let paths = match name.split_once('*') {
                None => vec![path.clone()],
                Some((start, end)) => {
                    let names = self.system.list(folder)?.unwrap_or_default();
                    let fits = |name: &&String| {
                        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
                    };
                    names.iter().filter(fits).map(|name| format!("{folder}/{name}")).collect()
                }
            };
            for path in paths {
                // The system's own files may be behind links of its own: /etc/grub2.cfg, /boot/grub2/grubenv. A file of anybody
                // else's that is a link itself leads where he likes.
                let real = self.system.real(&path)?.unwrap_or_else(|| path.clone());
                let of_system = ["/boot/", "/etc/"].iter().any(|folder| path.starts_with(folder));
                if file_name(&real) != file_name(&path) && !of_system {
                    let why = format!("it is a link to {real}, and hugewise does not follow links that others made");
                    return Err(Failure::new(path, why).advising("replace the link with the file itself"));
                }
                let path = real;
                let file = self.system.file(&path)?;
                files.push((path, file));
            }
        }
        Ok(files)
    }

    fn set(
        &self,
        change: &ValueChange,
        result: &mut StepResult,
        progress: &mut Progress<'_>,
    ) -> Result<After, Failure> {
        let Some(pool) = change.pool else {
            values::set(self.system, &change.path, &change.after)?;
            return Ok(After::Value(None));
        };
        let number = change.after.parse::<u64>();
        let wanted =
            number.map_err(|_| Failure::new(&change.path, format!("{:?} is not a number of pages", change.after)))?;
        // Kernels without contiguous allocation take no number of the largest pages once they run.
        let obtained = values::set_pool(self.system, &change.path, pool, wanted, progress)
            .map_err(|failure| if pool.page_size >= PageSize::GIB_1 { failure.advising(AT_BOOT) } else { failure })?;
        if obtained < wanted {
            let (wanted, obtained) = (PageCount(wanted), PageCount(obtained));
            if !self.options.keep_partial {
                let pages = if wanted == PageCount(1) { "page" } else { "pages" };
                let why = format!(
                    "the plan needs {wanted} {pages} of {}, and the kernel gave {obtained}: memory is in use or fragmented",
                    pool.page_size
                );
                let keep = "--keep-partial keeps those pages";
                let advice = if obtained > PageCount::ZERO { format!("{AT_BOOT}; {keep}") } else { AT_BOOT.into() };
                return Err(Failure::new(&change.path, why).advising(advice));
            }
            *result = StepResult::Partial { wanted, obtained };
        }
        Ok(After::Value(Some(obtained.to_string())))
    }

    fn write(&self, change: &FileChange, old: Option<FileState>, folders: &[String]) -> Result<After, Failure> {
        let Some(after) = &change.after else {
            self.system.remove_file(&change.path)?;
            return Ok(After::File);
        };
        for folder in folders {
            self.system.make_folder(folder, false)?;
        }
        // Checksums of the old bytes are wrong for the new ones; the kernel makes them anew.
        let kept = |label: &Label| !matches!(label.name.as_str(), "security.ima" | "security.evm");
        let labels = old.map_or(Vec::new(), |old| old.labels.into_iter().filter(kept).collect());
        let (content, mode) = (after.content.clone(), after.mode);
        let file = FileState { content, mode, uid: after.uid, gid: after.gid, labels };
        self.system.write_file(&change.path, &restore::temporary(&change.path), &file)?;
        Ok(After::File)
    }

    fn run(&self, command: &CommandChange, files: &[String]) -> Result<After, Failure> {
        let line = command.command.join(" ");
        let ran = self.system.run(&command.command, command.user.as_deref())?;
        restore::succeeded(&line, ran)?;
        // What comes after this step may rely on it, on the disk as well.
        files.iter().try_for_each(|path| self.system.sync(path))?;
        let sum = |path: &String| Ok(restore::sum_of(self.system.file(path)?.as_ref()));
        Ok(After::Command(files.iter().map(sum).collect::<Result<_, Failure>>()?))
    }

    /// The journal as the disk has it, without a line that could not be written whole.
    fn log(&self) -> Result<journal::Log, Error> {
        let log = journal::read(self.system, self.journal.id()).map_err(Error::Unreadable)?;
        Ok(log.ok_or_else(|| Failure::new(journal::path(self.journal.id()), "is gone"))?)
    }

    /// Whether a failed step could be taken back whole.
    fn take_step_back(
        &self,
        place: usize,
        notes: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<bool, Error> {
        let log = self.log()?;
        let taken = Restorer::new(self.system, &log, Foreign::Leave).take_back(Some(place), progress);
        let complete = taken.complete();
        notes.extend(taken.notes);
        let written =
            Journal::resume(self.system, &log).and_then(|journal| journal.add(&Record::StepTakenBack { step: place }));
        Ok(complete && written.is_ok())
    }

    fn take_all_back(&self, applied: &mut Applied, progress: &mut Progress<'_>) -> Result<(), Error> {
        // Nobody has applied anything since: nothing of it waits.
        let alone = Shelf::default();
        let taken = take_back(self.system, &alone, &self.log()?, Foreign::Leave, State::TakenBack, progress);
        applied.end = match taken.map(|taken| taken.undone) {
            Ok(undone) => {
                applied.notes.extend(undone.left());
                applied.notes.extend(undone.notes);
                if undone.complete { End::TakenBack } else { End::Stuck }
            }
            Err(error) => {
                applied.notes.push(error.to_string());
                End::Stuck
            }
        };
        for step in &mut applied.steps {
            if matches!(step.result, StepResult::Done | StepResult::Partial { .. }) {
                step.result = StepResult::TakenBack;
            }
        }
        let rest = self.plan.steps.iter().skip(applied.steps.len());
        applied.steps.extend(rest.map(|step| outcome(step, StepResult::NotTried)));
        Ok(())
    }
}
