//! Page tables of a real PostgreSQL server whose sessions scan its shared buffers.

use std::time::Duration;

use hugewise_model::Bytes;

use super::cluster::{self, LabCluster, Programs, Session};
use super::server;
use crate::experiment::{Context, Experiment, ExperimentFailure, Needs};
use crate::results::MetricReading;
use crate::variant::Variant;

const FILLED_PERCENT: u64 = 95;
const BLOCK: u64 = 8192;

/// The experiment.
#[derive(Debug)]
pub struct Scan {
    variants: Vec<Variant>,
    buffers: Bytes,
    steps: Vec<u32>,
    cluster: Option<LabCluster>,
}

impl Scan {
    /// Up to `sessions` sessions that each scan shared buffers of this size.
    pub fn new(variants: Vec<Variant>, buffers: Bytes, sessions: u32) -> Self {
        let mut steps: Vec<u32> =
            [1, sessions / 4, sessions / 2, sessions].map(|count| count.max(1)).into();
        steps.dedup();
        Self { variants, buffers, steps, cluster: None }
    }

    fn most_sessions(&self) -> u32 {
        self.steps.last().copied().unwrap_or(1)
    }
}

impl Experiment for Scan {
    fn name(&self) -> &'static str {
        "page-tables"
    }
    fn engine(&self) -> &'static str {
        "postgresql"
    }
    fn variants(&self) -> Vec<Variant> {
        self.variants.clone()
    }

    fn refusal_reason(&self) -> Option<String> {
        if let Some(refusal) = cluster::refuse_small_buffers(self.buffers) {
            return Some(refusal);
        }
        // The table, and the log of the inserts.
        let here = Programs::find_newest_version()
            .and_then(|_| cluster::disk_room(self.buffers.saturating_mul(2) + Bytes::from_gib(1)));
        here.err().map(|why| why.to_string())
    }

    fn host_changes(&self) -> Vec<String> {
        vec!["starts its own PostgreSQL server, in a folder that it removes afterwards".into()]
    }

    fn resource_needs(&self, variant: Variant) -> Needs {
        // Filling and scanning take some hundred megabytes a second.
        let gib = self.buffers.as_f64() / Bytes::from_gib(1).as_f64();
        let time =
            Duration::from_secs_f64(3.0 + gib * (12.0 + 0.4 * f64::from(self.most_sessions())));
        Needs { time, ..cluster::postgresql_needs(variant, self.buffers, self.most_sessions()) }
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
        let cluster =
            self.cluster.as_ref().ok_or_else(|| ExperimentFailure::Failed("no cluster".into()))?;
        let running =
            cluster.start_server(variant, self.buffers, self.most_sessions(), context.cancel)?;
        // One row fills a block, and is neither compressed nor stored elsewhere.
        let rows = self.buffers.get() / 100 * FILLED_PERCENT / BLOCK;
        fill_table(cluster, rows, context)?;
        let before = context.gauge.page_tables()?;
        let mut sessions: Vec<Session> = Vec::new();
        let mut readings = Vec::new();
        for step in &self.steps {
            let present = sessions.len();
            while sessions.len() < usize::try_from(*step).unwrap_or(usize::MAX) {
                context.cancel.check_running()?;
                sessions.push(Session::open(cluster)?);
            }
            let (_, new) = sessions.split_at_mut(present);
            scan_table(new, rows, context)?;
            readings.extend(server::page_table_readings(
                context,
                before,
                sessions.iter().map(|session| session.pid),
                (*step, self.buffers),
            )?);
        }
        drop(sessions);
        drop(running);
        Ok(readings)
    }

    fn result_notes(&self) -> Vec<String> {
        let text = "page_tables is the growth of PageTables in /proc/meminfo, including the page \
             tables of each session's psql";
        vec![text.into()]
    }
}

fn fill_table(
    cluster: &LabCluster,
    rows: u64,
    context: &Context<'_>,
) -> Result<(), ExperimentFailure> {
    cluster.run_statements(
        "drop table if exists scanned; create unlogged table scanned (row text); alter table \
         scanned alter row set storage plain",
    )?;
    cluster.run_statements(&format!(
        "insert into scanned select repeat('x', 8000) from generate_series(1, {rows})"
    ))?;
    context.cancel.check_running()?;
    // The first scan writes hint bits into every row.
    cluster.run_statements("select count(*) from scanned")?;
    Ok(())
}

fn scan_table(
    sessions: &mut [Session],
    rows: u64,
    context: &Context<'_>,
) -> Result<(), ExperimentFailure> {
    for session in sessions.iter_mut() {
        session.send_statement("select count(*) from scanned")?;
    }
    for session in sessions {
        context.cancel.check_running()?;
        let counted = session.read_answer()?;
        if counted != rows.to_string() {
            return Err(ExperimentFailure::Failed(format!(
                "{rows} rows were written, but {counted} were counted"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ResourceGauge;
    use crate::cancel::Cancel;
    use hugewise_testkit::Skip;

    #[test]
    fn sessions_on_base_pages_have_a_table_for_each_two_mebibytes() {
        hugewise_testkit::require!(
            Programs::find_newest_version().map(drop).map_err(|why| Skip(why.to_string()))
        );
        let mut scan = Scan::new(vec![Variant::Base], Bytes::from_mib(256), 4);
        let (cancel, gauge) = (Cancel::never(), ResourceGauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        scan.prepare_host(&context).unwrap();
        let folder = scan.cluster.as_ref().unwrap().folder().to_owned();
        let readings = scan.measure_variant(Variant::Base, &context).unwrap();
        let each =
            readings.iter().rfind(|reading| reading.metric == "session_page_tables").unwrap();
        assert_eq!((each.values.len(), each.sessions), (4, Some(4)));
        // 243 MiB are scanned: 122 tables of 4 KiB, beside the some 190 KiB that any session has.
        for own in &each.values {
            assert!((480_000.0..900_000.0).contains(own), "{own}");
        }
        drop(scan);
        assert!(!folder.exists());
    }
}
