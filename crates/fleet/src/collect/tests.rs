#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;

use super::*;
use crate::schema;

mod archives;
mod streams;

const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts");
/// `date -u -d 2026-11-25 +%s`
const NOW: i64 = 1_795_564_800;

fn asked(paths: Vec<std::path::PathBuf>, lake: &Path) -> CollectRequest {
    let lake = lake.to_owned();
    CollectRequest {
        paths,
        lake,
        clusters: Clusters::default(),
        #[cfg(feature = "store")]
        credentials: crate::store::StoreCredentials::default(),
        expected: Vec::new(),
        stale_days: 7,
        now: NOW,
        threads: 3,
    }
}

fn run(paths: &[&Path], lake: &Path) -> CollectSummary {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    let asked = CollectRequest {
        clusters: Clusters::for_all_hosts(Some("test".into())),
        ..asked(paths, lake)
    };
    collect_captures(&asked, &mut std::io::empty(), &mut |_| {}).unwrap().into_ordered()
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Rows of a table by the names of their columns, as another's reader has them, sorted.
fn rows(lake: &Path, table: &str) -> Vec<BTreeMap<String, Field>> {
    let mut found = Vec::new();
    files(&lake.join(table), &mut found);
    let mut rows = Vec::new();
    for path in found {
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            rows.push(
                row.unwrap()
                    .get_column_iter()
                    .map(|(name, field)| (name.clone(), field.clone()))
                    .collect(),
            );
        }
    }
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

fn all(lake: &Path) -> Vec<Vec<BTreeMap<String, Field>>> {
    schema::TABLES.iter().map(|table| rows(lake, table.name)).collect()
}

#[test]
fn a_row_says_what_the_kernel_of_its_host_said() {
    let folder = tempfile::tempdir().unwrap();
    let host = Path::new(HOSTS).join("oracle-many-sessions");
    let summary = run(&[&host], folder.path());
    // proc/meminfo: MemTotal 131924316 kB, PageTables 4254600 kB.
    assert_eq!((summary.read, summary.page_tables_bytes), (1, 4_254_600 << 10));
    let hosts = rows(folder.path(), "hosts");
    assert_eq!(hosts.len(), 1);
    let field_of = |name: &str| hosts[0][name].clone();
    assert_eq!(field_of("host"), Field::Str("db7".into()));
    assert_eq!(field_of("cluster"), Field::Str("test".into()));
    assert_eq!(field_of("memory_bytes"), Field::Long(131_924_316 << 10));
    assert_eq!(field_of("page_tables_bytes"), Field::Long(4_254_600 << 10));
    assert_eq!(field_of("torn"), Field::Null);
    // Each finding is of one case, and each case has one cause.
    let (cases, findings) = (rows(folder.path(), "cases"), rows(folder.path(), "findings"));
    let causes = findings.iter().filter(|row| row["is_cause"] == Field::Bool(true)).count();
    assert!(!cases.is_empty() && causes == cases.len());
    assert!(findings.iter().all(|row| row["case_number"] != Field::Null));
    let moments = rows(folder.path(), "moments").len();
    assert_eq!(moments, 3 * rows(folder.path(), "instances").len());
}

#[test]
fn a_pool_is_short_of_what_servers_ask_for_and_have() {
    let folder = tempfile::tempdir().unwrap();
    // Oracle has 8,190 pages, and nobody knows whether it asks; PostgreSQL tries for 4,208;
    // meminfo: HugePages_Total 8210.
    let summary = run(&[&Path::new(HOSTS).join("sosreport-oracle.tar.xz")], folder.path());
    assert_eq!((summary.pools_short, summary.short_pages), (1, 8190 + 4208 - 8210));
    // A Java server that may or may not ask, for as much as its heap, is on base pages.
    let java = b"/usr/bin/java\0-Xms1g\0-Xmx1g\0-jar\0app.jar\0";
    let files: [(&str, &[u8]); 4] = [
        ("hugewise-capture/proc/meminfo", b"MemTotal: 8388608 kB\nHugePages_Total: \
             16\nHugePages_Free: 16\nHugepagesize: 2048 kB\n"),
        ("hugewise-capture/proc/5/cmdline", java),
        ("hugewise-capture/proc/5/status", b"Name:\tjava\nPid:\t5\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmSize:\t4000000 kB\nVmRSS:\t100 kB\n"),
        ("hugewise-capture/proc/sys/kernel/hostname", b"java1"),
    ];
    let mut tar = tar::Builder::new(Vec::new());
    files.iter().for_each(|(path, content)| append(&mut tar, path, content));
    let folder = tempfile::tempdir().unwrap();
    let summary = run_input(&framed(&[("java1.tar", &tar.into_inner().unwrap())]), folder.path());
    let instances = rows(folder.path(), "instances");
    assert_eq!(instances[0]["asked"], Field::Str("unknown".into()));
    assert!(
        matches!(instances[0]["demand_pages"], Field::Long(pages) if pages > 16),
        "{instances:?}"
    );
    assert_eq!((summary.read, summary.pools_short, summary.pools_idle), (1, 0, 0));
}

#[test]
fn page_tables_that_huge_pages_would_save_are_of_servers_that_a_pool_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    run(&[Path::new(HOSTS)], folder.path());
    let instances = rows(folder.path(), "instances");
    let saved = |engine: &str, name: &str| {
        let matches = |row: &&BTreeMap<String, Field>| {
            row["engine"] == Field::Str(engine.into()) && row["instance"] == Field::Str(name.into())
        };
        let row = instances.iter().find(matches).unwrap();
        (row["saved_bytes"].clone(), row["saved_at_max_bytes"].clone())
    };
    // 96,143,360 now; with all sessions 4,979,628,032 on base pages and 72,573,655 on huge ones:
    // 98.54 % of both.
    assert_eq!(
        saved("postgresql", "16/data"),
        (Field::Long(94_742_155), Field::Long(4_907_054_377))
    );
    assert_eq!(saved("redis", "6379"), (Field::Long(0), Field::Long(0)));
    // On huge pages already; stopped.
    assert_eq!(saved("oracle", "FIN"), (Field::Long(0), Field::Long(0)));
    assert_eq!(saved("postgresql", "15/old"), (Field::Null, Field::Null));
}

#[test]
fn checksums_beside_captures_are_no_failures() {
    let folder = tempfile::tempdir().unwrap();
    let (given, lake) = (folder.path().join("captures"), folder.path().join("lake"));
    fs::create_dir(&given).unwrap();
    fs::write(given.join("db1.tar.gz"), capture("db1")).unwrap();
    // As sos leaves it, and as sha256sum writes it.
    let md5 = b"d41d8cd98f00b204e9800998ecf8427e\n".as_slice();
    fs::write(given.join("db1.tar.gz.md5"), md5).unwrap();
    let sum = format!("{}  db1.tar.gz\n", "0123456789abcdef".repeat(4));
    fs::write(given.join("SHA256SUMS"), &sum).unwrap();
    let summary = run(&[&given], &lake);
    assert_eq!((summary.read, summary.failures.len()), (1, 0), "{:?}", summary.failures);
    let summary =
        run_input(&framed(&[("a.md5", md5), ("a", &capture("db2")), ("b", b"no sum")]), &lake);
    assert_eq!(
        (summary.read, summary.failures.len(), summary.failures[0].path.as_str()),
        (1, 1, "-:b")
    );
    assert_eq!(rows(&lake, "failures").len(), 1);
}

#[test]
fn what_is_there_is_not_written_again_and_what_is_no_capture_is_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(&[Path::new(HOSTS)], folder.path());
    let torn = rows(folder.path(), "failures");
    let torn: Vec<_> =
        torn.iter().filter(|row| row["class"] == Field::Str("torn".into())).collect();
    assert_eq!((torn.len(), &torn[0]["rows_kept"]), (1, &Field::Bool(true)));
    // The notes beside the hosts are no captures, and each is named.
    let names = fs::read_dir(HOSTS).unwrap().map(|entry| entry.unwrap().file_name());
    let notes = names.filter(|name| name.to_string_lossy().ends_with(".expected.txt")).count();
    let count_of = |class: &str| {
        first.failures.iter().filter(|collect_failure| collect_failure.class == class).count()
    };
    assert_eq!(
        (count_of("not_a_capture"), count_of("torn"), first.failures.len()),
        (notes, 1, notes + 1)
    );
    assert_eq!(usize::try_from(first.read).unwrap(), notes, "a note for each host");

    let before = all(folder.path());
    let second = run(&[Path::new(HOSTS)], folder.path());
    assert_eq!((second.read, usize::try_from(second.already).unwrap()), (0, 2 * notes));
    assert_eq!(all(folder.path()), before);
}

/// As a kill leaves it before the batch is in, and while its files get their names.
#[test]
fn what_a_kill_leaves_is_finished_or_goes() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let two = [
        Path::new(HOSTS).join("oracle-many-sessions"),
        Path::new(HOSTS).join("healthy-postgresql"),
    ];
    run(&[&two[0]], folder.path());
    run(&[&two[0], &two[1]], whole.path());
    let mut written = Vec::new();
    files(folder.path(), &mut written);
    let parts: Vec<_> = written
        .iter()
        .filter(|path| path.extension().is_some_and(|name| name == "parquet"))
        .collect();
    let done =
        written.iter().find(|path| path.extension().is_some_and(|name| name == "done")).unwrap();

    // Begun: one file has its name, the others do not yet.
    fs::rename(done, done.with_extension("begun")).unwrap();
    parts.iter().skip(1).for_each(|path| fs::rename(path, path.with_extension("tmp")).unwrap());
    let summary = run(&[&two[0], &two[1]], folder.path());
    assert_eq!((summary.read, summary.already), (1, 1));
    assert_eq!(all(folder.path()), all(whole.path()));

    // Not begun: the files go, and the captures are read again.
    let again = tempfile::tempdir().unwrap();
    let stray = again.path().join("hosts/day=2026-11-25/bucket=03");
    fs::create_dir_all(&stray).unwrap();
    fs::write(stray.join("part-00.tmp"), "half").unwrap();
    run(&[&two[0], &two[1]], again.path());
    assert!(!stray.join("part-00.tmp").exists());
    assert_eq!(all(again.path()), all(whole.path()));
}

#[test]
fn the_same_capture_at_two_places_counts_once() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let capture = Path::new(HOSTS).join("sosreport-oracle.tar.xz");
    for name in ["one.tar.xz", "two.tar.xz"] {
        fs::copy(&capture, given.path().join(name)).unwrap();
    }
    let summary = run(&[given.path()], lake.path());
    assert_eq!((summary.read, summary.already, rows(lake.path(), "hosts").len()), (1, 1, 1));
}

#[test]
fn a_link_out_of_a_given_folder_is_not_followed() {
    let (given, lake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hosts = Path::new(HOSTS).canonicalize().unwrap();
    std::os::unix::fs::symlink(
        hosts.join("sosreport-oracle.tar.xz"),
        given.path().join("a.tar.xz"),
    )
    .unwrap();
    std::os::unix::fs::symlink(hosts.join("oracle-many-sessions"), given.path().join("b")).unwrap();
    let summary = run(&[given.path()], lake.path());
    assert_eq!((summary.read, summary.failures.len()), (0, 0));
}

#[test]
fn this_machine_and_nothing_are_failures_with_their_names() {
    let lake = tempfile::tempdir().unwrap();
    let summary = run(&[Path::new("/"), Path::new("/nowhere")], lake.path());
    let said: Vec<_> =
        summary.failures.iter().map(|collect_failure| collect_failure.path.as_str()).collect();
    assert_eq!((summary.read, said), (0, vec!["/", "/nowhere"]));
    // Tried again on the same day, they are rows once.
    run(&[Path::new("/"), Path::new("/nowhere")], lake.path());
    assert_eq!(rows(lake.path(), "failures").len(), 2);
}

#[test]
fn two_do_not_write_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let held = Lake::open(folder.path()).unwrap();
    let refused = Lake::open(folder.path()).unwrap_err();
    assert!(refused.to_string().contains("another hugewise collect"), "{refused}");
    drop(held);
    Lake::open(folder.path()).unwrap();
}

/// Root writes where root alone decides what lies there: a link in a folder of somebody else's leads
/// wherever he likes.
#[test]
fn tables_are_not_written_through_what_somebody_else_could_have_put_there() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["of-root", "his", "his/lake", "mine", "mine/lake", "open"] {
        fs::create_dir(path(name)).unwrap();
    }
    let give = |name: &str| std::os::unix::fs::lchown(path(name), Some(4242), Some(4242)).unwrap();
    std::os::unix::fs::symlink(path("of-root"), path("his/link")).unwrap();
    std::os::unix::fs::symlink(path("of-root"), path("his/lake/hosts")).unwrap();
    std::os::unix::fs::symlink(path("of-root"), path("mine/lake/hosts")).unwrap();
    ["his", "his/link", "his/lake", "his/lake/hosts"].into_iter().for_each(give);
    fs::set_permissions(path("open"), fs::Permissions::from_mode(0o777)).unwrap();
    for (lake, why) in [
        ("his/link", "user 4242"),
        ("his/lake", "user 4242"),
        ("his/new/lake", "user 4242"),
        ("mine/lake", "is a link"),
        ("open", "every user may write"),
        ("open/new", "every user may write"),
    ] {
        let refused = Lake::open(&path(lake)).unwrap_err().to_string();
        assert!(refused.contains(why), "{lake}: {refused}");
    }
    assert_eq!(fs::read_dir(path("of-root")).unwrap().count(), 0);
    std::os::unix::fs::symlink("of-root", path("own-link")).unwrap();
    Lake::open(&path("own-link/lake")).unwrap();
}

/// Who owns the folder of captures may put a link where a host was, once it has been listed.
#[test]
fn a_host_that_becomes_a_link_is_not_read_where_it_leads() {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("db7");
    fs::create_dir(&host).unwrap();
    fs::create_dir(host.join("proc")).unwrap();
    fs::create_dir(host.join("sys")).unwrap();
    fs::write(host.join("proc/meminfo"), "MemTotal: 1024 kB\n").unwrap();
    let unit = || {
        let mut units =
            capture_sources::find_captures(folder.path(), Path::new("/nowhere")).unwrap().units;
        assert_eq!(units.len(), 1, "{units:?}");
        units.remove(0)
    };
    assert!(unit().open().is_ok());
    let unit = unit();
    fs::remove_dir_all(&host).unwrap();
    std::os::unix::fs::symlink(Path::new(HOSTS).join("oracle-many-sessions"), &host).unwrap();
    assert!(unit.open().is_err());
}

/// A host with two files, as `hugewise capture` packs it.
fn capture(host: &str) -> Vec<u8> {
    let mut tar =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in [
        ("hugewise-capture/etc/hostname", format!("{host}\n")),
        (
            "hugewise-capture/proc/meminfo",
            "MemTotal: 1048576 kB\nPageTables: 1024 kB\nHugePages_Total: 0\n".to_owned(),
        ),
        ("hugewise-capture/proc/sys/kernel/hostname", format!("{host}\n")),
    ] {
        append(&mut tar, path, text.as_bytes());
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// The same host with other files, or with others beside them.
fn capture_with(host: &str, others: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, "hugewise-capture/proc/meminfo", MEMINFO);
    append(&mut tar, "hugewise-capture/proc/sys/kernel/hostname", host.as_bytes());
    others.iter().for_each(|(path, content)| append(&mut tar, path, content));
    tar.into_inner().unwrap()
}

const MEMINFO: &[u8] = b"MemTotal: 1048576 kB\nPageTables: 1024 kB\nHugePages_Total: 0\n";

/// With a time of its own, as a capture notes it.
fn captured_at(host: &str, seconds: i64) -> Vec<u8> {
    let note = format!(r#"{{"schema": "hugewise.capture/1", "read_at": {seconds}}}"#);
    capture_with(host, &[("hugewise-capture/hugewise/capture.json", note.as_bytes())])
}

/// Under any name: the library itself would refuse `..`.
fn append<W: std::io::Write>(tar: &mut tar::Builder<W>, path: &str, content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(u64::try_from(content.len()).unwrap());
    header.set_mode(0o600);
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

/// As a program writes it that has read the documents: names and captures with their lengths before
/// them.
fn framed(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut stream = b"HWSTRM1\n".to_vec();
    for (name, content) in members.iter().chain(&[("", b"".as_slice())]) {
        stream.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        stream.extend(name.as_bytes());
        stream.extend(u64::try_from(content.len()).unwrap().to_be_bytes());
        stream.extend(*content);
    }
    stream
}

fn run_input(mut input: &[u8], lake: &Path) -> CollectSummary {
    let asked = asked(vec!["-".into()], lake);
    collect_captures(&asked, &mut input, &mut |_| {}).unwrap().into_ordered()
}

fn hosts(lake: &Path) -> Vec<String> {
    let name =
        |row: &BTreeMap<String, Field>| format!("{} {}", row["host"], row["path"]).replace('"', "");
    rows(lake, "hosts")
        .iter()
        .map(name)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}
