//! What apply and undo tell: while they work, and in the end.

use hugewise_model::PageCount;

use crate::plan::{Change, PoolRef, Risk, Step};

/// What happens, as it happens.
#[derive(Clone, Debug)]
pub enum ApplyEvent<'a> {
    /// An apply or undo that was killed is brought to its end first: its changes are taken back.
    Recovering {
        /// Its journal.
        journal: &'a str,
    },
    /// A step begins.
    Step {
        /// Which.
        step: &'a Step,
        /// Its place, from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// A change is about to be made; its before-state is in the journal.
    Changing {
        /// Which.
        change: &'a Change,
    },
    /// A change needs not be made: it is so already.
    AlreadySo {
        /// Which.
        change: &'a Change,
    },
    /// The kernel gave fewer pages than asked: memory is compacted, and it is asked again.
    PoolShort {
        /// The pool.
        pool: PoolRef,
        /// Pages asked for.
        wanted: PageCount,
        /// Pages that it has.
        obtained: PageCount,
        /// Which attempt that was, from 1.
        attempt: u32,
        /// How many there will be at most.
        attempts: u32,
    },
    /// A step failed.
    StepFailed {
        /// Which.
        step: &'a Step,
        /// Why.
        why: &'a str,
    },
    /// What was done is taken back.
    TakingBack {
        /// Path or command.
        what: &'a str,
    },
}

/// Who listens to events.
pub type ProgressListener<'a> = dyn FnMut(&ApplyEvent<'_>) + 'a;

/// How an apply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResult {
    /// Its journal, which `hugewise undo` takes; `None` where there was nothing to do.
    pub journal: Option<String>,
    /// In all.
    pub end: ApplyEnd,
    /// Each step of the plan.
    pub steps: Vec<AppliedStep>,
    /// What else has to be known, one sentence each.
    pub notes: Vec<String>,
}

/// How an apply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyEnd {
    /// Everything was so already.
    NothingToDo,
    /// Everything is done.
    Done,
    /// Some of it is done (`--keep-going`, `--keep-partial`).
    Partly,
    /// A step failed, and everything is as before.
    TakenBack,
    /// A step failed, and not everything could be taken back: `hugewise undo` tries again.
    Stuck,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedStep {
    /// Its ID.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it still needs to take effect.
    pub risk: Risk,
    /// How it ended.
    pub result: StepResult,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It is done.
    Done,
    /// There was nothing to do.
    AlreadySo,
    /// The pool has fewer pages than asked for, and they were kept.
    Partial {
        /// Pages asked for.
        wanted: PageCount,
        /// Pages that it has.
        obtained: PageCount,
    },
    /// It failed, and was taken back.
    Failed {
        /// Why.
        why: String,
    },
    /// It was done, and was taken back because another one failed.
    TakenBack,
    /// Another one failed before it, or one that it relies on is not done whole.
    NotTried,
}

/// How an undo ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The journal that was undone.
    pub journal: String,
    /// Whether everything is as before, but for what waits for the undo of a younger apply.
    pub complete: bool,
    /// What has to happen before servers or host run with what is restored.
    pub risk: Risk,
    /// What was done, in this order.
    pub restored: Vec<RestoredItem>,
    /// What else has to be known, one sentence each.
    pub notes: Vec<String>,
}

/// One thing that undo looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredItem {
    /// Path or command line.
    pub what: String,
    /// What happened to it.
    pub result: RestoreResult,
}

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreResult {
    /// It is as before.
    Restored,
    /// It was as before already.
    AlreadySo,
    /// The command that takes it back was run.
    Ran,
    /// A younger apply has changed it since: it is taken back together with that one.
    Waits {
        /// The younger apply.
        for_apply: String,
    },
    /// Somebody else has it in hand: it is left as it is.
    Left {
        /// Why.
        why: String,
    },
    /// It could not be taken back.
    Failed {
        /// Why.
        why: String,
    },
}

impl Undone {
    /// What is not as before, one sentence each.
    pub fn describe_leftovers(&self) -> Vec<String> {
        let restored = self.restored.iter().filter_map(|one| match &one.result {
            RestoreResult::Failed { why } | RestoreResult::Left { why } => {
                Some(format!("not taken back: {why}"))
            }
            _ => None,
        });
        restored.collect()
    }
}
