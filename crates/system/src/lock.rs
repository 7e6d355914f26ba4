//! The one lock: who changes the host holds it, and who cannot have it says who does.

use std::fmt;

use crate::{HeldLock, Holder, LiveSystem, OURS, System, SystemFailure};

/// Held by whoever changes this host: apply, undo, an experiment of the lab.
pub const LOCK: &str = "/var/lib/hugewise/lock";

/// Somebody else is changing this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Busy {
    /// The lock.
    pub lock: String,
    /// Who holds it, as far as can be seen from here.
    pub holders: Vec<Holder>,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.holders.iter().map(Holder::to_string).collect();
        let who = match names.as_slice() {
            [] => "a process that is not visible from here, or has just ended, holds".to_owned(),
            [one] => format!("{one} holds"),
            several => format!("{} hold", several.join(" and ")),
        };
        let lock = &self.lock;
        write!(f, "another process is changing this host: {who} {lock}. Nothing was changed; ")?;
        match self.holders.iter().find(|holder| holder.may_be_ended()) {
            Some(Holder { pid, .. }) => {
                write!(f, "wait for it, or stop it early (kill {pid}; it restores what it changed)")
            }
            None => f.write_str("wait for it to end, then run this again"),
        }
    }
}

/// Why the lock was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockNotTaken {
    /// Somebody else has it.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// Its file cannot be made.
    #[error(transparent)]
    Failed(#[from] SystemFailure),
}

/// Takes the one lock of this machine, making the folder that it lies in.
pub fn take_machine_lock(live: &LiveSystem) -> Result<HeldLock, LockNotTaken> {
    live.make_folder(OURS, true)?;
    live.hold_lock(LOCK)?
        .ok_or_else(|| Busy { lock: LOCK.into(), holders: live.lock_holders(LOCK) }.into())
}
