//! How much is kept of what users decide on: command lines and mappings of their processes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, Reason, Unread};
use hugewise_source::{Owner, is_too_large};

/// Limits of one kind of fact, in units of its own.
#[derive(Debug)]
pub(super) struct BudgetLimits {
    /// The file of /proc/PID.
    pub(super) file: &'static str,
    /// What an ordinary process has.
    pub(super) ordinary: u64,
    /// For all ordinary ones of a user.
    pub(super) ordinary_together: u64,
    /// For all larger ones of a user.
    pub(super) larger_together: u64,
    /// Why the rest is left out.
    pub(super) why: &'static str,
}

/// What is kept, limited for each user: nobody loses anything by what others have.
#[derive(Debug)]
pub(super) struct UserBudget {
    limits: &'static BudgetLimits,
    /// By user, and whether it is of ordinary processes.
    spent: BTreeMap<(u32, bool), u64>,
    used_up: BTreeSet<u32>,
    /// How many of a user's were left out for one reason, and the first process.
    left_out: BTreeMap<(u32, String), (u64, u32)>,
}

impl UserBudget {
    pub(super) const fn new(limits: &'static BudgetLimits) -> Self {
        Self { limits, spent: BTreeMap::new(), used_up: BTreeSet::new(), left_out: BTreeMap::new() }
    }

    const fn is_ordinary(&self, held: u64) -> bool {
        held <= self.limits.ordinary
    }

    /// Counts what was kept of a process from an earlier reading.
    pub(super) fn count_held(&mut self, uid: u32, held: u64) {
        let key = (Owner::user_behind(uid), self.is_ordinary(held));
        let spent = self.spent.entry(key).or_default();
        *spent = spent.saturating_add(held);
    }

    /// Whether a process of this user may have so much more.
    pub(super) fn has_room(&self, uid: u32, held: u64) -> bool {
        let is_ordinary = self.is_ordinary(held);
        let key = (Owner::user_behind(uid), is_ordinary);
        let spent = self.spent.get(&key).copied().unwrap_or_default();
        let together =
            if is_ordinary { self.limits.ordinary_together } else { self.limits.larger_together };
        spent.saturating_add(held) <= together
    }

    /// Whether some process of this user was left out already.
    pub(super) fn is_used_up(&self, uid: u32) -> bool {
        self.used_up.contains(&Owner::user_behind(uid))
    }

    /// Refuses a fact of a user who has used up his share.
    pub(super) fn refuse_fact<T>(&mut self, uid: u32) -> Observed<T> {
        self.used_up.insert(Owner::user_behind(uid));
        Observed::Malformed(self.limits.why.to_owned())
    }

    /// Notes a fact that is not kept.
    pub(super) fn note_left_out<T>(&mut self, pid: u32, uid: u32, fact: &Observed<T>) {
        if let Observed::Malformed(why) = fact {
            let is_limit = why == self.limits.why || is_too_large(fact);
            let why = if is_limit { why.clone() } else { format!("malformed: {why}") };
            let key = (Owner::user_behind(uid), why);
            self.left_out.entry(key).or_insert((0, pid)).0 += 1;
        }
    }

    /// One note for each user and reason.
    pub(super) fn into_unread(self) -> impl Iterator<Item = Unread> {
        let file = self.limits.file;
        self.left_out.into_iter().map(move |((uid, why), (count, pid))| {
            let what = match count {
                1 => format!("/proc/{pid}/{file}"),
                _ => format!("/proc/PID/{file} of {count} processes of user {uid}"),
            };
            Unread::new(what, Reason::LeftOut { user: uid, why })
        })
    }
}
