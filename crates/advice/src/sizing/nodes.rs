//! Pools over the nodes: evenly, as the kernel does it, but never more on a node than it can carry.

use hugewise_model::host::NumaNode;
use hugewise_model::{Bytes, PageCount, PageSize, Pool};

use super::{Ask, PoolTarget};
use crate::demand;

/// One node while pools are dealt out.
struct Node<'a> {
    node: &'a NumaNode,
    /// Memory that pools may still take of it.
    room: Bytes,
}

/// Splits each pool over the nodes with memory. The second value is what no node has room for.
pub(super) fn split(ask: &Ask<'_>, pools: Vec<PoolTarget>) -> (Vec<PoolTarget>, Bytes) {
    let known = ask.host.nodes.known().map(Vec::as_slice).unwrap_or_default();
    let with_memory = known.iter().filter(|node| node.total.get().is_some_and(|total| total > Bytes::ZERO));
    let mut nodes: Vec<Node<'_>> = with_memory
        .map(|node| Node { node, room: demand::largest_pools(node.total.get().unwrap_or_default()) })
        .collect();
    if ask.elsewhere || nodes.len() < 2 {
        let one = |mut target: PoolTarget| {
            let more = target.pages.saturating_sub(target.now.unwrap_or_default()).of(target.page_size);
            target.room_now = if ask.elsewhere { None } else { ask.host.memory.free.get().map(|free| free >= more) };
            target
        };
        return (pools.into_iter().map(one).collect(), Bytes::ZERO);
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(nodes.get(*at).and_then(|node| node.node.free.get())));
    let mut unplaced = Bytes::ZERO;
    let mut parts = Vec::new();
    // Large pages first: they find a place less easily.
    for target in pools.iter().rev() {
        let rooms: Vec<PageCount> =
            nodes.iter().map(|node| PageCount(node.room.get() / target.page_size.bytes().get())).collect();
        let (shares, rest) = fill(target.pages, &rooms, &order);
        unplaced += rest.of(target.page_size);
        let pool = ask.host.pool(target.page_size);
        let (spare, _) = fill(target.spare_pages, &shares, &order);
        let demand: Vec<PageCount> = shares.iter().zip(&spare).map(|(all, spare)| all.saturating_sub(*spare)).collect();
        let (others, _) = fill(target.held_by_others, &demand, &order);
        let mut of_pool = Vec::new();
        for (node, ((share, spare_pages), held_by_others)) in nodes.iter_mut().zip(shares.iter().zip(spare).zip(others))
        {
            node.room = node.room.saturating_sub(share.of(target.page_size));
            of_pool.push(PoolTarget {
                page_size: target.page_size,
                node: Some(node.node.id),
                pages: *share,
                spare_pages,
                held_by_others,
                now: pool.and_then(|pool| now(pool, node.node.id)),
                room_now: room_now(pool, node.node, *share, target.page_size),
            });
        }
        parts.push(of_pool);
    }
    parts.reverse();
    (parts.into_iter().flatten().collect(), unplaced)
}

fn give(share: &mut PageCount, room: PageCount, rest: &mut PageCount, pages: PageCount) {
    let more = pages.min(room.saturating_sub(*share)).min(*rest);
    *share = *share + more;
    *rest = rest.saturating_sub(more);
}

/// Equal shares, never more than there is room for; what is left over goes where there still is room, in
/// the order given. What finds no room at all comes back.
fn fill(pages: PageCount, rooms: &[PageCount], order: &[usize]) -> (Vec<PageCount>, PageCount) {
    let mut shares = vec![PageCount::ZERO; rooms.len()];
    let mut rest = pages;
    loop {
        let open = shares.iter().zip(rooms).filter(|(share, room)| share < room).count();
        let each = rest.get().checked_div(u64::try_from(open).unwrap_or(u64::MAX)).unwrap_or(0);
        if each == 0 {
            break;
        }
        for (share, room) in shares.iter_mut().zip(rooms) {
            give(share, *room, &mut rest, PageCount(each));
        }
    }
    for at in order {
        if let (Some(share), Some(room)) = (shares.get_mut(*at), rooms.get(*at)) {
            let all = rest;
            give(share, *room, &mut rest, all);
        }
    }
    (shares, rest)
}

fn now(pool: &Pool, node: u32) -> Option<PageCount> {
    pool.nodes.iter().find(|part| part.node == node)?.total.get()
}

/// Whether the node's free memory holds what is to be added to its pool.
fn room_now(pool: Option<&Pool>, node: &NumaNode, share: PageCount, page: PageSize) -> Option<bool> {
    let more = share.saturating_sub(now(pool?, node.id)?).of(page);
    Some(more <= node.free.get()?)
}
