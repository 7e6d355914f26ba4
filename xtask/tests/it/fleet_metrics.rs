//! Metrics for many hosts: the rules and the dashboard hold to values worked out by hand, and the
//! centre gets ten series a host.

#[path = "../../../proving/src/bench/metrics/panels.rs"]
mod panels;
#[path = "../../../proving/src/bench/metrics/rules.rs"]
mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What each query of the dashboard gives for the four hosts of
/// packaging/prometheus/fleet-tests.yml, worked out by hand.
const BY_HAND: &[(&str, &[(&str, f64)])] = &[
    ("Hosts", &[("{}", 4.0)]),
    ("Hosts without an answer", &[("{}", 1.0)]),
    ("Hosts partly seen", &[("{}", 1.0)]),
    ("Hosts with errors", &[("{}", 2.0)]),
    ("Memory in page tables", &[("{}", 750.0)]),
    // Three pages of 2 MiB and two of 64 KiB.
    ("Pool memory short", &[("{}", 6_422_528.0)]),
    ("Pool memory unused", &[("{}", 1_076_101_120.0)]),
    ("Worse at the next boot", &[("{}", 1.0)]),
    (
        "Page tables, by cluster",
        &[("{cluster=\"billing\"}", 600.0), ("{cluster=\"orders\"}", 150.0)],
    ),
    ("Pools A", &[("{}", 1_078_198_272.0)]),
    ("Pools B", &[("{}", 1_076_101_120.0)]),
    ("Pools C", &[("{}", 6_422_528.0)]),
    ("Servers wholly on huge pages A", &[("{}", 6.0)]),
    (
        "Servers wholly on huge pages B",
        &[("{moment=\"now\"}", 2.0), ("{moment=\"restart\"}", 1.0), ("{moment=\"reboot\"}", 1.0)],
    ),
    ("Servers that will be worse off A", &[("{}", 2.0)]),
    ("Servers that will be worse off B", &[("{}", 1.0)]),
    (
        "Findings",
        &[
            ("{code=\"HW201\",level=\"error\",name=\"no-pool\"}", 1.0),
            ("{code=\"HW204\",level=\"error\",name=\"does-not-fit\"}", 2.0),
            ("{code=\"HW401\",level=\"warn\",name=\"silent-fallback\"}", 3.0),
        ],
    ),
    (
        "Memory in page tables, by cluster",
        &[("{cluster=\"billing\"}", 0.2), ("{cluster=\"orders\"}", 0.05)],
    ),
    (
        "Most page tables",
        &[
            ("hugewise_page_tables_bytes{DB3}", 600.0),
            ("hugewise_page_tables_bytes{DB1}", 100.0),
            ("hugewise_page_tables_bytes{DB2}", 50.0),
        ],
    ),
    ("Largest share of page tables", &[("{DB3}", 0.2), ("{DB1}", 0.1), ("{DB2}", 0.025)]),
    (
        "Most errors",
        &[("hugewise:host_errors:sum{DB1}", 2.0), ("hugewise:host_errors:sum{DB3}", 1.0)],
    ),
    (
        "Most pool memory short",
        &[
            ("hugewise:host_shortfall_bytes:sum{DB1}", 6_291_456.0),
            ("hugewise:host_shortfall_bytes:sum{DB3}", 131_072.0),
        ],
    ),
    (
        "Most pool memory unused",
        &[
            ("hugewise:host_available_bytes:sum{DB1}", 1_075_838_976.0),
            ("hugewise:host_available_bytes:sum{DB3}", 262_144.0),
        ],
    ),
    (
        "Most warnings",
        &[("hugewise:host_warnings:sum{DB3}", 2.0), ("hugewise:host_warnings:sum{DB1}", 1.0)],
    ),
    (
        "Worse at the next restart",
        &[
            ("hugewise:host_worse_at_restart:sum{DB1}", 1.0),
            ("hugewise:host_worse_at_restart:sum{DB3}", 1.0),
        ],
    ),
    ("Worse at the next boot", &[("hugewise:host_worse_at_boot:sum{DB1}", 1.0)]),
    ("Without an answer", &[("up{DB4}", 0.0)]),
];

/// Series that a host may send to the centre.
const MOST: u64 = 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn packaging(name: &str) -> String {
    fs::read_to_string(root().join("packaging").join(name)).unwrap()
}

fn dashboard() -> (Value, Vec<panels::Query>) {
    let text = packaging("grafana/hugewise-fleet.json");
    (serde_json::from_str(&text).unwrap(), panels::queries(&text).unwrap())
}

/// The YAML of docs/fleet-metrics.md that begins with that comment.
fn documented(title: &str) -> String {
    let page = fs::read_to_string(root().join("docs/fleet-metrics.md")).unwrap();
    let block =
        page.split("```yaml\n").find(|block| block.starts_with(&format!("# {title}\n"))).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// Says that it is skipped; fails where everything has to be there.
fn skipped(missing: &str) {
    assert!(
        std::env::var_os("HUGEWISE_REQUIRE_REAL").is_none_or(|value| value != "1"),
        "{missing} is not here: cargo xtask test installs it"
    );
    eprintln!("SKIP: {missing} is not installed; cargo xtask test does it");
}

fn is_there(program: &str) -> bool {
    Path::new("/usr/bin").join(program).exists()
}

fn must(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn every_panel_gives_what_was_worked_out_by_hand() {
    if !is_there("promtool") {
        return skipped("promtool");
    }
    let folder = tempfile::tempdir().unwrap();
    let tests = packaging("prometheus/fleet-tests.yml");
    let rules = root().join("packaging/prometheus/fleet.yml");
    let mut tests = tests.replace("  - fleet.yml\n", &format!("  - {}\n", rules.display()));
    let (_, queries) = dashboard();
    let titles: Vec<&str> = queries.iter().map(|query| query.title.as_str()).collect();
    assert_eq!(titles, BY_HAND.iter().map(|(title, _)| *title).collect::<Vec<_>>());
    for (query, (_, expected)) in queries.iter().zip(BY_HAND) {
        let samples = expected.iter().map(|(labels, value)| {
            let host = |name: &str, cluster: &str| {
                format!("job=\"hugewise\",instance=\"{name}:9752\",cluster=\"{cluster}\"")
            };
            let labels = labels
                .replace("DB1", &host("db1", "orders"))
                .replace("DB2", &host("db2", "orders"));
            let labels = labels
                .replace("DB3", &host("db3", "billing"))
                .replace("DB4", &host("db4", "billing"));
            format!("{{labels: '{labels}', value: {value}}}")
        });
        let samples = samples.collect::<Vec<_>>().join(", ");
        tests.push_str(&format!(
            "      - expr: '{}'\n        eval_time: 5m\n        exp_samples: [{samples}]\n",
            query.expression
        ));
    }
    let file = folder.path().join("tests.yml");
    fs::write(&file, tests).unwrap();
    must(Command::new("promtool").args(["check", "rules"]).arg(rules));
    must(Command::new("promtool").args(["test", "rules"]).arg(file));
}

/// The names in a regular expression of the document, those of recording rules written out.
fn listed(expression: &str) -> BTreeSet<String> {
    let groups = rules::groups(&packaging("prometheus/fleet.yml")).unwrap();
    let recorded: Vec<String> = groups.into_iter().flatten().map(|rule| rule.record).collect();
    let all = |name: &str| match name.strip_suffix(".+") {
        Some(begin) => {
            recorded.iter().filter(|record| record.starts_with(begin)).cloned().collect()
        }
        None => vec![name.to_owned()],
    };
    expression.split('|').flat_map(all).collect()
}

fn field(text: &str, begin: &str) -> String {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(begin)).unwrap();
    line.trim_matches('\'').to_owned()
}

#[test]
fn the_three_lists_for_the_centre_are_one_and_the_dashboard_needs_no_more() {
    let pull = documented("prometheus.yml at the centre");
    let mut asked = listed(field(&pull, "- '{__name__=~\"").trim_end_matches("\"}"));
    asked.insert(field(&pull, "- up{").replace("job=\"hugewise\"}", "up"));
    let kept = listed(&field(&pull, "regex: "));
    let mut pushed = listed(&field(&documented("remote_write beside the hosts"), "regex: "));
    pushed.insert("up".to_owned());
    assert_eq!(asked, kept);
    assert_eq!(pushed, kept);
    assert_eq!(
        kept.iter().filter(|name| !name.starts_with("hugewise:cluster_")).count() as u64,
        MOST
    );
    let groups = rules::groups(&packaging("prometheus/fleet.yml")).unwrap();
    let recorded: BTreeSet<&str> =
        groups.iter().flatten().map(|rule| rule.record.as_str()).collect();
    assert!(recorded.iter().all(|record| kept.contains(*record)), "{recorded:?}");
    let (_, queries) = dashboard();
    for query in &queries {
        for name in rules::names(&query.expression) {
            assert!(kept.contains(name), "{}: {name}", query.title);
        }
    }
    let page = fs::read_to_string(root().join("docs/fleet-metrics.md")).unwrap();
    for name in kept.iter().filter(|name| !name.starts_with("hugewise:cluster_")) {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name} is not explained");
    }
}

/// The names that a regular expression without quantifiers matches.
fn spelled(expression: &str) -> BTreeSet<String> {
    let Some((before, rest)) = expression.split_once('(') else {
        return expression.split('|').map(str::to_owned).collect();
    };
    let mut depth = 1;
    let end = rest.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    let (inside, after) = rest.split_at(end.unwrap());
    let after = &after[1..];
    let (others, begin) =
        before.rsplit_once('|').map_or(("", before), |(others, begin)| (others, begin));
    let (finish, more) = after.split_once('|').map_or((after, ""), |(finish, more)| (finish, more));
    let mut all: BTreeSet<String> =
        spelled(inside).iter().map(|text| format!("{begin}{text}{finish}")).collect();
    for more in [others, more].into_iter().filter(|text| !text.is_empty()) {
        all.extend(spelled(more));
    }
    all
}

#[test]
fn what_is_kept_of_a_scrape_is_what_rules_and_alerts_read() {
    let list = field(&documented("prometheus.yml beside the hosts"), "regex: ");
    assert_eq!(
        spelled("a(b|c(d|e)f)|g|h"),
        BTreeSet::from(["ab", "acdf", "acef", "g", "h"].map(str::to_owned))
    );
    let mut read = BTreeSet::new();
    for file in ["recording.yml", "fleet.yml", "alerts.yml"] {
        let text = packaging(&format!("prometheus/{file}"));
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with(['#']) && !line.starts_with("- name:"));
        let names = lines.flat_map(rules::names).map(str::to_owned);
        read.extend(names.filter(|name| !name.contains(':') && name != "up"));
    }
    let (_, queries) = dashboard();
    let asked = queries.iter().flat_map(|query| rules::names(&query.expression)).map(str::to_owned);
    read.extend(asked.filter(|name| !name.contains(':') && name != "up"));
    assert_eq!(spelled(&list), read);
}

/// A Prometheus that has gone takes its hosts with it, from the sums and from the number of hosts.
#[test]
fn the_centres_alert_names_a_cluster_that_has_gone() {
    if !is_there("promtool") {
        return skipped("promtool");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("centre.yml"), documented("centre.yml at the centre")).unwrap();
    let tests = r#"
rule_files: [centre.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'hugewise:cluster_hosts:count{cluster="orders",prometheus="west-1"}', values: '40x180'}
      - {series: 'hugewise:cluster_hosts:count{cluster="orders",prometheus="west-2"}', values: '30x90 stale'}
      - {series: 'hugewise:cluster_hosts:count{prometheus="west-2"}', values: '2x90'}
    alert_rule_test:
      - {eval_time: 90m, alertname: HugewiseClusterGone}
      - eval_time: 120m
        alertname: HugewiseClusterGone
        exp_alerts:
          - exp_labels: {severity: warning, cluster: orders, prometheus: west-2}
            exp_annotations: {summary: "30 hosts of cluster orders send nothing any more"}
          - exp_labels: {severity: warning, prometheus: west-2}
            exp_annotations: {summary: "2 hosts of cluster  send nothing any more"}
"#;
    let file = folder.path().join("tests.yml");
    fs::write(&file, tests).unwrap();
    must(Command::new("promtool").args(["check", "rules"]).arg(folder.path().join("centre.yml")));
    must(Command::new("promtool").args(["test", "rules"]).arg(file));
}

#[test]
fn the_dashboard_is_whole_and_selects_by_cluster_and_instance() {
    let (dashboard, queries) = dashboard();
    let one: Value = serde_json::from_str(&packaging("grafana/hugewise.json")).unwrap();
    assert_ne!(dashboard["uid"], one["uid"]);
    assert_eq!(dashboard["schemaVersion"], one["schemaVersion"]);
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|json| json["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "hosts", "cluster", "instance"]);
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        // The centre has no series that the dashboard for one host shows.
        for link in panel["fieldConfig"]["defaults"]["links"].as_array().into_iter().flatten() {
            let url = link["url"].as_str().unwrap();
            assert!(url.starts_with("/d/hugewise?var-datasource=${hosts}&"), "{title}: {url}");
        }
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
        assert!(["short", "bytes", "percentunit"].contains(&unit), "{title}: {unit}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title} lies over another panel");
        }
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let selects = target["expr"].as_str().unwrap();
            assert!(
                selects.contains("cluster=~\"$cluster\""),
                "{title} does not select by cluster"
            );
            for label in selects.split(['{', ',']).filter_map(|part| part.trim().split_once("=")) {
                assert!(["cluster", "instance", "job"].contains(&label.0), "{title}: {selects}");
            }
            assert_eq!(target["instant"] == true, panel["type"] != "timeseries", "{title}");
        }
    }
    // Prometheus and VictoriaMetrics differ on these.
    assert!(queries.iter().all(
        |query| !query.expression.contains("rate(") && !query.expression.contains("increase(")
    ));
}

/// A program that is ended with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Running {
    Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// What selects the series that a host sends: alerts that fire on it are the centre's own.
fn sent_by(host: &str) -> String {
    format!("%7Binstance%3D%22{host}%22%2C__name__!~%22ALERTS.*%22%7D")
}

/// The names of a host's series there.
fn series(port: u16, host: &str) -> Option<BTreeSet<String>> {
    let sent = sent_by(host);
    let body = get(port, &format!("/api/v1/series?match%5B%5D={sent}&start={}", now() - 60))?;
    let answer: Value = serde_json::from_str(&body).ok()?;
    let names = answer["data"]
        .as_array()?
        .iter()
        .map(|series| series["__name__"].as_str().unwrap_or_default());
    Some(names.map(str::to_owned).collect())
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// `hugewise serve`, as it was built for the tests.
fn serve() -> (Running, u16) {
    let program = std::env::var_os("HUGEWISE_BINARY").map_or_else(
        || {
            must(
                Command::new(env!("CARGO"))
                    .args(["build", "--quiet", "--package", "hugewise"])
                    .current_dir(root()),
            );
            std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("hugewise")
        },
        PathBuf::from,
    );
    let mut child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let port = said.trim().rsplit_once(':').unwrap().1.parse().unwrap();
    (Running(child), port)
}

fn prometheus(folder: &Path, name: &str, config: &str) -> (Running, u16) {
    let (port, file) = (free(), folder.join(format!("{name}.yml")));
    fs::write(&file, config.replace(": 1m", ": 1s")).unwrap();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.arg(format!("--storage.tsdb.path={}", folder.join(name).display()));
    (start(command.current_dir(folder)), port)
}

/// The document's own configuration: a host scraped by one Prometheus, of which another pulls and
/// to VictoriaMetrics it pushes.
#[test]
fn the_centre_gets_ten_series_of_a_real_host() {
    let victoria = root().join("target/tools/victoria-metrics/usr/bin");
    if !is_there("prometheus") {
        return skipped("prometheus");
    }
    if !victoria.join("vmalert").exists() {
        return skipped("VictoriaMetrics");
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["recording.yml", "fleet.yml", "alerts.yml"] {
        fs::write(folder.path().join(name), packaging(&format!("prometheus/{name}"))).unwrap();
    }
    let rules = folder.path().join("fleet.yml");
    must(
        Command::new(victoria.join("vmalert"))
            .arg("-dryRun")
            .arg(format!("-rule={}", rules.display())),
    );
    let (_serve, served) = serve();
    let host = format!("127.0.0.1:{served}");

    let pushed = free();
    let mut command = Command::new(victoria.join("victoria-metrics"));
    command.arg(format!("-httpListenAddr=127.0.0.1:{pushed}")).arg("-search.latencyOffset=0s");
    let _victoria = start(
        command.arg(format!("-storageDataPath={}", folder.path().join("victoria").display())),
    );
    let beside = documented("prometheus.yml beside the hosts")
        + &documented("remote_write beside the hosts");
    let beside =
        beside.replace("db1:9752", &host).replace("centre:8428", &format!("127.0.0.1:{pushed}"));
    let (_beside, leaf) = prometheus(folder.path(), "beside", &beside);
    let centre = documented("prometheus.yml at the centre")
        .replace("west-1:9090", &format!("127.0.0.1:{leaf}"));
    let (_centre, pulled) = prometheus(folder.path(), "centre", &centre);

    let raw = get(served, "/metrics").unwrap();
    let raw = raw.lines().filter(|line| !line.starts_with('#')).count();
    assert!(raw > 100, "{raw} series were served");
    let expected = listed(
        "up|hugewise_memory_bytes|hugewise_page_tables_bytes|hugewise_pools_bytes|hugewise:host_.+",
    );
    let begun = Instant::now();
    for port in [pulled, pushed] {
        loop {
            let there = series(port, &host).unwrap_or_default();
            // Too many never become fewer.
            assert!(there.is_subset(&expected), "{there:?}");
            if there == expected {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(180), "only {there:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    // Counted, and not only by their names: each is one series.
    let count = format!("/api/v1/query?query=count({})", sent_by(&host));
    for port in [pulled, pushed] {
        let answer: Value = serde_json::from_str(&get(port, &count).unwrap()).unwrap();
        assert_eq!(answer["data"]["result"][0]["value"][1], MOST.to_string(), "{answer}");
    }
}
