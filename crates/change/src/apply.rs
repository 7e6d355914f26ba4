//! Carries a plan out.

use hugewise_engines::options::file_name;
use hugewise_model::{PageCount, PageSize};

use crate::drift::{self, Need};
use crate::journal::{
    self, Before, Intent, JournalLog, JournalRecord, JournalShelf, JournalState, JournalWriter,
    RecordedAfter,
};
use crate::outcome::{
    AppliedStep, ApplyEnd, ApplyEvent, ApplyResult, ProgressListener, StepResult,
};
use crate::plan::{
    Change, CommandChange, ExtendedAttribute, FileChange, FileState, Plan, Step, ValueChange,
};
use crate::restore::{self, ForeignChanges, Restorer};
use crate::undo::{recover_locked, take_back};
use crate::{Error, System, SystemFailure, allowed, safety, values};

/// What may be overruled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Apply a plan that was refused, or that leaves too little memory.
    pub force: bool,
    /// A step that fails is taken back alone, and the rest goes on.
    pub keep_going: bool,
    /// A pool that got fewer pages than asked for keeps them.
    pub keep_partial: bool,
}

/// Carries a plan out. What a killed apply or undo has left is taken back first, and each
/// before-state is in a journal on the disk before its change. A step that fails stops the rest,
/// and everything is taken back.
///
/// # Errors
/// Nothing was changed: this is not root or not the real machine, the plan holds what hugewise does
/// not do, another apply runs, the host has drifted, memory does not suffice, or there is no
/// journal.
pub fn apply_plan(
    plan: &Plan,
    system: &dyn System,
    options: ApplyOptions,
    progress: &mut ProgressListener<'_>,
) -> Result<ApplyResult, Error> {
    system.check_can_change()?;
    allowed::check_plan_allowed(plan)?;
    check_same_host(plan, system)?;
    let _lock = journal::lock_journals(system)?;
    let mut notes = recover_locked(system, progress)?
        .map(|undone| undone.describe_leftovers())
        .unwrap_or_default();
    let shelf = JournalShelf::read(system)?;
    notes.extend(shelf.unreadable.iter().map(ToString::to_string));
    let needs = drift::determine_needs(plan, system, is_applied(plan, &shelf))?;
    if needs.iter().flatten().all(|need| *need == Need::AlreadySo) {
        let steps = plan.steps.iter().map(|step| step_outcome(step, StepResult::AlreadySo));
        let steps = steps.collect();
        return Ok(ApplyResult { journal: None, end: ApplyEnd::NothingToDo, steps, notes });
    }
    safety::check_shm_limits(plan, system, &needs)?;
    if !options.force {
        safety::check_memory_now(plan, system, &needs)?;
        safety::check_memory_at_boot(plan, system)?;
    }
    let journal = JournalWriter::begin(system, plan, restore::boot_id(system))?;
    let mut applied = ApplyRun { plan, system, options, journal }.apply_steps(&needs, progress)?;
    applied.notes.splice(0..0, notes);
    Ok(applied)
}

fn check_same_host(plan: &Plan, system: &dyn System) -> Result<(), Error> {
    let here =
        system.read_text("/etc/machine-id").ok().flatten().map(|text| text.trim().to_owned());
    match (&plan.host.machine_id, here) {
        (Some(plan_id), Some(here)) if *plan_id != here => Err(Error::OtherHost {
            plan: plan.host.name.clone(),
            here: format!("machine-id {here}"),
        }),
        _ => Ok(()),
    }
}

/// Whether this very plan was applied and still stands, so that its commands need not run again.
fn is_applied(plan: &Plan, shelf: &JournalShelf) -> bool {
    let is_it = |log: &JournalLog| {
        log.state == JournalState::Done && log.begin.plan.checksum == plan.checksum
    };
    shelf.logs.last().is_some_and(is_it)
}

fn step_outcome(step: &Step, result: StepResult) -> AppliedStep {
    AppliedStep { id: step.id.clone(), title: step.title.clone(), risk: step.risk, result }
}

const RESERVE_AT_BOOT: &str = "reserve them at boot: --only boot plans the steps that do, for the next \
                       reboot; --keep-going applies these and all others now";

fn explain_short_pool(
    path: &str,
    page: PageSize,
    wanted: PageCount,
    obtained: PageCount,
) -> SystemFailure {
    let why = format!(
        "the plan needs {}, and the kernel gave {obtained}: memory is in use or fragmented",
        wanted.in_pages_of(page)
    );
    let advice = match obtained > PageCount::ZERO {
        true => format!("{RESERVE_AT_BOOT}; --keep-partial keeps those pages"),
        false => RESERVE_AT_BOOT.to_owned(),
    };
    SystemFailure::new(path, why).with_advice(advice)
}

struct ApplyRun<'a> {
    plan: &'a Plan,
    system: &'a dyn System,
    options: ApplyOptions,
    journal: JournalWriter<'a>,
}

impl ApplyRun<'_> {
    fn apply_steps(
        &self,
        needs: &[Vec<Need>],
        progress: &mut ProgressListener<'_>,
    ) -> Result<ApplyResult, Error> {
        let mut applied = ApplyResult {
            journal: Some(self.journal.id().to_string()),
            end: ApplyEnd::Done,
            steps: Vec::new(),
            notes: Vec::new(),
        };
        let of = self.plan.steps.len();
        for (place, (step, needs)) in self.plan.steps.iter().zip(needs).enumerate() {
            let is_missed = |done: &AppliedStep| {
                let is_whole = matches!(done.result, StepResult::Done | StepResult::AlreadySo);
                !is_whole && step.relies_on.contains(&done.id)
            };
            if applied.steps.iter().any(is_missed) {
                applied.end = ApplyEnd::Partly;
                applied.steps.push(step_outcome(step, StepResult::NotTried));
                continue;
            }
            progress(&ApplyEvent::Step { step, number: place + 1, of });
            let result = match self.apply_step(place, step, needs, progress) {
                Ok(result) => result,
                Err(failure) => {
                    let why = failure.to_string();
                    progress(&ApplyEvent::StepFailed { step, why: &why });
                    applied.end = ApplyEnd::Partly;
                    applied.steps.push(step_outcome(step, StepResult::Failed { why }));
                    if self.options.keep_going
                        && self.take_step_back(place, &mut applied.notes, progress)?
                    {
                        continue;
                    }
                    self.take_all_back(&mut applied, progress)?;
                    return Ok(applied);
                }
            };
            if matches!(result, StepResult::Partial { .. }) {
                applied.end = ApplyEnd::Partly;
            }
            applied.steps.push(step_outcome(step, result));
        }
        if let Err(failure) = self.journal.write_end(JournalState::Done) {
            // An apply whose end is not on the disk would be taken back by the next one.
            applied.notes.push(failure.to_string());
            self.take_all_back(&mut applied, progress)?;
        }
        Ok(applied)
    }

    fn apply_step(
        &self,
        place: usize,
        step: &Step,
        needs: &[Need],
        progress: &mut ProgressListener<'_>,
    ) -> Result<StepResult, SystemFailure> {
        let mut result = StepResult::AlreadySo;
        for (number, (change, need)) in step.changes.iter().zip(needs).enumerate() {
            if *need == Need::AlreadySo {
                progress(&ApplyEvent::AlreadySo { change });
                continue;
            }
            let before = self.read_before_state(change)?;
            let (mut old, mut folders, mut rewritten) = (None, Vec::new(), Vec::new());
            match &before {
                Before::File { file, folders: missing } => {
                    (old, folders) = (file.clone(), missing.clone())
                }
                Before::Command { files } => {
                    rewritten = files.iter().map(|(path, _)| path.clone()).collect()
                }
                Before::Value { .. } => {}
            }
            let intent = Intent { step: place, change: number, before };
            self.journal.add(&JournalRecord::Intent(Box::new(intent)))?;
            progress(&ApplyEvent::Changing { change });
            let after = match change {
                Change::Value(value) => self.set_value(value, &mut result, progress)?,
                Change::File(file) => self.write_file(file, old, &folders)?,
                Change::Command(command) => self.run_command(command, &rewritten)?,
            };
            self.journal.add(&JournalRecord::Did(after))?;
            if result == StepResult::AlreadySo {
                result = StepResult::Done;
            }
        }
        Ok(result)
    }

    fn read_before_state(&self, change: &Change) -> Result<Before, SystemFailure> {
        Ok(match change {
            Change::Value(change) => {
                let value = values::read(self.system, &change.path, change.pool)?;
                let value = value.ok_or_else(|| values::no_such_value(&change.path))?;
                let parts = match change.pool {
                    Some(pool) => values::read_node_parts(self.system, pool)?,
                    None => Vec::new(),
                };
                Before::Value { value, parts }
            }
            Change::File(change) => {
                let file = self.system.read_file(&change.path)?;
                let folders = match &change.after {
                    Some(_) => self.find_missing_folders(&change.path)?,
                    None => Vec::new(),
                };
                Before::File { file, folders }
            }
            Change::Command(command) => {
                Before::Command { files: self.read_rewritten_files(command)? }
            }
        })
    }

    /// The outermost first.
    fn find_missing_folders(&self, path: &str) -> Result<Vec<String>, SystemFailure> {
        let mut missing = Vec::new();
        let mut folder = path;
        while let Some((parent, _)) =
            folder.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
        {
            if self.system.list_folder(parent)?.is_some() {
                break;
            }
            missing.push(parent.to_owned());
            folder = parent;
        }
        missing.reverse();
        Ok(missing)
    }

    /// With `*` in a name filled in.
    fn read_rewritten_files(
        &self,
        command: &CommandChange,
    ) -> Result<Vec<(String, Option<FileState>)>, SystemFailure> {
        let mut files = Vec::new();
        for path in &command.files {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let paths = match name.split_once('*') {
                None => vec![path.clone()],
                Some((start, end)) => {
                    let names = self.system.list_folder(folder)?.unwrap_or_default();
                    let fits = |name: &&String| {
                        name.len() >= start.len() + end.len()
                            && name.starts_with(start)
                            && name.ends_with(end)
                    };
                    names.iter().filter(fits).map(|name| format!("{folder}/{name}")).collect()
                }
            };
            for path in paths {
                let real = self.follow_link(path)?;
                let file = self.system.read_file(&real)?;
                files.push((real, file));
            }
        }
        Ok(files)
    }

    /// The system's own files may be links (/etc/grub2.cfg, /boot/grub2/grubenv). A link that
    /// anybody else made leads where he likes.
    fn follow_link(&self, path: String) -> Result<String, SystemFailure> {
        let Some(real) = self.system.resolve_path(&path)? else { return Ok(path) };
        let of_system = ["/boot/", "/etc/"].iter().any(|folder| path.starts_with(folder));
        if file_name(&real) == file_name(&path) || of_system {
            return Ok(real);
        }
        let why =
            format!("it is a link to {real}, and hugewise does not follow links that others made");
        Err(SystemFailure::new(path, why).with_advice("replace the link with the file itself"))
    }

    fn set_value(
        &self,
        change: &ValueChange,
        result: &mut StepResult,
        progress: &mut ProgressListener<'_>,
    ) -> Result<RecordedAfter, SystemFailure> {
        let Some(pool) = change.pool else {
            values::set_value(self.system, &change.path, &change.after)?;
            return Ok(RecordedAfter::Value(None));
        };
        let wanted = values::parse_pages(&change.path, &change.after)?;
        // Kernels without contiguous allocation take no number of the largest pages once they run.
        let obtained = values::set_pool(self.system, &change.path, pool, wanted, progress)
            .map_err(|failure| match pool.page_size >= PageSize::GIB_1 {
                true => failure.with_advice(RESERVE_AT_BOOT),
                false => failure,
            })?;
        if obtained < wanted {
            let (wanted, obtained) = (PageCount(wanted), PageCount(obtained));
            if !self.options.keep_partial {
                return Err(explain_short_pool(&change.path, pool.page_size, wanted, obtained));
            }
            *result = StepResult::Partial { wanted, obtained };
        }
        Ok(RecordedAfter::Value(Some(obtained.to_string())))
    }

    fn write_file(
        &self,
        change: &FileChange,
        old: Option<FileState>,
        folders: &[String],
    ) -> Result<RecordedAfter, SystemFailure> {
        let Some(after) = &change.after else {
            self.system.remove_file(&change.path)?;
            return Ok(RecordedAfter::File);
        };
        for folder in folders {
            self.system.make_folder(folder, false)?;
        }
        // Checksums of the old bytes are wrong for the new ones; the kernel makes them anew.
        let kept = |label: &ExtendedAttribute| {
            !matches!(label.name.as_str(), "security.ima" | "security.evm")
        };
        let labels = old.map_or(Vec::new(), |old| old.labels.into_iter().filter(kept).collect());
        let (content, mode) = (after.content.clone(), after.mode);
        let file = FileState { content, mode, uid: after.uid, gid: after.gid, labels };
        self.system.write_file(&change.path, &restore::temporary_name(&change.path), &file)?;
        Ok(RecordedAfter::File)
    }

    fn run_command(
        &self,
        command: &CommandChange,
        files: &[String],
    ) -> Result<RecordedAfter, SystemFailure> {
        let line = command.command.join(" ");
        let ran = self.system.run(&command.command, command.user.as_deref())?;
        restore::check_success(&line, ran)?;
        // What comes after this step may rely on it, on the disk as well.
        files.iter().try_for_each(|path| self.system.sync_file(path))?;
        let sum = |path: &String| Ok(restore::checksum_file(self.system.read_file(path)?.as_ref()));
        Ok(RecordedAfter::Command(files.iter().map(sum).collect::<Result<_, SystemFailure>>()?))
    }

    /// The journal as the disk has it, without a line that could not be written whole.
    fn read_journal(&self) -> Result<JournalLog, Error> {
        let id = self.journal.id();
        let log = journal::read(self.system, id).map_err(Error::Unreadable)?;
        Ok(log.ok_or_else(|| SystemFailure::new(journal::journal_path(id), "is gone"))?)
    }

    /// Whether a failed step could be taken back whole.
    fn take_step_back(
        &self,
        place: usize,
        notes: &mut Vec<String>,
        progress: &mut ProgressListener<'_>,
    ) -> Result<bool, Error> {
        let log = self.read_journal()?;
        let taken = Restorer::new(self.system, &log, ForeignChanges::Leave)
            .take_back(Some(place), progress);
        let complete = taken.is_complete();
        notes.extend(taken.notes);
        let written = JournalWriter::resume(self.system, &log)
            .and_then(|journal| journal.add(&JournalRecord::StepTakenBack { step: place }));
        Ok(complete && written.is_ok())
    }

    fn take_all_back(
        &self,
        applied: &mut ApplyResult,
        progress: &mut ProgressListener<'_>,
    ) -> Result<(), Error> {
        // Nobody has applied anything since: nothing of it waits.
        let (alone, log) = (JournalShelf::default(), self.read_journal()?);
        let taken = take_back(
            self.system,
            &alone,
            &log,
            ForeignChanges::Leave,
            JournalState::TakenBack,
            progress,
        );
        applied.end = match taken.map(|taken| taken.undone) {
            Ok(undone) => {
                applied.notes.extend(undone.describe_leftovers());
                applied.notes.extend(undone.notes);
                if undone.complete { ApplyEnd::TakenBack } else { ApplyEnd::Stuck }
            }
            Err(error) => {
                applied.notes.push(error.to_string());
                ApplyEnd::Stuck
            }
        };
        for step in &mut applied.steps {
            if matches!(step.result, StepResult::Done | StepResult::Partial { .. }) {
                step.result = StepResult::TakenBack;
            }
        }
        let rest = self.plan.steps.iter().skip(applied.steps.len());
        applied.steps.extend(rest.map(|step| step_outcome(step, StepResult::NotTried)));
        Ok(())
    }
}
