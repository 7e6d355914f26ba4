//! Private memory of the servers' processes: what they hold, what they will at so many sessions, and what their settings grant.

use hugewise_engines::work::{self, WorkMemory};
use hugewise_model::{Bytes, InstanceId};

use super::Ask;
use super::sessions::{deal, most_sessions, sessions_now};
use super::wanted::{Plan, Wanted};
use crate::forecast::background;

/// Private memory of one server's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The server.
    pub instance: InstanceId,
    /// What they hold now; none where that is not known, or none of them runs.
    pub held: Option<Bytes>,
    /// Sessions that the budget is reckoned for.
    pub sessions: u64,
    /// What is counted at so many: each as much as those have that run now, and no less than its target.
    pub counted: Option<Bytes>,
    /// What its settings grant.
    pub grants: WorkMemory,
    /// The most sessions that it is configured for.
    pub most_sessions: Option<u64>,
    /// What they may come to at so many.
    pub at_most: Option<Bytes>,
}

/// Of each server that is sized.
pub(super) fn work(ask: &Ask<'_>, plan: &Plan<'_>) -> Vec<Work> {
    let dealt = sessions_now(ask, plan);
    let of = |(wanted, sessions): (&Wanted<'_>, u64)| {
        let most_sessions = wanted.instance.max_sessions.get();
        Work {
            instance: wanted.instance.id(),
            held: work::held(ask.host, wanted.instance),
            sessions,
            counted: counted(ask, wanted, sessions),
            grants: wanted.grants.clone(),
            most_sessions,
            at_most: most_sessions.and_then(|most| at_most(ask, wanted, most)),
        }
    };
    plan.wanted.iter().zip(dealt).map(of).collect()
}

/// As much for each of so many sessions as those have that run now. Private segments that huge pages could back (a heap, a buffer
/// pool) are in the pools and do not count again.
fn as_now(ask: &Ask<'_>, wanted: &Wanted<'_>, sessions: u64) -> Option<Bytes> {
    let all = work::held(ask.host, wanted.instance)?;
    if !wanted.processes() {
        return Some(all);
    }
    let processes = u64::try_from(wanted.instance.pids.len()).unwrap_or(u64::MAX);
    Some(all.shared_by(processes)?.times(sessions.saturating_add(background(wanted.instance))))
}

/// What is counted for a server at so many sessions. One that deals out work areas by a target takes as much as that where there
/// is work for it, whatever it holds now.
pub(super) fn counted(ask: &Ask<'_>, wanted: &Wanted<'_>, sessions: u64) -> Option<Bytes> {
    let target = wanted.grants.target.as_ref().map(|target| beside_managed(wanted, target.bytes));
    as_now(ask, wanted, sessions).max(target)
}

/// What a target or limit leaves beside the managed global area, which it is of as well and which the budget counts by itself: V$PGASTAT
/// has it as "MGA allocated (under PGA)".
fn beside_managed(wanted: &Wanted<'_>, granted: Bytes) -> Bytes {
    granted.saturating_sub(wanted.grants.managed.unwrap_or_default())
}

/// What a server's processes may come to at so many sessions, by its settings and by what they hold now.
fn at_most(ask: &Ask<'_>, wanted: &Wanted<'_>, sessions: u64) -> Option<Bytes> {
    let (grants, as_now) = (&wanted.grants, as_now(ask, wanted, sessions));
    let most = grants.most(sessions);
    // A target and a limit are of all of it; what sessions get each comes to what they are without it.
    if grants.limit.is_some() || grants.each.is_none() {
        return as_now.max(most.map(|most| beside_managed(wanted, most)));
    }
    Some(as_now.unwrap_or_default() + most?)
}

/// Private memory of all servers' processes at so many sessions each. `None` where no server says.
pub(super) fn counted_at(ask: &Ask<'_>, plan: &Plan<'_>, dealt: &[u64]) -> Option<Bytes> {
    sum(plan, dealt, |wanted, sessions| counted(ask, wanted, sessions))
}

/// The same without the targets.
pub(super) fn as_now_at(ask: &Ask<'_>, plan: &Plan<'_>, dealt: &[u64]) -> Option<Bytes> {
    sum(plan, dealt, |wanted, sessions| as_now(ask, wanted, sessions))
}

/// What it may come to, and at how many sessions; `None` where nothing says how many there may be, or no server says.
pub(super) fn most_of_all(ask: &Ask<'_>, plan: &Plan<'_>) -> Option<(Vec<u64>, u64, Bytes)> {
    let sessions = most_sessions(plan).max(ask.request.sessions)?;
    let dealt = deal(plan, sessions);
    let private = sum(plan, &dealt, |wanted, sessions| at_most(ask, wanted, sessions))?;
    Some((dealt, sessions, private))
}

fn sum(plan: &Plan<'_>, dealt: &[u64], of: impl Fn(&Wanted<'_>, u64) -> Option<Bytes>) -> Option<Bytes> {
    let known = plan.wanted.iter().zip(dealt).filter_map(|(wanted, sessions)| of(wanted, *sessions));
    known.fold(None, |sum, one| Some(sum.unwrap_or_default() + one))
}
