//! The flight recorder as its users run it: it records, is killed, is read while it is written, and
//! is exported.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hugewise");

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A recorder, ended when dropped.
struct Recorder(Child);

impl Recorder {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["record", "--hours", "1", "--days", "1", "--out"]).arg(folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let first = output.lines().next();
        if !matches!(&first, Some(Ok(line)) if line.starts_with("recording to ")) {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("{first:?} {}", String::from_utf8_lossy(&output.stderr));
        }
        Self(child)
    }

    fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every line of what `export --format json` writes of a folder.
fn exported(folder: &Path) -> Vec<Value> {
    let out = folder.join("out.json");
    let ring = folder.join("seconds.ring");
    said(&[
        "record",
        "export",
        ring.to_str().unwrap(),
        "--format",
        "json",
        "--out",
        out.to_str().unwrap(),
    ]);
    let text = fs::read_to_string(&out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn samples(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["kind"] == "sample").collect()
}

fn status(folder: &Path) -> Value {
    let output = run(&["record", "status", folder.to_str().unwrap(), "--format", "json"]);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// The exporter as its unit runs it, beside a recorder that writes: as a user who owns nothing and
/// may read everything.
#[test]
fn the_exporter_reads_the_ring_while_it_is_written_and_only_by_right() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    // Where everybody may run it.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = open.path().join("hugewise");
    fs::hard_link(PROGRAM, &program).or_else(|_| fs::copy(PROGRAM, &program).map(|_| ())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let metrics = |rights: &[&str]| {
        let file = open.path().join("hugewise.prom");
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(rights)
            .arg(&program);
        command
            .args(["serve", "--once", "--textfile"])
            .arg(&file)
            .arg("--recorder")
            .arg(folder.path().join("ring"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(&file).unwrap()
    };
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse::<f64>().unwrap())
    };
    let units =
        ["--inh-caps=+dac_read_search,+sys_ptrace", "--ambient-caps=+dac_read_search,+sys_ptrace"];
    assert!(!metrics(&units).contains("recorder"), "no recorder runs here");

    let recorder = Recorder::start(&folder.path().join("ring"));
    std::thread::sleep(Duration::from_secs(8));
    let text = metrics(&units);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert_eq!(value(&text, "hugewise_recorder_up"), Some(1.0), "{text}");
    let taken = value(&text, "hugewise_recorder_sample_timestamp_seconds").unwrap();
    assert!(now - taken < 8.0 && taken <= now, "{taken} {now}");
    assert!(value(&text, "hugewise_recorder_samples").unwrap() >= 4.0, "{text}");
    let total = value(&text, "hugewise_memory_bytes").unwrap();
    let free = value(&text, "hugewise_recorder_memory_free_least_bytes").unwrap();
    assert!(free > 0.0 && free < total, "{free} {total}");
    let kernel = value(&text, "hugewise_recorder_kernel_cpu_peak_ratio").unwrap();
    assert!((0.0..=1.0).contains(&kernel), "{kernel}");
    assert_eq!(value(&text, "hugewise_collector_errors{collector=\"recorder\"}"), Some(0.0));

    // Who has no such right gets nothing of it, and is told so.
    let denied = metrics(&["--bounding-set=-all"]);
    assert!(!denied.contains("hugewise_recorder_"), "{denied}");
    assert_eq!(value(&denied, "hugewise_collector_errors{collector=\"recorder\"}"), Some(1.0));

    recorder.end();
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(value(&metrics(&units), "hugewise_recorder_up"), Some(0.0));
}

#[test]
fn what_it_records_is_what_the_kernel_says_and_is_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(folder.path());
    // A process that takes private memory and time in its own code: one of those that changed most.
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(12));
    let busy_pid = busy.id();
    busy.kill().unwrap();
    busy.wait().unwrap();

    assert_eq!(status(folder.path())["recording"], true);
    let second = run(&["record", "--out", folder.path().to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("another recorder"),
        "two would write over one another"
    );

    let lines = exported(folder.path());
    let all = samples(&lines);
    assert!((10..=16).contains(&all.len()), "{} samples in 12 s", all.len());
    let fields = &all.last().unwrap()["fields"];
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let count_of = |name: &str| -> u64 {
        let line = meminfo.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    };
    for name in ["MemTotal", "SwapTotal", "Hugepagesize"] {
        assert_eq!(fields[name], count_of(name), "{name}");
    }
    for name in
        ["cpu.system", "pgfault", "ctxt", "PageTables", "procs_running", "load_1", "recorder.cpu"]
    {
        assert!(fields[name].is_u64(), "{name}: {fields}");
    }
    let pools = all.last().unwrap()["pools"].as_array().unwrap();
    let there = fs::read_dir("/sys/kernel/mm/hugepages").map_or(0, Iterator::count);
    assert_eq!(pools.iter().filter(|pool| pool["node"].is_null()).count(), there);
    let listed = |line: &Value| -> Vec<Value> {
        line["changed_most"].as_array().cloned().unwrap_or_default()
    };
    let looks: Vec<Value> =
        lines.iter().filter(|line| line["kind"] == "processes").flat_map(listed).collect();
    // At the first look it may still wait for its program to be read.
    let is_busy = |one: &Value| {
        one["pid"] == busy_pid && one["user_ms"].as_u64() > Some(200) && one["command"] == "sh"
    };
    assert!(looks.iter().any(is_busy), "{looks:?}");

    let investigated = run(&["investigate", folder.path().to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&investigated.stdout).unwrap();
    let sources = report["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["format"] == "recorder"), "{sources:?}");
    recorder.end();
    assert_eq!(status(folder.path())["recording"], false);
    assert_eq!(run(&["record", "status", folder.path().to_str().unwrap()]).status.code(), Some(1));
}

/// Killed at any moment, again and again: nothing that was read before is lost, one block at most
/// is torn, and the next run goes on behind it.
#[test]
fn a_recorder_that_is_killed_leaves_a_ring_that_reads() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = BTreeSet::new();
    let mut seed = u64::from(std::process::id());
    for round in 0..16 {
        let recorder = Recorder::start(folder.path());
        let begun = Instant::now();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wait = Duration::from_micros(seed >> 33 & 0x1f_ffff);
        std::thread::sleep(wait);
        drop(recorder);
        let lines = exported(folder.path());
        let now: BTreeSet<String> = samples(&lines)
            .iter()
            .map(|sample| sample["time"].as_str().unwrap().to_owned())
            .collect();
        assert!(now.is_superset(&before), "round {round}: samples are gone");
        let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
        assert!(
            now.len() + 1 >= before.len() + seconds.min(1),
            "round {round}: nothing was kept of {wait:?}"
        );
        let torn = status(folder.path())["rings"][0]["torn_blocks"].as_u64().unwrap();
        assert!(torn <= 1, "round {round}: {torn} torn blocks");
        before = now;
    }
    assert!(before.len() >= 16, "{} samples in 16 runs", before.len());
}

#[test]
fn other_peoples_tools_get_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(folder.path());
    std::thread::sleep(Duration::from_millis(5500));
    recorder.end();
    let path = folder.path().to_str().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();

    said(&["record", "export", path, "--format", "oswatcher", "--out", &out("osw")]);
    let report = run(&["investigate", &out("osw"), "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let formats: BTreeSet<&str> = report["sources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|source| source["format"].as_str())
        .collect();
    assert_eq!(formats, BTreeSet::from(["oswatcher meminfo", "oswatcher vmstat"]));
    // What stands there stays.
    let again = run(&["record", "export", path, "--format", "oswatcher", "--out", &out("osw")]);
    assert_eq!(again.status.code(), Some(2));

    said(&["record", "export", path, "--format", "csv", "--out", &out("out.csv")]);
    let csv = fs::read_to_string(out("out.csv")).unwrap();
    assert!(
        csv.starts_with("host,source,time,interval_seconds,") && csv.lines().count() >= 6,
        "{csv}"
    );
    said(&["record", "export", path, "--format", "parquet", "--out", &out("out.parquet")]);
    assert!(fs::read(out("out.parquet")).unwrap().starts_with(b"PAR1"));

    // A part of it: what `--from` and `--to` leave out of the lines is what the clock says.
    let lines = exported(folder.path());
    let time = |sample: &Value| sample["time"].as_str().unwrap().to_owned();
    let times: Vec<String> = samples(&lines).into_iter().map(time).collect();
    let (from, to) = (&times[1], &times[3]);
    let ring = folder.path().join("seconds.ring");
    let part = out("part.json");
    let span = ["--from", from, "--to", to];
    said(
        &[
            &["record", "export", ring.to_str().unwrap(), "--format", "json", "--out", &part][..],
            &span,
        ]
        .concat(),
    );
    let text = fs::read_to_string(&part).unwrap();
    let part: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(samples(&part).into_iter().map(time).collect::<Vec<_>>(), times[1..=3]);
    said(
        &[&["record", "export", path, "--format", "csv", "--out", &out("part.csv")][..], &span]
            .concat(),
    );
    // A minute may have ended meanwhile: its row is of the other ring.
    let csv = fs::read_to_string(out("part.csv")).unwrap();
    assert_eq!(csv.lines().filter(|line| line.contains("seconds.ring")).count(), 3, "{csv}");
    said(
        &[&["record", "export", path, "--format", "oswatcher", "--out", &out("part")][..], &span]
            .concat(),
    );
    let stamps = Command::new("grep")
        .args(["-rhc", "^zzz", &out("part/oswmeminfo")])
        .output()
        .unwrap()
        .stdout;
    let stamps: u32 =
        String::from_utf8(stamps).unwrap().lines().map(|line| line.parse::<u32>().unwrap()).sum();
    assert_eq!(stamps, 3);
    let nowhere = [
        "record",
        "export",
        path,
        "--format",
        "csv",
        "--out",
        &out("no.csv"),
        "--from",
        "2031-01-01",
    ];
    let nowhere = run(&nowhere);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&nowhere.stderr).contains("no sample is between --from and --to")
    );
    assert!(!Path::new(&out("no.csv")).exists());
    // Between two samples, as where the recorder was off.
    let (second, part) = times[1]
        .trim_end_matches('Z')
        .split_once('.')
        .unwrap_or((times[1].trim_end_matches('Z'), "0"));
    let part: u32 = format!("{part:0<3}").parse().unwrap();
    let gap = if part < 500 { part + 300..part + 400 } else { part - 400..part - 300 };
    let (from, to) = (format!("{second}.{:03}Z", gap.start), format!("{second}.{:03}Z", gap.end));
    let between = [
        "record",
        "export",
        path,
        "--format",
        "csv",
        "--out",
        &out("no.csv"),
        "--from",
        &from,
        "--to",
        &to,
    ];
    let between = run(&between);
    assert_eq!(between.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&between.stderr).contains("nothing was recorded then"),
        "{between:?}"
    );
    assert!(!Path::new(&out("no.csv")).exists());

    let wrong = run(&["record", "export", path, "--format", "csv", "--out", &out("out.txt")]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("does not end in .csv"));
    let none =
        run(&["record", "export", &out("nothing"), "--format", "json", "--out", &out("x.json")]);
    assert_eq!(none.status.code(), Some(2));
}

/// What units and documents say of their hardening is what systemd says.
#[test]
fn the_units_are_as_hardened_as_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Each version has a scale of its own.
    let version =
        Command::new("systemd-analyze").arg("--version").output().map(|output| output.stdout);
    if !version.is_ok_and(|version| version.starts_with(b"systemd 252 ")) {
        println!("SKIP: systemd 252 is not here");
        return;
    }
    for (unit, document) in
        [("hugewise-record", "docs/recorder.md"), ("hugewise-capture", "docs/fleet.md")]
    {
        let unit = root.join(format!("packaging/systemd/{unit}.service"));
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["security", "--offline=true"]).arg(&unit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let level =
            said.lines().last().and_then(|line| line.split("service: ").nth(1)).unwrap_or_default();
        let score = level.split(' ').next().unwrap();
        assert!(!score.is_empty(), "{said}");
        for file in [unit, root.join(document)] {
            let text = fs::read_to_string(&file).unwrap();
            assert!(
                text.contains(score) && text.contains("systemd-analyze security"),
                "{}: {level}",
                file.display()
            );
        }
    }
}
