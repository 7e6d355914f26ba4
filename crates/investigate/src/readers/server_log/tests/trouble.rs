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
