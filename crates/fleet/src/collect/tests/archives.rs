//! What collectors left, alone and beside captures.

use super::*;

/// Two hours of `vmstat -t`, the first row of which is of the time since boot: rates of it are of
/// no hour.
const VMSTAT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 1  0      0 900000  10000 200000    0    0     0     0  100  200  5 77 18  0  0 2026-11-02 08:50:00
 1  0      0 800000  10000 200000    0    0     0     0  100  200  5 10 85  0  0 2026-11-02 08:55:00
 1  0      0 700000  10000 200000    0    0     0     0  100  200  5 20 75  0  0 2026-11-02 09:00:00
 1  0      0 600000  10000 200000    0    0     0     0  100  200  5 40 55  0  0 2026-11-02 09:05:00
 1  0      0 500000  10000 200000    0    0     0     0  100  200  5 60 35  0  0 2026-11-02 09:10:00
";

#[test]
fn archives_are_series_by_the_hour() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(given.path().join("db5")).unwrap();
    fs::write(given.path().join("db5/vmstat.log"), VMSTAT).unwrap();
    fs::write(given.path().join("notes.txt"), "nothing of anybody's").unwrap();
    fs::write(given.path().join("db6.tar.gz"), capture("db6")).unwrap();
    let summary = run(&[given.path()], lake.path());
    let failed: Vec<_> = summary
        .failures
        .iter()
        .map(|collect_failure| collect_failure.path.rsplit('/').next().unwrap_or_default())
        .collect();
    assert_eq!((summary.read, failed), (1, vec!["notes.txt"]), "{:?}", summary.failures);
    let series = rows(lake.path(), "series");
    let texts_of = |metric: &str| {
        let rows = series.iter().filter(|row| row["metric"] == Field::Str(metric.into()));
        let told = |row: &BTreeMap<String, Field>| {
            let hour = row["hour"].to_string();
            (
                hour,
                row["samples"].to_string(),
                row["least"].to_string(),
                row["mean"].to_string(),
                row["most"].to_string(),
            )
        };
        rows.map(told).collect::<Vec<_>>()
    };
    let expected = |hour: &str, samples: &str, least: &str, mean: &str, most: &str| {
        (
            format!("2026-11-02 {hour}:00:00.000 +00:00"),
            samples.to_owned(),
            least.to_owned(),
            mean.to_owned(),
            most.to_owned(),
        )
    };
    assert_eq!(
        texts_of("cpu_system_percent"),
        [expected("08", "1", "10.0", "10.0", "10.0"), expected("09", "3", "20.0", "40.0", "60.0")]
    );
    // In KiB: 900,000 and 800,000; 700,000, 600,000 and 500,000.
    assert_eq!(
        texts_of("mem_free_bytes"),
        [
            expected("08", "2", "819200000.0", "870400000.0", "921600000.0"),
            expected("09", "3", "512000000.0", "614400000.0", "716800000.0")
        ]
    );
    // Read once more, it is there already.
    let before = rows(lake.path(), "series").len();
    run(&[given.path()], lake.path());
    assert_eq!(rows(lake.path(), "series").len(), before);
    // An hour later there is more: the day is there again, under another capture.
    fs::write(
        given.path().join("db5/vmstat.log"),
        format!("{VMSTAT}{}", VMSTAT.lines().last().unwrap().replace("09:10", "10:10") + "\n"),
    )
    .unwrap();
    run(&[given.path()], lake.path());
    let captures: std::collections::BTreeSet<String> =
        rows(lake.path(), "series").iter().map(|row| row["capture"].to_string()).collect();
    assert_eq!(captures.len(), 2);
}

/// What `hugewise investigate` says of the storm that the fixture was made in.
#[test]
fn incidents_are_those_of_an_investigation() {
    let (given, lake) = (Path::new(HOSTS).join("../incident/base"), tempfile::tempdir().unwrap());
    let summary = run(&[&given], lake.path());
    assert_eq!(summary.failures.len(), 0, "{:?}", summary.failures);
    let found = rows(lake.path(), "incidents");
    let told: Vec<_> = found.iter().map(|row| row["verdict"].to_string()).collect();
    assert_eq!(told, ["\"reclaim-by-page-tables\""]);
    assert_eq!(
        summary.incidents.into_iter().collect::<Vec<_>>(),
        [("reclaim-by-page-tables".to_owned(), 1)]
    );
    assert_eq!(found[0]["cluster"], Field::Str("test".into()));
}

/// What a sosreport's owner or a collector packed: a tar without a host in it, and a folder that is
/// named with a slash.
#[test]
fn archives_in_a_tar_are_read_and_two_hosts_without_a_name_stay_two() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "logs/vmstat.log", VMSTAT.as_bytes());
    fs::write(given.path().join("old.tar"), tar.into_inner().unwrap()).unwrap();
    fs::create_dir(given.path().join("db5")).unwrap();
    let busier = VMSTAT.replace(" 40 55 ", " 90  5 ");
    fs::write(given.path().join("db5/vmstat.log"), busier).unwrap();
    let slashed = std::path::PathBuf::from(format!("{}/", given.path().display()));
    let summary = run(&[&slashed], lake.path());
    assert_eq!(summary.failures.len(), 0, "{:?}", summary.failures);
    let series = rows(lake.path(), "series");
    let nine = |row: &&BTreeMap<String, Field>| {
        row["metric"] == Field::Str("cpu_system_percent".into())
            && row["hour"].to_string().contains(" 09:")
    };
    let mut told: Vec<_> = series
        .iter()
        .filter(nine)
        .map(|row| (row["samples"].to_string(), row["most"].to_string()))
        .collect();
    told.sort();
    assert_eq!(told, [("3".to_owned(), "60.0".to_owned()), ("3".to_owned(), "90.0".to_owned())]);
}

/// As `sos collect` packs the hosts that it asked.
#[test]
fn archives_of_hosts_in_a_bundle_are_read_whether_it_is_given_or_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (given, bundle) = (folder.path().join("in"), folder.path().join("in/sos-collector.tar"));
    fs::create_dir(&given).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "all/db1.tar.gz", &capture("db1"));
    append(
        &mut tar,
        "all/db5.tar",
        &capture_with("db5", &[("hugewise-capture/var/log/sa/vmstat.log", VMSTAT.as_bytes())]),
    );
    fs::write(&bundle, tar.into_inner().unwrap()).unwrap();
    for (lake, path) in [("one", &bundle), ("two", &given)] {
        let lake = folder.path().join(lake);
        let summary = run(&[path], &lake);
        assert_eq!((summary.read, summary.failures.len()), (2, 0), "{:?}", summary.failures);
        let series = rows(&lake, "series");
        assert!(
            !series.is_empty() && series.iter().all(|row| row["host"] == Field::Str("db5".into())),
            "{series:?}"
        );
    }
}

/// A server's log in a host that is refused is what somebody would pack to be neither a host nor a
/// failure.
#[test]
fn a_host_that_is_refused_is_told_whatever_logs_are_in_it() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let leads_out = capture_with(
        "db1",
        &[("hugewise-capture/logs/vmstat.log", VMSTAT.as_bytes()), ("x/../../y", b"")],
    );
    fs::write(given.path().join("out.tar"), leads_out).unwrap();
    let summary = run(&[given.path()], lake.path());
    let told: Vec<_> = summary
        .failures
        .iter()
        .map(|collect_failure| (collect_failure.class, collect_failure.message.as_str()))
        .collect();
    assert_eq!(
        (summary.read, told),
        (0, vec![("not_a_capture", "x/../../y: leads out of the archive")])
    );
}

#[test]
fn captures_behind_a_note_in_a_tar_are_read() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "captures/SHA256SUMS", b"00  db1.tar.gz\n");
    append(&mut tar, "captures/db1.tar.gz", &capture("db1"));
    append(&mut tar, "captures/db2.tar", &capture_with("db2", &[]));
    fs::write(given.path().join("all.tar"), tar.into_inner().unwrap()).unwrap();
    let summary = run(&[given.path()], lake.path());
    let failed: Vec<_> = summary
        .failures
        .iter()
        .map(|collect_failure| collect_failure.path.rsplit(':').next().unwrap_or_default())
        .collect();
    assert_eq!((summary.read, failed), (2, vec!["captures/SHA256SUMS"]));
}

/// As collectors' folders are packed: older files in them are packed once more.
#[test]
fn a_tar_of_a_collector_is_none_of_captures_whatever_is_packed_in_it() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "logs/vmstat.log", VMSTAT.as_bytes());
    append(&mut tar, "logs/older.tar.gz", &capture("db1"));
    fs::write(given.path().join("logs.tar"), tar.into_inner().unwrap()).unwrap();
    let summary = run(&[given.path()], lake.path());
    assert_eq!(summary.failures.len(), 0, "{:?}", summary.failures);
    assert!(!rows(lake.path(), "series").is_empty());
}
