//! Prometheus and VictoriaMetrics, each with a folder of its own.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::answers::Answer;
use super::http;
use super::simulated::Fleet;
use hugewise_testkit::tools::{Failure, shell, victoria};

/// Bytes that are sent to VictoriaMetrics at once.
const PIECE: usize = 32 << 20;

/// A span of time in which is asked: from, to and the step, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) step: i64,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// The end of the span.
    Instant(Span),
    /// Each step of it.
    Range(Span),
}

/// Which one it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prometheus,
    VictoriaMetrics,
}

/// One that runs; asked to end when dropped.
pub(super) struct Database {
    kind: Kind,
    folder: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Database {
    /// Empty, in that folder.
    pub(super) fn start(kind: Kind, folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder.join("data"))?;
        fs::write(folder.join("prometheus.yml"), "global: {}\n")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut database = Self { kind, folder: folder.to_owned(), address, child: None };
        database.run()?;
        Ok(database)
    }

    /// What came from a fleet; how many series.
    pub(super) fn import(&mut self, fleet: &Fleet) -> Result<u64, Failure> {
        match self.kind {
            Kind::Prometheus => self.blocks(|out| {
                let mut family = String::new();
                fleet.each(|series| {
                    if family != series.name() {
                        series.name().clone_into(&mut family);
                        writeln!(out, "# TYPE {family} gauge")?;
                    }
                    series.open_metrics(out)
                })
            }),
            Kind::VictoriaMetrics => {
                let mut piece = Vec::new();
                let count = fleet.each(|series| {
                    series.line(&mut piece)?;
                    if piece.len() > PIECE { self.send(&mut piece) } else { Ok(()) }
                })?;
                self.send(&mut piece)?;
                self.flush()?;
                Ok(count)
            }
        }
    }

    /// What rules recorded: names, and what their expressions gave.
    pub(super) fn record(&mut self, recorded: &[(String, Answer)]) -> Result<(), Failure> {
        match self.kind {
            Kind::Prometheus => self.blocks(|out| {
                for (name, answer) in recorded {
                    // A colon may be in a family's name, but not before a suffix of one; none of
                    // these has any.
                    writeln!(out, "# TYPE {name} gauge")?;
                    for (labels, samples) in &answer.0 {
                        let labels: Vec<String> = labels
                            .iter()
                            .map(|(label, value)| format!("{label}={value:?}"))
                            .collect();
                        let labels = labels.join(",");
                        for (time, value) in samples {
                            writeln!(out, "{name}{{{labels}}} {value} {time}")?;
                        }
                    }
                }
                Ok(0)
            })?,
            Kind::VictoriaMetrics => {
                let mut piece = Vec::new();
                for (name, answer) in recorded {
                    for (labels, samples) in &answer.0 {
                        let mut metric = labels.clone();
                        metric.insert("__name__".to_owned(), name.clone());
                        let (times, values): (Vec<i64>, Vec<f64>) =
                            samples.iter().map(|(time, value)| (time * 1000, value)).unzip();
                        let line = serde_json::json!({ "metric": metric, "values": values, "timestamps": times });
                        writeln!(piece, "{line}")?;
                    }
                }
                self.send(&mut piece)?;
                self.flush()?;
                0
            }
        };
        Ok(())
    }

    /// What it answers, and how long that took.
    pub(super) fn query(
        &self,
        expression: &str,
        when: When,
    ) -> Result<(Answer, Duration), Failure> {
        let query = http::escaped(expression);
        // `nocache`: VictoriaMetrics answers from memory otherwise.
        let path = match when {
            When::Instant(span) => {
                format!("/api/v1/query?query={query}&time={}&nocache=1", span.to)
            }
            When::Range(Span { from, to, step }) => {
                format!(
                    "/api/v1/query_range?query={query}&start={from}&end={to}&step={step}&nocache=1"
                )
            }
        };
        let begun = Instant::now();
        let body =
            http::get(self.address, &path).map_err(|failure| format!("{expression}: {failure}"))?;
        let took = begun.elapsed();
        Ok((Answer::read(&body).map_err(|failure| format!("{expression}: {failure}"))?, took))
    }

    /// Its memory now, in MiB.
    pub(super) fn mib(&self) -> Result<u64, Failure> {
        let pid = self.child.as_ref().map(Child::id).ok_or("it does not run")?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? >> 10)
    }

    /// Prometheus takes the past as blocks, which promtool makes while it does not run.
    fn blocks(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        self.stop();
        let text = self.folder.join("openmetrics");
        let mut out = BufWriter::new(File::create(&text)?);
        let count = write(&mut out)?;
        writeln!(out, "# EOF")?;
        out.into_inner().map_err(|error| error.to_string())?;
        let mut promtool = shell::command("promtool");
        promtool.args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"]);
        shell::output(promtool.arg(&text).arg(self.folder.join("data")))?;
        fs::remove_file(&text)?;
        self.run()?;
        Ok(count)
    }

    fn send(&self, piece: &mut Vec<u8>) -> Result<(), Failure> {
        http::post(self.address, "/api/v1/import", piece)?;
        piece.clear();
        Ok(())
    }

    /// What was imported is seen from now on.
    fn flush(&self) -> Result<(), Failure> {
        http::get(self.address, "/internal/force_flush").map(|_| ())
    }

    fn run(&mut self) -> Result<(), Failure> {
        self.address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (address, data) = (self.address, self.folder.join("data"));
        let (mut command, ready) = match self.kind {
            Kind::Prometheus => {
                let mut command = Command::new("prometheus");
                command.arg(format!("--web.listen-address={address}"));
                command.arg(format!("--storage.tsdb.path={}", data.display()));
                command
                    .arg(format!("--config.file={}", self.folder.join("prometheus.yml").display()));
                command.args([
                    "--storage.tsdb.retention.time=10y",
                    "--query.timeout=10m",
                    "--log.level=error",
                ]);
                (command, "/-/ready")
            }
            Kind::VictoriaMetrics => {
                let mut command = Command::new(victoria::programs().join("victoria-metrics"));
                command.arg(format!("-httpListenAddr={address}"));
                command.arg(format!("-storageDataPath={}", data.display()));
                command.args([
                    "-retentionPeriod=10y",
                    "-loggerLevel=ERROR",
                    "-search.disableCache",
                ]);
                command
                    .args(["-search.maxQueryDuration=10m", "-search.maxUniqueTimeseries=5000000"]);
                (command, "/health")
            }
        };
        let log = File::create(self.folder.join("log"))?;
        self.child =
            Some(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let begun = Instant::now();
        while http::get(address, ready).is_err() {
            if begun.elapsed() > Duration::from_secs(120) {
                let said = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("a database does not get ready: {said}").into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.stop();
    }
}
