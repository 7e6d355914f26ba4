//! What more or fewer sessions would do to the host: a row a number of sessions, each as `hugewise size --sessions N` has it.

use hugewise_advice::sizing::{Budget, PoolTarget};
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use super::size::sessions_of;
use crate::Stop;
use crate::palette::Role;
use crate::table::{Cell, Column};

const fn column(heading: &'static str, short: &'static str) -> Column {
    Column { heading, short, right: true, least: None }
}

/// Columns of the numbers of sessions.
pub(crate) const COLUMNS: [Column; 6] = [
    column("sessions", "sessions"),
    column("huge pages", "pages"),
    column("private memory", "private"),
    column("page tables", "tables"),
    column("on base pages", "on base"),
    column("memory left", "left"),
];

/// A number of sessions, laid out.
pub(crate) struct Row {
    /// One a column.
    pub(crate) cells: Vec<Cell>,
    /// All of it in a sentence.
    pub(crate) says: String,
    /// Whether the host is sized for just so many.
    pub(crate) is_planned: bool,
}

/// The rows; `planned` is what the host is sized for.
pub(crate) fn rows(host: &Host, stops: &[Stop], planned: u64) -> Vec<Row> {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    stops.iter().map(|stop| row(stop, base, planned)).collect()
}

fn row(stop: &Stop, base: PageSize, planned: u64) -> Row {
    let Stop { sessions, sizing } = stop;
    let budget = &sizing.budget;
    let on_base = sizing.forecast.iter().find(|row| row.sessions == *sessions && row.page_size == base);
    let is_max = on_base.is_some_and(|row| row.configured_max);
    let on_base = on_base.map(|row| row.page_tables);
    let pages = match &sizing.refusal {
        Some(_) => Cell::new(Role::Error, "do not fit"),
        None => Cell::new(Role::Text, pages(&sizing.pools)),
    };
    let number = PageCount(*sessions);
    let name = match (is_max, *sessions == planned) {
        (true, _) => format!("max {number}"),
        (false, true) => format!("planned {number}"),
        (false, false) => number.to_string(),
    };
    let known = |bytes: Option<Bytes>| {
        bytes.map_or_else(|| Cell::new(Role::Quiet, "?"), |bytes| Cell::new(Role::Text, bytes.to_string()))
    };
    let says = says(*sessions, &pages, budget, on_base, base);
    let cells = vec![
        Cell::new(Role::Strong, name),
        pages,
        known(budget.sessions_private),
        known(budget.page_tables),
        known(on_base),
        left(budget),
    ];
    Row { cells, says, is_planned: *sessions == planned }
}

/// `17,410 of 2 MiB`, the nodes' parts of a pool together.
fn pages(pools: &[PoolTarget]) -> String {
    let mut sums: Vec<(PageSize, PageCount)> = Vec::new();
    for pool in pools {
        match sums.iter_mut().find(|(page, _)| *page == pool.page_size) {
            Some((_, sum)) => *sum = *sum + pool.pages,
            None => sums.push((pool.page_size, pool.pages)),
        }
    }
    let said: Vec<String> = sums.iter().map(|(page, pages)| format!("{pages} of {page}")).collect();
    if said.is_empty() { "none".into() } else { said.join(", ") }
}

fn left(budget: &Budget) -> Cell {
    match (budget.short, budget.left) {
        (Bytes::ZERO, Some(left)) => Cell::new(Role::Text, left.to_string()),
        (Bytes::ZERO, None) => Cell::new(Role::Quiet, "?"),
        (short, _) => Cell::new(Role::Error, format!("{short} short")),
    }
}

fn says(sessions: u64, pages: &Cell, budget: &Budget, on_base: Option<Bytes>, base: PageSize) -> String {
    let mut parts = vec![format!("huge pages {}", pages.text)];
    parts.extend(budget.sessions_private.map(|private| format!("private memory {private}")));
    if let Some(tables) = budget.page_tables {
        let instead = on_base.map(|instead| format!(" ({instead} if all were on {base} pages)"));
        parts.push(format!("page tables {tables}{}", instead.unwrap_or_default()));
    }
    match (budget.short, budget.left) {
        (Bytes::ZERO, Some(left)) => parts.push(format!("{left} of memory left")),
        (Bytes::ZERO, None) => {}
        (short, _) => parts.push(format!("memory {short} short")),
    }
    format!("{}: {}.", sessions_of(sessions), parts.join("; "))
}
