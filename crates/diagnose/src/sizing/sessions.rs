//! Sessions: how many each server gets, and what they cost in page tables.

use hugewise_model::{Bytes, Engine, Instance, PageSize};

use super::SizingContext;
use super::planned_servers::{PlannedServer, SizingPlan};
use crate::forecast::{Basis, ForecastServer};

/// `PID_MAX_LIMIT` of Linux on 64-bit architectures: no kernel has more processes.
pub const MOST_SESSIONS: u64 = 4 << 20;

fn is_bare(wanted: &PlannedServer<'_>) -> bool {
    wanted.instance.pid == 0 && wanted.instance.engine == Engine::Other
}

/// Sessions of each server: by the configured maxima where all are known, evenly otherwise, each
/// share rounded up. Servers of threads get none beside others: it makes no difference to them.
/// Bare segments belong together: a session touches them all.
pub(super) fn deal_sessions(plan: &SizingPlan<'_>, sessions: u64) -> Vec<u64> {
    let any_processes = plan.wanted.iter().any(PlannedServer::has_process_sessions);
    let counts = |wanted: &PlannedServer<'_>| wanted.has_process_sessions() || !any_processes;
    let first_bare = plan.wanted.iter().position(|wanted| counts(wanted) && is_bare(wanted));
    let stands = |at: usize, wanted: &PlannedServer<'_>| {
        counts(wanted) && (!is_bare(wanted) || Some(at) == first_bare)
    };
    let max =
        |wanted: &PlannedServer<'_>| wanted.instance.max_sessions.get().filter(|max| *max > 0);
    let stand = plan.wanted.iter().enumerate().filter(|(at, wanted)| stands(*at, wanted));
    let shares: Vec<&PlannedServer<'_>> = stand.map(|(_, wanted)| wanted).collect();
    let all_known = shares.iter().all(|wanted| max(wanted).is_some());
    let weight = |wanted: &PlannedServer<'_>| max(wanted).filter(|_| all_known).unwrap_or(1);
    let whole: u128 = shares.iter().map(|wanted| u128::from(weight(wanted))).sum();
    let share = |wanted: &PlannedServer<'_>| {
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

/// Those asked for; else those that run now, and of a stopped server the most configured.
pub(super) fn sessions_now(ask: &SizingContext<'_>) -> Vec<u64> {
    if let Some(sessions) = ask.request.sessions {
        return deal_sessions(ask.plan, sessions);
    }
    let now = |instance: &Instance| {
        let sessions = if instance.pid == 0 { &instance.max_sessions } else { &instance.sessions };
        sessions.get().unwrap_or(0)
    };
    ask.plan.wanted.iter().map(|wanted| now(wanted.instance)).collect()
}

/// The most sessions that all servers are configured for; where some are of processes, of those.
pub(super) fn most_sessions(plan: &SizingPlan<'_>) -> Option<u64> {
    let any_processes = plan.wanted.iter().any(PlannedServer::has_process_sessions);
    let counted =
        plan.wanted.iter().filter(|wanted| wanted.has_process_sessions() || !any_processes);
    let maxima: Vec<u64> =
        counted.filter_map(|wanted| wanted.instance.max_sessions.get()).collect();
    let sum = maxima.iter().fold(0_u64, |sum, max| sum.saturating_add(*max));
    (sum > 0).then_some(sum)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AllTables {
    pub(super) expected: Bytes,
    /// Where all processes of a server map its memory at one address.
    pub(super) least: Bytes,
    /// What it would be if every session touched all of its server's memory.
    pub(super) most: Bytes,
    /// Measured where it is of every server, and then on the fewest sessions of one.
    pub(super) basis: Basis,
}

/// Page tables of all servers at so many sessions each, on pages of `page` or on what is planned.
pub(super) fn tables_at(
    ask: &SizingContext<'_>,
    dealt: &[u64],
    page: Option<PageSize>,
) -> AllTables {
    let first_bare = ask.plan.wanted.iter().position(is_bare);
    let forecast = |(at, (wanted, sessions)): (usize, (&PlannedServer<'_>, &u64))| {
        let server = ForecastServer::new(ask.host, wanted.sized_instance(), ask.base_page())
            .with_idle(ask.request.process_tables);
        let elsewhere = is_bare(wanted) && Some(at) != first_bare;
        let server = if elsewhere { server.in_others_processes() } else { server };
        server.forecast_page_tables(*sessions, page.unwrap_or_else(|| wanted.page_size()))
    };
    let nothing = AllTables {
        expected: Bytes::ZERO,
        least: Bytes::ZERO,
        most: Bytes::ZERO,
        basis: Basis::Measured(u64::MAX),
    };
    let forecasts = ask.plan.wanted.iter().zip(dealt).enumerate().map(forecast);
    forecasts.fold(nothing, |sum, one| AllTables {
        expected: sum.expected + one.total,
        least: sum.least + one.least,
        most: sum.most + one.most,
        basis: match (sum.basis, one.basis) {
            (Basis::Measured(some), Basis::Measured(other)) => Basis::Measured(some.min(other)),
            _ => Basis::FullTouch,
        },
    })
}

pub(super) fn tables_at_most(ask: &SizingContext<'_>, page: PageSize) -> (u64, Bytes) {
    let most = most_sessions(ask.plan).max(ask.request.sessions).unwrap_or(0);
    (most, tables_at(ask, &deal_sessions(ask.plan, most), Some(page)).expected)
}
