use super::*;

/// The same messages as log.xml has them, one message a stamp.
pub(super) fn as_xml(text: &str) -> String {
    let mut xml = String::new();
    for message in text.split("Fri May 01 07:08:09 2020\n").filter(|message| !message.is_empty()) {
        let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;");
        let time = "2020-05-01T07:08:09.123+02:00";
        write!(
            xml,
            "<msg time='{time}' org_id='oracle' comp_id='rdbms'\n type='NOTIFICATION' \
             level='16'>\n <txt>{message} </txt>\n</msg>\n"
        )
        .unwrap();
    }
    xml
}

fn block(inside: &str) -> String {
    let header = "****************** Large Pages Information *****************";
    let footer = "***********************************************************";
    format!(
        "Mon Jan 06 10:11:12 2014\nStarting ORACLE instance (normal)\n{header}\n{inside}{footer}\n"
    )
}

pub(super) fn block_partly() -> String {
    block(
        "\nTotal Shared Global Region in Large Pages = 1000 MB (50%)\n\nLarge Pages used by this \
             instance: 500 (1000 MB)\n\
         Large Pages unused system wide = 0 (0 KB) (alloc incr 4096 KB)\nLarge Pages configured \
             system wide = 500 (1000 MB)\n\
         Large Page size = 2048 KB\n\nRECOMMENDATION:\n  Total Shared Global Region size is 2002 \
             MB. For optimal performance,\n\
           prior to the next instance restart increase the number\n  of unused Large Pages by \
             atleast 501 2048 KB Large Pages (1002 MB)\n\
           system wide to get 100% of the Shared\n  Global Region allocated with Large pages\n",
    )
}

#[test]
fn table_12_1_synthetic() {
    let report =
        report(&table(&[("4K", "Configured", 3, 3), ("2048K", "1600", 1537, 1537)], STARS));
    assert_eq!((report.engine, report.format), (Engine::Oracle, "oracle page size table"));
    assert_eq!(report.started_at.as_deref(), Some("Fri May 01 07:08:09 2020"));
    assert_eq!((report.verdict, report.page_size), (LogVerdict::All, Some(PageSize::MIB_2)));
    assert_eq!(report.memlock, Observed::Known(Limit::At(Bytes::from_gib(64))));
    assert!(report.errors.is_empty());
}

#[test]
fn log_xml_says_what_the_text_says() {
    for text in
        [table(&[("4K", "Configured", 3, 99_000), ("2048K", "7", 1537, 7)], STARS), block_partly()]
    {
        let plain = report(&text);
        let text = text.replace("Mon Jan 06 10:11:12 2014", "Fri May 01 07:08:09 2020");
        let xml = report(&as_xml(&text));
        assert_eq!(xml.started_at.as_deref(), Some("2020-05-01T07:08:09.123+02:00"));
        assert!(xml.format.contains("log.xml"), "{}", xml.format);
        assert_eq!(
            (xml.verdict, pages(&xml), xml.memlock),
            (plain.verdict, pages(&plain), plain.memlock)
        );
    }
}

#[test]
fn table_errors_none_is_no_success() {
    let short = "RECOMMENDATION:\n 1. For optimal performance, configure system with expected \
         number\n of pages\n";
    let none = report(&table(&[("4K", "Configured", 3, 786_947), ("2048K", "0", 1537, 0)], short));
    assert_eq!((none.verdict, pages(&none)), (LogVerdict::None, (Some(1537), Some(0), Some(1537))));
    // All of 2 MiB pages, but more went to base pages than was to go there.
    let spilled =
        report(&table(&[("4K", "Configured", 3, 9000), ("2048K", "1537", 1537, 1537)], STARS));
    assert_eq!(spilled.verdict, LogVerdict::Partly);
    // use_large_pages=FALSE expects nothing of them.
    let off =
        report(&table(&[("4K", "Configured", 786_947, 786_947), ("2048K", "0", 0, 0)], STARS));
    assert_eq!((off.verdict, off.reason.as_str()), (LogVerdict::None, ""));
    let off = table(&[("4K", "Configured", 786_947, 786_947), ("2048K", "0", 0, 0)], STARS);
    let off =
        report(&format!("{off}  use_large_pages          = \"FALSE\"\nPMON started with pid=2\n"));
    assert_eq!((off.verdict, off.reason.as_str()), (LogVerdict::None, "use_large_pages is FALSE"));
    let base_only = report(&table(&[("4K", "Configured", 786_947, 786_947)], STARS));
    assert_eq!((base_only.verdict, base_only.page_size), (LogVerdict::None, None));
}

#[test]
fn table_of_other_page_sizes() {
    let arm = report(&table(&[("64K", "Configured", 2, 2), ("524288K", "8", 6, 6)], STARS));
    assert_eq!((arm.verdict, arm.page_size), (LogVerdict::All, PageSize::new(512 << 20)));
    let gib = [("4K", "Configured", 3, 3), ("2048K", "9", 1, 1), ("1048576K", "3", 3, 3)];
    let gib = report(&table(&gib, STARS));
    assert_eq!(
        (gib.verdict, gib.page_size, gib.needed),
        (LogVerdict::All, Some(PageSize::GIB_1), Some(PageCount(3)))
    );
}

#[test]
fn table_of_only_has_no_row_of_base_pages() {
    let text = "Supported system \
         pagesize(s):\n2024-02-03T04:05:06.700000+01:00\n  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  \
                ALLOCATED_PAGES  ERROR(s)\n2024-02-03T04:05:06.700001+01:00\n     2048K             2000            1700            1700        NONE\n";
    let report = report(text);
    assert_eq!(
        (report.verdict, pages(&report)),
        (LogVerdict::All, (Some(1700), Some(1700), Some(1700)))
    );
}

#[test]
fn a_cut_table_is_unknown() {
    let text = table(&[("4K", "Configured", 3, 3), ("2048K", "1600", 1537, 1537)], "");
    let cut = &text[..text.find("2048K  ").unwrap()];
    let cut = report(cut);
    assert_eq!((cut.verdict, cut.allocated), (LogVerdict::Unknown, None));
    assert!(cut.reason.contains("cut off"));
    let rows = &text[text.find("ERROR(s)").unwrap()..];
    assert_eq!(log(rows.as_bytes(), Some(Engine::Oracle)).unwrap().verdict, LogVerdict::Unknown);
}

#[test]
fn failed_starts_name_their_limit() {
    let start = "2024-02-03T04:05:06.700000+01:00\nStarting ORACLE instance (normal) (OS id: 5)\n";
    for (error, reason) in [
        (
            "ERROR: Failed to get available system pages to allocate memory\n\
             ORA-27106: system pages not available to allocate memory\n",
            "",
        ),
        ("ORA-27102: out of memory\nLinux-x86_64 Error: 28: No space left on device\n", "shmall"),
        ("ORA-27102: out of memory\nLinux-x86_64 Error: 12: Cannot allocate memory\n", "memlock"),
        ("ORA-27102: out of memory\nLinux-x86_64 Error: 22: Invalid argument\n", "shmmax"),
        (
            "ORA-27125: unable to create shared memory segment\n\
             Linux-x86_64 Error: 1: Operation not permitted\n",
            "hugetlb_shm_group",
        ),
        ("ORA-00845: MEMORY_TARGET not supported on this system\n", "/dev/shm"),
        ("ORA-27104: system-defined limits for shared memory was misconfigured\n", "shmmax"),
        (
            "System cannot support SGA size of 9536 MB.\nTotal system memory configured is 10 \
             GB.\nInstance maximum shared memory size should be less than 9023 MB.\n",
            "an SGA of 9536 MB does not fit into the 10 GB of memory that the instance sees",
        ),
    ] {
        let text = format!(
            "{}{start}{error}",
            table(&[("4K", "Configured", 3, 3), ("2048K", "9", 9, 9)], STARS)
        );
        let report = report(&text);
        assert_eq!(report.verdict, LogVerdict::Failed, "{error}");
        assert!(
            report.reason.contains(reason) && report.reason.is_empty() == reason.is_empty(),
            "{}",
            report.reason
        );
        assert_eq!(report.started_at.as_deref(), Some("2024-02-03T04:05:06.700000+01:00"));
        assert!(
            report.errors.iter().any(|line| error.starts_with(line.as_str())),
            "{:?}",
            report.errors
        );
    }
    // The same errors once the instance runs are another matter.
    let text = table(&[("4K", "Configured", 3, 3), ("2048K", "9", 9, 9)], STARS);
    let later = format!("{text}PMON started with pid=2, OS id=81\nORA-27102: out of memory\n");
    assert_eq!(report(&later).verdict, LogVerdict::All);
    // So are those of a start that went on without what it was refused.
    let refused = format!(
        "{text}ORA-27125: unable to create shared memory segment\nPMON started with pid=2\n"
    );
    let refused = report(&refused);
    assert_eq!((refused.verdict, refused.errors.len()), (LogVerdict::All, 1));
    // And one in the table says why pages are missing: the rest came as base pages.
    let short =
        table(&[("4K", "Configured", 4, 8_401_921), ("2048K", "1000", 17_410, 1000)], STARS);
    let short = report(&short.replace("1000        NONE", "1000  ORA-27125"));
    assert_eq!(
        (short.verdict, short.errors.as_slice()),
        (LogVerdict::Partly, &["ORA-27125".to_owned()][..])
    );
}

#[test]
fn only_without_pages_fails_with_its_table() {
    let failed = "ERROR: Failed to get available system pages to allocate memory\n";
    let report = report(&table(&[("2048K", "100", 1537, 0)], failed));
    assert_eq!(
        (report.verdict, pages(&report)),
        (LogVerdict::Failed, (Some(1537), Some(0), Some(1537)))
    );
}

#[test]
fn block_11_2_synthetic() {
    let partly = report(&block_partly());
    assert_eq!(partly.format, "oracle large pages block");
    assert_eq!(
        (partly.verdict, pages(&partly)),
        (LogVerdict::Partly, (Some(1001), Some(500), Some(1001)))
    );
    assert_eq!(partly.started_at.as_deref(), Some("Mon Jan 06 10:11:12 2014"));
    let all = "Per process system memlock (soft) limit = UNLIMITED\nTotal Shared Global Region in \
         Large Pages = 2002 MB (100%)\n\
               Large Pages used by this instance: 1001 (2002 MB)\nLarge Page size = 2048 KB\n";
    let all = report(&block(all));
    assert_eq!((all.verdict, pages(&all)), (LogVerdict::All, (Some(1001), Some(1001), Some(1001))));
    assert_eq!(all.memlock, Observed::Known(Limit::Unlimited));
    let none = "Total Shared Global Region in Large Pages = 0 KB (0%)\nLarge Pages used by this \
         instance: 0 (0 KB)\n\
                Large Page size = 2048 KB\nRECOMMENDATION:\n increase the number of unused large \
         pages by\n at least 1001 (page size 2048 KB)\n";
    let none = report(&block(none));
    assert_eq!((none.verdict, pages(&none)), (LogVerdict::None, (Some(1001), Some(0), Some(1001))));
    let only = "Parameter use_large_pages = ONLY\nLarge Page size = 2048 KB\nERROR:\n  Failed to \
         allocate shared global region with \
                large pages, unix errno = 12.\n  Aborting Instance startup.\nACTION:\n  Total \
         Shared Global Region size is 2002 MB. \
                Increase the number of\n  unused large pages to atleast 1001 (2002 MB) to \
         allocate\n";
    let only = report(&block(only));
    assert_eq!((only.verdict, only.needed), (LogVerdict::Failed, Some(PageCount(1001))));
}

#[test]
fn block_11_2_0_2_counts_only_in_plain_words() {
    let block = |line: &str| {
        let stars = "****************************************";
        format!(
            "Starting ORACLE instance (normal)\n******* Huge Pages Information \
                 *****\n{line}\n{stars}\n"
        )
    };
    assert_eq!(
        report(&block("Huge Pages memory pool detected (total: 9 free: 9)")).verdict,
        LogVerdict::Unknown
    );
    assert_eq!(
        report(&block("DFLT Huge Pages allocation successful (allocated: 9)")).verdict,
        LogVerdict::All
    );
}

#[test]
fn the_last_start_decides_even_if_it_says_nothing() {
    let text = table(&[("4K", "Configured", 3, 3), ("2048K", "9", 9, 9)], STARS);
    let again = report(&format!(
        "{text}Shutting down instance\nStarting ORACLE instance (normal) (OS id: 78)\n"
    ));
    assert_eq!(again.verdict, LogVerdict::Unknown);
    assert!(again.reason.contains("yet"), "{}", again.reason);
    let old = report("Starting ORACLE instance (normal)\nPMON started with pid=2\n");
    assert!(old.reason.contains("11.2.0.2"), "{}", old.reason);
}

/// The lines of 19.27 on Exadata as published (christian-gohmann.de, 16 July 2025), alone, after a
/// start, and with another value.
#[test]
fn a_start_that_exadata_refused_is_told_by_its_only_line() {
    let refusal = |value: &str| {
        format!(
            "2025-06-24T21:58:09.964954+02:00\nERROR: use_large_pages = {value} is not a \
                 supported setting for database on Exadata\n\
             2025-06-24T21:58:09.965056+02:00\n       : suggested values are AUTO_ONLY or ONLY\n"
        )
    };
    let start = "2025-06-24T21:58:09.100000+02:00\nStarting ORACLE instance (normal) (OS id: 77)\n";
    for text in [refusal("FALSE"), refusal("TRUE"), format!("{start}{}", refusal("TRUE"))] {
        let report = report(&text);
        assert_eq!((report.engine, report.verdict), (Engine::Oracle, LogVerdict::Failed), "{text}");
        assert_eq!(
            report.reason,
            "on Exadata this release accepts only use_large_pages=ONLY or AUTO_ONLY"
        );
        assert!(
            report.errors.iter().any(|line| line.contains("suggested values")),
            "{:?}",
            report.errors
        );
        assert!(
            report.started_at.as_deref().is_some_and(|at| at.starts_with("2025-06-24T21:58:09"))
        );
    }
    // Once it has started with another value, the refusal is of the past.
    let after = table(&[("4K", "Configured", 3, 3), ("2048K", "1600", 1537, 1537)], STARS);
    assert_eq!(report(&format!("{start}{}{after}", refusal("FALSE"))).verdict, LogVerdict::All);
    // In other words, of a release whose lines nobody has published.
    let other = format!("{start}ERROR: USE_LARGE_PAGES=TRUE is not supported here\n");
    assert_eq!(report(&other).verdict, LogVerdict::Failed);
}

/// The same lines as an exporter and a shipper of logs write them.
#[test]
fn an_alert_log_as_json_tells_what_its_text_tells() {
    let text = table(&[("4K", "Configured", 5, 391_529), ("2048K", "0", 766, 0)], STARS);
    for (time, message) in
        [("timestamp", "message"), ("ORIGINATING_TIMESTAMP", "MESSAGE_TEXT"), ("time", "log")]
    {
        let json: String = text
            .lines()
            .filter(|line| !line.starts_with("Fri May"))
            .map(|line| {
                let line = serde_json::json!({ time: "2023-09-02T05:40:43.641Z", message: line });
                format!("{line}\n")
            })
            .collect();
        let report = report(&json);
        assert_eq!(
            (report.verdict, pages(&report)),
            (LogVerdict::None, (Some(766), Some(0), Some(766))),
            "{json}"
        );
        assert_eq!(report.started_at.as_deref(), Some("2023-09-02T05:40:43.641Z"));
        // Without its last lines it is cut off.
        let cut: String = json.lines().take(10).map(|line| format!("{line}\n")).collect();
        assert_ne!(log(cut.as_bytes(), None).unwrap().verdict, LogVerdict::All);
    }
}

#[test]
fn what_a_client_prints_is_read_where_no_alert_log_is() {
    for (text, words) in [
        (
            "SQL> startup nomount\nORA-27125: unable to create shared memory segment\nLinux-x86_64 \
             Error: 1: Operation not permitted\n",
            ["hugetlb_shm_group", "rules ORA-27125"],
        ),
        (
            "SQL> startup\nORA-27102: out of memory\nLinux-x86_64 Error: 28: No space left on \
             device\n",
            ["shmall", "rules ORA-27102"],
        ),
        (
            "Connected to an idle instance.\n\nSQL> ORA-27104: system-defined limits for shared \
             memory was misconfigured\nSQL> Disconnected\n",
            ["container", "rules ORA-27104"],
        ),
    ] {
        let report = report(text);
        assert_eq!((report.engine, report.verdict), (Engine::Oracle, LogVerdict::Failed), "{text}");
        assert!(words.iter().all(|words| report.reason.contains(words)), "{}", report.reason);
    }
    // A part of an alert log lacks its start, and says so.
    let part = "2024-02-03T04:05:06.700000+01:00\nORA-27102: out of memory\n";
    assert_eq!(log(part.as_bytes(), Some(Engine::Oracle)).unwrap().verdict, LogVerdict::Unknown);
}
