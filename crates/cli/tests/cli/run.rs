//! `hugewise run` on real programs: what they say and how they end is theirs; where their memory
//! lies is the kernel's word.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use serde_json::Value;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const OWN: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";

fn hugewise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    for variable in ["GLIBC_TUNABLES", "PYTHONMALLOC", "MALLOC_CONF", "NODE_OPTIONS"] {
        command.env_remove(variable);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    hugewise(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The switch of the usual size, which newer kernels have (Linux 6.8), obeys the one above all
/// sizes.
fn inherits(guard: &PoolGuard) -> Result<(), Skip> {
    if Path::new(OWN).exists() { Ok(guard.set_switch(OWN, "inherit")?) } else { Ok(()) }
}

/// A guard with THP as most distributions have it: on request.
fn madvise() -> Result<PoolGuard, Skip> {
    let guard = PoolGuard::take_for_test()?;
    guard.set_switch(THP, "madvise")?;
    inherits(&guard)?;
    let _ = fs::write("/proc/sys/vm/compact_memory", "1");
    Ok(guard)
}

/// How often the kernel had no transparent huge page for one that asked, since it booted.
fn fallbacks() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("thp_fault_fallback "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Memory in pieces is no failure of what was asked for.
fn whole_memory(before: u64) -> Result<(), Skip> {
    let missing = fallbacks() - before;
    if missing == 0 {
        Ok(())
    } else {
        Err(Skip(format!("memory is in pieces: {missing} huge pages could not be had")))
    }
}

fn program(name: &str) -> Result<(), Skip> {
    let found =
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).map_err(|error| Skip(format!("{name}: {error}")))
}

/// What `--report --format json` says of one run.
fn reported(folder: &Path, options: &[&str], command: &[&str]) -> (Output, Value) {
    let file = folder.join("report.json");
    let file = file.to_str().unwrap();
    let output =
        run(&[options, &["--report", "--format", "json", "--out", file, "--"], command].concat());
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {}", errors(&output)));
    (output, serde_json::from_str(&text).unwrap())
}

/// Whether a run took up what glibc was told. One that did has its memory on huge pages; one that
/// did not has none, and the report says so: before 2.38 glibc ignores its switch by chance. `None`
/// where the run was over before it was seen with memory enough to tell, as a busy machine may have
/// it.
fn took_up(report: &Value, run: &Value) -> Option<bool> {
    let bytes = |field: &str| run[field].as_f64().unwrap_or_else(|| panic!("{field}: {report:#}"));
    if run["peak_bytes"].is_null() || bytes("peak_bytes") < 30e6 {
        return None;
    }
    let (peak, asked, huge) =
        (bytes("peak_bytes"), bytes("asked_bytes"), bytes("transparent_bytes"));
    if asked > 0.7 * peak {
        assert!(huge > 0.7 * asked, "{report:#}");
        return Some(true);
    }
    assert!(asked + huge < 0.2 * peak, "{report:#}");
    let caveats = report["caveats"].to_string();
    assert!(caveats.contains("may ignore glibc.malloc.hugetlb=1"), "{report:#}");
    assert!(caveats.contains("ignored the setting"), "{report:#}");
    Some(false)
}

/// Three in four starts or more take it up where glibc leaves it to chance: that many misses in a
/// row are no chance.
const STARTS: u32 = 40;

/// Lines in no order, some 30 MB of them.
fn lines(folder: &Path) -> String {
    let mut text = String::new();
    let mut key = 1_u64;
    for _ in 0..300_000 {
        key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(text, "{:016x} {}", key >> 7, "x".repeat(80)).unwrap();
    }
    let path = folder.join("lines");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn exit_codes_and_output_are_the_programs() {
    let _guard = require!(madvise());
    let output = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), b"out\n".as_slice()));
    assert!(
        errors(&output).contains("glibc.malloc.hugetlb=1") && errors(&output).ends_with("err\n")
    );
    let quiet = run(&["--quiet", "--", "sh", "-c", "echo err >&2"]);
    assert_eq!(errors(&quiet), "err\n");
    assert_eq!(run(&["--", "no-such-program-here"]).status.code(), Some(127));
    assert_eq!(run(&["--", "/etc"]).status.code(), Some(126));
    assert_eq!(run(&["--", "/etc/passwd"]).status.code(), Some(126));
    for options in [&["--quiet", "--"][..], &["--quiet", "--report", "--"]] {
        let killed = run(&[options, &["sh", "-c", "kill -TERM $$"]].concat());
        assert_eq!(killed.status.signal(), Some(15), "{options:?}");
    }
}

#[test]
fn a_report_that_can_go_nowhere_is_said_before_anything_runs() {
    let _guard = require!(madvise());
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    let program = ["--", "touch", left.to_str().unwrap()];
    for (options, said) in [
        (&["--report", "--out", "/nonexistent/x"][..], "/nonexistent/x"),
        (&["--out", "x"], "add --report or --compare"),
        (&["--need", "1G"], "--pages 2M or --pages 1G"),
    ] {
        let output = run(&[options, &program].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(errors(&output).contains(said), "{}", errors(&output));
        assert!(!left.exists(), "{options:?}");
    }
    // What is not started leaves no report either, and what is there already stays.
    let report = folder.path().join("report");
    let out = ["--report", "--out", report.to_str().unwrap()];
    assert_eq!(run(&[&out[..], &["--", "no-such-program-here"]].concat()).status.code(), Some(127));
    assert!(!report.exists());
}

#[test]
fn settings_reach_the_program_and_its_children() {
    let _guard = require!(madvise());
    let output =
        run(&["--", "sh", "-c", "sh -c 'echo $GLIBC_TUNABLES; ulimit -H -l'; ulimit -S -l"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "glibc.malloc.hugetlb=1");
    assert_eq!(lines[1], lines[2], "the soft limit of locked memory is as high as the hard one");
    let mut with_own = hugewise(&["--", "sh", "-c", "echo $GLIBC_TUNABLES"]);
    let output = with_own.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1").output().unwrap();
    assert_eq!(output.stdout, b"glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1\n");
}

#[test]
fn a_signal_to_hugewise_is_one_to_the_program() {
    let _guard = require!(madvise());
    let script = "trap 'exit 42' TERM; echo up; while :; do sleep 0.05; done";
    let mut child = hugewise(&["--quiet", "--report", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn sort_gets_transparent_pages_and_sorts_as_before() {
    let _guard = require!(madvise());
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path());
    let before = fallbacks();
    let plain = Command::new("sort").args(["-S", "256M", "--parallel=1", &lines]).output().unwrap();
    for _ in 0..STARTS {
        let (output, report) =
            reported(folder.path(), &["--quiet"], &["sort", "-S", "256M", "--parallel=1", &lines]);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(output.stdout == plain.stdout && !plain.stdout.is_empty());
        assert_eq!(report["gain"], Value::Null);
        require!(whole_memory(before));
        if took_up(&report, &report["with"][0]) == Some(true) {
            return;
        }
    }
    panic!("sort never asked for huge pages");
}

#[test]
fn a_pool_is_used_and_a_short_one_is_said_before_anything_runs() {
    let guard = require!(madvise());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(64)));
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path());
    let sort = ["sort", "-S", "100M", "--parallel=1", &lines, "-o", "/dev/null"];
    let (output, report) = reported(folder.path(), &["--pages", "2M", "--need", "100M"], &sort);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("64 pages (128.0 MiB) available"), "{}", errors(&output));
    assert!(report["with"][0]["pool_bytes"].as_u64().unwrap() >= 32 << 20, "{report:#}");

    let marker = folder.path().join("ran");
    let refused = run(&["--pages", "2M", "--need", "1G", "--", "touch", marker.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(125));
    // 512 pages hold 1 GiB, 64 are there.
    assert!(
        errors(&refused).contains("448 are missing") && errors(&refused).contains("echo 512 >"),
        "{}",
        errors(&refused)
    );
    assert!(!marker.exists());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    assert_eq!(run(&["--pages", "2M", "--", "true"]).status.code(), Some(125));
}

#[test]
fn thp_never_is_refused_with_what_to_do() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_switch(THP, "never"));
    require!(inherits(&guard));
    let refused = run(&["--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        errors(&refused).contains("THP is `never`") && errors(&refused).contains("echo madvise >")
    );
    assert!(
        errors(&refused).contains(THP) && !errors(&refused).contains(OWN),
        "{}",
        errors(&refused)
    );
}

#[test]
fn the_switch_that_forbids_is_the_one_that_is_named() {
    let guard = require!(madvise());
    if !Path::new(OWN).exists() {
        return Skip("this kernel has no switches of single sizes".into()).report();
    }
    for above in ["madvise", "always"] {
        require!(guard.set_switch(THP, above));
        require!(guard.set_switch(OWN, "never"));
        let refused = run(&["--", "true"]);
        assert_eq!(refused.status.code(), Some(125), "{above}");
        let said = errors(&refused);
        assert!(
            said.contains("THP is `never`") && said.contains(&format!("echo inherit > {OWN}")),
            "{said}"
        );
        assert!(!said.contains(THP), "{said}");
        // What it says to do is enough.
        require!(guard.set_switch(OWN, "inherit"));
        assert_eq!(run(&["--quiet", "--", "true"]).status.code(), Some(0), "{above}");
    }
    // glibc's malloc looks at the switch above all sizes alone, and would ask for nothing.
    require!(guard.set_switch(THP, "never"));
    require!(guard.set_switch(OWN, "madvise"));
    let refused = run(&["--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(errors(&refused).contains(&format!("echo madvise > {THP}")), "{}", errors(&refused));
}

#[test]
fn python_objects_come_on_huge_pages() {
    let _guard = require!(madvise());
    require!(program("python3"));
    let folder = tempfile::tempdir().unwrap();
    let script =
        "import time; a = [str(i) * 3 for i in range(700000)]; time.sleep(0.4); print(len(a))";
    let before = fallbacks();
    for _ in 0..STARTS {
        let (output, report) = reported(folder.path(), &["--quiet"], &["python3", "-c", script]);
        assert_eq!(output.stdout, b"700000\n", "{}", errors(&output));
        require!(whole_memory(before));
        if took_up(&report, &report["with"][0]) == Some(true) {
            return;
        }
    }
    panic!("python3 never asked for huge pages");
}

#[test]
fn java_is_told_by_a_flag_that_it_reads() {
    let guard = require!(madvise());
    require!(program("java"));
    let flags = ["java", "-XX:+PrintFlagsFinal", "-version"];
    let set = |output: &Output, flag: &str| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.split_ascii_whitespace().nth(1) == Some(flag))
            .map(str::to_owned);
        line.unwrap_or_else(|| panic!("{flag} in {text}"))
    };
    let output = run(&[&["--quiet", "--"][..], &flags].concat());
    assert!(set(&output, "UseTransparentHugePages").contains("= true"));
    require!(guard.set_pool(PageSize::MIB_2, PageCount(64)));
    // A heap of 1 GiB and more does not fit in 128 MiB, which the JVM itself would say only in
    // passing.
    let refused = run(&["--pages", "2M", "--", "java", "-Xms1g", "-Xmx1g", "-version"]);
    assert_eq!(refused.status.code(), Some(125), "{}", errors(&refused));
    assert!(errors(&refused).contains("are missing"), "{}", errors(&refused));
    let small = ["java", "-Xmx32m", "-XX:ReservedCodeCacheSize=16m"];
    let output =
        run(&[&["--quiet", "--pages", "2M", "--need", "64M", "--"][..], &small, &flags[1..]]
            .concat());
    assert!(set(&output, "UseLargePages").contains("= true"));
    assert!(set(&output, "LargePageSizeInBytes").contains("2097152"));
}

#[test]
fn a_comparison_runs_both_ways_and_stops_at_a_failure() {
    let _guard = require!(madvise());
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path());
    let compare = [
        "--quiet",
        "--compare",
        "--runs",
        "2",
        "--format",
        "json",
        "--",
        "sort",
        "-S",
        "256M",
        &lines,
    ];
    let before = fallbacks();
    let output = run(&compare);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", errors(&output)));
    assert_eq!(output.status.code(), Some(0));
    let (gain, verdict) = (&report["gain"], report["gain"]["verdict"].as_str().unwrap());
    assert!(
        verdict == "unknown" && gain["median"].as_f64().unwrap() > 0.0,
        "two of each tell nothing: {report:#}"
    );
    for side in ["without", "with"] {
        assert_eq!(report[side].as_array().unwrap().len(), 2);
    }
    let whole = whole_memory(before);

    let counted = folder.path().join("counted");
    let script = format!("echo x >> {}; exit 3", counted.display());
    let failed = run(&["--quiet", "--compare", "--", "sh", "-c", &script]);
    assert_eq!(failed.status.code(), Some(3));
    assert!(errors(&failed).contains("nothing is compared"));
    assert_eq!(fs::read_to_string(counted).unwrap(), "x\n");

    require!(whole);
    let jsons_of = |side: &str| report[side].as_array().unwrap().clone();
    for one in jsons_of("without") {
        assert!(one["transparent_bytes"].as_f64().unwrap_or(0.0) < 4e6, "{report:#}");
    }
    for one in jsons_of("set_aside") {
        assert_ne!(took_up(&report, &one), Some(true), "{report:#}");
    }
    for one in jsons_of("with") {
        took_up(&report, &one);
    }
}
