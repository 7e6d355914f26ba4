//! Pools over the nodes: evenly, as the kernel does it, but never more on a node than it can carry.

use hugewise_model::host::NumaNode;
use hugewise_model::{Bytes, Host, PageCount, PageSize, Pool};

use super::planned_servers::PlannedServer;
use super::{PoolSizeTarget, SizingContext};
use crate::demand;
use crate::prediction::cpuset;

struct NodeShare<'a> {
    node: &'a NumaNode,
    room: Bytes,
}

struct CpusetPages {
    nodes: Vec<u32>,
    pages: PageCount,
}

/// The servers of a pool with some nodes alone, each with its part of the pages to spare.
fn find_cpuset_pages(ask: &SizingContext<'_>, target: &PoolSizeTarget) -> Vec<CpusetPages> {
    let page = target.page_size;
    let pages_of = |wanted: &PlannedServer<'_>| {
        let demands = wanted.demands().filter(|demand| demand.page_size == page);
        demands.map(|demand| demand.pages).sum::<PageCount>()
    };
    let all: PageCount = ask.plan.wanted.iter().map(pages_of).sum();
    let kept = |wanted: &PlannedServer<'_>| {
        let nodes = cpuset::allowed_nodes(ask.host, wanted.instance, page)?;
        let demand = pages_of(wanted);
        let spare = u128::from(target.spare_pages.get()) * u128::from(demand.get());
        let spare = u64::try_from(spare.div_ceil(u128::from(all.get().max(1)))).unwrap_or(u64::MAX);
        (demand > PageCount::ZERO).then(|| CpusetPages { nodes, pages: demand + PageCount(spare) })
    };
    ask.plan.wanted.iter().filter_map(kept).collect()
}

/// First what has to lie on some nodes, and the rest evenly. The second value finds no room.
fn deal_over_nodes(
    pages: PageCount,
    kept: &[CpusetPages],
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
        let (more, without) = fill_evenly(pages, &open, order);
        add(&mut shares, more);
        unplaced = unplaced + without;
        rest = rest.saturating_sub(pages);
    }
    let (more, without) = fill_evenly(rest, &left(&shares), order);
    add(&mut shares, more);
    (shares, unplaced + without)
}

/// The second value is what no node has room for.
pub(super) fn split_over_nodes(
    ask: &SizingContext<'_>,
    pools: Vec<PoolSizeTarget>,
) -> (Vec<PoolSizeTarget>, Bytes) {
    let mut nodes = find_nodes_with_memory(ask.host);
    if ask.elsewhere || nodes.len() < 2 {
        let pools = pools.into_iter().map(|target| PoolSizeTarget {
            room_now: if ask.elsewhere { None } else { host_room_now(ask.host, &target) },
            ..target
        });
        return (pools.collect(), Bytes::ZERO);
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(nodes.get(*at).and_then(|node| node.node.free.get())));
    let mut unplaced = Bytes::ZERO;
    let mut parts = Vec::new();
    // Large pages first: they find a place less easily.
    for target in pools.iter().rev() {
        let (pool_parts, rest) = place_pool(ask, target, &mut nodes, &order);
        unplaced += rest.to_bytes(target.page_size);
        parts.push(pool_parts);
    }
    parts.reverse();
    (parts.into_iter().flatten().collect(), unplaced)
}

fn find_nodes_with_memory(host: &Host) -> Vec<NodeShare<'_>> {
    let known = host.nodes.as_known().map(Vec::as_slice).unwrap_or_default();
    let shares = known.iter().filter_map(|node| {
        let total = node.total.get().filter(|total| *total > Bytes::ZERO)?;
        Some(NodeShare { node, room: demand::largest_pools(total) })
    });
    shares.collect()
}

fn host_room_now(host: &Host, target: &PoolSizeTarget) -> Option<bool> {
    let more = target.pages.saturating_sub(target.now.unwrap_or_default());
    let more = more.to_bytes(target.page_size);
    demand::found_now(host, target.page_size).map(|found| found >= more)
}

/// A pool's parts on the nodes, whose room they take, and what finds no room.
fn place_pool(
    ask: &SizingContext<'_>,
    target: &PoolSizeTarget,
    nodes: &mut [NodeShare<'_>],
    order: &[usize],
) -> (Vec<PoolSizeTarget>, PageCount) {
    let page_size = target.page_size;
    let ids: Vec<u32> = nodes.iter().map(|node| node.node.id).collect();
    let rooms: Vec<PageCount> =
        nodes.iter().map(|node| PageCount(node.room.get() / page_size.bytes().get())).collect();
    let cpuset_pages = find_cpuset_pages(ask, target);
    let (shares, rest) = deal_over_nodes(target.pages, &cpuset_pages, &ids, &rooms, order);
    let pool = ask.host.find_pool(page_size);
    let (spare, _) = fill_evenly(target.spare_pages, &shares, order);
    let demand: Vec<PageCount> =
        shares.iter().zip(&spare).map(|(all, spare)| all.saturating_sub(*spare)).collect();
    let (others, _) = fill_evenly(target.held_by_others, &demand, order);
    let mut parts = Vec::new();
    for (node, ((share, spare_pages), held_by_others)) in
        nodes.iter_mut().zip(shares.iter().zip(spare).zip(others))
    {
        node.room = node.room.saturating_sub(share.to_bytes(page_size));
        parts.push(PoolSizeTarget {
            page_size,
            node: Some(node.node.id),
            pages: *share,
            spare_pages,
            held_by_others,
            now: pool.and_then(|pool| node_pages_now(pool, node.node.id)),
            room_now: room_now(pool, node.node, *share, page_size),
        });
    }
    (parts, rest)
}

fn give_pages(share: &mut PageCount, room: PageCount, rest: &mut PageCount, pages: PageCount) {
    let more = pages.min(room.saturating_sub(*share)).min(*rest);
    *share = *share + more;
    *rest = rest.saturating_sub(more);
}

/// What is left over goes where there still is room, in the order given; the rest finds none.
fn fill_evenly(
    pages: PageCount,
    rooms: &[PageCount],
    order: &[usize],
) -> (Vec<PageCount>, PageCount) {
    let mut shares = vec![PageCount::ZERO; rooms.len()];
    let mut rest = pages;
    loop {
        let open = shares.iter().zip(rooms).filter(|(share, room)| share < room).count();
        let each = rest.get().checked_div(u64::try_from(open).unwrap_or(u64::MAX)).unwrap_or(0);
        if each == 0 {
            break;
        }
        for (share, room) in shares.iter_mut().zip(rooms) {
            give_pages(share, *room, &mut rest, PageCount(each));
        }
    }
    for at in order {
        if let (Some(share), Some(room)) = (shares.get_mut(*at), rooms.get(*at)) {
            let all = rest;
            give_pages(share, *room, &mut rest, all);
        }
    }
    (shares, rest)
}

fn node_pages_now(pool: &Pool, node: u32) -> Option<PageCount> {
    pool.nodes.iter().find(|part| part.node == node)?.total.get()
}

fn room_now(
    pool: Option<&Pool>,
    node: &NumaNode,
    share: PageCount,
    page: PageSize,
) -> Option<bool> {
    let more = share.saturating_sub(node_pages_now(pool?, node.id)?).to_bytes(page);
    Some(more <= node.free.get()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(pages: u64, kept: &[CpusetPages], rooms: [u64; 2]) -> (Vec<u64>, u64) {
        let (shares, rest) =
            deal_over_nodes(PageCount(pages), kept, &[0, 1], &rooms.map(PageCount), &[0, 1]);
        (shares.into_iter().map(PageCount::get).collect(), rest.get())
    }

    /// mm/hugetlb.c, allowed_mems_nr(): pages of nodes that a cpuset rules out are none for its
    /// server.
    #[test]
    fn pages_lie_where_their_server_may_use_them() {
        let on_one = |pages| CpusetPages { nodes: vec![1], pages: PageCount(pages) };
        assert_eq!(dealt(154, &[], [1000, 1000]), (vec![77, 77], 0));
        assert_eq!(dealt(154, &[on_one(154)], [1000, 1000]), (vec![0, 154], 0));
        // The others' are spread over both.
        assert_eq!(dealt(254, &[on_one(154)], [1000, 1000]), (vec![50, 204], 0));
        // What has no room there is not put where it is of no use.
        assert_eq!(dealt(154, &[on_one(154)], [1000, 100]), (vec![0, 100], 54));
    }
}
