//! `hugewise size` and `hugewise verify` as their users run them, on captured hosts and on files
//! made here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::{Said, fixtures, hugewise};
use serde_json::Value;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    fixtures("hosts").join(name)
}

fn on(command: &str, host: &str, more: &[&str]) -> Said {
    support::on(command, &fixture(host), more)
}

/// Files in a folder of their own.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn what_runs_is_sized_by_its_mappings() {
    let said = on("size", "no-pool-postgresql", &["--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    assert_eq!(report["schema"], "hugewise.size/1");
    let instance = &report["instances"][0];
    assert_eq!((&instance["engine"], &instance["running"]), (&"postgresql".into(), &true.into()));
    assert_eq!(
        (&instance["source"], &instance["error_percent"]),
        (&"measured".into(), &Value::Null)
    );
    let pool = &report["pools"][0];
    assert_eq!(pool["page_bytes"], 2 << 20);
    assert_eq!(pool["pages"], instance["demand_pages"]);
    let forecast = report["forecast"].as_array().unwrap();
    assert!(forecast.iter().any(|row| row["configured_max"] == true));
    assert!(
        forecast.iter().all(|row| row["page_tables_bytes"].as_u64().is_some_and(|bytes| bytes > 0))
    );
}

#[test]
fn several_segments_make_one_pool_and_a_headroom_is_added() {
    let words =
        ["size", "--memory", "64G", "--segment", "5GiB", "--segment", "3M", "--page-size", "2M"];
    let pages = |more: &[&str]| {
        let words: Vec<&str> =
            words.iter().chain(more).chain(&["--format", "json"]).copied().collect();
        let said = hugewise(&words);
        assert_eq!(said.code, 0, "{}", said.err);
        let report = said.json();
        (
            report["pools"][0]["pages"].as_u64().unwrap(),
            report["pools"][0]["spare_pages"].as_u64().unwrap(),
        )
    };
    // 2560 pages for 5 GiB, and two for 3 MiB, each segment being rounded up for itself.
    assert_eq!(pages(&[]), (2562, 0));
    // A tenth of 2562 is 256.2: whole pages.
    assert_eq!(pages(&["--headroom", "10"]), (2562 + 257, 257));
}

#[test]
fn sessions_of_a_bare_segment_share_tables_by_chance_and_the_report_says_what_one_address_would_cost()
 {
    let words = |size| {
        ["size", "--memory", "64G", "--only-described", "--segment", size, "--sessions", "300"]
    };
    let said = hugewise(&[&words("5GiB")[..], &["--format", "json"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    let row = |row: &&Value| row["sessions"] == 300 && row["page_bytes"] == 2 << 20;
    let row = report["forecast"].as_array().unwrap().iter().find(row).unwrap();
    // 54 KiB, a table and a hundredth of one for each, and the four tables within the memory: once,
    // or for each of the 227.19 offsets that 300 draws of 512 are expected to give.
    let (each, inner) = (300 * (54 * 1024 + 4096 + 40), 4 * 4096);
    assert_eq!(row["page_tables_least_bytes"], each + inner);
    let sets = (row["page_tables_bytes"].as_f64().unwrap() - f64::from(each)) / f64::from(inner);
    assert!((sets - 227.19).abs() < 0.01, "{sets}");
    let note = "sessions that map a segment at one address share tables";
    let said = |size| hugewise(&words(size)).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said("5GiB").contains(note));
    assert!(!said("1GiB").contains(note));
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let words = ["size", "--memory", "8G", "--segment", "7G", "--page-size", "2M"];
    let said = hugewise(&words);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.out.contains("does not fit  ") && said.out.contains("7.0 GiB"), "{}", said.out);
    let said = hugewise(&[&words[..], &["--format", "json"]].concat());
    assert_eq!(said.code, 1);
    let report = said.json();
    assert_eq!((&report["fits"], &report["pools"]), (&false.into(), &Value::Array(Vec::new())));
    assert_eq!(report["refusal"]["wanted"][0]["pages"], 3584);
}

#[test]
fn servers_of_several_kinds_are_sized_together() {
    let files = Files::new();
    let cnf = files.file("my.cnf", "[mysqld]\ninnodb_buffer_pool_size = 1G\nlarge_pages = 1\n");
    let words =
        ["size", "--memory", "256G", "--page-size", "2M", "--format", "json", "--segment", "5GiB"];
    let described =
        ["--engine", "oracle", "--sga", "34G", "--asm", "--engine", "mariadb", "--config", &cnf];
    let jvm = ["--engine", "jvm", "--", "java", "-Xmx8g", "-XX:+UseLargePages", "-jar", "a.jar"];
    let said = hugewise(&[&words[..], &described[..], &jvm[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report = said.json();
    let instances = report["instances"].as_array().unwrap();
    let engines: Vec<&str> =
        instances.iter().map(|instance| instance["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, ["oracle", "oracle", "mariadb", "jvm", "other"], "{instances:#?}");
    assert!(instances.iter().all(|instance| instance["running"] == false));
    let demand: u64 =
        instances.iter().map(|instance| instance["demand_pages"].as_u64().unwrap()).sum();
    let pool = &report["pools"][0];
    assert_eq!(pool["pages"].as_u64().unwrap(), demand + pool["spare_pages"].as_u64().unwrap());
    // 34 GiB are 17,408 pages; Oracle adds a few, and never more than a granule a part.
    let oracle = instances[0]["demand_pages"].as_u64().unwrap();
    assert!((17_408..17_800).contains(&oracle), "{oracle}");
    assert_eq!(instances[1]["name"], "+ASM");
}

#[test]
fn bad_input_is_named_and_exit_code_2() {
    let files = Files::new();
    let loops = files.file("loop/postgresql.conf", "");
    files.file("loop/PG_VERSION", "15\n");
    files.file("loop/postgresql.conf", "port = 5433\ninclude 'more.conf'\n");
    files.file("loop/more.conf", "\ninclude 'postgresql.conf'\n");
    let looped = Path::new(&loops).parent().unwrap().to_str().unwrap().to_owned();
    let empty = files.file("empty/readme", "nothing");
    let empty = Path::new(&empty).parent().unwrap().to_str().unwrap().to_owned();
    let bad = files.file("bad.cnf", "[mysqld]\n\ninnodb_buffer_pool_size = 12Q\n");
    let bare = files.file("bare.ora", "db_name = PROD\n");
    let wrong = files.file("wrong.ora", "db_name = PROD\nsga_target = 34X\n");
    let ifile = files.file("loop.ora", "");
    files.file("loop.ora", format!("ifile = {ifile}\n"));
    let postgresql = |folder| ["size", "--engine", "postgresql", "--data-dir", folder];
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["size", "--segment", "5X"], vec!["5X", "not a size"]),
        (vec!["size", "--segment", "0"], vec!["zero"]),
        (vec!["size", "--segment", "-5G"], vec!["negative"]),
        (vec!["size", "--segment", "9223372036854775808"], vec!["too large"]),
        (vec!["size", "--memory", "0"], vec!["zero"]),
        (vec!["size", "--segment", "1G", "--page-size", "3M"], vec!["not a page size"]),
        (vec!["size", "--segment", "1G", "--headroom", "-1"], vec!["not a percentage"]),
        (vec!["size", "--segment", "1G", "--headroom", "200"], vec!["not a percentage"]),
        (vec!["size", "--segment", "1G", "--sessions", "0"], vec!["--sessions"]),
        (vec!["size", "--only-described"], vec!["describe a server"]),
        (vec!["size", "--engine", "oracle"], vec!["--sga SIZE"]),
        (vec!["size", "--engine", "oracle", "--sga", "-1G"], vec!["negative"]),
        (
            vec!["size", "--engine", "mariadb", "--config", "/nonexistent/my.cnf"],
            vec!["/nonexistent/my.cnf"],
        ),
        (vec!["size", "--engine", "mariadb", "--config", &bad], vec!["bad.cnf:3", "12Q"]),
        (vec!["size", "--engine", "oracle", "--config", &bare], vec!["bare.ora: ", "SGA"]),
        (vec!["size", "--engine", "oracle", "--config", &wrong], vec!["wrong.ora:2: ", "34X"]),
        (vec!["size", "--engine", "oracle", "--config", &ifile], vec!["loop.ora:1", "loop"]),
        (postgresql("/nonexistent").to_vec(), vec!["/nonexistent"]),
        (postgresql(&empty).to_vec(), vec![&empty]),
        (postgresql(&looped).to_vec(), vec![".conf:2"]),
        (vec!["verify", "NOBODY", "--root"], vec!["--root"]),
        (vec!["verify", "--log", "/nonexistent/alert.log"], vec!["/nonexistent/alert.log"]),
        (vec!["verify", "--log", &bad], vec!["bad.cnf", "not recognised"]),
        (vec!["verify", "--wait", "0"], vec!["--wait"]),
        (vec!["verify", "--format", "xml"], vec!["xml"]),
    ];
    for (words, wanted) in cases {
        let said = hugewise(&words);
        assert_eq!(said.code, 2, "{words:?}: {}{}", said.out, said.err);
        assert_eq!(said.out, "", "{words:?}");
        assert!(said.err.starts_with("hugewise: "), "{words:?}: {}", said.err);
        assert!(
            wanted.iter().all(|part| said.err.contains(part)),
            "{words:?}: {wanted:?} in {}",
            said.err
        );
    }
}

#[test]
fn verify_is_0_only_where_everything_is_on_huge_pages() {
    for (host, more, code, word) in [
        ("healthy-postgresql", &[][..], 0, "all"),
        ("no-pool-postgresql", &[], 1, "none"),
        ("two-clusters-one-too-big", &[], 1, "none"),
        ("oracle-amm", &[], 1, "none"),
    ] {
        let said = on("verify", host, &[more, &["--format", "json"]].concat());
        assert_eq!(said.code, code, "{host}: {}{}", said.out, said.err);
        let report = said.json();
        assert_eq!(
            (&report["schema"], &report["verdict"]),
            (&"hugewise.verify/1".into(), &word.into()),
            "{host}"
        );
    }
    let said = on("verify", "no-pool-postgresql", &[]);
    assert!(said.out.contains("cause  pool: 2 MiB: 0 pages"), "{}", said.out);
}

#[test]
fn verify_of_one_instance_says_nothing_of_the_others() {
    let names = |said: &Said| -> Vec<(String, String)> {
        let report = said.json();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let instances = report["instances"].as_array().unwrap();
        instances
            .iter()
            .map(|instance| (word(&instance["name"]), word(&instance["huge_pages"])))
            .collect()
    };
    let all = names(&on("verify", "two-clusters-one-too-big", &["--format", "json"]));
    assert_eq!(all.len(), 2);
    for (name, huge_pages) in all {
        let said = on("verify", "two-clusters-one-too-big", &[&name, "--format", "json"]);
        assert_eq!(names(&said), [(name, huge_pages.clone())]);
        assert_eq!(said.code, i32::from(huge_pages != "all"));
    }
    let said = on("verify", "two-clusters-one-too-big", &["NOBODY"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("no instance is called NOBODY; running: postgresql "),
        "{}",
        said.err
    );
}

#[test]
fn a_monitoring_system_gets_one_line_and_its_own_exit_codes() {
    for (host, more, code, start) in [
        ("healthy-postgresql", &[][..], 0, "HUGEPAGES OK - "),
        ("no-pool-postgresql", &[], 2, "HUGEPAGES CRITICAL - "),
        ("healthy-postgresql", &["NOBODY"], 3, "HUGEPAGES UNKNOWN - no instance is called NOBODY"),
    ] {
        let said = on("verify", host, &[&["--format", "nagios"], more].concat());
        assert_eq!(said.code, code, "{host}: {}{}", said.out, said.err);
        assert!(
            said.out.starts_with(start) && said.out.lines().count() == 1,
            "{host}: {}",
            said.out
        );
        assert!(said.out.matches('|').count() <= 1 && said.err.is_empty());
    }
}

const FAILED_START: &str = "\
2024-03-01 10:00:00.000 UTC [100] LOG:  starting PostgreSQL 15.6 on x86_64-pc-linux-gnu, compiled \
     by gcc, 64-bit
2024-03-01 10:00:00.001 UTC [100] FATAL:  could not map anonymous shared memory: Cannot allocate \
     memory
2024-03-01 10:00:00.001 UTC [100] HINT:  This error usually means that PostgreSQL's request for a \
     shared memory segment \
exceeded available memory, swap space, or huge pages. To reduce the request size (currently \
     1126170624 bytes), reduce \
PostgreSQL's shared memory usage, perhaps by reducing shared_buffers or max_connections.
2024-03-01 10:00:00.002 UTC [100] LOG:  database system is shut down
";

#[test]
fn a_log_and_the_mappings_may_disagree() {
    let files = Files::new();
    let log = files.file("postgresql.log", FAILED_START);
    let said = on("verify", "healthy-postgresql", &["--log", &log, "--format", "json"]);
    let report = said.json();
    let shown = &report["logs"][0];
    assert_eq!(
        (&shown["engine"], &shown["verdict"]),
        (&"postgresql".into(), &"failed".into()),
        "{shown}"
    );
    assert_eq!(report["disagreements"][0]["log_says"], "failed");
    assert_eq!(report["disagreements"][0]["mapped"], "all");
    // What is mapped is what counts.
    assert_eq!((said.code, &report["verdict"]), (0, &"all".into()));
    let text = on("verify", "healthy-postgresql", &["--log", &log]);
    assert!(
        text.out.contains("disagree  ") && text.out.contains("the start failed"),
        "{}",
        text.out
    );
}

#[test]
fn the_log_of_a_server_that_does_not_run_decides_for_it() {
    let files = Files::new();
    let log = files.file("postgresql.log", FAILED_START);
    let said = on("verify", "idle-pool-mariadb", &["15/main", "--log", &log]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.out.contains("could not map anonymous shared memory"), "{}", said.out);
}

#[test]
fn waiting_for_a_server_that_never_comes_ends() {
    let said = hugewise(&["verify", "no-such-instance-here", "--wait", "1"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("no instance called no-such-instance-here started within 1 seconds"),
        "{}",
        said.err
    );
}

#[test]
fn no_report_is_wider_than_a_terminal() {
    for host in [
        "healthy-postgresql",
        "numa-unequal",
        "oracle-many-sessions",
        "two-clusters-one-too-big",
        "starved-host",
    ] {
        for command in ["size", "verify"] {
            let said = on(command, host, &[]);
            let wide = said.out.lines().find(|line| line.chars().count() > 80);
            assert!(wide.is_none(), "{command} {host}: {wide:?}");
            assert!(!said.out.is_empty() || said.code == 2, "{command} {host}: {}", said.err);
        }
    }
}

/// A captured host on which two servers call themselves the same.
fn two_of_a_name() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let from = fixture("no-pool-postgresql").join(".");
    let copied = Command::new("cp")
        .args(["-r", "--no-preserve=mode", from.to_str().unwrap(), root])
        .status()
        .unwrap();
    assert!(copied.success());
    // A capture knows its processes; a bare folder has those that lie there.
    std::fs::remove_dir_all(folder.path().join("hugewise")).unwrap();
    for pid in ["950", "951"] {
        let process = folder.path().join("proc").join(pid);
        std::fs::create_dir(&process).unwrap();
        let status = format!(
            "Name:\tjava\nPid:\t{pid}\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmSize:\t4300000 kB\nThreads:\t1\n"
        );
        std::fs::write(process.join("status"), status).unwrap();
        std::fs::write(process.join("cmdline"), "/usr/bin/java\0-Xms4g\0-Xmx4g\0PROD\0").unwrap();
        std::fs::write(process.join("maps"), "700000000-800000000 rw-p 00000000 00:00 0 \n")
            .unwrap();
    }
    folder
}

#[test]
fn a_name_that_two_servers_have_is_refused_by_every_command_that_takes_one() {
    let folder = two_of_a_name();
    let root = folder.path().to_str().unwrap();
    let expected =
        "several instances are called PROD; choose one: \"jvm PROD pid 950\", \"jvm PROD pid 951\"";
    for (command, name) in [
        ("check", &["--instance"][..]),
        ("size", &["--instance"]),
        ("plan", &["--instance"]),
        ("plan", &["--restart"]),
        ("verify", &[]),
    ] {
        let with = |name_of: &str| {
            let words = [command, "--root", root].into_iter().chain(name.iter().copied());
            hugewise(&words.chain([name_of]).collect::<Vec<_>>())
        };
        let said = with("PROD");
        assert_eq!(said.code, 2, "{command}: {}{}", said.out, said.err);
        assert!(said.err.contains(expected), "{command}: {}", said.err);
        let said = with("jvm PROD pid 951");
        assert!(!said.err.contains("several"), "{command}: {}", said.err);
    }
}

/// ASM and the database belong to one owner, who has one answer; of one process there is no plural.
#[test]
fn what_holds_for_both_servers_is_said_once() {
    let words = |said: &Said| said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&on("size", "oracle-restart-asm", &[]));
    assert_eq!(
        text.matches("oracle has no CAP_IPC_LOCK and is not in vm.hugetlb_shm_group=0").count(),
        1,
        "{text}"
    );
    let text = words(&on("check", "ase-no-pool", &["-v"]));
    assert!(text.contains("mapped by 1 process ") && text.contains("in 1 process,"), "{text}");
}
