//! A plan in the making: steps with the remedies that they carry out.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use hugewise_diagnose::target::PoolGoal;
use hugewise_diagnose::wording::one_line;
use hugewise_host::Source;
use hugewise_host::source::OverlaySource;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{Instance, InstanceId, PageSize, Remedy, RuleId};

use super::owned_files::{self, OwnedFileError};
use crate::plan::{
    Change, EffectTime, FileChange, Instruction, PlanRefusal, PlannedBootPool, Risk, Step,
};

#[derive(Clone, Debug)]
pub(super) struct Drafted {
    step: Step,
    pub(super) part: PlanPart,
    pub(super) of: Option<InstanceId>,
    pub(super) carries: Vec<Carried>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanPart {
    PoolsAtBoot,
    /// Numbers of pages that the next boot would read as pages of another size.
    MisreadPools,
    PoolNow(PageSize),
    /// Pages of a size that servers hold beyond the pool, and that stay in it.
    PoolKept(PageSize),
    ShmGroup,
    LogIns,
    Restart,
    Other,
}

impl PlanPart {
    pub(super) const fn keeps_pools(self) -> bool {
        matches!(self, Self::PoolsAtBoot | Self::MisreadPools)
    }
}

impl Drafted {
    pub(super) const fn for_part(part: PlanPart, step: Step) -> Self {
        Self { step, part, of: None, carries: Vec::new() }
    }

    pub(super) fn for_instance(mut self, instance: &Instance) -> Self {
        self.step.instance = Some(instance.title());
        self.of = Some(instance.id());
        self
    }

    pub(super) fn carry_remedy(&mut self, remedy: Remedy, when: EffectTime) {
        self.carries.push(Carried { remedy, when, whom: Whom::Everybody });
    }

    /// It may not be enough for others than these servers.
    pub(super) fn carry_for(
        &mut self,
        remedy: Remedy,
        when: EffectTime,
        servers: BTreeSet<InstanceId>,
    ) {
        self.carries.push(Carried { remedy, when, whom: Whom::These(servers) });
    }

    pub(super) fn with_change(mut self, change: impl Into<Change>) -> Self {
        self.step.changes.push(change.into());
        self
    }

    pub(super) fn into_step(self) -> Step {
        self.step
    }
}

impl From<Step> for Drafted {
    fn from(step: Step) -> Self {
        Self::for_part(PlanPart::Other, step)
    }
}

impl Deref for Drafted {
    type Target = Step;

    fn deref(&self) -> &Step {
        &self.step
    }
}

impl DerefMut for Drafted {
    fn deref_mut(&mut self) -> &mut Step {
        &mut self.step
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) remedy: Remedy,
    pub(super) when: EffectTime,
    pub(super) whom: Whom,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Everybody,
    These(BTreeSet<InstanceId>),
}

impl Whom {
    pub(super) fn includes_instance(&self, about: Option<&InstanceId>) -> bool {
        match (self, about) {
            (Self::Everybody, _) | (_, None) => true,
            (Self::These(servers), Some(about)) => servers.contains(about),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedPoolGoal {
    target: PoolGoal,
    /// Whether the next boot brings as many.
    pub(super) at_boot: bool,
    /// Whether a person is told to see to that.
    pub(super) by_hand: bool,
    /// Whether it surely brings what servers need: before memory is in use, where that matters.
    pub(super) is_sure: bool,
}

impl PlannedPoolGoal {
    pub(super) fn covers_need(&self) -> bool {
        self.goal >= self.needed
    }

    pub(super) fn keep_current(&mut self) {
        self.target.goal = self.target.now;
        self.target.nodes.clear();
        self.target.not_now = None;
    }
}

impl From<PoolGoal> for PlannedPoolGoal {
    fn from(target: PoolGoal) -> Self {
        Self { target, at_boot: false, by_hand: false, is_sure: false }
    }
}

impl Deref for PlannedPoolGoal {
    type Target = PoolGoal;

    fn deref(&self) -> &PoolGoal {
        &self.target
    }
}

pub(super) struct Draft<'a> {
    pub(super) steps: Vec<Drafted>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) warnings: Vec<String>,
    pub(super) undecided: bool,
    pub(super) at_boot: Vec<PlannedBootPool>,
    /// The host's files as the steps so far leave them.
    pub(super) after: OverlaySource<'a>,
    /// Files as a person leaves them who types what the instructions so far say.
    pub(super) typed: Vec<(String, String)>,
    /// The boot loader's entry as they leave it, where they change it.
    pub(super) entry: Option<BootEntry>,
    pub(super) pools: Vec<PlannedPoolGoal>,
    pub(super) refusal: Option<PlanRefusal>,
    /// The servers of the engines that steps set, as they are described with the files so far.
    pub(super) described: Vec<Instance>,
    /// Servers that a step sets to pages of another size.
    pub(super) resized: Vec<InstanceId>,
    /// What the host has already, and no step has to bring.
    pub(super) settled: Vec<(Remedy, Whom)>,
    pub(super) promised: BTreeSet<(RuleId, Option<InstanceId>)>,
    /// What is in the hands of a person, or is left out, and said: by an instruction or a warning.
    pub(super) explained: BTreeSet<Remedy>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(source: &'a dyn Source, instances: &[Instance]) -> Self {
        // Servers in containers do not find what is laid over the host.
        let outside = instances.iter().filter(|instance| !instance.containered);
        Self {
            steps: Vec::new(),
            instructions: Vec::new(),
            warnings: Vec::new(),
            undecided: false,
            at_boot: Vec::new(),
            after: OverlaySource::new(source).found_by(outside.map(|instance| instance.pid)),
            typed: Vec::new(),
            entry: None,
            pools: Vec::new(),
            refusal: None,
            described: Vec::new(),
            resized: Vec::new(),
            settled: Vec::new(),
            promised: BTreeSet::new(),
            explained: BTreeSet::new(),
        }
    }

    pub(super) fn step_of(&mut self, part: PlanPart) -> Option<&mut Drafted> {
        self.steps.iter_mut().find(|step| step.part == part)
    }

    pub(super) fn pool_goal_mut(&mut self, page: PageSize) -> Option<&mut PlannedPoolGoal> {
        self.pools.iter_mut().find(|pool| pool.page_size == page)
    }

    pub(super) fn pool_goal(&self, page: PageSize) -> Option<&PlannedPoolGoal> {
        self.pools.iter().find(|pool| pool.page_size == page)
    }

    /// The step that gives the running kernel's pool its pages.
    pub(super) fn find_pool_step(&self, page: PageSize) -> Option<String> {
        let parts = [PlanPart::PoolNow(page), PlanPart::PoolKept(page)];
        let step = self.steps.iter().find(|step| parts.contains(&step.part))?;
        Some(step.id.clone())
    }

    /// One more that asks takes others' pages where the next boot does not bring enough for all.
    pub(super) fn may_ask(&mut self, instance: &Instance, page: PageSize) -> bool {
        let there = self.pool_goal(page).is_none_or(PlannedPoolGoal::covers_need);
        // Its settings stay where only what works at once is asked for.
        let may = there && self.pool_goal(page).is_none_or(|goal| goal.at_boot || goal.by_hand);
        if !may {
            let why =
                if there { "the next boot does not bring" } else { "the host has no room for" };
            self.add_warning(format!(
                "{} is not set to ask for huge pages: {why} enough {page} pages for all servers",
                instance.title()
            ));
        }
        may
    }

    /// Whether the pool of that size, now and after the next boot, holds what a server needs of it.
    pub(super) fn is_secured(&self, page: PageSize) -> bool {
        self.pool_goal(page).is_some_and(|goal| {
            goal.is_there() && goal.at_boot && goal.is_sure && goal.covers_need()
        })
    }

    pub(super) fn carries_remedy(&self, remedy: &Remedy) -> bool {
        self.steps.iter().any(|step| step.carries.iter().any(|carried| carried.remedy == *remedy))
    }

    pub(super) fn add_warning(&mut self, text: impl Into<String>) {
        let text = one_line(&text.into());
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(super) fn leave_undone(&mut self, remedy: Remedy, why: impl Into<String>) {
        self.explained.insert(remedy);
        self.add_warning(why);
    }

    /// Lays the file over the host; `None` where it is so already.
    pub(super) fn write(&mut self, path: &str, text: &str) -> Option<FileChange> {
        if self.after.read(path).as_known().is_some_and(|there| owned_files::is_same(there, text)) {
            return None;
        }
        self.after.set_file(path, Some(text.as_bytes().to_vec()));
        Some(FileChange::write(path, text))
    }

    /// The host's files as the steps and the instructions so far leave them.
    pub(super) fn with_typed_files(&self) -> OverlaySource<'a> {
        let mut files = self.after.clone();
        for (path, text) in &self.typed {
            files.set_file(path, Some(text.clone().into_bytes()));
        }
        files
    }

    /// Has the step write a merged file of ours, or warns of what stays as it is.
    pub(super) fn add_file(
        &mut self,
        step: &mut Step,
        path: &str,
        text: Result<String, OwnedFileError>,
        stays: &str,
    ) {
        match text {
            Ok(text) => step.changes.extend(self.write(path, &text).map(Change::from)),
            Err(why) => self.add_warning(format!("{stays}: {why}")),
        }
    }

    /// A step without changes is dropped.
    pub(super) fn add_step(&mut self, step: impl Into<Drafted>) {
        let step = step.into();
        if !step.changes.is_empty() {
            self.steps.push(step);
        }
    }

    pub(super) fn instruct_for(
        &mut self,
        remedy: Remedy,
        title: impl Into<String>,
        lines: &[String],
        risk: Risk,
        instance: Option<&Instance>,
    ) {
        self.explained.insert(remedy);
        self.add_instruction(title, lines, risk, instance.map(Instance::title));
    }

    pub(super) fn add_instruction(
        &mut self,
        title: impl Into<String>,
        lines: &[String],
        risk: Risk,
        instance: Option<String>,
    ) {
        let title = one_line(&title.into());
        let lines: Vec<String> = lines.iter().map(|line| one_line(line)).collect();
        let text = lines.join("\n");
        self.instructions.push(Instruction { title, text, risk, instance });
    }
}
