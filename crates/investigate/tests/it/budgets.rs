//! What others wrote has a price, and that price has a limit: work grows with the number of files
//! and not with its square, and a few KiB take no gigabyte.
//!
//! Each run is a process of its own, so that its processor time and its memory are its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use hugewise_investigate::{Options, investigate};

const PATHS: &str = "HUGEWISE_TEST_BUDGET_OF";
/// Four times as many take four times as long, and with some slack not eight; with the square of their
/// number it would be sixteen.
const FEW: usize = 1000;
const MANY: usize = 4 * FEW;
/// KiB of memory of any run.
const MOST_MEMORY: u64 = 256 << 10;

/// One entry of a tar, as `tar --format=ustar` writes it.
fn tar_entry(tar: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar.extend_from_slice(&header);
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn tar_of(count: usize, file: impl Fn(usize) -> (String, Vec<u8>)) -> Vec<u8> {
    let mut tar = Vec::new();
    for at in 0..count {
        let (name, content) = file(at);
        tar_entry(&mut tar, &name, &content);
    }
    tar.extend_from_slice(&[0; 1024]);
    tar
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// What sar printed of two intervals that began at a second of the day.
fn sar_text(host: &str, begin: usize) -> Vec<u8> {
    let time = |second: usize| {
        format!("{:02}:{:02}:{:02}", second / 3600 % 24, second / 60 % 60, second % 60)
    };
    format!(
        "Linux 5.4.17 ({host}) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n\
         {}     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
         {}     all      1.00      0.00      1.00      0.00      0.00     98.00\n\
         {}     all      1.00      0.00      1.00      0.00      0.00     98.00\n",
        time(begin),
        time(begin + 600),
        time(begin + 1200),
    )
    .into_bytes()
}

fn vmstat_text(day: usize) -> Vec<u8> {
    let mut text = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n",
    );
    for minute in 0..2 {
        text += &format!(
            " 1  0      0 900000   1000  50000    0    0     1     1   10   20  1  1 98  0  0 \
             2026-11-{:02} 08:{minute:02}:00\n",
            day % 20 + 1
        );
    }
    text.into_bytes()
}

#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Milliseconds.
    time: u64,
    /// KiB at the most.
    memory: u64,
    sources: usize,
    hosts: usize,
    left_out: bool,
}

/// The other side of [`cost_of`]: it does nothing when the tests are run.
#[test]
#[allow(clippy::print_stdout, reason = "the other side reads it")]
fn one_run_by_itself() {
    let Some(path) = std::env::var_os(PATHS) else { return };
    let (sources, hosts, left_out) =
        match investigate(&[PathBuf::from(path)], &Options::default(), &|_| {}) {
            Ok(found) => {
                let words = found.sources.iter().flat_map(|source| &source.problems);
                let left_out = words.clone().any(|words| words.contains("left out"));
                (found.sources.len(), found.hosts.len(), left_out)
            }
            Err(error) => (0, 0, error.to_string().contains("left out")),
        };
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // proc(5): ticks of ten milliseconds.
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB");
    println!("\ncost {} {peak} {sources} {hosts} {left_out}", ticks * 10);
}

fn cost_of(path: &Path) -> Cost {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "budgets::one_run_by_itself", "--nocapture", "--test-threads=1"])
        .env(PATHS, path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cost "))
        .unwrap_or_else(|| panic!("{path:?}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    Cost {
        time: number(0),
        memory: number(1),
        sources: words[2].parse().unwrap(),
        hosts: words[3].parse().unwrap(),
        left_out: words[4] == "true",
    }
}

fn cost_of_bytes(bytes: &[u8]) -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.gz");
    fs::write(&path, bytes).unwrap();
    cost_of(&path)
}

#[track_caller]
fn assert_linear(what: &str, few: Cost, many: Cost) {
    assert!(many.time <= 8 * few.time + 500, "{what}: {few:?}, four times as many {many:?}");
    assert!(many.memory < MOST_MEMORY, "{what}: {many:?}");
}

/// The cost of a tar of many files.
#[track_caller]
fn assert_linear_tar(what: &str, file: impl Fn(usize) -> (String, Vec<u8>)) -> Cost {
    let few = cost_of_bytes(&packed(&tar_of(FEW, &file)));
    let many = cost_of_bytes(&packed(&tar_of(MANY, &file)));
    assert_linear(what, few, many);
    many
}

#[test]
fn files_of_one_host_take_time_by_their_number() {
    let cost = assert_linear_tar("alike", |at| (format!("h/sa/sar{at}"), sar_text("db7", 0)));
    assert_eq!((cost.sources, cost.hosts, cost.left_out), (MANY, 1, false));
    assert_linear_tar("a folder each", |at| (format!("h/{at}/a/b/sar"), sar_text("db7", 0)));
    // Side by side with very many others, and of no use: most of them are left out.
    let beside =
        assert_linear_tar("at other times", |at| (format!("sar{at}"), sar_text("db7", at)));
    assert!(beside.left_out, "{beside:?}");
}

#[test]
fn files_of_a_host_each_take_time_by_their_number() {
    let cost =
        assert_linear_tar("named", |at| (format!("h{at}/sar"), sar_text(&format!("h{at}"), 0)));
    assert_eq!((cost.sources, cost.hosts, cost.left_out), (MANY, MANY, false));
    let name = |at: usize| format!("h{at}.example.com");
    assert_linear_tar("with domains", |at| (format!("h{at}/sar"), sar_text(&name(at / 2), 0)));
    assert_linear_tar("named by folders", |at| (format!("h{at}/log"), vmstat_text(0)));
    assert_linear_tar("some named", |at| match at % 2 {
        0 => (format!("x/{at}/sar"), sar_text(if at == 0 { "db1" } else { "db2" }, 0)),
        _ => (format!("x/{at}/log"), vmstat_text(0)),
    });
}

#[test]
fn logs_and_what_is_nothing_take_time_by_their_number() {
    let log = |at: usize| {
        let line = "db7 kernel: INFO: task oracle:4711 blocked for more than 120 seconds.";
        let minute = at % 60;
        (
            format!("log/messages-{at}"),
            format!("2026-11-21T08:{minute:02}:00+00:00 {line}\n").into_bytes(),
        )
    };
    assert_linear_tar("kernel logs", log);
    let with_one = |at: usize, other: &[u8]| match at {
        0 => ("sar".to_owned(), sar_text("db1", 0)),
        _ => (format!("x/{at}"), other.to_vec()),
    };
    assert_linear_tar("of no format", |at| with_one(at, b"nothing that anybody knows\n"));
    assert_linear_tar("empty", |at| with_one(at, b""));
    assert_linear_tar("torn", |at| with_one(at, b"\xd5\x96\x21\x75"));
}

#[test]
fn tars_in_a_tar_take_time_by_their_number() {
    let inner = |at: usize| {
        let tar = tar_of(1, |_| (format!("sar{at}"), sar_text("db7", 0)));
        (format!("h{at}.tar"), tar)
    };
    let few = cost_of_bytes(&packed(&tar_of(FEW / 4, inner)));
    let many = cost_of_bytes(&packed(&tar_of(MANY / 4, inner)));
    assert_linear("tars in a tar", few, many);
    assert_eq!(many.sources, MANY / 4);
}

#[test]
fn folders_take_time_by_their_number() {
    let cost = |count: usize| {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..count {
            let inner = folder.path().join(format!("host{at}"));
            fs::create_dir_all(inner.join("sos_commands/sar")).unwrap();
            fs::write(inner.join("sos_commands/sar/sar21"), sar_text(&format!("h{at}"), 0))
                .unwrap();
        }
        cost_of(folder.path())
    };
    let (few, many) = (cost(FEW / 4), cost(MANY / 4));
    assert_linear("sosreports", few, many);
    assert_eq!((many.sources, many.left_out), (MANY / 4, false));
}

/// As many files as are read in one run, and more: what is kept of each is little, and of the rest a
/// count.
#[test]
fn files_without_end_take_little() {
    let cost = cost_of_bytes(&tar_of(45_000, |at| (format!("sar{at}"), sar_text("db7", at))));
    assert!(cost.left_out && cost.memory < MOST_MEMORY, "in a tar: {cost:?}");
    let folder = tempfile::tempdir().unwrap();
    for at in 0..100_000 {
        let inner = folder.path().join(format!("{}", at % 20_000));
        if at < 20_000 {
            fs::create_dir(&inner).unwrap();
        }
        let text = if at < 45_000 { sar_text("db7", at) } else { b"nothing\n".to_vec() };
        fs::write(inner.join(format!("sar{at}")), text).unwrap();
    }
    let cost = cost_of(folder.path());
    assert!(cost.left_out && cost.memory < MOST_MEMORY, "in folders: {cost:?}");
}

/// More files than a tar of its size can have are left out, and said.
#[test]
fn files_beyond_those_that_are_read_are_told() {
    let cost = cost_of_bytes(&packed(&tar_of(30_000, |at| {
        (format!("x/{at}"), if at == 0 { sar_text("db1", 0) } else { Vec::new() })
    })));
    assert!(cost.left_out && cost.sources == 2 && cost.memory < MOST_MEMORY, "{cost:?}");
}

#[test]
fn what_unpacks_to_nothing_takes_little() {
    let size = 24 << 20;
    let sar = sar_text("db1", 0);
    for (what, begin, rest) in [
        ("empty lines", &b""[..], b"\n"),
        ("one line", b"", b"a"),
        ("zeros", b"", b"\0"),
        ("blank lines behind vmstat's headings", b" r  b   swpd   free\n", b"\n"),
        ("empty lines behind sar's", &sar, b"\n"),
        ("one line behind sar's", &sar, b"a"),
    ] {
        let mut bytes = begin.to_vec();
        bytes.resize(size, rest[0]);
        let cost = cost_of_bytes(&packed(&bytes));
        assert!(cost.memory < 160 << 10, "{what}: {cost:?}");
    }
    let mut bytes = sar;
    bytes.resize(192 << 20, b'\n');
    let cost = cost_of_bytes(&packed(&bytes));
    assert!(cost.left_out && cost.sources > 0 && cost.memory < 100 << 10, "{cost:?}");
    let twice = packed(&packed(&vec![b'\n'; 512 << 20]));
    let cost = cost_of_bytes(&twice);
    assert!(twice.len() < 16 << 10 && cost.memory < 100 << 10, "{} {cost:?}", twice.len());
}

/// Lines cost time by their number, however few bytes of a compressed file they are.
#[test]
fn short_lines_are_read_by_what_came() {
    let meminfo = b"Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\nMemFree: 1 kB\n";
    for (what, begin, line) in [
        ("vmstat", &vmstat_text(0)[..], "\n"),
        ("sar", &sar_text("db1", 0), "a\n"),
        ("meminfo", meminfo, "1\n"),
    ] {
        let mut bytes = begin.to_vec();
        bytes.extend_from_slice(line.repeat(8 << 20).as_bytes());
        let cost = cost_of_bytes(&packed(&bytes));
        assert!(cost.left_out && cost.sources > 0, "{line:?} behind {what}: {cost:?}");
        assert!(cost.memory < 100 << 10, "{line:?} behind {what}: {cost:?}");
    }
}

/// PCP's own programs read an archive by its path, so its parts are unpacked into a folder.
#[test]
fn what_parts_of_a_pcp_archive_unpack_to_is_bounded() {
    // PM_LOG_MAGIC and version 2, behind the length of the label.
    let label = [0, 0, 0, 0x84, 0x50, 0x05, 0x26, 0x02];
    let folder = tempfile::tempdir().unwrap();
    let mut samples = label.to_vec();
    samples.resize(256 << 20, 0);
    fs::write(folder.path().join("a.0.gz"), packed(&samples)).unwrap();
    for part in ["a.meta", "a.index"] {
        fs::write(folder.path().join(part), label).unwrap();
    }
    let cost = cost_of(folder.path());
    assert!(cost.left_out && cost.memory < MOST_MEMORY, "{cost:?}");
}

/// Very many disks, processes or hosts in one file.
#[test]
fn names_in_one_file_take_little() {
    let lines = |head: &str, line: &dyn Fn(usize) -> String| {
        let mut text = head.to_owned();
        (0..60_000).for_each(|at| text += &line(at));
        text
    };
    let linux = "Linux 5.4.17 (db1) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n";
    for (what, text) in [
        (
            "disks of sar",
            lines(&format!("{linux}08:00:00 DEV tps rkB/s wkB/s\n"), &|at| {
                format!("08:10:00 dev{at} 1.0 2.0 3.0\n")
            }),
        ),
        (
            "comments of sar",
            lines(linux, &|at| format!("08:{:02}:{:02} COM c{at}\n", at / 60 % 60, at % 60)),
        ),
        ("hosts of sar", lines("", &|at| linux.replace("db1", &format!("h{at}")))),
        (
            "columns of sar",
            lines(linux, &|at| format!("08:00:00 %user %system c{at}\n08:10:00 1 2 3\n")),
        ),
        (
            "processes of ps",
            lines("zzz ***Sat Nov 21 22:47:35 UTC 2026\nUID PID PPID S CMD\n", &|at| {
                format!("root {at} 1 S p{at}\n")
            }),
        ),
        (
            "days of meminfo",
            lines("", &|at| {
                let (hour, minute, second) = (at / 3600 % 24, at / 60 % 60, at % 60);
                format!("Sat Nov 21 {hour:02}:{minute:02}:{second:02} UTC 2026\nMemFree: {at} kB\n")
            }),
        ),
    ] {
        let cost = cost_of_bytes(&packed(text.as_bytes()));
        assert!(cost.memory < MOST_MEMORY && cost.time < 120_000, "{what}: {cost:?}");
    }
}
