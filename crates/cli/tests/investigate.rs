//! `hugewise investigate` as its users run it: on files, folders, tars and sosreports of real tools, and on what is made to
//! do harm.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a test stops where its files are not as expected, and reads them past the code under test"
)]

mod support;

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use support::{Said, fixtures};
use tempfile::TempDir;

/// Runs it in a folder, which is where it may put what it needs for itself, and must leave nothing.
fn within(folder: &Path, words: &[&str]) -> Said {
    let scratch = folder.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    command.arg("investigate").args(words).current_dir(folder).env("TMPDIR", &scratch).env("COLUMNS", "80");
    let said = Said::by(&mut command);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "something was left behind");
    std::fs::remove_dir(&scratch).unwrap();
    said
}

fn json(folder: &Path, words: &[&str]) -> Value {
    within(folder, &[&["--format", "json"], words].concat()).json()
}

fn put(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let at = folder.join(path);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, content).unwrap();
}

fn copy(from: &Path, folder: &Path, path: &str) {
    put(folder, path, std::fs::read(from).unwrap());
}

/// Format, host and samples of each source.
fn sources(report: &Value) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let sources = report["sources"].as_array().unwrap().iter();
    sources.map(|one| (text(&one["format"]), text(&one["host"]), one["samples"].as_u64().unwrap_or(0))).collect()
}

fn tar(folder: &Path, flags: &[&str], name: &str, what: &str) {
    let done = Command::new("tar").current_dir(folder).args(flags).args([name, what]).status().unwrap();
    assert!(done.success());
}

/// Four hours, a line a minute, of a host whose page tables grow until it stands in reclaim from 11:00 to 11:05: as
/// `vmstat -t` and a loop of date and the kernel's files write it.
fn storm(folder: &Path) {
    let mut vmstat = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n",
    );
    let mut kernel = String::new();
    let (mut direct, mut kswapd) = (0_u64, 0_u64);
    for minute in 0..240_u64 {
        let (hour, rest) = (8 + minute / 60, minute % 60);
        let storms = (180..=185).contains(&minute);
        let tables = if minute < 180 { 400_000 + minute * 20_000 } else { 4_000_000 };
        let free = match minute {
            180..=184 => 90_000 + minute % 3,
            185..=190 => 3_000_000,
            _ => 6_000_000_u64.saturating_sub(minute * 30_000).max(150_000) + minute % 7 * 100,
        };
        if storms {
            direct += 4_000_000;
            kswapd += 9_000_000;
        }
        let (user, system) = if storms { (8, 88) } else { (22 + minute % 3, 3 + minute % 2) };
        let (queue, idle) = (if storms { 90 } else { 3 }, 100 - user - system);
        writeln!(
            vmstat,
            " {queue}  0      0 {free}  10000 4000000    0    0     1    20 1000 2000 {user} {system} {idle}  0  0 2026-11-21 {hour:02}:{rest:02}:00"
        )
        .unwrap();
        writeln!(
            kernel,
            "Sat Nov 21 {hour:02}:{rest:02}:00 UTC 2026\nMemTotal: 20000000 kB\nMemFree: {free} kB\nPageTables: {tables} kB\n\
             HugePages_Total: 0\nHugePages_Free: 0\nHugePages_Rsvd: 0\nHugepagesize: 2048 kB\n\
             pgscan_kswapd {kswapd}\npgscan_direct {direct}"
        )
        .unwrap();
    }
    put(folder, "logs/vmstat.log", vmstat);
    put(folder, "logs/kernel.log", kernel);
}

#[test]
fn an_incident_is_told_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    let report = json(folder.path(), &["logs"]);
    assert_eq!(report["incidents"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["incidents"][0]["verdict"], "reclaim-by-page-tables");
    let said = within(folder.path(), &["logs"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    for word in ["reclaim-by-page-tables", "incidents ", "page tables", "hugewise size", "▁", "█"] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    // Before it page tables only grew, and in its first half hour they were small.
    let before = within(folder.path(), &["logs", "--to", "10:30"]);
    assert!(before.code == 1 && before.out.contains("page-tables-growing"), "{}", before.out);
    assert!(before.out.contains("08:00:00 to 10:30:00") && !before.out.contains("reclaim-by"), "{}", before.out);
    let first = within(folder.path(), &["logs", "--to", "08:20"]);
    assert!(first.code == 0 && first.out.contains("Nothing found"), "{}", first.out);
    let html = within(folder.path(), &["logs", "--format", "html"]);
    assert!(html.code == 1 && html.out.starts_with("<!DOCTYPE html>"));
}

#[test]
fn times_are_by_the_zone_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    // A zone that the log does not name.
    let text = std::fs::read_to_string(folder.path().join("logs/kernel.log")).unwrap();
    put(folder.path(), "kernel.log", text.replace(" UTC ", " CET "));
    let first = |words: &[&str]| {
        let report = json(folder.path(), &[&["kernel.log"], words].concat());
        (
            report["sources"][0]["from"].clone(),
            report["sources"][0]["to"].clone(),
            report["sources"][0]["clock"].clone(),
        )
    };
    assert_eq!(first(&[]).0, "2026-11-21T08:00:00");
    assert_eq!(first(&[]).2, "wall");
    let berlin = first(&["--timezone", "Europe/Berlin"]);
    assert_eq!((berlin.0, berlin.1), (json!("2026-11-21T08:00:00+01:00"), json!("2026-11-21T11:59:00+01:00")));
    assert_eq!(first(&["--timezone", "-03:30"]).0, "2026-11-21T08:00:00-03:30");
    let said = within(folder.path(), &["kernel.log", "--timezone", "Mars/Phobos"]);
    assert!(said.code == 2 && said.err.contains("Mars/Phobos: no zone"), "{}", said.err);
    for (words, what) in [
        (&["--from", "yesterday"][..], "no time such as"),
        (&["--from", "11:00", "--to", "10:00"], "--from is not before --to"),
        (&["--from", "2027-01-01"], "they are of 2026-11-21T08:00:00 to 2026-11-21T11:59:00"),
    ] {
        let said = within(folder.path(), &[&["kernel.log"], words].concat());
        assert!(said.code == 2 && said.err.contains(what), "{}", said.err);
    }
}

#[test]
fn rows_are_written_as_they_were_read() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    let said = within(folder.path(), &["logs", "--series", "rows.csv", "--from", "11:00", "--to", "11:09"]);
    assert_eq!(said.code, 1, "{}", said.err);
    let csv = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 10);
    assert!(csv.contains("2026-11-21T11:05:00"), "{csv}");
    let parquet = within(folder.path(), &["logs", "--series", "rows.parquet"]);
    assert_eq!(parquet.code, 1);
    assert!(std::fs::read(folder.path().join("rows.parquet")).unwrap().starts_with(b"PAR1"));
    let refused = within(folder.path(), &["logs", "--series", "rows.xls"]);
    assert!(refused.code == 2 && refused.err.contains(".parquet"), "{}", refused.err);
}

#[test]
fn a_folder_and_its_tars_are_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let watcher = fixtures("oswatcher");
    for file in [
        "oswmeminfo/db_1.example.com_meminfo_26.11.22.0000.dat.xz",
        "oswps/db_1.example.com_ps_26.11.22.0000.dat.gz",
        "oswtop/db_1.example.com_top_26.11.22.0000.dat.bz2",
        "oswvmstat/db_1.example.com_vmstat_26.11.22.0000.dat",
    ] {
        copy(&watcher.join(file), folder.path(), &format!("archive/{file}"));
    }
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), "archive/sa/sa21.xz");
    put(folder.path(), "archive/notes.txt", "to whom it may concern");
    // A zip by a method of its own.
    put(folder.path(), "archive/old.zip", [b"PK\x03\x04\x14\0\0\0\x63\0".as_slice(), &[0; 40]].concat());
    let unpacked = json(folder.path(), &["archive"]);
    assert_eq!(sources(&unpacked).len(), 5, "{unpacked:#}");
    let passed = unpacked["passed_over"].to_string();
    assert!(passed.contains("1 file in archive is of no format"), "{passed}");
    assert!(passed.contains("1 file in archive is a zip of several files"), "{passed}");
    for (flags, name) in [
        (&["-cf"][..], "a.tar"),
        (&["-czf"], "a.tgz"),
        (&["-cJf"], "a.tar.xz"),
        (&["-cjf"], "a.tar.bz2"),
        (&["--zstd", "-cf"], "named-otherwise"),
    ] {
        tar(folder.path(), flags, name, "archive");
        let packed = json(folder.path(), &[name]);
        assert_eq!(sources(&packed), sources(&unpacked), "{name}");
        assert_eq!(packed["signatures"].as_array().map(Vec::len), unpacked["signatures"].as_array().map(Vec::len));
        let path = packed["sources"][0]["path"].as_str().unwrap();
        assert!(path.starts_with(&format!("{name}:archive/")), "{path}");
    }
    // Tars of several hosts in a tar, as `sos collect` makes them.
    std::fs::create_dir(folder.path().join("all")).unwrap();
    std::fs::rename(folder.path().join("a.tar.xz"), folder.path().join("all/one.tar.xz")).unwrap();
    tar(folder.path(), &["-cf"], "all.tar", "all");
    let nested = json(folder.path(), &["all.tar"]);
    assert_eq!(sources(&nested), sources(&unpacked));
    assert!(nested["sources"][0]["path"].as_str().unwrap().starts_with("all.tar:all/one.tar.xz:archive/"));
}

#[test]
fn nodes_with_the_same_trouble_are_told_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let story = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    for node in ["rac1", "rac2"] {
        put(folder.path(), &format!("nodes/{node}.sar"), story.replace("(db7)", &format!("({node})")));
    }
    let report = json(folder.path(), &["nodes"]);
    let incidents = report["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 4, "{report:#}");
    for incident in incidents {
        let other = if incident["host"] == "rac1" { "rac2" } else { "rac1" };
        let told = format!(
            "{other} had the same, which began in the same second by their wall clocks: look for what they share"
        );
        assert_eq!(incident["elsewhere"], json!([told]));
    }
    let said = within(folder.path(), &["nodes"]);
    assert!(said.out.contains("also    rac2 had the same"), "{}", said.out);
    // One host alone has nothing of the kind.
    let alone = json(folder.path(), &["nodes/rac1.sar"]);
    assert_eq!(alone["incidents"][0].get("elsewhere"), None);
}

/// Nothing was written from 03:10 on, and the host started at 03:52: an incident, and the exit code says so.
#[test]
fn a_hang_that_ended_in_a_reset_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let heading = "CPU %user %nice %system %iowait %steal %idle";
    let mut text = format!("Linux 5.14.0 (db1) \t11/21/26 \t_x86_64_\t(4 CPU)\n\n00:00:01  {heading}\n");
    let line = |text: &mut String, slot: u32| {
        let (hour, minute, system) = (slot / 6, slot % 6 * 10, 2 + slot % 3);
        writeln!(text, "{hour:02}:{minute:02}:01  all 10.00 0.00 {system}.00 1.00 0.00 {}.00", 89 - system).unwrap();
    };
    (1..20).for_each(|slot| line(&mut text, slot));
    write!(text, "\n03:52:20     LINUX RESTART\t(4 CPU)\n\n04:00:01  {heading}\n").unwrap();
    (25..100).for_each(|slot| line(&mut text, slot));
    put(folder.path(), "sar21", text);
    let said = within(folder.path(), &["sar21"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("03:10:01 to 03:52:20  hang  confidence low"), "{}", said.out);
    for words in ["nothing was written for 42 minutes", "last -x shutdown reboot"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
}

#[test]
fn what_zip_and_compress_packed_is_read() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    let plain = json(folder.path(), &["logs/kernel.log"]);
    let done = Command::new("zip").current_dir(folder.path()).args(["-q", "kernel.zip", "logs/kernel.log"]).status();
    assert!(done.unwrap().success());
    let zipped = json(folder.path(), &["kernel.zip"]);
    assert_eq!(sources(&zipped), sources(&plain));
    assert_eq!(zipped["incidents"][0]["verdict"], plain["incidents"][0]["verdict"]);
    // ncompress packed it, and what it holds are numbers.
    copy(&fixtures("collectors/compress-16.Z"), folder.path(), "numbers.Z");
    let refused = within(folder.path(), &["numbers.Z"]);
    assert!(refused.code == 2 && refused.err.contains("is of no format that is known"), "{}", refused.err);
}

#[test]
fn a_sosreport_tells_how_its_host_is_set_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| format!("sosreport-db1-2026-11-22/{path}");
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), &at("var/log/sa/sa22.xz"));
    // sos has what sar prints beside it.
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), &at("var/log/sa/copy-of-sa22.xz"));
    put(folder.path(), &at("proc/meminfo"), "MemTotal: 24000000 kB\nPageTables: 2400000 kB\nHugepagesize: 2048 kB\n");
    put(folder.path(), &at("proc/vmstat"), "nr_free_pages 1\n");
    put(folder.path(), &at("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "0\n");
    put(folder.path(), &at("sys/kernel/mm/transparent_hugepage/enabled"), "[always] madvise never\n");
    put(folder.path(), &at("etc/hostname"), "db1\n");
    put(folder.path(), &at("sos_commands/host/hostname"), "db1\n");
    // Another host's log, without a name, whose zone the sosreport says.
    put(folder.path(), &at("sos_commands/systemd/timedatectl"), "  Time zone: Asia/Kolkata (IST, +0530)\n");
    put(folder.path(), &at("var/log/kernel.log"), "Sun Nov 22 04:17:30 IST 2026\nMemTotal: 9 kB\nMemFree: 5 kB\n");
    symlink("/etc/localtime", folder.path().join(at("localtime"))).unwrap();

    let report = json(folder.path(), &["sosreport-db1-2026-11-22"]);
    let all = sources(&report);
    assert_eq!(all.iter().filter(|(_, host, _)| host == "db1").count(), 3, "{report:#}");
    let times: Vec<&str> =
        report["sources"].as_array().unwrap().iter().filter_map(|one| one["from"].as_str()).collect();
    assert!(times.iter().all(|time| time.ends_with("+05:30")), "{times:?}");
    let said = within(folder.path(), &["sosreport-db1-2026-11-22"]);
    assert!(said.out.contains("set-up: memory 22.9 GiB  page tables 2.3 GiB"), "{}", said.out);
    assert!(said.out.contains("THP always") && said.out.contains("1 link"), "{}", said.out);
    tar(folder.path(), &["-cJf"], "sosreport.tar.xz", "sosreport-db1-2026-11-22");
    let packed = within(folder.path(), &["sosreport.tar.xz"]);
    assert!(packed.out.contains("set-up: memory 22.9 GiB  page tables 2.3 GiB"), "{}", packed.out);
    assert_eq!(sources(&json(folder.path(), &["sosreport.tar.xz"])), all);
}

#[test]
fn hosts_are_kept_apart_and_the_same_file_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), "in/sa21");
    std::fs::hard_link(folder.path().join("in/sa21"), folder.path().join("in/sa21.again")).unwrap();
    let watcher = "oswatcher/oswvmstat/db_1.example.com_vmstat_26.11.22.0000.dat";
    copy(&fixtures(watcher), folder.path(), "in/db_1.example.com_vmstat_26.11.22.0000.dat");
    let report = json(folder.path(), &["in", "in/sa21"]);
    let hosts: Vec<String> = sources(&report).into_iter().map(|(_, host, _)| host).collect();
    assert_eq!(hosts, ["db_1.example.com", "db1"], "{report:#}");
}

#[test]
fn what_is_refused_is_told_where_it_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    copy(&fixtures("sysstat/12.2.3.xz"), path, "in/good");
    put(path, "in/other-endian", b"\xd5\x96\x21\x75 and more");
    put(path, "in/readme", "nothing of a collector");
    for (words, code, what) in [
        (&["in/readme"][..], 2, "in/readme: is of no format that is known"),
        (&["in/other-endian"], 2, "big-endian"),
        (&["nowhere"], 2, "nowhere: cannot be read: No such file"),
        (&["/dev/null"], 2, "neither a file nor a folder"),
    ] {
        let said = within(path, words);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{words:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
    std::fs::create_dir(path.join("empty")).unwrap();
    let said = within(path, &["empty"]);
    assert!(said.code == 2 && said.err.contains("no archive of a collector is in empty"), "{}", said.err);
    // Beside others it is no reason to stop, and the answer is not whole.
    let said = within(path, &["in"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.out.contains("other-endian: ") && said.out.contains("1 file was not read"), "{}", said.out);
    assert!(!said.out.contains("readme:"), "{}", said.out);
    assert_eq!(within(path, &["in/good", "nowhere"]).code, 3);
    assert_eq!(within(path, &["in/good"]).code, 0);
}

#[test]
fn no_link_leads_out_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    copy(&fixtures("sysstat/12.2.3.xz"), path, "outside/sa20");
    copy(&fixtures("sysstat/12.2.3.xz"), path, "in/sa21");
    symlink("../outside/sa20", path.join("in/sa20")).unwrap();
    symlink("../outside", path.join("in/more")).unwrap();
    let report = json(path, &["in"]);
    assert_eq!(sources(&report).len(), 1);
    assert!(report["passed_over"].to_string().contains("2 links in in are not followed"), "{report:#}");
    // Whoever names a link means what it leads to.
    assert_eq!(sources(&json(path, &["in/sa20"])).len(), 1);
}

/// A tar as no tool makes it.
fn hostile(entries: &[(&str, u8, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, target, content) in entries {
        let mut block = [0_u8; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..107].copy_from_slice(b"0000600");
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[148..156].fill(b' ');
        block[156] = *kind;
        block[157..157 + target.len()].copy_from_slice(target.as_bytes());
        block[257..265].copy_from_slice(b"ustar  \0");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        bytes.extend(block);
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend([0; 1024]);
    bytes
}

#[test]
fn hostile_tars_reach_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let sa = std::fs::read(fixtures("sysstat/12.2.3.xz")).unwrap();
    put(
        path,
        "out.tar",
        hostile(&[("sa/sa21", b'0', "", &sa), ("../../escaped", b'0', "", b"x"), ("sa/sa22", b'0', "", &sa)]),
    );
    let said = within(path, &["--format", "json", "out.tar"]);
    let report = said.json();
    assert_eq!(said.code, 3, "{report:#}");
    assert!(report["sources"].to_string().contains("../../escaped: leads out of the archive"), "{report:#}");
    assert!(!path.parent().unwrap().join("escaped").exists());

    // Links and devices are nothing; an absolute path is one in the tar.
    put(
        path,
        "kinds.tar",
        hostile(&[
            ("sa21", b'2', "/etc/passwd", b""),
            ("null", b'3', "", b""),
            ("pipe", b'6', "", b""),
            ("hard", b'1', "/etc/shadow", b""),
            ("/var/log/sa/sa21", b'0', "", &sa),
        ]),
    );
    let report = json(path, &["kinds.tar"]);
    assert_eq!(sources(&report).len(), 1);
    assert_eq!(report["sources"][0]["path"], "kinds.tar:var/log/sa/sa21");

    // Cut short in the middle of a file.
    let whole = hostile(&[("sa21", b'0', "", &sa), ("sa22", b'0', "", &sa)]);
    put(path, "torn.tar", &whole[..whole.len() - 1024 - sa.len() / 2]);
    let said = within(path, &["torn.tar"]);
    assert!(said.code == 3 && said.out.contains("truncated after 1 entries"), "{}", said.out);

    // A name that is a megabyte and more of the reader's memory.
    let long = vec![b'a'; 2 << 20];
    put(path, "name.tar", hostile(&[("././@LongLink", b'L', "", &long), ("x", b'0', "", &sa)]));
    let said = within(path, &["name.tar"]);
    assert!(said.code == 2 && said.err.contains("names of more than 1 MiB"), "{}", said.err);
}

/// PCP's own tools read its archives; where they are not installed that is said.
#[test]
fn an_archive_of_pcp_is_read_from_a_folder_and_from_a_tar() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["0", "meta", "index"] {
        copy(&fixtures(&format!("collectors/pcp.{part}.xz")), folder.path(), &format!("pcp/20261122.{part}.xz"));
    }
    tar(folder.path(), &["-czf"], "pcp.tgz", "pcp");
    for (given, label) in
        [("pcp", "pcp/20261122"), ("pcp/20261122.meta.xz", "pcp/20261122"), ("pcp.tgz", "pcp.tgz:pcp/20261122")]
    {
        let said = within(folder.path(), &["--format", "json", given]);
        if !Path::new("/usr/bin/pmrep").is_file() {
            hugewise_lab::guard::Skip("pmrep (Debian: pcp) is not installed".into()).report();
            assert!(said.code == 2 && said.err.contains("package pcp"), "{}", said.err);
            continue;
        }
        let report = said.json();
        assert_eq!(sources(&report), [("pcp".to_owned(), "db1".to_owned(), 6)], "{given} {report:#}");
        assert_eq!(report["sources"][0]["path"], label);
    }
}

/// Whoever is killed cleans up nothing: somebody else has to.
#[test]
fn one_that_is_ended_in_the_middle_leaves_nothing_behind() {
    if !Path::new("/usr/bin/pmrep").is_file() {
        return hugewise_lab::guard::Skip("pmrep (Debian: pcp) is not installed".into()).report();
    }
    let folder = tempfile::tempdir().unwrap();
    for part in ["0", "meta", "index"] {
        copy(&fixtures(&format!("collectors/pcp.{part}.xz")), folder.path(), &format!("pcp/20261122.{part}.xz"));
    }
    tar(folder.path(), &["-czf"], "pcp.tgz", "pcp");
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let left = || std::fs::read_dir(&scratch).unwrap().count();
    // Whoever starts tests in the background may have them ignore SIGINT.
    for signal in [Signal::TERM, Signal::KILL] {
        // One that has ended before the signal came shows nothing.
        let ended_early = (0..100).all(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
            command.args(["investigate", "pcp.tgz"]).current_dir(folder.path()).env("TMPDIR", &scratch);
            let mut child = command.stdout(Stdio::null()).spawn().unwrap();
            while left() == 0 && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            child.wait().unwrap().signal().is_none()
        });
        assert!(!ended_early, "{signal:?} never came in time");
        let begun = Instant::now();
        while left() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "something was left behind");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_run_without_a_terminal_is_silent() {
    let folder: TempDir = tempfile::tempdir().unwrap();
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), "sa21");
    let said = within(folder.path(), &["sa21"]);
    assert_eq!(said.err, "");
    assert!(!said.out.contains('\u{1b}'));
}

#[test]
fn the_page_that_welcomes_shows_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let said = within(folder.path(), &[fixtures("collectors/two-freezes.sar").to_str().unwrap()]);
    assert_eq!(said.code, 1, "{}", said.err);
    let page = std::fs::read_to_string(fixtures("../README.md")).unwrap();
    let (_, example) = page.split_once("$ hugewise investigate fixtures/collectors/two-freezes.sar\n").unwrap();
    let shown: Vec<&str> = example.lines().take_while(|line| line.is_empty() || line.starts_with("    ")).collect();
    assert!(shown.len() > 12, "{shown:?}");
    for line in shown.into_iter().filter(|line| !line.is_empty() && line.trim() != "...") {
        let line = line.strip_prefix("    ").unwrap();
        assert!(said.out.lines().any(|printed| printed == line), "{line:?} is not in\n{}", said.out);
    }
}

/// Forty hosts that froze alike: a table with a line each comes first, a story on demand, and the page that holds the worst of
/// a thousand stays below 5 MB.
#[test]
fn many_hosts_are_a_table_and_a_story_on_demand() {
    let folder = TempDir::new().unwrap();
    let frozen = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    let made = |from: usize, to: usize| {
        for number in from..to {
            put(folder.path(), &format!("sar/sar{number}"), frozen.replace("(db7)", &format!("(db{number})")));
        }
    };
    made(0, 40);
    let table = within(folder.path(), &["sar"]);
    assert_eq!(table.code, 1, "{}", table.err);
    for number in 0..40 {
        assert_eq!(table.out.lines().filter(|line| line.starts_with(&format!("db{number} "))).count(), 1, "{number}");
    }
    assert!(!table.out.contains("confidence medium") && table.out.contains("--host db0"), "{}", table.out);

    let story = within(folder.path(), &["sar", "--host", "db17"]);
    assert!(
        story.code == 1 && story.out.starts_with("db17 ") && story.out.contains("confidence medium"),
        "{}",
        story.out
    );
    let one = json(folder.path(), &["sar", "--host", "DB17", "--host", "db3"]);
    let mut names: Vec<&str> =
        one["incidents"].as_array().unwrap().iter().map(|incident| incident["host"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(names, ["db17", "db3"]);
    let none = within(folder.path(), &["sar", "--host", "db40"]);
    assert!(none.code == 2 && none.err.contains("db40"), "{}", none.err);

    made(40, 1000);
    let page = within(folder.path(), &["sar", "--format", "html"]);
    assert!(page.code == 1 && page.out.len() < 5_000_000, "{} bytes", page.out.len());
    assert!((0..1000).all(|number| page.out.contains(&format!(">db{number}<"))));
}

/// What a person would lay beside each other by hand: a day of sar, the kernel's messages, which say no year, and the alert log.
#[test]
fn logs_and_collectors_are_one_story() {
    let folder = TempDir::new().unwrap();
    copy(&fixtures("collectors/two-freezes.sar"), folder.path(), "db7/sar21");
    let mut messages = String::from(
        "Nov 21 07:00:01 db7 systemd[1]: Started Session 12 of user root.\n\
         Nov 21 08:32:20 db7 kernel: crond invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
         Nov 21 08:32:20 db7 kernel: [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n",
    );
    // 400 sessions with 2,560 tables of 4 KiB each: 3.9 GiB.
    for pid in 4000..4400 {
        let _ =
            writeln!(messages, "Nov 21 08:32:20 db7 kernel: [ {pid}]   500  {pid}  8912345  1234   2560  0  0 oracle");
    }
    messages.push_str(
        "Nov 21 08:32:21 db7 kernel: Out of memory: Kill process 4711 (oracle) score 12 or sacrifice child\n\
         Nov 21 08:32:21 db7 kernel: Killed process 4711 (oracle) total-vm:35649380kB, anon-rss:1024kB, file-rss:2048kB\n",
    );
    put(folder.path(), "db7/messages", &messages);
    let alert = "Sat Nov 21 06:00:00 2026\nStarting ORACLE instance (normal)\nSat Nov 21 08:31:00 2026\n\
                 WARNING: inbound connection timed out (ORA-3136)\n";
    put(folder.path(), "db7/alert_PROD.log", alert);

    let report = json(folder.path(), &["db7"]);
    let formats: Vec<&str> =
        report["sources"].as_array().unwrap().iter().map(|one| one["format"].as_str().unwrap()).collect();
    assert_eq!(formats, ["server log", "system log", "sar"], "{report:#}");
    let incident = &report["incidents"][0];
    assert_eq!((&incident["verdict"], &incident["confidence"]), (&json!("reclaim-by-page-tables"), &json!("high")));
    let summary = incident["summary"].as_str().unwrap();
    for words in ["the kernel killed oracle (pid 4711", "400 processes of oracle held 3.9 GiB of page tables"] {
        assert!(summary.contains(words), "{summary}");
    }
    let kinds: Vec<&str> =
        incident["signatures"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"oom") && kinds.contains(&"server-log"), "{kinds:?}");

    // A log alone is a witness too, and one that says nothing of memory is quiet.
    let alone = json(folder.path(), &["db7/messages"]);
    assert_eq!(alone["incidents"][0]["verdict"], "out-of-memory");
    // Every user may write into such a file; what dmesg prints is the kernel's own.
    assert_eq!(alone["incidents"][0]["confidence"], "medium");
    assert!(alone["incidents"][0]["against"].to_string().contains("logger"), "{alone:#}");
    let own: String = messages
        .lines()
        .filter_map(|line| line.split_once("kernel: "))
        .map(|(_, message)| format!("[Sat Nov 21 08:32:21 2026] {message}\n"))
        .collect();
    put(folder.path(), "dmesg-T", own);
    let own = json(folder.path(), &["dmesg-T"]);
    assert_eq!(
        (&own["incidents"][0]["verdict"], &own["incidents"][0]["confidence"]),
        (&json!("out-of-memory"), &json!("high"))
    );
    put(folder.path(), "quiet", "Nov 21 07:00:01 db7 systemd[1]: Started Session 12 of user root.\n");
    let quiet = within(folder.path(), &["quiet"]);
    assert!(quiet.code == 0 && quiet.out.contains("kills for memory"), "{}", quiet.out);
    let since_boot =
        "[    0.000000] Linux version 6.1.0\n[ 4321.000001] INFO: task oracle:1 blocked for more than 120 seconds.\n";
    put(folder.path(), "dmesg", since_boot);
    let refused = within(folder.path(), &["dmesg"]);
    assert!(refused.code == 2 && refused.err.contains("dmesg -T"), "{}", refused.err);
}

/// A capture with the archive in it: what is to be done next is what check says of the same host, with its numbers.
#[test]
fn an_incident_over_page_tables_ends_with_what_check_says_of_the_host() {
    let folder = TempDir::new().unwrap();
    let capture = fixtures("hosts/oracle-many-sessions");
    let copied = Command::new("cp").arg("-a").arg(&capture).arg(folder.path().join("db7")).status().unwrap();
    assert!(copied.success());
    copy(&fixtures("collectors/two-freezes.sar"), folder.path(), "db7/var/log/sa/sar21");
    let report = json(folder.path(), &["db7"]);
    let next = report["incidents"][0]["next"][0].as_str().unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    check.args(["check", "--color", "never", "--root", "db7"]).current_dir(folder.path()).env("COLUMNS", "500");
    let checked = Said::by(&mut check).out;
    let todo = checked.lines().map(|line| line.trim_start().trim_start_matches("do ").trim_start());
    let pool = todo.clone().find(|line| line.starts_with("set the pool of 2 MiB pages to ")).unwrap();
    assert!(next.starts_with("hugewise plan --root ") && next.contains(pool), "{next}\n{checked}");
    assert!(next.contains("restart oracle PROD"), "{next}");
}

/// A loop around ps beside sar's day: who grew, whose processes became more, and who was stuck stands with the incident.
#[test]
fn who_did_it_is_told_where_processes_were_listed() {
    let folder = TempDir::new().unwrap();
    copy(&fixtures("collectors/two-freezes.sar"), folder.path(), "sar21");
    let mut log = String::new();
    for (time, job, sessions, stuck) in [
        ("08:00:00", 1_u64, 80, 0),
        ("08:10:00", 1, 80, 0),
        ("08:25:00", 4, 200, 40),
        ("08:35:00", 6, 240, 120),
        ("08:50:00", 1, 80, 0),
    ] {
        let _ = writeln!(log, "Sat Nov 21 {time} 2026");
        log.push_str("USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n");
        // The job has so many GiB, a session 16 MiB.
        let _ = writeln!(
            log,
            "batch       4000  1.0  1.0 9999999 {} ?        S    08:00   0:01 /opt/batch/job --all",
            job << 20
        );
        for pid in 0..sessions {
            let state = if pid < stuck { "D" } else { "S" };
            let _ =
                writeln!(log, "oracle {} 0.0 0.1 9999999 16384 ? {state} 08:00 0:01 oraclePROD (LOCAL=NO)", 5000 + pid);
        }
    }
    put(folder.path(), "ps.log", &log);
    let report = json(folder.path(), &["sar21", "ps.log", "--timezone", "UTC"]);
    let who = report["incidents"][0]["who"].clone();
    // 80 sessions have 1,280 MiB, 240 have 3,840.
    assert_eq!(
        who,
        json!([
            "job grew from 1.0 GiB to 6.0 GiB",
            "oraclePROD grew from 1.2 GiB to 3.8 GiB in 240 processes, what they share counted in each",
            "processes of oraclePROD rose from 80 to 240",
            "up to 120 processes of oraclePROD were stuck at once (state D)",
        ]),
        "{report:#}"
    );
    let told = within(folder.path(), &["sar21", "ps.log", "--timezone", "UTC"]);
    assert!(told.out.contains("who     job grew from 1.0 GiB to 6.0 GiB"), "{}", told.out);
}

/// What people paste: a quotation out of a mail, tables without sar's first line, and lines without times.
#[test]
fn pasted_text_is_read_as_far_as_it_says_or_is_told_when() {
    let folder = TempDir::new().unwrap();
    let sar = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    let incidents = |words: &[&str]| {
        let report = json(folder.path(), words);
        report["incidents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["from"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    put(folder.path(), "sar", &sar);
    let whole = incidents(&["sar"]);
    assert_eq!(whole.len(), 2);

    let quoted: String = sar.lines().map(|line| format!("> {}\r\n", line.replace(' ', "\u{a0}"))).collect();
    put(folder.path(), "mail", format!("Hi all,\r\n\r\nsee below\r\n{quoted}"));
    assert_eq!(incidents(&["mail"]), whole);

    let headless: String = sar.lines().skip(2).map(|line| format!("{line}\n")).collect();
    put(folder.path(), "headless", format!("[root@db7 ~]# sar -A\n{headless}"));
    let told = incidents(&["headless", "--from", "2026-11-21"]);
    assert_eq!(told, whole);
    assert!(within(folder.path(), &["headless"]).out.contains("--from says it"));

    let mut loops = String::new();
    for look in 0..60 {
        let _ =
            writeln!(loops, "PageTables:    {} kB{}", 60_000 + 500 * look, if look == 40 { "   <== PEAK" } else { "" });
    }
    put(folder.path(), "loop", &loops);
    let refused = within(folder.path(), &["loop"]);
    assert!(refused.code == 2 && refused.err.contains("--interval"), "{}", refused.err);
    let said = json(folder.path(), &["loop", "--interval", "3", "--from", "2026-11-21 08:00"]);
    let source = &said["sources"][0];
    assert_eq!(source["samples"], 60);
    // 59 intervals of 3 s behind 08:00:00.
    assert!(source["to"].as_str().unwrap().starts_with("2026-11-21T08:02:57"), "{source}");

    let vmstat = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n".to_owned()
        + &" 1  0      0 800000  20000 300000    0    0     5    10  100  200  5  3 92  0  0\n".repeat(20);
    put(folder.path(), "vmstat", vmstat);
    assert!(within(folder.path(), &["vmstat"]).err.contains("--interval"));
    assert_eq!(json(folder.path(), &["vmstat", "--interval", "5s"])["sources"][0]["samples"], 20);
    let wrong = within(folder.path(), &["vmstat", "--interval", "soon"]);
    assert!(wrong.code == 2 && wrong.err.contains("--interval soon"), "{}", wrong.err);
}
