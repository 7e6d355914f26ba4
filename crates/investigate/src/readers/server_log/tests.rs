#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

mod trouble;

/// `date -u -d '2026-11-21 22:47:35' +%s`
const THEN: i64 = 1_795_301_255_000;

fn events(text: &str) -> (Engine, Vec<(i64, LogEventKind, String)>) {
    let engine = detect_engine(text.as_bytes()).unwrap();
    let series = read(&mut text.as_bytes(), "log", engine).unwrap();
    (
        engine,
        series.events().map(|(at, event)| (at.0 - THEN, event.kind, event.what.clone())).collect(),
    )
}

#[test]
fn an_alert_log_tells_starts_and_trouble() {
    let text = "\
2026-11-21T22:47:35.000000+00:00
Starting ORACLE instance (normal) (OS id: 5402)
2026-11-21T22:47:36.000000+00:00
  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  ALLOCATED_PAGES  ERROR(s)
2026-11-21T22:47:36.000000+00:00
    4K       Configured               5         1049093        NONE
 2048K                0            2049                0        NONE
2026-11-21T22:48:35.000000+00:00
WARNING: inbound connection timed out (ORA-3136)
2026-11-21T22:49:35.000000+00:00
Errors in file /u01/app/oracle/diag/x.trc:
ORA-00445: background process \"m001\" did not start after 120 seconds
";
    let (engine, all) = events(text);
    assert_eq!(engine, Engine::Oracle);
    assert_eq!(
        all,
        [
            (0, LogEventKind::ServerStarted, "Oracle started an instance".to_owned()),
            (
                1000,
                LogEventKind::WithoutHugePages,
                "Oracle got 0 of 2049 huge pages of 2 MiB".to_owned()
            ),
            (
                60_000,
                LogEventKind::ServerTrouble,
                "ORA-03136: a login took longer than SQLNET.INBOUND_CONNECT_TIMEOUT".to_owned()
            ),
            (
                120_000,
                LogEventKind::ServerTrouble,
                "ORA-00445: a background process did not start within two minutes".to_owned()
            ),
        ]
    );
    let old = "\
Sat Nov 21 22:47:35 2026
Starting ORACLE instance (normal)
************************ Large Pages Information *******************
Total Shared Global Region in Large Pages = 40 GB (100%)
";
    let (_, all) = events(old);
    assert_eq!(all[1].2, "40 GB (100%) of Oracle's SGA went to huge pages");
}

/// Texts as PostgreSQL 15 writes them.
#[test]
fn postgresql_tells_refusals() {
    let text = "\
2026-11-21 22:47:35.000 UTC [4711] LOG:  database system is ready to accept connections
2026-11-21 22:47:36.000 UTC [4712] app@shop FATAL:  sorry, too many clients already
2026-11-21 22:47:37.000 UTC [4713] STATEMENT:  select 'LOG:  was terminated by signal 9'
2026-11-21 22:47:38.000 UTC [4711] LOG:  server process (PID 4720) was terminated by signal 9: \
         Killed
";
    let (engine, all) = events(text);
    assert_eq!(engine, Engine::PostgreSql);
    let kinds: Vec<_> = all.iter().map(|(at, kind, _)| (*at, *kind)).collect();
    assert_eq!(
        kinds,
        [
            (0, LogEventKind::ServerStarted),
            (1000, LogEventKind::ServerTrouble),
            (3000, LogEventKind::ServerFailed),
        ]
    );
}

/// Texts as MariaDB 10.11 and MySQL 8.0 write them.
#[test]
fn mariadb_and_mysql_tell_starts_and_refusals() {
    let (engine, all) = events(
        "2026-11-21 22:47:35 0 [Note] Starting MariaDB 10.11.14-MariaDB source revision\n\
         2026-11-21 22:47:36 0 [Note] /usr/sbin/mariadbd: ready for connections.\n\
         2026-11-21 22:47:37 7 [Warning] Too many connections\n",
    );
    assert_eq!(engine, Engine::MariaDb);
    assert_eq!(
        all.iter().map(|(at, kind, _)| (*at, *kind)).collect::<Vec<_>>(),
        [(1000, LogEventKind::ServerStarted), (2000, LogEventKind::ServerTrouble),]
    );
    let (engine, all) = events(
        "2026-11-21T22:47:35.000000Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for \
             connections.\n",
    );
    assert_eq!((engine, all.len()), (Engine::MySql, 1));
}

/// What a client calls itself is quoted in a server's log, before any password was asked for.
#[test]
fn what_clients_call_themselves_is_no_event() {
    let postgresql = "\
2026-11-21 22:47:36.000 UTC [4712] FATAL:  role \"was terminated by signal 9\" does not exist
2026-11-21 22:47:36.000 UTC [4712] a LOG:  server process (PID 1) was terminated by signal 9@b \
         FATAL:  role does not exist
2026-11-21 22:47:37.000 UTC [4713] STATEMENT:  select 'LOG:  server process (PID 1) was \
         terminated by signal 9'
2026-11-21 22:47:38.000 UTC [4711] LOG:  checkpoint starting: time
";
    assert_eq!(events(postgresql), (Engine::PostgreSql, vec![]));
    let mariadb = "2026-11-21 22:47:37 7 [Warning] Access denied for user 'got signal \
         '@'localhost'\n\
                   2026-11-21 22:47:37 7 [Warning] Access denied for user 'mariadbd got signal \
         11'@'localhost'\n";
    assert_eq!(events(mariadb), (Engine::MariaDb, vec![]));
}

#[test]
fn other_files_are_nobodys() {
    for text in [
        "",
        "hello\nworld\n",
        "Sat Nov 21 22:47:35 UTC 2026\nMemTotal: 1 kB\n",
        "2026-11-21 22:47:35 0 hello\n",
    ] {
        assert_eq!(detect_engine(text.as_bytes()), None, "{text}");
    }
}

/// Lines as Redis 7.0.15 wrote them on Debian 12; the last two forms are those of 6.0 (rdb.c,
/// server.c).
#[test]
fn redis_tells_its_saves_and_what_they_copied() {
    let (engine, all) = events(
        "\
26684:C 21 Nov 2026 22:47:35.000 # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo
26684:M 21 Nov 2026 22:47:36.000 # WARNING You have Transparent Huge Pages (THP) support enabled \
             in your kernel. This will create latency
26684:M 21 Nov 2026 22:47:37.000 * Ready to accept connections
26684:M 21 Nov 2026 22:47:38.481 * Background saving started by pid 26986
26986:C 21 Nov 2026 22:47:50.000 * DB saved on disk
26986:C 21 Nov 2026 22:47:50.000 * Fork CoW for RDB: current 400 MB, peak 412 MB, average 201 MB
26684:M 21 Nov 2026 22:48:00.000 * Background saving terminated with success
26684:M 21 Nov 2026 22:48:35.000 # Can't save in background: fork: Cannot allocate memory
26684:M 21 Nov 2026 22:48:36.000 # Background saving terminated by signal 9
26986:C 21 Nov 2026 22:48:37.000 * RDB: 12 MB of memory used by copy-on-write
",
    );
    assert_eq!(engine, Engine::Redis);
    let all: Vec<(i64, LogEventKind, &str)> =
        all.iter().map(|(at, kind, what)| (*at, *kind, what.as_str())).collect();
    assert_eq!(
        all,
        [
            (
                1000,
                LogEventKind::ServerTrouble,
                "Redis warned that it runs on transparent huge pages (on kernels before 5.8 a \
                     write during a save copies 2 MiB)"
            ),
            (2000, LogEventKind::ServerStarted, "Redis started"),
            (3481, LogEventKind::ServerWork, "Redis forked to save its data (BGSAVE)"),
            (
                15_000,
                LogEventKind::ServerWork,
                "Redis copied 412 MB of pages that were written while it saved"
            ),
            (
                60_000,
                LogEventKind::MemoryRefused,
                "Redis was refused the memory to fork for a save"
            ),
            (
                61_000,
                LogEventKind::ServerTrouble,
                "the save of Redis was killed: signal 9, as the kernel does when memory is out"
            ),
            (
                62_000,
                LogEventKind::ServerWork,
                "Redis copied 12 MB of pages that were written while it saved"
            ),
        ]
    );
}

/// Lines as OpenJDK 17.0.21 wrote them with
/// `-Xlog:gc*,pagesize,safepoint:file=gc.log:time,uptime,level,tags`; times of pauses are made
/// longer.
#[test]
fn a_jvms_log_tells_pauses_and_a_heap_that_grew() {
    let (engine, all) = events(
        "\
[2026-11-21T22:47:35.000+0000][0.001s][info][pagesize] Static hugepage support:
[2026-11-21T22:47:35.000+0000][0.040s][info][gc      ] Using G1
[2026-11-21T22:47:36.000+0000][0.266s][info][gc,start    ] GC(0) Pause Young (Concurrent Start) \
             (G1 Humongous Allocation)
[2026-11-21T22:47:36.000+0000][0.326s][info][gc          ] GC(0) Pause Young (Concurrent Start) \
             (G1 Humongous Allocation) 7M->7M(18M) 60.171ms
[2026-11-21T22:47:37.000+0000][0.326s][info][gc          ] GC(1) Pause Young (Normal) (G1 \
             Evacuation Pause) 90M->80M(128M) 12.000ms
[2026-11-21T22:47:38.000+0000][0.326s][info][gc          ] GC(2) Pause Young (Normal) (G1 \
             Evacuation Pause) 190M->180M(256M) 12.000ms
[2026-11-21T22:47:39.000+0000][0.580s][info][gc             ] GC(50) Pause Full (G1 Compaction \
             Pause) 261M->261M(264M) 2199.000ms
[2026-11-21T22:47:40.000+0000][0.326s][info][safepoint   ] Safepoint \"G1TryInitiateConcMark\", \
             Time since last: 123977680 ns, Reaching safepoint: 6787 ns, Cleanup: 11374 ns, At \
             safepoint: 2060266616 ns, Total: 2060284777 ns
[2026-11-21T22:47:41.000+0000][0.326s][info][safepoint   ] Safepoint \"Cleanup\", Time since \
             last: 123977680 ns, Reaching safepoint: 3500000000 ns, Cleanup: 11374 ns, At \
             safepoint: 20 ns, Total: 3500020777 ns
",
    );
    assert_eq!(engine, Engine::Jvm);
    let all: Vec<(i64, LogEventKind, &str)> =
        all.iter().map(|(at, kind, what)| (*at, *kind, what.as_str())).collect();
    assert_eq!(
        all,
        [
            (0, LogEventKind::ServerStarted, "a JVM started (G1)"),
            (2000, LogEventKind::ServerWork, "a JVM's heap was 128 MB"),
            (3000, LogEventKind::ServerWork, "a JVM's heap grew from 128 MB to 256 MB"),
            (
                4000,
                LogEventKind::ServerTrouble,
                "a JVM stood still for 2.2 s: Pause Full (G1 Compaction Pause)"
            ),
            (
                6000,
                LogEventKind::ServerTrouble,
                "a JVM waited 3.5 s for its threads to stop: one did not get to run, or was stuck \
                     in the kernel"
            ),
        ]
    );
}

/// JDK 8's lines, and a report of a fatal error as OpenJDK 17 writes it.
#[test]
fn older_jvms_and_reports_of_fatal_errors_are_read() {
    let (engine, all) = events(
        "\
2026-11-21T22:47:35.000+0000: 0.123: [GC (Allocation Failure) [PSYoungGen: 33280K->5096K(38400K)] \
             33280K->5200K(125952K), 0.0051620 secs] [Times: user=0.01 sys=0.00, real=0.00 secs]
2026-11-21T22:47:36.000+0000: 1.123: [Full GC (Ergonomics) [PSYoungGen: 5096K->0K(38400K)] \
             85096K->70000K(125952K), 4.2500000 secs] [Times: user=4.01 sys=0.00, real=4.25 secs]
2026-11-21T22:47:37.000+0000: 2.000: Total time for which application threads were stopped: \
             4.2510000 seconds, Stopping threads took: 0.0000100 seconds
",
    );
    assert_eq!(engine, Engine::Jvm);
    assert_eq!(
        all.iter().map(|(at, _, what)| (*at, what.as_str())).collect::<Vec<_>>(),
        [
            (1000, "a JVM stood still for 4.2 s: Full GC"),
            (2000, "a JVM stood still for 4.3 s: a safepoint")
        ]
    );
    let (_, all) = events(
        "\
#
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 1073741824 bytes for committing reserved memory.
Host: Intel, 2 cores, 23G, Debian GNU/Linux 12 (bookworm)
Time: Sat Nov 21 22:47:35 2026 UTC elapsed time: 0.018 seconds (0d 0h 0m 0s)
",
    );
    assert_eq!(
        all,
        [(
            0,
            LogEventKind::ServerRefused,
            "a JVM was refused 1.0 GiB of memory, and did not start".to_owned()
        )]
    );
}

/// A log of a JVM without dates is read, and says what would date it.
#[test]
fn a_jvms_log_without_dates_says_how_to_have_them() {
    let text = "[0.015s][info][gc] Using G1\n[0.216s][info][gc] GC(0) Pause Young (Normal) \
         7M->7M(18M) 1.678ms\n";
    let engine = detect_engine(text.as_bytes()).unwrap();
    let series = read(&mut text.as_bytes(), "gc.log", engine).unwrap();
    assert!(series.problems.iter().any(|one| one.what.contains("time,uptime")));
}

/// MariaDB 10.11.19 on a host without a pool; PostgreSQL 15.20 with huge_pages = try at
/// log_min_messages = debug1.
#[test]
fn a_server_that_started_without_its_huge_pages_says_so() {
    let (engine, all) = events(
        "\
2026-11-21 22:47:35 0 [Note] Starting MariaDB 10.11.19-MariaDB-0+deb12u1 source revision 5843d847 \
             as process 29030
2026-11-21 22:47:36 0 [Warning] mariadbd: Couldn't allocate 130023424 bytes (Large/HugeTLB memory \
             page size 2097152); errno 12; continuing to smaller size
",
    );
    assert_eq!((engine, all[0].1), (Engine::MariaDb, LogEventKind::WithoutHugePages));
    let (engine, all) = events(
        "2026-11-21 22:47:35.557 UTC [27546] DEBUG:  mmap(150994944) with MAP_HUGETLB failed, \
             huge pages disabled: Cannot allocate memory\n",
    );
    assert_eq!((engine, all[0].1), (Engine::PostgreSql, LogEventKind::WithoutHugePages));
}

/// A service's lines in the journal, as `journalctl -o short-iso` prints them on Debian 12, where
/// MariaDB logs to it.
#[test]
fn servers_that_log_to_the_journal_are_heard_too() {
    let told = |tag, message| parse_service_line(tag, message).map(|event| event.kind);
    let without = "2026-11-25 13:11:19 0 [Warning] mariadbd: Couldn't allocate 130023424 bytes \
         (Large/HugeTLB memory page size 2097152); errno 12; continuing to smaller size";
    assert_eq!(told("mariadbd[4711]", without), Some(LogEventKind::WithoutHugePages));
    let heap = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space";
    assert_eq!(told("java[4711]", heap), Some(LogEventKind::ServerTrouble));
    let save =
        "4711:M 25 Nov 2026 13:11:19.000 # Can't save in background: fork: Cannot allocate memory";
    assert_eq!(told("redis-server[4711]", save), Some(LogEventKind::MemoryRefused));
    // Whoever runs a server passes on its lines: Patroni, containers, supervisors.
    let patroni = "2026-11-25 13:11:19 +05 [28624-1]  FATAL:  could not map anonymous shared \
         memory: Cannot allocate memory";
    assert_eq!(told("patroni[4711]", patroni), Some(LogEventKind::ServerRefused));
    assert_eq!(told("3f1c9d2ab0e4[4711]", without), Some(LogEventKind::WithoutHugePages));
    let yearless = "4711:M 25 Nov 13:11:19.000 # Can't save in background: fork: Cannot allocate \
         memory";
    assert_eq!(told("redis[4711]", yearless), Some(LogEventKind::MemoryRefused));
    assert_eq!((told("cron[4711]", "hello"), told("mariadbd[4711]", "hello")), (None, None));
}

/// What each form has of the same three lines.
#[test]
fn postgresql_is_read_whatever_stands_before_a_message() {
    let lines = [
        ("22:47:35", "4711", "LOG:  database system is ready to accept connections"),
        ("22:47:36", "4712", "FATAL:  sorry, too many clients already"),
        ("22:47:37", "4711", "LOG:  server process (PID 4720) was terminated by signal 9: Killed"),
    ];
    type Before<'a> = &'a dyn Fn(&str, &str) -> String;
    let forms: [(&str, Before<'_>); 12] = [
        ("%m [%p] ", &|time, pid| format!("2026-11-21 {time}.250 UTC [{pid}] ")),
        ("%t:%r:%u@%d:[%p]:", &|time, pid| {
            format!("2026-11-21 {time} UTC:10.0.0.1(4567):app@db:[{pid}]:")
        }),
        ("%t [%p]: [%l-1] user=%u,db=%d ", &|time, pid| {
            format!("2026-11-21 {time} UTC [{pid}]: [1-1] user=app,db=db ")
        }),
        ("%n [%p] ", &|time, pid| {
            format!(
                "17953012{}.250 [{pid}] ",
                time.replace("22:47:", "").parse::<u32>().unwrap() + 20
            )
        }),
        ("[%p] %m ", &|time, pid| format!("[{pid}] 2026-11-21 {time}.250 UTC ")),
        ("[%t] [%p] ", &|time, pid| format!("[2026-11-21 {time} UTC] [{pid}] ")),
        ("%u@%d %t ", &|time, _| format!("app@db 2026-11-21 {time} UTC ")),
        ("< %m >", &|time, _| format!("< 2026-11-21 {time}.250 UTC >")),
        ("%m,%u,%d,%p,", &|time, pid| format!("2026-11-21 {time}.250 UTC,app,db,{pid},")),
        ("%t ", &|time, _| format!("2026-11-21 {time} GMT ")),
        ("a container's", &|time, pid| {
            format!("2026-11-21T{time}.250456789Z stderr F 2026-11-21 {time}.250 UTC [{pid}] ")
        }),
        ("compose's", &|time, pid| format!("postgres-1  | 2026-11-21 {time}.250 UTC [{pid}] ")),
    ];
    let expected = [
        (0, LogEventKind::ServerStarted),
        (1, LogEventKind::ServerTrouble),
        (2, LogEventKind::ServerFailed),
    ];
    let seconds_of = |text: &str| {
        let (engine, all) = events(text);
        assert_eq!(engine, Engine::PostgreSql, "{text}");
        all.iter().map(|(at, kind, _)| (at.div_euclid(1000), *kind)).collect::<Vec<_>>()
    };
    for (form, before) in forms {
        let text: String = lines
            .iter()
            .map(|(time, pid, message)| format!("{}{message}\n", before(time, pid)))
            .collect();
        assert_eq!(seconds_of(&text), expected, "{form}");
    }
    let parts = |message: &str| {
        message.split_once(":  ").map(|(level, text)| (level.to_owned(), text.to_owned())).unwrap()
    };
    let csv = |(time, pid, message): &(&str, &str, &str)| {
        let (level, text) = parts(message);
        let begin = format!(
            "2026-11-21 {time}.250 UTC,\"a\"\"b\",\"db\",{pid},\"10.0.0.1:5\",692d.1,1,\"x\""
        );
        format!(
            "{begin},2026-11-21 22:00:00 UTC,3/4,0,{level},53300,\"{text}\",,,,,,,,,\"\",\"client \
                 backend\",,0\n"
        )
    };
    assert_eq!(seconds_of(&lines.iter().map(csv).collect::<String>()), expected);
    let json = |(time, pid, message): &(&str, &str, &str)| {
        let (level, text) = parts(message);
        format!(
            "{{\"timestamp\":\"2026-11-21 {time}.250 \
                 UTC\",\"pid\":{pid},\"error_severity\":\"{level}\",\"message\":\"{text}\"}}\n"
        )
    };
    assert_eq!(seconds_of(&lines.iter().map(json).collect::<String>()), expected);
}

/// Whoever sends a statement writes what is in it.
#[test]
fn a_statement_of_postgresql_forges_nothing() {
    let begin = "2026-11-21 22:47:35.250 UTC,\"app\",\"db\",1,\"\",692d.1,1,\"x\",2026-11-21 \
         22:00:00 UTC,3/4,0";
    let forged = "2026-11-21 22:47:36.250 \
         UTC,\"\"app\"\",\"\"db\"\",1,\"\"\"\",692d.1,1,\"\"x\"\",2026-11-21 22:00:00 \
         UTC,3/4,0,LOG,00000,\"\"database system was interrupted\"\",";
    let text = format!(
        "{begin},LOG,00000,\"statement: select '\n{forged}\n'\",,,\n{begin},FATAL,53300,\"sorry, \
             too many clients already\",,,\n"
    );
    let (_, all) = events(&text);
    assert_eq!(
        all.iter().map(|(_, kind, _)| *kind).collect::<Vec<_>>(),
        [LogEventKind::ServerTrouble]
    );
    let text = "2026-11-21 22:47:35.000 UTC [1] LOG:  connection received\n2026-11-21 \
         22:47:35.000 UTC [1] x LOG:  database system was interrupted FATAL:  y\n\
                2026-11-21 22:47:35.000 UTC [1] DETAIL:  Failed process was running: x \
         LOG:  database system was interrupted\n";
    assert_eq!(events(text).1, []);
}

#[test]
fn hours_of_one_digit_and_older_forms_of_mysql_are_read() {
    for (text, engine) in [
        (
            "2026-11-21  8:47:35 0 [Note] /usr/sbin/mariadbd: ready for \
                 connections.\n2026-11-21  8:47:36 55 [Warning] Too many connections\n",
            Engine::MariaDb,
        ),
        (
            "261121  8:47:35 [Note] /usr/sbin/mysqld: ready for connections.\n261121  8:47:36 \
                 [ERROR] Out of memory; check if mysqld\n",
            Engine::MySql,
        ),
    ] {
        let (other_engine, all) = events(text);
        let kinds: Vec<_> =
            all.iter().map(|(at, kind, _)| ((at + 14 * 3_600_000) / 1000, *kind)).collect();
        assert_eq!(
            (other_engine, &kinds[..]),
            (engine, &[(0, LogEventKind::ServerStarted), (1, LogEventKind::ServerTrouble)][..]),
            "{text}"
        );
    }
}

#[test]
fn an_alert_log_as_xml_tells_the_same() {
    let message = |second: u32, text: &str| {
        format!(
            "<msg time='2026-11-21T22:47:{second}.000+00:00' org_id='oracle' comp_id='rdbms'\n \
                 client_id='' type='UNKNOWN' level='16'\n host_id='db1' pid='1'>\n <txt>{text}\n \
                 </txt>\n</msg>\n"
        )
    };
    let text = [
        message(35, "Starting ORACLE instance (normal)"),
        message(36, "  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  ALLOCATED_PAGES  ERROR(s)"),
        message(36, "     2048K                0            2049                0        NONE"),
        message(37, "ORA-04031: unable to allocate 4096 bytes (&quot;x&quot;)"),
    ]
    .concat();
    let (engine, all) = events(&text);
    let kinds: Vec<_> = all.iter().map(|(at, kind, _)| (*at, *kind)).collect();
    assert_eq!(engine, Engine::Oracle);
    assert_eq!(
        kinds,
        [
            (0, LogEventKind::ServerStarted),
            (1000, LogEventKind::WithoutHugePages),
            (2000, LogEventKind::ServerTrouble)
        ]
    );
}

/// Redis up to 4.0 writes no year, 2.8 no role.
#[test]
fn older_forms_of_redis_are_read() {
    for before in ["1255:M 14 Oct 03:00:46.069", "[1249] 14 Oct 03:00:46.069"] {
        let text = format!(
            "{before} # Can't save in background: fork: Cannot allocate memory\n{}",
            format!("{before} * 10 changes in 300 seconds. Saving...\n")
                .replace("14 Oct", "01 Jan")
        );
        let series = read(&mut text.as_bytes(), "log", Engine::Redis).unwrap();
        assert!(series.without_year, "{before}");
        assert_eq!(detect_engine(text.as_bytes()), Some(Engine::Redis), "{before}");
        assert_eq!(series.events().count(), 1, "{before}");
        // From October to the next January: 79 days in any year.
        let (first, last) = series.covered.unwrap();
        assert_eq!((last.0 - first.0) / 86_400_000, 79, "{before}");
    }
    assert!(redis::parse_redis_line("[12] is no date at all # x").is_none());
}

/// InnoDB up to 5.6 writes of huge pages without a time.
#[test]
fn innodb_warns_of_huge_pages_without_a_time() {
    let (engine, all) = events(
        "261121 22:47:35 InnoDB: The InnoDB memory heap is disabled\n\
         InnoDB: HugeTLB: Warning: Failed to allocate 137363456 bytes. errno 12\n\
         InnoDB HugeTLB: Warning: Using conventional memory pool\n",
    );
    assert_eq!(engine, Engine::MySql);
    let kinds: Vec<_> = all.iter().map(|(at, kind, _)| (*at, *kind)).collect();
    assert_eq!(kinds, [(0, LogEventKind::WithoutHugePages); 2]);
}

#[test]
fn a_start_of_oracle_is_judged_as_verify_judges_it() {
    let start = "2026-11-21T22:47:35.000000+00:00\nStarting ORACLE instance (normal) (OS id: 1)\n";
    for (lines, kind, what) in [
        (
            "  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  ALLOCATED_PAGES  ERROR(s)\n\
             \x20    4K       Configured               5         1049093        NONE\n\
             \x20 2048K                5            2049               5        NONE\n\
             ****************************************\n",
            LogEventKind::WithoutHugePages,
            "Oracle got 5 of 2049 huge pages of 2 MiB",
        ),
        (
            "ERROR: use_large_pages = FALSE is not a supported setting for database on Exadata\n\
             \x20      : suggested values are AUTO_ONLY or ONLY\n",
            LogEventKind::ServerRefused,
            "Oracle did not start: on Exadata this release accepts only use_large_pages=ONLY or \
             AUTO_ONLY",
        ),
        (
            "System cannot support SGA size of 9536 MB.\nTotal system memory configured is 10 \
             GB.\nInstance maximum shared memory size should be less than 9023 MB.\n",
            LogEventKind::ServerRefused,
            "Oracle did not start: an SGA of 9536 MB does not fit into the 10 GB of memory that \
             the instance sees, its container's or virtual machine's if it runs in one: at most \
             9023 MB",
        ),
    ] {
        let (_, all) = events(&format!("{start}{lines}"));
        let last = all.last().unwrap();
        assert_eq!((last.1, last.2.as_str()), (kind, what));
        let started = all.iter().any(|(_, kind, _)| *kind == LogEventKind::ServerStarted);
        assert_eq!(started, kind != LogEventKind::ServerRefused, "{lines}");
    }
    // Somebody's order, and an end that nobody ordered.
    for (line, kind) in [
        ("USER (ospid: 18166): terminating the instance", LogEventKind::ServerWork),
        (
            "PMON (ospid: 4711): terminating the instance due to error 471",
            LogEventKind::ServerFailed,
        ),
    ] {
        let (_, all) = events(&format!("{start}PMON started with pid=2, OS id=7\n{line}\n"));
        assert_eq!(all.last().unwrap().1, kind, "{line}");
    }
}
