//! PostgreSQL's sessions, each after a full scan.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::Skip;
use serde_json::Value;

use super::tables_reading::{TablesReading, counts_all_levels, kibibytes_of, middle};
use super::{Arguments, Measured, RUNS, Row, Table, Trouble, forecast, page_name};
use crate::exactness::postgresql::Cluster;
use crate::exactness::server::{self, Server, Start};
use crate::exactness::{self, committed};
use hugewise_testkit::tools::Failure;

/// What a forecast may be off, in percent.
const BAR: f64 = 15.0;

/// PostgreSQL's sessions that ran a full scan: forecast from a few, measured at many.
pub(super) fn measure(
    hugewise: &Path,
    arguments: &Arguments,
    table: &mut Table,
) -> Result<(), Failure> {
    let cluster = Cluster::new(exactness::debian())?;
    let scan = if arguments.quick {
        Scan { buffers: "512MB", pages: 300, counts: &[10] }
    } else {
        Scan { buffers: "2GB", pages: 1100, counts: &[1, 10, 40] }
    };
    scan.configure(&cluster, PageSize::KIB_4)?;
    // Filled by one server and read by the next, so that every process starts anew.
    drop(up(&cluster)?);
    let filler = up(&cluster)?;
    let rows = if arguments.quick { 330_000 } else { 1_300_000 };
    server::must(&mut cluster.psql(&format!(
        "CREATE TABLE scanned AS SELECT g AS id, repeat('x', 1100) AS filler FROM \
             generate_series(1, {rows}) g"
    )))?;
    server::must(&mut cluster.psql("CREATE EXTENSION IF NOT EXISTS pg_prewarm"))?;
    drop(filler);
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        if arguments.page.is_some_and(|wanted| wanted.size() != page) {
            continue;
        }
        match scan.measure(hugewise, &cluster, page, table) {
            Ok(()) => {}
            Err(Trouble::Skip(Skip(why))) => {
                table.skipped.push(format!(
                    "PostgreSQL on pages of {}: {why}",
                    page_name(page.bytes().get())
                ));
            }
            Err(Trouble::Failure(why)) => return Err(why),
        }
    }
    Ok(())
}

/// What is scanned, and by how many.
struct Scan {
    buffers: &'static str,
    /// Pages of 2 MiB that hold all of it.
    pages: u64,
    counts: &'static [u64],
}

impl Scan {
    fn configure(&self, cluster: &Cluster, page: PageSize) -> Result<(), Failure> {
        let huge = if page == PageSize::KIB_4 { "off" } else { "on" };
        cluster.configure(&format!(
            "shared_buffers = {}\nhuge_pages = {huge}\nmax_connections = 100\nautovacuum = \
                 off\nmax_wal_size = 8GB\n\
             max_parallel_workers_per_gather = 0\nsynchronize_seqscans = off\nwal_level = \
                 minimal\nmax_wal_senders = 0\n\
             client_connection_check_interval = '100ms'",
            self.buffers
        ))
    }

    fn measure(
        &self,
        hugewise: &Path,
        cluster: &Cluster,
        page: PageSize,
        table: &mut Table,
    ) -> Result<(), Trouble> {
        self.configure(cluster, page)?;
        let _guard = match page {
            PageSize::KIB_4 => None,
            page => {
                let guard = PoolGuard::take_for_test()?.with_watchdog();
                guard.set_pool(page, PageCount(committed(page)? + self.pages))?;
                Some(guard)
            }
        };
        // Nothing is its child before it runs.
        let before = TablesReading::settled(std::process::id())?;
        let server = up(cluster)?;
        server::must(&mut cluster.psql("SELECT pg_prewarm('scanned')"))?;
        let few = Sessions::open(cluster, &server, 2)?;
        let name = format!("forecast from {} live sessions", few.clients.len());
        let instance = instance_of(hugewise, server.pid)?;
        let forecasts = self.counts.iter().map(|count| {
            let arguments = ["--instance".into(), instance.clone().into()].to_vec();
            forecast(hugewise, arguments, page, *count).map(|forecast| (*count, forecast))
        });
        let forecasts: Vec<(u64, f64)> = forecasts.collect::<Result<_, _>>()?;
        drop(few);
        for (count, forecast) in forecasts {
            let (mut growths, mut of_processes) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let _sessions = Sessions::open(cluster, &server, count)?;
                let after = TablesReading::settled(server.pid)?;
                // It takes too long to begin anew for each: what others have more by now, the
                // clients among them, is taken off.
                growths.push(
                    after.page_tables - before.page_tables - (after.of_others - before.of_others),
                );
                let mut pids = server::children(server.pid);
                pids.push(server.pid);
                of_processes.push(kibibytes_of(&pids));
            }
            let (growth, of_processes) = (middle(growths), middle(of_processes));
            let counts_all = counts_all_levels()?;
            let measured = Measured { forecast, runs: RUNS, growth, of_processes, counts_all };
            let title = format!("PostgreSQL {}, {}, {name}", cluster.version, self.buffers);
            let page_bytes = page.bytes().get();
            table.add(&Row { title, page_bytes, sessions: count, measured, bar: BAR });
        }
        Ok(())
    }
}

fn up(cluster: &Cluster) -> Result<Server, Failure> {
    match cluster.start()? {
        Start::Up(server) => Ok(server),
        Start::Refused(said) => Err(said.into()),
    }
}

/// What hugewise calls the server with that main process.
fn instance_of(hugewise: &Path, pid: u32) -> Result<String, Failure> {
    let output = Command::new(hugewise).args(["check", "--format", "json"]).output()?;
    let checked: Value = serde_json::from_slice(&output.stdout)?;
    let instances = checked.get("instances").and_then(Value::as_array).ok_or("no instances")?;
    let ours = instances
        .iter()
        .find(|instance| instance.get("pid").and_then(Value::as_u64) == Some(u64::from(pid)));
    let name = ours.and_then(|instance| instance.get("name")).and_then(Value::as_str);
    name.map(|name| format!("postgresql {name}"))
        .ok_or_else(|| "check does not see the server".into())
}

/// Clients, each in a session that has scanned the table and stays.
struct Sessions {
    clients: Vec<Child>,
    server: u32,
    /// The server's processes without these sessions.
    others: usize,
}

impl Sessions {
    fn open(cluster: &Cluster, server: &Server, count: u64) -> Result<Self, Failure> {
        let others = server::children(server.pid).len();
        let mut sessions = Self { clients: Vec::new(), server: server.pid, others };
        for _ in 0..count {
            let mut client = cluster.psql("SELECT count(filler) FROM scanned");
            client.args(["-c", "SELECT 'scanned'", "-c", "SELECT pg_sleep(600)"]);
            let mut child = client.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let output = child.stdout.take();
            sessions.clients.push(child);
            let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            if !lines.map_while(Result::ok).any(|line| line == "scanned") {
                return Err("a session ended before it had scanned".into());
            }
        }
        Ok(sessions)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while server::children(self.server).len() > self.others && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
