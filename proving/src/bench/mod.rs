//! `cargo xtask bench check`: what check costs beside the tools that read smaps_rollup of every
//! process, and beside ps where thousands sleep, and how it grows with the instances of a host.

mod asleep;
pub(crate) mod fleet;
mod instances;
pub(crate) mod investigate;
pub(crate) mod lab;
pub(crate) mod metrics;
pub(crate) mod record;
mod scrape;
pub(crate) mod serve;
mod tree;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_testkit::measure::{self, RunCost};

use hugewise_testkit::tools::{Failure, programs};

/// Background processes of the stand-in.
const BACKGROUND: u32 = 4;
/// What check may take of the other way's time, and how much memory.
const WANTED_RATIO: f64 = 100.0;
const WANTED_MIB: u64 = 32;

pub(crate) fn check(
    processes: u32,
    asleep: u32,
    instances: u32,
    rounds: u32,
) -> Result<(), Failure> {
    programs::hugewise(None)?;
    let server = Server::start(processes, "1G")?;
    let pids = server.pids()?;
    println!(
        "{} processes map and touch 1 GiB on base pages; {rounds} rounds, in turn",
        pids.len()
    );

    let (mut checks, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        checks.push(run_check()?);
        reads.push(read_rollups(&pids)?);
    }
    let check = median(checks.iter().map(|cost| cost.wall).collect());
    let read = median(reads);
    let peak = checks.iter().map(|cost| cost.peak).max().unwrap_or_default();
    let ratio = read.as_secs_f64() / check.as_secs_f64();
    println!("hugewise check          {:9.1} ms (median)", check.as_secs_f64() * 1e3);
    println!("smaps_rollup of all     {:9.1} ms (median)", read.as_secs_f64() * 1e3);
    println!("ratio                   {ratio:9.1}    (wanted: at least {WANTED_RATIO})");
    println!("peak memory of check    {peak:>12} (wanted: below {WANTED_MIB} MiB)");
    let good = ratio >= WANTED_RATIO && peak.get() < WANTED_MIB << 20;
    println!("{}", if good { "as wanted" } else { "more than wanted" });
    drop(server);
    let light = asleep == 0 || asleep::run(asleep, rounds)?;
    let linear = instances == 0 || instances::run(instances, rounds)?;
    if good && light && linear {
        Ok(())
    } else {
        Err("check is slower or larger than it may be".into())
    }
}

fn run_check() -> Result<RunCost, Failure> {
    let program = programs::built_hugewise();
    let cost = measure::run(
        Command::new(program).args(["check", "--format", "json"]).stdout(Stdio::null()),
    )?;
    match cost.code {
        Some(0 | 1 | 3) => Ok(cost),
        code => Err(format!("check ended with {code:?}").into()),
    }
}

fn read_rollups(pids: &[u32]) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for pid in pids {
        fs::read(format!("/proc/{pid}/smaps_rollup"))?;
    }
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The stand-in, ended when dropped.
struct Server(Child);

impl Server {
    /// With so many processes around a segment of that size.
    fn start(processes: u32, segment: &str) -> Result<Self, Failure> {
        Self::start_program(&programs::fast_standin()?, processes, segment)
    }

    /// The same of that stand-in.
    fn start_program(standin: &Path, processes: u32, segment: &str) -> Result<Self, Failure> {
        let sessions = processes.saturating_sub(BACKGROUND).to_string();
        let mut child = Command::new(standin)
            .args(["--as", "oracle:BENCH", "--segments", segment, "--sessions", &sessions])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let server = Self(child);
        let ready = output.map(BufReader::new).and_then(|output| output.lines().next());
        match ready {
            Some(Ok(line)) if line == "ready" => Ok(server),
            _ => Err("the stand-in did not start".into()),
        }
    }

    /// Its processes.
    fn pids(&self) -> Result<Vec<u32>, Failure> {
        let id = self.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
