//! `hugewise serve` as it runs: what Prometheus and its tools say of it, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE, Server, kernel, text};
use crate::real::postgresql::Cluster;

/// `hugewise serve` on a port of its own; asked to end when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    _said: BufReader<ChildStdout>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments).expect("it listens")
    }

    /// At that address; nothing where it says why it cannot listen there.
    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(HUGEWISE);
        command.args(["serve", "--listen", address]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening at http://")
            .and_then(|address| address.parse().ok());
        let Some(address) = address else {
            child.wait().unwrap();
            return None;
        };
        Some(Self { address, child, _said: said })
    }

    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        harness::wait_for("serve ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.end(Signal::TERM);
        }
    }
}

/// Status and body of an answer.
pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, body.to_owned()))
}

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn promtool() -> Result<PathBuf, Skip> {
    harness::program(&["/usr/bin/promtool"])
}

/// What `promtool check metrics` has to say against a text: nothing.
#[track_caller]
fn assert_well_named(promtool: &Path, metrics: &str) {
    let mut command = Command::new(promtool);
    command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{metrics}");
}

#[test]
fn promtool_has_nothing_to_say_against_the_metrics_and_the_file() {
    let promtool = require!(promtool());
    let served = Served::start(&[]);
    let (status, metrics) = get(served.address, "/metrics").unwrap();
    assert_eq!(status, 200);
    assert_well_named(&promtool, &metrics);
    // The kernel's own figure, which never moves.
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(metrics.contains(&format!("\nhugewise_memory_bytes {}\n", total << 10)), "{metrics}");
    assert!(metrics.contains("\nhugewise_collector_errors{collector=\"cpu\"} 0\n"), "{metrics}");

    let folder = harness::folder();
    let file = folder.path().join("hugewise.prom");
    harness::must(Command::new(HUGEWISE).args(["serve", "--once", "--textfile"]).arg(&file));
    let written = fs::read_to_string(&file).unwrap();
    assert_well_named(&promtool, &written);
    let families = |text: &str| text.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert!(families(&written) > 40, "{written}");
}

#[test]
fn the_file_is_written_anew_at_each_interval() {
    let folder = harness::folder();
    let file = folder.path().join("hugewise.prom");
    let mut command = Command::new(HUGEWISE);
    let mut child =
        command.args(["serve", "--interval", "1", "--textfile"]).arg(&file).spawn().unwrap();
    let readings = || {
        let text = fs::read_to_string(&file).ok()?;
        assert!(
            text.contains("\nhugewise_collector_errors{collector=\"cpu\"}"),
            "a part of a file: {text}"
        );
        text.lines()
            .find_map(|line| line.strip_prefix("hugewise_readings_total "))?
            .parse::<u64>()
            .ok()
    };
    harness::wait_for("a third reading", || readings().filter(|readings| *readings >= 3));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_rules_for_prometheus_and_the_unit_for_systemd_are_sound() {
    let promtool = require!(promtool());
    let rules = packaging("prometheus");
    harness::must(
        Command::new(&promtool)
            .args(["check", "rules"])
            .args([rules.join("recording.yml"), rules.join("alerts.yml")]),
    );
    harness::must(Command::new(&promtool).args(["test", "rules"]).arg(rules.join("tests.yml")));
    let analyze = require!(harness::program(&["/usr/bin/systemd-analyze"]));
    let mut security = Command::new(analyze);
    // 10 is a service without any restriction; what systemd calls OK ends at 4.
    security
        .args(["security", "--offline=true", "--threshold=40"])
        .arg(packaging("systemd/hugewise-serve.service"));
    harness::must(&mut security);
}

/// Every metric that the rules and the dashboard for Grafana ask for is one that is served.
#[test]
fn rules_and_dashboards_ask_for_metrics_that_are_there() {
    let served = Served::start(&[]);
    let (_, metrics) = get(served.address, "/metrics").unwrap();
    let there: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    // A host may have no server, and so no metric of one.
    let of_instances = |name: &str| name.starts_with("hugewise_instance_");
    let recorded = fs::read_to_string(packaging("prometheus/recording.yml")).unwrap();
    for file in ["prometheus/recording.yml", "prometheus/alerts.yml", "grafana/hugewise.json"] {
        let text = fs::read_to_string(packaging(file)).unwrap();
        let words = text.split(|letter: char| {
            !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':')
        });
        let mut asked = 0;
        for word in words {
            if word.starts_with("hugewise:") {
                assert!(recorded.contains(&format!("record: {word}")), "{file}: {word}");
            } else if word.starts_with("hugewise_")
                && !["hugewise_recording", "hugewise_alerts"].contains(&word)
            {
                assert!(there.contains(&word) || of_instances(word), "{file}: {word}");
                asked += 1;
            }
        }
        assert!(asked > 2, "{file}");
    }
}

#[test]
fn it_ends_in_good_order_and_its_memory_is_bounded() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(&["--interval", "1"]);
        assert_eq!(get(served.address, "/api/v1/check").unwrap().0, 200);
        // One who listens keeps nobody from ending.
        let mut listener = TcpStream::connect(served.address).unwrap();
        listener.write_all(b"GET /api/v1/events HTTP/1.0\r\n\r\n").unwrap();
        listener.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut first = [0; 12];
        listener.read_exact(&mut first).unwrap();
        assert_eq!(served.end(signal), Some(0));
        let mut rest = Vec::new();
        listener.read_to_end(&mut rest).unwrap();
    }
    let served = Served::start(&[]);
    let rss = || kernel::status(served.child.id(), "VmRSS:").unwrap();
    let mut before = 0;
    for round in 0..300 {
        // The largest answer of all; now and then one for which the host is read.
        let path = if round % 10 == 0 { "/metrics" } else { "/api/v1/openapi.json" };
        assert_eq!(get(served.address, path).unwrap().0, 200);
        if round == 50 {
            before = rss();
        }
    }
    // Kibibytes; were every answer's text left behind, it would be tens of thousands more.
    assert!(rss() < before + 12_000, "{before} kB, then {} kB", rss());
}

#[test]
fn what_cannot_be_served_is_said() {
    let run = |arguments: &[&str]| {
        let output = Command::new(HUGEWISE).arg("serve").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("--insecure-bind"), "{said}");
    let (code, said) = run(&["--web-config", "/nonexistent/web.yml"]);
    assert!(code == Some(2) && said.contains("/nonexistent/web.yml"), "{said}");
    let (code, said) = run(&["--textfile", "/nonexistent/hugewise.prom", "--once"]);
    assert!(code == Some(2) && said.contains("/nonexistent/hugewise.prom"), "{said}");
    for usage in [
        &["--once"][..],
        &["--textfile", "x", "--listen", "127.0.0.1:1"],
        &["--interval", "0"],
        &["--listen", "localhost"],
    ] {
        assert_eq!(run(usage).0, Some(2), "{usage:?}");
    }
}

/// Prometheus of Debian that scrapes a server every few seconds, with the alerts of this project,
/// which fire at once.
struct Prometheus {
    _server: Server,
    address: SocketAddr,
}

impl Prometheus {
    fn start(program: &Path, folder: &Path, target: SocketAddr) -> Self {
        let alerts = fs::read_to_string(packaging("prometheus/alerts.yml")).unwrap();
        fs::write(folder.join("alerts.yml"), alerts.replace("for: 5m", "for: 0s")).unwrap();
        fs::copy(packaging("prometheus/recording.yml"), folder.join("recording.yml")).unwrap();
        let config = format!(
            "global:\n  scrape_interval: 5s\n  evaluation_interval: 1s\nrule_files: \
                 [recording.yml, alerts.yml]\n\
             scrape_configs:\n  - job_name: hugewise\n    static_configs:\n      - targets: \
                 ['{target}']\n"
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        // A port that is free now may be taken before it is used: then another.
        for round in 0..20 {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut command = Command::new(program);
            command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
            command.arg(format!(
                "--storage.tsdb.path={}",
                folder.join(format!("data{round}")).display()
            ));
            command.arg(format!("--web.listen-address={address}"));
            let mut server =
                Server::start(&mut command, &folder.join("prometheus.log"), Signal::TERM);
            let ready = harness::wait_for("Prometheus", || {
                if server.child.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                get(address, "/-/ready").is_ok_and(|(status, _)| status == 200).then_some(true)
            });
            if ready {
                return Self { _server: server, address };
            }
        }
        panic!("{}", fs::read_to_string(folder.join("prometheus.log")).unwrap());
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let (status, body) = get(self.address, path).ok()?;
        (status == 200).then(|| serde_json::from_str(&body).ok())?
    }

    /// Whether an alert fires about an instance of that name.
    fn fires(&self, alert: &str, instance: &str) -> Option<bool> {
        let told = self.ask("/api/v1/alerts")?;
        let alerts = told["data"]["alerts"].as_array()?;
        let ours = alerts.iter().find(|json| {
            json["labels"]["alertname"] == alert && json["labels"]["instance_name"] == instance
        });
        Some(ours.is_some_and(|alert| alert["state"] == "firing"))
    }
}

#[test]
fn prometheus_sounds_the_alarm_when_a_pool_is_short_and_ends_it_when_it_is_not() {
    let program = require!(harness::program(&["/usr/bin/prometheus"]));
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));
    // 128 MiB and what goes with them do not fit into 32 MiB.
    let server = cluster.start("huge_pages = try\nshared_buffers = '128MB'");
    let name = text(&harness::check().instance("postgresql", server.pid)["name"]);

    let served = Served::start(&["--interval", "1"]);
    let folder = harness::folder();
    let prometheus = Prometheus::start(&program, folder.path(), served.address);
    harness::wait_for("the alarm", || {
        prometheus.fires("HugewisePoolShort", &name).filter(|fires| *fires)
    });
    // It speaks OpenMetrics by itself, and found nothing wrong with any line.
    harness::wait_for("a target that is up", || {
        let targets = prometheus.ask("/api/v1/targets")?;
        let target = &targets["data"]["activeTargets"][0];
        (target["health"] == "up" && target["lastError"] == "").then_some(())
    });

    require!(guard.set_pool(PageSize::MIB_2, PageCount(256)));
    harness::wait_for("the end of the alarm", || {
        prometheus.fires("HugewisePoolShort", &name).filter(|fires| !fires)
    });
}
