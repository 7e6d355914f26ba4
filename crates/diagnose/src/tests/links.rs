//! The chain names the right link.

use hugewise_model::host::HugetlbfsMount;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Bytes, HugePageMode, Limit, LinkName, LinkState, Observed, PageSize};

use crate::testing::{self, Case, all_huge, gib, hidden, partly_huge, quiet};

fn broken(case: &Case) -> Option<LinkName> {
    case.assess().chains[0].first_broken_link().map(|link| link.name)
}

fn link(case: &Case, name: LinkName) -> (LinkState, String) {
    let chain = case.assess().chains.remove(0);
    let link = chain.links.into_iter().find(|link| link.name == name).unwrap();
    (link.state, link.evidence)
}

fn postgresql(total: u64, free: u64) -> Case {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.pool(total, free);
    case
}

#[test]
fn setting_off() {
    let mut case = postgresql(3072, 3072);
    case.instances[0].asked = HugePageMode::No;
    assert_eq!(broken(&case), Some(LinkName::Asked));
}

#[test]
fn no_pool_and_the_wrong_pool() {
    let mut case = postgresql(0, 0);
    assert_eq!(link(&case, LinkName::Pool), (LinkState::Broken, "2 MiB: 0 pages".into()));
    assert_eq!(broken(&case), Some(LinkName::Pool));
    case.pools()[1] = testing::pool(PageSize::GIB_1, 6, 6);
    assert_eq!(link(&case, LinkName::Pool), (LinkState::Broken, "2 MiB: 0 pages; 1 GiB: 6".into()));
}

#[test]
fn one_page_short() {
    assert_eq!(broken(&postgresql(3071, 3071)), Some(LinkName::Room));
    // Room now says nothing of the room at its start: what is left is that it is not mapped so.
    assert_eq!(broken(&postgresql(3072, 3072)), Some(LinkName::Mapped));
    assert_eq!(link(&postgresql(3072, 3072), LinkName::Room).0, LinkState::Unknown);
}

#[test]
fn reserved_pages_are_not_available() {
    let mut case = postgresql(4000, 4000);
    case.pools()[0].reserved = Observed::Known(hugewise_model::PageCount(1000));
    assert_eq!(
        link(&case, LinkName::Room),
        (LinkState::Broken, "needs 3,072 more pages, 3,000 available".into())
    );
}

#[test]
fn surplus_pages_on_demand_are_room() {
    let mut case = postgresql(0, 0);
    case.pools()[0].overcommit = Observed::Known(hugewise_model::PageCount(4000));
    assert_eq!(link(&case, LinkName::Pool).0, LinkState::Ok);
    assert_eq!(broken(&case), Some(LinkName::Mapped));
}

#[test]
fn a_part_needs_the_rest_alone() {
    let mut case = quiet();
    partly_huge(case.postgresql("15/main", gib(6)), gib(4));
    case.pool(3071, 1023);
    assert_eq!(
        link(&case, LinkName::Room),
        (LinkState::Broken, "needs 1,024 more pages, 1,023 available".into())
    );
}

#[test]
fn memlock_decides_on_old_kernels_alone() {
    let mut case = quiet();
    case.oracle("PROD", gib(8), 20);
    case.pool(5000, 5000);
    assert_eq!(broken(&case), Some(LinkName::Permission));
    case.host.kernel = Observed::Known(hugewise_model::KernelRelease {
        text: "3.10.0".into(),
        major: 3,
        minor: 10,
    });
    assert_eq!(broken(&case), Some(LinkName::Mapped));
    let low = Limit::At(Bytes::from_mib(8));
    case.processes()[0].memlock =
        Observed::Known(hugewise_model::process::SoftHard { soft: low, hard: low });
    assert_eq!(broken(&case), Some(LinkName::Permission));
}

/// Its owner has come to the group since it was started: a restart from a new login is all that it
/// takes.
#[test]
fn a_server_keeps_the_groups_that_it_was_started_with() {
    let mut case = quiet();
    case.oracle("PROD", gib(8), 20);
    case.pool(5000, 5000);
    case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54330);
    let members = vec![case.instances[0].owner.clone()];
    let group = hugewise_model::host::AccountGroup {
        name: "hugepages".into(),
        members,
        ..Default::default()
    };
    case.host.accounts.groups.insert(54330, group);
    for (groups, told) in [(vec![54321], true), (vec![54321, 54330], false)] {
        case.processes()[0].groups = groups;
        let (state, evidence) = link(&case, LinkName::Permission);
        let without = "is not in vm.hugetlb_shm_group=54330: it was started before its user was";
        assert_eq!((state, evidence.contains(without)), (LinkState::Ok, told), "{evidence}");
    }
}

#[test]
fn files_need_a_mount_of_their_page_size() {
    let mut case = postgresql(4000, 4000);
    case.instances[0].mechanism = Mechanism::Hugetlbfs;
    assert_eq!(broken(&case), Some(LinkName::Permission));
    case.host.hugetlbfs_mounts = Observed::Known(vec![HugetlbfsMount {
        path: "/dev/hugepages".into(),
        page_size: Observed::Known(PageSize::MIB_2),
        options: "rw".into(),
    }]);
    assert_eq!(broken(&case), Some(LinkName::Mapped));
}

#[test]
fn cgroup() {
    let mut case = postgresql(4000, 4000);
    case.host.hugetlb_cgroups =
        vec![testing::cgroup("/system.slice/db.service", Limit::At(Bytes::ZERO))];
    assert_eq!(broken(&case), Some(LinkName::Cgroup));
    case.host.hugetlb_cgroups =
        vec![testing::cgroup("/system.slice/other.service", Limit::At(Bytes::ZERO))];
    assert_eq!(broken(&case), Some(LinkName::Mapped));
}

#[test]
fn what_cannot_be_seen_is_unknown_and_not_broken() {
    let mut case = postgresql(4000, 4000);
    hidden(&mut case);
    case.host.pools = Observed::Denied;
    assert_eq!(broken(&case), None);
    assert_eq!(link(&case, LinkName::Pool).0, LinkState::Unknown);
    assert_eq!(
        link(&case, LinkName::Mapped),
        (LinkState::Unknown, "/proc/1000/maps: denied".into())
    );
}

#[test]
fn no_chain_where_there_is_nothing_to_explain() {
    let mut case = postgresql(3072, 0);
    all_huge(&mut case.instances[0]);
    assert!(case.assess().chains.is_empty());
}

#[test]
fn an_engine_without_a_way_to_huge_pages_has_a_short_chain() {
    let mut case = postgresql(3072, 0);
    case.instances[0].mechanism = Mechanism::None;
    case.instances[0].asked = hugewise_model::HugePageMode::Cannot;
    let chains = case.assess().chains;
    let names: Vec<_> = chains[0].links.iter().map(|link| link.name).collect();
    assert_eq!(names, [LinkName::Asked, LinkName::Mapped]);
    assert_eq!(chains[0].first_broken_link().map(|link| link.name), Some(LinkName::Asked));
}
