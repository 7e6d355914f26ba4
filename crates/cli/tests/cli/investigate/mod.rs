//! `hugewise investigate` as its users run it: on files, folders, tars and sosreports of real
//! tools, and on what is made to do harm.

mod together;

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Said, fixtures};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs it in a folder, which is where it may put what it needs for itself, and must leave nothing.
fn within(folder: &Path, words: &[&str]) -> Said {
    let scratch = folder.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    command
        .arg("investigate")
        .args(words)
        .current_dir(folder)
        .env("TMPDIR", &scratch)
        .env("COLUMNS", "80");
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
    sources
        .map(|one| (text(&one["format"]), text(&one["host"]), one["samples"].as_u64().unwrap_or(0)))
        .collect()
}

fn tar(folder: &Path, flags: &[&str], name: &str, what: &str) {
    let done =
        Command::new("tar").current_dir(folder).args(flags).args([name, what]).status().unwrap();
    assert!(done.success());
}

/// Four hours, a line a minute, of a host whose page tables grow until it stands in reclaim from
/// 11:00 to 11:05: as `vmstat -t` and a loop of date and the kernel's files write it.
fn storm(folder: &Path) {
    let mut vmstat = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- \
             -----timestamp-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa \
             st                 UTC\n",
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
            " {queue}  0      0 {free}  10000 4000000    0    0     1    20 1000 2000 {user} \
                 {system} {idle}  0  0 2026-11-21 {hour:02}:{rest:02}:00"
        )
        .unwrap();
        writeln!(
            kernel,
            "Sat Nov 21 {hour:02}:{rest:02}:00 UTC 2026\nMemTotal: 20000000 kB\nMemFree: {free} \
                 kB\nPageTables: {tables} kB\n\
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
    for word in [
        "eclaim storm driven by page tables",
        "incidents ",
        "page tables",
        "hugewise size",
        "▁",
        "█",
    ] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    // Before it page tables only grew, and in its first half hour they were small.
    let before = within(folder.path(), &["logs", "--to", "10:30"]);
    assert!(before.code == 1 && before.out.contains("They grew from"), "{}", before.out);
    assert!(
        before.out.contains("08:00:00 to 10:30:00")
            && !before.out.contains("driven by page tables"),
        "{}",
        before.out
    );
    let first = within(folder.path(), &["logs", "--to", "08:20"]);
    assert!(first.code == 0 && first.out.contains("Nothing found"), "{}", first.out);
    let html = within(folder.path(), &["logs", "--format", "html"]);
    assert!(html.code == 1 && html.out.starts_with("<!DOCTYPE html>"));
}

/// What nobody did is not told as done by nobody, and one is one.
#[test]
fn no_sentence_counts_nothing_or_says_one_rows() {
    let folder = tempfile::tempdir().unwrap();
    for archive in ["base", "busy", "disk", "huge", "troubles"] {
        let said =
            within(folder.path(), &[fixtures(&format!("incident/{archive}")).to_str().unwrap()])
                .out;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for odd in ["scanned up to 0 B", "kswapd 0 B", " 1 more rows", " 1 files", "up to 0 "] {
            assert!(!words.contains(odd), "{archive}: {odd}: {said}");
        }
    }
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
    assert_eq!(
        (berlin.0, berlin.1),
        (json!("2026-11-21T08:00:00+01:00"), json!("2026-11-21T11:59:00+01:00"))
    );
    assert_eq!(first(&["--timezone", "-03:30"]).0, "2026-11-21T08:00:00-03:30");
    let said = within(folder.path(), &["kernel.log", "--timezone", "Mars/Phobos"]);
    assert!(
        said.code == 2 && said.err.contains("Mars/Phobos: there is no such zone"),
        "{}",
        said.err
    );
    for (words, what) in [
        (&["--from", "yesterday"][..], "is not a time; write"),
        (&["--from", "11:00", "--to", "10:00"], "--from is not before --to"),
        (
            &["--from", "2027-01-01"],
            "the samples run from 2026-11-21T08:00:00 to 2026-11-21T11:59:00",
        ),
    ] {
        let said = within(folder.path(), &[&["kernel.log"], words].concat());
        assert!(said.code == 2 && said.err.contains(what), "{}", said.err);
    }
}

#[test]
fn rows_are_written_as_they_were_read() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    let said = within(
        folder.path(),
        &["logs", "--series", "rows.csv", "--from", "11:00", "--to", "11:09"],
    );
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
    put(
        folder.path(),
        "archive/old.zip",
        [b"PK\x03\x04\x14\0\0\0\x63\0".as_slice(), &[0; 40]].concat(),
    );
    let unpacked = json(folder.path(), &["archive"]);
    assert_eq!(sources(&unpacked).len(), 5, "{unpacked:#}");
    let passed = unpacked["passed_over"].to_string();
    assert!(passed.contains("1 file in archive is in no known format"), "{passed}");
    assert!(passed.contains("1 file in archive is a zip with several files"), "{passed}");
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
        assert_eq!(
            packed["signatures"].as_array().map(Vec::len),
            unpacked["signatures"].as_array().map(Vec::len)
        );
        let path = packed["sources"][0]["path"].as_str().unwrap();
        assert!(path.starts_with(&format!("{name}:archive/")), "{path}");
    }
    // Tars of several hosts in a tar, as `sos collect` makes them.
    std::fs::create_dir(folder.path().join("all")).unwrap();
    std::fs::rename(folder.path().join("a.tar.xz"), folder.path().join("all/one.tar.xz")).unwrap();
    tar(folder.path(), &["-cf"], "all.tar", "all");
    let nested = json(folder.path(), &["all.tar"]);
    assert_eq!(sources(&nested), sources(&unpacked));
    assert!(
        nested["sources"][0]["path"]
            .as_str()
            .unwrap()
            .starts_with("all.tar:all/one.tar.xz:archive/")
    );
}

#[test]
fn nodes_with_the_same_trouble_are_told_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let story = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    for node in ["rac1", "rac2"] {
        put(
            folder.path(),
            &format!("nodes/{node}.sar"),
            story.replace("(db7)", &format!("({node})")),
        );
    }
    let report = json(folder.path(), &["nodes"]);
    let incidents = report["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 4, "{report:#}");
    for incident in incidents {
        let other = if incident["host"] == "rac1" { "rac2" } else { "rac1" };
        let told = format!(
            "{other} had the same, which began in the same second by their wall clocks: look for \
                 what they share"
        );
        assert_eq!(incident["elsewhere"], json!([told]));
    }
    let said = within(folder.path(), &["nodes"]);
    assert!(said.out.contains("also    rac2 had the same"), "{}", said.out);
    // One host alone has nothing of the kind.
    let alone = json(folder.path(), &["nodes/rac1.sar"]);
    assert_eq!(alone["incidents"][0].get("elsewhere"), None);
}

/// Nothing was written from 03:10 on, and the host started at 03:52: an incident, and the exit code
/// says so.
#[test]
fn a_hang_that_ended_in_a_reset_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let heading = "CPU %user %nice %system %iowait %steal %idle";
    let mut text =
        format!("Linux 5.14.0 (db1) \t11/21/26 \t_x86_64_\t(4 CPU)\n\n00:00:01  {heading}\n");
    let line = |text: &mut String, slot: u32| {
        let (hour, minute, system) = (slot / 6, slot % 6 * 10, 2 + slot % 3);
        writeln!(
            text,
            "{hour:02}:{minute:02}:01  all 10.00 0.00 {system}.00 1.00 0.00 {}.00",
            89 - system
        )
        .unwrap();
    };
    (1..20).for_each(|slot| line(&mut text, slot));
    write!(text, "\n03:52:20     LINUX RESTART\t(4 CPU)\n\n04:00:01  {heading}\n").unwrap();
    (25..100).for_each(|slot| line(&mut text, slot));
    put(folder.path(), "sar21", text);
    let said = within(folder.path(), &["sar21"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("03:10:01 to 03:52:20, confidence low"), "{}", said.out);
    for words in
        ["1  The host fell silent: nothing was written for 42 minutes", "last -x shutdown reboot"]
    {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
}

#[test]
fn what_zip_and_compress_packed_is_read() {
    let folder = tempfile::tempdir().unwrap();
    storm(folder.path());
    let plain = json(folder.path(), &["logs/kernel.log"]);
    let done = Command::new("zip")
        .current_dir(folder.path())
        .args(["-q", "kernel.zip", "logs/kernel.log"])
        .status();
    assert!(done.unwrap().success());
    let zipped = json(folder.path(), &["kernel.zip"]);
    assert_eq!(sources(&zipped), sources(&plain));
    assert_eq!(zipped["incidents"][0]["verdict"], plain["incidents"][0]["verdict"]);
    // ncompress packed it, and what it holds are numbers.
    copy(&fixtures("collectors/compress-16.Z"), folder.path(), "numbers.Z");
    let refused = within(folder.path(), &["numbers.Z"]);
    assert!(
        refused.code == 2 && refused.err.contains("is in no format that hugewise knows"),
        "{}",
        refused.err
    );
}

#[test]
fn a_sosreport_tells_how_its_host_is_set_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| format!("sosreport-db1-2026-11-22/{path}");
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), &at("var/log/sa/sa22.xz"));
    // sos has what sar prints beside it.
    copy(&fixtures("sysstat/12.2.3.xz"), folder.path(), &at("var/log/sa/copy-of-sa22.xz"));
    put(
        folder.path(),
        &at("proc/meminfo"),
        "MemTotal: 24000000 kB\nPageTables: 2400000 kB\nHugepagesize: 2048 kB\n",
    );
    put(folder.path(), &at("proc/vmstat"), "nr_free_pages 1\n");
    put(folder.path(), &at("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "0\n");
    put(
        folder.path(),
        &at("sys/kernel/mm/transparent_hugepage/enabled"),
        "[always] madvise never\n",
    );
    put(folder.path(), &at("etc/hostname"), "db1\n");
    put(folder.path(), &at("sos_commands/host/hostname"), "db1\n");
    // Another host's log, without a name, whose zone the sosreport says.
    put(
        folder.path(),
        &at("sos_commands/systemd/timedatectl"),
        "  Time zone: Asia/Kolkata (IST, +0530)\n",
    );
    put(
        folder.path(),
        &at("var/log/kernel.log"),
        "Sun Nov 22 04:17:30 IST 2026\nMemTotal: 9 kB\nMemFree: 5 kB\n",
    );
    symlink("/etc/localtime", folder.path().join(at("localtime"))).unwrap();

    let report = json(folder.path(), &["sosreport-db1-2026-11-22"]);
    let all = sources(&report);
    assert_eq!(all.iter().filter(|(_, host, _)| host == "db1").count(), 3, "{report:#}");
    let times: Vec<&str> = report["sources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["from"].as_str())
        .collect();
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
        (&["in/readme"][..], 2, "in/readme: is in no format that hugewise knows"),
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
    assert!(
        said.code == 2 && said.err.contains("there is no collector's archive in empty"),
        "{}",
        said.err
    );
    // Beside others it is no reason to stop, and the answer is not whole.
    let said = within(path, &["in"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.out.contains("other-endian: ") && said.out.contains("1 file was not read"),
        "{}",
        said.out
    );
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
    assert!(
        report["passed_over"].to_string().contains("2 links in in are not followed"),
        "{report:#}"
    );
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
        hostile(&[
            ("sa/sa21", b'0', "", &sa),
            ("../../escaped", b'0', "", b"x"),
            ("sa/sa22", b'0', "", &sa),
        ]),
    );
    let said = within(path, &["--format", "json", "out.tar"]);
    let report = said.json();
    assert_eq!(said.code, 3, "{report:#}");
    assert!(
        report["sources"].to_string().contains("../../escaped: leads out of the archive"),
        "{report:#}"
    );
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
        copy(
            &fixtures(&format!("collectors/pcp.{part}.xz")),
            folder.path(),
            &format!("pcp/20261122.{part}.xz"),
        );
    }
    tar(folder.path(), &["-czf"], "pcp.tgz", "pcp");
    for (given, label) in [
        ("pcp", "pcp/20261122"),
        ("pcp/20261122.meta.xz", "pcp/20261122"),
        ("pcp.tgz", "pcp.tgz:pcp/20261122"),
    ] {
        let said = within(folder.path(), &["--format", "json", given]);
        if !Path::new("/usr/bin/pmrep").is_file() {
            hugewise_testkit::Skip("pmrep (Debian: pcp) is not installed".into()).report();
            assert!(said.code == 2 && said.err.contains("package pcp"), "{}", said.err);
            continue;
        }
        let report = said.json();
        assert_eq!(
            sources(&report),
            [("pcp".to_owned(), "db1".to_owned(), 6)],
            "{given} {report:#}"
        );
        assert_eq!(report["sources"][0]["path"], label);
    }
}

/// Whoever is killed cleans up nothing: somebody else has to.
#[test]
fn one_that_is_ended_in_the_middle_leaves_nothing_behind() {
    if !Path::new("/usr/bin/pmrep").is_file() {
        return hugewise_testkit::Skip("pmrep (Debian: pcp) is not installed".into()).report();
    }
    let folder = tempfile::tempdir().unwrap();
    for part in ["0", "meta", "index"] {
        copy(
            &fixtures(&format!("collectors/pcp.{part}.xz")),
            folder.path(),
            &format!("pcp/20261122.{part}.xz"),
        );
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
            command
                .args(["investigate", "pcp.tgz"])
                .current_dir(folder.path())
                .env("TMPDIR", &scratch);
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
    let (_, example) =
        page.split_once("$ hugewise investigate fixtures/collectors/two-freezes.sar\n").unwrap();
    let shown: Vec<&str> =
        example.lines().take_while(|line| line.is_empty() || line.starts_with("    ")).collect();
    assert!(shown.len() > 12, "{shown:?}");
    for line in shown.into_iter().filter(|line| !line.is_empty() && line.trim() != "...") {
        let line = line.strip_prefix("    ").unwrap();
        assert!(
            said.out.lines().any(|printed| printed == line),
            "{line:?} is not in\n{}",
            said.out
        );
    }
}
