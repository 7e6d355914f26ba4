//! A host of which whoever reads may not see everything.

use hugewise_diagnose::sizing::Request;
use hugewise_host::Source;
use hugewise_host::source::{
    FilePart, FileRequest, ListedProcess, MachineFacts, Owner, ProcessSource, RawSource,
};
use hugewise_model::{Observed, PageSize};

use super::made_hosts::{has, source};
use super::world::{World, holds, shown};
use crate::plan::{EffectTime, PoolRef};
use crate::planner::PlanOptions;

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

impl RawSource for Denying<'_> {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        if self.hides(request.path) { Observed::Denied } else { self.base.read_file(request) }
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        if self.hides(folder) {
            Observed::Denied
        } else {
            self.base.folder_names(folder, reader, most)
        }
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        if self.hides(path) { Observed::Denied } else { self.base.link_target(path, reader) }
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }

    fn machine_facts(&self) -> MachineFacts {
        self.base.machine_facts()
    }
}

impl ProcessSource for Denying<'_> {
    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        if self.hides("/proc") { Observed::Denied } else { self.base.processes().list_processes() }
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.base.processes().mapping_page_size(pid, start)
    }
}

#[test]
fn what_cannot_be_seen_leaves_its_steps_out_with_the_reason() {
    let base = source("no-pool-postgresql");
    let (options, request) = (PlanOptions::default(), Request::default());
    for (hidden, missing, said) in [
        (
            "/etc/sysctl.d",
            "pools-boot",
            "the 2 MiB pool of the next boot stays as it is: sysctl.d: denied",
        ),
        (
            "/usr/lib/tmpfiles.d",
            "pools-boot",
            "the 2 MiB pool of the next boot stays as it is: tmpfiles.d: denied",
        ),
        (
            "/sys/kernel/mm/hugepages/hugepages-2048kB",
            "pool-2M-now",
            "no pool of 2 MiB pages is planned",
        ),
    ] {
        let denying = Denying { base: &*base, paths: vec![hidden] };
        let world = World::new(&denying);
        let (plan, _) = holds(hidden, &world, &options, &request);
        assert!(!has(&plan, missing), "{hidden}\n{}", shown(&plan));
        assert!(
            plan.warnings.iter().any(|text| text.starts_with(said)),
            "{hidden}\n{}",
            shown(&plan)
        );
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
    let options = PlanOptions {
        shrink: true,
        restart: vec!["PROD".into()],
        boot: false,
        ..PlanOptions::default()
    };
    let (plan, _) = holds("unseen group", &world, &options, &Request::default());
    let restart = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title == "restart oracle PROD")
        .unwrap();
    let first = "# it gets huge pages when it starts, unless something that could not be read \
         prevents it: \
                 /proc/sys/vm/hugetlb_shm_group: denied";
    assert_eq!(restart.text.lines().next(), Some(first), "{}", shown(&plan));
    let said = "oracle PROD is not restarted: hugewise cannot tell whether it may use huge pages \
                (/proc/sys/vm/hugetlb_shm_group: denied)";
    assert!(plan.warnings.iter().any(|text| text == said), "{}", shown(&plan));
    let promised = plan.steps.iter().flat_map(|step| &step.expects);
    assert!(
        promised
            .filter(|expected_resolution| expected_resolution.when == EffectTime::Restart)
            .count()
            == 0,
        "{}",
        shown(&plan)
    );
}

#[test]
fn a_host_without_its_processes_is_not_planned_for() {
    let base = source("no-pool-postgresql");
    let denying = Denying { base: &*base, paths: vec!["/proc"] };
    let seen = World::new(&denying).look();
    let plan = crate::planner::build_plan(
        &seen.host,
        &seen.instances,
        &seen.assessment,
        None,
        &denying,
        &PlanOptions::default(),
    );
    assert_eq!(
        plan.unwrap_err().to_string(),
        "hugewise cannot tell what runs here (processes: denied)"
    );
}

#[test]
fn the_plan_of_this_very_machine_is_one_that_apply_takes() {
    let live = hugewise_host::source::open_source(None).unwrap();
    let world = World::new(&*live);
    let plan = world.plan(&PlanOptions::default(), &Request::default());
    assert_eq!(crate::allowed::check_plan_allowed(&plan), Ok(()));
}
