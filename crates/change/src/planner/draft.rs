//! A plan in the making: steps with the remedies that they carry out.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use hugewise_host::Source;
use hugewise_model::configuration::BootEntry;
use hugewise_model::{Instance, InstanceId, PageSize, Remedy};

use super::overlay::Overlay;
use super::{ours, pools};
use crate::plan::{FileChange, Instruction, PoolAtBoot, Refusal, Risk, Step, When};

/// A step, whom it is for, and what it carries out.
#[derive(Clone, Debug)]
pub(super) struct Drafted {
    step: Step,
    /// What else in the plan looks for it by.
    pub(super) part: Part,
    pub(super) of: Option<InstanceId>,
    pub(super) carries: Vec<Carried>,
}

/// Which part of a plan a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Pools that the next boot brings.
    PoolsAtBoot,
    /// Numbers of pages that the next boot would read as pages of another size.
    MisreadPools,
    /// The restart of a server.
    Restart,
    /// Nothing that others look for.
    Other,
}

impl Part {
    /// Whether it is about pools of the next boot.
    pub(super) const fn keeps_pools(self) -> bool {
        matches!(self, Self::PoolsAtBoot | Self::MisreadPools)
    }
}

impl Drafted {
    /// A step that others look for.
    pub(super) const fn part(part: Part, step: Step) -> Self {
        Self { step, part, of: None, carries: Vec::new() }
    }

    /// For this server.
    pub(super) fn of(mut self, instance: &Instance) -> Self {
        self.step.instance = Some(instance.title());
        self.of = Some(instance.id());
        self
    }

    /// Carries this out too, for whoever needs it.
    pub(super) fn carry(&mut self, remedy: Remedy, when: When) {
        self.carries.push(Carried { remedy, when, whom: Whom::Everybody });
    }

    /// Carries this out too, for these servers: it may not be enough for others.
    pub(super) fn carry_for(&mut self, remedy: Remedy, when: When, servers: Vec<InstanceId>) {
        self.carries.push(Carried { remedy, when, whom: Whom::These(servers) });
    }

    /// The step, with a change more.
    pub(super) fn change(mut self, change: impl Into<crate::plan::Change>) -> Self {
        self.step.changes.push(change.into());
        self
    }

    /// As it stands in the plan.
    pub(super) fn into_step(self) -> Step {
        self.step
    }
}

impl From<Step> for Drafted {
    fn from(step: Step) -> Self {
        Self::part(Part::Other, step)
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

/// A remedy that a step carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) remedy: Remedy,
    pub(super) when: When,
    pub(super) whom: Whom,
}

/// For whom a remedy is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Everybody,
    These(Vec<InstanceId>),
}

impl Whom {
    /// Whether it is enough for what is said of this server, or of the host.
    pub(super) fn has(&self, about: Option<&InstanceId>) -> bool {
        match (self, about) {
            (Self::Everybody, _) | (_, None) => true,
            (Self::These(servers), Some(about)) => servers.contains(about),
        }
    }
}

/// A plan in the making.
pub(super) struct Draft<'a> {
    pub(super) steps: Vec<Drafted>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) warnings: Vec<String>,
    /// Pools that the next boot is to bring.
    pub(super) at_boot: Vec<PoolAtBoot>,
    /// The host's files as the steps so far leave them.
    pub(super) after: Overlay<'a>,
    /// The boot loader's entry as they leave it, where they change it.
    pub(super) entry: Option<BootEntry>,
    pub(super) pools: Vec<pools::Goal>,
    /// Why the pools that are wanted are refused.
    pub(super) refusal: Option<Refusal>,
    /// Servers that a step sets to pages of another size.
    pub(super) resized: Vec<InstanceId>,
    /// What the host has already, and no step has to bring.
    pub(super) settled: Vec<(Remedy, Whom)>,
    /// What is in the hands of a person, or is left out, and said: by an instruction or a warning.
    pub(super) told: BTreeSet<Remedy>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(source: &'a dyn Source, instances: &[Instance]) -> Self {
        Self {
            steps: Vec::new(),
            instructions: Vec::new(),
            warnings: Vec::new(),
            at_boot: Vec::new(),
            after: laid_over(source, instances),
            entry: None,
            pools: Vec::new(),
            refusal: None,
            resized: Vec::new(),
            settled: Vec::new(),
            told: BTreeSet::new(),
        }
    }

    /// The goal for pools of a size.
    pub(super) fn pool(&self, page: PageSize) -> Option<&pools::Goal> {
        self.pools.iter().find(|pool| pool.page_size == page)
    }

    /// Whether a step carries that out.
    pub(super) fn carries(&self, remedy: &Remedy) -> bool {
        self.steps.iter().any(|step| step.carries.iter().any(|it| it.remedy == *remedy))
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        let text = hugewise_advice::words::one_line(&text.into());
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Says why something is not done.
    pub(super) fn leave(&mut self, remedy: Remedy, why: impl Into<String>) {
        self.told.insert(remedy);
        self.warn(why);
    }

    /// Lays a file that a step writes over the host, and gives the change; none where it is so already.
    pub(super) fn write(&mut self, path: &str, text: &str) -> Option<FileChange> {
        if self.after.read(path).known().is_some_and(|there| ours::is_same(there, text)) {
            return None;
        }
        self.after.set(path, Some(text.as_bytes().to_vec()));
        Some(FileChange::write(path, text))
    }

    /// Takes a step in, unless there is nothing to change.
    pub(super) fn step(&mut self, step: impl Into<Drafted>) {
        let step = step.into();
        if !step.changes.is_empty() {
            self.steps.push(step);
        }
    }

    /// What somebody has to do by hand, and the remedy that it is.
    pub(super) fn instruct_for(
        &mut self,
        remedy: Remedy,
        title: impl Into<String>,
        lines: &[String],
        risk: Risk,
        instance: Option<&Instance>,
    ) {
        self.told.insert(remedy);
        self.instruct(title, lines, risk, instance.map(Instance::title));
    }

    /// What somebody has to do by hand.
    pub(super) fn instruct(
        &mut self,
        title: impl Into<String>,
        lines: &[String],
        risk: Risk,
        instance: Option<String>,
    ) {
        let title = hugewise_advice::words::one_line(&title.into());
        let lines: Vec<String> = lines.iter().map(|line| hugewise_advice::words::one_line(line)).collect();
        let text = lines.join("\n");
        self.instructions.push(Instruction { title, text, risk, instance });
    }
}

/// Nothing yet, over the host: servers in no container find there what is laid over it.
pub(super) fn laid_over<'a>(source: &'a dyn Source, instances: &[Instance]) -> Overlay<'a> {
    let with_its_files = instances.iter().filter(|instance| !instance.containered);
    Overlay::new(source).found_by(with_its_files.map(|instance| instance.pid))
}
