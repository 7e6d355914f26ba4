//! Memory that was refused, waits for a disk, and ends: what servers say of their trouble.

use super::*;

/// What InnoDB is refused while it starts keeps the server from starting, unless it gets up.
#[test]
fn what_a_start_of_mysql_is_refused_is_its_end() {
    let start =
        "2026-11-21T22:47:35.000000Z 0 [Note] mysqld (mysqld 5.7.16) starting as process 1\n";
    let refused =
        "2026-11-21T22:47:36.000000Z 0 [ERROR] InnoDB: mmap(137363456 bytes) failed; errno 12\n";
    let up = "2026-11-21T22:47:37.000000Z 0 [Note] mysqld: ready for connections.\n";
    let end = "2026-11-21T22:47:38.000000Z 0 [ERROR] Aborting\n";
    let kinds = |lines: &[&str]| {
        events(&lines.concat()).1.into_iter().map(|(_, kind, _)| kind).collect::<Vec<_>>()
    };
    let (refusal, failed) = (LogEventKind::MemoryRefused, LogEventKind::ServerRefused);
    assert_eq!(kinds(&[start, refused, end]), [failed]);
    assert_eq!(kinds(&[start, refused]), [failed]);
    assert_eq!(kinds(&[start, refused, up]), [refusal, LogEventKind::ServerStarted]);
    assert_eq!(kinds(&[up, refused]), [LogEventKind::ServerStarted, refusal]);
    assert_eq!(kinds(&[refused]), [refusal]);
}

#[test]
fn a_server_that_ends_itself_has_failed() {
    for (text, words) in [
        (
            "2026-11-21 22:47:35.250 UTC [27] PANIC:  could not fsync file \"pg_wal/1\": \
             Input/output error\n",
            "(PANIC): could not fsync file",
        ),
        (
            "2020-06-29 07:36:20.435 UTC [34986] LOG:  terminating any other active server \
             processes\n2020-06-29 07:36:20.440 UTC [34986] LOG:  all server processes terminated; \
             reinitializing\n",
            "PostgreSQL ended all sessions",
        ),
        (
            "2026-11-21 22:47:35.000 UTC [1] LOG:  server process (PID 540) was terminated by \
             signal 9: Killed\n2026-11-21 22:47:35.000 UTC [1] LOG:  terminating any other active \
             server processes\n",
            "a process of PostgreSQL was killed",
        ),
        (
            "2024-09-10T18:36:09.625111Z 0 [Warning] [MY-012985] [InnoDB] A long semaphore \
             wait:\n--Thread 134534324553280 has waited at log0meb.cc line 1783 for 7988 seconds \
             the semaphore:\n",
            "waited for each other for 7988 s",
        ),
        (
            "11361:M 29 Aug 2024 19:35:05.570 # Redis 5.0.8.1 crashed by signal: 11\n",
            "Redis crashed",
        ),
        (
            "19660:M 03 Oct 04:29:34.071 # Guru Meditation: \"Redis aborting for OUT OF MEMORY\" \
             #server.c:3829\n",
            "refused memory and ended",
        ),
        // A viewer's clock without a blank behind it.
        (
            "21/11/2026 22:47:35LOG:  server process (PID 540) was terminated by signal 9: Killed\n",
            "a process of PostgreSQL was killed",
        ),
        (
            "2026-11-21  7:47:35 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE \
             failed.\n",
            "InnoDB gave up",
        ),
    ] {
        let (_, all) = events(text);
        let failed: Vec<&str> = all
            .iter()
            .filter(|(_, kind, _)| *kind == LogEventKind::ServerFailed)
            .map(|(_, _, what)| what.as_str())
            .collect();
        assert!(failed.len() == 1 && failed[0].contains(words), "{text}: {all:?}");
    }
}

/// MySQL 5.0 breaks its message over lines; 5.1 ends after an assertion.
#[test]
fn old_words_of_innodb_are_read() {
    let (_, all) = events(
        "091119 22:27:11  InnoDB: Initializing buffer pool, size = 256.0M\n\
         091119 22:27:11  InnoDB: Error: cannot allocate 268451840 bytes of\n\
         InnoDB: memory with malloc! Total allocated memory\n\
         InnoDB: by InnoDB 52284536 bytes. Operating system errno: 12\n\
         InnoDB: Fatal error: cannot allocate the memory for the buffer pool\n",
    );
    let kinds: Vec<_> = all.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerRefused; 2]);
    let (_, all) = events(
        "091119 22:27:11  InnoDB: Assertion failure in thread 1124739392 in file row0mysql.c line \
         1534\n22:27:12 UTC - mysqld got signal 6 ;\n",
    );
    let kinds: Vec<_> = all.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerFailed; 2]);
    let (_, all) = events(
        "2016-03-28 01:18:40 7f0fa8c0a720 InnoDB: Initializing buffer pool, size = 128.0M\n\
         2016-03-28 01:18:40 7f0fa8c0a720  InnoDB: Error: cannot allocate 137363456 bytes of\n\
         InnoDB: memory with malloc! Total allocated memory\n",
    );
    let kinds: Vec<_> = all.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerRefused]);
}

#[test]
fn a_wait_for_a_disk_is_told_from_other_trouble() {
    for (text, times) in [
        (
            "1:M 21 Nov 2026 22:47:35.007 * Asynchronous AOF fsync is taking too long (disk is \
             busy?). Writing the AOF buffer without waiting for fsync to complete\n",
            1,
        ),
        (
            "2026-11-21T22:47:35.764037Z 0 [Note] InnoDB: page_cleaner: 1000ms intended loop took \
             114373ms. The settings might not be optimal.\n",
            1,
        ),
        (
            "2026-11-21 22:47:35.250 UTC [27] LOG:  checkpoint complete: wrote 8192 buffers \
             (50.0%); write=269.9 s, sync=120.1 s, total=390.2 s; sync files=99, longest=60.5 s, \
             average=1.2 s\n",
            1,
        ),
        // A checkpoint that is spread over minutes, as it should be.
        (
            "2026-11-21 22:47:35.250 UTC [27] LOG:  checkpoint complete: wrote 8192 buffers \
             (50.0%); write=269.9 s, sync=0.1 s, total=270.2 s; sync files=99, longest=0.5 s, \
             average=0.1 s\n",
            0,
        ),
        (
            "2026-11-21T22:47:35.000000+00:00\nWarning: log write elapsed time 12345ms, size 4KB\n",
            1,
        ),
        ("2026-11-21T22:47:35.000000+00:00\nWarning: log write elapsed time 520ms, size 4KB\n", 0),
    ] {
        let (_, all) = events(text);
        assert!(all.iter().all(|(_, kind, _)| *kind == LogEventKind::DiskWait), "{text}");
        assert_eq!(all.len(), times, "{text}");
    }
}

#[test]
fn oracle_says_that_its_host_swaps() {
    for begin in ["WARNING: Heavy swapping observed", "WARNING: Heavy swapping detected"] {
        let (engine, all) = events(&format!(
            "Sat Nov 21 22:47:35 2026\n{begin} on system in last 5 mins.\npct of memory swapped in \
             [2.70%] pct of memory swapped out [0.00%].\n"
        ));
        let what =
            "Oracle saw the host swap heavily (2.7 % of memory in, 0 % out, in five minutes)";
        assert_eq!(engine, Engine::Oracle);
        assert_eq!(all, [(0, LogEventKind::HostSwapped, what.to_owned())]);
    }
}

#[test]
fn tokumx_refuses_transparent_huge_pages() {
    let text = "Sat Nov 21 22:47:35 [initandlisten] TokuMX starting : pid=30558 port=27017\n\
                Sat Nov 21 22:47:36 [initandlisten] ERROR: Huge pages are enabled, please disable \
                them to continue (echo never > /sys/kernel/mm/transparent_hugepages/enabled)\n";
    let series = read(&mut text.as_bytes(), "log", Engine::MongoDb).unwrap();
    assert_eq!(detect_engine(text.as_bytes()), Some(Engine::MongoDb));
    assert!(series.without_year);
    let kinds: Vec<_> = series.events().map(|(_, event)| event.kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerRefused]);
}

#[test]
fn qemus_words_are_found_behind_others() {
    let (engine, all) = events(
        "(vm) Failed to start: virError(Code=1, Domain=10, Message='internal error: process exited \
         while connecting to monitor: 2026-11-21T22:47:35.748222Z qemu-system-x86_64: cannot set up \
         guest memory 'pc.ram': Cannot allocate memory')\n",
    );
    assert_eq!(engine, Engine::Qemu);
    assert_eq!(all[0].1, LogEventKind::ServerRefused);
}

/// A report of a fatal error that was cut off before its time, and lost its number signs.
#[test]
fn ends_without_a_time_are_told_too() {
    for (text, kind) in [
        (
            " There is insufficient memory for the Java Runtime Environment to continue.\n Native \
             memory allocation (mmap) failed to map 8589934592 bytes for committing reserved \
             memory.\n",
            LogEventKind::ServerFailed,
        ),
        (
            "InnoDB: Initializing buffer pool, size = 8.0G\nInnoDB: mmap(8791261184 bytes) failed; \
             errno 12\n",
            LogEventKind::ServerRefused,
        ),
        (
            "LOG:  server process (PID 229) was terminated by signal 9: Killed\n",
            LogEventKind::ServerFailed,
        ),
    ] {
        let series = read_untimed(text, "log", None).unwrap();
        let told: Vec<_> = series.events().map(|(_, event)| event.kind).collect();
        assert_eq!(told, [kind], "{text}");
    }
    let not_asked = "[0.020s][info][gc] Using G1\n[0.022s][info][gc,init] Large Page Support: \
                     Disabled\n[0.022s][info][gc,init] NUMA Support: Disabled\n";
    for quiet in [
        "LOG:  could not fork autovacuum worker process: Cannot allocate memory\n",
        not_asked,
        "\n",
    ] {
        assert_eq!(read_untimed(quiet, "log", None), None, "{quiet}");
    }
}

/// What Compose puts before each line, and what servers write without a time.
#[test]
fn what_supervisors_and_web_pages_leave_of_logs_is_read() {
    let told = |text: &str| {
        let pasted = Some(crate::readers::Pasted::default());
        let mode = crate::readers::ReadingMode { pasted, ..Default::default() };
        let all = crate::readers::read_as(text.as_bytes(), "x", mode).unwrap();
        let events = all.iter().flat_map(crate::Series::events);
        events.map(|(_, event)| event.kind).collect::<Vec<_>>()
    };
    for (text, kinds) in [
        (
            "redis_1  | 1:M 29 Feb 2024 13:34:45.007 # Out Of Memory allocating 29998 bytes!\n",
            vec![LogEventKind::ServerFailed],
        ),
        (
            "db_1 | 150305 23:19:49 InnoDB: Initializing buffer pool, size = 512.0M\ndb_1 | InnoDB: \
             mmap(549453824 bytes) failed; errno 12\n",
            vec![LogEventKind::ServerRefused],
        ),
        (
            "2016-09-12T16:55:09.276663Z 0 [ERROR] InnoDB: mmap(137428992 bytes) failed; errno 12\n",
            vec![LogEventKind::MemoryRefused],
        ),
        (
            "[1] LOG:  server process (PID 24643) was terminated by signal 9: Killed\n",
            vec![LogEventKind::ServerFailed],
        ),
        (
            " There is insufficient memory for the Java Runtime Environment to continue.\n Native \
             memory allocation (mmap) failed to map 8589934592 bytes\n",
            vec![LogEventKind::ServerFailed],
        ),
        (
            "(demo) Failed to start: virError(Code=1, Message='internal error: 2017-09-29T12:54:42Z \
             qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory')\n",
            vec![LogEventKind::ServerRefused],
        ),
        (
            "Tue Jul 08 10:21:44 2014\nWARNING: Heavy swapping observed on system in last 5 mins.\n",
            vec![LogEventKind::HostSwapped],
        ),
        (
            "2022-07-13 07:32:04.922 CEST [58398]: [49-1] LOG:  could not fork new process for \
             connection: Cannot allocate memory\n",
            vec![LogEventKind::MemoryRefused],
        ),
        (
            "2022-07-13 07:32:04.922 CEST [58398]: [49-1] LOG:  could not fork new process for \
             connection: Resource temporarily unavailable\n",
            vec![LogEventKind::ServerTrouble],
        ),
    ] {
        assert_eq!(told(text), kinds, "{text}");
    }
}

/// A server that was killed writes nothing of it: its next start does, and mysqld_safe.
#[test]
fn a_server_that_starts_anew_without_an_end_was_killed() {
    let failures = |text: &str| {
        let all = events(text).1.into_iter();
        all.filter(|(_, kind, _)| *kind == LogEventKind::ServerFailed).count()
    };
    let mysql = "150315 23:20:01 [Note] /usr/sbin/mysqld: ready for connections.\n";
    let safe = "150319 01:46:59 mysqld_safe Number of processes running now: 0\n\
                150319 01:46:59 mysqld_safe mysqld restarted\n";
    let shut = "150319 01:46:58 [Note] /usr/sbin/mysqld: Shutdown complete\n";
    assert_eq!(failures(&format!("{mysql}{safe}")), 1);
    assert_eq!(failures(safe), 1);
    assert_eq!(failures(&format!("{mysql}{shut}{safe}")), 0);
    let timed = safe.replace("150319 01:46:59", "2019-03-19T01:46:59.123456Z");
    assert_eq!(failures(&timed), 1);

    let up =
        "2026-11-21 22:47:35.000 UTC [1] LOG:  database system is ready to accept connections\n";
    let interrupted = "2026-11-21 22:50:00.000 UTC [1] LOG:  database system was interrupted; last \
                       known up at 2026-11-21 22:46:00 UTC\n";
    let end = "2026-11-21 22:49:00.000 UTC [1] LOG:  received immediate shutdown request\n";
    assert_eq!(failures(&format!("{up}{interrupted}{up}")), 1);
    assert_eq!(failures(&format!("{up}{end}{interrupted}{up}")), 0);
    // The first start of a copy (pg_basebackup).
    assert_eq!(failures(&format!("{interrupted}{up}")), 0);

    let redis = |line: &str| format!("1:M 21 Nov 2026 22:47:35.007 {line}\n");
    let (start, ready) =
        (redis("# oO0OoO0OoO0Oo Redis is starting"), redis("* Ready to accept connections"));
    let stop = redis("# User requested shutdown...");
    assert_eq!(failures(&[&start[..], &ready, &start, &ready].concat()), 1);
    assert_eq!(failures(&[&start[..], &ready, &stop, &start, &ready].concat()), 0);
    // A second one is refused the port, while the first goes on.
    assert_eq!(failures(&[&start[..], &ready, &start].concat()), 0);
}

#[test]
fn empty_fields_of_a_prefix_leave_their_colons() {
    let crash =
        "LOG:  server process (PID 23823) was terminated by signal 11: Segmentation fault\n";
    for prefix in ["2017-06-06 18:42:44 UTC 0  :  : ", "2017-06-06 18:42:44 UTC [1]: @:  : "] {
        let (engine, all) = events(&format!("{prefix}{crash}"));
        assert_eq!((engine, all.len()), (Engine::PostgreSql, 1), "{prefix}");
        assert_eq!(all[0].1, LogEventKind::ServerFailed, "{prefix}");
    }
    // Behind another level, and in a language whose levels are not known, it is somebody's words.
    for level in ["DETAIL:  ", "FEHLER:  ", "ОШИБКА:  "] {
        let text = format!("2017-06-06 18:42:44 UTC  :  : {level}select '{crash}");
        assert_eq!(postgresql::parse_line(&text), None, "{level}");
    }
}

/// Redis 1.2 writes no process.
#[test]
fn the_oldest_redis_is_known_by_its_words() {
    let text = "30 May 10:03:19 - Server started, Redis version 1.2.6\n\
                30 May 10:03:19 - The server is now ready to accept connections on port 6379\n\
                30 May 10:05:37 . Accepted 127.0.0.1:56742\n\
                30 May 10:06:37 # Can't save in background: fork: Cannot allocate memory\n";
    assert_eq!(detect_engine(text.as_bytes()), Some(Engine::Redis));
    let series = read(&mut text.as_bytes(), "log", Engine::Redis).unwrap();
    let kinds: Vec<_> = series.events().map(|(_, event)| event.kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerStarted, LogEventKind::MemoryRefused]);
    assert_eq!(detect_engine(b"30 May 10:03:19 - a word of some program\n"), None);
}

/// As LMHB writes them; 85.77 MiB are 85.77 * 1048576 bytes.
#[test]
fn traces_of_oracle_have_the_hosts_figures() {
    let text = "*** 2014-03-22 10:04:33.237\n\
                LMD0 (ospid: 27060) has not moved for 333 sec (1395479026.1395478693)\n\
                loadavg : 96.87 81.60 42.80\n\n*** 2014-03-22 10:04:36.619\n\
                Memory (Avail / Total) = 85.77M / 4252.24M\n\
                Swap (Avail / Total) = 105.59M /  5088.00M\n";
    assert_eq!(detect_engine(text.as_bytes()), Some(Engine::Oracle));
    let series = read(&mut text.as_bytes(), "log", Engine::Oracle).unwrap();
    let mebibytes = |value: f64| Some(value * 1_048_576.0);
    use crate::Metric::{Load1, MemFree, MemTotal, SwapFree, SwapTotal};
    assert_eq!(series.value(Load1, 0), Some(96.87));
    assert_eq!(series.value(MemFree, 1), mebibytes(85.77));
    assert_eq!(series.value(MemTotal, 1), mebibytes(4252.24));
    assert_eq!(series.value(SwapFree, 1), mebibytes(105.59));
    assert_eq!(series.value(SwapTotal, 1), mebibytes(5088.0));
    let kinds: Vec<_> = series.events().map(|(_, event)| event.kind).collect();
    assert_eq!(kinds, [LogEventKind::ServerTrouble]);
}

/// Three waits of Oracle's own processes, and an excerpt that begins with its end.
#[test]
fn oracles_processes_tell_what_they_wait_for() {
    let (engine, all) = events(
        "2026-11-21T22:47:35.000000+00:00\n\
         LGWR (ospid: 6) waits for event 'log file parallel write' for 95 secs.\n\
         LMON (ospid: 6) has no heartbeats for 119 sec. (threshold 70 sec)\n\
         LMS0 (ospid: 7) waits for event 'gcs remote message' for 88 secs.\n\
         PMON (ospid: 1): terminating the instance due to ORA error 471\n\
         Instance terminated by PMON, pid = 1\n",
    );
    assert_eq!(engine, Engine::Oracle);
    use LogEventKind::{DiskWait, ServerFailed, ServerTrouble};
    let kinds: Vec<_> = all.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [DiskWait, ServerTrouble, ServerTrouble, ServerFailed, ServerFailed]);
    assert_eq!(all[0].2, "Oracle's LGWR waited 95 s for its disk (log file parallel write)");
    let end = "2026-11-21T22:47:35.000000+00:00\nInstance terminated by PMON, pid = 1\n";
    assert_eq!(detect_engine(end.as_bytes()), Some(Engine::Oracle));
}

/// What the server itself writes of a statement of several lines begins with a tab.
#[test]
fn lines_of_a_statement_are_no_lines_of_postgresql() {
    let (_, all) = events(
        "2026-11-21 22:47:35.000 UTC [5] LOG:  starting PostgreSQL 15.3\n\
         2026-11-21 22:47:35.000 UTC [5] STATEMENT:  select '\n\
         \t2026-11-21 22:47:36.000 UTC [5] FATAL:  could not map anonymous shared memory: Cannot \
         allocate memory\n\t'\n",
    );
    assert_eq!(all, []);
}

#[test]
fn a_row_of_postgresql_in_an_object_is_read() {
    let text = r#"{"level":"info","ts":1795301255.0,"logger":"postgres","msg":"record","record":{"log_time":"2026-11-21 22:47:35.000 UTC","error_severity":"FATAL","message":"could not map anonymous shared memory: Cannot allocate memory"}}"#;
    let (engine, all) = events(&format!("{text}\n"));
    assert_eq!(engine, Engine::PostgreSql);
    let kinds: Vec<_> = all.iter().map(|(at, kind, _)| (*at, *kind)).collect();
    assert_eq!(kinds, [(0, LogEventKind::ServerRefused)]);
}

#[test]
fn mongodb_of_a_zone_west_of_greenwich_is_known() {
    let line = "2014-04-09T23:16:20.437-0400 [initandlisten] MongoDB starting : pid=4037 port=1\n";
    assert_eq!(detect_engine(line.as_bytes()), Some(Engine::MongoDb));
}

#[test]
fn qemus_line_without_a_time_is_of_the_line_before() {
    let (engine, all) = events(
        "2026-11-21 22:47:35.000+0000: starting up libvirt version: 9.0.0\n\
         qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory\n\
         2026-11-21 22:47:36.000+0000: shutting down, reason=failed\n",
    );
    assert_eq!(engine, Engine::Qemu);
    assert!(all.iter().any(|(at, kind, _)| (*at, *kind) == (0, LogEventKind::ServerRefused)));
}

/// Java 8's log by date, with a collection of several lines' parts; no other tool's system log.
#[test]
fn old_collections_of_java_are_read() {
    let text = "2026-11-21T22:47:35.000+0000: 12.345: [Full GC (Allocation Failure) [ParNew: \
                100K->90K(110K), 0.5 secs] 7900M->7800M(8192M), 45.1234567 secs] [Times: user=0.50 \
                sys=45.10, real=45.20 secs]\n";
    let format = super::super::super::recognize_format(text.as_bytes()).map(|(one, _)| one.name);
    assert_eq!(format, Some("server_log"));
    let (engine, all) = events(text);
    let what = "a JVM stood still for 45.1 s: Full GC".to_owned();
    assert_eq!((engine, all), (Engine::Jvm, vec![(0, LogEventKind::ServerTrouble, what)]));
}

/// By uptime alone, as Java 11 logs unless told otherwise; a collection of Java 7 in several lines.
#[test]
fn a_jvms_log_by_uptime_is_read() {
    for text in [
        "[0.020s][info][gc] Using G1\n[0.022s][info][gc,init] Large Page Support: Disabled\n\
         [12.345s][info][gc] GC(7) Pause Full (G1 Compaction Pause) 7900M->7800M(8192M) 45200.000ms\n",
        "0.020: [GC pause (young), 0.0100000 secs]\n12.345: [Full GC\n   [Parallel Time: 45.1 ms]\n \
         [Times: user=0.50 sys=45.10, real=45.20 secs]\n",
    ] {
        assert_eq!(detect_engine(text.as_bytes()), Some(Engine::Jvm), "{text}");
        let series = read(&mut text.as_bytes(), "gc.log", Engine::Jvm).unwrap();
        let long = series.events().find(|(_, event)| event.what.contains("stood still for 45.2 s"));
        assert_eq!(long.map(|(at, _)| at.0), Some(12_345), "{text}");
        assert_eq!(series.unplaced, Some(UnplacedTimes::Untimed), "{text}");
        assert!(!series.events().any(|(_, event)| event.kind == LogEventKind::WithoutHugePages));
    }
}
