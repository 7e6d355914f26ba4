//! What ends a finding, as a word that a plan understands.

use crate::{Engine, PageSize};

/// One instance of a host: no two of an engine have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// Its kind.
    pub engine: Engine,
    /// Its name.
    pub name: String,
}

impl InstanceId {
    /// Whether a title, as a plan's file has it, is this instance's: `oracle PROD`.
    pub fn is_titled(&self, title: &str) -> bool {
        let name = title.strip_prefix(self.engine.as_str()).and_then(|rest| rest.strip_prefix(' '));
        name == Some(self.name.as_str())
    }
}

impl std::fmt::Display for InstanceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.engine, self.name)
    }
}

/// A difference between a host and what it is to be, in the order in which they are made good. How many pages a pool is to
/// have is the target's to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// A pool gets the pages that its servers will ask for, now and at each boot.
    SetPool(PageSize),
    /// A pool gives back what no server will ask for.
    GiveBack(PageSize),
    /// The next boot brings the pool that is there, or that is to be.
    KeepAtBoot(PageSize),
    /// kernel.shmmax and kernel.shmall let the servers have their segments.
    SetShmLimits,
    /// A server's owner gets the right to System V huge pages: vm.hugetlb_shm_group.
    SetGroup(InstanceId),
    /// A server's memlock limit holds its segments, however it is started.
    RaiseMemlock(InstanceId),
    /// Transparent huge pages as the servers want them.
    SetThp,
    /// The same after the next boot.
    KeepThpAtBoot,
    /// A server's own settings ask for huge pages.
    SetSetting(InstanceId),
    /// What nobody but a person can do, or should.
    ByHand(ByHand),
    /// A server starts again: after everything that it is to find.
    Restart(InstanceId),
    /// What would help too, or until then; no part of a plan.
    Consider(String),
}

/// What a person has to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByHand {
    /// In a sentence without its full stop: `put a connection pool in front`.
    pub what: String,
    /// Commands, and `#` lines between them, where there are any: for the plan, which is the only place that prints them.
    pub how: Vec<String>,
    /// Whether what these commands remove is gone for good.
    pub irreversible: bool,
}

impl Remedy {
    /// What a person has to do, without commands.
    pub fn by_hand(what: impl Into<String>) -> Self {
        Self::ByHand(ByHand { what: what.into(), how: Vec::new(), irreversible: false })
    }

    /// What a person has to do, with the commands for it.
    pub fn by_commands(what: impl Into<String>, how: impl IntoIterator<Item = String>) -> Self {
        Self::ByHand(ByHand { what: what.into(), how: how.into_iter().collect(), irreversible: false })
    }

    /// The same where what the commands remove is gone for good.
    pub fn by_irreversible_commands(what: impl Into<String>, how: impl IntoIterator<Item = String>) -> Self {
        Self::ByHand(ByHand { what: what.into(), how: how.into_iter().collect(), irreversible: true })
    }

    /// The instance that it is about, where it is about one.
    pub const fn instance(&self) -> Option<&InstanceId> {
        match self {
            Self::SetGroup(instance)
            | Self::RaiseMemlock(instance)
            | Self::SetSetting(instance)
            | Self::Restart(instance) => Some(instance),
            Self::SetPool(_)
            | Self::GiveBack(_)
            | Self::KeepAtBoot(_)
            | Self::SetShmLimits
            | Self::SetThp
            | Self::KeepThpAtBoot
            | Self::ByHand(_)
            | Self::Consider(_) => None,
        }
    }
}
