//! What the kernel says of page tables at one moment.

use std::fs;
use std::time::{Duration, Instant};

use crate::exactness::server;
use hugewise_testkit::tools::Failure;

/// The topmost table of a process, which is in `PageTables` and not in `VmPTE` (Linux 6.14 and
/// later).
pub(super) const TOP: f64 = 4096.0;

/// The host's page tables at one moment.
pub(super) struct TablesReading {
    pub(super) page_tables: f64,
    /// Those of processes that have nothing to do with this.
    pub(super) of_others: f64,
}

impl TablesReading {
    /// Once two looks agree. `server` and what it has started are ours.
    pub(super) fn settled(server: u32) -> Result<Self, Failure> {
        let page_tables = settled()?;
        let ours = [&server::children(server)[..], &[server, std::process::id()]].concat();
        let pids = fs::read_dir("/proc")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let others: Vec<u32> = pids.filter(|pid| !ours.contains(pid)).collect();
        let tops = f64::from(u32::try_from(others.len())?) * TOP;
        Ok(Self { page_tables, of_others: kibibytes_of(&others) + tops })
    }
}

/// Whether `PageTables` counts the tables of all levels: those below the topmost since Linux 6.7,
/// the topmost since 6.14. What an earlier kernel leaves out is taken from the processes: VmPTE has
/// all but the topmost.
pub(super) fn counts_all_levels() -> Result<bool, Failure> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor) >= (6, 14)),
        _ => Err(format!("no release of a kernel: {release}").into()),
    }
}

/// The host's page tables once two looks agree: those of processes that have ended go a little
/// later.
fn settled() -> Result<f64, Failure> {
    let until = Instant::now() + Duration::from_millis(500);
    let mut before = page_tables()?;
    loop {
        std::thread::sleep(Duration::from_millis(30));
        let now = page_tables()?;
        if (now - before).abs() < 1.0 || Instant::now() > until {
            return Ok(now);
        }
        before = now;
    }
}

/// The host's page tables, in bytes.
fn page_tables() -> Result<f64, Failure> {
    // Processors keep counts of their own for up to a second; reading this adds them up.
    let _ = fs::read("/proc/sys/vm/stat_refresh");
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PageTables:"))
        .ok_or("no PageTables in meminfo")?;
    Ok(line.split_ascii_whitespace().next().unwrap_or_default().parse::<f64>()? * 1024.0)
}

pub(super) fn kibibytes_of(pids: &[u32]) -> f64 {
    let each = pids.iter().filter_map(|pid| server::status(*pid, "VmPTE:"));
    each.filter_map(|kib| u32::try_from(kib).ok()).map(f64::from).sum::<f64>() * 1024.0
}

/// Mean of the middle half: the addresses that processes get fall by chance, and other programs
/// come and go.
pub(super) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let half = values.get(quarter..values.len() - quarter).unwrap_or_default();
    let count = u32::try_from(half.len()).unwrap_or(1);
    half.iter().sum::<f64>() / f64::from(count)
}

/// How far the middle half of them reaches.
pub(super) fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    match values.get(quarter..values.len() - quarter) {
        Some([first, .., last]) => last - first,
        _ => 0.0,
    }
}
