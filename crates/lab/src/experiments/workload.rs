//! A read-only workload on the lab's own PostgreSQL server: transactions a second, latency, page
//! tables.

#![allow(clippy::disallowed_methods, reason = "the workload's own logs are read")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;

use super::cluster::{self, LabCluster, Programs, run_to_output};
use super::server::processor_count;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::results::{MetricReading, percentile_value};
use crate::variant::Variant;

/// One unit of pgbench's scale, with its index (100,000 rows).
const SCALE: Bytes = Bytes::from_mib(15);
const WARM_UP: Duration = Duration::from_secs(2);

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct WorkloadSettings {
    /// Concurrent sessions.
    pub sessions: u32,
    /// Shared buffers; the tables fill three quarters.
    pub buffers: Bytes,
    /// Time of one measurement.
    pub time: Duration,
    /// The pages; the others are compared with the first.
    pub variants: Vec<Variant>,
}

impl Default for WorkloadSettings {
    fn default() -> Self {
        let variants = vec![Variant::Base, Variant::MIB_2, Variant::GIB_1];
        Self { sessions: 16, buffers: Bytes::from_gib(2), time: Duration::from_secs(20), variants }
    }
}

/// The experiment.
#[derive(Debug)]
pub struct Workload {
    settings: WorkloadSettings,
    cluster: Option<LabCluster>,
    notes: Vec<String>,
}

impl Workload {
    /// With these settings.
    pub const fn new(settings: WorkloadSettings) -> Self {
        Self { settings, cluster: None, notes: Vec::new() }
    }

    fn pgbench_scale(&self) -> u64 {
        (self.settings.buffers.get() / 4 * 3 / SCALE.get()).max(1)
    }

    /// Runs pgbench's select-only transactions, and `meanwhile` shortly before the end; the output.
    fn run_pgbench<T>(
        &self,
        cluster: &LabCluster,
        time: Duration,
        log: bool,
        context: &Context<'_>,
        meanwhile: impl FnOnce() -> Result<T, ExperimentFailure>,
    ) -> Result<(String, T), ExperimentFailure> {
        let mut pgbench = cluster.client_command("pgbench");
        let threads = self.settings.sessions.min(processor_count());
        pgbench.args(["--select-only", "--protocol=prepared", "--no-vacuum"]);
        pgbench.args([format!("--client={}", self.settings.sessions), format!("--jobs={threads}")]);
        pgbench.arg(format!("--time={}", time.as_secs().max(1)));
        if log {
            // A fifth of them is enough for percentiles and costs little to write.
            pgbench.args(["--log", "--sampling-rate=0.2"]);
            pgbench.arg(format!("--log-prefix={}/latency", cluster.folder().display()));
        }
        let mut child =
            pgbench.arg("postgres").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let until = Instant::now() + time.mul_f64(0.9);
        let waited = loop {
            let left = until.saturating_duration_since(Instant::now());
            match child.try_wait() {
                Ok(None) if !left.is_zero() => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(ExperimentFailure::from(error)),
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
            context.cancel.check_running()?;
            let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(ExperimentFailure::Failed(format!(
                "pgbench: {}",
                complaint.lines().last().unwrap_or("failed")
            )));
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

    fn refusal_reason(&self) -> Option<String> {
        if let Some(refusal) = cluster::refuse_small_buffers(self.settings.buffers) {
            return Some(refusal);
        }
        let programs = match Programs::find_newest_version() {
            Ok(programs) => programs,
            Err(why) => return Some(why.to_string()),
        };
        if !programs.has_program("pgbench") {
            return Some(
                "pgbench is not installed; it comes with the server on Debian, and with \
                 postgresql-contrib elsewhere"
                    .into(),
            );
        }
        cluster::disk_room(self.settings.buffers.saturating_mul(3) + Bytes::from_gib(1))
            .err()
            .map(|why| why.to_string())
    }

    fn host_changes(&self) -> Vec<String> {
        vec!["starts its own PostgreSQL server, in a folder that it removes afterwards".into()]
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        let WorkloadSettings { buffers, sessions, time, .. } = self.settings;
        let filling =
            Duration::from_secs_f64(5.0 + 12.0 * buffers.as_f64() / Bytes::from_gib(1).as_f64());
        Needs {
            time: time + WARM_UP + filling,
            ..cluster::postgresql_needs(variant, buffers, sessions)
        }
    }

    fn prepare_host(&mut self, _: &Context<'_>) -> Result<(), ExperimentFailure> {
        self.cluster = Some(LabCluster::new(Programs::find_newest_version()?)?);
        Ok(())
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        let WorkloadSettings { buffers, sessions, time, .. } = self.settings;
        let cluster =
            self.cluster.as_ref().ok_or_else(|| ExperimentFailure::Failed("no cluster".into()))?;
        let running = cluster.start_server(variant, buffers, sessions, context.cancel)?;
        let mut fill = cluster.client_command("pgbench");
        // Rows that the server writes itself are in its buffers afterwards.
        fill.args(["--initialize", "--init-steps=dtGp", "--unlogged-tables", "--quiet"]);
        run_to_output(
            fill.args([format!("--scale={}", self.pgbench_scale()).as_str(), "postgres"]),
        )?;
        context.cancel.check_running()?;
        let warm = "create extension if not exists pg_prewarm; select sum(pg_prewarm(oid)) from \
             pg_class where relname like 'pgbench_accounts%' and relkind in ('r', 'i')";
        if let Err(failure) = cluster.run_statements(warm) {
            let note = format!("pg_prewarm did not warm the buffers: {failure}");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let before = context.gauge.page_tables()?;
        self.run_pgbench(cluster, WARM_UP, false, context, || Ok(()))?;
        let tables = || Ok(context.gauge.page_tables()?.as_f64() - before.as_f64());
        let (printed, tables) = self.run_pgbench(cluster, time, true, context, tables)?;
        let latencies = read_latencies(cluster)?;
        drop(running);
        let rate = parse_transaction_rate(&printed)
            .ok_or_else(|| ExperimentFailure::Failed("pgbench printed no rate".into()))?;
        let at = |percent| percentile_value(&latencies, percent).unwrap_or(f64::NAN);
        let readings = [
            MetricReading::higher_is_better("transactions", "1/s", rate),
            MetricReading::lower_is_better("latency_p50", "s", at(50)),
            MetricReading::lower_is_better("latency_p95", "s", at(95)),
            MetricReading::lower_is_better("latency_p99", "s", at(99)),
            MetricReading::lower_is_better("page_tables", "B", tables),
        ];
        Ok(readings
            .into_iter()
            .map(|reading| reading.with_sessions(sessions).with_segment(buffers.get()))
            .collect())
    }

    fn result_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.push(
            "page_tables is the growth of PageTables in /proc/meminfo since the first session"
                .into(),
        );
        notes
    }
}

/// `tps = 23456.789 (without initial connection time)`; before version 14 the one with `excluding`.
fn parse_transaction_rate(printed: &str) -> Option<f64> {
    let mut lines = printed.lines().filter_map(|line| line.trim().strip_prefix("tps = "));
    let line = lines.rfind(|line| !line.contains("including"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Seconds of the logged transactions; removes the logs. Each line: client, number, microseconds,
/// ...
fn read_latencies(cluster: &LabCluster) -> Result<Vec<f64>, ExperimentFailure> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(cluster.folder())?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("latency.") {
            all.extend(std::fs::read_to_string(entry.path())?.lines().filter_map(parse_latency));
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(all)
}

fn parse_latency(line: &str) -> Option<f64> {
    line.split_ascii_whitespace().nth(2)?.parse::<f64>().ok().map(|micros| micros / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ResourceGauge;
    use crate::cancel::Cancel;
    use hugewise_testkit::Skip;

    #[test]
    fn pgbench_is_understood_old_and_new() {
        let new = "latency average = 0.3 ms\ninitial connection time = 5 ms\ntps = 52345.25 \
             (without initial connection time)\n";
        assert_eq!(parse_transaction_rate(new), Some(52345.25));
        let old = "tps = 100.0 (including connections establishing)\ntps = 101.5 (excluding \
             connections establishing)\n";
        assert_eq!(parse_transaction_rate(old), Some(101.5));
        assert_eq!(parse_transaction_rate("nothing"), None);
        assert_eq!(parse_latency("3 17 250 0 1700000000 123456"), Some(0.000_25));
        assert_eq!(parse_latency("3 17"), None);
    }

    #[test]
    fn a_small_workload_runs_and_leaves_nothing() {
        let settings = WorkloadSettings {
            sessions: 2,
            buffers: Bytes::from_mib(128),
            time: Duration::from_secs(1),
            variants: vec![Variant::Base],
        };
        let mut workload = Workload::new(settings);
        hugewise_testkit::require!(workload.refusal_reason().map_or(Ok(()), |why| Err(Skip(why))));
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        workload.prepare_host(&context).unwrap();
        let folder = workload.cluster.as_ref().unwrap().folder().to_owned();
        let readings = workload.measure_variant(Variant::Base, &context).unwrap();
        let value = |metric: &str| {
            readings.iter().find(|reading| reading.metric == metric).unwrap().values[0]
        };
        assert!(value("transactions") > 10.0, "{readings:?}");
        assert!(
            value("latency_p50") > 0.0 && value("latency_p50") <= value("latency_p99"),
            "{readings:?}"
        );
        drop(workload);
        assert!(!folder.exists());
    }
}
