//! Page tables of a real PostgreSQL server as its sessions scan its shared buffers.

use std::time::Duration;

use hugewise_model::Bytes;

use super::cluster::{self, Cluster, Programs, Session};
use crate::experiment::{Context, Experiment, Failure, Needs};
use crate::results::Reading;
use crate::variant::Variant;

/// The table fills so much of the shared buffers: the catalogues have to lie there too.
const FILLED_PERCENT: u64 = 95;
/// Bytes of a block.
const BLOCK: u64 = 8192;

/// The experiment.
#[derive(Debug)]
pub struct Scan {
    variants: Vec<Variant>,
    buffers: Bytes,
    steps: Vec<u32>,
    cluster: Option<Cluster>,
}

impl Scan {
    /// Up to `sessions` sessions that each scan shared buffers of this size.
    pub fn new(variants: Vec<Variant>, buffers: Bytes, sessions: u32) -> Self {
        let mut steps: Vec<u32> = [1, sessions / 4, sessions / 2, sessions].map(|count| count.max(1)).into();
        steps.dedup();
        Self { variants, buffers, steps, cluster: None }
    }

    fn most(&self) -> u32 {
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

    fn refusal(&self) -> Option<String> {
        if self.buffers < Bytes::from_mib(64) {
            return Some(format!("shared buffers of {} are too small: use at least 64 MiB", self.buffers));
        }
        // The table, and the log of the inserts that a crash would need.
        let here = Programs::find().and_then(|_| cluster::disk_room(self.buffers.times(2) + Bytes::from_gib(1)));
        here.err().map(|why| why.to_string())
    }

    fn changes(&self) -> Vec<String> {
        vec!["starts its own PostgreSQL server, in a folder that it removes afterwards".into()]
    }

    fn needs(&self, variant: Variant) -> Needs {
        // Filling and scanning go at some hundred megabytes a second.
        let gib = self.buffers.as_f64() / Bytes::from_gib(1).as_f64();
        let time = Duration::from_secs_f64(3.0 + gib * (12.0 + 0.4 * f64::from(self.most())));
        Needs { time, ..cluster::needs(variant, self.buffers, self.most()) }
    }

    fn prepare(&mut self, _: &Context<'_>) -> Result<(), Failure> {
        self.cluster = Some(Cluster::new(Programs::find()?)?);
        Ok(())
    }

    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
        let cluster = self.cluster.as_ref().ok_or_else(|| Failure::Failed("no cluster".into()))?;
        let running = cluster.start(variant, self.buffers, self.most(), context.cancel)?;
        // One row fills a block, and is neither compressed nor put elsewhere.
        let rows = self.buffers.get() / 100 * FILLED_PERCENT / BLOCK;
        cluster.ask("drop table if exists scanned; create unlogged table scanned (row text); alter table scanned alter row set storage plain")?;
        cluster.ask(&format!("insert into scanned select repeat('x', 8000) from generate_series(1, {rows})"))?;
        context.cancel.check()?;
        // The first scan writes hint bits into every row.
        cluster.ask("select count(*) from scanned")?;
        let before = context.gauge.page_tables()?;
        let mut sessions: Vec<Session> = Vec::new();
        let mut readings = Vec::new();
        for step in &self.steps {
            let present = sessions.len();
            while sessions.len() < usize::try_from(*step).unwrap_or(usize::MAX) {
                context.cancel.check()?;
                sessions.push(Session::open(cluster)?);
            }
            let (_, new) = sessions.split_at_mut(present);
            for session in new.iter_mut() {
                session.tell("select count(*) from scanned")?;
            }
            for session in new.iter_mut() {
                context.cancel.check()?;
                let counted = session.answer()?;
                if counted != rows.to_string() {
                    return Err(Failure::Failed(format!("{rows} rows were written, but {counted} were counted")));
                }
            }
            // Below zero where other processes of the host have given more back meanwhile.
            let all = context.gauge.page_tables()?.as_f64() - before.as_f64();
            let each = sessions.iter().map(|session| context.gauge.process_page_tables(session.pid));
            let each: Vec<f64> = each.map(|bytes| bytes.map(Bytes::as_f64)).collect::<Result<_, _>>()?;
            let of = |reading: Reading| reading.sessions(*step).segment(self.buffers.get());
            readings.push(of(Reading::lower("page_tables", "B", all)));
            readings.push(of(Reading::lower("session_page_tables", "B", 0.0).values(each)));
        }
        drop(sessions);
        drop(running);
        Ok(readings)
    }

    fn notes(&self) -> Vec<String> {
        let text = "page_tables is the growth of PageTables in /proc/meminfo, including the page tables of each \
                    session's psql";
        vec![text.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Gauge;
    use crate::cancel::Cancel;
    use crate::guard::Skip;

    #[test]
    fn sessions_on_base_pages_have_a_table_for_each_two_mebibytes() {
        crate::require!(Programs::find().map(drop).map_err(|why| Skip(why.to_string())));
        let mut scan = Scan::new(vec![Variant::Base], Bytes::from_mib(256), 4);
        let (cancel, gauge) = (Cancel::never(), Gauge::new());
        let context = Context { cancel: &cancel, gauge: &gauge, guard: None, floor: Bytes::ZERO };
        scan.prepare(&context).unwrap();
        let folder = scan.cluster.as_ref().unwrap().folder().to_owned();
        let readings = scan.measure(Variant::Base, &context).unwrap();
        let each = readings.iter().rfind(|reading| reading.metric == "session_page_tables").unwrap();
        assert_eq!((each.values.len(), each.sessions), (4, Some(4)));
        // 243 MiB are scanned: 122 tables of 4 KiB, beside the some 190 KiB that any session has.
        for own in &each.values {
            assert!((480_000.0..900_000.0).contains(own), "{own}");
        }
        drop(scan);
        assert!(!folder.exists());
    }
}
