//! The huge page sizes of a host, compared.

use hugewise_model::host::TlbHolds;
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use super::planned_servers::{self, PlannedServer};
use super::{SizingContext, sessions};

/// One huge page size, as if all servers were on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSizeComparison {
    /// The size.
    pub page_size: PageSize,
    /// Whether the plan uses it.
    pub chosen: bool,
    /// Pages for all servers, without any to spare. `None` where a demand is not known.
    pub pages: Option<PageCount>,
    /// Memory lost as each segment is rounded up to whole pages.
    pub waste: Option<Bytes>,
    /// The largest number of sessions configured or asked for.
    pub sessions: u64,
    /// Page tables at that number of sessions.
    pub page_tables_at_max: Bytes,
    /// Memory that one processor's last data translation buffer reaches with pages of this size.
    pub tlb_reach: Option<Bytes>,
    /// What speaks against it, or for it; empty where nothing does.
    pub note: String,
}

/// Smallest first; of a host that is only described, what its architecture usually has.
pub(super) fn offered_page_sizes(host: &Host) -> Vec<PageSize> {
    match host.pools.as_known() {
        Some(pools) => {
            let mut sizes: Vec<PageSize> = pools.iter().map(|pool| pool.page_size).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        }
        None => match host.default_huge_page.get() {
            Some(page) if page != PageSize::MIB_2 => vec![page],
            _ if host.processors.gib_pages.get() == Some(false) => vec![PageSize::MIB_2],
            _ => vec![PageSize::MIB_2, PageSize::GIB_1],
        },
    }
}

pub(super) fn compare_page_sizes(
    ask: &SizingContext<'_>,
    offered: &[PageSize],
) -> Vec<PageSizeComparison> {
    let row = |page: &PageSize| {
        let wanted = ask.plan.wanted.iter();
        let demands =
            wanted.clone().map(|wanted| planned_servers::demand_on(wanted.sized_instance(), *page));
        let pages = demands.map(|demand| Some(demand?.pages)).collect::<Option<Vec<PageCount>>>();
        let pages: Option<PageCount> = pages.map(|all| all.into_iter().sum());
        let bytes: Bytes = wanted.clone().map(PlannedServer::unrounded_bytes).sum();
        let mut demands = wanted.flat_map(PlannedServer::demands);
        let (sessions, page_tables_at_max) = sessions::tables_at_most(ask, *page);
        PageSizeComparison {
            page_size: *page,
            chosen: demands.any(|demand| demand.page_size == *page),
            pages,
            waste: pages.map(|pages| pages.to_bytes(*page).saturating_sub(bytes)),
            sessions,
            page_tables_at_max,
            tlb_reach: tlb_reach(ask.host, *page),
            note: note_on_size(ask, *page, offered),
        }
    };
    offered.iter().map(row).collect()
}

/// Entries of the largest data or shared buffer for that page size, times the page.
fn tlb_reach(host: &Host, page: PageSize) -> Option<Bytes> {
    let levels = host.processors.tlb.as_known()?.iter();
    let fitting =
        levels.filter(|level| level.page_size == page && level.holds != TlbHolds::Instructions);
    let entries = fitting.map(|level| level.entries).max().filter(|entries| *entries > 0)?;
    Some(page.bytes().saturating_mul(u64::from(entries)))
}

fn note_on_size(ask: &SizingContext<'_>, page: PageSize, offered: &[PageSize]) -> String {
    if page != PageSize::GIB_1 {
        return String::new();
    }
    let mut against: Vec<String> = ask
        .plan
        .wanted
        .iter()
        .filter_map(|wanted| {
            let why =
                planned_servers::gib_pages(ask.host, wanted.sized_instance(), offered).err()?;
            Some(format!("{}: {why}", crate::wording::one_line(&wanted.instance.title())))
        })
        .collect();
    if ask.host.processors.tlb.as_known().is_some_and(|levels| !levels.is_empty())
        && tlb_reach(ask.host, page).is_none()
    {
        against.push("this processor reports no TLB entries for 1 GiB pages".into());
    }
    match against.as_slice() {
        [] => "worth it: set aside at boot, before memory is fragmented".into(),
        _ => against.join("; "),
    }
}
