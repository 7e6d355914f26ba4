//! Captures in a stream, and which hosts came, when.

use super::*;

#[test]
fn a_stream_of_captures_is_read_as_it_comes() {
    let (one, two) = (capture("db1"), capture("db2"));
    let torn = &capture("db3")[..100];
    let folder = tempfile::tempdir().unwrap();
    let stream =
        framed(&[("a", &one), ("../b", &two), ("c", torn), ("d", b"no capture"), ("e", &one)]);
    let summary = run_input(&stream, folder.path());
    assert_eq!(
        (summary.read, summary.already, summary.failures.len()),
        (2, 1, 2),
        "{:?}",
        summary.failures
    );
    let found = hosts(folder.path());
    // The same capture twice is one, whichever of the two was first.
    assert!(found[0] == "db1 -:a" || found[0] == "db1 -:e", "{found:?}");
    assert_eq!(found[1..], ["db2 -:../b"]);
    // Packed, it is the same.
    let packed = tempfile::tempdir().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(&mut gz);
    append(&mut tar, "in/a.tar.gz", &one);
    append(&mut tar, "../../b.tar.gz", &two);
    append(&mut tar, "notes.txt", b"not a capture");
    tar.into_inner().unwrap();
    let bundle = gz.finish().unwrap();
    let summary = run_input(&bundle, packed.path());
    assert_eq!((summary.read, summary.failures.len()), (2, 1));
    assert_eq!(hosts(packed.path()), ["db1 -:in/a.tar.gz", "db2 -:../../b.tar.gz"]);
    // As a member of a stream it is opened, too: a cluster hands over whole bundles.
    let handed = tempfile::tempdir().unwrap();
    let summary =
        run_input(&framed(&[("all.tar.gz", &bundle), ("c", &capture("db3"))]), handed.path());
    assert_eq!((summary.read, summary.failures.len()), (3, 1), "{:?}", summary.failures);
    assert_eq!(
        hosts(handed.path()),
        ["db1 -:all.tar.gz:in/a.tar.gz", "db2 -:all.tar.gz:../../b.tar.gz", "db3 -:c"]
    );
    // And as a file in a folder, beside a capture.
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(given.path().join("all.tar.gz"), &bundle).unwrap();
    fs::write(given.path().join("db9.tar.gz"), capture("db9")).unwrap();
    let summary = run(&[given.path()], lake.path());
    assert_eq!((summary.read, summary.failures.len()), (3, 1));
    assert!(
        hosts(lake.path()).iter().any(|host| host.contains("all.tar.gz:in/a.tar.gz")),
        "{:?}",
        hosts(lake.path())
    );
}

#[test]
fn a_stream_that_breaks_off_keeps_what_came_whole_and_says_so() {
    let (one, two) = (capture("db1"), capture("db2"));
    let stream = framed(&[("a", &one), ("b", &two)]);
    let (first, second) = (8 + 4 + 1 + 8 + one.len(), 8 + 2 * (4 + 1 + 8) + one.len() + two.len());
    for cut in
        (0..first + 30).step_by(7).chain([first, second - 1, second, second + 11, stream.len() - 1])
    {
        let folder = tempfile::tempdir().unwrap();
        let summary = run_input(&stream[..cut], folder.path());
        let whole = u64::from(cut >= first) + u64::from(cut >= second);
        let classes: Vec<_> = summary.failures.iter().map(|failure| failure.class).collect();
        assert_eq!(
            (summary.read, classes),
            (whole, vec!["torn"]),
            "cut at {cut}: {:?}",
            summary.failures
        );
        let said = &summary.failures[0].message;
        assert_eq!(said.contains("within a"), (21..first).contains(&cut), "cut at {cut}: {said}");
    }
}

#[test]
fn a_hostile_member_ends_nothing() {
    let one = capture("db1");
    let mut inner = tar::Builder::new(Vec::new());
    append(&mut inner, "x.tar.gz", &one);
    let bundle = inner.into_inner().unwrap();
    let mut outer = tar::Builder::new(Vec::new());
    append(&mut outer, "bundle.tar", &bundle);
    let nested = outer.into_inner().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut stream = framed(&[
        ("bomb", &vec![0; 4096]),
        ("nested", &nested),
        ("empty", b""),
        ("\u{1b}[31m", &one),
    ]);
    // A name without end, behind all of them.
    let end = stream.len() - 12;
    stream.truncate(end);
    stream.extend([0xff; 4]);
    let summary = run_input(&stream, folder.path());
    let said: Vec<String> = summary
        .failures
        .iter()
        .map(|collect_failure| {
            format!(
                "{} {} {}",
                collect_failure.path, collect_failure.class, collect_failure.message
            )
        })
        .collect();
    assert_eq!((summary.read, said.len()), (1, 4), "{said:?}");
    assert!(
        said.iter().any(|line| line
            .starts_with("-:nested:bundle.tar not_a_capture is a bundle within a bundle")),
        "{said:?}"
    );
    assert!(
        said.iter().any(|line| line.contains("a name of 4294967295 bytes after 4 captures")),
        "{said:?}"
    );
    assert!(!hosts(folder.path())[0].contains('\u{1b}'), "{:?}", hosts(folder.path()));
    // A capture of which the length says more than any has is passed over without being held.
    let mut large = b"HWSTRM1\n\0\0\0\x01a".to_vec();
    large.extend((1_u64 << 40).to_be_bytes());
    large.extend([0; 1000]);
    let said = run_input(&large, tempfile::tempdir().unwrap().path());
    assert_eq!((said.read, said.failures.len()), (0, 1), "{:?}", said.failures);
}

#[test]
fn a_host_that_was_expected_and_did_not_come_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let stream = framed(&[("a", &capture("db1.example.org")), ("b", &capture("DB2"))]);
    let expecting = |names: &[&str], input: &[u8]| {
        let expected = names.iter().map(|name| (*name).to_owned()).collect();
        let asked = CollectRequest { expected, ..asked(vec!["-".into()], folder.path()) };
        collect_captures(&asked, &mut &input[..], &mut |_| {}).unwrap().into_ordered()
    };
    let names = ["db1", "db2.example.org", "db1.other.org", "db3"];
    let first = expecting(&names, &stream);
    assert_eq!(
        (first.read, first.absent.as_slice()),
        (2, ["db1.other.org".to_owned(), "db3".to_owned()].as_slice())
    );
    assert!(
        first.in_words().contains("no capture of 2 hosts: db1.other.org, db3"),
        "{}",
        first.in_words()
    );
    // What came before counts, and who is absent is a row a day.
    let again = expecting(&names, &framed(&[]));
    assert_eq!((again.read, again.absent.len()), (0, 2));
    let missing = rows(folder.path(), "failures");
    let text_of = |row: &BTreeMap<String, Field>| {
        format!("{} {}", row["host"], row["class"]).replace('"', "")
    };
    assert_eq!(
        missing.iter().map(text_of).collect::<Vec<_>>(),
        ["db1.other.org absent", "db3 absent"]
    );
}

#[test]
fn a_host_whose_last_capture_is_old_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    // Captured on 2026-11-21 by its own word.
    let host = Path::new(HOSTS).join("no-pool-postgresql");
    run(&[&host], folder.path());
    let expecting = |stale_days| {
        let asked = CollectRequest {
            expected: vec!["vm".into()],
            stale_days,
            ..asked(Vec::new(), folder.path())
        };
        collect_captures(&asked, &mut std::io::empty(), &mut |_| {}).unwrap().into_ordered()
    };
    assert_eq!(expecting(30).stale, Vec::<String>::new());
    let stale = expecting(2);
    assert_eq!((stale.stale.as_slice(), stale.absent.len()), (["vm".to_owned()].as_slice(), 0));
    assert!(
        rows(folder.path(), "failures")
            .iter()
            .any(|row| row["message"] == Field::Str("its last capture is from 2026-11-21".into()))
    );
}

#[test]
fn a_single_capture_on_standard_input_is_one_failure_that_says_what_to_do() {
    for one in [capture("db1"), capture_with("db1", &[])] {
        let lake = tempfile::tempdir().unwrap();
        let summary = run_input(&one, lake.path());
        assert_eq!((summary.read, summary.failures.len()), (0, 1), "{:?}", summary.failures);
        assert!(
            summary.failures[0].message.contains("name that instead of -"),
            "{:?}",
            summary.failures
        );
    }
}

/// No SQL engine can add them up: DuckDB and Spark refuse all rows of a table because of one.
#[test]
fn a_number_that_no_machine_has_is_not_known() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let largest = i64::MAX.to_string();
    let pool =
        |name: &str| format!("hugewise-capture/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
    let others: Vec<(String, &[u8])> = ["nr_hugepages", "free_hugepages", "resv_hugepages"]
        .map(|name| (pool(name), largest.as_bytes()))
        .into();
    let others: Vec<(&str, &[u8])> =
        others.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    fs::write(given.path().join("much.tar"), capture_with("much", &others)).unwrap();
    let many = "MemTotal: 9007199254740991 kB\nPageTables: 9007199254740991 kB\n";
    fs::write(
        given.path().join("many.tar"),
        capture_with("many", &[("hugewise-capture/proc/meminfo", many.as_bytes())]),
    )
    .unwrap();
    for (name, at) in [
        ("t1", i64::MAX),
        ("t2", 9_000_000_000_000_000),
        ("t3", 253_402_300_800),
        ("t4", -5),
        ("t5", 0),
    ] {
        fs::write(given.path().join(format!("{name}.tar")), captured_at(name, at)).unwrap();
    }
    let summary = run(&[given.path()], lake.path());
    assert_eq!((summary.read, summary.failures.len()), (7, 0), "{:?}", summary.failures);
    assert_eq!((summary.page_tables_unknown, summary.page_tables_bytes), (1, 6 << 20));
    let pools = rows(lake.path(), "pools");
    let pool = pools.iter().find(|row| row["host"] == Field::Str("much".into())).unwrap();
    assert_eq!((&pool["total_pages"], &pool["free_pages"]), (&Field::Null, &Field::Null));
    for row in rows(lake.path(), "hosts") {
        let dated = row["captured_at"] != Field::Null;
        assert_eq!(dated, row["host"] == Field::Str("t5".into()), "{row:?}");
    }
}

#[test]
fn a_lake_among_the_captures_is_not_read() {
    let given = tempfile::tempdir().unwrap();
    fs::write(given.path().join("db1.tar.gz"), capture("db1")).unwrap();
    let lake = given.path().join("lake");
    for already in [0, 1] {
        let summary = run(&[given.path()], &lake);
        assert_eq!(
            (summary.already, summary.failures.len()),
            (already, 0),
            "{:?}",
            summary.failures
        );
    }
    let summary = run(&[&lake.join("hosts")], &lake);
    assert!(
        summary.failures[0].message.contains("in the folder of the tables"),
        "{:?}",
        summary.failures
    );
}

#[test]
fn a_host_without_a_name_is_called_by_its_path() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "hugewise-capture/proc/meminfo", MEMINFO);
    let path = given.path().join("nobody.tar");
    fs::write(&path, tar.into_inner().unwrap()).unwrap();
    let summary = run(&[&path], lake.path());
    assert_eq!(summary.most_page_tables[0].host, path.to_string_lossy());
}

/// One capture of a host whose clock was wrong would make it look fresh for as long as it is not
/// yet that day.
#[test]
fn a_capture_from_the_future_makes_no_host_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let (old, future) = (NOW - 30 * 86_400, NOW + 10 * 365 * 86_400);
    let stream = framed(&[
        ("a", &captured_at("both", old)),
        ("b", &captured_at("both", future)),
        ("c", &captured_at("only", future)),
        ("d", &captured_at("ahead", NOW + 3600)),
    ]);
    let expected = ["both", "only", "ahead", "BOTH", "gone", "gone"].map(str::to_owned).into();
    let asked = CollectRequest { expected, ..asked(vec!["-".into()], folder.path()) };
    let summary = collect_captures(&asked, &mut &stream[..], &mut |_| {}).unwrap().into_ordered();
    assert_eq!(
        (summary.stale, summary.absent),
        (vec!["both".to_owned(), "only".to_owned()], vec!["gone".to_owned()])
    );
    let failed = rows(folder.path(), "failures");
    let btree_map_of =
        |name: &str| failed.iter().find(|row| row["host"] == Field::Str(name.into())).unwrap();
    assert_eq!(
        btree_map_of("both")["message"],
        Field::Str("its last capture is from 2026-10-26".into())
    );
    assert!(btree_map_of("only")["message"].to_string().contains("its clock is wrong"));
    assert_ne!(btree_map_of("both")["captured_at"], Field::Null);
}

#[test]
fn what_is_told_has_one_order_whichever_capture_is_read_first() {
    let folder = tempfile::tempdir().unwrap();
    let stream = framed(&[
        ("z", b"no capture"),
        ("c", &capture("db3")),
        ("a", &capture("db1")),
        ("y", b"none either"),
        ("b", &capture("db2")),
    ]);
    let summary = run_input(&stream, folder.path());
    let most: Vec<_> =
        summary.most_page_tables.iter().map(|host_bytes| host_bytes.host.as_str()).collect();
    let failed: Vec<_> =
        summary.failures.iter().map(|collect_failure| collect_failure.path.as_str()).collect();
    assert_eq!((most, failed), (vec!["db1", "db2", "db3"], vec!["-:y", "-:z"]));
}
