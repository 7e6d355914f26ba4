//! Part of `cargo xtask bench check`: what check costs on a host where thousands of processes
//! sleep, beside ps.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hugewise_testkit::measure::{self, RunCost};

use super::{median, run_check};
use hugewise_testkit::tools::Failure;

/// What check may take, and how much memory; wanted of two processors that do nothing else.
const WANTED: Duration = Duration::from_millis(500);
const WANTED_MIB: u64 = 32;

/// Prints both, in turn; whether check is as wanted.
pub(super) fn run(count: u32, rounds: u32) -> Result<bool, Failure> {
    let _asleep = Asleep::new(count)?;
    let (mut checks, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        checks.push(run_check()?);
        lists.push(measure::run(
            Command::new("ps").args(["-eo", "pid,args"]).stdout(Stdio::null()),
        )?);
    }
    let line = |name: &str, costs: &[RunCost]| {
        let wall = median(costs.iter().map(|cost| cost.wall).collect());
        let busy = median(costs.iter().map(|cost| cost.busy).collect());
        let peak = costs.iter().map(|cost| cost.peak).max().unwrap_or_default();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:<24}{:9.1} ms (median), {:9.1} ms of CPU, {peak:>12} at most",
            ms(wall),
            ms(busy)
        );
        (wall, peak)
    };
    println!("{count} processes sleep; {rounds} rounds, in turn");
    let (check, peak) = line("hugewise check", &checks);
    let (list, _) = line("ps -eo pid,args", &lists);
    let ratio = check.as_secs_f64() / list.as_secs_f64();
    let good = check < WANTED && peak.get() < WANTED_MIB << 20;
    let verdict = if good { "as wanted" } else { "more than wanted" };
    let wanted = format!("below {} ms and {WANTED_MIB} MiB", WANTED.as_millis());
    println!("{verdict}: {ratio:.1} times ps (wanted: {wanted})");
    Ok(good)
}

/// Processes that sleep, ended when dropped.
struct Asleep(Vec<Child>);

impl Asleep {
    fn new(count: u32) -> Result<Self, Failure> {
        let mut asleep = Self(Vec::new());
        for _ in 0..count {
            asleep.0.push(Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn()?);
        }
        Ok(asleep)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
