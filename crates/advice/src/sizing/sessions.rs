//! Sessions: how many each server gets, and what they cost in page tables. The budget and the forecast
//! both stand on this.

use hugewise_model::{Bytes, Engine, Instance, PageSize};

use super::Ask;
use super::wanted::{Plan, Wanted};
use crate::forecast::{Basis, Server};

/// `PID_MAX_LIMIT` of Linux on 64-bit architectures: no kernel has more processes.
pub const MOST_SESSIONS: u64 = 4 << 20;

/// A described segment without a server.
fn is_bare(wanted: &Wanted<'_>) -> bool {
    wanted.instance.pid == 0 && wanted.instance.engine == Engine::Other
}

/// Sessions of each server when there are so many on the host: by the configured maxima where all are
/// known, evenly otherwise, each share rounded up. Servers of threads get none where others are there:
/// it makes no difference to them. Bare segments belong together: a session touches them all.
pub(super) fn deal(plan: &Plan<'_>, sessions: u64) -> Vec<u64> {
    let any_processes = plan.wanted.iter().any(Wanted::processes);
    let counts = |wanted: &Wanted<'_>| wanted.processes() || !any_processes;
    let first_bare = plan.wanted.iter().position(|wanted| counts(wanted) && is_bare(wanted));
    let stands = |at: usize, wanted: &Wanted<'_>| counts(wanted) && (!is_bare(wanted) || Some(at) == first_bare);
    let max = |wanted: &Wanted<'_>| wanted.instance.max_sessions.get().filter(|max| *max > 0);
    let shares: Vec<&Wanted<'_>> =
        plan.wanted.iter().enumerate().filter(|(at, wanted)| stands(*at, wanted)).map(|(_, wanted)| wanted).collect();
    let all_known = shares.iter().all(|wanted| max(wanted).is_some());
    let weight = |wanted: &Wanted<'_>| max(wanted).filter(|_| all_known).unwrap_or(1);
    let whole: u128 = shares.iter().map(|wanted| u128::from(weight(wanted))).sum();
    let share = |wanted: &Wanted<'_>| {
        let share = (u128::from(sessions) * u128::from(weight(wanted))).div_ceil(whole.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let bare_share = first_bare.and_then(|at| plan.wanted.get(at)).map_or(0, share);
    let dealt = plan.wanted.iter().map(|wanted| match () {
        () if !counts(wanted) => 0,
        () if is_bare(wanted) => bare_share,
        () => share(wanted),
    });
    dealt.collect()
}

/// Sessions that the budget is reckoned for, by server: those asked for; otherwise those that run now,
/// and of a server that does not run the most that it is configured for.
pub(super) fn sessions_now(ask: &Ask<'_>, plan: &Plan<'_>) -> Vec<u64> {
    if let Some(sessions) = ask.request.sessions {
        return deal(plan, sessions);
    }
    let now = |instance: &Instance| {
        let sessions = if instance.pid == 0 { &instance.max_sessions } else { &instance.sessions };
        sessions.get().unwrap_or(0)
    };
    plan.wanted.iter().map(|wanted| now(wanted.instance)).collect()
}

/// The most sessions that all servers together are configured for; where some are of processes, of those.
pub(super) fn most_sessions(plan: &Plan<'_>) -> Option<u64> {
    let any_processes = plan.wanted.iter().any(Wanted::processes);
    let counted = plan.wanted.iter().filter(|wanted| wanted.processes() || !any_processes);
    let maxima: Vec<u64> = counted.filter_map(|wanted| wanted.instance.max_sessions.get()).collect();
    let sum = maxima.iter().fold(0_u64, |sum, max| sum.saturating_add(*max));
    (sum > 0).then_some(sum)
}

/// Page tables of all servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllTables {
    /// As they are expected.
    pub(super) expected: Bytes,
    /// Where all processes of a server map its memory at one address.
    pub(super) least: Bytes,
    /// What it would be if every session touched all of its server's memory.
    pub(super) most: Bytes,
    /// Measured where it is of every server, and then on the fewest sessions of one.
    pub(super) basis: Basis,
}

/// Page tables of all servers at so many sessions each, on pages of `page` or on what is planned.
pub(super) fn tables_at(ask: &Ask<'_>, plan: &Plan<'_>, dealt: &[u64], page: Option<PageSize>) -> AllTables {
    let first_bare = plan.wanted.iter().position(is_bare);
    let of = |(at, (wanted, sessions)): (usize, (&Wanted<'_>, &u64))| {
        let server = Server::new(ask.host, wanted.then(), ask.base()).idle(ask.request.process_tables);
        let elsewhere = is_bare(wanted) && Some(at) != first_bare;
        let server = if elsewhere { server.in_others_processes() } else { server };
        server.at(*sessions, page.unwrap_or_else(|| wanted.page()))
    };
    let nothing =
        AllTables { expected: Bytes::ZERO, least: Bytes::ZERO, most: Bytes::ZERO, basis: Basis::Measured(u64::MAX) };
    plan.wanted.iter().zip(dealt).enumerate().map(of).fold(nothing, |sum, one| AllTables {
        expected: sum.expected + one.total,
        least: sum.least + one.least,
        most: sum.most + one.most,
        basis: match (sum.basis, one.basis) {
            (Basis::Measured(some), Basis::Measured(other)) => Basis::Measured(some.min(other)),
            _ => Basis::FullTouch,
        },
    })
}

/// Page tables at the most sessions that are configured or asked for.
pub(super) fn tables_at_most(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize) -> (u64, Bytes) {
    let most = most_sessions(plan).max(ask.request.sessions).unwrap_or(0);
    (most, tables_at(ask, plan, &deal(plan, most), Some(page)).expected)
}
