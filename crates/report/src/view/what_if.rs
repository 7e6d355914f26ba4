//! What other numbers of sessions would do: rows as `hugewise size --sessions N` has them.

use hugewise_diagnose::sizing::{MemoryBudget, PoolSizeTarget};
use hugewise_model::{Bytes, Host, PageCount, PageSize, group_thousands};

use super::size::sessions_of;
use crate::Stop;
use crate::palette::Role;
use crate::table::{TableCell, TableColumn};

pub(crate) const COLUMNS: [TableColumn; 6] = [
    TableColumn::right("sessions"),
    TableColumn::right("huge pages").short("pages"),
    TableColumn::right("private memory").short("private"),
    TableColumn::right("page tables").short("tables"),
    TableColumn::right("on base pages").short("on base"),
    TableColumn::right("memory left").short("left"),
];

pub(crate) struct WhatIfRow {
    pub(crate) cells: Vec<TableCell>,
    /// The row as a sentence.
    pub(crate) says: String,
    /// Whether the host is sized for just so many.
    pub(crate) is_planned: bool,
}

/// `planned` is the number that the host is sized for.
pub(crate) fn what_if_rows(host: &Host, stops: &[Stop], planned: u64) -> Vec<WhatIfRow> {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    stops.iter().map(|stop| build_what_if_row(stop, base, planned)).collect()
}

fn build_what_if_row(stop: &Stop, base: PageSize, planned: u64) -> WhatIfRow {
    let Stop { sessions, sizing } = stop;
    let budget = &sizing.budget;
    let on_base =
        sizing.forecast.iter().find(|row| row.sessions == *sessions && row.page_size == base);
    let is_max = on_base.is_some_and(|row| row.configured_max);
    let on_base = on_base.map(|row| row.page_tables);
    let pages = match &sizing.refusal {
        Some(_) => TableCell::new(Role::Error, "do not fit"),
        None => TableCell::text(describe_pool_pages(&sizing.pools)),
    };
    let number = group_thousands(*sessions);
    let name = match (is_max, *sessions == planned) {
        (true, _) => format!("max {number}"),
        (false, true) => format!("planned {number}"),
        (false, false) => number.to_string(),
    };
    let known = |bytes: Option<Bytes>| TableCell::text_or(bytes, "?");
    let says = describe_outcome(*sessions, &pages, budget, on_base, base);
    let cells = vec![
        TableCell::new(Role::Strong, name),
        pages,
        known(budget.sessions_private),
        known(budget.page_tables),
        known(on_base),
        memory_left_cell(budget),
    ];
    WhatIfRow { cells, says, is_planned: *sessions == planned }
}

/// `17,410 of 2 MiB`, with a pool's parts on all nodes added up.
fn describe_pool_pages(pools: &[PoolSizeTarget]) -> String {
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

fn memory_left_cell(budget: &MemoryBudget) -> TableCell {
    match (budget.short, budget.left) {
        (Bytes::ZERO, left) => TableCell::text_or(left, "?"),
        (short, _) => TableCell::new(Role::Error, format!("{short} short")),
    }
}

fn describe_outcome(
    sessions: u64,
    pages: &TableCell,
    budget: &MemoryBudget,
    on_base: Option<Bytes>,
    base: PageSize,
) -> String {
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
