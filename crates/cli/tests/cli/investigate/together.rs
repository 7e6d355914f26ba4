//! What is told of many hosts, of logs beside collectors, of processes and of what people paste.

use std::fmt::Write;
use std::process::Command;

use serde_json::json as value;
use tempfile::TempDir;

use crate::investigate::{copy, json, put, within};
use crate::support::{Said, fixtures};

/// Forty hosts that froze alike: a table with a line each comes first, a story on demand, and the
/// page that holds the worst of a thousand stays below 5 MB.
#[test]
fn many_hosts_are_a_table_and_a_story_on_demand() {
    let folder = TempDir::new().unwrap();
    let frozen = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    let made = |from: usize, to: usize| {
        for number in from..to {
            put(
                folder.path(),
                &format!("sar/sar{number}"),
                frozen.replace("(db7)", &format!("(db{number})")),
            );
        }
    };
    made(0, 40);
    let table = within(folder.path(), &["sar"]);
    assert_eq!(table.code, 1, "{}", table.err);
    for number in 0..40 {
        assert_eq!(
            table.out.lines().filter(|line| line.starts_with(&format!("db{number} "))).count(),
            1,
            "{number}"
        );
    }
    assert!(
        !table.out.contains("confidence medium") && table.out.contains("--host db0"),
        "{}",
        table.out
    );

    let story = within(folder.path(), &["sar", "--host", "db17"]);
    assert!(
        story.code == 1
            && story.out.contains("\ndb17 ")
            && story.out.starts_with("The gravest of 2 incidents is 1: ")
            && story.out.contains("confidence medium"),
        "{}",
        story.out
    );
    let one = json(folder.path(), &["sar", "--host", "DB17", "--host", "db3"]);
    let mut names: Vec<&str> = one["incidents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|incident| incident["host"].as_str().unwrap())
        .collect();
    names.dedup();
    assert_eq!(names, ["db17", "db3"]);
    let none = within(folder.path(), &["sar", "--host", "db40"]);
    assert!(none.code == 2 && none.err.contains("db40"), "{}", none.err);

    made(40, 1000);
    let page = within(folder.path(), &["sar", "--format", "html"]);
    assert!(page.code == 1 && page.out.len() < 5_000_000, "{} bytes", page.out.len());
    assert!((0..1000).all(|number| page.out.contains(&format!(">db{number}<"))));
}

/// What vmstat wrote on each of eighty hosts, in a folder each: no file says whose it is. Every
/// tenth stood in the kernel for an hour.
#[test]
fn a_folder_is_a_host_where_no_file_names_one() {
    let folder = TempDir::new().unwrap();
    for number in 0..80 {
        let mut text = String::from(
            "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- \
                 -----timestamp-----\n \
             r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa \
                 st                 UTC\n",
        );
        for minute in 0..600 {
            let system =
                if number % 10 == 0 && (300..360).contains(&minute) { 80 } else { 2 + minute % 3 };
            writeln!(
                text,
                " 1  0      0 {} 200000 8000000    0    0     5    40  900 1500 10 {system} {} 0 \
                     0 2026-11-21 {:02}:{:02}:00",
                4_000_000 + number,
                90 - system,
                minute / 60,
                minute % 60
            )
            .unwrap();
        }
        put(folder.path(), &format!("all/db{number}/vmstat.txt"), text);
    }
    let table = within(folder.path(), &["all"]);
    assert_eq!(table.code, 1, "{}", table.err);
    let bad = |line: &&str| line.contains("kernel busy");
    let told: Vec<&str> = table
        .out
        .lines()
        .filter(bad)
        .map(|line| line.split_ascii_whitespace().next().unwrap())
        .collect();
    assert_eq!(told, ["db0", "db10", "db20", "db30", "db40", "db50", "db60", "db70"]);
    // A host far behind the worst has its whole story when it is asked for.
    let story = within(folder.path(), &["all", "--host", "db79"]);
    let says = [
        "db79 ",
        "600 samples",
        "Nothing found.",
        "assumed to be from db79, because of where it is",
    ];
    let flat = story.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(story.code == 0 && says.iter().all(|said| flat.contains(said)), "{}", story.out);
    // Two given one by one are two; one alone needs no name.
    let report = json(folder.path(), &["all/db1/vmstat.txt", "all/db2/vmstat.txt"]);
    let hosts: Vec<String> =
        crate::investigate::sources(&report).into_iter().map(|(_, host, _)| host).collect();
    assert_eq!(hosts, ["db1", "db2"]);
    assert_eq!(crate::investigate::sources(&json(folder.path(), &["all/db1"]))[0].1, "-");
}

/// OSWatcher's iostat: from 09:00 to 09:05 forty requests wait at a disk that writes 48 KiB a
/// second. vmstat without times, in a folder, is read by whoever says how far apart its lines are;
/// whoever does not is told.
#[test]
fn a_disk_that_gives_nothing_and_lines_without_times() {
    let folder = TempDir::new().unwrap();
    let mut text = String::from("Linux OSWbb v8.0.1 db1\nSNAP_INTERVAL 30\nCPU_CORES 4\nVCPUS 4\n");
    for snapshot in 0..240 {
        let stalls = (120..130).contains(&snapshot);
        let (kib, queue, wait) = if stalls { (48, 40, 60) } else { (900 + snapshot % 7, 1, 1) };
        let (hour, minute, second) = (8 + snapshot / 120, snapshot / 2 % 60, snapshot % 2 * 30);
        writeln!(text, "zzz ***Sat Nov 21 {hour:02}:{minute:02}:{second:02} UTC 2026").unwrap();
        for _ in 0..3 {
            let idle = 90 - wait;
            writeln!(
                text,
                "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n 8.0 0.0 2.0 {wait}.0 \
                     0.0 {idle}.0\n"
            )
            .unwrap();
            writeln!(
                text,
                "Device r/s rkB/s w/s wkB/s aqu-sz %util\nsda 1.0 0.0 12.0 {kib}.00 \
                 {queue}.00 99.0\n"
            )
            .unwrap();
        }
    }
    put(folder.path(), "osw/oswiostat/db1_iostat_26.11.21.0800.dat", &text);
    let report = json(folder.path(), &["osw"]);
    let incidents = report["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 1, "{report:#}");
    assert_eq!(incidents[0]["verdict"], "disk-stall", "{report:#}");
    let from = incidents[0]["from"].as_str().unwrap();
    assert!(from.starts_with("2026-11-21T08:59") || from.starts_with("2026-11-21T09:00"), "{from}");
    assert!(
        report.to_string().contains("40 requests waited at a disk; usual here 1"),
        "{report:#}"
    );

    let mut vmstat = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n",
    );
    for line in 0..30 {
        writeln!(
            vmstat,
            " 1  0      0 {} 200000 8000000    0    0     5    40  900 1500 10  2 88  0  0",
            4_000_000 + line
        )
        .unwrap();
    }
    put(folder.path(), "plain/vmstat.out", vmstat);
    let told = within(folder.path(), &["plain"]);
    assert!(told.code == 2 && told.err.contains("--interval 3s"), "{}", told.err);
    let report = json(folder.path(), &["plain", "--interval", "10s", "--from", "2026-11-21 08:00"]);
    assert_eq!(crate::investigate::sources(&report), [("vmstat".to_owned(), "-".to_owned(), 30)]);
    assert!(
        report["sources"][0]["to"].as_str().unwrap().starts_with("2026-11-21T08:04:50"),
        "{report:#}"
    );
}

/// The same freeze on two hosts at 08:32:50 by their clocks: one moment, unless one of the clocks
/// is known to be ahead.
#[test]
fn hosts_are_compared_by_corrected_clocks() {
    let folder = TempDir::new().unwrap();
    let frozen = std::fs::read_to_string(fixtures("collectors/two-freezes.sar")).unwrap();
    for host in ["db1", "db2"] {
        put(folder.path(), &format!("{host}.sar"), frozen.replace("(db7)", &format!("({host})")));
    }
    let told = |more: &[&str]| {
        let report = json(folder.path(), &[&["db1.sar", "db2.sar"], more].concat());
        let incident = &report["incidents"][0];
        assert_eq!(incident["host"], "db1");
        let lines = incident["elsewhere"].as_array().map_or(&[][..], Vec::as_slice);
        lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(
        told(&[])[0].contains("db2 had the same, which began in the same second"),
        "{:?}",
        told(&[])
    );
    let ahead = told(&["--offset", "db2=+30s"]);
    assert!(
        ahead[0].contains("which began 30 s earlier once their clocks are corrected"),
        "{ahead:?}"
    );
    assert_eq!(told(&["--offset", "DB2=-90"]), Vec::<String>::new());
    let both = told(&["--offset", "db2=+90s", "--offset", "db1=+90s"]);
    assert!(both[0].contains("in the same second"), "{both:?}");
    for (wrong, why) in
        [("db3=+1s", "no host of that name"), ("db2", "HOST=SECONDS"), ("db2=soon", "HOST=SECONDS")]
    {
        let said = within(folder.path(), &["db1.sar", "db2.sar", "--offset", wrong]);
        assert!(said.code == 2 && said.err.contains(why), "{wrong}: {}", said.err);
    }
}

/// What a person would lay beside each other by hand: a day of sar, the kernel's messages, which
/// say no year, and the alert log.
#[test]
fn logs_and_collectors_are_one_story() {
    let folder = TempDir::new().unwrap();
    copy(&fixtures("collectors/two-freezes.sar"), folder.path(), "db7/sar21");
    let mut messages = String::from(
        "Nov 21 07:00:01 db7 systemd[1]: Started Session 12 of user root.\n\
         Nov 21 08:32:20 db7 kernel: crond invoked oom-killer: gfp_mask=0x201da, order=0, \
             oom_score_adj=0\n\
         Nov 21 08:32:20 db7 kernel: [ pid ]   uid  tgid total_vm      rss nr_ptes swapents \
             oom_score_adj name\n",
    );
    // 400 sessions with 2,560 tables of 4 KiB each: 3.9 GiB.
    for pid in 4000..4400 {
        let _ = writeln!(
            messages,
            "Nov 21 08:32:20 db7 kernel: [ {pid}]   500  {pid}  8912345  1234   2560  0  0 oracle"
        );
    }
    messages.push_str(
        "Nov 21 08:32:21 db7 kernel: Out of memory: Kill process 4711 (oracle) score 12 or \
             sacrifice child\n\
         Nov 21 08:32:21 db7 kernel: Killed process 4711 (oracle) total-vm:35649380kB, \
             anon-rss:1024kB, file-rss:2048kB\n",
    );
    put(folder.path(), "db7/messages", &messages);
    let alert = "Sat Nov 21 06:00:00 2026\nStarting ORACLE instance (normal)\nSat Nov 21 08:31:00 \
         2026\n\
                 WARNING: inbound connection timed out (ORA-3136)\n";
    put(folder.path(), "db7/alert_PROD.log", alert);

    let report = json(folder.path(), &["db7"]);
    let formats: Vec<&str> = report["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["format"].as_str().unwrap())
        .collect();
    assert_eq!(formats, ["server log", "system log", "sar"], "{report:#}");
    let incident = &report["incidents"][0];
    assert_eq!(
        (&incident["verdict"], &incident["confidence"]),
        (&value!("reclaim-by-page-tables"), &value!("high"))
    );
    let summary = incident["summary"].as_str().unwrap();
    for words in [
        "the kernel killed oracle (pid 4711",
        "400 processes of oracle held 3.9 GiB of page tables",
    ] {
        assert!(summary.contains(words), "{summary}");
    }
    let kinds: Vec<&str> = incident["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
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
        (&value!("out-of-memory"), &value!("high"))
    );
    put(
        folder.path(),
        "quiet",
        "Nov 21 07:00:01 db7 systemd[1]: Started Session 12 of user root.\n",
    );
    let quiet = within(folder.path(), &["quiet"]);
    assert!(quiet.code == 0 && quiet.out.contains("kills for memory"), "{}", quiet.out);
    let since_boot = "[    0.000000] Linux version 6.1.0\n[ 4321.000001] INFO: task oracle:1 \
         blocked for more than 120 seconds.\n";
    put(folder.path(), "dmesg", since_boot);
    let said = within(folder.path(), &["dmesg"]);
    let words = [
        "day 1 01:12:01, confidence low",
        "oracle (pid 1) hung for more than 120 s",
        "dmesg -T has the times",
    ];
    let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in words.map(|words| words.split_whitespace().collect::<Vec<_>>().join(" ")) {
        assert!(said.code == 1 && text.contains(&words), "{}", said.out);
    }
}

/// A capture with the archive in it: what is to be done next is what check says of the same host,
/// with its numbers.
#[test]
fn an_incident_over_page_tables_ends_with_what_check_says_of_the_host() {
    let folder = TempDir::new().unwrap();
    let capture = fixtures("hosts/oracle-many-sessions");
    let copied =
        Command::new("cp").arg("-a").arg(&capture).arg(folder.path().join("db7")).status().unwrap();
    assert!(copied.success());
    copy(&fixtures("collectors/two-freezes.sar"), folder.path(), "db7/var/log/sa/sar21");
    let report = json(folder.path(), &["db7"]);
    let next = report["incidents"][0]["next"][0].as_str().unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    check
        .args(["check", "--color", "never", "--root", "db7"])
        .current_dir(folder.path())
        .env("COLUMNS", "500");
    let checked = Said::by(&mut check).out;
    let todo = checked.lines().map(|line| line.trim_start().trim_start_matches("do ").trim_start());
    let pool =
        todo.clone().find(|line| line.starts_with("set the pool of 2 MiB pages to ")).unwrap();
    assert!(next.starts_with("hugewise plan --root ") && next.contains(pool), "{next}\n{checked}");
    assert!(next.contains("restart oracle PROD"), "{next}");
}

/// A loop around ps beside sar's day: who grew, whose processes became more, and who was stuck
/// stands with the incident.
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
        log.push_str(
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n",
        );
        // The job has so many GiB, a session 16 MiB.
        let _ = writeln!(
            log,
            "batch       4000  1.0  1.0 9999999 {} ?        S    08:00   0:01 /opt/batch/job --all",
            job << 20
        );
        for pid in 0..sessions {
            let state = if pid < stuck { "D" } else { "S" };
            let _ = writeln!(
                log,
                "oracle {} 0.0 0.1 9999999 16384 ? {state} 08:00 0:01 oraclePROD (LOCAL=NO)",
                5000 + pid
            );
        }
    }
    put(folder.path(), "ps.log", &log);
    let report = json(folder.path(), &["sar21", "ps.log", "--timezone", "UTC"]);
    let who = report["incidents"][0]["who"].clone();
    // 80 sessions have 1,280 MiB, 240 have 3,840.
    assert_eq!(
        who,
        value!([
            "job grew from 1.0 GiB to 6.0 GiB",
            "oraclePROD grew from 1.2 GiB to 3.8 GiB in 240 processes, shared memory counted in \
                 each",
            "processes of oraclePROD rose from 80 to 240",
            "up to 120 processes of oraclePROD were stuck at once (state D)",
        ]),
        "{report:#}"
    );
    let told = within(folder.path(), &["sar21", "ps.log", "--timezone", "UTC"]);
    assert!(told.out.contains("who     job grew from 1.0 GiB to 6.0 GiB"), "{}", told.out);
}

/// What people paste: a quotation out of a mail, tables without sar's first line, and lines without
/// times.
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

    let quoted: String =
        sar.lines().map(|line| format!("> {}\r\n", line.replace(' ', "\u{a0}"))).collect();
    put(folder.path(), "mail", format!("Hi all,\r\n\r\nsee below\r\n{quoted}"));
    assert_eq!(incidents(&["mail"]), whole);

    let headless: String = sar.lines().skip(2).map(|line| format!("{line}\n")).collect();
    put(folder.path(), "headless", format!("[root@db7 ~]# sar -A\n{headless}"));
    let told = incidents(&["headless", "--from", "2026-11-21"]);
    assert_eq!(told, whole);
    assert!(within(folder.path(), &["headless"]).out.contains("give the day with --from"));

    let mut loops = String::new();
    for look in 0..60 {
        let _ = writeln!(
            loops,
            "PageTables:    {} kB{}",
            60_000 + 500 * look,
            if look == 40 { "   <== PEAK" } else { "" }
        );
    }
    put(folder.path(), "loop", &loops);
    let refused = within(folder.path(), &["loop"]);
    assert!(refused.code == 2 && refused.err.contains("--interval"), "{}", refused.err);
    let said = json(folder.path(), &["loop", "--interval", "3", "--from", "2026-11-21 08:00"]);
    let source = &said["sources"][0];
    assert_eq!(source["samples"], 60);
    // 59 intervals of 3 s behind 08:00:00.
    assert!(source["to"].as_str().unwrap().starts_with("2026-11-21T08:02:57"), "{source}");

    let vmstat =
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
            .to_owned()
            + &" 1  0      0 800000  20000 300000    0    0     5    10  100  200  5  3 92  0  0\n"
                .repeat(20);
    put(folder.path(), "vmstat", vmstat);
    assert!(within(folder.path(), &["vmstat"]).err.contains("--interval"));
    assert_eq!(json(folder.path(), &["vmstat", "--interval", "5s"])["sources"][0]["samples"], 20);
    let wrong = within(folder.path(), &["vmstat", "--interval", "soon"]);
    assert!(wrong.code == 2 && wrong.err.contains("--interval soon"), "{}", wrong.err);
}
