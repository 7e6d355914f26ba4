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
    /// Whether this is the title of this instance in a plan's file: `oracle PROD`.
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

/// A difference between a host and its target, in the order in which they are resolved. The target
/// says how many pages a pool gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// A pool gets the pages that its servers will ask for, now and at each boot.
    SetPool(PageSize),
    /// A pool gives back what no server will ask for.
    GiveBack(PageSize),
    /// The next boot brings the pool, as far as the target counts its pages for trusted servers.
    KeepAtBoot(PageSize),
    /// A server's owner gets the right to System V huge pages: vm.hugetlb_shm_group.
    SetGroup(InstanceId),
    /// kernel.shmmax and kernel.shmall let the servers have their segments.
    SetShmLimits,
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
    /// What would also help, or until then; no part of a plan.
    Consider(String),
}

/// What a person has to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByHand {
    /// In a sentence without its full stop: `put a connection pool in front`.
    pub what: String,
    /// Commands, with `#` lines between them; only the plan prints them.
    pub how: Vec<String>,
    /// Whether what these commands remove is gone for good.
    pub irreversible: bool,
}

impl Remedy {
    /// What a person has to do, without commands.
    pub fn by_hand(what: impl Into<String>) -> Self {
        Self::by_commands(what, [])
    }

    /// What a person has to do, with the commands for it.
    pub fn by_commands(what: impl Into<String>, how: impl IntoIterator<Item = String>) -> Self {
        let how = how.into_iter().collect();
        Self::ByHand(ByHand { what: what.into(), how, irreversible: false })
    }

    /// The same where what the commands remove is gone for good.
    pub fn by_irreversible_commands(
        what: impl Into<String>,
        how: impl IntoIterator<Item = String>,
    ) -> Self {
        let how = how.into_iter().collect();
        Self::ByHand(ByHand { what: what.into(), how, irreversible: true })
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
