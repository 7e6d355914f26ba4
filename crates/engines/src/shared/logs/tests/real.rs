//! Logs that real servers wrote on a host with too few and with enough pages of 2 MiB.

use super::*;

macro_rules! samples {
    ($($name:literal),+ $(,)?) => {
        pub(super) const SAMPLES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../samples/", $name)))),+];
    };
}

samples![
    "mariadb-10.11.19-pool-0.log",
    "mariadb-10.11.19-pool-100.log",
    "mariadb-10.11.19-pool-600.log",
    "openjdk-17.0.15-0.log",
    "openjdk-17.0.15-0_off.log",
    "openjdk-17.0.15-0_zgc.log",
    "openjdk-17.0.15-100.log",
    "openjdk-17.0.15-100_nolog.log",
    "openjdk-17.0.15-100_par.log",
    "openjdk-17.0.15-100_shm.log",
    "openjdk-17.0.15-100_shm_user.log",
    "openjdk-17.0.15-100_zgc.log",
    "openjdk-17.0.15-600.log",
    "openjdk-17.0.15-600_par.log",
    "openjdk-17.0.15-600_ser.log",
    "openjdk-17.0.15-600_zgc.log",
    "postgresql-15.20-csvlog.csv",
    "postgresql-15.20-jsonlog.json",
    "postgresql-15.20-on-enough.log",
    "postgresql-15.20-on-no-pages-french.log",
    "postgresql-15.20-on-no-pages-german.log",
    "postgresql-15.20-on-no-pages-japanese.log",
    "postgresql-15.20-on-no-pages.log",
    "postgresql-15.20-page-size-3mb.log",
    "postgresql-15.20-sysv.log",
    "postgresql-15.20-try-debug1-no-pages-french.log",
    "postgresql-15.20-try-debug1-no-pages.log",
    "qemu-7.2-0_1g.log",
    "qemu-7.2-0_file.log",
    "qemu-7.2-0_memfd.log",
    "qemu-7.2-0_nofile.log",
    "qemu-7.2-600_memfd.log",
];

pub(super) fn sample(name: &str) -> String {
    SAMPLES.iter().find(|(sample, _)| *sample == name).unwrap().1.to_owned()
}

fn read(name: &str) -> LogReport {
    report(&sample(name))
}

#[test]
fn postgresql_15_20() {
    for language in ["", "-french", "-german", "-japanese"] {
        let report = read(&format!("postgresql-15.20-on-no-pages{language}.log"));
        assert_eq!(
            (report.engine, report.verdict),
            (Engine::PostgreSql, LogVerdict::Failed),
            "{language}"
        );
        // 144 MiB.
        assert_eq!(report.needed_bytes, Some(Bytes(150_994_944)), "{language}");
        assert_eq!(report.needed_of(PageSize::MIB_2), Some(PageCount(72)));
        assert!(report.started_at.unwrap().starts_with("2026-11-21 20:"));
    }
    for language in ["", "-french"] {
        let report = read(&format!("postgresql-15.20-try-debug1-no-pages{language}.log"));
        assert_eq!(report.verdict, LogVerdict::None, "{language}");
        assert_eq!(report.needed_of(PageSize::MIB_2), Some(PageCount(72)));
    }
    for (name, format) in
        [("on-enough.log", "stderr"), ("csvlog.csv", "csvlog"), ("jsonlog.json", "jsonlog")]
    {
        let report = read(&format!("postgresql-15.20-{name}"));
        assert_eq!(
            (report.verdict, report.format),
            (LogVerdict::Unknown, format!("postgresql {format}").as_str())
        );
        assert!(report.reason.contains("huge_pages_status"), "{}", report.reason);
        assert!(report.lines[0].contains("starting PostgreSQL 15.20"));
    }
    let sysv = read("postgresql-15.20-sysv.log");
    assert_eq!(
        (sysv.verdict, sysv.reason.as_str()),
        (LogVerdict::Failed, "huge pages need shared_memory_type=mmap")
    );
    let size = read("postgresql-15.20-page-size-3mb.log");
    assert_eq!((size.verdict, size.needed_bytes), (LogVerdict::Failed, None));
}

#[test]
fn postgresql_15_20_the_last_of_several_starts_decides() {
    let (on, failed) =
        (sample("postgresql-15.20-on-enough.log"), sample("postgresql-15.20-on-no-pages.log"));
    let fell = sample("postgresql-15.20-try-debug1-no-pages.log");
    assert_eq!(report(&format!("{on}{failed}")).verdict, LogVerdict::Failed);
    assert_eq!(report(&format!("{failed}{on}")).verdict, LogVerdict::Unknown);
    assert_eq!(report(&format!("{fell}{on}")).verdict, LogVerdict::Unknown);
    assert_eq!(report(&format!("{on}{fell}")).verdict, LogVerdict::None);
    // What clients write into the log is not the server's word.
    let said =
        "FATAL:  could not map anonymous shared memory, shared_buffers max_connections 99999999";
    let client = format!("2026-11-21 21:00:00.000 UTC [9] LOG:  statement: select '{said}'\n");
    let error = format!(
        "2026-11-21 21:00:00.000 UTC [9] ERROR:  syntax error at or near \"{said}\"\n\t{said}\n"
    );
    assert_eq!(report(&format!("{on}{client}{error}")), report(&on));
}

#[test]
fn mariadb_10_11_19() {
    for pool in [0, 100] {
        let report = read(&format!("mariadb-10.11.19-pool-{pool}.log"));
        assert_eq!((report.engine, report.verdict), (Engine::MariaDb, LogVerdict::Partly));
        assert_eq!((report.page_size, report.errors.len()), (Some(PageSize::MIB_2), 1));
        assert!(report.started_at.unwrap().starts_with("2026-11-21 20:32:"));
    }
    assert_eq!(read("mariadb-10.11.19-pool-600.log").verdict, LogVerdict::Unknown);
}

#[test]
fn mysql_and_older_mariadb_synthetic() {
    let start = "2021-03-04T05:06:07.123456Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld \
        (mysqld 8.0.25) starting as process 99\n";
    let pool = "2021-03-04T05:06:07.2Z 1 [Note] [MY-013546] [InnoDB] Initializing buffer pool, \
        total size = 256.000000M, instances = 1\n";
    let mmap = "2021-03-04T05:06:07.3Z 1 [Warning] [MY-012677] [InnoDB] large_page_aligned_alloc \
        mmap(138412032 bytes) failed; errno 12\n";
    let one = report(&format!("{start}{pool}{mmap}"));
    assert_eq!((one.engine, one.verdict), (Engine::MySql, LogVerdict::Partly));
    assert_eq!(one.started_at.as_deref(), Some("2021-03-04T05:06:07.123456Z"));
    assert_eq!(report(&format!("{start}{pool}{mmap}{mmap}")).verdict, LogVerdict::None);
    assert_eq!(report(&format!("{start}{pool}{mmap}{start}")).verdict, LogVerdict::Unknown);
    let shm = "[Warning] InnoDB: Failed to allocate 138412032 bytes. errno 12\n\
        [Warning] InnoDB: Using conventional memory pool\n";
    let new = shm.replace("InnoDB:", "[MY-012677] [InnoDB]");
    assert_eq!(report(&format!("{start}{new}")).errors.len(), 2);
    let old = report(&format!(
        "210304  5:06:07 [Note] /usr/sbin/mysqld (mysqld 5.7.30) starting as process 99 ...\n{shm}"
    ));
    assert_eq!(
        (old.verdict, old.started_at.as_deref()),
        (LogVerdict::Partly, Some("210304 5:06:07"))
    );

    let start = "2021-03-04  5:06:07 0 [Note] /usr/sbin/mariadbd (server 10.5.9-MariaDB) starting \
         as process 99 ...\n";
    let refused = |size: &str| {
        format!(
            "[Warning] mariadbd: Couldn't allocate 138412032 bytes (Large/HugeTLB memory page size \
             {size}); errno 12; continuing to smaller size\n"
        )
    };
    let benign = report(&format!("{start}{}", refused("1073741824")));
    assert_eq!((benign.engine, benign.verdict), (Engine::MariaDb, LogVerdict::Unknown));
    let both = report(&format!("{start}{}{}", refused("1073741824"), refused("2097152")));
    assert_eq!((both.verdict, both.page_size), (LogVerdict::Partly, Some(PageSize::MIB_2)));
}

#[test]
fn openjdk_17_0_15() {
    use LogVerdict::{All, Failed, None as Nothing, Partly, Unknown};
    for (name, verdict, counts) in [
        ("0", Nothing, (None, None, None)),
        ("0_off", Nothing, (None, None, None)),
        ("0_zgc", Nothing, (None, None, None)),
        // Code caches of 240 MiB and the heap of 256 MiB failed, two bitmaps of 4 MiB did not.
        ("100", Partly, (Some(252), Some(4), Some(252))),
        ("100_par", Nothing, (Some(248), Some(0), Some(248))),
        ("100_nolog", Partly, (None, None, None)),
        ("100_shm", Partly, (None, Some(4), None)),
        ("100_shm_user", Nothing, (None, None, None)),
        ("100_zgc", Failed, (None, None, None)),
        ("600", All, (Some(252), Some(252), Some(252))),
        ("600_par", All, (Some(248), Some(248), Some(248))),
        ("600_ser", All, (Some(248), Some(248), Some(248))),
        ("600_zgc", Unknown, (None, None, None)),
    ] {
        let report = read(&format!("openjdk-17.0.15-{name}.log"));
        assert_eq!(
            (report.engine, report.verdict, pages(&report)),
            (Engine::Jvm, verdict, counts),
            "{name} {report:#?}"
        );
    }
    let thp = "[2026-11-21T20:59:29.675+0000][0.001s][info][pagesize] UseLargePages=1, \
         UseTransparentHugePages=1, UseHugeTLBFS=0, \
               UseSHM=0\n[2026-11-21T20:59:29.731+0000][0.056s][info][pagesize] Heap:  min=8M \
         max=64M base=0x00000000fc000000 \
               page_size=2M size=64M\n";
    let thp = report(thp);
    assert_eq!((thp.verdict, thp.page_size), (Unknown, None));
    assert_eq!(thp.started_at.as_deref(), Some("2026-11-21T20:59:29.675+0000"));
    let (none, all) = (sample("openjdk-17.0.15-0.log"), sample("openjdk-17.0.15-600.log"));
    assert_eq!(report(&format!("{none}{all}")), report(&all));
    assert_eq!(report(&format!("{all}{none}")), report(&none));
    let rotated = all
        .lines()
        .filter(|line| !line.contains(" Heap:") && line.contains("Bitmap"))
        .collect::<Vec<_>>();
    assert_eq!(report(&rotated.join("\n")).verdict, Unknown);
}

/// OpenJDK 17.0.15 with G1 and 1 GiB on 100 pages, whose warnings went to another file: 512 pages
/// for the heap and 120 for the code are missing beside those of its tables.
#[test]
fn what_a_jvm_has_on_base_pages_is_missing() {
    let region = |name: &str, page: &str, size: &str| {
        format!(
            "[0.014s][info][pagesize] {name}: req_size={size} base=0x00007f5a15000000 \
             page_size={page} size={size}\n"
        )
    };
    let mut log = "[0.006s][info][pagesize] Static hugepage support:\n\
                   [0.006s][info][pagesize] Large page support enabled. Usable page sizes: 4k, \
                   2M. Default large page size: 2M.\n"
        .to_owned();
    for (name, page, size) in [
        ("CodeHeap 'non-nmethods'", "4K", "6M"),
        ("CodeHeap 'profiled nmethods'", "4K", "116M"),
        ("CodeHeap 'non-profiled nmethods'", "4K", "118M"),
        ("Heap", "4K", "1G"),
        ("Block Offset Table", "2M", "2M"),
        ("Card Table", "2M", "2M"),
        ("Card Counts Table", "2M", "2M"),
        ("Prev Bitmap", "2M", "16M"),
        ("Next Bitmap", "2M", "16M"),
    ] {
        log.push_str(&region(name, page, size));
    }
    let report = report(&log);
    assert_eq!(
        (report.verdict, pages(&report)),
        (LogVerdict::Partly, (Some(651), Some(19), Some(651)))
    );
}

/// JDK 15 and later releases of ZGC, in pools that are too small.
#[test]
fn a_jvm_that_is_refused_its_heap_has_failed() {
    let zgc = "[0.024s][error][gc] Failed to commit memory (Not enough space)\n\
               [0.024s][error][gc] Forced to lower max Java heap size from 16384M(100%) to 0M(0%)\n\
               [0.024s][error][gc] Failed to allocate initial Java heap (1024M)\n\
               Error: Could not create the Java Virtual Machine.\n";
    assert_eq!(report(zgc).verdict, LogVerdict::Failed);
    let commit = |numbers: &str| {
        format!(
            "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory({numbers}) failed; \
             error='Not enough space' (errno=12)\n#\n# A fatal error has been detected by the \
             Java Runtime Environment:\n"
        )
    };
    let refused = report(&commit("0x0000000745a00000, 3126853632, 2097152, 0"));
    // 3,126,853,632 bytes are 1,491 pages.
    assert_eq!(
        (refused.verdict, pages(&refused)),
        (LogVerdict::Failed, (Some(1491), Some(0), Some(1491)))
    );
    let base = report(&commit("0x0000000745a00000, 3126853632, 0"));
    assert_eq!(pages(&base), (None, None, None));
}

#[test]
fn qemu_7_2() {
    for name in ["0_memfd", "0_file"] {
        let report = read(&format!("qemu-7.2-{name}.log"));
        assert_eq!(
            (report.engine, report.verdict, report.needed_bytes),
            (Engine::Qemu, LogVerdict::Failed, None)
        );
    }
    let gib = read("qemu-7.2-0_1g.log");
    assert_eq!(
        (gib.verdict, gib.needed_of(PageSize::GIB_1)),
        (LogVerdict::Failed, Some(PageCount(1)))
    );
    assert_eq!(read("qemu-7.2-0_nofile.log").reason, "mem-path names no folder");
    assert_eq!(read("qemu-7.2-600_memfd.log").verdict, LogVerdict::Unknown);
}

#[test]
fn qemu_in_libvirts_log_synthetic() {
    let start = "2024-05-06 07:08:09.012+0000: starting up libvirt version: 9.0.0, qemu version: \
         7.2.0, hostname: kvm1\n\
                 /usr/bin/qemu-system-x86_64 \\\n-name guest=db \\\n-object \
         '{\"qom-type\":\"memory-backend-file\",\"id\":\"pc.ram\",\
                 \"mem-path\":\"/dev/hugepages/libvirt/qemu/1-db\",\"prealloc\":true,\"size\":2147483648}' \\\n";
    let error = "2024-05-06T07:08:09.400000Z qemu-system-x86_64: unable to map backing store for \
        guest RAM: Cannot allocate memory\n";
    let failed = report(&format!("{start}{error}"));
    assert_eq!((failed.verdict, failed.format), (LogVerdict::Failed, "libvirt machine log"));
    assert_eq!(failed.needed_of(PageSize::MIB_2), Some(PageCount(1024)));
    assert_eq!(failed.started_at.as_deref(), Some("2024-05-06 07:08:09.012+0000"));
    assert_eq!(report(&format!("{start}{error}{start}")).verdict, LogVerdict::Unknown);
}

/// A JVM that does not warn, on a pool of 100 pages: code heaps of 6, 116 and 118 MiB and a heap of
/// 1 GiB are on base pages, five tables of 38 MiB are not; 120 + 512 + 19 pages hold all of it.
#[test]
fn a_jvm_that_does_not_warn_shows_its_regions() {
    let region = |name: &str, page: &str, size: &str| {
        format!(
            "[0.010s][info][pagesize] {name}: base=0x1 page_size={page} alignment={page} size={size}\n"
        )
    };
    let mut text = String::from(
        "[0.006s][info][pagesize] UseLargePages=1, UseTransparentHugePages=0, UseHugeTLBFS=1, \
         UseSHM=0\n[0.006s][info][pagesize] Large page support enabled. Usable page sizes: 4k, 2M. \
         Default large page size: 2M.\n",
    );
    for (name, size) in
        [("CodeHeap 'non-nmethods'", "6M"), ("CodeHeap 'a'", "116M"), ("CodeHeap 'b'", "118M")]
    {
        text += &region(name, "4K", size);
    }
    text += &region("Heap", "4K", "1G");
    for (name, size) in [
        ("Block Offset Table", "2M"),
        ("Card Table", "2M"),
        ("Card Counts Table", "2M"),
        ("Prev Bitmap", "16M"),
        ("Next Bitmap", "16M"),
    ] {
        text += &region(name, "2M", size);
    }
    let report = report(&text);
    assert_eq!(
        (report.verdict, pages(&report)),
        (LogVerdict::Partly, (Some(651), Some(19), Some(651)))
    );
}

/// 3,126,853,632 bytes are 1,491 pages of 2 MiB.
#[test]
fn a_jvm_that_is_refused_memory_says_how_much() {
    let refused = "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0000000745a00000, \
                   3126853632, 0) failed; error='Not enough space' (errno=12)\n";
    let of_pages = refused.replace(", 0) failed", ", 2097152, 0) failed");
    let fatal = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n";
    let whole = report(&format!("{refused}{of_pages}{fatal}"));
    assert_eq!(
        (whole.engine, whole.verdict, whole.page_size, whole.needed),
        (Engine::Jvm, LogVerdict::Failed, Some(PageSize::MIB_2), Some(PageCount(1491)))
    );
    let bytes = report(&format!(
        "{refused}# There is insufficient memory for the Java Runtime \
                                 Environment to continue.\n"
    ));
    assert_eq!(
        (bytes.verdict, bytes.page_size, bytes.needed_bytes),
        (LogVerdict::Failed, None, Some(Bytes(3_126_853_632)))
    );
    assert_eq!(report(refused).verdict, LogVerdict::Partly);
    let zgc = report(
        "[0.024s][error][gc] Failed to commit memory (Not enough space)\n\
         [0.024s][error][gc] Forced to lower max Java heap size from 16384M(100%) to 0M(0%)\n\
         [0.024s][error][gc] Failed to allocate initial Java heap (1024M)\n",
    );
    assert_eq!(zgc.verdict, LogVerdict::Failed);
    assert!(zgc.reason.starts_with("nothing of a heap of up to 16.0 GiB"), "{}", zgc.reason);
    let openj9 = "JVMJ9GC088I Requested objectheap page size 2M could not be satisfied; using 4K \
                  instead\n";
    assert_eq!((report(openj9).engine, report(openj9).verdict), (Engine::Jvm, LogVerdict::Partly));
    let none = "JVMJ9GC032E System configuration does not support option '-Xlp'\n";
    assert_eq!(report(none).verdict, LogVerdict::Failed);
}

/// Texts of MySQL 5.5, which logs its start by the script around it alone.
#[test]
fn mysql_5_5_warns_without_times() {
    let start = "130405 10:11:12 mysqld_safe Starting mysqld daemon with databases from /srv/mysql\n\
                 130405 10:11:13 InnoDB: Initializing buffer pool, total size = 128.0M\n";
    let warning = "InnoDB: HugeTLB: Warning: Failed to allocate 137363456 bytes. errno 12\n\
                   InnoDB HugeTLB: Warning: Using conventional memory pool\n";
    let report = report(&format!("{start}{warning}"));
    assert_eq!((report.engine, report.verdict), (Engine::MySql, LogVerdict::None));
    assert_eq!(report.needed_bytes, Some(Bytes(137_363_456)));
    let cache = "Warning: Failed to allocate 8388608 bytes from HugeTLB memory. errno 12\n";
    assert_eq!(
        log(format!("{start}{cache}").as_bytes(), None).unwrap().verdict,
        LogVerdict::Partly
    );
}

#[test]
fn postgresql_that_dies_of_a_page_is_told_from_one_that_does_not_start() {
    let ready =
        "2022-04-05 11:55:28.034 GMT [1] LOG:  database system is ready to accept connections\n";
    for crash in [
        "2022-04-05 12:06:05.719 GMT [1] LOG:  server process (PID 229) was terminated by signal 7: \
         Bus error\n",
        "2022-04-05 12:06:05.719 GMT [1] LOG:  Serverprozess (PID 229) wurde von Signal 7 beendet: \
         Bus error\n",
    ] {
        let died = report(&format!("{ready}{crash}{ready}"));
        assert_eq!(died.verdict, LogVerdict::Died, "{crash}");
        assert!(died.reason.contains("rules SIGBUS"), "{}", died.reason);
    }
    for other in [
        "2022-04-05 12:06:05.719 GMT [1] LOG:  server process (PID 229) was terminated by signal 9: \
         Killed\n",
        "2022-04-05 12:06:05.719 GMT [9] ERROR:  x (PID 229) was terminated by signal 7: y\n",
    ] {
        let text = format!("{ready}{other}");
        assert_eq!(report(&text).verdict, LogVerdict::Unknown, "{other}");
    }
    for output in [
        "creating configuration files ... ok\nrunning bootstrap script ... Bus error (core \
         dumped)\nchild process exited with exit code 135\ninitdb: removing data directory \"/x\"\n",
        "Bus error\nchild process was terminated by signal 7: Bus error\ninitdb: data directory \
         \"/x\" not removed at user's request\n",
    ] {
        let initdb = report(output);
        assert_eq!((initdb.verdict, initdb.format), (LogVerdict::Failed, "initdb output"));
        assert!(initdb.reason.contains("huge_pages=off"), "{}", initdb.reason);
    }
}
