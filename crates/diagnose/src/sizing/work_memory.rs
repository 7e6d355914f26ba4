//! Private memory of the servers' processes, now and at so many sessions, and what settings grant.

use hugewise_engines::work_memory::{self, WorkMemory};
use hugewise_model::{Bytes, InstanceId};

use super::SizingContext;
use super::planned_servers::{PlannedServer, SizingPlan};
use super::sessions::{deal_sessions, most_sessions, sessions_now};
use crate::forecast::background_processes;

/// Private memory of one server's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The server.
    pub instance: InstanceId,
    /// What they hold now; none where that is not known, or none of them runs.
    pub held: Option<Bytes>,
    /// Sessions that the budget is reckoned for.
    pub sessions: u64,
    /// What is counted at so many, by those that run now, and no less than its target.
    pub counted: Option<Bytes>,
    /// What its settings grant.
    pub grants: WorkMemory,
    /// The most sessions that it is configured for.
    pub most_sessions: Option<u64>,
    /// What they may come to at so many.
    pub at_most: Option<Bytes>,
}

pub(super) fn size_work_memory(ask: &SizingContext<'_>) -> Vec<Work> {
    let dealt = sessions_now(ask);
    let work_of = |(wanted, sessions): (&PlannedServer<'_>, u64)| {
        let most_sessions = wanted.instance.max_sessions.get();
        Work {
            instance: wanted.instance.id(),
            held: work_memory::private_memory_held(ask.host, wanted.instance),
            sessions,
            counted: counted_work_memory(ask, wanted, sessions),
            grants: wanted.grants.clone(),
            most_sessions,
            at_most: most_sessions.and_then(|most| at_most(ask, wanted, most)),
        }
    };
    ask.plan.wanted.iter().zip(dealt).map(work_of).collect()
}

/// Private segments that huge pages could back (a heap) are in the pools and do not count again.
fn as_now(ask: &SizingContext<'_>, wanted: &PlannedServer<'_>, sessions: u64) -> Option<Bytes> {
    let all = work_memory::private_memory_held(ask.host, wanted.instance)?;
    if !wanted.has_process_sessions() {
        return Some(all);
    }
    let processes = u64::try_from(wanted.instance.pids.len()).unwrap_or(u64::MAX);
    let then = sessions.saturating_add(background_processes(wanted.instance));
    Some(all.shared_by(processes)?.saturating_mul(then))
}

/// One that deals out work areas by a target takes as much as that where there is work for it.
pub(super) fn counted_work_memory(
    ask: &SizingContext<'_>,
    wanted: &PlannedServer<'_>,
    sessions: u64,
) -> Option<Bytes> {
    let target = wanted.grants.target.as_ref().map(|target| beside_managed(wanted, target.bytes));
    as_now(ask, wanted, sessions).max(target)
}

/// A target or limit is of the managed global area as well, which the budget counts by itself:
/// V$PGASTAT has it as "MGA allocated (under PGA)".
fn beside_managed(wanted: &PlannedServer<'_>, granted: Bytes) -> Bytes {
    granted.saturating_sub(wanted.grants.managed.unwrap_or_default())
}

fn at_most(ask: &SizingContext<'_>, wanted: &PlannedServer<'_>, sessions: u64) -> Option<Bytes> {
    let (grants, as_now) = (&wanted.grants, as_now(ask, wanted, sessions));
    let most = grants.most_memory(sessions);
    // A target and a limit are of all of it.
    if grants.limit.is_some() || grants.each.is_none() {
        return as_now.max(most.map(|most| beside_managed(wanted, most)));
    }
    Some(as_now.unwrap_or_default() + most?)
}

pub(super) fn counted_at(ask: &SizingContext<'_>, dealt: &[u64]) -> Option<Bytes> {
    sum(ask.plan, dealt, |wanted, sessions| counted_work_memory(ask, wanted, sessions))
}

/// [`counted_at`] without the targets.
pub(super) fn as_now_at(ask: &SizingContext<'_>, dealt: &[u64]) -> Option<Bytes> {
    sum(ask.plan, dealt, |wanted, sessions| as_now(ask, wanted, sessions))
}

/// What it may come to, and at how many sessions; `None` where nothing tells.
pub(super) fn most_of_all(ask: &SizingContext<'_>) -> Option<(Vec<u64>, u64, Bytes)> {
    let sessions = most_sessions(ask.plan).max(ask.request.sessions)?;
    let dealt = deal_sessions(ask.plan, sessions);
    let private = sum(ask.plan, &dealt, |wanted, sessions| at_most(ask, wanted, sessions))?;
    Some((dealt, sessions, private))
}

fn sum(
    plan: &SizingPlan<'_>,
    dealt: &[u64],
    bytes_of: impl Fn(&PlannedServer<'_>, u64) -> Option<Bytes>,
) -> Option<Bytes> {
    let known =
        plan.wanted.iter().zip(dealt).filter_map(|(wanted, sessions)| bytes_of(wanted, *sessions));
    known.fold(None, |sum, one| Some(sum.unwrap_or_default() + one))
}
