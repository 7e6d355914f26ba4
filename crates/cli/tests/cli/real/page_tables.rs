//! Page tables of a real server's sessions: what is forecast from a few of them, and what the
//! kernel has at many.

use std::process::{Child, Command, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::PageSize;
use hugewise_testkit::require;
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE, MIB, Server, kernel, text};
use crate::real::postgresql::Cluster;

/// The most sessions that its settings allow.
const MOST: usize = 40;

/// Clients, killed at the end.
struct Clients(Vec<Child>);

impl Drop for Clients {
    fn drop(&mut self) {
        for client in &mut self.0 {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// VmPTE of a server's processes, and how many these are.
fn page_tables(server: &Server) -> (u64, usize) {
    let parent = u64::from(server.pid);
    let mut pids = kernel::processes(|command| command.starts_with("postgres: "));
    pids.retain(|pid| kernel::status(*pid, "PPid:") == Some(parent));
    pids.push(server.pid);
    (pids.iter().filter_map(|pid| kernel::status(*pid, "VmPTE:")).sum::<u64>() * 1024, pids.len())
}

/// Its sessions that run a statement; one that has just ended is none of them.
fn scanning(server: &Server) -> usize {
    let parent = u64::from(server.pid);
    let mut pids = kernel::processes(|command| {
        command.starts_with("postgres: ") && command.contains("[local] SELECT")
    });
    pids.retain(|pid| kernel::status(*pid, "PPid:") == Some(parent));
    pids.len()
}

/// Adds clients up to so many that each scan the table, and waits until none of them touches more.
fn scan(cluster: &Cluster, server: &Server, clients: &mut Clients, count: usize) -> (u64, usize) {
    while clients.0.len() < count {
        let mut client = cluster.psql("SELECT count(*), pg_sleep(600) FROM t");
        clients.0.push(client.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    }
    let mut last = (0, 0);
    harness::wait_for("sessions that have scanned", || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let now = page_tables(server);
        let still = now == last && scanning(server) == count;
        last = now;
        still.then_some(now)
    })
}

fn size(instance: &Value) -> Value {
    let title = format!("{} {}", text(&instance["engine"]), text(&instance["name"]));
    let sessions = MOST.to_string();
    let words = ["size", "--format", "json", "--instance", &title, "--sessions", &sessions];
    let output = Command::new(HUGEWISE).args(words).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn check_and_size_forecast_what_the_kernel_has_at_the_most_sessions() {
    let cluster = require!(Cluster::debian("postgres"));
    let _alone = require!(PoolGuard::take_for_test());
    let server = cluster.start(&format!(
        "shared_buffers = 512MB\nhuge_pages = off\nmax_connections = {MOST}\nautovacuum = off\n\
         superuser_reserved_connections = 0\nmax_parallel_workers_per_gather = 0"
    ));
    // 100 MB: below a quarter of the buffers, so that a scan goes through them and not through a
    // ring of its own.
    harness::must(
        &mut cluster
            .psql("CREATE TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 90000)"),
    );
    harness::must(&mut cluster.psql("SELECT count(*) FROM t"));
    let mut clients = Clients(Vec::new());
    for few in [3, 12] {
        scan(&cluster, &server, &mut clients, few);
        let check = harness::check();
        let instance = check.instance("postgresql", server.pid);
        let base = instance["page_tables_at_max"][0].clone();
        assert_eq!(
            (base["page_bytes"].as_u64(), base["sessions"].as_u64()),
            (Some(4096), Some(MOST as u64))
        );
        assert_eq!(base["basis"], "measured");
        let sized = size(instance);
        assert_eq!(sized["instances"][0]["page_tables_at_max"][0], base);
        let mut rows = sized["forecast"].as_array().unwrap().iter();
        let row = rows
            .find(|row| row["sessions"] == base["sessions"] && row["page_bytes"] == 4096)
            .unwrap();
        assert_eq!(
            (&row["page_tables_bytes"], &row["basis"]),
            (&base["expected_bytes"], &base["basis"])
        );
        if few == 12 {
            let (kernel, processes) = scan(&cluster, &server, &mut clients, MOST);
            // VmPTE leaves out the root of each process's tables.
            let kernel = kernel + processes as u64 * PageSize::KIB_4.bytes().get();
            let expected = base["expected_bytes"].as_f64().unwrap();
            let off = expected / kernel as f64 - 1.0;
            assert!(
                off.abs() < 0.05,
                "{expected} forecast, {kernel} in {processes} processes: {off:+.3}"
            );
            // A tenth of the memory was not touched by any, so the bound lies well above.
            assert!(base["most_bytes"].as_u64().unwrap() > kernel + 10 * MIB, "{base:#}");
        }
    }
}
