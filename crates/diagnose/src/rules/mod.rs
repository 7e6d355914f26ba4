//! The rules, one a file.

use crate::Rule;

pub(crate) mod amm;
pub(crate) mod boot_loses_pages;
pub(crate) mod boot_starves_host;
pub(crate) mod boot_values_ignored;
pub(crate) mod cgroup_limit;
mod commit_limit_used_up;
mod default_size_waits;
pub(crate) mod does_not_fit;
pub(crate) mod gib_pages_unsupported;
pub(crate) mod heap_swappable;
pub(crate) mod heap_too_large;
pub(crate) mod idle_pool;
pub(crate) mod larger_pieces;
pub(crate) mod memlock_below_segment;
pub(crate) mod memlock_login_vs_service;
mod memory_limit_counts_pages;
pub(crate) mod no_pool;
pub(crate) mod nodes_unequal;
pub(crate) mod not_asked;
pub(crate) mod orphaned_segment;
pub(crate) mod page_size_unknown;
mod page_tables_at_max;
pub(crate) mod page_tables_heavy;
pub(crate) mod pages_asked_late;
pub(crate) mod partly_used;
pub(crate) mod pool_differs_at_boot;
pub(crate) mod pool_on_demand;
pub(crate) mod pool_short_of_request;
pub(crate) mod pool_starves_host;
pub(crate) mod pool_too_large;
pub(crate) mod pool_written_at_boot;
pub(crate) mod restart_loses_pages;
pub(crate) mod restart_needed;
pub(crate) mod shm_group_missing;
pub(crate) mod shm_limits;
pub(crate) mod silent_fallback;
pub(crate) mod slow_log_ins;
pub(crate) mod started_by_clusterware;
pub(crate) mod swap_with_unlocked_segment;
pub(crate) mod thp_defrag;
pub(crate) mod thp_differs_at_boot;
pub(crate) mod thp_policy;
pub(crate) mod too_many_sessions;
pub(crate) mod wrong_page_size;

/// Lists the rules by code: a rule without its three cases does not compile in tests.
macro_rules! registered {
    ($($rule:ident,)*) => {
        pub(crate) static RULES: &[&Rule] = &[$(&$rule::RULE,)*];

        #[cfg(test)]
        pub(crate) static CASES: &[&crate::testing::Cases] = &[$(&$rule::CASES,)*];
    };
}

registered! {
    page_tables_heavy,
    page_tables_at_max,
    too_many_sessions,
    slow_log_ins,
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
    pool_on_demand,
    commit_limit_used_up,
    memlock_below_segment,
    memlock_login_vs_service,
    shm_group_missing,
    shm_limits,
    started_by_clusterware,
    silent_fallback,
    amm,
    not_asked,
    gib_pages_unsupported,
    wrong_page_size,
    page_size_unknown,
    thp_policy,
    thp_defrag,
    pool_differs_at_boot,
    thp_differs_at_boot,
    boot_loses_pages,
    boot_starves_host,
    pages_asked_late,
    pool_written_at_boot,
    default_size_waits,
    boot_values_ignored,
    nodes_unequal,
    cgroup_limit,
    memory_limit_counts_pages,
    swap_with_unlocked_segment,
    heap_too_large,
    heap_swappable,
    larger_pieces,
}
