//! `cargo xtask bench fleet`: what `hugewise collect` costs on many hosts that are made, each
//! another, beside a shell loop over `hugewise check --root` and beside the same as a Spark job.

mod hosts;
mod spark;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hugewise_testkit::measure;

use hugewise_testkit::tools::{Failure, programs, python, shell};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Hosts of the largest fleet.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Hosts that the shell loop goes through.
    #[arg(long, default_value_t = 100)]
    one_by_one: u32,
    /// A Python with pyspark, pyarrow and pandas, instead of the one that `cargo xtask fleet`
    /// installs.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Measure this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// How many times the processors' time of `collect` the loop is to take.
const WANTED_RATIO: f64 = 10.0;
/// Memory, whatever the number of hosts: rows of some 3,500 wait for the disk.
const WANTED_MIB: f64 = 128.0;
/// The smallest fleet.
const FEW: u32 = 100;
/// What the report may take by the clock.
const WANTED_REPORT: Duration = Duration::from_secs(10);

/// A fleet that `collect` has read.
struct Fleet {
    hosts: u32,
    /// Seconds on processors.
    busy: f64,
    /// MiB.
    peak: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(shell::target())?;
    let captures = folder.path().join("captures");
    fs::create_dir(&captures)?;
    println!("making {} captures", arguments.hosts);
    for number in 0..arguments.hosts {
        hosts::write(number, &captures.join(name(number)))?;
    }
    println!("\n| hosts | MB | hosts a second | MB/s | CPU, ms a host | peak memory | tables |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut sizes: Vec<u32> = [FEW, FEW * 10, arguments.hosts]
        .into_iter()
        .filter(|hosts| *hosts <= arguments.hosts)
        .collect();
    sizes.dedup();
    let mut fleets = Vec::new();
    for hosts in sizes {
        fleets.push(collected(&hugewise, &captures, hosts, folder.path())?);
    }
    let Some(all) = fleets.last() else {
        return Err("there are no hosts".into());
    };
    let looped = one_by_one(&hugewise, &captures, arguments.one_by_one.min(arguments.hosts))?;
    let ratio = looped / (all.busy / f64::from(all.hosts));
    println!("\na shell loop of check --root: {:.1} ms of CPU a host", looped * 1e3);
    println!("ratio {ratio:.1} (wanted: at least {WANTED_RATIO})");
    let Fleet { hosts, peak, .. } = all;
    println!(
        "peak memory of {hosts} hosts: {peak:.1} MiB (wanted: at most {WANTED_MIB}, however many \
             there are)"
    );
    let soon = report(&folder.path().join(format!("lake-{hosts}")), arguments.python.as_deref())?;
    let light =
        spark::run(&hugewise, &captures, &fleets, folder.path(), arguments.python.as_deref())?;
    if ratio >= WANTED_RATIO && *peak <= WANTED_MIB && soon && light {
        Ok(())
    } else {
        Err("more than wanted".into())
    }
}

fn name(number: u32) -> String {
    format!("db{number:06}.tar.gz")
}

/// Reads so many of them into tables of their own.
fn collected(
    hugewise: &Path,
    captures: &Path,
    hosts: u32,
    folder: &Path,
) -> Result<Fleet, Failure> {
    let given = folder.join(format!("captures-{hosts}"));
    fs::create_dir(&given)?;
    let mut bytes = 0;
    for number in 0..hosts {
        let file = captures.join(name(number));
        bytes += fs::metadata(&file)?.len();
        fs::hard_link(file, given.join(name(number)))?;
    }
    let lake = folder.join(format!("lake-{hosts}"));
    let mut collect = Command::new(hugewise);
    collect
        .arg("collect")
        .arg(&given)
        .arg("--out")
        .arg(&lake)
        .args(["--label", "bench", "--format", "json"]);
    let cost = measure::run(collect.stdout(Stdio::null()))?;
    if !matches!(cost.code, Some(0 | 1 | 3)) {
        return Err(format!("collect ended with {:?}", cost.code).into());
    }
    let peak = cost.peak.get() as f64 / 1_048_576.0;
    let (seconds, megabytes) = (cost.wall.as_secs_f64(), bytes as f64 / 1e6);
    println!(
        "| {hosts} | {megabytes:.1} | {:.0} | {:.1} | {:.2} | {peak:.1} MiB | {:.1} MB |",
        f64::from(hosts) / seconds,
        megabytes / seconds,
        cost.busy.as_secs_f64() * 1e3 / f64::from(hosts),
        size(&lake)? as f64 / 1e6,
    );
    Ok(Fleet { hosts, busy: cost.busy.as_secs_f64(), peak })
}

/// Seconds of a processor that a host takes.
fn one_by_one(hugewise: &Path, captures: &Path, hosts: u32) -> Result<f64, Failure> {
    let script = r#"program=$1; shift; for file; do "$program" check --root "$file" --format json >/dev/null; done; exit 0"#;
    let mut sh = Command::new("sh");
    sh.args(["-c", script, "sh"])
        .arg(hugewise)
        .args((0..hosts).map(|number| captures.join(name(number))));
    Ok(measure::run(&mut sh)?.busy.as_secs_f64() / f64::from(hosts))
}

/// What the report takes, where its environment is there; whether it is as wanted.
fn report(lake: &Path, python: Option<&Path>) -> Result<bool, Failure> {
    let python = python.map_or_else(|| python::program("fleet"), Path::to_owned);
    if !python.exists() {
        println!(
            "hugewise-fleet report: not measured, DuckDB is not installed (cargo xtask test does \
                 it)"
        );
        return Ok(true);
    }
    let mut report = Command::new(python);
    report
        .args(["-B", "-m", "hugewise_fleet", "report"])
        .arg(lake)
        .current_dir(shell::root().join("fleet/python"));
    let cost = measure::run(report.stdout(Stdio::null()))?;
    println!(
        "hugewise-fleet report: {:.1} s by the clock (wanted: at most {}), {:.1} s of CPU, {:.0} \
             MiB",
        cost.wall.as_secs_f64(),
        WANTED_REPORT.as_secs(),
        cost.busy.as_secs_f64(),
        cost.peak.get() as f64 / 1_048_576.0
    );
    if cost.code != Some(0) {
        return Err(format!("the report ended with {:?}", cost.code).into());
    }
    Ok(cost.wall <= WANTED_REPORT)
}

fn size(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        bytes += if facts.is_dir() { size(&entry.path())? } else { facts.len() };
    }
    Ok(bytes)
}
