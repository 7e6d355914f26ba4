//! Pools over the nodes: evenly, as the kernel does it, but never more on a node than it can carry.

use hugewise_model::host::NumaNode;
use hugewise_model::{Bytes, PageCount, PageSize, Pool};

use super::wanted::{Plan, Wanted};
use super::{Ask, PoolTarget};
use crate::demand;
use crate::situation::cpuset;

/// One node while pools are dealt out.
struct Node<'a> {
    node: &'a NumaNode,
    /// Memory that pools may still take of it.
    room: Bytes,
}

/// Pages of a pool for a server that may use some of its nodes alone.
struct Kept {
    nodes: Vec<u32>,
    pages: PageCount,
}

/// The servers of a pool that their cpusets keep to some nodes, each with its part of the pages to spare.
fn kept(ask: &Ask<'_>, plan: &Plan<'_>, target: &PoolTarget) -> Vec<Kept> {
    let page = target.page_size;
    let of = |wanted: &Wanted<'_>| {
        let demands = wanted.demands().filter(|demand| demand.page_size == page);
        demands.map(|demand| demand.pages).sum::<PageCount>()
    };
    let all: PageCount = plan.wanted.iter().map(of).sum();
    let kept = |wanted: &Wanted<'_>| {
        let nodes = cpuset::allowed(ask.host, wanted.instance, page)?;
        let demand = of(wanted);
        let spare = u128::from(target.spare_pages.get()) * u128::from(demand.get());
        let spare = u64::try_from(spare.div_ceil(u128::from(all.get().max(1)))).unwrap_or(u64::MAX);
        (demand > PageCount::ZERO).then(|| Kept { nodes, pages: demand + PageCount(spare) })
    };
    plan.wanted.iter().filter_map(kept).collect()
}

/// A pool over the nodes: first what has to lie on some of them, and the rest evenly. The second value is what finds no room.
fn deal(
    pages: PageCount,
    kept: &[Kept],
    ids: &[u32],
    rooms: &[PageCount],
    order: &[usize],
) -> (Vec<PageCount>, PageCount) {
    let mut shares = vec![PageCount::ZERO; rooms.len()];
    let (mut rest, mut unplaced) = (pages, PageCount::ZERO);
    let left = |shares: &[PageCount]| -> Vec<PageCount> {
        rooms.iter().zip(shares).map(|(room, share)| room.saturating_sub(*share)).collect()
    };
    let add = |shares: &mut [PageCount], more: Vec<PageCount>| {
        shares.iter_mut().zip(more).for_each(|(share, more)| *share = *share + more);
    };
    for part in kept {
        let pages = part.pages.min(rest);
        let open: Vec<PageCount> = left(&shares)
            .into_iter()
            .zip(ids)
            .map(|(room, id)| if part.nodes.contains(id) { room } else { PageCount::ZERO })
            .collect();
        let (more, without) = fill(pages, &open, order);
        add(&mut shares, more);
        unplaced = unplaced + without;
        rest = rest.saturating_sub(pages);
    }
    let (more, without) = fill(rest, &left(&shares), order);
    add(&mut shares, more);
    (shares, unplaced + without)
}

/// Splits each pool over the nodes with memory. The second value is what no node has room for.
pub(super) fn split(ask: &Ask<'_>, plan: &Plan<'_>, pools: Vec<PoolTarget>) -> (Vec<PoolTarget>, Bytes) {
    let known = ask.host.nodes.known().map(Vec::as_slice).unwrap_or_default();
    let with_memory = known.iter().filter(|node| node.total.get().is_some_and(|total| total > Bytes::ZERO));
    let mut nodes: Vec<Node<'_>> = with_memory
        .map(|node| Node { node, room: demand::largest_pools(node.total.get().unwrap_or_default()) })
        .collect();
    if ask.elsewhere || nodes.len() < 2 {
        let one = |mut target: PoolTarget| {
            let more = target.pages.saturating_sub(target.now.unwrap_or_default()).of(target.page_size);
            target.room_now = if ask.elsewhere {
                None
            } else {
                demand::found_now(ask.host, target.page_size).map(|found| found >= more)
            };
            target
        };
        return (pools.into_iter().map(one).collect(), Bytes::ZERO);
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(nodes.get(*at).and_then(|node| node.node.free.get())));
    let ids: Vec<u32> = nodes.iter().map(|node| node.node.id).collect();
    let mut unplaced = Bytes::ZERO;
    let mut parts = Vec::new();
    // Large pages first: they find a place less easily.
    for target in pools.iter().rev() {
        let rooms: Vec<PageCount> =
            nodes.iter().map(|node| PageCount(node.room.get() / target.page_size.bytes().get())).collect();
        let (shares, rest) = deal(target.pages, &kept(ask, plan, target), &ids, &rooms, &order);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(pages: u64, kept: &[Kept], rooms: [u64; 2]) -> (Vec<u64>, u64) {
        let (shares, rest) = deal(PageCount(pages), kept, &[0, 1], &rooms.map(PageCount), &[0, 1]);
        (shares.into_iter().map(PageCount::get).collect(), rest.get())
    }

    /// mm/hugetlb.c, allowed_mems_nr(): pages of nodes that a cpuset rules out are none for its server.
    #[test]
    fn pages_lie_where_their_server_may_use_them() {
        let on_one = |pages| Kept { nodes: vec![1], pages: PageCount(pages) };
        assert_eq!(dealt(154, &[], [1000, 1000]), (vec![77, 77], 0));
        assert_eq!(dealt(154, &[on_one(154)], [1000, 1000]), (vec![0, 154], 0));
        // The others' are spread over both.
        assert_eq!(dealt(254, &[on_one(154)], [1000, 1000]), (vec![50, 204], 0));
        // What has no room there is not put where it is of no use.
        assert_eq!(dealt(154, &[on_one(154)], [1000, 100]), (vec![0, 100], 54));
    }
}
