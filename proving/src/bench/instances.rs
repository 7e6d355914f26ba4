//! Part of `cargo xtask bench check`: what check and plan cost on a host of many PostgreSQL
//! clusters, and how that grows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hugewise_testkit::measure;

use super::median;
use hugewise_testkit::tools::{Failure, programs, shell};

/// What each may take of the larger of the two.
const WANTED: Duration = Duration::from_secs(1);
const FEW: u32 = 100;
/// A host with one cluster, and of its processes the server and one of its sessions.
const HOST: &str = "fixtures/hosts/healthy-postgresql";
const PROCESSES: [&str; 2] = ["32322", "32464"];
const DATA: &str = "/srv/databases/15/main";
/// What the kernel said of mappings: process, address, page.
const PAGE_SIZES: &str = "hugewise/page_sizes";
/// Where memory's amounts are told.
const MEMORY: [&str; 2] = ["proc/meminfo", "sys/devices/system/node/node0/meminfo"];
/// The inode of its segment.
const SEGMENT: &str = " 202344 ";

/// Prints both, in turn; whether they are as wanted.
pub(super) fn run(count: u32, rounds: u32) -> Result<bool, Failure> {
    let count = count.max(FEW);
    let (few, many) = (host(FEW)?, host(count)?);
    println!(
        "PostgreSQL clusters, two processes each, in memory that holds them all; {rounds} rounds, \
             in turn"
    );
    let mut good = true;
    for command in ["check", "plan"] {
        good &= compare(command, count, rounds, (few.path(), many.path()))?;
    }
    Ok(good)
}

fn compare(
    command: &str,
    count: u32,
    rounds: u32,
    (few, many): (&Path, &Path),
) -> Result<bool, Failure> {
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_few.push(cost(command, few)?);
        of_many.push(cost(command, many)?);
    }
    let (of_few, of_many) = (median(of_few), median(of_many));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("hugewise {command:<5} of {FEW:<6}{:9.1} ms (median)", ms(of_few));
    println!("hugewise {command:<5} of {count:<6}{:9.1} ms (median)", ms(of_many));
    let growth = of_many.as_secs_f64() / of_few.as_secs_f64();
    let good = of_many < WANTED;
    let verdict = if good { "as wanted" } else { "more than wanted" };
    let times = f64::from(count) / f64::from(FEW);
    println!(
        "{verdict}: {growth:.1} times as long for {times:.0} times as many (wanted: below {} ms)",
        WANTED.as_millis()
    );
    Ok(good)
}

fn cost(name: &str, root: &Path) -> Result<Duration, Failure> {
    let mut command = Command::new(programs::built_hugewise());
    command.args([name, "--format", "json", "--root"]).arg(root).stdout(Stdio::null());
    let cost = measure::run(&mut command)?;
    match cost.code {
        Some(0 | 1 | 3) => Ok(cost.wall),
        code => Err(format!("{name} ended with {code:?}").into()),
    }
}

/// The host with so many clusters in its place.
fn host(count: u32) -> Result<tempfile::TempDir, Failure> {
    let root = tempfile::tempdir()?;
    let like = shell::root().join(HOST);
    copy(&like, root.path(), &|text| text.to_owned())?;
    fs::remove_dir_all(root.path().join("srv"))?;
    for file in MEMORY {
        let file = root.path().join(file);
        fs::write(&file, large(&fs::read_to_string(&file)?))?;
    }
    for entry in fs::read_dir(root.path().join("proc"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().parse::<u32>().is_ok() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    let like_sizes = fs::read_to_string(like.join(PAGE_SIZES))?;
    let mut sizes = String::new();
    for number in 0..count {
        let pids = [100_000 + number * 10, 100_001 + number * 10].map(|pid| pid.to_string());
        let data = format!("/srv/databases/15/c{number:04}");
        let of_cluster = |text: &str| {
            let text = text.replace(PROCESSES[0], &pids[0]).replace(PROCESSES[1], &pids[1]);
            let text = text.replace(DATA, &data).replace("5432", &(20_000 + number).to_string());
            text.replace(SEGMENT, &format!(" {} ", 1_000_000 + number))
        };
        for (like_pid, pid) in PROCESSES.iter().zip(&pids) {
            copy(
                &like.join("proc").join(like_pid),
                &root.path().join("proc").join(pid),
                &of_cluster,
            )?;
            let of_process = like_sizes.lines().filter_map(|line| line.strip_prefix(like_pid));
            sizes.extend(of_process.map(|rest| format!("{pid}{rest}\n")));
        }
        copy(&like.join(&DATA[1..]), &root.path().join(&data[1..]), &of_cluster)?;
    }
    fs::write(root.path().join(PAGE_SIZES), sizes)?;
    Ok(root)
}

/// A file of memory's amounts, with so much of it that every cluster finds its pages: where all are
/// refused, nothing is planned.
fn large(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let is = |name: &str| line.split_whitespace().any(|word| word == format!("{name}:"));
        let Some(name) = ["MemTotal", "MemFree", "MemAvailable"].into_iter().find(|name| is(name))
        else {
            return line.to_owned();
        };
        let before = line.split(name).next().unwrap_or_default();
        format!("{before}{name}: {} kB", 8_u64 << 30)
    });
    lines.map(|line| line + "\n").collect()
}

/// Copies a folder, with the text of its files and links changed.
fn copy(from: &Path, to: &Path, changed: &dyn Fn(&str) -> String) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&path, &place, changed)?;
        } else if kind.is_symlink() {
            symlink(changed(&fs::read_link(&path)?.to_string_lossy()), &place)?;
        } else {
            fs::write(&place, changed(&String::from_utf8_lossy(&fs::read(&path)?)))?;
        }
    }
    Ok(())
}
