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
        assert_eq!((report.engine, report.verdict), (Engine::PostgreSql, LogVerdict::Failed), "{language}");
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
    for (name, format) in [("on-enough.log", "stderr"), ("csvlog.csv", "csvlog"), ("jsonlog.json", "jsonlog")] {
        let report = read(&format!("postgresql-15.20-{name}"));
        assert_eq!((report.verdict, report.format), (LogVerdict::Unknown, format!("postgresql {format}").as_str()));
        assert!(report.reason.contains("huge_pages_status"), "{}", report.reason);
        assert!(report.lines[0].contains("starting PostgreSQL 15.20"));
    }
    let sysv = read("postgresql-15.20-sysv.log");
    assert_eq!((sysv.verdict, sysv.reason.as_str()), (LogVerdict::Failed, "huge pages need shared_memory_type=mmap"));
    let size = read("postgresql-15.20-page-size-3mb.log");
    assert_eq!((size.verdict, size.needed_bytes), (LogVerdict::Failed, None));
}

#[test]
fn postgresql_15_20_the_last_of_several_starts_decides() {
    let (on, failed) = (sample("postgresql-15.20-on-enough.log"), sample("postgresql-15.20-on-no-pages.log"));
    let fell = sample("postgresql-15.20-try-debug1-no-pages.log");
    assert_eq!(report(&format!("{on}{failed}")).verdict, LogVerdict::Failed);
    assert_eq!(report(&format!("{failed}{on}")).verdict, LogVerdict::Unknown);
    assert_eq!(report(&format!("{fell}{on}")).verdict, LogVerdict::Unknown);
    assert_eq!(report(&format!("{on}{fell}")).verdict, LogVerdict::None);
    // What clients write into the log is not the server's word.
    let said = "FATAL:  could not map anonymous shared memory, shared_buffers max_connections 99999999";
    let client = format!("2026-11-21 21:00:00.000 UTC [9] LOG:  statement: select '{said}'\n");
    let error = format!("2026-11-21 21:00:00.000 UTC [9] ERROR:  syntax error at or near \"{said}\"\n\t{said}\n");
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
    let start = "2021-03-04T05:06:07.123456Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.25) starting as process 99\n";
    let pool = "2021-03-04T05:06:07.2Z 1 [Note] [MY-013546] [InnoDB] Initializing buffer pool, total size = 256.000000M, instances = 1\n";
    let mmap = "2021-03-04T05:06:07.3Z 1 [Warning] [MY-012677] [InnoDB] large_page_aligned_alloc mmap(138412032 bytes) failed; errno 12\n";
    let one = report(&format!("{start}{pool}{mmap}"));
    assert_eq!((one.engine, one.verdict), (Engine::MySql, LogVerdict::Partly));
    assert_eq!(one.started_at.as_deref(), Some("2021-03-04T05:06:07.123456Z"));
    assert_eq!(report(&format!("{start}{pool}{mmap}{mmap}")).verdict, LogVerdict::None);
    assert_eq!(report(&format!("{start}{pool}{mmap}{start}")).verdict, LogVerdict::Unknown);
    let shm = "[Warning] InnoDB: Failed to allocate 138412032 bytes. errno 12\n[Warning] InnoDB: Using conventional memory pool\n";
    let new = shm.replace("InnoDB:", "[MY-012677] [InnoDB]");
    assert_eq!(report(&format!("{start}{new}")).errors.len(), 2);
    let old =
        report(&format!("210304  5:06:07 [Note] /usr/sbin/mysqld (mysqld 5.7.30) starting as process 99 ...\n{shm}"));
    assert_eq!((old.verdict, old.started_at.as_deref()), (LogVerdict::Partly, Some("210304 5:06:07")));

    let start = "2021-03-04  5:06:07 0 [Note] /usr/sbin/mariadbd (server 10.5.9-MariaDB) starting as process 99 ...\n";
    let refused = |size: &str| {
        format!(
            "[Warning] mariadbd: Couldn't allocate 138412032 bytes (Large/HugeTLB memory page size {size}); errno 12; continuing to smaller size\n"
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
    let thp = "[2026-11-21T20:59:29.675+0000][0.001s][info][pagesize] UseLargePages=1, UseTransparentHugePages=1, UseHugeTLBFS=0, \
               UseSHM=0\n[2026-11-21T20:59:29.731+0000][0.056s][info][pagesize] Heap:  min=8M max=64M base=0x00000000fc000000 \
               page_size=2M size=64M\n";
    let thp = report(thp);
    assert_eq!((thp.verdict, thp.page_size), (Unknown, None));
    assert_eq!(thp.started_at.as_deref(), Some("2026-11-21T20:59:29.675+0000"));
    let (none, all) = (sample("openjdk-17.0.15-0.log"), sample("openjdk-17.0.15-600.log"));
    assert_eq!(report(&format!("{none}{all}")), report(&all));
    assert_eq!(report(&format!("{all}{none}")), report(&none));
    let rotated = all.lines().filter(|line| !line.contains(" Heap:") && line.contains("Bitmap")).collect::<Vec<_>>();
    assert_eq!(report(&rotated.join("\n")).verdict, Unknown);
}

#[test]
fn qemu_7_2() {
    for name in ["0_memfd", "0_file"] {
        let report = read(&format!("qemu-7.2-{name}.log"));
        assert_eq!((report.engine, report.verdict, report.needed_bytes), (Engine::Qemu, LogVerdict::Failed, None));
    }
    let gib = read("qemu-7.2-0_1g.log");
    assert_eq!((gib.verdict, gib.needed_of(PageSize::GIB_1)), (LogVerdict::Failed, Some(PageCount(1))));
    assert_eq!(read("qemu-7.2-0_nofile.log").reason, "mem-path names no folder");
    assert_eq!(read("qemu-7.2-600_memfd.log").verdict, LogVerdict::Unknown);
}

#[test]
fn qemu_in_libvirts_log_synthetic() {
    let start = "2024-05-06 07:08:09.012+0000: starting up libvirt version: 9.0.0, qemu version: 7.2.0, hostname: kvm1\n\
                 /usr/bin/qemu-system-x86_64 \\\n-name guest=db \\\n-object '{\"qom-type\":\"memory-backend-file\",\"id\":\"pc.ram\",\
                 \"mem-path\":\"/dev/hugepages/libvirt/qemu/1-db\",\"prealloc\":true,\"size\":2147483648}' \\\n";
    let error = "2024-05-06T07:08:09.400000Z qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory\n";
    let failed = report(&format!("{start}{error}"));
    assert_eq!((failed.verdict, failed.format), (LogVerdict::Failed, "libvirt machine log"));
    assert_eq!(failed.needed_of(PageSize::MIB_2), Some(PageCount(1024)));
    assert_eq!(failed.started_at.as_deref(), Some("2024-05-06 07:08:09.012+0000"));
    assert_eq!(report(&format!("{start}{error}{start}")).verdict, LogVerdict::Unknown);
}
