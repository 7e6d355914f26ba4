//! Manifests on one node.

use hugewise_host::source::MapSource;

use super::*;

const POD: &str = "kubepods-burstable-pod0a1b2c3d_0000_0000_0000_000000000001.slice";

/// A node with 2,048 pages; `reserved` is what its running pod's rsvd.max says.
fn node_with(pages: u64, free: u64, offered: &str, reserved: &str) -> MapSource {
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let slice = "/sys/fs/cgroup/kubepods.slice";
    let pod = format!("{slice}/kubepods-burstable.slice/{POD}");
    let mut source = MapSource::new()
        .with_file("/proc/meminfo", "MemTotal: 67108864 kB\nHugepagesize: 2048 kB\n")
        .with_file(&format!("{pool}/nr_hugepages"), pages.to_string())
        .with_file(&format!("{pool}/free_hugepages"), free.to_string())
        .with_file(&format!("{pool}/resv_hugepages"), "0")
        .with_file(&format!("{pool}/surplus_hugepages"), "0")
        .with_file("/proc/self/mountinfo", "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .with_file("/sys/fs/cgroup/cgroup.controllers", "hugetlb memory\n")
        .with_file(&format!("{slice}/hugetlb.2MB.max"), offered)
        .with_file(&format!("{slice}/hugetlb.2MB.rsvd.max"), "max");
    for (name, text) in [("max", "1073741824"), ("rsvd.max", reserved)] {
        source = source.with_file(&format!("{pod}/hugetlb.2MB.{name}"), text);
    }
    source
        .with_file(
            "/proc/9/status",
            "Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmSize:\t9 kB\n",
        )
        .with_file("/proc/9/maps", "")
        .with_file("/proc/9/limits", "")
        .with_file(
            "/proc/9/cgroup",
            format!("0::/kubepods.slice/kubepods-burstable.slice/{POD}/cri-1.scope\n"),
        )
}

fn judge_on(source: &MapSource, text: &str) -> PodReport {
    judge_manifest("pod.yaml", text, Some(&NodeFacts::read(source))).unwrap()
}

const ALL: &str = "4294967296";

#[test]
fn the_runtimes_generation_decides_between_fallback_and_death() {
    let new = node_with(2048, 2048, ALL, "1073741824");
    let container = |source: &MapSource| {
        let report = judge_on(source, SHORT);
        let container = first_container(&report);
        (container.fate, container.fate_without_reservations)
    };
    assert_eq!(container(&new), (Fate::FallsBack, None));
    let old = node_with(2048, 2048, ALL, "max");
    assert_eq!(container(&old), (Fate::Dies, None));
    // Without a pool nothing is mapped that could be touched.
    let bare = node_with(0, 0, "0", "max");
    let text = pod_of("image: postgres:17");
    let report = judge_on(&bare, &text);
    assert_eq!(first_container(&report).fate, Fate::FallsBack);
}

#[test]
fn the_scheduler_goes_by_what_the_kubelet_read_and_pods_have() {
    let fits = SHORT.replace("1Gi", "1354Mi");
    let says = |source: &MapSource| {
        let report = judge_on(source, &fits);
        let texts: Vec<String> = report.all_findings().map(|one| one.what.clone()).collect();
        (first_container(&report).fate, texts.join("\n"))
    };
    let (fate, text) = says(&node_with(2048, 1600, ALL, "1073741824"));
    assert_eq!((fate, text.as_str()), (Fate::Maps, ""));
    // 1 GiB of 2 GiB is another pod's.
    let (fate, text) = says(&node_with(1024, 1024, "2147483648", "1073741824"));
    assert_eq!(fate, Fate::NotStarted);
    assert!(text.contains("of 2Gi that the kubelet offers, running pods have 1Gi"), "{text}");
    // The pool grew after the kubelet's start.
    let (fate, text) = says(&node_with(2048, 2048, "1073741824", "1073741824"));
    assert_eq!(fate, Fate::NotStarted);
    assert!(text.contains("so restart it"), "{text}");
    // A daemon of the node has the pages that the kubelet still offers.
    let (fate, text) = says(&node_with(2048, 100, ALL, "1073741824"));
    assert_eq!(fate, Fate::FallsBack);
    assert!(text.contains("the node has 100 of the 541 pages"), "{text}");
}

/// mount(8) of a cgroup2 that counts huge pages as memory (Linux 6.7 and later).
#[test]
fn a_memory_limit_has_to_hold_huge_pages_where_they_count() {
    let fits = SHORT
        .replace("memory: 2Gi", "memory: 1Gi")
        .replace("hugepages-2Mi: 1Gi", "hugepages-2Mi: 1354Mi");
    let plain = node_with(2048, 2048, ALL, "1073741824");
    assert!(!judge_on(&plain, &fits).has_findings());
    let counting = plain.with_file(
        "/proc/self/mountinfo",
        "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_hugetlb_accounting\n",
    );
    let report = judge_on(&counting, &fits);
    assert!(report.all_findings().any(|one| one.what.contains("the server is killed")));
    let diff = report.diff.unwrap();
    assert!(diff.contains("+              memory: 2378Mi"), "{diff}");
    let any = judge(&fits);
    assert!(!any.has_findings());
    let notes = first_container(&any).notes.join(" ");
    assert!(notes.contains("memory_hugetlb_accounting"), "{notes}");
}
