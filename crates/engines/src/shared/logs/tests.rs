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
