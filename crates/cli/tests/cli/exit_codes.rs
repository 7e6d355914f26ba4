//! The program as its users run it: exit codes, streams, odd arguments.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const MEMINFO: &str = "\
MemTotal:       16384000 kB
MemFree:        12000000 kB
MemAvailable:   14000000 kB
SwapTotal:             0 kB
SwapFree:              0 kB
AnonPages:        200000 kB
Shmem:              1000 kB
PageTables:         8000 kB
CommitLimit:     8192000 kB
Committed_AS:     300000 kB
HugePages_Total:       0
HugePages_Free:        0
HugePages_Rsvd:        0
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:               0 kB
";

/// No segment at all.
const SYSVIPC_SHM: &str = "       key      shmid perms                  size  cpid  lpid \
     nattch   uid   gid  cuid  cgid      \
atime      dtime      ctime                   rss                  swap\n";

/// A captured host: files below a temporary folder.
struct Captured {
    folder: TempDir,
}

impl Captured {
    /// A quiet host on which nothing but an init runs.
    fn quiet() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        host.file("proc/meminfo", MEMINFO);
        host.file("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
        host.file("proc/sys/kernel/hostname", "quiet1\n");
        host.file("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/vda1 quiet\n");
        host.file(
            "proc/1/status",
            "Name:\tinit\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmPTE:\t48 \
                 kB\nThreads:\t1\n",
        );
        host.file("proc/sysvipc/shm", SYSVIPC_SHM);
        host.file("proc/1/cmdline", "/sbin/init\0");
        host.file("proc/1/maps", "");
        host.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        host.pool(0, 0);
        host
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The pool of 2 MiB pages.
    fn pool(&self, total: u64, free: u64) {
        for (name, value) in [
            ("nr_hugepages", total),
            ("free_hugepages", free),
            ("resv_hugepages", 0),
            ("surplus_hugepages", 0),
            ("nr_overcommit_hugepages", 0),
        ] {
            self.file(
                &format!("sys/kernel/mm/hugepages/hugepages-2048kB/{name}"),
                &format!("{value}\n"),
            );
        }
        let meminfo = MEMINFO
            .replace("HugePages_Total:       0", &format!("HugePages_Total:    {total}"))
            .replace("HugePages_Free:        0", &format!("HugePages_Free:     {free}"))
            .replace("Hugetlb:               0", &format!("Hugetlb:         {}", total * 2048));
        self.file("proc/meminfo", &meminfo);
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn hugewise<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Output {
    command_definition(arguments).output().unwrap()
}

fn command_definition<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm");
    command
}

fn check(root: &Path, more: &[&str]) -> Output {
    let root = [OsStr::new("check"), OsStr::new("--root"), root.as_os_str()];
    hugewise(root.into_iter().chain(more.iter().map(OsStr::new)))
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_quiet_host_is_fine_and_says_what_was_looked_for() {
    let output = check(Captured::quiet().path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    assert!(
        out(&output).starts_with("quiet1  15.6 GiB of memory, 13.4 GiB available\n"),
        "{}",
        out(&output)
    );
    let all = check(Captured::quiet().path(), &["-v"]);
    assert!(out(&all).starts_with("quiet1  Linux 6.1.0-13-amd64"), "{}", out(&all));
    assert!(out(&all).contains("memory 15.6 GiB, 13.4 GiB available  swap none"), "{}", out(&all));
    assert!(out(&output).contains("No database runs here. Looked for Oracle, PostgreSQL,"));
    assert!(out(&output).ends_with("Everything was read.\n"), "{}", out(&output));
    assert!(!out(&output).contains('\x1b'));
    assert_eq!(err(&output), "");
}

#[test]
fn check_is_what_happens_without_a_subcommand() {
    let host = Captured::quiet();
    let short = hugewise([OsStr::new("--root"), host.path().as_os_str()]);
    assert_eq!(out(&short), out(&check(host.path(), &[])));
    assert_eq!(short.status.code(), Some(0));
}

#[test]
fn findings_decide_the_exit_code_from_the_level_asked_for() {
    let host = Captured::quiet();
    // Nearly all memory is set apart for huge pages that nobody uses.
    host.pool(7000, 7000);
    let code = |level| check(host.path(), &["--fail-on", level]).status.code();
    assert_eq!(code("never"), Some(0));
    assert_eq!(code("info"), Some(1));
    let output = check(host.path(), &["--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let worst = report["findings"][0]["level"].as_str().unwrap();
    assert_eq!(code(worst), Some(1), "{}", out(&output));
}

#[test]
fn json_is_one_document() {
    let host = Captured::quiet();
    host.pool(100, 40);
    let output = check(host.path(), &["--format", "json", "--fail-on", "never"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "hugewise.check/1");
    assert_eq!(report["host"]["memory_bytes"], 16_384_000_u64 * 1024);
    assert_eq!(report["host"]["pools"][0]["committed_pages"], 60);
    assert_eq!(report["instances"], Value::Array(Vec::new()));
}

#[test]
fn this_host_is_read_live_and_says_when() {
    let output = hugewise(["--format", "json", "--fail-on", "never"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let host = &report["host"];
    assert_eq!(host["live"], true);
    assert!(host["base_page_bytes"].as_u64().is_some_and(|bytes| bytes >= 4096));
    assert!(
        host["read_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
    );
    assert!(host["memory_bytes"].as_u64() >= host["memory_free_bytes"].as_u64());
}

#[test]
fn colour_comes_only_when_it_is_asked_for() {
    let host = Captured::quiet();
    assert!(!out(&check(host.path(), &[])).contains('\x1b'));
    assert!(out(&check(host.path(), &["--color", "always"])).contains('\x1b'));
    assert!(!out(&check(host.path(), &["--color", "never"])).contains('\x1b'));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let host = Captured::quiet();
    let mut child = command_definition([OsStr::new("--root"), host.path().as_os_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(complaints, "");
}

#[test]
fn a_full_disk_is_a_failure() {
    let host = Captured::quiet();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command_definition([OsStr::new("--root"), host.path().as_os_str()])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).starts_with("hugewise: standard output cannot be written: "),
        "{}",
        err(&output)
    );
}

#[test]
fn what_cannot_be_read_as_a_host_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for root in [
        folder.path().join("missing"),
        folder.path().join("empty"),
        write("note.txt", b"no host at all"),
        write("torn.tar.gz", &[0x1f, 0x8b, 8, 0, 0]),
        PathBuf::from("/dev/null"),
    ] {
        let output = check(&root, &[]);
        assert_eq!(output.status.code(), Some(2), "{root:?}: {}{}", out(&output), err(&output));
        let message = err(&output);
        assert!(
            message.starts_with("hugewise: ") && message.contains(root.to_str().unwrap()),
            "{message}"
        );
        assert_eq!(out(&output), "");
    }
}

#[test]
fn what_is_torn_off_a_capture_may_be_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let host =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/healthy-postgresql");
    std::fs::write(folder.path().join("last"), vec![b'x'; 200 << 10]).unwrap();
    let torn = folder.path().join("torn.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf")
        .arg(&torn)
        .arg("-C")
        .arg(&host)
        .arg(".")
        .arg("-C")
        .arg(folder.path())
        .arg("last");
    assert!(tar.status().unwrap().success());
    let run = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_hugewise"))
            .args(words)
            .arg("--root")
            .arg(&torn)
            .output()
            .unwrap()
    };
    assert_eq!(run(&["verify"]).status.code(), Some(0), "{}", out(&run(&["verify"])));
    let file = std::fs::OpenOptions::new().write(true).open(&torn).unwrap();
    file.set_len(file.metadata().unwrap().len() - (100 << 10)).unwrap();
    for words in [&["verify"][..], &["check"], &["size"], &["plan"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}{}", out(&output), err(&output));
    }
    let output = run(&["verify", "--format", "nagios"]);
    let line = out(&output);
    let said = "HUGEPAGES UNKNOWN - postgresql 15/main is wholly on huge pages; there may be \
         others: the capture is truncated";
    assert!(line.starts_with(said), "{line}");
}

/// Copies a folder of a capture.
fn copied(from: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let host =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(from).join(".");
    assert!(Command::new("cp").arg("-a").arg(host).arg(folder.path()).status().unwrap().success());
    folder
}

#[test]
fn processes_that_a_capture_has_lost_are_not_taken_for_none() {
    let host = copied("healthy-postgresql");
    for entry in std::fs::read_dir(host.path().join("proc")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().parse::<u32>().is_ok() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    let output = check(host.path(), &[]);
    assert_eq!(output.status.code(), Some(3), "{}{}", out(&output), err(&output));
    assert!(
        out(&output).contains("has no files for any of them")
            && !out(&output).contains("Everything was read"),
        "{}",
        out(&output)
    );
}

#[test]
fn what_is_laid_into_a_capture_is_seen() {
    let host = copied("healthy-postgresql");
    let (from, to) = (host.path().join("proc/32322"), host.path().join("proc/4000000"));
    assert!(Command::new("cp").arg("-a").args([&from, &to]).status().unwrap().success());
    let maps = std::fs::read_to_string(to.join("maps")).unwrap().replace("202344 ", "999999 ");
    std::fs::write(to.join("maps"), maps).unwrap();
    let command = std::fs::read_to_string(to.join("cmdline")).unwrap();
    std::fs::write(
        to.join("cmdline"),
        command.replace("databases/15/main", "databases/15/next").replace("5432", "5999"),
    )
    .unwrap();
    let status = std::fs::read_to_string(to.join("status")).unwrap();
    std::fs::write(to.join("status"), status.replace("32322", "4000000")).unwrap();
    let report: Value =
        serde_json::from_slice(&check(host.path(), &["--format", "json"]).stdout).unwrap();
    let pids: Vec<_> = report["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|json| json["pid"].as_u64().unwrap())
        .collect();
    assert_eq!(pids, [32322, 4_000_000], "{report}");
}

#[test]
fn a_secret_in_a_file_that_is_none_of_ours_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:$6$hunter2hunter2:19000:0:99999:7:::\n".repeat(40)).unwrap();
    let path = secret.to_str().unwrap();
    for words in [
        &["check", "--root", path][..],
        &["plan", "--root", path],
        &["size", "--only-described", "--engine", "postgresql", "--config", path],
        &["verify", "--log", path],
        &["investigate", path],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_hugewise")).args(words).output().unwrap();
        let said = format!("{}{}", out(&output), err(&output));
        assert!(!said.contains("hunter2") && !said.contains("99999"), "{words:?}: {said}");
        assert!(!output.status.success(), "{words:?}");
    }
}

#[test]
fn a_monitoring_system_that_asks_wrongly_hears_unknown() {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["verify", "--format", "nagios", "--bogus"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), out(&output).lines().count()), (Some(3), 1));
    assert!(
        out(&output).starts_with("HUGEPAGES UNKNOWN - unexpected argument '--bogus'"),
        "{}",
        out(&output)
    );
    let other =
        Command::new(env!("CARGO_BIN_EXE_hugewise")).args(["verify", "--bogus"]).output().unwrap();
    assert_eq!((other.status.code(), out(&other)), (Some(2), ""));
}

#[test]
fn paths_that_are_not_utf_8_work_and_cannot_paint_the_terminal() {
    let host = Captured::quiet();
    let odd = host.path().join(OsStr::from_bytes(b"host\xff"));
    std::os::unix::fs::symlink(host.path(), &odd).unwrap();
    assert_eq!(check(&odd, &[]).status.code(), Some(0));

    let hostile = host.path().join("no\x1b[2Jsuch");
    let output = check(&hostile, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!err(&output).contains('\x1b'), "{:?}", err(&output));
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [
        &["--frob"][..],
        &["frob"],
        &["--fail-on", "panic"],
        &["check", "--root"],
        &["rules", "HW999"],
    ] {
        let output = hugewise(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).starts_with("hugewise: "), "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
}

/// The path of a captured host is no command and no instance.
#[test]
fn a_path_alone_is_answered_with_the_option_that_takes_it() {
    let quiet = Captured::quiet();
    let path = quiet.path().to_str().unwrap();
    for (arguments, tip) in [
        (&[path][..], Some("check")),
        (&["check", path], Some("check")),
        (&["check", "--verbose", path], Some("check")),
        (&["size", path], Some("size")),
        (&["plan", path], Some("plan")),
        (&["verify", path], Some("verify")),
        (&["check", "./no-such-capture.tar.gz"], Some("check")),
        (&["check", "--root", path, path], None),
        (&["check", "frob"], None),
        (&["rules", "--all", path], None),
        (&["apply", path], Some("check")),
    ] {
        let output = hugewise(arguments);
        let said = err(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let word = arguments.last().unwrap();
        match tip {
            Some(command) => {
                assert!(
                    said.contains(&format!("hugewise {command} --root {word}")),
                    "{arguments:?}: {said}"
                )
            }
            None => assert!(!said.contains(&format!("--root {word}")), "{arguments:?}: {said}"),
        }
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["--help"][..], &["--version"], &["check", "--help"]] {
        let output = hugewise(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(err(&output), "");
        assert!(!out(&output).is_empty());
    }
}

#[test]
fn an_instance_that_does_not_run_is_named() {
    let output = check(Captured::quiet().path(), &["--instance", "PROD"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output), "hugewise: no instance is called PROD; none runs\n");
}

#[test]
fn a_page_says_the_same_as_text_and_exits_as_it_does() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/oracle-many-sessions");
    for (subcommand, said) in [
        ("check", "HW201"),
        ("size", "17,410 pages of 2 MiB"),
        ("verify", "oracle PROD is not on huge pages"),
    ] {
        let [text, page] = ["text", "html"]
            .map(|format| hugewise([subcommand, "--root", root, "--format", format]));
        assert_eq!(page.status.code(), text.status.code(), "{subcommand}: {}", err(&page));
        let page = out(&page);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{subcommand}");
        assert!(page.contains(said) && page.matches("<script").count() <= 1, "{subcommand}");
    }
}

#[test]
fn every_rule_has_a_page_and_a_line() {
    let list = hugewise(["rules"]);
    assert_eq!(list.status.code(), Some(0));
    let document: Value =
        serde_json::from_slice(&hugewise(["rules", "--format", "json"]).stdout).unwrap();
    let rules = document["rules"].as_array().unwrap();
    assert!(!rules.is_empty());
    for rule in rules {
        let (code, name) = (rule["code"].as_str().unwrap(), rule["name"].as_str().unwrap());
        assert!(out(&list).contains(&format!("{code}  ")) && out(&list).contains(name), "{code}");
        let page = hugewise(["rules", code]);
        assert!(out(&page).starts_with(&format!("{code} {name}")), "{}", out(&page));
        assert_eq!(out(&hugewise(["rules", name])), out(&page));
        // Code blocks stay as they are; all else fits.
        for line in out(&list).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let output = hugewise(["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("fail-on"), "{shell}");
    }
}

#[test]
fn a_capture_brings_the_same_verdicts() {
    let host = Captured::quiet();
    host.pool(7000, 7000);
    let folder = tempfile::tempdir().unwrap();
    let report = |root: &Path| -> Value {
        serde_json::from_slice(&check(root, &["--format", "json"]).stdout).unwrap()
    };
    let before = report(host.path());
    for name in ["host.tar.gz", "host"] {
        let target = folder.path().join(name);
        let arguments = [OsStr::new("capture"), OsStr::new("--root"), host.path().as_os_str()];
        let output = hugewise(arguments.into_iter().chain([OsStr::new("-o"), target.as_os_str()]));
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let after = report(&target);
        assert_eq!(after["findings"], before["findings"], "{name}");
        assert_eq!(after["host"]["pools"], before["host"]["pools"], "{name}");

        let again = hugewise(arguments.into_iter().chain([OsStr::new("-o"), target.as_os_str()]));
        assert_eq!(again.status.code(), Some(2), "{name} was overwritten");
    }
}

/// What a newcomer writes first.
#[test]
fn help_and_version_may_be_written_as_commands_and_a_format_as_an_option_is_told_how() {
    let said = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hugewise")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_eq!(said(&["help", "size"]), said(&["size", "--help"]));
    assert_eq!(said(&["version"]), said(&["--version"]));
    let (code, text) = said(&["check", "--json"]);
    assert!(code == Some(2) && text.contains("tip: write '--format json'"), "{text}");
    let (code, text) = said(&["apply", "/nowhere/plan.json"]);
    assert!(code == Some(2) && text.contains("/nowhere/plan.json: no such file"), "{text}");
    assert!(!said(&["size", "--sga", "34G"]).1.contains("\n\n\n"));
}

#[test]
fn a_message_of_oracles_is_explained_with_the_rules_that_find_its_causes() {
    let output = hugewise(["rules", "ora-27125"]);
    let text = out(&output);
    assert!(
        output.status.success()
            && text.starts_with("ORA-27125  unable to create shared memory segment"),
        "{text}"
    );
    assert!(text.contains("HW303 shm-group-missing") && text.contains("Sources"), "{text}");
    let output = hugewise(["rules", "ORA-4030", "--format", "json"]);
    let text = out(&output);
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(json["messages"][0]["name"], "ORA-04030");
    let output = hugewise(["rules", "ORA-00001"]);
    assert!(
        output.status.code() == Some(2) && err(&output).contains("no rule or message"),
        "{}",
        err(&output)
    );
}
