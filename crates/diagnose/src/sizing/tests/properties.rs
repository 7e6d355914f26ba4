//! What holds for every host, however odd.

use hugewise_model::host::{NodePool, NumaNode};
use hugewise_model::{Bytes, Engine, Observed, PageCount, PageSize};
use proptest::prelude::*;

use super::{ask, describe, sessions, tables};
use crate::fault_cost::FaultCost;
use crate::sizing::{PageSizeChoice, PoolSizeTarget, Request, size_servers};
use crate::testing::{gib, node, pool, quiet};
use crate::tests::any_host::{Dice, any_case};

fn any_size() -> impl Strategy<Value = Bytes> {
    (1_u64..6 << 30).prop_map(Bytes)
}

proptest! {
    #[test]
    fn more_sessions_and_larger_segments_never_cost_less(
        small in any_size(), more in any_size(), few in 1_u64..3000, plus in 0_u64..3000, live in 0_u64..30,
    ) {
        let at = |size: Bytes, count| {
            let mut case = quiet();
            case.postgresql("15/a", size);
            case.oracle("B", Bytes::from_mib(300), live);
            let sizing = ask(&case, &sessions(count));
            [PageSize::KIB_4, PageSize::MIB_2, PageSize::GIB_1].map(|page| tables(&sizing, count, page))
        };
        for (less, most) in at(small, few).into_iter().zip(at(small, few + plus)) {
            prop_assert!(less <= most);
        }
        for (less, most) in at(small, few).into_iter().zip(at(small + more, few)) {
            prop_assert!(less <= most);
        }
    }

    #[test]
    fn a_larger_segment_never_needs_fewer_pages(small in any_size(), more in any_size(), percent in 0_u8..=100) {
        let pages = |size| {
            let mut case = quiet();
            describe(&mut case, Engine::PostgreSql, size, Some(10));
            let request = Request { headroom_percent: percent, memory: Some(gib(4096)), ..Request::default() };
            ask(&case, &request).pools[0].pages
        };
        prop_assert!(pages(small) <= pages(small + more));
    }

    #[test]
    fn the_parts_of_a_pool_add_up(
        size in any_size(), first in 4_u64..40, second in 4_u64..40, third in 0_u64..40, percent in 0_u8..=100,
    ) {
        let mut case = quiet();
        case.oracle("PROD", size, 3);
        let free = |id, total: u64| NumaNode { free: Observed::Known(gib(total / 2)), total: Observed::Known(gib(total)), ..node(id) };
        case.host.nodes = Observed::Known(vec![free(0, first), free(1, second), free(4, third)]);
        let mut pools = vec![pool(PageSize::MIB_2, 700, 100), pool(PageSize::GIB_1, 0, 0)];
        let second_part = NodePool { node: 1, ..pools[0].nodes[0].clone() };
        pools[0].nodes.push(second_part);
        case.host.pools = Observed::Known(pools);
        let sizing = ask(&case, &Request { headroom_percent: percent, ..Request::default() });
        let pages = PageSize::MIB_2.pages_for(size).get();
        let spare = (pages * u64::from(percent)).div_ceil(100) + 2;
        let parts = if sizing.refusal.is_some() { sizing.refusal.unwrap().wanted } else { sizing.pools };
        let sum = |pages_of: fn(&PoolSizeTarget) -> PageCount| parts.iter().map(pages_of).sum::<PageCount>().get();
        let room = [first, second, third].iter().map(|node| node * 512 * 8 / 10).sum::<u64>();
        if pages + spare + 600 < room - 3 {
            prop_assert_eq!(sum(|part| part.pages), pages + spare + 600);
            prop_assert_eq!(sum(|part| part.spare_pages), spare);
            prop_assert_eq!(sum(|part| part.held_by_others), 600);
        }
    }

    #[test]
    fn no_host_brings_it_down(draws in proptest::collection::vec(any::<u64>(), 400), percent in any::<u8>()) {
        let mut dice = Dice { draws, at: 0 };
        let case = any_case(&mut dice);
        let request = Request {
            page_size: if dice.up_to(2) == 0 { PageSizeChoice::Auto } else { PageSizeChoice::Size(dice.page()) },
            headroom_percent: percent,
            sessions: Some(dice.number()).filter(|_| percent % 2 == 0),
            memory: Some(Bytes(dice.number())).filter(|_| percent % 3 == 0),
            fault_cost: Some(FaultCost { system_v_ns: dice.number(), mapped_ns: dice.number(), huge_ns: dice.number() }),
            process_tables: dice.bytes().get(),
            others: Vec::new(),
            proposed: percent % 5 == 0,
            unplanned: percent % 7 == 0,
        };
        match size_servers(&case.host, &case.instances, &request) {
            Ok(sizing) => {
                prop_assert!(sizing.refusal.is_none() || sizing.pools.is_empty());
                if let (None, Some(total)) = (&sizing.refusal, sizing.budget.total) {
                    prop_assert!(sizing.budget.planned + sizing.budget.memory_beside_pools() <= total);
                    prop_assert!(sizing.budget.pools >= sizing.budget.planned);
                }
                prop_assert!(sizing.forecast.is_sorted_by_key(|row| (row.sessions, row.page_size)));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
