//! Processes as made hosts and the machine show them.

use hugewise_model::Bytes;

use super::*;
use hugewise_source::{LiveSource, MapSource};

const FACTS: PageSizeFacts<'_> = PageSizeFacts {
    base_page: Some(PageSize::KIB_4),
    default_huge_page: Some(PageSize::MIB_2),
    hugetlbfs: &[],
    smallest_huge_page: None,
    has_reserved: false,
    is_captured: false,
    one_size: false,
};

fn status(name: &str, hugetlb_kib: u64) -> String {
    format!(
        "Name:\t{name}\nPPid:\t1\nUid:\t0\t5\t5\t5\nGid:\t0\t6\t6\t6\nVmSize:\t100 kB\nVmPTE:\t40 \
             kB\n\
         HugetlbPages:\t{hugetlb_kib} kB\nThreads:\t1\n"
    )
}

fn shared(name: &str, inode: u64) -> String {
    format!("7f1000000000-7f1040000000 rw-s 00000000 00:01 {inode} {name}\n")
}

#[test]
fn kernel_threads_and_what_vanished_are_left_out() {
    let source = MapSource::new()
        .with_file("/proc/2/status", "Name:\tkthreadd\nPPid:\t0\nUid:\t0\t0\t0\t0\n")
        .with_folder("/proc/3")
        .with_file("/proc/10/status", status("b", 0))
        .with_file("/proc/9/status", status("a", 0))
        .with_file("/proc/9/cmdline", "a\0-x\0\0\0");
    let mut door = FactReader::new(&source);
    let processes = read(&mut door, FACTS, None).processes.into_known().unwrap();
    assert_eq!(processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [9, 10]);
    assert_eq!(processes[0].command, Observed::Known(vec!["a".into(), "-x".into()]));
    assert_eq!(processes[0].page_tables, Observed::Known(Bytes::from_kib(40)));
    assert_eq!(processes[0].mappings, Observed::Absent);
    assert_eq!(door.unread, []);
    assert_eq!(
        read(&mut FactReader::new(&MapSource::new().with_file("/proc/meminfo", "")), FACTS, None)
            .processes,
        Observed::Absent
    );
}

/// Up to Linux 4.4 the status has neither RssAnon nor RssShmem.
#[test]
fn older_kernels_tell_what_was_touched_elsewhere() {
    let new = status("new", 0).replace("VmPTE", "RssAnon:\t7 kB\nRssShmem:\t9 kB\nVmPTE");
    let source = MapSource::new()
        .with_file("/proc/9/status", status("old", 0))
        .with_file("/proc/9/statm", "25 12 10 1 0 2 0\n")
        .with_file("/proc/10/status", new)
        .with_file("/proc/10/statm", "25 12 10 1 0 2 0\n")
        .with_file("/proc/11/status", status("odd", 0))
        .with_file("/proc/11/statm", "x\n")
        .with_file("/proc/12/status", status("without", 0));
    let mut door = FactReader::new(&source);
    let processes = read(&mut door, FACTS, None).processes.into_known().unwrap();
    let values_of = |at: usize| {
        let process = &processes[at];
        [&process.rss_anon, &process.rss_shmem, &process.rss_shared]
            .map(|fact| fact.get().map(|bytes| bytes.get() >> 10))
    };
    assert_eq!(values_of(0), [Some(8), None, Some(40)]);
    assert_eq!(values_of(1), [Some(7), Some(9), None]);
    assert_eq!((values_of(2), values_of(3)), ([None; 3], [None; 3]));
    let unread: Vec<_> = door.unread.iter().map(ToString::to_string).collect();
    assert_eq!(unread, ["/proc/11/statm: malformed: line 1: no sizes in pages"]);
}

#[test]
fn what_other_users_hide_is_one_line_a_file() {
    let mut source = MapSource::new();
    for pid in 10..20 {
        source = source
            .with_file(&format!("/proc/{pid}/status"), status("x", 0))
            .with_denied(&format!("/proc/{pid}/maps"));
    }
    let source =
        source.with_denied("/proc/10/exe").with_file("/proc/11/limits", "Max locked memory x y");
    let mut door = FactReader::new(&source);
    read(&mut door, FACTS, None);
    let lines: Vec<_> = door.unread.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "/proc/10/exe: denied",
            "/proc/11/limits: malformed: line 1: not two values",
            "/proc/PID/maps of 10 processes: denied",
        ]
    );
}

#[test]
fn arguments_made_to_fill_memory_are_refused() {
    assert_eq!(commands::parse(&b"a\0".repeat(16 << 10)).unwrap().len(), 16 << 10);
    assert!(commands::parse(&b"a\0".repeat((16 << 10) + 1)).is_err());
    let title = [b"postgres: idle".to_vec(), vec![0; 100_000]].concat();
    assert_eq!(commands::parse(&title).unwrap(), ["postgres: idle"]);
}

#[test]
fn a_segment_is_asked_for_once() {
    let mut source = MapSource::new().page_size(10, 0x7f10_0000_0000, PageSize::MIB_2);
    for pid in 10..13 {
        source = source
            .with_file(&format!("/proc/{pid}/status"), status("x", 0))
            .with_file(&format!("/proc/{pid}/maps"), shared("/SYSV00000000 (deleted)", 5));
    }
    let processes =
        read(&mut FactReader::new(&source), FACTS, None).processes.into_known().unwrap();
    for process in processes {
        assert_eq!(
            process.mappings.as_known().unwrap()[0].page_size,
            Observed::Known(PageSize::MIB_2)
        );
    }
}

#[test]
fn what_is_smaller_than_any_huge_page_is_not_asked_for() {
    let small = "7f1000000000-7f1000040000 rw-s 00000000 00:01 5 /SYSV00000000 (deleted)\n";
    let source = MapSource::new()
        .with_file("/proc/10/status", status("x", 2048))
        .with_file("/proc/10/maps", small);
    let page = |smallest_huge_page| {
        let facts = PageSizeFacts { smallest_huge_page, ..FACTS };
        let mut door = FactReader::new(&source);
        let found = read_timed(&mut door, facts, None, &|| page_size::BUDGET)
            .processes
            .into_known()
            .unwrap();
        (found[0].mappings.as_known().unwrap()[0].page_size.clone(), door.unread.len())
    };
    assert_eq!(page(Some(PageSize::MIB_2)), (Observed::Known(PageSize::KIB_4), 0));
    assert_eq!(
        page(PageSize::new(64 << 10)),
        (Observed::Absent, 1),
        "its 256 KiB may be four pages of 64 KiB"
    );
}

#[test]
fn an_old_kernel_is_asked_by_names_and_one_process_a_segment() {
    let source = MapSource::new()
        .with_file("/proc/10/status", status("x", 0))
        .with_file(
            "/proc/10/maps",
            shared("/SYSV00000000 (deleted)", 5)
                + &shared("/dev/zero (deleted)", 5).replace("7f1", "7f2"),
        )
        .with_file(
            "/proc/10/numa_maps",
            "7f1000000000 default file=/SYSV huge kernelpagesize_kB=2048\n",
        )
        .with_file("/proc/11/status", status("x", 0))
        .with_file("/proc/11/maps", shared("/anon_hugepage (deleted)", 6));
    let sizes = |elapsed: &dyn Fn() -> Duration| {
        let mut door = FactReader::new(&source);
        let processes = read_timed(&mut door, FACTS, None, elapsed).processes.into_known().unwrap();
        let mappings =
            processes.into_iter().flat_map(|process| process.mappings.as_known().cloned().unwrap());
        (mappings.map(|mapping| mapping.page_size.get()).collect::<Vec<_>>(), door.unread)
    };
    let (known, unread) = sizes(&|| Duration::ZERO);
    assert_eq!(known, [Some(PageSize::MIB_2), Some(PageSize::KIB_4), Some(PageSize::MIB_2)]);
    assert_eq!(unread, []);
    let (late, unread) = sizes(&|| page_size::BUDGET);
    assert_eq!(late, [None, Some(PageSize::KIB_4), Some(PageSize::MIB_2)]);
    assert_eq!(unread[0].why, Reason::Skipped("time budget".into()));
}

#[test]
fn the_live_machine_has_this_process() {
    let live = LiveSource::new();
    let processes = read(&mut FactReader::new(&live), FACTS, None).processes.into_known().unwrap();
    let own = processes.iter().find(|process| process.pid == std::process::id()).unwrap();
    assert!(own.mappings.is_known() && own.memlock.is_known() && own.namespaces.mount.is_known());
    assert!(own.executable.as_known().unwrap().contains("hugewise"));
}

/// Kernels before 2.6.27 know one size of huge pages and say `huge` and no more; their smaps tells
/// no sizes.
#[test]
fn huge_without_a_size_is_the_only_size_of_an_old_kernel() {
    let source = MapSource::new()
        .with_file("/proc/10/status", status("oracle", 0))
        .with_file("/proc/10/maps", shared("/SYSV00000000 (deleted)", 32769))
        .with_file(
            "/proc/10/numa_maps",
            "7f1000000000 default file=/SYSV00000000\\040(deleted) huge dirty=300 N0=300\n",
        )
        .with_file(
            "/proc/10/smaps",
            shared("/SYSV00000000 (deleted)", 32769) + "Size: 1048576 kB\nRss: 0 kB\n",
        )
        .with_file("/proc/11/status", status("oracle", 0))
        .with_file("/proc/11/maps", shared("/SYSV00000000 (deleted)", 65538))
        .with_file(
            "/proc/11/numa_maps",
            "7f1000000000 default file=/SYSV00000000\\040(deleted) dirty=300 N0=300\n",
        );
    let sizes = |one_size| {
        let facts = PageSizeFacts { one_size, ..FACTS };
        let processes =
            read(&mut FactReader::new(&source), facts, None).processes.into_known().unwrap();
        let size =
            |process: &Arc<Process>| process.mappings.as_known().unwrap()[0].page_size.clone();
        processes.iter().map(size).collect::<Vec<_>>()
    };
    assert_eq!(sizes(true), [Observed::Known(PageSize::MIB_2), Observed::Known(PageSize::KIB_4)]);
    assert_eq!(sizes(false), [Observed::Absent, Observed::Known(PageSize::KIB_4)]);
}
