//! An undo that takes pages from under a heap that has yet to grow.

use hugewise_host::source::OverlaySource;
use hugewise_model::instance::SegmentKind;
use hugewise_model::{
    Bytes, Engine, Host, HugePageUse, Instance, Observed, PageCount, PageSize, Segment,
};

use crate::apply::ApplyOptions;
use crate::plan::{PoolRef, ValueChange};
use crate::testing::Machine;
use crate::undo_pools::{PagesAtRisk, ShrinkingPool, find_pages_at_risk, find_shrinking_pools};
use crate::{Plan, Risk, Step, apply_plan, prepare_plan, undo_apply};

use super::{POOL, WHOLE, machine, plan};

fn applied(machine: &Machine, changes: Vec<ValueChange>) {
    let step = Step::new("pool", "pool", Risk::Safe, "a test");
    let step = changes.into_iter().fold(step, Step::with_change);
    let plan = prepare_plan(Plan { steps: vec![step], ..plan() }, machine).unwrap();
    apply_plan(&plan, machine, ApplyOptions::default(), &mut |_| {}).unwrap();
}

fn after_undo(machine: &Machine, id: Option<&str>) -> Vec<u64> {
    let shrinking = find_shrinking_pools(machine, id).unwrap();
    shrinking.iter().map(|pool| pool.after.get()).collect()
}

#[test]
fn an_undo_knows_how_large_it_leaves_each_pool() {
    let machine = machine();
    assert_eq!(after_undo(&machine, None), [0_u64; 0], "nothing was applied");
    applied(&machine, vec![ValueChange::for_pool(WHOLE, 300)]);
    assert_eq!(after_undo(&machine, None), [10]);
    applied(&machine, vec![ValueChange::for_pool(WHOLE, 100)]);
    assert_eq!(after_undo(&machine, None), [0_u64; 0], "300 again, which are more");
    assert_eq!(after_undo(&machine, Some("1")), [0_u64; 0], "it waits for the other");
    undo_apply(&machine, Some("1"), false, &mut |_| {}).unwrap();
    assert_eq!(after_undo(&machine, None), [10], "and goes with it");
    assert!(find_shrinking_pools(&machine, Some("7")).is_err());
}

#[test]
fn an_undo_of_a_nodes_pages_makes_the_hosts_pool_smaller() {
    let machine = machine();
    let node = PoolRef { node: Some(0), ..WHOLE };
    applied(&machine, vec![ValueChange::for_pool(node, 50)]);
    machine.put(POOL, "50\n");
    assert_eq!(after_undo(&machine, None), [10]);
}

/// A captured host with a Java virtual machine of root's that has mapped 512 pages of its heap.
fn java_host(arguments: &str, pool: [u64; 2]) -> (Host, Vec<Instance>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/healthy-postgresql");
    let base = hugewise_host::source::open_source(Some(std::path::Path::new(path))).unwrap();
    let mut files = OverlaySource::new(&*base);
    let mut put = |path: &str, text: &str| files.set_file(path, Some(text.as_bytes().to_vec()));
    put(
        "/proc/950/status",
        "Name:\tjava\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmSize:\t9000000 \
         kB\nThreads:\t9\n",
    );
    let words = format!("/usr/bin/java {arguments} -jar app.jar ").replace(' ', "\0");
    put("/proc/950/cmdline", &words);
    put("/proc/950/maps", "700000000-740000000 rw-s 00000000 00:0f 7 /memfd:java_heap.hugetlb\n");
    let folder = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    put(&format!("{folder}/nr_hugepages"), &format!("{}\n", pool[0]));
    put(&format!("{folder}/free_hugepages"), &format!("{}\n", pool[1]));
    put(&format!("{folder}/resv_hugepages"), "0\n");
    let host = hugewise_host::read(&files);
    let mut instances = hugewise_engines::find_instances(&host, &files).instances;
    let java = instances.iter_mut().find(|one| one.engine == Engine::Jvm).unwrap();
    // The page sizes of mappings are in no file.
    java.huge_pages = HugePageUse::All;
    java.segments = vec![Segment {
        kind: SegmentKind::Hugetlbfs,
        name: "heap".into(),
        size: Bytes::from_gib(1),
        page_size: Observed::Known(PageSize::MIB_2),
        huge: Observed::Known(true),
        mappers: 1,
        identity: (15, 7),
    }];
    (host, instances)
}

const GROWING: &str = "-XX:+UseZGC -XX:+UseLargePages -Xms1g -Xmx4g";

fn shrinks_to(after: u64) -> [ShrinkingPool; 1] {
    let (page_size, after) = (PageSize::MIB_2, PageCount(after));
    [ShrinkingPool { page_size, after, loses_on_demand: false }]
}

fn at_risk(arguments: &str, pool: [u64; 2], after: u64) -> Option<PagesAtRisk> {
    let (host, instances) = java_host(arguments, pool);
    find_pages_at_risk(&shrinks_to(after), &host, &instances).pop()
}

/// 2,048 pages are the heap of 4 GiB, of which the first 512 are mapped; the kernel keeps these.
#[test]
fn a_heap_that_has_yet_to_grow_is_named_before_its_pages_go() {
    let risk = at_risk(GROWING, [2500, 1988], 10).unwrap();
    assert_eq!((risk.taken, risk.left), (PageCount(1988), PageCount(0)));
    let (vouched, others) = risk.split_by_trust();
    assert_eq!(others, None);
    let vouched = vouched.unwrap();
    let to_come = vouched.servers[0].to_come.get();
    assert!((1536..1800).contains(&to_come), "{to_come}");
    let said = vouched.to_string();
    for part in ["gives back 1,988 pages of 2 MiB", "leaves 0 free", "pid 950: has 512, may still"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(at_risk(GROWING, [2500, 1988], 2000).is_some(), "1,488 are left, and it needs more");
}

#[test]
fn whoever_needs_nothing_more_is_no_question() {
    let whole = "-XX:+UseParallelGC -XX:+UseLargePages -Xms64m -Xmx256m";
    assert_eq!(at_risk(whole, [2500, 1988], 10), None);
    assert_eq!(at_risk(GROWING, [4000, 3488], 2500), None, "what is left is enough");
    assert_eq!(at_risk(GROWING, [512, 0], 10), None, "there is nothing to take");
}

/// Anybody can start a machine with a heap of any size.
#[test]
fn a_strangers_heap_holds_up_no_undo() {
    let (host, mut instances) = java_host(GROWING, [2500, 1988]);
    let java = instances.iter_mut().find(|one| one.engine == Engine::Jvm).unwrap();
    java.trusted_by.clear();
    let risk = find_pages_at_risk(&shrinks_to(10), &host, &instances).pop().unwrap();
    let (vouched, others) = risk.split_by_trust();
    assert_eq!(vouched, None);
    assert!(others.unwrap().to_string().contains("by its own word alone"));
}
