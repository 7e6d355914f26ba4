//! The rules, one a file.

use crate::Rule;

mod amm;
mod boot_loses_pages;
mod cgroup_limit;
mod does_not_fit;
mod gib_pages_unsupported;
mod idle_pool;
mod memlock_below_segment;
mod memlock_login_vs_service;
mod no_pool;
mod nodes_unequal;
mod not_asked;
mod orphaned_segment;
pub(crate) mod page_tables_at_max;
mod page_tables_heavy;
mod partly_used;
mod pool_differs_at_boot;
mod pool_short_of_request;
mod pool_starves_host;
mod pool_too_large;
mod restart_loses_pages;
mod restart_needed;
mod shm_group_missing;
mod shm_limits;
mod silent_fallback;
mod swap_with_unlocked_segment;
mod thp_differs_at_boot;
mod thp_policy;
mod too_many_sessions;
mod wrong_page_size;

/// Whether the pools leave the host too little memory, as HW206 has it.
pub(crate) fn starves(facts: &crate::Facts<'_>) -> bool {
    pool_starves_host::look(facts).is_ok_and(|findings| !findings.is_empty())
}

/// Lists the rules by code: a rule without its three cases does not compile in tests.
macro_rules! registered {
    ($($rule:ident,)*) => {
        /// Every rule, by code.
        pub(crate) static RULES: &[&Rule] = &[$(&$rule::RULE,)*];

        /// The three cases of every rule, in the same order.
        #[cfg(test)]
        pub(crate) static CASES: &[&crate::testing::Cases] = &[$(&$rule::CASES,)*];
    };
}

registered! {
    page_tables_heavy,
    page_tables_at_max,
    too_many_sessions,
    no_pool,
    idle_pool,
    partly_used,
    does_not_fit,
    pool_too_large,
    pool_starves_host,
    pool_short_of_request,
    orphaned_segment,
    restart_needed,
    restart_loses_pages,
    memlock_below_segment,
    memlock_login_vs_service,
    shm_group_missing,
    shm_limits,
    silent_fallback,
    amm,
    not_asked,
    gib_pages_unsupported,
    wrong_page_size,
    thp_policy,
    pool_differs_at_boot,
    thp_differs_at_boot,
    boot_loses_pages,
    nodes_unequal,
    cgroup_limit,
    swap_with_unlocked_segment,
}
