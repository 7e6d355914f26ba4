//! Page tables of one server, from its processes as they run or from what its memory would cost.

use std::ops::Add;

use hugewise_model::instance::SessionModel;
use hugewise_model::{Bytes, Host, HugePageUse, Instance, PageSize};

use super::tables::{Addresses, PageTableCost, process_tables, shared_tables};
use crate::demand;

/// The mean of fewer live sessions may say little of what a session touches.
const SESSIONS_TO_TRUST: u64 = 10;

/// Page tables of a server at a number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTableForecast {
    /// At so many sessions.
    pub sessions: u64,
    /// On pages of this size.
    pub page_size: PageSize,
    /// What one session adds; nothing where sessions are threads.
    pub per_session: Bytes,
    /// All processes together, as expected; on the average of addresses where each has its own.
    pub total: Bytes,
    /// Of the same processes, where all map the memory at one address.
    pub least: Bytes,
    /// Were every session to touch all of the memory; what is expected where that is more.
    pub most: Bytes,
    /// How it is known which part of the memory a session touches.
    pub basis: Basis,
}

impl PageTableForecast {
    /// With the most where that rests on too few sessions: `57.5 MiB (at most 141.5 MiB)`.
    pub fn in_words(&self) -> String {
        match self.basis {
            Basis::FullTouch => format!("at most {}", self.total),
            basis if basis.is_broad() || self.most == self.total => self.total.to_string(),
            Basis::Measured(_) => format!("{} (at most {})", self.total, self.most),
        }
    }
}

/// What a forecast rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The mean of so many sessions that run now, on pages of this size.
    Measured(u64),
    /// Every session touches everything.
    FullTouch,
}

impl Basis {
    /// Name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured(_) => "measured",
            Self::FullTouch => "full_touch",
        }
    }

    /// Whether enough sessions run for their mean to stand for what the next ones will touch.
    pub const fn is_broad(self) -> bool {
        matches!(self, Self::Measured(sessions) if sessions >= SESSIONS_TO_TRUST)
    }
}

/// What the processes of a running server say. `VmPTE` leaves out the root table, which today's
/// kernels count in `PageTables`: one base page is added for each.
#[derive(Clone, Copy)]
struct LivePageTables {
    sessions: u64,
    /// Mean of the sessions.
    session: Bytes,
    /// Sum of the others.
    background: Bytes,
}

/// A server, as far as its page tables depend on it.
pub(crate) struct ForecastServer<'a> {
    instance: &'a Instance,
    base: PageSize,
    stretches: Vec<Bytes>,
    live: Option<LivePageTables>,
    page_now: Option<PageSize>,
    idle: Option<Bytes>,
    own_processes: bool,
}

impl<'a> ForecastServer<'a> {
    pub(crate) fn new(host: &Host, instance: &'a Instance, base: PageSize) -> Self {
        let processes = instance.session_model == SessionModel::Processes;
        Self {
            instance,
            base,
            stretches: demand::touched_stretches(instance),
            live: measure_live_tables(host, instance, base).filter(|_| processes),
            page_now: page_now(instance, base),
            idle: None,
            own_processes: true,
        }
    }

    /// With the page tables of a session that touches nothing, where they were measured.
    #[must_use]
    pub(crate) const fn with_idle(mut self, idle: Option<Bytes>) -> Self {
        self.idle = idle;
        self
    }

    /// Whose sessions are processes that count elsewhere: one more segment of theirs.
    #[must_use]
    pub(crate) const fn in_others_processes(mut self) -> Self {
        self.own_processes = false;
        self
    }

    pub(crate) fn forecast_page_tables(&self, sessions: u64, page: PageSize) -> PageTableForecast {
        let full = self.touched_whole(page);
        let idle = if self.own_processes { self.idle_session() } else { Bytes::ZERO };
        let others = background_processes(self.instance);
        if self.instance.session_model == SessionModel::Threads {
            let session = idle + full.each;
            let own = session.saturating_mul(others).max(session);
            let (total, least) =
                (own + full.shared_among(1), own + full.at_one_address().shared_among(1));
            return PageTableForecast {
                sessions,
                page_size: page,
                per_session: Bytes::ZERO,
                total,
                least,
                most: total,
                basis: Basis::FullTouch,
            };
        }
        let whole = idle + full.each;
        let (per_session, background, basis) =
            match self.live.filter(|_| self.page_now == Some(page)) {
                // Each process's VmPTE counts the shared tables in.
                Some(live) => (
                    live.session.saturating_sub(full.shared),
                    live.background,
                    Basis::Measured(live.sessions),
                ),
                None => (whole, whole.saturating_mul(others), Basis::FullTouch),
            };
        let processes = sessions.saturating_add(others);
        let own = per_session.saturating_mul(sessions) + background;
        let shared = full.shared_among(processes);
        let total = own + shared;
        PageTableForecast {
            sessions,
            page_size: page,
            per_session,
            total,
            least: own + full.at_one_address().shared_among(processes),
            most: (per_session.max(whole).saturating_mul(sessions) + background + shared)
                .max(total),
            basis,
        }
    }

    fn touched_whole(&self, page: PageSize) -> PageTableCost {
        let addresses = Addresses::for_engine(self.instance.engine);
        let all =
            self.stretches.iter().map(|size| shared_tables(*size, page, self.base, addresses));
        all.fold(PageTableCost::default(), PageTableCost::add)
    }

    fn idle_session(&self) -> Bytes {
        let default = process_tables(self.instance.engine, self.base);
        self.idle.unwrap_or_else(|| match (self.live, self.page_now) {
            // On huge pages a process has little else. What a session on base pages has not touched
            // cannot be told from what it costs by itself.
            (Some(live), Some(now)) => {
                let here = self.touched_whole(now);
                live.session.saturating_sub(here.each + here.shared).max(default)
            }
            _ => default,
        })
    }
}

/// Which processes are sessions is not known: the ones with the most page tables are taken for
/// them, so that a host is never promised more than it has.
fn measure_live_tables(host: &Host, instance: &Instance, base: PageSize) -> Option<LivePageTables> {
    let sessions = instance.sessions.get().filter(|sessions| *sessions > 0)?;
    let tables = instance.pids.iter().map(|pid| host.find_process(*pid)?.page_tables.get());
    let mut tables: Vec<Bytes> = tables.collect::<Option<_>>()?;
    tables.sort_unstable_by_key(|tables| std::cmp::Reverse(*tables));
    let at = usize::try_from(sessions).unwrap_or(usize::MAX).min(tables.len());
    let (ours, others) = tables.split_at_checked(at)?;
    let sum = |part: &[Bytes]| -> Bytes { part.iter().map(|tables| *tables + base.bytes()).sum() };
    let count = u64::try_from(ours.len()).ok()?;
    Some(LivePageTables {
        sessions: count,
        session: sum(ours).shared_by(count)?,
        background: sum(others),
    })
}

pub(crate) fn background_processes(instance: &Instance) -> u64 {
    let processes = u64::try_from(instance.pids.len()).unwrap_or(u64::MAX);
    processes.saturating_sub(instance.sessions.get().unwrap_or(0))
}

/// Page size that a running server's memory has now, where it has one.
pub(crate) fn page_now(instance: &Instance, base: PageSize) -> Option<PageSize> {
    match instance.huge_pages {
        _ if instance.pid == 0 => None,
        HugePageUse::None => Some(base),
        HugePageUse::All => {
            instance.segments.iter().max_by_key(|segment| segment.size)?.page_size.get()
        }
        HugePageUse::Partly | HugePageUse::Unknown => None,
    }
}

/// A server's page tables at `sessions` sessions on pages of `page`; `None` without a base page.
pub(crate) fn page_tables_at(
    host: &Host,
    instance: &Instance,
    sessions: u64,
    page: PageSize,
) -> Option<PageTableForecast> {
    Some(
        ForecastServer::new(host, instance, host.base_page.get()?)
            .forecast_page_tables(sessions, page),
    )
}

/// A server's page tables at the most sessions that its settings allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtMax {
    /// The number of sessions.
    pub sessions: u64,
    /// On the base page, then on each huge page size of the host, smallest first.
    pub by_page: Vec<PageTableForecast>,
}

/// On each page size of the host. `None` where the base page or the most sessions are not known.
pub fn at_max(host: &Host, instance: &Instance) -> Option<AtMax> {
    let (base, sessions) = (host.base_page.get()?, instance.max_sessions.get()?);
    let server = ForecastServer::new(host, instance, base);
    let mut pages: Vec<PageSize> =
        host.pools.as_known().into_iter().flatten().map(|pool| pool.page_size).collect();
    pages.push(base);
    pages.sort_unstable();
    pages.dedup();
    let by_page =
        pages.into_iter().map(|page| server.forecast_page_tables(sessions, page)).collect();
    Some(AtMax { sessions, by_page })
}

/// What one more session adds, by the sessions that run now; by all processes where none does.
pub fn per_session(host: &Host, instance: &Instance) -> Option<Bytes> {
    let live = host.base_page.get().and_then(|base| measure_live_tables(host, instance, base));
    live.map(|live| live.session).or_else(|| per_process(instance))
}

/// Mean page tables of an instance's processes now.
pub(crate) fn per_process(instance: &Instance) -> Option<Bytes> {
    instance.page_tables.get()?.shared_by(u64::try_from(instance.pids.len()).ok()?)
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing::{self, gib};

    /// A mean of so much VmPTE in each process.
    fn measured(sessions: u64, each: Bytes) -> testing::Case {
        let mut case = testing::quiet();
        case.oracle("PROD", gib(8), sessions);
        for process in case.processes() {
            process.page_tables = Observed::Known(each);
        }
        case
    }

    fn forecast_at(case: &testing::Case, sessions: u64, page: PageSize) -> PageTableForecast {
        page_tables_at(&case.host, &case.instances[0], sessions, page).unwrap()
    }

    #[test]
    fn five_hundred_sessions_on_8000_mb() {
        let mut case = testing::quiet();
        case.oracle("PROD", gib(1), 0).segments[0].size = Bytes::from_mib(8000);
        // (4000 + 8) tables of 4 KiB for each of 500 processes, and the 530 KiB that Oracle's have
        // besides. Small processes of a stand-in were measured at 7,869 MiB (docs/lab.md).
        assert_eq!(
            forecast_at(&case, 499, PageSize::KIB_4).total,
            Bytes::from_kib(500 * (4008 * 4 + 530))
        );
        // One table of its own each, 8,000 MiB / 512 GiB of an upper one, and the rest of 8,000 MiB
        // / 1 GiB tables once.
        assert_eq!(
            forecast_at(&case, 499, PageSize::MIB_2).total,
            Bytes(500 * (4096 + 62 + 530 * 1024) + 32_000 - 4096)
        );
    }

    #[test]
    fn live_sessions_say_what_a_session_touches() {
        // With its root table, which VmPTE leaves out.
        let case = measured(99, Bytes::from_kib(1020));
        let forecast = forecast_at(&case, 999, PageSize::KIB_4);
        assert_eq!(
            (forecast.per_session, forecast.total),
            (Bytes::from_mib(1), Bytes::from_mib(1000))
        );
        assert_eq!(forecast.basis, Basis::Measured(99));
        // 8 GiB: 4096 + 8 tables, and 530 KiB besides.
        assert_eq!(forecast.most, Bytes::from_kib(999 * (4104 * 4 + 530) + 1024));
        assert_eq!(forecast.in_words(), "1000.0 MiB");
    }

    #[test]
    fn a_few_sessions_are_no_bound() {
        let case = measured(3, Bytes::from_kib(1020));
        let forecast = forecast_at(&case, 999, PageSize::KIB_4);
        assert_eq!(forecast.total, Bytes::from_mib(1000));
        assert!(!forecast.basis.is_broad());
        assert_eq!(forecast.in_words(), format!("1000.0 MiB (at most {})", forecast.most));
        assert!(case.codes().contains(&"HW102"), "{:?}", case.codes());
        let many = measured(99, Bytes::from_kib(1020));
        assert!(!many.codes().contains(&"HW102"), "{:?}", many.codes());
    }

    /// Ronny Egner, "MEMORY_TARGET (SGA_TARGET) or HugePages": on huge pages a hundred logins to
    /// 11g took 27,112 kB to 80,096 kB.
    #[test]
    fn a_hundred_log_ins_on_huge_pages_are_no_less_than_was_measured() {
        let mut case = testing::quiet();
        case.oracle("ORA11P", gib(1), 0);
        let count_of = |sessions| forecast_at(&case, sessions, PageSize::MIB_2).total.get() >> 10;
        let more = count_of(100) - count_of(0);
        assert!((80_096 - 27_112..54_000).contains(&more), "{more}");
    }

    #[test]
    fn every_page_size_of_the_host_is_forecast_at_the_most_sessions() {
        let case = measured(99, Bytes::from_kib(1020));
        let at_max = at_max(&case.host, &case.instances[0]).unwrap();
        let pages: Vec<PageSize> =
            at_max.by_page.iter().map(|forecast| forecast.page_size).collect();
        assert_eq!(
            (at_max.sessions, pages),
            (1000, vec![PageSize::KIB_4, PageSize::MIB_2, PageSize::GIB_1])
        );
        assert_eq!(at_max.by_page[0].total, Bytes::from_mib(1001));
    }

    #[test]
    fn threads_share_one_set() {
        let mut case = testing::quiet();
        case.mariadb("3306", gib(1));
        assert_eq!(
            forecast_at(&case, 1, PageSize::KIB_4).total,
            forecast_at(&case, 10_000, PageSize::KIB_4).total
        );
    }
}
