//! The huge page sizes of a host, compared.

use hugewise_model::host::TlbHolds;
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use super::wanted::{self, Plan, Wanted};
use super::{Ask, sessions};

/// One huge page size, as if all servers were on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSizeRow {
    /// The size.
    pub page_size: PageSize,
    /// Whether the plan uses it.
    pub chosen: bool,
    /// Pages for all servers, without any to spare. `None` where a demand is not known for this size.
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

/// Huge page sizes that the host offers, smallest first. Where that was not read (a host that is only
/// described): what the architecture usually has.
pub(super) fn offered(host: &Host) -> Vec<PageSize> {
    match host.pools.known() {
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

pub(super) fn rows(ask: &Ask<'_>, plan: &Plan<'_>, offered: &[PageSize]) -> Vec<PageSizeRow> {
    let row = |page: &PageSize| {
        let demands = plan.wanted.iter().map(|wanted| wanted::demand_on(wanted.then(), *page));
        let pages: Option<PageCount> =
            demands.map(|demand| Some(demand?.pages)).collect::<Option<Vec<_>>>().map(|all| all.into_iter().sum());
        let bytes: Bytes = plan.wanted.iter().map(wanted::Wanted::bytes).sum();
        let (sessions, page_tables_at_max) = sessions::tables_at_most(ask, plan, *page);
        PageSizeRow {
            page_size: *page,
            chosen: plan.wanted.iter().flat_map(Wanted::demands).any(|demand| demand.page_size == *page),
            pages,
            waste: pages.map(|pages| pages.of(*page).saturating_sub(bytes)),
            sessions,
            page_tables_at_max,
            tlb_reach: tlb_reach(ask.host, *page),
            note: note(ask, plan, *page, offered),
        }
    };
    offered.iter().map(row).collect()
}

/// Entries of the largest data or shared buffer for that page size, times the page.
fn tlb_reach(host: &Host, page: PageSize) -> Option<Bytes> {
    let levels = host.processors.tlb.known()?.iter();
    let fitting = levels.filter(|level| level.page_size == page && level.holds != TlbHolds::Instructions);
    let entries = fitting.map(|level| level.entries).max().filter(|entries| *entries > 0)?;
    Some(page.bytes().times(u64::from(entries)))
}

fn note(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize, offered: &[PageSize]) -> String {
    if page != PageSize::GIB_1 {
        return String::new();
    }
    let mut against: Vec<String> = plan
        .wanted
        .iter()
        .filter_map(|wanted| {
            let why = wanted::gib_pages(ask.host, wanted.then(), offered).err()?;
            Some(format!("{}: {why}", crate::words::one_line(&wanted.instance.title())))
        })
        .collect();
    if ask.host.processors.tlb.known().is_some_and(|levels| !levels.is_empty()) && tlb_reach(ask.host, page).is_none() {
        against.push("this processor reports no TLB entries for 1 GiB pages".into());
    }
    match against.as_slice() {
        [] => "worth it: set aside at boot, before memory is fragmented".into(),
        _ => against.join("; "),
    }
}
