//! A read-only workload on a PostgreSQL server of the lab's own: transactions a second, latency, page tables.

#![allow(clippy::disallowed_methods, reason = "the workload's own logs are read")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::cluster::{self, Cluster, Programs, output};
use super::server::processors;
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::results::{Reading, percentile};
use crate::variant::Variant;

/// What one unit of pgbench's scale takes, index included (100,000 rows).
const SCALE: Bytes = Bytes::from_mib(15);
/// A run before each measurement, that does not count.
const WARM_UP: Duration = Duration::from_secs(2);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions that ask at once.
    pub sessions: u32,
    /// Shared buffers; the tables fill three quarters.
    pub buffers: Bytes,
    /// Time of one measurement.
    pub time: Duration,
    /// The pages; the others are compared with the first.
    pub variants: Vec<Variant>,
}

impl Default for Settings {
    fn default() -> Self {
        let variants = vec![Variant::Base, Variant::MIB_2, Variant::GIB_1];
        Self { sessions: 16, buffers: Bytes::from_gib(2), time: Duration::from_secs(20), variants }
    }
}

/// The experiment.
#[derive(Debug)]
pub struct Workload {
    settings: Settings,
    cluster: Option<Cluster>,
    notes: Vec<String>,
}

impl Workload {
    /// With these settings.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, cluster: None, notes: Vec::new() }
    }

    fn scale(&self) -> u64 {
        (self.settings.buffers.get() / 4 * 3 / SCALE.get()).max(1)
    }

    /// Runs pgbench's select-only transactions; what it printed. `meanwhile` is done shortly before the end.
    fn pgbench<T>(
        &self,
        cluster: &Cluster,
        time: Duration,
        log: bool,
        context: &Context<'_>,
        meanwhile: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(String, T), Failure> {
        let mut pgbench = cluster.client("pgbench");
        let threads = self.settings.sessions.min(processors());
        pgbench.args(["--select-only", "--protocol=prepared", "--no-vacuum"]);
        pgbench.args([format!("--client={}", self.settings.sessions), format!("--jobs={threads}")]);
        pgbench.arg(format!("--time={}", time.as_secs().max(1)));
        if log {
            // A fifth of them tell the percentiles well enough, and writing costs little.
            pgbench.args(["--log", "--sampling-rate=0.2"]);
            pgbench.arg(format!("--log-prefix={}/latency", cluster.folder().display()));
        }
        let mut child = pgbench.arg("postgres").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let until = Instant::now() + time.mul_f64(0.9);
        let waited = loop {
            let left = until.saturating_duration_since(Instant::now());
            match child.try_wait() {
                Ok(None) if !left.is_zero() => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(Failure::from(error)),
            }
            if let Err(stopped) = context.cancel.sleep(left.min(Duration::from_millis(100))) {
                break Err(stopped.into());
            }
        };
        let seen = waited.and_then(|()| meanwhile());
        if seen.is_err() {
            let _ = child.kill();
        }
        let ended = child.wait_with_output()?;
        let seen = seen?;
        if !ended.status.success() {
            context.cancel.check()?;
            let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(Failure::Failed(format!("pgbench: {}", complaint.lines().last().unwrap_or("failed"))));
        }
        Ok((String::from_utf8_lossy(&ended.stdout).into_owned(), seen))
    }
}

impl Experiment for Workload {
    fn name(&self) -> &'static str {
        "workload"
    }

    fn engine(&self) -> &'static str {
        "postgresql"
    }

    fn variants(&self) -> Vec<Variant> {
        self.settings.variants.clone()
    }

    fn refusal(&self) -> Option<String> {
        if self.settings.buffers < Bytes::from_mib(64) {
            return Some(format!("shared buffers of {} are too small: use at least 64 MiB", self.settings.buffers));
        }
        let programs = match Programs::find() {
            Ok(programs) => programs,
            Err(why) => return Some(why.to_string()),
        };
        if !programs.has("pgbench") {
            return Some(
                "pgbench is not installed; it comes with the server on Debian, and with postgresql-contrib elsewhere"
                    .into(),
            );
        }
        cluster::disk_room(self.settings.buffers.times(3) + Bytes::from_gib(1)).err().map(|why| why.to_string())
    }

    fn changes(&self) -> Vec<String> {
        vec!["starts its own PostgreSQL server, in a folder that it removes afterwards".into()]
    }

    fn needs(&self, variant: Variant) -> Needs {
        let Settings { buffers, sessions, time, .. } = self.settings;
        let filling = Duration::from_secs_f64(5.0 + 12.0 * buffers.as_f64() / Bytes::from_gib(1).as_f64());
        Needs { time: time + WARM_UP + filling, ..cluster::needs(variant, buffers, sessions) }
    }

    fn prepare(&mut self, _: &Context<'_>) -> Result<(), Failure> {
        self.cluster = Some(Cluster::new(Programs::find()?)?);
        Ok(())
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let Settings { buffers, sessions, time, .. } = self.settings;
        let cluster = self.cluster.as_ref().ok_or_else(|| Failure::Failed("no cluster".into()))?;
        let running = cluster.start(variant, buffers, sessions, context.cancel)?;
        let mut fill = cluster.client("pgbench");
        // Rows that the server writes itself lie in its buffers afterwards.
        fill.args(["--initialize", "--init-steps=dtGp", "--unlogged-tables", "--quiet"]);
        output(fill.args([format!("--scale={}", self.scale()).as_str(), "postgres"]))?;
        context.cancel.check()?;
        let warm = "create extension if not exists pg_prewarm; select sum(pg_prewarm(oid)) from pg_class where relname like 'pgbench_accounts%' and relkind in ('r', 'i')";
        if let Err(failure) = cluster.ask(warm) {
            let note = format!("pg_prewarm did not warm the buffers: {failure}");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let before = context.gauge.page_tables()?;
        self.pgbench(cluster, WARM_UP, false, context, || Ok(()))?;
        let tables = || Ok(context.gauge.page_tables()?.as_f64() - before.as_f64());
        let (printed, tables) = self.pgbench(cluster, time, true, context, tables)?;
        let latencies = latencies(cluster)?;
        drop(running);
        let rate = rate(&printed).ok_or_else(|| Failure::Failed("pgbench printed no rate".into()))?;
        let at = |percent| percentile(&latencies, percent).unwrap_or(f64::NAN);
        let readings = [
            Reading::higher("transactions", "1/s", rate),
            Reading::lower("latency_p50", "s", at(50)),
            Reading::lower("latency_p95", "s", at(95)),
            Reading::lower("latency_p99", "s", at(99)),
            Reading::lower("page_tables", "B", tables),
        ];
        Ok(readings.into_iter().map(|reading| reading.sessions(sessions).segment(buffers.get())).collect())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.push("page_tables is the growth of PageTables in /proc/meminfo since the first session".into());
        notes
    }
}

/// `tps = 23456.789 (without initial connection time)`; before version 14 the one with `excluding`.
fn rate(printed: &str) -> Option<f64> {
    let mut lines = printed.lines().filter_map(|line| line.trim().strip_prefix("tps = "));
    let line = lines.rfind(|line| !line.contains("including"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Seconds of the logged transactions, and the logs removed. Each line: client, number, microseconds, ...
fn latencies(cluster: &Cluster) -> Result<Vec<f64>, Failure> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(cluster.folder())?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("latency.") {
            all.extend(std::fs::read_to_string(entry.path())?.lines().filter_map(latency));
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(all)
}

fn latency(line: &str) -> Option<f64> {
    line.split_ascii_whitespace().nth(2)?.parse::<f64>().ok().map(|micros| micros / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Gauge;
    use crate::cancel::Cancel;
    use crate::guard::Skip;

    #[test]
    fn pgbench_is_understood_old_and_new() {
        let new = "latency average = 0.3 ms\ninitial connection time = 5 ms\ntps = 52345.25 (without initial connection time)\n";
        assert_eq!(rate(new), Some(52345.25));
        let old =
            "tps = 100.0 (including connections establishing)\ntps = 101.5 (excluding connections establishing)\n";
        assert_eq!(rate(old), Some(101.5));
        assert_eq!(rate("nothing"), None);
        assert_eq!(latency("3 17 250 0 1700000000 123456"), Some(0.000_25));
        assert_eq!(latency("3 17"), None);
    }

    #[test]
    fn a_small_workload_runs_and_leaves_nothing() {
        let settings = Settings {
            sessions: 2,
            buffers: Bytes::from_mib(128),
            time: Duration::from_secs(1),
            variants: vec![Variant::Base],
        };
        let mut workload = Workload::new(settings);
        crate::require!(workload.refusal().map_or(Ok(()), |why| Err(Skip(why))));
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        workload.prepare(&context).unwrap();
        let folder = workload.cluster.as_ref().unwrap().folder().to_owned();
        let readings = workload.measure(Variant::Base, &context).unwrap();
        let value = |metric: &str| readings.iter().find(|reading| reading.metric == metric).unwrap().values[0];
        assert!(value("transactions") > 10.0, "{readings:?}");
        assert!(value("latency_p50") > 0.0 && value("latency_p50") <= value("latency_p99"), "{readings:?}");
        drop(workload);
        assert!(!folder.exists());
    }
}
