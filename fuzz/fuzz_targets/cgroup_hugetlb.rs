#![no_main]

hugewise_fuzz::target!(
    hugewise_host::kernel::cgroup_hugetlb::parse,
    hugewise_host::kernel::cgroup_hugetlb::parse_events
);
