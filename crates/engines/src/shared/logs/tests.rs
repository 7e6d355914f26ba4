use std::fmt::Write as _;

use hugewise_host::source::MapSource;
use proptest::prelude::*;

use super::*;
use crate::shared::log_files::read_log;

mod any_log;
mod oracle;
mod real;

fn log(bytes: &[u8], engine: Option<Engine>) -> Result<LogReport, LogError> {
    read_log(&LogText { path: "/var/log/server.log", bytes }, engine)
}

/// The report on a log that is recognised by itself, and the same where the engine is told.
fn report(text: &str) -> LogReport {
    let report = log(text.as_bytes(), None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(log(text.as_bytes(), Some(report.engine)).as_ref(), Ok(&report), "{text}");
    report
}

fn pages(report: &LogReport) -> (Option<u64>, Option<u64>, Option<u64>) {
    let get = |count: Option<PageCount>| count.map(PageCount::get);
    (get(report.expected), get(report.allocated), get(report.needed))
}

/// An alert log of 12.1: stamps between lines, `rows` of size, available, expected, allocated.
fn table(rows: &[(&str, &str, u64, u64)], after: &str) -> String {
    let stamp = "Fri May 01 07:08:09 2020\n";
    let mut text = format!(
        "{stamp}Starting ORACLE instance (normal) (OS id: 77)\n\
         {stamp}****************************************\n\
         Dump of system resources acquired for SHARED GLOBAL AREA (SGA) \n\n\
         {stamp} Per process system memlock (soft) limit = 64G\n\
         {stamp} Expected per process system memlock (soft) limit to lock\n\
          SHARED GLOBAL AREA (SGA) into memory: 3074M\n\
         {stamp} Available system pagesizes:\n"
    );
    let sizes: Vec<&str> = rows.iter().map(|row| row.0).collect();
    writeln!(text, "  {} \n{stamp} Supported system pagesize(s):", sizes.join(", ")).unwrap();
    text.push_str("  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  ALLOCATED_PAGES  ERROR(s)\n");
    for (size, available, expected, allocated) in rows {
        writeln!(text, "{stamp}{size:>10}{available:>17}{expected:>16}{allocated:>17}        NONE")
            .unwrap();
    }
    text + stamp + after
}

const STARS: &str = "****************************************\n";

/// A log whose last start is half on huge pages, in each format.
fn partly() -> Vec<String> {
    let whole = table(&[("4K", "Configured", 3, 3), ("2048K", "1537", 1537, 1537)], STARS);
    let gib = [("4K", "Configured", 3, 3), ("2048K", "900", 1, 1), ("1048576K", "1", 3, 1)];
    vec![
        whole.clone()
            + &table(&[("4K", "Configured", 3, 391_171), ("2048K", "773", 1537, 773)], STARS),
        whole + &table(&gib, STARS),
        real::sample("openjdk-17.0.15-100.log"),
        real::sample("openjdk-17.0.15-100_shm.log"),
        oracle::block_partly(),
        oracle::as_xml(&table(
            &[("4K", "Configured", 3, 391_171), ("2048K", "773", 1537, 773)],
            STARS,
        )),
    ]
}

#[test]
fn wherever_a_log_ends_half_a_start_is_never_all_of_it() {
    for text in partly() {
        assert_eq!(report(&text).verdict, LogVerdict::Partly, "{text}");
        let last = text.rfind("Starting ORACLE").unwrap_or(0);
        for end in last..text.len() {
            if let Ok(report) = log(&text.as_bytes()[..end], None) {
                assert!(
                    report.verdict != LogVerdict::All || end < last + 30,
                    "{end}: {report:#?}\n{}",
                    &text[..end]
                );
            }
        }
        for from in (0..text.len()).step_by(11) {
            if let Ok(report) = log(&text.as_bytes()[from..], None) {
                assert_ne!(report.verdict, LogVerdict::All, "{from}: {}", &text[from..]);
            }
        }
    }
}

#[test]
fn the_last_start_is_found_in_gigabytes() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alert_PROD.log");
    let file = std::fs::File::create(&path).unwrap();
    let start = table(&[("4K", "Configured", 3, 3), ("2048K", "1537", 1537, 1537)], STARS);
    let at = 3_u64 << 30;
    file.write_all_at(b"Completed: ALTER DATABASE OPEN\n", 0).unwrap();
    file.write_all_at(start.as_bytes(), at).unwrap();
    // 40 MiB of what a busy instance writes after it.
    let busy = "Thread 1 advanced to log sequence 4711 (LGWR switch)\n".repeat(20_000);
    let mut end = at + u64::try_from(start.len()).unwrap();
    for _ in 0..40 {
        file.write_all_at(busy.as_bytes(), end).unwrap();
        end += u64::try_from(busy.len()).unwrap();
    }
    let live = hugewise_host::source::LiveSource::new();
    let path = path.to_str().unwrap();
    let report = read_log(&LogFile::new(&live, path), None).unwrap();
    assert_eq!(
        (report.verdict, pages(&report)),
        (LogVerdict::All, (Some(1537), Some(1537), Some(1537)))
    );
    assert_eq!(report.path, path);

    file.set_len(end + (600 << 20)).unwrap();
    file.write_all_at(busy.as_bytes(), end + (600 << 20)).unwrap();
    let report = read_log(&LogFile::new(&live, path), None).unwrap();
    assert_eq!(report.verdict, LogVerdict::Unknown);
    assert_eq!(report.reason, "no server start is in the last 256.0 MiB of this log");
}

#[test]
fn what_is_no_log_gets_a_clear_answer() {
    let error = |bytes: &[u8]| log(bytes, None).unwrap_err().what;
    assert_eq!(error(b""), "is empty");
    assert!(error(&[0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6]).contains("uncompressed"));
    assert!(error(&[0; 5000]).contains("binary"));
    assert!(error(b"root:x:0:0:root:/root:/bin/bash\n").contains("not recognised as"));
    let told = log(b"root:x:0:0:root:/root:/bin/bash\n", Some(Engine::Oracle)).unwrap();
    assert_eq!((told.verdict, told.format), (LogVerdict::Unknown, "no start found"));
    assert!(told.reason.contains("rotated"), "{}", told.reason);
    assert_eq!(log(b"x", Some(Engine::MongoDb)).unwrap_err().what, "logs of mongodb are not read");

    let source = MapSource::new().with_denied("/secret").with_folder("/folder");
    let error = |path: &str| read_log(&LogFile::new(&source, path), None).unwrap_err().to_string();
    assert_eq!(error("/nothing"), "/nothing: no such file");
    assert_eq!(error("/secret"), "/secret: permission denied");
    assert_eq!(error("/folder"), "/folder: is a folder");
}

#[test]
fn a_log_that_was_rotated_after_the_start_is_unknown() {
    let text =
        "2026-11-21 20:32:29.713 UTC [7] LOG:  checkpoint complete: wrote 3 buffers (0.0%)\n";
    let report = report(text);
    assert_eq!((report.engine, report.verdict), (Engine::PostgreSql, LogVerdict::Unknown));
    assert!(report.reason.contains("rotated"));
}

#[test]
fn every_encoding_and_line_end_says_the_same() {
    for text in partly() {
        let plain = report(&text);
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(report(&crlf), plain);
        assert_eq!(report(&format!("\u{feff}{text}")), plain);
        for little in [true, false] {
            let unit = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            for mark in ["", "\u{feff}"] {
                let wide: Vec<u8> = format!("{mark}{text}").encode_utf16().flat_map(unit).collect();
                assert_eq!(log(&wide, None).unwrap(), plain, "{little} {mark:?}");
            }
        }
        // A client's name in Latin-1 between.
        let mut mixed = b"user M\xfcller is connected\n".to_vec();
        mixed.extend(text.as_bytes());
        mixed.extend(b"\xff\xfe caf\xe9\n");
        assert_eq!(log(&mixed, None).unwrap(), plain);
    }
}

/// Up to 5.6 InnoDB says `size =`, and a log that is cut off or has no mysqld_safe begins with that.
#[test]
fn mysql_without_memory_for_its_buffer_pool_did_not_start() {
    let old = "150126 22:31:29 [Note] Plugin 'FEDERATED' is disabled.\n\
               150126 22:31:29 InnoDB: Initializing buffer pool, size = 128.0M\n\
               InnoDB: mmap(137363456 bytes) failed; errno 12\n\
               150126 22:31:29 InnoDB: Completed initialization of buffer pool\n\
               150126 22:31:29 InnoDB: Fatal error: cannot allocate memory for the buffer pool\n";
    let new = "2016-09-12T16:55:09.276233Z 0 [Note] InnoDB: Initializing buffer pool, total size = \
               128M, instances = 1, chunk size = 128M\n\
               2016-09-12T16:55:09.276663Z 0 [ERROR] InnoDB: mmap(137428992 bytes) failed; errno \
               12\n\
               2016-09-12T16:55:09.276687Z 0 [ERROR] InnoDB: Cannot allocate memory for the buffer \
               pool\n";
    let compose = |text: &str| text.lines().map(|line| format!("db_1 | {line}\n")).collect();
    let prefixed: String = compose(old);
    for text in [old, new, &prefixed] {
        let read = report(text);
        assert_eq!((read.engine, read.verdict), (Engine::MySql, LogVerdict::Failed), "{text}");
        assert!(read.reason.contains("131.0 MiB") || read.reason.contains("131.1 MiB"), "{read:?}");
    }
    // mysqld_safe starts it again without a word of its own: the last start counts.
    let started = "111213 10:12:01 mysqld_safe Starting mysqld daemon with databases from /data\n";
    let again = format!(
        "{started}{old}150126 22:32:29 InnoDB: Initializing buffer pool, size = 128.0M\n\
         150126 22:32:30 InnoDB: Started; log sequence number 0 44233\n"
    );
    assert_eq!(report(&again).verdict, LogVerdict::Unknown);
    let conventional = format!(
        "{started}InnoDB: HugeTLB: Warning: Failed to allocate 274726912 bytes. errno 12\n\
         InnoDB HugeTLB: Warning: Using conventional memory pool\n\
         111213 10:12:02  InnoDB: Initializing buffer pool, size = 256.0M\n"
    );
    assert_eq!(report(&conventional).verdict, LogVerdict::None);
}

/// Up to 9.2 all of PostgreSQL's shared memory was one System V segment.
#[test]
fn postgresql_whose_segment_is_refused_did_not_start() {
    let refused = |why: &str| {
        report(&format!(
            "2013-08-23 13:00:27 UTC FATAL:  could not create shared memory segment: {why}\n\
             2013-08-23 13:00:27 UTC DETAIL:  Failed system call was shmget(key=5432001, \
             size=61816832, 03600).\n\
             2013-08-23 13:00:27 UTC HINT:  This error usually means something.\n"
        ))
    };
    for (why, limit) in [
        ("Invalid argument", "kernel.shmmax is below that"),
        ("No space left on device", "all segments together go beyond kernel.shmall"),
        ("Cannot allocate memory", "kernel.shmall or memory"),
        ("Argument invalide", "kernel.shmmax, kernel.shmall or kernel.shmmni"),
    ] {
        let read = refused(why);
        assert_eq!(read.verdict, LogVerdict::Failed);
        let what = format!("a System V segment of 59.0 MiB: {limit}");
        assert!(read.reason.contains(&what), "{}", read.reason);
    }
    // What a client sends is quoted elsewhere.
    let quoted = "2013-08-23 13:00:27 UTC FATAL:  role \"x\" does not exist\n\
                  2013-08-23 13:00:27 UTC LOG:  statement: select 'shmget(key=1, size=2, 0)'\n\
                  2013-08-23 13:00:28 UTC LOG:  database system is ready to accept connections\n";
    assert_ne!(report(quoted).verdict, LogVerdict::Failed);
}

/// HotSpot prints shmget's errno: 1 is EPERM, which is about the process and not about the pool.
#[test]
fn a_jvm_without_the_right_to_huge_pages_has_none() {
    let line = |error: u8| {
        format!(
            "OpenJDK 64-Bit Server VM warning: Failed to reserve shared memory. (error = {error})\n"
        )
    };
    assert_eq!(report(&format!("{}{}", line(1), line(12))).verdict, LogVerdict::None);
    assert_eq!(report(&line(12)).verdict, LogVerdict::Partly);
}
