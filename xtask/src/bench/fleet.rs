//! `cargo xtask bench fleet`: what `hugewise collect` costs on many hosts that are made, each another, beside a shell loop over
//! `hugewise check --root`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use hugewise_estate::{Database, Distribution, Entry, Estate, Kept, Machine, Memlock, Pages, gib, mib};
use hugewise_lab::measure::{self, Cost};

use crate::{Failure, exactness, shell};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Hosts of the largest fleet.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Hosts that the shell loop goes through.
    #[arg(long, default_value_t = 100)]
    one_by_one: u32,
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = exactness::hugewise(arguments.program.as_deref())?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(shell::target())?;
    let captures = folder.path().join("captures");
    fs::create_dir(&captures)?;
    println!("making {} captures", arguments.hosts);
    for number in 0..arguments.hosts {
        write(number, &captures.join(name(number)))?;
    }
    println!("\n| hosts | MB | hosts a second | MB/s | CPU, ms a host | peak memory | tables |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut sizes: Vec<u32> =
        [FEW, FEW * 10, arguments.hosts].into_iter().filter(|hosts| *hosts <= arguments.hosts).collect();
    sizes.dedup();
    let mut costs = Vec::new();
    for hosts in sizes {
        costs.push(collected(&hugewise, &captures, hosts, folder.path())?);
    }
    let Some((all, of_all)) = costs.last() else {
        return Err("there are no hosts".into());
    };
    let each = all.busy.as_secs_f64() / f64::from(*of_all);
    let looped = one_by_one(&hugewise, &captures, arguments.one_by_one.min(arguments.hosts))?;
    let ratio = looped / each;
    println!("\na shell loop of check --root: {:.1} ms of CPU a host", looped * 1e3);
    println!("ratio {ratio:.1} (wanted: at least {WANTED_RATIO})");
    let peak = all.peak.get() as f64 / 1_048_576.0;
    println!("peak memory of {of_all} hosts: {peak:.1} MiB (wanted: at most {WANTED_MIB}, however many there are)");
    report(&folder.path().join(format!("lake-{of_all}")))?;
    if ratio >= WANTED_RATIO && peak <= WANTED_MIB { Ok(()) } else { Err("collect costs more than it may".into()) }
}

fn name(number: u32) -> String {
    format!("db{number:06}.tar.gz")
}

/// Reads so many of them into tables of their own.
fn collected(hugewise: &Path, captures: &Path, hosts: u32, folder: &Path) -> Result<(Cost, u32), Failure> {
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
    collect.arg("collect").arg(&given).arg("--out").arg(&lake).args(["--label", "bench", "--format", "json"]);
    let cost = measure::run(collect.stdout(Stdio::null()))?;
    if !matches!(cost.code, Some(0 | 1 | 3)) {
        return Err(format!("collect ended with {:?}", cost.code).into());
    }
    let (seconds, megabytes) = (cost.wall.as_secs_f64(), bytes as f64 / 1e6);
    println!(
        "| {hosts} | {megabytes:.1} | {:.0} | {:.1} | {:.2} | {:.1} MiB | {:.1} MB |",
        f64::from(hosts) / seconds,
        megabytes / seconds,
        cost.busy.as_secs_f64() * 1e3 / f64::from(hosts),
        cost.peak.get() as f64 / 1_048_576.0,
        size(&lake)? as f64 / 1e6,
    );
    Ok((cost, hosts))
}

/// Seconds of a processor that a host takes.
fn one_by_one(hugewise: &Path, captures: &Path, hosts: u32) -> Result<f64, Failure> {
    let script =
        r#"program=$1; shift; for file; do "$program" check --root "$file" --format json >/dev/null; done; exit 0"#;
    let mut sh = Command::new("sh");
    sh.args(["-c", script, "sh"]).arg(hugewise).args((0..hosts).map(|number| captures.join(name(number))));
    Ok(measure::run(&mut sh)?.busy.as_secs_f64() / f64::from(hosts))
}

/// What the report takes, where its environment is there.
fn report(lake: &Path) -> Result<(), Failure> {
    let python = shell::target().join("tools/fleet/bin/python");
    if !python.exists() {
        println!("hugewise-fleet report: not measured, DuckDB is not installed (cargo xtask test does it)");
        return Ok(());
    }
    let mut report = Command::new(python);
    report.args(["-B", "-m", "hugewise_fleet", "report"]).arg(lake).current_dir(shell::root().join("fleet/python"));
    let cost = measure::run(report.stdout(Stdio::null()))?;
    println!(
        "hugewise-fleet report: {:.1} s by the clock, {:.1} s of CPU",
        cost.wall.as_secs_f64(),
        cost.busy.as_secs_f64()
    );
    if cost.code == Some(0) { Ok(()) } else { Err(format!("the report ended with {:?}", cost.code).into()) }
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

/// Writes a capture of the host of that number: no two are alike.
fn write(number: u32, file: &Path) -> Result<(), Failure> {
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(file)?, Compression::fast()));
    for (path, entry) in host(number).files().map_err(|error| error.to_string())?.iter() {
        let at = format!("hugewise-capture{path}");
        let mut header = tar::Header::new_gnu();
        match entry {
            Entry::File(bytes) => {
                header.set_size(u64::try_from(bytes.len())?);
                header.set_mode(0o600);
                tar.append_data(&mut header, at, bytes.as_slice())?;
            }
            Entry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, at, target)?;
            }
        }
    }
    tar.into_inner()?.finish()?;
    Ok(())
}

/// Distribution, memory, servers, sessions, pages, pool and settings go by the number, each at its own pace.
fn host(number: u32) -> Estate {
    // Steps that share no divisor with what they go through.
    let pick = |step: u32, of: u32| (number / 3).wrapping_mul(step).wrapping_add(number) % of;
    let distribution = match pick(7, 5) {
        0 => Distribution::RedHat5,
        1 => Distribution::RedHat6,
        2 => Distribution::OracleLinux7,
        3 => Distribution::Sles11,
        _ => Distribution::OracleLinux8,
    };
    let memory_gib = 16_u32 << pick(5, 4);
    let servers = 1 + pick(11, 3);
    let sga_mib = u64::from(memory_gib) * 1024 / 4 / u64::from(servers) - 64 * u64::from(pick(13, 7));
    let is_huge = pick(3, 3) == 0;
    let databases = (0..servers).map(|server| Database {
        pages: if is_huge { Pages::Huge } else { Pages::Base },
        kept: if pick(17, 2) == 0 { Kept::Spfile } else { Kept::Pfile },
        ..Database::new(&format!("P{server}"), if pick(19, 2) == 0 { "11.2.0.4" } else { "19.0.0" })
            .with_sga(mib(sga_mib))
            .with_sessions(10 + pick(23, 60), gib(1) / (1 + u64::from(pick(29, 8))))
    });
    let pages = u64::from(servers) * (sga_mib / 2 + 4);
    let machine = Machine {
        processors: 4 << pick(31, 4),
        pool: if is_huge { pages + u64::from(pick(37, 3)) * 512 } else { 0 },
        pool_at_boot: is_huge.then_some(pages),
        log_in_memlock: (pick(41, 2) == 0).then_some(Memlock::Unlimited),
        ..Machine::new(&format!("db{number:06}"), distribution, u64::from(memory_gib) << 20)
    };
    Estate { machine, databases: databases.collect(), ..Estate::default() }
}
