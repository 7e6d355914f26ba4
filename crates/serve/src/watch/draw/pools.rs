//! The pools, a line each, with a bar of committed pages.

use hugewise_model::PageCount;
use hugewise_report::palette::Role;
use hugewise_report::screen::Spans;

use crate::watch::frame::{Frame, PoolRow};

/// Columns of a bar at most.
const BAR: usize = 30;

pub(super) fn render_pool_lines(frame: &Frame, width: usize) -> Vec<Spans> {
    let mut lines = vec![Spans::new().add(Role::Quiet, "  Pools")];
    match &frame.pools {
        None => lines.push(Spans::from("  no data about pools")),
        Some(pools) if pools.is_empty() => {
            lines.push(Spans::from("  this kernel has no huge pages"))
        }
        Some(pools) => lines.extend(pools.iter().map(|pool| render_pool_line(pool, width))),
    }
    lines.push(Spans::new());
    lines
}

fn render_pool_line(pool: &PoolRow, width: usize) -> Spans {
    let page = pool.page.to_string();
    let line = Spans::new().add(Role::Strong, &format!("  {page:>7}"));
    let (total, committed) = match (pool.total, pool.committed) {
        (Some(PageCount(0)), _) => return line.add(Role::Quiet, "  no pool"),
        (Some(total), Some(committed)) => (total, committed),
        _ => return line.add(Role::Quiet, "  could not be read"),
    };
    let room = width.saturating_sub(60).clamp(5, BAR);
    let filled = filled_columns(committed, total, room);
    let role = if committed > total { Role::Warn } else { Role::Good };
    let available = pool.available.map_or_else(|| "?".to_owned(), |pages| pages.to_string());
    line.add(Role::Text, "  ")
        .add(role, &"█".repeat(filled))
        .add(Role::Quiet, &"░".repeat(room.saturating_sub(filled)))
        .add(Role::Text, &format!("  {}, {committed} taken, {available} left", total.in_pages()))
        .add(Role::Quiet, &format!("  {}", total.to_bytes(pool.page)))
}

fn filled_columns(committed: PageCount, total: PageCount, room: usize) -> usize {
    let (committed, total) = (u128::from(committed.get()), u128::from(total.get()).max(1));
    let columns = (committed * room as u128).div_ceil(total);
    usize::try_from(columns).unwrap_or(room).min(room)
}
