//! Processes of many mappings.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hugewise_model::{Observed, PageSize, Process};
use hugewise_source::{
    FactReader, FileExtent, FilePart, FileRequest, MapSource, Owner, ProcessSource, RawSource,
    Source,
};

use crate::process::{PageSizeFacts, PreviousProcesses, read};

const FACTS: PageSizeFacts<'_> = PageSizeFacts {
    base_page: Some(PageSize::KIB_4),
    default_huge_page: Some(PageSize::MIB_2),
    hugetlbfs: &[],
    smallest_huge_page: None,
    has_reserved: false,
    is_captured: false,
    one_size: false,
};

/// So many shared mappings, each of a file of this name.
fn maps(count: u64, name: &str) -> String {
    let mut text = String::new();
    for at in 1..=count {
        let start = at << 14;
        writeln!(text, "{start:012x}-{:012x} rw-s 00000000 00:01 {at} {name}", start + 8192)
            .unwrap();
    }
    text
}

/// Adds a process that has not run since, of which all else can be read.
fn with_process(source: MapSource, pid: u32, uid: u32, maps: &str) -> MapSource {
    let path = |name: &str| format!("/proc/{pid}/{name}");
    let status = format!(
        "Name:\tx\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t6\t6\t6\t6\n\
         VmSize:\t100 kB\nThreads:\t1\n"
    );
    let limit = "Max locked memory         1              1              bytes\n";
    let source = source
        .with_file(&path("status"), status)
        .with_file(&path("cmdline"), "x\0")
        .with_file(&path("limits"), limit)
        .with_file(&path("cgroup"), "0::/\n")
        .with_file(&path("maps"), maps)
        .with_link(&path("exe"), "/bin/x")
        .with_link(&path("cwd"), "/")
        .cpu_time(pid, Duration::from_nanos(7));
    ["mnt", "pid", "ipc", "user"].into_iter().fold(source, |source, space| {
        source.with_link(&path(&format!("ns/{space}")), &format!("{space}:[4026531841]"))
    })
}

fn count_kept(processes: &[Arc<Process>]) -> Vec<(u32, Option<usize>)> {
    let count = |process: &Arc<Process>| process.mappings.as_known().map(Vec::len);
    processes.iter().map(|process| (process.pid, count(process))).collect()
}

fn reading(
    source: &dyn Source,
    before: Option<PreviousProcesses<'_>>,
) -> (Vec<Arc<Process>>, Vec<String>) {
    let mut door = FactReader::new(source);
    let processes = read(&mut door, FACTS, before).processes.into_known().unwrap();
    let unread = door.unread.iter().map(ToString::to_string);
    (processes, unread.filter(|said| said.contains("/maps")).collect())
}

/// Counts the bytes that are read of maps files.
struct CountingSource {
    source: MapSource,
    read: RefCell<Vec<u64>>,
}

impl RawSource for CountingSource {
    fn base(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }

    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        if request.path.ends_with("/maps")
            && let FileExtent::Whole { most } = request.extent
        {
            let length = self.source.read(request.path).into_known().map_or(0, |text| text.len());
            self.read.borrow_mut().push(most.min(length as u64));
        }
        self.source.read_file(request)
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        self.source.link_target(path, reader)
    }

    fn processes(&self) -> &dyn ProcessSource {
        self.source.processes()
    }
}

const WHY: &str = "left out: together this user's processes have too many mappings";

#[test]
fn one_users_mappings_take_nothing_from_others() {
    let (many, few, heap) =
        (maps(60_000, "/dev/zero (deleted)"), maps(900, "/dev/zero"), maps(100_000, "/memfd:java"));
    let source =
        (100..112).fold(MapSource::new(), |source, pid| with_process(source, pid, 4242, &many));
    // An ordinary process of his, a Java server and one who has the ids behind a user's.
    let source = with_process(source, 200, 4242, &few);
    let source = with_process(source, 201, 995, &heap);
    let source = with_process(source, 202, 165_536, &many);
    let source = with_process(source, 203, 165_600, &many);
    let source = CountingSource { source, read: RefCell::default() };
    let (processes, unread) = reading(&source, None);
    let kept: Vec<_> =
        count_kept(&processes).into_iter().filter_map(|(pid, count)| Some((pid, count?))).collect();
    let expected = [100, 101, 102].map(|pid| (pid, 60_000));
    let others = [(200, 900), (201, 100_000), (202, 60_000), (203, 60_000)];
    assert_eq!(kept, [&expected[..], &others].concat());
    assert_eq!(unread, [format!("/proc/PID/maps of 9 processes of user 4242: {WHY}")]);
    // The first that does not fit is read whole, those behind it as far as an ordinary one.
    let read: u64 = source.read.borrow().iter().skip(4).take(8).sum();
    assert!(read <= 8 * (128 << 10), "{read} bytes");
    // A later reading knows what it still holds.
    let before = PreviousProcesses { processes: &processes, others: &[] };
    let (again, unread) = reading(&source, Some(before));
    assert_eq!(count_kept(&again), count_kept(&processes));
    assert_eq!(unread, [format!("/proc/PID/maps of 9 processes of user 4242: {WHY}")]);
}

#[test]
fn long_names_and_what_is_only_read_count_too() {
    let names = maps(3000, &format!("/{}", "x".repeat(4000)));
    let source =
        (100..120).fold(MapSource::new(), |source, pid| with_process(source, pid, 4242, &names));
    let (processes, _) = reading(&source, None);
    let with = count_kept(&processes).iter().filter(|(_, count)| count.is_some()).count();
    assert!((1..4).contains(&with), "{with} processes of 12 MiB");
    // Nothing of these is kept: one is too long, and of another no mapping matters.
    let long = maps(4200, &format!("/{}", "x".repeat(4000)));
    let dull = maps(60_000, "/lib/x").replace("rw-s", "r--p");
    for text in [long, dull] {
        let source =
            (100..160).fold(MapSource::new(), |source, pid| with_process(source, pid, 4242, &text));
        let source = CountingSource { source, read: RefCell::default() };
        let (_, unread) = reading(&source, None);
        assert!(unread.iter().any(|said| said.ends_with(WHY)), "{unread:?}");
        let whole = source.read.borrow().iter().filter(|read| **read > 128 << 10).count();
        assert!(whole < 60, "{whole} files were read whole");
    }
}

#[test]
fn ordinary_processes_have_a_limit_that_no_server_reaches() {
    let ordinary = maps(1000, "/dev/zero (deleted)");
    let source = (100..1200)
        .fold(MapSource::new(), |source, pid| with_process(source, pid, 4242, &ordinary));
    let (processes, unread) = reading(&source, None);
    let with = count_kept(&processes).iter().filter(|(_, count)| count.is_some()).count();
    assert_eq!(with, 1000);
    assert_eq!(unread, [format!("/proc/PID/maps of 100 processes of user 4242: {WHY}")]);
}
