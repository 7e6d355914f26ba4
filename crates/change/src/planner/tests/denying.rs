//! A host of which whoever reads may not see everything.

use hugewise_advice::sizing::Request;
use hugewise_host::Source;
use hugewise_host::source::{Machine, Owner};
use hugewise_model::{Observed, PageSize};

use super::made_hosts::{has, source};
use super::world::{World, holds, shown};
use crate::plan::{PoolRef, When};
use crate::planner::Options;

/// A source that does not show some of its files and folders.
pub(super) struct Denying<'a> {
    pub(super) base: &'a dyn Source,
    pub(super) paths: Vec<&'static str>,
}

impl Denying<'_> {
    fn hides(&self, path: &str) -> bool {
        self.paths.iter().any(|hidden| path == *hidden || path.starts_with(&format!("{hidden}/")))
    }
}

impl Source for Denying<'_> {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        if self.hides(path) { Observed::Denied } else { self.base.read(path) }
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        if self.hides(folder) { Observed::Denied } else { self.base.list(folder) }
    }

    fn link(&self, path: &str) -> Observed<String> {
        if self.hides(path) { Observed::Denied } else { self.base.link(path) }
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        if self.hides(path) { Observed::Denied } else { self.base.read_as(owner, path, most) }
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        if self.hides(folder) { Observed::Denied } else { self.base.list_as(owner, folder, most) }
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        if self.hides(path) { Observed::Denied } else { self.base.link_as(owner, path) }
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.base.mapping_page_size(pid, start)
    }

    fn machine(&self) -> Machine {
        self.base.machine()
    }
}

#[test]
fn what_cannot_be_seen_leaves_its_steps_out_with_the_reason() {
    let base = source("no-pool-postgresql");
    let (options, request) = (Options::default(), Request::default());
    for (hidden, missing, said) in [
        ("/etc/sysctl.d", "pools-boot", "the 2 MiB pool of the next boot stays as it is: sysctl.d: denied"),
        ("/usr/lib/tmpfiles.d", "pools-boot", "the 2 MiB pool of the next boot stays as it is: tmpfiles.d: denied"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB", "pool-2M-now", "no pool of 2 MiB pages is planned"),
    ] {
        let denying = Denying { base: &*base, paths: vec![hidden] };
        let world = World::new(&denying);
        let (plan, _) = holds(hidden, &world, &options, &request);
        assert!(!has(&plan, missing), "{hidden}\n{}", shown(&plan));
        assert!(plan.warnings.iter().any(|it| it.starts_with(said)), "{hidden}\n{}", shown(&plan));
        // Nobody is told to insist on pages that may not be there.
        assert!(!shown(&plan).contains("huge_pages = on"), "{hidden}\n{}", shown(&plan));
    }
}

#[test]
fn a_right_that_cannot_be_seen_makes_the_restart_a_perhaps() {
    let base = source("oracle-many-sessions");
    let denying = Denying { base: &*base, paths: vec!["/proc/sys/vm/hugetlb_shm_group"] };
    let mut world = World::new(&denying);
    // Pages of another size stand before the permission in the chain.
    world.set_pool(PoolRef { page_size: PageSize::GIB_1, node: None }, 48);
    let options = Options { shrink: true, restart: vec!["PROD".into()], boot: false, ..Options::default() };
    let (plan, _) = holds("unseen group", &world, &options, &Request::default());
    let restart = plan.instructions.iter().find(|it| it.title == "restart oracle PROD").unwrap();
    let first = "# it gets huge pages when it starts, unless something that could not be read prevents it: \
                 /proc/sys/vm/hugetlb_shm_group: denied";
    assert_eq!(restart.text.lines().next(), Some(first), "{}", shown(&plan));
    let said = "oracle PROD is not restarted: hugewise cannot tell whether it may use huge pages \
                (/proc/sys/vm/hugetlb_shm_group: denied)";
    assert!(plan.warnings.iter().any(|it| it == said), "{}", shown(&plan));
    let promised = plan.steps.iter().flat_map(|step| &step.expects);
    assert!(promised.filter(|it| it.when == When::Restart).count() == 0, "{}", shown(&plan));
}

#[test]
fn a_host_without_its_processes_is_not_planned_for() {
    let base = source("no-pool-postgresql");
    let denying = Denying { base: &*base, paths: vec!["/proc"] };
    let seen = World::new(&denying).look();
    let plan = crate::planner::plan(&seen.host, &seen.instances, &seen.assessment, None, &denying, &Options::default());
    assert_eq!(plan.unwrap_err().to_string(), "hugewise cannot tell what runs here (processes: denied)");
}

#[test]
fn the_plan_of_this_very_machine_is_one_that_apply_takes() {
    let live = hugewise_host::source::open(None).unwrap();
    let world = World::new(&*live);
    let plan = world.plan(&Options::default(), &Request::default());
    assert_eq!(crate::allowed::check(&plan), Ok(()));
}
