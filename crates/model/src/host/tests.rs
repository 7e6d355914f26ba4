//! Pools: what the kernel's numbers mean, by Documentation/admin-guide/mm/hugetlbpage.rst and
//! counted by hand.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn known(pages: u64) -> Observed<PageCount> {
    Observed::Known(PageCount(pages))
}

/// As `HugePages_Total`, `_Free`, `_Rsvd` and `_Surp` of 2 MiB pages say it.
fn pool(total: u64, free: u64, reserved: u64, surplus: u64) -> Pool {
    Pool {
        page_size: PageSize::MIB_2,
        total: known(total),
        free: known(free),
        reserved: known(reserved),
        surplus: known(surplus),
        overcommit: known(0),
        nodes: Vec::new(),
    }
}

fn counts(pool: &Pool) -> (u64, u64) {
    (pool.committed_pages().unwrap().get(), pool.available_pages().unwrap().get())
}

#[test]
fn free_pages_that_are_promised_are_not_to_be_had() {
    // A pool of 100. A server maps 60, which reserves them and takes none from the free ones.
    assert_eq!(counts(&pool(100, 100, 0, 0)), (0, 100));
    assert_eq!(counts(&pool(100, 100, 60, 0)), (60, 40));
    // It touches 20, and then the others: each turns from a promised page into one that is gone.
    assert_eq!(counts(&pool(100, 80, 40, 0)), (60, 40));
    assert_eq!(counts(&pool(100, 40, 0, 0)), (60, 40));
    // Another one maps the rest. Total - free - reserved would be 20 here, and is nothing that
    // anybody asks for.
    assert_eq!(counts(&pool(100, 40, 40, 0)), (100, 0));
}

#[test]
fn surplus_pages_are_in_the_total() {
    // nr_hugepages = 100 and 10 more by overcommit, all 110 in use.
    assert_eq!(counts(&pool(110, 0, 0, 10)), (110, 0));
    // The pool was set to 0 under a server that has touched 20 of its 60: those and the promised
    // ones stay as surplus.
    let shrunk = pool(60, 40, 40, 60);
    assert_eq!(counts(&shrunk), (60, 0));
    assert_eq!(shrunk.memory_bytes(), Some(Bytes::from_mib(120)));
}

#[test]
fn numbers_that_changed_between_two_reads_are_never_below_zero() {
    // More free pages than there are, more promised than are free: the pool grew or shrank
    // meanwhile.
    assert_eq!(counts(&pool(10, 12, 3, 0)), (3, 9));
    assert_eq!(counts(&pool(10, 2, 5, 0)), (13, 0));
    // No kernel says this; a captured file may.
    assert_eq!(counts(&pool(u64::MAX, 0, u64::MAX, 0)), (u64::MAX, 0));
    assert_eq!(pool(u64::MAX, 0, 0, 0).memory_bytes(), Some(Bytes(u64::MAX)));
}

#[test]
fn a_number_that_is_not_known_makes_no_other() {
    let whole = || pool(100, 40, 10, 0);
    for unknown in [Observed::Absent, Observed::Denied, Observed::Malformed("`many`".into())] {
        let page_count_of = |change: fn(&mut Pool, Observed<PageCount>)| {
            let mut pool = whole();
            change(&mut pool, unknown.clone());
            (pool.committed_pages(), pool.available_pages(), pool.memory_bytes())
        };
        let (committed, available, memory) =
            (Some(PageCount(70)), Some(PageCount(30)), Some(Bytes::from_mib(200)));
        assert_eq!(page_count_of(|pool, unknown| pool.total = unknown), (None, available, None));
        assert_eq!(page_count_of(|pool, unknown| pool.free = unknown), (None, None, memory));
        assert_eq!(page_count_of(|pool, unknown| pool.reserved = unknown), (None, None, memory));
        // Pages of the surplus are counted in the total already.
        assert_eq!(
            page_count_of(|pool, unknown| pool.surplus = unknown),
            (committed, available, memory)
        );
        assert_eq!(
            page_count_of(|pool, unknown| pool.overcommit = unknown),
            (committed, available, memory)
        );
    }
}

#[test]
fn memory_is_pages_of_the_pools_own_size() {
    let gigantic = Pool { page_size: PageSize::GIB_1, ..pool(3, 3, 0, 0) };
    assert_eq!(gigantic.memory_bytes(), Some(Bytes::from_gib(3)));
    // arm64 with 64 KiB base pages.
    let arm = Pool { page_size: PageSize::from_kib(512 << 10).unwrap(), ..pool(3, 3, 0, 0) };
    assert_eq!(arm.memory_bytes(), Some(Bytes(3 * 536_870_912)));
}

#[test]
fn a_pool_is_found_by_its_size() {
    let mut host = Host::default();
    assert_eq!(host.find_pool(PageSize::MIB_2), None);
    host.pools = Observed::Known(vec![pool(7, 7, 0, 0)]);
    assert_eq!(host.find_pool(PageSize::MIB_2).and_then(Pool::committed_pages), Some(PageCount(0)));
    assert_eq!(host.find_pool(PageSize::GIB_1), None);
    host.pools = Observed::Denied;
    assert_eq!(host.find_pool(PageSize::MIB_2), None);
}

/// Servers that map pages of one pool, touch them and end, and the kernel's counters as it keeps
/// them meanwhile.
#[derive(Default)]
struct Servers {
    /// What each has mapped and how much of it it has touched.
    mapped: Vec<(u64, u64)>,
}

impl Servers {
    fn act(&mut self, action: u8, pages: u64, total: u64) {
        let (servers, number) = (self.mapped.len(), usize::try_from(pages).unwrap());
        match action % 3 {
            0 if self.spoken_for() + pages <= total => self.mapped.push((pages, 0)),
            1 if servers > 0 => {
                let (mapped, touched) = self.mapped.get_mut(number % servers).unwrap();
                *touched = (*touched + pages).min(*mapped);
            }
            2 if servers > 0 => drop(self.mapped.remove(number % servers)),
            _ => {}
        }
    }

    fn spoken_for(&self) -> u64 {
        self.mapped.iter().map(|(mapped, _)| mapped).sum()
    }

    fn pool(&self, total: u64) -> Pool {
        let touched: u64 = self.mapped.iter().map(|(_, touched)| touched).sum();
        pool(total, total - touched, self.spoken_for() - touched, 0)
    }
}

proptest! {
    #[test]
    fn what_servers_have_mapped_is_committed_however_much_they_touch(
        total in 0..500_u64, actions in proptest::collection::vec((any::<u8>(), 0..200_u64), 0..40),
    ) {
        let mut servers = Servers::default();
        for (action, pages) in actions {
            servers.act(action, pages, total);
            let (committed, available) = counts(&servers.pool(total));
            prop_assert_eq!(committed, servers.spoken_for());
            prop_assert_eq!(available, total - servers.spoken_for());
        }
    }
}
